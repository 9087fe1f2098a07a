//! Numbers for vertices whose ids lie too far apart for a bitmap: by sorting and merging.

use super::intervals::Cutter;
use super::{BuildOptions, BuildProgress, BuildStage, Ordered, REPORT_EVERY, Watch};
use crate::sort::{Sorted, Sorter};
use crate::spool::Spool;
use crate::storage::Storage;
use crate::stream::{Stream, StreamReader, StreamWriter, Workspace};
use silica_base::{Error, Result};

/// Gives vertices their numbers. Edges are written and sorted three times.
pub(super) fn sort<'w, 'a, S: Storage>(
    space: &'w Workspace<'a, S>,
    spool: Spool<'w, 'a, S>,
    edges: u64,
    options: &BuildOptions,
    watch: &mut Watch<'_>,
) -> Result<Ordered<'w, 'a, S>> {
    let mut by_id = Sorter::new(space, 3)?;
    let mut by_source = Sorter::new(space, 2)?;
    spool.drain(|edge| {
        by_id.push(edge >> 32)?;
        by_id.push(edge & u64::from(u32::MAX))?;
        by_source.push(edge)
    })?;
    let (ids, vertices) = write_ids(space, by_id.finish()?)?;
    watch(BuildProgress { stage: BuildStage::Sorting, done: edges / 3, of: Some(edges) })?;

    let mut sorted = by_source.finish()?;
    let mut by_target = Sorter::new(space, 2)?;
    let mut numbers = Numbers::new(space, ids.clone())?;
    while let Some(edge) = sorted.next()? {
        let source = numbers.number_of((edge >> 32) as u32)?;
        by_target.push(edge << 32 | u64::from(source))?;
    }
    drop((sorted, numbers));
    watch(BuildProgress { stage: BuildStage::Sorting, done: edges * 2 / 3, of: Some(edges) })?;

    let mut sorted = by_target.finish()?;
    let mut numbers = Numbers::new(space, ids.clone())?;
    let mut cutter = Cutter::new(space.room_bytes, edges, options.threads);
    let mut spool = Spool::new(space, 4)?;
    // Vertices that nothing enters come between those that something enters.
    let (mut last, mut entering) = (0, 0);
    while let Some(edge) = sorted.next()? {
        let target = numbers.number_of((edge >> 32) as u32)?;
        while last < target {
            cutter.add(1, std::mem::take(&mut entering));
            last += 1;
        }
        entering += 1;
        spool.push(u64::from(target) << 32 | edge & u64::from(u32::MAX))?;
    }
    drop((sorted, numbers));
    for _ in u64::from(last)..vertices {
        cutter.add(1, std::mem::take(&mut entering));
    }
    let intervals = cutter.finish(vertices);
    let packing = intervals.packing();
    let mut sorter = Sorter::new(space, 2)?;
    let mut count = 0;
    spool.drain(|edge| {
        count += 1;
        if count % REPORT_EVERY == 0 {
            watch(BuildProgress { stage: BuildStage::Sorting, done: count, of: Some(edges) })?;
        }
        sorter.push(packing.pack(edge as u32, (edge >> 32) as u32))
    })?;
    Ok(Ordered { ids, vertices, edges, intervals, sorted: sorter.finish()? })
}

/// Writes each id once, in their order.
fn write_ids<S: Storage>(
    space: &Workspace<'_, S>,
    mut sorted: Sorted<'_, '_, S>,
) -> Result<(Stream, u64)> {
    let mut writer = StreamWriter::new(space, space.page_bytes())?;
    let (mut last, mut count) = (None, 0);
    while let Some(id) = sorted.next()? {
        if last.replace(id) != Some(id) {
            writer.push(&(id as u32).to_le_bytes())?;
            count += 1;
        }
    }
    Ok((writer.finish()?, count))
}

/// Numbers of ids that are asked for in their order.
struct Numbers<'w, 'a, S> {
    ids: StreamReader<'w, 'a, S>,
    id: Option<u32>,
    number: u32,
}

impl<'w, 'a, S: Storage> Numbers<'w, 'a, S> {
    fn new(space: &'w Workspace<'a, S>, ids: Stream) -> Result<Self> {
        let mut ids = StreamReader::new(space, ids, space.page_bytes())?;
        Ok(Numbers { id: ids.next_u32()?, ids, number: 0 })
    }

    fn number_of(&mut self, id: u32) -> Result<u32> {
        while self.id.is_some_and(|at| at < id) {
            self.id = self.ids.next_u32()?;
            self.number += 1;
        }
        if self.id != Some(id) {
            let what = "an id that was sorted is not among those that were written";
            return Err(Error::corruption("the ids of the graph", u64::from(self.number), what));
        }
        Ok(self.number)
    }
}
