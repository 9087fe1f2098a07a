//! How a store's options become a model's parameters. Nothing here is fitted: formats are those of
//! the filled store, everything else follows from options and from what stores say of themselves.

use super::{BATCH, WARM_UP, levels};
use silica::engine::part;
use silica::{
    DEFAULT_KEYSPACE, Durability, Error, ErrorKind, Keyspace, MetricsMap, OpenOptions, Result,
    Silica,
};
use silica_bench::{Abilities, Distribution, Plan, Session, Target};
use silica_bench_compare::{Setup, find};
use silica_lab::model::{
    LevelDb, LevelledTables, Popularity, Primitives, Rules, Silt, Stage, WipDb,
};
use silica_lab::optimise::level_sizes_refined;
use std::path::Path;

/// A store that there is a model of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    Silt,
    Wip,
    RocksDb,
    LevelDb,
}

/// The value of the one parameter that is varied.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Parameter {
    /// Percent of the sorted store that hash stores come to (`merge_ratio_percent`).
    MergeRatio { percent: u64, memory_bytes: u64 },
    /// `space_amplification_percent_max`.
    Space { percent: u64, memory_bytes: u64 },
    /// Memory, which sizes the write buffer.
    Memory { memory_bytes: u64 },
    /// RocksDB's level sizes as they come, not dynamic, or as many that the optimizer finds; with a
    /// count, so many levels with one growth factor instead of ten.
    Levels { memory_bytes: u64, optimised: bool, count: Option<usize> },
}

impl Parameter {
    pub(super) fn memory_bytes(self) -> u64 {
        match self {
            Parameter::MergeRatio { memory_bytes, .. }
            | Parameter::Space { memory_bytes, .. }
            | Parameter::Memory { memory_bytes }
            | Parameter::Levels { memory_bytes, .. } => memory_bytes,
        }
    }

    pub(super) fn text(self) -> String {
        match self {
            Parameter::MergeRatio { percent, .. } => format!("merge_ratio_percent {percent}"),
            Parameter::Space { percent, .. } => {
                format!("space_amplification_percent_max {percent}")
            }
            Parameter::Memory { memory_bytes } => format!("memory {} KiB", memory_bytes >> 10),
            Parameter::Levels { memory_bytes, optimised, count } => {
                let sizes = match (optimised, count) {
                    (true, _) => "optimised",
                    (false, Some(_)) => "of one growth factor",
                    (false, None) => "tenfold",
                };
                let count = count.map_or(String::new(), |count| format!("{count} "));
                format!("memory {} KiB, {count}levels {sizes}", memory_bytes >> 10)
            }
        }
    }

    /// Levels behind level 0, where their number is given.
    pub(super) fn levels(self) -> Option<usize> {
        if let Parameter::Levels { count, .. } = self { count } else { None }
    }

    pub(super) fn are_levels_optimised(self) -> bool {
        matches!(self, Parameter::Levels { optimised: true, .. })
    }
}

/// Bytes of a store's files for each byte of an entry, where each key is there once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Formats {
    pub(super) log: f64,
    pub(super) table: f64,
    /// What was in memory is written to: SILT's hash stores, and tables of flushes of our ordered
    /// engine, which are small, so that what a table has beside its entries counts for more.
    pub(super) young: f64,
    /// Buckets of our ordered engine; 0 of others.
    pub(super) buckets: f64,
}

