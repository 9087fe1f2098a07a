//! `silica bench figures auto`: engine and options that the models choose for 40 workloads, beside
//! the best of a search over engines and options on this machine. Section 6.1.3 of Lim's
//! dissertation asks for configuration without expertise; it has no figure.

mod cases;
mod way;

use super::job::Job;
use super::scratch::{Scratch, median};
use super::sheet::{Drawing, Sheet, drawing};
use cases::{CASES, Case, KEYS, OLD};
use silica::tune::Machine;
use silica::tune::recommend::{
    Candidate, Choice, Question, Recommendation, Work, describe, model_of, recommend,
};
use silica::{
    AUTO, DEFAULT_KEYSPACE, Error, ErrorKind, OpenOptions, OptionValues, ProbeOptions, Registry,
    Result,
};
use way::{Setting, Times, Way};

const KEYS_MIN: u64 = 1000;
/// With fewer keys only some cases run, and nothing is measured.
const TOY_KEYS: u64 = 10_000;
const TOY_CASES: [usize; 4] = [0, 8, 17, 38];
/// Seconds of a round of a full run; one of a share of the keys has the root of it.
const SECONDS: f64 = 0.8;
const TOY_SECONDS: f64 = 0.02;
/// Options of an engine that the search varies, each alone, at its first and its last value.
const AXES: usize = 2;
/// Ways that go into the last rounds, beside the models' choices, and these rounds.
const FINALISTS: usize = 3;
const ROUNDS: usize = 5;
/// A choice is good if it is so near the best.
const GOOD: f64 = 0.9;

const DRAWINGS: [Drawing; 1] = [drawing(
    "choices-sorted",
    "Chosen by the models, of the best that a search found",
    "workloads, the worst first",
    "share of the best",
)];

/// Everything that is drawn.
pub(super) fn sheet(job: &Job<'_>) -> Result<Sheet> {
    let mut sheet = Sheet { drawings: DRAWINGS.to_vec(), ..Sheet::default() };
    let keys = job.keys(KEYS, KEYS_MIN);
    let is_toy = keys < TOY_KEYS;
    let share = keys as f64 / KEYS;
    let seconds = if is_toy { TOY_SECONDS } else { SECONDS * share.sqrt() };
    let put_of_memory = if is_toy { 0.0 } else { 0.5 };
    let times = Times { keys, seconds, put_of_memory, seed: job.seed() };
    let (disk, memory) = (Place::new(job, false, is_toy)?, Place::new(job, true, is_toy)?);
    if is_toy {
        sheet.remark(format!("{} of {} workloads: --scale is under 0.02", 4, CASES.len()));
    }
    let mut found = Vec::new();
    for (number, case) in CASES.iter().enumerate() {
        if is_toy && !TOY_CASES.contains(&number) {
            continue;
        }
        let place = if case.in_memory { &memory } else { &disk };
        if case.in_memory && !memory.scratch.is_in_memory() {
            sheet.remark(format!("{}: there is no /dev/shm", case.name()));
            continue;
        }
        let what = format!("{} of {}: {}", number + 1, CASES.len(), case.name());
        if !job.begins(&what, &mut sheet)? {
            break;
        }
        found.push((number, judged(case, &times, place, &mut sheet)?));
    }
    summary(&found, &mut sheet);
    Ok(sheet)
}

/// Where stores are, and what the machine can do there.
struct Place {
    scratch: Scratch,
    machine: Machine,
}

impl Place {
    fn new(job: &Job<'_>, in_memory: bool, is_toy: bool) -> Result<Place> {
        let scratch = Scratch::new(job, in_memory)?;
        let defaults = ProbeOptions::default();
        let options = match is_toy {
            false => ProbeOptions { seconds: defaults.seconds / 2.0, ..defaults },
            true => ProbeOptions {
                seconds: 0.2,
                file_bytes: 4 << 20,
                memory_bytes: 4 << 20,
                ..defaults
            },
        };
        let probed = silica::probe(scratch.path(), &options, |_, _| {})?;
        // As an opening reads it back.
        silica::keep_probe(scratch.path(), &probed)?;
        let machine = silica::kept_probe(scratch.path())?.unwrap_or(probed);
        Ok(Place { scratch, machine })
    }
}

