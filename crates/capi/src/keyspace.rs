//! Reads and writes of a keyspace.

use crate::error::{call, quietly, silica_code, silica_error};
use crate::raw::{self, opaque};
use crate::values::{Room, copied, hand_out, metrics_text};
use silica::{Error, ErrorKind, Keyspace};
use std::ffi::{c_char, c_int, c_void};

/// A keyspace of an open store. Any number of threads may use one handle at the same time;
/// freeing it is the last use.
pub struct silica_keyspace {
    _opaque: (),
}

opaque!(silica_keyspace, Keyspace, b"SIL-KEYS", "keyspace");

/// A handle for a keyspace that Rust has open, to be freed with [`silica_keyspace_free`]: for
/// measurements of the way through C.
#[must_use]
pub fn handle_of(keyspace: Keyspace) -> *mut silica_keyspace {
    raw::boxed(keyspace)
}

/// What is called with each entry of a walk; an answer other than 0 ends it.
pub type silica_visit = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        key: *const c_void,
        key_length: usize,
        value: *const c_void,
        value_length: usize,
    ) -> c_int,
>;

/// Frees a handle to a keyspace; NULL is fine. The keyspace stays open in its store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_keyspace_free(keyspace: *mut silica_keyspace) {
    quietly((), || {
        raw::release(keyspace);
        Ok(())
    });
}

/// Looks `key` up. If it is there, `*value` is a copy of its value, to be freed with silica_free,
/// and `*value_length` its length; a zero byte stands behind it. If it is not, `*value` is NULL.
/// `value_length` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_get(
    keyspace: *const silica_keyspace,
    key: *const c_void,
    key_length: usize,
    value: *mut *mut c_void,
    value_length: *mut usize,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let key = raw::slice("key", key, key_length)?;
        let keyspace = raw::body(keyspace)?;
        hand_out(value, value_length, || keyspace.get_with(key, copied))
    })
}

/// Looks `key` up and copies its value into `buffer`, as far as `room` bytes go. `*value_length`
/// is the whole length, which may be over `room`, or SIZE_MAX if `key` is not there. Nothing is
/// allocated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_get_into(
    keyspace: *const silica_keyspace,
    key: *const c_void,
    key_length: usize,
    buffer: *mut c_void,
    room: usize,
    value_length: *mut usize,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let key = raw::slice("key", key, key_length)?;
        let (keyspace, room) = (raw::body(keyspace)?, Room::new(buffer, room)?);
        raw::put(value_length, keyspace.get_with(key, |entry| room.fill(entry))?)
    })
}

/// Maps `key` to `value`, as durable as the store was opened for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_put(
    keyspace: *const silica_keyspace,
    key: *const c_void,
    key_length: usize,
    value: *const c_void,
    value_length: usize,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let key = raw::slice("key", key, key_length)?;
        let value = raw::slice("value", value, value_length)?;
        raw::body(keyspace)?.put(key, value)
    })
}

/// Removes `key`; a missing one is no error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_delete(
    keyspace: *const silica_keyspace,
    key: *const c_void,
    key_length: usize,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || raw::body(keyspace)?.delete(raw::slice("key", key, key_length)?))
}

/// Removes all keys from `lower` on and before `upper` in one step; a NULL bound stands for no
/// bound. SILICA_UNSUPPORTED if the engine keeps no order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_delete_range(
    keyspace: *const silica_keyspace,
    lower: *const c_void,
    lower_length: usize,
    upper: *const c_void,
    upper_length: usize,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let range = raw::range(lower, lower_length, upper, upper_length)?;
        raw::body(keyspace)?.delete_range(range)
    })
}

/// Writes the number of entries to `*count`: an estimate, unless `exact` is not 0, which may walk
/// the keyspace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_count(
    keyspace: *const silica_keyspace,
    exact: c_int,
    count: *mut u64,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || raw::put(count, raw::body(keyspace)?.count(exact != 0)?.estimate))
}

/// Removes every entry, durably and in one step.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_clear(
    keyspace: *const silica_keyspace,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || raw::body(keyspace)?.clear())
}

/// Visits entries of any engine, in the engine's own order, from `*cursor` on (0 is the start),
/// about `limit` of them, and writes where to go on to `*cursor`; UINT64_MAX is the end. An entry
/// that is there during a whole walk is visited at least once. `visit` must not call the library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_scan(
    keyspace: *const silica_keyspace,
    cursor: *mut u64,
    limit: usize,
    visit: silica_visit,
    context: *mut c_void,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let missing = "the function to visit is NULL; pass one";
        let visit = visit.ok_or_else(|| Error::new(ErrorKind::Config, missing))?;
        let from = raw::read("cursor", cursor)?;
        if from == u64::MAX {
            return Ok(());
        }
        let keyspace = raw::body(keyspace)?;
        // Fails if the keyspace is closed, which its engine does not know.
        keyspace.count(false)?;
        let lacks = || Error::new(ErrorKind::Unsupported, "the engine cannot iterate");
        let scan = keyspace.engine().as_scan().ok_or_else(lacks)?;
        let mut goes_on = true;
        let next = scan.scan(from, limit.max(1), &mut |key, entry| {
            goes_on = goes_on && raw::visited(visit, context, key, entry.value);
        })?;
        raw::put(cursor, next.filter(|_| goes_on).unwrap_or(u64::MAX))
    })
}

/// Writes all metrics to `*text`: lines of "name: value", to be freed with silica_free.
/// docs/metrics.md says what they mean.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_metrics(
    keyspace: *const silica_keyspace,
    text: *mut *mut c_char,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || raw::hand_out_text(&metrics_text(&raw::body(keyspace)?.metrics()?), text))
}

/// Writes what the keyspace consists of to `*text`, for people: lines of "name: value", to be
/// freed with silica_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_inspect(
    keyspace: *const silica_keyspace,
    text: *mut *mut c_char,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || raw::hand_out_text(&raw::body(keyspace)?.inspect()?, text))
}
