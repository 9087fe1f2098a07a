//! From requests to distinct keys and back.

use super::Popularity;
use super::curve::Curve;

/// The primitives of Lim's dissertation (section 4.2 and 4.3.3) for one popularity.
///
/// The first use of a range of arguments sums over all groups of keys; every further use takes some
/// tens of nanoseconds. Counts of requests and of keys are real numbers; a negative count is zero,
/// and more keys than there are is all of them.
///
/// ```
/// use silica_tune::model::{Popularity, Primitives};
///
/// let keys = Primitives::new(Popularity::zipf(100_000_000, 0.99)?);
/// assert!((keys.merge(1e7, 9e7) / 9.03e7 - 1.0).abs() < 1e-3);
/// # Ok::<(), silica_base::Error>(())
/// ```
#[derive(Debug)]
pub struct Primitives {
    popularity: Popularity,
    /// `ln(-ln(share of keys that n requests do not name))`, by `ln(n)`.
    unseen: Curve,
    /// `ln(filled / free)` of a level that is compacted round and round, by `ln(DInterval)`.
    filled: Curve,
}

/// The grid begins here (as a logarithm): below it a request names a key of its own.
const LOW: f64 = -16.0;

/// `-ln` of the share of keys that is as good as none.
const GONE: f64 = 42.0;

impl Primitives {
    /// Primitives for `popularity`.
    pub fn new(popularity: Popularity) -> Self {
        let slowest = popularity.groups().iter().map(|g| g.rate).fold(f64::INFINITY, f64::min);
        let keys = popularity.keys();
        // A key that has all requests is never unseen; its rate is infinite.
        let high = (GONE / slowest).ln().max(1.0);
        Primitives {
            unseen: Curve::new(LOW, high),
            filled: Curve::new(LOW, (GONE * keys / slowest).ln().max(1.0)),
            popularity,
        }
    }

    /// The popularity that these are for.
    pub fn popularity(&self) -> &Popularity {
        &self.popularity
    }

    /// Number of all keys, `N`.
    pub fn keys(&self) -> f64 {
        self.popularity.keys()
    }

    /// Expected number of distinct keys in `requests` requests (theorem 4.1).
    pub fn unique(&self, requests: f64) -> f64 {
        let keys = self.keys();
        if requests <= 0.0 {
            return 0.0;
        }
        if keys == 1.0 {
            return requests.min(1.0);
        }
        if let [group] = self.popularity.groups() {
            return -keys * (-group.rate * requests).exp_m1();
        }
        let x = requests.ln();
        if x < LOW {
            return self.unique_sum(requests);
        }
        if !self.unseen.has(x) {
            return keys;
        }
        -keys * (-self.unseen.at(x, &|x| self.unseen_sum(x)).exp()).exp_m1()
    }

    /// Theorem 4.1 as a sum over all groups.
    fn unique_sum(&self, requests: f64) -> f64 {
        self.popularity.sum(|group| -(-group.rate * requests).exp_m1())
    }

    /// A value of the curve `unseen`.
    fn unseen_sum(&self, x: f64) -> f64 {
        let requests = x.exp();
        let keys = self.keys();
        let seen = self.unique_sum(requests);
        let exponent = if seen < 0.5 * keys {
            -(-seen / keys).ln_1p()
        } else {
            -(self.popularity.sum(|group| (-group.rate * requests).exp()) / keys).ln()
        };
        exponent.ln()
    }

    /// Requests after which `unique` distinct keys are expected (lemma 4.2); infinite for all keys.
    pub fn unique_inverse(&self, unique: f64) -> f64 {
        let keys = self.keys();
        if unique <= 0.0 {
            return 0.0;
        }
        if unique >= keys {
            return f64::INFINITY;
        }
        if keys == 1.0 {
            return unique;
        }
        let exponent = -(-unique / keys).ln_1p();
        if let [group] = self.popularity.groups() {
            return exponent / group.rate;
        }
        if unique < self.unique_sum(LOW.exp()) {
            return unique / self.popularity.sum(|group| group.rate);
        }
        self.unseen.inverse(exponent.ln(), &|x| self.unseen_sum(x)).exp()
    }

    /// Expected size of the union of two tables of `left` and `right` keys (theorem 4.3).
    pub fn merge(&self, left: f64, right: f64) -> f64 {
        self.unique(self.unique_inverse(left) + self.unique_inverse(right))
    }

    /// Probability that a level has the key at `distance` keys behind the one it compacted last,
    /// where a key is compacted once in `interval` requests (theorem 4.4).
    pub fn density(&self, interval: f64, distance: f64) -> f64 {
        let keys = self.keys();
        self.unique(interval * distance / keys) / keys
    }

