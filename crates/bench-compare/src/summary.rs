//! From the outcomes of cells to the rows, ratios and curves of the results.

use crate::cell::Outcome;
use crate::limits::LIMIT_PREFIX;
use crate::results::{Curve, Ratio, Rounds, Row, Timeline, WorkloadInfo};
use crate::stats::{self, Spread, Turn};
use std::collections::BTreeMap;

/// What one cell found.
pub(crate) struct Record {
    pub(crate) suite: String,
    pub(crate) workload: String,
    pub(crate) store: String,
    pub(crate) ours: bool,
    pub(crate) threads: usize,
    pub(crate) repetition: usize,
    /// What it did in each round, where it took part in rounds.
    pub(crate) rounds: Vec<Option<Turn>>,
    /// The metric of the rounds, [`SPEED`] or the figure of a limit, and its unit.
    pub(crate) metric: (String, String),
    pub(crate) outcome: Outcome,
}

/// The workload of limits that are measured with all their figures.
pub(crate) const LIMITS: &str = "limits";
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

    /// The rounds of each repetition.
    fn of_rounds(&self, metric: &str) -> BTreeMap<usize, &'a [Option<Turn>]> {
        let of = self.records.iter().filter(|r| r.metric.0 == metric && !r.rounds.is_empty());
        of.map(|record| (record.repetition, record.rounds.as_slice())).collect()
    }

    /// The value of each repetition, where it has one.
    fn by_repetition(&self, metric: &str) -> BTreeMap<usize, f64> {
        let of = |record: &&Record| Some((record.repetition, record.outcome.figure(metric)?));
        self.records.iter().filter_map(of).collect()
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
        for record in series.records.iter().filter(|record| !record.rounds.is_empty()) {
            let (metric, unit) = &record.metric;
            if !metrics.iter().any(|(known, _)| known == metric) {
                metrics.push((metric, unit));
            }
        }
        for figure in series.records.iter().flat_map(|r| &r.outcome.figures) {
            if !metrics.iter().any(|(metric, _)| *metric == figure.metric) {
                metrics.push((&figure.metric, &figure.unit));
            }
        }
        for (metric, unit) in metrics {
            let rounds = series.of_rounds(metric).into_values();
            let rounds: Vec<Vec<Turn>> =
                rounds.map(|turns| turns.iter().flatten().copied().collect()).collect();
            let spread = match rounds.is_empty() {
                true => Spread::of(&series.values(metric)),
                false => Spread::of_turns(&rounds),
            };
            let Some(spread) = spread else { continue };
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
        for ours in stores_of(&all, info).filter(|s| s.first.ours) {
            for peer in stores_of(&all, info).filter(|s| !s.first.ours) {
                ratios.extend(ratio(info, SPEED, ours, peer, SPEED));
            }
        }
        for (name, metric) in &info.limits {
            let limits = all.iter().filter(|s| s.first.store == *name);
            // In the rounds where it took part in them, else beside them.
            let nearness = |s: &&Series<'_>| {
                let is_suite = s.first.suite == info.suite;
                (is_suite && s.first.workload == info.name, is_suite, s.first.workload == LIMITS)
            };
            let Some(limit) = limits.max_by_key(nearness) else { continue };
            for store in stores_of(&all, info) {
                ratios.extend(ratio(info, SPEED, store, limit, metric));
            }
        }
    }
    ratios
}

/// Those that were measured at a workload, without limits.
fn stores_of<'a>(
    all: &'a [Series<'a>],
    info: &'a WorkloadInfo,
) -> impl Iterator<Item = &'a Series<'a>> {
    all.iter().filter(|s| {
        let is_limit = s.first.store.starts_with(LIMIT_PREFIX);
        s.first.suite == info.suite && s.first.workload == info.name && !is_limit
    })
}

