//! Background work in steps: flushes, compactions, splits, joins. A `maintain` call takes a paused
//! job or begins the most urgent one, goes on with it for a while, and puts it back or ends it.
//! Several threads may do so at once; writers do, too, where maintenance is behind. A thread that
//! finds all of it in others' hands waits for them, since what they put back is to go on at once.
//!
//! 1. A memtable is in one flush at a time, a bucket's runs in one compaction, split or join.
//! 2. Versions of buckets are replaced under the install lock, relative to what is there then.
//!    Locks are taken in the order list, install, book or writer, bucket.
//! 3. A job that fails or is dropped leaves nothing but a file that it removes; the work is found
//!    again by the next call.

use crate::bucket::{Bucket, Frozen, Version};
use crate::buckets::Buckets;
use crate::compaction::Compaction;
use crate::dead::unneeded_bytes;
use crate::deleted::DeletedRange;
use crate::flush::Flush;
use crate::job::{Claim, Job};
use crate::job_list::{ASSIST_EVERY_BYTES, List, Pressure, WAIT_MAX};
use crate::metrics::add;
use crate::policy::{Demand, RANGES_MAX, READ_WEIGHT_USUAL, SKIPPED_BYTES, View, Work};
use crate::step::Step;
use crate::wip::Wip;
use silica_base::{ErrorKind, Result};
use silica_device::Device;
use silica_engine::{Budget, Progress};
use silica_parts::wal::POSITION_BYTES;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, TryLockError};

/// How far behind maintenance is where writers begin to help, where they begin to wait, and where
/// they go no further before something has ended. 1 is where maintenance begins.
const ASSIST_PRESSURE: f64 = 1.5;
/// The first for the log, where nobody else attends to the store: one that grew further would take
/// the memory of filters, which all reads pay for.
const LOG_ALONE_PRESSURE: f64 = 1.0;
const WAIT_PRESSURE: f64 = 2.0;
const STOP_PRESSURE: f64 = 4.0;
/// What the log may be too long where writers stop: a part of its limit, or these bytes.
const LOG_OVER_PART: u64 = 6;
const LOG_OVER_BYTES: u64 = 512 << 10;
/// A writer's share of maintenance per byte written, for each unit of pressure above where
/// slowing begins, and at the most.
const ASSIST_BYTES_PER_BYTE: f64 = 16.0;
const ASSIST_BYTES_PER_BYTE_MAX: f64 = 24.0;
/// Jobs that writers leave to others to end, at most: each has its buffers.
const PAUSED_MAX: usize = 4;
/// Bytes that others move at once while tables become durable: what they free is waited for.
const STEP_BYTES_MAX: u64 = 256 << 10;
/// Jobs that are at their end and wait for the device, at most; flushes that end together, and
/// bytes of their memtables.
const ENDING_MAX: usize = 12;
const ENDS_MAX: usize = 8;
const ENDED_BYTES_MAX: u64 = 4 << 20;
/// Memtables of less than one part in so many of the limit, or of so many bytes, are flushed
/// together with others like them.
const SMALL_PART: u64 = 256;
const SMALL_BYTES: u64 = 16 << 10;
/// Bytes of a flush that one search of a range in a memtable is worth at the usual read weight:
/// some fifty entries take 20 microseconds longer than in a table, in which a flush writes as much.
const SEARCH_BYTES: u64 = 4 << 10;
/// Memtables of fewer bytes stay, however often ranges of them are read: a table is a file.
const FLUSHED_FOR_RANGES_MIN: u64 = 1 << 20;
/// The fewest bytes of a memtable that is flushed because iterators went through many of its
/// entries that are gone.
const FLUSHED_FOR_SKIPS_MIN: u64 = 64 << 10;
/// How often what all buckets said of compaction is an answer, where no job ended meanwhile.
const ANSWERS_MAX: u32 = 64;
/// A bucket with at most so many entries outside of tables may be joined with another.
const JOIN_ENTRIES_MAX: usize = 1000;

/// The pressure of a log of `window` bytes that is to be flushed from `max` on. What it has more is
/// memory that nobody else can do without, so past that it grows fast.
fn log_pressure(window: u64, max: u64) -> f64 {
    let over = window.saturating_sub(max) as f64;
    let room = (max / LOG_OVER_PART).max(LOG_OVER_BYTES);
    window.min(max) as f64 / max.max(1) as f64 + over / room as f64 * (STOP_PRESSURE - 1.0)
}

