//! What a paper's command was asked for, and the stores that it opens.

use super::sheet::Sheet;
use silica::Result;
use silica_bench::{Plan, Run, Target, drive, fill};
use silica_bench_compare::{Setup, find};
use silica_console::{Global, RunArgs, signals};
use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// What was asked for.
pub(super) struct Job<'a> {
    pub(super) global: &'a Global,
    pub(super) out: &'a Path,
    /// Share of the sizes of a full run.
    pub(super) scale: f64,
    /// Options of runs, if any were given.
    pub(super) run: Option<&'a RunArgs>,
    pub(super) begun: Instant,
    /// Set by the first Ctrl-C, once a part was begun that heeds it.
    pub(super) interrupted: OnceCell<Arc<AtomicBool>>,
}

impl<'a> Job<'a> {
    pub(super) fn new(
        global: &'a Global,
        out: &'a Path,
        scale: f64,
        run: Option<&'a RunArgs>,
    ) -> Job<'a> {
        let interrupted = OnceCell::new();
        Job { global, out, scale, run, begun: Instant::now(), interrupted }
    }

    /// Says on standard error that the part `what` begins; false if the command was interrupted,
    /// which `sheet` then says. What was measured before is written all the same.
    pub(super) fn begins(&self, what: &str, sheet: &mut Sheet) -> Result<bool> {
        let flag = match self.interrupted.get() {
            Some(flag) => flag,
            None => {
                let flag = signals::interruption()?;
                self.interrupted.get_or_init(|| flag)
            }
        };
        if flag.load(Ordering::Relaxed) {
            sheet.remark(format!("interrupted before {what}, and all that follows"));
            return Ok(false);
        }
        eprintln!("{:5} s  {what}", self.begun.elapsed().as_secs());
        Ok(true)
    }
}

impl Job<'_> {
    /// Keys of a store: as many as were asked for, or this share of `full`, but not under `least`.
    pub(super) fn keys(&self, full: f64, least: u64) -> u64 {
        let scaled = ((full * self.scale) as u64).max(least);
        self.run.map_or(scaled, |run| run.keys)
    }

    pub(super) fn seed(&self) -> u64 {
        self.run.map_or(1, |run| run.seed)
    }

    /// A directory for stores that this process alone uses.
    pub(super) fn scratch(&self) -> PathBuf {
        let base = self.global.path.as_deref().unwrap_or(self.out);
        base.join(format!("figures-{}", std::process::id()))
    }

    /// Memory of each store: what was asked for, or `usual`.
    pub(super) fn memory_bytes(&self, usual: u64) -> u64 {
        self.global.memory.unwrap_or(usual)
    }
}

/// A store with its options.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scheme {
    /// As rows and charts call it.
    pub(super) name: &'static str,
    /// The store of `silica bench compare`.
    pub(super) peer: &'static str,
    /// Options of a store of ours.
    pub(super) set: &'static [(&'static str, &'static str)],
    /// RocksDB's `compaction_pri`, if it is not the default.
    pub(super) priority: Option<&'static str>,
}

/// A store as it comes.
pub(super) const fn scheme(name: &'static str) -> Scheme {
    Scheme { name, peer: name, set: &[], priority: None }
}

/// Makes stores in a directory that goes when this does.
pub(super) struct Stores {
    scratch: PathBuf,
    memory_bytes: u64,
    opened: std::cell::Cell<u64>,
}

impl Drop for Stores {
    fn drop(&mut self) {
        // What stays behind is only untidy, and shows.
        let _ = std::fs::remove_dir_all(&self.scratch);
    }
}

impl Stores {
    pub(super) fn new(job: &Job<'_>, memory_bytes: u64) -> Stores {
        let (scratch, memory_bytes) = (job.scratch(), job.memory_bytes(memory_bytes));
        Stores { scratch, memory_bytes, opened: std::cell::Cell::new(0) }
    }

    /// Those of `schemes` that are installed; `sheet` is told of the others.
    pub(super) fn installed(&self, schemes: &[Scheme], sheet: &mut Sheet) -> Result<Vec<Scheme>> {
        let mut there = Vec::new();
        for scheme in schemes {
            match find(scheme.peer)?.version() {
                Ok(_) => there.push(*scheme),
                Err(why) => sheet.remark(format!("{}: {why}", scheme.name)),
            }
        }
        Ok(there)
    }

    /// What `scheme` is opened with for `plan`, in a directory of its own.
    pub(super) fn setup(&self, scheme: &Scheme, plan: &Plan) -> Setup {
        let number = self.opened.get();
        self.opened.set(number + 1);
        let owned = |pair: &(&str, &str)| (pair.0.to_string(), pair.1.to_string());
        Setup {
            directory: self.scratch.join(format!("store-{number}")),
            memory_bytes: self.memory_bytes,
            level_bytes: Vec::new(),
            compaction_priority: scheme.priority.map(str::to_string),
            server_threads: None,
            set: scheme.set.iter().map(owned).collect(),
            plan: plan.clone(),
        }
    }

    /// Opens a store for `setup`, hands it to `work`, and removes it.
    pub(super) fn with<T>(
        &self,
        scheme: &Scheme,
        setup: &Setup,
        work: impl FnOnce(&dyn Target) -> Result<T>,
    ) -> Result<T> {
        let directory = &setup.directory;
        std::fs::create_dir_all(directory)
            .map_err(|e| silica::Error::io(format!("creating {}", directory.display()), e))?;
        let target = find(scheme.peer)?.open(setup)?;
        let outcome = work(&*target);
        drop(target);
        let _ = std::fs::remove_dir_all(directory);
        outcome
    }

    /// As [`Stores::with`], filled with the keys of `plan`; background work is done.
    pub(super) fn filled<T>(
        &self,
        scheme: &Scheme,
        plan: &Plan,
        work: impl FnOnce(&dyn Target) -> Result<T>,
    ) -> Result<T> {
        self.with(scheme, &self.setup(scheme, plan), |target| {
            fill(plan, target, &mut |_, _| {})?;
            target.settle()?;
            work(target)
        })
    }
}

/// Runs `plan` on `target`.
pub(super) fn driven(plan: &Plan, target: &dyn Target) -> Result<Run> {
    drive(plan, target, plan.workload.name, &mut |_, _| {})
}

/// Operations a second of a run.
pub(super) fn rate(run: &Run) -> f64 {
    run.tally.operations as f64 / run.seconds.max(1e-9)
}

/// A quantile of the latencies of gets, in microseconds.
pub(super) fn read_us(run: &Run, quantile: f64) -> f64 {
    run.tally.read_latencies.quantile(quantile) as f64 / 1000.0
}
