//! A bucket: a range of keys, its memtables and its runs.

use crate::deleted::{DeletedRange, DeletedRanges, deleted_at};
use crate::facts::Facts;
use crate::memtable::{Entries, Found, Full, Inserted, Memtable, Ordered};
use crate::overlap::Older;
use crate::policy::{RunShape, Shape};
use crate::prefix::Prefix;
use crate::ranges::RangeReads;
use crate::run::{Part, Run};
use crate::run_filters::RunFilters;
use crate::state::BucketState;
use crate::table_memory::TableMemory;
use crate::writer::NewEntry;
use arc_swap::{ArcSwap, Guard};
use crossbeam_utils::CachePadded;
use silica_base::{Biased, BiasedRead, BiasedWrite, HashSeed, prefetch};
use silica_device::{Device, LogFile};
use silica_parts::frame::Frame;
use silica_parts::value_log::Pointer;
use silica_parts::wal::{POSITION_BYTES, Segments};
use std::cell::Cell;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, OnceLock};

/// Positions that are put into a list at once, unless there is no other way; where there are more,
/// a new list takes over.
const LISTED_MAX: usize = 4096;

/// What an entry counts for at least until it is in a table: a small one takes more memory in
/// directories, and while its flush sorts it and makes a filter, than in the log.
const ENTRY_BYTES_MIN: u64 = 96;

/// The part of a value that lies apart which counts: a memtable hides older versions of its keys,
/// and garbage is known only once they meet.
const APART_PART: u64 = 16;

/// Gets that the search of a range counts for in each run, and one read of the device: what they
/// take longer.
pub(crate) const SEARCH_READS: u64 = 40;
const DEVICE_READ_READS: u64 = 512;

/// Blocks of a table whose index tells what keys begin with: from one separator nothing follows.
const TELLING_BLOCKS_MIN: usize = 3;

/// Bytes of a line of the processor's cache.
const LINE_BYTES: usize = 64;

/// Gets per one that is counted.
const READ_SAMPLE: u64 = 16;

thread_local! {
    /// Gets of this thread.
    static READS: Cell<u64> = const { Cell::new(0) };
}

/// The entries of the log.
pub(crate) struct LogEntries<'s, L>(pub(crate) &'s Segments<L>);

impl<'s, L: LogFile> LogEntries<'s, L> {
    /// The entry at a position that a memtable holds.
    #[inline]
    pub(crate) fn frame(&self, position: u64) -> Frame<'s> {
        self.find(position).expect("memtables hold positions of entries")
    }

    /// The entry at a position, if the segments have it.
    #[inline]
    fn find(&self, position: u64) -> Option<Frame<'s>> {
        let frame = self.0.bytes_from(position * POSITION_BYTES).and_then(Frame::decode);
        frame.map(|(frame, _)| frame)
    }

    /// Asks for the memory of the entry at a position.
    #[inline]
    pub(crate) fn prefetch(&self, position: u64) {
        self.prefetch_near(position, 0);
    }

    /// As [`LogEntries::prefetch`]; `near` is the place of a segment where it may be.
    #[inline]
    pub(crate) fn prefetch_near(&self, position: u64, near: usize) {
        if let Some((bytes, _)) = self.0.bytes_near(position * POSITION_BYTES, near) {
            prefetch(bytes, 0);
            prefetch(bytes, LINE_BYTES);
        }
    }

    /// What the entry at a position counts for.
    fn counted_bytes(&self, position: u64) -> u64 {
        counted_bytes(&self.frame(position))
    }
}

/// What an entry counts for.
fn counted_bytes(frame: &Frame<'_>) -> u64 {
    let apart = if frame.is_pointer() { Pointer::decode(frame.value) } else { None };
    let apart = apart.map_or(0, |pointer| u64::from(pointer.length) / APART_PART);
    (frame.encoded_len() as u64).max(ENTRY_BYTES_MIN) + apart
}

impl<L: LogFile> Entries for LogEntries<'_, L> {
    #[inline]
    fn entry(&self, position: u64) -> Frame<'_> {
        self.frame(position)
    }

    #[inline]
    fn prefetch(&self, position: u64) {
        LogEntries::prefetch(self, position);
    }
}

