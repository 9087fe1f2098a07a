//! An engine answers as a `BTreeMap` does, for as many random operations as one likes.

use super::harness::Harness;
use super::session::{Outcome, Session, Stop};
use super::workload::{Mix, Step, Steps};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Everything is read once in so many steps.
const CHECK_EVERY: u64 = 50_000;
/// Steps that looking for a shorter failing sequence may take in all, and the longest sequence
/// worth starting from.
const SHRINK_STEPS_MAX: usize = 3_000_000;
const SHRINK_FROM_MAX: usize = 300_000;

/// Performs `operations` random operations (puts, deletes, batches, atomic updates, bursts of
/// gets, scans in one go and across other operations, maintenance, syncs, reopening, counts,
/// clearing, verification) on an empty store and on a model of it, and compares every answer.
///
/// # Panics
///
/// Where an answer differs: with the call that reproduces it and a shortened sequence of steps.
pub fn differential<H: Harness>(harness: &mut H, seed: u64, operations: u64) {
    let workload = harness.workload();
    let steps = || Steps::new(seed, workload, workload.keys, Mix::DIFFERENTIAL);
    let Err((at, message)) = run(harness, steps().take(operations as usize)) else { return };
    let count = (at + 1).min(operations);
    let shrunk = if count as usize <= SHRINK_FROM_MAX {
        let (steps, message) = shrink(harness, steps().take(count as usize).collect());
        format!("; shortened to {} steps: {message}\n{}", steps.len(), show(&steps))
    } else {
        String::new()
    };
    panic!(
        "differential(harness, {seed}, {count}) reproduces this failure at step {at}: \
         {message}{shrunk}"
    );
}

fn show(steps: &[Step]) -> String {
    steps.iter().take(60).map(|step| format!("  {step:?}\n")).collect()
}

/// Runs `steps` on an empty store; the index of the step that failed, and why. The index is the
/// number of steps where only the check at the end failed.
fn run<H: Harness>(
    harness: &mut H,
    steps: impl Iterator<Item = Step>,
) -> Result<(), (u64, String)> {
    let mut at = 0;
    let run = || -> Outcome {
        let keys = harness.workload().keys;
        let mut session = Session::fresh(harness, keys)?;
        for step in steps {
            session.step(&step)?;
            at += 1;
            if at % CHECK_EVERY == 0 {
                session.check_all()?;
            }
        }
        session.check_all()?;
        session.step(&Step::Reopen)?;
        session.check_all()
    };
    let outcome = caught(run);
    outcome.map_err(|stop| (at, stop.to_string()))
}

/// Runs `run` and turns a panic into a wrong outcome.
pub(super) fn caught<T>(run: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("of unknown kind");
        Err(Stop::Wrong(format!("panic: {text}")))
    })
}

/// Leaves out steps as long as the rest still fails.
fn shrink<H: Harness>(harness: &mut H, mut steps: Vec<Step>) -> (Vec<Step>, String) {
    let mut left = SHRINK_STEPS_MAX;
    let mut message = "not reproduced by running the same steps again".to_string();
    let mut fails = |steps: &mut Vec<Step>, candidate: Vec<Step>| {
        left = left.saturating_sub(candidate.len() + 1);
        let Err((at, why)) = run(harness, candidate.iter().cloned()) else { return (false, left) };
        *steps = candidate;
        steps.truncate(at as usize + 1);
        message = why;
        (true, left)
    };
    let all = steps.clone();
    if !fails(&mut steps, all).0 {
        return (steps, message);
    }
    let mut chunk = steps.len().div_ceil(2);
    loop {
        let (mut start, mut removed) = (0, false);
        while start < steps.len() {
            let end = (start + chunk).min(steps.len());
            let candidate = [&steps[..start], &steps[end..]].concat();
            let (failed, left) = fails(&mut steps, candidate);
            if left == 0 {
                return (steps, message);
            }
            removed |= failed;
            start += if failed { 0 } else { chunk };
        }
        if chunk == 1 && !removed {
            return (steps, message);
        }
        chunk = (chunk / 2).max(1);
    }
}
