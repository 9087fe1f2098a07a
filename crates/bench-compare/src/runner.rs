//! Runs a schedule: fills stores, then repetition after repetition every workload on all stores at
//! once, each in a fresh process, in rounds of short slices; keeps what was measured at every step.

mod course;

use crate::budget::{self, Later, Watch};
use crate::cell::{Cell, Job, Outcome};
use crate::cgroup::{self, MemoryGroup};
use crate::child::{self, Started};
use crate::files;
use crate::limits::{LIMIT_PREFIX, Limit};
use crate::machine;
use crate::peer::{Class, Peer};
use crate::results::{Environment, Remark, Results, StoreInfo, WorkloadInfo};
use crate::schedule::{ALLOWANCE_BYTES, Group, Request, Schedule, Task};
use crate::suite::Size;
use crate::summary::{self, LIMITS, Record};
use crate::work::Work;
use silica::{Error, ErrorKind, Result};
use silica_bench::Workload;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How a comparison runs, beside what it measures.
#[derive(Debug, Clone)]
pub struct Run {
    /// What is measured.
    pub request: Request,
    /// Directory for the results.
    pub out: PathBuf,
    /// Directory for the stores, on the device to be measured; below `out` where not given.
    pub stores: Option<PathBuf>,
    /// Program and arguments that perform one cell; in this process where it is empty.
    pub child: Vec<OsString>,
    /// The command that repeats it, for the report.
    pub command: String,
}

/// Told after each step: steps done, all steps, what was done.
pub type Progress<'a> = dyn FnMut(usize, usize, &str) + 'a;

/// Runs `run` to its end, or until `interrupted`. The results lie in the directory, too. Stores
/// that answered the same questions differently are an error that names them.
pub fn compare(
    run: &Run,
    interrupted: &AtomicBool,
    progress: &mut Progress<'_>,
) -> Result<Results> {
    let schedule = Schedule::new(&run.request)?;
    let create = |path: &Path| {
        std::fs::create_dir_all(path)
            .map_err(|e| Error::io(format!("creating {}", path.display()), e))
    };
    create(&run.out)?;
    // Servers have a working directory of their own.
    let root = std::path::absolute(run.stores.as_ref().unwrap_or(&run.out))
        .map_err(|e| Error::io("finding the working directory", e))?;
    let scratch = Scratch(root.join(format!("compare-stores-{}", std::process::id())));
    create(&scratch.0)?;
    schedule.check_room(&run.request, &scratch.0)?;
    cgroup::sweep();
    let mut runner = Runner {
        run,
        schedule: &schedule,
        scratch: &scratch.0,
        interrupted,
        progress,
        started: Instant::now(),
        watch: Watch::new(run.request.size),
        steps: 0,
        records: Vec::new(),
        results: beginning(run, &schedule, &scratch.0),
    };
    if let Some(seconds) = budget::expected(&schedule, run.request.size) {
        let all = schedule.steps(run.request.size);
        (runner.progress)(0, all, &format!("expected to take {}", budget::text(seconds)));
    }
    for (i, group) in schedule.groups.iter().enumerate() {
        let before = i.checked_sub(1).map(|before| &schedule.groups[before]);
        if !before.is_some_and(|b| Schedule::share_time(run.request.size, b, group)) {
            runner.watch = Watch::new(run.request.size);
        }
        runner.group(group, &schedule.groups[i + 1..])?;
    }
    runner.finish()
}

/// The directory of the stores, removed in the end.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // A directory that stays is only untidy.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn beginning(run: &Run, schedule: &Schedule, directory: &Path) -> Results {
    let environment = Environment {
        machine: machine::describe(directory),
        date: machine::date(),
        command: run.command.clone(),
        size: run.request.size.name().to_string(),
        repetitions: schedule.repetitions,
        version: env!("CARGO_PKG_VERSION").to_string(),
        missing: schedule.missing.clone(),
        ..Environment::default()
    };
    let of = |group: &Group| group.tasks.iter().map(|task| info(group, task)).collect::<Vec<_>>();
    let workloads = schedule.groups.iter().flat_map(of).collect();
    let warning = machine::warning(directory).map(|text| remark("", "", "", text));
    let notes = warning.into_iter().collect();
    Results { environment, workloads, notes, ..Results::default() }
}

fn info(group: &Group, task: &Task) -> WorkloadInfo {
    let (work, line) = (&task.work, &task.line);
    let workload = Workload::find(&work.workload).ok();
    WorkloadInfo {
        suite: group.suite.name.to_string(),
        name: line.name.to_string(),
        doc: match &work.load {
            Some(load) => load.text(),
            None => workload.map_or("", |w| w.doc).to_string(),
        },
        paper: workload.map_or("", |w| w.source).to_string(),
        keys: work.keys,
        operations: work.operations,
        key_bytes: work.key_bytes as u64,
        value_bytes: work.entry_bytes() as u64 - work.key_bytes as u64,
        threads: work.threads,
        memory_bytes: group.memory_bytes,
        durability: if work.synced { "synced" } else { "buffered" }.to_string(),
        distribution: work.distribution.clone(),
        batch: work.batch,
        rate: work.rate,
        cold: line.cold,
        limits: line.limits(),
    }
}