/// The entries of the log for a search in a hash table that others insert into meanwhile: they may
/// come with segments of the log that this list has not. Such a search is to be made again.
pub(crate) struct LatestEntries<'s, L> {
    entries: LogEntries<'s, L>,
    missed: Cell<bool>,
}

impl<'s, L: LogFile> LatestEntries<'s, L> {
    /// Of the segments that the log has just now.
    #[inline]
    pub(crate) fn new(segments: &'s Segments<L>) -> Self {
        LatestEntries { entries: LogEntries(segments), missed: Cell::new(false) }
    }

    /// True if the search met an entry that is in none of the segments: it says nothing then.
    #[inline]
    pub(crate) fn has_missed(&self) -> bool {
        self.missed.get()
    }
}

impl<L: LogFile> Entries for LatestEntries<'_, L> {
    #[inline]
    fn entry(&self, position: u64) -> Frame<'_> {
        self.entries.find(position).unwrap_or_else(|| {
            self.missed.set(true);
            Frame::put(b"", b"")
        })
    }

    #[inline]
    fn prefetch(&self, position: u64) {
        self.entries.prefetch(position);
    }
}

/// A memtable that takes no more and waits for its flush. Buckets that a split made share it: each
/// of them is to look only at keys that are its own.
pub(crate) struct Frozen {
    pub(crate) memtable: Memtable,
    /// What its entries count for.
    pub(crate) bytes: u64,
    /// The first position that it got.
    pub(crate) start: u64,
    /// Every record of the bucket below this position is in it or in older ones.
    pub(crate) end: u64,
    /// Its positions in the order of a range, once somebody asked for it.
    order: OnceLock<Arc<Ordered>>,
}

impl Frozen {
    /// Its positions in the order of a range, for those who read ranges.
    pub(crate) fn order(&self, entries: &impl Entries) -> &Arc<Ordered> {
        self.order.get_or_init(|| Ordered::new(self.memtable.in_order(entries), entries).into())
    }

    /// Bytes of the directory and, where it is there, of the order.
    fn index_bytes(&self) -> u64 {
        self.memtable.bytes() as u64 + self.order.get().map_or(0, |order| order.bytes() as u64)
    }
}

/// What is in tables.
pub(crate) struct Version<D: Device> {
    /// The newest first. They do not change: `filters` are theirs.
    pub(crate) runs: Vec<Run<D>>,
    pub(crate) filters: RunFilters<D>,
    /// Records of the log below this position are in the runs.
    pub(crate) floor: u64,
    /// Nothing at or behind this position is in the runs. It never becomes less, so it tells
    /// whether something may have got there.
    pub(crate) ceiling: u64,
    /// Ranges that were deleted below the floor.
    pub(crate) deleted: DeletedRanges,
    shape: OnceLock<Shape>,
    tables: OnceLock<Vec<TableMemory>>,
    common: OnceLock<Option<Vec<u8>>>,
    zeroes: OnceLock<u32>,
    pub(crate) facts: OnceLock<Facts>,
}

/// What an insert into a memtable changed.
#[must_use]
pub(crate) struct Growth {
    /// What the memtable's entries count for grew by so much, modulo 2^64.
    pub(crate) bytes: u64,
    /// The position whose place was taken.
    pub(crate) replaced: Option<u64>,
}

/// What a memtable got, by any number of threads at once. Relaxed: nothing is found by it.
struct Counts {
    /// What its entries count for, modulo 2^64.
    bytes: AtomicU64,
    /// The least position, [`u64::MAX`] where there is none.
    start: AtomicU64,
    /// Inserts into this memtable and those before it. Counted last and with release: who finds a
    /// number of them finds all these.
    inserts: AtomicU64,
}

impl Default for Counts {
    fn default() -> Self {
        Counts {
            bytes: AtomicU64::new(0),
            start: AtomicU64::new(u64::MAX),
            inserts: AtomicU64::new(0),
        }
    }
}

