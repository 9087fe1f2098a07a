//! The one driver: runs the threads of a plan against a target and samples its metrics.

use crate::distribution::Chooser;
use crate::gate::{Gate, Pace};
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
/// What a run's end is looked for in.
const WATCH_PERIOD: Duration = Duration::from_millis(2);
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
    match target.sync() {
        // What lies in memory has no sync to wait for.
        Err(error) if error.kind() == silica::ErrorKind::Unsupported => Ok(()),
        synced => synced,
    }
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
    work(plan, None, target, None, &mut |share| observer(phase, share))
}

/// Runs `plan` on `target` in slices, as `pace` says. The time in between counts nowhere: neither
/// in the run's seconds, nor in latencies, nor in the moments of samples.
pub fn drive_slices(plan: &Plan, target: &dyn Target, pace: &mut dyn Pace) -> Result<Run> {
    work(plan, None, target, Some(pace), &mut |_| {})
}

/// Replays `trace` on `target` with the threads, batches and durability of `plan`.
pub fn replay(
    plan: &Plan,
    trace: &Trace,
    target: &dyn Target,
    observer: &mut Observer<'_>,
) -> Result<Run> {
    let phase = plan.workload.name;
    work(plan, Some(trace), target, None, &mut |share| observer(phase, share))
}

fn work(
    plan: &Plan,
    trace: Option<&Trace>,
    target: &dyn Target,
    pace: Option<&mut dyn Pace>,
    observer: &mut dyn FnMut(f64),
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
        gate: Gate::new(pace.is_some()),
    };
    let (tallies, watched) = std::thread::scope(|scope| {
        let threads: Vec<_> = roles
            .into_iter()
            .enumerate()
            .map(|(t, role)| {
                let shared = &shared;
                scope.spawn(move || Worker::run(shared, t as u64, role))
            })
            .collect();
        let ended = || threads.iter().filter(|t| t.is_finished()).count();
        let watched = match pace {
            None => Ok((watch(&shared, observer, &|| ended() == plan.threads), None)),
            Some(pace) => watch_slices(&shared, pace, &ended).map(|(s, wall)| (s, Some(wall))),
        };
        let tallies: Vec<_> = threads.into_iter().map(|t| t.join()).collect();
        (tallies, watched)
    });
    let (samples, slices_seconds) = watched?;
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
    let wall_seconds = slices_seconds.unwrap_or(all.wall_nanos as f64 / 1e9);
    let apart = all.apart_nanos as f64 / 1e9 / plan.threads as f64;
    Ok(Run { tally: all, seconds: wall_seconds - apart, wall_seconds, samples })
}

/// Samples of the metrics; fewer a second where there are too many.
struct Sampler<'a> {
    target: &'a dyn Target,
    samples: Vec<Sample>,
    period: Duration,
    next: Duration,
}

impl<'a> Sampler<'a> {
    fn new(target: &'a dyn Target) -> Self {
        Sampler { target, samples: Vec::new(), period: SAMPLE_PERIOD, next: Duration::ZERO }
    }

    /// Takes a sample where it is time for one; true then.
    fn look(&mut self, now: Duration) -> bool {
        if now < self.next {
            return false;
        }
        self.next = now + self.period;
        self.take(now);
        if self.samples.len() > SAMPLES_MAX {
            let mut keep = false;
            self.samples.retain(|_| {
                keep = !keep;
                keep
            });
            self.period *= 2;
        }
        true
    }

    fn take(&mut self, now: Duration) {
        if let Ok(metrics) = self.target.metrics() {
            self.samples.push(Sample::new(now.as_secs_f64(), &metrics));
        }
    }
}

/// Samples the metrics and tells the observer until `finished`; says `stop` when the plan's time is
/// over.
fn watch(
    shared: &Shared<'_>,
    observer: &mut dyn FnMut(f64),
    finished: &dyn Fn() -> bool,
) -> Vec<Sample> {
    let (plan, started) = (shared.plan, Instant::now());
    let mut sampler = Sampler::new(shared.target);
    while !finished() {
        let now = started.elapsed();
        if plan.seconds_max > 0.0 && now.as_secs_f64() >= plan.seconds_max {
            shared.stop.store(true, Ordering::Relaxed);
        }
        if sampler.look(now) {
            observer(shared.done.load(Ordering::Relaxed) as f64 / plan.operations.max(1) as f64);
        }
        std::thread::sleep(WATCH_PERIOD);
    }
    sampler.take(started.elapsed());
    sampler.samples
}

/// Opens and closes the gate as `pace` says, until all threads have `ended`: the samples, and the
/// time of all slices.
fn watch_slices(
    shared: &Shared<'_>,
    pace: &mut dyn Pace,
    ended: &dyn Fn() -> usize,
) -> Result<(Vec<Sample>, f64)> {
    let threads = shared.plan.threads;
    let mut sampler = Sampler::new(shared.target);
    let mut before = Duration::ZERO;
    let outcome = loop {
        if shared.gate.wait_still(threads, ended).complete {
            break Ok(());
        }
        let time = match pace.next() {
            Ok(Some(time)) => time,
            Ok(None) => break Ok(()),
            Err(e) => break Err(e),
        };
        let started = Instant::now();
        shared.gate.open();
        while let Some(left) = time.checked_sub(started.elapsed())
            && ended() < threads
        {
            let now = before + started.elapsed();
            if sampler.look(now) {
                pace.sample(now.as_secs_f64());
            }
            std::thread::sleep(left.min(WATCH_PERIOD));
        }
        shared.gate.close();
        let slice = shared.gate.wait_still(threads, ended);
        before += Duration::from_secs_f64(slice.wall_seconds);
        if let Err(e) = pace.done(&slice) {
            break Err(e);
        }
    };
    // Whoever still stands goes home.
    shared.stop.store(true, Ordering::Relaxed);
    shared.gate.end();
    sampler.take(before);
    outcome.map(|()| (sampler.samples, before.as_secs_f64()))
}
