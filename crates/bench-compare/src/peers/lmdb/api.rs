//! What is used of `lmdb.h`.

use crate::peers::library::{Source, c_functions};
use std::ffi::{c_char, c_int, c_uint, c_void};

static LMDB: Source =
    Source { name: "LMDB", files: &["liblmdb.so.0", "liblmdb.so"], package: "liblmdb0" };

/// `MDB_env`.
pub(super) enum Env {}
/// `MDB_txn`.
pub(super) enum Txn {}
/// `MDB_cursor`.
pub(super) enum Cursor {}
/// `MDB_dbi`.
pub(super) type Dbi = c_uint;

/// `MDB_val`.
#[repr(C)]
pub(super) struct Val {
    pub(super) length: usize,
    pub(super) data: *mut c_void,
}

/// `MDB_stat`.
#[repr(C)]
#[derive(Default)]
pub(super) struct Stat {
    pub(super) page_bytes: c_uint,
    pub(super) depth: c_uint,
    pub(super) branch_pages: usize,
    pub(super) leaf_pages: usize,
    pub(super) overflow_pages: usize,
    pub(super) entries: usize,
}

/// `MDB_NOSYNC`.
pub(super) const NOSYNC: c_uint = 0x10000;
/// `MDB_RDONLY`.
pub(super) const RDONLY: c_uint = 0x20000;
/// `MDB_NOTLS`.
pub(super) const NOTLS: c_uint = 0x20_0000;
/// `MDB_NORDAHEAD`.
pub(super) const NORDAHEAD: c_uint = 0x80_0000;
/// `MDB_NOMEMINIT`.
pub(super) const NOMEMINIT: c_uint = 0x100_0000;
/// `MDB_NOTFOUND`.
pub(super) const NOTFOUND: c_int = -30798;
/// `MDB_MAP_FULL`.
pub(super) const MAP_FULL: c_int = -30792;
/// `MDB_FIRST` of `MDB_cursor_op`.
pub(super) const FIRST: c_int = 0;
/// `MDB_NEXT` of `MDB_cursor_op`.
pub(super) const NEXT: c_int = 8;
/// `MDB_SET_RANGE` of `MDB_cursor_op`.
pub(super) const SET_RANGE: c_int = 17;

c_functions! {
    /// LMDB's functions.
    struct Api of LMDB;

    fn mdb_version(major: *mut c_int, minor: *mut c_int, patch: *mut c_int) -> *const c_char;
    fn mdb_strerror(code: c_int) -> *const c_char;
    fn mdb_env_create(env: *mut *mut Env) -> c_int;
    fn mdb_env_set_mapsize(env: *mut Env, bytes: usize) -> c_int;
    fn mdb_env_set_maxreaders(env: *mut Env, readers: c_uint) -> c_int;
    fn mdb_env_set_flags(env: *mut Env, flags: c_uint, on: c_int) -> c_int;
    fn mdb_env_open(env: *mut Env, path: *const c_char, flags: c_uint, mode: libc::mode_t)
        -> c_int;
    fn mdb_env_sync(env: *mut Env, force: c_int) -> c_int;
    fn mdb_env_stat(env: *mut Env, stat: *mut Stat) -> c_int;
    fn mdb_env_close(env: *mut Env);
    fn mdb_dbi_open(txn: *mut Txn, name: *const c_char, flags: c_uint, dbi: *mut Dbi) -> c_int;
    fn mdb_txn_begin(env: *mut Env, parent: *mut Txn, flags: c_uint, txn: *mut *mut Txn) -> c_int;
    fn mdb_txn_commit(txn: *mut Txn) -> c_int;
    fn mdb_txn_abort(txn: *mut Txn);
    fn mdb_txn_reset(txn: *mut Txn);
    fn mdb_txn_renew(txn: *mut Txn) -> c_int;
    fn mdb_get(txn: *mut Txn, dbi: Dbi, key: *mut Val, value: *mut Val) -> c_int;
    fn mdb_put(txn: *mut Txn, dbi: Dbi, key: *mut Val, value: *mut Val, flags: c_uint) -> c_int;
    fn mdb_del(txn: *mut Txn, dbi: Dbi, key: *mut Val, value: *mut Val) -> c_int;
    fn mdb_cursor_open(txn: *mut Txn, dbi: Dbi, cursor: *mut *mut Cursor) -> c_int;
    fn mdb_cursor_renew(txn: *mut Txn, cursor: *mut Cursor) -> c_int;
    fn mdb_cursor_close(cursor: *mut Cursor);
    fn mdb_cursor_get(cursor: *mut Cursor, key: *mut Val, value: *mut Val, step: c_int) -> c_int;
}
