//! Databases in one cache: which of them an entry belongs to.
//!
//! The entries of all databases lie in one engine, so no part of it belongs to one of them. A
//! **space** is what one database holds.
//!
//! 1. The key of an entry of space 0 in its first generation is stored as it is, or behind another
//!    [`MARK`] if it begins with one. All others are stored behind [`MARK`], the space's number,
//!    which is no [`MARK`], and its generation. So no two keys of two spaces are stored alike.
//! 2. An entry of another generation than its space has now is dead: whoever looks for a key puts
//!    the generation of now before it.
//! 3. A generation only grows, so a write that read an older one is a write before the change,
//!    whenever it comes. All keys of a call have the generation that the space has at one moment.

use silica_base::{Error, ErrorKind, Result};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Databases that one engine holds at most.
pub const SPACES_MAX: usize = 16;
/// The first byte of stored keys that are not those of space 0 as they are.
pub const MARK: u8 = 0xFF;
/// Bytes before a stored key: mark, number, generation.
pub const PREFIX_BYTES: usize = 6;
/// Bits of a space's number in the order of databases.
const ORDER_BITS: usize = 4;
/// A stored key of up to so many bytes is made on the stack if it is the only one.
const SMALL_BYTES: usize = 64;

/// Where a stored key belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyHome {
    /// Space 0, in its first generation.
    Raw,
    /// A space by its number, and a generation of it.
    Space(usize, u32),
}

/// The generations of spaces, and which database each is.
#[derive(Debug)]
pub struct Family {
    generations: [AtomicU32; SPACES_MAX],
    /// The spaces of databases 0, 1, …, four bits each from the lowest on.
    order: AtomicU64,
}

/// What is kept of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptFamily {
    /// The spaces of databases 0, 1, …, four bits each from the lowest on.
    pub order: u64,
    /// The generations of spaces, by their numbers.
    pub generations: [u32; SPACES_MAX],
}

impl KeptFamily {
    /// False of an order that is no permutation of all spaces.
    pub fn is_plausible(&self) -> bool {
        let all = (0..SPACES_MAX).fold(0u32, |all, at| all | 1 << space_at(self.order, at));
        all == (1 << SPACES_MAX) - 1
    }

    /// Lets two databases be what the other was.
    pub fn swap(&mut self, one: usize, other: usize) {
        if one != other {
            let differ = (space_at(self.order, one) ^ space_at(self.order, other)) as u64;
            self.order ^= differ << (ORDER_BITS * one) | differ << (ORDER_BITS * other);
        }
    }

    /// Lets all entries of `space` be dead.
    ///
    /// # Errors
    /// `Full` if there is no further generation.
    pub fn begin_anew(&mut self, space: usize) -> Result<()> {
        let next = self.generations[space].checked_add(1).ok_or_else(|| {
            let message = "the database was cleared four billion times; restart the server";
            Error::new(ErrorKind::Full, message)
        })?;
        self.generations[space] = next;
        Ok(())
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
    pub fn space_of(&self, database: usize) -> usize {
        space_at(self.order.load(Acquire), database)
    }

    /// Lets two databases be what the other was. Only one thread may do so at a time.
    pub fn swap(&self, one: usize, other: usize) {
        let mut kept = self.kept();
        kept.swap(one, other);
        self.order.store(kept.order, Release);
    }

    /// What is to be kept of it.
    pub fn kept(&self) -> KeptFamily {
        let generations = std::array::from_fn(|n| self.generations[n].load(Relaxed));
        KeptFamily { order: self.order.load(Relaxed), generations }
    }

    /// Takes over what was kept. Only one thread may do so at a time.
    pub fn take_over(&self, kept: &KeptFamily) {
        self.order.store(kept.order, Release);
        let all = self.generations.iter().zip(kept.generations);
        all.for_each(|(to, from)| to.store(from, Release));
    }

    /// Lets all entries of `space` be dead. Only one thread may do so at a time.
    ///
    /// # Errors
    /// `Full` if there is no further generation.
    pub fn begin_anew(&self, space: usize) -> Result<()> {
        let mut kept = self.kept();
        kept.begin_anew(space)?;
        self.generations[space].store(kept.generations[space], Release);
        Ok(())
    }

    /// What stands before a key of `space` if that has `generation`, and how many bytes of it.
    #[inline]
    fn prefix_of(space: usize, generation: u32, key: &[u8]) -> ([u8; PREFIX_BYTES], usize) {
        let [a, b, c, d] = generation.to_le_bytes();
        let len = match (space, generation) {
            (0, 0) => usize::from(key.first() == Some(&MARK)),
            _ => PREFIX_BYTES,
        };
        ([MARK, space as u8, a, b, c, d], len)
    }

    /// Appends what stands before a key of `space` if that has `generation`.
    fn push_prefix_of(space: usize, generation: u32, key: &[u8], out: &mut Vec<u8>) {
        let (prefix, len) = Self::prefix_of(space, generation, key);
        out.extend_from_slice(&prefix[..len]);
    }

    /// Appends what stands before a key of `space`.
    pub fn push_prefix(&self, space: usize, key: &[u8], out: &mut Vec<u8>) {
        Self::push_prefix_of(space, self.generations[space].load(Acquire), key, out);
    }

    /// True if entries of this home are dead.
    pub fn is_dead(&self, home: KeyHome) -> bool {
        let (space, of) = match home {
            KeyHome::Raw => (0, 0),
            KeyHome::Space(space, of) => (space, of),
        };
        self.generations[space].load(Relaxed) != of
    }

    /// The key without what stands before it, if it is one of `space` that is not dead.
    pub fn key_of<'k>(&self, space: usize, stored: &'k [u8]) -> Option<&'k [u8]> {
        match (home_of(stored), space) {
            (home @ KeyHome::Raw, 0) if !self.is_dead(home) => {
                Some(if stored.first() == Some(&MARK) { &stored[1..] } else { stored })
            }
            (home @ KeyHome::Space(of, _), _) if of == space && !self.is_dead(home) => {
                Some(&stored[PREFIX_BYTES..])
            }
            _ => None,
        }
    }
}