/// What a bucket's lock guards. Who inserts shares it with others, and with those who read.
pub(crate) struct Stores<D: Device> {
    pub(crate) active: Memtable,
    /// What is in `active`; apart from what those read who write nothing.
    counts: CachePadded<Counts>,
    /// What reads of ranges asked of `active`.
    pub(crate) range_reads: RangeReads,
    /// The newest first.
    pub(crate) frozen: Vec<Arc<Frozen>>,
    /// Ranges that were deleted at the version's floor or behind it.
    pub(crate) deleted: DeletedRanges,
    pub(crate) version: Arc<Version<D>>,
    /// `version` for gets, which take it along without a count that all of them write.
    for_gets: ArcSwap<Version<D>>,
    /// Other buckets took over: what the memtables point at may be gone from the log. Whoever finds
    /// this looks for the bucket again, in the list as it is now.
    pub(crate) is_gone: bool,
}

impl<D: Device> Version<D> {
    pub(crate) fn new(runs: Vec<Run<D>>, floor: u64, deleted: DeletedRanges) -> Self {
        let filters = RunFilters::new(&runs);
        let (shape, tables, common, zeroes, facts) = Default::default();
        let ceiling = floor;
        Version { runs, filters, floor, ceiling, deleted, shape, tables, common, zeroes, facts }
    }

    /// Of a bucket that had `before`.
    pub(crate) fn after(self, before: &Version<D>) -> Self {
        Version { ceiling: self.ceiling.max(before.ceiling), ..self }
    }

    /// True if all that is in it, and all ranges that were deleted of it, come before `position`:
    /// snapshots from there on see no version that a newer one hides.
    pub(crate) fn is_older_than(&self, position: u64) -> bool {
        let mut tables = self.runs.iter().flatten().map(|part| part.table.table.footer());
        tables.all(|footer| footer.sequence_max < position)
            && self.deleted.iter().all(|range| range.position < position)
    }

    /// The parts that may have `key`, with this hash; the newest first.
    pub(crate) fn parts_with<'v>(
        &'v self,
        key: &'v [u8],
        hash: u64,
    ) -> impl Iterator<Item = &'v Part<D>> {
        let mut from = 0;
        std::iter::from_fn(move || {
            let at = self.filters.next(&self.runs, from, (key, hash))?;
            from = at + 1;
            Some(self.filters.part(&self.runs, at))
        })
    }

    /// The runs, for a table that is written in front of them.
    pub(crate) fn older(&self) -> Older<'_, D> {
        let zeroes = self.zeroes.get_or_init(|| Older::zeroes_of(&self.runs));
        Older::new(&self.runs, *zeroes)
    }

    /// Bytes of all runs.
    pub(crate) fn bytes(&self) -> u64 {
        self.shape().bytes()
    }

    /// What most keys of the runs begin with, where their tables' indexes tell.
    pub(crate) fn common(&self) -> Option<&[u8]> {
        let common = self.common.get_or_init(|| {
            let tables = self.runs.iter().flatten().map(|part| &part.table.table);
            let told = tables.filter(|table| table.blocks() >= TELLING_BLOCKS_MIN);
            Prefix::of(told.map(|table| table.common())).map(<[u8]>::to_vec)
        });
        common.as_deref()
    }

    /// Versions of all runs.
    pub(crate) fn versions(&self) -> u64 {
        self.shape().versions()
    }

    /// What its tables take of the memory; other buckets may share them.
    pub(crate) fn tables(&self) -> &[TableMemory] {
        self.tables.get_or_init(|| {
            let parts = self.runs.iter().flatten();
            parts.map(|part| TableMemory::of(part.table.number, &part.table.table)).collect()
        })
    }

    /// What decides whether anything is to be done with the runs.
    pub(crate) fn shape(&self) -> &Shape {
        self.shape.get_or_init(|| {
            let run = |run: &Run<D>| RunShape {
                level: run.iter().map(|part| part.level).max().unwrap_or(0),
                bytes: run.iter().map(crate::run::Part::bytes).sum(),
                dead_bytes: run.iter().map(|part| part.dead_bytes).sum(),
                expired_bytes: 0,
                versions: run.iter().map(crate::run::Part::versions).sum(),
            };
            Shape { runs: self.runs.iter().map(run).collect() }
        })
    }
}

