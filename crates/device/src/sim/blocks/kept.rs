//! Bytes of a page as a simulated device keeps them: whole, or without their zeroes.

use silica_base::is_zero;
use std::sync::Arc;

/// Zeroes are looked for in pieces of this many bytes, then in granules.
const PIECE: usize = 512;
/// Runs begin and end at multiples of this. Smaller ones would cost more in places than they save.
const GRANULE: usize = 64;

/// Bytes that come back exactly as they were given. Clones share them.
#[derive(Clone)]
pub(super) enum Kept {
    /// All are zero.
    Zero,
    Whole(Arc<[u8]>),
    /// All but some are zero.
    Runs(Arc<Runs>),
}

pub(super) struct Runs {
    /// Where each run begins in the page, and its bytes' number.
    places: Box<[(u32, u32)]>,
    /// The runs, one after the other.
    bytes: Box<[u8]>,
}

impl Kept {
    /// Keeps `bytes`, without runs of zeroes if `is_sparse`.
    pub(super) fn new(bytes: &[u8], is_sparse: bool) -> Kept {
        if !is_sparse {
            return Kept::Whole(bytes.into());
        }
        let places = runs_of(bytes);
        match places[..] {
            [] => Kept::Zero,
            [(0, len)] if len as usize == bytes.len() => Kept::Whole(bytes.into()),
            _ => {
                let all = places.iter().map(|(_, len)| *len as usize).sum();
                let mut kept = Vec::with_capacity(all);
                for (at, len) in &places {
                    kept.extend_from_slice(&bytes[*at as usize..][..*len as usize]);
                }
                Kept::Runs(Arc::new(Runs { places: places.into(), bytes: kept.into() }))
            }
        }
    }

    /// Writes the bytes to `out`, which has as many.
    pub(super) fn copy_to(&self, out: &mut [u8]) {
        match self {
            Kept::Zero => out.fill(0),
            Kept::Whole(bytes) => out.copy_from_slice(bytes),
            Kept::Runs(runs) => {
                out.fill(0);
                let mut rest = &runs.bytes[..];
                for (at, len) in &runs.places {
                    let (run, behind) = rest.split_at(*len as usize);
                    out[*at as usize..][..run.len()].copy_from_slice(run);
                    rest = behind;
                }
            }
        }
    }

    /// Memory that the bytes take, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            Kept::Zero => 0,
            Kept::Whole(bytes) => bytes.len(),
            Kept::Runs(runs) => runs.bytes.len() + 8 * runs.places.len(),
        }
    }
}

/// Runs of granules that are not all zero: where each begins, and its length in bytes.
fn runs_of(bytes: &[u8]) -> Vec<(u32, u32)> {
    // One run in each piece at most, unless granules alternate.
    let mut places: Vec<(u32, u32)> = Vec::new();
    for (i, piece) in bytes.chunks(PIECE).enumerate() {
        if is_zero(piece) {
            continue;
        }
        for (j, granule) in piece.chunks(GRANULE).enumerate() {
            if is_zero(granule) {
                continue;
            }
            let (at, len) = ((i * PIECE + j * GRANULE) as u32, granule.len() as u32);
            match places.last_mut() {
                Some((from, run)) if *from + *run == at => *run += len,
                _ => {
                    if places.is_empty() {
                        places.reserve(bytes.len().div_ceil(PIECE));
                    }
                    places.push((at, len));
                }
            }
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::Prng;

    #[test]
    fn sparse_bytes_come_back_exactly_and_take_no_room_for_zeroes() {
        let mut prng = Prng::new(3);
        for round in 0..300 {
            let len = [0, 1, 63, 64, 65, 511, 513, 4096, 16384][round % 9];
            let mut bytes = vec![0_u8; len];
            let mut filled = 0;
            for _ in 0..prng.below(4) {
                let from = prng.below(len as u64 + 1) as usize;
                let run = prng.below(200.min(len - from) as u64 + 1) as usize;
                prng.fill(&mut bytes[from..from + run]);
                filled += run;
            }
            for is_sparse in [false, true] {
                let kept = Kept::new(&bytes, is_sparse);
                let mut back = vec![0xEE; len];
                kept.copy_to(&mut back);
                assert_eq!(back, bytes, "{round} {is_sparse}");
                if is_sparse {
                    // Two granules that a run only touches, and its place.
                    let most = filled + 4 * (2 * GRANULE + 8);
                    assert!(kept.memory_bytes() <= most.min(len + 8), "{round}: {filled}");
                }
            }
        }
    }
}
