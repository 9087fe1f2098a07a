//! The calls of `shim/silica_store.h` for results that are kept. SAFETY comments refer to the rules
//! in `ffi.rs`.

use crate::ffi::{SilicaDb, set, slice, with_db};
use std::ffi::c_int;

/// Bytes that a statement's key and rows may have to be kept.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_result_bytes_max(db: *mut SilicaDb) -> u32 {
    let mut bytes = 0;
    with_db(db, |connection| {
        bytes = connection.result_bytes_max() as u32;
        Ok(())
    });
    bytes
}

/// Looks for rows that are kept.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_result_find(
    db: *mut SilicaDb,
    key: *const u8,
    key_bytes: u32,
    rows: *mut u8,
    room: u32,
    size: *mut u32,
) -> c_int {
    let mut is_found = false;
    with_db(db, |connection| {
        // SAFETY: by rule 3.
        let key = unsafe { slice(key, key_bytes as usize) };
        let mut wanted = 0;
        is_found = connection.find_result(key, |found| {
            wanted = found.len();
            if found.len() <= room as usize && !rows.is_null() {
                // SAFETY: as many bytes may be written there, by rule 2; what is kept lies in
                // memory of the store.
                unsafe { std::ptr::copy_nonoverlapping(found.as_ptr(), rows, found.len()) };
            }
        })?;
        set(size, wanted as u32)
    });
    c_int::from(is_found)
}

/// Begins to record what is read.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_result_begin(db: *mut SilicaDb) -> c_int {
    let mut has_begun = false;
    with_db(db, |connection| {
        has_begun = connection.begin_recording();
        Ok(())
    });
    c_int::from(has_begun)
}

/// Ends recording.
#[unsafe(no_mangle)]
unsafe extern "C" fn silica_sql_result_end(
    db: *mut SilicaDb,
    key: *const u8,
    key_bytes: u32,
    rows: *const u8,
    size: u32,
    keeps: c_int,
) {
    with_db(db, |connection| {
        // SAFETY: by rule 3.
        let (key, rows) = unsafe { (slice(key, key_bytes as usize), slice(rows, size as usize)) };
        connection.end_recording(key, (keeps != 0).then_some(rows))
    });
}
