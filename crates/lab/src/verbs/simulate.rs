//! `silica simulate`: designs of stores run in memory, to count what they write.

use crate::verbs::model::{KeysArgs, LeveldbArgs, SiltArgs, StagesArgs, show, show_cost};
use crate::verbs::model_designs::{DidaArgs, LazyArgs, RocksdbArgs, UniversalArgs, WipdbArgs};
use crate::verbs::model_moving::MovingArgs;
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use silica::{Error, ErrorKind, Result};
use silica_console::{Output, has_terminal};
use silica_lab::simulate::{
    ColaSimulator, DidaSimulator, ItemUnits, LazySimulator, LevelDbSimulator, Requests,
    RocksDbSimulator, SamtSimulator, SiltSimulator, Simulator, UniversalSimulator, WipDbSimulator,
    run_counted,
};

#[derive(Subcommand)]
pub(crate) enum SimulateCommand {
    /// LevelDB: tables of levels compacted round and round.
    Leveldb {
        #[command(flatten)]
        design: LeveldbArgs,
        /// Items of a table at most: 2 MiB of 1 kB each where none are given.
        #[arg(long, value_name = "ITEMS", allow_hyphen_values = true)]
        table: Option<f64>,
        #[command(flatten)]
        puts: PutsArgs,
    },
    /// COLA: one table a level.
    Cola {
        #[command(flatten)]
        design: StagesArgs,
        #[command(flatten)]
        puts: PutsArgs,
    },
    /// SAMT: up to as many tables a level as the growth factor.
    Samt {
        #[command(flatten)]
        design: StagesArgs,
        #[command(flatten)]
        puts: PutsArgs,
    },
    /// SILT: log store, hash stores, sorted store.
    Silt {
        #[command(flatten)]
        design: SiltArgs,
        #[command(flatten)]
        puts: PutsArgs,
    },
    /// RocksDB's levelled compaction: level sizes from the last level's, least overlap first.
    Rocksdb {
        #[command(flatten)]
        design: RocksdbArgs,
        #[command(flatten)]
        puts: PutsArgs,
    },
    /// RocksDB's universal compaction: sorted runs merged by size and number.
    Universal {
        #[command(flatten)]
        design: UniversalArgs,
        #[command(flatten)]
        puts: PutsArgs,
    },
    /// Lazy levelling: runs gathered in all levels but the last.
    Lazy {
        #[command(flatten)]
        design: LazyArgs,
        #[command(flatten)]
        puts: PutsArgs,
    },
    /// WipDB: buckets of memtables and runs.
    Wipdb {
        #[command(flatten)]
        design: WipdbArgs,
        /// Buckets that the keys lie in.
        #[arg(long, value_name = "COUNT", default_value_t = 32)]
        buckets: u32,
        #[command(flatten)]
        puts: PutsArgs,
    },
    /// DIDACache: slabs on flash that are cleaned or dropped.
    Dida {
        #[command(flatten)]
        design: DidaArgs,
        #[command(flatten)]
        puts: PutsArgs,
    },
}

/// What is put after every key was put once.
#[derive(Args)]
pub(crate) struct PutsArgs {
    /// Random puts that are counted; three for each key where none are given.
    #[arg(long, value_name = "P")]
    requests: Option<u64>,
    /// Random puts before them, which are not counted.
    #[arg(long, value_name = "P", default_value_t = 0)]
    settle: u64,
    /// Seed of all that is drawn; the same seed gives the same figures.
    #[arg(long, value_name = "K", default_value_t = 1)]
    seed: u64,
}

/// Runs one simulator.
pub(crate) fn run(command: &SimulateCommand, output: &mut Output) -> Result<()> {
    let (keys, moving, puts) = asked(command);
    let (count, skew) = keys.checked()?;
    let counted = puts.requests.unwrap_or_else(|| count.saturating_mul(3));
    let drawn = counted.saturating_add(puts.settle);
    let mut requests = match moving {
        Some(moving) => moving.requests(keys, drawn, puts.seed)?,
        None => {
            keys.without_latest()?;
            Requests::zipf(count, skew, puts.seed)?
        }
    };
    let mut simulator = simulator(command, keys, requests.items())?;
    let mut show_progress = progress(output);
    let (settle, progress) = (puts.settle, &mut show_progress);
    let found = run_counted(&mut *simulator, &mut requests, settle, counted, progress)?;
    if let Some(hits) = found.hits {
        show("hits", hits, output)?;
    }
    show_cost(&found.cost, output)
}

