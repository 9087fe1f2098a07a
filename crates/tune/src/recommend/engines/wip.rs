//! The ordered engine: a log, memtables of buckets, and runs that are merged by four rules
//! (`crates/wip/src/policy.rs`).

use silica_engine::part::{self, Part};

use super::super::processor::Calibration;
use super::super::work::Work;
use super::{Axis, Cost, Model, Offer, Settings, axis, value_log};

/// Bytes that a record of the log has besides key and value, where each put is a record.
const RECORD_BYTES: f64 = 28.0;
/// Bytes of tables for each byte of their entries: blocks, index, filter
/// (docs/benchmarks/wip.md, "Writes").
const TABLE: f64 = 1.05;
/// Bytes that an entry counts in a memtable at least.
const COUNTED_BYTES: f64 = 96.0;
/// Dead bytes for each byte that the knob for space allows, while overwriting goes on, and what
/// is there in any case (the table "Space against writes" of docs/benchmarks/wip.md).
const DEAD_SHARE: f64 = 0.68;
/// Bytes of merging that one more run looked at by one get is worth, at a read weight of 10.
const PROBE_BYTES: f64 = 32.0;
/// Bytes of memory that a byte of the cache takes.
const CACHED_BYTE_TAKES: f64 = 1.25;
/// Bytes of a table's index for each key.
const INDEX_BYTES: f64 = 0.13;
/// Bytes that a memtable's directory takes for each entry.
const DIRECTORY_BYTES: f64 = 16.0;
/// Bytes that a key takes while its filter is made, and the part of the memory for that at most.
const BUILT_KEY_BYTES: f64 = 32.0;
const FILTERS_PART: f64 = 0.25;
/// What jobs need in any case, and the part of the memory for them at most.
const JOBS_BYTES: f64 = 16.0 * 1048576.0;
const JOBS_PART: f64 = 0.2;
/// Bytes of memory that a store without entries takes.
const MEMORY_MIN: f64 = 4194304.0;
/// Bytes that a range's first read brings, and that later ones do.
const RANGE_BYTES: f64 = 12_288.0;
/// Bytes of a block, as reads count them.
const BLOCK_BYTES: f64 = 4096.0;

pub(super) struct Wip;

/// How the store lies at one setting.
struct Shape {
    /// Bytes of key and inline value.
    entry_bytes: f64,
    /// Bytes of tables, dead ones left out.
    live_bytes: f64,
    /// Entries that memtables have when one is flushed, and requests that brought them.
    memtable: f64,
    interval: f64,
    /// Part of what is flushed that overwrites what is there.
    overwritten: f64,
    /// Entries put for each entry looked up.
    writes: f64,
    reads: f64,
}

impl Shape {
    fn new(work: &Work<'_>, settings: &Settings<'_>, entry_bytes: f64) -> Self {
        let memory = settings.memory_bytes;
        let or = |name: &str, part: Part| match settings.value(name) {
            0.0 => memory * part.share(),
            given => given,
        };
        let room = or("memtable_bytes_max", part::MEMTABLES) / entry_bytes.max(COUNTED_BYTES);
        let in_log = or("log_bytes_max", part::ORDERED_LOG) / (entry_bytes + RECORD_BYTES);
        let writes = work.mix.writes();
        let share = work.old_share();
        // New keys are as many as there are of them; others repeat.
        let interval = match work.latest_until(room) {
            Some(until) => until,
            None if share > 0.0 => work.unique_inverse(room.min(work.keys) * share) / share,
            None => room,
        };
        let interval = interval.min(in_log).max(1.0);
        let (old, new) = work.distinct_written(interval);
        Shape {
            entry_bytes,
            live_bytes: work.keys * entry_bytes,
            memtable: old + new,
            interval,
            overwritten: if old + new > 0.0 { old / (old + new) } else { 0.0 },
            writes,
            reads: work.mix.reads(),
        }
    }

