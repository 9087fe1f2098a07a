//! The one driver: runs the threads of a plan against a target and samples its metrics.

use crate::generator::Chooser;
use crate::plan::Plan;
use crate::report::Sample;
use crate::target::Target;
use crate::worker::{Role, Shared, Tally, Worker};
use crate::workload::Workload;
use silica::{Durability, Error, ErrorKind, Result};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time between two samples of the metrics; doubled when there are too many.
const SAMPLE_PERIOD: Duration = Duration::from_millis(20);
/// More samples than a chart has pixels are of no use.
const SAMPLES_MAX: usize = 2000;
/// Keys in one batch of the fill that precedes a measured part.
const FILL_BATCH: usize = 64;

/// Told what the driver is doing: the phase and the share of it that is done.
pub type Observer<'a> = dyn FnMut(&str, f64) + 'a;

/// What the threads of a plan did.
pub struct Run {
    /// Of all threads together.
    pub tally: Tally,
    /// Time that it took.
    pub seconds: f64,
    /// Metrics over time.
    pub samples: Vec<Sample>,
}

/// Puts the keys that `plan` wants to be there before its measured part.
pub fn fill(plan: &Plan, target: &dyn Target, observer: &mut Observer<'_>) -> Result<()> {
    let fill = Plan {
        workload: *Workload::find("fill")?,
        operations: plan.keys,
        batch: FILL_BATCH,
        rate: 0,
        seconds_max: 0.0,
        durability: Durability::Buffered,
        ..plan.clone()
    };
    drive(&fill, target, "fill", observer)?;
    target.sync()
}

fn roles(plan: &Plan) -> Vec<Role> {
    if plan.workload.split_roles {
        let mut roles = vec![Role::ReadUntilStopped; plan.threads];
        roles[0] = Role::Insert(plan.operations);
        return roles;
    }
    let threads = plan.threads as u64;
    let part = |t| plan.operations / threads + u64::from(t < plan.operations % threads);
    (0..threads).map(|t| Role::Mix(part(t))).collect()
}

/// Runs `plan` on `target` to its end; `phase` is what the observer is told. A wrong answer is an
/// error.
pub fn drive(
    plan: &Plan,
    target: &dyn Target,
    phase: &str,
    observer: &mut Observer<'_>,
) -> Result<Run> {
    let chooser = Chooser::new(plan.distribution, plan.keys);
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let puts_before = target.metrics()?.get("puts") as u64;
    let shared =
        Shared { plan, target, chooser: &chooser, done: &done, stop: &stop, version: puts_before };
    let started = Instant::now();
    let (tallies, seconds, samples) = std::thread::scope(|scope| {
        let threads: Vec<_> = roles(plan)
            .into_iter()
            .enumerate()
            .map(|(t, role)| {
                let shared = &shared;
                scope.spawn(move || Worker::run(shared, t as u64, role))
            })
            .collect();
        let samples =
            watch(plan, target, started, &mut |share| observer(phase, share), &done, &stop, &|| {
                threads.iter().all(|t| t.is_finished())
            });
        let seconds = started.elapsed().as_secs_f64();
        let tallies: Vec<_> = threads.into_iter().map(|t| t.join()).collect();
        (tallies, seconds, samples)
    });
    let mut all = Tally::default();
    for tally in tallies {
        let panicked = |_| Error::new(ErrorKind::Io, "a benchmark thread panicked");
        all.add(&tally.map_err(panicked)??);
    }
    if all.wrong > 0 {
        let message = format!(
            "{} of {} reads gave a wrong answer; the store or the device is broken",
            all.wrong, all.reads
        );
        return Err(Error::new(ErrorKind::Corruption, message));
    }
    Ok(Run { tally: all, seconds, samples })
}

/// Samples the metrics and tells the observer until `finished`; says `stop` when the plan's time is
/// over.
fn watch(
    plan: &Plan,
    target: &dyn Target,
    started: Instant,
    observer: &mut dyn FnMut(f64),
    done: &AtomicU64,
    stop: &AtomicBool,
    finished: &dyn Fn() -> bool,
) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut period = SAMPLE_PERIOD;
    let mut next = Duration::ZERO;
    while !finished() {
        let now = started.elapsed();
        if plan.seconds_max > 0.0 && now.as_secs_f64() >= plan.seconds_max {
            stop.store(true, Ordering::Relaxed);
        }
        if now >= next {
            next = now + period;
            observer(done.load(Ordering::Relaxed) as f64 / plan.operations.max(1) as f64);
            if let Ok(metrics) = target.metrics() {
                samples.push(Sample::new(now.as_secs_f64(), &metrics));
            }
            if samples.len() > SAMPLES_MAX {
                let mut keep = false;
                samples.retain(|_| {
                    keep = !keep;
                    keep
                });
                period *= 2;
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    if let Ok(metrics) = target.metrics() {
        samples.push(Sample::new(started.elapsed().as_secs_f64(), &metrics));
    }
    samples
}