/// The part of the best that the models' choices reach.
#[derive(Debug, Clone, Copy)]
struct Verdict {
    tune: f64,
    auto: f64,
}

/// What the models choose for a workload that is known exactly, and by its words.
struct Chosen {
    tune: Recommendation,
    auto: Choice,
}

impl Chosen {
    fn new(case: &Case, times: &Times, machine: &Machine, all: &[Candidate]) -> Result<Chosen> {
        let (workload, needs) = case.described(times.keys)?;
        let tune = recommend(&Question::new(&workload, machine, needs, all))?;
        let (workload, needs) = describe(&case.words(times.keys))?;
        let auto = recommend(&Question::new(&workload, machine, needs, all))?.choice;
        Ok(Chosen { tune, auto })
    }
}

/// `auto` gives a store all the memory it may have, whatever the models say of it.
fn setting_of(choice: &Choice, with_memory: bool) -> Setting {
    let mut options = OptionValues::default();
    for (name, value) in choice.values().iter() {
        if with_memory || name != "memory_bytes" {
            options.set(name, value);
        }
    }
    Setting { engine: choice.engine, options }
}

/// Runs the search for one workload.
fn judged(case: &Case, times: &Times, place: &Place, sheet: &mut Sheet) -> Result<Verdict> {
    let all = Registry::builtin().candidates();
    let chosen = Chosen::new(case, times, &place.machine, &all)?;
    let tune = setting_of(&chosen.tune.choice, true);
    let auto = setting_of(&chosen.auto, false);
    check_auto(case, times, place, auto.engine)?;
    let mut settings = vec![tune.clone()];
    for setting in [vec![auto.clone()], searched(case, times, place, &chosen.tune, &all)?].concat()
    {
        if !settings.contains(&setting) {
            settings.push(setting);
        }
    }
    let mut ways = Vec::new();
    for setting in settings {
        let is_chosen = setting == tune || setting == auto;
        match Way::open(case, times, &place.scratch.next(), setting) {
            Ok(way) => ways.push(way),
            // The search tries what the models say cannot be.
            Err(e) if !is_chosen && is_refusal(&e) => {}
            Err(e) => return Err(e.within(format_args!("{}", case.name()))),
        }
    }
    ways.iter_mut().try_for_each(|way| way.turn(case, times))?;
    let measured = ways.len();
    ways.sort_by(|a, b| b.rate().total_cmp(&a.rate()));
    let mut number = 0;
    ways.retain(|way| {
        number += 1;
        number <= FINALISTS || way.setting == tune || way.setting == auto
    });
    ways.iter_mut().for_each(|way| way.rounds.clear());
    for _ in 0..ROUNDS {
        ways.iter_mut().try_for_each(|way| way.turn(case, times))?;
    }
    verdict(case, &ways, (&tune, &auto), measured, sheet)
}

/// True for what an engine refuses that has too little room or cannot do something.
fn is_refusal(error: &Error) -> bool {
    [ErrorKind::Full, ErrorKind::Config, ErrorKind::Unsupported].contains(&error.kind())
}

fn verdict(
    case: &Case,
    ways: &[Way],
    (tune, auto): (&Setting, &Setting),
    measured: usize,
    sheet: &mut Sheet,
) -> Result<Verdict> {
    let best = ways.iter().max_by(|a, b| a.rate().total_cmp(&b.rate())).expect("there is one");
    let name = case.name();
    let part = |of: &Setting| {
        let way = ways.iter().find(|way| way.setting == *of);
        way.map_or(0.0, Way::rate) / best.rate().max(1e-9)
    };
    let verdict = Verdict { tune: part(tune), auto: part(auto) };
    let mut row = |metric: String, value: f64| {
        sheet.add("choices", name.clone(), metric, value, None);
    };
    row(format!("tune chose {}: of the best", tune.name()), verdict.tune);
    row(format!("auto chose {}: of the best", auto.name()), verdict.auto);
    row(format!("best is {}: operations/s", best.setting.name()), best.rate());
    row("best: bytes written for each byte put".into(), best.written()?);
    row("settings measured".into(), measured as f64);
    Ok(verdict)
}

