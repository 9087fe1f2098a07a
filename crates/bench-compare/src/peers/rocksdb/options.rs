//! How RocksDB is set up, and why.

use super::api::{Api, Options, TableOptions};
use crate::peer::{Setting, Setup};
use crate::peers::directory;
use crate::peers::leveled::Interface;
use silica::{Error, ErrorKind, Result};
use std::ffi::{CString, c_int};

/// Write buffers; one is filled while others are flushed.
const WRITE_BUFFERS: u64 = 4;
/// Larger buffers make longer pauses and no fewer levels.
const WRITE_BUFFER_BYTES_MAX: u64 = 256 << 20;
const TABLE_BYTES_MAX: u64 = 64 << 20;
const FILTER_BITS_PER_KEY: f64 = 10.0;
const MEMTABLE_FILTER_SHARE: f64 = 0.05;
const BLOCK_BYTES: u64 = 4096;
/// `rocksdb_block_based_table_index_type_two_level_index_search`.
const TWO_LEVEL_INDEX: c_int = 2;
/// `rocksdb_block_based_table_data_block_index_type_binary_search_and_hash`.
const HASH_IN_BLOCKS: c_int = 1;

/// Levels of a store (`num_levels`).
const LEVELS: usize = 7;
/// Hundredths of the last level that is given, which are as good as no bound.
const REST: c_int = 100_000;

fn row(name: &'static str, value: String, why: &'static str) -> Setting {
    Setting { name, value, why }
}

/// How blocks are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    /// Not at all.
    None,
    /// By LZ4.
    Lz4,
}

impl Compression {
    /// The name and the number of `c.h`.
    fn of_interface(self) -> (&'static str, c_int) {
        match self {
            Compression::None => ("none", 0),
            Compression::Lz4 => ("lz4", 4),
        }
    }
}

/// One part in so many of the memory is for compactions and iterators.
const WORK_SHARE: u64 = 4;

/// What differs from RocksDB's defaults.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Knobs {
    write_buffer_bytes: u64,
    block_cache_bytes: u64,
    table_bytes: u64,
    jobs: usize,
    direct_io: bool,
    partitioned: bool,
    compression: Compression,
    level_bytes: Vec<u64>,
    compaction_priority: Option<String>,
}

