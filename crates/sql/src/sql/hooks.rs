//! What a connection asks its program: whether a statement goes on, whether it waits for another
//! writer, and what statements of strangers may do.

use super::{Sql, sys};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Steps of the machine between two questions whether a statement goes on: about 0.1 ms.
const STEPS_UNHEARD: c_int = 10_000;

/// The question, and the connection that it is about.
struct Progress {
    db: *mut sys::Sqlite,
    is_over: Box<dyn FnMut(u64) -> bool + Send>,
}

type Busy = Box<dyn FnMut(u32) -> bool + Send>;

/// Boxed twice: SQLite keeps a thin pointer, which must not move.
#[derive(Default)]
pub(super) struct Hooks {
    /// Kept for SQLite alone.
    progress: Option<Box<Progress>>,
    busy: Option<Box<Busy>>,
}

/// Limits of statements that somebody sends whom the program does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Untrusted {
    /// Bytes of a text, a blob, a row or a statement at most.
    pub value_bytes_max: usize,
}

extern "C" fn is_over(hook: *mut c_void) -> c_int {
    // SAFETY: set_progress gave the hook, which lives as long as the connection; one thread uses
    // that at a time.
    let hook = unsafe { &mut *hook.cast::<Progress>() };
    // SAFETY: an open connection, whose own statement asks.
    let written_bytes = unsafe { sys::silica_sql_written_by(hook.db) };
    // A panic must not enter SQLite: the statement ends.
    let asked = catch_unwind(AssertUnwindSafe(|| (hook.is_over)(written_bytes)));
    c_int::from(asked.unwrap_or(true))
}

extern "C" fn waits(hook: *mut c_void, times: c_int) -> c_int {
    // SAFETY: set_busy gave the hook, which lives as long as the connection; one thread uses that
    // at a time.
    let hook = unsafe { &mut *hook.cast::<Busy>() };
    let times = u32::try_from(times).unwrap_or(0);
    c_int::from(catch_unwind(AssertUnwindSafe(|| hook(times))).unwrap_or(false))
}

const ALLOWED: c_int = 0;
const DENIED: c_int = 1;

/// `SQLITE_PRAGMA` and others of `sqlite3.h`.
const PRAGMA: c_int = 19;
const ATTACH: c_int = 24;
const DETACH: c_int = 25;
const FUNCTION: c_int = 31;

/// Settings that concern the connection alone, its own answers, or nothing.
const PRAGMAS: &[&str] = &[
    "application_id",
    "auto_vacuum",
    "automatic_index",
    "cache_size",
    "case_sensitive_like",
    "cell_size_check",
    "collation_list",
    "compile_options",
    "count_changes",
    "data_version",
    "database_list",
    "defer_foreign_keys",
    "encoding",
    "foreign_key_check",
    "foreign_key_list",
    "foreign_keys",
    "freelist_count",
    "full_column_names",
    "function_list",
    "ignore_check_constraints",
    "incremental_vacuum",
    "index_info",
    "index_list",
    "index_xinfo",
    "integrity_check",
    "journal_mode",
    "legacy_alter_table",
    "locking_mode",
    "module_list",
    "optimize",
    "page_count",
    "page_size",
    "pragma_list",
    "query_only",
    "quick_check",
    "read_uncommitted",
    "recursive_triggers",
    "reverse_unordered_selects",
    "schema_version",
    "short_column_names",
    "synchronous",
    "table_info",
    "table_list",
    "table_xinfo",
    "temp_store",
    "user_version",
    "wal_checkpoint",
];

/// A text of SQLite's; the empty one if it is not UTF-8.
fn text<'t>(text: *const c_char) -> &'t str {
    if text.is_null() {
        return "";
    }
    // SAFETY: SQLite's texts end with a zero byte and stay until the call returns.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap_or("")
}

extern "C" fn authorize(
    _: *mut c_void,
    kind: c_int,
    first: *const c_char,
    second: *const c_char,
    _: *const c_char,
    _: *const c_char,
) -> c_int {
    let is_allowed = match kind {
        ATTACH | DETACH => false,
        FUNCTION => !text(second).eq_ignore_ascii_case("load_extension"),
        PRAGMA => PRAGMAS.iter().any(|name| text(first).eq_ignore_ascii_case(name)),
        _ => true,
    };
    if is_allowed { ALLOWED } else { DENIED }
}

impl Sql {
    /// Ends a statement that runs, with `SQLITE_INTERRUPT`, once `is_over` says so, which is told
    /// [`Sql::written_bytes`]. It is asked every 10,000 steps of SQLite's machine; one step that
    /// goes over a whole tree is not interrupted.
    pub fn set_progress(&mut self, is_over: impl FnMut(u64) -> bool + Send + 'static) {
        let (db, is_over) = (self.db.as_ptr(), Box::new(is_over));
        let mut hook = Box::new(Progress { db, is_over });
        let raw: *mut Progress = &raw mut *hook;
        // SAFETY: an open connection; the hook lives as long as it, in `hooks`.
        unsafe {
            let db = self.db.as_ptr();
            sys::progress_handler(db, STEPS_UNHEARD, Some(self::is_over), raw.cast());
        }
        self.hooks.progress = Some(hook);
    }

    /// Bytes of memory that the writes of the open transaction take until its commit.
    pub fn written_bytes(&self) -> u64 {
        // SAFETY: an open connection.
        unsafe { sys::silica_sql_written_by(self.db.as_ptr()) }
    }

    /// Has `waits` decide, by how often it was asked before, whether a statement that finds
    /// another writer tries once more. It replaces [`Sql::set_busy_timeout`], and waits itself.
    pub fn set_busy(&mut self, waits: impl FnMut(u32) -> bool + Send + 'static) {
        let mut hook: Box<Busy> = Box::new(Box::new(waits));
        let raw: *mut Busy = &raw mut *hook;
        // SAFETY: an open connection; the hook lives as long as it, in `hooks`.
        unsafe { sys::busy_handler(self.db.as_ptr(), Some(self::waits), raw.cast()) };
        self.hooks.busy = Some(hook);
    }

    /// From now on statements reach nothing but this database: no other files (ATTACH, VACUUM
    /// INTO), no libraries, and no settings that concern the process. None of them can be reversed
    /// by a statement.
    pub fn distrust(&mut self, limits: Untrusted) {
        const LENGTH: c_int = 0;
        const SQL_LENGTH: c_int = 1;
        const EXPRESSION_DEPTH: c_int = 3;
        const ATTACHED: c_int = 7;
        const DEFENSIVE: c_int = 1010;
        const DEPTH_MAX: c_int = 200;
        let bytes = c_int::try_from(limits.value_bytes_max).unwrap_or(c_int::MAX);
        let db = self.db.as_ptr();
        let none = std::ptr::null_mut::<c_int>();
        // SAFETY: an open connection; the variable arguments are what these settings take: a
        // number, and where to put what it is, or null.
        unsafe {
            sys::set_authorizer(db, Some(authorize), std::ptr::null_mut());
            sys::limit(db, LENGTH, bytes);
            sys::limit(db, SQL_LENGTH, bytes);
            sys::limit(db, EXPRESSION_DEPTH, DEPTH_MAX);
            sys::limit(db, ATTACHED, 0);
            sys::db_config(db, DEFENSIVE, 1 as c_int, none);
        }
    }
}
