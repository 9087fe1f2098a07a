//! `silica bench models`: what stores write for each byte put, beside what models predict.

mod design;
mod levels;
mod sweep;

use clap::Args;
use design::{Formats, Parameter, Terms, Writer};
use indicatif::{ProgressBar, ProgressStyle};
use levels::Moment;
use serde_json::{Value, json};
use silica::{Durability, Error, ErrorKind, MetricsMap, Result};
use silica_bench::charts::{self, Panel, Series};
use silica_bench::{Abilities, Distribution, Plan, Session, Shape, Sink, Target, drive, fill};
use silica_bench_compare::Setup;
use silica_console::{Global, Output, has_terminal};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

pub(super) use design::write_calls;

/// Bytes of RocksDB's levels 1, 2, … for `plan`: tenfold, and as many that the optimiser finds.
pub(super) fn level_bytes_tenfold_and_optimised(
    plan: &Plan,
    memory_bytes: u64,
) -> Result<[Vec<u64>; 2]> {
    let of = |optimised| {
        let parameter = Parameter::Levels { memory_bytes, optimised, count: None };
        design::level_bytes(plan, parameter)
    };
    Ok([of(false)?, of(true)?])
}

#[derive(Args)]
pub(crate) struct MeasuredArgs {
    /// Directory for models.svg and models.json. Stores lie below --path, or below it.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Few keys and rounds: shows that it runs, measures little.
    #[arg(long)]
    toy: bool,
    /// Only these stores of silt, wip, rocksdb and leveldb; one that is not installed is left out
    /// where none are named.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    engines: Vec<String>,
    /// RocksDB alone, with level sizes as they come (each ten times the last) beside as many that
    /// the optimizer finds, for two write buffers; also draws level-sizes.svg.
    #[arg(long, conflicts_with = "engines")]
    level_sizes: bool,
    /// Skews, keys, write buffers, levels and memory, one after the other: what silica model plot
    /// --measured lays over the models' lines.
    #[arg(long, conflicts_with_all = ["level_sizes", "keys", "distributions"])]
    sweep: bool,
    /// Numbers of keys [default: 250000,1000000; 40960 with --toy].
    #[arg(long, value_name = "N,M", value_delimiter = ',')]
    keys: Vec<u64>,
    /// Popularities: uniform, zipfian (exponent 0.99) or zipfian:S.
    #[arg(long, value_name = "A,B", value_delimiter = ',', default_value = "uniform,zipfian")]
    distributions: Vec<String>,
    /// Bytes of a key.
    #[arg(long, value_name = "N", default_value_t = 16)]
    key_size: usize,
    /// Bytes of a value.
    #[arg(long, value_name = "N", default_value_t = 100)]
    value_size: usize,
    /// Rounds that are measured at most, of as many puts as keys [default: 20; 6 with --sweep; 2
    /// with --toy].
    #[arg(long, value_name = "N")]
    rounds: Option<u32>,
    /// Puts a second, where background work must not fall behind; 0 for as many as possible.
    #[arg(long, value_name = "R", default_value_t = 0)]
    rate: u64,
}

const KEYS: [u64; 2] = [250_000, 1_000_000];
const KEYS_TOY: [u64; 1] = [40_960];
const ROUNDS: u32 = 20;
const ROUNDS_SWEEP: u32 = 6;
const ROUNDS_TOY: u32 = 2;
/// Rounds that are written before anything is counted.
const WARM_UP: u32 = 2;
/// Rounds that are counted at least, unless fewer are asked for: merges are few and large, and one
/// more or less in them is to matter little.
const ROUNDS_MIN: u32 = 10;
/// It is steady where the last round moved the mean by less.
const STEADY: f64 = 0.005;
/// Puts in a batch; what a log adds to a batch is small beside it.
pub(crate) const BATCH: usize = 32;

/// What is measured.
struct Setting {
    writer: Writer,
    plan: Plan,
    parameter: Parameter,
}