impl<D: Device> Stores<D> {
    pub(crate) fn new(version: Arc<Version<D>>) -> Self {
        Stores {
            active: Memtable::new_hash(),
            counts: CachePadded::default(),
            range_reads: RangeReads::default(),
            frozen: Vec::new(),
            deleted: Vec::new(),
            for_gets: ArcSwap::new(Arc::clone(&version)),
            version,
            is_gone: false,
        }
    }

    /// The version, to be taken along for a while.
    #[inline]
    pub(crate) fn version_now(&self) -> Guard<Arc<Version<D>>> {
        self.for_gets.load()
    }

    /// Lets another version take over.
    pub(crate) fn set_version(&mut self, version: Version<D>) {
        self.version = Arc::new(version);
        self.for_gets.store(Arc::clone(&self.version));
    }

    /// With these memtables that wait for their flush, and ranges deleted since the version.
    pub(crate) fn of(
        version: Arc<Version<D>>,
        frozen: Vec<Arc<Frozen>>,
        deleted: DeletedRanges,
    ) -> Self {
        Stores { frozen, deleted, ..Stores::new(version) }
    }

    /// The position of the oldest entry that is in no table, or of a range deleted since.
    pub(crate) fn oldest(&self) -> Option<u64> {
        let active = Some(self.counts.start.load(Relaxed)).filter(|start| *start < u64::MAX);
        let entry = self.frozen.last().map(|frozen| frozen.start).or(active);
        entry.into_iter().chain(self.deleted.iter().map(|range| range.position)).min()
    }

    /// True where something is in no table and in no frozen memtable.
    pub(crate) fn is_written(&self) -> bool {
        let end = self.frozen.first().map_or(0, |frozen| frozen.end);
        !self.active.is_empty() || self.deleted.iter().any(|range| range.position >= end)
    }

    /// Where the last range before position `before` was deleted that covers `key`, or 0.
    #[inline(always)]
    pub(crate) fn deleted_at(&self, key: &[u8], before: u64) -> u64 {
        let old = deleted_at(&self.version.deleted, key, before);
        old.max(deleted_at(&self.deleted, key, before))
    }

    /// Deletes a range of the bucket's keys, which is not older than anything that is there.
    pub(crate) fn delete(&mut self, range: Arc<DeletedRange>) {
        // Recovery may find one that the version has.
        if !self.version.deleted.contains(&range) {
            self.deleted.push(range);
        }
    }