/// Within each round that both have, else within each repetition.
fn ratio(
    info: &WorkloadInfo,
    metric: &str,
    above: &Series<'_>,
    below: &Series<'_>,
    metric_below: &str,
) -> Option<Ratio> {
    let spread = Spread::of_pairs(&pairs(above, metric, below, metric_below)).or_else(|| {
        let (above, below) = (above.by_repetition(metric), below.by_repetition(metric_below));
        Spread::of(&paired(&above, &below))
    })?;
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

/// The rounds in which both did something, of each repetition.
fn pairs(
    above: &Series<'_>,
    metric: &str,
    below: &Series<'_>,
    metric_below: &str,
) -> Vec<Vec<(Turn, Turn)>> {
    let (above, below) = (above.of_rounds(metric), below.of_rounds(metric_below));
    let of = |(repetition, turns): (&usize, &&[Option<Turn>])| {
        let others = below.get(repetition).copied().unwrap_or_default();
        turns.iter().zip(others).filter_map(|(one, other)| (*one).zip(*other)).collect()
    };
    above.iter().map(of).collect()
}

/// The ratios of the repetitions that both have.
fn paired(above: &BTreeMap<usize, f64>, below: &BTreeMap<usize, f64>) -> Vec<f64> {
    let above: Vec<_> = above.iter().map(|(place, v)| (Some(*v), below.get(place))).collect();
    let (above, below): (Vec<_>, Vec<_>) = above.into_iter().map(|(a, b)| (a, b.copied())).unzip();
    stats::pairwise(&above, &below)
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

pub(crate) fn rounds(records: &[Record]) -> Vec<Rounds> {
    let of = |record: &Record| Rounds {
        suite: record.suite.clone(),
        workload: record.workload.clone(),
        store: record.store.clone(),
        repetition: record.repetition,
        metric: record.metric.0.clone(),
        turns: record.rounds.clone(),
    };
    records.iter().filter(|record| !record.rounds.is_empty()).map(of).collect()
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
            rounds: Vec::new(),
            metric: (SPEED.into(), "ops/s".into()),
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
    fn rounds_count_where_both_took_part() {
        let turn = |operations: f64| Turn { operations, seconds: 1.0 };
        let rounds = |store, ours, repetition, speeds: &[Option<f64>]| Record {
            rounds: speeds.iter().map(|speed| speed.map(turn)).collect(),
            ..record(store, ours, repetition, 1.0, "a")
        };
        let mut limit = rounds("limit:reads", false, 0, &[Some(4.0), Some(400.0), Some(40.0)]);
        limit.outcome = Outcome::default();
        let records = [
            rounds("silica:silt", true, 0, &[Some(2.0), Some(200.0), Some(20.0)]),
            rounds("lmdb", false, 0, &[Some(1.0), Some(100.0), None]),
            limit,
            rounds("silica:silt", true, 1, &[Some(9.0)]),
            rounds("lmdb", false, 1, &[Some(4.5)]),
        ];
        let ratios = ratios(&records, &[info()]);
        assert_eq!((ratios[0].median, ratios[0].low, ratios[0].high), (Some(2.0), 2.0, 2.0));
        assert_eq!(ratios[0].runs, 3);
        let share = ratios.iter().find(|r| r.peer == "limit:reads").unwrap();
        assert_eq!((share.median, share.runs), (Some(0.5), 3));
        let rows = rows(&records);
        assert_eq!((rows[0].store.as_str(), rows[0].runs), ("silica:silt", 4));
        assert!(rows[0].low >= 2.0 && rows[0].high <= 200.0, "{:?}", rows[0]);
        let limit = rows.iter().find(|row| row.store == "limit:reads").unwrap();
        assert_eq!((limit.metric.as_str(), limit.runs), (SPEED, 3));
    }

    #[test]
    fn stores_that_disagree_are_named() {
        let records =
            [record("silica:silt", true, 0, 1.0, "a"), record("lmdb", false, 0, 1.0, "b")];
        let found = disagreements(&records);
        assert!(found[0].contains("silica:silt and lmdb answered read"), "{found:?}");
    }
}
