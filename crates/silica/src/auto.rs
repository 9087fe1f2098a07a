//! Engines that the models choose: `engine = "auto"`.
//!
//! A keyspace that is created gets the engine and the options of the best prediction. While it is
//! used its metrics and its sketch tell what is asked of it; at each close the models are asked
//! again, and what they wish for is noted in the catalog. An opening acts on a wish that has lasted
//! ([`Hysteresis`]), where no more is to be moved than the rule allows, and logs it.
//!
//! Invariants:
//!
//! 1. An engine is never replaced by one that lacks what was used: durability stays, and so does
//!    the order of keys unless the note says that nobody used it since the keyspace was created.
//! 2. While a store is open, and after a crash, the note says `open`: then the order is
//!    taken to be used.

use crate::catalog::{CHOICE, Catalog, Record};
use crate::{Keyspace, OpenOptions, Registry, Silica};
use log::{info, warn};
use silica_engine::{Error, ErrorKind, MetricsMap, OptionValues, Result};
use silica_tune::recommend::{
    Candidate, Hysteresis, Measured, Needs, Question, Recommendation, Verdict, Wish, describe,
    model_of, predict, recommend, workload_of,
};
use silica_tune::{Machine, Workload};
use std::collections::BTreeMap;

/// The name that stands for the best engine.
pub const AUTO: &str = "auto";

/// Notes: nobody used the order; somebody did; the store is open, or was when the process died.
const FREE: &str = "free";
const ORDERED: &str = "ordered";
pub(crate) const OPEN: &str = "open";

/// Operations that say something about a workload.
const OPERATIONS_MIN: f64 = 10_000.0;

/// What is known of a keyspace while the store is open.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Noted {
    pub(crate) ordered: bool,
    pub(crate) wish: Wish,
}

impl Noted {
    fn parse(text: &str) -> Self {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        Noted { ordered: word != FREE, wish: rest.parse().unwrap_or_default() }
    }

    pub(crate) fn text(&self) -> String {
        let word = if self.ordered { ORDERED } else { FREE };
        match self.wish.engine.is_empty() {
            true => word.to_string(),
            false => format!("{word} {}", self.wish),
        }
    }
}

/// The note of `record`, where it has one.
fn note_of(record: &Record) -> Option<Noted> {
    let note = record.options.iter().find(|(name, _)| name == CHOICE);
    note.map(|(_, text)| Noted::parse(text))
}

/// Notes of all keyspaces that have one, or, with `all`, of all. The catalog says `open` of them.
pub(crate) fn take_notes(catalog: &mut Catalog, all: bool) -> BTreeMap<String, Noted> {
    let mut notes = BTreeMap::new();
    for record in &catalog.keyspaces {
        let unknown = || all.then(|| Noted { ordered: true, wish: Wish::default() });
        if let Some(noted) = note_of(record).or_else(unknown) {
            notes.insert(record.name.clone(), noted);
        }
    }
    for name in notes.keys() {
        catalog.set_option(name, CHOICE, OPEN.to_string());
    }
    notes
}

impl Registry {
    /// The engines that the models know, for [`recommend`].
    pub fn candidates(&self) -> Vec<Candidate> {
        let known = self.iter().filter(|spec| model_of(spec.name).is_some());
        known.map(|r| Candidate { engine: r.name, options: r.options }).collect()
    }
}

/// What is asked for and on what, as far as `options` and the machine say.
pub(crate) struct Asked {
    workload: Workload,
    needs: Needs,
    machine: Machine,
    candidates: Vec<Candidate>,
}

impl Asked {
    pub(crate) fn new(options: &OpenOptions, machine: Machine, memory: u64) -> Result<Self> {
        let (mut workload, needs) = describe(options.workload.as_deref().unwrap_or_default())?;
        let says = options.workload.as_deref().is_some_and(|words| words.contains("memory="));
        if !says {
            workload.memory_bytes = memory.max(1);
        }
        Ok(Asked { workload, needs, machine, candidates: options.registry.candidates() })
    }