/// A setting and what came of it.
struct Row {
    writer: Writer,
    keys: u64,
    distribution: Distribution,
    parameter: Parameter,
    predicted: Terms,
    /// By the paper's algorithm, where another model predicts.
    printed: Option<f64>,
    measured: Terms,
    /// Bytes of indexes and filters in memory for each key on average, of those that tell.
    index_bytes: f64,
    /// Bytes of books and messages for each byte put, which are not in `measured`.
    beside: f64,
    rounds: u32,
    is_steady: bool,
    formats: Formats,
}

fn sum(terms: &Terms) -> f64 {
    terms.iter().map(|(_, bytes)| bytes).sum()
}

impl Row {
    fn error_percent(&self) -> f64 {
        100.0 * (sum(&self.predicted) / sum(&self.measured) - 1.0)
    }

    /// Where bytes go, with what is predicted and what was measured.
    fn terms(&self) -> Vec<(&str, f64, f64)> {
        let of = |terms: &Terms, name: &str| {
            terms.iter().find(|(other, _)| other == name).map_or(0.0, |(_, bytes)| *bytes)
        };
        let mut names: Vec<&str> = Vec::new();
        for (name, _) in self.predicted.iter().chain(&self.measured) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        let row = |name| (name, of(&self.predicted, name), of(&self.measured, name));
        names.into_iter().map(row).collect()
    }

    fn text(&self) -> String {
        let term = |(name, predicted, measured)| format!("{name} {predicted:.2} {measured:.2}");
        let terms: Vec<String> = self.terms().into_iter().map(term).collect();
        let steady = if self.is_steady { "" } else { ", not steady" };
        format!(
            "| {} | {} | {} | {} | {:.2} | {:.2} | {:+.1} % | {}{steady} | {} |",
            self.writer.name(),
            self.keys,
            self.distribution.name(),
            self.parameter.text(),
            sum(&self.predicted),
            sum(&self.measured),
            self.error_percent(),
            self.rounds,
            terms.join("; "),
        )
    }

    fn object(&self) -> Value {
        let term = |(at, predicted, measured)| {
            let (predicted, measured): (f64, f64) = (predicted, measured);
            json!({ "at": at, "predicted": predicted, "measured": measured })
        };
        let terms: Vec<Value> = self.terms().into_iter().map(term).collect();
        let memory_bytes = self.parameter.memory_bytes();
        let buffer = self.writer.write_buffer_bytes(memory_bytes);
        let buffer = (!self.writer.is_ours()).then_some(buffer);
        json!({
            "engine": self.writer.name(),
            "keys": self.keys,
            "distribution": self.distribution.name(),
            "skew": self.distribution.skew(),
            "parameter": self.parameter.text(),
            "memory_bytes": memory_bytes,
            "write_buffer_bytes": buffer,
            "levels": self.parameter.levels(),
            "levels_optimised": self.parameter.are_levels_optimised(),
            "index_bytes_per_key": self.index_bytes,
            "predicted": sum(&self.predicted),
            "predicted_as_printed": self.printed,
            "measured": sum(&self.measured),
            "terms": terms,
            "beside": self.beside,
            "error_percent": self.error_percent(),
            "error_percent_max": self.writer.error_percent_max(),
            "rounds": self.rounds,
            "is_steady": self.is_steady,
            "log_bytes_per_byte": self.formats.log,
            "table_bytes_per_byte": self.formats.table,
            "young_bytes_per_byte": self.formats.young,
            "buckets": self.formats.buckets,
        })
    }
}

