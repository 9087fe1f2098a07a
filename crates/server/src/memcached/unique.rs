//! What cas compares.
//!
//! Entries keep no version, so an entry's unique is a 64-bit hash of its value and flags. Where
//! either has changed, the unique has too; where both are as before (a value that was changed
//! and changed back), it is as before, which memcached's counter would tell. The hash has a secret
//! of its own in each process, so that nobody can prepare values whose uniques are equal; uniques
//! of before a restart match nothing.

use silica::engine::EntryRef;
use silica_base::HashSeed;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

static SEED: LazyLock<HashSeed> = LazyLock::new(|| {
    let random = || RandomState::new().build_hasher().finish().to_le_bytes();
    let mut seed = [0; 16];
    seed[..8].copy_from_slice(&random());
    seed[8..].copy_from_slice(&random());
    HashSeed(seed)
});

/// The unique of `entry`; never 0, which means none in the binary protocol.
pub(super) fn unique(entry: &EntryRef<'_>) -> u64 {
    let value = SEED.hash(entry.value).0;
    // The flags take part by another round, so that no flags undo what the value has done.
    let mut both = [0; 20];
    both[..16].copy_from_slice(&value.to_le_bytes());
    both[16..].copy_from_slice(&entry.user_bits.to_le_bytes());
    SEED.hash(&both).low().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_changes_changes_the_unique() {
        let entry = EntryRef { value: b"value", expires_unix_ms: 5, user_bits: 7 };
        let same = EntryRef { expires_unix_ms: 9, ..entry };
        assert_eq!(unique(&entry), unique(&same), "a touch keeps the unique, as in memcached");
        assert_ne!(unique(&entry), unique(&EntryRef { user_bits: 8, ..entry }));
        assert_ne!(unique(&entry), unique(&EntryRef { value: b"value ", ..entry }));
        assert_ne!(unique(&entry), unique(&EntryRef { value: b"", ..entry }));
    }
}
