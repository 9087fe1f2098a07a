//! The memory number, and who gets what of it: the log's window first, then the memtables'
//! directories, the tables' indexes and filters and the buffers of jobs, each as much as it needs;
//! the block cache takes what is left, and gives way as the others grow.
//!
//! Where indexes and filters leave the cache less than its least part, filters go: those of the
//! oldest runs first, which are the largest and save no read of a key that is there, then those of
//! others. A key that is looked for in a table without a filter costs a read. They come back, the
//! smallest first, when there is room. Indexes stay: they take a quarter of a byte a key.

use crate::bucket::{Bucket, Version};
use crate::compaction::READ_AHEAD_PART;
use crate::run::{Part, Run};
use crate::wip::Wip;
use silica_device::{Device, DeviceFile};
use silica_engine::MetricVisitor;
use silica_parts::FuseFilter;
use silica_parts::table::Table;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The part of the memory that is for jobs' buffers at most: reading ahead, writing, filters to be
/// built.
const JOBS_PART_MAX: u64 = 5;
/// What they need in any case, and for each key of the filter that is built, its hash included.
const JOBS_BYTES: u64 = 16 << 20;
pub(crate) const BUILT_KEY_BYTES: u64 = FuseFilter::BUILT_KEY_BYTES + 8;
/// The part for the filter that is built next. A bucket has no more keys than that has room for.
pub(crate) const FILTERS_PART_MAX: u64 = 4;
/// The part that compactions may take at once.
const COMPACTIONS_PART_MAX: u64 = 2;
/// The part that the block cache has at least, as long as there are filters that may go.
const CACHE_PART_MIN: u64 = 16;

/// The percentage of its memory that the cache may fill: readers may have blocks that it has no
/// more, and blocks lie in memory of a few sizes.
const CACHED_PERCENT: u64 = 80;

/// An open table, and where it is.
struct Placed<F> {
    table: Arc<Table<F>>,
    /// It is a bucket's oldest run.
    is_oldest: bool,
}

/// What takes memory besides the block cache.
struct Taken<F> {
    log: u64,
    directories: u64,
    /// By their numbers.
    tables: BTreeMap<u64, Placed<F>>,
}

impl<F: DeviceFile> Taken<F> {
    fn table_bytes(&self) -> u64 {
        self.tables.values().map(|placed| placed.table.memory_bytes() as u64).sum()
    }

    fn all(&self) -> u64 {
        self.log + self.directories + self.table_bytes()
    }

    /// What is left of the memory when jobs have theirs. The filter that is built next has about
    /// as many keys as the largest that is there.
    fn without_jobs(&self, memory: u64) -> u64 {
        let keys = self.tables.values().map(|placed| placed.table.footer().versions).max();
        let building = BUILT_KEY_BYTES * keys.unwrap_or(0);
        let building = building.min(memory / FILTERS_PART_MAX);
        memory - JOBS_BYTES.min(memory / JOBS_PART_MAX) - building
    }
}

impl<D: Device> Wip<D> {
    /// True where a compaction of `bucket` has memory beside those of `busy` buckets; one always
    /// has.
    pub(crate) fn has_memory_for(&self, bucket: &Bucket<D>, busy: &[Arc<Bucket<D>>]) -> bool {
        let memory = self.memory_bytes.load(Ordering::Relaxed);
        let needs = |bucket: &Bucket<D>| {
            let version = bucket.read().version.clone();
            let read_ahead = version.bytes().min(memory / READ_AHEAD_PART);
            read_ahead + BUILT_KEY_BYTES * version.shape().versions()
        };
        let others: u64 = busy.iter().map(|bucket| needs(bucket)).sum();
        others == 0 || others + needs(bucket) <= memory / COMPACTIONS_PART_MAX
    }

