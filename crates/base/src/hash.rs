//! The seeded 128-bit key hash.

use siphasher::sip128::SipHasher13;

/// The secret of one store. Written into the store's manifest once; whoever does not know it
/// cannot craft keys that collide.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HashSeed(pub [u8; 16]);

impl std::fmt::Debug for HashSeed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HashSeed(secret)")
    }
}

/// A key's 128-bit hash. The numeric order of this value is the *hash order* of a store: its
/// most significant bits choose the partition, then the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(pub u128);

impl HashSeed {
    /// Hashes `key` with SipHash-1-3-128 under this seed.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        KeyHash(SipHasher13::new_with_key(&self.0).hash(key).as_u128())
    }
}

impl KeyHash {
    /// The 64 most significant bits: position in hash order.
    #[inline]
    pub fn high(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// The 64 least significant bits: source of tags.
    #[inline]
    pub fn low(self) -> u64 {
        self.0 as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_give_different_orders() {
        let a = HashSeed([1; 16]).hash(b"key");
        let b = HashSeed([2; 16]).hash(b"key");
        assert_ne!(a, b);
        assert_eq!(a, HashSeed([1; 16]).hash(b"key"));
    }

    #[test]
    fn halves_make_the_whole() {
        let h = HashSeed([3; 16]).hash(b"");
        assert_eq!((u128::from(h.high()) << 64) | u128::from(h.low()), h.0);
    }
}
