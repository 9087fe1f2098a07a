//! SQL for Rust: connections, statements, rows.
//!
//! ```
//! # let scratch = tempfile::tempdir()?;
//! # let path = scratch.path().join("app.db");
//! use silica_sql::sql::{Sql, Value};
//!
//! let mut sql = Sql::open(&path)?;
//! sql.execute("CREATE TABLE users (name TEXT PRIMARY KEY, likes TEXT)", &[])?;
//! sql.execute("INSERT INTO users VALUES (?, ?)", &["ann".into(), "blue".into()])?;
//! let rows = sql.query("SELECT likes FROM users WHERE name = ?", &["ann".into()])?;
//! assert_eq!(rows, [[Value::from("blue")]]);
//!
//! // All of it, or nothing.
//! sql.transaction(|sql| {
//!     sql.execute("DELETE FROM users WHERE name = 'ann'", &[])?;
//!     sql.execute("INSERT INTO users VALUES ('bob', 'green')", &[])
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod copy;
mod functions;
mod hooks;
mod row;
mod sys;
mod value;
mod work;

pub use hooks::Untrusted;
pub use value::{Value, ValueRef};
pub use work::{Answers, Work};

use crate::database::Database;
use crate::in_store::{self, Ticket};
use crate::keyspaces::Keyspaces;
use silica::Silica;
use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt;
use std::marker::PhantomData;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{NonNull, null, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What SQLite refuses, in its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlError {
    /// SQLite's extended result code.
    pub code: i32,
    /// SQLite's message.
    pub message: String,
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (SQLite's code {})", self.message, self.code)
    }
}

impl std::error::Error for SqlError {}

/// Result of SQL.
pub type Result<T, E = SqlError> = std::result::Result<T, E>;

fn text_of(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: SQLite's texts end with a zero byte, and stay until the next call.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn error_of(db: *mut sys::Sqlite, code: c_int) -> SqlError {
    if db.is_null() {
        // SAFETY: the text is static.
        return SqlError { code, message: text_of(unsafe { sys::errstr(code) }) };
    }
    // SAFETY: an open connection, which one thread uses.
    let (code, message) = unsafe { (sys::extended_errcode(db), text_of(sys::errmsg(db))) };
    SqlError { code, message }
}

fn c_string(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| SqlError {
        code: 21,
        message: "a text with a zero byte cannot be SQL; bind it as a parameter".to_string(),
    })
}

/// See [`Sql::counts`]. Statements are counted that may be kept, and results that may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatementCounts {
    /// Statements that were compiled.
    pub compiled: u64,
    /// Statements that were prepared without being compiled.
    pub taken: u64,
    /// Results that a statement's program came to.
    pub computed: u64,
    /// Results that were kept, and handed out.
    pub served: u64,
}

/// A connection to a database: a Silica database, a file of SQLite's, or `:memory:`. One thread
/// uses it at a time.
pub struct Sql {
    db: NonNull<sys::Sqlite>,
    /// What the connection asks now and then.
    hooks: hooks::Hooks,
}

// SAFETY: SQLite is built for several threads; a connection belongs to whoever has it.
unsafe impl Send for Sql {}

