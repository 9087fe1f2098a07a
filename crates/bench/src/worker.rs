//! One thread of a run: draws operations, performs them in bursts, checks every answer.

use crate::generator::{Chooser, Shape, mix};
use crate::plan::Plan;
use crate::target::{Session, Sink, Target, recycled};
use crate::workload::Kind;
use silica::Result;
use silica_base::{Histogram, Prng, checksum};
use std::mem::take;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
    /// Reads that gave something else than the generator wrote, or nothing where it wrote.
    pub wrong: u64,
    /// Sum over all reads of a hash of question and answer; the order does not matter.
    pub hash: u64,
    /// Of every call (with all keys of its burst), in nanoseconds.
    pub latencies: Histogram,
    /// Of the calls that only read.
    pub read_latencies: Histogram,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Tally) {
        self.operations += other.operations;
        self.reads += other.reads;
        self.hits += other.hits;
        self.puts += other.puts;
        self.wrong += other.wrong;
        self.hash = self.hash.wrapping_add(other.hash);
        self.latencies.merge(&other.latencies);
        self.read_latencies.merge(&other.read_latencies);
    }

    /// The deterministic fingerprint of the run.
    pub fn result_hash(&self) -> u64 {
        [self.reads, self.hits, self.puts, self.wrong]
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
    pub(crate) done: &'a AtomicU64,
    /// Set when the thread that decides the length of the run is through, or one failed.
    pub(crate) stop: &'a AtomicBool,
    /// Versions of this run's values start here.
    pub(crate) version: u64,
}

/// What one thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The workload's mix, this many operations.
    Mix(u64),
    /// Puts of new keys, this many; the run ends with it.
    Insert(u64),
    /// Gets until the run ends.
    ReadUntilStopped,
}

/// Operations that are drawn ahead of a run of bursts, at most, and the bytes of their entries.
const WINDOW_OPERATIONS: usize = 32;
const WINDOW_BYTES: usize = 1 << 20;

