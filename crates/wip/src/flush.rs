//! From memtables to tables: a flush writes what frozen memtables hold, of one bucket or of several
//! cold ones, into one table that they share.
//!
//! A memtable may be shared itself, by the buckets that a split made: each of them finds its own
//! keys in it. It is flushed once, and leaves them all at the same time.

use crate::bucket::{Bucket, Frozen, LogEntries, Version};
use crate::buckets::Buckets;
use crate::contents::Contents;
use crate::job_context::JobContext;
use crate::memtable::{by_heads, common_bytes};
use crate::merge::{Fate, Keeper, Merge, Source, buried};
use crate::metrics::add;
use crate::run::{Part, Run};
use crate::state::Edit;
use crate::step::Step;
use crate::table_writer::{TableWriter, whole};
use silica_base::{Result, prefetch};
use silica_device::{Device, LogFile};
use silica_parts::frame::{POINTER, TOMBSTONE};
use silica_parts::table::Version as Row;
use silica_parts::value_log::Garbage;
use silica_parts::wal::{POSITION_BYTES, Segments};
use std::mem::take;
use std::sync::Arc;

/// Positions that are sorted at once.
const CHUNK_POSITIONS: usize = 16 << 10;
/// How many entries ahead memory is asked for, two lines of it.
const PREFETCH_AHEAD: usize = 2;
const LINE_BYTES: usize = 64;
/// What sorting a position counts for.
const SORT_COST_BYTES: u64 = 32;

/// Positions in the order of a range, and the log they are of.
pub(crate) struct Chunk<L> {
    /// Heads of keys, behind what all keys of the flush begin with, and the positions.
    keyed: Vec<(u64, u64)>,
    at: usize,
    segments: Arc<Segments<L>>,
}

impl<L: LogFile> Chunk<L> {
    /// Of `positions` that ascend, whose keys share their first `common` bytes.
    fn new(positions: Vec<u64>, common: usize, segments: &Arc<Segments<L>>) -> Self {
        let keyed = by_heads(positions, common, &LogEntries(segments));
        Chunk { keyed, at: 0, segments: Arc::clone(segments) }
    }
}

impl<L: LogFile> Source for Chunk<L> {
    #[inline]
    fn head(&self) -> Option<u64> {
        self.keyed.get(self.at).map(|(head, _)| *head)
    }

    #[inline]
    fn version(&self) -> Row<'_> {
        let (_, sequence) = self.keyed[self.at];
        let frame = LogEntries(&self.segments).frame(sequence);
        Row {
            key: frame.key,
            sequence,
            flags: frame.flags & (TOMBSTONE | POINTER),
            expires_unix_ms: frame.expires_unix_ms,
            user_bits: frame.user_bits,
            value: frame.value,
        }
    }

    #[inline]
    fn advance(&mut self) -> Result<()> {
        self.at += 1;
        // Keys in order are anywhere in the log.
        if let Some((_, position)) = self.keyed.get(self.at + PREFETCH_AHEAD)
            && let Some(bytes) = self.segments.bytes_from(position * POSITION_BYTES)
        {
            prefetch(bytes, 0);
            prefetch(bytes, LINE_BYTES);
        }
        Ok(())
    }
}

enum Stage<D: Device> {
    Begin,
    Sort(Sort<D>),
    Write(Box<Write<D>>),
}

struct Sort<D: Device> {
    /// Not sorted yet; ascending.
    positions: Vec<u64>,
    /// Bytes that all keys begin with.
    common: usize,
    chunks: Vec<Chunk<D::Log>>,
}

struct Write<D: Device> {
    merge: Merge<Chunk<D::Log>>,
    keeper: Keeper,
    writer: TableWriter<D>,
    garbage: Garbage,
}

/// A flush that goes on in steps.
pub(crate) struct Flush<D: Device> {
    pub(crate) frozen: Vec<Arc<Frozen>>,
    segments: Arc<Segments<D::Log>>,
    /// What the runs are at the beginning, where it is of one bucket.
    version: Option<Arc<Version<D>>>,
    buckets: Arc<Buckets<D>>,
    least_position: u64,
    stage: Stage<D>,
}