    /// Asks for the memory that [`Stores::find`] looks at.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.active.prefetch(hash);
        self.frozen.iter().for_each(|frozen| frozen.memtable.prefetch(hash));
    }

    /// Asks for the memory that [`Stores::insert`] looks at.
    pub(crate) fn prefetch_active(&self, hash: u64) {
        self.active.prefetch(hash);
    }

    /// The newest version of `key` before the position `before` that is in no table.
    #[inline]
    pub(crate) fn find<'e>(
        &self,
        hash: u64,
        key: &[u8],
        before: u64,
        entries: &'e impl Entries,
    ) -> Option<Found<'e>> {
        self.active.find(hash, key, before, entries).or_else(|| {
            let mut older = self.frozen.iter();
            older.find_map(|frozen| frozen.memtable.find(hash, key, before, entries))
        })
    }

    /// True where another memtable is to take over before the next insert, for which the store's
    /// writes have to be one's own.
    #[inline]
    pub(crate) fn is_to_freeze(&self) -> bool {
        self.active.is_nearly_full()
            || self.range_reads.wants_list(&self.active) && self.active.len() > LISTED_MAX
    }

    /// Puts the position of an entry into the memtable beside others who do, perhaps in the place
    /// of one at or behind `kept_before`, which nobody asks for any more. [`Full`] where the
    /// memtable has to change first.
    #[inline]
    pub(crate) fn insert_beside_others<L: LogFile>(
        &self,
        new: &NewEntry<'_>,
        kept_before: u64,
        entries: &LogEntries<'_, L>,
    ) -> Result<Growth, Full> {
        let is_list = matches!(self.active, Memtable::List(_));
        if is_list || self.range_reads.wants_list(&self.active) {
            return Err(Full);
        }
        let NewEntry { frame, position, hash } = *new;
        self.note_start(position);
        let inserted = self.active.insert(hash, frame.key, position, kept_before, entries)?;
        Ok(self.note(inserted, new, entries))
    }

    /// As [`Stores::insert_beside_others`], and changes the memtable where it has to. If it
    /// `freezes`, which takes the store's writes for one's own, another one may take over: else
    /// who comes with an older position would find the newer one there.
    pub(crate) fn insert<L: LogFile>(
        &mut self,
        seed: HashSeed,
        new: &NewEntry<'_>,
        kept_before: u64,
        entries: &LogEntries<'_, L>,
        freezes: bool,
    ) -> Growth {
        let NewEntry { frame, position, hash } = *new;
        if freezes && self.is_to_freeze() {
            let lists = self.range_reads.wants_list(&self.active);
            self.freeze(position);
            if lists {
                self.active = Memtable::new_list();
            }
        } else if self.range_reads.wants_list(&self.active) && self.active.len() <= LISTED_MAX {
            self.become_list(entries);
        }
        let inserted = loop {
            match self.active.insert(hash, frame.key, position, kept_before, entries) {
                Ok(inserted) => break inserted,
                Err(Full) if freezes && self.active.is_large() => self.freeze(position),
                Err(Full) => {
                    if let Err(Full) = self.active.grow(seed, entries) {
                        // A key has too many versions for a hash table.
                        match freezes {
                            true => self.freeze(position),
                            false => self.become_list(entries),
                        }
                    }
                }
            }
        };
        self.note_start(position);
        self.note(inserted, new, entries)
    }

    #[inline]
    fn note_start(&self, position: u64) {
        if self.counts.start.load(Relaxed) > position {
            self.counts.start.fetch_min(position, Relaxed);
        }
    }

    /// Counts an insert.
    #[inline]
    fn note<L: LogFile>(
        &self,
        inserted: Inserted,
        new: &NewEntry<'_>,
        entries: &LogEntries<'_, L>,
    ) -> Growth {
        let more = counted_bytes(&new.frame);
        let (bytes, replaced) = match inserted {
            Inserted::Added => (more, None),
            Inserted::Replaced(old) => (more.wrapping_sub(entries.counted_bytes(old)), Some(old)),
            Inserted::Overtaken => (0, Some(new.position)),
        };
        if bytes > 0 {
            self.counts.bytes.fetch_add(bytes, Relaxed);
        }
        self.counts.inserts.fetch_add(1, Release);
        Growth { bytes, replaced }
    }

    /// Inserts so far: a number that the active memtable has only in this state.
    pub(crate) fn inserts(&self) -> u64 {
        self.counts.inserts.load(Acquire)
    }

    /// What the entries of the active memtable count for.
    pub(crate) fn active_bytes(&self) -> u64 {
        self.counts.bytes.load(Relaxed)
    }

    /// Has a list with what is in the hash table.
    fn become_list<L: LogFile>(&mut self, entries: &LogEntries<'_, L>) {
        let positions = self.active.in_order(entries);
        self.active = Memtable::list_of(&positions, entries);
    }

    /// Lets a new memtable take over at position `end`: all that is written below is there, and
    /// nobody is about to insert what is.
    pub(crate) fn freeze(&mut self, end: u64) {
        // A bucket whose ranges are not read any more goes back to a hash table. The next one is as
        // large, most likely, or larger.
        let stays = matches!(self.active, Memtable::List(_)) && self.range_reads.count() > 0;
        let next = match &self.active {
            _ if stays => Memtable::new_list(),
            Memtable::Hash(directory) => Memtable::Hash(directory.next()),
            Memtable::List(_) => Memtable::new_hash(),
        };
        // What a range read put in order is in order still.
        let order = self.range_reads.order(self.inserts());
        let order = order.map_or_else(OnceLock::new, OnceLock::from);
        let memtable = std::mem::replace(&mut self.active, next);
        let Counts { bytes, start, inserts } = std::mem::take(&mut *self.counts);
        // Who put the old one in order may say so now.
        self.counts.inserts = AtomicU64::new(inserts.into_inner() + 1);
        // One without an entry may come with deleted ranges.
        let (bytes, start) = (bytes.into_inner(), start.into_inner().min(end));
        self.range_reads = RangeReads::default();
        self.frozen.insert(0, Arc::new(Frozen { memtable, bytes, start, end, order }));
    }

    /// Bytes of the memtables' directories, and of positions put in order.
    pub(crate) fn directory_bytes(&self) -> u64 {
        let frozen = self.frozen.iter().map(|frozen| frozen.index_bytes());
        self.active.bytes() as u64 + self.range_reads.bytes() + frozen.sum::<u64>()
    }

    /// Entries that are in no table.
    pub(crate) fn unflushed_entries(&self) -> u64 {
        let frozen: usize = self.frozen.iter().map(|frozen| frozen.memtable.len()).sum();
        (self.active.len() + frozen) as u64
    }

    /// What entries that are in no table count for.
    pub(crate) fn unflushed_bytes(&self) -> u64 {
        self.active_bytes() + self.frozen.iter().map(|frozen| frozen.bytes).sum::<u64>()
    }
}

