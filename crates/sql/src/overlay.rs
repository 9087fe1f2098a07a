//! A moment of the database below the writes that a transaction has spilled (`spill.rs`).
//!
//! 1. Spilled writes hide the moment below them, key by key. Deleted ranges hide the moment, and no
//!    spilled write: those were made later.
//! 2. An iterator at an entry has both sources at or behind its key, in the direction of the last
//!    move, and the one that the entry is of right at it.

use crate::layout::{SPILLED, SPILLED_END};
use silica::engine::{EntryIter, GetSink, IterateOptions, Snapshot, SnapshotExt};
use silica::{EntryRef, Error, KeyRange, Result};
use std::ops::Bound;
use std::sync::Arc;

/// What a spilled write is: the first byte of its value.
pub(crate) const PUT: u8 = 1;
pub(crate) const DELETED: u8 = 0;

/// Ranges of keys, each from a key on and before another one; `None` is the end of all keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ranges(Vec<(Vec<u8>, Option<Vec<u8>>)>);

impl Ranges {
    pub(crate) fn add(&mut self, lower: &[u8], upper: Option<&[u8]>) {
        let range = (lower.to_vec(), upper.map(<[u8]>::to_vec));
        if !self.0.contains(&range) {
            self.0.push(range);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.0.iter().map(|(lower, upper)| (&lower[..], upper.as_deref()))
    }

    /// A range that has `key`. Costs a look at each: statements delete few ranges, one for a tree
    /// that is dropped or emptied.
    fn of(&self, key: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
        self.iter().find(|(lower, upper)| key >= *lower && upper.is_none_or(|upper| key < upper))
    }
}

/// The key under which the write of `key` is spilled.
pub(crate) fn spilled_key(key: &[u8]) -> Vec<u8> {
    [&[SPILLED], key].concat()
}

fn spilled_range(range: &KeyRange) -> KeyRange {
    let bound = |bound: &Bound<Vec<u8>>, open: Bound<Vec<u8>>| match bound {
        Bound::Included(key) => Bound::Included(spilled_key(key)),
        Bound::Excluded(key) => Bound::Excluded(spilled_key(key)),
        Bound::Unbounded => open,
    };
    KeyRange {
        lower: bound(&range.lower, Bound::Included(vec![SPILLED])),
        upper: bound(&range.upper, Bound::Excluded(vec![SPILLED_END])),
    }
}

/// See the module's documentation.
pub(crate) struct Overlay {
    pub(crate) below: Arc<dyn Snapshot>,
    /// A later moment, which has what was spilled.
    pub(crate) spilled: Arc<dyn Snapshot>,
    pub(crate) deleted: Arc<Ranges>,
}

/// The spilled write that is stored as `value`.
pub(crate) fn decode(value: &[u8]) -> Result<Option<&[u8]>> {
    match value.split_first() {
        Some((&PUT, record)) => Ok(Some(record)),
        Some((&DELETED, [])) => Ok(None),
        _ => {
            Err(Error::corruption("a spilled write of a transaction", 0, "neither put nor delete"))
        }
    }
}

impl Snapshot for Overlay {
    fn sequence(&self) -> u64 {
        self.below.sequence()
    }

    fn unix_ms(&self) -> u64 {
        self.below.unix_ms()
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        for (at, key) in keys.iter().enumerate() {
            let is_known = self.spilled.get_with(&spilled_key(key), |entry| {
                let Some(entry) = entry else { return Ok(false) };
                if let Some(record) = decode(entry.value)? {
                    sink.found(at, EntryRef::new(record));
                }
                Ok::<bool, Error>(true)
            })??;
            if !is_known && self.deleted.of(key).is_none() {
                self.below.get_with(key, |entry| {
                    if let Some(entry) = entry {
                        sink.found(at, entry);
                    }
                })?;
            }
        }
        Ok(())
    }

    fn iterate(self: Arc<Self>, range: &KeyRange) -> Result<Box<dyn EntryIter>> {
        self.iterate_with(range, IterateOptions::default())
    }

    fn iterate_with(
        self: Arc<Self>,
        range: &KeyRange,
        options: IterateOptions,
    ) -> Result<Box<dyn EntryIter>> {
        let below = Arc::clone(&self.below).iterate_with(range, options)?;
        // Whether it is a delete is in the value.
        let spilled = Arc::clone(&self.spilled).iterate(&spilled_range(range))?;
        Ok(Box::new(Iter {
            below: Source { iterator: below, is_there: false },
            spilled: Source { iterator: spilled, is_there: false },
            deleted: Arc::clone(&self.deleted),
            way: Way::Up,
            at: At::Nowhere,
        }))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Nowhere,
    Below,
    Spilled,
}

struct Source {
    iterator: Box<dyn EntryIter>,
    is_there: bool,
}

impl Source {
    fn go(&mut self, to: impl FnOnce(&mut dyn EntryIter) -> Result<bool>) -> Result<()> {
        self.is_there = false;
        self.is_there = to(&mut *self.iterator)?;
        Ok(())
    }