impl<D: Device> Flush<D> {
    /// Of memtables each of which is the oldest of its buckets.
    /// `None` if the log does not have their entries any more: the store was cleared since they
    /// were looked for.
    pub(crate) fn new(contents: &Contents<D>, frozen: Vec<Arc<Frozen>>) -> Option<Self> {
        let segments = contents.log.segments();
        // Segments go from the oldest on: who has the first entry has all.
        let has = |one: &Arc<Frozen>| segments.bytes_from(one.start * POSITION_BYTES).is_some();
        if !frozen.iter().all(|one| one.memtable.is_empty() || has(one)) {
            return None;
        }
        Some(Flush {
            frozen,
            segments,
            version: None,
            buckets: contents.buckets(),
            least_position: 1,
            stage: Stage::Begin,
        })
    }

    fn begin(&mut self) {
        let frozen = &self.frozen;
        let mut positions: Vec<u64> =
            frozen.iter().flat_map(|frozen| frozen.memtable.positions()).collect();
        positions.sort_unstable();
        let mut holders = self.buckets.iter().filter(|bucket| holds(bucket, frozen) > 0);
        let version = holders.next().map(|bucket| bucket.read().version.clone());
        self.version = version.filter(|_| holders.next().is_none());
        self.least_position = positions.first().copied().unwrap_or(1);
        let common = common_bytes(&positions, &LogEntries(&self.segments));
        self.stage = Stage::Sort(Sort { positions, common, chunks: Vec::new() });
    }

    /// True where what is left is to make the table durable.
    pub(crate) fn ends_next(&self) -> bool {
        matches!(&self.stage, Stage::Write(write) if write.merge.version().is_none())
    }

    /// True where the table is not durable yet, and on its way there.
    pub(crate) fn would_wait_to_end(&self) -> bool {
        matches!(&self.stage, Stage::Write(write) if write.writer.would_wait_to_finish())
    }

    /// Goes on for about `budget` bytes; past where it waits for the device only if it `may_wait`.
    pub(crate) fn step(
        &mut self,
        context: &JobContext<'_, D>,
        budget: u64,
        may_wait: bool,
    ) -> Result<Step> {
        let mut done = 0;
        if let Stage::Begin = self.stage {
            self.begin();
        }
        while let Stage::Sort(Sort { positions, common, chunks }) = &mut self.stage {
            if done > budget {
                return Ok(Step::More(done));
            }
            let piece = positions.split_off(positions.len().saturating_sub(CHUNK_POSITIONS));
            done += piece.len() as u64 * SORT_COST_BYTES;
            if !piece.is_empty() {
                chunks.push(Chunk::new(piece, *common, &self.segments));
            }
            if positions.is_empty() {
                // The newest positions went first.
                let merge = Merge::new(std::mem::take(chunks));
                let keeper = context.contents.snapshots.keeper(false);
                let writer = context.contents.tables.begin_table(
                    self.least_position,
                    false,
                    context.has_reads(),
                )?;
                let garbage = Garbage::default();
                self.stage = Stage::Write(Box::new(Write { merge, keeper, writer, garbage }));
            }
        }
        let Stage::Write(write) = &mut self.stage else { unreachable!("it was sorted") };
        let Write { merge, keeper, writer, garbage } = &mut **write;
        let before = writer.bytes();
        while let Some(mut row) = merge.version() {
            if !may_wait && writer.would_wait() {
                return Ok(Step::Waits(done + writer.bytes() - before));
            }
            let fate = keeper.fate(&row);
            if matches!(fate, Fate::Drop | Fate::Bury) && row.flags & POINTER != 0 {
                garbage.add(row.value);
            }
            if fate == Fate::Bury {
                row = buried(&row);
            }
            if fate != Fate::Drop {
                match &self.version {
                    Some(version) => writer.add(&row, version.older())?,
                    None => {
                        let version = self.buckets.of(row.key).read().version.clone();
                        writer.add(&row, version.older())?;
                    }
                }
            }
            merge.advance()?;
            if done + writer.bytes() - before > budget {
                return Ok(Step::More(done + writer.bytes() - before));
            }
        }
        let written = done + writer.bytes().saturating_sub(before);
        writer.end_where(may_wait && context.is_attended, written)
    }