    pub(crate) fn question(&self) -> Question<'_> {
        Question::new(&self.workload, &self.machine, self.needs, &self.candidates)
    }

    /// The best engine and its options for a keyspace that is created.
    ///
    /// Without words about the workload nothing is known of it, so only what every engine with an
    /// order does is certain to do: the order stays.
    pub(crate) fn choose(mut self, described: bool) -> Result<Recommendation> {
        self.needs.ordered |= !described;
        recommend(&self.question())
    }
}

impl Silica {
    /// The engines that this store has and the models know.
    pub(crate) fn candidates(&self) -> Vec<Candidate> {
        self.options().registry.candidates()
    }

    /// Keeps options of the keyspace `name`, as `(name, value)` pairs; they hold from the next
    /// opening on.
    ///
    /// # Errors
    /// `NotFound` for a keyspace that is not there, `Config` for options that are unknown, fixed
    /// when a keyspace is created, or out of range.
    pub fn set_options(&self, name: &str, options: &[(&str, &str)]) -> Result<()> {
        let record = self.record(name)?;
        let engine = self.spec(&record.engine)?;
        let values = OptionValues::parse(engine.options, options.iter().copied())?;
        for (option, value) in values.iter() {
            let spec = engine.options.iter().find(|spec| spec.name == option);
            let kept = record.options.iter().find(|(other, _)| other == option);
            let spec = spec.expect("parsed options are in their table");
            let is_new = kept.is_none_or(|(_, text)| *text != spec.show(value));
            if spec.fixed && is_new {
                let message = format!(
                    "option {option} of keyspace '{name}' was fixed when it was created; load the \
                     data into another keyspace"
                );
                return Err(Error::new(ErrorKind::Config, message));
            }
        }
        self.edit_catalog(|catalog| {
            for (option, value) in values.iter() {
                let spec = engine.options.iter().find(|spec| spec.name == option);
                let spec = spec.expect("parsed options are in their table");
                catalog.set_option(name, option, spec.show(value));
            }
        })
    }

    /// Acts on wishes that have lasted.
    pub(crate) fn follow_wishes(&self) {
        for (name, noted) in self.noted() {
            let rule = Hysteresis::default();
            let wish = &noted.wish;
            if wish.times < rule.times_min {
                continue;
            }
            if let Err(e) = self.follow(&name, wish, &rule) {
                warn!("keyspace '{name}' keeps its engine, {} would be better: {e}", wish.engine);
            }
            self.change_note(&name, |noted| noted.wish = Wish::default());
        }
    }

    fn follow(&self, name: &str, wish: &Wish, rule: &Hysteresis) -> Result<()> {
        let Some(keyspace) = self.existing(name)? else { return Ok(()) };
        if keyspace.engine().descriptor().name == wish.engine {
            return Ok(());
        }
        let bytes = keyspace.metrics()?.get("live_bytes");
        if bytes > rule.bytes_max as f64 {
            info!(
                "engine {} is predicted to be better for keyspace '{name}', but {bytes} bytes are \
                 more than are moved without being asked; `silica tune --apply` does it",
                wish.engine
            );
            return Ok(());
        }
        let report = self.migrate(name, &wish.engine, &[], &mut |_| Ok(()))?;
        info!("keyspace '{name}' was moved to engine {}: {} entries", wish.engine, report.entries);
        self.edit_catalog(|catalog| catalog.set_option(name, CHOICE, OPEN.to_string()))
    }
}

/// What the models wish for `keyspace`, by what it has measured since it was opened.
pub(crate) fn wish(keyspace: &Keyspace, noted: &mut Noted, asked: Result<Asked>) {
    let outcome = asked.and_then(|asked| ask_again(keyspace, noted, asked));
    if let Err(e) = outcome {
        warn!("asking for the best engine of keyspace '{}': {e}", keyspace.name());
    }
}

