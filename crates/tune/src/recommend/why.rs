//! Prediction beside measurement, what the difference belongs to, and what a change would do.

use std::collections::BTreeMap;
use std::fmt;

use silica_base::Result;
use silica_engine::OptionValues;

use crate::Workload;

use super::Prediction;
use super::engines::model_of;
use super::goal::Bounds;
use super::search::{Question, predict};
use super::why_region;
use super::work::Work;

/// What a keyspace measured of itself, by the names of docs/metrics.md.
pub type Measured = BTreeMap<String, f64>;

/// A figure, predicted and measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it is.
    pub name: String,
    /// What the model says.
    pub predicted: f64,
    /// What the keyspace says; `None` where nothing happened yet that it could be measured by.
    pub measured: Option<f64>,
}

impl Figure {
    /// How far the measurement is off the prediction, in percent of the prediction.
    pub fn drift_percent(&self) -> Option<f64> {
        let measured = self.measured?;
        (self.predicted > 0.0).then(|| 100.0 * (measured / self.predicted - 1.0))
    }
}

/// Writes that waited, and what they waited for.
#[derive(Clone, Debug, PartialEq)]
pub struct Stall {
    /// The metric.
    pub cause: &'static str,
    /// The term of the model that it belongs to: one of what is written, as
    /// [`Cost::written`](super::Cost::written) names them, or a [`Resource`](super::Resource).
    pub term: &'static str,
    /// What it stands for, and what there is to do.
    pub meaning: &'static str,
    /// How many writes.
    pub writes: f64,
    /// Of all writes.
    pub share: f64,
}

/// What one option's other value would do.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIf {
    /// The option.
    pub option: &'static str,
    /// The value.
    pub value: u64,
    /// The value as it is written.
    pub shown: String,
    /// What is predicted then.
    pub prediction: Prediction,
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Why {
    /// Every figure.
    pub figures: Vec<Figure>,
    /// The term of the write amplification that most of the difference is in, and how much.
    pub extra_bytes: Option<(String, f64)>,
    /// Stalls, those that happened.
    pub stalls: Vec<Stall>,
    /// What the model says as it is.
    pub prediction: Prediction,
    /// What single changes would do.
    pub what_if: Vec<WhatIf>,
    /// What there is to know of the medium, in words: of engines in mapped bytes.
    pub advice: Vec<String>,
}

/// What a [`Why`] is called where metrics are collected: name, whether it is a counter, meaning.
/// All have the labels of their database and engine; some have one of their own.
pub const WHY_METRICS: [(&str, bool, &str); 8] = [
    ("model_throughput", false, "operations a second that the model predicts"),
    ("model_predicted", false, "a figure (label figure) as the model predicts it"),
    ("model_measured", false, "the same figure as it is measured"),
    ("model_drift_percent", false, "how far the measurement is off the prediction"),
    ("model_extra_bytes", false, "bytes for each byte put in the term (label) that is off most"),
    (
        "model_stalled_writes_total",
        true,
        "writes that waited, by cause and the model's term (labels)",
    ),
    ("model_what_if_throughput", false, "operations a second with one option (labels) changed"),
    ("model_what_if_written", false, "write amplification with one option (labels) changed"),
];

impl Why {
    /// The changes that are worth a row: each alters a figure by a percent, and says something else
    /// than the rows of the same option before it.
    pub(super) fn changes_worth_a_row(&self) -> Vec<&WhatIf> {
        let mut rows: Vec<&WhatIf> = Vec::new();
        for row in &self.what_if {
            let is_said = |other: &&WhatIf| {
                other.option == row.option && is_alike(&other.prediction, &row.prediction)
            };
            if !is_alike(&self.prediction, &row.prediction) && !rows.iter().any(is_said) {
                rows.push(row);
            }
        }
        rows
    }

