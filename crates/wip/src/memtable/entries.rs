//! Entries by their positions, and their order.

use silica_parts::frame::Frame;
use std::cmp::Ordering;

/// Bits of a position.
pub const POSITION_BITS: u32 = 48;

/// Entries by their positions: the log.
pub trait Entries {
    /// The entry at a position that a memtable holds.
    fn entry(&self, position: u64) -> Frame<'_>;

    /// Asks for the memory of such an entry.
    fn prefetch(&self, _position: u64) {}
}

/// An entry that was found, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found<'e> {
    /// Its position.
    pub position: u64,
    /// The entry.
    pub entry: Frame<'e>,
}

/// The memtable has no room for another position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// The order of a range: keys ascending, of one key the newest first.
pub(super) fn order(key: &[u8], position: u64, other_key: &[u8], other: u64) -> Ordering {
    key.cmp(other_key).then(other.cmp(&position))
}

/// The first eight bytes of a key as a number: where two differ, so do the keys, in the same order.
#[inline]
pub(crate) fn head(key: &[u8]) -> u64 {
    if let Some(bytes) = key.first_chunk() {
        return u64::from_be_bytes(*bytes);
    }
    let mut bytes = [0; 8];
    bytes[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(bytes)
}
