//! The one driver: runs the threads of a plan against a target and samples its metrics.

use crate::distribution::Chooser;
use crate::plan::Plan;
use crate::report::Sample;
use crate::target::Target;
use crate::trace::Trace;
use crate::worker::{Role, Shared, Tally, Work, Worker};
use crate::workload::Workload;
use silica::{Durability, Error, ErrorKind, Result};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
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
    /// Time that it took, without what a thread spent on average on drawing operations and on
    /// checking answers. The throughput is operations over this.
    pub seconds: f64,
    /// Time that the slowest thread took, sessions opened before, by the clock on the wall.
    pub wall_seconds: f64,
    /// Metrics over time.
    pub samples: Vec<Sample>,
}

/// Puts the keys that `plan` wants to be there before its measured part.
pub fn fill(plan: &Plan, target: &dyn Target, observer: &mut Observer<'_>) -> Result<()> {
    let fill = Plan {
        // Keys and values as the measured part expects them.
        workload: Workload {
            layout: plan.workload.layout,
            sizes: plan.workload.sizes,
            ..*Workload::find("fill")?
        },
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
    let threads = plan.threads as u64;
    let part = |total: u64, of: u64, t| total / of + u64::from(t < total % of);
    if !plan.workload.split_roles {
        let mix = |t| Role { work: Work::Mix, operations: Some(part(plan.operations, threads, t)) };
        return (0..threads).map(mix).collect();
    }
    let readers_end = plan.workload.readers_end;
    let readers = threads - 1;
    (0..threads)
        .map(|t| match t {
            0 => Role { work: Work::Write, operations: (!readers_end).then_some(plan.operations) },
            t => Role {
                work: Work::Read,
                operations: readers_end.then(|| part(plan.operations, readers, t - 1)),
            },
        })
        .collect()
}

/// Runs `plan` on `target` to its end; `phase` is what the observer is told. A wrong answer is an
/// error.
pub fn drive(
    plan: &Plan,
    target: &dyn Target,
    phase: &str,
    observer: &mut Observer<'_>,
) -> Result<Run> {
    work(plan, None, target, phase, observer)
}

/// Replays `trace` on `target` with the threads, batches and durability of `plan`.
pub fn replay(
    plan: &Plan,
    trace: &Trace,
    target: &dyn Target,
    observer: &mut Observer<'_>,
) -> Result<Run> {
    work(plan, Some(trace), target, plan.workload.name, observer)
}

fn work(
    plan: &Plan,
    trace: Option<&Trace>,
    target: &dyn Target,
    phase: &str,
    observer: &mut Observer<'_>,
) -> Result<Run> {
    plan.workload.check_abilities(target.abilities())?;
    let chooser = Chooser::new(plan.distribution, plan.keys);
    let mut roles = roles(plan);
    if trace.is_some() {
        // The trace's end is theirs.
        roles.iter_mut().for_each(|role| role.operations = Some(u64::MAX));
    }
    let leaders = roles.iter().filter(|role| role.operations.is_some()).count();
    let shared = Shared {
        plan,
        target,
        chooser: &chooser,
        done: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        leaders: AtomicUsize::new(leaders),
        ready: Barrier::new(plan.threads),
        version: target.metrics()?.get("puts") as u64,
        trace,
    };
    let (tallies, samples) = std::thread::scope(|scope| {
        let threads: Vec<_> = roles
            .into_iter()
            .enumerate()
            .map(|(t, role)| {
                let shared = &shared;
                scope.spawn(move || Worker::run(shared, t as u64, role))
            })
            .collect();
        let mut observer = |share| observer(phase, share);
        let samples = watch(&shared, &mut observer, &|| threads.iter().all(|t| t.is_finished()));
        let tallies: Vec<_> = threads.into_iter().map(|t| t.join()).collect();
        (tallies, samples)
    });
    let mut all = Tally::default();
    for tally in tallies {
        let panicked = |_| Error::new(ErrorKind::Io, "a benchmark thread panicked");
        all.add(&tally.map_err(panicked)??);
    }
    if all.wrong > 0 {
        let message = format!(
            "{} of {} answers are wrong; the store or the device is broken",
            all.wrong,
            all.reads + all.scanned
        );
        return Err(Error::new(ErrorKind::Corruption, message));
    }
    let wall_seconds = all.wall_nanos as f64 / 1e9;
    let apart = all.apart_nanos as f64 / 1e9 / plan.threads as f64;
    Ok(Run { tally: all, seconds: wall_seconds - apart, wall_seconds, samples })
}

/// Samples the metrics and tells the observer until `finished`; says `stop` when the plan's time is
/// over.
fn watch(
    shared: &Shared<'_>,
    observer: &mut dyn FnMut(f64),
    finished: &dyn Fn() -> bool,
) -> Vec<Sample> {
    let (plan, target, started) = (shared.plan, shared.target, Instant::now());
    let mut samples = Vec::new();
    let mut period = SAMPLE_PERIOD;
    let mut next = Duration::ZERO;
    while !finished() {
        let now = started.elapsed();
        if plan.seconds_max > 0.0 && now.as_secs_f64() >= plan.seconds_max {
            shared.stop.store(true, Ordering::Relaxed);
        }
        if now >= next {
            next = now + period;
            observer(shared.done.load(Ordering::Relaxed) as f64 / plan.operations.max(1) as f64);
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
