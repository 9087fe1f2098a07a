//! SQLite's functions as the build names them: with `silica_` before each.

use std::ffi::{c_char, c_int, c_void};

/// A connection of SQLite's.
#[repr(C)]
pub(super) struct Sqlite {
    _opaque: [u8; 0],
}

/// A prepared statement of SQLite's.
#[repr(C)]
pub(super) struct Statement {
    _opaque: [u8; 0],
}

/// A copy of a database into another one.
#[repr(C)]
pub(super) struct Backup {
    _opaque: [u8; 0],
}

/// The call of a function that the program has defined.
#[repr(C)]
pub(super) struct Context {
    _opaque: [u8; 0],
}

/// An argument of such a call.
#[repr(C)]
pub(super) struct Argument {
    _opaque: [u8; 0],
}

pub(super) type Function = extern "C" fn(*mut Context, c_int, *mut *mut Argument);

#[cfg(test)]
pub(super) type Compare =
    extern "C" fn(*mut c_void, c_int, *const c_void, c_int, *const c_void) -> c_int;

pub(super) const UTF8: u8 = 1;
pub(super) const DETERMINISTIC: c_int = 0x800;

pub(super) const OK: c_int = 0;
pub(super) const FULL_SCAN_STEPS: c_int = 1;
pub(super) const SORTS: c_int = 2;
pub(super) const AUTOMATIC_INDEX_ROWS: c_int = 3;
pub(super) const MACHINE_STEPS: c_int = 4;
pub(super) const STATEMENT_BYTES: c_int = 99;
pub(super) const ROW: c_int = 100;
pub(super) const DONE: c_int = 101;

pub(super) const OPEN_READONLY: c_int = 1;
pub(super) const OPEN_READWRITE: c_int = 2;
pub(super) const OPEN_CREATE: c_int = 4;
pub(super) const OPEN_URI: c_int = 0x40;

pub(super) const INTEGER: c_int = 1;
pub(super) const FLOAT: c_int = 2;
pub(super) const TEXT: c_int = 3;
pub(super) const BLOB: c_int = 4;

/// SQLite copies what is bound.
pub(super) const TRANSIENT: isize = -1;

/// Says whether a statement may do something: a kind, and up to four texts.
pub(super) type Authorizer = extern "C" fn(
    *mut c_void,
    c_int,
    *const c_char,
    *const c_char,
    *const c_char,
    *const c_char,
) -> c_int;

