//! What is used of `sqlite3.h`, and connections and statements made of it.

use crate::peers::library::{Source, c_functions, lent, text};
use silica::{Error, ErrorKind, Result};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};

static SQLITE: Source = Source {
    name: "SQLite",
    files: &["libsqlite3.so.0", "libsqlite3.so"],
    package: "libsqlite3-0",
};

/// `sqlite3`.
pub(super) enum Db {}
/// `sqlite3_stmt`.
pub(super) enum Stmt {}
/// What frees a bound value; nothing does where it is `SQLITE_STATIC`.
type Destructor = Option<unsafe extern "C" fn(*mut c_void)>;
/// Told the rows of `sqlite3_exec`.
type Callback =
    Option<unsafe extern "C" fn(*mut c_void, c_int, *mut *mut c_char, *mut *mut c_char) -> c_int>;

/// `SQLITE_FULL`.
const FULL: c_int = 13;
/// `SQLITE_ROW`.
const ROW: c_int = 100;
/// `SQLITE_DONE`.
const DONE: c_int = 101;
/// `SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX`.
const OPEN_FLAGS: c_int = 0x2 | 0x4 | 0x8000;
/// `SQLITE_PREPARE_PERSISTENT`.
const PERSISTENT: c_uint = 1;
/// Longer than any checkpoint that one waits for.
const BUSY_MILLISECONDS: c_int = 60_000;

c_functions! {
    /// SQLite's functions.
    struct Api of SQLITE;

    fn sqlite3_libversion() -> *const c_char;
    fn sqlite3_errmsg(db: *mut Db) -> *const c_char;
    fn sqlite3_errstr(code: c_int) -> *const c_char;
    fn sqlite3_open_v2(
        path: *const c_char,
        db: *mut *mut Db,
        flags: c_int,
        vfs: *const c_char,
    ) -> c_int;
    fn sqlite3_close(db: *mut Db) -> c_int;
    fn sqlite3_busy_timeout(db: *mut Db, milliseconds: c_int) -> c_int;
    fn sqlite3_exec(
        db: *mut Db,
        sql: *const c_char,
        callback: Callback,
        argument: *mut c_void,
        error: *mut *mut c_char,
    ) -> c_int;
    fn sqlite3_prepare_v3(
        db: *mut Db,
        sql: *const c_char,
        bytes: c_int,
        flags: c_uint,
        statement: *mut *mut Stmt,
        tail: *mut *const c_char,
    ) -> c_int;
    fn sqlite3_bind_blob64(
        statement: *mut Stmt,
        index: c_int,
        data: *const c_void,
        bytes: u64,
        destructor: Destructor,
    ) -> c_int;
    fn sqlite3_bind_int64(statement: *mut Stmt, index: c_int, value: i64) -> c_int;
    fn sqlite3_step(statement: *mut Stmt) -> c_int;
    fn sqlite3_reset(statement: *mut Stmt) -> c_int;
    fn sqlite3_column_blob(statement: *mut Stmt, column: c_int) -> *const c_void;
    fn sqlite3_column_bytes(statement: *mut Stmt, column: c_int) -> c_int;
    fn sqlite3_column_int64(statement: *mut Stmt, column: c_int) -> i64;
    fn sqlite3_finalize(statement: *mut Stmt) -> c_int;
}

impl Api {
    /// The version of the library.
    pub(super) fn version(&self) -> String {
        // SAFETY: the text is the library's own.
        unsafe { text(self.sqlite3_libversion()) }
    }
}

/// A connection, used by one thread at a time.
pub(super) struct Connection {
    api: &'static Api,
    db: *mut Db,
}

// SAFETY: the library is built for threads, and what is opened with SQLITE_OPEN_NOMUTEX may be used
// by any thread, by one at a time.
unsafe impl Send for Connection {}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: the statements of the connection are gone before it.
        let code = unsafe { self.api.sqlite3_close(self.db) };
        debug_assert_eq!(code, 0, "a statement outlives its connection");
    }
}

impl Connection {
    pub(super) fn open(api: &'static Api, path: &CStr) -> Result<Self> {
        let mut db = null_mut();
        // SAFETY: the path and the place are alive during the call.
        let code = unsafe { api.sqlite3_open_v2(path.as_ptr(), &mut db, OPEN_FLAGS, null()) };
        // A connection that could not be opened tells why and must be closed.
        let connection = Connection { api, db };
        connection.check(code)?;
        // SAFETY: the connection is open.
        connection.check(unsafe { api.sqlite3_busy_timeout(db, BUSY_MILLISECONDS) })?;
        Ok(connection)
    }

