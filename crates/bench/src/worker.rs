//! One thread of a run: draws operations, performs them in bursts, checks every answer.
//!
//! Only the calls are timed: operations are drawn ahead, a window at a time, and answers are
//! copied out of the store and checked when the window is through. The clock is read after each
//! call; where that would cost a noticeable share of a call, only some calls are timed one by one
//! and the others together.

use crate::answers::{Answers, Checker, Expected, Origin};
use crate::distribution::Chooser;
use crate::gate::{Gate, Part};
use crate::generator::mix;
use crate::laps::{self, Lap, SAMPLE_EVERY};
use crate::plan::Plan;
use crate::target::{Abilities, Session, Target, recycled};
use crate::trace::{Trace, TracePart};
use crate::window::{Burst, Drawer, Turn, Window, operations_max};
use crate::workload::Kind;
use silica::Result;
use silica_base::Histogram;
use std::mem::take;
use std::ops::Range;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What one thread, or all together, did and saw.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// Operations done.
    pub operations: u64,
    /// Keys looked up.
    pub reads: u64,
    /// Keys looked up and found.
    pub hits: u64,
    /// Keys put.
    pub puts: u64,
    /// Keys deleted.
    pub deletes: u64,
    /// Scans.
    pub scans: u64,
    /// Entries that scans gave.
    pub scanned: u64,
    /// Answers that are something else than the generator wrote, or nothing where it wrote.
    pub wrong: u64,
    /// Sum over all answers of a hash of question and answer; the order does not matter.
    pub hash: u64,
    /// Of every call (with all keys of its burst), in nanoseconds.
    pub latencies: Histogram,
    /// Of the calls that only get.
    pub read_latencies: Histogram,
    /// Time that threads spent outside the measured parts: on drawing and checking.
    pub apart_nanos: u64,
    /// Time that the slowest thread took for everything.
    pub wall_nanos: u64,
    /// Of all keys that a trace asked for.
    pub key_bytes: u64,
    /// Of all values that a trace put.
    pub value_bytes: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Tally) {
        self.operations += other.operations;
        self.reads += other.reads;
        self.hits += other.hits;
        self.puts += other.puts;
        self.deletes += other.deletes;
        self.scans += other.scans;
        self.scanned += other.scanned;
        self.wrong += other.wrong;
        self.hash = self.hash.wrapping_add(other.hash);
        self.latencies.merge(&other.latencies);
        self.read_latencies.merge(&other.read_latencies);
        self.apart_nanos += other.apart_nanos;
        self.key_bytes += other.key_bytes;
        self.value_bytes += other.value_bytes;
        self.wall_nanos = self.wall_nanos.max(other.wall_nanos);
    }

    /// The deterministic fingerprint of the run.
    pub fn result_hash(&self) -> u64 {
        [self.reads, self.hits, self.puts, self.deletes, self.scans, self.wrong]
            .iter()
            .fold(self.hash, |hash, n| mix(hash ^ n).rotate_left(7))
    }
}

/// What all threads share.
pub(crate) struct Shared<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) target: &'a dyn Target,
    pub(crate) chooser: &'a Chooser,
    /// Operations done by all threads, for progress.
    pub(crate) done: AtomicU64,
    /// Set when the threads that decide the length of the run are through, or one failed.
    pub(crate) stop: AtomicBool,
    /// Threads with a number of operations that are not through.
    pub(crate) leaders: AtomicUsize,
    /// Passed when all threads have their sessions.
    pub(crate) ready: Barrier,
    /// Versions of this run's values start here.
    pub(crate) version: u64,
    /// What is replayed instead of drawn.
    pub(crate) trace: Option<&'a Trace>,
    /// Closed where all threads are to stand still.
    pub(crate) gate: Gate,
}

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// The workload's mix.
    Mix,
    /// Everything but its gets.
    Write,
    /// Its gets.
    Read,
}

/// What one thread does and how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Role {
    pub(crate) work: Work,
    /// `None` means until the threads that have a number are through.
    pub(crate) operations: Option<u64>,
}

/// Calls that take less, in nanoseconds, are not all timed one by one.
const SAMPLED_BELOW: u64 = 1000;
/// A pause is slept through up to so long before its end, the rest is waited for.
const WAKE_BEFORE: Duration = Duration::from_micros(80);