    /// The samples of the metric `name` of [`WHY_METRICS`]: further labels, and the value.
    pub fn samples(&self, name: &str) -> Vec<(Vec<(&'static str, String)>, f64)> {
        let figures = |of: fn(&Figure) -> Option<f64>| {
            let sample = |figure: &Figure| {
                let value = of(figure).filter(|value| value.is_finite())?;
                Some((vec![("figure", figure.name.clone())], value))
            };
            self.figures.iter().filter_map(sample).collect()
        };
        let what_if = |of: fn(&Prediction) -> f64| {
            let sample = |other: &WhatIf| {
                let labels = vec![("option", other.option.into()), ("value", other.shown.clone())];
                (labels, of(&other.prediction))
            };
            self.what_if.iter().map(sample).collect()
        };
        match name {
            "model_throughput" => vec![(Vec::new(), self.prediction.throughput)],
            "model_predicted" => figures(|figure| Some(figure.predicted)),
            "model_measured" => figures(|figure| figure.measured),
            "model_drift_percent" => figures(Figure::drift_percent),
            "model_extra_bytes" => {
                let extra = self.extra_bytes.iter();
                extra.map(|(term, bytes)| (vec![("term", term.clone())], *bytes)).collect()
            }
            "model_stalled_writes_total" => {
                let stalls = self.stalls.iter();
                let labels = |s: &Stall| vec![("cause", s.cause.into()), ("term", s.term.into())];
                stalls.map(|s| (labels(s), s.writes)).collect()
            }
            "model_what_if_throughput" => what_if(|prediction| prediction.throughput),
            "model_what_if_written" => what_if(Prediction::written),
            _ => Vec::new(),
        }
    }
}

/// Figures that differ by less, and less than they are shown with, are alike.
const ALIKE_PART: f64 = 0.01;
const ALIKE: f64 = 0.01;

/// True where no figure that is shown of `b` is another than that of `a`.
fn is_alike(a: &Prediction, b: &Prediction) -> bool {
    let near = |a: f64, b: f64, least: f64| {
        (a - b).abs() <= (ALIKE_PART * a.abs().max(b.abs())).max(least)
    };
    near(a.throughput, b.throughput, 0.0)
        && near(a.written(), b.written(), ALIKE)
        && near(a.reads_per_get, b.reads_per_get, ALIKE)
        && near(a.cost.space_amplification, b.cost.space_amplification, ALIKE)
        && near(a.cost.media.insert, b.cost.media.insert, ALIKE)
}

/// The table, for people.
impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<24} {:>10} {:>10} {:>8}", "", "predicted", "measured", "drift")?;
        for figure in &self.figures {
            let measured = figure.measured.map_or("-".into(), |value| format!("{value:.3}"));
            let drift = figure.drift_percent().map_or("-".into(), |drift| format!("{drift:+.1} %"));
            let Figure { name, predicted, .. } = figure;
            writeln!(f, "{name:<24} {predicted:>10.3} {measured:>10} {drift:>8}")?;
        }
        if let Some((term, extra)) = &self.extra_bytes {
            writeln!(f, "most of the difference is {term}: {extra:+.3} bytes for each put")?;
        }
        for Stall { cause, term, meaning, writes, share } in &self.stalls {
            let percent = 100.0 * share;
            writeln!(f, "{writes:.0} writes waited ({percent:.3} %, {cause}): {term}; {meaning}")?;
        }
        let (now, limit) = (self.prediction.throughput, self.prediction.bottleneck().name());
        writeln!(f, "predicted {now:.0} operations a second, limited by {limit}")?;
        self.advice.iter().try_for_each(|line| writeln!(f, "{line}"))?;
        writeln!(f, "one option changed:")?;
        let rows = self.changes_worth_a_row();
        if rows.is_empty() {
            writeln!(f, "  no other value of any changes a figure by a percent")?;
        }
        for WhatIf { option, shown, prediction: p, .. } in rows {
            let media = &p.cost.media;
            let of_media = match media.is_there() {
                true => format!("  media {:.0} an insert", media.insert),
                false => String::new(),
            };
            writeln!(
                f,
                "  {:<40} {:>9.0}/s  written {:.2}  reads {:.2}  space {:.2}{of_media}",
                format!("{option}={shown}"),
                p.throughput,
                p.written(),
                p.reads_per_get,
                p.cost.space_amplification
            )?;
        }
        Ok(())
    }
}

/// Metrics of what is written, with the names of the models' terms.
const WRITTEN: [(&str, &str); 6] = [
    ("log", "log_bytes_written"),
    ("flush", "flush_bytes_written"),
    ("compaction", "compaction_bytes_written"),
    ("conversion", "conversion_bytes_written"),
    ("merge", "merge_bytes_written"),
    ("value log", "value_log_bytes_written"),
];

/// A metric of writes that waited, as models see it.
struct Cause {
    metric: &'static str,
    term: &'static str,
    meaning: &'static str,
    /// Counted in `writes_slowed`, too.
    is_slowed: bool,
}

const fn slowed(metric: &'static str, term: &'static str, meaning: &'static str) -> Cause {
    Cause { metric, term, meaning, is_slowed: true }
}

const fn waited(metric: &'static str, term: &'static str, meaning: &'static str) -> Cause {
    Cause { metric, term, meaning, is_slowed: false }
}