    /// Buckets: one that has more bytes, or more keys, than it may is split into so many.
    fn buckets(&self, work: &Work<'_>, settings: &Settings<'_>) -> f64 {
        let bytes_max = match settings.value("bucket_bytes_max") {
            0.0 => 0.5 * settings.memory_bytes,
            given => given,
        };
        let keys_max = FILTERS_PART * settings.memory_bytes / BUILT_KEY_BYTES;
        let full = (self.live_bytes / bytes_max.max(1.0)).max(work.keys / keys_max.max(1.0));
        let first = settings.value("first_buckets").max(1.0);
        if full <= first {
            return first;
        }
        // Between a full one and a piece of it, by the logarithm.
        let pieces = settings.value("split_buckets").max(2.0);
        full * pieces.ln() / (1.0 - 1.0 / pieces)
    }

    /// Flushes and compactions for each entry put, which writes `rewrite` bytes again for each
    /// byte flushed. The fullest memtable is flushed, which has twice the mean.
    fn jobs(&self, buckets: f64, rewrite: f64) -> f64 {
        let flushes = (0.5 * buckets).max(1.0) / self.interval;
        let bucket_entries = self.live_bytes / self.entry_bytes / buckets;
        flushes + self.flushed() * rewrite / bucket_entries.max(1.0)
    }

    /// Entries flushed for each entry put.
    fn flushed(&self) -> f64 {
        (self.memtable / self.interval).min(1.0)
    }

    /// Flushes of the whole store between two rewrites of it.
    fn flushes_between(&self, dead: f64, settings: &Settings<'_>) -> f64 {
        let memtable_bytes = self.memtable * self.entry_bytes;
        let flushes_of_live = self.live_bytes / memtable_bytes.max(1.0);
        // A bucket is rewritten with twice the mean of dead bytes.
        let space = 2.0 * (TABLE - 1.0 + dead) * flushes_of_live / self.overwritten.max(1e-9);
        let space = if self.overwritten > 0.0 { space } else { f64::INFINITY };
        let room = settings.value("runs_max");
        space.min(room).min(self.until_reads(flushes_of_live, settings)).max(1.0)
    }

    /// Runs of a bucket, on average.
    fn runs(&self, work: &Work<'_>, flushes: f64, settings: &Settings<'_>) -> f64 {
        if self.writes > 0.0 && self.overwritten > 0.0 {
            return 1.0 + 0.5 * flushes;
        }
        // What a fill leaves: a level is half full; gets have it merged down to the least.
        let filled = self.live_bytes / (settings.memory_bytes / 5.0);
        let left = filled.min(0.5 * settings.value("runs_max"));
        let is_read = work.mix.reads() > 0.0 && settings.value("read_weight") > 0.0;
        1.0 + if is_read { left.min(settings.value("runs_min")) } else { left }
    }

    /// Flushes after which gets have paid for merging all runs: with `k` runs above the last,
    /// gets of that time times `k` runs are worth what the merge writes.
    fn until_reads(&self, flushes_of_live: f64, settings: &Settings<'_>) -> f64 {
        let weight = settings.value("read_weight") / 10.0;
        if self.writes <= 0.0 || self.reads <= 0.0 || weight <= 0.0 {
            return f64::INFINITY;
        }
        let gets_per_flush = self.interval * self.reads / self.writes;
        let worth = gets_per_flush * PROBE_BYTES * weight;
        let flush_bytes = self.memtable * self.entry_bytes;
        // worth k^2 = flush_bytes (flushes_of_live + k)
        let half = 0.5 * flush_bytes / worth;
        let k = half + (half * half + flush_bytes * flushes_of_live / worth).sqrt();
        k.max(settings.value("runs_min") - 1.0)
    }
}

