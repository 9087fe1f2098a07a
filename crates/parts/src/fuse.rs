//! Binary fuse filters: whether a key may be in a set that is known when the filter is made.
//! Format: docs/formats/fuse-filter.md.
//!
//! After Graf and Lemire, *Binary Fuse Filters*, 2022. A set of *n* keys takes about 1.13 *n*
//! places of a few bits each. A key's hash names three places, in three neighbouring segments, and
//! a fingerprint; the places are filled so that those of every key of the set come to its
//! fingerprint by exclusive or. A key that is not in the set passes once in 2^bits cases.

use crate::fields::Fields;
use silica_base::prefetch;
use std::sync::Arc;

/// Bits of a place at most.
pub const BITS_MAX: u32 = 16;
/// Bytes before the places.
const HEADER_BYTES: usize = 24;
/// Places in a segment at most, as a power of two.
const SEGMENT_BITS_MAX: u32 = 18;
/// So many places are near enough to one another in any order.
const NEAR_PLACES: usize = 32 << 10;
/// How often places are drawn anew where some keys cannot get theirs.
const TRIES_MAX: u64 = 100;
/// Keys of a filter at most.
const KEYS_MAX: usize = 1 << 30;

/// Where the places of a filter are. It has 16 bytes, so that a filter has 32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Geometry {
    /// Changes the hashes, where an earlier drawing did not come out.
    seed: u64,
    /// Places of all segments that a key's first one may be in.
    span: u32,
    /// Places in a segment, as a power of two.
    segment_log2: u8,
    /// Of a place.
    bits: u8,
}

impl Geometry {
    /// Places of `bits` bits for `keys` keys.
    fn new(keys: usize, bits: u32) -> Self {
        let keys = keys.max(2) as f64;
        // The paper's choice for three places a key.
        let log2 = (keys.ln() / 3.33f64.ln() + 2.25) as u32;
        let segment_log2 = log2.min(SEGMENT_BITS_MAX) as u8;
        let segment = 1u32 << segment_log2;
        let factor = (0.875 + 0.25 * 1e6f64.ln() / keys.ln()).max(1.125);
        let segments = ((keys * factor) as u64).div_ceil(u64::from(segment)).saturating_sub(2);
        let span = segments.max(1) as u32 * segment;
        Geometry { seed: 0, span, segment_log2, bits: bits as u8 }
    }

    /// Places in a segment.
    #[inline(always)]
    fn segment(&self) -> u32 {
        1 << self.segment_log2
    }

    /// Places in all.
    fn places(&self) -> usize {
        self.span as usize + 2 * self.segment() as usize
    }

    /// Words that the places take, and one more.
    fn words(&self) -> usize {
        (self.places() * usize::from(self.bits)).div_ceil(64) + 1
    }

    #[inline(always)]
    fn mixed(&self, hash: u64) -> u64 {
        let mixed = (hash ^ self.seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed ^ mixed >> 32
    }

    /// The three places of a key.
    #[inline(always)]
    fn of(&self, mixed: u64) -> [usize; 3] {
        let first = ((u128::from(mixed) * u128::from(self.span)) >> 64) as u32;
        let (segment, mask) = (self.segment(), self.segment() - 1);
        let second = (first + segment) ^ (mixed >> 18) as u32 & mask;
        let third = (first + 2 * segment) ^ mixed as u32 & mask;
        [first as usize, second as usize, third as usize]
    }
}

#[inline(always)]
fn fingerprint(mixed: u64) -> u64 {
    // Bits that say little about the places.
    (mixed >> 7).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 40
}

fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// The bits of a place, and others above them.
#[inline(always)]
fn read(words: &[u64], bits: u32, at: usize) -> u64 {
    let bit = at * bits as usize;
    let (word, shift) = (bit / 64, bit % 64);
    words[word] >> shift | words[word + 1] << 1 << (63 - shift)
}

/// Sets a place that is zero.
fn fill(words: &mut [u64], bits: u32, at: usize, value: u64) {
    let bit = at * bits as usize;
    let (word, shift) = (bit / 64, bit % 64);
    words[word] |= value << shift;
    words[word + 1] |= value >> 1 >> (63 - shift);
}

/// A filter of a set of hashes. Its clones share the places.
#[derive(Debug, Clone)]
pub struct FuseFilter {
    geometry: Geometry,
    /// Places, and one more word, so that every place may be read as two.
    words: Arc<[u64]>,
}

/// Keys that share a place, while places are given away: of all of them, by exclusive or, their
/// mixed hashes and, in the number's lowest bits, which of their places this is; above that, how
/// many they are. Twelve bytes: there is one for each place.
#[derive(Debug, Clone, Copy, Default)]
struct Sharers {
    mixed: [u32; 2],
    number: u32,
}

const WHICH_MASK: u32 = 3;
/// The other places of a key, by which of them this is; the last row is of no place.
const OTHERS: [[usize; 2]; 4] = [[1, 2], [0, 2], [0, 1], [0, 0]];
const ONE: u32 = WHICH_MASK + 1;

impl Sharers {
    #[inline(always)]
    fn mixed(&self) -> u64 {
        u64::from(self.mixed[0]) | u64::from(self.mixed[1]) << 32
    }

