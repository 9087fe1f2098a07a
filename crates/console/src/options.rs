//! Options of every command.

use crate::values::{memory, memory_part, pair, size, threads};
use clap::{Args, ValueEnum};
use silica::Durability;
use std::path::PathBuf;
use std::sync::Arc;

/// Accepted by every command.
#[derive(Args, Clone)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// Directory of the store.
    #[arg(long, global = true, value_name = "DIR")]
    pub path: Option<PathBuf>,
    /// Print exactly one JSON object on standard output.
    #[arg(long, global = true)]
    pub json: bool,
    /// Only read the store, and write nothing to its directory; several processes may at a time.
    #[arg(long, global = true)]
    pub read_only: bool,
    /// Keyspace to work on.
    #[arg(long, global = true, value_name = "NAME", default_value = silica::DEFAULT_KEYSPACE)]
    pub keyspace: String,
    /// Memory in all, such as 64MiB or 2G; of a server with its clients'.
    #[arg(long, global = true, value_name = "SIZE", value_parser = memory)]
    pub memory: Option<u64>,
    /// Part of the memory for one keyspace; the others share the rest equally (may be repeated).
    #[arg(long, global = true, value_name = "NAME=SIZE", value_parser = memory_part)]
    pub keyspace_memory: Vec<(String, u64)>,
    /// Engine of keyspaces that are created; auto for what is predicted to be best.
    #[arg(long, global = true, value_name = "NAME")]
    pub engine: Option<String>,
    /// What is asked of the store, for tune, why and --engine auto, such as "keys=100M value=100
    /// gets=90 puts=10 zipf=0.99 memory=1GiB".
    #[arg(long, global = true, value_name = "WORDS")]
    pub describe: Option<String>,
    /// Set an engine option (may be repeated).
    #[arg(long = "set", global = true, value_name = "OPTION=VALUE", value_parser = pair)]
    pub set: Vec<(String, String)>,
    /// Directory, on another device, for the write-ahead logs of keyspaces that are created.
    #[arg(long, global = true, value_name = "DIR")]
    pub log_path: Option<PathBuf>,
    /// Write to a keyspace in memory that keeps no image, or move one there: it is forgotten when
    /// the process ends.
    #[arg(long, global = true)]
    pub forget_at_exit: bool,
    /// Threads for background work; where none are given, one for four processors, at least one.
    #[arg(long, global = true, value_name = "N", value_parser = threads)]
    pub background_threads: Option<usize>,
    /// Bytes that background work may move a second, such as 50MiB; no limit where none is given.
    #[arg(long, global = true, value_name = "SIZE", value_parser = size)]
    pub background_rate: Option<u64>,
    /// The store that a prompt has open, for its lines.
    #[arg(skip)]
    pub at_hand: Option<Arc<silica::Silica>>,
}

/// What a write must survive.
#[derive(Clone, Copy, ValueEnum)]
pub enum DurabilityArg {
    /// Survives the death of the process, not a power cut.
    Buffered,
    /// Survives a power cut.
    Synced,
}

impl From<DurabilityArg> for Durability {
    fn from(arg: DurabilityArg) -> Self {
        match arg {
            DurabilityArg::Buffered => Durability::Buffered,
            DurabilityArg::Synced => Durability::Synced,
        }
    }
}
