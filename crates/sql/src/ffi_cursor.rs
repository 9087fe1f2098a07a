//! The calls of `shim/silica_store.h` with cursors, which says what each does. Callers uphold the
//! rules in `ffi.rs`.
//!
//! Many steps in a row one way become a burst: its entries are copied at once, and C goes through
//! them without a call. Every other call ends the burst where C has come to.

use crate::cursor::{Sought, TreeCursor};
use crate::encoding::{Column, Field};
use crate::failure::{Result, code};
use crate::ffi::{
    SilicaColumn, SilicaDb, SilicaField, Words, column, guard, set, slice, with_fields,
};
use crate::pages::SilicaEntry;
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

/// A cursor and its burst. C reads the first four fields, and counts `at` up.
#[repr(C)]
struct Steps {
    /// Of `burst`.
    entries: *const SilicaEntry,
    /// Entries of a burst forwards, and of one backwards: at least one of the two is 0.
    count: u32,
    count_back: u32,
    at: u32,
    burst: Vec<SilicaEntry>,
    /// The cursor is in a page, of which these are the entries.
    is_page: bool,
    /// Steps in a row one way, and whether that is forwards.
    in_a_row: u32,
    is_forward: bool,
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
            count_back: 0,
            at: 0,
            burst: Vec::new(),
            is_page: false,
            in_a_row: 0,
            is_forward: true,
            steps_min: STEPS_MIN,
            burst_len: BURST_MIN,
            cursor,
        }
    }

    /// Before every call but a step: ends the burst, if the cursor is in one.
    #[inline]
    fn settle(&mut self) {
        self.in_a_row = 0;
        if self.len() > 0 {
            self.leave_burst();
        }
    }

    /// Entries of the burst that the cursor is in.
    #[inline]
    fn len(&self) -> u32 {
        self.count | self.count_back
    }

    fn leave_burst(&mut self) {
        if self.is_page {
            self.cursor.leave_page(self.at as usize);
            self.leave();
            return;
        }
        let is_amid = self.at + 1 < self.len();
        self.cursor.leave_burst(self.at as usize);
        self.leave();
        if is_amid {
            self.steps_min = (4 * self.steps_min).min(STEPS_MIN_MAX);
            self.burst_len = BURST_MIN;
        }
    }

    /// The cursor is in no burst and no page.
    #[inline]
    fn leave(&mut self) {
        (self.count, self.count_back, self.at) = (0, 0, 0);
        self.is_page = false;
    }

    /// Before a move to elsewhere: ends the burst, or leaves the page.
    #[inline]
    fn begin_seek(&mut self) {
        if self.is_page {
            self.cursor.forget_page();
            self.leave();
            self.in_a_row = 0;
        } else {
            self.settle();
        }
    }

    /// The cursor is at entry `at` of its page, or has come to none with `None`; true if it is at
    /// one.
    #[inline]
    fn enter_page(&mut self, at: Option<usize>) -> bool {
        if let (Some(at), Some(page)) = (at, self.cursor.page()) {
            let shown = page.shown();
            (self.entries, self.count) = (shown.as_ptr(), shown.len() as u32);
            (self.count_back, self.at, self.is_page) = (0, at as u32, true);
            return true;
        }
        false
    }

    /// To the first entry.
    fn first(&mut self) -> Result<bool> {
        match self.cursor.step_in_page(true)? {
            Some(at) => Ok(self.enter_page(at)),
            None => self.cursor.first(),
        }
    }

    fn found(is_there: bool) -> Found {
        if is_there { Found::Here } else { Found::Before }
    }

    fn seek_row(&mut self, rowid: i64) -> Result<Found> {
        match self.cursor.seek_row_in_page(rowid)? {
            Some(at) => Ok(Self::found(self.enter_page(at))),
            None => self.cursor.seek_encoded(Sought::Row(rowid)),
        }
    }

    fn seek_key(&mut self, fields: &[Field<'_>], equal: Equal) -> Result<Found> {
        if equal != Equal::Equal {
            return self.cursor.seek_key(fields, equal);
        }
        match self.cursor.seek_key_in_page(fields)? {
            Some(at) => Ok(Self::found(self.enter_page(at))),
            None => self.cursor.seek_encoded(Sought::Fields(fields.len())),
        }
    }

    /// One step on from the last entry of a page; `None` if no page says where that leads, and the
    /// page is left.
    fn pass_page(&mut self) -> Result<Option<bool>> {
        let passed = self.cursor.pass_page()?;
        let last = self.at as usize;
        self.leave();
        match passed {
            Some(at) => Ok(Some(self.enter_page(at))),
            None => {
                self.cursor.leave_page(last);
                Ok(None)
            }
        }
    }

    /// Hands out the entry here, if it is at hand.
    fn show(&self, entry: *mut SilicaEntry) -> Result<()> {
        match self.cursor.page().and_then(|page| page.shown().get(self.at as usize)) {
            Some(shown) => set(entry, *shown),
            None => show(&self.cursor, entry),
        }
    }

    /// One entry on, or back; false if there is none.
    fn step(&mut self, is_forward: bool) -> Result<bool> {
        if self.is_forward != is_forward || self.at + 1 < self.len() {
            self.settle();
            self.is_forward = is_forward;
        } else if self.is_page {
            if let Some(is_there) = self.pass_page()? {
                return Ok(is_there);
            }
        } else if self.len() > 0 {
            self.leave();
            if !self.cursor.pass_burst()? {
                return Ok(false);
            }
        } else if is_forward && let Some(at) = self.cursor.step_in_page(false)? {
            return Ok(self.enter_page(at));
        }
        self.in_a_row = self.in_a_row.saturating_add(1);
        if self.in_a_row <= self.steps_min {
            return self.step_one();
        }
        let Some(count) = self.cursor.burst_on(self.burst_len, is_forward)? else {
            return self.step_one();
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
        (self.entries, self.at) = (self.burst.as_ptr(), 0);
        *if is_forward { &mut self.count } else { &mut self.count_back } = count as u32;
        Ok(true)
    }

    fn step_one(&mut self) -> Result<bool> {
        if self.is_forward { self.cursor.next() } else { self.cursor.previous() }
    }
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

/// As [`with_cursor`], for a move to elsewhere.
fn with_steps(cursor: *mut SilicaCursor, call: impl FnOnce(&mut Steps) -> Result<c_int>) -> c_int {
    // SAFETY: null or an open cursor that no other thread uses, by rule 1.
    match unsafe { cursor.as_mut() } {
        None => code::MISUSE,
        Some(SilicaCursor { steps, words }) => {
            steps.begin_seek();
            guard(Some(words), || call(steps))
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
    with_steps(cursor, |steps| {
        set(is_empty, c_int::from(!steps.first()?))?;
        steps.show(entry)?;
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

/// One entry on, or back.
///
/// # Safety
/// As of every function here.
unsafe fn step(cursor: *mut SilicaCursor, entry: *mut SilicaEntry, is_forward: bool) -> c_int {
    // SAFETY: null or an open cursor that no other thread uses, by rule 1.
    let Some(SilicaCursor { steps, words }) = (unsafe { cursor.as_mut() }) else {
        return code::MISUSE;
    };
    guard(Some(words), || {
        let is_there = steps.step(is_forward)?;
        match steps.burst.first().filter(|_| steps.len() > 0 && !steps.is_page) {
            Some(first) => set(entry, *first)?,
            None => steps.show(entry)?,
        }
        Ok(done_unless(is_there))
    })
}

/// One entry on.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn silica_sql_cursor_next(
    cursor: *mut SilicaCursor,
    entry: *mut SilicaEntry,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe { step(cursor, entry, true) }
}

/// One entry back.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn silica_sql_cursor_previous(
    cursor: *mut SilicaCursor,
    entry: *mut SilicaEntry,
) -> c_int {
    // SAFETY: as the caller says.
    unsafe { step(cursor, entry, false) }
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
    with_steps(cursor, |steps| {
        set(place, where_is(steps.seek_row(rowid)?))?;
        steps.show(entry)?;
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
    with_steps(cursor, |steps| {
        // SAFETY: by rule 3.
        let found = unsafe { with_fields(fields, count, |fields| steps.seek_key(fields, equal)) };
        set(place, where_is(found?))?;
        steps.show(entry)?;
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