/// Measures every setting, shows the table and draws the figure.
pub(crate) fn run(global: &Global, args: &MeasuredArgs, output: &mut Output) -> Result<()> {
    let settings = settings(args)?;
    let interrupted = silica_console::signals::interruption()?;
    let base = global.path.clone().unwrap_or_else(|| args.out.clone());
    let store = base.join(format!("models-{}", std::process::id()));
    let mut show = progress(output, settings.len());
    let usual = match (args.toy, args.sweep) {
        (true, _) => ROUNDS_TOY,
        (false, true) => ROUNDS_SWEEP,
        (false, false) => ROUNDS,
    };
    let rounds = args.rounds.unwrap_or(usual).max(1);
    output.line(
        "| store | keys | popularity | parameter | predicted | measured | error | rounds \
         | where: predicted, measured |",
    )?;
    output.line("|---|---|---|---|---|---|---|---|---|")?;
    let mut rows = Vec::new();
    for (done, setting) in settings.iter().enumerate() {
        let Setting { writer, plan, parameter } = setting;
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
        show(done, &format!("{} {} {}", writer.name(), plan.keys, plan.distribution.name()));
        let setup = Setup {
            directory: store.clone(),
            memory_bytes: parameter.memory_bytes(),
            level_bytes: design::level_bytes(plan, *parameter)?,
            compaction_priority: None,
            server_threads: None,
            set: Vec::new(),
            plan: plan.clone(),
        };
        let row = measure(*writer, &setup, *parameter, rounds, &interrupted);
        let _ = std::fs::remove_dir_all(&store);
        let Some(row) = row? else { break };
        output.line(row.text())?;
        rows.push(row);
        write(&rows, &args.out)?;
        if args.level_sizes {
            draw_level_sizes(&rows, &args.out)?;
        }
    }
    if rows.len() < settings.len() {
        eprintln!("silica: interrupted; {} has what was measured", args.out.display());
    }
    output.line(format!("wrote {}", args.out.join("models.svg").display()))?;
    let rows: Vec<Value> = rows.iter().map(Row::object).collect();
    output.object().insert("rows".into(), rows.into());
    output.object().insert("svg".into(), args.out.join("models.svg").display().to_string().into());
    Ok(())
}

/// Every store with each number of keys, each popularity and both values of its parameter; or those
/// of a sweep.
fn settings(args: &MeasuredArgs) -> Result<Vec<Setting>> {
    let plan = |keys: u64, distribution: Distribution| {
        let plan = Plan {
            keys,
            operations: keys,
            shape: Shape { key_bytes: args.key_size, value_bytes: args.value_size },
            distribution,
            batch: BATCH,
            rate: args.rate,
            ..Plan::new("overwrite")?
        };
        plan.check().map(|()| plan)
    };
    let rocksdb = ["rocksdb".to_string()];
    let writers = writers(if args.level_sizes { &rocksdb } else { &args.engines })?;
    if args.sweep {
        return sweep::settings(&writers, args.toy, &plan);
    }
    let keys: &[u64] = match (&args.keys[..], args.toy) {
        ([], false) => &KEYS,
        ([], true) => &KEYS_TOY,
        (given, _) => given,
    };
    let mut settings = Vec::new();
    for writer in writers {
        for &keys in keys {
            for name in &args.distributions {
                let plan = plan(keys, distribution(name)?)?;
                let parameters = match args.level_sizes {
                    true => Writer::level_parameters(&plan).to_vec(),
                    false => writer.parameters(&plan).to_vec(),
                };
                let of = |parameter| Setting { writer, plan: plan.clone(), parameter };
                settings.extend(parameters.into_iter().map(of));
            }
        }
    }
    Ok(settings)
}

fn writers(names: &[String]) -> Result<Vec<Writer>> {
    if names.is_empty() {
        let is_there = |writer: &Writer| match writer.check() {
            Ok(()) => true,
            Err(e) => {
                eprintln!("silica: {} is left out: {e}", writer.name());
                false
            }
        };
        return Ok(Writer::ALL.into_iter().filter(is_there).collect());
    }
    let found = |name: &String| {
        let writer = Writer::ALL.into_iter().find(|w| w.name() == name).ok_or_else(|| {
            let message = format!("no model of '{name}': known are silt, wip, rocksdb, leveldb");
            Error::new(ErrorKind::Config, message)
        })?;
        writer.check().map(|()| writer)
    };
    names.iter().map(found).collect()
}

