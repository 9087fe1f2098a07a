//! The search.

use super::step::{FIRST, State, Steps};
use std::collections::BTreeSet;

/// Calls under way that have had their effect, by place, and what the key is.
type Point = (u64, State);

/// Calls that have begun and not ended, each in a place of its own.
struct Underway<'a> {
    steps: &'a Steps,
    places: Vec<Option<usize>>,
}

/// Searches an order of `steps` that explains their answers; otherwise the stamp of the answer
/// until which there was one.
pub(super) fn explain(steps: &Steps) -> Result<(), u64> {
    let list = &steps.list;
    let ends = list.iter().enumerate().filter_map(|(n, step)| Some((step.end?, true, n)));
    let begins = list.iter().enumerate().map(|(n, step)| (step.begin, false, n));
    let mut events: Vec<_> = ends.chain(begins).collect();
    events.sort_unstable();
    let mut underway = Underway { steps, places: Vec::new() };
    let mut points = BTreeSet::from([(0, FIRST)]);
    for (stamp, is_end, step) in events {
        if !is_end {
            underway.enter(step);
            continue;
        }
        points = underway.leave(step, points);
        if points.is_empty() {
            return Err(stamp);
        }
    }
    Ok(())
}

impl Underway<'_> {
    fn enter(&mut self, step: usize) {
        let free = self.places.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        assert!(place < 64, "more than 64 calls of one key at the same time");
        self.places[place] = Some(step);
    }

    /// The points at which `step` has had its effect: those of `points`, and those to which
    /// effects of calls under way lead from there, up to its own.
    fn leave(&mut self, step: usize, points: BTreeSet<Point>) -> BTreeSet<Point> {
        let place = self.places.iter().position(|at| *at == Some(step)).expect("it has begun");
        let own = 1_u64 << place;
        let (mut open, mut seen) = (Vec::from_iter(points), BTreeSet::new());
        let mut left = BTreeSet::new();
        while let Some((done, state)) = open.pop() {
            if done & own != 0 {
                left.insert((done & !own, state));
                continue;
            }
            for (place, other) in self.places.iter().enumerate() {
                let Some(other) = other.filter(|_| done & 1 << place == 0) else { continue };
                for state in self.steps.after(state, self.steps.list[other].kind) {
                    let point = (done | 1 << place, state);
                    if seen.insert(point) {
                        open.push(point);
                    }
                }
            }
        }
        self.places[place] = None;
        left
    }
}
