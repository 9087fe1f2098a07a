//! What stores foresee of themselves, as rows beside those that are measured.

use crate::cell::Outcome;
use silica::MetricsMap;

/// A store's own metric, the row that it foretells, and its unit.
const FORESEEN: [(&str, &str, &str); 3] = [
    ("write_amplification_predicted", "write_amplification", "bytes/byte"),
    ("device_reads_per_get_predicted", "reads_per_get", "reads/get"),
    ("index_bytes_per_key_predicted", "index_bytes_per_key", "bytes/key"),
];
/// What is put behind the name of the row that is foretold.
pub(crate) const PREDICTED: &str = "_predicted";

/// Adds what the store foretold by the end of the run, wherever that was measured as well.
pub(crate) fn push(after: &MetricsMap, outcome: &mut Outcome) {
    for (metric, measured, unit) in FORESEEN {
        let predicted = after.get(metric);
        if predicted > 0.0 && outcome.figure(measured).is_some() {
            outcome.push(&format!("{measured}{PREDICTED}"), unit, predicted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_measured_has_a_prediction_beside_it() {
        let mut metrics = MetricsMap::default();
        metrics.0.insert("write_amplification_predicted", 5.5);
        metrics.0.insert("device_reads_per_get_predicted", 1.01);
        let mut outcome = Outcome::default();
        outcome.push("reads_per_get", "reads/get", 1.2);
        outcome.push("index_bytes_per_key", "bytes/key", 0.7);
        push(&metrics, &mut outcome);
        assert_eq!(outcome.figure("reads_per_get_predicted"), Some(1.01));
        assert_eq!(outcome.figures.len(), 3, "{:?}", outcome.figures);
    }
}
