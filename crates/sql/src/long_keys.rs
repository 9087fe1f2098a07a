//! Keys of index entries that are longer than the engine takes. `docs/formats/sql.md` has their
//! format.
//!
//! 1. A key of at most [`LONG_KEY_BYTES`] is stored as it is. Of a longer one the stored key has so
//!    many bytes, and behind them a mark and a hash of the whole key; what is cut off comes first
//!    in the value. So keys are equal if and only if the stored keys are.
//! 2. No key is the beginning of another one, so no short key is the beginning of a long one:
//!    stored keys are in the order of the keys, but for long ones that are equal in what is stored
//!    of them. These are a *group*: next to one another, in the order of their hashes.
//! 3. [`Entries`] shows whole keys in their order. In a group it knows what is cut off of all
//!    members, and goes from one to the next by their stored keys.

use crate::failure::{Failure, Result, code};
use crate::reads::Walker;
use silica::engine::{EntryBurst, EntryIter};
use silica_base::{HashSeed, read_varint, write_varint};
use std::borrow::Cow;

/// Bytes of a key that are stored in the key.
pub(crate) const LONG_KEY_BYTES: usize = 16 << 10;
const MARK: u8 = 0;
const BEHIND_MARK: u8 = 1;
const HASH_BYTES: usize = 16;

/// The hash is a part of the format.
const SEED: HashSeed = HashSeed(*b"SQL long keys, 1");

/// True if what is stored of the key is not all of it; of a stored key, if it is such a one.
#[inline]
pub(crate) fn is_long(key: &[u8]) -> bool {
    key.len() > LONG_KEY_BYTES
}

/// The key under which `key` is stored.
#[inline]
pub(crate) fn stored_key(key: &[u8]) -> Cow<'_, [u8]> {
    if !is_long(key) {
        return Cow::Borrowed(key);
    }
    let hash = SEED.hash(key).0.to_be_bytes();
    Cow::Owned([&key[..LONG_KEY_BYTES], &[MARK], &hash].concat())
}

/// The value that is stored of the long key `key` and `record`.
pub(crate) fn stored_value(key: &[u8], record: &[u8]) -> Vec<u8> {
    let rest = &key[LONG_KEY_BYTES..];
    let mut value = Vec::with_capacity(rest.len() + record.len() + 10);
    write_varint(&mut value, rest.len() as u64);
    value.extend_from_slice(rest);
    value.extend_from_slice(record);
    value
}

/// What is cut off of the key that `value` is stored of, and the record.
///
/// # Errors
/// `CORRUPT` if it is no such value.
pub(crate) fn split_value(value: &[u8]) -> Result<(&[u8], &[u8])> {
    let split = || {
        let (len, taken) = read_varint(value)?;
        value[taken..].split_at_checked(usize::try_from(len).ok()?)
    };
    split().ok_or_else(|| Failure::new(code::CORRUPT, "the value of a long key has no key"))
}

/// What is stored of the keys of a group: all begin with `.0`, and none behind it.
fn group_key(prefix: &[u8], mark: u8) -> Vec<u8> {
    [&prefix[..LONG_KEY_BYTES], &[mark]].concat()
}

/// The members of a group.
struct Group {
    prefix: Vec<u8>,
    /// What is cut off of each, in order, and its hash.
    members: Vec<(Vec<u8>, [u8; HASH_BYTES])>,
    at: usize,
    /// The whole key of the member here, and where its record starts in the value.
    key: Vec<u8>,
    record_start: usize,
}

/// Entries of a tree with whole keys; otherwise as the engine's iterator.
pub(crate) struct Entries {
    stored: Box<dyn EntryIter>,
    /// If the entry here has a long key.
    group: Option<Box<Group>>,
    /// What it shows may be written meanwhile.
    is_live: bool,
    /// Whom to tell how far it comes.
    walker: Option<Box<Walker>>,
}

/// The stored keys from which on and before which the long keys are that begin as a stored key, or
/// that one alone.
fn bounds(stored: &[u8]) -> (Vec<u8>, Vec<u8>) {
    match is_long(stored) {
        true => (group_key(stored, MARK), group_key(stored, BEHIND_MARK)),
        false => (stored.to_vec(), [stored, &[0]].concat()),
    }
}

impl Entries {
    pub(crate) fn new(
        stored: Box<dyn EntryIter>,
        is_live: bool,
        walker: Option<Box<Walker>>,
    ) -> Self {
        Entries { stored, group: None, is_live, walker }
    }

