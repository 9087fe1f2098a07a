//! `silica tune`: which engine, with which options, and why.

mod trace;

use crate::args::TuneArgs;
use crate::text::object_of;
use serde_json::{Map, Value, json};
use silica::tune::recommend::{
    Bounds, Candidate, Choice, FlashAdvice, Needs, Prediction, Prices, Question, Recommendation,
    describe, flash_cache, recommend, workload_of,
};
use silica::tune::{Machine, Workload};
use silica::{Error, ErrorKind, Keyspace, Registry, Result, Silica};
use silica_console::{Global, Opened, Output};
use std::path::Path;

/// What the models are asked with, and what of it is only assumed.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) workload: Workload,
    pub(crate) needs: Needs,
    machine: Machine,
    candidates: Vec<Candidate>,
    pub(crate) notes: Vec<String>,
}

impl Asked {
    /// The workload of the words, on the machine that was probed below `path`.
    pub(crate) fn new(global: &Global, path: Option<&Path>) -> Result<Self> {
        let mut notes = Vec::new();
        let words = global.describe.as_deref();
        let (mut workload, needs) = describe(words.unwrap_or_default())?;
        if let Some(bytes) = global.memory {
            workload.memory_bytes = bytes;
        }
        let machine = match path.map(silica::kept_probe).transpose()?.flatten() {
            Some(machine) => machine,
            None => {
                let at = path.map_or(".".into(), |path| path.display().to_string());
                notes.push(format!(
                    "the machine is assumed, not measured: run `silica probe --path {at}`"
                ));
                Machine::default()
            }
        };
        let candidates = Registry::builtin().candidates();
        Ok(Asked { workload, needs, machine, candidates, notes })
    }

    /// Takes what `keyspace` knows of its entries and of what it was asked.
    pub(crate) fn measured(&mut self, global: &Global, keyspace: &Keyspace) -> Result<()> {
        let metrics = keyspace.metrics()?;
        let measured = metrics.0.iter().map(|(name, value)| (name.to_string(), *value));
        let measured = silica_base::compact_map(measured);
        let described = self.workload.clone();
        self.workload = workload_of(&measured, &described);
        let entries = metrics.get("entries_estimate");
        if global.describe.is_none() && entries >= 1.0 && metrics.get("live_bytes") > 0.0 {
            let value = metrics.get("live_bytes") / entries - described.key_bytes.mean();
            self.workload.value_bytes = silica::tune::Sizes::constant(value.max(0.0));
        }
        if let Some(bytes) = global.memory {
            self.workload.memory_bytes = bytes;
        }
        let sketched = if global.describe.is_none() { keyspace.workload().ok() } else { None };
        let is_sketched = sketched.is_some();
        if let Some(workload) = sketched {
            let memory_bytes = global.memory.unwrap_or(workload.memory_bytes);
            self.workload = Workload { memory_bytes, ..workload };
        }
        if global.describe.is_none() && !is_sketched {
            self.notes.push(
                "nothing is known of the operations, so half gets and half puts of Zipf 0.99 are \
                 assumed: say what they are with --describe or --trace"
                    .into(),
            );
        }
        let capabilities = keyspace.engine().descriptor().capabilities;
        // What a keyspace can do it is not to lose without being told.
        self.needs = Needs {
            durable: self.needs.durable && capabilities.durable,
            ordered: self.needs.ordered || (global.describe.is_none() && capabilities.ordered),
            may_evict: self.needs.may_evict || capabilities.may_evict,
            flash_bytes: self.needs.flash_bytes,
            ..Needs::of(&self.workload)
        };
        if global.describe.is_none() && capabilities.ordered {
            self.notes.push(
                "the order of keys is kept, as nobody said that it is not needed: --describe does"
                    .into(),
            );
        }
        Ok(())
    }

    pub(crate) fn question(&self) -> Question<'_> {
        Question::new(&self.workload, &self.machine, self.needs, &self.candidates)
    }
}

