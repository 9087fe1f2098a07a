//! The calls of keyspaces as tables in `shim/silica_store.h`, which says what each does. Callers
//! uphold the rules in `ffi.rs`.

use crate::failure::code;
use crate::ffi::{SilicaDb, Words, guard, set, slice, text};
use crate::tables::{Constraint, IfThere, NewRow, Order, Rows, ttl_ms};
use std::ffi::{c_char, c_int};
use std::ptr::null_mut;
use std::rc::Rc;

/// A cursor over a keyspace.
struct SilicaRows {
    rows: Rows,
    words: Words,
}

/// A condition on the key.
#[repr(C)]
struct SilicaConstraint {
    bytes: *const u8,
    size: u32,
    kind: u8,
}

/// A row that is written.
#[repr(C)]
struct SilicaRow {
    key: *const u8,
    value: *const u8,
    key_size: u32,
    value_size: u32,
    ttl_ms: i64,
    bits: i64,
    ttl: u8,
}

/// A row that is read.
#[repr(C)]
struct SilicaPair {
    key: *const u8,
    value: *const u8,
    key_size: u32,
    value_size: u32,
    ttl_ms: i64,
    bits: i64,
}

const TTL_KEPT: u8 = 1;
const TTL_NONE: u8 = 2;
const STAYS: c_int = 1;
const IS_REPLACED: c_int = 2;

const ASCENDING: c_int = 1;
const DESCENDING: c_int = 2;

const BEGIN: c_int = 0;
const COMMIT: c_int = 1;
const COMMIT_SYNCED: c_int = 2;
const END: c_int = 3;
const SAVEPOINT: c_int = 4;
const RELEASE: c_int = 5;
const ROLL_BACK_TO: c_int = 6;

/// Goes on with the transaction of a keyspace.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_keyspace_do(
    db: *mut SilicaDb,
    name: *const c_char,
    what: c_int,
    number: c_int,
) -> c_int {
    // SAFETY: by rule 1.
    let Some(db) = (unsafe { db.as_ref() }) else { return code::MISUSE };
    guard(Some(&db.words), || {
        // SAFETY: by rule 3.
        let name = unsafe { text(name) }.to_string_lossy();
        match what {
            BEGIN => db.tables.begin(&name)?,
            COMMIT | COMMIT_SYNCED => db.tables.commit(&name, what == COMMIT_SYNCED)?,
            END => db.tables.end(&name),
            SAVEPOINT => db.tables.open_savepoint(&name, number),
            RELEASE => db.tables.release_savepoint(&name, number)?,
            ROLL_BACK_TO => db.tables.roll_back_to(&name, number)?,
            _ => return Ok(code::MISUSE),
        }
        Ok(code::OK)
    })
}

/// Whether the keys of a keyspace come in their order.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_keyspace_is_ordered(
    db: *mut SilicaDb,
    name: *const c_char,
) -> c_int {
    // SAFETY: by rule 1.
    let Some(db) = (unsafe { db.as_ref() }) else { return 0 };
    // SAFETY: by rule 3.
    let name = unsafe { text(name) }.to_string_lossy();
    let mut is_ordered = false;
    guard(Some(&db.words), || {
        is_ordered = db.tables.is_ordered(&name)?;
        Ok(code::OK)
    });
    c_int::from(is_ordered)
}