pub(crate) struct Worker<'a> {
    shared: &'a Shared<'a>,
    session: Box<dyn Session + 'a>,
    lossy: bool,
    thread: u64,
    role: Role,
    prng: Prng,
    /// Keys that this thread inserted.
    inserted: u64,
    versions: u64,
    /// What was drawn: `batch` operations of each burst of the window.
    kinds: Vec<Kind>,
    keys: Vec<Vec<u8>>,
    values: Vec<Vec<u8>>,
    indexes: Vec<u64>,
    scratch: Vec<u8>,
    /// Empty between two calls; kept for their allocations.
    key_refs: Vec<&'static [u8]>,
    entry_refs: Vec<(&'static [u8], &'static [u8])>,
    tally: Tally,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(shared: &'a Shared<'a>, thread: u64, role: Role) -> Result<Self> {
        let plan = shared.plan;
        let burst_bytes = plan.batch * (plan.shape.key_bytes + plan.shape.value_bytes);
        let bursts = (WINDOW_OPERATIONS / plan.batch).min(WINDOW_BYTES / burst_bytes).max(1);
        let operations = bursts * plan.batch;
        Ok(Worker {
            shared,
            session: shared.target.session(plan.durability)?,
            lossy: shared.target.abilities().lossy,
            thread,
            role,
            prng: Prng::new(mix(plan.seed) ^ mix(thread + 1)),
            inserted: 0,
            versions: 0,
            kinds: vec![Kind::Read; bursts],
            keys: vec![Vec::new(); operations],
            values: vec![Vec::new(); operations],
            indexes: vec![0; operations],
            scratch: Vec::new(),
            key_refs: Vec::with_capacity(plan.batch),
            entry_refs: Vec::with_capacity(plan.batch),
            tally: Tally::default(),
        })
    }

    /// Performs the role to its end.
    pub(crate) fn run(shared: &'a Shared<'a>, thread: u64, role: Role) -> Result<Tally> {
        let outcome = Self::new(shared, thread, role).and_then(|mut worker| {
            worker.perform()?;
            Ok(worker.tally)
        });
        if outcome.is_err() || matches!(role, Role::Insert(_)) {
            shared.stop.store(true, Ordering::Relaxed);
        }
        outcome
    }

    fn perform(&mut self) -> Result<()> {
        let plan = self.shared.plan;
        let mut left = match self.role {
            Role::Mix(operations) | Role::Insert(operations) => operations,
            Role::ReadUntilStopped => u64::MAX,
        };
        // A rate is the writer's where threads have roles, and everybody's part elsewhere.
        let rate = match self.role {
            Role::Mix(_) => plan.rate as f64 / plan.threads as f64,
            Role::Insert(_) => plan.rate as f64,
            Role::ReadUntilStopped => 0.0,
        };
        let started = Instant::now();
        let mut issued = 0u64;
        while left > 0 && !self.shared.stop.load(Ordering::Relaxed) {
            let count = if rate > 0.0 {
                let due = started + Duration::from_secs_f64(issued as f64 / rate);
                self.paced_burst(left, due)?
            } else {
                self.window(left)?
            };
            left -= count;
            issued += count;
            self.shared.done.fetch_add(count, Ordering::Relaxed);
        }
        Ok(())
    }

    fn kind(&mut self) -> Kind {
        match self.role {
            Role::Mix(_) => self.shared.plan.workload.kind(self.prng.below(100)),
            Role::Insert(_) => Kind::Insert,
            Role::ReadUntilStopped => Kind::Read,
        }
    }

    /// Waits for `due` and performs one burst. Latency counts from `due`, so that waiting behind
    /// a slow call is not left out.
    fn paced_burst(&mut self, left: u64, due: Instant) -> Result<u64> {
        let count = left.min(self.shared.plan.batch as u64) as usize;
        self.prepare(0, count);
        if let Some(wait) = due.checked_duration_since(Instant::now()) {
            std::thread::sleep(wait);
        }
        self.burst(0, count, due)?;
        Ok(count as u64)
    }

    /// Draws a window of operations and performs them without a pause. The clock is read once
    /// for each burst, and no drawing is timed.
    fn window(&mut self, left: u64) -> Result<u64> {
        let batch = self.shared.plan.batch;
        let operations = left.min(self.keys.len() as u64) as usize;
        let bursts = operations.div_ceil(batch);
        let count_of = |burst: usize| batch.min(operations - burst * batch);
        for burst in 0..bursts {
            self.prepare(burst, count_of(burst));
        }
        let mut now = Instant::now();
        for burst in 0..bursts {
            now = self.burst(burst, count_of(burst), now)?;
        }
        Ok(operations as u64)
    }

    /// Performs the burst number `burst` of the window; the time when it was done.
    fn burst(&mut self, burst: usize, count: usize, started: Instant) -> Result<Instant> {
        let kind = self.kinds[burst];
        let first = burst * self.shared.plan.batch;
        let range = first..first + count;
        let is_read = matches!(kind, Kind::Read | Kind::Miss);
        if is_read || kind == Kind::Modify {
            self.read(range.clone(), kind == Kind::Miss)?;
        }
        if !is_read {
            self.write(range)?;
        }
        let done = Instant::now();
        let took = done.saturating_duration_since(started).as_nanos() as u64;
        for _ in 0..count {
            self.tally.latencies.record(took);
            if is_read {
                self.tally.read_latencies.record(took);
            }
        }
        self.tally.operations += count as u64;
        Ok(done)
    }

    /// Draws a burst's kind and keys, and values where they are to be put.
    fn prepare(&mut self, burst: usize, count: usize) {
        let shape = self.shared.plan.shape;
        let kind = self.kind();
        self.kinds[burst] = kind;
        let first = burst * self.shared.plan.batch;
        for i in first..first + count {
            let index = match kind {
                Kind::Insert => self.new_index(),
                _ => self.existing_index(),
            };
            self.indexes[i] = index;
            match kind {
                Kind::Miss => shape.missing_key(index, &mut self.keys[i]),
                _ => shape.key(index, &mut self.keys[i]),
            }
            if matches!(kind, Kind::Update | Kind::Insert | Kind::Modify) {
                self.versions += 1;
                let version = self.shared.version + (self.thread << 40) + self.versions;
                shape.value(index, version, &mut self.values[i]);
            }
        }
    }

    /// Keys behind the first `keys` belong to the threads in turn, so that each thread knows
    /// which of its own exist. A fill has no keys before it.
    fn new_index(&mut self) -> u64 {
        let plan = self.shared.plan;
        let first = if plan.workload.is_fill() { 0 } else { plan.keys };
        let (turn, threads) = match self.role {
            Role::Insert(_) => (0, 1),
            _ => (self.thread, plan.threads as u64),
        };
        self.inserted += 1;
        first + turn + (self.inserted - 1) * threads
    }

    fn existing_index(&mut self) -> u64 {
        let plan = self.shared.plan;
        let drawn = self.shared.chooser.draw(&mut self.prng, self.inserted);
        if drawn < plan.keys {
            return drawn;
        }
        plan.keys + self.thread + (drawn - plan.keys) * plan.threads as u64
    }

    fn read(&mut self, range: Range<usize>, must_miss: bool) -> Result<()> {
        let plan = self.shared.plan;
        let count = range.len();
        let mut sink = Check {
            shape: plan.shape,
            indexes: &self.indexes[range.clone()],
            scratch: &mut self.scratch,
            // Which version a reader sees while other threads write is a matter of luck.
            hash_values: plan.threads == 1 || !plan.workload.overwrites(),
            found: 0,
            wrong: 0,
            hash: 0,
        };
        let mut keys: Vec<&[u8]> = recycled(take(&mut self.key_refs));
        keys.extend(self.keys[range].iter().map(Vec::as_slice));
        self.session.get_many(&keys, &mut sink)?;
        self.key_refs = recycled(keys);
        let (found, wrong, hash) = (sink.found, sink.wrong, sink.hash);
        let unexpected = match must_miss {
            true => found,
            false if self.lossy => 0,
            false => count as u64 - found,
        };
        self.tally.reads += count as u64;
        self.tally.hits += found;
        self.tally.wrong += wrong + unexpected;
        self.tally.hash = self.tally.hash.wrapping_add(hash);
        Ok(())
    }

    fn write(&mut self, range: Range<usize>) -> Result<()> {
        let count = range.len();
        let pairs = self.keys[range.clone()].iter().zip(&self.values[range]);
        let mut entries: Vec<(&[u8], &[u8])> = recycled(take(&mut self.entry_refs));
        entries.extend(pairs.map(|(key, value)| (key.as_slice(), value.as_slice())));
        self.session.put_many(&entries)?;
        self.entry_refs = recycled(entries);
        self.tally.puts += count as u64;
        Ok(())
    }
}

/// Compares answers with what the generator wrote.
struct Check<'a> {
    shape: Shape,
    indexes: &'a [u64],
    scratch: &'a mut Vec<u8>,
    hash_values: bool,
    found: u64,
    wrong: u64,
    hash: u64,
}

impl Sink for Check<'_> {
    fn found(&mut self, index: usize, value: &[u8]) {
        let number = self.indexes[index];
        self.found += 1;
        if !self.shape.is_value_of(number, value, self.scratch) {
            self.wrong += 1;
        }
        let value = if self.hash_values { u64::from(checksum(value)) } else { 0 };
        self.hash = self.hash.wrapping_add(mix(number ^ (value << 32)));
    }
}
