//! `silica model`: what the models say, without a store.

use crate::verbs::model_designs::{DidaArgs, LazyArgs, RocksdbArgs, UniversalArgs, WipdbArgs};
use crate::verbs::model_moving::MovingArgs;
use clap::{Args, Subcommand};
use serde_json::{Map, Value};
use silica::{Error, ErrorKind, Result};
use silica_console::Output;
use silica_lab::model::{
    Cola, Latest, LevelDb, Popularity, Primitives, RefinedLevelDb, Samt, Silt, WriteAmplification,
    Writes,
};
use silica_lab::optimise::{level_sizes, level_sizes_refined};
use std::path::PathBuf;

#[derive(Subcommand)]
pub(crate) enum ModelCommand {
    /// Distinct keys that so many requests name (theorem 4.1).
    Unique {
        #[command(flatten)]
        keys: KeysArgs,
        /// Requests.
        #[arg(long, value_name = "P", allow_hyphen_values = true)]
        requests: f64,
    },
    /// Requests after which so many distinct keys are expected (lemma 4.2).
    UniqueInverse {
        #[command(flatten)]
        keys: KeysArgs,
        /// Distinct keys, fewer than there are.
        #[arg(long, value_name = "U", allow_hyphen_values = true)]
        unique: f64,
    },
    /// Size of two tables of so many keys, merged (theorem 4.3).
    Merge {
        #[command(flatten)]
        keys: KeysArgs,
        /// Keys of one table.
        #[arg(long, value_name = "U", allow_hyphen_values = true)]
        left: f64,
        /// Keys of the other table.
        #[arg(long, value_name = "V", allow_hyphen_values = true)]
        right: f64,
    },
    /// Requests between two compactions of the same key in a level of LevelDB (lemma 4.5).
    Dinterval {
        #[command(flatten)]
        keys: KeysArgs,
        /// Keys that the level holds, fewer than there are.
        #[arg(long, value_name = "U", allow_hyphen_values = true)]
        size: f64,
    },
    /// Write amplification of LevelDB (algorithm 3, or refined).
    Leveldb {
        #[command(flatten)]
        design: LeveldbArgs,
        #[command(flatten)]
        refined: RefinedArgs,
    },
    /// Write amplification of COLA (algorithm 4).
    Cola(StagesArgs),
    /// Write amplification of SAMT (algorithm 4).
    Samt(StagesArgs),
    /// Write amplification of SILT (algorithm 5).
    Silt(SiltArgs),
    /// Write amplification of RocksDB's levelled compaction, table by table.
    Rocksdb(RocksdbArgs),
    /// Write amplification of RocksDB's universal compaction.
    Universal(UniversalArgs),
    /// Write amplification of lazy levelling.
    Lazy(LazyArgs),
    /// Write amplification of WipDB under overwrites.
    Wipdb(WipdbArgs),
    /// Write amplification and hits of DIDACache.
    Dida(DidaArgs),
    /// Parameters of the least write amplification.
    #[command(subcommand)]
    Optimise(OptimiseCommand),
    /// Draw the paper's figures from the models, with simulated and measured stores over them.
    Plot {
        /// Directory for the SVG files.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Keys of the stores that are simulated; 0 for none, which takes a second.
        #[arg(long, value_name = "KEYS", default_value_t = 1_000_000)]
        simulate: u64,
        /// What silica bench models measured (its models.json, of --sweep best): each figure that
        /// has some of it on its axes has it beside the model of the same options (may be
        /// repeated).
        #[arg(long, value_name = "FILE")]
        measured: Vec<PathBuf>,
    },
}

/// Which keys are written, and how often.
#[derive(Args)]
pub(crate) struct KeysArgs {
    /// Keys in all.
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    keys: f64,
    /// Skew of the keys' popularity, 0 to 2; 0 is uniform.
    #[arg(long, value_name = "S", default_value_t = 0.0, allow_hyphen_values = true)]
    zipf: f64,
    /// Skew over recency instead: keys are inserted all the time, and the newest are the popular
    /// ones (unique, unique-inverse, leveldb and silt).
    #[arg(long, value_name = "S", conflicts_with = "zipf", allow_hyphen_values = true)]
    latest: Option<f64>,
    /// Share of the requests that insert, with --latest.
    #[arg(long, value_name = "SHARE", default_value_t = 0.05, allow_hyphen_values = true)]
    inserts: f64,
}

