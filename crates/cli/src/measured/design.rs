//! How a store's options become a model's parameters. Nothing here is fitted: formats are those of
//! the filled store, everything else follows from options and from what stores say of themselves.

use super::BATCH;
use silica::{
    DEFAULT_KEYSPACE, Durability, Error, ErrorKind, Keyspace, MetricsMap, OpenOptions, Result,
    Silica,
};
use silica_bench::{Abilities, Distribution, Plan, Session, Target};
use silica_bench_compare::{Setup, find};
use silica_tune::model::{
    LevelDb, Pick, Popularity, Primitives, RocksLevelled, Silt, Stage, WipDb,
};

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
}

impl Parameter {
    pub(super) fn memory_bytes(self) -> u64 {
        match self {
            Parameter::MergeRatio { memory_bytes, .. }
            | Parameter::Space { memory_bytes, .. }
            | Parameter::Memory { memory_bytes } => memory_bytes,
        }
    }

    pub(super) fn text(self) -> String {
        match self {
            Parameter::MergeRatio { percent, .. } => format!("merge_ratio_percent {percent}"),
            Parameter::Space { percent, .. } => {
                format!("space_amplification_percent_max {percent}")
            }
            Parameter::Memory { memory_bytes } => format!("memory {} KiB", memory_bytes >> 10),
        }
    }
}

