//! Entries of a snapshot under writes that are not committed yet.

use silica_engine::{EntryIter, EntryRef, Result};
use std::collections::BTreeMap;
use std::ops::Bound;

/// An entry that was put, or `None` where it was deleted.
pub(crate) type Write = Option<Put>;

/// An entry of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Put {
    pub(crate) value: Vec<u8>,
    pub(crate) expires_unix_ms: u64,
    pub(crate) user_bits: u32,
}

impl Put {
    pub(crate) fn new(entry: EntryRef<'_>) -> Self {
        let EntryRef { value, expires_unix_ms, user_bits } = entry;
        Put { value: value.to_vec(), expires_unix_ms, user_bits }
    }

    pub(crate) fn entry(&self) -> EntryRef<'_> {
        EntryRef {
            value: &self.value,
            expires_unix_ms: self.expires_unix_ms,
            user_bits: self.user_bits,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

/// Both together. Where it is at an entry, the snapshot's iterator is at it, or at the next one
/// that way.
pub(crate) struct Merged {
    below: Box<dyn EntryIter>,
    below_is_there: bool,
    /// Those in the range.
    writes: BTreeMap<Vec<u8>, Write>,
    way: Way,
    /// The key here.
    at: Option<Vec<u8>>,
}

impl Merged {
    pub(crate) fn new(below: Box<dyn EntryIter>, writes: BTreeMap<Vec<u8>, Write>) -> Self {
        Merged { below, below_is_there: false, writes, way: Way::Up, at: None }
    }

    fn step_below(&mut self) -> Result<()> {
        self.below_is_there = match self.way {
            Way::Up => self.below.next()?,
            Way::Down => self.below.prev()?,
        };
        Ok(())
    }

    fn seek_below(&mut self, key: &[u8]) -> Result<()> {
        self.below_is_there = match self.way {
            Way::Up => self.below.seek(key)?,
            Way::Down => self.below.seek_for_prev(key)?,
        };
        Ok(())
    }

    /// The first write from `from` on, this way.
    fn write_from(&self, from: Bound<&[u8]>) -> Option<(&Vec<u8>, &Write)> {
        match self.way {
            Way::Up => self.writes.range::<[u8], _>((from, Bound::Unbounded)).next(),
            Way::Down => self.writes.range::<[u8], _>((Bound::Unbounded, from)).next_back(),
        }
    }

    /// To whichever comes first this way: where the snapshot's iterator is, or a write from `from`
    /// on.
    fn settle(&mut self, from: Bound<&[u8]>) -> Result<bool> {
        let mut from = from.map(<[u8]>::to_vec);
        loop {
            let write = self.write_from(from.as_ref().map(Vec::as_slice));
            let below = self.below_is_there.then(|| self.below.key());
            let is_write = match (&write, below) {
                (None, None) => return Ok(false),
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (Some((key, _)), Some(below)) => match self.way {
                    Way::Up => key.as_slice() <= below,
                    Way::Down => key.as_slice() >= below,
                },
            };
            let Some((key, put)) = write.filter(|_| is_write) else {
                self.at = below.map(<[u8]>::to_vec);
                return Ok(true);
            };
            if put.is_some() {
                self.at = Some(key.clone());
                return Ok(true);
            }
            let (key, hides) = (key.clone(), below == Some(key.as_slice()));
            if hides {
                self.step_below()?;
            }
            from = Bound::Excluded(key);
        }
    }

    /// To the end from which this way leads.
    fn begin(&mut self, way: Way) -> Result<bool> {
        (self.way, self.at) = (way, None);
        self.below_is_there = match way {
            Way::Up => self.below.seek_to_first()?,
            Way::Down => self.below.seek_to_last()?,
        };
        self.settle(Bound::Unbounded)
    }

    fn seek_that_way(&mut self, way: Way, key: &[u8]) -> Result<bool> {
        (self.way, self.at) = (way, None);
        self.seek_below(key)?;
        self.settle(Bound::Included(key))
    }

    fn step(&mut self, way: Way) -> Result<bool> {
        let Some(at) = self.at.take() else { return Ok(false) };
        if self.way != way {
            self.way = way;
            self.seek_below(&at)?;
        }
        if self.below_is_there && self.below.key() == at {
            self.step_below()?;
        }
        self.settle(Bound::Excluded(&at))
    }
}

impl EntryIter for Merged {
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
        self.at.as_deref().expect("it is at an entry")
    }

    fn entry(&self) -> EntryRef<'_> {
        match self.writes.get(self.key()) {
            Some(write) => write.as_ref().expect("it is at no delete").entry(),
            None => self.below.entry(),
        }
    }
}