/// Parameters of LevelDB.
#[derive(Args)]
pub(crate) struct LeveldbArgs {
    #[command(flatten)]
    pub(crate) keys: KeysArgs,
    #[command(flatten)]
    log: LogArgs,
    /// Items in levels 1, 2, …; the last holds every key.
    #[arg(long, value_name = "A,B,…", value_delimiter = ',', required = true)]
    #[arg(allow_hyphen_values = true)]
    levels: Vec<f64>,
    #[command(flatten)]
    pub(crate) moving: MovingArgs,
}

/// What LevelDB does before its levels.
#[derive(Args)]
pub(crate) struct LogArgs {
    /// Items in a log, and so in a memtable.
    #[arg(long, value_name = "ITEMS", allow_hyphen_values = true)]
    wal: f64,
    /// Tables in level 0 that begin a compaction.
    #[arg(long, value_name = "COUNT", allow_hyphen_values = true)]
    l0: f64,
}

/// Which model of LevelDB.
#[derive(Args)]
pub(crate) struct RefinedArgs {
    /// The refined model, which knows tables and levels smaller than the write buffer.
    #[arg(long)]
    refined: bool,
    /// Items of a table at most, for the refined model; half a log where none are given.
    #[arg(long, value_name = "ITEMS", requires = "refined", allow_hyphen_values = true)]
    table: Option<f64>,
}

/// Parameters of COLA and SAMT.
#[derive(Args)]
pub(crate) struct StagesArgs {
    #[command(flatten)]
    pub(crate) keys: KeysArgs,
    /// Items in a log.
    #[arg(long, value_name = "ITEMS", allow_hyphen_values = true)]
    wal: f64,
    /// Growth factor, 2 or more.
    #[arg(long, value_name = "R")]
    growth: u32,
    /// Levels, the last of which holds every key.
    #[arg(long, value_name = "L")]
    levels: u32,
}

/// Parameters of SILT.
#[derive(Args)]
pub(crate) struct SiltArgs {
    #[command(flatten)]
    pub(crate) keys: KeysArgs,
    /// Slots of a log store's and a hash store's table.
    #[arg(long, value_name = "HS", allow_hyphen_values = true)]
    table_size: f64,
    /// Share of the slots that are filled when the table is converted.
    #[arg(long, value_name = "OCC", allow_hyphen_values = true)]
    occupancy: f64,
    /// Hash stores that are merged into the sorted store at once.
    #[arg(long, value_name = "HC", allow_hyphen_values = true)]
    hash_stores: f64,
    #[command(flatten)]
    pub(crate) moving: MovingArgs,
}

#[derive(Subcommand)]
pub(crate) enum OptimiseCommand {
    /// The sizes of LevelDB's levels (section 4.6).
    Leveldb {
        #[command(flatten)]
        keys: KeysArgs,
        #[command(flatten)]
        log: LogArgs,
        #[command(flatten)]
        refined: RefinedArgs,
        /// Levels, the last of which holds every key.
        #[arg(long, value_name = "L")]
        level_count: usize,
    },
}

impl KeysArgs {
    /// How many there are, and their skew.
    pub(crate) fn checked(&self) -> Result<(u64, f64)> {
        let keys = self.keys;
        if keys.fract() != 0.0 || keys < 1.0 {
            return Err(wrong(format!("--keys is a whole number from 1 on, not {keys}")));
        }
        Ok((keys as u64, self.zipf))
    }

    /// Keys of which the latest are the popular ones, where that is asked.
    pub(crate) fn latest(&self) -> Result<Option<Latest>> {
        let keys = self.checked()?.0;
        self.latest.map(|skew| Latest::new(keys, skew, self.inserts)).transpose()
    }

    /// Refuses these where a model has no form for them.
    pub(crate) fn without_latest(&self) -> Result<()> {
        let text =
            "--latest is known to unique, unique-inverse, leveldb and silt: give --zipf here";
        if self.latest.is_some() { Err(wrong(text.into())) } else { Ok(()) }
    }

    /// Skew and share of inserts of these.
    pub(crate) fn recency(&self) -> Option<(f64, f64)> {
        self.latest.map(|skew| (skew, self.inserts))
    }

