//! Arrays that grow without moving: a piece has twice as many elements as the one before it. So a
//! small store takes little memory, and the list of pieces stays in a processor's first cache.

use silica_base::{HugeVec, Zeroable, prefetch};
use std::sync::OnceLock;

/// Elements of the first piece, as a power of two.
const FIRST_BITS: u32 = 8;

/// Elements that are all zero at first, numbered from 0.
pub(super) struct Pieces<T: Zeroable> {
    pieces: Box<[OnceLock<HugeVec<T>>]>,
}

/// Piece and place of element `number`.
#[inline(always)]
fn locate(number: u32) -> (usize, usize) {
    let shifted = u64::from(number) + (1 << FIRST_BITS);
    let bits = shifted.ilog2();
    ((bits - FIRST_BITS) as usize, (shifted - (1 << bits)) as usize)
}

impl<T: Zeroable> Pieces<T> {
    /// Room for `1 << bits` elements, none of which has memory yet.
    pub(super) fn new(bits: u32) -> Self {
        Pieces { pieces: (FIRST_BITS..=bits).map(|_| OnceLock::new()).collect() }
    }

    /// An element that was made.
    #[inline(always)]
    pub(super) fn get(&self, number: u32) -> &T {
        let (piece, at) = locate(number);
        &self.pieces[piece].get().expect("an element that was made")[at]
    }

    /// Asks the processor for an element that is looked at soon.
    #[inline(always)]
    pub(super) fn prefetch(&self, number: u32) {
        let (piece, at) = locate(number);
        if let Some(piece) = self.pieces[piece].get() {
            prefetch(piece, at);
        }
    }

    /// Takes memory for an element.
    pub(super) fn make(&self, number: u32) {
        let (piece, _) = locate(number);
        self.pieces[piece].get_or_init(|| HugeVec::zeroed(1 << (FIRST_BITS + piece as u32)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_a_place_of_its_own() {
        let mut next = (0, 0);
        for number in 0..10_000 {
            assert_eq!(locate(number), next);
            next.1 += 1;
            if next.1 == 1 << (FIRST_BITS + next.0 as u32) {
                next = (next.0 + 1, 0);
            }
        }
        let pieces: Pieces<u64> = Pieces::new(28);
        pieces.make((1 << 28) - 1);
        assert_eq!(*pieces.get((1 << 28) - 1), 0);
    }
}
