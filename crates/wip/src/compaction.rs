//! Merging neighbouring runs of a bucket into one.

use crate::bucket::{Bucket, Version};
use crate::deleted::{DeletedRange, DeletedRanges};
use crate::job_context::JobContext;
use crate::merge::{Fate, Keeper, Merge, buried};
use crate::metrics::add;
use crate::options::READ_AHEAD_PART;
use crate::overlap::Older;
use crate::policy::LEVEL_MAX;
use crate::run::{Part, Run, same};
use crate::run_cursor::{RunCursor, read_together};
use crate::state::Edit;
use crate::step::Step;
use crate::table_writer::{TableWriter, whole};
use silica_base::{Result, shared_len};
use silica_device::Device;
use silica_parts::frame::POINTER;
use silica_parts::value_log::Garbage;
use std::mem::take;
use std::sync::Arc;

/// Bytes of each run that are read at once, at most and at least; as many are on their way.
const READ_AHEAD_BYTES_MAX: u64 = 512 << 10;
const READ_AHEAD_BYTES_MIN: u64 = 32 << 10;
/// The part of what it writes that a compaction leaves with the allocator, about, besides the
/// buffers that it read with.
const LEFT_PART: u64 = 24;
/// What a version counts for besides its bytes.
const VERSION_COST_BYTES: u64 = 16;

/// A compaction that goes on in steps.
pub(crate) struct Compaction<D: Device> {
    pub(crate) bucket: Arc<Bucket<D>>,
    /// What is merged, and the runs behind it, the newest first.
    merged: Vec<Run<D>>,
    older: Vec<Run<D>>,
    /// Deleted ranges, and those that hide nothing any more when it is done.
    deleted: DeletedRanges,
    ends: DeletedRanges,
    /// `None` before the first step.
    stage: Option<Stage<D>>,
}

struct Stage<D: Device> {
    merge: Merge<RunCursor<D>>,
    keeper: Keeper,
    writer: TableWriter<D>,
    garbage: Garbage,
    /// What older runs want of keys that they are asked for.
    zeroes: u32,
    /// What its cursors have of memory.
    read_ahead_bytes: u64,
}

impl<D: Device> Compaction<D> {
    /// Of the `count` runs of `bucket` that have `older` ones behind them.
    pub(crate) fn new(bucket: Arc<Bucket<D>>, count: usize, older: usize) -> Self {
        let version = bucket.read().version.clone();
        let end = version.runs.len() - older;
        let merged = version.runs[end - count..end].to_vec();
        let older = version.runs[end..].to_vec();
        let deleted = version.deleted.clone();
        let mut compaction =
            Compaction { bucket, merged, older, deleted, ends: Vec::new(), stage: None };
        compaction.ends = compaction.ends_of(&version, &version.runs[..end - count]);
        compaction
    }

    /// The ranges that hide nothing in `newer` runs, in memtables, or in what is written: they are
    /// below the floor, and all that they hide is merged.
    fn ends_of(&self, version: &Version<D>, newer: &[Run<D>]) -> DeletedRanges {
        if !self.older.is_empty() {
            return Vec::new();
        }
        let tables = newer.iter().flatten().map(|part| part.table.table.footer().sequence_min);
        let newer_from = tables.min().unwrap_or(u64::MAX).min(version.floor);
        let is_over = |range: &&Arc<DeletedRange>| range.position < newer_from;
        self.deleted.iter().filter(is_over).cloned().collect()
    }

    fn begin(&mut self, context: &JobContext<'_, D>) -> Result<Stage<D>> {
        let keeper = context.contents.snapshots.keeper(self.older.is_empty());
        // A snapshot that does not see a range sees what it hides.
        let oldest = keeper.oldest_snapshot();
        self.ends.retain(|range| range.position < oldest);
        let stays = |range: &&Arc<DeletedRange>| !self.ends.contains(range);
        let stay = self.deleted.iter().filter(stays).cloned().collect();
        let keeper = keeper.with_deleted(self.deleted.clone(), stay);
        let read_ahead = context.memory.bytes() / READ_AHEAD_PART;
        let over = self.runs_over(keeper.over_ms());
        let read = &self.merged[..self.merged.len() - over];
        let shares = read_ahead_shares(&run_bytes(read), read_ahead / 2);
        let cursors = Self::cursors(read, &context.contents.device, &shares)?;
        let tables = self.merged.iter().flatten().map(|part| part.table.table.footer());
        let base = tables.map(|footer| footer.sequence_base).min().unwrap_or(1);
        Ok(Stage {
            merge: Merge::new(cursors),
            keeper,
            writer: context.contents.tables.begin_table(
                base,
                self.older.is_empty(),
                context.has_reads(),
            )?,
            garbage: Garbage::default(),
            zeroes: Older::zeroes_of(&self.older),
            read_ahead_bytes: 2 * shares.iter().sum::<u64>(),
        })
    }