    /// A walk begins.
    #[inline]
    fn begin(&mut self, key: Option<&[u8]>, is_forward: bool) {
        self.group = None;
        if let Some(walker) = &mut self.walker {
            let bounds = key.map(bounds);
            let (from, before) = match is_forward {
                true => (bounds.map(|(from, _)| from), None),
                false => (None, bounds.map(|(_, behind)| behind)),
            };
            walker.begin(from, before);
        }
    }

    /// The walk has come to an entry, or to the end.
    #[inline]
    fn reach(&mut self, is_there: Result<bool>, is_forward: bool) -> Result<bool> {
        let is_there = is_there?;
        if let Some(walker) = &mut self.walker {
            walker.reach(is_there.then(|| bounds(self.stored.key())), is_forward);
        }
        Ok(is_there)
    }

    /// The iterator has come to what is stored of an entry, or not; in a group to the first one, or
    /// the last one.
    #[inline]
    fn arrive(&mut self, is_there: bool, is_forward: bool) -> Result<bool> {
        if !is_there || !is_long(self.stored.key()) {
            return Ok(is_there);
        }
        let prefix = self.stored.key()[..LONG_KEY_BYTES].to_vec();
        let group = self.load(prefix)?;
        let last = group.members.len().saturating_sub(1);
        self.go_in(group, if is_forward { 0 } else { last })
    }

    /// All members of the group of long keys that begin so.
    #[cold]
    fn load(&mut self, prefix: Vec<u8>) -> Result<Box<Group>> {
        let (from, mut members) = (group_key(&prefix, MARK), Vec::new());
        let mut is_there = self.stored.seek(&from)?;
        while is_there && self.stored.key().starts_with(&from) {
            let hash = self.stored.key()[from.len()..].try_into().map_err(|_| {
                Failure::new(code::CORRUPT, "the stored key of a long key has no hash")
            })?;
            let (rest, _) = split_value(self.stored.entry().value)?;
            members.push((rest.to_vec(), hash));
            is_there = self.stored.next()?;
        }
        members.sort_unstable();
        Ok(Box::new(Group { prefix, members, at: 0, key: Vec::new(), record_start: 0 }))
    }

    /// To member `at` of a group; false if there is none.
    fn go_in(&mut self, mut group: Box<Group>, at: usize) -> Result<bool> {
        let Some((rest, hash)) = group.members.get(at) else { return Ok(false) };
        let stored = [&group_key(&group.prefix, MARK)[..], hash].concat();
        if !self.stored.seek(&stored)? || self.stored.key() != stored {
            return Err(Failure::new(code::CORRUPT, "a member of a group of long keys is gone"));
        }
        group.key.clear();
        group.key.extend_from_slice(&group.prefix);
        group.key.extend_from_slice(rest);
        let value = self.stored.entry().value;
        group.record_start = value.len() - split_value(value)?.1.len();
        group.at = at;
        self.group = Some(group);
        Ok(true)
    }

    /// The group here as it is now, and the place in it of the first member behind the key here, or
    /// of the last one before it.
    fn leave(
        &mut self,
        group: Box<Group>,
        is_forward: bool,
    ) -> Result<(Box<Group>, Option<usize>)> {
        if !self.is_live {
            let at = group.at;
            let next = if is_forward { Some(at + 1) } else { at.checked_sub(1) };
            return Ok((group, next));
        }
        let (rest, _) = &group.members[group.at];
        let mut now = self.load(group.prefix.clone())?;
        let before = now.members.partition_point(|(other, _)| other < rest);
        let behind = now.members.partition_point(|(other, _)| other <= rest);
        now.key = group.key;
        Ok((now, if is_forward { Some(behind) } else { before.checked_sub(1) }))
    }

    /// Past the group that begins so.
    fn pass(&mut self, prefix: &[u8], is_forward: bool) -> Result<bool> {
        let is_there = match is_forward {
            true => self.stored.seek(&group_key(prefix, BEHIND_MARK))?,
            false => self.stored.seek_for_prev(&group_key(prefix, MARK))?,
        };
        self.arrive(is_there, is_forward)
    }