impl<D: Device> Wip<D> {
    /// Does background work of about `budget`, called by who has nothing else to do.
    pub(crate) fn attend(&self, budget: Budget) -> Result<Progress> {
        self.jobs.inside.fetch_add(1, Ordering::Relaxed);
        if budget.is_idle {
            self.jobs.quiet_at.store(self.log.end(), Ordering::Relaxed);
        }
        if self.space.is_short() {
            self.space_context().look(0);
        }
        let result = self.attend_log().and_then(|()| self.run_jobs(budget.bytes, true));
        let mut result = result.and_then(|progress| self.attend_values(progress));
        if let Ok(progress) = &mut result
            && !progress.more
        {
            self.memory.recall_filters(self);
            progress.more = self.jobs.wait_for_others();
            if !progress.more {
                self.space_context().stop_wanting();
            }
        }
        self.jobs.attended_at.store(self.log.end(), Ordering::Relaxed);
        self.jobs.inside.fetch_sub(1, Ordering::Relaxed);
        result
    }

    /// A step for the value log, where nothing else is to be done or it cannot wait.
    fn attend_values(&self, mut progress: Progress) -> Result<Progress> {
        if (!progress.more || self.values_press())
            && let Some(bytes) = self.step_values()?
        {
            progress.bytes += bytes;
            progress.more = true;
        }
        Ok(progress)
    }

    /// Goes on with jobs for about `budget` bytes; with the end of one, and with what has to wait
    /// for the device, only where `may_end`.
    pub(crate) fn run_jobs(&self, budget: u64, may_end: bool) -> Result<Progress> {
        let mut done = 0;
        loop {
            let Some(mut job) = self.take_job(may_end) else {
                return Ok(Progress { bytes: done, more: false });
            };
            let mut claim = job.claim();
            let mut bytes = budget.saturating_sub(done);
            if may_end && self.jobs.lock().paused.iter().any(Job::ends_next) {
                bytes = bytes.min(STEP_BYTES_MAX);
            }
            let step = job.step(&self.job_context(), bytes, may_end);
            let ended = match step {
                Ok(Step::More(bytes)) => {
                    done += bytes.max(1);
                    self.space.count(bytes);
                    self.jobs.put_back(job);
                    None
                }
                Ok(Step::Waits(bytes)) => {
                    self.space.count(bytes);
                    self.jobs.put_back(job);
                    return Ok(Progress { bytes: done + bytes, more: true });
                }
                Ok(Step::Ready) if !may_end => {
                    self.jobs.put_back(job);
                    return Ok(Progress { bytes: done, more: true });
                }
                Ok(Step::Ready) => Some(self.end(job, &mut claim)),
                Err(error) => {
                    drop(job);
                    Some(Err(error))
                }
            };
            if let Some(ended) = ended {
                self.jobs.lock().forget(&claim);
                self.jobs.ended.notify_all();
                self.jobs.stuck.store(ended.is_err(), Ordering::Relaxed);
                if ended.as_ref().is_err_and(|error| error.kind() == ErrorKind::Full) {
                    self.space_context().note_full();
                }
                done += ended?;
                self.release_log()?;
                self.share_memory(true);
                if self.space.is_short() || self.space.is_look_due() {
                    self.space_context().look(0);
                }
            }
            if done >= budget {
                return Ok(Progress { bytes: done, more: true });
            }
        }
    }

    /// Ends a job; with a flush, all that are durable: they share the syncs of the log, of the
    /// directory and of the manifest. Their claims come to its own.
    fn end(&self, job: Job<D>, claim: &mut Claim<D>) -> Result<u64> {
        let Job::Flush(flush) = job else { return job.finish(&self.job_context()) };
        let mut flushes = vec![flush];
        let mut list = self.jobs.lock();
        let is_durable = |job: &Job<D>| job.is_ready_flush() && !job.would_wait_to_end();
        while let Some(at) = list.paused.iter().position(is_durable) {
            let job = list.paused.swap_remove(at);
            claim.frozen.extend(job.claim().frozen);
            flushes.extend(job.into_flush());
        }
        drop(list);
        Flush::finish(flushes, &self.job_context())
    }

