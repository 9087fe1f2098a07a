//! Sorted edges become chunks; what enters and leaves each vertex is counted.

use super::{BuildOptions, BuildProgress, BuildStage, Ordered, REPORT_EVERY, Watch};
use crate::catalog::Catalog;
use crate::chunk::{Chunk, ChunkWriter};
use crate::storage::{Area, Storage};
use crate::stream::{StreamWriter, Workspace};
use silica_base::Result;

/// Bytes of a chunk if memory allows: one read of a device, and few runs that are cut.
const CHUNK_BYTES: u64 = 128 << 10;
/// A thread has one chunk and buffers as large; all of them together take a 16th of the memory.
const CHUNK_SHARE: u64 = 32;

/// Writes the shards and everything else that a graph consists of, but the catalog.
pub(super) fn write<S: Storage>(
    space: &Workspace<'_, S>,
    mut ordered: Ordered<'_, '_, S>,
    options: &BuildOptions,
    skipped: u64,
    watch: &mut Watch<'_>,
) -> Result<Catalog> {
    let chunk_bytes = chunk_bytes(space, options.threads);
    let packing = ordered.intervals.packing();
    let begins = std::mem::take(&mut ordered.intervals.begins);
    let mut catalog = Catalog {
        input: options.input,
        vertices: ordered.vertices,
        edges: ordered.edges,
        skipped,
        chunk_bytes,
        begins,
        shards: vec![0],
        ids: std::mem::take(&mut ordered.ids),
        ..Catalog::default()
    };
    let longest = catalog.interval_max();
    let counters = space.memory.take(longest * 4 + chunk_bytes, "numbers of edges")?;
    let mut shards = Shards {
        chunks: StreamWriter::new(space, chunk_bytes as usize)?,
        entering: StreamWriter::new(space, space.page_bytes())?,
        chunk: ChunkWriter::new(chunk_bytes as usize),
        counts: vec![0; longest as usize],
        catalog: &mut catalog,
    };
    let mut count = 0;
    while let Some(packed) = ordered.sorted.next()? {
        count += 1;
        if count % REPORT_EVERY == 0 {
            watch(BuildProgress {
                stage: BuildStage::Writing,
                done: count,
                of: Some(ordered.edges),
            })?;
        }
        let (interval, source, target) = packing.unpack(packed);
        shards.push(interval, source, target)?;
    }
    drop(ordered.sorted);
    shards.finish()?;
    drop(counters);
    count_leaving(space, &mut catalog)?;
    Ok(catalog)
}

fn chunk_bytes<S: Storage>(space: &Workspace<'_, S>, threads: usize) -> u64 {
    let page_bytes = space.page_bytes() as u64;
    let most = space.room_bytes / CHUNK_SHARE / threads.max(1) as u64;
    let pages = (most.min(CHUNK_BYTES) / page_bytes).clamp(1, space.storage.segment_pages());
    let pages = if pages.is_power_of_two() { pages } else { pages.next_power_of_two() / 2 };
    // On flash a length that does not divide a segment: some chunks lie in two segments, whose
    // blocks are read side by side. In files chunks lie in one piece.
    let is_flash = space.storage.segments(Area::Shards).is_some();
    let pages = if is_flash && pages > 2 { pages - 1 } else { pages };
    // A chunk has to have room for its header and a run.
    pages * page_bytes
}

struct Shards<'c, 'w, 'a, S> {
    chunks: StreamWriter<'w, 'a, S>,
    entering: StreamWriter<'w, 'a, S>,
    chunk: ChunkWriter,
    /// Edges that enter each vertex of the interval that is written.
    counts: Vec<u32>,
    catalog: &'c mut Catalog,
}

impl<S: Storage> Shards<'_, '_, '_, S> {
    fn push(&mut self, interval: usize, source: u32, target: u32) -> Result<()> {
        while self.catalog.shards.len() <= interval {
            self.end_shard()?;
        }
        let count = &mut self.counts[target as usize];
        *count = count.saturating_add(1);
        if !self.chunk.push(source, target) {
            self.end_chunk()?;
            let is_taken = self.chunk.push(source, target);
            assert!(is_taken, "an empty chunk takes an edge");
        }
        Ok(())
    }

    fn end_chunk(&mut self) -> Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        self.catalog.sources.push(self.chunk.first());
        let number = self.catalog.sources.len() as u64 - 1;
        self.chunks.push(self.chunk.finish(number))?;
        self.chunk.clear();
        Ok(())
    }

    fn end_shard(&mut self) -> Result<()> {
        self.end_chunk()?;
        let vertices = self.catalog.interval(self.catalog.shards.len() - 1);
        self.catalog.shards.push(self.catalog.sources.len() as u64);
        let counts = &mut self.counts[..(vertices.end - vertices.start) as usize];
        for count in counts {
            self.entering.push(&count.to_le_bytes())?;
            *count = 0;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        while self.catalog.shards.len() < self.catalog.begins.len() {
            self.end_shard()?;
        }
        self.catalog.chunks = self.chunks.finish()?;
        self.catalog.entering = self.entering.finish()?;
        Ok(())
    }
}

/// Counts the edges that leave each vertex, an interval at a time, in the windows of all shards.
fn count_leaving<S: Storage>(space: &Workspace<'_, S>, catalog: &mut Catalog) -> Result<()> {
    let bytes = catalog.interval_max() * 4 + catalog.chunk_bytes;
    let _counters = space.memory.take(bytes, "numbers of edges")?;
    let mut counts = vec![0u32; catalog.interval_max() as usize];
    let mut bytes = vec![0; catalog.chunk_bytes as usize];
    let mut leaving = StreamWriter::new(space, space.page_bytes())?;
    for interval in 0..catalog.intervals() {
        let sources = catalog.interval(interval);
        for shard in 0..catalog.intervals() {
            for number in catalog.window(shard, &sources) {
                space.read(&catalog.chunks, number * catalog.chunk_bytes, &mut bytes)?;
                Chunk::check(number, &bytes)?.each_run(|source, targets| {
                    if sources.contains(&u64::from(source)) {
                        let at = (u64::from(source) - sources.start) as usize;
                        counts[at] = counts[at].saturating_add(targets.len() as u32);
                    }
                    true
                });
            }
        }
        for count in &mut counts[..(sources.end - sources.start) as usize] {
            leaving.push(&count.to_le_bytes())?;
            *count = 0;
        }
    }
    catalog.leaving = leaving.finish()?;
    Ok(())
}
