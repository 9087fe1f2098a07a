//! The seeded 128-bit key hash.

mod lanes;

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

    /// Hashes `keys` into `hashes`, which is at least as long; short ones of like lengths together,
    /// which takes a fraction of the time.
    #[inline]
    pub fn hash_many(&self, keys: &[&[u8]], hashes: &mut [KeyHash]) {
        assert!(keys.len() <= hashes.len(), "each key has a place for its hash");
        lanes::hash_many(self, keys, hashes);
    }

    /// The lower half of `key`'s hash.
    #[inline(always)]
    pub fn low(&self, key: &[u8]) -> u64 {
        self.hash(key).low()
    }

    /// The lower halves of the hashes of `keys`, as [`HashSeed::hash_many`]; takes two thirds of
    /// the time.
    #[inline]
    pub fn low_many(&self, keys: &[&[u8]], lows: &mut [u64]) {
        assert!(keys.len() <= lows.len(), "each key has a place for its hash");
        lanes::hash_many(self, keys, lows);
    }

    /// The four words of state that every hash begins with.
    #[inline(always)]
    fn start(&self) -> [u64; 4] {
        let halves = self.0.as_chunks::<8>().0;
        let (k0, k1) = (u64::from_le_bytes(halves[0]), u64::from_le_bytes(halves[1]));
        [
            k0 ^ 0x736F_6D65_7073_6575,
            k1 ^ 0x646F_7261_6E64_6F6D ^ 0xEE,
            k0 ^ 0x6C79_6765_6E65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ]
    }

    /// The hash of [`HashSeed::hash`] without the state of a hasher that is fed piece by piece,
    /// which costs as much as the hash of a short key.
    #[inline(always)]
    fn hash_short(&self, key: &[u8]) -> u128 {
        let mut v = self.start();
        for block in key.as_chunks::<8>().0 {
            absorb(&mut v, u64::from_le_bytes(*block));
        }
        absorb(&mut v, last_block(key));
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

/// The block after a key's whole words: the rest of its bytes, and its length in the top byte.
#[inline(always)]
fn last_block(key: &[u8]) -> u64 {
    let (words, rest) = key.as_chunks::<8>();
    let length = (key.len() as u64) << 56;
    if rest.is_empty() {
        return length;
    }
    // No copy of so few bytes: its length would be known only at run time.
    let bits = 8 * rest.len() as u32;
    let rest = match (words.is_empty(), key.last_chunk(), rest.first_chunk(), rest.last_chunk()) {
        (false, Some(last), ..) => u64::from_le_bytes(*last) >> (64 - bits),
        (_, _, Some(first), Some(last)) => {
            let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
            u64::from(first) | u64::from(last) << (bits - 32)
        }
        _ => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    };
    rest | length
}

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