impl Model for Wip {
    fn engine(&self) -> &'static str {
        "wip"
    }

    fn offer(&self) -> Offer {
        Offer { durable: true, ordered: true, value_bytes_max: 512 << 20 }
    }

    fn axes(&self, work: &Work<'_>, _: bool) -> Vec<Axis> {
        let mut axes = vec![
            axis("space_amplification_percent_max", &[115, 130, 170, 200, 250, 300, 400]),
            axis("filter_bits", &[0, 4, 6, 8, 10, 12]),
            axis("runs_max", &[8, 12, 32, 48]),
            axis("read_weight", &[0, 3, 30, 100]),
        ];
        let largest = work.workload.value_bytes.quantile(1.0);
        let limits: Vec<u64> = [512, 2048, 8192, 65_536, 1 << 20]
            .into_iter()
            .filter(|limit| (*limit as f64) < largest)
            .collect();
        if !limits.is_empty() {
            axes.push(Axis { option: "inline_value_bytes_max", values: limits });
        }
        axes
    }

    fn cost(&self, work: &Work<'_>, settings: Settings<'_>, calibration: &Calibration) -> Cost {
        let apart = work.apart(settings.value("inline_value_bytes_max"));
        let shape = Shape::new(work, &settings, apart.entry_bytes);
        let dead = DEAD_SHARE * (settings.value("space_amplification_percent_max") / 100.0 - 1.0);
        let writes_old = shape.overwritten > 0.0;
        let flushes = shape.flushes_between(dead, &settings);
        let all_bytes = apart.entry_bytes + apart.bytes;
        let inline = apart.entry_bytes / all_bytes;
        let flush = TABLE * shape.flushed() * inline;
        let rewrite = rewritten(&shape, dead, flushes, &settings);
        let (value_writes, value_space) =
            value_log(shape.overwritten, settings.value("value_log_dead_percent"));
        let value_part = apart.bytes / all_bytes;
        let mut written = vec![
            ("log", (apart.entry_bytes + RECORD_BYTES) / all_bytes),
            ("flush", flush),
            ("compaction", flush * rewrite),
        ];
        if value_part > 0.0 {
            written.push(("value log", value_part * value_writes));
        }
        let runs = shape.runs(work, flushes, &settings);
        let memory = Memory::new(work, &settings, &shape, runs);
        let reads = memory.reads(work, runs, &shape);
        let recent = memory.recent;
        let space = TABLE + if writes_old { dead } else { 0.0 };
        let log_bytes = shape.interval * (shape.entry_bytes + RECORD_BYTES);
        let tables = shape.live_bytes * space + log_bytes.min(shape.live_bytes * 4.0);
        let device_bytes = tables + work.keys * apart.bytes * value_space;
        let scan_bytes = work.workload.scan_entries.mean() * apart.entry_bytes;
        let each = 1.0 + (scan_bytes / runs / RANGE_BYTES - 1.0).max(0.0);
        Cost {
            media: Default::default(),
            written,
            reads_per_hit: reads.hit + apart.share,
            reads_per_miss: reads.miss,
            reads_per_scan: runs * each * memory.missed
                + apart.share * work.workload.scan_entries.mean(),
            index_bytes_per_key: memory.index_bytes_per_key,
            memory_bytes_min: MEMORY_MIN + 2.0 * INDEX_BYTES * work.keys,
            device_bytes,
            space_amplification: device_bytes / (work.keys * all_bytes),
            lost: 0.0,
            processor: calibration.wip.with_runs(runs).among(0.5 * shape.memtable, recent),
            jobs: shape.jobs(shape.buckets(work, &settings), rewrite),
        }
    }
}

/// Bytes that compactions write for each byte flushed: for space, for room, or for reads,
/// whichever comes first.
fn rewritten(shape: &Shape, dead: f64, flushes: f64, settings: &Settings<'_>) -> f64 {
    let flushes_of_live = shape.live_bytes / (shape.memtable * shape.entry_bytes).max(1.0);
    let for_space = shape.overwritten / (2.0 * (TABLE - 1.0 + dead));
    // New keys: once for each level that their bucket's flushes fill.
    let runs_max = settings.value("runs_max").max(2.0);
    let levels = (flushes_of_live.max(1.0).ln() / runs_max.ln()).floor().clamp(0.0, 2.0);
    let for_room = (1.0 - shape.overwritten) * levels;
    let by_reads = shape.until_reads(flushes_of_live, settings);
    let for_reads = if by_reads <= flushes && by_reads.is_finite() {
        // Young levels are merged first, four runs of each: so an entry is written twice before it
        // meets the oldest run, which takes part once in the flushes of all their runs.
        let all_at_once = (flushes_of_live + by_reads) / by_reads;
        let levels = settings.value("runs_min").max(2.0).powi(3);
        all_at_once.min(2.0 + (flushes_of_live + levels) / levels)
    } else {
        0.0
    };
    (for_space + for_room).max(for_reads)
}