    /// Which of the places of the key that is alone here this is.
    #[inline(always)]
    fn which(&self) -> usize {
        (self.number & WHICH_MASK) as usize
    }

    #[inline(always)]
    fn is_alone(&self) -> bool {
        self.number & !WHICH_MASK == ONE
    }

    /// Another one's exclusive or, whether it comes or goes.
    #[inline(always)]
    fn toggle(&mut self, mixed: u64, which: u32) {
        self.mixed[0] ^= mixed as u32;
        self.mixed[1] ^= (mixed >> 32) as u32;
        self.number ^= which;
    }
}

impl FuseFilter {
    /// Bytes of memory that making a filter takes for each key, the hashes not counted: its places
    /// and the order in which they are filled.
    pub const BUILT_KEY_BYTES: u64 = 22;

    /// A filter of `hashes`, of uniform 64-bit values, with places of `bits` bits. Hashes that come
    /// more than once count once; `hashes` is in another order afterwards.
    ///
    /// Besides the hashes it takes [`FuseFilter::BUILT_KEY_BYTES`] for each key meanwhile, about.
    ///
    /// # Panics
    /// Where there are more than 2^30 hashes, or no bits or more than 16.
    pub fn new(hashes: &mut Vec<u64>, bits: u32) -> Self {
        assert!((1..=BITS_MAX).contains(&bits) && hashes.len() <= KEYS_MAX, "a filter's limits");
        let mut geometry = Geometry::new(hashes.len(), bits);
        for seed in 0..TRIES_MAX {
            geometry.seed = seed.wrapping_mul(0xA076_1D64_78BD_642F);
            if let Some(peeled) = peel(&geometry, hashes) {
                return Self::filled(geometry, &peeled);
            }
            // Two that are the same never come out.
            hashes.sort_unstable();
            hashes.dedup();
            // Of some numbers of keys nearly every drawing fails where places are this few.
            geometry.span += geometry.segment();
        }
        unreachable!("with that many places nearly every drawing comes out");
    }

    fn filled(geometry: Geometry, Peeled { sharers, order }: &Peeled) -> Self {
        let mut places = vec![0u16; geometry.places()];
        // Backwards: each key's place is none of those that come later.
        for at in order.iter().rev() {
            let here = sharers[*at as usize];
            let (mixed, which) = (here.mixed(), here.which());
            let all = geometry.of(mixed);
            let [one, other] = [all[OTHERS[which][0]], all[OTHERS[which][1]]];
            places[*at as usize] = fingerprint(mixed) as u16 ^ places[one] ^ places[other];
        }
        let (bits, mut filter) = (u32::from(geometry.bits), vec![0; geometry.words()]);
        for (at, place) in places.iter().enumerate() {
            fill(&mut filter, bits, at, u64::from(*place) & mask(bits));
        }
        FuseFilter { geometry, words: filter.into() }
    }

