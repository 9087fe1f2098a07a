//! Keys, values and numbers that come from Python.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use silica::{Durability, KeyRange};
use std::ops::{Bound as Limit, Deref};
use std::time::Duration;

/// Bytes of an argument that nobody can change: those of the object, or a copy.
pub(crate) enum Input<'a> {
    Borrowed(&'a [u8]),
    Copied(Vec<u8>),
}

impl Deref for Input<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Input::Borrowed(bytes) => bytes,
            Input::Copied(bytes) => bytes,
        }
    }
}

/// The bytes of `bytes`, of a `str` in UTF-8, or of another object with a buffer.
pub(crate) fn input<'a>(object: &'a Bound<'_, PyAny>) -> PyResult<Input<'a>> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Input::Borrowed(bytes.as_bytes()));
    }
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Input::Borrowed(text.to_str()?.as_bytes()));
    }
    match PyBuffer::<u8>::get(object) {
        Ok(buffer) => Ok(Input::Copied(buffer.to_vec(object.py())?)),
        Err(_) => {
            let kind = object.get_type().name()?;
            let message = format!("bytes, str or a buffer of bytes is needed, not {kind}");
            Err(PyTypeError::new_err(message))
        }
    }
}

/// As [`input`], owned.
pub(crate) fn owned(object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    Ok(match input(object)? {
        Input::Borrowed(bytes) => bytes.to_vec(),
        Input::Copied(bytes) => bytes,
    })
}

/// A time to live in seconds.
pub(crate) fn time_to_live(seconds: f64) -> PyResult<Duration> {
    let bad = || PyValueError::new_err(format!("a time to live of {seconds} s; use one over 0"));
    Duration::try_from_secs_f64(seconds).map_err(|_| bad())
}

/// When an entry expires that lives for `seconds` from now on; 0 is never.
pub(crate) fn expiry(seconds: Option<f64>) -> PyResult<u64> {
    let Some(seconds) = seconds else { return Ok(0) };
    silica::expires_after(time_to_live(seconds)?).map_err(crate::error::raise)
}

/// What a write is to survive, if that is said.
pub(crate) fn durability(word: Option<&str>) -> PyResult<Option<Durability>> {
    match word {
        None => Ok(None),
        Some("buffered") => Ok(Some(Durability::Buffered)),
        Some("synced") => Ok(Some(Durability::Synced)),
        Some(other) => {
            let message = format!("durability '{other}' is not valid; use 'buffered' or 'synced'");
            Err(PyValueError::new_err(message))
        }
    }
}

/// The range from `start` on and before `stop`, or of a prefix.
pub(crate) fn range(
    start: Option<&Bound<'_, PyAny>>,
    stop: Option<&Bound<'_, PyAny>>,
    prefix: Option<&Bound<'_, PyAny>>,
) -> PyResult<KeyRange> {
    if let Some(prefix) = prefix {
        if start.is_some() || stop.is_some() {
            return Err(PyValueError::new_err("give a prefix, or start and stop, not both"));
        }
        return Ok(KeyRange::prefix(&input(prefix)?));
    }
    let lower = start.map(owned).transpose()?.map_or(Limit::Unbounded, Limit::Included);
    let upper = stop.map(owned).transpose()?.map_or(Limit::Unbounded, Limit::Excluded);
    Ok(KeyRange { lower, upper })
}
