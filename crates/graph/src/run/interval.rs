//! What a thread does: the new values of an interval.

use super::damaged;
use super::kept::{BLOCK, Kept};
use crate::chunk::Chunk;
use crate::graph::Graph;
use crate::memory::Reserved;
use crate::program::{Neighbours, Pass, Vertex, VertexProgram};
use crate::storage::Storage;
use crate::values::{Copies, Window};
use silica_base::Result;
use std::ops::Range;

/// Bytes of values that slide past a shard, if memory allows.
const WINDOW_BYTES: u64 = 256 << 10;
/// A window takes one in so many bytes of the memory at most.
const WINDOW_SHARE: u64 = 64;

/// What an interval is computed from.
pub(super) struct Place<'p, 'r, 'a, S, P: VertexProgram> {
    pub(super) graph: &'r Graph<'a, S>,
    pub(super) program: &'r P,
    pub(super) copies: &'r Copies<'a, S, P::Value>,
    pub(super) kept: &'p Kept<P::Value>,
    pub(super) pass: &'p Pass,
    /// The copy that is read.
    pub(super) copy: u32,
}

/// What came of an interval.
pub(super) struct Computed {
    pub(super) changed: u64,
    pub(super) changed_blocks: Vec<u64>,
    pub(super) sum: f64,
    pub(super) edges: u64,
}

/// The memory of a thread.
pub(super) struct Worker<P: VertexProgram> {
    sums: Vec<P::Sum>,
    /// Values before, and then behind the iteration.
    values: Vec<P::Value>,
    /// Values of the targets of a window; empty if the program gathers from sources only.
    targets: Vec<P::Value>,
    entering: Vec<u32>,
    leaving: Vec<u32>,
    chunk: Vec<u8>,
    window: Window<P::Value>,
    bytes: Vec<u8>,
    _reserved: Reserved,
}

impl<P: VertexProgram> Worker<P> {
    pub(super) fn new<S: Storage>(graph: &Graph<'_, S>, program: &P) -> Result<Self> {
        let longest = graph.catalog.interval_max();
        let has_targets = program.neighbours() == Neighbours::Both;
        let page_bytes = graph.space.page_bytes() as u64;
        let share = (graph.space.room_bytes / WINDOW_SHARE).min(WINDOW_BYTES);
        let window_bytes = (share / page_bytes).max(1) * page_bytes;
        let of_values = size_of::<P::Value>() as u64 * if has_targets { 2 } else { 1 };
        let of_counts = if program.counts_edges() { 8 } else { 0 };
        let of_vertex = size_of::<P::Sum>() as u64 + of_values + of_counts;
        // A list of blocks that changed is no longer than one in BLOCK.
        let bytes = longest * of_vertex
            + longest.div_ceil(BLOCK) * 8
            + graph.catalog.chunk_bytes
            + Window::<P::Value>::memory_bytes(window_bytes as usize)
            + window_bytes;
        let reserved = graph.space.memory.take(bytes, "the vertices of an interval")?;
        let longest = longest as usize;
        let counts = if program.counts_edges() { longest } else { 0 };
        Ok(Worker {
            sums: vec![program.neutral(); longest],
            values: vec![P::Value::default(); longest],
            targets: vec![P::Value::default(); if has_targets { longest } else { 0 }],
            entering: vec![0; counts],
            leaving: vec![0; counts],
            chunk: vec![0; graph.catalog.chunk_bytes as usize],
            window: Window::new(window_bytes as usize),
            bytes: vec![0; window_bytes as usize],
            _reserved: reserved,
        })
    }

    /// The values that were computed.
    pub(super) fn values(&self, vertices: &Range<u64>) -> &[P::Value] {
        &self.values[..(vertices.end - vertices.start) as usize]
    }

