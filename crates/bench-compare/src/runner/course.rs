//! One workload of one repetition: all stores begin, go round in slices, and end.

use super::{Runner, class_name, limit_info, remark};
use crate::cell::{Cell, Job, Outcome};
use crate::cgroup::MemoryGroup;
use crate::child::{self, Player, Started};
use crate::limits::{self, LIMIT_PREFIX};
use crate::peer::{Class, Peer};
use crate::protocol::SliceReport;
use crate::results::StoreInfo;
use crate::rounds::{self, Contestant, Lane, Windows, World};
use crate::schedule::{Group, Task};
use crate::stats::{Spread, Turn, number};
use crate::summary::{Record, SPEED};
use silica_bench::Workload;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A store or a limit that is ready for slices. The process goes before its group.
struct Entrant<'a> {
    player: Player<'a>,
    memory: Option<MemoryGroup>,
    cell: Cell,
    kind: Kind,
}

#[derive(Clone, Copy)]
enum Kind {
    Store(&'static dyn Peer),
    /// With the metric.
    Limit(&'static dyn limits::Limit, &'static str),
}

impl Contestant for Entrant<'_> {
    fn slice(&mut self, seconds: f64) -> Result<SliceReport, String> {
        self.player.slice(seconds)
    }
}

/// Number of the repetition, time of each store, and whether the filled stores are used up.
type Course = (usize, f64, bool);

impl<'a> Runner<'a> {
    pub(super) fn course(
        &mut self,
        group: &Group,
        task: &Task,
        stores: &[&'static dyn Peer],
        course: Course,
    ) {
        let (began, before) = (Instant::now(), self.steps);
        let mut lanes = Vec::new();
        for store in stores {
            if let Some(entrant) = self.enter(group, task, *store, course) {
                lanes.push(Lane::new(entrant, task.work.operations as f64));
            }
        }
        if !lanes.is_empty() {
            let limits = task.line.limits.iter();
            let limits = limits.filter_map(|beside| self.enter_limit(group, task, *beside, course));
            lanes.extend(limits.map(Lane::beside));
        }
        let (repetition, seconds, _) = course;
        let rounds = self.rounds(group, task, &mut lanes, repetition, &task.windows(seconds));
        let count = lanes.len();
        for lane in lanes {
            self.leave(lane);
        }
        self.steps = before + group.steps_of(task);
        self.watch.measured(began.elapsed(), rounds, count.max(1));
    }

    /// Lets them go round; the time that it took.
    fn rounds(
        &mut self,
        group: &Group,
        task: &Task,
        lanes: &mut [Lane<Entrant<'a>>],
        repetition: usize,
        windows: &Windows,
    ) -> Duration {
        let (began, interrupted) = (Instant::now(), self.interrupted);
        let what = format!("{} {} #{}", group.suite.name, task.line.name, repetition + 1);
        let of = windows.steps();
        let mut told = |round: usize| {
            if of > 0 {
                self.step(&format!("{what}: round {} of {of}", round + 1));
            }
        };
        let mut world = World {
            clock: &|| began.elapsed().as_secs_f64(),
            is_stopped: &|| interrupted.load(Ordering::Relaxed),
            told: &mut told,
        };
        // Every run has one order of stores, and each workload another.
        let seed = what.bytes().fold(1, |seed: u64, b| seed.wrapping_mul(31) + u64::from(b));
        rounds::go_round(lanes, windows, seed, &mut world);
        began.elapsed()
    }

    /// Opens a store and warms it up.
    fn enter(
        &mut self,
        group: &Group,
        task: &Task,
        store: &'static dyn Peer,
        (repetition, seconds, is_last): Course,
    ) -> Option<Entrant<'a>> {
        if self.stopped() || self.is_unable(group, task, store) {
            return None;
        }
        let job = Job::Drive { base: None };
        let mut cell = self.cell(group, task.line.name, store.name(), job, &task.work);
        (cell.repetition, cell.seconds, cell.cold) = (repetition, seconds, task.line.cold);
        let base = self.base(store);
        let workload = Workload::find(&task.work.workload).expect("the schedule has it");
        if base.exists() && !workload.is_fill() {
            match task.writes() && !is_last {
                true => cell.job = Job::Drive { base: Some(base) },
                false => cell.directory = base,
            }
        }
        let memory = match store.class() {
            Class::Embedded | Class::Sql => self.memory_group(&cell),
            Class::Memory | Class::Server => None,
        };
        cell.door = memory.as_ref().map(MemoryGroup::door);
        self.begin(cell, memory, Kind::Store(store))
    }

    /// A limit that changes as fast as stores do takes part in the rounds.
    fn enter_limit(
        &mut self,
        group: &Group,
        task: &Task,
        (name, metric): (&str, &'static str),
        (repetition, seconds, _): Course,
    ) -> Option<Entrant<'a>> {
        let limit = limits::find(name).ok().filter(|limit| limit.has_probe(metric))?;
        if self.stopped() {
            return None;
        }
        let job = Job::Probe { bytes: group.sizes.data_bytes, metric: metric.to_string() };
        let store = format!("{LIMIT_PREFIX}{name}");
        let mut cell = self.cell(group, task.line.name, &store, job, &task.work);
        (cell.repetition, cell.seconds) = (repetition, seconds);
        self.begin(cell, None, Kind::Limit(limit, metric))
    }

    fn begin(
        &mut self,
        cell: Cell,
        memory: Option<MemoryGroup>,
        kind: Kind,
    ) -> Option<Entrant<'a>> {
        let limit = self.run.request.size.cell_limit();
        let what = format!("{} {} {} #{}", cell.suite, cell.name, cell.store, cell.repetition + 1);
        match child::start(&self.run.child, &cell, limit, self.interrupted) {
            Ok(Started::Ready(player)) => {
                if let Kind::Store(_) = kind {
                    self.step(&format!("{what}: ready"));
                }
                return Some(Entrant { player, memory, cell, kind });
            }
            Ok(Started::Done(outcome)) => {
                let why = outcome.lacks.unwrap_or("nothing was measured".to_string());
                self.step(&format!("{what}: {why}"));
                let remark = remark(&cell.suite, &cell.name, &cell.store, why);
                self.results.environment.unable.push(remark);
            }
            Err(_) if self.stopped() => {}
            Err(why) => {
                self.step(&format!("{what}: FAILED: {why}"));
                self.fail(&cell, why);
            }
        }
        self.tidy(&cell);
        None
    }

