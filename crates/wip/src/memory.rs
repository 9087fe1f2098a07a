//! The memory number, and who gets what of it: the log's window first, then the memtables'
//! directories, the tables' indexes and filters and the buffers of jobs, each as much as it needs;
//! the block cache takes what is left, and gives way as the others grow.
//!
//! Where indexes and filters leave the cache less than its least part, filters go: those of the
//! oldest runs first, which are the largest and save no read of a key that is there, then those of
//! others. A key that is looked for in a table without a filter costs a read. They come back, the
//! smallest first, when there is room. Indexes stay: they take a quarter of a byte a key.
//!
//! Only gets ask filters, and the longer the log's window, the fewer and larger are the flushes. So
//! while there are gets, the window is as long as all filters let it be, but at least its least
//! part; while there are only writes, it has its whole part where indexes and directories let it,
//! and filters are not read for nothing.
//!
//! The log grows by a segment and gets shorter by one many times a second while much is written.
//! Filters and blocks are not to come and go with that, so it counts as long as it was lately.

use crate::bucket::{Bucket, Version};
use crate::contents::Contents;
use crate::metrics::Metrics;
use crate::options::{BUILT_KEY_BYTES, Config, FILTERS_PART_MAX, READ_AHEAD_PART};
use crate::run::{Numbered, Part, Run};
use crate::table_memory::TableMemory;
use silica_device::{Device, return_freed_memory};
use silica_engine::{ChangeRing, MetricVisitor};
use silica_parts::table::Table;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The part of the memory that is for jobs' buffers at most: reading ahead, writing, filters to be
/// built.
const JOBS_PART_MAX: u64 = 5;
/// What they need in any case.
const JOBS_BYTES: u64 = 16 << 20;
/// The part of the memory, of that for jobs, that buffers take which no job has in use.
pub(crate) const BUFFERS_PART: u64 = 64;
/// The part that compactions may take at once.
const COMPACTIONS_PART_MAX: u64 = 4;
/// The part that the block cache has at least, as long as there are filters that may go.
const CACHE_PART_MIN: u64 = 16;
/// The part that the log's window has at least, where its size is not given.
const LOG_PART_MIN: u64 = 8;
/// Requests that say what memory is for, and writes for one read of which it is for reads, too.
const REQUESTS_MIN: u64 = 4096;
const READ_WRITES: u64 = 8;
/// How much less the log was lately, each time that memory is shared, and the room that is left
/// when a filter comes back, as parts of what there is.
const LATELY_PART: u64 = 64;
const SPARED_PART: u64 = 64;
/// The cache grows once it may by more than one part in so many: memory that it gives up and gets
/// back has to be found again, page by page.
const GROWN_PART: u64 = 16;

/// The part of the memory that filters and jobs may leave with the allocator.
const TRIMMED_PART: u64 = 16;
/// The percentage of its memory that the cache may fill: readers may have blocks that it has no
/// more, and blocks lie in memory of a few sizes.
const CACHED_PERCENT: u64 = 80;

/// The memory of a store: how much there is, and what was asked of the store lately, which decides
/// who gets it.
pub(crate) struct MemoryBudget {
    /// The memory number as it is now.
    bytes: AtomicU64,
    /// All requests when somebody last looked.
    gets: AtomicU64,
    searches: AtomicU64,
    writes: AtomicU64,
    /// There were gets among them; gets or searches of ranges.
    has_gets: AtomicBool,
    has_reads: AtomicBool,
    /// Filters are missing, and memory may not have been shared since the last job.
    lacks_filters: AtomicBool,
    /// Bytes of the log's window that others leave.
    log_room_bytes: AtomicU64,
    /// The log's length lately.
    log_bytes: AtomicU64,
    /// Bytes of filters and of jobs' buffers that went since the allocator last gave memory back.
    dropped_bytes: AtomicU64,
}

/// An open table, and where it is.
struct Placed<F> {
    number: u64,
    table: Arc<Table<F>>,
    /// It is a bucket's oldest run.
    is_oldest: bool,
}

/// What takes memory besides the block cache.
struct Taken {
    log: u64,
    /// Of memtables; and the changes that are kept.
    directories: u64,
    /// Of all tables.
    table_bytes: u64,
    /// Of filters that are in memory, what others would take, and how many these are.
    loaded_bytes: u64,
    lacking_bytes: u64,
    lacking: usize,
    /// The most versions of a table.
    versions: u64,
}

impl Taken {
    fn all(&self) -> u64 {
        self.log + self.directories + self.table_bytes
    }

    /// What is left of the memory when jobs have theirs. The filter that is built next has about
    /// as many keys as the largest that is there.
    fn without_jobs(&self, memory: u64) -> u64 {
        let building = BUILT_KEY_BYTES * self.versions;
        let building = building.min(memory / FILTERS_PART_MAX);
        memory - JOBS_BYTES.min(memory / JOBS_PART_MAX) - building
    }

