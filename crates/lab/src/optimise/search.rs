//! L-BFGS inside of bounds, with gradients by differences.

use std::collections::VecDeque;

use silica_base::{Error, ErrorKind, Result};

use super::{Minimum, ordered};

/// Rounds of the search, halvings of a step, and steps that the curvature is made from.
const ROUNDS_MAX: u32 = 200;
const HALVINGS_MAX: u32 = 40;
const STEPS_KEPT: usize = 8;
/// Distance of the two points of a difference.
const DIFFERENCE: f64 = 1e-4;
/// The search ends where a whole round brings less than this part of the goal.
const ENOUGH: f64 = 1e-10;
/// The part of what the slope promises that a step must keep (Armijo).
const KEPT: f64 = 1e-4;

/// The lowest value of `goal` near `begin`, each parameter within its `bounds` (low, high).
///
/// Parameters should be of a scale of 1, as logarithms of sizes are. A limited-memory BFGS: steps
/// are cut off at the bounds, and a parameter that pushes against its bound rests.
///
/// # Errors
/// [`ErrorKind::Config`] where there are not as many bounds as parameters, or bounds leave no room.
pub fn minimise(
    goal: &mut dyn FnMut(&[f64]) -> f64,
    begin: &[f64],
    bounds: &[(f64, f64)],
) -> Result<Minimum<f64>> {
    if begin.len() != bounds.len() || !bounds.iter().all(|(low, high)| low <= high) {
        let text = format!("{} parameters in bounds {bounds:?}: none fits", begin.len());
        return Err(Error::new(ErrorKind::Config, text));
    }
    let mut search = Search { goal, bounds, evaluations: 0 };
    let mut at = search.inside(begin);
    let mut value = search.value(&at);
    let mut slope = search.slope(&at);
    let mut history: VecDeque<Step> = VecDeque::new();
    for _ in 0..ROUNDS_MAX {
        let free = search.free(&at, &slope);
        let mut found = search.step(&at, value, &slope, &direction(&slope, &free, &history));
        if found.is_none() && !history.is_empty() {
            // The curvature may mislead; the slope alone does not.
            history.clear();
            found = search.step(&at, value, &slope, &direction(&slope, &free, &history));
        }
        let Some((next, lower)) = found else { break };
        let next_slope = search.slope(&next);
        let step = Step { moved: difference(&next, &at), turned: difference(&next_slope, &slope) };
        let gain = value - lower;
        (at, value, slope) = (next, lower, next_slope);
        if dot(&step.moved, &step.turned) > 0.0 {
            if history.len() == STEPS_KEPT {
                history.pop_front();
            }
            history.push_back(step);
        }
        if gain <= ENOUGH * (1.0 + value.abs()) {
            break;
        }
    }
    Ok(Minimum { at, value, evaluations: search.evaluations })
}

/// A step that was taken, and what it changed of the slope.
struct Step {
    moved: Vec<f64>,
    turned: Vec<f64>,
}

struct Search<'s> {
    goal: &'s mut dyn FnMut(&[f64]) -> f64,
    bounds: &'s [(f64, f64)],
    evaluations: u32,
}

impl Search<'_> {
    fn value(&mut self, at: &[f64]) -> f64 {
        self.evaluations += 1;
        ordered((self.goal)(at))
    }

    fn inside(&self, at: &[f64]) -> Vec<f64> {
        at.iter().zip(self.bounds).map(|(&x, &(low, high))| x.clamp(low, high)).collect()
    }

    /// Central differences; one-sided at a bound.
    fn slope(&mut self, at: &[f64]) -> Vec<f64> {
        let mut probe = at.to_vec();
        let mut slope = Vec::with_capacity(at.len());
        for i in 0..at.len() {
            let (low, high) = self.bounds[i];
            let (left, right) = ((at[i] - DIFFERENCE).max(low), (at[i] + DIFFERENCE).min(high));
            probe[i] = left;
            let before = self.value(&probe);
            probe[i] = right;
            let after = self.value(&probe);
            probe[i] = at[i];
            let rise = (after - before) / (right - left);
            slope.push(if rise.is_finite() { rise } else { 0.0 });
        }
        slope
    }

    /// Which parameters do not push against a bound.
    fn free(&self, at: &[f64], slope: &[f64]) -> Vec<bool> {
        let held = |((&x, &(low, high)), &slope): ((&f64, &(f64, f64)), &f64)| {
            (x <= low && slope > 0.0) || (x >= high && slope < 0.0)
        };
        at.iter().zip(self.bounds).zip(slope).map(|all| !held(all)).collect()
    }

    /// The first of ever shorter steps that keeps what the slope promises.
    fn step(
        &mut self,
        at: &[f64],
        value: f64,
        slope: &[f64],
        direction: &[f64],
    ) -> Option<(Vec<f64>, f64)> {
        let mut length = 1.0;
        for _ in 0..HALVINGS_MAX {
            let next: Vec<f64> = at.iter().zip(direction).map(|(x, d)| x + length * d).collect();
            let next = self.inside(&next);
            let promised = dot(slope, &difference(&next, at));
            if promised >= 0.0 {
                return None;
            }
            let lower = self.value(&next);
            if lower <= value + KEPT * promised && lower < value {
                return Some((next, lower));
            }
            length *= 0.5;
        }
        None
    }
}

/// Down the slope, bent by the curvature that the last steps met (the two loops of L-BFGS).
fn direction(slope: &[f64], free: &[bool], history: &VecDeque<Step>) -> Vec<f64> {
    let rest = |v: &mut Vec<f64>| {
        v.iter_mut().zip(free).for_each(|(x, &free)| *x = if free { *x } else { 0.0 });
    };
    let mut d: Vec<f64> = slope.iter().map(|s| -s).collect();
    rest(&mut d);
    let Some(latest) = history.back() else {
        // Nothing is known of the scale: move by 1 at most.
        let longest = d.iter().fold(1.0, |most: f64, x| most.max(x.abs()));
        return d.into_iter().map(|x| x / longest).collect();
    };
    let mut parts = Vec::with_capacity(history.len());
    for step in history.iter().rev() {
        let part = dot(&step.moved, &d) / dot(&step.moved, &step.turned);
        add(&mut d, -part, &step.turned);
        parts.push(part);
    }
    let scale = dot(&latest.moved, &latest.turned) / dot(&latest.turned, &latest.turned);
    d.iter_mut().for_each(|x| *x *= scale);
    for (step, part) in history.iter().zip(parts.into_iter().rev()) {
        let back = dot(&step.turned, &d) / dot(&step.moved, &step.turned);
        add(&mut d, part - back, &step.moved);
    }
    rest(&mut d);
    d
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn difference(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

fn add(to: &mut [f64], factor: f64, what: &[f64]) {
    to.iter_mut().zip(what).for_each(|(to, what)| *to += factor * what);
}