    /// False where the set has no key with this hash.
    #[inline]
    pub fn may_contain(&self, hash: u64) -> bool {
        let mixed = self.geometry.mixed(hash);
        let (places, bits) = (self.geometry.of(mixed), u32::from(self.geometry.bits));
        let sum =
            places.iter().fold(fingerprint(mixed), |sum, at| sum ^ read(&self.words, bits, *at));
        sum & mask(bits) == 0
    }

    /// Asks for the places of a hash.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        for at in self.geometry.of(self.geometry.mixed(hash)) {
            prefetch(&self.words, at * usize::from(self.geometry.bits) / 64);
        }
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        8 * self.words.len()
    }

    /// The bytes that [`FuseFilter::decode`] reads.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES + self.bytes());
        let Geometry { seed, span, bits, .. } = self.geometry;
        out.extend_from_slice(&seed.to_le_bytes());
        for field in [self.geometry.segment(), span, u32::from(bits), 0] {
            out.extend_from_slice(&field.to_le_bytes());
        }
        self.words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        out
    }

    /// Reads a filter; `None` where the bytes are none.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let seed = fields.u64()?;
        let [segment, span, bits, zero] =
            [fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?];
        let is_possible = segment.is_power_of_two()
            && segment <= 1 << SEGMENT_BITS_MAX
            && span > 0
            && span.is_multiple_of(segment)
            && span <= u32::MAX / 2
            && (1..=BITS_MAX).contains(&bits)
            && zero == 0;
        if !is_possible {
            return None;
        }
        let (segment_log2, bits) = (segment.ilog2() as u8, bits as u8);
        let geometry = Geometry { seed, span, segment_log2, bits };
        let (words, rest) = fields.0.as_chunks::<8>();
        let has_all = rest.is_empty() && words.len() == geometry.words();
        let words = || words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        has_all.then(|| FuseFilter { geometry, words: words() })
    }
}

/// Places that were given away, each to the key that was left alone there.
struct Peeled {
    sharers: Vec<Sharers>,
    /// The places, in an order in which none is another place of a key that comes later.
    order: Vec<u32>,
}

/// Gives every key a place of its own; `None` where that does not come out.
fn peel(geometry: &Geometry, hashes: &[u64]) -> Option<Peeled> {
    let mut sharers = vec![Sharers::default(); geometry.places()];
    let mut share = |mixed: u64| -> Option<()> {
        for (which, at) in geometry.of(mixed).into_iter().enumerate() {
            let here = &mut sharers[at];
            here.toggle(mixed, which as u32);
            here.number = here.number.checked_add(ONE)?;
        }
        Some(())
    };
    if geometry.places() <= NEAR_PLACES {
        hashes.iter().try_for_each(|hash| share(geometry.mixed(*hash)))?;
    } else {
        in_order(geometry, hashes).into_iter().try_for_each(share)?;
    }
    // A place gets here once: the number of its keys comes down to one once. Whether one does is
    // as good as random, so it is written in any case, and counts where it belongs here.
    let (mut alone, mut count) = (vec![0u32; sharers.len() + 1], 0);
    for (at, here) in sharers.iter().enumerate() {
        alone[count] = at as u32;
        count += usize::from(here.is_alone());
    }
    // First come, first served: so none waits for what became of the one right before.
    let (mut next, mut done) = (0, 0);
    while next < count {
        let at = alone[next];
        next += 1;
        let here = sharers[at as usize];
        if !here.is_alone() {
            continue;
        }
        alone[done] = at;
        done += 1;
        let (mixed, own) = (here.mixed(), here.which());
        let places = geometry.of(mixed);
        for other in OTHERS[own] {
            let at = places[other];
            let there = &mut sharers[at];
            there.toggle(mixed, other as u32);
            there.number -= ONE;
            alone[count] = at as u32;
            count += usize::from(there.is_alone());
        }
    }
    alone.truncate(done);
    (done == hashes.len()).then_some(Peeled { sharers, order: alone })
}

