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
        for chunk in out.chunks_mut(8) {
            let bytes = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&bytes[..chunk.len()]);
        }
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
    fn below_covers_its_range() {
        let mut p = Prng::new(1);
        let mut seen = [false; 10];
        (0..1000).for_each(|_| seen[p.below(10) as usize] = true);
        assert!(seen.iter().all(|s| *s));
    }
}