    fn step(&mut self, is_forward: bool) -> Result<bool> {
        let Some(group) = self.group.take() else {
            let is_there = if is_forward { self.stored.next() } else { self.stored.prev() }?;
            return self.arrive(is_there, is_forward);
        };
        let (group, next) = self.leave(group, is_forward)?;
        match next.filter(|next| *next < group.members.len()) {
            Some(next) => self.go_in(group, next),
            None => self.pass(&group.prefix, is_forward),
        }
    }

    pub(crate) fn seek_to_first(&mut self) -> Result<bool> {
        self.begin(None, true);
        let is_there = self.stored.seek_to_first()?;
        let is_there = self.arrive(is_there, true);
        self.reach(is_there, true)
    }

    pub(crate) fn seek_to_last(&mut self) -> Result<bool> {
        self.begin(None, false);
        let is_there = self.stored.seek_to_last()?;
        let is_there = self.arrive(is_there, false);
        self.reach(is_there, false)
    }

    /// To the first entry at or behind `key`.
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.begin(Some(key), true);
        let is_there = self.seek_forward(key);
        self.reach(is_there, true)
    }

    fn seek_forward(&mut self, key: &[u8]) -> Result<bool> {
        if !is_long(key) {
            let is_there = self.stored.seek(key)?;
            return self.arrive(is_there, true);
        }
        let (prefix, rest) = key.split_at(LONG_KEY_BYTES);
        let group = self.load(prefix.to_vec())?;
        let at = group.members.partition_point(|(other, _)| &other[..] < rest);
        if at < group.members.len() { self.go_in(group, at) } else { self.pass(prefix, true) }
    }

    /// To the last entry at or before `key`.
    pub(crate) fn seek_for_prev(&mut self, key: &[u8]) -> Result<bool> {
        self.begin(Some(key), false);
        let is_there = self.seek_backward(key);
        self.reach(is_there, false)
    }

    fn seek_backward(&mut self, key: &[u8]) -> Result<bool> {
        if !is_long(key) {
            let is_there = self.stored.seek_for_prev(key)?;
            return self.arrive(is_there, false);
        }
        let (prefix, rest) = key.split_at(LONG_KEY_BYTES);
        let group = self.load(prefix.to_vec())?;
        let behind = group.members.partition_point(|(other, _)| &other[..] <= rest);
        match behind.checked_sub(1) {
            Some(at) => self.go_in(group, at),
            None => self.pass(prefix, false),
        }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Result<bool> {
        let is_there = self.step(true);
        self.reach(is_there, true)
    }

    #[inline]
    pub(crate) fn prev(&mut self) -> Result<bool> {
        let is_there = self.step(false);
        self.reach(is_there, false)
    }

    /// As [`EntryIter::next_many`].
    pub(crate) fn next_many(&mut self, burst: &mut EntryBurst) -> Result<bool> {
        let is_there = self.step_many(burst, true);
        self.reach(is_there, true)
    }

    /// As [`EntryIter::prev_many`].
    pub(crate) fn prev_many(&mut self, burst: &mut EntryBurst) -> Result<bool> {
        let is_there = self.step_many(burst, false);
        self.reach(is_there, false)
    }

    fn step_many(&mut self, burst: &mut EntryBurst, is_forward: bool) -> Result<bool> {
        if self.group.is_none() {
            let is_there = match is_forward {
                true => self.stored.next_many(burst)?,
                false => self.stored.prev_many(burst)?,
            };
            if burst.key_bytes_max() <= LONG_KEY_BYTES {
                return Ok(is_there);
            }
            let Some(long) = (0..burst.len()).find(|at| is_long(burst.key(*at))) else {
                return Ok(is_there);
            };
            // From there on one by one.
            let first = burst.key(long).to_vec();
            burst.truncate(long);
            let is_there = match is_forward {
                true => self.stored.seek(&first)?,
                false => self.stored.seek_for_prev(&first)?,
            };
            if !self.arrive(is_there, is_forward)? {
                return Ok(false);
            }
            burst.push(self.key(), self.record());
        }
        while !burst.is_full() {
            if !self.step(is_forward)? {
                return Ok(false);
            }
            burst.push(self.key(), self.record());
        }
        Ok(true)
    }

    /// The whole key here.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        match &self.group {
            Some(group) => &group.key,
            None => self.stored.key(),
        }
    }

    /// The record here.
    #[inline]
    pub(crate) fn record(&self) -> &[u8] {
        let value = self.stored.entry().value;
        self.group.as_ref().map_or(value, |group| &value[group.record_start..])
    }
}