/// Those whose popularity the models know.
fn distribution(name: &str) -> Result<Distribution> {
    match Distribution::parse(name) {
        Some(known) if known.skew().is_some() => Ok(known),
        _ => {
            let message = format!(
                "no model of '{name}': --distributions takes uniform, zipfian and zipfian:S"
            );
            Err(Error::new(ErrorKind::Config, message))
        }
    }
}

/// Fills a store, overwrites it until what it writes is steady, and asks the model; nothing where
/// it was interrupted.
fn measure(
    writer: Writer,
    setup: &Setup,
    parameter: Parameter,
    rounds: u32,
    interrupted: &AtomicBool,
) -> Result<Option<Row>> {
    let _ = std::fs::remove_dir_all(&setup.directory);
    std::fs::create_dir_all(&setup.directory)
        .map_err(|e| Error::io(format!("creating {}", setup.directory.display()), e))?;
    let target = writer.open(setup, parameter)?;
    let plan = &setup.plan;
    let paced = Paced {
        target: &*target,
        every_bytes: writer.slice_bytes(setup.memory_bytes),
        index_bytes: Mutex::default(),
    };
    fill(plan, &paced, &mut |_, _| {})?;
    target.settle()?;
    let formats = writer.formats(plan, &*target, &setup.directory)?;
    let put = (plan.keys * (plan.shape.key_bytes + plan.shape.value_bytes) as u64) as f64;
    let overwrite = |round: u32| {
        let plan = Plan { seed: u64::from(round) + 2, ..plan.clone() };
        drive(&plan, &paced, "overwrite", &mut |_, _| {})?;
        paced.catch_up()
    };
    for round in 0..WARM_UP {
        overwrite(round)?;
    }
    paced.index_bytes();
    let begun = Seen::now(writer, &*target, &setup.directory)?;
    let (mut mean, mut is_steady, mut done) = (0.0, false, 0);
    let mut ended = begun.clone();
    while done < rounds && !is_steady {
        if interrupted.load(Ordering::Relaxed) {
            return Ok(None);
        }
        overwrite(WARM_UP + done)?;
        done += 1;
        ended = Seen::now(writer, &*target, &setup.directory)?;
        let now = (ended.bytes - begun.bytes) / (put * f64::from(done));
        is_steady = done >= ROUNDS_MIN && (now / mean - 1.0).abs() < STEADY;
        mean = now;
    }
    let index_bytes = paced.index_bytes() / plan.keys as f64;
    // RocksDB keeps its last messages until it is closed.
    drop(target);
    let put = put * f64::from(done);
    let mut measured = begun.terms(&ended, writer, &setup.directory);
    measured.iter_mut().for_each(|(_, bytes)| *bytes /= put);
    Ok(Some(Row {
        writer,
        keys: plan.keys,
        distribution: plan.distribution,
        parameter,
        predicted: design::predict(writer, plan, parameter, formats, done)?,
        printed: design::predict_as_printed(writer, plan, parameter, formats)?,
        measured,
        index_bytes,
        beside: (ended.beside - begun.beside) / put,
        rounds: done,
        is_steady,
        formats,
    }))
}

/// What a store has written so far, of others once it has caught up.
#[derive(Clone)]
struct Seen {
    /// Log and tables.
    bytes: f64,
    /// By where they went, of ours.
    parts: Terms,
    /// Books and messages.
    beside: f64,
    moment: Moment,
}

impl Seen {
    /// Ours tell what they write, log included. Of others it is what this process gave to write
    /// calls (they map no file to write), less what their books and messages grew by.
    fn now(writer: Writer, target: &dyn Target, directory: &Path) -> Result<Self> {
        let parts = writer.parts(target)?;
        let moment = Moment::now(directory);
        if writer.is_ours() {
            return Ok(Seen { bytes: sum(&parts), parts, beside: 0.0, moment });
        }
        let beside = levels::files(directory)?.1;
        Ok(Seen { bytes: design::write_calls()? - beside, parts, beside, moment })
    }

