//! A small seeded generator (SplitMix64), so that every random choice replays from one seed.

/// Seeded pseudo-random numbers; not for secrets.
#[derive(Debug, Clone)]
pub struct Prng(u64);

impl Prng {
    /// A generator that repeats the same sequence for the same `seed`.
    pub fn new(seed: u64) -> Self {
        Prng(seed)
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound` (which must not be zero).
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True once in `n` calls on average.
    #[inline]
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A number in `0.0..1.0`.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Fills `out` with random bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        let (chunks, rest) = out.as_chunks_mut::<8>();
        for chunk in chunks {
            *chunk = self.next_u64().to_le_bytes();
        }
        if !rest.is_empty() {
            let bytes = self.next_u64().to_le_bytes();
            rest.copy_from_slice(&bytes[..rest.len()]);
        }
    }

    /// True where [`Prng::fill`] would write these bytes.
    pub fn would_fill(&mut self, bytes: &[u8]) -> bool {
        let (chunks, rest) = bytes.as_chunks::<8>();
        // All are looked at: nearly always they are the same.
        let differ = chunks
            .iter()
            .fold(0, |differ, chunk| differ | (u64::from_le_bytes(*chunk) ^ self.next_u64()));
        let is_rest = rest.is_empty() || self.next_u64().to_le_bytes()[..rest.len()] == *rest;
        differ == 0 && is_rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_sequence() {
        let mut a = Prng::new(7);
        let mut b = Prng::new(7);
        assert!((0..100).all(|_| a.next_u64() == b.next_u64()));
        assert_ne!(Prng::new(8).next_u64(), Prng::new(7).next_u64());
    }

    #[test]
    fn what_is_filled_would_be_filled_again() {
        for len in 0..40 {
            let mut bytes = vec![0; len];
            Prng::new(3).fill(&mut bytes);
            let mut prng = Prng::new(3);
            let words: Vec<_> = (0..5).map(|_| prng.next_u64().to_le_bytes()).collect();
            assert_eq!(bytes, words.concat()[..len]);
            assert!(Prng::new(3).would_fill(&bytes));
            for at in 0..len {
                bytes[at] ^= 1;
                assert!(!Prng::new(3).would_fill(&bytes), "byte {at} of {len}");
                bytes[at] ^= 1;
            }
        }
    }

    #[test]
    fn below_covers_its_range() {
        let mut p = Prng::new(1);
        let mut seen = [false; 10];
        (0..1000).for_each(|_| seen[p.below(10) as usize] = true);
        assert!(seen.iter().all(|s| *s));
    }
}
