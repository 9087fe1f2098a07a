//! How values leave: in memory of `malloc`, or in the caller's buffer.

use crate::raw;
use silica::{EntryRef, MetricsMap, Result};
use std::ffi::c_void;
use std::fmt::Write;
use std::ptr;

/// A copy of a value in memory of `malloc`, and its length; `None` if there is no value.
pub(crate) type Copied = Option<(*mut c_void, usize)>;

/// Copies a value.
#[inline(always)]
pub(crate) fn copied(entry: Option<EntryRef<'_>>) -> Copied {
    entry.map(|entry| (raw::allocated(entry.value), entry.value.len()))
}

/// Hands out the copy that `get` makes with [`copied`]; NULL if there is none.
#[inline(always)]
pub(crate) fn hand_out(
    value: *mut *mut c_void,
    length: *mut usize,
    get: impl FnOnce() -> Result<Copied>,
) -> Result<()> {
    raw::put(value, ptr::null_mut())?;
    let (copy, bytes) = match get()? {
        Some((copy, _)) if copy.is_null() => return Err(raw::no_memory()),
        Some(copied) => copied,
        None => (ptr::null_mut(), 0),
    };
    raw::put_if(length, bytes);
    raw::put(value, copy)
}

/// A buffer of the caller.
#[derive(Clone, Copy)]
pub(crate) struct Room {
    buffer: *mut c_void,
    bytes: usize,
}

impl Room {
    /// Refuses a buffer without an address.
    #[inline(always)]
    pub(crate) fn new(buffer: *mut c_void, bytes: usize) -> Result<Self> {
        raw::check_buffer(buffer, bytes)?;
        Ok(Room { buffer, bytes })
    }

    /// Copies as much of a value as there is room for, and returns its whole length; `SIZE_MAX` if
    /// there is no value.
    #[inline(always)]
    pub(crate) fn fill(self, entry: Option<EntryRef<'_>>) -> usize {
        let Some(entry) = entry else { return usize::MAX };
        raw::copy(entry.value, self.buffer, self.bytes);
        entry.value.len()
    }
}

/// Metrics as lines of `name: value`.
pub(crate) fn metrics_text(metrics: &MetricsMap) -> String {
    let mut text = String::new();
    for (name, value) in &metrics.0 {
        let _ = writeln!(text, "{name}: {value}");
    }
    text
}