    /// Bytes of its memtables.
    pub(crate) fn bytes(&self) -> u64 {
        self.frozen.iter().map(|frozen| frozen.bytes).sum()
    }

    /// Makes the table durable, its name apart.
    fn write_out(self, context: &JobContext<'_, D>) -> Result<Flushed<D>> {
        let Stage::Write(write) = self.stage else { unreachable!("it is ready") };
        let Write { mut writer, garbage, .. } = *write;
        let overlap = take(&mut writer.overlap);
        let table = writer.finish_unnamed()?;
        let bytes = table.as_ref().map_or(0, |table| table.table.file_bytes());
        let part =
            table.map(|table| whole(context.as_it_stays(table), 0, overlap.dead_bytes(bytes)));
        Ok(Flushed { frozen: self.frozen, part, bytes, garbage })
    }

    /// Makes the tables of `flushes` durable, and lets them take the memtables' place; the bytes
    /// of the files. An error of one does not concern the others.
    pub(crate) fn finish(flushes: Vec<Flush<D>>, context: &JobContext<'_, D>) -> Result<u64> {
        let mut failed = None;
        let written = flushes.into_iter().map(|flush| flush.write_out(context));
        let written: Vec<_> =
            written.filter_map(|w| w.map_err(|e| failed = Some(e)).ok()).collect();
        let sorted: usize = written.iter().map(Flushed::positions).sum();
        context.memory.note_dropped((sorted * size_of::<(u64, u64)>()) as u64);
        let parts = || written.iter().filter_map(|flushed| flushed.part.as_ref());
        if parts().next().is_some() {
            let remove = |_: &_| {
                parts().for_each(|part| context.contents.tables.remove_table(part.table.number))
            };
            context.contents.device.sync_dir().inspect_err(remove)?;
        }
        let bytes = written.iter().map(|flushed| flushed.bytes).sum();
        let count = written.len() as u64;
        let flushed = install_flushes(context.contents, written)?;
        context.contents.metrics.sub_unflushed(flushed);
        add(&context.contents.metrics.flushes, count);
        add(&context.contents.metrics.flush_bytes, bytes);
        failed.map_or(Ok(bytes), Err)
    }
}

/// What a flush came to.
struct Flushed<D: Device> {
    frozen: Vec<Arc<Frozen>>,
    part: Option<Part<D>>,
    /// Of the table's file.
    bytes: u64,
    garbage: Garbage,
}

impl<D: Device> Flushed<D> {
    /// How many positions were sorted for it.
    fn positions(&self) -> usize {
        self.frozen.iter().map(|frozen| frozen.memtable.len()).sum()
    }
}

/// True if the newest run of `version` is a part of the same table as `part`.
fn begins_with<D: Device>(version: &Version<D>, part: &Part<D>) -> bool {
    let first = version.runs.first().and_then(|run| run.first());
    first.is_some_and(|first| first.table.number == part.table.number)
}

/// Buckets that share memtables of `flushed` with others, since a split, and have no entry of their
/// own in its table.
fn without_entries<D: Device>(contents: &Contents<D>, flushed: &Flushed<D>) -> Vec<Arc<Bucket<D>>> {
    let Some(part) = &flushed.part else { return Vec::new() };
    let buckets = contents.buckets();
    let held: usize = buckets.iter().map(|bucket| holds(bucket, &flushed.frozen)).sum();
    if held <= flushed.frozen.len() {
        return Vec::new();
    }
    let has_none = |place: &usize| {
        let bucket = buckets.at(*place);
        let own = part.within(&bucket.lower, buckets.upper(*place));
        holds(bucket, &flushed.frozen) > 0
            && own.is_some_and(|part| contents.tables.is_empty_part(&part))
    };
    let found = (0..buckets.len()).filter(has_none);
    found.map(|place| Arc::clone(buckets.at(place))).collect()
}

