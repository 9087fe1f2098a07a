//! The optional filter of a sorted store: key fragments in sorted order.
//!
//! A fragment is a position reduced to the range of `entries * 2^filter_bits`. In sorted order
//! almost all of its upper bits are implied, so it costs `filter_bits` and two bits more; a key
//! that is not there hits a fragment by accident with probability 1 in 2^filter_bits.

use crate::elias_fano::{EliasFano, EliasFanoBuilder};
use silica_base::{Error, Result};

/// Collects fragments.
pub(super) struct MissFilterBuilder {
    universe: u64,
    last: Option<u64>,
    fragments: EliasFanoBuilder,
}

/// The sorted fragments.
pub(super) struct MissFilter {
    universe: u64,
    fragments: EliasFano,
}

const UNIVERSE_BYTES: usize = 8;

#[inline]
fn fragment(position: u64, universe: u64) -> u64 {
    ((u128::from(position) * u128::from(universe)) >> 64) as u64
}

impl MissFilterBuilder {
    pub(super) fn new(filter_bits: u32, entries_expected: u64) -> Self {
        let filter_bits = filter_bits.min(24);
        let universe = entries_expected.clamp(1, 1 << 32) << filter_bits;
        MissFilterBuilder { universe, last: None, fragments: EliasFanoBuilder::new(filter_bits) }
    }

    /// Adds the next position; they do not fall.
    #[inline]
    pub(super) fn push(&mut self, position: u64) {
        let fragment = fragment(position, self.universe);
        if self.last != Some(fragment) {
            self.last = Some(fragment);
            self.fragments.push(fragment);
        }
    }

    pub(super) fn finish(self) -> MissFilter {
        MissFilter { universe: self.universe, fragments: self.fragments.finish() }
    }
}

impl MissFilter {
    /// False where no entry has `position`.
    #[inline]
    pub(super) fn may_contain(&self, position: u64) -> bool {
        self.fragments.count_up_to(fragment(position, self.universe)).1
    }

    pub(super) fn bytes(&self) -> usize {
        self.fragments.bytes() + UNIVERSE_BYTES
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.universe.to_le_bytes());
        self.fragments.encode(out);
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let short = || Error::corruption("miss filter", 0, "cut short");
        let (universe, rest) = bytes.split_first_chunk::<UNIVERSE_BYTES>().ok_or_else(short)?;
        let fragments = EliasFano::decode(rest)?;
        Ok(MissFilter { universe: u64::from_le_bytes(*universe), fragments })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::Prng;

    #[test]
    fn no_key_is_rejected_and_misses_pass_as_rarely_as_promised() {
        let mut prng = Prng::new(3);
        let mut positions: Vec<u64> = (0..50_000).map(|_| prng.next_u64()).collect();
        positions.sort_unstable();
        for expected in [1, 50_000, 400_000] {
            let mut builder = MissFilterBuilder::new(6, expected);
            positions.iter().for_each(|p| builder.push(*p));
            let mut bytes = Vec::new();
            builder.finish().encode(&mut bytes);
            let filter = MissFilter::decode(&bytes).expect("just encoded");
            assert!(positions.iter().all(|p| filter.may_contain(*p)));
            if expected == 50_000 {
                let passed = (0..50_000).filter(|_| filter.may_contain(prng.next_u64())).count();
                let bits = filter.bytes() as f64 * 8.0 / 50_000.0;
                assert!(passed < 50_000 / 55 && bits < 8.2, "{passed} pass, {bits} bits per key");
            }
        }
    }
}