    /// A table's filter came or went.
    fn replace(&mut self, before: &TableMemory, now: &TableMemory) {
        let change = |sum: &mut u64, of: fn(&TableMemory) -> u64| {
            *sum = (*sum + of(now)).saturating_sub(of(before));
        };
        change(&mut self.table_bytes, |table| table.bytes);
        change(&mut self.loaded_bytes, |table| table.loaded_bytes);
        change(&mut self.lacking_bytes, |table| table.lacking_bytes);
    }
}

impl MemoryBudget {
    pub(crate) fn new(bytes: u64) -> Self {
        MemoryBudget {
            bytes: AtomicU64::new(bytes),
            gets: AtomicU64::new(0),
            searches: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            has_gets: AtomicBool::new(true),
            has_reads: AtomicBool::new(true),
            lacks_filters: AtomicBool::new(true),
            log_room_bytes: AtomicU64::new(u64::MAX),
            log_bytes: AtomicU64::new(0),
            dropped_bytes: AtomicU64::new(0),
        }
    }

    /// The memory number.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Changes the memory number; what follows from it comes with the next time that it is shared.
    pub(crate) fn set_bytes(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of entries that are in no table yet at which a flush is due.
    pub(crate) fn memtable_bytes_max(&self, config: &Config) -> u64 {
        config.memtable_bytes_max(self.bytes())
    }

    /// Bytes of a segment of the log.
    pub(crate) fn log_segment_bytes(&self, config: &Config) -> u64 {
        config.segment_bytes(self.bytes())
    }

    /// True where a compaction of `bucket` has memory beside those of `busy` buckets; one always
    /// has.
    pub(crate) fn has_memory_for<D: Device>(
        &self,
        bucket: &Bucket<D>,
        busy: &[Arc<Bucket<D>>],
    ) -> bool {
        let memory = self.bytes();
        let needs = |bucket: &Bucket<D>| {
            let version = bucket.read().version.clone();
            let read_ahead = version.bytes().min(memory / READ_AHEAD_PART);
            read_ahead + BUILT_KEY_BYTES * version.shape().live_keys()
        };
        let others: u64 = busy.iter().map(|bucket| needs(bucket)).sum();
        others == 0 || others + needs(bucket) <= memory / COMPACTIONS_PART_MAX
    }

    fn taken<D: Device>(contents: &Contents<D>) -> Taken {
        let changes = contents.changes.as_ref().map_or(0, ChangeRing::bytes);
        let (mut directories, mut tables) = (changes, Vec::new());
        for bucket in contents.buckets().iter() {
            let stores = bucket.read();
            directories += stores.directory_bytes();
            tables.extend_from_slice(stores.version.tables());
        }
        silica_base::compact_sort_by_key(&mut tables, |table| table.number);
        tables.dedup_by_key(|table| table.number);
        let sum = |of: fn(&TableMemory) -> u64| tables.iter().map(of).sum();
        Taken {
            log: contents.log.mapped_bytes(),
            directories,
            table_bytes: sum(|table| table.bytes),
            loaded_bytes: sum(|table| table.loaded_bytes),
            lacking_bytes: sum(|table| table.lacking_bytes),
            lacking: tables.iter().filter(|table| table.lacking_bytes > 0).count(),
            versions: tables.iter().map(|table| table.versions).max().unwrap_or(0),
        }
    }

    /// All tables, each once.
    fn placed<D: Device>(contents: &Contents<D>) -> Vec<Placed<D::File>> {
        let mut tables = Vec::new();
        for bucket in contents.buckets().iter() {
            let version = bucket.read().version.clone();
            let runs = version.runs.iter().enumerate();
            for (at, part) in runs.flat_map(|(at, run)| run.iter().map(move |part| (at, part))) {
                let is_oldest = at + 1 == version.runs.len();
                let (number, table) = (part.table.number, Arc::clone(&part.table.table));
                tables.push(Placed { number, table, is_oldest });
            }
        }
        silica_base::compact_sort_by_key(&mut tables, |placed| placed.number);
        tables.dedup_by_key(|placed| placed.number);
        tables
    }

    /// The log's length as it counts, when it is `now`: the most that it was lately.
    fn log_lately(&self, now: u64) -> u64 {
        let before = self.log_bytes.load(Ordering::Relaxed);
        let lately = now.max(before - before / LATELY_PART);
        self.log_bytes.store(lately, Ordering::Relaxed);
        lately
    }

    /// Bytes of the log at which the buckets at its tail are flushed.
    pub(crate) fn log_bytes_max(&self, config: &Config) -> u64 {
        let most = config.log_bytes_max(self.bytes());
        if config.gives_log_bytes() {
            return most;
        }
        most.min(self.log_room_bytes.load(Ordering::Relaxed))
    }

    /// Lets the log's window have what the others leave of the memory `without_jobs`: where there
    /// are gets, beside all filters and the least cache, else beside none.
    fn size_log(&self, config: &Config, taken: &Taken, without_jobs: u64, has_gets: bool) {
        let memory = self.bytes();
        let others = taken.directories + taken.table_bytes;
        let others = match has_gets {
            true => others + taken.lacking_bytes + memory / CACHE_PART_MIN,
            false => others - taken.loaded_bytes,
        };
        // The first and the last segment may be nearly empty; filters leave some when they come.
        let unused = 2 * config.segment_bytes(memory) + memory / SPARED_PART;
        let left = without_jobs.saturating_sub(others + unused).max(memory / LOG_PART_MIN);
        self.log_room_bytes.store(left, Ordering::Relaxed);
    }

    /// Looks at what was asked since the last time, where that is enough to tell.
    fn look_at_requests(&self, metrics: &Metrics) {
        let (m, seen) = (metrics, self);
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let writes = m.calls.sum(|c| &c.puts) + m.calls.sum(|c| &c.deletes);
        let now = [m.calls.sum(|c| &c.gets), load(&m.searches), writes];
        let before = [&seen.gets, &seen.searches, &seen.writes];
        let [gets, searches, writes] =
            std::array::from_fn(|i| now[i].saturating_sub(load(before[i])));
        if gets + searches + writes >= REQUESTS_MIN {
            before.iter().zip(now).for_each(|(seen, now)| seen.store(now, Ordering::Relaxed));
            seen.has_gets.store(gets * READ_WRITES >= writes, Ordering::Relaxed);
            seen.has_reads.store((gets + searches) * READ_WRITES >= writes, Ordering::Relaxed);
        }
    }

    /// True where there were gets lately, which filters spare reads.
    fn has_gets(&self, metrics: &Metrics) -> bool {
        self.look_at_requests(metrics);
        self.has_gets.load(Ordering::Relaxed)
    }

    /// True where there were reads lately, which may find blocks in the cache.
    pub(crate) fn has_reads(&self, metrics: &Metrics) -> bool {
        self.look_at_requests(metrics);
        self.has_reads.load(Ordering::Relaxed)
    }

    /// Where there is nothing to do: has filters come back that there is room for, once after each
    /// job and then whenever there were many gets.
    pub(crate) fn recall_filters<D: Device>(&self, contents: &Contents<D>) {
        let seen = self;
        let gets = contents.metrics.calls.sum(|c| &c.gets);
        let is_due = gets.saturating_sub(seen.gets.load(Ordering::Relaxed)) >= REQUESTS_MIN;
        // While there are only writes, the next one would take their memory again.
        let is_new =
            self.has_gets(&contents.metrics) && seen.lacks_filters.swap(false, Ordering::Relaxed);
        if is_new || is_due && Self::lacks_filters(contents) {
            // The log neither grows nor gets shorter.
            seen.log_bytes.store(0, Ordering::Relaxed);
            self.share_and(contents, true);
            seen.lacks_filters.store(false, Ordering::Relaxed);
        }
    }

    fn lacks_filters<D: Device>(contents: &Contents<D>) -> bool {
        let buckets = contents.buckets();
        let mut versions = buckets.iter().map(|bucket| bucket.read().version.clone());
        versions.any(|version| {
            version.runs.iter().flatten().any(|part| part.table.table.lacks_filter())
        })
    }

    /// Gives the block cache what the others leave, and has filters go or, if it may read them and
    /// somebody asks them, come back. Where nobody attends to the store, nobody would see to it
    /// later, when they are asked.
    pub(crate) fn share<D: Device>(
        &self,
        contents: &Contents<D>,
        may_load: bool,
        is_attended: bool,
    ) {
        let loads = may_load && (self.has_gets(&contents.metrics) || !is_attended);
        self.share_and(contents, loads);
    }

    fn share_and<D: Device>(&self, contents: &Contents<D>, loads: bool) {
        let memory = self.bytes();
        let mut taken = Self::taken(contents);
        let left = taken.without_jobs(memory);
        let room = left - memory / CACHE_PART_MIN;
        self.size_log(&contents.config, &taken, left, self.has_gets(&contents.metrics));
        taken.log = self.log_lately(taken.log);
        let (has_to_go, may_come) = (taken.loaded_bytes > 0, loads && taken.lacking_bytes > 0);
        if taken.all() > room && has_to_go || may_come {
            self.change_filters(contents, &mut taken, room, loads);
        }
        self.lacks_filters.store(taken.lacking_bytes > 0, Ordering::Relaxed);
        let cached = left.saturating_sub(taken.all()) / 100 * CACHED_PERCENT;
        let before = contents.tables.cache.bytes_max();
        if cached < before || cached - before > before / GROWN_PART {
            contents.tables.cache.set_bytes_max(cached);
        }
    }

    /// Has filters go while more than `room` is taken, and, if it `loads`, come back.
    fn change_filters<D: Device>(
        &self,
        contents: &Contents<D>,
        taken: &mut Taken,
        room: u64,
        loads: bool,
    ) {
        let (mut tables, before) = (Self::placed(contents), taken.table_bytes);
        while taken.all() > room
            && Self::change_filter(contents, &mut tables, taken, false, u64::MAX)
        {}
        self.note_dropped(before.saturating_sub(taken.table_bytes));
        if loads {
            let room = room - room / SPARED_PART;
            let free = |taken: &Taken| room.saturating_sub(taken.all());
            let mut left = free(taken);
            while Self::change_filter(contents, &mut tables, taken, true, left) {
                left = free(taken);
            }
        }
    }

    /// A table that was just written, without its filter where the filter would go at once.
    pub(crate) fn as_it_stays<D: Device>(
        &self,
        metrics: &Metrics,
        table: Numbered<D>,
        is_attended: bool,
    ) -> Numbered<D> {
        let goes = self.lacks_filters.load(Ordering::Relaxed) && !self.has_gets(metrics);
        if !goes || !is_attended {
            return table;
        }
        // Nothing is read for it, so it does not fail.
        let Ok(bare) = table.table.filtered(false) else { return table };
        self.note_dropped(table.table.loaded_filter_bytes() as u64);
        Numbered { table: Arc::new(bare), ..table }
    }

    /// Has the allocator give back what it has, where so many `bytes` more came to much: what was
    /// freed in small pieces stays resident otherwise.
    pub(crate) fn note_dropped(&self, bytes: u64) {
        let seen = &self.dropped_bytes;
        let dropped = seen.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if dropped >= self.bytes() / TRIMMED_PART {
            seen.store(0, Ordering::Relaxed);
            return_freed_memory();
        }
    }

    /// Drops a filter, or loads one that takes at most `room`; false where there is none.
    fn change_filter<D: Device>(
        contents: &Contents<D>,
        tables: &mut [Placed<D::File>],
        taken: &mut Taken,
        loads: bool,
        room: u64,
    ) -> bool {
        let bytes = |placed: &Placed<_>| placed.table.filter_bytes() as u64;
        let may = |placed: &&mut Placed<_>| {
            let bytes = bytes(placed);
            // What was just loaded is not to go at once.
            bytes > 0 && placed.table.lacks_filter() == loads && bytes + room / 16 <= room
        };
        let weight = |placed: &&mut Placed<_>| (placed.is_oldest, bytes(placed));
        let found = match loads {
            true => tables.iter_mut().filter(may).min_by_key(weight),
            false => tables.iter_mut().filter(may).max_by_key(weight),
        };
        let Some(placed) = found else { return false };
        match placed.table.filtered(loads) {
            Ok(table) => {
                let table = Arc::new(table);
                Self::put_table(contents, placed.number, &table);
                let memory = |table: &Table<_>| TableMemory::of(placed.number, table);
                taken.replace(&memory(&placed.table), &memory(&table));
                placed.table = table;
                true
            }
            Err(error) => {
                ::log::warn!("reading a filter: {error}");
                false
            }
        }
    }

    /// Puts a table in the place of the one with the same number, which has the same entries.
    fn put_table<D: Device>(contents: &Contents<D>, number: u64, table: &Arc<Table<D::File>>) {
        let is_it = |part: &Part<D>| part.table.number == number;
        for bucket in contents.buckets().iter() {
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
            stores.set_version(version);
        }
    }

    pub(crate) fn report<D: Device>(
        &self,
        contents: &Contents<D>,
        visitor: &mut dyn MetricVisitor,
    ) {
        let taken = Self::taken(contents);
        let tables = taken.table_bytes;
        let lacking = taken.lacking;
        for (name, value) in [
            ("block_cache_hits", contents.tables.cache.hits()),
            ("block_cache_misses", contents.tables.cache.misses()),
            ("block_cache_bytes", contents.tables.cache.bytes()),
            ("block_cache_bytes_max", contents.tables.cache.bytes_max()),
            ("memtable_index_bytes", taken.directories),
            ("table_index_bytes", tables),
            ("index_bytes", taken.directories + tables),
            ("indexes_dropped", lacking as u64),
            ("log_bytes", contents.log.file_bytes()),
            ("memory_budget_bytes", self.bytes()),
        ] {
            visitor.metric(name, value as f64);
        }
    }
}