    /// Notes what it did, and ends it.
    fn leave(&mut self, lane: Lane<Entrant<'a>>) {
        let Lane { contestant: Entrant { player, memory, cell, kind }, turns, failed, .. } = lane;
        let what = format!("{} {} {} #{}", cell.suite, cell.name, cell.store, cell.repetition + 1);
        let ended = match failed {
            Some(why) => {
                drop(player);
                Err(why)
            }
            // An interrupted run is not made to wait for work in the background.
            None => player.end(!self.stopped()),
        };
        let peak = memory.and_then(|memory| memory.peak_bytes());
        self.tidy(&cell);
        let mut outcome = match ended {
            Ok(outcome) => outcome,
            // What was measured stays.
            Err(_) if self.stopped() => Outcome::default(),
            Err(why) => {
                self.step(&format!("{what}: FAILED: {why}"));
                return self.fail(&cell, why);
            }
        };
        if let Some(peak) = peak {
            outcome.push("memory_bytes_max", "bytes", peak as f64);
        }
        let known: Vec<Turn> = turns.iter().flatten().copied().collect();
        let Some(spread) = Spread::of_turns(&[known]) else { return };
        let metric = match kind {
            Kind::Store(_) => (SPEED.to_string(), "ops/s".to_string()),
            Kind::Limit(_, metric) => (metric.to_string(), "1/s".to_string()),
        };
        outcome.push(&metric.0, &metric.1, spread.median);
        self.note(&cell, &outcome, kind);
        if let Kind::Store(_) = kind {
            self.step(&format!("{what}: {} {}", number(spread.median), metric.1));
        }
        self.records.push(Record {
            suite: cell.suite,
            workload: cell.name,
            store: cell.store,
            ours: matches!(kind, Kind::Store(store) if store.is_ours()),
            threads: cell.work.threads,
            repetition: cell.repetition,
            rounds: turns,
            metric,
            outcome,
        });
    }

    fn note(&mut self, cell: &Cell, outcome: &Outcome, kind: Kind) {
        for note in &outcome.notes {
            let remark = remark(&cell.suite, &cell.name, &cell.store, note.clone());
            if !self.results.notes.contains(&remark) {
                self.results.notes.push(remark);
            }
        }
        self.took_part(match kind {
            Kind::Store(store) => StoreInfo {
                name: store.name().to_string(),
                doc: store.doc().to_string(),
                class: class_name(store.class()).to_string(),
                ours: store.is_ours(),
                version: outcome.version.clone(),
                settings: outcome.settings.clone(),
            },
            Kind::Limit(limit, _) => limit_info(limit, &outcome.version),
        });
    }

    /// The filled store stays; everything else goes.
    fn tidy(&self, cell: &Cell) {
        let is_own = cell
            .directory
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("cell-"));
        if is_own {
            // What stays goes with the directory of the run.
            let _ = std::fs::remove_dir_all(&cell.directory);
        }
    }

    fn is_unable(&self, group: &Group, task: &Task, store: &dyn Peer) -> bool {
        self.results.environment.unable.iter().any(|remark| {
            remark.suite == group.suite.name
                && remark.workload == task.line.name
                && remark.store == store.name()
        })
    }
}
