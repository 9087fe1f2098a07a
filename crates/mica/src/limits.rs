//! How long keys and values may be.

use silica_base::{Error, ErrorKind, Result};

/// Longest key.
pub const KEY_BYTES_MAX: usize = (1 << 16) - 1;
/// Longest value; less of a cache that is so small that it would be more than about half of it.
pub const VALUE_BYTES_MAX: usize = 512 << 20;

/// Refuses `what` of more than `max` bytes.
#[inline]
pub(crate) fn at_most(bytes: usize, max: usize, what: &str) -> Result<()> {
    if bytes <= max { Ok(()) } else { Err(too_large(bytes, max, what)) }
}

#[cold]
pub(crate) fn too_large(bytes: usize, max: usize, what: &str) -> Error {
    let message = format!("a {what} of {bytes} bytes is over the cache's limit of {max}");
    Error::new(ErrorKind::TooLarge, message)
}
