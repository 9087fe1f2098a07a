//! What the command lines of Silica share: the options of every command and the store that they
//! name, the options of a benchmark's run, output for people and as JSON, progress, signals, exit
//! codes.
//!
//! `silica` and `silica-lab` are made with it, so that a verb prints, fails and ends in one way
//! wherever it lives.
//!
//! Invariant: this crate has no verbs.
#![forbid(unsafe_code)]

#[macro_use]
mod quiet;

mod ending;
mod fresh;
mod options;
mod output;
mod run;
pub mod signals;
mod store;
pub mod values;

pub use ending::{end, exit_code_of, start};
pub use fresh::Fresh;
pub use options::{DurabilityArg, Global};
pub use output::{Output, has_terminal, is_unread, pipe_closed};
pub use run::{RunArgs, SQL_MEMORY_BYTES, config, observer};
pub use store::Opened;