/// Recommends, and does it where that is wanted.
pub(crate) fn run(global: &Global, args: &TuneArgs, output: &mut Output) -> Result<()> {
    let path = args.directory.clone().unwrap_or_else(|| global.directory());
    let is_named = args.directory.is_some() || global.path.is_some();
    let only_words = !is_named && (global.describe.is_some() || args.trace.is_some());
    if args.apply && only_words {
        let message = "--apply needs a store: name it, or give --path";
        return Err(Error::new(ErrorKind::Config, message));
    }
    let mut asked = Asked::new(global, Some(&path))?;
    if let Some(file) = &args.trace {
        asked.workload = trace::workload(file, &asked.workload)?;
        asked.needs = Needs::of(&asked.workload);
    }
    let store = if only_words { None } else { open(global, &path)? };
    let keyspace = store.as_ref().map(|store| store.existing(&global.keyspace)).transpose()?;
    let keyspace = keyspace.flatten();
    match &keyspace {
        Some(keyspace) if args.trace.is_none() => asked.measured(global, keyspace)?,
        _ => {}
    }
    let question = Question {
        goal: args.goal.parse()?,
        bounds: bounds(&args.bound)?,
        prices: Prices {
            memory_per_gib: args.memory_price,
            device_per_gib: args.device_price,
            months: args.months,
            ..Prices::default()
        },
        current: keyspace.as_ref().map(|keyspace| keyspace.engine().descriptor().name),
        ..asked.question()
    };
    let found = recommend(&question)?;
    if let Some(keyspace) = &keyspace {
        asked.notes.extend(loss(keyspace, &found.choice));
    }
    show(&found, &asked, output)?;
    if args.apply {
        let forget = global.forget_at_exit;
        apply(&found.choice, forget, store.as_deref(), keyspace.as_ref(), output)?;
    }
    drop(keyspace);
    store.map_or(Ok(()), Opened::close)
}

/// What is lost where the keyspace moves to `choice`, in words.
fn loss(keyspace: &Keyspace, choice: &Choice) -> Option<String> {
    let (name, current) = (keyspace.name(), keyspace.engine().descriptor().name);
    let moves = choice.engine != current && !choice.lacks.is_empty();
    moves.then(|| {
        format!(
            "keyspace '{name}' would lose what {current} can do and {} cannot: {}; say `ordered` \
             in --describe to keep it",
            choice.engine,
            choice.lacks.join(", ")
        )
    })
}

/// The store, as it is: what is set and described is not for opening it.
fn open(global: &Global, path: &Path) -> Result<Option<Opened>> {
    let here = Global { set: Vec::new(), engine: None, describe: None, ..global.clone() };
    here.open_at(path, false).map(Some)
}

/// What `--bound` takes.
const BOUNDS: [&str; 7] = [
    "throughput",
    "life_years",
    "memory",
    "money",
    "write_amplification",
    "reads_per_get",
    "device_bytes",
];

fn bounds(pairs: &[(String, String)]) -> Result<Bounds> {
    let mut bounds = Bounds::default();
    for (name, text) in pairs {
        let wrong = || {
            let message = format!("--bound {name}={text}: use a number, such as life_years=5");
            Error::new(ErrorKind::Config, message)
        };
        let number = || text.parse().ok().or_else(|| silica::parse_size(text).map(|n| n as f64));
        let value = Some(number().ok_or_else(wrong)?);
        match name.as_str() {
            "throughput" => bounds.throughput_min = value,
            "life_years" => bounds.life_years_min = value,
            "memory" => bounds.memory_bytes_max = value,
            "money" => bounds.money_max = value,
            "write_amplification" => bounds.write_amplification_max = value,
            "reads_per_get" => bounds.reads_per_get_max = value,
            "device_bytes" => bounds.device_bytes_max = value,
            _ => {
                return Err(silica::engine::unknown("bound", name, BOUNDS));
            }
        }
    }
    Ok(bounds)
}

/// An option's value as `--set` takes it.
fn option_text(engine: &str, name: &str, value: u64) -> String {
    let registry = Registry::builtin();
    let engine = registry.iter().find(|spec| spec.name == engine);
    let spec = engine.and_then(|engine| engine.options.iter().find(|spec| spec.name == name));
    spec.map_or_else(|| value.to_string(), |spec| spec.show(value))
}