/// Keys, how they are written, and how often.
fn asked(command: &SimulateCommand) -> (&KeysArgs, Option<&MovingArgs>, &PutsArgs) {
    match command {
        SimulateCommand::Leveldb { design, puts, .. } => (&design.keys, Some(&design.moving), puts),
        SimulateCommand::Silt { design, puts } => (&design.keys, Some(&design.moving), puts),
        SimulateCommand::Wipdb { design, puts, .. } => (&design.keys, Some(&design.moving), puts),
        SimulateCommand::Cola { design, puts } => (&design.keys, None, puts),
        SimulateCommand::Samt { design, puts } => (&design.keys, None, puts),
        SimulateCommand::Rocksdb { design, puts } => (&design.keys, None, puts),
        SimulateCommand::Universal { design, puts } => (&design.keys, None, puts),
        SimulateCommand::Lazy { design, puts } => (&design.keys, None, puts),
        SimulateCommand::Dida { design, puts } => (&design.keys, None, puts),
    }
}

/// An empty store, for items where they are not plain.
fn simulator(
    command: &SimulateCommand,
    keys: &KeysArgs,
    items: Option<&ItemUnits>,
) -> Result<Box<dyn Simulator>> {
    Ok(match command {
        SimulateCommand::Leveldb { design, table, .. } => {
            let mut plain = LevelDbSimulator::new(&design.design()?)?;
            if let Some(items) = table {
                plain = plain.with_tables_of(*items)?;
            }
            Box::new(if let Some(items) = items { plain.with_items(items) } else { plain })
        }
        SimulateCommand::Silt { design, .. } => {
            let plain = SiltSimulator::new(design.design()?, keys.small()?)?;
            Box::new(if let Some(items) = items { plain.with_items(items) } else { plain })
        }
        SimulateCommand::Wipdb { design, buckets, .. } => {
            keys.without_latest()?;
            let plain = WipDbSimulator::new(design.design()?, keys.small()?, *buckets)?;
            Box::new(if let Some(items) = items { plain.with_items(items) } else { plain })
        }
        SimulateCommand::Cola { design, .. } => Box::new(ColaSimulator::new(design.cola()?)?),
        SimulateCommand::Samt { design, .. } => Box::new(SamtSimulator::new(design.samt()?)?),
        SimulateCommand::Rocksdb { design, .. } => {
            Box::new(RocksDbSimulator::new(design.design()?)?)
        }
        SimulateCommand::Universal { design, .. } => {
            Box::new(UniversalSimulator::new(design.design()?)?)
        }
        SimulateCommand::Lazy { design, .. } => Box::new(LazySimulator::new(design.design()?)?),
        SimulateCommand::Dida { design, .. } => {
            Box::new(DidaSimulator::new(design.design()?, keys.small()?)?)
        }
    })
}

impl KeysArgs {
    /// How many, where that is few enough to simulate.
    fn small(&self) -> Result<u32> {
        let text = "a simulation has up to 2^30 keys: give --keys a smaller number";
        u32::try_from(self.checked()?.0).map_err(|_| Error::new(ErrorKind::Config, text))
    }
}

/// A bar on a terminal, nothing elsewhere.
pub(crate) fn progress(output: &Output) -> impl FnMut(u64, u64) + use<> {
    let bar = (has_terminal() && !output.is_json()).then(|| {
        let style = ProgressStyle::with_template("{bar:40} {human_pos}/{human_len}, {eta} left");
        ProgressBar::new(0).with_style(style.expect("the template is well formed"))
    });
    move |done, all| {
        let Some(bar) = &bar else { return };
        bar.set_length(all);
        bar.set_position(done);
        if done == all {
            bar.finish_and_clear();
        }
    }
}
