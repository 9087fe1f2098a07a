//! The hash of eight short keys at once, a key in each lane of vector registers.
//!
//! Keys go together where they have the same number of whole words. Which instructions there are
//! is asked at run time; without them, and for other keys, each key is hashed by itself.

use super::{HashSeed, KeyHash};

/// What is wanted of a hash.
pub(super) trait Digest: Sized {
    /// False where the upper half is not asked for.
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "lanes alone ask"))]
    const IS_WHOLE: bool;
    fn new(low: u64, high: u64) -> Self;
}

impl Digest for KeyHash {
    const IS_WHOLE: bool = true;

    #[inline(always)]
    fn new(low: u64, high: u64) -> Self {
        KeyHash(u128::from(high) << 64 | u128::from(low))
    }
}

impl Digest for u64 {
    const IS_WHOLE: bool = false;

    #[inline(always)]
    fn new(low: u64, _high: u64) -> Self {
        low
    }
}

/// Hashes `keys` with the widest instructions that there are.
#[inline]
pub(super) fn hash_many<D: Digest>(seed: &HashSeed, keys: &[&[u8]], hashes: &mut [D]) {
    #[cfg(target_arch = "x86_64")]
    if keys.len() >= x86::LANES_MIN {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the processor has AVX-512F.
            return unsafe { x86::with_avx512(seed, keys, hashes) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            return unsafe { x86::with_avx2(seed, keys, hashes) };
        }
    }
    one_by_one(seed, keys, hashes);
}

