//! The search: over every engine, over the values of its options, one option after the other.

use silica_base::{Error, ErrorKind, Result};
use silica_engine::{OptionKind, OptionSpec, OptionValues};

use crate::{Machine, Workload};

use super::engines::{Axis, Candidate, Model, Offer, Settings, model_of};
use super::goal::{Bounds, Broken, Goal, Prices};
use super::prediction::YEARS_MAX;
use super::work::{Needs, Work};
use super::{Calibration, Prediction};

/// Rounds over all options of an engine; nearly always two are enough.
const ROUNDS_MAX: usize = 8;
/// What an option that is not at its default must bring to be worth saying: two percent.
const OPTION_PENALTY: f64 = 0.02;
/// Scores as close as this are alike: the models are off by as much (docs/models.md).
const CLOSE: f64 = 0.05;
/// Parts of the memory that are tried where memory counts: halves of halves.
const MEMORY_HALVINGS: u32 = 7;
/// What keeps to the bounds comes before anything else.
const INFEASIBLE: f64 = 1e6;

/// Everything that a recommendation depends on.
#[derive(Clone, Debug)]
pub struct Question<'q> {
    /// What is asked of the store.
    pub workload: &'q Workload,
    /// What it runs on.
    pub machine: &'q Machine,
    /// What it must be able to do.
    pub needs: Needs,
    /// What counts.
    pub goal: Goal,
    /// What may be.
    pub bounds: Bounds,
    /// What things cost.
    pub prices: Prices,
    /// Processor times.
    pub calibration: Calibration,
    /// The engines there are.
    pub candidates: &'q [Candidate],
    /// The engine that the keyspace has, if there is one: where another is only as good, it stays,
    /// and what another cannot do is named.
    pub current: Option<&'q str>,
}

impl<'q> Question<'q> {
    /// With the usual goal and prices, the machine's processor times, and without bounds.
    pub fn new(
        workload: &'q Workload,
        machine: &'q Machine,
        needs: Needs,
        candidates: &'q [Candidate],
    ) -> Self {
        Question {
            workload,
            machine,
            needs,
            goal: Goal::default(),
            bounds: Bounds::default(),
            prices: Prices::default(),
            calibration: machine.processor,
            candidates,
            current: None,
        }
    }

    /// What an engine must be able to do so that nothing is lost: what the current one can, or
    /// what any can.
    fn whole_offer(&self) -> Option<Offer> {
        if let Some(model) = self.current.and_then(model_of) {
            return Some(model.offer());
        }
        let models = self.candidates.iter().filter_map(|candidate| model_of(candidate.engine));
        models.map(Model::offer).reduce(Offer::or)
    }
}

/// An engine with settings, and what they come to.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The engine's name.
    pub engine: &'static str,
    /// Options that are not at their defaults, by name. Memory is among them where less than the
    /// workload may have is as good.
    pub options: Vec<(&'static str, u64)>,
    /// What is predicted.
    pub prediction: Prediction,
    /// What it cannot do and the engine of the keyspace can, in words; where there is no keyspace
    /// yet, what any engine can.
    pub lacks: Vec<&'static str>,
    /// The logarithm of what the goal weighs; less is better.
    pub(super) score: f64,
}

impl Choice {
    /// The options as values.
    pub fn values(&self) -> OptionValues {
        let mut values = OptionValues::default();
        for (name, value) in &self.options {
            values.set(name, *value);
        }
        values
    }
}

/// Why an engine cannot be chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Excluded {
    /// The engine's name.
    pub engine: &'static str,
    /// What it lacks, or which bounds its best settings break.
    pub why: String,
}

/// The choice, the next best, and the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Recommendation {
    /// The best.
    pub choice: Choice,
    /// The best of the other engines, and why it lost.
    pub runner_up: Option<(Choice, String)>,
    /// Engines that cannot do it.
    pub excluded: Vec<Excluded>,
    /// How many settings were looked at.
    pub evaluations: usize,
}

/// Finds the engine and the options of the lowest cost, by what the goal weighs.
///
/// # Errors
/// `Config` for workloads, bounds and prices that cannot be, and where every engine is excluded;
/// the message says what excludes which.
pub fn recommend(question: &Question<'_>) -> Result<Recommendation> {
    question.bounds.check()?;
    question.prices.check()?;
    question.machine.validate()?;
    let work = Work::new(question.workload)?;
    let (mut found, mut excluded, mut evaluations) = (Vec::new(), Vec::new(), 0);
    for candidate in question.candidates {
        let engine = candidate.engine;
        let Some(model) = model_of(engine) else { continue };
        let survival = question.machine.survival;
        let lacks = lacks(model, &question.needs).or_else(|| model.refuses(&work, survival));
        if let Some(why) = lacks {
            excluded.push(Excluded { engine, why });
            continue;
        }
        let mut search = Search { question, work: &work, candidate, model, evaluations: 0 };
        let (choice, broken) = search.best();
        evaluations += search.evaluations;
        match broken.is_empty() {
            true => found.push(choice),
            false => excluded.push(Excluded { engine, why: say(&broken) }),
        }
    }
    // The earlier of two that are alike, so that answers repeat.
    silica_base::compact_sort_by(&mut found, |a, b| a.score.total_cmp(&b.score));
    if found.is_empty() {
        return Err(none_left(&excluded));
    }
    let choice = found.remove(preferred(question, &found));
    let runner_up = (!found.is_empty()).then(|| found.remove(0)).map(|next| {
        let why = match next.score - choice.score {
            apart if apart.abs() < CLOSE => super::explain::alike(apart),
            _ => super::explain::why_lost(&question.goal, question.workload, &choice, &next),
        };
        (next, why)
    });
    Ok(Recommendation { choice, runner_up, excluded, evaluations })
}

