//! How fast counters grow, as INFO shows it: the mean of the last seconds.

use crate::stats::Stats;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Samples that are kept; one is taken each second.
const SAMPLES: usize = 3;
/// A rate over less time than this would say little.
const SPAN_MS_MIN: u64 = 100;

/// Counters at a moment.
#[derive(Debug, Clone, Copy, Default)]
struct Sample {
    at_ms: u64,
    counters: Counters,
}

/// Requests, bytes received and bytes sent.
type Counters = [u64; 3];

fn counters(stats: &Stats) -> Counters {
    ["total_commands_processed", "total_net_input_bytes", "total_net_output_bytes"]
        .map(|name| stats.get(name))
}

/// Growth per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Rate {
    pub(crate) requests: u64,
    pub(crate) bytes_received: u64,
    pub(crate) bytes_sent: u64,
}

/// The counters of the last seconds.
#[derive(Debug, Default)]
pub(crate) struct Rates(Mutex<VecDeque<Sample>>);

impl Rates {
    fn samples(&self) -> MutexGuard<'_, VecDeque<Sample>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a sample; called each second of a clock that never goes back.
    pub(crate) fn sample(&self, stats: &Stats, now_ms: u64) {
        let mut samples = self.samples();
        if samples.len() == SAMPLES {
            samples.pop_front();
        }
        samples.push_back(Sample { at_ms: now_ms, counters: counters(stats) });
    }

    /// The growth since the oldest sample; none before there is one.
    pub(crate) fn rate(&self, stats: &Stats, now_ms: u64) -> Rate {
        let Some(oldest) = self.samples().front().copied() else { return Rate::default() };
        let span_ms = now_ms.saturating_sub(oldest.at_ms).max(SPAN_MS_MIN);
        let now = counters(stats);
        // CONFIG RESETSTAT takes counters back to zero.
        let grown = |n: usize| now[n].saturating_sub(oldest.counters[n]) * 1000 / span_ms;
        Rate { requests: grown(0), bytes_received: grown(1), bytes_sent: grown(2) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_seconds_count() {
        let (stats, rates) = (Stats::default(), Rates::default());
        assert_eq!(rates.rate(&stats, 500), Rate::default());
        for second in 0..10 {
            rates.sample(&stats, 1000 * second);
            let more = if second < 6 { 1_000_000 } else { 40 };
            stats.add(|s| &s.total_commands_processed, more);
            stats.add(|s| &s.total_net_input_bytes, 10 * more);
        }
        // The sample of second 7 is the oldest that is left.
        let want = Rate { requests: 40, bytes_received: 400, bytes_sent: 0 };
        assert_eq!(rates.rate(&stats, 10_000), want);
        stats.reset();
        assert_eq!(rates.rate(&stats, 10_000), Rate::default());
    }
}
