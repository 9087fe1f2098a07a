//! The skew of which the counts of some keys are most likely.
//!
//! Keys are a random part of all keys, so the rank of each is uniform over all ranks; a key of
//! rank r is asked for in proportion to `r^-skew`, so its count is a Poisson number of that mean.
//! Over all ranks that gives the probability of every count, with two unknowns: the skew and the
//! mean of the least popular key.

use std::collections::BTreeMap;

/// Points of a quadrature (even).
const POINTS: usize = 48;
/// Counts above are put together, 3 % wide.
const COUNTS_EXACT: u32 = 48;
const STEPS: usize = 28;
/// Below, a skew is none.
const SKEW_MIN: f64 = 0.02;
const SKEW_MAX: f64 = 2.0;
/// Fewer requests than this say nothing of their distribution.
const REQUESTS_MIN: u64 = 200;

/// Counts of keys, with how many keys have them.
#[derive(Default)]
pub(super) struct Counts {
    /// Of keys known because they were asked for: at least 1.
    pub(super) asked: BTreeMap<u32, u64>,
    /// Of keys known without a request: at least 0.
    pub(super) known: BTreeMap<u32, u64>,
}

impl Counts {
    fn requests(&self) -> u64 {
        let all = self.asked.iter().chain(&self.known);
        all.map(|(count, keys)| u64::from(*count) * keys).sum()
    }
}

/// What fits best.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fit {
    pub(super) skew: f64,
    /// The share of the requests that the fit has elsewhere.
    pub(super) misplaced: f64,
}

/// The skew of a store of `keys` keys; `None` where there are too few requests.
pub(super) fn fit(counts: &Counts, keys: f64) -> Option<Fit> {
    if counts.requests() < REQUESTS_MIN {
        return None;
    }
    let asked = grouped(&counts.asked);
    let known = grouped(&counts.known);
    let depth = keys.max(2.0).ln();
    let score = |skew: f64, log_mean: f64| likelihood(&asked, &known, skew, log_mean.exp(), depth);
    let largest = asked.iter().chain(&known).map(|(count, _)| *count).fold(1.0, f64::max);
    let best_mean =
        |skew: f64| highest(-12.0, largest.ln() + 1.0, |log_mean| score(skew, log_mean));
    let (skew, _) = highest(SKEW_MIN / 2.0, SKEW_MAX, |skew| best_mean(skew).1);
    let mean = best_mean(skew).0.exp();
    let misplaced = misplaced(counts, skew, mean, depth);
    Some(Fit { skew: if skew < SKEW_MIN { 0.0 } else { skew }, misplaced })
}

/// Counts, those that are close to each other together.
fn grouped(counts: &BTreeMap<u32, u64>) -> Vec<(f64, f64)> {
    let mut groups: Vec<(f64, f64)> = Vec::new();
    let mut edge = 0.0;
    for (count, keys) in counts {
        let (count, keys) = (f64::from(*count), *keys as f64);
        match groups.last_mut() {
            Some((sum, all)) if count > f64::from(COUNTS_EXACT) && count < edge => {
                *sum += count * keys;
                *all += keys;
            }
            _ => {
                edge = count * 1.03;
                groups.push((count * keys, keys));
            }
        }
    }
    groups.into_iter().map(|(sum, keys)| ((sum / keys).round(), keys)).collect()
}

fn likelihood(asked: &[(f64, f64)], known: &[(f64, f64)], skew: f64, mean: f64, depth: f64) -> f64 {
    let any = (-probability(0.0, skew, mean, depth)).ln_1p();
    let sum = |counts: &[(f64, f64)], less: f64| -> f64 {
        let term = |(count, keys): &(f64, f64)| {
            keys * (probability(*count, skew, mean, depth).max(1e-300).ln() - less)
        };
        counts.iter().map(term).sum()
    };
    sum(asked, any) + sum(known, 0.0)
}

/// Probability that a key of a uniform rank is asked for `count` times, where the least popular
/// key has `mean` requests and the most popular one `e^(skew * depth)` times as many.
fn probability(count: f64, skew: f64, mean: f64, depth: f64) -> f64 {
    // The rank is `e^-y` of all ranks. Counts far from `count` come to nothing.
    let width = 8.0 * (count + 1.0).sqrt() + 16.0;
    let place = |requests: f64| ((requests.max(1e-9) / mean).ln() / skew).clamp(0.0, depth);
    let (from, to) = (place(count - width), place(count + width));
    let to = to.min(from + 36.0);
    if to <= from {
        return 0.0;
    }
    let log_factorial = log_factorial(count);
    let step = (to - from) / POINTS as f64;
    let value = |point: usize| {
        let y = from + step * point as f64;
        let requests = mean * (skew * y).exp();
        (count * requests.ln() - requests - log_factorial - y).exp()
    };
    let inner: f64 =
        (1..POINTS).map(|p| if p % 2 == 1 { 4.0 * value(p) } else { 2.0 * value(p) }).sum();
    // The ranks end at 1, so what is left of the uniform measure is `1 - e^-depth`.
    (value(0) + inner + value(POINTS)) * step / 3.0 / -(-depth).exp_m1()
}