    /// Runs statements that give nothing that is wanted.
    pub(super) fn run(&self, sql: &str) -> Result<()> {
        let sql = c_sql(sql)?;
        // SAFETY: the connection is open; errors are asked for by `check`.
        let code =
            unsafe { self.api.sqlite3_exec(self.db, sql.as_ptr(), None, null_mut(), null_mut()) };
        self.check(code)
    }

    /// A statement that is run many times. It must be dropped before the connection.
    pub(super) fn prepare(&self, sql: &str) -> Result<Statement> {
        let sql = c_sql(sql)?;
        let mut statement = null_mut();
        // SAFETY: the connection is open, the text and the place are alive during the call.
        self.check(unsafe {
            let (text, place) = (sql.as_ptr(), &mut statement);
            self.api.sqlite3_prepare_v3(self.db, text, -1, PERSISTENT, place, null_mut())
        })?;
        Ok(Statement { api: self.api, db: self.db, statement })
    }

    fn check(&self, code: c_int) -> Result<()> {
        check(self.api, self.db, code)
    }
}

fn c_sql(sql: &str) -> Result<CString> {
    CString::new(sql).map_err(|_| Error::new(ErrorKind::Config, "SQL with a zero byte".to_string()))
}

fn check(api: &Api, db: *mut Db, code: c_int) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: both texts are the library's own, and copied before its next call.
    let (what, why) = unsafe {
        let why = if db.is_null() { String::new() } else { text(api.sqlite3_errmsg(db)) };
        (text(api.sqlite3_errstr(code)), why)
    };
    let kind = if code & 0xFF == FULL { ErrorKind::Full } else { ErrorKind::Io };
    Err(Error::new(kind, format!("SQLite: {what} ({why})")))
}

/// A prepared statement.
pub(super) struct Statement {
    api: &'static Api,
    db: *mut Db,
    statement: *mut Stmt,
}

impl Drop for Statement {
    fn drop(&mut self) {
        // SAFETY: it was prepared and is finalized once, before its connection is closed. The code
        // is that of the last step, which has been looked at.
        unsafe { self.api.sqlite3_finalize(self.statement) };
    }
}

impl Statement {
    /// Runs the statement with `parameters`; `row` is called with each row.
    pub(super) fn run(
        &mut self,
        parameters: &[Parameter<'_>],
        mut row: impl FnMut(Row<'_>),
    ) -> Result<()> {
        let api = self.api;
        for (index, parameter) in (1..).zip(parameters) {
            // SAFETY: the statement is reset. Bound bytes stay alive while it is stepped, and are
            // not looked at afterwards, as it is never stepped before it is bound again.
            self.check(unsafe {
                match parameter {
                    Parameter::Bytes(bytes) => {
                        let (data, length) = (bytes.as_ptr().cast(), bytes.len() as u64);
                        api.sqlite3_bind_blob64(self.statement, index, data, length, None)
                    }
                    Parameter::Count(count) => {
                        api.sqlite3_bind_int64(self.statement, index, *count as i64)
                    }
                }
            })?;
        }
        let code = loop {
            // SAFETY: the statement is bound; columns are asked for only where there is a row.
            match unsafe { api.sqlite3_step(self.statement) } {
                ROW => row(Row(self)),
                code => break code,
            }
        };
        // The message is that of the step; a reset gives the same code again.
        let outcome = if code == DONE { Ok(()) } else { self.check(code) };
        // SAFETY: the statement was stepped.
        unsafe { api.sqlite3_reset(self.statement) };
        outcome
    }

    /// Runs a statement that takes and gives nothing.
    pub(super) fn run_plain(&mut self) -> Result<()> {
        self.run(&[], |_| {})
    }

    fn check(&self, code: c_int) -> Result<()> {
        check(self.api, self.db, code)
    }
}

/// A value to bind.
pub(super) enum Parameter<'a> {
    Bytes(&'a [u8]),
    Count(usize),
}

/// The row that a statement stands on.
pub(super) struct Row<'a>(&'a Statement);

impl Row<'_> {
    /// The bytes of a column.
    pub(super) fn bytes(&self, column: c_int) -> &[u8] {
        let Statement { api, statement, .. } = self.0;
        // SAFETY: there is a row, whose bytes stay until the next step; that borrows the statement.
        unsafe {
            let data = api.sqlite3_column_blob(*statement, column);
            lent(data.cast(), api.sqlite3_column_bytes(*statement, column) as usize)
        }
    }

    /// A column that is a number.
    pub(super) fn number(&self, column: c_int) -> i64 {
        // SAFETY: there is a row.
        unsafe { self.0.api.sqlite3_column_int64(self.0.statement, column) }
    }
}