impl Sql {
    /// Opens the database at `path`, which may be a `file:` URI, and makes it if it is not there.
    ///
    /// # Errors
    /// `SQLITE_CANTOPEN` and others, in SQLite's words.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Sql::open_with(path, sys::OPEN_READWRITE | sys::OPEN_CREATE)
    }

    /// Opens a database that is there, for reading only.
    ///
    /// # Errors
    /// As of [`Sql::open`].
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self> {
        Sql::open_with(path, sys::OPEN_READONLY)
    }

    /// Opens the database in the keyspace `name` of a store that the program has open, and makes
    /// it if it is not there. All of them in a process share its transactions, and the store's
    /// memory, log and backup. `silica_keyspace` shows the other keyspaces of the store.
    ///
    /// # Errors
    /// `SQLITE_CANTOPEN` if the keyspace holds keys of something else, or its engine keeps no
    /// order.
    pub fn in_store(store: &Arc<Silica>, name: &str) -> Result<Self> {
        let database = Sql::database(store, name)?;
        Sql::to(&database, Arc::clone(store) as Arc<dyn Keyspaces>, name)
    }

    /// The database in the keyspace `name` of a store, for [`Sql::to`].
    ///
    /// # Errors
    /// As of [`Sql::in_store`].
    pub fn database(store: &Silica, name: &str) -> Result<Arc<Database>> {
        in_store::database_in(store, name)
            .map_err(|failure| SqlError { code: failure.code, message: failure.words })
    }

    /// A connection to a database in a store, whose `keyspaces` are what `silica_keyspace` shows.
    /// The connection calls it `name`.
    ///
    /// # Errors
    /// As of [`Sql::open`].
    pub fn to(database: &Arc<Database>, keyspaces: Arc<dyn Keyspaces>, name: &str) -> Result<Self> {
        let ticket = Ticket { database: Arc::clone(database), keyspaces };
        let number = in_store::give_ticket(ticket);
        let escaped: String = name.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let uri = format!("file:{escaped}?silica_store={number}");
        let opened = Sql::open_with(uri, sys::OPEN_READWRITE);
        // It was taken, or the opening has failed before.
        drop(in_store::take_ticket(number));
        opened
    }

    fn open_with(path: impl AsRef<Path>, flags: c_int) -> Result<Self> {
        let path = CString::new(path.as_ref().as_os_str().as_bytes());
        let path =
            path.map_err(|_| SqlError { code: 14, message: "a path with a zero byte".into() })?;
        let mut db = null_mut();
        // SAFETY: the path ends with a zero byte, and `db` may be written.
        let code =
            unsafe { sys::open_v2(path.as_ptr(), &raw mut db, flags | sys::OPEN_URI, null()) };
        let error = (code != sys::OK).then(|| error_of(db, code));
        let Some(open) = NonNull::new(db) else {
            return Err(error.unwrap_or_else(|| error_of(null_mut(), code)));
        };
        let sql = Sql { db: open, hooks: hooks::Hooks::default() };
        if let Some(error) = error {
            return Err(error);
        }
        // SAFETY: an open connection.
        unsafe { sys::extended_result_codes(db, 1) };
        Ok(sql)
    }

    fn check(&self, code: c_int) -> Result<()> {
        if code == sys::OK { Ok(()) } else { Err(error_of(self.db.as_ptr(), code)) }
    }

    /// Waits so long for another writer.
    pub fn set_busy_timeout(&mut self, time: Duration) {
        let ms = c_int::try_from(time.as_millis()).unwrap_or(c_int::MAX);
        // SAFETY: an open connection.
        unsafe { sys::busy_timeout(self.db.as_ptr(), ms) };
    }

    /// Ends a statement that runs, with `SQLITE_INTERRUPT`, while `flag` is set.
    pub fn set_interruption(&mut self, flag: Arc<AtomicBool>) {
        self.set_progress(move |_| flag.load(Ordering::Relaxed));
    }

    /// Rows that the last statement changed.
    pub fn changes(&self) -> i64 {
        // SAFETY: an open connection.
        unsafe { sys::changes64(self.db.as_ptr()) }
    }

    /// Rows that all statements have changed since it was opened, those of triggers included.
    pub fn total_changes(&self) -> i64 {
        // SAFETY: an open connection.
        unsafe { sys::total_changes64(self.db.as_ptr()) }
    }

    /// The rowid that the last INSERT gave.
    pub fn last_insert_rowid(&self) -> i64 {
        // SAFETY: an open connection.
        unsafe { sys::last_insert_rowid(self.db.as_ptr()) }
    }

    /// How often this connection did without compiling a statement, and without running one.
    pub fn counts(&self) -> StatementCounts {
        let mut counts = [0; 4];
        // SAFETY: an open connection, and four numbers that may be written.
        unsafe { sys::statement_counts(self.db.as_ptr(), counts.as_mut_ptr()) };
        let [compiled, taken, computed, served] = counts;
        StatementCounts { compiled, taken, computed, served }
    }

    /// True within a transaction.
    pub fn is_in_transaction(&self) -> bool {
        // SAFETY: an open connection.
        unsafe { sys::get_autocommit(self.db.as_ptr()) == 0 }
    }

    /// Prepares the first statement of `sql`, and says how many bytes of it that was; `None` if
    /// there is only white space and comments.
    ///
    /// # Errors
    /// What SQLite says of the text.
    pub fn prepare_first(&self, sql: &str) -> Result<(Option<Statement<'_>>, usize)> {
        self.prepare_text(&c_string(sql)?)
    }

    /// As [`Sql::prepare_first`], of a text that is not copied: who goes through a script copies it
    /// once.
    fn prepare_text(&self, text: &CStr) -> Result<(Option<Statement<'_>>, usize)> {
        let (mut statement, mut tail) = (null_mut(), null());
        // SAFETY: an open connection, a text with a zero byte, and results that may be written.
        let code = unsafe {
            let db = self.db.as_ptr();
            sys::prepare_v2(db, text.as_ptr(), -1, &raw mut statement, &raw mut tail)
        };
        self.check(code)?;
        let used = tail as usize - text.as_ptr() as usize;
        let statement = NonNull::new(statement);
        Ok((statement.map(|raw| Statement { sql: self, raw, row: PhantomData }), used))
    }

    /// Prepares one statement.
    ///
    /// # Errors
    /// What SQLite says of it; `SQLITE_MISUSE` for a text without a statement.
    pub fn prepare(&self, sql: &str) -> Result<Statement<'_>> {
        let none = || SqlError { code: 21, message: "there is no statement in this text".into() };
        self.prepare_first(sql)?.0.ok_or_else(none)
    }

    /// Runs one statement with parameters, and returns how many rows it changed.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn execute(&mut self, sql: &str, parameters: &[Value]) -> Result<i64> {
        let mut statement = self.prepare(sql)?;
        statement.bind(parameters)?;
        while statement.step()? {}
        drop(statement);
        Ok(self.changes())
    }

    /// Runs all statements of a text.
    ///
    /// # Errors
    /// What SQLite says of the first that fails; those before it have happened.
    pub fn run(&mut self, sql: &str) -> Result<()> {
        let script = c_string(sql)?;
        let mut text = &*script;
        while !text.is_empty() {
            let (statement, used) = self.prepare_text(text)?;
            if let Some(mut statement) = statement {
                while statement.step()? {}
            }
            text = &text[used..];
        }
        Ok(())
    }

    /// All rows of one statement.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn query(&mut self, sql: &str, parameters: &[Value]) -> Result<Vec<Vec<Value>>> {
        let mut statement = self.prepare(sql)?;
        statement.bind(parameters)?;
        let mut rows = Vec::new();
        while statement.step()? {
            rows.push(statement.row());
        }
        Ok(rows)
    }

    /// Runs `work` in a transaction, which is taken back if it fails.
    ///
    /// # Errors
    /// That of `work`, or of BEGIN or COMMIT.
    pub fn transaction<T>(&mut self, work: impl FnOnce(&mut Sql) -> Result<T>) -> Result<T> {
        self.execute("BEGIN IMMEDIATE", &[])?;
        let done = work(self).and_then(|done| self.execute("COMMIT", &[]).map(|_| done));
        if done.is_err() && self.is_in_transaction() {
            self.execute("ROLLBACK", &[])?;
        }
        done
    }
}

