//! Iterators over ranges.

use crate::error::{call, quietly, silica_code, silica_error};
use crate::keyspace::silica_keyspace;
use crate::raw::{self, opaque};
use crate::snapshot::silica_snapshot;
use silica::{KeyRange, RangeIterator, Result};
use std::ffi::{c_int, c_void};
use std::ptr;

/// A place among the entries of a range, in the order of the keys' bytes. One thread at a time
/// uses a handle.
pub struct silica_iterator {
    _opaque: (),
}

opaque!(silica_iterator, RangeIterator, b"SIL-ITER", "iterator");

/// Opens an iterator over the keys from `lower` on and before `upper`, as they are now; a NULL
/// bound stands for no bound. It is nowhere at first. SILICA_UNSUPPORTED if the engine keeps no
/// order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_iterate(
    keyspace: *const silica_keyspace,
    lower: *const c_void,
    lower_length: usize,
    upper: *const c_void,
    upper_length: usize,
    iterator: *mut *mut silica_iterator,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let range = raw::range(lower, lower_length, upper, upper_length)?;
        raw::hand_out(raw::body(keyspace)?.iterator(range)?, iterator)
    })
}

/// Opens an iterator over the keys that begin with `prefix`, as they are now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_iterate_prefix(
    keyspace: *const silica_keyspace,
    prefix: *const c_void,
    prefix_length: usize,
    iterator: *mut *mut silica_iterator,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let range = KeyRange::prefix(raw::slice("prefix", prefix, prefix_length)?);
        raw::hand_out(raw::body(keyspace)?.iterator(range)?, iterator)
    })
}

/// Opens an iterator over the entries of a snapshot, as silica_iterate does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_snapshot_iterate(
    snapshot: *const silica_snapshot,
    lower: *const c_void,
    lower_length: usize,
    upper: *const c_void,
    upper_length: usize,
    iterator: *mut *mut silica_iterator,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let range = raw::range(lower, lower_length, upper, upper_length)?;
        raw::hand_out(raw::body(snapshot)?.iterator(range)?, iterator)
    })
}

/// Frees an iterator; NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_iterator_free(iterator: *mut silica_iterator) {
    quietly((), || {
        raw::release(iterator);
        Ok(())
    });
}

fn step(
    iterator: *mut silica_iterator,
    error: *mut *mut silica_error,
    go: impl FnOnce(&mut RangeIterator) -> Result<bool>,
) -> silica_code {
    call(error, || go(raw::body_mut(iterator)?).map(drop))
}

/// Goes to the first entry. silica_iterator_valid says whether there is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_iterator_first(
    iterator: *mut silica_iterator,
    error: *mut *mut silica_error,
) -> silica_code {
    step(iterator, error, RangeIterator::seek_to_first)
}

/// Goes to the last entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_iterator_last(
    iterator: *mut silica_iterator,
    error: *mut *mut silica_error,
) -> silica_code {
    step(iterator, error, RangeIterator::seek_to_last)
}

/// Goes to the first entry at or after `key`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_iterator_seek(
    iterator: *mut silica_iterator,
    key: *const c_void,
    key_length: usize,
    error: *mut *mut silica_error,
) -> silica_code {
    step(iterator, error, |iterator| iterator.seek(raw::slice("key", key, key_length)?))
}

/// Goes to the last entry at or before `key`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_iterator_seek_for_prev(
    iterator: *mut silica_iterator,
    key: *const c_void,
    key_length: usize,
    error: *mut *mut silica_error,
) -> silica_code {
    step(iterator, error, |iterator| iterator.seek_for_prev(raw::slice("key", key, key_length)?))
}

/// Goes to the entry after this one; from nowhere it stays nowhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_iterator_next(
    iterator: *mut silica_iterator,
    error: *mut *mut silica_error,
) -> silica_code {
    step(iterator, error, RangeIterator::next)
}

/// Goes to the entry before this one; from nowhere it stays nowhere.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_iterator_prev(
    iterator: *mut silica_iterator,
    error: *mut *mut silica_error,
) -> silica_code {
    step(iterator, error, RangeIterator::prev)
}

/// Returns 1 if it is at an entry, 0 if not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_iterator_valid(iterator: *const silica_iterator) -> c_int {
    quietly(0, || Ok(c_int::from(raw::body(iterator)?.valid())))
}

/// A borrowed slice as pointer and length; null if there is none.
fn borrowed(bytes: Option<&[u8]>, length: *mut usize) -> *const c_void {
    raw::put_if(length, bytes.map_or(0, <[u8]>::len));
    bytes.map_or(ptr::null(), |bytes| bytes.as_ptr().cast())
}

/// Returns the key here, and its length in `*length`. It is valid until the iterator moves or is
/// freed, and no zero byte ends it. NULL if it is at no entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_iterator_key(
    iterator: *const silica_iterator,
    length: *mut usize,
) -> *const c_void {
    quietly(ptr::null(), || Ok(borrowed(raw::body(iterator)?.key(), length)))
}

/// Returns the value here, as silica_iterator_key returns the key.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_iterator_value(
    iterator: *const silica_iterator,
    length: *mut usize,
) -> *const c_void {
    quietly(ptr::null(), || Ok(borrowed(raw::body(iterator)?.value(), length)))
}
