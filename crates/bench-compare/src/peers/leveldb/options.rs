//! How LevelDB is set up, and why.

use super::api::{Api, Cache, FilterPolicy, Options};
use crate::peer::{Setting, Setup};
use std::ffi::c_int;

/// Larger buffers make longer pauses.
const WRITE_BUFFER_BYTES_MAX: u64 = 256 << 20;
const TABLE_BYTES: usize = 8 << 20;
const OPEN_FILES: c_int = 10_000;
const FILTER_BITS_PER_KEY: c_int = 10;

/// What differs from LevelDB's defaults.
pub(super) struct Knobs {
    write_buffer_bytes: u64,
    block_cache_bytes: u64,
    snappy: bool,
}

impl Knobs {
    /// What an expert would choose for `setup`.
    pub(super) fn new(setup: &Setup, snappy: bool) -> Self {
        let memory = setup.memory_bytes;
        Knobs {
            write_buffer_bytes: (memory / 8).clamp(64 << 10, WRITE_BUFFER_BYTES_MAX),
            block_cache_bytes: if snappy { memory / 2 } else { memory / 16 },
            snappy,
        }
    }

    /// For the report.
    pub(super) fn settings(&self) -> Vec<Setting> {
        let row = |name, value: String, why| Setting { name, value, why };
        let cache_why = match self.snappy {
            true => "half of the memory for blocks as they are after decompression",
            false => "uncompressed blocks of mapped tables pass it by: the page cache has the rest",
        };
        vec![
            row(
                "write_buffer_size",
                self.write_buffer_bytes.to_string(),
                "there are two at a time: a quarter of the memory",
            ),
            row("block_cache", format!("LRU, {}", self.block_cache_bytes), cache_why),
            row(
                "filter_policy",
                format!("Bloom, {FILTER_BITS_PER_KEY} bits per key"),
                "one false positive in a hundred",
            ),
            row(
                "max_file_size",
                TABLE_BYTES.to_string(),
                "LevelDB maps up to 1000 tables, which larger ones keep all of 8 GB within",
            ),
            row("max_open_files", OPEN_FILES.to_string(), "no table is ever opened twice"),
            row(
                "compression",
                if self.snappy { "snappy" } else { "none" }.to_string(),
                "compared both off and on",
            ),
        ]
    }

    /// New options with the cache and the filter policy that they point to; the caller destroys
    /// the options when the database is open, the others when it is closed.
    pub(super) fn options(&self, api: &Api) -> (*mut Options, *mut Cache, *mut FilterPolicy) {
        // SAFETY: all objects were just made.
        unsafe {
            let options = api.leveldb_options_create();
            let cache = api.leveldb_cache_create_lru(self.block_cache_bytes as usize);
            let filter = api.leveldb_filterpolicy_create_bloom(FILTER_BITS_PER_KEY);
            api.leveldb_options_set_create_if_missing(options, 1);
            api.leveldb_options_set_write_buffer_size(options, self.write_buffer_bytes as usize);
            api.leveldb_options_set_max_file_size(options, TABLE_BYTES);
            api.leveldb_options_set_max_open_files(options, OPEN_FILES);
            // `leveldb_snappy_compression` is 1, `leveldb_no_compression` is 0.
            api.leveldb_options_set_compression(options, c_int::from(self.snappy));
            api.leveldb_options_set_cache(options, cache);
            api.leveldb_options_set_filter_policy(options, filter);
            (options, cache, filter)
        }
    }
}
