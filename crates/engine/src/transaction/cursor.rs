//! A cursor over a live transaction: an iterator of its snapshot under its writes, which may
//! change between any two calls.
//!
//! 1. Where the cursor is at an entry, the snapshot's iterator (`below`) is at the first entry of
//!    the snapshot at or behind that key in the direction of the last move that no deleted range
//!    hides, or past the end. Writes that are taken back may show what a range has hidden: `below`
//!    is sought anew after that.
//! 2. A move reads the writes as they are; nothing of them is remembered but the entry here.

use super::read;
use super::writes::{Put, Writes};
use crate::{EntryBurst, EntryIter, EntryRef, KeyRange};
use silica_base::Result;
use std::ops::Bound;
use std::sync::{Arc, RwLock};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

/// Where a cursor is.
#[derive(Debug)]
enum At {
    Nowhere,
    /// At the entry where `below` is.
    Below,
    /// At this entry, which the transaction wrote, under the cursor's `key`.
    Own(Put),
}

/// See [`super::Transaction::cursor`]. Starts unpositioned, as every [`EntryIter`].
pub struct Cursor {
    below: Box<dyn EntryIter>,
    below_is_there: bool,
    writes: Arc<RwLock<Writes>>,
    range: KeyRange,
    now_ms: u64,
    way: Way,
    at: At,
    /// How often writes had been taken back when `below` came where it is.
    roll_backs: u64,
    /// The key of the entry here, if that is the transaction's own; else of no meaning.
    key: Vec<u8>,
}

impl Cursor {
    pub(super) fn new(
        below: Box<dyn EntryIter>,
        writes: Arc<RwLock<Writes>>,
        range: KeyRange,
        now_ms: u64,
    ) -> Self {
        let (below_is_there, way, at, key) = (false, Way::Up, At::Nowhere, Vec::new());
        Cursor { below, below_is_there, writes, range, now_ms, way, at, roll_backs: 0, key }
    }

    fn step_below(&mut self) -> Result<()> {
        self.below_is_there = false;
        self.below_is_there = match self.way {
            Way::Up => self.below.next()?,
            Way::Down => self.below.prev()?,
        };
        Ok(())
    }

    fn seek_below(&mut self, key: &[u8]) -> Result<()> {
        self.below_is_there = false;
        self.below_is_there = match self.way {
            Way::Up => self.below.seek(key)?,
            Way::Down => self.below.seek_for_prev(key)?,
        };
        Ok(())
    }

    /// Moves `below` out of the deleted range that it is in, if it is in one.
    fn leave_deleted(&mut self, writes: &Writes) -> Result<()> {
        while self.below_is_there
            && let Some((lower, upper)) = writes.range_of(self.below.key())
        {
            match (self.way, upper) {
                (Way::Up, Some(upper)) => self.seek_below(upper)?,
                (Way::Up, None) => self.below_is_there = false,
                (Way::Down, _) => {
                    self.seek_below(lower)?;
                    if self.below_is_there && self.below.key() == lower {
                        self.step_below()?;
                    }
                }
            }
        }
        Ok(())
    }

    /// To the entry that comes first this way, of those where `below` is and behind, and of writes
    /// from `from` on.
    fn settle(&mut self, writes: &Writes, from: Bound<&[u8]>) -> Result<bool> {
        self.roll_backs = writes.roll_backs();
        if writes.is_empty() {
            if self.below_is_there {
                self.at = At::Below;
            }
            return Ok(self.below_is_there);
        }
        self.leave_deleted(writes)?;
        let ahead = match self.way {
            Way::Up => (from, Bound::Unbounded),
            Way::Down => (Bound::Unbounded, from),
        };
        let mut points = writes.points().range::<[u8], _>(ahead);
        loop {
            let point = match self.way {
                Way::Up => points.next(),
                Way::Down => points.next_back(),
            };
            let below = self.below_is_there.then(|| self.below.key());
            let Some((key, write)) = point.filter(|(key, _)| self.range.contains(key)) else {
                if below.is_some() {
                    self.at = At::Below;
                }
                return Ok(below.is_some());
            };
            let (is_point, hides) = match below {
                None => (true, false),
                Some(below) if self.way == Way::Up => (**key <= *below, **key == *below),
                Some(below) => (**key >= *below, **key == *below),
            };
            if !is_point {
                self.at = At::Below;
                return Ok(true);
            }
            if let Some(put) = write.as_ref().filter(|put| put.lives(self.now_ms)) {
                self.key.clone_from(key);
                self.at = At::Own(put.clone());
                return Ok(true);
            }
            if hides {
                self.step_below()?;
                self.leave_deleted(writes)?;
            }
        }
    }