/// Which of `found`, the best first, is taken: of those that are as good as the best the one that
/// is there, or else the one that can do the most.
fn preferred(question: &Question<'_>, found: &[Choice]) -> usize {
    let best = found[0].score;
    let alike = found.iter().take_while(|choice| choice.score - best < CLOSE);
    let rank = |choice: &Choice| (question.current != Some(choice.engine), choice.lacks.len());
    // The first of those that are equal.
    alike.enumerate().min_by_key(|(_, choice)| rank(choice)).map_or(0, |(at, _)| at)
}

/// What the settings `options` of `engine` come to, without any search.
///
/// # Errors
/// `Config` for an engine without a model, and for what cannot be.
pub fn predict(
    question: &Question<'_>,
    engine: &str,
    options: &OptionValues,
) -> Result<Prediction> {
    question.prices.check()?;
    question.machine.validate()?;
    let work = Work::new(question.workload)?;
    let candidate = question.candidates.iter().find(|candidate| candidate.engine == engine);
    let (Some(candidate), Some(model)) = (candidate, model_of(engine)) else {
        let message = format!("there is no model of engine '{engine}'");
        return Err(Error::new(ErrorKind::Config, message));
    };
    let mut search = Search { question, work: &work, candidate, model, evaluations: 0 };
    Ok(search.predict(options))
}

fn none_left(excluded: &[Excluded]) -> Error {
    let reasons: Vec<String> =
        excluded.iter().map(|e| format!("{}: {}", e.engine, e.why)).collect();
    let message = format!(
        "no engine does this within the bounds; loosen one of them. {}",
        if reasons.is_empty() { "No engine has a model".into() } else { reasons.join("; ") }
    );
    Error::new(ErrorKind::Config, message)
}

fn say(broken: &[Broken]) -> String {
    let texts: Vec<String> = broken.iter().map(Broken::to_string).collect();
    format!("breaks {}", texts.join(" and "))
}

/// What `model`'s engine cannot do.
fn lacks(model: &dyn Model, needs: &Needs) -> Option<String> {
    let offer = model.offer();
    if needs.durable && !offer.durable {
        return Some("it forgets everything when the process ends".into());
    }
    if needs.ordered && !offer.ordered {
        return Some("it keeps no order of keys".into());
    }
    if needs.value_bytes_max > offer.value_bytes_max {
        let (most, needed) = (offer.value_bytes_max, needs.value_bytes_max);
        return Some(format!("its values have at most {most} bytes, not {needed}"));
    }
    None
}

struct Search<'s> {
    question: &'s Question<'s>,
    work: &'s Work<'s>,
    candidate: &'s Candidate,
    model: &'static dyn Model,
    evaluations: usize,
}

const MEMORY: &str = "memory_bytes";