    /// A paused job, or a new one; `None` where there is nothing to do. Ends of
    /// jobs come first, and splits: they move nothing, and what is flushed or merged later is the
    /// smaller for them. Only flushes wait for a few others, to end together.
    fn take_job(&self, may_end: bool) -> Option<Job<D>> {
        let mut list = self.jobs.lock();
        if self.space.is_short() {
            return self.take_job_for_space(&mut list, may_end);
        }
        if may_end {
            let ending = self.job_to_end(&mut list);
            if ending.is_some() {
                return ending;
            }
            if let Some(split) = self.begin_split(&mut list) {
                return Some(split);
            }
        }
        let pressure = self.pressure(&mut list);
        let flush_first = pressure.flush.max(pressure.log) >= pressure.compaction.max(1.0);
        for flushes in [flush_first, !flush_first] {
            let fits = |job: &Job<D>| job.is_flush() == flushes && !job.ends_next();
            if let Some(at) = list.paused.iter().position(fits) {
                return Some(list.paused.swap_remove(at));
            }
            if !may_end && list.paused.len() >= PAUSED_MAX {
                continue;
            }
            let begun = if flushes {
                let due = self.next_flush(&list);
                self.begin_flush(&mut list, due)
            } else {
                self.begin_other(&mut list, may_end)
            };
            if begun.is_some() {
                return begun;
            }
        }
        let idle = if may_end { self.begin_idle(&mut list) } else { None };
        if idle.is_some() {
            return idle;
        }
        // There is nothing to do but to wait for the device.
        let at = list.paused.iter().position(Job::ends_next).filter(|_| may_end)?;
        Some(list.paused.swap_remove(at))
    }

    /// Where jobs are at their end: a small flush that is to end with others, or a job that ends
    /// without waiting for its table, or the first where many wait for theirs. What is at its end
    /// keeps its buffers until then.
    fn job_to_end(&self, list: &mut List<D>) -> Option<Job<D>> {
        let ending = list.paused.iter().filter(|job| job.ends_next()).count();
        if ending == 0 {
            return None;
        }
        let joins = self.flush_that_joins(list);
        if joins.is_some() {
            return joins;
        }
        let is_durable = |job: &Job<D>| job.ends_next() && !job.would_wait_to_end();
        let first = || list.paused.iter().position(Job::ends_next).filter(|_| ending >= ENDING_MAX);
        let at = list.paused.iter().position(is_durable).or_else(first)?;
        Some(list.paused.swap_remove(at))
    }

    /// Where nothing but a few small flushes is ready to end: another small one, which is soon.
    fn flush_that_joins(&self, list: &mut List<D>) -> Option<Job<D>> {
        let ready = || list.paused.iter().filter(|job| job.ends_next());
        let bytes: u64 = ready().filter_map(Job::flush_bytes).sum();
        if ready().count() >= ENDS_MAX || !ready().all(Job::is_ready_flush) {
            return None;
        }
        let fits = |more: u64| bytes + more <= ENDED_BYTES_MAX;
        let begun = |job: &Job<D>| !job.ends_next() && job.flush_bytes().is_some_and(fits);
        if let Some(at) = list.paused.iter().position(begun) {
            return Some(list.paused.swap_remove(at));
        }
        let due = self.next_flush(list);
        let is_small = fits(due.iter().map(|frozen| frozen.bytes).sum());
        if is_small { self.begin_flush(list, due) } else { None }
    }

    /// While room on the device is short: only what frees some.
    fn take_job_for_space(&self, list: &mut List<D>, may_end: bool) -> Option<Job<D>> {
        let fits = |job: &Job<D>| may_end || !job.ends_next();
        if let Some(at) = list.paused.iter().position(fits) {
            return Some(list.paused.swap_remove(at));
        }
        if let Some((bucket, count)) =
            self.space_context().expired_bucket(|bucket| !list.is_busy(bucket))
        {
            list.busy.push(Arc::clone(&bucket));
            return Some(Job::Compaction(Box::new(Compaction::new(bucket, count, 0))));
        }
        if self.space_context().pauses() {
            return None;
        }
        if self.space_context().is_flush_due() {
            // All together: each table takes much more than a few entries.
            let all = self.space_context().flush(|frozen| !list.is_flushing(frozen), true);
            return self.begin_flush(list, all);
        }
        let found = self.space_context().compaction(|bucket| !list.is_busy(bucket));
        let Some((bucket, count)) = found else {
            let worth = self.space_context().flush(|frozen| !list.is_flushing(frozen), false);
            return self.begin_flush(list, worth);
        };
        list.busy.push(Arc::clone(&bucket));
        Some(Job::Compaction(Box::new(Compaction::new(bucket, count, 0))))
    }

