//! How a store hashes its keys.

use silica_base::{HashSeed, KeyHash};

/// The key hash of one store: the seeded hash, or a function put in its place by tests that need
/// keys of equal hashes.
#[derive(Debug, Clone, Copy)]
pub enum Hasher {
    /// The hash under the store's seed.
    Seeded(HashSeed),
    /// Any function; for tests.
    Function(fn(&[u8]) -> KeyHash),
}

impl Hasher {
    /// The hash of `key`.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        match self {
            Hasher::Seeded(seed) => seed.hash(key),
            Hasher::Function(function) => function(key),
        }
    }
}

impl From<HashSeed> for Hasher {
    fn from(seed: HashSeed) -> Self {
        Hasher::Seeded(seed)
    }
}