    /// How many of the oldest runs need no reading: nothing is behind them, and the time of all
    /// that they have is over.
    fn runs_over(&self, over_ms: u64) -> usize {
        if !self.older.is_empty() {
            return 0;
        }
        // What a pointer points at becomes garbage when it is read.
        let is_over = |part: &Part<D>| {
            part.table.table.is_over(over_ms) && part.table.table.footer().pointers == 0
        };
        self.merged.iter().rev().take_while(|run| run.iter().all(is_over)).count()
    }

    /// Each of `runs` at its first version. Each reads its share of bytes ahead, while as many are
    /// on their way.
    fn cursors(runs: &[Run<D>], device: &D, shares: &[u64]) -> Result<Vec<RunCursor<D>>> {
        let cursor = |run: &Run<D>, read_ahead: u64| {
            let read_ahead = read_ahead as usize;
            RunCursor::new(run.clone(), read_ahead).with_first_read(read_ahead)
        };
        let mut lasts: Vec<_> = runs.iter().map(|run| cursor(run, 0)).collect();
        let shared = runs.iter().zip(shares);
        let mut cursors: Vec<_> = shared.map(|(run, share)| cursor(run, *share)).collect();
        let mut ends = Vec::new();
        read_together(device, &mut lasts, |c| Some(c), |c| c.begin_seek_to_last())?;
        for last in &mut lasts {
            if last.seek_to_last()? {
                ends.push(last.version().key.to_vec());
            }
        }
        read_together(device, &mut cursors, |c| Some(c), |c| c.begin_seek_to_first())?;
        for cursor in &mut cursors {
            if cursor.seek_to_first()? {
                ends.push(cursor.version().key.to_vec());
            }
        }
        let (least, greatest) = (ends.iter().min(), ends.iter().max());
        let common = least.zip(greatest).map_or(0, |(least, greatest)| shared_len(least, greatest));
        cursors.iter_mut().for_each(|cursor| cursor.common = common);
        Ok(cursors)
    }

    /// True where what is left is to make the table durable.
    pub(crate) fn ends_next(&self) -> bool {
        self.stage.as_ref().is_some_and(|stage| stage.merge.version().is_none())
    }

    /// True where the table is not durable yet, and on its way there.
    pub(crate) fn would_wait_to_end(&self) -> bool {
        self.stage.as_ref().is_some_and(|stage| stage.writer.would_wait_to_finish())
    }

    /// Goes on for about `budget` bytes; past where it waits for the device only if it `may_wait`.
    pub(crate) fn step(
        &mut self,
        context: &JobContext<'_, D>,
        budget: u64,
        may_wait: bool,
    ) -> Result<Step> {
        if self.stage.is_none() {
            self.stage = Some(self.begin(context)?);
        }
        let stage = self.stage.as_mut().expect("it has begun");
        let older = Older::new(&self.older, stage.zeroes);
        let mut done = 0;
        while let Some(mut row) = stage.merge.version() {
            if !may_wait && (stage.writer.would_wait() || stage.merge.would_wait()) {
                return Ok(Step::Waits(done));
            }
            done += (row.key.len() + row.value.len()) as u64 + VERSION_COST_BYTES;
            let fate = stage.keeper.fate(&row);
            if matches!(fate, Fate::Drop | Fate::Bury) && row.flags & POINTER != 0 {
                stage.garbage.add(row.value);
            }
            match fate {
                Fate::KeepAsOldest => row.sequence = 0,
                Fate::Bury => row = buried(&row),
                Fate::Keep | Fate::Drop => {}
            }
            if fate != Fate::Drop {
                stage.writer.add(&row, older)?;
            }
            stage.merge.advance()?;
            if done > budget {
                return Ok(Step::More(done));
            }
        }
        stage.writer.end_where(may_wait && context.is_attended, done)
    }