pub(crate) struct Worker<'a> {
    shared: &'a Shared<'a>,
    session: Box<dyn Session + 'a>,
    role: Role,
    source: Source<'a>,
    window: Window,
    answers: Answers,
    checker: Checker<'a>,
    laps: Vec<Lap>,
    /// What is sorted of a window; kept for its allocation.
    lone_laps: Vec<u64>,
    /// What a call took in the window before, in nanoseconds.
    call_nanos: u64,
    /// Empty between two windows; kept for their allocations.
    key_refs: Vec<&'static [u8]>,
    entry_refs: Vec<(&'static [u8], &'static [u8])>,
    tally: Tally,
    slice: SliceBegun,
}

/// Where a thread stood when its slice began.
struct SliceBegun {
    at: Instant,
    operations: u64,
    apart_nanos: u64,
}

/// Where a thread's operations come from.
enum Source<'a> {
    Drawn(Drawer<'a>),
    Trace(TracePart),
}

/// The calls of a window and what they need.
struct Calls<'a, 'b> {
    session: &'a mut (dyn Session + 'b),
    window: &'a Window,
    keys: &'a [&'a [u8]],
    entries: &'a [(&'a [u8], &'a [u8])],
    answers: &'a mut Answers,
}

impl Calls<'_, '_> {
    #[inline]
    fn perform(&mut self, burst: &Burst) -> Result<()> {
        let range = burst.range();
        match burst.kind {
            Kind::Read | Kind::Miss => self.get(range),
            Kind::Fetch => self.fetch(range),
            Kind::Update | Kind::Insert => self.session.put_many(&self.entries[range]),
            Kind::Modify => {
                self.get(range.clone())?;
                self.session.put_many(&self.entries[range])
            }
            Kind::Delete => self.session.delete_many(&self.keys[range]),
            Kind::Scan => self.scan(range),
        }
    }

    #[inline]
    fn get(&mut self, range: Range<usize>) -> Result<()> {
        self.answers.begin(range.start);
        self.session.get_many(&self.keys[range], self.answers)
    }

    #[inline]
    fn fetch(&mut self, range: Range<usize>) -> Result<()> {
        let count = range.len();
        self.get(range)?;
        let (session, entries) = (&mut *self.session, self.entries);
        self.answers.each_missing(count, |missing| session.put_many(&entries[missing]))
    }

    fn scan(&mut self, range: Range<usize>) -> Result<()> {
        for i in range {
            let answers = &mut *self.answers;
            let mut entry = |key: &[u8], value: &[u8]| answers.entry(i, key, value);
            self.session.scan(self.keys[i], self.window.operations[i].entries, &mut entry)?;
        }
        Ok(())
    }
}

impl<'a> Worker<'a> {
    pub(crate) fn new(shared: &'a Shared<'a>, thread: u64, role: Role) -> Result<Self> {
        let plan = shared.plan;
        let workload = &plan.workload;
        let mut kinds = workload.kinds();
        match role.work {
            Work::Mix => {}
            Work::Write => kinds.retain(|kind| !kind.is_get()),
            Work::Read => kinds.truncate(usize::from(workload.gets())),
        }
        let threads = if workload.split_roles { 1 } else { plan.threads as u64 };
        let turn =
            Turn { thread, threads, alike: role.work == Work::Write, version: shared.version };
        let abilities = shared.target.abilities();
        let source = match shared.trace {
            Some(trace) => Source::Trace(TracePart::open(trace, turn, abilities)?),
            None => {
                let operations = role.operations.unwrap_or(plan.operations);
                Source::Drawn(Drawer::new(plan, shared.chooser, turn, kinds, operations))
            }
        };
        let expected = expected(shared, abilities);
        let most = operations_max(plan, 0);
        Ok(Worker {
            shared,
            session: shared.target.session(plan.durability)?,
            role,
            source,
            window: Window::of(plan),
            answers: Answers::of(plan),
            checker: Checker { plan, expected, scratch: Vec::with_capacity(scratch_bytes(plan)) },
            laps: Vec::with_capacity(most),
            lone_laps: Vec::with_capacity(most),
            call_nanos: u64::MAX,
            key_refs: Vec::with_capacity(most),
            entry_refs: Vec::with_capacity(most),
            tally: Tally::default(),
            slice: SliceBegun { at: Instant::now(), operations: 0, apart_nanos: 0 },
        })
    }

