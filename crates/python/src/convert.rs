//! Entries between the engine and Python.

use crate::input::owned;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use silica::{EntryRef, TimeToLive, WriteBatch};

/// A value as Python has it, if there is one.
pub(crate) fn value<'py>(py: Python<'py>, value: Option<Vec<u8>>) -> Option<Bound<'py, PyBytes>> {
    value.map(|value| PyBytes::new(py, &value))
}

/// The exception for a key that is not there.
pub(crate) fn missing(key: &Bound<'_, PyAny>) -> PyErr {
    PyKeyError::new_err(key.clone().unbind())
}

/// A value, or what stands for a missing one.
pub(crate) fn value_or<'py>(
    py: Python<'py>,
    found: Option<Vec<u8>>,
    default: Option<Bound<'py, PyAny>>,
) -> Bound<'py, PyAny> {
    match found {
        Some(found) => PyBytes::new(py, &found).into_any(),
        None => default.unwrap_or_else(|| py.None().into_bound(py)),
    }
}

/// The time to live as seconds; infinite without a limit.
pub(crate) fn seconds(ttl: TimeToLive) -> f64 {
    match ttl {
        TimeToLive::Unlimited => f64::INFINITY,
        TimeToLive::Left(left) => left.as_secs_f64(),
    }
}

/// Keys of an iterable.
pub(crate) fn keys_of(keys: &Bound<'_, PyAny>) -> PyResult<Vec<Vec<u8>>> {
    keys.try_iter()?.map(|key| owned(&key?)).collect()
}

/// Entries of a mapping or of an iterable of pairs.
pub(crate) fn entries_of(entries: &Bound<'_, PyAny>) -> PyResult<Vec<(Vec<u8>, Vec<u8>)>> {
    let pairs =
        if entries.hasattr("keys")? { entries.call_method0("items")? } else { entries.clone() };
    let pair = |pair: PyResult<Bound<'_, PyAny>>| {
        let (key, value): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair?.extract()?;
        Ok((owned(&key)?, owned(&value)?))
    };
    pairs.try_iter()?.map(pair).collect()
}

/// Puts of all `entries`.
pub(crate) fn batch_of(entries: &[(Vec<u8>, Vec<u8>)], expires_unix_ms: u64) -> WriteBatch<'_> {
    let mut batch = WriteBatch::new();
    for (key, value) in entries {
        batch.put_entry(key, EntryRef { expires_unix_ms, ..EntryRef::new(value) });
    }
    batch
}