    /// Makes the table durable, and lets it take the merged runs' place; the bytes of the file.
    pub(crate) fn finish(self, context: &JobContext<'_, D>) -> Result<u64> {
        let Stage { mut writer, garbage, read_ahead_bytes, .. } = self.stage.expect("it is ready");
        let overlap = take(&mut writer.overlap);
        let table = writer.finish()?.map(|table| context.as_it_stays(table));
        let level = self.merged.iter().flatten().map(|part| part.level).max().unwrap_or(0);
        let level = (level + 1).min(LEVEL_MAX);
        let bytes = table.as_ref().map_or(0, |table| table.table.file_bytes());
        let number = table.as_ref().map(|table| table.number);
        let run =
            table.map(|table| Run::from_iter([whole(table, level, overlap.dead_bytes(bytes))]));
        let guard = context.contents.lock_install();
        let buckets = context.contents.buckets();
        let now = self.bucket.read().version.clone();
        let end = now.runs.len().checked_sub(self.older.len());
        let start = end.and_then(|end| end.checked_sub(self.merged.len()));
        let is_there = Arc::ptr_eq(buckets.of(&self.bucket.lower), &self.bucket)
            && start.is_some_and(|start| same(&now.runs[start..], &self.merged, &self.older));
        if !is_there {
            number.iter().for_each(|number| context.contents.tables.remove_table(*number));
            return Ok(0);
        }
        let (start, end) = (start.expect("it is there"), end.expect("it is there"));
        let mut runs = now.runs.clone();
        runs.splice(start..end, run);
        let is_left = |range: &&Arc<DeletedRange>| !self.ends.contains(range);
        let deleted = now.deleted.iter().filter(is_left).cloned().collect();
        let version = Version::new(runs, now.floor, deleted).after(&now);
        let new = vec![(self.bucket.lower.clone(), Bucket::state(&version))];
        context.contents.edit_buckets(Edit::Buckets { gone: Vec::new(), new }, &garbage)?;
        // Whoever sees what it came to sees it counted, too.
        add(&context.contents.metrics.compactions, 1);
        add(&context.contents.metrics.compaction_bytes, bytes);
        self.bucket.write().set_version(version);
        drop(guard);
        context.contents.tables.forget_blocks(&self.merged, &context.contents.named_tables());
        context.memory.note_dropped(bytes / LEFT_PART + read_ahead_bytes);
        Ok(bytes)
    }
}

fn run_bytes<D: Device>(runs: &[Run<D>]) -> Vec<u64> {
    runs.iter().map(|run| run.iter().map(Part::bytes).sum()).collect()
}

/// What of `read_ahead` bytes each run of so many bytes has: as the square roots of these, with
/// which all of them together are read in the fewest reads.
fn read_ahead_shares(bytes: &[u64], read_ahead: u64) -> Vec<u64> {
    let root = |bytes: &u64| (*bytes as f64).sqrt();
    let sum = bytes.iter().map(root).sum::<f64>().max(1.0);
    let share = |bytes| (read_ahead as f64 * root(bytes) / sum) as u64;
    let shares = bytes.iter().map(share);
    shares.map(|share| share.clamp(READ_AHEAD_BYTES_MIN, READ_AHEAD_BYTES_MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_run_beside_small_ones_is_read_in_larger_pieces() {
        const MIB: u64 = 1 << 20;
        let bytes = [vec![MIB / 2; 19], vec![24 * MIB]].concat();
        let shares = read_ahead_shares(&bytes, 2 * MIB);
        assert!(shares.iter().sum::<u64>() <= 2 * MIB);
        let reads = |share: &dyn Fn(usize) -> u64| -> u64 {
            (0..20).map(|run| bytes[run].div_ceil(share(run))).sum()
        };
        let (equal, weighed) = (reads(&|_| 2 * MIB / 20), reads(&|run| shares[run]));
        assert!(weighed * 10 < equal * 8, "{weighed}, {equal}");
        // Where there is hardly any memory, or one run, or none.
        assert_eq!(read_ahead_shares(&bytes, 0), [READ_AHEAD_BYTES_MIN; 20]);
        assert_eq!(read_ahead_shares(&[24 * MIB], 2 * MIB), [READ_AHEAD_BYTES_MAX]);
        assert_eq!(read_ahead_shares(&[], 2 * MIB), [0; 0]);
    }
}
