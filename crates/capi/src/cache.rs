//! Caches in memory.

use crate::error::{call, silica_code, silica_error};
use crate::expiry::{answer, duration};
use crate::raw::{self, opaque};
use crate::store::options_of;
use crate::values::{Room, copied, hand_out, metrics_text};
use silica::Cache;
use std::ffi::{c_char, c_int, c_void};

/// A cache in memory, without a directory. Any number of threads may use one handle at the
/// same time; closing it is the last use.
pub struct silica_cache {
    _opaque: (),
}

opaque!(silica_cache, Cache, b"SIL-CACH", "cache");

/// Opens a cache. `options` are as those of silica_open: memory_bytes, image, background_threads,
/// and those of the engine mica.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_cache_open(
    options: *const *const c_char,
    cache: *mut *mut silica_cache,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || raw::hand_out(Cache::open(options_of(options)?)?, cache))
}

/// Leaves the image, if there is to be one, and frees the handle whatever the answer; NULL is
/// fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_cache_close(
    cache: *mut silica_cache,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || if cache.is_null() { Ok(()) } else { raw::take(cache)?.close() })
}

/// As silica_get.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_cache_get(
    cache: *const silica_cache,
    key: *const c_void,
    key_length: usize,
    value: *mut *mut c_void,
    value_length: *mut usize,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let key = raw::slice("key", key, key_length)?;
        let cache = raw::body(cache)?;
        hand_out(value, value_length, || cache.get_with(key, copied))
    })
}

/// As silica_get_into.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_cache_get_into(
    cache: *const silica_cache,
    key: *const c_void,
    key_length: usize,
    buffer: *mut c_void,
    room: usize,
    value_length: *mut usize,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let key = raw::slice("key", key, key_length)?;
        let (cache, room) = (raw::body(cache)?, Room::new(buffer, room)?);
        raw::put(value_length, cache.get_with(key, |entry| room.fill(entry))?)
    })
}

/// Maps `key` to `value`, for `ttl_ms` milliseconds or, if that is 0, without a limit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_cache_put(
    cache: *const silica_cache,
    key: *const c_void,
    key_length: usize,
    value: *const c_void,
    value_length: usize,
    ttl_ms: i64,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let key = raw::slice("key", key, key_length)?;
        let value = raw::slice("value", value, value_length)?;
        let cache = raw::body(cache)?;
        match ttl_ms {
            0 => cache.put(key, value),
            ttl_ms => cache.put_with_ttl(key, value, duration(ttl_ms)?),
        }
    })
}

/// Removes `key`; a missing one is no error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_cache_delete(
    cache: *const silica_cache,
    key: *const c_void,
    key_length: usize,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || raw::body(cache)?.delete(raw::slice("key", key, key_length)?))
}

/// As silica_ttl.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_cache_ttl(
    cache: *const silica_cache,
    key: *const c_void,
    key_length: usize,
    ttl_ms: *mut i64,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let key = raw::slice("key", key, key_length)?;
        raw::put(ttl_ms, answer(raw::body(cache)?.ttl(key)?))
    })
}

/// As silica_count.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_cache_count(
    cache: *const silica_cache,
    exact: c_int,
    count: *mut u64,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || raw::put(count, raw::body(cache)?.count(exact != 0)?.estimate))
}

/// Removes every entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_cache_clear(
    cache: *const silica_cache,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || raw::body(cache)?.clear())
}

/// As silica_metrics.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_cache_metrics(
    cache: *const silica_cache,
    text: *mut *mut c_char,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || raw::hand_out_text(&metrics_text(&raw::body(cache)?.metrics()), text))
}