unsafe extern "C" {
    #[link_name = "silica_sqlite3_open_v2"]
    pub(super) fn open_v2(
        name: *const c_char,
        db: *mut *mut Sqlite,
        flags: c_int,
        vfs: *const c_char,
    ) -> c_int;
    #[link_name = "silica_statement_counts"]
    pub(super) fn statement_counts(db: *mut Sqlite, counts: *mut u64);
    #[link_name = "silica_sqlite3_close_v2"]
    pub(super) fn close_v2(db: *mut Sqlite) -> c_int;
    #[link_name = "silica_sqlite3_errmsg"]
    pub(super) fn errmsg(db: *mut Sqlite) -> *const c_char;
    #[link_name = "silica_sqlite3_extended_result_codes"]
    pub(super) fn extended_result_codes(db: *mut Sqlite, on: c_int) -> c_int;
    #[link_name = "silica_sqlite3_extended_errcode"]
    pub(super) fn extended_errcode(db: *mut Sqlite) -> c_int;
    #[link_name = "silica_sqlite3_errstr"]
    pub(super) fn errstr(code: c_int) -> *const c_char;
    #[link_name = "silica_sqlite3_busy_timeout"]
    pub(super) fn busy_timeout(db: *mut Sqlite, ms: c_int) -> c_int;
    #[link_name = "silica_sqlite3_progress_handler"]
    pub(super) fn progress_handler(
        db: *mut Sqlite,
        steps: c_int,
        handler: Option<extern "C" fn(*mut c_void) -> c_int>,
        data: *mut c_void,
    );
    #[link_name = "silica_sqlite3_busy_handler"]
    pub(super) fn busy_handler(
        db: *mut Sqlite,
        handler: Option<extern "C" fn(*mut c_void, c_int) -> c_int>,
        data: *mut c_void,
    ) -> c_int;
    #[link_name = "silica_sqlite3_set_authorizer"]
    pub(super) fn set_authorizer(
        db: *mut Sqlite,
        handler: Option<Authorizer>,
        data: *mut c_void,
    ) -> c_int;
    #[link_name = "silica_sqlite3_limit"]
    pub(super) fn limit(db: *mut Sqlite, which: c_int, value: c_int) -> c_int;
    #[link_name = "silica_sqlite3_db_config"]
    pub(super) fn db_config(db: *mut Sqlite, which: c_int, ...) -> c_int;
    #[link_name = "silica_sqlite3_create_function_v2"]
    pub(super) fn create_function_v2(
        db: *mut Sqlite,
        name: *const c_char,
        arguments: c_int,
        encoding: c_int,
        data: *mut c_void,
        function: Option<Function>,
        step: Option<Function>,
        end: Option<extern "C" fn(*mut Context)>,
        destroy: Option<extern "C" fn(*mut c_void)>,
    ) -> c_int;
    #[link_name = "silica_sqlite3_user_data"]
    pub(super) fn user_data(context: *mut Context) -> *mut c_void;
    #[link_name = "silica_sqlite3_value_type"]
    pub(super) fn value_type(value: *mut Argument) -> c_int;
    #[link_name = "silica_sqlite3_value_int64"]
    pub(super) fn value_int64(value: *mut Argument) -> i64;
    #[link_name = "silica_sqlite3_value_double"]
    pub(super) fn value_double(value: *mut Argument) -> f64;
    #[link_name = "silica_sqlite3_value_text"]
    pub(super) fn value_text(value: *mut Argument) -> *const u8;
    #[link_name = "silica_sqlite3_value_blob"]
    pub(super) fn value_blob(value: *mut Argument) -> *const c_void;
    #[link_name = "silica_sqlite3_value_bytes"]
    pub(super) fn value_bytes(value: *mut Argument) -> c_int;
    #[link_name = "silica_sqlite3_result_null"]
    pub(super) fn result_null(context: *mut Context);
    #[link_name = "silica_sqlite3_result_int64"]
    pub(super) fn result_int64(context: *mut Context, value: i64);
    #[link_name = "silica_sqlite3_result_double"]
    pub(super) fn result_double(context: *mut Context, value: f64);
    #[link_name = "silica_sqlite3_result_text64"]
    pub(super) fn result_text64(
        context: *mut Context,
        text: *const c_char,
        bytes: u64,
        destructor: isize,
        encoding: u8,
    );
    #[link_name = "silica_sqlite3_result_blob64"]
    pub(super) fn result_blob64(
        context: *mut Context,
        blob: *const c_void,
        bytes: u64,
        destructor: isize,
    );
    #[link_name = "silica_sqlite3_result_error"]
    pub(super) fn result_error(context: *mut Context, words: *const c_char, bytes: c_int);
    #[cfg(test)]
    #[link_name = "silica_sqlite3_create_collation"]
    pub(super) fn create_collation(
        db: *mut Sqlite,
        name: *const c_char,
        encoding: c_int,
        data: *mut c_void,
        compare: Option<Compare>,
    ) -> c_int;
    pub(super) fn silica_sql_add_series(db: *mut Sqlite) -> c_int;
    pub(super) fn silica_sql_written_by(db: *mut Sqlite) -> u64;
    #[link_name = "silica_sqlite3_total_changes64"]
    pub(super) fn total_changes64(db: *mut Sqlite) -> i64;
    #[link_name = "silica_sqlite3_changes64"]
    pub(super) fn changes64(db: *mut Sqlite) -> i64;
    #[link_name = "silica_sqlite3_last_insert_rowid"]
    pub(super) fn last_insert_rowid(db: *mut Sqlite) -> i64;
    #[link_name = "silica_sqlite3_get_autocommit"]
    pub(super) fn get_autocommit(db: *mut Sqlite) -> c_int;
    #[link_name = "silica_sqlite3_backup_init"]
    pub(super) fn backup_init(
        to: *mut Sqlite,
        to_name: *const c_char,
        from: *mut Sqlite,
        from_name: *const c_char,
    ) -> *mut Backup;
    #[link_name = "silica_sqlite3_backup_step"]
    pub(super) fn backup_step(backup: *mut Backup, pages: c_int) -> c_int;
    #[link_name = "silica_sqlite3_backup_finish"]
    pub(super) fn backup_finish(backup: *mut Backup) -> c_int;
    #[link_name = "silica_sqlite3_snprintf"]
    pub(super) fn snprintf(
        bytes: c_int,
        text: *mut c_char,
        format: *const c_char,
        ...
    ) -> *mut c_char;
    #[link_name = "silica_sqlite3_complete"]
    pub(super) fn complete(sql: *const c_char) -> c_int;
    #[link_name = "silica_sqlite3_prepare_v2"]
    pub(super) fn prepare_v2(
        db: *mut Sqlite,
        sql: *const c_char,
        bytes: c_int,
        statement: *mut *mut Statement,
        tail: *mut *const c_char,
    ) -> c_int;
    #[link_name = "silica_sqlite3_finalize"]
    pub(super) fn finalize(statement: *mut Statement) -> c_int;
    #[link_name = "silica_sqlite3_step"]
    pub(super) fn step(statement: *mut Statement) -> c_int;
    #[link_name = "silica_sqlite3_reset"]
    pub(super) fn reset(statement: *mut Statement) -> c_int;
    #[link_name = "silica_sqlite3_clear_bindings"]
    pub(super) fn clear_bindings(statement: *mut Statement) -> c_int;
    #[link_name = "silica_sqlite3_stmt_readonly"]
    pub(super) fn stmt_readonly(statement: *mut Statement) -> c_int;
    #[link_name = "silica_sqlite3_stmt_isexplain"]
    pub(super) fn stmt_isexplain(statement: *mut Statement) -> c_int;
    #[link_name = "silica_sqlite3_stmt_status"]
    pub(super) fn stmt_status(statement: *mut Statement, what: c_int, resets: c_int) -> c_int;
    #[link_name = "silica_sqlite3_bind_parameter_count"]
    pub(super) fn bind_parameter_count(statement: *mut Statement) -> c_int;
    #[link_name = "silica_sqlite3_bind_parameter_name"]
    pub(super) fn bind_parameter_name(statement: *mut Statement, at: c_int) -> *const c_char;
    #[link_name = "silica_sqlite3_bind_null"]
    pub(super) fn bind_null(statement: *mut Statement, at: c_int) -> c_int;
    #[link_name = "silica_sqlite3_bind_int64"]
    pub(super) fn bind_int64(statement: *mut Statement, at: c_int, value: i64) -> c_int;
    #[link_name = "silica_sqlite3_bind_double"]
    pub(super) fn bind_double(statement: *mut Statement, at: c_int, value: f64) -> c_int;
    #[link_name = "silica_sqlite3_bind_text64"]
    pub(super) fn bind_text64(
        statement: *mut Statement,
        at: c_int,
        text: *const c_char,
        bytes: u64,
        destructor: isize,
        encoding: u8,
    ) -> c_int;
    #[link_name = "silica_sqlite3_bind_blob64"]
    pub(super) fn bind_blob64(
        statement: *mut Statement,
        at: c_int,
        blob: *const c_void,
        bytes: u64,
        destructor: isize,
    ) -> c_int;
    #[link_name = "silica_sqlite3_column_count"]
    pub(super) fn column_count(statement: *mut Statement) -> c_int;
    #[link_name = "silica_sqlite3_column_name"]
    pub(super) fn column_name(statement: *mut Statement, at: c_int) -> *const c_char;
    #[link_name = "silica_sqlite3_column_type"]
    pub(super) fn column_type(statement: *mut Statement, at: c_int) -> c_int;
    #[link_name = "silica_sqlite3_column_int64"]
    pub(super) fn column_int64(statement: *mut Statement, at: c_int) -> i64;
    #[link_name = "silica_sqlite3_column_double"]
    pub(super) fn column_double(statement: *mut Statement, at: c_int) -> f64;
    #[link_name = "silica_sqlite3_column_text"]
    pub(super) fn column_text(statement: *mut Statement, at: c_int) -> *const u8;
    #[link_name = "silica_sqlite3_column_blob"]
    pub(super) fn column_blob(statement: *mut Statement, at: c_int) -> *const c_void;
    #[link_name = "silica_sqlite3_column_bytes"]
    pub(super) fn column_bytes(statement: *mut Statement, at: c_int) -> c_int;
}