    fn taken(&self) -> Taken<D::File> {
        let (log, tables) = (self.log.mapped_bytes(), BTreeMap::new());
        let mut taken = Taken { log, directories: 0, tables };
        for bucket in self.buckets().iter() {
            let stores = bucket.read();
            taken.directories += stores.directory_bytes();
            let runs = &stores.version.runs;
            for (at, part) in
                runs.iter().enumerate().flat_map(|(at, r)| r.iter().map(move |p| (at, p)))
            {
                let is_oldest = at + 1 == runs.len();
                let table = Arc::clone(&part.table.table);
                taken.tables.insert(part.table.number, Placed { table, is_oldest });
            }
        }
        taken
    }

    /// Gives the block cache what the others leave, and has filters go or, if it may read them,
    /// come back.
    pub(crate) fn share_memory(&self, loads: bool) {
        let memory = self.memory_bytes.load(Ordering::Relaxed);
        let mut taken = self.taken();
        let left = taken.without_jobs(memory);
        let room = left - memory / CACHE_PART_MIN;
        while taken.all() > room && self.change_filter(&mut taken, false, u64::MAX) {}
        if loads {
            let mut free = room.saturating_sub(taken.all());
            while self.change_filter(&mut taken, true, free) {
                free = room.saturating_sub(taken.all());
            }
        }
        self.cache.set_bytes_max(left.saturating_sub(taken.all()) / 100 * CACHED_PERCENT);
    }

    /// Drops a filter, or loads one that takes at most `room`; false where there is none.
    fn change_filter(&self, taken: &mut Taken<D::File>, loads: bool, room: u64) -> bool {
        let bytes = |placed: &Placed<_>| placed.table.filter_bytes() as u64;
        let may = |(_, placed): &(&u64, &Placed<_>)| {
            let bytes = bytes(placed);
            // What was just loaded is not to go at once.
            bytes > 0 && placed.table.lacks_filter() == loads && bytes + room / 16 <= room
        };
        let weight = |(_, placed): &(&u64, &Placed<_>)| (placed.is_oldest, bytes(placed));
        let found = match loads {
            true => taken.tables.iter().filter(may).min_by_key(weight),
            false => taken.tables.iter().filter(may).max_by_key(weight),
        };
        let Some((number, placed)) = found else { return false };
        let number = *number;
        match placed.table.filtered(loads) {
            Ok(table) => {
                let table = Arc::new(table);
                self.put_table(number, &table);
                taken.tables.get_mut(&number).expect("it is there").table = table;
                true
            }
            Err(error) => {
                ::log::warn!("reading a filter: {error}");
                false
            }
        }
    }

    /// Puts a table in the place of the one with the same number, which has the same entries.
    fn put_table(&self, number: u64, table: &Arc<Table<D::File>>) {
        let is_it = |part: &Part<D>| part.table.number == number;
        for bucket in self.buckets().iter() {
            let mut stores = bucket.write();
            let mut runs = stores.version.runs.clone();
            let mut with_it = runs.iter_mut().filter(|run| run.iter().any(is_it)).peekable();
            if with_it.peek().is_none() {
                continue;
            }
            for part in with_it.flat_map(Run::parts_mut).filter(|part| is_it(part)) {
                part.table.table = Arc::clone(table);
            }
            let before = &stores.version;
            let version = Version::new(runs, before.floor, before.deleted.clone()).after(before);
            stores.version = Arc::new(version);
        }
    }

    pub(crate) fn report_memory(&self, visitor: &mut dyn MetricVisitor) {
        let taken = self.taken();
        let tables = taken.table_bytes();
        let lacking = taken.tables.values().filter(|placed| placed.table.lacks_filter()).count();
        for (name, value) in [
            ("block_cache_hits", self.cache.hits()),
            ("block_cache_misses", self.cache.misses()),
            ("block_cache_bytes", self.cache.bytes()),
            ("block_cache_bytes_max", self.cache.bytes_max()),
            ("memtable_index_bytes", taken.directories),
            ("table_index_bytes", tables),
            ("index_bytes", taken.directories + tables),
            ("indexes_dropped", lacking as u64),
            ("log_bytes", self.log.file_bytes()),
            ("memory_budget_bytes", self.memory_bytes.load(Ordering::Relaxed)),
        ] {
            visitor.metric(name, value as f64);
        }
    }
}