/// What memory is used for, and what is left for blocks.
struct Memory {
    index_bytes_per_key: f64,
    /// Filters of the oldest runs, and of the others, are in memory.
    has_filters: bool,
    filter_bits: f64,
    /// Share of the gets that memtables answer.
    recent: f64,
    /// Share of the block lookups that the cache does not answer.
    missed: f64,
}

struct Reads {
    hit: f64,
    miss: f64,
}

impl Memory {
    fn new(work: &Work<'_>, settings: &Settings<'_>, shape: &Shape, runs: f64) -> Self {
        let memory = settings.memory_bytes;
        let filter_bits = settings.value("filter_bits");
        // A place for each key and an eighth more.
        let filters = filter_bits * 1.125 / 8.0;
        let filter_bytes = work.keys * filters;
        let index_bytes = work.keys * INDEX_BYTES;
        let is_written = work.mix.writes() > 0.0;
        let log =
            if is_written { shape.interval * (shape.entry_bytes + RECORD_BYTES) } else { 0.0 };
        let directories = if is_written { shape.memtable * DIRECTORY_BYTES } else { 0.0 };
        let building = (BUILT_KEY_BYTES * work.keys).min(memory * FILTERS_PART);
        let jobs = JOBS_BYTES.min(memory * JOBS_PART) + building;
        let left = memory - jobs - log - directories - index_bytes;
        let has_filters = filter_bits > 0.0 && filter_bytes < left - memory / 16.0;
        let left = if has_filters { left - filter_bytes } else { left };
        let cache = left.max(memory / 64.0) / CACHED_BYTE_TAKES;
        let table_bytes = BLOCK_BYTES / TABLE;
        let per_block = (table_bytes / shape.entry_bytes).max(1.0);
        let blocks = cache / BLOCK_BYTES.max(shape.entry_bytes);
        // Dead versions take room in the blocks, too.
        let blocks = blocks / (1.0 + 0.1 * (runs - 1.0));
        let hit = work.blocks_hit(blocks, per_block, 0.5 * shape.memtable);
        // Without writes what came last is still there.
        let recent = if is_written {
            work.recently_written(0.5 * shape.memtable)
        } else {
            (memory / 5.0 / shape.entry_bytes.max(COUNTED_BYTES) / work.keys).min(1.0)
        };
        Memory {
            index_bytes_per_key: INDEX_BYTES + if has_filters { filters } else { 0.0 },
            has_filters,
            filter_bits,
            recent,
            missed: 1.0 - hit,
        }
    }

    fn reads(&self, work: &Work<'_>, runs: f64, shape: &Shape) -> Reads {
        let others = (runs - 1.0).max(0.0);
        let passed = |bits: f64| if bits > 0.0 { 0.5_f64.powf(bits) } else { 1.0 };
        // The oldest run's filter goes first; younger ones have five bits more, but at most 16.
        let oldest = if self.has_filters { passed(self.filter_bits) } else { 1.0 };
        let younger =
            if self.filter_bits > 0.0 { passed((self.filter_bits + 5.0).min(16.0)) } else { 1.0 };
        let large = (shape.entry_bytes / BLOCK_BYTES).max(1.0).ceil();
        let hit = (1.0 - self.recent) * (large + 0.5 * others * younger) * self.missed;
        // Keys that are not there lie in no popular block.
        let cold = if work.mix.get_hits > 0.0 { self.missed.max(0.5) } else { self.missed };
        Reads { hit, miss: (oldest + others * younger) * cold }
    }
}
