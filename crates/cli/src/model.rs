//! `silica model`: what the models say, without a store.

use crate::output::Output;
use clap::{Args, Subcommand};
use serde_json::{Map, Value};
use silica::{Error, ErrorKind, Result};
use silica_tune::model::{Cola, LevelDb, Popularity, Primitives, Samt, Silt, WriteAmplification};
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
    /// Write amplification of LevelDB (algorithm 3).
    Leveldb {
        #[command(flatten)]
        keys: KeysArgs,
        /// Items in a log, and so in a memtable.
        #[arg(long, value_name = "ITEMS", allow_hyphen_values = true)]
        wal: f64,
        /// Tables in level 0 that begin a compaction.
        #[arg(long, value_name = "COUNT", allow_hyphen_values = true)]
        l0: f64,
        /// Items in levels 1, 2, …; the last holds every key.
        #[arg(long, value_name = "A,B,…", value_delimiter = ',', required = true)]
        #[arg(allow_hyphen_values = true)]
        levels: Vec<f64>,
    },
    /// Write amplification of COLA (algorithm 4).
    Cola {
        #[command(flatten)]
        keys: KeysArgs,
        #[command(flatten)]
        stages: StagesArgs,
    },
    /// Write amplification of SAMT (algorithm 4).
    Samt {
        #[command(flatten)]
        keys: KeysArgs,
        #[command(flatten)]
        stages: StagesArgs,
    },
    /// Write amplification of SILT (algorithm 5).
    Silt {
        #[command(flatten)]
        keys: KeysArgs,
        /// Slots of a log store's and a hash store's table.
        #[arg(long, value_name = "HS", allow_hyphen_values = true)]
        table_size: f64,
        /// Share of the slots that are filled when the table is converted.
        #[arg(long, value_name = "OCC", allow_hyphen_values = true)]
        occupancy: f64,
        /// Hash stores that are merged into the sorted store at once.
        #[arg(long, value_name = "HC", allow_hyphen_values = true)]
        hash_stores: f64,
    },
    /// Draw the paper's figures from the models.
    Plot {
        /// Directory for the SVG files.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
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
}

/// Parameters that COLA and SAMT share.
#[derive(Args)]
pub(crate) struct StagesArgs {
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

impl KeysArgs {
    pub(crate) fn primitives(&self) -> Result<Primitives> {
        let keys = self.keys;
        if keys.fract() != 0.0 || keys < 1.0 {
            return Err(wrong(format!("--keys is a whole number from 1 on, not {keys}")));
        }
        Ok(Primitives::new(Popularity::zipf(keys as u64, self.zipf)?))
    }
}

/// Evaluates one model.
pub(crate) fn run(command: &ModelCommand, output: &mut Output) -> Result<()> {
    match command {
        ModelCommand::Plot { out } => crate::model_plot::run(out, output),
        ModelCommand::Unique { keys, requests } => {
            let keys = keys.primitives()?;
            number("--requests", *requests, f64::MAX)?;
            show("unique", keys.unique(*requests), output)
        }
        ModelCommand::UniqueInverse { keys, unique } => {
            let keys = keys.primitives()?;
            fewer("--unique", *unique, keys.keys())?;
            show("requests", keys.unique_inverse(*unique), output)
        }
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
        ModelCommand::Leveldb { keys, wal, l0, levels } => {
            let keys = keys.primitives()?;
            let model = LevelDb { log: *wal, level0_tables: *l0, levels: levels.clone() };
            let model = model.checked(keys.keys())?;
            show_cost(&model.write_amplification(&keys), output)
        }
        ModelCommand::Cola { keys, stages: StagesArgs { wal, growth, levels } } => {
            let model = Cola { log: *wal, growth: *growth, levels: *levels }.checked()?;
            show_cost(&model.write_amplification(&keys.primitives()?), output)
        }
        ModelCommand::Samt { keys, stages: StagesArgs { wal, growth, levels } } => {
            let model = Samt { log: *wal, growth: *growth, levels: *levels }.checked()?;
            show_cost(&model.write_amplification(&keys.primitives()?), output)
        }
        ModelCommand::Silt { keys, table_size, occupancy, hash_stores } => {
            let keys = keys.primitives()?;
            let (table, occupancy, hash_stores) = (*table_size, *occupancy, *hash_stores);
            let model = Silt { table, occupancy, hash_stores }.checked(keys.keys())?;
            show_cost(&model.write_amplification(&keys), output)
        }
    }
}

fn wrong(text: String) -> Error {
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

fn show(name: &str, value: f64, output: &mut Output) -> Result<()> {
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