/// Bytes of a store's files for each byte of an entry, where each key is there once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Formats {
    pub(super) log: f64,
    pub(super) table: f64,
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
/// Dead bytes at which our ordered engine begins to rewrite, of those allowed (its policy).
const REWRITE_FROM: f64 = 0.58;
/// Its shares of the memory for memtables and log, and the runs of a level.
const WIP_MEMTABLE: f64 = 0.2;
const WIP_LOG: f64 = 0.375;
const WIP_RUNS_MAX: u32 = 20;
/// LevelDB's level 1, and how much larger the next is.
const LEVEL1_BYTES: f64 = 10.0 * 1_048_576.0;
const MULTIPLIER: f64 = 10.0;
/// Tables of level 0 that begin a compaction, of both.
const LEVEL0_TABLES: f64 = 4.0;
/// Write buffers of RocksDB that its first level is as large as, in our settings.
const ROCKS_BUFFERS: f64 = 4.0;
/// What entries have of RocksDB's write buffer: a twentieth is a filter, and the arena's last
/// block (an eighth) is three quarters full, between 0.4 before and 0.6 behind the limit.
const ROCKS_BUFFER_USED: f64 = 1.0 - 0.05 - 0.15 / 8.0;
/// Bytes of a block of LevelDB's arena; an entry that does not fit begins the next.
const ARENA_BYTES: f64 = 4096.0;
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

    fn is_ours(self) -> bool {
        matches!(self, Writer::Silt | Writer::Wip)
    }

    /// Refuses what is not installed.
    pub(super) fn check(self) -> Result<()> {
        if self.is_ours() { Ok(()) } else { find(self.name())?.version().map(drop) }
    }

    /// The two values of its parameter for stores of this size.
    pub(super) fn parameters(self, plan: &Plan) -> [Parameter; 2] {
        let live = plan.keys * entry_bytes(plan) as u64;
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

    /// An empty store with the parameter's value.
    pub(super) fn open(self, setup: &Setup, parameter: Parameter) -> Result<Box<dyn Target>> {
        let options = OpenOptions::new().engine(self.name()).memory_bytes(setup.memory_bytes);
        let options = match parameter {
            Parameter::Memory { .. } => return find(self.name())?.open(setup),
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
        Ok(Box::new(Store { keyspace, _store: store }))
    }

    /// Bytes written so far. Ours tell it, log included. Others do not: what this process gave to
    /// `write` calls (`wchar`), which is every byte of theirs, as they map no file to write.
    pub(super) fn written(self, target: &dyn Target) -> Result<f64> {
        if !self.is_ours() {
            return write_calls();
        }
        let metrics = target.metrics()?;
        let parts: &[&str] = match self {
            Writer::Silt => {
                &["log_bytes_written", "conversion_bytes_written", "merge_bytes_written"]
            }
            _ => &["log_bytes_written", "flush_bytes_written", "compaction_bytes_written"],
        };
        Ok(parts.iter().map(|name| metrics.get(name)).sum())
    }

    /// What a filled and settled store's formats add.
    pub(super) fn formats(self, plan: &Plan, target: &dyn Target) -> Result<Formats> {
        let metrics = target.metrics()?;
        let put = plan.keys as f64 * entry_bytes(plan);
        let get = |name| metrics.get(name);
        let table = match self {
            Writer::Wip => get("table_bytes") / put,
            Writer::RocksDb | Writer::LevelDb => get("disk_bytes") / put,
            Writer::Silt => {
                let entries = get("hash_store_entries") + get("sorted_store_entries");
                (get("disk_bytes") - get("log_bytes")) / entries.max(1.0) / entry_bytes(plan)
            }
        };
        let log = if self.is_ours() { get("log_bytes_written") / put } else { log_factor(plan) };
        let formats = Formats { log, table };
        if log.is_finite() && table.is_finite() && log > 0.0 && table > 0.0 {
            return Ok(formats);
        }
        let message = format!("{} tells no bytes of its filled store: {formats:?}", self.name());
        Err(Error::new(ErrorKind::Config, message))
    }
}

const MEMORY_MIN: u64 = 1 << 20;

fn entry_bytes(plan: &Plan) -> f64 {
    (plan.shape.key_bytes + plan.shape.value_bytes) as f64
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

/// What the model of the store predicts, in bytes written for each byte put.
pub(super) fn predict(
    writer: Writer,
    plan: &Plan,
    parameter: Parameter,
    formats: Formats,
) -> Result<f64> {
    let keys = plan.keys as f64;
    let skew = if plan.distribution == Distribution::Zipfian { 0.99 } else { 0.0 };
    let primitives = Primitives::new(Popularity::zipf(plan.keys, skew)?);
    let memory = parameter.memory_bytes() as f64;
    let entry = entry_bytes(plan);
    let Formats { log, table } = formats;
    // The first term of a model in entries is the log; all others are tables.
    let in_bytes = |cost: silica_tune::model::WriteAmplification| {
        cost.terms().iter().skip(1).map(|(_, amount)| amount * table).sum::<f64>() + log
    };
    Ok(match parameter {
        Parameter::MergeRatio { percent, .. } => {
            let slots = BUCKET_SLOTS * f64::from((BLOCKS * PARTITIONS) << buckets_log2(plan));
            let hash_stores = keys * percent as f64 / 100.0 / (slots * OCCUPANCY);
            let model = Silt { table: slots, occupancy: OCCUPANCY, hash_stores }.checked(keys)?;
            // Hash stores are packed: empty slots are not written.
            let cost = model.write_amplification(&primitives);
            let packed = |(stage, amount): &(Stage, f64)| match stage {
                Stage::HashStores => amount * OCCUPANCY,
                _ => *amount,
            };
            cost.terms().iter().skip(1).map(packed).sum::<f64>() * table + log
        }
        Parameter::Space { percent, .. } => {
            let dead = REWRITE_FROM * (percent as f64 / 100.0 - 1.0);
            let model = WipDb {
                memtable: WIP_MEMTABLE * memory / entry,
                log_window: WIP_LOG * memory / (log * entry),
                runs_max: WIP_RUNS_MAX,
                space: table * (1.0 + dead),
                log,
                table,
            };
            model.checked()?.overwrite(&primitives).total()
        }
        Parameter::Memory { .. } if writer == Writer::RocksDb => {
            let buffer = (memory / (4.0 * ROCKS_BUFFERS)).clamp(65_536.0, 268_435_456.0);
            let node = aligned(8.0 + memtable_entry(plan)) + 8.0 * (LINKS - 1.0);
            let model = RocksLevelled {
                log: buffer * ROCKS_BUFFER_USED / node,
                level0_tables: LEVEL0_TABLES,
                base: ROCKS_BUFFERS * buffer / (entry * table),
                multiplier: MULTIPLIER,
                dynamic: true,
                pick: Pick::RoundRobin,
            };
            in_bytes(model.checked()?.write_amplification(&primitives))
        }
        Parameter::Memory { .. } => {
            let buffer = (memory / 8.0).clamp(65_536.0, 268_435_456.0);
            let node = aligned(memtable_entry(plan)) + 8.0 + 8.0 * LINKS;
            let used = 1.0 - 0.5 * node / ARENA_BYTES;
            let mut levels = Vec::new();
            let mut size = LEVEL1_BYTES / (entry * table);
            while size < keys {
                levels.push(size);
                size *= MULTIPLIER;
            }
            levels.push(keys);
            let model = LevelDb { log: buffer * used / node, level0_tables: LEVEL0_TABLES, levels };
            in_bytes(model.checked(keys)?.write_amplification(&primitives))
        }
    })
}

fn write_calls() -> Result<f64> {
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
    _store: Silica,
}

impl Target for Store {
    fn abilities(&self) -> Abilities {
        self.keyspace.abilities()
    }

    fn session(&self, durability: Durability) -> Result<Box<dyn Session + '_>> {
        self.keyspace.session(durability)
    }

    fn settle(&self) -> Result<()> {
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
        let formats = Formats { log: 1.2, table: 1.05 };
        for writer in Writer::ALL {
            for keys in [20_000, 1_000_000] {
                let plan = plan(keys);
                let ours = writer
                    .parameters(&plan)
                    .map(|parameter| predict(writer, &plan, parameter, formats).unwrap());
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
}
