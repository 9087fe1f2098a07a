//! From the outcomes of cells to the rows, ratios and curves of the results.

use crate::cell::Outcome;
use crate::limits::LIMIT_PREFIX;
use crate::results::{Curve, Ratio, Row, Timeline, WorkloadInfo};
use crate::stats::{self, Spread};

/// What one cell found.
pub(crate) struct Record {
    pub(crate) suite: String,
    pub(crate) workload: String,
    pub(crate) store: String,
    pub(crate) ours: bool,
    pub(crate) threads: usize,
    pub(crate) repetition: usize,
    pub(crate) outcome: Outcome,
}

/// The metric that ratios are taken of.
pub(crate) const SPEED: &str = "throughput_ops";

/// All records of one store at one workload.
struct Series<'a> {
    first: &'a Record,
    records: Vec<&'a Record>,
}

impl<'a> Series<'a> {
    fn values(&self, metric: &str) -> Vec<f64> {
        self.records.iter().filter_map(|r| r.outcome.figure(metric)).collect()
    }

    /// The value of each repetition, where it has one.
    fn by_repetition(&self, metric: &str) -> Vec<Option<f64>> {
        let last = self.records.iter().map(|r| r.repetition).max().unwrap_or(0);
        let mut values = vec![None; last + 1];
        for record in &self.records {
            values[record.repetition] = record.outcome.figure(metric);
        }
        values
    }

    fn last(&self) -> &'a Record {
        self.records.last().unwrap_or(&self.first)
    }
}

/// Records by suite, workload and store, in the order in which they were first measured.
fn series(records: &[Record]) -> Vec<Series<'_>> {
    let mut all: Vec<Series<'_>> = Vec::new();
    for record in records {
        let same = |s: &&mut Series<'_>| {
            s.first.suite == record.suite
                && s.first.workload == record.workload
                && s.first.store == record.store
        };
        match all.iter_mut().find(same) {
            Some(found) => found.records.push(record),
            None => all.push(Series { first: record, records: vec![record] }),
        }
    }
    all
}

pub(crate) fn rows(records: &[Record]) -> Vec<Row> {
    let mut rows = Vec::new();
    for series in series(records) {
        let mut metrics: Vec<(&str, &str)> = Vec::new();
        for figure in series.records.iter().flat_map(|r| &r.outcome.figures) {
            if !metrics.iter().any(|(metric, _)| *metric == figure.metric) {
                metrics.push((&figure.metric, &figure.unit));
            }
        }
        for (metric, unit) in metrics {
            let Some(spread) = Spread::of(&series.values(metric)) else { continue };
            rows.push(Row {
                suite: series.first.suite.clone(),
                workload: series.first.workload.clone(),
                store: series.first.store.clone(),
                threads: series.first.threads,
                metric: metric.to_string(),
                unit: unit.to_string(),
                median: spread.median,
                low: spread.low,
                high: spread.high,
                runs: spread.runs,
            });
        }
    }
    rows
}

/// Ours over each peer, and each store over the limits beside its workload.
pub(crate) fn ratios(records: &[Record], workloads: &[WorkloadInfo]) -> Vec<Ratio> {
    let all = series(records);
    let mut ratios = Vec::new();
    for info in workloads {
        let here: Vec<_> = all
            .iter()
            .filter(|s| s.first.suite == info.suite && s.first.workload == info.name)
            .collect();
        for ours in here.iter().filter(|s| s.first.ours) {
            for peer in here.iter().filter(|s| !s.first.ours) {
                ratios.extend(ratio(info, SPEED, ours, peer, SPEED));
            }
        }
        for (name, metric) in &info.limits {
            let limit = all.iter().find(|s| s.first.suite == info.suite && s.first.store == *name);
            for store in here.iter().filter(|s| !s.first.store.starts_with(LIMIT_PREFIX)) {
                ratios.extend(limit.and_then(|limit| ratio(info, SPEED, store, limit, metric)));
            }
        }
    }
    ratios
}

fn ratio(
    info: &WorkloadInfo,
    metric: &str,
    above: &Series<'_>,
    below: &Series<'_>,
    metric_below: &str,
) -> Option<Ratio> {
    let pairs = stats::pairwise(&above.by_repetition(metric), &below.by_repetition(metric_below));
    let spread = Spread::of(&pairs)?;
    Some(Ratio {
        suite: info.suite.clone(),
        workload: info.name.clone(),
        metric: metric.to_string(),
        store: above.first.store.clone(),
        peer: below.first.store.clone(),
        median: stats::is_shown(&spread).then_some(spread.median),
        low: spread.low,
        high: spread.high,
        runs: spread.runs,
        text: stats::text(&spread),
    })
}