    /// Keys in a level whose every key is compacted once in `interval` requests, one after the
    /// other: the sum of [`density`](Self::density) over all distances (lemma 4.5).
    pub fn filled(&self, interval: f64) -> f64 {
        let most = self.keys() - 1.0;
        if interval <= 0.0 || most <= 0.0 {
            return 0.0;
        }
        if self.alike() {
            return self.filled_sum(interval).0;
        }
        let x = interval.ln();
        if x < LOW {
            return self.filled_sum(interval).0;
        }
        if !self.filled.has(x) {
            return most;
        }
        let odds = self.filled.at(x, &|x| self.filled_odds(x));
        most / (1.0 + (-odds).exp())
    }

    /// Requests between two compactions of the same key in a level that holds `size` keys and is
    /// compacted round and round (`DInterval`, section 4.3.3). Infinite where the level can never
    /// get so large, which is one key less than there are.
    pub fn d_interval(&self, size: f64) -> f64 {
        let most = self.keys() - 1.0;
        if size <= 0.0 {
            return 0.0;
        }
        if size >= most {
            return f64::INFINITY;
        }
        if self.alike() {
            return inverse_share(size, self.keys()) / self.popularity.groups()[0].rate;
        }
        let lowest = self.filled_sum(LOW.exp()).0;
        if size < lowest {
            return LOW.exp() * size / lowest;
        }
        let odds = (size / (most - size)).ln();
        self.filled.inverse(odds, &|x| self.filled_odds(x)).exp()
    }

    /// Whether one group has all keys; then nothing needs a curve.
    fn alike(&self) -> bool {
        let groups = self.popularity.groups();
        groups.len() == 1 && groups[0].keys == self.keys()
    }

    /// A value of the curve `filled`.
    fn filled_odds(&self, x: f64) -> f64 {
        let (filled, free) = self.filled_sum(x.exp());
        (filled / free).ln()
    }

    /// The sum of lemma 4.5, and what it lacks to its limit, `N - 1`.
    fn filled_sum(&self, interval: f64) -> (f64, f64) {
        let keys = self.keys();
        let (mut filled, mut free) = (0.0, 0.0);
        for group in self.popularity.groups() {
            let (has, lacks) = shares(group.rate * interval, keys);
            filled += group.keys * has;
            free += group.keys * lacks;
        }
        (filled, free)
    }
}

/// Steps after which a root is exact to a double, and where it is.
const STEPS_MAX: usize = 100;
const EXACT: f64 = 1e-14;

/// The `t` of which [`shares`] says that a level has `size` of `n` keys, by Newton's method.
fn inverse_share(size: f64, n: f64) -> f64 {
    // Right where nearly no key is there and where nearly every one is.
    let odds = size / (n - size);
    let guess = odds * (2.0 + odds) / (1.0 + odds);
    let mut t = -n * (-guess / n).ln_1p();
    if t <= SMALL {
        let first = (n - 1.0) / (2.0 * n);
        for _ in 0..STEPS_MAX {
            let away = shares(t, n).0 - size / n;
            let step = away / (first * (1.0 - 2.0 / 3.0 * t));
            t -= step;
            if step.abs() <= EXACT * t {
                break;
            }
        }
        return t;
    }
    // c / (1 - e^-t) with c = n (1 - e^(-t / n)) is 1 / (1 - share), and nearly a line.
    let goal = n / (n - size);
    for _ in 0..STEPS_MAX {
        let (c, seen) = (-n * (-t / n).exp_m1(), -(-t).exp_m1());
        let slope = ((1.0 - c / n) * seen - c * (1.0 - seen)) / (seen * seen);
        let step = (c / seen - goal) / slope;
        t -= step;
        // What is left is about the square of the step.
        if step.abs() <= 1e-8 * t || !t.is_finite() {
            break;
        }
    }
    t
}

/// Below this `t`, differences of exponentials would cancel.
const SMALL: f64 = 1e-2;