/// The keys from `lower` on, up to the next bucket's.
pub(crate) struct Bucket<D: Device> {
    pub(crate) lower: Vec<u8>,
    /// Shared by all who read or insert.
    stores: Biased<Stores<D>>,
    /// Gets that its tables were asked for, sampled, and what searches of ranges count for.
    pub(crate) reads: CachePadded<AtomicU64>,
    /// The part of them that is of searches.
    pub(crate) range_reads: AtomicU64,
    /// Searches of ranges in memtables since one was last flushed for them.
    pub(crate) searches: AtomicU64,
    /// Long runs of entries that are gone, which iterators went through in tables since the last
    /// compaction, and in memtables since the last flush for ranges.
    pub(crate) skipped: AtomicU64,
    pub(crate) skipped_young: AtomicU64,
    /// Live bytes from which on a split is worth a try.
    pub(crate) split_from_bytes: AtomicU64,
}

impl<D: Device> Bucket<D> {
    pub(crate) fn new(lower: Vec<u8>, stores: Stores<D>) -> Self {
        let (reads, range_reads, searches, split_from_bytes) = Default::default();
        let (skipped, skipped_young) = Default::default();
        let stores = Biased::new(stores);
        Bucket {
            lower,
            stores,
            reads,
            range_reads,
            searches,
            skipped,
            skipped_young,
            split_from_bytes,
        }
    }

    /// Counts a get that asks the tables: one of [`READ_SAMPLE`] for all of them.
    #[inline]
    pub(crate) fn count_read(&self) {
        let number = READS.get().wrapping_add(1);
        READS.set(number);
        if number.is_multiple_of(READ_SAMPLE) {
            self.reads.fetch_add(READ_SAMPLE, Relaxed);
        }
    }

    /// Counts a search of a range, for which the tables of `runs` runs were read `device_reads`
    /// times, and memtables where `has_memtable`.
    pub(crate) fn count_search(&self, device_reads: u64, runs: usize, has_memtable: bool) {
        let reads = SEARCH_READS + DEVICE_READ_READS * device_reads / runs.max(1) as u64;
        self.reads.fetch_add(reads, Relaxed);
        self.range_reads.fetch_add(reads, Relaxed);
        if has_memtable {
            self.searches.fetch_add(1, Relaxed);
        }
    }

    #[inline]
    pub(crate) fn read(&self) -> BiasedRead<'_, Stores<D>> {
        self.stores.read()
    }

    #[inline]
    pub(crate) fn write(&self) -> BiasedWrite<'_, Stores<D>> {
        self.stores.write()
    }

    /// What the manifest says of a bucket with this version.
    pub(crate) fn state(version: &Version<D>) -> BucketState {
        let parts = |run: &Run<D>| run.iter().map(crate::run::Part::state).collect();
        let deleted = version.deleted.iter().map(|range| DeletedRange::clone(range)).collect();
        BucketState {
            floor: version.floor,
            runs: version.runs.iter().map(parts).collect(),
            deleted,
        }
    }
}