/// Slots of a bucket of SILT's tables.
const BUCKET_SLOTS: f64 = 4.0;
/// Share of a table that is filled when it is full, in blocks (docs/formats/filter.md).
const OCCUPANCY: f64 = 0.956;
/// Blocks of a log store, and buckets of a block as a power of two.
const BLOCKS: u32 = 1;
const PARTITIONS: u32 = 4;
/// Share of all keys that the tables of all partitions have slots for, at most.
const TABLES_SHARE: f64 = 0.05;
/// Dead bytes at which our ordered engine begins to rewrite, of those allowed, at least and at most
/// (its policy), and what is left for as a part of its largest bucket.
const REWRITE_FROM: (f64, f64) = (0.58, 0.95);
const DYING_PART: f64 = 1.0;
/// Its shares of the memory for memtables and log, and the runs of a level.
const WIP_MEMTABLE: f64 = part::MEMTABLES.share();
const WIP_LOG: f64 = part::ORDERED_LOG.share();
const WIP_RUNS_MAX: u32 = 20;
/// LevelDB's level 1 and tables, and how much larger the next level is, of both.
const LEVEL1_BYTES: f64 = 10.0 * 1_048_576.0;
const LEVELDB_TABLE_BYTES: f64 = 8.0 * 1_048_576.0;
const MULTIPLIER: f64 = 10.0;
/// Tables of level 0 that begin a compaction, of both.
const LEVEL0_TABLES: u32 = 4;
/// Write buffers of RocksDB that its first level is as large as, in our settings.
const ROCKS_BUFFERS: f64 = 4.0;
/// Bytes of its tables for each byte of an entry, about, before there are any: optimised sizes are
/// made with it, nothing is predicted.
const ROCKS_TABLE: f64 = 1.12;
/// The filter's share of RocksDB's write buffer.
const ROCKS_FILTER: f64 = 0.05;
/// The first block of RocksDB's arena, and what the others are multiples of.
const ROCKS_FIRST_BYTES: f64 = 2048.0;
const ROCKS_ALIGN_BYTES: f64 = 4096.0;
/// Draws that a popularity is given in.
const DRAWS: f64 = 1e15;
/// Entries of a table from one that has its whole key to the next (`block_restart_interval`).
const RESTART_ENTRIES: f64 = 16.0;
/// Filters of tables for an entry, which tables are not cut by.
const FILTER_BYTES: f64 = 10.0 / 8.0;
/// Bytes of a block of LevelDB's arena, and of the pointer to it; an entry that does not fit
/// begins the next.
const ARENA_BYTES: f64 = 4096.0;
const POINTER_BYTES: f64 = 8.0;
/// Links of a skip list's node on average, a quarter of the nodes of a height reaching the next.
const LINKS: f64 = 4.0 / 3.0;

impl Writer {
    pub(super) const ALL: [Writer; 4] =
        [Writer::Silt, Writer::Wip, Writer::RocksDb, Writer::LevelDb];