/// Mean over `d` in `0 .. n` of `1 - e^(-t d / n)`, and its distance to the limit `1 - 1/n`.
fn shares(t: f64, n: f64) -> (f64, f64) {
    // Sum over 1 <= d < n of e^(-t d / n), a geometric series.
    let series = |t: f64| (-t / n).exp() * (-t * (n - 1.0) / n).exp_m1() / (-t / n).exp_m1();
    if t > SMALL {
        let lacks = series(t) / n;
        return (1.0 - 1.0 / n - lacks, lacks);
    }
    // Here the difference would cancel: powers of t with the moments of d / n.
    let first = (n - 1.0) / (2.0 * n);
    let second = first * (2.0 * n - 1.0) / (3.0 * n);
    let third = first * first;
    let fourth = second * (3.0 * n * (n - 1.0) - 1.0) / (5.0 * n * n);
    let fifth = third * (2.0 * n * (n - 1.0) - 1.0) / (3.0 * n * n);
    let moments = [first, second / 2.0, third / 6.0, fourth / 24.0, fifth / 120.0];
    let has = t * moments.iter().rev().fold(0.0, |rest, moment| moment - t * rest);
    (has, 1.0 - 1.0 / n - has)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Theorem 4.1 key by key.
    struct EveryKey {
        rates: Vec<f64>,
    }

    impl EveryKey {
        fn zipf(keys: u32, skew: f64) -> Self {
            let weights: Vec<f64> = (1..=keys).map(|i| f64::from(i).powf(-skew)).collect();
            let total: f64 = weights.iter().sum();
            EveryKey { rates: weights.iter().map(|w| -(-w / total).ln_1p()).collect() }
        }

        fn unique(&self, requests: f64) -> f64 {
            self.rates.iter().map(|rate| -(-rate * requests).exp_m1()).sum()
        }

        fn filled(&self, interval: f64) -> f64 {
            let keys = self.rates.len();
            let at = |d: usize| self.unique(interval * d as f64 / keys as f64) / keys as f64;
            (0..keys).map(at).sum()
        }
    }

    fn near(what: &str, value: f64, exact: f64) {
        assert!((value / exact - 1.0).abs() < 1e-9, "{what}: {value} is not {exact}");
    }

    #[test]
    fn equal_the_sum_over_every_key() {
        for (keys, skew) in [(2, 0.5), (100, 1.0), (100_000, 0.3), (100_000, 0.99), (100_000, 1.5)]
        {
            let exact = EveryKey::zipf(keys, skew);
            let ours = Primitives::new(Popularity::zipf(u64::from(keys), skew).unwrap());
            let mut requests = 1e-9;
            while requests < 1e12 {
                let unique = exact.unique(requests);
                near(&format!("Unique, {keys} {skew} {requests}"), ours.unique(requests), unique);
                requests *= 1.7;
            }
        }
    }

    #[test]
    fn inverses_give_back_what_went_in() {
        for skew in [0.0, 0.5, 0.99, 1.2] {
            let ours = Primitives::new(Popularity::zipf(1_000_000, skew).unwrap());
            for share in [1e-12, 1e-7, 1e-3, 0.1, 0.5, 0.9, 0.999, 0.999_99] {
                let size = share * 1e6;
                near("Unique", ours.unique(ours.unique_inverse(size)), size);
                near("filled", ours.filled(ours.d_interval(size)), size);
            }
        }
    }

    #[test]
    fn a_level_compacted_round_and_round_fills_as_its_densities_say() {
        for (keys, skew) in [(2, 0.0), (50, 0.9), (1500, 0.0), (1500, 0.99)] {
            let exact = EveryKey::zipf(keys, skew);
            let ours = Primitives::new(Popularity::zipf(u64::from(keys), skew).unwrap());
            for share in [1e-4, 0.01, 0.7, 3.0, 50.0, 900.0] {
                let interval = share * f64::from(keys);
                near("filled", ours.filled(interval), exact.filled(interval));
            }
        }
    }

    #[test]
    fn the_figures_in_the_text_come_out() {
        let uniform = Primitives::new(Popularity::uniform(100_000_000).unwrap());
        let size = 10.0 * f64::from(1 << 20);
        assert!((uniform.d_interval(size) / 2.26e7 - 1.0).abs() < 0.003);
        assert!((uniform.unique_inverse(size) / 1.11e7 - 1.0).abs() < 0.003);
        let skewed = Primitives::new(Popularity::zipf(100_000_000, 0.99).unwrap());
        assert!((skewed.merge(1e7, 9e7) / 9.03e7 - 1.0).abs() < 0.001);
    }

    /// Keys alike take a way of their own, which is that of two groups of keys alike.
    #[test]
    fn keys_alike_are_as_two_groups_of_them() {
        for keys in [2_u64, 3, 10, 1000, 100_000_000] {
            let n = keys as f64;
            let ours = Primitives::new(Popularity::uniform(keys).unwrap());
            let half = [(0.5 * n, 0.5), (0.5 * n, 0.5)];
            let groups = Primitives::new(Popularity::weighted(&half).unwrap());
            for share in [1e-6, 1e-4, 3e-3, 0.02, 0.2, 0.5, 0.9, 0.99, 0.999] {
                let size = share * (n - 1.0);
                let interval = ours.d_interval(size);
                near(&format!("interval, {keys} {share}"), interval, groups.d_interval(size));
                near("filled", ours.filled(interval), groups.filled(interval));
            }
        }
    }

    #[test]
    fn edges_are_numbers() {
        for keys in [1, 2, 3, 1 << 50] {
            for skew in [0.0, 0.99, 2.0] {
                let ours = Primitives::new(Popularity::zipf(keys, skew).unwrap());
                let all = ours.keys();
                for x in [-1.0, 0.0, 1e-300, 1e-9, 1.0, 1e9, 1e300, f64::INFINITY] {
                    assert!((0.0..=all).contains(&ours.unique(x)), "{keys} {skew} {x}");
                    assert!((0.0..=all).contains(&ours.filled(x)), "{keys} {skew} {x}");
                    assert!(ours.unique_inverse(x) >= 0.0 && ours.d_interval(x) >= 0.0);
                    assert!((0.0..=all).contains(&ours.merge(x, 1.0)), "{keys} {skew} {x}");
                }
                assert_eq!(ours.unique_inverse(all), f64::INFINITY);
            }
        }
    }
}