struct Runner<'a> {
    run: &'a Run,
    schedule: &'a Schedule,
    scratch: &'a Path,
    interrupted: &'a AtomicBool,
    progress: &'a mut Progress<'a>,
    started: Instant,
    /// Of this part of the run.
    watch: Watch,
    steps: usize,
    records: Vec<Record>,
    results: Results,
}

impl Runner<'_> {
    fn stopped(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    fn group(&mut self, group: &Group, later: &[Group]) -> Result<()> {
        let mut stores = group.stores.clone();
        if group.shares(self.run.request.size) {
            stores.retain(|store| self.prepare(group, *store));
        }
        let repetitions = self.schedule.repetitions;
        for repetition in 0..repetitions {
            for limit in &group.limits {
                self.limit(group, *limit, repetition);
            }
            for (i, task) in group.tasks.iter().enumerate() {
                if self.stopped() {
                    break;
                }
                let left =
                    (group.tasks.len() - i) + group.tasks.len() * (repetitions - repetition - 1);
                let seconds = self.seconds(group, left, later);
                // Nobody needs the filled stores behind the last one.
                self.course(group, task, &stores, (repetition, seconds, left == 1));
                self.keep()?;
            }
        }
        self.keep()?;
        for store in &group.stores {
            let _ = std::fs::remove_dir_all(self.base(*store));
        }
        Ok(())
    }

    /// Time of the next measured part of each store, with `tasks` left of the group.
    fn seconds(&self, group: &Group, tasks: usize, later: &[Group]) -> f64 {
        let size = self.run.request.size;
        let repetitions = self.schedule.repetitions;
        let later = later.iter().take_while(|later| Schedule::share_time(size, group, later));
        let later: Vec<_> = later.map(|group| Later { group, repetitions }).collect();
        self.watch.cell_seconds(group, tasks, &later)
    }

    fn base(&self, store: &dyn Peer) -> PathBuf {
        self.scratch.join(format!("filled-{}", store.name().replace(':', "-")))
    }

    fn cell(&self, group: &Group, name: &str, store: &str, job: Job, work: &Work) -> Cell {
        let sizes = &group.sizes;
        Cell {
            suite: group.suite.name.to_string(),
            name: name.to_string(),
            store: store.to_string(),
            job,
            work: work.clone(),
            memory_bytes: group.memory_bytes,
            set: self.run.request.set.clone(),
            resident: self.run.request.resident,
            cold: false,
            repetition: 0,
            directory: self.scratch.join(format!("cell-{}", store.replace(':', "-"))),
            check_operations: if work.synced { 0 } else { sizes.check_operations.min(work.keys) },
            seconds: group.cell_seconds,
            door: None,
        }
    }

    /// Fills the store that the group's workloads share; false where that failed.
    fn prepare(&mut self, group: &Group, store: &dyn Peer) -> bool {
        if self.stopped() {
            return false;
        }
        let mut cell = self.cell(group, "fill", store.name(), Job::Prepare, &group.tasks[0].work);
        cell.directory = self.base(store);
        // With all memory: what is measured begins later.
        let began = Instant::now();
        let outcome = self.perform(&cell);
        self.watch.filled(began.elapsed());
        self.step(&format!("{} {}: filled", group.suite.name, store.name()));
        match outcome {
            Ok(_) => true,
            Err(why) => {
                self.fail(&cell, format!("filling it failed, nothing was measured: {why}"));
                false
            }
        }
    }

    fn limit(&mut self, group: &Group, limit: &dyn Limit, repetition: usize) {
        if self.stopped() {
            return;
        }
        let name = format!("{LIMIT_PREFIX}{}", limit.name());
        let job = Job::Limit { bytes: group.sizes.data_bytes };
        let mut cell = self.cell(group, LIMITS, &name, job, &idle_work());
        cell.repetition = repetition;
        cell.seconds = self.run.request.size.limit_seconds();
        let outcome = self.perform(&cell);
        let _ = std::fs::remove_dir_all(&cell.directory);
        let what = format!("{} {} {} #{}", cell.suite, cell.name, cell.store, repetition + 1);
        match outcome {
            Ok(outcome) => {
                self.step(&what);
                self.took_part(limit_info(limit, &outcome.version));
                self.records.push(record(&cell, outcome));
            }
            Err(_) if self.stopped() => {}
            Err(why) => {
                self.step(&format!("{what}: FAILED: {why}"));
                self.fail(&cell, why);
            }
        }
    }

    /// Notes a store that took part, once.
    fn took_part(&mut self, info: StoreInfo) {
        let stores = &mut self.results.environment.stores;
        if !stores.iter().any(|store| store.name == info.name) {
            stores.push(info);
        }
    }

    /// Performs a cell that has no slices.
    fn perform(&self, cell: &Cell) -> std::result::Result<Outcome, String> {
        let limit = self.run.request.size.cell_limit();
        match child::start(&self.run.child, cell, limit, self.interrupted)? {
            Started::Done(outcome) => Ok(*outcome),
            Started::Ready(_) => Err("it waits for slices that it should not have".to_string()),
        }
    }

    /// A memory group for `cell`, where one is allowed.
    fn memory_group(&mut self, cell: &Cell) -> Option<MemoryGroup> {
        // In this process a group would limit the runner, too.
        if self.run.child.is_empty() {
            return None;
        }
        let group = MemoryGroup::new(cell.memory_bytes + ALLOWANCE_BYTES);
        self.results.environment.machine.memory_limit = match &group {
            Ok(group) => format!(
                "{}: a store's memory and {} MiB for the program, its driver and the kernel",
                group.describe(),
                ALLOWANCE_BYTES >> 20
            ),
            Err(e) => e.to_string(),
        };
        group.ok()
    }

    fn fail(&mut self, cell: &Cell, why: String) {
        let text = format!("repetition {}: {why}", cell.repetition + 1);
        self.results.failures.push(remark(&cell.suite, &cell.name, &cell.store, text));
    }

    fn step(&mut self, what: &str) {
        self.steps += 1;
        let all = self.schedule.steps(self.run.request.size);
        (self.progress)(self.steps, all.max(self.steps), what);
    }

    /// Writes what was measured so far.
    fn keep(&mut self) -> Result<()> {
        let results = &mut self.results;
        results.environment.seconds = self.started.elapsed().as_secs_f64();
        results.rows = summary::rows(&self.records);
        results.ratios = summary::ratios(&self.records, &results.workloads);
        results.curves = summary::curves(&self.records);
        results.timelines = summary::timelines(&self.records);
        results.rounds = summary::rounds(&self.records);
        results.interrupted = self.interrupted.load(Ordering::Relaxed);
        files::write(&self.run.out, results)
    }

    fn finish(mut self) -> Result<Results> {
        let disagreements = summary::disagreements(&self.records);
        for text in &disagreements {
            self.results.failures.push(remark("", "", "", text.clone()));
        }
        self.keep()?;
        match disagreements.first() {
            Some(first) => Err(Error::new(ErrorKind::Corruption, first.clone())),
            None => Ok(self.results),
        }
    }
}