    /// Performs the role to its end.
    pub(crate) fn run(shared: &'a Shared<'a>, thread: u64, role: Role) -> Result<Tally> {
        let worker = Self::new(shared, thread, role);
        shared.ready.wait();
        let outcome = worker.and_then(|mut worker| {
            worker.begin_slice();
            let performed = worker.perform();
            worker.end_slice();
            performed?;
            worker.check_deleted()?;
            if let Source::Trace(part) = &worker.source {
                worker.tally.key_bytes = part.key_bytes;
                worker.tally.value_bytes = part.value_bytes;
            }
            Ok(worker.tally)
        });
        let last = role.operations.is_some() && shared.leaders.fetch_sub(1, Ordering::Relaxed) == 1;
        if outcome.is_err() || last {
            shared.stop.store(true, Ordering::Relaxed);
            shared.gate.end();
        }
        outcome
    }

    fn begin_slice(&mut self) {
        let Tally { operations, apart_nanos, .. } = self.tally;
        self.slice = SliceBegun { at: Instant::now(), operations, apart_nanos };
    }

    fn end_slice(&mut self) {
        let wall_nanos = self.slice.at.elapsed().as_nanos() as u64;
        self.tally.wall_nanos += wall_nanos;
        self.shared.gate.add(Part {
            operations: self.tally.operations - self.slice.operations,
            wall_nanos,
            apart_nanos: self.tally.apart_nanos - self.slice.apart_nanos,
        });
    }

    /// Stands still until the gate is open; for how long.
    fn stand(&mut self) -> Duration {
        self.end_slice();
        let stood = Instant::now();
        self.shared.gate.stand();
        self.begin_slice();
        stood.elapsed()
    }