/// A bucket, what its runs are to be, and how many of its memtables are in them.
type Install<D> = (Arc<Bucket<D>>, Version<D>, usize);

/// How many of a bucket's oldest memtables are among `frozen`.
fn holds<D: Device>(bucket: &Bucket<D>, frozen: &[Arc<Frozen>]) -> usize {
    let stores = bucket.read();
    let is_one = |own: &&Arc<Frozen>| frozen.iter().any(|one| Arc::ptr_eq(one, own));
    stores.frozen.iter().rev().take_while(is_one).count()
}

/// What `flushed` makes of the buckets that have some of its memtables. Those `without` entries in
/// its table have no part of it.
fn installs_of<D: Device>(
    buckets: &Buckets<D>,
    flushed: &Flushed<D>,
    without: &[Arc<Bucket<D>>],
) -> Vec<Install<D>> {
    let mut installs = Vec::new();
    for (place, bucket) in buckets.iter().enumerate() {
        let count = holds(bucket, &flushed.frozen);
        if count == 0 {
            continue;
        }
        let stores = bucket.read();
        let first = stores.frozen.len() - count;
        let floor = stores.frozen[first].end;
        let mut runs = stores.version.runs.clone();
        let moved = stores.deleted.iter().filter(|range| range.position < floor).cloned();
        let deleted = stores.version.deleted.iter().cloned().chain(moved).collect();
        let before = Arc::clone(&stores.version);
        drop(stores);
        let upper = buckets.upper(place);
        let part = flushed.part.as_ref();
        let part = part.filter(|_| !without.iter().any(|other| Arc::ptr_eq(other, bucket)));
        let own = part.and_then(|part| part.within(&bucket.lower, upper));
        runs.splice(0..0, own.map(|part| Run::from_iter([part])));
        let version = Version::new(runs, floor, deleted).after(&before);
        installs.push((Arc::clone(bucket), version, count));
    }
    installs
}

/// Gives every bucket that has some memtables of `flushes` its part of their table instead; the
/// bytes of memtables that are gone for it. No bucket has memtables of two of them.
fn install_flushes<D: Device>(contents: &Contents<D>, flushes: Vec<Flushed<D>>) -> Result<u64> {
    // A batch of several buckets is not to survive in the tables of one alone.
    let frozen = flushes.iter().flat_map(|flushed| &flushed.frozen);
    contents.sync_log_to(frozen.map(|frozen| frozen.end).max().unwrap_or(0))?;
    // Before the lock, since it reads.
    let without = |flushed: Flushed<D>| (without_entries(contents, &flushed), flushed);
    let flushes: Vec<_> = flushes.into_iter().map(without).collect();
    let guard = contents.lock_install();
    let buckets = contents.buckets();
    let (mut installs, mut garbage, mut bytes) = (Vec::new(), Garbage::default(), 0);
    for (without, flushed) in flushes {
        let new = installs_of(&buckets, &flushed, &without);
        if let Some(part) = &flushed.part
            && !new.iter().any(|(_, version, _)| begins_with(version, part))
        {
            // The buckets that have its entries are gone meanwhile.
            contents.tables.remove_table(part.table.number);
        }
        if new.is_empty() {
            continue;
        }
        installs.extend(new);
        garbage.add_all(&flushed.garbage);
        bytes += flushed.frozen.iter().map(|frozen| frozen.bytes).sum::<u64>();
    }
    if installs.is_empty() {
        return Ok(0);
    }
    let state = |(bucket, version, _): &Install<D>| (bucket.lower.clone(), Bucket::state(version));
    let new = installs.iter().map(state).collect();
    contents.edit_buckets(Edit::Buckets { gone: Vec::new(), new }, &garbage)?;
    for (bucket, version, count) in installs {
        let mut stores = bucket.write();
        stores.deleted.retain(|range| range.position >= version.floor);
        stores.set_version(version);
        let left = stores.frozen.len() - count;
        stores.frozen.truncate(left);
    }
    drop(guard);
    Ok(bytes)
}
