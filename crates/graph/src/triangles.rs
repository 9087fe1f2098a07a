//! Triangles of the undirected graph.
//!
//! Each pair of neighbours is directed from the vertex with fewer edges to the one with more, so no
//! vertex is left by more than about the root of twice the edges. The pairs are sorted, each once.
//! Then, as often as needed, as many lists of them as half the memory takes are loaded, all lists
//! are streamed past, and lists of vertices that are neighbours are intersected (Hu, Tao and Chung,
//! "Massive graph triangulation", SIGMOD 2013).

use crate::chunk::Chunk;
use crate::graph::Graph;
use crate::sort::{Sorted, Sorter};
use crate::storage::Storage;
use crate::stream::{Stream, StreamReader, StreamWriter};
use silica_base::Result;

/// Bytes that a list of pairs is read in.
const BUFFER_BYTES: usize = 256 << 10;
/// Vertices from one report of the progress to the next.
const REPORT_EVERY: u64 = 1 << 16;

/// How far counting is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TriangleProgress {
    /// Passes over all pairs that are finished.
    pub pass: u64,
    /// Passes.
    pub passes: u64,
    /// Pairs of the pass that were streamed past.
    pub pairs_done: u64,
    /// Pairs.
    pub pairs: u64,
}

/// Counts the triangles. Directions, repeated edges and loops do not count.
///
/// # Errors
/// `Full` if the flash has no room for the pairs (8 bytes each, and again while they are sorted),
/// or the memory number is too small; what the storage and `watch` said.
pub fn triangles<S: Storage>(
    graph: &Graph<'_, S>,
    watch: &mut dyn FnMut(&TriangleProgress) -> Result<()>,
) -> Result<u64> {
    let (pairs, count) = write_pairs(graph)?;
    let result = count_all(graph, &pairs, count, watch);
    let released = graph.space.release([pairs]).and_then(|()| graph.space.give_back());
    let triangles = result?;
    released?;
    Ok(triangles)
}

/// Writes pairs of neighbours, the one with fewer edges first, each pair once.
fn write_pairs<S: Storage>(graph: &Graph<'_, S>) -> Result<(Stream, u64)> {
    let space = &graph.space;
    let mut sorted = sort_pairs(graph)?;
    let mut writer = StreamWriter::new(space, space.page_bytes())?;
    let (mut last, mut count) = (None, 0);
    while let Some(pair) = sorted.next()? {
        if last.replace(pair) != Some(pair) {
            writer.push(&pair.to_le_bytes())?;
            count += 1;
        }
    }
    Ok((writer.finish()?, count))
}

fn sort_pairs<'w, 'a, S: Storage>(graph: &'w Graph<'a, S>) -> Result<Sorted<'w, 'a, S>> {
    let (space, catalog) = (&graph.space, &graph.catalog);
    let longest = catalog.interval_max();
    let bytes = longest * 4 + catalog.chunk_bytes;
    let _reserved = space.memory.take(bytes, "numbers of edges")?;
    let mut own = vec![0u64; 0];
    let _own = space.memory.take(longest * 8, "numbers of edges")?;
    own.resize(longest as usize, 0);
    let mut bytes = vec![0; catalog.chunk_bytes as usize];
    let mut sorter = Sorter::new(space, 2)?;
    for interval in 0..catalog.intervals() {
        let vertices = catalog.interval(interval);
        let mut counts = Counts::new(graph)?;
        counts.entering.seek(vertices.start * 4)?;
        counts.leaving.seek(vertices.start * 4)?;
        for count in &mut own[..(vertices.end - vertices.start) as usize] {
            *count = counts.next()?;
        }
        counts.restart()?;
        for number in catalog.chunks_of(interval) {
            space.read(&catalog.chunks, number * catalog.chunk_bytes, &mut bytes)?;
            let mut result = Ok(());
            Chunk::check(number, &bytes)?.each_run(|source, targets| {
                result = counts.of(source).and_then(|of_source| {
                    targets.iter().try_for_each(|target| {
                        let target = u32::from_le_bytes(*target);
                        let of_target = own[target as usize];
                        let target = (vertices.start + u64::from(target)) as u32;
                        let (one, other) = ((of_source, source), (of_target, target));
                        let (one, other) = (one.min(other).1, one.max(other).1);
                        let pair = u64::from(one) << 32 | u64::from(other);
                        if one == other { Ok(()) } else { sorter.push(pair) }
                    })
                });
                result.is_ok()
            });
            result?;
        }
    }
    sorter.finish()
}

/// Numbers of edges of vertices that are asked for in their order.
struct Counts<'w, 'a, S> {
    entering: StreamReader<'w, 'a, S>,
    leaving: StreamReader<'w, 'a, S>,
    /// The vertex that was asked for last, and one more.
    next: u64,
    last: u64,
}

impl<'w, 'a, S: Storage> Counts<'w, 'a, S> {
    fn new(graph: &'w Graph<'a, S>) -> Result<Self> {
        let entering = graph.numbers(&graph.catalog.entering)?;
        let leaving = graph.numbers(&graph.catalog.leaving)?;
        Ok(Counts { entering, leaving, next: 0, last: 0 })
    }

    fn next(&mut self) -> Result<u64> {
        let (entering, leaving) = (self.entering.next_u32()?, self.leaving.next_u32()?);
        Ok(u64::from(entering.unwrap_or_default()) + u64::from(leaving.unwrap_or_default()))
    }

    fn restart(&mut self) -> Result<()> {
        self.next = 0;
        self.entering.seek(0)?;
        self.leaving.seek(0)
    }

