//! Snapshots.

use crate::error::{call, quietly, silica_code, silica_error};
use crate::keyspace::silica_keyspace;
use crate::raw::{self, opaque};
use crate::values::{Room, copied, hand_out};
use silica::Snapshot;
use std::ffi::c_void;

/// A keyspace as it was at one moment. Any number of threads may use one handle at the same
/// time. What it needs stays stored until it is freed.
pub struct silica_snapshot {
    _opaque: (),
}

opaque!(silica_snapshot, Snapshot, b"SIL-SNAP", "snapshot");

/// Keeps the keyspace as it is now. SILICA_UNSUPPORTED if the engine keeps no order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_snapshot_new(
    keyspace: *const silica_keyspace,
    snapshot: *mut *mut silica_snapshot,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || raw::hand_out(raw::body(keyspace)?.snapshot()?, snapshot))
}

/// Frees a snapshot; NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_snapshot_free(snapshot: *mut silica_snapshot) {
    quietly((), || {
        raw::release(snapshot);
        Ok(())
    });
}

/// As silica_get, for the value that `key` had.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_snapshot_get(
    snapshot: *const silica_snapshot,
    key: *const c_void,
    key_length: usize,
    value: *mut *mut c_void,
    value_length: *mut usize,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let key = raw::slice("key", key, key_length)?;
        let snapshot = raw::body(snapshot)?;
        hand_out(value, value_length, || snapshot.get_with(key, copied))
    })
}

/// As silica_get_into, for the value that `key` had.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_snapshot_get_into(
    snapshot: *const silica_snapshot,
    key: *const c_void,
    key_length: usize,
    buffer: *mut c_void,
    room: usize,
    value_length: *mut usize,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let key = raw::slice("key", key, key_length)?;
        let (snapshot, room) = (raw::body(snapshot)?, Room::new(buffer, room)?);
        raw::put(value_length, snapshot.get_with(key, |entry| room.fill(entry))?)
    })
}
