//! The calls of `shim/silica_store.h`, which says what each does, but for
//! `silica_sql_place`, which is in `ffi_marker.rs`, those of cursors, in `ffi_cursor.rs`, and those
//! of keyspaces and of objects as tables, in `ffi_tables.rs` and `ffi_objects.rs`.
//!
//! What the callers in C uphold, and every SAFETY comment here refers to:
//!
//! 1. A pointer to a database or a cursor is null, or came from `silica_sql_open` or
//!    `silica_sql_cursor_open` and was not closed since. One thread uses a database and its cursors
//!    at a time, and hands them to another one by what orders memory: their reference counts are
//!    not atomic.
//! 2. A pointer to a result is null, or may be written.
//! 3. Texts end with a zero byte; bytes, fields and columns are as many as the call says, and stay
//!    until it returns.
//!
//! A null pointer where there must be one is `MISUSE`. A panic ends here, as `INTERNAL`.

use crate::connection::Connection;
use crate::encoding::{Collation, Column, Field};
use crate::failure::{Failure, Result, code};
use crate::in_store::take_ticket;
use crate::keyspaces::Keyspaces;
use crate::registry::Options;
use crate::storage::Session;
use crate::tables::Tables;
use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::Arc;

/// The last error of a database, which its cursors set, too.
pub(crate) struct LastError {
    code: c_int,
    words: CString,
}

impl Default for LastError {
    fn default() -> Self {
        LastError { code: code::IOERR, words: CString::default() }
    }
}

pub(crate) type Words = Rc<RefCell<LastError>>;

/// A database as one connection has it.
pub(crate) struct SilicaDb {
    /// Dropped first: their snapshots keep engines open.
    pub(crate) tables: Rc<Tables>,
    pub(crate) connection: Connection,
    pub(crate) words: Words,
}

impl SilicaDb {
    fn into_raw(connection: Connection, keyspaces: Option<Arc<dyn Keyspaces>>) -> *mut Self {
        let (tables, words) = (Rc::new(Tables::of(keyspaces)), Words::default());
        Box::into_raw(Box::new(SilicaDb { tables, connection, words }))
    }
}

/// Bytes or a number, as the field's type says.
#[repr(C)]
#[derive(Clone, Copy)]
union SilicaValue {
    integer: i64,
    real: f64,
    bytes: *const u8,
}

/// A value of a column.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct SilicaField {
    kind: i32,
    size: u32,
    value: SilicaValue,
}

/// How a column is compared.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct SilicaColumn {
    collation: u8,
    flags: u8,
}

const INTEGER: i32 = 1;
const REAL: i32 = 2;
const TEXT: i32 = 3;
const BLOB: i32 = 4;
const NOCASE: u8 = 1;
const RTRIM: u8 = 2;
const DESCENDING: u8 = 1;
const NULLS_LAST: u8 = 2;
const CREATE: c_int = 1;
const READ_ONLY: c_int = 2;

/// Fields that are taken without an allocation.
const FIELDS_INLINE: usize = 8;

fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', "?")).unwrap_or_default()
}

/// Runs a call, and makes a result code of what comes of it.
pub(crate) fn guard(words: Option<&Words>, call: impl FnOnce() -> Result<c_int>) -> c_int {
    let failure = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(code)) => return code,
        Ok(Err(failure)) => failure,
        Err(_) => Failure::new(code::INTERNAL, "a panic in silica-sql; the log has its message"),
    };
    if let Some(words) = words {
        *words.borrow_mut() = LastError { code: failure.code, words: c_text(&failure.words) };
    }
    failure.code
}

fn null_pointer() -> Failure {
    Failure::misuse("a null pointer")
}

pub(crate) fn with_db(db: *mut SilicaDb, call: impl FnOnce(&Connection) -> Result<()>) -> c_int {
    // SAFETY: null or an open database, by rule 1.
    match unsafe { db.as_ref() } {
        None => code::MISUSE,
        Some(db) => guard(Some(&db.words), || call(&db.connection).map(|()| code::OK)),
    }
}

/// Writes a result.
pub(crate) fn set<T>(result: *mut T, value: T) -> Result<()> {
    if result.is_null() {
        return Err(null_pointer());
    }
    // SAFETY: not null, so it may be written, by rule 2.
    unsafe { result.write(value) };
    Ok(())
}

/// `count` things from `first` on; none if it is null.
///
/// # Safety
/// So many are there until the call returns that asks for them.
pub(crate) unsafe fn slice<'s, T>(first: *const T, count: usize) -> &'s [T] {
    if first.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: by the contract of this function.
    unsafe { std::slice::from_raw_parts(first, count) }
}