/// Writes a row of a keyspace.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_keyspace_write(
    db: *mut SilicaDb,
    name: *const c_char,
    old: *const u8,
    old_size: u32,
    row: *const SilicaRow,
    if_there: c_int,
) -> c_int {
    // SAFETY: by rule 1.
    let Some(db) = (unsafe { db.as_ref() }) else { return code::MISUSE };
    guard(Some(&db.words), || {
        // SAFETY: by rule 3.
        let (name, row) = unsafe { (text(name).to_string_lossy(), row.as_ref()) };
        // SAFETY: by rule 3.
        let old = (!old.is_null()).then(|| unsafe { slice(old, old_size as usize) });
        let new = row.map(|row| NewRow {
            // SAFETY: by rule 3.
            key: unsafe { slice(row.key, row.key_size as usize) },
            // SAFETY: by rule 3.
            value: unsafe { slice(row.value, row.value_size as usize) },
            ttl_ms: match row.ttl {
                TTL_KEPT => None,
                TTL_NONE => Some(None),
                _ => Some(Some(row.ttl_ms)),
            },
            bits: row.bits,
        });
        let if_there = match if_there {
            STAYS => IfThere::Stays,
            IS_REPLACED => IfThere::IsReplaced,
            _ => IfThere::Fails,
        };
        db.tables.write(&name, old, new, if_there)?;
        Ok(code::OK)
    })
}

/// Opens a cursor over keyspaces.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_rows_open(db: *mut SilicaDb, rows: *mut *mut SilicaRows) -> c_int {
    // SAFETY: by rule 1.
    let Some(db) = (unsafe { db.as_ref() }) else { return code::MISUSE };
    guard(Some(&db.words), || {
        set(rows, null_mut())?;
        let opened =
            SilicaRows { rows: Rows::new(Rc::clone(&db.tables)), words: Rc::clone(&db.words) };
        set(rows, Box::into_raw(Box::new(opened)))?;
        Ok(code::OK)
    })
}

/// Closes a cursor over keyspaces.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_rows_close(rows: *mut SilicaRows) {
    guard(None, || {
        if !rows.is_null() {
            // SAFETY: made by `silica_sql_rows_open` and closed once, by rule 1.
            drop(unsafe { Box::from_raw(rows) });
        }
        Ok(code::OK)
    });
}

/// Searches a keyspace.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_rows_search(
    rows: *mut SilicaRows,
    name: *const c_char,
    may_be_missing: c_int,
    constraints: *const SilicaConstraint,
    count: c_int,
    order: c_int,
) -> c_int {
    // SAFETY: by rule 1.
    let Some(SilicaRows { rows, words }) = (unsafe { rows.as_mut() }) else {
        return code::MISUSE;
    };
    guard(Some(words), || {
        // SAFETY: by rule 3.
        let name = unsafe { text(name) }.to_string_lossy();
        // SAFETY: by rule 3.
        let given = unsafe { slice(constraints, usize::try_from(count).unwrap_or_default()) };
        let constraints: Vec<_> = given
            .iter()
            .map(|given| Constraint {
                kind: given.kind,
                // SAFETY: by rule 3.
                bytes: unsafe { slice(given.bytes, given.size as usize) },
            })
            .collect();
        let order = match order {
            ASCENDING => Order::Ascending,
            DESCENDING => Order::Descending,
            _ => Order::Any,
        };
        rows.search(&name, may_be_missing != 0, &constraints, order)?;
        Ok(code::OK)
    })
}

/// To the next entry.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_rows_step(rows: *mut SilicaRows) -> c_int {
    // SAFETY: by rule 1.
    let Some(SilicaRows { rows, words }) = (unsafe { rows.as_mut() }) else {
        return code::MISUSE;
    };
    guard(Some(words), || {
        rows.step()?;
        Ok(code::OK)
    })
}

/// The entry here.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_rows_here(rows: *mut SilicaRows, entry: *mut SilicaPair) -> c_int {
    // SAFETY: by rule 1.
    let Some(SilicaRows { rows, words }) = (unsafe { rows.as_ref() }) else {
        return code::MISUSE;
    };
    guard(Some(words), || {
        let Some((key, here)) = rows.here() else { return Ok(code::DONE) };
        let found = SilicaPair {
            key: key.as_ptr(),
            value: here.value.as_ptr(),
            key_size: key.len() as u32,
            value_size: here.value.len() as u32,
            ttl_ms: ttl_ms(here).unwrap_or(-1),
            bits: i64::from(here.user_bits),
        };
        if !entry.is_null() {
            set(entry, found)?;
        }
        Ok(code::OK)
    })
}