impl Drop for Sql {
    fn drop(&mut self) {
        // SAFETY: an open connection; statements borrow it, so none is left.
        unsafe { sys::close_v2(self.db.as_ptr()) };
    }
}

/// What SQLite makes of a real number that becomes text.
fn text_of_real(value: f64) -> String {
    const BYTES: usize = 64;
    let mut text = [0_u8; BYTES];
    // SAFETY: SQLite writes so many bytes at most, the last one a zero, and the format takes one
    // number.
    unsafe {
        sys::snprintf(BYTES as c_int, text.as_mut_ptr().cast(), c"%!.17g".as_ptr(), value);
    }
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(BYTES);
    String::from_utf8_lossy(&text[..end]).into_owned()
}

/// True if `sql` ends with a whole statement, as a prompt wants to know.
pub fn is_complete(sql: &str) -> bool {
    // SAFETY: the text ends with a zero byte.
    CString::new(sql).is_ok_and(|text| unsafe { sys::complete(text.as_ptr()) != 0 })
}

/// A prepared statement.
pub struct Statement<'s> {
    sql: &'s Sql,
    raw: NonNull<sys::Statement>,
    /// One thread uses it with its connection.
    row: PhantomData<*mut ()>,
}

impl Statement<'_> {
    fn raw(&self) -> *mut sys::Statement {
        self.raw.as_ptr()
    }

    /// Gives the parameters their values, from the first one on, and begins anew.
    ///
    /// # Errors
    /// `SQLITE_RANGE` if there are more values than parameters.
    pub fn bind(&mut self, parameters: &[Value]) -> Result<()> {
        self.reset();
        for (at, value) in parameters.iter().enumerate() {
            self.bind_one(at + 1, value.as_ref())?;
        }
        Ok(())
    }

    /// Gives parameter `at`, from 1 on, a value.
    ///
    /// # Errors
    /// `SQLITE_RANGE` if there are not so many.
    pub fn bind_one(&mut self, at: usize, value: ValueRef<'_>) -> Result<()> {
        const UTF8: u8 = 1;
        let at = c_int::try_from(at).unwrap_or(c_int::MAX);
        let raw = self.raw();
        // SAFETY: a statement of an open connection; SQLite copies the bytes, which are as many as
        // is said.
        let code = unsafe {
            match value {
                ValueRef::Null => sys::bind_null(raw, at),
                ValueRef::Integer(value) => sys::bind_int64(raw, at, value),
                ValueRef::Real(value) => sys::bind_double(raw, at, value),
                ValueRef::Text(text) => {
                    let (start, len) = (text.as_ptr().cast(), text.len() as u64);
                    sys::bind_text64(raw, at, start, len, sys::TRANSIENT, UTF8)
                }
                ValueRef::Blob(bytes) => {
                    let (start, len) = (bytes.as_ptr().cast(), bytes.len() as u64);
                    sys::bind_blob64(raw, at, start, len, sys::TRANSIENT)
                }
            }
        };
        self.sql.check(code)
    }

    /// To the next row; false at the end.
    ///
    /// # Errors
    /// What SQLite says.
    pub fn step(&mut self) -> Result<bool> {
        // SAFETY: a statement of an open connection.
        match unsafe { sys::step(self.raw()) } {
            sys::ROW => Ok(true),
            sys::DONE => {
                self.reset();
                Ok(false)
            }
            code => {
                let error = error_of(self.sql.db.as_ptr(), code);
                self.reset();
                Err(error)
            }
        }
    }

    /// Before the first row.
    pub fn reset(&mut self) {
        // SAFETY: a statement of an open connection; what it returns is the last error once more.
        unsafe { sys::reset(self.raw()) };
    }

    /// Forgets the values of the parameters.
    pub fn clear(&mut self) {
        // SAFETY: a statement of an open connection.
        unsafe { sys::clear_bindings(self.raw()) };
    }

    /// True if it changes nothing.
    pub fn is_read_only(&self) -> bool {
        // SAFETY: a statement of an open connection.
        unsafe { sys::stmt_readonly(self.raw()) != 0 }
    }

    /// How many parameters it has.
    pub fn parameters(&self) -> usize {
        // SAFETY: a statement of an open connection.
        unsafe { sys::bind_parameter_count(self.raw()) as usize }
    }

    /// The name of parameter `at`, from 1 on, as it stands in the text, with its `:`, `@`, `$` or
    /// `?`; `None` for a plain `?` and for one that is not there.
    pub fn parameter_name(&self, at: usize) -> Option<String> {
        let at = c_int::try_from(at).ok()?;
        // SAFETY: a statement of an open connection; SQLite answers for any number.
        let name = unsafe { sys::bind_parameter_name(self.raw(), at) };
        (!name.is_null()).then(|| text_of(name))
    }

    /// The names of its columns; none for a statement without rows.
    pub fn columns(&self) -> Vec<String> {
        // SAFETY: a statement of an open connection.
        let count = unsafe { sys::column_count(self.raw()) };
        let name = |at| {
            // SAFETY: a statement of an open connection, and a column that is there.
            text_of(unsafe { sys::column_name(self.raw(), at) })
        };
        (0..count).map(name).collect()
    }

    /// The value of column `at`, from 0 on, of the row here; NULL for one that is not there.
    pub fn value(&self, at: usize) -> ValueRef<'_> {
        let (raw, at) = (self.raw(), c_int::try_from(at).unwrap_or(c_int::MAX));
        // SAFETY: a statement of an open connection; SQLite answers for any column. The bytes stay
        // until the next step, which takes the statement mutably.
        unsafe {
            let bytes = |start: *const u8| {
                let len = sys::column_bytes(raw, at) as usize;
                if start.is_null() { &[][..] } else { std::slice::from_raw_parts(start, len) }
            };
            match sys::column_type(raw, at) {
                sys::INTEGER => ValueRef::Integer(sys::column_int64(raw, at)),
                sys::FLOAT => ValueRef::Real(sys::column_double(raw, at)),
                sys::TEXT => ValueRef::Text(bytes(sys::column_text(raw, at))),
                sys::BLOB => ValueRef::Blob(bytes(sys::column_blob(raw, at).cast())),
                _ => ValueRef::Null,
            }
        }
    }

    /// All values of the row here.
    pub fn row(&self) -> Vec<Value> {
        // SAFETY: a statement of an open connection.
        let count = unsafe { sys::column_count(self.raw()) } as usize;
        (0..count).map(|at| self.value(at).to_owned()).collect()
    }
}

impl Drop for Statement<'_> {
    fn drop(&mut self) {
        // SAFETY: a statement of an open connection, which is used no more.
        unsafe { sys::finalize(self.raw()) };
    }
}