/// A text; the empty one if it is null.
///
/// # Safety
/// It ends with a zero byte and stays until the call returns that asks for it.
pub(crate) unsafe fn text<'t>(text: *const c_char) -> &'t CStr {
    if text.is_null() {
        return c"";
    }
    // SAFETY: by the contract of this function.
    unsafe { CStr::from_ptr(text) }
}

/// A field as Rust has it.
///
/// # Safety
/// Its bytes are there until the call returns that asks for them.
unsafe fn field<'f>(field: &SilicaField) -> Field<'f> {
    let SilicaField { kind, size, value } = *field;
    // SAFETY: the type says which of the values is there, by the contract of this function.
    unsafe {
        match kind {
            INTEGER => Field::Integer(value.integer),
            REAL => Field::Real(value.real),
            TEXT => Field::Text(slice(value.bytes, size as usize)),
            BLOB => Field::Blob(slice(value.bytes, size as usize)),
            _ => Field::Null,
        }
    }
}

/// Calls `call` with the fields as Rust has them.
///
/// # Safety
/// So many fields are there, and their bytes, until this returns.
pub(crate) unsafe fn with_fields<T>(
    fields: *const SilicaField,
    count: c_int,
    call: impl FnOnce(&[Field<'_>]) -> T,
) -> T {
    // SAFETY: by the contract of this function.
    let given = unsafe { slice(fields, usize::try_from(count).unwrap_or_default()) };
    if given.len() > FIELDS_INLINE {
        // SAFETY: by the contract of this function.
        let all: Vec<_> = given.iter().map(|given| unsafe { field(given) }).collect();
        return call(&all);
    }
    let mut some = [Field::Null; FIELDS_INLINE];
    for (some, given) in some.iter_mut().zip(given) {
        // SAFETY: by the contract of this function.
        *some = unsafe { field(given) };
    }
    call(&some[..given.len()])
}

pub(crate) fn column(column: &SilicaColumn) -> Column {
    let collation = match column.collation {
        NOCASE => Collation::NoCase,
        RTRIM => Collation::Rtrim,
        _ => Collation::Binary,
    };
    Column {
        collation,
        is_descending: column.flags & DESCENDING != 0,
        moves_nulls: column.flags & NULLS_LAST != 0,
    }
}

/// Opens a store.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_open(
    directory: *const c_char,
    flags: c_int,
    options: *const c_char,
    db: *mut *mut SilicaDb,
    message: *mut *mut c_char,
) -> c_int {
    let words = Words::default();
    let result = guard(Some(&words), || {
        set(db, null_mut())?;
        // SAFETY: by rule 3.
        let (directory, options) = unsafe { (text(directory), text(options)) };
        let mut opened = Options {
            creates: flags & CREATE != 0,
            is_read_only: flags & READ_ONLY != 0,
            ..Options::default()
        };
        opened.read(&options.to_string_lossy())?;
        let path = Path::new(OsStr::from_bytes(directory.to_bytes()));
        let connection = Connection::open(path, opened)?;
        let keyspaces = connection.keyspaces();
        set(db, SilicaDb::into_raw(connection, keyspaces))?;
        Ok(code::OK)
    });
    tell(result, &words, message)
}

/// Opens a database in a store that is open.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_open_in_store(
    ticket: *const c_char,
    db: *mut *mut SilicaDb,
    message: *mut *mut c_char,
) -> c_int {
    let words = Words::default();
    let result = guard(Some(&words), || {
        set(db, null_mut())?;
        // SAFETY: by rule 3.
        let number = unsafe { text(ticket) }.to_str().ok().and_then(|text| text.parse().ok());
        let ticket = number.and_then(take_ticket).ok_or_else(|| {
            let words = "databases in stores that a program has open are opened by Sql::in_store";
            Failure::new(code::CANTOPEN, words)
        })?;
        let connection = Connection::to(ticket.database);
        set(db, SilicaDb::into_raw(connection, Some(ticket.keyspaces)))?;
        Ok(code::OK)
    });
    tell(result, &words, message)
}

/// Hands the words of an error to C.
fn tell(result: c_int, words: &Words, message: *mut *mut c_char) -> c_int {
    let words = if result == code::OK { null_mut() } else { words.take().words.into_raw() };
    if set(message, words).is_err() && !words.is_null() {
        // SAFETY: made right here.
        drop(unsafe { CString::from_raw(words) });
    }
    result
}

/// Closes a database; its cursors were closed before.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_close(db: *mut SilicaDb) {
    guard(None, || {
        if !db.is_null() {
            // SAFETY: made by `silica_sql_open` and closed once, by rule 1.
            drop(unsafe { Box::from_raw(db) });
        }
        Ok(code::OK)
    });
}