/// Every metric of writes that waited.
const CAUSES: [Cause; 6] = [
    slowed("writes_slowed_by_flush", "flush", "memtables were full; a larger memory helps"),
    slowed("writes_slowed_by_compaction", "compaction", "merging was behind"),
    slowed("writes_slowed_by_log", "flush", "the log was full; buckets at its tail were flushed"),
    waited(
        "writes_waited_for_job",
        "background work",
        "nothing was left to help with, and a job had to end",
    ),
    waited(
        "writes_waited_for_sync",
        "syncs",
        "a segment of the log was about to end, and the background had not synced it",
    ),
    waited(
        "writes_waited_for_segment",
        "log",
        "a segment of the log ended, and the background had made no next one",
    ),
];
/// Slowed writes of which no metric says why.
const UNKNOWN: Cause =
    slowed("writes_slowed", "background work", "the background was behind, whichever term");

/// The workload that `measured` tells of, as far as it does; the rest is as in `base`.
pub fn workload_of(measured: &Measured, base: &Workload) -> Workload {
    let get = |name: &str| measured.get(name).copied().unwrap_or(0.0);
    let mut workload = base.clone();
    let entries = get("entries_estimate");
    if entries >= 1.0 {
        workload.keys = entries as u64;
    }
    if get("memory_budget_bytes") >= 1.0 {
        workload.memory_bytes = get("memory_budget_bytes") as u64;
    }
    let (gets, hits, puts) = (get("gets"), get("get_hits"), get("puts"));
    let written = puts + get("deletes");
    if puts >= 1.0 && get("user_bytes_written") > 0.0 {
        let entry = get("user_bytes_written") / written;
        let value = (entry - workload.key_bytes.mean()).max(0.0);
        workload.value_bytes = crate::Sizes::constant(value);
    }
    if gets + written >= 1.0 {
        // Puts beyond what there is were of keys that were there.
        let overwrites = (puts - entries).max(0.0);
        workload.mix = crate::Mix {
            get_hits: hits,
            get_misses: (gets - hits).max(0.0),
            overwrites,
            inserts: puts - overwrites,
            deletes: get("deletes"),
            ..crate::Mix::NOTHING
        };
    }
    workload
}

/// Compares what a keyspace of `engine` with `options` measured with what its model says, and
/// evaluates the model again with each option changed.
///
/// # Errors
/// `Config` for an engine without a model, or a workload that cannot be.
pub fn why(
    question: &Question<'_>,
    engine: &str,
    options: &OptionValues,
    measured: &Measured,
) -> Result<Why> {
    let unbound = Question { bounds: Bounds::default(), ..question.clone() };
    let prediction = predict(&unbound, engine, options)?;
    let mut figures = written(&prediction, measured);
    let extra_bytes = figures
        .iter()
        .filter(|figure| figure.measured.is_some_and(|m| is_apart(figure.predicted, m)))
        .filter_map(|figure| Some((figure.name.clone(), figure.measured? - figure.predicted)))
        .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
    figures.push(total(&prediction, measured));
    figures.extend(others(&prediction, measured));
    let work = Work::new(unbound.workload)?;
    figures.extend(why_region::figures(&work, &prediction, measured));
    let advice = why_region::advice(&unbound, &work, engine, options, &prediction, measured)?;
    let what_if = what_if(&unbound, engine, options)?;
    Ok(Why { figures, extra_bytes, stalls: stalls(measured), prediction, what_if, advice })
}

/// Bytes for each byte put, and the part of the prediction, that a measurement must be off to be
/// worth a verdict: the models are off by as much (docs/models.md).
const APART_BYTES: f64 = 0.05;
const APART_PART: f64 = 0.05;

fn is_apart(predicted: f64, measured: f64) -> bool {
    let apart = (measured - predicted).abs();
    apart > APART_BYTES && apart > APART_PART * predicted
}

/// `a / b`, where something happened.
fn share(measured: &Measured, a: &str, b: &str) -> Option<f64> {
    let (a, b) = (measured.get(a)?, measured.get(b)?);
    (*b > 0.0).then(|| a / b)
}

fn written(prediction: &Prediction, measured: &Measured) -> Vec<Figure> {
    let term = |(name, predicted): &(&'static str, f64)| {
        let metric = WRITTEN.iter().find(|(term, _)| term == name).map_or("", |(_, m)| m);
        let measured = share(measured, metric, "user_bytes_written");
        Figure { name: format!("written: {name}"), predicted: *predicted, measured }
    };
    prediction.cost.written.iter().map(term).collect()
}