    pub(super) fn name(self) -> &'static str {
        match self {
            Writer::Silt => "silt",
            Writer::Wip => "wip",
            Writer::RocksDb => "rocksdb",
            Writer::LevelDb => "leveldb",
        }
    }

    /// How far off the model may be, in percent.
    pub(super) fn error_percent_max(self) -> f64 {
        if self == Writer::RocksDb { 10.0 } else { 5.0 }
    }

    pub(super) fn is_ours(self) -> bool {
        matches!(self, Writer::Silt | Writer::Wip)
    }

    /// Refuses what is not installed.
    pub(super) fn check(self) -> Result<()> {
        if self.is_ours() { Ok(()) } else { find(self.name())?.version().map(drop) }
    }

    /// The two values of its parameter for stores of this size.
    pub(super) fn parameters(self, plan: &Plan) -> [Parameter; 2] {
        let live = live_bytes(plan);
        match self {
            Writer::Silt => [28, 60].map(|percent| Parameter::MergeRatio {
                percent,
                memory_bytes: (2 * live).max(32 << 20),
            }),
            // Half of the live bytes, as in docs/benchmarks/wip.md.
            Writer::Wip => [120, 170].map(|percent| Parameter::Space {
                percent,
                memory_bytes: (live / 2).max(MEMORY_MIN),
            }),
            Writer::RocksDb | Writer::LevelDb => {
                [2, 8].map(|part| Parameter::Memory { memory_bytes: (live / part).max(MEMORY_MIN) })
            }
        }
    }

    /// RocksDB with both kinds of level sizes, for both sizes of its write buffer.
    pub(super) fn level_parameters(plan: &Plan) -> [Parameter; 4] {
        let [large, small] = Writer::RocksDb.parameters(plan).map(Parameter::memory_bytes);
        let of =
            |memory_bytes, optimised| Parameter::Levels { memory_bytes, optimised, count: None };
        [of(large, false), of(large, true), of(small, false), of(small, true)]
    }

    /// An empty store with the parameter's value.
    pub(super) fn open(self, setup: &Setup, parameter: Parameter) -> Result<Box<dyn Target>> {
        let options = OpenOptions::new().engine(self.name()).memory_bytes(setup.memory_bytes);
        // Who writes does what is due, so that no thread is behind or ahead.
        let options = options.background_threads(0);
        let options = match parameter {
            Parameter::Memory { .. } | Parameter::Levels { .. } => {
                return find(self.name())?.open(setup);
            }
            Parameter::Space { percent, .. } => {
                options.set("space_amplification_percent_max", percent.to_string())
            }
            Parameter::MergeRatio { percent, .. } => options
                .set("merge_ratio_percent", percent.to_string())
                .set("partitions", PARTITIONS.to_string())
                .set("log_store_blocks", BLOCKS.to_string())
                .set("log_store_block_buckets_log2", buckets_log2(&setup.plan).to_string()),
        };
        let store = options.open(&setup.directory)?;
        let keyspace = store.keyspace(DEFAULT_KEYSPACE)?;
        Ok(Box::new(Store { keyspace, has_memtables: self == Writer::Wip, _store: store }))
    }

    /// Bytes written so far by where they went, as the model calls it, of ours; empty of others.
    pub(super) fn parts(self, target: &dyn Target) -> Result<Terms> {
        let parts: &[(&str, &str)] = match self {
            Writer::Silt => &[
                ("log", "log_bytes_written"),
                ("hash stores", "conversion_bytes_written"),
                ("sorted store", "merge_bytes_written"),
            ],
            Writer::Wip => &[
                ("log", "log_bytes_written"),
                ("level 0", "flush_bytes_written"),
                ("level 1", "compaction_bytes_written"),
            ],
            _ => return Ok(Terms::new()),
        };
        let metrics = target.metrics()?;
        Ok(parts.iter().map(|(part, name)| (part.to_string(), metrics.get(name))).collect())
    }

    /// Bytes of the write buffer of those that have one.
    pub(super) fn write_buffer_bytes(self, memory_bytes: u64) -> f64 {
        let part = if self == Writer::RocksDb { 4.0 * ROCKS_BUFFERS } else { 8.0 };
        (memory_bytes as f64 / part).floor().clamp(65_536.0, 268_435_456.0)
    }

    /// Bytes of puts after which what is due is waited for: a part of a write buffer, or, where
    /// that is done by who writes, a batch.
    pub(super) fn slice_bytes(self, memory_bytes: u64) -> usize {
        if self.is_ours() { 1 } else { (self.write_buffer_bytes(memory_bytes) / SLICES) as usize }
    }

    /// What a filled and settled store's formats add.
    pub(super) fn formats(
        self,
        plan: &Plan,
        target: &dyn Target,
        directory: &Path,
    ) -> Result<Formats> {
        let metrics = target.metrics()?;
        let put = plan.keys as f64 * entry_bytes(plan);
        let get = |name| metrics.get(name);
        // The fill writes each key to such a table once, as there is no key twice.
        let young = match self {
            Writer::Silt => {
                let converted = get("hash_store_entries") + get("sorted_store_entries");
                get("conversion_bytes_written") / (converted * entry_bytes(plan)).max(1.0)
            }
            _ => get("flush_bytes_written") / put,
        };
        let table = match self {
            Writer::Wip => get("table_bytes") / put,
            Writer::RocksDb | Writer::LevelDb => levels::files(directory)?.0 / put,
            // As it counts what it writes: entries, without the index in a file.
            Writer::Silt => {
                get("merge_bytes_written") / (get("merged_entries") * entry_bytes(plan)).max(1.0)
            }
        };
        let young = if self.is_ours() { young } else { table };
        let log = if self.is_ours() { get("log_bytes_written") / put } else { log_factor(plan) };
        let formats = Formats { log, table, young, buckets: get("buckets") };
        if log.is_finite() && table.is_finite() && log > 0.0 && table > 0.0 {
            return Ok(formats);
        }
        let message = format!("{} tells no bytes of its filled store: {formats:?}", self.name());
        Err(Error::new(ErrorKind::Config, message))
    }
}

const MEMORY_MIN: u64 = 1 << 20;
/// Waits of a write buffer.
const SLICES: f64 = 4.0;

fn entry_bytes(plan: &Plan) -> f64 {
    (plan.shape.key_bytes + plan.shape.value_bytes) as f64
}

/// Bytes of all keys and values.
pub(super) fn live_bytes(plan: &Plan) -> u64 {
    plan.keys * entry_bytes(plan) as u64
}

