//! What is used of `leveldb/c.h`.

use crate::peers::leveled::{Db, Interface, Opened, ReadOptions};
use crate::peers::library::{Source, c_functions};
use silica::Result;
use std::ffi::{c_char, c_int, c_uchar};

static LEVELDB: Source = Source {
    name: "LevelDB",
    files: &["libleveldb.so.1d", "libleveldb.so"],
    package: "libleveldb1d",
};

/// The functions that it shares with its offspring.
pub(super) fn interface() -> Result<&'static Interface> {
    static OPENED: Opened = Opened::new();
    Interface::get(&OPENED, &LEVELDB, "leveldb_")
}

/// `leveldb_options_t`.
pub(super) enum Options {}
/// `leveldb_cache_t`.
pub(super) enum Cache {}
/// `leveldb_filterpolicy_t`.
pub(super) enum FilterPolicy {}

c_functions! {
    /// LevelDB's functions.
    struct Api of LEVELDB;

    fn leveldb_major_version() -> c_int;
    fn leveldb_minor_version() -> c_int;
    fn leveldb_open(
        options: *const Options,
        name: *const c_char,
        error: *mut *mut c_char,
    ) -> *mut Db;

    fn leveldb_get(
        db: *mut Db,
        options: *const ReadOptions,
        key: *const c_char,
        key_length: usize,
        value_length: *mut usize,
        error: *mut *mut c_char,
    ) -> *mut c_char;

    fn leveldb_compact_range(
        db: *mut Db,
        from: *const c_char,
        from_length: usize,
        to: *const c_char,
        to_length: usize,
    );
    fn leveldb_property_value(db: *mut Db, name: *const c_char) -> *mut c_char;

    fn leveldb_options_create() -> *mut Options;
    fn leveldb_options_destroy(options: *mut Options);
    fn leveldb_options_set_create_if_missing(options: *mut Options, value: c_uchar);
    fn leveldb_options_set_write_buffer_size(options: *mut Options, value: usize);
    fn leveldb_options_set_max_open_files(options: *mut Options, value: c_int);
    fn leveldb_options_set_max_file_size(options: *mut Options, value: usize);
    fn leveldb_options_set_compression(options: *mut Options, value: c_int);
    fn leveldb_options_set_cache(options: *mut Options, cache: *mut Cache);
    fn leveldb_options_set_filter_policy(options: *mut Options, policy: *mut FilterPolicy);
    fn leveldb_cache_create_lru(capacity: usize) -> *mut Cache;
    fn leveldb_cache_destroy(cache: *mut Cache);
    fn leveldb_filterpolicy_create_bloom(bits_per_key: c_int) -> *mut FilterPolicy;
    fn leveldb_filterpolicy_destroy(policy: *mut FilterPolicy);
}
