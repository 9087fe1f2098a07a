//! SILT: a log store, hash stores and a sorted store for each partition (Lim's dissertation,
//! sections 2.5 and 4.5, equations 2.4 to 2.7), with this engine's options.

use silica_engine::part;

use super::super::processor::Calibration;
use super::super::work::Work;
use super::{Axis, Cost, Model, Offer, Settings, axis, value_log};

/// Slots that are filled when a table is converted.
const OCCUPANCY: f64 = 0.957;
/// Bytes of a frame besides key and value.
const FRAME_BYTES: f64 = 3.0;
/// Bytes of memory for each key of a log store's table, a hash store and a sorted store
/// (docs/engines/silt.md).
const LOG_STORE_BYTES: f64 = 6.4;
const HASH_STORE_BYTES: f64 = 2.0;
const SORTED_STORE_BYTES: f64 = 0.25;
/// The part of the memory that filters of sorted stores take at most where none are asked for.
const FILTERS_PART: f64 = 1.0 / 40.0;
/// Bits of such a filter, and what each has besides.
const FILTER_BITS: f64 = 8.0;
const FILTER_BITS_MORE: f64 = 2.0;
/// Bytes of memory that a store without entries takes; with less than 32 MiB buffers weigh more
/// than the number, but it works.
const MEMORY_MIN: f64 = 4194304.0;
/// Bytes of tables for each byte of entries.
const TABLE: f64 = 1.02;
/// Values of this many bytes take a chunk of 4 KiB or cross a border.
const CHUNK_BYTES: f64 = 4096.0;

pub(super) struct Silt;

/// Sizes of the stores of all partitions, in entries.
struct Stores {
    /// Entries in log stores when they are converted, and puts that brought them.
    log: f64,
    interval: f64,
    /// Entries in hash stores when a partition is merged.
    merged: f64,
    /// Hash stores that a get looks at, on average.
    hash_stores: f64,
    partitions: f64,
}

impl Stores {
    fn new(work: &Work<'_>, settings: &Settings<'_>, entry_bytes: f64) -> Self {
        let memory = settings.memory_bytes;
        let partitions = settings.value("partitions").max(1.0);
        let log_bytes = match settings.value("log_bytes_max") {
            0.0 => memory * part::HASHED_LOG.share(),
            given => given,
        };
        let in_log = log_bytes / (entry_bytes + FRAME_BYTES);
        let blocks = settings.value("log_store_blocks").max(1.0);
        let buckets = 2f64.powf(settings.value("log_store_block_buckets_log2"));
        let slots = partitions * blocks * buckets * 4.0 * OCCUPANCY;
        // All tables take an eighth of the memory at most.
        let room = slots.min(memory / 8.0 / LOG_STORE_BYTES);
        let share = work.old_share();
        let old = share.max(1e-9);
        let full = match work.latest_until(room) {
            Some(until) => until,
            None if room < work.keys => work.unique_inverse(room * old) / old,
            // Only new keys fill tables that all of the others fit into.
            None => room / (1.0 - share).max(1e-9),
        };
        let interval = full.min(in_log).max(1.0);
        let (again, new) = work.distinct_written(interval);
        let log = again + new;
        let least = settings.value("hash_stores_min") * log;
        let ratio = settings.value("merge_ratio_percent") / 100.0;
        let most = settings.value("hash_stores_max") * log;
        // Filters of hash stores that would exceed their part are merged earlier, down to a
        // quarter of the ratio.
        let filters = memory / 4.0 / HASH_STORE_BYTES;
        let merged = (ratio * work.keys).min(filters.max(ratio * work.keys / 4.0));
        let merged = merged.max(least).min(most.max(1.0));
        let hash_stores = 0.5 * merged / log.max(1.0);
        Stores { log, interval, merged, hash_stores, partitions }
    }

    /// Entries converted for each entry put.
    fn converted(&self) -> f64 {
        (self.log / self.interval).min(1.0)
    }

    /// Conversions and merges for each entry put: each is of one partition.
    fn jobs(&self) -> f64 {
        self.partitions * (1.0 / self.interval + self.converted() / self.merged.max(1.0))
    }
}

