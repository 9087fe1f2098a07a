//! Runs a schedule: fills stores, then repetition after repetition every workload on every store
//! in turn (A B C, A B C), each in a fresh process; keeps what was measured at every step.

use crate::cell::{Cell, Job, Outcome};
use crate::cgroup::{self, MemoryGroup};
use crate::child;
use crate::files;
use crate::limits::{LIMIT_PREFIX, Limit};
use crate::machine;
use crate::peer::{Class, Peer};
use crate::results::{Environment, Remark, Results, StoreInfo, WorkloadInfo};
use crate::schedule::{ALLOWANCE_BYTES, Group, Request, Schedule, Task};
use crate::suite::Size;
use crate::summary::{self, Record, SPEED};
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
    let root = run.stores.as_ref().unwrap_or(&run.out);
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
        suite_began: (Instant::now(), 0),
        steps: 0,
        records: Vec::new(),
        results: beginning(run, &schedule, &scratch.0),
    };
    let mut suite = "";
    for group in &schedule.groups {
        if group.suite.name != suite {
            suite = group.suite.name;
            runner.suite_began = (Instant::now(), runner.steps);
        }
        runner.group(group)?;
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
        doc: workload.map_or("", |w| w.doc).to_string(),
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
    /// When the suite began, and the steps that were done before.
    suite_began: (Instant, usize),
    steps: usize,
    records: Vec<Record>,
    results: Results,
}