/// The metrics of `keyspace`, as the models read them.
pub(crate) fn measured_of(keyspace: &Keyspace) -> Measured {
    let mut metrics = MetricsMap::default();
    keyspace.engine().metrics(&mut metrics);
    metrics.0.iter().map(|(name, value)| (name.to_string(), *value)).collect()
}

/// What was asked of `keyspace` since it was opened: how often what, as it was `counted`; how many
/// calls had several keys, scanned and synced, as its sketch saw them meanwhile; sizes and the
/// popularity of keys as the sketch has them from all its time.
///
/// So new habits show at the next close, however long there were others.
pub(crate) fn sketched(keyspace: &Keyspace, counted: Workload) -> Workload {
    let Ok(seen) = keyspace.workload() else { return counted };
    let since = keyspace.asked_since_opened();
    let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
    let mut workload = Workload {
        keys: counted.keys,
        memory_bytes: counted.memory_bytes,
        mix: counted.mix.normalised(),
        rate: counted.rate,
        threads: counted.threads,
        ..seen
    };
    if since.operations() > 0 {
        workload.burst = share(since.get_hits + since.get_misses, since.get_calls).max(1.0);
        let synced = share(since.synced_calls + since.syncs, since.write_calls);
        workload.synced = synced.min(1.0);
        // Scans are not among the metrics.
        let scans = share(since.scans, since.operations()).min(0.99);
        workload.mix.scans = scans / (1.0 - scans);
        workload.mix = workload.mix.normalised();
    }
    workload
}

/// Judges the best engine for what `keyspace` was asked.
fn ask_again(keyspace: &Keyspace, noted: &mut Noted, mut asked: Asked) -> Result<()> {
    let mut metrics = MetricsMap::default();
    keyspace.engine().metrics(&mut metrics);
    let operations = metrics.get("gets") + metrics.get("puts") + metrics.get("deletes");
    if operations < OPERATIONS_MIN {
        return Ok(());
    }
    let measured = measured_of(keyspace);
    asked.workload = sketched(keyspace, workload_of(&measured, &asked.workload));
    let descriptor = keyspace.engine().descriptor();
    let capabilities = descriptor.capabilities;
    asked.needs = Needs {
        durable: capabilities.durable,
        ordered: capabilities.ordered && noted.ordered,
        may_evict: capabilities.may_evict,
        value_bytes_max: asked.workload.value_bytes.quantile(1.0) as u64,
        flash_bytes: None,
    };
    let question = Question { current: Some(descriptor.name), ..asked.question() };
    let now = predict(&question, descriptor.name, &OptionValues::default())?;
    let best = recommend(&question)?.choice;
    let gain = best.prediction.throughput / now.throughput;
    let gain = if best.engine == descriptor.name { 1.0 } else { gain };
    let bytes = metrics.get("live_bytes") as u64;
    let verdict = Hysteresis::default().judge(&mut noted.wish, best.engine, gain, bytes);
    let name = keyspace.name();
    let without = without(&best.lacks);
    match verdict {
        Verdict::Stay => {}
        Verdict::Wait => {
            info!("keyspace '{name}': {}{without} looks {gain:.1} times faster", best.engine)
        }
        Verdict::Propose => info!(
            "keyspace '{name}': {}{without} is predicted to be {gain:.1} times faster: silica tune \
             --apply",
            best.engine
        ),
        Verdict::Change => info!(
            "keyspace '{name}': {}{without} is predicted to be {gain:.1} times faster, again; the \
             next opening moves it",
            best.engine
        ),
    }
    Ok(())
}

/// What an engine lacks, for the log.
pub(crate) fn without(lacks: &[&str]) -> String {
    if lacks.is_empty() { String::new() } else { format!(" (without {})", lacks.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_words_the_order_stays_whatever_is_faster() {
        let mut machine = Machine::default();
        machine.processor.wip.hit = 1e9;
        let asked = || Asked::new(&OpenOptions::new(), machine.clone(), 64 << 20).unwrap();
        assert_eq!(asked().choose(true).unwrap().choice.engine, "silt");
        assert_eq!(asked().choose(false).unwrap().choice.engine, "wip");
    }
}
