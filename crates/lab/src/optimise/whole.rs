//! A search over whole numbers, one after the other, in steps that double and halve.

use silica_base::{Error, ErrorKind, Result};

use super::{Minimum, ordered};

/// Evaluations after which the best so far is the result.
const EVALUATIONS_MAX: u32 = 100_000;

/// The lowest value of `goal` near `begin`, each parameter within its `bounds` (low, high, both
/// included): no change of one parameter by any power of two is better. Where the goal has one
/// valley in each parameter that does not lie askew, that is the lowest of all.
///
/// # Errors
/// [`ErrorKind::Config`] where there are not as many bounds as parameters, or bounds leave no room.
pub fn minimise_whole(
    goal: &mut dyn FnMut(&[u64]) -> f64,
    begin: &[u64],
    bounds: &[(u64, u64)],
) -> Result<Minimum<u64>> {
    if begin.len() != bounds.len() || !bounds.iter().all(|(low, high)| low <= high) {
        let text = format!("{} parameters in bounds {bounds:?}: none fits", begin.len());
        return Err(Error::new(ErrorKind::Config, text));
    }
    let inside = begin.iter().zip(bounds).map(|(&x, &(low, high))| x.clamp(low, high));
    let mut at: Vec<u64> = inside.collect();
    let mut value = ordered(goal(&at));
    let mut evaluations = 1;
    let mut better = true;
    while better && evaluations < EVALUATIONS_MAX {
        better = false;
        for (i, &(low, high)) in bounds.iter().enumerate() {
            for bit in (0..u64::BITS).rev().filter(|&bit| 1 << bit <= high - low) {
                for up in [true, false] {
                    let step = 1u64 << bit;
                    let moved = if up { at[i].checked_add(step) } else { at[i].checked_sub(step) };
                    let Some(moved) = moved.filter(|moved| (low..=high).contains(moved)) else {
                        continue;
                    };
                    let before = std::mem::replace(&mut at[i], moved);
                    let there = ordered(goal(&at));
                    evaluations += 1;
                    if there < value {
                        (value, better) = (there, true);
                    } else {
                        at[i] = before;
                    }
                }
            }
        }
    }
    Ok(Minimum { at, value, evaluations })
}
