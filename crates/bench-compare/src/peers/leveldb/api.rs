//! What is used of `leveldb/c.h`.

use crate::peers::library::{Source, c_functions};
use std::ffi::{c_char, c_int, c_uchar, c_void};

static LEVELDB: Source = Source {
    name: "LevelDB",
    files: &["libleveldb.so.1d", "libleveldb.so"],
    package: "libleveldb1d",
};

/// `leveldb_t`.
pub(super) enum Db {}
/// `leveldb_options_t`.
pub(super) enum Options {}
/// `leveldb_cache_t`.
pub(super) enum Cache {}
/// `leveldb_filterpolicy_t`.
pub(super) enum FilterPolicy {}
/// `leveldb_readoptions_t`.
pub(super) enum ReadOptions {}
/// `leveldb_writeoptions_t`.
pub(super) enum WriteOptions {}
/// `leveldb_writebatch_t`.
pub(super) enum Batch {}
/// `leveldb_iterator_t`.
pub(super) enum Iter {}

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
    fn leveldb_close(db: *mut Db);
    fn leveldb_free(memory: *mut c_void);

    fn leveldb_get(
        db: *mut Db,
        options: *const ReadOptions,
        key: *const c_char,
        key_length: usize,
        value_length: *mut usize,
        error: *mut *mut c_char,
    ) -> *mut c_char;

    fn leveldb_write(
        db: *mut Db,
        options: *const WriteOptions,
        batch: *mut Batch,
        error: *mut *mut c_char,
    );
    fn leveldb_writebatch_create() -> *mut Batch;
    fn leveldb_writebatch_destroy(batch: *mut Batch);
    fn leveldb_writebatch_clear(batch: *mut Batch);
    fn leveldb_writebatch_put(
        batch: *mut Batch,
        key: *const c_char,
        key_length: usize,
        value: *const c_char,
        value_length: usize,
    );
    fn leveldb_writebatch_delete(batch: *mut Batch, key: *const c_char, key_length: usize);

    fn leveldb_create_iterator(db: *mut Db, options: *const ReadOptions) -> *mut Iter;
    fn leveldb_iter_destroy(iterator: *mut Iter);
    fn leveldb_iter_seek(iterator: *mut Iter, key: *const c_char, key_length: usize);
    fn leveldb_iter_valid(iterator: *const Iter) -> c_uchar;
    fn leveldb_iter_next(iterator: *mut Iter);
    fn leveldb_iter_key(iterator: *const Iter, length: *mut usize) -> *const c_char;
    fn leveldb_iter_value(iterator: *const Iter, length: *mut usize) -> *const c_char;
    fn leveldb_iter_get_error(iterator: *const Iter, error: *mut *mut c_char);

    fn leveldb_compact_range(
        db: *mut Db,
        from: *const c_char,
        from_length: usize,
        to: *const c_char,
        to_length: usize,
    );
    fn leveldb_property_value(db: *mut Db, name: *const c_char) -> *mut c_char;

    fn leveldb_readoptions_create() -> *mut ReadOptions;
    fn leveldb_readoptions_destroy(options: *mut ReadOptions);
    fn leveldb_writeoptions_create() -> *mut WriteOptions;
    fn leveldb_writeoptions_destroy(options: *mut WriteOptions);
    fn leveldb_writeoptions_set_sync(options: *mut WriteOptions, sync: c_uchar);

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
