//! Options of a run of a workload, and its progress.

use crate::values::distribution;
use crate::{DurabilityArg, Global, Output, has_terminal};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use silica::{Error, ErrorKind, Result};
use silica_bench::{Config, Plan, Shape, SqlOptions};
use std::path::PathBuf;

/// Steps of a progress bar.
const STEPS: u64 = 1000;

/// How a workload is run.
#[derive(Args)]
pub struct RunArgs {
    /// Keys in the store before the measured part.
    #[arg(long, default_value_t = 1_000_000)]
    pub keys: u64,
    /// Bytes of a key; every workload has its own default.
    #[arg(long, value_name = "B")]
    pub key_size: Option<usize>,
    /// Bytes of a value, or of the largest one; every workload has its own default.
    #[arg(long, value_name = "B")]
    pub value_size: Option<usize>,
    /// Threads that issue operations.
    #[arg(long, value_name = "T", default_value_t = 1)]
    pub threads: usize,
    /// What writes must survive.
    #[arg(long, default_value = "buffered")]
    pub durability: DurabilityArg,
    /// uniform, zipfian, latest, exponential or moving-normal; every workload has its own default.
    #[arg(long, value_parser = distribution)]
    pub distribution: Option<silica_bench::Distribution>,
    /// Operations of the measured part; as many as keys where it is not given.
    #[arg(long, value_name = "N")]
    pub operations: Option<u64>,
    /// Keys in one burst of gets or one batch of puts.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub batch: usize,
    /// Reopen the store and empty the page cache before the measured part. Reads of tables
    /// bypass the page cache in any case.
    #[arg(long)]
    pub cold: bool,
    /// Do not wait for background work between filling and measuring.
    #[arg(long)]
    pub no_settle: bool,
    /// Operations a second; 0 means as many as possible, the default of nearly every workload.
    #[arg(long, value_name = "N")]
    pub rate: Option<u64>,
    /// Where random choices come from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write charts of the run into this directory.
    #[arg(long, value_name = "DIR")]
    pub charts: Option<PathBuf>,
}

/// What is run for these options.
///
/// # Errors
/// There is no workload of that name.
pub fn config(global: &Global, name: &str, args: &RunArgs) -> Result<Config> {
    let default = Config::new(name)?;
    let plan = Plan {
        keys: args.keys,
        shape: Shape {
            key_bytes: args.key_size.unwrap_or(default.plan.shape.key_bytes),
            value_bytes: args.value_size.unwrap_or(default.plan.shape.value_bytes),
        },
        threads: args.threads,
        durability: args.durability.into(),
        distribution: args.distribution.unwrap_or(default.plan.distribution),
        operations: args.operations.unwrap_or(args.keys),
        batch: args.batch,
        rate: args.rate.unwrap_or(default.plan.rate),
        seed: args.seed,
        ..default.plan
    };
    Ok(Config {
        plan,
        path: global.path.clone(),
        cold: args.cold,
        settle: !args.no_settle,
        sql: sql(global)?,
        open: global.open_options(),
    })
}

/// The engine of benchmarks that is a table under SQL.
const SQL: &str = "sql";
/// Memory of a table under SQL for which none is given, as of a database.
pub const SQL_MEMORY_BYTES: u64 = 16 << 20;

/// How a table under SQL is opened, if one is asked for.
fn sql(global: &Global) -> Result<Option<SqlOptions>> {
    if global.engine.as_deref() != Some(SQL) {
        return Ok(None);
    }
    if let Some(option) = global.set.first() {
        let message = format!(
            "engine sql has no options, so no --set {}; --memory is its memory number",
            option.0
        );
        return Err(Error::new(ErrorKind::Config, message));
    }
    let memory_bytes = global.memory.unwrap_or(SQL_MEMORY_BYTES);
    Ok(Some(SqlOptions {
        storage: "silica",
        memory_bytes,
        results_bytes: None,
        is_prepared: false,
    }))
}

/// Returns what shows progress: a bar for each phase on a terminal, nothing elsewhere.
pub fn observer(output: &Output) -> impl FnMut(&str, f64) + use<> {
    let bar = (has_terminal() && !output.is_json()).then(|| {
        let style = ProgressStyle::with_template("{msg:>12} {bar:40} {percent} %, {eta} left");
        ProgressBar::new(STEPS).with_style(style.expect("the template is well formed"))
    });
    let mut phase_before = String::new();
    move |phase, share| {
        let Some(bar) = &bar else { return };
        if phase != phase_before {
            phase_before = phase.to_string();
            bar.reset();
            bar.set_message(phase_before.clone());
        }
        bar.set_position((share.clamp(0.0, 1.0) * STEPS as f64) as u64);
    }
}