    fn begin_flush(&self, list: &mut List<D>, frozen: Vec<Arc<Frozen>>) -> Option<Job<D>> {
        if frozen.is_empty() {
            return None;
        }
        let flush = Flush::new(self, frozen.clone())?;
        list.flushing.extend(frozen);
        Some(Job::Flush(flush))
    }

    /// What to flush: memtables that are frozen; or those at the tail of a log that is too long,
    /// small ones together; or, where all are too large, the largest. Before the last two, one of
    /// a bucket of which many ranges were deleted, or all that its runs have: a compaction ends
    /// that, and knows of no range before the memtable that came with it is flushed.
    fn next_flush(&self, list: &List<D>) -> Vec<Arc<Frozen>> {
        let buckets = self.buckets();
        let mut free: Vec<(u64, u64, &Arc<Bucket<D>>)> = Vec::new();
        let mut of_many_ranges = None;
        for (place, bucket) in buckets.iter().enumerate() {
            let stores = bucket.read();
            let is_all =
                |range: &Arc<DeletedRange>| range.is_all_of(&bucket.lower, buckets.upper(place));
            match stores.frozen.last() {
                Some(frozen) if list.is_flushing(frozen) => {}
                Some(frozen) => return vec![Arc::clone(frozen)],
                None => {
                    let oldest = stores.oldest().map(|at| (at, stores.active_bytes(), bucket));
                    free.extend(oldest);
                    let is_emptied =
                        !stores.version.runs.is_empty() && stores.deleted.iter().any(is_all);
                    if is_emptied || stores.deleted.len() > RANGES_MAX {
                        of_many_ranges = Some(bucket);
                    }
                }
            }
        }
        if let Some(bucket) = of_many_ranges {
            return self.oldest_frozen(bucket).into_iter().collect();
        }
        let window = |at: u64| self.log.end().saturating_sub(at * POSITION_BYTES);
        let log_max = self.log_bytes_max();
        silica_base::compact_sort_by_key(&mut free, |(at, ..)| *at);
        let Some((tail, tail_bytes, first)) = free.first().copied() else { return Vec::new() };
        let small = (self.memtable_bytes_max() / SMALL_PART).max(SMALL_BYTES);
        let mut chosen = vec![first];
        if window(tail) > log_max {
            if tail_bytes <= small {
                // Others that would be next.
                let near = |at: u64| window(at) > log_max - log_max / 4;
                let others = free[1..].iter().take_while(|(at, ..)| near(*at));
                chosen.extend(others.filter(|(_, b, _)| *b <= small).map(|(.., bucket)| *bucket));
            }
        } else {
            let inside: u64 = list.flushing.iter().map(|frozen| frozen.bytes).sum();
            let unflushed = self.metrics.unflushed_bytes().saturating_sub(inside);
            if unflushed <= self.memtable_bytes_max() {
                return self.flush_for_ranges(&free);
            }
            chosen = free
                .iter()
                .max_by_key(|(_, b, _)| *b)
                .map(|(.., bucket)| *bucket)
                .into_iter()
                .collect();
        }
        if chosen.len() > 1 {
            add(&self.metrics.shared_flushes, 1);
        }
        chosen.iter().filter_map(|bucket| self.oldest_frozen(bucket)).collect()
    }