    pub(crate) fn primitives(&self) -> Result<Primitives> {
        self.without_latest()?;
        let (keys, skew) = self.checked()?;
        Ok(Primitives::new(Popularity::zipf(keys, skew)?))
    }
}

impl LeveldbArgs {
    pub(crate) fn design(&self) -> Result<LevelDb> {
        let LogArgs { wal, l0 } = self.log;
        let design = LevelDb { log: wal, level0_tables: l0, levels: self.levels.clone() };
        design.checked(self.keys.checked()?.0 as f64)
    }
}

impl RefinedArgs {
    /// Items of a table for a log of so many, where the refined model is asked.
    fn table(&self, wal: f64) -> Option<f64> {
        self.refined.then(|| self.table.unwrap_or(0.5 * wal))
    }
}

impl StagesArgs {
    pub(crate) fn cola(&self) -> Result<Cola> {
        Cola { log: self.wal, growth: self.growth, levels: self.levels }.checked()
    }

    pub(crate) fn samt(&self) -> Result<Samt> {
        Samt { log: self.wal, growth: self.growth, levels: self.levels }.checked()
    }
}

impl SiltArgs {
    pub(crate) fn design(&self) -> Result<Silt> {
        let SiltArgs { table_size: table, occupancy, hash_stores, .. } = *self;
        Silt { table, occupancy, hash_stores }.checked(self.keys.checked()?.0 as f64)
    }
}

/// Evaluates one model.
pub(crate) fn run(command: &ModelCommand, output: &mut Output) -> Result<()> {
    match command {
        ModelCommand::Plot { out, simulate, measured } => {
            crate::verbs::model_plot::run(out, *simulate, measured, output)
        }
        ModelCommand::Unique { keys, requests } => unique(keys, *requests, output),
        ModelCommand::UniqueInverse { keys, unique } => unique_inverse(keys, *unique, output),
        ModelCommand::Merge { keys, left, right } => {
            let keys = keys.primitives()?;
            number("--left", *left, keys.keys())?;
            number("--right", *right, keys.keys())?;
            show("merged", keys.merge(*left, *right), output)
        }
        ModelCommand::Dinterval { keys, size } => {
            let keys = keys.primitives()?;
            fewer("--size", *size, keys.keys() - 1.0)?;
            show("requests", keys.d_interval(*size), output)
        }
        ModelCommand::Leveldb { design, refined } => leveldb(design, refined, output),
        ModelCommand::Cola(args) => {
            show_cost(&args.cola()?.write_amplification(&args.keys.primitives()?), output)
        }
        ModelCommand::Samt(args) => {
            show_cost(&args.samt()?.write_amplification(&args.keys.primitives()?), output)
        }
        ModelCommand::Silt(args) => {
            let (design, keys) = (args.design()?, &args.keys);
            let cost = match args.moving.writes(keys)? {
                Some(writes) => design.cost(&writes),
                None => design.write_amplification(&keys.primitives()?),
            };
            show_cost(&cost, output)
        }
        ModelCommand::Rocksdb(args) => {
            show_cost(&args.design()?.write_amplification(&args.keys.primitives()?), output)
        }
        ModelCommand::Universal(args) => {
            show_cost(&args.design()?.cost(&args.keys.primitives()?).writes, output)
        }
        ModelCommand::Lazy(args) => {
            show_cost(&args.design()?.write_amplification(&args.keys.primitives()?), output)
        }
        ModelCommand::Wipdb(args) => {
            let (design, keys) = (args.design()?, &args.keys);
            keys.without_latest()?;
            let cost = match args.moving.writes(keys)? {
                Some(writes) => design.cost(&writes)?,
                None => design.overwrite(&keys.primitives()?),
            };
            show_cost(&cost, output)
        }
        ModelCommand::Dida(args) => {
            let cost = args.design()?.cost(args.keys.primitives()?.popularity())?;
            show("hits", cost.hits, output)?;
            show("dropped", cost.dropped, output)?;
            show_cost(&cost.writes, output)
        }
        ModelCommand::Optimise(OptimiseCommand::Leveldb { keys, log, refined, level_count }) => {
            optimise(keys, log, refined, *level_count, output)
        }
    }
}

fn unique(keys: &KeysArgs, requests: f64, output: &mut Output) -> Result<()> {
    number("--requests", requests, f64::MAX)?;
    let unique = match keys.latest()? {
        Some(latest) => latest.unique(requests),
        None => keys.primitives()?.unique(requests),
    };
    show("unique", unique, output)
}

