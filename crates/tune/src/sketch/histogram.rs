//! Sizes seen: few buckets, exact sums.

use crate::workload::Sizes;

/// Values below are buckets of their own; above, each doubling has as many buckets.
const EXACT: u64 = 8;
const BITS: u32 = EXACT.ilog2();
/// Buckets in all, for values below 2^48.
pub(super) const BUCKETS: usize = (EXACT as usize) * (48 - BITS as usize + 1);

/// Counts and sums of values, in buckets an eighth of their lower edge wide.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeHistogram {
    /// How many values, and their sum.
    pub(super) buckets: Vec<(u64, u64)>,
}

impl Default for SizeHistogram {
    fn default() -> Self {
        SizeHistogram { buckets: vec![(0, 0); BUCKETS] }
    }
}

fn bucket(value: u64) -> usize {
    if value < EXACT {
        return value as usize;
    }
    let above = value.ilog2() - BITS;
    let within = (value >> above) - EXACT;
    ((u64::from(above) + 1) * EXACT + within).min(BUCKETS as u64 - 1) as usize
}

impl SizeHistogram {
    /// Adds `weight` values.
    pub fn add(&mut self, value: u64, weight: u64) {
        let (count, sum) = &mut self.buckets[bucket(value)];
        *count = count.saturating_add(weight);
        *sum = sum.saturating_add(value.saturating_mul(weight));
    }

    /// Halves the number of values; their means stay.
    pub(super) fn halve(&mut self) {
        for (count, sum) in &mut self.buckets {
            let half = *count / 2;
            let kept = u128::from(*sum) * u128::from(half) / u128::from((*count).max(1));
            (*count, *sum) = (half, kept as u64);
        }
    }

    /// How many values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |all, (count, _)| all.saturating_add(*count))
    }

    /// The distribution: each bucket is its mean. `None` where nothing was added.
    pub fn sizes(&self) -> Option<Sizes> {
        let parts = self.buckets.iter().filter(|(count, _)| *count > 0);
        let parts = parts.map(|(count, sum)| (*sum as f64 / *count as f64, *count as f64));
        Sizes::weighted(parts.collect()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_one_another_and_are_narrow() {
        let mut last = 0;
        for value in 0..100_000u64 {
            let at = bucket(value);
            assert!(at == last || at == last + 1, "{value}");
            last = at;
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn means_are_exact_and_quantiles_near() {
        let mut histogram = SizeHistogram::default();
        assert_eq!(histogram.sizes(), None);
        (1..=1000).for_each(|value| histogram.add(value, 3));
        let sizes = histogram.sizes().unwrap();
        assert!((sizes.mean() - 500.5).abs() < 1e-6);
        for quantile in [0.1, 0.5, 0.9, 0.99] {
            let found = sizes.quantile(quantile) / (1000.0 * quantile);
            assert!((found - 1.0).abs() < 0.13, "{quantile}: {found}");
        }
        assert_eq!(histogram.count(), 3000);
        histogram.halve();
        // Of a bucket with three of them one is left.
        assert!((1480..=1500).contains(&histogram.count()), "{}", histogram.count());
        assert!((histogram.sizes().unwrap().mean() - 500.5).abs() < 3.0);
    }

    #[test]
    fn halving_ends_at_nothing() {
        let mut histogram = SizeHistogram::default();
        histogram.add(u64::MAX, u64::MAX);
        (0..64).for_each(|_| histogram.halve());
        assert_eq!(histogram, SizeHistogram::default());
    }
}