    /// To the end of the range from which this way leads.
    fn begin(&mut self, way: Way) -> Result<bool> {
        (self.way, self.at, self.below_is_there) = (way, At::Nowhere, false);
        self.below_is_there = match way {
            Way::Up => self.below.seek_to_first()?,
            Way::Down => self.below.seek_to_last()?,
        };
        let (writes, range) = (Arc::clone(&self.writes), self.range.clone());
        let from = if way == Way::Up { &range.lower } else { &range.upper };
        self.settle(&read(&writes), from.as_ref().map(Vec::as_slice))
    }

    fn seek_that_way(&mut self, way: Way, key: &[u8]) -> Result<bool> {
        let is_outside = match way {
            Way::Up => self.range.is_below(key),
            Way::Down => self.range.is_above(key),
        };
        if is_outside {
            return self.begin(way);
        }
        (self.way, self.at) = (way, At::Nowhere);
        self.seek_below(key)?;
        let writes = Arc::clone(&self.writes);
        self.settle(&read(&writes), Bound::Included(key))
    }

    fn step(&mut self, way: Way) -> Result<bool> {
        let at = std::mem::replace(&mut self.at, At::Nowhere);
        let writes = Arc::clone(&self.writes);
        let writes = read(&writes);
        let is_below = match at {
            At::Nowhere => return Ok(false),
            At::Below => true,
            At::Own(_) => false,
        };
        let is_turned = self.way != way;
        self.way = way;
        if is_below {
            if !writes.is_empty() {
                self.key.clear();
                self.key.extend_from_slice(self.below.key());
            }
            self.step_below()?;
        } else {
            let key = std::mem::take(&mut self.key);
            if is_turned || self.roll_backs != writes.roll_backs() {
                self.seek_below(&key)?;
            }
            if self.below_is_there && self.below.key() == key {
                self.step_below()?;
            }
            self.key = key;
        }
        let key = std::mem::take(&mut self.key);
        let settled = self.settle(&writes, Bound::Excluded(&key));
        if !matches!(self.at, At::Own(_)) {
            // Its memory is used again.
            self.key = key;
        }
        settled
    }

    fn step_many(&mut self, way: Way, burst: &mut EntryBurst) -> Result<bool> {
        let writes = Arc::clone(&self.writes);
        while !burst.is_full() {
            let writes = read(&writes);
            if matches!(self.at, At::Below) && self.way == way && writes.is_empty() {
                self.at = At::Nowhere;
                self.below_is_there = false;
                self.below_is_there = match way {
                    Way::Up => self.below.next_many(burst)?,
                    Way::Down => self.below.prev_many(burst)?,
                };
                if self.below_is_there {
                    self.at = At::Below;
                }
                return Ok(self.below_is_there);
            }
            drop(writes);
            if !self.step(way)? {
                return Ok(false);
            }
            burst.push(self.key(), self.entry().value);
        }
        Ok(true)
    }
}

impl EntryIter for Cursor {
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

    fn next_many(&mut self, burst: &mut EntryBurst) -> Result<bool> {
        self.step_many(Way::Up, burst)
    }

    fn prev_many(&mut self, burst: &mut EntryBurst) -> Result<bool> {
        self.step_many(Way::Down, burst)
    }

    fn prev(&mut self) -> Result<bool> {
        self.step(Way::Down)
    }

    fn key(&self) -> &[u8] {
        match &self.at {
            At::Own(_) => &self.key,
            At::Below | At::Nowhere => self.below.key(),
        }
    }

    fn entry(&self) -> EntryRef<'_> {
        match &self.at {
            At::Own(put) => put.entry(),
            At::Below | At::Nowhere => self.below.entry(),
        }
    }
}
