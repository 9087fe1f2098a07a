//! The calls of `shim/silica_store.h` with cursors, which says what each does. Callers uphold the
//! rules in `ffi.rs`.
//!
//! Many steps forwards in a row become a burst: its entries are copied at once, and C goes through
//! them without a call. Every other call ends the burst where C has come to.

use crate::cursor::TreeCursor;
use crate::encoding::Column;
use crate::failure::{Result, code};
use crate::ffi::{
    SilicaColumn, SilicaDb, SilicaField, Words, column, guard, set, slice, with_fields,
};
use crate::storage::{Cursor, Equal, Found, Session};
use std::ffi::c_int;
use std::ptr::{null, null_mut};
use std::rc::Rc;

/// A cursor of a database.
#[repr(C)]
pub(crate) struct SilicaCursor {
    steps: Steps,
    words: Words,
}

/// A cursor and its burst. C reads the first three fields, and counts `at` up.
#[repr(C)]
struct Steps {
    /// Of `burst`.
    entries: *const SilicaEntry,
    count: u32,
    at: u32,
    burst: Vec<SilicaEntry>,
    /// Steps forwards in a row.
    in_a_row: u32,
    /// So many are made one by one.
    steps_min: u32,
    /// Entries of the next burst.
    burst_len: usize,
    cursor: TreeCursor,
}

/// Steps before the first burst, entries of the first one and of later ones at most. A burst that
/// is left in its midst costs a search when the cursor goes on: it takes more steps to the next.
const STEPS_MIN: u32 = 4;
const STEPS_MIN_MAX: u32 = 4096;
const BURST_MIN: usize = 8;
const BURST_MAX: usize = 128;

impl Steps {
    fn new(cursor: TreeCursor) -> Self {
        Steps {
            entries: null(),
            count: 0,
            at: 0,
            burst: Vec::new(),
            in_a_row: 0,
            steps_min: STEPS_MIN,
            burst_len: BURST_MIN,
            cursor,
        }
    }

    /// Before every call but a step: ends the burst, if the cursor is in one.
    #[inline]
    fn settle(&mut self) {
        self.in_a_row = 0;
        if self.count > 0 {
            self.leave_burst();
        }
    }

    fn leave_burst(&mut self) {
        let is_amid = self.at + 1 < self.count;
        self.cursor.leave_burst(self.at as usize);
        (self.count, self.at) = (0, 0);
        if is_amid {
            self.steps_min = (4 * self.steps_min).min(STEPS_MIN_MAX);
            self.burst_len = BURST_MIN;
        }
    }

    /// One entry on; false if there is none.
    fn step(&mut self) -> Result<bool> {
        if self.at + 1 < self.count {
            self.settle();
        } else if self.count > 0 {
            (self.count, self.at) = (0, 0);
            if !self.cursor.pass_burst()? {
                return Ok(false);
            }
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        if self.in_a_row <= self.steps_min {
            return self.cursor.next();
        }
        let Some(count) = self.cursor.next_burst(self.burst_len)? else {
            return self.cursor.next();
        };
        if count == 0 {
            return Ok(false);
        }
        self.burst_len = (2 * self.burst_len).min(BURST_MAX);
        self.burst.clear();
        self.burst.extend(self.cursor.burst().map(|(rowid, record)| SilicaEntry {
            rowid,
            record: record.as_ptr(),
            size: record.len() as u32,
        }));
        (self.entries, self.count, self.at) = (self.burst.as_ptr(), count as u32, 0);
        Ok(true)
    }
}

/// An entry that a cursor has come to.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct SilicaEntry {
    pub(crate) rowid: i64,
    pub(crate) record: *const u8,
    pub(crate) size: u32,
}

fn with_cursor(
    cursor: *mut SilicaCursor,
    call: impl FnOnce(&mut TreeCursor) -> Result<c_int>,
) -> c_int {
    // SAFETY: null or an open cursor that no other thread uses, by rule 1.
    match unsafe { cursor.as_mut() } {
        None => code::MISUSE,
        Some(SilicaCursor { steps, words }) => {
            steps.settle();
            guard(Some(words), || call(&mut steps.cursor))
        }
    }
}