    /// Computes the values of an interval.
    pub(super) fn compute<S: Storage>(
        &mut self,
        place: &Place<'_, '_, '_, S, P>,
        interval: usize,
    ) -> Result<Computed> {
        let vertices = place.graph.catalog.interval(interval);
        let length = (vertices.end - vertices.start) as usize;
        self.sums[..length].fill(place.program.neutral());
        let mut edges = self.gather_sources(place, interval)?;
        if place.program.neighbours() == Neighbours::Both {
            edges += self.gather_targets(place, &vertices)?;
        }
        self.read_before(place, &vertices)?;
        let mut computed = Computed { changed: 0, changed_blocks: Vec::new(), sum: 0.0, edges };
        self.apply(place, &vertices, &mut computed);
        Ok(computed)
    }

    /// Gathers along the edges of the interval's shard.
    fn gather_sources<S: Storage>(
        &mut self,
        place: &Place<'_, '_, '_, S, P>,
        interval: usize,
    ) -> Result<u64> {
        let catalog = &place.graph.catalog;
        let length = catalog.interval(interval);
        let sums = &mut self.sums[..(length.end - length.start) as usize];
        self.window.reset();
        let chunks = catalog.chunks_of(interval);
        let mut edges = 0;
        for number in chunks.clone() {
            if place.program.is_monotone() {
                let last = match number + 1 < chunks.end {
                    true => u64::from(catalog.sources[number as usize + 1]) + 1,
                    false => catalog.vertices,
                };
                let sources = u64::from(catalog.sources[number as usize])..last;
                if !place.kept.may_have_changed(&sources) {
                    continue;
                }
            }
            let chunk = read_chunk(place, number, &mut self.chunk)?;
            edges += u64::from(chunk.edges);
            let is_whole = match &place.kept.values {
                Some(values) => gather_kept(place.program, chunk, values, sums),
                None => gather_sliding(place, chunk, &mut self.window, sums)?,
            };
            if !is_whole {
                return Err(damaged(number));
            }
        }
        Ok(edges)
    }

    /// Gathers along the edges that leave the interval: the windows of all shards.
    fn gather_targets<S: Storage>(
        &mut self,
        place: &Place<'_, '_, '_, S, P>,
        vertices: &Range<u64>,
    ) -> Result<u64> {
        let catalog = &place.graph.catalog;
        let mut edges = 0;
        for shard in 0..catalog.intervals() {
            let targets = catalog.interval(shard);
            let is_quiet = place.program.is_monotone() && !place.kept.may_have_changed(&targets);
            let window = catalog.window(shard, vertices);
            if is_quiet || window.is_empty() {
                continue;
            }
            let length = (targets.end - targets.start) as usize;
            let values = match &place.kept.values {
                Some(values) => &values[targets.start as usize..targets.end as usize],
                None => {
                    let values = &mut self.targets[..length];
                    place.copies.read(place.copy, targets, &mut self.bytes, values)?;
                    values
                }
            };
            let sums = &mut self.sums;
            for number in window {
                let chunk = read_chunk(place, number, &mut self.chunk)?;
                let mut is_whole = true;
                chunk.each_run(|source, targets| {
                    if !vertices.contains(&u64::from(source)) {
                        return u64::from(source) < vertices.end;
                    }
                    let sum = &mut sums[(u64::from(source) - vertices.start) as usize];
                    edges += targets.len() as u64;
                    for target in targets {
                        match values.get(u32::from_le_bytes(*target) as usize) {
                            Some(value) => place.program.gather(sum, *value),
                            None => is_whole = false,
                        }
                    }
                    is_whole
                });
                if !is_whole {
                    return Err(damaged(number));
                }
            }
        }
        Ok(edges)
    }

    /// Reads what `apply` needs of the vertices.
    fn read_before<S: Storage>(
        &mut self,
        place: &Place<'_, '_, '_, S, P>,
        vertices: &Range<u64>,
    ) -> Result<()> {
        let length = (vertices.end - vertices.start) as usize;
        let all = vertices.start as usize..vertices.end as usize;
        let values = &mut self.values[..length];
        match &place.kept.values {
            Some(kept) => values.copy_from_slice(&kept[all.clone()]),
            None => place.copies.read(place.copy, vertices.clone(), &mut self.bytes, values)?,
        }
        if !place.program.counts_edges() {
            return Ok(());
        }
        if let Some((entering, leaving)) = &place.kept.counts {
            self.entering[..length].copy_from_slice(&entering[all.clone()]);
            self.leaving[..length].copy_from_slice(&leaving[all]);
            return Ok(());
        }
        let graph = place.graph;
        let streams = [&graph.catalog.entering, &graph.catalog.leaving];
        for (stream, counts) in streams.into_iter().zip([&mut self.entering, &mut self.leaving]) {
            let mut numbers = graph.numbers(stream)?;
            numbers.seek(vertices.start * 4)?;
            for count in &mut counts[..length] {
                *count = numbers.next_u32()?.unwrap_or_default();
            }
        }
        Ok(())
    }

