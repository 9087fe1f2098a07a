//! From a history without an order to a short piece of it that has none either.
//!
//! A piece proves something only where an order of the whole would give one of the piece. So
//! gets may go one at a time (an order stays one without them), but what writes may go only with
//! everything that saw what it wrote: then each of the others still sees what it saw.

use super::check::explain;
use super::step::{Kind, MISSING, Step, Steps, Value};
use std::collections::BTreeSet;

/// The operations that are left of `steps`, which have no order.
pub(super) fn shorten(mut steps: Steps) -> Vec<usize> {
    if let Err(stamp) = explain(&steps) {
        steps.list.retain(|step| step.begin < stamp);
    }
    drop_values(&mut steps);
    drop_each(&mut steps, |step, _| only_looks(step));
    drop_each(&mut steps, |step, steps| removes(step) && !needs_deletes(steps));
    steps.list.iter().map(|step| step.operation).collect()
}

fn only_looks(step: &Step) -> bool {
    matches!(step.kind, Kind::Get(_) | Kind::Swap { did: Some(false), .. } | Kind::NoCommit { .. })
}

fn removes(step: &Step) -> bool {
    matches!(step.kind, Kind::Remove { .. } | Kind::Write { was: None, new: MISSING })
}

/// True where a step may have seen what a delete left. In a cache that may have been forgotten.
fn needs_deletes(steps: &Steps) -> bool {
    let saw = |step: &Step| is_vague(step) || steps.trace(step.kind).0 == Some(MISSING);
    !steps.forgets() && steps.list.iter().any(saw)
}

/// True for steps of which nobody can say what state they saw, or which need an earlier one of
/// their thread.
fn is_vague(step: &Step) -> bool {
    let vague =
        matches!(step.kind, Kind::Remove { did: true } | Kind::Add { .. } | Kind::Commit { .. });
    vague || matches!(step.kind, Kind::Swap { did: Some(false), .. })
}

/// Drops those of the steps that `may` go, one at a time, without which there is no order either.
fn drop_each(steps: &mut Steps, may: impl Fn(&Step, &Steps) -> bool) {
    let mut at = 0;
    while at < steps.list.len() {
        if may(&steps.list[at], steps) {
            let step = steps.list.remove(at);
            if explain(steps).is_err() {
                continue;
            }
            steps.list.insert(at, step);
        }
        at += 1;
    }
}

/// Drops values, one at a time, with all that wrote or saw them.
fn drop_values(steps: &mut Steps) {
    // What swaps did not find and numbers were added to goes first or stands in the way.
    drop_each(steps, |step, _| matches!(step.kind, Kind::Swap { did: Some(false), .. }));
    if steps.list.iter().any(is_vague) {
        return;
    }
    let written = steps.list.iter().filter_map(|step| steps.trace(step.kind).1);
    let values: BTreeSet<Value> = written.filter(|state| *state != MISSING).collect();
    for value in values {
        let all = steps.list.clone();
        if without(steps, value) && explain(steps).is_err() {
            continue;
        }
        steps.list = all;
    }
}

/// Drops all that wrote or saw `value`, and what follows from that; false where that would leave
/// gets without the delete that they saw.
fn without(steps: &mut Steps, value: Value) -> bool {
    let mut gone = BTreeSet::from([value]);
    let mut has_removed = false;
    loop {
        let traces: Vec<_> = steps.list.iter().map(|step| steps.trace(step.kind)).collect();
        let touches = |(saw, left): &(Option<Value>, Option<Value>)| {
            [saw, left].into_iter().flatten().any(|state| gone.contains(state))
        };
        let dropped: Vec<bool> = traces.iter().map(touches).collect();
        if !dropped.contains(&true) {
            return !(has_removed && needs_deletes(steps));
        }
        for ((_, left), _) in traces.iter().zip(&dropped).filter(|(_, dropped)| **dropped) {
            match left {
                Some(MISSING) => has_removed = true,
                Some(left) => drop(gone.insert(*left)),
                None => {}
            }
        }
        let mut keep = dropped.iter().map(|dropped| !dropped);
        steps.list.retain(|_| keep.next().expect("one for each step"));
    }
}