/// Opens a cursor.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn silica_sql_cursor_open(
    db: *mut SilicaDb,
    root: u32,
    columns: *const SilicaColumn,
    count: c_int,
    cursor: *mut *mut SilicaCursor,
) -> c_int {
    // SAFETY: by rule 1.
    let Some(open) = (unsafe { db.as_ref() }) else { return code::MISUSE };
    guard(Some(&open.words), || {
        set(cursor, null_mut())?;
        // SAFETY: by rule 3.
        let given = unsafe { slice(columns, usize::try_from(count).unwrap_or_default()) };
        let converted: Vec<Column>;
        let own = match columns.is_null() {
            true => None,
            false => {
                converted = given.iter().map(column).collect();
                Some(&converted[..])
            }
        };
        let opened = open.connection.cursor(root, own)?;
        let opened = SilicaCursor { steps: Steps::new(opened), words: Rc::clone(&open.words) };
        set(cursor, Box::into_raw(Box::new(opened)))?;
        Ok(code::OK)
    })
}

/// Closes a cursor.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn silica_sql_cursor_close(cursor: *mut SilicaCursor) {
    guard(None, || {
        if !cursor.is_null() {
            // SAFETY: made by `silica_sql_cursor_open` and closed once, by rule 1.
            drop(unsafe { Box::from_raw(cursor) });
        }
        Ok(code::OK)
    });
}

/// Hands out the entry here, if it is at hand.
fn show(cursor: &TreeCursor, entry: *mut SilicaEntry) -> Result<()> {
    let at_hand = cursor.at_hand().map(|(rowid, record)| SilicaEntry {
        rowid,
        record: record.as_ptr(),
        size: record.len() as u32,
    });
    set(entry, at_hand.unwrap_or(SilicaEntry { rowid: 0, record: null(), size: 0 }))
}

fn done_unless(is_there: bool) -> c_int {
    if is_there { code::OK } else { code::DONE }
}

/// To the first entry.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn silica_sql_cursor_first(
    cursor: *mut SilicaCursor,
    is_empty: *mut c_int,
    entry: *mut SilicaEntry,
) -> c_int {
    with_cursor(cursor, |cursor| {
        set(is_empty, c_int::from(!cursor.first()?))?;
        show(cursor, entry)?;
        Ok(code::OK)
    })
}

/// To the last entry.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn silica_sql_cursor_last(
    cursor: *mut SilicaCursor,
    is_empty: *mut c_int,
    entry: *mut SilicaEntry,
) -> c_int {
    with_cursor(cursor, |cursor| {
        set(is_empty, c_int::from(!cursor.last()?))?;
        show(cursor, entry)?;
        Ok(code::OK)
    })
}

/// A rowid to append a row with.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn silica_sql_cursor_new_rowid(
    cursor: *mut SilicaCursor,
    rowid: *mut i64,
    is_given: *mut c_int,
) -> c_int {
    with_cursor(cursor, |cursor| {
        let new = cursor.new_rowid()?;
        set(is_given, c_int::from(new.is_some()))?;
        set(rowid, new.unwrap_or_default())?;
        Ok(code::OK)
    })
}

/// One entry on.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn silica_sql_cursor_next(
    cursor: *mut SilicaCursor,
    entry: *mut SilicaEntry,
) -> c_int {
    // SAFETY: null or an open cursor that no other thread uses, by rule 1.
    let Some(SilicaCursor { steps, words }) = (unsafe { cursor.as_mut() }) else {
        return code::MISUSE;
    };
    guard(Some(words), || {
        let is_there = steps.step()?;
        match steps.burst.first().filter(|_| steps.count > 0) {
            Some(first) => set(entry, *first)?,
            None => show(&steps.cursor, entry)?,
        }
        Ok(done_unless(is_there))
    })
}

/// One entry back.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn silica_sql_cursor_previous(
    cursor: *mut SilicaCursor,
    entry: *mut SilicaEntry,
) -> c_int {
    with_cursor(cursor, |cursor| {
        let is_there = cursor.previous()?;
        show(cursor, entry)?;
        Ok(done_unless(is_there))
    })
}