    /// A memtable for whose flush the searches of ranges in its bucket have paid: what is in order
    /// in a table is read much faster than what is anywhere in the log.
    fn flush_for_ranges(&self, free: &[(u64, u64, &Arc<Bucket<D>>)]) -> Vec<Arc<Frozen>> {
        let read_weight = self.config.policy.read_weight;
        let has_paid = |(_, bytes, bucket): &&(u64, u64, &Arc<Bucket<D>>)| {
            let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            let skips = load(&bucket.skipped_young) * SKIPPED_BYTES;
            let searches = match *bytes >= FLUSHED_FOR_RANGES_MIN {
                true => load(&bucket.searches) * SEARCH_BYTES,
                false => 0,
            };
            let worth = (searches + skips) * read_weight / READ_WEIGHT_USUAL;
            *bytes >= FLUSHED_FOR_SKIPS_MIN && worth >= *bytes
        };
        let found = free.iter().find(has_paid).filter(|_| !self.is_over_ceiling());
        let Some((.., bucket)) = found else { return Vec::new() };
        bucket.searches.store(0, Ordering::Relaxed);
        bucket.skipped_young.store(0, Ordering::Relaxed);
        self.oldest_frozen(bucket).into_iter().collect()
    }

    fn begin_split(&self, list: &mut List<D>) -> Option<Job<D>> {
        let (buckets, place) = self.with_views(list, |views| self.config.policy.split(views));
        let job = Job::Split(Arc::clone(buckets.at(place?)));
        list.busy.extend(job.claim().buckets);
        Some(job)
    }

    /// What the policy is to know.
    fn demand(&self) -> Demand {
        let is_attended = self.is_attended();
        let only_writes = is_attended && !self.memory.has_reads(&self.metrics);
        let (value_log_bytes, _) = self.values.bytes();
        let is_over_ceiling = self.is_over_ceiling();
        Demand { is_over_ceiling, is_attended, only_writes, value_log_bytes }
    }

    /// A compaction or a join.
    fn begin_other(&self, list: &mut List<D>, may_end: bool) -> Option<Job<D>> {
        let demand = self.demand();
        let (buckets, work) = self.with_views(list, |views| self.config.policy.next(views, demand));
        self.begin_work(list, &buckets, work?, may_end)
    }