    /// Bytes from here to `end` by where they went. The log of others is what no level got.
    fn terms(&self, end: &Seen, writer: Writer, directory: &Path) -> Terms {
        if writer.is_ours() {
            let parts = self.parts.iter().zip(&end.parts);
            return parts.map(|(from, to)| (to.0.clone(), to.1 - from.1)).collect();
        }
        let levels = levels::written(writer, directory, self.moment, end.moment);
        let log = end.bytes - self.bytes - levels.values().sum::<f64>();
        let level = |(level, bytes)| (format!("level {level}"), bytes);
        std::iter::once(("log".to_string(), log)).chain(levels.into_iter().map(level)).collect()
    }
}

/// Waits for background work after so many bytes, so that compactions and merges never fall behind:
/// how far they do is a matter of the machine, not of the design.
struct Paced<'t> {
    target: &'t dyn Target,
    every_bytes: usize,
    /// Sum of the bytes of indexes at each of these times, and how many there were.
    index_bytes: Mutex<(f64, u32)>,
}

impl Paced<'_> {
    /// Mean bytes of indexes since the last call.
    fn index_bytes(&self) -> f64 {
        let mut seen = self.index_bytes.lock().expect("nobody panics with it");
        let (sum, times) = std::mem::take(&mut *seen);
        sum / f64::from(times.max(1))
    }
}

impl Target for Paced<'_> {
    fn abilities(&self) -> Abilities {
        self.target.abilities()
    }

    fn session(&self, durability: Durability) -> Result<Box<dyn Session + '_>> {
        let session = self.target.session(durability)?;
        Ok(Box::new(PacedSession { paced: self, session, bytes: 0 }))
    }

    fn settle(&self) -> Result<()> {
        self.target.settle()
    }

    fn catch_up(&self) -> Result<()> {
        self.target.catch_up()
    }

    fn sync(&self) -> Result<()> {
        self.target.sync()
    }

    fn metrics(&self) -> Result<MetricsMap> {
        self.target.metrics()
    }
}

struct PacedSession<'t> {
    paced: &'t Paced<'t>,
    session: Box<dyn Session + 't>,
    bytes: usize,
}

impl Session for PacedSession<'_> {
    fn get_many(&mut self, keys: &[&[u8]], sink: &mut dyn Sink) -> Result<()> {
        self.session.get_many(keys, sink)
    }

    fn put_many(&mut self, entries: &[(&[u8], &[u8])]) -> Result<()> {
        self.session.put_many(entries)?;
        self.bytes += entries.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        if self.bytes >= self.paced.every_bytes {
            self.bytes = 0;
            self.paced.catch_up()?;
            let index = self.paced.metrics()?.get("index_bytes");
            let mut seen = self.paced.index_bytes.lock().expect("nobody panics with it");
            *seen = (seen.0 + index, seen.1 + 1);
        }
        Ok(())
    }

    fn delete_many(&mut self, keys: &[&[u8]]) -> Result<()> {
        self.session.delete_many(keys)
    }

    fn scan(
        &mut self,
        from: &[u8],
        count: usize,
        entry: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        self.session.scan(from, count, entry)
    }
}

/// Writes the figure and the rows so far.
fn write(rows: &[Row], out: &Path) -> Result<()> {
    let most =
        rows.iter().map(|row| sum(&row.predicted).max(sum(&row.measured))).fold(0.0, f64::max);
    // The legend lies in the upper right corner.
    let most = 1.3 * most;
    let mut series = Vec::new();
    for writer in Writer::ALL {
        let of = rows.iter().filter(|row| row.writer == writer);
        series.push(Series::dots(
            writer.name(),
            of.map(|row| (sum(&row.measured), sum(&row.predicted))),
        ));
    }
    for percent in [5.0, 10.0] {
        let (over, under) = (1.0 + percent / 100.0, 1.0 - percent / 100.0);
        let wedge = [(0.0, 0.0), (most, most * over), (most, most * under), (0.0, 0.0)];
        series.push(Series::new(&format!("{percent:.0} % off"), wedge));
    }
    let title = "Bytes written for each byte put";
    charts::draw(&[Panel::lines(title, "measured", "predicted", series)], &out.join("models.svg"))?;
    let text = json!({ "rows": rows.iter().map(Row::object).collect::<Vec<_>>() }).to_string();
    let file = out.join("models.json");
    std::fs::write(&file, text + "\n")
        .map_err(|e| Error::io(format!("writing {}", file.display()), e))
}

