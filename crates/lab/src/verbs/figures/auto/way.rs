//! One way to do a workload: an open store, and what it came to.

use super::super::scratch::{WRITTEN, median};
use super::cases::Case;
use silica::{DEFAULT_KEYSPACE, Keyspace, OpenOptions, OptionValues, Registry, Result, Silica};
use silica_bench::{Pace, Plan, Slice, drive_slices, fill};
use std::path::Path;
use std::time::Duration;

/// How long things go on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// Keys of a whole case.
    pub(super) keys: u64,
    /// Seconds of a round, and of the warming before it.
    pub(super) seconds: f64,
    /// A round of writes goes on until this share of the memory was put.
    pub(super) put_of_memory: f64,
    pub(super) seed: u64,
}

/// An engine with options.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Setting {
    pub(super) engine: &'static str,
    pub(super) options: OptionValues,
}

impl Setting {
    /// The engine and its options, as rows have them.
    pub(super) fn name(&self) -> String {
        let options = self.options.iter().map(|(name, value)| format!(" {name}={value}"));
        format!("{}{}", self.engine, options.collect::<String>())
    }
}

/// An open store.
pub(super) struct Way {
    pub(super) setting: Setting,
    keyspace: Keyspace,
    // Goes after the keyspace: it has the threads of the background work.
    _store: Silica,
    /// Operations a second of each round.
    pub(super) rounds: Vec<f64>,
}

/// Seconds of this process so far.
#[derive(Clone, Copy, Default)]
struct Scheduled {
    /// All threads had a core.
    processor: f64,
    /// Callers wanted a core and had none.
    callers_wanted: f64,
}

impl Scheduled {
    fn now() -> Self {
        let read = |path: String| std::fs::read_to_string(path).unwrap_or_default();
        let own = read("/proc/self/comm".into());
        let own_number = std::process::id().to_string();
        let mut all = Scheduled::default();
        for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
            let number = task.file_name().to_string_lossy().into_owned();
            let text = read(format!("/proc/self/task/{number}/schedstat"));
            let mut seconds = text.split_whitespace().map(|ns| ns.parse().unwrap_or(0.0) / 1e9);
            all.processor += seconds.next().unwrap_or(0.0);
            // Callers have the name of the process, and other threads names of their own.
            let name = read(format!("/proc/self/task/{number}/comm"));
            if name == own && number != own_number {
                all.callers_wanted += seconds.next().unwrap_or(0.0);
            }
        }
        all
    }
}

/// A run that goes on until it was long enough, and what it came to.
struct Turn<'k> {
    keyspace: &'k Keyspace,
    seconds: f64,
    put_min: f64,
    put_at_start: f64,
    begun: Scheduled,
    sum: Slice,
    scheduled: Scheduled,
}

/// A round is at most so many times as long as it was asked to be.
const LONGER_MAX: f64 = 8.0;
const SLICE_SECONDS: f64 = 0.1;

impl Pace for Turn<'_> {
    fn next(&mut self) -> Result<Option<Duration>> {
        let took = self.sum.wall_seconds;
        let put = bytes_put(self.keyspace)? - self.put_at_start;
        let is_long = took >= self.seconds && put >= self.put_min;
        if is_long || took >= LONGER_MAX * self.seconds {
            return Ok(None);
        }
        self.begun = Scheduled::now();
        Ok(Some(Duration::from_secs_f64(self.seconds.min(SLICE_SECONDS))))
    }

    fn done(&mut self, slice: &Slice) -> Result<()> {
        let now = Scheduled::now();
        self.scheduled.processor += now.processor - self.begun.processor;
        self.scheduled.callers_wanted += now.callers_wanted - self.begun.callers_wanted;
        self.sum.operations += slice.operations;
        self.sum.seconds += slice.seconds;
        self.sum.wall_seconds += slice.wall_seconds;
        Ok(())
    }

    fn sample(&mut self, _: f64) {}
}

fn bytes_put(keyspace: &Keyspace) -> Result<f64> {
    Ok(keyspace.metrics()?.get("user_bytes_written"))
}

impl Way {
    /// Makes, fills and settles a store for `case` in `directory`.
    ///
    /// # Errors
    /// Those of opening and filling a store: `Full` if the entries do not fit into the memory.
    pub(super) fn open(case: &Case, times: &Times, place: &Path, setting: Setting) -> Result<Way> {
        let memory = case.memory_bytes(times.keys);
        let mut open = OpenOptions::new().engine(setting.engine).memory_bytes(memory);
        let registry = Registry::builtin();
        let spec = registry.find(setting.engine)?;
        for (name, value) in setting.options.iter() {
            let option = spec.options.iter().find(|option| option.name == name);
            open = open.set(name, option.expect("it is in the table").show(value));
        }
        let store = open.seed([7; 16]).open(place)?;
        let keyspace = store.keyspace(DEFAULT_KEYSPACE)?;
        fill(&case.plan(times.keys, times.seed)?, &keyspace, &mut |_, _| {})?;
        keyspace.settle()?;
        Ok(Way { setting, keyspace, _store: store, rounds: Vec::new() })
    }

    /// A round of the case, after warming.
    pub(super) fn turn(&mut self, case: &Case, times: &Times) -> Result<()> {
        let plan = case.plan(times.keys, times.seed + self.rounds.len() as u64)?;
        let put_min = match case.writes() && !case.is_synced() {
            true => times.put_of_memory * case.memory_bytes(times.keys) as f64,
            false => 0.0,
        };
        if case.writes() || self.rounds.is_empty() {
            // A store that rested has room that it does not have while it is written.
            self.run(&plan, times.seconds / 2.0, put_min)?;
        }
        let rate = self.run(&plan, times.seconds, put_min)?;
        self.rounds.push(rate);
        // What is left to do would take from the others' turns.
        self.keyspace.settle()
    }

    /// Operations a second of `plan`, for `seconds` and until `put_min` bytes were put. Time in
    /// which callers waited for a core that other programs had is taken off.
    fn run(&self, plan: &Plan, seconds: f64, put_min: f64) -> Result<f64> {
        let mut turn = Turn {
            keyspace: &self.keyspace,
            seconds,
            put_min,
            put_at_start: bytes_put(&self.keyspace)?,
            begun: Scheduled::default(),
            sum: Slice::default(),
            scheduled: Scheduled::default(),
        };
        drive_slices(plan, &self.keyspace, &mut turn)?;
        let Turn { sum, scheduled, .. } = turn;
        let operations = (sum.operations as f64).max(1.0);
        let threads = plan.threads as f64;
        // Callers wanted a core as often within measured parts as between them.
        let with_core = 1.0 - scheduled.callers_wanted / threads / sum.wall_seconds.max(1e-9);
        let with_core = with_core.clamp(0.0, 1.0);
        // What the driver itself takes is not the engine's.
        let driver = (sum.wall_seconds - sum.seconds) * threads * with_core;
        let processor = (scheduled.processor - driver).max(0.0);
        let alone = sum.seconds * with_core;
        let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
        Ok(operations / alone.max(processor / cores).clamp(1e-9, sum.seconds.max(1e-9)))
    }

    /// Operations a second, of the rounds' median.
    pub(super) fn rate(&self) -> f64 {
        median(self.rounds.iter().copied())
    }

    /// Bytes written for each byte put, since the store was made.
    pub(super) fn written(&self) -> Result<f64> {
        let metrics = self.keyspace.metrics()?;
        let written: f64 = WRITTEN.iter().map(|name| metrics.get(name)).sum();
        Ok(written / metrics.get("user_bytes_written").max(1.0))
    }
}