impl Size {
    /// Time for a limit, with all its figures.
    fn limit_seconds(self) -> f64 {
        match self {
            Size::Full => 5.0,
            Size::Quick => 1.0,
            Size::Toy => 0.02,
        }
    }

    /// Time for a cell, with filling and settling; what takes longer has failed.
    fn cell_limit(self) -> Duration {
        Duration::from_secs(match self {
            Size::Full => 900,
            Size::Quick | Size::Toy => 60,
        })
    }
}

/// What a limit's cell found.
fn record(cell: &Cell, outcome: Outcome) -> Record {
    Record {
        suite: cell.suite.clone(),
        workload: cell.name.clone(),
        store: cell.store.clone(),
        ours: false,
        threads: cell.work.threads,
        repetition: cell.repetition,
        rounds: Vec::new(),
        metric: Default::default(),
        outcome,
    }
}

fn limit_info(limit: &dyn Limit, version: &str) -> StoreInfo {
    StoreInfo {
        name: format!("{LIMIT_PREFIX}{}", limit.name()),
        doc: limit.doc().to_string(),
        class: "limit".to_string(),
        ours: false,
        version: version.to_string(),
        settings: Vec::new(),
    }
}

fn class_name(class: Class) -> &'static str {
    match class {
        Class::Embedded => "embedded",
        Class::Sql => "sql",
        Class::Memory => "memory",
        Class::Server => "server",
    }
}

fn remark(suite: &str, workload: &str, store: &str, text: String) -> Remark {
    Remark { suite: suite.into(), workload: workload.into(), store: store.into(), text }
}

/// What a limit's cell has instead of work with a store.
fn idle_work() -> Work {
    Work {
        workload: "read".to_string(),
        keys: 1,
        operations: 1,
        key_bytes: 16,
        value_bytes: 16,
        threads: 1,
        synced: false,
        distribution: "uniform".to_string(),
        batch: 1,
        rate: 0,
        seed: 1,
        load: None,
    }
}