fn buckets_log2(plan: &Plan) -> u32 {
    let slots = plan.keys as f64 * TABLES_SHARE / f64::from(PARTITIONS * BLOCKS);
    ((slots / BUCKET_SLOTS).log2().floor() as u32).clamp(2, 14)
}

/// Bytes of a varint of `value`.
fn varint_bytes(value: usize) -> f64 {
    f64::from((usize::BITS - value.max(1).leading_zeros()).div_ceil(7))
}

/// Bytes of the log of LevelDB and RocksDB for each byte put: a batch has a sequence number and a
/// count (12), a record a header (7, again in each block of 32 KiB), an entry a kind and lengths.
fn log_factor(plan: &Plan) -> f64 {
    let shape = plan.shape;
    let more = 1.0 + varint_bytes(shape.key_bytes) + varint_bytes(shape.value_bytes);
    let entry = entry_bytes(plan);
    let batch = (entry + more) * BATCH as f64 + 12.0 + 7.0;
    batch * (1.0 + 7.0 / 32768.0) / (entry * BATCH as f64)
}

/// Bytes of an entry as memtables of both have it: a sequence number, and two lengths.
fn memtable_entry(plan: &Plan) -> f64 {
    let key = plan.shape.key_bytes + 8;
    entry_bytes(plan) + 8.0 + varint_bytes(key) + varint_bytes(plan.shape.value_bytes)
}

fn aligned(bytes: f64) -> f64 {
    (bytes / 8.0).ceil() * 8.0
}

/// How often each key is drawn. One that never is counts as one of so many draws that no model
/// gets to it.
fn popularity(plan: &Plan) -> Result<Popularity> {
    if plan.distribution == Distribution::Uniform {
        return Popularity::uniform(plan.keys);
    }
    let shares = plan.distribution.shares(plan.keys).unwrap_or_default();
    Popularity::empirical(shares.iter().map(|share| ((share * DRAWS) as u64).max(1)))
}

/// Entries of a memtable of RocksDB: its arena's blocks are counted whole, and the last one is
/// filled to three quarters where it ends near the limit (`ShouldFlushNow`). A batch goes in whole.
fn rocks_memtable(plan: &Plan, buffer: f64) -> f64 {
    let block = (buffer / 8.0 / ROCKS_ALIGN_BYTES).ceil() * ROCKS_ALIGN_BYTES;
    let first = ROCKS_FIRST_BYTES + ROCKS_FILTER * buffer;
    let mut blocks = 0.0;
    // Another block goes in where that ends less than 0.6 of a block behind the limit.
    while first + (blocks + 1.0) * block < buffer + 0.6 * block {
        blocks += 1.0;
    }
    let ends_over = first + blocks * block > buffer + 0.6 * block;
    let used = if ends_over { blocks - 1.0 } else { blocks - 0.25 }.max(0.25) * block;
    let node = aligned(8.0 + memtable_entry(plan)) + 8.0 * (LINKS - 1.0);
    used / node + 0.5 * BATCH as f64
}

/// Entries of a memtable of LevelDB: looked at before a batch, blocks of its arena counted whole.
fn leveldb_memtable(plan: &Plan, buffer: f64) -> f64 {
    let blocks = (buffer / (ARENA_BYTES + POINTER_BYTES)).floor();
    let node = aligned(memtable_entry(plan)) + 8.0 + 8.0 * LINKS;
    blocks * (ARENA_BYTES / node - 0.5) + 0.5 * BATCH as f64
}

/// LevelDB or RocksDB as its options say.
fn tables_of(writer: Writer, plan: &Plan, memory_bytes: u64, table: f64) -> Result<LevelledTables> {
    let buffer = writer.write_buffer_bytes(memory_bytes);
    let entry = entry_bytes(plan) * table;
    // LevelDB writes all versions of a memtable. A dead one shares its key and the kind behind it
    // with the one before, but where a restart begins.
    let shared = (plan.shape.key_bytes + 1) as f64 * (1.0 - 1.0 / RESTART_ENTRIES);
    let dead_version = if writer == Writer::RocksDb { 0.0 } else { 1.0 - shared / entry };
    let (rules, log, level1, tables) = match writer {
        Writer::RocksDb => {
            (Rules::RocksDb, rocks_memtable(plan, buffer), ROCKS_BUFFERS * buffer, buffer)
        }
        _ => (Rules::LevelDb, leveldb_memtable(plan, buffer), LEVEL1_BYTES, LEVELDB_TABLE_BYTES),
    };
    let design = LevelledTables {
        rules,
        log,
        level0_tables: LEVEL0_TABLES,
        table: tables / (entry - FILTER_BYTES),
        base: level1 / entry,
        multiplier: MULTIPLIER,
        dead_version,
    };
    design.checked()
}

