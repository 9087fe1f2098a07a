//! What the program does, a module for each verb.

mod bench;
mod compare;
mod figures;
mod flash;
mod measured;
mod model;
mod model_designs;
mod model_moving;
mod model_plot;
mod simulate;

pub(crate) use bench::{BenchCommand, run as bench};
pub(crate) use flash::{FlashCommand, run as flash};
pub(crate) use model::{ModelCommand, run as model};
pub(crate) use simulate::{SimulateCommand, run as simulate};