/// The options of `choice` as `--set` takes them.
fn options(choice: &Choice) -> Vec<(&'static str, String)> {
    let text =
        |(name, value): &(&'static str, u64)| (*name, option_text(choice.engine, name, *value));
    choice.options.iter().map(text).collect()
}

fn show(found: &Recommendation, asked: &Asked, output: &mut Output) -> Result<()> {
    let words = |choice: &Choice| {
        let options =
            options(choice).into_iter().map(|(name, text)| format!(" --set {name}={text}"));
        format!("--engine {}{}", choice.engine, options.collect::<String>())
    };
    output.line(format!("best: {}", words(&found.choice)))?;
    for (name, text) in lines(&found.choice.prediction).into_iter().chain(without(&found.choice)) {
        output.line(format!("  {name:<20} {text}"))?;
    }
    if let Some((next, why)) = &found.runner_up {
        output.line(format!("next: {}", words(next)))?;
        output.line(format!("  it loses by {why}"))?;
        if let Some((name, text)) = without(next) {
            output.line(format!("  {name:<20} {text}"))?;
        }
    }
    for excluded in &found.excluded {
        output.line(format!("not {}: {}", excluded.engine, excluded.why))?;
    }
    let advice = flash_cache(&asked.workload, &asked.needs)?;
    if let Some(advice) = &advice {
        output.line(on_flash(advice))?;
    }
    asked.notes.iter().try_for_each(|note| output.line(format!("note: {note}")))?;
    let mut excluded = Map::new();
    for one in &found.excluded {
        excluded.insert(one.engine.into(), one.why.clone().into());
    }
    let object = output.object();
    object.insert("best".into(), choice_json(&found.choice));
    let next = found.runner_up.as_ref().map(|(next, why)| {
        let mut value = choice_json(next);
        value["lost_by"] = why.clone().into();
        value
    });
    object.insert("runner_up".into(), next.into());
    object.insert("excluded".into(), excluded.into());
    object.insert("flash_cache".into(), advice.as_ref().map(flash_json).into());
    object.insert("evaluations".into(), found.evaluations.into());
    object.insert("notes".into(), asked.notes.clone().into());
    object.insert("workload".into(), asked.workload.to_string().into());
    Ok(())
}

/// What a server's cache on flash would do, in words.
fn on_flash(advice: &FlashAdvice) -> String {
    let cost = &advice.cost;
    let verdict = match advice.is_better() {
        true => "a cache on flash finds more",
        false => "a cache on flash finds no more",
    };
    let life = match (advice.drive_writes_per_day, advice.life_years) {
        (Some(writes), Some(years)) => format!(
            ", writes the flash {writes:.2} times a day, which it bears for {years:.1} years"
        ),
        _ => ", for its life say rate=OPERATIONS a second".into(),
    };
    format!(
        "{verdict}: silica serve --cache SIZE --flash DIR --flash-size {}\n  it finds {:.3} of the \
         gets (memory alone {:.3}), writes {:.2} bytes for each byte put{life}",
        advice.flash_bytes, cost.hits, advice.hits_in_memory, cost.write_amplification
    )
}

/// What a cache on flash would do, for programs.
pub(crate) fn flash_json(advice: &FlashAdvice) -> Value {
    json!({
        "flash_bytes": advice.flash_bytes,
        "is_better": advice.is_better(),
        "hit_ratio": advice.cost.hits,
        "hit_ratio_in_memory": advice.hits_in_memory,
        "write_amplification": advice.cost.write_amplification,
        "erases_per_million": advice.cost.erases * 1e6,
        "drive_writes_per_day": advice.drive_writes_per_day,
        "life_years": advice.life_years,
        "index_bytes": advice.index_bytes,
    })
}

fn choice_json(choice: &Choice) -> Value {
    let options = options(choice).into_iter().map(|(name, text)| (name.to_string(), text.into()));
    let options = object_of(options);
    let mut value = prediction_json(&choice.prediction);
    value["engine"] = choice.engine.into();
    value["options"] = options.into();
    value["lacks"] = choice.lacks.clone().into();
    value
}

/// A prediction for programs.
pub(crate) fn prediction_json(p: &Prediction) -> Value {
    let written = p.cost.written.iter().map(|(name, amount)| (name.to_string(), json!(amount)));
    let written = object_of(written);
    let resources = p.resources.iter().map(|(r, seconds)| (r.name().to_string(), json!(seconds)));
    let resources = object_of(resources);
    json!({
        "throughput_ops": p.throughput,
        "bottleneck": p.bottleneck().name(),
        "seconds_per_operation": resources,
        "write_amplification": p.written(),
        "written": written,
        "reads_per_get": p.reads_per_get,
        "reads_per_hit": p.cost.reads_per_hit,
        "reads_per_miss": p.cost.reads_per_miss,
        "reads_per_scan": p.cost.reads_per_scan,
        "index_bytes_per_key": p.cost.index_bytes_per_key,
        "memory_bytes": p.memory_bytes,
        "device_bytes": p.device_bytes,
        "space_amplification": p.cost.space_amplification,
        "lost_share": p.cost.lost,
        "life_years": p.life_years,
        "money_per_month": p.money_per_month,
    })
}

/// What the engine of `choice` cannot do, for people.
fn without(choice: &Choice) -> Option<(&'static str, String)> {
    (!choice.lacks.is_empty()).then(|| ("without", choice.lacks.join(", ")))
}

const MIB: f64 = 1048576.0;

/// A prediction for people.
fn lines(p: &Prediction) -> Vec<(&'static str, String)> {
    let terms = p.cost.written.iter().map(|(name, amount)| format!("{name} {amount:.2}"));
    let terms = terms.collect::<Vec<_>>().join(", ");
    let written = match terms.is_empty() {
        true => "nothing is written".to_string(),
        false => format!("{:.2}: {terms}", p.written()),
    };
    let life = match p.life_years {
        years if years >= 1000.0 => "more than 1000 years".into(),
        years => format!("{years:.1} years"),
    };
    let mut lines = vec![
        (
            "throughput",
            format!(
                "{:.0} operations a second, limited by {}",
                p.throughput,
                p.bottleneck().name()
            ),
        ),
        ("write amplification", written),
        (
            "device reads",
            format!(
                "{:.2} a get ({:.2} of a hit, {:.2} of a miss)",
                p.reads_per_get, p.cost.reads_per_hit, p.cost.reads_per_miss
            ),
        ),
        (
            "memory",
            format!(
                "{:.0} MiB, index {:.2} bytes a key",
                p.memory_bytes / MIB,
                p.cost.index_bytes_per_key
            ),
        ),
        ("space", format!("{:.0} MiB on the device", p.device_bytes / MIB)),
        ("device life", life),
        ("money", format!("{:.2} a month", p.money_per_month)),
    ];
    if p.cost.lost > 1e-6 {
        lines.push((
            "not kept",
            format!("{:.1} % of the requests find nothing", 100.0 * p.cost.lost),
        ));
    }
    lines
}

/// Moves the keyspace to the engine, or keeps the options. An engine that forgets at exit is only
/// moved to with `forget`.
fn apply(
    choice: &Choice,
    forget: bool,
    store: Option<&Silica>,
    keyspace: Option<&Keyspace>,
    output: &mut Output,
) -> Result<()> {
    let (Some(store), Some(keyspace)) = (store, keyspace) else {
        let message = "there is no such keyspace to apply this to; --keyspace names one, and one \
                       that is created takes --engine and --set as shown";
        return Err(Error::new(ErrorKind::NotFound, message));
    };
    let options = options(choice);
    // Memory is the store's to divide, and fixed options are those of another keyspace.
    let options: Vec<(&str, &str)> = options
        .iter()
        .filter(|(name, _)| *name != "memory_bytes")
        .map(|(name, text)| (*name, text.as_str()))
        .collect();
    let name = keyspace.name();
    output.object().insert("applied".into(), true.into());
    if keyspace.engine().descriptor().name == choice.engine {
        store.set_options(name, &options)?;
        return output.line(match options.is_empty() {
            true => format!("keyspace '{name}' stays as it is"),
            false => format!("keyspace '{name}' has these options from its next opening on"),
        });
    }
    let forget = forget.then_some((silica::FORGET_AT_EXIT, "on"));
    let options: Vec<(&str, &str)> = options.into_iter().chain(forget).collect();
    crate::migrate::migrate(store, name, choice.engine, &options, output)
}