/// Bytes that levels 1, 2, … may have, the last level left out; none where the store decides.
pub(super) fn level_bytes(plan: &Plan, parameter: Parameter) -> Result<Vec<u64>> {
    let Parameter::Levels { memory_bytes, optimised, count } = parameter else {
        return Ok(Vec::new());
    };
    let entry = entry_bytes(plan) * ROCKS_TABLE;
    let base = ROCKS_BUFFERS * Writer::RocksDb.write_buffer_bytes(memory_bytes);
    let all = plan.keys as f64 * entry;
    let growth = count
        .map_or(MULTIPLIER, |count| (all / base).max(1.0).powf(1.0 / (count.max(2) - 1) as f64));
    let rising = std::iter::successors(Some(base), |size| Some(growth * size));
    let rising: Vec<f64> = match count {
        Some(count) => rising.take(count.max(1) - 1).collect(),
        None => rising.take_while(|size| *size < all).collect(),
    };
    if !optimised {
        return Ok(rising.into_iter().map(|size| size as u64).collect());
    }
    let model = tables_of(Writer::RocksDb, plan, memory_bytes, ROCKS_TABLE)?;
    let keys = Primitives::new(popularity(plan)?);
    let count = rising.len() + 1;
    let best = level_sizes_refined(model.log, f64::from(LEVEL0_TABLES), model.table, count, &keys)?;
    let sizes = &best.model.levels[..rising.len()];
    // A smaller one would have level 0 compacted by its size, with fewer than four tables.
    Ok(sizes.iter().map(|size| (size * entry).max(base) as u64).collect())
}

/// Dead bytes for each live one at which our ordered engine begins to rewrite, where so many are
/// `allowed`: less by what may die while the largest of its buckets is rewritten. That is the one
/// with most dead bytes, `2 b / (b + 1)` times the mean where the others lie between it and none.
fn rewritten_from(allowed: f64, buckets: f64) -> f64 {
    let most = 2.0 * buckets / (buckets + 1.0);
    // The bucket has (1 + most dead) / b, and dead = allowed - DYING_PART (1 + most dead) / b.
    let dead = (allowed - DYING_PART / buckets) / (1.0 + DYING_PART * most / buckets);
    (dead / allowed).clamp(REWRITE_FROM.0, REWRITE_FROM.1) * allowed
}

/// Bytes by where they are written, for each byte put or in all.
pub(super) type Terms = Vec<(String, f64)>;