/// A store that is opened with the words gets the engine that the models choose for them.
fn check_auto(case: &Case, times: &Times, place: &Place, expected: &str) -> Result<()> {
    let directory = place.scratch.next();
    std::fs::create_dir_all(&directory)
        .map_err(|e| Error::io("making a directory for a store", e))?;
    silica::keep_probe(&directory, &place.machine)?;
    let options = OpenOptions::new().engine(AUTO).workload(case.words(times.keys));
    let store = options.memory_bytes(case.memory_bytes(times.keys)).open(&directory)?;
    let engine = store.keyspace(DEFAULT_KEYSPACE)?.engine().descriptor().name;
    store.close()?;
    let _ = std::fs::remove_dir_all(&directory);
    if engine == expected {
        return Ok(());
    }
    let text = format!("{}: auto opened {engine}, the models choose {expected}", case.name());
    Err(Error::new(ErrorKind::Corruption, text))
}

/// The settings of the search: each engine that can do it, as it comes and with one option
/// changed. What the models take to be too large for the memory is tried, too.
fn searched(
    case: &Case,
    times: &Times,
    place: &Place,
    found: &Recommendation,
    all: &[Candidate],
) -> Result<Vec<Setting>> {
    let (workload, needs) = case.described(times.keys)?;
    let work = Work::new(&workload)?;
    let mut settings = Vec::new();
    for candidate in all {
        let excluded = found.excluded.iter().find(|other| other.engine == candidate.engine);
        let is_unable = excluded.is_some_and(|excluded| !excluded.why.starts_with("breaks"));
        let Some(model) = model_of(candidate.engine).filter(|_| !is_unable) else { continue };
        if model.refuses(&work, place.machine.survival).is_some() {
            continue;
        }
        let axes = model.axes(&work, needs.may_evict);
        let mut plain = OptionValues::default();
        for axis in axes.iter().filter(|axis| axis.option == "eviction") {
            axis.values.first().map(|value| plain.set(axis.option, *value));
        }
        let engine = candidate.engine;
        settings.push(Setting { engine, options: plain.clone() });
        for axis in axes.iter().filter(|axis| axis.option != "eviction").take(AXES) {
            let Some(spec) = candidate.options.iter().find(|spec| spec.name == axis.option) else {
                continue;
            };
            let ends = [axis.values.first(), axis.values.last()];
            for value in ends.into_iter().flatten().filter(|value| **value != spec.default) {
                let mut options = plain.clone();
                options.set(axis.option, *value);
                let setting = Setting { engine, options };
                if !settings.contains(&setting) {
                    settings.push(setting);
                }
            }
        }
    }
    Ok(settings)
}

fn summary(found: &[(usize, Verdict)], sheet: &mut Sheet) {
    type Read = fn(&Verdict) -> f64;
    let readers: [(&str, Read); 2] = [("tune", |found| found.tune), ("auto", |found| found.auto)];
    for (scheme, read) in readers {
        let old = found.iter().filter(|(number, _)| *number < OLD);
        let groups = [("all", found.iter().collect::<Vec<_>>()), ("old list", old.collect())];
        for (group, of) in groups {
            let good = of.iter().filter(|(_, verdict)| read(verdict) >= GOOD).count();
            let mut row = |metric: &str, value: f64| {
                sheet.add("summary", scheme, format!("{group}: {metric}"), value, None);
            };
            row("workloads", of.len() as f64);
            row("within 10 % of the best", good as f64);
            row("median share of the best", median(of.iter().map(|(_, found)| read(found))));
        }
        let mut shares: Vec<f64> = found.iter().map(|(_, verdict)| read(verdict)).collect();
        shares.sort_by(f64::total_cmp);
        for (rank, share) in shares.into_iter().enumerate() {
            sheet.add("choices-sorted", scheme, format!("{} th", rank + 1), share, None);
        }
    }
}