/// The mixed hashes, roughly in the order of their first places: so that those of keys that come
/// one after the other are near one another.
fn in_order(geometry: &Geometry, hashes: &[u64]) -> Vec<u64> {
    let shift = 64 - (hashes.len() as u64 / 256).max(1).ilog2().clamp(1, 10);
    let mut ends = vec![0usize; (1 << (64 - shift)) + 1];
    for hash in hashes {
        ends[(geometry.mixed(*hash) >> shift) as usize + 1] += 1;
    }
    (1..ends.len()).for_each(|i| ends[i] += ends[i - 1]);
    let mut ordered = vec![0; hashes.len()];
    for hash in hashes {
        let mixed = geometry.mixed(*hash);
        let end = &mut ends[(mixed >> shift) as usize];
        ordered[*end] = mixed;
        *end += 1;
    }
    ordered
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::{Prng, test_size};

    #[test]
    fn every_key_passes_and_others_as_seldom_as_the_bits_say() {
        for (keys, bits) in
            [(0, 8), (1, 8), (2, 1), (50, 16), (3000, 7), (200_000, 9), (30_000, 12)]
        {
            let mut prng = Prng::new(keys + u64::from(bits));
            let mut hashes: Vec<u64> = (0..keys).map(|_| prng.next_u64()).collect();
            let all = hashes.clone();
            let filter = FuseFilter::new(&mut hashes, bits);
            assert!(all.iter().all(|hash| filter.may_contain(*hash)), "{keys} keys");
            let others = test_size(300_000, 1_000_000, 10_000_000);
            let passed = (0..others).filter(|_| filter.may_contain(prng.next_u64())).count();
            let expected = others as f64 / f64::from(1 << bits);
            let most = expected + 5.0 * expected.sqrt() + 1.0;
            let least = if keys == 0 { 0.0 } else { expected - 5.0 * expected.sqrt() - 1.0 };
            let passed = passed as f64;
            assert!((least..most).contains(&passed), "{keys} keys: {passed}, {expected} expected");
            if keys > 10_000 {
                let bits_per_key = 8.0 * filter.bytes() as f64 / keys as f64;
                assert!(bits_per_key < 1.25 * f64::from(bits), "{bits_per_key} a key for {bits}");
            }
        }
    }

    #[test]
    fn every_number_of_keys_gets_a_filter() {
        let mut prng = Prng::new(7);
        // Where the places come to whole segments they are fewest, and drawings fail.
        let least: Vec<u64> = vec![3_540, 3_960, 11_400, 12_300, 13_150];
        for keys in (0..20).chain(least.into_iter().flat_map(|n| (n..n + 150).step_by(15))) {
            let hashes: Vec<u64> = (0..keys).map(|_| prng.next_u64()).collect();
            let filter = FuseFilter::new(&mut hashes.clone(), 8);
            assert!(hashes.iter().all(|hash| filter.may_contain(*hash)), "{keys} keys");
            assert!(filter.bytes() as u64 <= 2 * keys + 100, "{keys}: {} bytes", filter.bytes());
        }
    }

    #[test]
    fn hashes_that_come_twice_count_once() {
        let mut hashes: Vec<u64> = (0..1000u64).flat_map(|n| [n << 40, n << 40]).collect();
        let filter = FuseFilter::new(&mut hashes, 10);
        assert!((0..1000u64).all(|n| filter.may_contain(n << 40)));
    }

    #[test]
    fn filters_come_back_and_strange_bytes_are_refused() {
        let mut prng = Prng::new(3);
        let mut hashes: Vec<u64> = (0..700).map(|_| prng.next_u64()).collect();
        let filter = FuseFilter::new(&mut hashes, 11);
        let bytes = filter.encode();
        let back = FuseFilter::decode(&bytes).expect("a filter");
        assert_eq!((back.encode(), back.bytes()), (bytes.clone(), filter.bytes()));
        assert!(hashes.iter().all(|hash| back.may_contain(*hash)));
        let is_refused = |bytes: &[u8]| FuseFilter::decode(bytes).is_none();
        assert!((0..bytes.len()).all(|cut| is_refused(&bytes[..cut])));
        let corpus = [bytes];
        for _ in 0..test_size(2000, 20_000, 1_000_000) {
            let strange = silica_base::mutated(&mut prng, &corpus);
            if let Some(filter) = FuseFilter::decode(&strange) {
                filter.may_contain(prng.next_u64());
                filter.prefetch(prng.next_u64());
            }
        }
    }
}