    fn perform(&mut self) -> Result<()> {
        let plan = self.shared.plan;
        let mut left = self.role.operations.unwrap_or(u64::MAX);
        // A rate is the writer's where threads have roles, and everybody's part elsewhere.
        let rate = match self.role.work {
            Work::Mix => plan.rate as f64 / plan.threads as f64,
            Work::Write => plan.rate as f64,
            Work::Read => 0.0,
        };
        let mut started = Instant::now();
        let mut issued = 0u64;
        while left > 0 && !self.shared.stop.load(Ordering::Relaxed) {
            if self.shared.gate.is_closed() {
                // What is due by the clock is due by so much later.
                started += self.stand();
                continue;
            }
            let count = if rate > 0.0 {
                self.paced_burst(left, started + Duration::from_secs_f64(issued as f64 / rate))?
            } else if self.shared.trace.is_some_and(|trace| trace.timed) {
                self.timed_operation(started)?
            } else {
                self.whole_window(left)?
            };
            if count == 0 {
                break;
            }
            left -= count;
            issued += count;
            self.shared.done.fetch_add(count, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Waits for `due` and performs one burst. Latency counts from `due`, so that waiting behind
    /// a slow call is not left out.
    fn paced_burst(&mut self, left: u64, due: Instant) -> Result<u64> {
        let count = left.min(self.shared.plan.batch as u64);
        self.fill_window(count as usize, self.shared.plan.batch)?;
        self.timed(Some(due), false)?;
        self.check();
        Ok(count)
    }

    /// Performs the trace's next operation when the trace did, if the trace began at `started`;
    /// 0 at its end.
    fn timed_operation(&mut self, started: Instant) -> Result<u64> {
        let due = started + self.fill_window(1, 1)?;
        if self.window.operations.is_empty() {
            return Ok(0);
        }
        self.timed(Some(due), false)?;
        self.check();
        Ok(1)
    }

    /// Fills the window with up to `count` operations; where the trace ends, with fewer. The time
    /// of the last one in the trace.
    fn fill_window(&mut self, count: usize, burst_max: usize) -> Result<Duration> {
        self.window.clear();
        match &mut self.source {
            Source::Drawn(drawer) => drawer.draw(&mut self.window, count),
            Source::Trace(part) => return part.read(&mut self.window, count, burst_max),
        }
        Ok(Duration::ZERO)
    }

    /// Draws a window of operations and performs them without a pause.
    fn whole_window(&mut self, left: u64) -> Result<u64> {
        let begun = Instant::now();
        let count = left.min(operations_max(self.shared.plan, self.call_nanos) as u64);
        self.fill_window(count as usize, self.shared.plan.batch)?;
        if self.window.operations.is_empty() {
            return Ok(0);
        }
        let measured = self.timed(None, self.call_nanos < SAMPLED_BELOW)?;
        self.call_nanos = measured.as_nanos() as u64 / self.window.bursts.len() as u64;
        self.check();
        self.tally.apart_nanos += (begun.elapsed().saturating_sub(measured)).as_nanos() as u64;
        Ok(self.window.operations.len() as u64)
    }

    /// Performs the window's bursts and notes what they took; where they are due at some time,
    /// waits for it and counts from there.
    fn timed(&mut self, due: Option<Instant>, sampled: bool) -> Result<Duration> {
        let mut keys: Vec<&[u8]> = recycled(take(&mut self.key_refs));
        let mut entries: Vec<(&[u8], &[u8])> = recycled(take(&mut self.entry_refs));
        for operation in &self.window.operations {
            keys.push(self.window.key(operation));
            entries.push((self.window.key(operation), self.window.value(operation)));
        }
        self.answers.clear();
        self.laps.clear();
        let mut calls = Calls {
            session: &mut *self.session,
            window: &self.window,
            keys: &keys,
            entries: &entries,
            answers: &mut self.answers,
        };
        if let Some(due) = due {
            wait_until(due);
        }
        let from = due.unwrap_or_else(Instant::now);
        let outcome = time(&mut calls, &mut self.laps, from, sampled);
        self.key_refs = recycled(keys);
        self.entry_refs = recycled(entries);
        outcome
    }

    /// Counts and checks what the window did.
    fn check(&mut self) {
        self.record_latencies();
        self.checker.check(&self.window, &self.answers, &mut self.tally);
    }

    fn record_latencies(&mut self) {
        let bursts = |lap: &Lap| &self.window.bursts[lap.first..lap.first + lap.bursts];
        let operations = |lap: &Lap| bursts(lap).iter().map(|burst| burst.count as u64).sum();
        let tally = &mut self.tally;
        laps::count(&self.laps, &mut self.lone_laps, operations, |lap, nanos, count| {
            tally.latencies.record_many(nanos, count);
            if bursts(lap).iter().all(|burst| burst.kind.is_get()) {
                tally.read_latencies.record_many(nanos, count);
            }
        });
    }

    /// Keys that were deleted last must be gone, where nothing puts them again.
    fn check_deleted(&mut self) -> Result<()> {
        let workload = &self.shared.plan.workload;
        if workload.deletes < 100 || self.window.operations.is_empty() {
            return Ok(());
        }
        let keys: Vec<&[u8]> =
            self.window.operations.iter().map(|operation| self.window.key(operation)).collect();
        self.answers.clear();
        self.session.get_many(&keys, &mut self.answers)?;
        self.tally.wrong += self.answers.count() as u64;
        Ok(())
    }
}

/// What answers must be like.
fn expected(shared: &Shared<'_>, abilities: Abilities) -> Expected {
    let (plan, workload) = (shared.plan, &shared.plan.workload);
    let alone = plan.threads == 1;
    match shared.trace {
        None => Expected {
            may_miss: abilities.lossy || workload.deletes > 0 || workload.from_empty,
            // Which version a reader sees while other threads write is a matter of luck.
            versions: alone || !workload.overwrites(),
            scans: alone || !workload.writes(),
            origin: Origin::Plan,
        },
        // A key's operations are one thread's; scans see what others do.
        Some(trace) => Expected {
            may_miss: true,
            versions: true,
            scans: alone,
            origin: if trace.check { Origin::Trace } else { Origin::Unknown },
        },
    }
}

/// Performs all bursts and notes laps; what they took together.
fn time(
    calls: &mut Calls<'_, '_>,
    laps: &mut Vec<Lap>,
    from: Instant,
    sampled: bool,
) -> Result<Duration> {
    let window = calls.window;
    let mut now = from;
    let mut first = 0;
    while first < window.bursts.len() {
        let left = window.bursts.len() - first;
        let bursts = match first % SAMPLE_EVERY {
            _ if !sampled => 1,
            0 => 1,
            _ => (SAMPLE_EVERY - 1).min(left),
        };
        for burst in &window.bursts[first..first + bursts] {
            calls.perform(burst)?;
        }
        let done = Instant::now();
        let nanos = done.saturating_duration_since(now).as_nanos() as u64;
        laps.push(Lap { first, bursts, nanos });
        first += bursts;
        now = done;
    }
    Ok(now.saturating_duration_since(from))
}

fn wait_until(due: Instant) {
    while let Some(wait) = due.checked_duration_since(Instant::now()).filter(|w| !w.is_zero()) {
        match wait.checked_sub(WAKE_BEFORE) {
            Some(sleep) if !sleep.is_zero() => std::thread::sleep(sleep),
            // Other threads may have the processor, but no timer makes this one late.
            _ => std::thread::yield_now(),
        }
    }
}

fn scratch_bytes(plan: &Plan) -> usize {
    plan.shape.key_bytes.max(plan.shape.value_bytes)
}