/// What the model of the store predicts, in bytes written for each byte put, for `rounds` rounds
/// of overwriting all keys.
pub(super) fn predict(
    writer: Writer,
    plan: &Plan,
    parameter: Parameter,
    formats: Formats,
    rounds: u32,
) -> Result<Terms> {
    let keys = plan.keys as f64;
    let primitives = Primitives::new(popularity(plan)?);
    let memory = parameter.memory_bytes() as f64;
    let entry = entry_bytes(plan);
    let Formats { log, table, young, buckets } = formats;
    let cost = match parameter {
        Parameter::MergeRatio { percent, .. } => {
            let slots = BUCKET_SLOTS * f64::from((BLOCKS * PARTITIONS) << buckets_log2(plan));
            let hash_stores = keys * percent as f64 / 100.0 / (slots * OCCUPANCY);
            let model = Silt { table: slots, occupancy: OCCUPANCY, hash_stores }.checked(keys)?;
            model.write_amplification(&primitives)
        }
        Parameter::Space { percent, .. } => {
            let dead = rewritten_from(percent as f64 / 100.0 - 1.0, buckets);
            let model = WipDb {
                memtable: WIP_MEMTABLE * memory / entry,
                log_window: WIP_LOG * memory / (log * entry),
                runs_max: WIP_RUNS_MAX,
                buckets,
                space: table * (1.0 + dead),
                log,
                table,
            };
            let cost = model.checked()?.overwrite(&primitives);
            let in_bytes = |(at, amount): &(Stage, f64)| match at {
                Stage::Level(0) => (at.to_string(), amount / table * young),
                _ => (at.to_string(), *amount),
            };
            return Ok(cost.terms().iter().map(in_bytes).collect());
        }
        Parameter::Memory { memory_bytes } => {
            let model = tables_of(writer, plan, memory_bytes, table)?;
            let round = |rounds: u32| f64::from(rounds) * keys;
            model.course(&primitives, round(WARM_UP), round(rounds))
        }
        Parameter::Levels { memory_bytes, .. } => {
            let model = tables_of(writer, plan, memory_bytes, table)?;
            let sizes = level_bytes(plan, parameter)?;
            let sizes: Vec<f64> = sizes.iter().map(|size| *size as f64 / (entry * table)).collect();
            let round = |rounds: u32| f64::from(rounds) * keys;
            model.course_of(&sizes, &primitives, round(WARM_UP), round(rounds))
        }
    };
    let in_bytes = |(at, amount): &(Stage, f64)| {
        let bytes = match at {
            Stage::Log => log,
            // Hash stores are packed: empty slots are not written.
            Stage::HashStores => amount * OCCUPANCY * young,
            _ => amount * table,
        };
        (at.to_string(), bytes)
    };
    Ok(cost.terms().iter().map(in_bytes).collect())
}

/// What algorithm 3 says of the same options, where a model of tables predicts; level sizes that
/// the store decides are none of its parameters.
pub(super) fn predict_as_printed(
    writer: Writer,
    plan: &Plan,
    parameter: Parameter,
    formats: Formats,
) -> Result<Option<f64>> {
    let memory_bytes = parameter.memory_bytes();
    let entry = entry_bytes(plan) * formats.table;
    let keys = plan.keys as f64;
    let sizes: Vec<f64> = match (writer, parameter) {
        (Writer::LevelDb, _) => {
            let sizes = std::iter::successors(Some(LEVEL1_BYTES), |size| Some(MULTIPLIER * size));
            sizes.map(|bytes| bytes / entry).take_while(|size| *size < keys).collect()
        }
        (Writer::RocksDb, Parameter::Levels { .. }) => {
            level_bytes(plan, parameter)?.iter().map(|bytes| *bytes as f64 / entry).collect()
        }
        _ => return Ok(None),
    };
    let log = tables_of(writer, plan, memory_bytes, formats.table)?.log;
    let levels = sizes.into_iter().filter(|size| *size < keys).chain([keys]).collect();
    let model = LevelDb { log, level0_tables: f64::from(LEVEL0_TABLES), levels };
    let cost = model.checked(keys)?.write_amplification(&Primitives::new(popularity(plan)?));
    Ok(Some(formats.log + (cost.total() - 1.0) * formats.table))
}

/// Bytes that this process gave to write calls so far.
pub(in crate::verbs) fn write_calls() -> Result<f64> {
    let path = "/proc/self/io";
    let text =
        std::fs::read_to_string(path).map_err(|e| Error::io(format!("reading {path}"), e))?;
    let field = text.lines().find_map(|line| line.strip_prefix("wchar:"));
    field.and_then(|text| text.trim().parse().ok()).ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, format!("{path} of this kernel has no wchar"))
    })
}

/// A store of ours; the keyspace goes before the store that owns its threads.
struct Store {
    keyspace: Keyspace,
    has_memtables: bool,
    _store: Silica,
}

impl Target for Store {
    fn abilities(&self) -> Abilities {
        self.keyspace.abilities()
    }