    fn of(&mut self, vertex: u32) -> Result<u64> {
        while self.next <= u64::from(vertex) {
            self.last = self.next()?;
            self.next += 1;
        }
        Ok(self.last)
    }
}

/// Lists that are in memory: those of vertices from `first` on.
struct Loaded {
    first: u32,
    /// Where each vertex's list begins, and the end of the last.
    begins: Vec<u32>,
    others: Vec<u32>,
}

impl Loaded {
    fn list(&self, vertex: u32) -> &[u32] {
        let Some(at) = vertex.checked_sub(self.first) else { return &[] };
        let at = at as usize;
        match (self.begins.get(at), self.begins.get(at + 1)) {
            (Some(begin), Some(end)) => &self.others[*begin as usize..*end as usize],
            _ => &[],
        }
    }
}

fn count_all<S: Storage>(
    graph: &Graph<'_, S>,
    pairs: &Stream,
    count: u64,
    watch: &mut dyn FnMut(&TriangleProgress) -> Result<()>,
) -> Result<u64> {
    let space = &graph.space;
    let page_bytes = space.page_bytes();
    let room = ((space.memory.free_bytes() / 8) as usize).clamp(page_bytes, BUFFER_BYTES);
    let mut loading = StreamReader::new(space, pairs.clone(), room)?;
    let mut passing = StreamReader::new(space, pairs.clone(), room)?;
    // Half of what is left is for lists, the rest for the list that passes.
    let words = space.memory.free_bytes() / 2 / 4;
    let _reserved = space.memory.take(words * 4, "lists of neighbours")?;
    let mut triangles = 0;
    let mut progress = TriangleProgress { pass: 0, passes: 1, pairs_done: 0, pairs: count };
    let mut begun = loading.next_u64()?;
    while let Some(pair) = begun {
        let (loaded, next, loaded_pairs) = load(&mut loading, pair, words as usize)?;
        begun = next;
        if progress.pass == 0 {
            progress.passes = count.div_ceil(loaded_pairs.max(1));
        }
        passing.seek(0)?;
        triangles += pass(graph, &mut passing, &loaded, &mut progress, watch)?;
        progress.pass += 1;
        progress.passes = progress.passes.max(progress.pass + u64::from(begun.is_some()));
    }
    Ok(triangles)
}

/// Loads lists from `pair` on until `words` are taken. A list may be cut: the other part is loaded
/// for the next pass. Returns the lists, the pair behind them, and the number of pairs.
fn load<S: Storage>(
    pairs: &mut StreamReader<'_, '_, S>,
    pair: u64,
    words: usize,
) -> Result<(Loaded, Option<u64>, u64)> {
    let first = (pair >> 32) as u32;
    let mut loaded = Loaded { first, begins: vec![0], others: Vec::new() };
    let mut vertex = first;
    let mut next = Some(pair);
    let half = words / 2;
    loaded.others.reserve_exact(half.min(pairs.stream.bytes as usize / 8));
    while let Some(pair) = next {
        let of = (pair >> 32) as u32;
        let skipped = (of - vertex) as usize;
        if loaded.others.len() >= half || loaded.begins.len() + skipped >= half.max(2) {
            // One pair at least is loaded, so every pass is a step.
            if !loaded.others.is_empty() {
                break;
            }
        }
        for _ in 0..skipped {
            loaded.begins.push(loaded.others.len() as u32);
        }
        vertex = of;
        loaded.others.push(pair as u32);
        next = pairs.next_u64()?;
    }
    loaded.begins.push(loaded.others.len() as u32);
    let count = loaded.others.len() as u64;
    Ok((loaded, next, count))
}

/// Streams all lists past those that are loaded.
fn pass<S: Storage>(
    graph: &Graph<'_, S>,
    pairs: &mut StreamReader<'_, '_, S>,
    loaded: &Loaded,
    progress: &mut TriangleProgress,
    watch: &mut dyn FnMut(&TriangleProgress) -> Result<()>,
) -> Result<u64> {
    let mut triangles = 0;
    let mut list: Vec<u32> = Vec::new();
    let mut reserved = graph.space.memory.take(0, "a list of neighbours")?;
    let mut counted = 0;
    let mut owner = None;
    let (mut done, mut lists) = (0, 0u64);
    loop {
        let pair = pairs.next_u64()?;
        let of = pair.map(|pair| (pair >> 32) as u32);
        if of != owner {
            triangles += list.iter().map(|other| common(&list, loaded.list(*other))).sum::<u64>();
            list.clear();
            owner = of;
            lists += 1;
            if lists.is_multiple_of(REPORT_EVERY) || pair.is_none() {
                watch(&TriangleProgress { pairs_done: done, ..*progress })?;
            }
        }
        let Some(pair) = pair else { return Ok(triangles) };
        if list.len() == counted {
            let more = counted.max(256);
            reserved.grow(more as u64 * 4, "a list of neighbours")?;
            list.reserve_exact(more);
            counted += more;
        }
        list.push(pair as u32);
        done += 1;
    }
}

/// Numbers that two sorted lists have in common.
fn common(one: &[u32], other: &[u32]) -> u64 {
    let (mut one, mut other) = if one.len() < other.len() { (one, other) } else { (other, one) };
    if one.is_empty() {
        return 0;
    }
    let mut count = 0;
    if other.len() / one.len() > 16 {
        for number in one {
            let at = other.partition_point(|there| there < number);
            count += u64::from(other.get(at) == Some(number));
            other = &other[at..];
        }
        return count;
    }
    while let ([a, rest @ ..], [b, others @ ..]) = (one, other) {
        count += u64::from(a == b);
        if a <= b {
            one = rest;
        }
        if b <= a {
            other = others;
        }
    }
    count
}
