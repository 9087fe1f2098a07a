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
    #[inline(always)]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        if key.len() <= SHORT_BYTES_MAX {
            return KeyHash(self.hash_short(key));
        }
        KeyHash(SipHasher13::new_with_key(&self.0).hash(key).as_u128())
    }

    /// The same without the state of a hasher that is fed piece by piece, which costs as much as
    /// the hash of a short key.
    #[inline(always)]
    fn hash_short(&self, key: &[u8]) -> u128 {
        let halves = self.0.as_chunks::<8>().0;
        let (k0, k1) = (u64::from_le_bytes(halves[0]), u64::from_le_bytes(halves[1]));
        let mut v = [
            k0 ^ 0x736F_6D65_7073_6575,
            k1 ^ 0x646F_7261_6E64_6F6D ^ 0xEE,
            k0 ^ 0x6C79_6765_6E65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ];
        let (blocks, rest) = key.as_chunks::<8>();
        for block in blocks {
            absorb(&mut v, u64::from_le_bytes(*block));
        }
        let mut last = [0; 8];
        if !rest.is_empty() {
            last[..rest.len()].copy_from_slice(rest);
        }
        absorb(&mut v, u64::from_le_bytes(last) | (key.len() as u64) << 56);
        v[2] ^= 0xEE;
        (0..3).for_each(|_| round(&mut v));
        let low = v[0] ^ v[1] ^ v[2] ^ v[3];
        v[1] ^= 0xDD;
        (0..3).for_each(|_| round(&mut v));
        u128::from(v[0] ^ v[1] ^ v[2] ^ v[3]) << 64 | u128::from(low)
    }
}

/// Keys up to so many bytes are hashed in line.
const SHORT_BYTES_MAX: usize = 64;

#[inline(always)]
fn absorb(v: &mut [u64; 4], block: u64) {
    v[3] ^= block;
    round(v);
    v[0] ^= block;
}

#[inline(always)]
fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[2] = v[2].wrapping_add(v[3]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].rotate_left(32).wrapping_add(v[3]);
    v[2] = v[2].wrapping_add(v[1]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
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
    fn short_keys_have_the_hash_that_the_library_gives() {
        let mut prng = crate::Prng::new(1);
        for len in (0..=2 * SHORT_BYTES_MAX).chain(0..=SHORT_BYTES_MAX) {
            let key: Vec<u8> = (0..len).map(|_| prng.next_u64() as u8).collect();
            let seed = u128::from(prng.next_u64()) << 64 | u128::from(prng.next_u64());
            let seed = HashSeed(seed.to_le_bytes());
            let expected = SipHasher13::new_with_key(&seed.0).hash(&key).as_u128();
            assert_eq!(seed.hash_short(&key), expected, "{len} bytes");
            assert_eq!(seed.hash(&key).0, expected, "{len} bytes");
        }
    }

    #[test]
    fn halves_make_the_whole() {
        let h = HashSeed([3; 16]).hash(b"");
        assert_eq!((u128::from(h.high()) << 64) | u128::from(h.low()), h.0);
    }
}
