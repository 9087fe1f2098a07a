//! What a graph consists of, and the root page that names it (docs/formats/graph-store.md).

use crate::memory::Reserved;
use crate::storage::{Area, Storage};
use crate::stream::{Stream, StreamWriter, Workspace, whole_pages};
use silica_base::{Error, ErrorKind, Format, Result, checksum};

/// The format of the root page; everything else is reached from it.
pub(crate) const FORMAT: Format =
    Format { name: "graph", magic: b"SiliGrph", version_bytes: 4, version: 1, steps: &[] };
/// Magic, version, checksum, bytes and checksum of the catalog, number of its segments.
const ROOT_BYTES: usize = 12 + 4 + 8 + 4 + 4;
/// Root pages lie in the first segment, which has nothing else.
pub(crate) const ROOT_SEGMENTS: u32 = 1;

/// What a graph consists of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Catalog {
    /// What the caller knows its input by.
    pub(crate) input: u64,
    pub(crate) vertices: u64,
    pub(crate) edges: u64,
    /// Lines of the input that were skipped.
    pub(crate) skipped: u64,
    pub(crate) chunk_bytes: u64,
    /// First vertex of each interval, and the number of vertices.
    pub(crate) begins: Vec<u64>,
    /// First chunk of each shard, and the number of chunks.
    pub(crate) shards: Vec<u64>,
    /// First source of each chunk.
    pub(crate) sources: Vec<u32>,
    /// Ids of vertices, 4 bytes each.
    pub(crate) ids: Stream,
    /// Edges that enter each vertex, 4 bytes each.
    pub(crate) entering: Stream,
    /// Edges that leave each vertex, 4 bytes each.
    pub(crate) leaving: Stream,
    /// Chunks of all shards.
    pub(crate) chunks: Stream,
}

impl Catalog {
    pub(crate) fn intervals(&self) -> usize {
        self.begins.len().saturating_sub(1)
    }

    /// Vertices of the largest interval.
    pub(crate) fn interval_max(&self) -> u64 {
        self.begins.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(0)
    }

    /// The vertices of an interval.
    pub(crate) fn interval(&self, number: usize) -> std::ops::Range<u64> {
        self.begins[number]..self.begins[number + 1]
    }

    /// The chunks of a shard.
    pub(crate) fn chunks_of(&self, shard: usize) -> std::ops::Range<u64> {
        self.shards[shard]..self.shards[shard + 1]
    }

    /// The window of a shard: its chunks that may have sources in a range of vertices.
    pub(crate) fn window(
        &self,
        shard: usize,
        sources: &std::ops::Range<u64>,
    ) -> std::ops::Range<u64> {
        let all = self.chunks_of(shard);
        let firsts = &self.sources[all.start as usize..all.end as usize];
        // The chunk before may have the first sources, too.
        let begin = firsts.partition_point(|first| u64::from(*first) < sources.start);
        let end = firsts.partition_point(|first| u64::from(*first) < sources.end);
        all.start + begin.saturating_sub(1) as u64..all.start + end as u64
    }

    /// Memory that the catalog takes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let streams = [&self.ids, &self.entering, &self.leaving, &self.chunks];
        let segments: usize = streams.iter().map(|stream| stream.segments.len()).sum();
        (self.begins.len() * 16 + self.sources.len() * 4 + segments * 4) as u64
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut long = |number: u64| out.extend_from_slice(&number.to_le_bytes());
        let Catalog { input, vertices, edges, skipped, chunk_bytes, .. } = *self;
        [input, vertices, edges, skipped, chunk_bytes].into_iter().for_each(&mut long);
        long(self.begins.len() as u64);
        self.begins.iter().chain(&self.shards).for_each(|number| long(*number));
        long(self.sources.len() as u64);
        for stream in [&self.ids, &self.entering, &self.leaving, &self.chunks] {
            long(stream.bytes);
            long(stream.segments.len() as u64);
        }
        let lists = [&self.ids, &self.entering, &self.leaving, &self.chunks];
        let segments = lists.iter().flat_map(|stream| &stream.segments);
        for number in self.sources.iter().chain(segments) {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let mut catalog = Catalog {
            input: long(&mut rest)?,
            vertices: long(&mut rest)?,
            edges: long(&mut rest)?,
            skipped: long(&mut rest)?,
            chunk_bytes: long(&mut rest)?,
            ..Catalog::default()
        };
        let intervals = long(&mut rest)?;
        catalog.begins = list(&mut rest, intervals, long)?;
        catalog.shards = list(&mut rest, intervals, long)?;
        let chunks = long(&mut rest)?;
        let mut lengths = [(0, 0); 4];
        for length in &mut lengths {
            *length = (long(&mut rest)?, long(&mut rest)?);
        }
        catalog.sources = list(&mut rest, chunks, word)?;
        let streams =
            [&mut catalog.ids, &mut catalog.entering, &mut catalog.leaving, &mut catalog.chunks];
        for (stream, (bytes, segments)) in streams.into_iter().zip(lengths) {
            *stream = Stream { bytes, segments: list(&mut rest, segments, word)? };
        }
        Some(catalog).filter(|catalog| rest.is_empty() && catalog.adds_up())
    }

