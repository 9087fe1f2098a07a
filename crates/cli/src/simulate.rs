//! `silica simulate`: designs of stores run in memory, to count what they write.

use crate::model::{KeysArgs, LeveldbArgs, SiltArgs, StagesArgs, show, show_cost};
use crate::model_designs::{DidaArgs, LazyArgs, RocksdbArgs, UniversalArgs, WipdbArgs};
use crate::output::{Output, has_terminal};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use silica::{Error, ErrorKind, Result};
use silica_tune::simulate::{
    ColaSimulator, DidaSimulator, LazySimulator, LevelDbSimulator, Requests, RocksDbSimulator,
    SamtSimulator, SiltSimulator, Simulator, UniversalSimulator, WipDbSimulator, run_counted,
};

#[derive(Subcommand)]
pub(crate) enum SimulateCommand {
    /// LevelDB: tables of levels compacted round and round.
    Leveldb {
        #[command(flatten)]
        design: LeveldbArgs,
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
    let (mut simulator, keys, puts): (Box<dyn Simulator>, &KeysArgs, &PutsArgs) = match command {
        SimulateCommand::Leveldb { design, puts } => {
            (Box::new(LevelDbSimulator::new(&design.design()?)?), &design.keys, puts)
        }
        SimulateCommand::Cola { design, puts } => {
            (Box::new(ColaSimulator::new(design.cola()?)?), &design.keys, puts)
        }
        SimulateCommand::Samt { design, puts } => {
            (Box::new(SamtSimulator::new(design.samt()?)?), &design.keys, puts)
        }
        SimulateCommand::Silt { design, puts } => {
            let silt = SiltSimulator::new(design.design()?, design.keys.small()?)?;
            (Box::new(silt), &design.keys, puts)
        }
        SimulateCommand::Rocksdb { design, puts } => {
            (Box::new(RocksDbSimulator::new(design.design()?)?), &design.keys, puts)
        }
        SimulateCommand::Universal { design, puts } => {
            (Box::new(UniversalSimulator::new(design.design()?)?), &design.keys, puts)
        }
        SimulateCommand::Lazy { design, puts } => {
            (Box::new(LazySimulator::new(design.design()?)?), &design.keys, puts)
        }
        SimulateCommand::Wipdb { design, buckets, puts } => {
            let wip = WipDbSimulator::new(design.design()?, design.keys.small()?, *buckets)?;
            (Box::new(wip), &design.keys, puts)
        }
        SimulateCommand::Dida { design, puts } => {
            let dida = DidaSimulator::new(design.design()?, design.keys.small()?)?;
            (Box::new(dida), &design.keys, puts)
        }
    };
    let (count, skew) = keys.checked()?;
    let mut requests = Requests::zipf(count, skew, puts.seed)?;
    let counted = puts.requests.unwrap_or(3 * count);
    let mut show = progress(output);
    let found = run_counted(&mut *simulator, &mut requests, puts.settle, counted, &mut show)?;
    if let Some(hits) = found.hits {
        show("hits", hits, output)?;
    }
    show_cost(&found.cost, output)
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