fn one_by_one<D: Digest>(seed: &HashSeed, keys: &[&[u8]], hashes: &mut [D]) {
    for (key, hash) in keys.iter().zip(hashes) {
        let whole = seed.hash(key);
        *hash = D::new(whole.low(), whole.high());
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::*;
    use crate::hash::{SHORT_BYTES_MAX, last_block};
    use std::arch::x86_64::*;

    /// Keys in a group.
    const LANES: usize = 8;
    /// Fewer keys than this are not worth a group that they do not fill.
    pub(super) const LANES_MIN: usize = 3;

    /// A block of each key.
    type Blocks = [u64; LANES];

    /// How many whole words each of `keys` has, and whether none has more than these; `None` where
    /// they do not go together.
    #[inline(always)]
    fn words_of(keys: &[&[u8]; LANES]) -> Option<(usize, bool)> {
        let len = keys[0].len();
        let differs = keys.iter().fold(0, |differs, key| differs | key.len() ^ len);
        let are_like = differs <= 7 && len < SHORT_BYTES_MAX + 8;
        are_like.then_some((len / 8, differs | len & 7 == 0))
    }

    /// Word `at` of each key.
    #[inline(always)]
    fn words_at(keys: &[&[u8]; LANES], at: usize) -> Blocks {
        keys.map(|key| key.as_chunks::<8>().0.get(at).map_or(0, |word| u64::from_le_bytes(*word)))
    }

    /// Eight lanes of 64 bits.
    ///
    /// # Safety
    ///
    /// The methods need the processor to have the instructions that the type is named after.
    trait Vector: Copy {
        unsafe fn splat(word: u64) -> Self;
        unsafe fn load(words: &Blocks) -> Self;
        unsafe fn store(self) -> Blocks;
        unsafe fn add(self, other: Self) -> Self;
        unsafe fn xor(self, other: Self) -> Self;
        /// Rotates to the left by `L` bits, which is to the right by `R`.
        unsafe fn rotate<const L: i32, const R: i32>(self) -> Self;
    }

    #[derive(Clone, Copy)]
    struct Avx512(__m512i);

    impl Vector for Avx512 {
        #[inline(always)]
        unsafe fn splat(word: u64) -> Self {
            // SAFETY: by the trait's contract.
            unsafe { Avx512(_mm512_set1_epi64(word as i64)) }
        }

        #[inline(always)]
        unsafe fn load(words: &Blocks) -> Self {
            // SAFETY: by the trait's contract; 64 bytes are read, and need no alignment.
            unsafe { Avx512(_mm512_loadu_si512(words.as_ptr().cast())) }
        }

        #[inline(always)]
        unsafe fn store(self) -> Blocks {
            let mut words = [0; LANES];
            // SAFETY: by the trait's contract; 64 bytes are written, and need no alignment.
            unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), self.0) };
            words
        }

        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            // SAFETY: by the trait's contract.
            unsafe { Avx512(_mm512_add_epi64(self.0, other.0)) }
        }

        #[inline(always)]
        unsafe fn xor(self, other: Self) -> Self {
            // SAFETY: by the trait's contract.
            unsafe { Avx512(_mm512_xor_si512(self.0, other.0)) }
        }

        #[inline(always)]
        unsafe fn rotate<const L: i32, const R: i32>(self) -> Self {
            // SAFETY: by the trait's contract.
            unsafe { Avx512(_mm512_rol_epi64::<L>(self.0)) }
        }
    }

    #[derive(Clone, Copy)]
    struct Avx2([__m256i; 2]);

    impl Avx2 {
        #[inline(always)]
        fn each(self, other: Self, f: impl Fn(__m256i, __m256i) -> __m256i) -> Self {
            Avx2([f(self.0[0], other.0[0]), f(self.0[1], other.0[1])])
        }
    }

    impl Vector for Avx2 {
        #[inline(always)]
        unsafe fn splat(word: u64) -> Self {
            // SAFETY: by the trait's contract.
            unsafe { Avx2([_mm256_set1_epi64x(word as i64); 2]) }
        }

        #[inline(always)]
        unsafe fn load(words: &Blocks) -> Self {
            let halves = words.as_chunks::<4>().0;
            // SAFETY: by the trait's contract; 32 bytes are read twice, and need no alignment.
            unsafe {
                let first = _mm256_loadu_si256(halves[0].as_ptr().cast());
                Avx2([first, _mm256_loadu_si256(halves[1].as_ptr().cast())])
            }
        }

        #[inline(always)]
        unsafe fn store(self) -> Blocks {
            let mut words = [0; LANES];
            for (half, lanes) in words.as_chunks_mut::<4>().0.iter_mut().zip(self.0) {
                // SAFETY: by the trait's contract; 32 bytes are written, and need no alignment.
                unsafe { _mm256_storeu_si256(half.as_mut_ptr().cast(), lanes) };
            }
            words
        }

        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            // SAFETY: by the trait's contract.
            self.each(other, |a, b| unsafe { _mm256_add_epi64(a, b) })
        }

        #[inline(always)]
        unsafe fn xor(self, other: Self) -> Self {
            // SAFETY: by the trait's contract.
            self.each(other, |a, b| unsafe { _mm256_xor_si256(a, b) })
        }

        #[inline(always)]
        unsafe fn rotate<const L: i32, const R: i32>(self) -> Self {
            // SAFETY: by the trait's contract.
            self.each(self, |a, _| unsafe {
                if L == 32 {
                    return _mm256_shuffle_epi32::<0b10_11_00_01>(a);
                }
                _mm256_or_si256(_mm256_slli_epi64::<L>(a), _mm256_srli_epi64::<R>(a))
            })
        }
    }

    /// # Safety
    ///
    /// The processor has AVX-512F.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn with_avx512<D: Digest>(seed: &HashSeed, keys: &[&[u8]], hashes: &mut [D]) {
        // SAFETY: the caller knows that the processor has what `Avx512` needs.
        unsafe { in_groups::<Avx512, D>(seed, keys, hashes) }
    }

    /// # Safety
    ///
    /// The processor has AVX2.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn with_avx2<D: Digest>(seed: &HashSeed, keys: &[&[u8]], hashes: &mut [D]) {
        // SAFETY: the caller knows that the processor has what `Avx2` needs.
        unsafe { in_groups::<Avx2, D>(seed, keys, hashes) }
    }

    #[inline(always)]
    unsafe fn in_groups<V: Vector, D: Digest>(seed: &HashSeed, keys: &[&[u8]], hashes: &mut [D]) {
        for (keys, hashes) in keys.chunks(LANES).zip(hashes.chunks_mut(LANES)) {
            let mut padded;
            let all = match keys.first_chunk() {
                Some(all) => all,
                None if keys.len() < LANES_MIN => {
                    one_by_one(seed, keys, hashes);
                    continue;
                }
                None => {
                    // Lanes without a key get the first one.
                    padded = [keys[0]; LANES];
                    padded[..keys.len()].copy_from_slice(keys);
                    &padded
                }
            };
            let Some(words) = words_of(all) else {
                one_by_one(seed, keys, hashes);
                continue;
            };
            // SAFETY: the caller knows that the processor has what `V` needs.
            let [low, high] = unsafe { hash_group::<V, D>(seed, all, words) };
            if let Some(hashes) = hashes.first_chunk_mut::<LANES>() {
                *hashes = std::array::from_fn(|lane| D::new(low[lane], high[lane]));
            } else {
                for (lane, hash) in hashes.iter_mut().enumerate() {
                    *hash = D::new(low[lane], high[lane]);
                }
            }
        }
    }

    /// What `HashSeed::hash_short` does, in every lane.
    #[inline(always)]
    unsafe fn hash_group<V: Vector, D: Digest>(
        seed: &HashSeed,
        keys: &[&[u8]; LANES],
        (words, are_whole): (usize, bool),
    ) -> [Blocks; 2] {
        // SAFETY: the caller knows that the processor has what `V` needs.
        unsafe {
            let mut v = seed.start().map(|word| V::splat(word));
            for at in 0..words {
                absorb(&mut v, V::load(&words_at(keys, at)));
            }
            let last = match are_whole {
                true => V::splat(last_block(keys[0])),
                false => V::load(&keys.map(last_block)),
            };
            absorb(&mut v, last);
            v[2] = v[2].xor(V::splat(0xEE));
            for _ in 0..3 {
                round(&mut v);
            }
            let low = v[0].xor(v[1]).xor(v[2].xor(v[3]));
            if !D::IS_WHOLE {
                return [low.store(), [0; LANES]];
            }
            v[1] = v[1].xor(V::splat(0xDD));
            for _ in 0..3 {
                round(&mut v);
            }
            [low.store(), v[0].xor(v[1]).xor(v[2].xor(v[3])).store()]
        }
    }

    #[inline(always)]
    unsafe fn absorb<V: Vector>(v: &mut [V; 4], block: V) {
        // SAFETY: the caller knows that the processor has what `V` needs.
        unsafe {
            v[3] = v[3].xor(block);
            round(v);
            v[0] = v[0].xor(block);
        }
    }

    #[inline(always)]
    unsafe fn round<V: Vector>(v: &mut [V; 4]) {
        // SAFETY: the caller knows that the processor has what `V` needs.
        unsafe {
            v[0] = v[0].add(v[1]);
            v[2] = v[2].add(v[3]);
            v[1] = v[1].rotate::<13, 51>().xor(v[0]);
            v[3] = v[3].rotate::<16, 48>().xor(v[2]);
            v[0] = v[0].rotate::<32, 32>().add(v[3]);
            v[2] = v[2].add(v[1]);
            v[3] = v[3].rotate::<21, 43>().xor(v[0]);
            v[1] = v[1].rotate::<17, 47>().xor(v[2]);
            v[2] = v[2].rotate::<32, 32>();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Prng;
    use crate::hash::SHORT_BYTES_MAX;

    type Way<D> = fn(&HashSeed, &[&[u8]], &mut [D]);

    /// Every way to hash many keys that this processor has.
    fn ways<D: Digest>() -> Vec<Way<D>> {
        let mut ways: Vec<Way<D>> = vec![one_by_one, hash_many];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                // SAFETY: asked for just before.
                ways.push(|s, k, h| unsafe { x86::with_avx512(s, k, h) });
            }
            if is_x86_feature_detected!("avx2") {
                // SAFETY: asked for just before.
                ways.push(|s, k, h| unsafe { x86::with_avx2(s, k, h) });
            }
        }
        ways
    }

    #[test]
    fn keys_have_the_same_hashes_together_as_alone() {
        let mut prng = Prng::new(1);
        for round in 0..2000 {
            let seed = u128::from(prng.next_u64()) << 64 | u128::from(prng.next_u64());
            let seed = HashSeed(seed.to_le_bytes());
            // Of one length, of the same number of words, of any length.
            let len = round % (SHORT_BYTES_MAX + 12);
            let spread = [1, 8 - len as u64 % 8, 100][round % 3];
            let mut keys: Vec<Vec<u8>> = Vec::new();
            for _ in 0..prng.below(35) {
                let len = len + prng.below(spread) as usize;
                keys.push((0..len).map(|_| prng.next_u64() as u8).collect());
            }
            let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
            let expected: Vec<KeyHash> = keys.iter().map(|key| seed.hash(key)).collect();
            for (way, hash) in ways().iter().enumerate() {
                let mut hashes = vec![KeyHash(0); keys.len()];
                hash(&seed, &keys, &mut hashes);
                assert_eq!(hashes, expected, "way {way}, {len} bytes and {spread}");
            }
            let expected: Vec<u64> = expected.iter().map(|hash| hash.low()).collect();
            for (way, hash) in ways().iter().enumerate() {
                let mut lows = vec![0; keys.len()];
                hash(&seed, &keys, &mut lows);
                assert_eq!(lows, expected, "way {way}, {len} bytes and {spread}");
            }
        }
    }
}