/// Frees a text that `silica_sql_open` has made.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_free_text(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: made by `CString::into_raw`, and freed once.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// The last error in words, until the next one.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_message(db: *mut SilicaDb) -> *const c_char {
    // SAFETY: by rule 1.
    match unsafe { db.as_ref() } {
        Some(db) => db.words.borrow().words.as_ptr(),
        None => c"no database".as_ptr(),
    }
}

/// The code of the last error.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_code(db: *mut SilicaDb) -> c_int {
    // SAFETY: by rule 1.
    match unsafe { db.as_ref() } {
        Some(db) => db.words.borrow().code,
        None => code::MISUSE,
    }
}

/// Begins a transaction.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_begin(db: *mut SilicaDb, write: c_int) -> c_int {
    with_db(db, |connection| match write {
        0 => connection.begin(false),
        1 => connection.begin(true),
        _ => connection.begin_exclusive(),
    })
}

/// Asks whether transactions write beside others, or lets them.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_concurrent(
    db: *mut SilicaDb,
    on: c_int,
    is_on: *mut c_int,
) -> c_int {
    with_db(db, |connection| {
        if on >= 0 {
            connection.set_concurrent(on > 0)?;
        }
        set(is_on, c_int::from(connection.is_concurrent()))
    })
}

/// Commits.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_commit(db: *mut SilicaDb, synced: c_int, keep: c_int) -> c_int {
    with_db(db, |connection| connection.commit(synced != 0, keep != 0))
}

/// Takes everything back.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_rollback(db: *mut SilicaDb, keep: c_int) -> c_int {
    with_db(db, |connection| connection.roll_back(keep != 0))
}

/// Opens savepoints.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_open_savepoints(db: *mut SilicaDb, count: c_int) -> c_int {
    with_db(db, |connection| connection.open_savepoints(usize::try_from(count).unwrap_or_default()))
}

/// Closes savepoints.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_release_savepoint(db: *mut SilicaDb, index: c_int) -> c_int {
    with_db(db, |connection| match usize::try_from(index) {
        Ok(index) => connection.release_savepoint(index),
        Err(_) => Err(Failure::misuse("savepoints are numbered from 0")),
    })
}

/// Rolls back to a savepoint.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_roll_back_to(db: *mut SilicaDb, index: c_int) -> c_int {
    with_db(db, |connection| connection.roll_back_to(usize::try_from(index).ok()))
}

/// A number of the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_get_meta(
    db: *mut SilicaDb,
    index: c_int,
    value: *mut u32,
) -> c_int {
    with_db(db, |connection| {
        set(value, connection.meta(usize::try_from(index).unwrap_or(usize::MAX))?)
    })
}

/// Changes a number of the header.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_set_meta(db: *mut SilicaDb, index: c_int, value: u32) -> c_int {
    with_db(db, |connection| {
        connection.set_meta(usize::try_from(index).unwrap_or(usize::MAX), value)
    })
}

/// Makes a tree.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_create_tree(
    db: *mut SilicaDb,
    has_rowids: c_int,
    root: *mut u32,
) -> c_int {
    with_db(db, |connection| set(root, connection.create_tree(has_rowids != 0)?))
}

/// Removes a tree.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_drop_tree(db: *mut SilicaDb, root: u32) -> c_int {
    with_db(db, |connection| connection.drop_tree(root))
}

/// Empties a tree.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_clear_tree(
    db: *mut SilicaDb,
    root: u32,
    entries: *mut i64,
) -> c_int {
    with_db(db, |connection| {
        let cleared = connection.clear_tree(root, !entries.is_null())?;
        if entries.is_null() { Ok(()) } else { set(entries, cleared as i64) }
    })
}

/// Removes everything but the first tree.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_clear(db: *mut SilicaDb) -> c_int {
    with_db(db, Session::clear)
}

/// The largest number that a tree ever had; 0 if that is not known.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_last_root(db: *mut SilicaDb) -> u32 {
    let mut last = 0;
    with_db(db, |connection| {
        last = connection.last_root()?;
        Ok(())
    });
    last
}

/// Bytes of the store.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_bytes(db: *mut SilicaDb) -> u64 {
    let mut bytes = 0;
    with_db(db, |connection| {
        bytes = connection.bytes();
        Ok(())
    });
    bytes
}

/// Bytes of memory of a transaction's writes.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_written_bytes(db: *mut SilicaDb) -> u64 {
    // SAFETY: null or an open database, by rule 1.
    let bytes = unsafe { db.as_ref() }
        .map_or(0, |db| db.connection.written_bytes() + db.tables.written_bytes());
    bytes as u64
}

/// Makes commits survive a power cut.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_sync(db: *mut SilicaDb) -> c_int {
    with_db(db, |connection| connection.sync())
}

/// Rewrites the store.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_compact(db: *mut SilicaDb) -> c_int {
    with_db(db, |connection| connection.compact())
}

#[cfg(test)]
#[path = "ffi_tests.rs"]
mod tests;