/// The median over the repetitions at each quantile.
pub(crate) fn curves(records: &[Record]) -> Vec<Curve> {
    let all = series(records);
    let curve = |series: &Series<'_>| {
        let quantiles = series.last().outcome.curve.iter().map(|(quantile, _)| *quantile);
        let points = quantiles.enumerate().filter_map(|(i, quantile)| {
            let values: Vec<_> =
                series.records.iter().filter_map(|r| Some(r.outcome.curve.get(i)?.1)).collect();
            Some((quantile, Spread::of(&values)?.median))
        });
        Curve {
            suite: series.first.suite.clone(),
            workload: series.first.workload.clone(),
            store: series.first.store.clone(),
            points: points.collect(),
        }
    };
    all.iter().map(curve).filter(|curve| !curve.points.is_empty()).collect()
}

pub(crate) fn timelines(records: &[Record]) -> Vec<Timeline> {
    let timeline = |series: &Series<'_>| Timeline {
        suite: series.first.suite.clone(),
        workload: series.first.workload.clone(),
        store: series.first.store.clone(),
        samples: series.last().outcome.samples.clone(),
    };
    series(records).iter().map(timeline).filter(|t| !t.samples.is_empty()).collect()
}

/// A pair of stores that answered the same questions differently, as a sentence. Each workload is
/// told of once.
pub(crate) fn disagreements(records: &[Record]) -> Vec<String> {
    let mut found = Vec::new();
    let mut first: Vec<(&Record, &str, &str)> = Vec::new();
    for record in records {
        for (part, hash) in &record.outcome.hashes {
            let same = |(r, p, _): &&(&Record, &str, &str)| {
                r.suite == record.suite && r.workload == record.workload && *p == part
            };
            match first.iter().find(same) {
                None => first.push((record, part, hash)),
                Some((other, _, expected)) if expected != hash => found.push(format!(
                    "{} and {} answered {} differently (hash {expected} and {hash} of its part \
                     '{part}'); one of them is wrong",
                    other.store, record.store, record.workload
                )),
                Some(_) => {}
            }
        }
    }
    found.dedup();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(store: &str, ours: bool, repetition: usize, speed: f64, hash: &str) -> Record {
        let mut outcome = Outcome::default();
        outcome.push(SPEED, "ops/s", speed);
        outcome.curve = vec![(0.5, speed), (1.0, 2.0 * speed)];
        outcome.hashes.push(("warm-up".into(), hash.into()));
        Record {
            suite: "flash".into(),
            workload: "read".into(),
            store: store.into(),
            ours,
            threads: 1,
            repetition,
            outcome,
        }
    }

    fn info() -> WorkloadInfo {
        WorkloadInfo {
            suite: "flash".into(),
            name: "read".into(),
            doc: String::new(),
            paper: String::new(),
            keys: 1,
            operations: 1,
            key_bytes: 16,
            value_bytes: 16,
            threads: 1,
            memory_bytes: 1,
            durability: "buffered".into(),
            distribution: "uniform".into(),
            batch: 1,
            rate: 0,
            cold: false,
            limits: vec![("limit:reads".into(), SPEED.into())],
        }
    }

    #[test]
    fn rows_and_ratios_come_from_repetitions() {
        let mut records = Vec::new();
        for (repetition, factor) in [1.0, 3.0, 2.0].into_iter().enumerate() {
            records.push(record("silica:silt", true, repetition, 200.0 * factor, "a"));
            records.push(record("lmdb", false, repetition, 100.0 * factor, "a"));
            records.push(record("limit:reads", false, repetition, 400.0 * factor, "a"));
        }
        let rows = rows(&records);
        assert_eq!((rows[0].median, rows[0].low, rows[0].high), (400.0, 200.0, 600.0));
        assert_eq!((rows[0].runs, rows.len()), (3, 3));
        let ratios = ratios(&records, &[info()]);
        let of = |store: &str, peer: &str| {
            ratios.iter().find(|r| r.store == store && r.peer == peer).unwrap()
        };
        // The machine was three times as fast in between; the ratio does not show it.
        assert_eq!(of("silica:silt", "lmdb").median, Some(2.0));
        assert_eq!(of("lmdb", "limit:reads").median, Some(0.25));
        assert_eq!(curves(&records)[1].points, [(0.5, 200.0), (1.0, 400.0)]);
        assert!(disagreements(&records).is_empty());
    }

    #[test]
    fn stores_that_disagree_are_named() {
        let records =
            [record("silica:silt", true, 0, 1.0, "a"), record("lmdb", false, 0, 1.0, "b")];
        let found = disagreements(&records);
        assert!(found[0].contains("silica:silt and lmdb answered read"), "{found:?}");
    }
}
