//! Latency histogram: a thin face over `hdrhistogram`.

/// Largest value told apart: an hour in nanoseconds.
const VALUE_MAX: u64 = 3_600_000_000_000;

/// Counts of values with three significant digits; used for latencies in nanoseconds.
#[derive(Debug, Clone)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

impl Default for Histogram {
    fn default() -> Self {
        let counts = hdrhistogram::Histogram::new_with_max(VALUE_MAX, 3);
        Histogram(counts.expect("three digits up to an hour are allowed"))
    }
}

impl Histogram {
    /// Counts `value` once; more than an hour of nanoseconds counts as an hour.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.0.saturating_record(value);
    }

    /// Counts `value` as [`Histogram::record`] does, `count` times.
    #[inline]
    pub fn record_many(&mut self, value: u64, count: u64) {
        self.0.saturating_record_n(value, count);
    }

    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        self.0.add(&other.0).expect("both histograms span the same values");
    }

    /// The value below which the share `quantile` (0.0 to 1.0) of all counts lies.
    pub fn quantile(&self, quantile: f64) -> u64 {
        self.0.value_at_quantile(quantile)
    }

    /// Number of values counted.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Mean of all values.
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// Largest value.
    pub fn max(&self) -> u64 {
        self.0.max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_a_ramp() {
        let mut h = Histogram::default();
        (1..=10_000).for_each(|v| h.record(v));
        assert!((h.quantile(0.5) as i64 - 5000).abs() < 10);
        assert!((h.quantile(0.99) as i64 - 9900).abs() < 15);
        let mut twice = h.clone();
        twice.merge(&h);
        twice.record_many(7, 5);
        assert_eq!(twice.count(), 20_005);
    }
}