/// Where a stored key belongs.
#[inline]
pub fn home_of(stored: &[u8]) -> KeyHome {
    match stored {
        [MARK, space, a, b, c, d, ..] if usize::from(*space) < SPACES_MAX => {
            KeyHome::Space((*space).into(), u32::from_le_bytes([*a, *b, *c, *d]))
        }
        _ => KeyHome::Raw,
    }
}

/// How the keys of a database are stored.
#[derive(Debug, Clone)]
pub struct Naming {
    family: Arc<Family>,
    space: usize,
}

impl Naming {
    /// Of `space` in `family`.
    pub fn new(family: &Arc<Family>, space: usize) -> Self {
        Naming { family: Arc::clone(family), space }
    }

    /// The family.
    pub fn family(&self) -> &Family {
        &self.family
    }

    /// The number of the space.
    #[inline]
    pub fn space(&self) -> usize {
        self.space
    }

    /// The key without what stands before it, if it is one of the database.
    pub fn key_of<'k>(&self, stored: &'k [u8]) -> Option<&'k [u8]> {
        self.family.key_of(self.space, stored)
    }

    /// True if `keys` are stored as they are.
    #[inline]
    pub fn keeps<'k>(&self, mut keys: impl Iterator<Item = &'k [u8]>) -> bool {
        self.space == 0
            && self.family.generations[0].load(Acquire) == 0
            && !keys.any(|key| key.first() == Some(&MARK))
    }

    /// Calls `work` with `keys` as they are stored.
    #[inline]
    pub fn with_keys<T>(&self, keys: &[&[u8]], work: impl FnOnce(&[&[u8]]) -> T) -> T {
        if self.keeps(keys.iter().copied()) {
            return work(keys);
        }
        let generation = self.family.generations[self.space].load(Acquire);
        if let [key] = keys
            && key.len() + PREFIX_BYTES <= SMALL_BYTES
        {
            let mut bytes = [0; SMALL_BYTES];
            let (prefix, start) = Family::prefix_of(self.space, generation, key);
            bytes[..PREFIX_BYTES].copy_from_slice(&prefix);
            bytes[start..start + key.len()].copy_from_slice(key);
            return work(&[&bytes[..start + key.len()]]);
        }
        let sum = keys.iter().map(|key| key.len() + PREFIX_BYTES).sum();
        let mut bytes = Vec::with_capacity(sum);
        let mut push = |key: &&[u8]| -> Range<usize> {
            let start = bytes.len();
            Family::push_prefix_of(self.space, generation, key, &mut bytes);
            bytes.extend_from_slice(key);
            start..bytes.len()
        };
        let ranges: Vec<Range<usize>> = keys.iter().map(&mut push).collect();
        let stored: Vec<&[u8]> = ranges.into_iter().map(|range| &bytes[range]).collect();
        work(&stored)
    }

    /// Calls `work` with `key` as it is stored.
    pub fn with_key<T>(&self, key: &[u8], work: impl FnOnce(&[u8]) -> T) -> T {
        self.with_keys(&[key], |stored| work(stored[0]))
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
        let raw = stored(&family, 0, b"a");
        family.begin_anew(0).unwrap();
        assert!(family.is_dead(home_of(&raw)) && family.key_of(0, &raw).is_none());
        let stored = stored(&family, 0, b"a");
        assert_eq!(family.key_of(0, &stored), Some(&b"a"[..]));
    }

    /// A call whose keys were of two generations would be half there after the clearing of a
    /// database that came in between.
    #[test]
    fn keys_of_one_call_have_one_generation() {
        let family = Arc::new(Family::default());
        let naming = Naming::new(&family, 2);
        std::thread::scope(|scope| {
            scope.spawn(|| (0..10_000).for_each(|_| family.begin_anew(2).unwrap()));
            for _ in 0..10_000 {
                naming.with_keys(&[b"a", b"b"], |stored| {
                    assert_eq!(home_of(stored[0]), home_of(stored[1]));
                });
            }
        });
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
        assert!(!KeptFamily { order: 0, ..family.kept() }.is_plausible());
    }
}