impl Model for Silt {
    fn engine(&self) -> &'static str {
        "silt"
    }

    fn offer(&self) -> Offer {
        Offer { durable: true, ordered: false, value_bytes_max: 512 << 20 }
    }

    fn axes(&self, work: &Work<'_>, _: bool) -> Vec<Axis> {
        let mut axes = vec![
            axis("merge_ratio_percent", &[10, 14, 20, 42, 60, 100, 200]),
            axis("sorted_filter_bits", &[0, 8, 12]),
            axis("tag_bits", &[8, 10, 12]),
        ];
        let largest = work.workload.value_bytes.quantile(1.0);
        if largest > 512.0 {
            axes.push(axis("inline_value_bytes_max", &[512, 8192, 65_536]));
        }
        axes
    }

    fn cost(&self, work: &Work<'_>, settings: Settings<'_>, calibration: &Calibration) -> Cost {
        let apart = work.apart(settings.value("inline_value_bytes_max"));
        let entry = apart.entry_bytes;
        let stores = Stores::new(work, &settings, entry);
        let all_bytes = entry + apart.bytes;
        let inline = entry / all_bytes;
        let converted = stores.converted();
        // Equation 2.4, with what the log store takes out before.
        let merge = converted * work.keys / stores.merged.max(1.0);
        let (value_writes, value_space) =
            value_log(work.old_share(), settings.value("value_log_dead_percent"));
        let mut written = vec![
            ("log", (entry + FRAME_BYTES) / all_bytes),
            ("conversion", converted * inline),
            ("merge", merge * inline),
        ];
        if apart.bytes > 0.0 {
            written.push(("value log", apart.bytes / all_bytes * value_writes));
        }
        let tags = 8.0 * 0.5_f64.powf(settings.value("tag_bits"));
        let filters = Filters::new(work, &settings);
        let is_written = work.mix.writes() > 0.0;
        // Without writes what came last is still there, by halves.
        let recent = if is_written {
            work.recently_written(0.5 * stores.log)
        } else {
            (0.5 * settings.memory_bytes * part::HASHED_LOG.share() / entry / work.keys).min(0.5)
        };
        let chunk = (entry / CHUNK_BYTES).max(1.0).ceil();
        let false_reads = tags * (1.0 + stores.hash_stores);
        let stale = 0.5 * stores.merged / work.keys * work.old_share();
        let space = TABLE + stale + 1.0 / settings.value("partitions").max(1.0);
        let log_bytes = stores.interval * (entry + FRAME_BYTES);
        let device_bytes = work.keys * (entry * space + apart.bytes * value_space) + log_bytes;
        let in_hash_stores = 0.5 * stores.merged / work.keys;
        Cost {
            media: Default::default(),
            written,
            reads_per_hit: (1.0 - recent) * (chunk + false_reads) + apart.share,
            reads_per_miss: filters.passed + false_reads,
            reads_per_scan: 0.0,
            index_bytes_per_key: LOG_STORE_BYTES * stores.log / work.keys
                + HASH_STORE_BYTES * in_hash_stores
                + SORTED_STORE_BYTES
                + filters.bytes_per_key,
            memory_bytes_min: MEMORY_MIN + SORTED_STORE_BYTES * work.keys,
            device_bytes,
            space_amplification: device_bytes / (work.keys * all_bytes),
            lost: 0.0,
            processor: calibration
                .silt
                .with_runs(1.0 + stores.hash_stores)
                .among(0.5 * stores.log, recent),
            jobs: stores.jobs(),
        }
    }
}

/// Filters of the sorted stores.
struct Filters {
    bytes_per_key: f64,
    /// Share of the keys that are not there that they let pass.
    passed: f64,
}

impl Filters {
    fn new(work: &Work<'_>, settings: &Settings<'_>) -> Self {
        let of = |bits: f64| (bits + FILTER_BITS_MORE) / 8.0;
        let affordable = work.keys * of(FILTER_BITS) <= settings.memory_bytes * FILTERS_PART;
        let bits = match settings.given("sorted_filter_bits") {
            Some(bits) => bits,
            None if affordable => FILTER_BITS,
            None => 0.0,
        };
        let fits = work.keys * of(bits) <= settings.memory_bytes / 4.0;
        if bits > 0.0 && fits {
            Filters { bytes_per_key: of(bits), passed: 0.5_f64.powf(bits) }
        } else {
            Filters { bytes_per_key: 0.0, passed: 1.0 }
        }
    }
}