/// `ln(count!)`.
fn log_factorial(count: f64) -> f64 {
    if count < 16.0 {
        return (1..=count as u32).map(|i| f64::from(i).ln()).sum();
    }
    let half_log_tau = 0.918_938_533_204_672_7;
    (count + 0.5) * count.ln() - count + half_log_tau + 1.0 / (12.0 * count)
}

/// Where `f`, which has one hill between `low` and `high`, is highest, and how high.
fn highest(mut low: f64, mut high: f64, f: impl Fn(f64) -> f64) -> (f64, f64) {
    let golden = 0.618_033_988_749_894_9;
    let (mut left, mut right) = (high - golden * (high - low), low + golden * (high - low));
    let (mut at_left, mut at_right) = (f(left), f(right));
    for _ in 0..STEPS {
        if at_left >= at_right {
            (high, right, at_right) = (right, left, at_left);
            left = high - golden * (high - low);
            at_left = f(left);
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = low + golden * (high - low);
            at_right = f(right);
        }
    }
    if at_left >= at_right { (left, at_left) } else { (right, at_right) }
}

/// The share of the requests that lies with other counts than the fit has it, beyond what chance
/// makes of so few keys.
fn misplaced(counts: &Counts, skew: f64, mean: f64, depth: f64) -> f64 {
    let (mut apart, mut requests) = (0.0, 0.0);
    for (counts, first) in [(&counts.asked, 1), (&counts.known, 0)] {
        let keys: f64 = counts.values().map(|keys| *keys as f64).sum();
        let none = if first == 1 { probability(0.0, skew, mean, depth) } else { 0.0 };
        let mut from = first;
        while keys > 0.0 && from < u32::MAX / 2 {
            let to = if from < COUNTS_EXACT { from + 1 } else { from * 3 / 2 };
            let found: u64 = counts.range(from..to).map(|(_, keys)| keys).sum();
            let asked: f64 =
                counts.range(from..to).map(|(count, k)| f64::from(*count) * *k as f64).sum();
            let share = between(from, to, skew, mean, depth) / (1.0 - none).max(1e-9);
            let chance = 2.0 * (share * keys).sqrt() + 3.0;
            let excess = ((found as f64 - share * keys).abs() - chance).max(0.0);
            // Where keys are missing there is no count to go by but the bucket's own.
            let each = if found > 0 { asked / found as f64 } else { f64::from(from) };
            apart += excess * each;
            requests += asked;
            if counts.range(to..).next().is_none() {
                break;
            }
            from = to;
        }
    }
    apart / f64::max(requests, 1.0)
}

/// Probability of a count from `from` on and below `to`.
fn between(from: u32, to: u32, skew: f64, mean: f64, depth: f64) -> f64 {
    /// Above, counts are narrow against their bucket.
    const NARROW: u32 = 1000;
    const PARTS: u32 = 24;
    if to == from + 1 {
        return probability(f64::from(from), skew, mean, depth);
    }
    let width = f64::from(to - from);
    if from < NARROW {
        let step = width / f64::from(PARTS);
        // Counts are whole, so a bucket begins half of one before its first.
        let middle = |part| f64::from(from) - 0.5 + step * (f64::from(part) + 0.5);
        return (0..PARTS).map(|p| probability(middle(p), skew, mean, depth) * step).sum();
    }
    let ranks = |count: u32| (-((f64::from(count) / mean).ln() / skew).clamp(0.0, depth)).exp();
    (ranks(from) - ranks(to)) / -(-depth).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_of_all_counts_sum_to_one() {
        for (skew, mean, keys) in
            [(0.01, 3.0, 1e6), (0.5, 0.2, 1e5), (0.99, 1.0, 1e8), (1.2, 0.01, 1e6), (2.0, 5.0, 1e4)]
        {
            let depth = f64::ln(keys);
            let low: f64 = (0..2000).map(|c| probability(f64::from(c), skew, mean, depth)).sum();
            // What lies above follows the ranks that are asked for more often.
            let above = ((2000.0 / mean).ln() / skew).min(depth);
            let high = ((-above).exp() - (-depth).exp()) / -(-depth).exp_m1();
            assert!((low + high - 1.0).abs() < 2e-3, "{skew} {mean} {keys}: {low} {high}");
        }
    }

    #[test]
    fn factorials() {
        let exact: f64 = (1..=40).map(|i| f64::from(i).ln()).sum();
        assert!((log_factorial(40.0) - exact).abs() < 1e-6);
        assert_eq!(log_factorial(0.0), 0.0);
    }

    #[test]
    fn too_few_requests_say_nothing() {
        assert_eq!(fit(&Counts::default(), 100.0), None);
        let asked = BTreeMap::from([(1, 199)]);
        assert_eq!(fit(&Counts { asked, ..Counts::default() }, 1e3), None);
    }
}