    fn apply<S: Storage>(
        &mut self,
        place: &Place<'_, '_, '_, S, P>,
        vertices: &Range<u64>,
        computed: &mut Computed,
    ) {
        let mut vertex = Vertex { id: 0, entering: 0, leaving: 0 };
        let length = (vertices.end - vertices.start) as usize;
        let values = self.values[..length].iter_mut().zip(&self.sums);
        for (at, (value, sum)) in values.enumerate() {
            if place.program.counts_edges() {
                vertex.entering = self.entering[at];
                vertex.leaving = self.leaving[at];
            }
            let before = *value;
            *value = place.program.apply(place.pass, vertex, before, *sum);
            computed.sum += place.program.contribution(vertex, *value);
            if *value != before {
                computed.changed += 1;
                let block = (vertices.start + at as u64) / BLOCK;
                if computed.changed_blocks.last() != Some(&block) {
                    computed.changed_blocks.push(block);
                }
            }
        }
    }
}

/// A chunk, from memory if it is kept there.
fn read_chunk<'b, S: Storage, P: VertexProgram>(
    place: &'b Place<'_, '_, '_, S, P>,
    number: u64,
    buffer: &'b mut [u8],
) -> Result<Chunk<'b>> {
    let slot = place.kept.chunks.get(number as usize);
    if let Some(bytes) = slot.and_then(|slot| slot.get()) {
        return Ok(Chunk::trusted(bytes));
    }
    let catalog = &place.graph.catalog;
    place.graph.space.read(&catalog.chunks, number * catalog.chunk_bytes, buffer)?;
    let chunk = Chunk::check(number, buffer)?;
    if let Some(slot) = slot {
        // Another thread may have been quicker.
        let _ = slot.set(buffer[..].into());
    }
    Ok(chunk)
}

/// Gathers from values that are kept; false if the chunk names a vertex that is not there.
fn gather_kept<P: VertexProgram>(
    program: &P,
    chunk: Chunk<'_>,
    values: &[P::Value],
    sums: &mut [P::Sum],
) -> bool {
    let mut is_whole = true;
    chunk.each_run(|source, targets| {
        let Some(value) = values.get(source as usize) else {
            is_whole = false;
            return false;
        };
        is_whole &= gather(program, *value, targets, sums);
        is_whole
    });
    is_whole
}

/// Gathers from values that slide past the shard.
fn gather_sliding<S: Storage, P: VertexProgram>(
    place: &Place<'_, '_, '_, S, P>,
    chunk: Chunk<'_>,
    window: &mut Window<P::Value>,
    sums: &mut [P::Sum],
) -> Result<bool> {
    let mut result = Ok(true);
    chunk.each_run(|source, targets| {
        match window.value(place.copies, place.copy, source) {
            Ok(value) => result = Ok(gather(place.program, value, targets, sums)),
            Err(error) => result = Err(error),
        }
        matches!(result, Ok(true))
    });
    result
}

/// Gathers a value along the edges of a run; false if a target is not there.
#[inline]
fn gather<P: VertexProgram>(
    program: &P,
    value: P::Value,
    targets: &[[u8; 4]],
    sums: &mut [P::Sum],
) -> bool {
    let mut is_whole = true;
    for target in targets {
        match sums.get_mut(u32::from_le_bytes(*target) as usize) {
            Some(sum) => program.gather(sum, value),
            None => is_whole = false,
        }
    }
    is_whole
}
