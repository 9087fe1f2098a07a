//! Bytes that a piece of background work leaves unneeded.

use super::segment::Pointer;
use std::collections::BTreeMap;

/// Bytes of records that nothing points to any more, by segment.
#[derive(Debug, Clone, Default)]
pub struct Garbage(pub(super) BTreeMap<u32, u64>);

impl Garbage {
    /// Counts the record of an encoded pointer.
    pub fn add(&mut self, pointer: &[u8]) {
        if let Some(pointer) = Pointer::decode(pointer) {
            *self.0.entry(pointer.segment).or_default() += pointer.record_bytes();
        }
    }

    /// Takes away what `other` counted.
    pub fn subtract(&mut self, other: &Garbage) {
        for (segment, bytes) in &other.0 {
            let own = self.0.entry(*segment).or_default();
            *own = own.saturating_sub(*bytes);
        }
    }

    /// Counts what `other` counted.
    pub fn add_all(&mut self, other: &Garbage) {
        for (segment, bytes) in &other.0 {
            *self.0.entry(*segment).or_default() += bytes;
        }
    }
}
