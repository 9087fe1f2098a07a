//! `silica simulate`: designs of stores run in memory, to count what they write.

use crate::model::{KeysArgs, LeveldbArgs, SiltArgs, StagesArgs, show_cost};
use crate::output::{Output, has_terminal};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use silica::{Error, ErrorKind, Result};
use silica_tune::simulate::{
    ColaSimulator, LevelDbSimulator, Requests, SamtSimulator, SiltSimulator, Simulator,
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
}

/// What is put after every key was put once.
#[derive(Args)]
pub(crate) struct PutsArgs {
    /// Random puts that are counted; three for each key where none are given.
    #[arg(long, value_name = "P")]
    requests: Option<u64>,
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
            let count = u32::try_from(design.keys.checked()?.0).map_err(|_| too_many())?;
            (Box::new(SiltSimulator::new(design.design()?, count)?), &design.keys, puts)
        }
    };
    let (count, skew) = keys.checked()?;
    let mut requests = Requests::zipf(count, skew, puts.seed)?;
    let counted = puts.requests.unwrap_or(3 * count);
    let mut show = progress(output);
    let cost = silica_tune::simulate::run(&mut *simulator, &mut requests, counted, &mut show)?;
    show_cost(&cost, output)
}

fn too_many() -> Error {
    Error::new(ErrorKind::Config, "a simulation has up to 2^30 keys: give --keys a smaller number")
}

/// A bar on a terminal, nothing elsewhere.
fn progress(output: &Output) -> impl FnMut(u64, u64) + use<> {
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