impl Knobs {
    /// What an expert would choose for `setup`.
    pub(super) fn new(setup: &Setup, compression: Compression) -> Self {
        let memory = setup.memory_bytes;
        let write_buffer_bytes =
            (memory / (4 * WRITE_BUFFERS)).clamp(64 << 10, WRITE_BUFFER_BYTES_MAX);
        let beside = WRITE_BUFFERS * write_buffer_bytes + memory / WORK_SHARE;
        let block_cache_bytes = memory.saturating_sub(beside);
        let shape = setup.plan.shape;
        let entry_bytes = (shape.key_bytes + shape.value_bytes) as u64;
        let filters = setup.plan.keys as f64 * FILTER_BITS_PER_KEY / 8.0;
        let blocks = (setup.plan.keys * entry_bytes / BLOCK_BYTES) as f64;
        let indexes = blocks * (shape.key_bytes as f64 + 4.0);
        Knobs {
            write_buffer_bytes,
            block_cache_bytes,
            table_bytes: write_buffer_bytes.min(TABLE_BYTES_MAX),
            jobs: std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2)),
            direct_io: directory::takes_direct_io(&setup.directory),
            partitioned: filters + indexes > block_cache_bytes as f64 / 2.0,
            compression,
            level_bytes: setup.level_bytes.clone(),
            compaction_priority: setup.compaction_priority.clone(),
        }
    }

    /// `max_bytes_for_level_base`.
    fn base_bytes(&self) -> u64 {
        self.level_bytes.first().copied().unwrap_or(WRITE_BUFFERS * self.write_buffer_bytes)
    }

    /// `max_bytes_for_level_multiplier_additional` for the sizes that were given: how much larger
    /// the next level is, in hundredths, from level 0 on; nothing counts for level 0.
    fn multipliers(&self) -> Vec<c_int> {
        let ratio = |pair: &[u64]| (100.0 * pair[1] as f64 / pair[0] as f64).round() as c_int;
        let mut multipliers = vec![100];
        multipliers.extend(self.level_bytes.windows(2).map(ratio));
        // Whatever is there fits into the level behind those.
        multipliers.push(REST);
        multipliers.resize(LEVELS, 100);
        multipliers
    }

    /// For the report.
    pub(super) fn settings(&self) -> Vec<Setting> {
        [self.memory_settings(), self.table_settings(), self.work_settings()].concat()
    }

    fn memory_settings(&self) -> Vec<Setting> {
        vec![
            row(
                "write_buffer_size",
                self.write_buffer_bytes.to_string(),
                "a quarter of the memory for all write buffers together",
            ),
            row(
                "max_write_buffer_number",
                WRITE_BUFFERS.to_string(),
                "writes go on while buffers are flushed",
            ),
            row(
                "block_cache",
                format!("LRU, {}", self.block_cache_bytes),
                "half of the memory, index and filter blocks included; compactions and iterators \
                 take the rest, which no option bounds",
            ),
        ]
    }

    fn table_settings(&self) -> Vec<Setting> {
        vec![
            row(
                "cache_index_and_filter_blocks",
                "true, high priority, level 0 pinned".to_string(),
                "otherwise indexes and filters would be memory beside the cache",
            ),
            row(
                "index_type, partition_filters",
                if self.partitioned { "two-level, true" } else { "binary search, false" }
                    .to_string(),
                "partitioned where indexes and filters would take over half of the cache",
            ),
            row(
                "filter_policy",
                format!("Bloom, {FILTER_BITS_PER_KEY} bits per key, whole keys"),
                "one false positive in a hundred; ribbon filters cost more CPU",
            ),
            row(
                "memtable_prefix_bloom_size_ratio",
                format!("{MEMTABLE_FILTER_SHARE}, whole keys"),
                "gets pass by write buffers that do not hold the key",
            ),
            row(
                "data_block_index_type",
                "binary search and hash".to_string(),
                "gets find the key in its block without a search",
            ),
        ]
    }

    fn work_settings(&self) -> Vec<Setting> {
        let direct = match self.direct_io {
            true => "no second copy in the page cache, so the block cache is all the memory",
            false => "this file system refuses O_DIRECT",
        };
        let yes = |is: bool| is.to_string();
        vec![
            row("use_direct_reads", yes(self.direct_io), direct),
            row("use_direct_io_for_flush_and_compaction", yes(self.direct_io), direct),
            row(
                "max_background_jobs, max_subcompactions",
                self.jobs.to_string(),
                "as many as there are cores",
            ),
            row(
                "level_compaction_dynamic_level_bytes",
                yes(self.level_bytes.is_empty()),
                "least space for the same work",
            ),
            row(
                "max_bytes_for_level_base",
                self.base_bytes().to_string(),
                "level 1 as large as level 0 when it is compacted, as the tuning guide advises",
            ),
            row(
                "target_file_size_base",
                self.table_bytes.to_string(),
                "one table for each write buffer, at most the default of 64 MiB",
            ),
            row(
                "compression",
                self.compression.of_interface().0.to_string(),
                "compared both off and on",
            ),
            row(
                "compaction_pri",
                self.compaction_priority.clone().unwrap_or_else(|| "default".to_string()),
                "least overlap with the next level first",
            ),
            row("stats_dump_period_sec", "0".to_string(), "nothing is written but data"),
        ]
    }

    /// New options; the caller destroys them.
    pub(super) fn options(&self, api: &Api) -> *mut Options {
        let buffer_bytes = self.write_buffer_bytes;
        let (jobs, direct) = (self.jobs, u8::from(self.direct_io));
        // SAFETY: the options were just made; the factory keeps a copy of the table's options.
        unsafe {
            let o = api.rocksdb_options_create();
            api.rocksdb_options_set_create_if_missing(o, 1);
            api.rocksdb_options_set_write_buffer_size(o, buffer_bytes as usize);
            api.rocksdb_options_set_max_write_buffer_number(o, WRITE_BUFFERS as c_int);
            api.rocksdb_options_set_max_bytes_for_level_base(o, self.base_bytes());
            api.rocksdb_options_set_target_file_size_base(o, self.table_bytes);
            let dynamic = u8::from(self.level_bytes.is_empty());
            api.rocksdb_options_set_level_compaction_dynamic_level_bytes(o, dynamic);
            if !self.level_bytes.is_empty() {
                let mut multipliers = self.multipliers();
                let (values, count) = (multipliers.as_mut_ptr(), multipliers.len());
                api.rocksdb_options_set_max_bytes_for_level_multiplier(o, 0.01);
                // The options keep a copy.
                api.rocksdb_options_set_max_bytes_for_level_multiplier_additional(o, values, count);
            }
            api.rocksdb_options_set_max_background_jobs(o, jobs as c_int);
            api.rocksdb_options_set_max_subcompactions(o, jobs as u32);
            api.rocksdb_options_set_use_direct_reads(o, direct);
            api.rocksdb_options_set_use_direct_io_for_flush_and_compaction(o, direct);
            api.rocksdb_options_set_compression(o, self.compression.of_interface().1);
            api.rocksdb_options_set_memtable_whole_key_filtering(o, 1);
            api.rocksdb_options_set_memtable_prefix_bloom_size_ratio(o, MEMTABLE_FILTER_SHARE);
            api.rocksdb_options_set_stats_dump_period_sec(o, 0);
            let table = self.table_options(api);
            api.rocksdb_options_set_block_based_table_factory(o, table);
            api.rocksdb_block_based_options_destroy(table);
            o
        }
    }

    /// `options` with the table that is compacted next chosen as asked for; the caller destroys
    /// what comes back instead of `options`.
    ///
    /// # Errors
    /// `Io` if this RocksDB has no such choice.
    pub(super) fn with_priority(
        &self,
        api: &Api,
        interface: &Interface,
        options: *mut Options,
    ) -> Result<*mut Options> {
        let Some(priority) = &self.compaction_priority else { return Ok(options) };
        let wrong = |_| Error::new(ErrorKind::Config, "compaction_pri has a zero byte");
        let text = CString::new(format!("compaction_pri={priority}")).map_err(wrong)?;
        // SAFETY: both options are alive during the call; the text ends with a zero byte. The first
        // go as soon as the second have a copy.
        unsafe {
            let chosen = api.rocksdb_options_create();
            let outcome = interface.tried(|error| {
                api.rocksdb_get_options_from_string(options, text.as_ptr(), chosen, error)
            });
            api.rocksdb_options_destroy(options);
            if outcome.is_err() {
                api.rocksdb_options_destroy(chosen);
            }
            outcome.map(|()| chosen)
        }
    }

    /// New options of tables; the caller destroys them.
    fn table_options(&self, api: &Api) -> *mut TableOptions {
        // SAFETY: all objects were just made. The options share the cache, so that our handle of
        // it goes; they own the filter policy, which has no other owner.
        unsafe {
            let table = api.rocksdb_block_based_options_create();
            let cache = api.rocksdb_cache_create_lru(self.block_cache_bytes as usize);
            api.rocksdb_block_based_options_set_block_cache(table, cache);
            api.rocksdb_cache_destroy(cache);
            let bloom = api.rocksdb_filterpolicy_create_bloom_full(FILTER_BITS_PER_KEY);
            api.rocksdb_block_based_options_set_filter_policy(table, bloom);
            api.rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
            api.rocksdb_block_based_options_set_cache_index_and_filter_blocks_with_high_priority(
                table, 1,
            );
            api.rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(table, 1);
            if self.partitioned {
                api.rocksdb_block_based_options_set_index_type(table, TWO_LEVEL_INDEX);
                api.rocksdb_block_based_options_set_partition_filters(table, 1);
                api.rocksdb_block_based_options_set_pin_top_level_index_and_filter(table, 1);
            }
            api.rocksdb_block_based_options_set_data_block_index_type(table, HASH_IN_BLOCKS);
            table
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_bench::Plan;
    use std::path::PathBuf;

    fn knobs(level_bytes: &[u64]) -> Knobs {
        let plan = Plan { keys: 1000, operations: 1000, ..Plan::new("overwrite").unwrap() };
        let directory = PathBuf::from(".");
        let level_bytes = level_bytes.to_vec();
        let setup = Setup {
            directory,
            memory_bytes: 1 << 20,
            level_bytes,
            compaction_priority: None,
            server_threads: None,
            set: Vec::new(),
            plan,
        };
        Knobs::new(&setup, Compression::None)
    }

    #[test]
    fn levels_get_the_sizes_that_were_given() {
        let sizes = [300_000, 750_000, 750_000, 9_000_000];
        let given = knobs(&sizes);
        let multipliers = given.multipliers();
        assert_eq!(multipliers, [100, 250, 100, 1200, REST, 100, 100]);
        // As RocksDB does: the base, and from level to level the multiplier times the level's own.
        let mut size = given.base_bytes() as f64;
        for (level, wanted) in sizes.into_iter().enumerate() {
            assert!((size / wanted as f64 - 1.0).abs() < 1e-9, "level {level}: {size}");
            size *= 0.01 * f64::from(multipliers[level + 1]);
        }
        assert!(size >= 1000.0 * sizes[3] as f64, "what is left fits into the next level");
        assert_eq!(multipliers.len(), LEVELS);
        assert_eq!(knobs(&[300_000, 100_000_000]).multipliers()[1], 33_333);
    }

    #[test]
    fn without_sizes_the_store_decides() {
        let dynamic = |knobs: &Knobs| {
            let rows = knobs.settings();
            let row = |row: &&Setting| row.name == "level_compaction_dynamic_level_bytes";
            rows.iter().find(row).unwrap().value.clone()
        };
        let (own, given) = (knobs(&[]), knobs(&[1 << 20]));
        assert_eq!((dynamic(&own).as_str(), dynamic(&given).as_str()), ("true", "false"));
        assert_eq!(own.base_bytes(), WRITE_BUFFERS * own.write_buffer_bytes);
        assert_eq!(given.base_bytes(), 1 << 20);
    }
}
