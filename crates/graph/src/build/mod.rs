//! Preprocessing: an edge list becomes shards.
//!
//! Edges are read once. Vertices get numbers without gaps, by a bitmap of their ids if that fits
//! into the memory number ([`crate::numbering`]), and by external sorts and merges otherwise. Then
//! edges are sorted by interval of the target, source and target, and written as chunks.

mod intervals;
mod shards;
mod sparse;

use self::intervals::{Cutter, Intervals};
use crate::catalog::{self, ROOT_SEGMENTS};
use crate::input::{BadLine, Edges, InputReport, UNPACKING_BYTES};
use crate::memory::Memory;
use crate::numbering::Numbering;
use crate::sort::{Sorted, Sorter};
use crate::spool::Spool;
use crate::storage::{Area, Storage};
use crate::stream::{Stream, StreamWriter, Workspace};
use silica_base::{ErrorKind, Result};
use std::io::Read;

/// Bytes of memory that a vertex of an interval takes at most while a program runs: sum, value
/// before, value after, and value of a neighbour, 8 bytes each, and two numbers of edges.
pub(crate) const VERTEX_BYTES: u64 = 40;
/// Edges from one report of the progress to the next.
const REPORT_EVERY: u64 = 1 << 18;
/// Graphs with fewer edges are not cut for the sake of threads.
const EDGES_TO_SHARE: u64 = 1 << 16;

/// How a graph is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildOptions {
    /// What the caller knows its input by: an opened graph has it ([`crate::Graph::input`]).
    pub input: u64,
    /// Threads that will run programs on it: the memory of an interval is cut to so many.
    pub threads: usize,
}

impl Default for BuildOptions {
    fn default() -> Self {
        BuildOptions { input: 0, threads: 2 }
    }
}

/// What building is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildStage {
    /// Edges are read; how many there are is not known.
    Reading,
    /// Vertices get their numbers, and edges are sorted.
    Sorting,
    /// Shards are written.
    Writing,
}

/// What was built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildReport {
    /// Vertices.
    pub vertices: u64,
    /// Edges.
    pub edges: u64,
    /// Shards.
    pub shards: usize,
    /// Lines of the input that were skipped.
    pub bad: u64,
    /// The first ten of them.
    pub bad_lines: Vec<BadLine>,
}

/// How far building is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildProgress {
    /// What is done.
    pub stage: BuildStage,
    /// Edges of the stage that are done.
    pub done: u64,
    /// Edges in all, if that is known.
    pub of: Option<u64>,
}

/// Shows progress; an error ends the building.
pub(crate) type Watch<'w> = dyn FnMut(BuildProgress) -> Result<()> + 'w;

/// Makes a graph of an edge list. Whatever graph the storage has is gone from the begin on; the new
/// one is there when this returns (003…, 3.7.3).
///
/// Costs: edges are written once as they are read and once sorted, 16 bytes each, unless they fit
/// into half the memory; then 8 bytes.
///
/// # Errors
/// As [`Edges::read`]; `Full` if the storage or the memory number is too small; what the storage
/// said and `watch`.
pub fn build<S: Storage, R: Read>(
    storage: &S,
    memory: &Memory,
    edges: &mut Edges<R>,
    options: &BuildOptions,
    watch: &mut Watch<'_>,
) -> Result<BuildReport> {
    let _own = memory.take(storage.memory_bytes(), "the mapping of the flash")?;
    catalog::remove(storage)?;
    if let Some(segments) = storage.segments(Area::Shards) {
        let own = u64::from(ROOT_SEGMENTS);
        storage.trim(Area::Shards, own, segments - own)?;
    }
    let space = Workspace::new(storage, memory, ROOT_SEGMENTS);
    let (raw, report) = read(&space, edges, watch)?;
    let sorted = sort(&space, raw, report.edges, options, watch)?;
    let catalog = shards::write(&space, sorted, options, report.bad, watch)?;
    space.give_back()?;
    catalog::write(&space, &catalog)?;
    Ok(BuildReport {
        vertices: catalog.vertices,
        edges: catalog.edges,
        shards: catalog.intervals(),
        bad: report.bad,
        bad_lines: report.bad_lines,
    })
}