fn unique_inverse(keys: &KeysArgs, unique: f64, output: &mut Output) -> Result<()> {
    if let Some(latest) = keys.latest()? {
        number("--unique", unique, 1e15)?;
        return show("requests", Writes::latest(latest).unique_inverse(unique), output);
    }
    let keys = keys.primitives()?;
    fewer("--unique", unique, keys.keys())?;
    show("requests", keys.unique_inverse(unique), output)
}

/// LevelDB's model that the flags ask for.
fn leveldb(args: &LeveldbArgs, refined: &RefinedArgs, output: &mut Output) -> Result<()> {
    let design = args.design()?;
    let cost = match (refined.table(design.log), args.moving.writes(&args.keys)?) {
        (None, None) => design.write_amplification(&args.keys.primitives()?),
        (None, Some(writes)) => design.cost(&writes),
        (Some(_), Some(_)) => {
            return Err(wrong(
                "--refined knows plain items and keys that stay as popular: leave it out, or \
                 --latest, --deletes, --item-bytes and --drift-every"
                    .into(),
            ));
        }
        (Some(table), None) => {
            let keys = args.keys.primitives()?;
            RefinedLevelDb { design, table }.checked(keys.keys())?.followed(&keys)
        }
    };
    show_cost(&cost, output)
}

/// Searches for level sizes.
fn optimise(
    keys: &KeysArgs,
    log: &LogArgs,
    refined: &RefinedArgs,
    levels: usize,
    output: &mut Output,
) -> Result<()> {
    let keys = keys.primitives()?;
    let best = match refined.table(log.wal) {
        Some(table) => level_sizes_refined(log.wal, log.l0, table, levels, &keys)?,
        None => level_sizes(log.wal, log.l0, levels, &keys)?,
    };
    let sizes = best.model.levels.iter().map(|size| finite("a level's size", *size));
    let sizes: Vec<Value> = sizes.collect::<Result<_>>()?;
    output.object().insert("levels".into(), Value::Array(sizes));
    for (level, size) in (1..).zip(&best.model.levels) {
        output.line(format!("size of level {level}: {size:.0}"))?;
    }
    show_cost(&best.cost, output)
}

pub(crate) fn wrong(text: String) -> Error {
    Error::new(ErrorKind::Config, text)
}

/// Refuses what is not a number from 0 to `most`.
fn number(flag: &str, value: f64, most: f64) -> Result<()> {
    match (0.0..=most).contains(&value) {
        true => Ok(()),
        false if most == f64::MAX => {
            Err(wrong(format!("{flag} is a number from 0 on, not {value}")))
        }
        false => Err(wrong(format!("{flag} is a number from 0 to {most}, not {value}"))),
    }
}

/// Refuses a number of keys that no number of requests brings together.
fn fewer(flag: &str, value: f64, limit: f64) -> Result<()> {
    if value == 0.0 || (0.0..limit).contains(&value) {
        return Ok(());
    }
    let text = format!("{flag} is 0 or less than {limit}, which is never reached, not {value}");
    Err(wrong(text))
}

/// A figure is a number, or it is not shown.
fn finite(name: &str, value: f64) -> Result<Value> {
    let number = serde_json::Number::from_f64(value).map(Value::Number);
    number
        .ok_or_else(|| wrong(format!("{name} is beyond all numbers: make the parameters smaller")))
}

pub(crate) fn show(name: &str, value: f64, output: &mut Output) -> Result<()> {
    let number = finite(name, value)?;
    output.object().insert(name.into(), number);
    output.line(format!("{name} {value}"))
}

/// Terms and their sum.
pub(crate) fn show_cost(cost: &WriteAmplification, output: &mut Output) -> Result<()> {
    let mut terms = Map::new();
    for (stage, amount) in cost.terms() {
        terms.insert(stage.to_string(), finite(&stage.to_string(), *amount)?);
        output.line(format!("{:<14}{amount:>10.4}", stage.to_string()))?;
    }
    let total = finite("total", cost.total())?;
    output.object().insert("terms".into(), Value::Object(terms));
    output.object().insert("total".into(), total);
    output.line(format!("{:<14}{:>10.4}", "total", cost.total()))
}
