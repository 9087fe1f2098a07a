//! How values leave: in memory of `malloc`, or in the caller's buffer.

use crate::raw;
use silica::{EntryRef, MetricsMap, Result};
use std::ffi::c_void;
use std::fmt::Write;
use std::ptr;

/// Hands out a copy of the value that `get` finds; NULL if it finds none.
#[inline]
pub(crate) fn hand_out(
    value: *mut *mut c_void,
    length: *mut usize,
    get: impl FnOnce(&mut dyn FnMut(Option<EntryRef<'_>>)) -> Result<()>,
) -> Result<()> {
    raw::put(value, ptr::null_mut())?;
    let mut copy: Option<(*mut c_void, usize)> = None;
    get(&mut |entry| {
        copy = entry.map(|entry| (raw::allocated(entry.value), entry.value.len()));
    })?;
    let Some((copy, bytes)) = copy else {
        raw::put_if(length, 0);
        return Ok(());
    };
    if copy.is_null() {
        return Err(raw::no_memory());
    }
    raw::put_if(length, bytes);
    raw::put(value, copy)
}

/// Copies the value that `get` finds into `buffer`, and its whole length to `*length`; `SIZE_MAX`
/// if it finds none.
#[inline]
pub(crate) fn copy_out(
    buffer: *mut c_void,
    room: usize,
    length: *mut usize,
    get: impl FnOnce(&mut dyn FnMut(Option<EntryRef<'_>>)) -> Result<()>,
) -> Result<()> {
    raw::check_buffer(buffer, room)?;
    let mut found = usize::MAX;
    get(&mut |entry| {
        if let Some(entry) = entry {
            raw::copy(entry.value, buffer, room);
            found = entry.value.len();
        }
    })?;
    raw::put(length, found)
}

/// Metrics as lines of `name: value`.
pub(crate) fn metrics_text(metrics: &MetricsMap) -> String {
    let mut text = String::new();
    for (name, value) in &metrics.0 {
        let _ = writeln!(text, "{name}: {value}");
    }
    text
}