/// Edges with ids, as they came.
struct Raw<'w, 'a, S> {
    spool: Spool<'w, 'a, S>,
    /// `None` if ids lie so far apart that a bitmap does not fit.
    numbering: Option<Numbering>,
}

/// Edges with numbers, in their order.
struct Ordered<'w, 'a, S> {
    ids: Stream,
    vertices: u64,
    edges: u64,
    intervals: Intervals,
    sorted: Sorted<'w, 'a, S>,
}

fn read<'w, 'a, S: Storage, R: Read>(
    space: &'w Workspace<'a, S>,
    edges: &mut Edges<R>,
    watch: &mut Watch<'_>,
) -> Result<(Raw<'w, 'a, S>, InputReport)> {
    let buffer_bytes = (space.memory.free_bytes() / 32).clamp(1024, 256 << 10);
    let buffers = space.memory.take(2 * buffer_bytes, "the buffers of the input")?;
    // What unpacks gzip is there whatever the number is.
    let has_room = space.memory.free_bytes() >= 4 * UNPACKING_BYTES;
    let unpacking = has_room.then(|| space.memory.try_take(UNPACKING_BYTES)).flatten();
    let floor_bytes = space.memory.free_bytes() / 2;
    let mut spool = Spool::new(space, 3)?;
    let mut numbering = Some(Numbering::new(space.memory)?);
    let mut count = 0;
    let report = edges.read(buffer_bytes as usize, &mut |source, target| {
        count += 1;
        if count % REPORT_EVERY == 0 {
            watch(BuildProgress { stage: BuildStage::Reading, done: count, of: None })?;
        }
        if let Some(numbers) = &mut numbering {
            let added = numbers.add(source, space.memory, floor_bytes / 4);
            match added.and_then(|()| numbers.add(target, space.memory, floor_bytes / 4)) {
                Ok(()) => numbers.note_entering(target),
                Err(error) if error.kind() == ErrorKind::Full => numbering = None,
                Err(error) => return Err(error),
            }
        }
        spool.push(u64::from(source) << 32 | u64::from(target))
    })?;
    drop((buffers, unpacking));
    Ok((Raw { spool, numbering }, report))
}

fn sort<'w, 'a, S: Storage>(
    space: &'w Workspace<'a, S>,
    raw: Raw<'w, 'a, S>,
    edges: u64,
    options: &BuildOptions,
    watch: &mut Watch<'_>,
) -> Result<Ordered<'w, 'a, S>> {
    let Raw { spool, numbering } = raw;
    watch(BuildProgress { stage: BuildStage::Sorting, done: 0, of: Some(edges) })?;
    let Some(mut numbering) = numbering else {
        return sparse::sort(space, spool, edges, options, watch);
    };
    numbering.settle();
    let vertices = numbering.count();
    let mut ids = StreamWriter::new(space, space.page_bytes())?;
    numbering.each_id(|id| ids.push(&id.to_le_bytes()))?;
    let ids = ids.finish()?;
    let mut cutter = Cutter::new(space.room_bytes, edges, options.threads);
    numbering.groups().for_each(|group| cutter.add(group.vertices, group.entering));
    let intervals = cutter.finish(vertices);
    let packing = intervals.packing();
    let mut sorter = Sorter::new(space, 2)?;
    let mut count = 0;
    spool.drain(|edge| {
        count += 1;
        if count % REPORT_EVERY == 0 {
            watch(BuildProgress { stage: BuildStage::Sorting, done: count, of: Some(edges) })?;
        }
        let source = numbering.number_of((edge >> 32) as u32);
        let target = numbering.number_of(edge as u32);
        sorter.push(packing.pack(source, target))
    })?;
    drop(numbering);
    Ok(Ordered { ids, vertices, edges, intervals, sorted: sorter.finish()? })
}