    fn session(&self, durability: Durability) -> Result<Box<dyn Session + '_>> {
        self.keyspace.session(durability)
    }

    /// Memtables are written, too, and all becomes one run of a bucket: what tables take is told by
    /// tables that have every key once.
    fn settle(&self) -> Result<()> {
        if self.has_memtables {
            self.keyspace.compact_range(..)?;
        }
        Target::settle(&self.keyspace)
    }

    /// Without background threads nobody else does it.
    fn catch_up(&self) -> Result<()> {
        Target::settle(&self.keyspace)
    }

    fn sync(&self) -> Result<()> {
        Target::sync(&self.keyspace)
    }

    fn metrics(&self) -> Result<MetricsMap> {
        Target::metrics(&self.keyspace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(keys: u64) -> Plan {
        Plan { keys, operations: keys, ..Plan::new("overwrite").unwrap() }
    }

    #[test]
    fn predictions_are_finite_and_more_room_writes_less() {
        let formats = Formats { log: 1.2, table: 1.05, young: 1.05, buckets: 8.0 };
        for writer in Writer::ALL {
            for keys in [20_000, 1_000_000] {
                let plan = plan(keys);
                let ours = writer
                    .parameters(&plan)
                    .map(|parameter| predict(writer, &plan, parameter, formats, 4).unwrap())
                    .map(|terms| terms.iter().map(|(_, bytes)| bytes).sum::<f64>());
                assert!(ours.iter().all(|x| x.is_finite() && *x > 2.0), "{writer:?} {ours:?}");
                // Memory falls from the first value to the second, what may be dead grows.
                let (less, more) = if writer.is_ours() { (1, 0) } else { (0, 1) };
                assert!(ours[less] <= ours[more], "{writer:?} {keys} {ours:?}");
            }
        }
    }

    #[test]
    fn a_log_adds_what_its_format_says() {
        // 116 bytes, 3 for kind and lengths, 19 for 32 entries, 7 in 32 KiB.
        let ours = log_factor(&plan(1000));
        assert!((ours - (119.0 + 19.0 / 32.0) * (1.0 + 7.0 / 32768.0) / 116.0).abs() < 1e-9);
        assert_eq!((varint_bytes(127), varint_bytes(128), varint_bytes(16_384)), (1.0, 2.0, 3.0));
    }

    #[test]
    fn level_sizes_are_tenfold_of_one_growth_factor_or_optimised() {
        let plan = plan(100_000);
        let memory_bytes = 1 << 20;
        let of = |optimised, count| {
            let parameter = Parameter::Levels { memory_bytes, optimised, count };
            level_bytes(&plan, parameter).unwrap()
        };
        // Four write buffers of 64 KiB; what is in the store has 13 MB.
        let base = 1 << 18;
        assert_eq!(of(false, None), [base, 10 * base]);
        let optimised = of(true, None);
        assert_eq!(optimised.len(), 2);
        assert!(optimised[0] >= base && optimised[1] > optimised[0], "{optimised:?}");
        for count in 1..=4 {
            let sizes = of(false, Some(count));
            assert_eq!(sizes.len(), count - 1);
            let all = plan.keys as f64 * entry_bytes(&plan) * ROCKS_TABLE;
            let ends = sizes.iter().map(|size| *size as f64).chain([all]).collect::<Vec<_>>();
            let growth: Vec<f64> = ends.windows(2).map(|pair| pair[1] / pair[0]).collect();
            let even = growth.iter().all(|growth_of| (growth_of / growth[0] - 1.0).abs() < 1e-3);
            assert!(even && sizes.first().is_none_or(|first| *first == base), "{sizes:?}");
            assert_eq!(of(true, Some(count)).len(), count - 1);
        }
        let none = Parameter::Memory { memory_bytes };
        assert!(level_bytes(&plan, none).unwrap().is_empty());
    }

    #[test]
    fn algorithm_3_is_asked_for_level_sizes_that_are_known() {
        let formats = Formats { log: 1.03, table: 1.1, young: 1.1, buckets: 0.0 };
        let (plan, memory_bytes) = (plan(200_000), 4 << 20);
        let of = |writer, parameter| predict_as_printed(writer, &plan, parameter, formats).unwrap();
        let memory = Parameter::Memory { memory_bytes };
        let levels = Parameter::Levels { memory_bytes, optimised: false, count: Some(3) };
        let leveldb = of(Writer::LevelDb, memory).unwrap();
        let more = Parameter::Memory { memory_bytes: 2 * memory_bytes };
        assert!(leveldb > 4.0 && of(Writer::LevelDb, more).unwrap() < leveldb);
        assert!(of(Writer::RocksDb, levels).unwrap() > 4.0);
        assert_eq!(of(Writer::RocksDb, memory), None);
        let [ratio, _] = Writer::Silt.parameters(&plan);
        assert_eq!(of(Writer::Silt, ratio), None);
    }
}