impl Runner<'_> {
    fn stopped(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    fn group(&mut self, group: &Group) -> Result<()> {
        let mut stores = group.stores.clone();
        if group.shares(self.run.request.size) {
            stores.retain(|store| self.prepare(group, *store));
        }
        for repetition in 0..self.schedule.repetitions {
            if self.stopped() || !self.is_time_for(group, repetition) {
                break;
            }
            for limit in &group.limits {
                self.limit(group, *limit, repetition);
            }
            for task in &group.tasks {
                // Who comes first changes, so that nobody always has the same neighbour.
                let turn = repetition % stores.len().max(1);
                for store in stores[turn..].iter().chain(&stores[..turn]) {
                    self.drive(group, task, *store, repetition);
                }
            }
            self.keep()?;
        }
        for store in &group.stores {
            let _ = std::fs::remove_dir_all(self.base(*store));
        }
        Ok(())
    }

    /// False where another repetition would not leave time for what comes after it.
    fn is_time_for(&mut self, group: &Group, repetition: usize) -> bool {
        let Some(budget) = self.schedule.budget_seconds else { return true };
        if repetition == 0 {
            return true;
        }
        let (started, steps) = self.suite_began;
        let elapsed = started.elapsed().as_secs_f64();
        let each = elapsed / (self.steps - steps).max(1) as f64;
        let behind = self.schedule.groups.iter().skip_while(|g| !std::ptr::eq(*g, group)).skip(1);
        let later = behind.filter(|later| later.suite.name == group.suite.name);
        // Others should have two repetitions at least: one shows no spread.
        let cells = group.cells() + later.map(|g| 2 * g.cells() + g.stores.len()).sum::<usize>();
        if elapsed + each * cells as f64 <= budget {
            return true;
        }
        let text = format!("{repetition} repetitions were done, for want of time for more");
        self.results.notes.push(remark(group.suite.name, "", "", text));
        false
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
            cold: false,
            repetition: 0,
            directory: self.scratch.join("cell"),
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
        let outcome = self.perform(&cell, false);
        self.step(&format!("{} {}: filled", group.suite.name, store.name()));
        match outcome {
            Ok(_) => true,
            Err(why) => {
                self.fail(&cell, format!("filling it failed, nothing was measured: {why}"));
                false
            }
        }
    }

    fn drive(&mut self, group: &Group, task: &Task, store: &dyn Peer, repetition: usize) {
        if self.stopped() || self.is_unable(group, task, store) {
            self.steps += 1;
            return;
        }
        let mut cell =
            self.cell(group, task.line.name, store.name(), Job::Drive { base: None }, &task.work);
        cell.repetition = repetition;
        cell.cold = task.line.cold;
        let base = self.base(store);
        let workload = Workload::find(&task.work.workload).expect("the schedule has it");
        if base.exists() && !workload.is_fill() {
            let shares = [workload.updates, workload.inserts, workload.modifies, workload.deletes];
            let writes = shares.iter().any(|share| *share > 0);
            match writes {
                true => cell.job = Job::Drive { base: Some(base) },
                false => cell.directory = base,
            }
        }
        let outcome = self.perform(&cell, store.class() == Class::Embedded);
        // The filled store stays; everything else goes.
        let _ = std::fs::remove_dir_all(self.scratch.join("cell"));
        self.account(&cell, outcome, store.is_ours());
        if let Some(info) = self.records.last().filter(|r| r.store == cell.store)
            && !self.results.environment.stores.iter().any(|s| s.name == cell.store)
        {
            let info = StoreInfo {
                name: store.name().to_string(),
                doc: store.doc().to_string(),
                class: class_name(store.class()).to_string(),
                ours: store.is_ours(),
                version: info.outcome.version.clone(),
                settings: info.outcome.settings.clone(),
            };
            self.results.environment.stores.push(info);
        }
    }

    fn is_unable(&self, group: &Group, task: &Task, store: &dyn Peer) -> bool {
        self.results.environment.unable.iter().any(|remark| {
            remark.suite == group.suite.name
                && remark.workload == task.line.name
                && remark.store == store.name()
        })
    }

    fn limit(&mut self, group: &Group, limit: &dyn Limit, repetition: usize) {
        if self.stopped() {
            return;
        }
        let name = format!("{LIMIT_PREFIX}{}", limit.name());
        let job = Job::Limit { bytes: group.sizes.data_bytes };
        let mut cell = self.cell(group, "limits", &name, job, &idle_work());
        cell.repetition = repetition;
        cell.seconds = self.run.request.size.limit_seconds();
        let outcome = self.perform(&cell, false);
        let _ = std::fs::remove_dir_all(self.scratch.join("cell"));
        let version = outcome.as_ref().ok().map(|outcome| outcome.version.clone());
        self.account(&cell, outcome, false);
        if let Some(version) = version
            && !self.results.environment.stores.iter().any(|s| s.name == name)
        {
            self.results.environment.stores.push(StoreInfo {
                name,
                doc: limit.doc().to_string(),
                class: "limit".to_string(),
                ours: false,
                version,
                settings: Vec::new(),
            });
        }
    }

    /// Performs a cell, in a memory group where it is to be limited and may be.
    fn perform(&mut self, cell: &Cell, limited: bool) -> std::result::Result<Outcome, String> {
        let memory_limit = &mut self.results.environment.machine.memory_limit;
        let mut cell = cell.clone();
        // In this process a group would limit the runner, too.
        let limited = limited && !self.run.child.is_empty();
        let group = limited.then(|| MemoryGroup::new(cell.memory_bytes + ALLOWANCE_BYTES));
        match &group {
            Some(Ok(group)) => {
                cell.door = Some(group.door());
                *memory_limit = format!(
                    "{}: a store's memory and {} MiB for the program, its driver and the kernel",
                    group.describe(),
                    ALLOWANCE_BYTES >> 20
                );
            }
            Some(Err(e)) => *memory_limit = e.to_string(),
            None => {}
        }
        let limit = self.run.request.size.cell_limit();
        let mut outcome = child::run(&self.run.child, &cell, limit, self.interrupted)?;
        if let Some(Ok(group)) = &group
            && let Some(peak) = group.peak_bytes()
        {
            outcome.push("memory_bytes_max", "bytes", peak as f64);
        }
        Ok(outcome)
    }

    fn account(&mut self, cell: &Cell, outcome: std::result::Result<Outcome, String>, ours: bool) {
        let what = format!("{} {} {} #{}", cell.suite, cell.name, cell.store, cell.repetition + 1);
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(_) if self.stopped() => return,
            Err(why) => {
                self.step(&format!("{what}: FAILED: {why}"));
                return self.fail(cell, why);
            }
        };
        if let Some(why) = &outcome.lacks {
            self.step(&format!("{what}: {why}"));
            let remark = remark(&cell.suite, &cell.name, &cell.store, why.clone());
            return self.results.environment.unable.push(remark);
        }
        for note in &outcome.notes {
            let remark = remark(&cell.suite, &cell.name, &cell.store, note.clone());
            if !self.results.notes.contains(&remark) {
                self.results.notes.push(remark);
            }
        }
        let speed = outcome.figure(SPEED);
        let figure = speed.map_or(String::new(), |ops| format!(": {ops:.0} ops/s"));
        self.records.push(Record {
            suite: cell.suite.clone(),
            workload: cell.name.clone(),
            store: cell.store.clone(),
            ours,
            threads: cell.work.threads,
            repetition: cell.repetition,
            outcome,
        });
        self.step(&format!("{what}{figure}"));
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

fn class_name(class: Class) -> &'static str {
    match class {
        Class::Embedded => "embedded",
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
    }
}