/// Write amplification by write buffer with both kinds of level sizes, for each popularity and the
/// first number of keys: measured dots, and the model's lines.
fn draw_level_sizes(rows: &[Row], out: &Path) -> Result<()> {
    let (mut lines, mut dots) = (Vec::new(), Vec::new());
    for distribution in [Distribution::Uniform, Distribution::ZIPFIAN] {
        for wanted in [false, true] {
            let of = rows.iter().filter(|row| {
                let is_it = matches!(row.parameter,
                    Parameter::Levels { optimised, .. } if optimised == wanted);
                is_it && row.distribution == distribution && row.keys == rows[0].keys
            });
            let place =
                |row: &Row| row.writer.write_buffer_bytes(row.parameter.memory_bytes()) / 1024.0;
            let (predicted, measured): (Vec<_>, Vec<_>) = of
                .map(|row| ((place(row), sum(&row.predicted)), (place(row), sum(&row.measured))))
                .unzip();
            let sizes = if wanted { "optimised" } else { "tenfold" };
            lines.push(Series::new(&format!("{}, {sizes}", distribution.name()), predicted));
            let name = if dots.is_empty() { "dots: measured" } else { "" };
            dots.push(Series::dots(name, measured).coloured_as(lines.len() - 1));
        }
    }
    lines.extend(dots);
    let title = "RocksDB's writes by level sizes: lines are the model's";
    let panel = Panel::lines(title, "write buffer (KiB)", "bytes written for each byte put", lines);
    charts::draw(&[panel], &out.join("level-sizes.svg"))
}

/// A bar on a terminal, a line for each setting elsewhere.
fn progress(output: &Output, all: usize) -> impl FnMut(usize, &str) + use<> {
    let bar = (has_terminal() && !output.is_json()).then(|| {
        let template = "{bar:30} {pos}/{len}, {eta} left  {msg}";
        let style = ProgressStyle::with_template(template).expect("the template is well formed");
        ProgressBar::new(all as u64).with_style(style)
    });
    move |done, what| match &bar {
        Some(bar) => {
            bar.set_message(what.to_string());
            bar.set_position(done as u64);
        }
        None => eprintln!("{done}/{all} {what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: MeasuredArgs,
    }

    fn parsed(line: &str) -> std::result::Result<MeasuredArgs, clap::Error> {
        Line::try_parse_from(format!("models --out x {line}").split_whitespace()).map(|l| l.args)
    }

    #[test]
    fn level_sizes_are_measured_in_pairs_of_the_same_memory() {
        let args =
            parsed("--level-sizes --keys 50000 --distributions uniform,zipfian:0.5").unwrap();
        let found = settings(&args).unwrap();
        assert_eq!(found.len(), 8);
        for pair in found.chunks(2) {
            let [tenfold, optimised] = [&pair[0], &pair[1]].map(|setting| setting.parameter);
            assert!(pair.iter().all(|setting| setting.writer == Writer::RocksDb));
            assert_eq!(tenfold.memory_bytes(), optimised.memory_bytes());
            assert!(!tenfold.are_levels_optimised() && optimised.are_levels_optimised());
        }
        assert!(found[0].parameter.memory_bytes() > found[2].parameter.memory_bytes());
        assert_eq!(found[4].plan.distribution, Distribution::Zipfian { skew: 500 });
        for wrong in ["--level-sizes --engines silt", "--sweep --keys 9", "--sweep --level-sizes"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
        let other = parsed("--engines silt --distributions latest").unwrap();
        assert!(settings(&other).is_err_and(|e| e.to_string().contains("no model of 'latest'")));
    }
}
