//! Times to live.

use crate::error::{call, silica_code, silica_error};
use crate::keyspace::silica_keyspace;
use crate::raw;
use silica::{Error, ErrorKind, Result, TimeToLive};
use std::ffi::{c_int, c_void};
use std::time::Duration;

/// What silica_ttl answers for an entry that does not expire.
pub const SILICA_UNLIMITED: i64 = -1;
/// What silica_ttl answers for a key that is not there.
pub const SILICA_ABSENT: i64 = -2;

/// A time to live in milliseconds.
pub(crate) fn duration(ttl_ms: i64) -> Result<Duration> {
    u64::try_from(ttl_ms).map(Duration::from_millis).map_err(|_| {
        let message = format!("a time to live of {ttl_ms} ms; use one above 0");
        Error::new(ErrorKind::Config, message)
    })
}

/// As C sees it, in milliseconds.
pub(crate) fn answer(ttl: Option<TimeToLive>) -> i64 {
    match ttl {
        None => SILICA_ABSENT,
        Some(TimeToLive::Unlimited) => SILICA_UNLIMITED,
        Some(TimeToLive::Left(left)) => i64::try_from(left.as_millis()).unwrap_or(i64::MAX),
    }
}

/// Maps `key` to `value` for `ttl_ms` milliseconds. A later put ends the time to live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_put_with_ttl(
    keyspace: *const silica_keyspace,
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
        raw::body(keyspace)?.put_with_ttl(key, value, duration(ttl_ms)?)
    })
}

/// Writes how many milliseconds `key` lives from now on to `*ttl_ms`, or SILICA_UNLIMITED, or
/// SILICA_ABSENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_ttl(
    keyspace: *const silica_keyspace,
    key: *const c_void,
    key_length: usize,
    ttl_ms: *mut i64,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let key = raw::slice("key", key, key_length)?;
        raw::put(ttl_ms, answer(raw::body(keyspace)?.ttl(key)?))
    })
}

/// Lets `key` live for `ttl_ms` milliseconds from now on, and writes whether it is there to
/// `*is_there`, which may be NULL. With 0 the key is removed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_expire(
    keyspace: *const silica_keyspace,
    key: *const c_void,
    key_length: usize,
    ttl_ms: i64,
    is_there: *mut c_int,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let key = raw::slice("key", key, key_length)?;
        let found = raw::body(keyspace)?.expire(key, duration(ttl_ms)?)?;
        raw::put_if(is_there, c_int::from(found));
        Ok(())
    })
}

/// Lets `key` live without a limit, and writes whether it had one to `*had_limit`, which may be
/// NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn silica_persist(
    keyspace: *const silica_keyspace,
    key: *const c_void,
    key_length: usize,
    had_limit: *mut c_int,
    error: *mut *mut silica_error,
) -> silica_code {
    call(error, || {
        let had = raw::body(keyspace)?.persist(raw::slice("key", key, key_length)?)?;
        raw::put_if(had_limit, c_int::from(had));
        Ok(())
    })
}
