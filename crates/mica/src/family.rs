//! Databases in one cache: which of them an entry belongs to.
//!
//! The entries of all databases lie in the same partitions, so no part of the memory belongs to
//! one of them. A **space** is what one database holds.
//!
//! 1. The key of an entry of space 0 is stored as it is, or behind another [`MARK`] if it begins
//!    with one. Those of other spaces are stored behind [`MARK`], the space's number, which is no
//!    [`MARK`], and its generation. So no two keys of two spaces are stored alike.
//! 2. An entry of another generation than its space has now is dead: whoever looks for a key puts
//!    the generation of now before it. Dead entries are counted apart, and a pass over the index
//!    removes them as it does those that have expired.
//! 3. A generation changes only while the caller has locked all partitions. So a write that read
//!    an older one is a write before the change.

use crate::item::Item;
use silica_base::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Databases that a cache holds at most.
pub(crate) const SPACES_MAX: usize = 16;
/// The first byte of stored keys that are not those of space 0 as they are.
pub(crate) const MARK: u8 = 0xFF;
/// Bytes before a stored key of a space other than 0: mark, number, generation.
pub(crate) const PREFIX_BYTES: usize = 6;
/// Bits of a space's number in the order of databases.
const ORDER_BITS: usize = 4;

/// Where a stored key belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyHome {
    /// Space 0.
    Raw,
    /// A space by its number, and a generation of it.
    Space(usize, u32),
}

/// The generations of spaces, and which database each is.
#[derive(Debug)]
pub(crate) struct Family {
    generations: [AtomicU32; SPACES_MAX],
    /// The spaces of databases 0, 1, …, four bits each from the lowest on.
    order: AtomicU64,
}

/// What an image has of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) order: u64,
    pub(crate) generations: [u32; SPACES_MAX],
}

impl Kept {
    /// False of an order that is no permutation of all spaces.
    pub(crate) fn is_plausible(&self) -> bool {
        let all = (0..SPACES_MAX).fold(0u32, |all, at| all | 1 << space_at(self.order, at));
        all == (1 << SPACES_MAX) - 1
    }
}

fn space_at(order: u64, database: usize) -> usize {
    (order >> (ORDER_BITS * database) & 0xF) as usize
}

impl Default for Family {
    fn default() -> Self {
        let order = (0..SPACES_MAX as u64).fold(0, |order, n| order | n << (ORDER_BITS as u64 * n));
        let generations = std::array::from_fn(|_| AtomicU32::new(0));
        Family { generations, order: AtomicU64::new(order) }
    }
}

impl Family {
    /// The space that database number `database` is.
    pub(crate) fn space_of(&self, database: usize) -> usize {
        space_at(self.order.load(Acquire), database)
    }

    /// Lets two databases be what the other was. Only one thread may do so at a time.
    pub(crate) fn swap(&self, one: usize, other: usize) {
        let order = self.order.load(Relaxed);
        let differ = (space_at(order, one) ^ space_at(order, other)) as u64;
        let mask = differ << (ORDER_BITS * one) | differ << (ORDER_BITS * other);
        self.order.store(order ^ if one == other { 0 } else { mask }, Release);
    }

    pub(crate) fn kept(&self) -> Kept {
        let generations = std::array::from_fn(|n| self.generations[n].load(Relaxed));
        Kept { order: self.order.load(Relaxed), generations }
    }

    /// Takes over what an image has; before anybody else has the family.
    pub(crate) fn take_over(&self, kept: &Kept) {
        self.order.store(kept.order, Relaxed);
        let all = self.generations.iter().zip(kept.generations);
        all.for_each(|(to, from)| to.store(from, Relaxed));
    }

    /// Lets all entries of `space` be dead. The caller has locked all partitions.
    pub(crate) fn begin_anew(&self, space: usize) -> Result<()> {
        let generation = self.generations[space].load(Relaxed);
        let next = generation.checked_add(1).ok_or_else(|| {
            let message = "the database was cleared four billion times; restart the server";
            Error::new(ErrorKind::Full, message)
        })?;
        self.generations[space].store(next, Release);
        Ok(())
    }

    /// Appends what stands before a key of `space`.
    pub(crate) fn push_prefix(&self, space: usize, key: &[u8], out: &mut Vec<u8>) {
        match space {
            0 if key.first() == Some(&MARK) => out.push(MARK),
            0 => {}
            _ => {
                let generation = self.generations[space].load(Acquire);
                out.extend_from_slice(&[MARK, space as u8]);
                out.extend_from_slice(&generation.to_le_bytes());
            }
        }
    }

    /// True if entries of this home are dead.
    pub(crate) fn is_dead(&self, home: KeyHome) -> bool {
        match home {
            KeyHome::Raw => false,
            KeyHome::Space(space, of) => self.generations[space].load(Relaxed) != of,
        }
    }

    /// The key without what stands before it, if it is one of `space` that is not dead.
    pub(crate) fn key_of<'k>(&self, space: usize, stored: &'k [u8]) -> Option<&'k [u8]> {
        match (home_of(stored), space) {
            (KeyHome::Raw, 0) if stored.first() == Some(&MARK) => Some(&stored[1..]),
            (KeyHome::Raw, 0) => Some(stored),
            (home @ KeyHome::Space(of, _), _) if of == space && !self.is_dead(home) => {
                Some(&stored[PREFIX_BYTES..])
            }
            _ => None,
        }
    }
}

/// Where a stored key belongs.
#[inline]
pub(crate) fn home_of(stored: &[u8]) -> KeyHome {
    match stored {
        [MARK, space, a, b, c, d, ..] if usize::from(*space) < SPACES_MAX => {
            KeyHome::Space((*space).into(), u32::from_le_bytes([*a, *b, *c, *d]))
        }
        _ => KeyHome::Raw,
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(family: &Family, space: usize, key: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        family.push_prefix(space, key, &mut out);
        out.extend_from_slice(key);
        out
    }

    #[test]
    fn keys_of_spaces_are_told_apart_and_come_back() {
        let family = Family::default();
        let keys: [&[u8]; 7] =
            [b"", b"a", b"\xff", b"\xff\x01\0\0\0\0a", b"\xff\xff", b"\xff\x01", b"\0"];
        let mut all = std::collections::BTreeSet::new();
        for (space, key) in (0..SPACES_MAX).flat_map(|s| keys.map(|key| (s, key))) {
            let stored = stored(&family, space, key);
            assert_eq!(family.key_of(space, &stored), Some(key));
            assert_eq!(family.key_of((space + 1) % SPACES_MAX, &stored), None);
            assert!(all.insert(stored), "{space} {key:?}");
        }
        let old = stored(&family, 3, b"a");
        family.begin_anew(3).unwrap();
        assert!(family.is_dead(home_of(&old)) && family.key_of(3, &old).is_none());
        assert!(!family.is_dead(home_of(&stored(&family, 3, b"a"))));
    }

    #[test]
    fn databases_are_swapped() {
        let family = Family::default();
        for (one, other) in [(0, 15), (15, 3), (4, 4)] {
            family.swap(one, other);
        }
        let spaces: Vec<usize> = (0..SPACES_MAX).map(|n| family.space_of(n)).collect();
        assert_eq!(spaces, [15, 1, 2, 0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 3]);
        assert!(family.kept().is_plausible());
        assert!(!Kept { order: 0, ..family.kept() }.is_plausible());
    }
}