fn total(prediction: &Prediction, measured: &Measured) -> Figure {
    let user = measured.get("user_bytes_written").copied().unwrap_or(0.0);
    let all = WRITTEN.iter().filter_map(|(_, metric)| measured.get(*metric)).sum::<f64>();
    let name = "write amplification".to_string();
    Figure { name, predicted: prediction.written(), measured: (user > 0.0).then(|| all / user) }
}

fn others(prediction: &Prediction, measured: &Measured) -> Vec<Figure> {
    let gets = measured.get("gets").copied().unwrap_or(0.0);
    let false_reads = measured.get("filter_false_positives").copied();
    let misses = gets - measured.get("get_hits").copied().unwrap_or(0.0);
    let reads = measured.get("get_device_reads").copied();
    // A read that finds nothing is a miss's, or one too many of a hit.
    let of_misses = |all: f64| (misses > 0.0).then(|| all.min(misses) / misses);
    let hits = gets - misses;
    let of_hits = match (reads, false_reads) {
        (Some(reads), Some(vain)) if hits > 0.0 => Some((reads - vain).max(0.0) / hits),
        _ => None,
    };
    let sum = |names: [&str; 3]| names.iter().filter_map(|name| measured.get(*name)).sum::<f64>();
    let kept = sum(["table_bytes", "value_log_bytes", "log_bytes"]);
    let live = measured.get("live_bytes").filter(|live| **live > 0.0).map(|live| kept / live);
    let space = measured.get("space_amplification").copied().or(live).filter(|s| *s > 0.0);
    let memory = share(measured, "index_bytes", "entries_estimate")
        .or_else(|| share(measured, "table_index_bytes", "entries_estimate"));
    let figure = |name: &str, predicted: f64, measured: Option<f64>| Figure {
        name: name.into(),
        predicted,
        measured,
    };
    vec![
        figure(
            "device reads per get",
            prediction.reads_per_get,
            share(measured, "get_device_reads", "gets"),
        ),
        figure("device reads per hit", prediction.cost.reads_per_hit, of_hits),
        figure(
            "device reads per miss",
            prediction.cost.reads_per_miss,
            false_reads.and_then(of_misses),
        ),
        figure("index bytes per key", prediction.cost.index_bytes_per_key, memory),
        figure("space amplification", prediction.cost.space_amplification, space),
    ]
}

fn stalls(measured: &Measured) -> Vec<Stall> {
    let get = |name: &str| measured.get(name).copied().unwrap_or(0.0);
    let all = (get("puts") + get("deletes")).max(1.0);
    let stall = |of: &Cause, writes: f64| Stall {
        cause: of.metric,
        term: of.term,
        meaning: of.meaning,
        writes,
        share: writes / all,
    };
    let found = CAUSES.iter().map(|of| stall(of, get(of.metric)));
    let mut stalls: Vec<Stall> = found.filter(|stall| stall.writes > 0.0).collect();
    let known: f64 = CAUSES.iter().filter(|of| of.is_slowed).map(|of| get(of.metric)).sum();
    let rest = get(UNKNOWN.metric) - known;
    if rest >= 1.0 {
        stalls.push(stall(&UNKNOWN, rest));
    }
    stalls
}

/// The model at every value of every option that it depends on, one changed at a time.
fn what_if(question: &Question<'_>, engine: &str, options: &OptionValues) -> Result<Vec<WhatIf>> {
    let work = Work::new(question.workload)?;
    let candidate = question.candidates.iter().find(|candidate| candidate.engine == engine);
    let (Some(candidate), Some(model)) = (candidate, model_of(engine)) else {
        return Ok(Vec::new());
    };
    let mut all = Vec::new();
    for axis in model.axes(&work, question.needs.may_evict) {
        let spec = candidate.options.iter().find(|spec| spec.name == axis.option);
        let Some(spec) = spec.filter(|spec| spec.tunable && !spec.fixed) else { continue };
        let now = options.value(candidate.options, spec.name);
        let values = axis.values.iter().copied().chain([spec.default]);
        for value in values.filter(|value| *value != now) {
            let mut other = options.clone();
            other.set(spec.name, value);
            let prediction = predict(question, engine, &other)?;
            let shown = spec.show(value);
            all.push(WhatIf { option: spec.name, value, shown, prediction });
        }
    }
    silica_base::compact_sort_by(&mut all, |a, b| (a.option, a.value).cmp(&(b.option, b.value)));
    // A model may try the default, which is tried in any case.
    all.dedup_by(|a, b| (a.option, a.value) == (b.option, b.value));
    Ok(all)
}
