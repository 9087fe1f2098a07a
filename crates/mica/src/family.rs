//! Databases in one cache, which share the memory of its partitions: where the entries of each are
//! counted. How keys of databases are told apart stands in [`silica_parts::spaces`].
//!
//! Dead entries are counted apart, and a pass over the index removes them as it does those that
//! have expired. A generation changes only while the caller has locked all partitions.

use crate::item::Item;
pub(crate) use silica_parts::spaces::{
    Family, KeptFamily, KeyHome, Naming, PREFIX_BYTES, SPACES_MAX, home_of,
};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

impl Item<'_> {
    /// Where the entry's key belongs.
    #[inline]
    pub(crate) fn home(&self) -> KeyHome {
        let first = self.first_key_word().to_le_bytes();
        match self.header.key_bytes() {
            PREFIX_BYTES.. => home_of(&first),
            _ => KeyHome::Raw,
        }
    }
}

/// How many entries of a partition each space has. Only the holder of the lock changes it.
#[derive(Debug)]
pub(crate) struct Spaces {
    pub(crate) family: Arc<Family>,
    /// By number. In place of space 0, which has all others, stand those that are dead.
    entries: [AtomicU64; SPACES_MAX],
}

impl Spaces {
    pub(crate) fn of(family: &Arc<Family>) -> Self {
        Spaces { family: Arc::clone(family), entries: Default::default() }
    }

    /// Where entries of this home are counted, if they are.
    #[inline]
    pub(crate) fn place(&self, home: KeyHome) -> Option<usize> {
        match home {
            KeyHome::Raw => None,
            KeyHome::Space(_, _) if self.family.is_dead(home) => Some(0),
            KeyHome::Space(space, _) => Some(space),
        }
    }

    /// The numbers as they are kept.
    pub(crate) fn get(&self) -> [u64; SPACES_MAX] {
        self.entries.each_ref().map(|entries| entries.load(Relaxed))
    }

    /// Takes over numbers of [`Spaces::get`].
    pub(crate) fn set(&self, entries: &[u64; SPACES_MAX]) {
        self.entries.iter().zip(entries).for_each(|(to, from)| to.store(*from, Relaxed));
    }

    /// Changes how many entries are counted in a place.
    pub(crate) fn change(&self, place: usize, change: impl FnOnce(u64) -> u64) {
        let entries = &self.entries[place];
        entries.store(change(entries.load(Relaxed)), Relaxed);
    }
}