    /// A compaction that nobody waits for: only in quiet times, since the next writes might make it
    /// part of one that has to be.
    fn begin_idle(&self, list: &mut List<D>) -> Option<Job<D>> {
        if self.jobs.quiet_at.load(Ordering::Relaxed) != self.log.end() {
            return None;
        }
        let demand = self.demand();
        let look = |views: &[View<'_>]| self.config.policy.when_idle(views, demand);
        let (buckets, work) = self.with_views(list, look);
        self.begin_work(list, &buckets, work?, true)
    }

    fn begin_work(
        &self,
        list: &mut List<D>,
        buckets: &Buckets<D>,
        work: Work,
        may_end: bool,
    ) -> Option<Job<D>> {
        let bucket = |place: usize| Arc::clone(buckets.at(place));
        if let Work::Compact { place, .. } = work
            && !self.memory.has_memory_for(buckets.at(place), &list.busy)
        {
            return None;
        }
        let job = match work {
            Work::Compact { place, count, older } => {
                bucket(place).reads.store(0, Ordering::Relaxed);
                bucket(place).range_reads.store(0, Ordering::Relaxed);
                bucket(place).skipped.store(0, Ordering::Relaxed);
                Job::Compaction(Box::new(Compaction::new(bucket(place), count, older)))
            }
            Work::Join(place) if may_end => Job::Join(bucket(place), bucket(place + 1)),
            Work::Join(_) => return None,
        };
        list.busy.extend(job.claim().buckets);
        Some(job)
    }

    /// Shows all buckets to `look`.
    fn with_views<T>(
        &self,
        list: &List<D>,
        look: impl FnOnce(&[View<'_>]) -> T,
    ) -> (Arc<Buckets<D>>, T) {
        let buckets = self.buckets();
        let (versions, are_idle): (Vec<Arc<Version<D>>>, Vec<bool>) = buckets
            .iter()
            .map(|bucket| {
                let stores = bucket.read();
                let is_idle = stores.frozen.is_empty() && stores.active.len() <= JOIN_ENTRIES_MAX;
                (Arc::clone(&stores.version), is_idle)
            })
            .unzip();
        let over_ms = self.snapshots.over_ms();
        let shapes: Vec<_> = versions.iter().map(|version| version.shape_at(over_ms)).collect();
        let unneeded = unneeded_bytes(&versions);
        let may_join = versions.len() > self.config.first_buckets;
        let oldest = self.snapshots.positions().first().copied().unwrap_or(u64::MAX);
        let ranges = |place: usize, version: &Version<D>| {
            let before = version.floor.min(oldest);
            let ends = || version.deleted.iter().filter(|range| range.position < before);
            // Where all that was there is deleted, that is worth a compaction.
            let (lower, upper) = (&buckets.at(place).lower, buckets.upper(place));
            if ends().any(|range| range.is_all_of(lower, upper)) {
                RANGES_MAX + 1
            } else {
                ends().count()
            }
        };
        let views: Vec<View<'_>> = buckets
            .iter()
            .zip(&versions)
            .enumerate()
            .map(|(place, (bucket, version))| View {
                shape: &shapes[place],
                reads: bucket.reads.load(Ordering::Relaxed),
                range_reads: bucket.range_reads.load(Ordering::Relaxed),
                ranges: ranges(place, version),
                is_busy: list.is_busy(bucket),
                split_from_bytes: bucket.split_from_bytes.load(Ordering::Relaxed),
                is_idle: are_idle[place] && may_join,
                unneeded_bytes: version.unneeded_bytes(&unneeded),
                apart_bytes_over: version.apart_bytes_over(over_ms),
                skipped: bucket.skipped.load(Ordering::Relaxed),
            })
            .collect();
        let seen = look(&views);
        drop(views);
        (buckets, seen)
    }

    /// True where more was written for each byte of users than the ceiling allows. What the store
    /// had when it was opened counts as written by users: else one that is only read would never
    /// be compacted.
    fn is_over_ceiling(&self) -> bool {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let m = &self.metrics;
        let log = m.calls.sum(|c| &c.log_bytes);
        let written = log + load(&m.flush_bytes) + load(&m.compaction_bytes);
        let user = m.calls.sum(|c| &c.user_bytes) + load(&self.found_bytes);
        written / self.config.write_amplification_percent_max > user / 100
    }

    fn pressure(&self, list: &mut List<D>) -> Pressure {
        let unflushed = self.metrics.unflushed_bytes() as f64;
        let buckets = self.buckets();
        let oldest = buckets.iter().filter_map(|bucket| bucket.read().oldest()).min();
        let window = oldest.map_or(0, |at| self.log.end().saturating_sub(at * POSITION_BYTES));
        if list.answers_left == 0 {
            let demand = self.demand();
            let look = |views: &[View<'_>]| self.config.policy.pressure(views, demand);
            (_, list.compaction) = self.with_views(list, look);
            list.answers_left = ANSWERS_MAX;
        }
        list.answers_left -= 1;
        let compaction = list.compaction;
        let pressure = Pressure {
            flush: unflushed / self.memtable_bytes_max().max(1) as f64,
            log: log_pressure(window, self.log_bytes_max()),
            compaction,
        };
        *self.jobs.seen.lock().expect("no panic while held") = pressure;
        pressure
    }

    /// For a writer: how far behind all is, or was when somebody last looked, if another one is
    /// looking just now. Many writers would wait for each other else.
    fn pressure_lately(&self) -> Pressure {
        match self.jobs.list.try_lock() {
            Ok(mut list) => self.pressure(&mut list),
            Err(TryLockError::WouldBlock) => *self.jobs.seen.lock().expect("no panic while held"),
            Err(TryLockError::Poisoned(_)) => panic!("no panic while held"),
        }
    }

    /// Does the job that `make` makes, from its beginning to its end, as soon as no other is at
    /// work on the same. Others' jobs go on meanwhile.
    pub(crate) fn do_now(&self, make: &dyn Fn() -> Option<Job<D>>) -> Result<()> {
        let (mut job, claim) = loop {
            let mut list = self.jobs.lock();
            let Some(job) = make() else { return Ok(()) };
            let claim = job.claim();
            let is_free = !claim.frozen.iter().any(|frozen| list.is_flushing(frozen))
                && !claim.buckets.iter().any(|bucket| list.is_busy(bucket));
            if is_free {
                list.flushing.extend(claim.frozen.iter().cloned());
                list.busy.extend(claim.buckets.iter().cloned());
                break (job, claim);
            }
            drop(list);
            if self.run_jobs(ASSIST_EVERY_BYTES, true)?.bytes == 0 {
                // Another thread has it in hand.
                drop(self.jobs.ended.wait_timeout(self.jobs.lock(), WAIT_MAX));
            }
        };
        let ended = loop {
            match job.step(&self.job_context(), u64::MAX, true) {
                Ok(Step::More(_) | Step::Waits(_)) => {}
                Ok(Step::Ready) => break job.finish(&self.job_context()),
                Err(error) => break Err(error),
            }
        };
        self.jobs.lock().forget(&claim);
        self.jobs.ended.notify_all();
        ended?;
        self.release_log()
    }

    /// Before a write: where background work failed (a full disk, a damaged file) and is far
    /// behind, tries again and passes its error on. Deletes are let through: they make space.
    pub(crate) fn refuse_if_stuck(&self) -> Result<()> {
        if !self.jobs.stuck.load(Ordering::Relaxed) {
            return Ok(());
        }
        let result = self.run_jobs(ASSIST_EVERY_BYTES, true);
        let pressure = self.pressure(&mut self.jobs.lock()).most();
        if pressure < STOP_PRESSURE {
            return Ok(());
        }
        result.map(|_| ()).map_err(|error| error.within("background work cannot go on"))
    }

    /// After every [`Jobs::assist_every`] bytes of writes, `debt` in all: where maintenance is
    /// behind, does a share of it that grows with the backlog, so that writers slow down smoothly
    /// instead of stopping. Where threads attend to the store, they are left the ends of jobs,
    /// which wait for the device. The write itself is done, so an error here is for later ones.
    pub(crate) fn assist(&self, debt: u64) {
        if let Err(error) = self.sync_before_end() {
            ::log::warn!("a sync of a WipDB store's log: {error}");
        }
        let pressure = self.pressure_lately();
        let most = pressure.most();
        // Small memtables are flushed in one go.
        let is_long = self.memtable_bytes_max() > 64 * ASSIST_EVERY_BYTES;
        let is_attended = self.is_attended();
        let log_from = if is_attended { ASSIST_PRESSURE } else { LOG_ALONE_PRESSURE };
        let over = (most - ASSIST_PRESSURE).max(pressure.log - log_from);
        self.jobs.helped.store(is_long && over >= 0.0, Ordering::Relaxed);
        if over < 0.0 {
            return;
        }
        let m = &self.metrics;
        add(&m.writes_slowed, 1);
        let by = if most == pressure.compaction {
            &m.slowed_by_compaction
        } else if most == pressure.log {
            &m.slowed_by_log
        } else {
            &m.slowed_by_flush
        };
        add(by, 1);
        let share = (over + 0.25) * ASSIST_BYTES_PER_BYTE;
        let budget = (debt as f64 * share.min(ASSIST_BYTES_PER_BYTE_MAX)) as u64;
        let may_end = !is_attended || most > STOP_PRESSURE;
        match self.spread_poison(self.run_jobs(budget, may_end)) {
            Ok(progress) if is_attended && progress.bytes == 0 && most > WAIT_PRESSURE => {
                let part = ((most - WAIT_PRESSURE) / (STOP_PRESSURE - WAIT_PRESSURE)).min(1.0);
                let list = self.jobs.lock();
                add(&m.waits_for_jobs, 1);
                drop(self.jobs.ended.wait_timeout(list, WAIT_MAX.mul_f64(part)));
            }
            Ok(_) => {}
            Err(error) => ::log::warn!("background work of a WipDB store: {error}"),
        }
    }

    /// True where somebody is in `maintain`, or was since a quarter of the memtables was written.
    pub(crate) fn is_attended(&self) -> bool {
        let since = self.log.end().saturating_sub(self.jobs.attended_at.load(Ordering::Relaxed));
        self.jobs.inside.load(Ordering::Relaxed) > 0 || since < self.memtable_bytes_max() / 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_too_long_soon_stops_writers() {
        const MIB: u64 = 1 << 20;
        let pressures = |max: u64, windows: [u64; 5]| windows.map(|w| log_pressure(w, max));
        let large = pressures(24 * MIB, [0, 12, 24, 26, 28].map(|mib| mib * MIB));
        assert_eq!(large, [0.0, 0.5, 1.0, 2.5, STOP_PRESSURE]);
        // A small one may be half a MiB more.
        let small = pressures(MIB, [0, MIB / 2, MIB, MIB + MIB / 4, MIB + MIB / 2]);
        assert_eq!(small, [0.0, 0.5, 1.0, 2.5, STOP_PRESSURE]);
    }
}