    fn step(&mut self, way: Way) -> Result<()> {
        self.go(|iterator| match way {
            Way::Up => iterator.next(),
            Way::Down => iterator.prev(),
        })
    }

    fn seek(&mut self, way: Way, key: &[u8]) -> Result<()> {
        self.go(|iterator| match way {
            Way::Up => iterator.seek(key),
            Way::Down => iterator.seek_for_prev(key),
        })
    }

    fn key(&self) -> Option<&[u8]> {
        self.is_there.then(|| self.iterator.key())
    }
}

struct Iter {
    below: Source,
    spilled: Source,
    deleted: Arc<Ranges>,
    way: Way,
    at: At,
}

impl Iter {
    /// Moves the moment below out of deleted ranges.
    fn leave_deleted(&mut self) -> Result<()> {
        while let Some(key) = self.below.key()
            && let Some((lower, upper)) = self.deleted.of(key)
        {
            let lower = lower.to_vec();
            match (self.way, upper.map(<[u8]>::to_vec)) {
                (Way::Up, None) => self.below.is_there = false,
                (Way::Up, Some(upper)) => self.below.seek(Way::Up, &upper)?,
                (Way::Down, _) => {
                    self.below.seek(Way::Down, &lower)?;
                    if self.below.key() == Some(&lower) {
                        self.below.step(Way::Down)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// To the entry that comes first this way among those where the sources are and behind.
    fn settle(&mut self) -> Result<bool> {
        self.at = At::Nowhere;
        loop {
            self.leave_deleted()?;
            let (below, spilled) = (self.below.key(), self.spilled.key().map(|key| &key[1..]));
            let order = match (below, spilled) {
                (None, None) => return Ok(false),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(below), Some(spilled)) if self.way == Way::Up => below.cmp(spilled),
                (Some(below), Some(spilled)) => spilled.cmp(below),
            };
            if order.is_lt() {
                self.at = At::Below;
                return Ok(true);
            }
            if order.is_eq() {
                self.below.step(self.way)?;
                continue;
            }
            if decode(self.spilled.iterator.entry().value)?.is_some() {
                self.at = At::Spilled;
                return Ok(true);
            }
            self.spilled.step(self.way)?;
        }
    }

    fn begin(&mut self, way: Way) -> Result<bool> {
        (self.way, self.at) = (way, At::Nowhere);
        for source in [&mut self.below, &mut self.spilled] {
            source.go(|iterator| match way {
                Way::Up => iterator.seek_to_first(),
                Way::Down => iterator.seek_to_last(),
            })?;
        }
        self.settle()
    }

    fn seek_that_way(&mut self, way: Way, key: &[u8]) -> Result<bool> {
        (self.way, self.at) = (way, At::Nowhere);
        self.below.seek(way, key)?;
        self.spilled.seek(way, &spilled_key(key))?;
        self.settle()
    }

    fn step(&mut self, way: Way) -> Result<bool> {
        if self.at == At::Nowhere {
            return Ok(false);
        }
        if self.way != way {
            let key = self.key().to_vec();
            self.way = way;
            self.at = At::Nowhere;
            self.below.seek(way, &key)?;
            if self.below.key() == Some(&key) {
                self.below.step(way)?;
            }
            let key = spilled_key(&key);
            self.spilled.seek(way, &key)?;
            if self.spilled.key() == Some(&key) {
                self.spilled.step(way)?;
            }
            return self.settle();
        }
        match std::mem::replace(&mut self.at, At::Nowhere) {
            At::Spilled => self.spilled.step(way)?,
            At::Below | At::Nowhere => self.below.step(way)?,
        }
        self.settle()
    }
}

impl EntryIter for Iter {
    fn seek_to_first(&mut self) -> Result<bool> {
        self.begin(Way::Up)
    }

    fn seek_to_last(&mut self) -> Result<bool> {
        self.begin(Way::Down)
    }

    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.seek_that_way(Way::Up, key)
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> Result<bool> {
        self.seek_that_way(Way::Down, key)
    }

    fn next(&mut self) -> Result<bool> {
        self.step(Way::Up)
    }

    fn prev(&mut self) -> Result<bool> {
        self.step(Way::Down)
    }

    fn key(&self) -> &[u8] {
        match self.at {
            At::Spilled => &self.spilled.iterator.key()[1..],
            At::Below | At::Nowhere => self.below.iterator.key(),
        }
    }

    fn entry(&self) -> EntryRef<'_> {
        match self.at {
            // A settled cursor has looked that it is a put.
            At::Spilled => EntryRef::new(&self.spilled.iterator.entry().value[1..]),
            At::Below | At::Nowhere => self.below.iterator.entry(),
        }
    }
}
