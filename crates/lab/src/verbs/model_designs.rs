//! Parameters of the designs beyond the paper's, for `silica model` and `silica simulate`.

use crate::verbs::model::KeysArgs;
use crate::verbs::model_moving::MovingArgs;
use clap::Args;
use silica::Result;
use silica_lab::model::{DidaCache, LazyLevelled, LevelledTables, Rules, Universal, WipDb};

/// Parameters of RocksDB's levelled compaction.
#[derive(Args)]
pub(crate) struct RocksdbArgs {
    #[command(flatten)]
    pub(crate) keys: KeysArgs,
    /// Items in a memtable.
    #[arg(long, value_name = "ITEMS", allow_hyphen_values = true)]
    wal: f64,
    /// Tables in level 0 that begin a compaction.
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    l0: u32,
    /// Items of a table.
    #[arg(long, value_name = "ITEMS", allow_hyphen_values = true)]
    table: f64,
    /// Items of the first level at least.
    #[arg(long, value_name = "ITEMS", allow_hyphen_values = true)]
    base: f64,
    /// How much larger the next level is.
    #[arg(long, value_name = "R", default_value_t = 10.0, allow_hyphen_values = true)]
    growth: f64,
}

/// Parameters of universal compaction.
#[derive(Args)]
pub(crate) struct UniversalArgs {
    #[command(flatten)]
    pub(crate) keys: KeysArgs,
    /// Items in a memtable.
    #[arg(long, value_name = "ITEMS", allow_hyphen_values = true)]
    wal: f64,
    /// Sorted runs from which on there are compactions.
    #[arg(long, value_name = "COUNT", default_value_t = 4)]
    runs: u32,
    /// Percent by which the next run may be larger than those taken.
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, allow_hyphen_values = true)]
    size_ratio: f64,
    /// Percent of the last run that the newer ones may come to.
    #[arg(long, value_name = "PERCENT", default_value_t = 200.0, allow_hyphen_values = true)]
    space: f64,
}

/// Parameters of lazy levelling.
#[derive(Args)]
pub(crate) struct LazyArgs {
    #[command(flatten)]
    pub(crate) keys: KeysArgs,
    /// Items in a memtable.
    #[arg(long, value_name = "ITEMS", allow_hyphen_values = true)]
    wal: f64,
    /// Growth factor, 2 or more.
    #[arg(long, value_name = "R")]
    growth: u32,
    /// Runs of each level but the last, from 1 (levelling) to the growth factor (tiering).
    #[arg(long, value_name = "COUNT")]
    runs: u32,
    /// Levels, the last of which holds every key.
    #[arg(long, value_name = "L")]
    levels: u32,
}

/// Parameters of WipDB.
#[derive(Args)]
pub(crate) struct WipdbArgs {
    #[command(flatten)]
    pub(crate) keys: KeysArgs,
    /// Items that all memtables have together when one is flushed.
    #[arg(long, value_name = "ITEMS", allow_hyphen_values = true)]
    memtable: f64,
    /// Puts that the log has room for before the memtable at its tail is flushed; no bound where
    /// none are given.
    #[arg(long, value_name = "PUTS", default_value_t = 1e18, hide_default_value = true)]
    #[arg(allow_hyphen_values = true)]
    window: f64,
    /// Runs of a level at which they become one.
    #[arg(long, value_name = "COUNT", default_value_t = 20)]
    runs: u32,
    /// Items of tables for each live one, over which buckets are rewritten.
    #[arg(long, value_name = "FACTOR", allow_hyphen_values = true)]
    space: f64,
    #[command(flatten)]
    pub(crate) moving: MovingArgs,
}

/// Parameters of DIDACache.
#[derive(Args)]
pub(crate) struct DidaArgs {
    #[command(flatten)]
    pub(crate) keys: KeysArgs,
    /// Items that all slabs on flash have room for.
    #[arg(long, value_name = "ITEMS", allow_hyphen_values = true)]
    flash: f64,
    /// Items of a slab.
    #[arg(long, value_name = "ITEMS", allow_hyphen_values = true)]
    slab: f64,
    /// Share of the slabs that is always kept free: below, slabs are dropped.
    #[arg(long, value_name = "SHARE", default_value_t = 0.05, allow_hyphen_values = true)]
    low: f64,
    /// Share of the slabs up to which they are cleaned.
    #[arg(long, value_name = "SHARE", default_value_t = 0.2, allow_hyphen_values = true)]
    high: f64,
    /// Items that the collector can copy in the time of a put, from 0 (slabs are only dropped);
    /// any number where none is given.
    #[arg(long, value_name = "COPIES", default_value_t = f64::INFINITY, hide_default_value = true)]
    #[arg(allow_hyphen_values = true)]
    pace: f64,
}

impl RocksdbArgs {
    pub(crate) fn design(&self) -> Result<LevelledTables> {
        let RocksdbArgs { wal: log, l0: level0_tables, table, base, growth, .. } = *self;
        let (rules, multiplier, dead_version) = (Rules::RocksDb, growth, 0.0);
        LevelledTables { rules, log, level0_tables, table, base, multiplier, dead_version }
            .checked()
    }
}

impl UniversalArgs {
    pub(crate) fn design(&self) -> Result<Universal> {
        let UniversalArgs { wal: log, runs, size_ratio, space: space_percent, .. } = *self;
        Universal { log, runs, size_ratio, space_percent }.checked()
    }
}

impl LazyArgs {
    pub(crate) fn design(&self) -> Result<LazyLevelled> {
        let LazyArgs { wal: log, growth, runs, levels, .. } = *self;
        LazyLevelled { log, growth, runs, levels }.checked()
    }
}

/// More than it matters how many there are.
const MANY_BUCKETS: f64 = 1e6;

impl WipdbArgs {
    pub(crate) fn design(&self) -> Result<WipDb> {
        let WipdbArgs { memtable, window: log_window, runs: runs_max, space, .. } = *self;
        let buckets = MANY_BUCKETS;
        WipDb { memtable, log_window, runs_max, buckets, space, log: 1.0, table: 1.0 }.checked()
    }
}

impl DidaArgs {
    pub(crate) fn design(&self) -> Result<DidaCache> {
        let DidaArgs { flash, slab, low, high, pace, .. } = *self;
        DidaCache { flash, slab, low, high, pace }.checked()
    }
}