impl Search<'_> {
    /// The best settings, and the bounds that they break.
    fn best(&mut self) -> (Choice, Vec<Broken>) {
        let axes = self.axes();
        let mut values = OptionValues::default();
        for required in axes.iter().filter(|axis| is_required(axis)) {
            values.set(required.option, required.values[0]);
        }
        let (mut best, mut score) = self.judge(&values);
        for _ in 0..ROUNDS_MAX {
            let before = score;
            for axis in axes.iter().filter(|axis| !is_required(axis)) {
                for value in self.tried(axis) {
                    let mut other = values.clone();
                    match value {
                        Some(value) => other.set(axis.option, value),
                        None => {
                            other = without(&values, axis.option);
                            &mut other
                        }
                    };
                    let (prediction, its) = self.judge(&other);
                    if its < score {
                        (best, score, values) = (prediction, its, other);
                    }
                }
            }
            if score >= before {
                break;
            }
        }
        let broken = self.broken(&best);
        let named = |name: &str| self.name_of(name);
        let options = values.iter().filter_map(|(name, value)| Some((named(name)?, value)));
        let options = options.collect();
        let whole = self.question.whole_offer();
        let lacks = whole.map_or(Vec::new(), |whole| self.model.offer().lacks_of(&whole));
        let engine = self.candidate.engine;
        (Choice { engine, options, prediction: best, lacks, score }, broken)
    }

    fn name_of(&self, name: &str) -> Option<&'static str> {
        self.candidate.options.iter().find(|spec| spec.name == name).map(|spec| spec.name)
    }

    /// The model's options as far as the table has them and lets them be tuned, and the memory.
    fn axes(&self) -> Vec<Axis> {
        let may_evict = self.question.needs.may_evict;
        let mut axes = self.model.axes(self.work, may_evict);
        axes.retain_mut(|axis| {
            let spec = self.candidate.options.iter().find(|spec| spec.name == axis.option);
            let Some(spec) = spec.filter(|spec| spec.tunable || is_required(axis)) else {
                return false;
            };
            axis.values.retain(|value| in_range(spec, *value));
            !axis.values.is_empty()
        });
        let memory = self.candidate.options.iter().find(|spec| spec.name == MEMORY);
        if let Some(spec) = memory {
            let all = self.budget() as u64;
            let parts = (1..=MEMORY_HALVINGS).map(|halvings| all >> halvings);
            let values = parts.filter(|bytes| in_range(spec, *bytes)).collect();
            axes.push(Axis { option: MEMORY, values });
        }
        axes
    }

    fn tried(&self, axis: &Axis) -> Vec<Option<u64>> {
        std::iter::once(None).chain(axis.values.iter().copied().map(Some)).collect()
    }

    /// Memory that may be had.
    fn budget(&self) -> f64 {
        let given = self.question.workload.memory_bytes as f64;
        self.question.bounds.memory_bytes_max.map_or(given, |most| most.min(given))
    }

    fn judge(&mut self, values: &OptionValues) -> (Prediction, f64) {
        let prediction = self.predict(values);
        let worst: f64 = self.broken(&prediction).iter().map(|b| 1.0 + b.distance()).sum();
        let options = values.iter().count() as f64 * OPTION_PENALTY;
        let score = score(&self.question.goal, self.question.workload, &prediction);
        (prediction, INFEASIBLE * worst + score + options)
    }

    fn predict(&mut self, values: &OptionValues) -> Prediction {
        self.evaluations += 1;
        let memory_bytes = values.given(MEMORY).map_or_else(|| self.budget(), |bytes| bytes as f64);
        let options = self.candidate.options;
        let settings = Settings { options, values, memory_bytes };
        let question = self.question;
        let cost = self.model.cost(self.work, settings, &question.calibration);
        Prediction::new(self.work, cost, memory_bytes, question.machine, &question.prices)
    }

    /// Bounds that are broken: those given, and what the workload itself asks for.
    fn broken(&self, prediction: &Prediction) -> Vec<Broken> {
        let question = self.question;
        let mut broken = question.bounds.broken_by(prediction);
        let mut most = |name, bound: f64, predicted: f64| {
            if predicted > bound {
                broken.push(Broken { name, bound, predicted });
            }
        };
        let needed = prediction.cost.memory_bytes_min;
        most("what it needs at least of memory <=", prediction.memory_bytes, needed);
        let device = question.machine.device.capacity_bytes as f64;
        most("device_bytes <= the device's", device, prediction.device_bytes);
        if !question.needs.may_evict {
            most("entries that do not fit <=", 1e-9, prediction.cost.lost);
        }
        if let Some(rate) = question.workload.rate.filter(|rate| prediction.throughput < *rate) {
            let predicted = prediction.throughput;
            broken.push(Broken { name: "the workload's rate >=", bound: rate, predicted });
        }
        broken
    }
}

/// `eviction` is what makes a store of a cache, not a matter of taste.
fn is_required(axis: &Axis) -> bool {
    axis.option == "eviction"
}

fn without(values: &OptionValues, name: &str) -> OptionValues {
    let mut rest = OptionValues::default();
    for (other, value) in values.iter().filter(|(other, _)| *other != name) {
        rest.set(other, value);
    }
    rest
}

fn in_range(spec: &OptionSpec, value: u64) -> bool {
    match spec.kind {
        OptionKind::Count(low, high) | OptionKind::Size(low, high) => {
            (low..=high).contains(&value) && value != spec.default
        }
        OptionKind::Bool => value <= 1 && value != spec.default,
        OptionKind::Choice(words) => value < words.len() as u64 && value != spec.default,
    }
}

/// The logarithm of what is weighed.
pub(super) fn score(goal: &Goal, workload: &Workload, prediction: &Prediction) -> f64 {
    terms(goal, workload, prediction).iter().map(|(_, term)| term).sum()
}

/// Its parts, one for each weight.
pub(super) fn terms(
    goal: &Goal,
    workload: &Workload,
    prediction: &Prediction,
) -> [(&'static str, f64); 6] {
    let ln = |value: f64| value.max(1e-12).ln();
    // What is not asked for is worth nothing.
    let asked = workload.rate.unwrap_or(f64::INFINITY);
    // What is lost was asked for in vain.
    let useful = prediction.throughput.min(asked) * (1.0 - prediction.cost.lost);
    [
        ("throughput", -goal.throughput * ln(useful)),
        ("cost", goal.cost * ln(prediction.money_per_month)),
        ("life", -goal.life * ln(prediction.life_years.min(YEARS_MAX))),
        ("memory", goal.memory * ln(prediction.memory_bytes)),
        ("writes", goal.writes * ln(1.0 + prediction.written())),
        ("reads", goal.reads * ln(1.0 + prediction.reads_per_get)),
    ]
}