    /// What all code relies on.
    fn adds_up(&self) -> bool {
        let rises = |list: &[u64]| list.is_sorted() && list.first() == Some(&0);
        let whole = |stream: &Stream| stream.bytes == self.vertices * 4;
        self.chunk_bytes > 0
            && rises(&self.begins)
            && rises(&self.shards)
            && self.begins.last() == Some(&self.vertices)
            && self.shards.last() == Some(&(self.sources.len() as u64))
            && [&self.ids, &self.entering, &self.leaving].into_iter().all(whole)
            && self.chunks.bytes == self.sources.len() as u64 * self.chunk_bytes
    }
}

fn long(rest: &mut &[u8]) -> Option<u64> {
    rest.split_off(..8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
}

fn word(rest: &mut &[u8]) -> Option<u32> {
    rest.split_off(..4).map(|bytes| u32::from_le_bytes(bytes.try_into().expect("four bytes")))
}

fn list<T>(rest: &mut &[u8], count: u64, next: impl Fn(&mut &[u8]) -> Option<T>) -> Option<Vec<T>> {
    // A number of the checksummed catalog, and still no reason to allocate without bounds.
    if count > rest.len() as u64 / 4 {
        return None;
    }
    (0..count).map(|_| next(rest)).collect()
}

/// Takes the root away: no graph is there from the return on.
pub(crate) fn remove<S: Storage>(storage: &S) -> Result<()> {
    storage.write(Area::Shards, 0, &vec![0; storage.page_bytes()])?;
    storage.sync()
}

/// Writes the catalog and then the root. Returns what names the graph.
pub(crate) fn write<S: Storage>(space: &Workspace<'_, S>, catalog: &Catalog) -> Result<u32> {
    let content = catalog.encode();
    let reserved = space.memory.take(content.len() as u64, "the list of what a graph consists of");
    let _reserved = reserved?;
    let mut writer = StreamWriter::new(space, space.page_bytes())?;
    writer.push(&content)?;
    let stream = writer.finish()?;
    space.storage.sync()?;
    let sum = checksum(&content);
    let mut root = Vec::new();
    FORMAT.begin(&mut root);
    root.extend_from_slice(&[0; 4]);
    root.extend_from_slice(&stream.bytes.to_le_bytes());
    root.extend_from_slice(&sum.to_le_bytes());
    root.extend_from_slice(&(stream.segments.len() as u32).to_le_bytes());
    for segment in &stream.segments {
        root.extend_from_slice(&segment.to_le_bytes());
    }
    if root.len() > space.page_bytes() {
        let message = "the list of what the graph consists of is too long for this flash; use one \
                       with larger pages or blocks";
        return Err(Error::new(ErrorKind::Full, message));
    }
    root.resize(space.page_bytes(), 0);
    let own = checksum(&root[16..]);
    root[12..16].copy_from_slice(&own.to_le_bytes());
    space.storage.write(Area::Shards, 0, &root)?;
    space.storage.sync()?;
    Ok(sum)
}

/// A graph that was found.
pub(crate) struct Found {
    pub(crate) catalog: Catalog,
    /// Checksum of the catalog.
    pub(crate) sum: u32,
    /// The first segment behind all that the graph has.
    pub(crate) free: u32,
    /// Memory of the catalog.
    pub(crate) reserved: Reserved,
}

/// Reads root and catalog; `None` if there is no graph.
pub(crate) fn read<S: Storage>(space: &Workspace<'_, S>) -> Result<Option<Found>> {
    let damaged = |what: &str| {
        Error::corruption("the graph's root page", 0, format!("{what}; build the graph again"))
    };
    let mut root = vec![0; space.page_bytes()];
    space.storage.read(Area::Shards, 0, &mut root)?;
    if root.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    FORMAT.version_of("the graph", 0, &root)?;
    let word_at = |at: usize| u32::from_le_bytes(root[at..at + 4].try_into().expect("four bytes"));
    if checksum(&root[16..]) != word_at(12) {
        return Err(damaged("its checksum is wrong"));
    }
    let bytes = u64::from_le_bytes(root[16..24].try_into().expect("eight bytes"));
    let (sum, count) = (word_at(24), word_at(28));
    let mut rest = &root[ROOT_BYTES..];
    let segments = list(&mut rest, u64::from(count), word);
    let stream = Stream { bytes, segments: segments.ok_or_else(|| damaged("it is too short"))? };
    let mut reserved = space.memory.take(bytes, "the list of what a graph consists of")?;
    let mut content = vec![0; whole_pages(bytes as usize, space.page_bytes())];
    space.read(&stream, 0, &mut content)?;
    content.truncate(bytes as usize);
    let catalog = Catalog::decode(&content).filter(|_| checksum(&content) == sum);
    let catalog = catalog.ok_or_else(|| damaged("what it names is another graph"))?;
    reserved.grow(catalog.memory_bytes(), "the list of what a graph consists of")?;
    let lists = [&catalog.ids, &catalog.entering, &catalog.leaving, &catalog.chunks, &stream];
    let last = lists.iter().flat_map(|stream| &stream.segments).max();
    let free = last.map_or(ROOT_SEGMENTS, |last| last.saturating_add(1));
    Ok(Some(Found { catalog, sum, free, reserved }))
}
