//! The optional filter of a sorted store: key fragments in sorted order.
//!
//! Positions are cut to `log2(entries) + filter_bits` bits. In sorted order almost all of the
//! upper bits are implied, so a fragment costs little more than `filter_bits`; a key that is not
//! there hits a fragment by accident with probability 1 in 2^filter_bits.

use silica_base::{Error, Result};

/// Collects fragments.
pub(super) struct MissFilterBuilder {
    shift: u32,
    fragments: Vec<u64>,
}

/// The sorted fragments.
pub(super) struct MissFilter {
    shift: u32,
    fragments: Vec<u64>,
}

impl MissFilterBuilder {
    pub(super) fn new(filter_bits: u32, entries_expected: u64) -> Self {
        let bits = (entries_expected.max(1).ilog2() + 1 + filter_bits).min(64);
        MissFilterBuilder { shift: 64 - bits, fragments: Vec::new() }
    }

    /// Adds the next position; they do not fall.
    #[inline]
    pub(super) fn push(&mut self, position: u64) {
        let fragment = position >> self.shift;
        if self.fragments.last() != Some(&fragment) {
            self.fragments.push(fragment);
        }
    }

    pub(super) fn finish(self) -> MissFilter {
        MissFilter { shift: self.shift, fragments: self.fragments }
    }
}

impl MissFilter {
    /// False where no entry has `position`.
    #[inline]
    pub(super) fn may_contain(&self, position: u64) -> bool {
        self.fragments.binary_search(&(position >> self.shift)).is_ok()
    }

    pub(super) fn bytes(&self) -> usize {
        self.fragments.capacity() * 8
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.shift.to_le_bytes());
        self.fragments.iter().for_each(|f| out.extend_from_slice(&f.to_le_bytes()));
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let damaged = || Error::corruption("miss filter", 0, "impossible contents");
        let (shift, rest) = bytes.split_first_chunk::<4>().ok_or_else(damaged)?;
        let shift = u32::from_le_bytes(*shift);
        let (fragments, rest) = rest.as_chunks::<8>();
        let fragments: Vec<u64> = fragments.iter().map(|f| u64::from_le_bytes(*f)).collect();
        if shift >= 64 || !rest.is_empty() || !fragments.is_sorted() {
            return Err(damaged());
        }
        Ok(MissFilter { shift, fragments })
    }
}
