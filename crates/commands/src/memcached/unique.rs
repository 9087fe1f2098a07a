//! What cas compares.
//!
//! Entries keep no version, so an entry's unique is a 63-bit hash of its value and flags. Where
//! either has changed, the unique has too; where both are as before (a value that was changed
//! and changed back), it is as before, which memcached's counter would tell. The hash has a secret
//! of its own in each process, so that nobody can prepare values whose uniques are equal; uniques
//! of before a restart match nothing. An entry that a meta command has marked as stale gets another
//! unique from its mark.

use crate::burst::Args;
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

/// Some clients keep uniques in signed numbers.
pub(super) const UNIQUE_MAX: u64 = i64::MAX as u64;

/// The unique of `entry` as long as nothing marks it as stale; never 0, which means none in the
/// binary protocol, nor more than [`UNIQUE_MAX`].
pub(super) fn base_of(entry: &EntryRef<'_>) -> u64 {
    let value = SEED.hash(entry.value).0;
    // The flags take part by another round, so that no flags undo what the value has done.
    let mut both = [0; 20];
    both[..16].copy_from_slice(&value.to_le_bytes());
    both[16..].copy_from_slice(&entry.user_bits.to_le_bytes());
    (SEED.hash(&both).low() & UNIQUE_MAX).max(1)
}

impl Args<'_> {
    /// The unique of the entry of `key`.
    pub(super) fn unique(&self, key: &[u8], entry: &EntryRef<'_>) -> u64 {
        self.marked_unique(key, base_of(entry))
    }

    /// The unique of the entry of `key`, of which value and flags make `base`.
    pub(super) fn marked_unique(&self, key: &[u8], base: u64) -> u64 {
        self.marks().map_or(base, |marks| marks.unique(key, base))
    }

    /// Forgets what is noted about the entry that is being replaced.
    pub(super) fn forget_mark(&self) {
        if let Some(marks) = self.marks() {
            marks.clear(self.get(1));
        }
    }

    /// True where one more entry can be marked.
    pub(super) fn has_room_for_mark(&self) -> bool {
        self.marks().is_some_and(|marks| marks.has_room())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_changes_changes_the_unique() {
        let entry = EntryRef { value: b"value", expires_unix_ms: 5, user_bits: 7 };
        let same = EntryRef { expires_unix_ms: 9, ..entry };
        let values = (0..100_u8).map(|n| [n]);
        let mut uniques = values.map(|value| base_of(&EntryRef { value: &value, ..entry }));
        assert!(uniques.all(|unique| (1..=UNIQUE_MAX).contains(&unique)), "clients read them");
        assert_eq!(base_of(&entry), base_of(&same), "a touch keeps the unique, as in memcached");
        assert_ne!(base_of(&entry), base_of(&EntryRef { user_bits: 8, ..entry }));
        assert_ne!(base_of(&entry), base_of(&EntryRef { value: b"value ", ..entry }));
        assert_ne!(base_of(&entry), base_of(&EntryRef { value: b"", ..entry }));
    }
}