fn where_is(found: Found) -> c_int {
    match found {
        Found::Here => 0,
        Found::Before => -1,
        Found::Behind => 1,
    }
}

/// To a row.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn silica_sql_cursor_seek_row(
    cursor: *mut SilicaCursor,
    rowid: i64,
    place: *mut c_int,
    entry: *mut SilicaEntry,
) -> c_int {
    with_cursor(cursor, |cursor| {
        set(place, where_is(cursor.seek_row(rowid)?))?;
        show(cursor, entry)?;
        Ok(code::OK)
    })
}

/// To a key.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn silica_sql_cursor_seek_key(
    cursor: *mut SilicaCursor,
    fields: *const SilicaField,
    count: c_int,
    equal: c_int,
    place: *mut c_int,
    entry: *mut SilicaEntry,
) -> c_int {
    let equal = match equal {
        0 => Equal::Equal,
        1.. => Equal::Behind,
        _ => Equal::Before,
    };
    with_cursor(cursor, |cursor| {
        // SAFETY: by rule 3.
        let found = unsafe { with_fields(fields, count, |fields| cursor.seek_key(fields, equal)) };
        set(place, where_is(found?))?;
        show(cursor, entry)?;
        Ok(code::OK)
    })
}

/// Whether the cursor is at an entry.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn silica_sql_cursor_is_there(cursor: *mut SilicaCursor) -> c_int {
    let mut is_there = -1;
    with_cursor(cursor, |cursor| {
        is_there = c_int::from(cursor.is_there()?);
        Ok(code::OK)
    });
    is_there
}

/// Looks for what was there.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn silica_sql_cursor_restore(
    cursor: *mut SilicaCursor,
    is_other: *mut c_int,
) -> c_int {
    with_cursor(cursor, |cursor| {
        set(is_other, c_int::from(!cursor.restore()?))?;
        Ok(code::OK)
    })
}

/// The rowid here.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn silica_sql_cursor_rowid(cursor: *mut SilicaCursor) -> i64 {
    let mut rowid = 0;
    with_cursor(cursor, |cursor| {
        rowid = cursor.rowid()?;
        Ok(code::OK)
    });
    rowid
}

/// The record here.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn silica_sql_cursor_record(
    cursor: *mut SilicaCursor,
    size: *mut u32,
) -> *const u8 {
    let mut first = null();
    with_cursor(cursor, |cursor| {
        let record = cursor.record()?;
        set(size, record.len() as u32)?;
        first = record.as_ptr();
        Ok(code::OK)
    });
    first
}

/// Writes a row.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn silica_sql_cursor_put_row(
    cursor: *mut SilicaCursor,
    rowid: i64,
    record: *const u8,
    size: u32,
    zeroes: u32,
) -> c_int {
    with_cursor(cursor, |cursor| {
        // SAFETY: by rule 3.
        let record = unsafe { slice(record, size as usize) };
        cursor.put_row(rowid, record, zeroes as usize)?;
        Ok(code::OK)
    })
}

/// Writes an entry of an index.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn silica_sql_cursor_put_key(
    cursor: *mut SilicaCursor,
    fields: *const SilicaField,
    count: c_int,
    record: *const u8,
    size: u32,
) -> c_int {
    with_cursor(cursor, |cursor| {
        // SAFETY: by rule 3.
        let record = unsafe { slice(record, size as usize) };
        // SAFETY: by rule 3.
        unsafe { with_fields(fields, count, |fields| cursor.put_key(fields, record)) }?;
        Ok(code::OK)
    })
}

/// Deletes what is here.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn silica_sql_cursor_delete(cursor: *mut SilicaCursor) -> c_int {
    with_cursor(cursor, |cursor| {
        cursor.delete()?;
        Ok(code::OK)
    })
}

/// Counts entries.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn silica_sql_cursor_count(
    cursor: *mut SilicaCursor,
    entries: *mut i64,
) -> c_int {
    with_cursor(cursor, |cursor| {
        set(entries, cursor.count()? as i64)?;
        Ok(code::OK)
    })
}
