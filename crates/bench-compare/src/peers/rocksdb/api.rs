//! What is used of `rocksdb/c.h`.

use crate::peers::leveled::{Db, Interface, Opened, ReadOptions};
use crate::peers::library::{Source, c_functions};
use silica::Result;
use std::ffi::{c_char, c_int, c_uchar, c_uint};

static ROCKSDB: Source = Source {
    name: "RocksDB",
    files: &["librocksdb.so.7.8", "librocksdb.so.8.9", "librocksdb.so.9.10", "librocksdb.so"],
    package: "librocksdb7.8",
};

/// The functions that it shares with LevelDB.
pub(super) fn interface() -> Result<&'static Interface> {
    static OPENED: Opened = Opened::new();
    Interface::get(&OPENED, &ROCKSDB, "rocksdb_")
}

/// `rocksdb_options_t`.
pub(super) enum Options {}
/// `rocksdb_block_based_table_options_t`.
pub(super) enum TableOptions {}
/// `rocksdb_column_family_handle_t`.
pub(super) enum ColumnFamily {}
/// `rocksdb_cache_t`.
pub(super) enum Cache {}
/// `rocksdb_filterpolicy_t`.
pub(super) enum FilterPolicy {}
/// `rocksdb_flushoptions_t`.
pub(super) enum FlushOptions {}
/// `rocksdb_pinnableslice_t`.
pub(super) enum Pinned {}

c_functions! {
    /// RocksDB's functions.
    struct Api of ROCKSDB;

    fn rocksdb_open_column_families(
        options: *const Options,
        name: *const c_char,
        count: c_int,
        family_names: *const *const c_char,
        family_options: *const *const Options,
        families: *mut *mut ColumnFamily,
        error: *mut *mut c_char,
    ) -> *mut Db;
    fn rocksdb_column_family_handle_destroy(family: *mut ColumnFamily);

    fn rocksdb_get_pinned(
        db: *mut Db,
        options: *const ReadOptions,
        key: *const c_char,
        key_length: usize,
        error: *mut *mut c_char,
    ) -> *mut Pinned;
    fn rocksdb_batched_multi_get_cf(
        db: *mut Db,
        options: *const ReadOptions,
        family: *mut ColumnFamily,
        count: usize,
        keys: *const *const c_char,
        key_lengths: *const usize,
        values: *mut *mut Pinned,
        errors: *mut *mut c_char,
        is_sorted: bool,
    );
    fn rocksdb_pinnableslice_value(value: *const Pinned, length: *mut usize) -> *const c_char;
    fn rocksdb_pinnableslice_destroy(value: *mut Pinned);

    fn rocksdb_flush(db: *mut Db, options: *const FlushOptions, error: *mut *mut c_char);
    fn rocksdb_flush_wal(db: *mut Db, sync: c_uchar, error: *mut *mut c_char);
    fn rocksdb_property_int(db: *mut Db, name: *const c_char, value: *mut u64) -> c_int;

    fn rocksdb_flushoptions_create() -> *mut FlushOptions;
    fn rocksdb_flushoptions_destroy(options: *mut FlushOptions);
    fn rocksdb_flushoptions_set_wait(options: *mut FlushOptions, wait: c_uchar);

    fn rocksdb_get_options_from_string(
        base: *const Options,
        text: *const c_char,
        options: *mut Options,
        error: *mut *mut c_char,
    );
    fn rocksdb_options_create() -> *mut Options;
    fn rocksdb_options_destroy(options: *mut Options);
    fn rocksdb_options_set_create_if_missing(options: *mut Options, value: c_uchar);
    fn rocksdb_options_set_write_buffer_size(options: *mut Options, value: usize);
    fn rocksdb_options_set_max_write_buffer_number(options: *mut Options, value: c_int);
    fn rocksdb_options_set_max_bytes_for_level_base(options: *mut Options, value: u64);
    fn rocksdb_options_set_max_bytes_for_level_multiplier(options: *mut Options, value: f64);
    fn rocksdb_options_set_max_bytes_for_level_multiplier_additional(
        options: *mut Options,
        values: *mut c_int,
        count: usize,
    );
    fn rocksdb_options_set_target_file_size_base(options: *mut Options, value: u64);
    fn rocksdb_options_set_level_compaction_dynamic_level_bytes(
        options: *mut Options,
        value: c_uchar,
    );
    fn rocksdb_options_set_max_background_jobs(options: *mut Options, value: c_int);
    fn rocksdb_options_set_max_subcompactions(options: *mut Options, value: u32);
    fn rocksdb_options_set_use_direct_reads(options: *mut Options, value: c_uchar);
    fn rocksdb_options_set_use_direct_io_for_flush_and_compaction(
        options: *mut Options,
        value: c_uchar,
    );
    fn rocksdb_options_set_compression(options: *mut Options, value: c_int);
    fn rocksdb_options_set_memtable_whole_key_filtering(options: *mut Options, value: c_uchar);
    fn rocksdb_options_set_memtable_prefix_bloom_size_ratio(options: *mut Options, value: f64);
    fn rocksdb_options_set_stats_dump_period_sec(options: *mut Options, value: c_uint);
    fn rocksdb_options_set_block_based_table_factory(
        options: *mut Options,
        table: *mut TableOptions,
    );

    fn rocksdb_block_based_options_create() -> *mut TableOptions;
    fn rocksdb_block_based_options_destroy(table: *mut TableOptions);
    fn rocksdb_block_based_options_set_block_cache(table: *mut TableOptions, cache: *mut Cache);
    fn rocksdb_block_based_options_set_filter_policy(
        table: *mut TableOptions,
        policy: *mut FilterPolicy,
    );
    fn rocksdb_block_based_options_set_cache_index_and_filter_blocks(
        table: *mut TableOptions,
        value: c_uchar,
    );
    fn rocksdb_block_based_options_set_cache_index_and_filter_blocks_with_high_priority(
        table: *mut TableOptions,
        value: c_uchar,
    );
    fn rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(
        table: *mut TableOptions,
        value: c_uchar,
    );
    fn rocksdb_block_based_options_set_index_type(table: *mut TableOptions, value: c_int);
    fn rocksdb_block_based_options_set_partition_filters(
        table: *mut TableOptions,
        value: c_uchar,
    );
    fn rocksdb_block_based_options_set_pin_top_level_index_and_filter(
        table: *mut TableOptions,
        value: c_uchar,
    );
    fn rocksdb_block_based_options_set_data_block_index_type(
        table: *mut TableOptions,
        value: c_int,
    );
    fn rocksdb_cache_create_lru(capacity: usize) -> *mut Cache;
    fn rocksdb_cache_destroy(cache: *mut Cache);
    fn rocksdb_filterpolicy_create_bloom_full(bits_per_key: f64) -> *mut FilterPolicy;
}
