//! What a transaction has written: points over deleted ranges, and how to take it back.
//!
//! 1. A point is newer than every deleted range: `delete_range` takes the points in it away.
//! 2. Deleted ranges do not touch one another.
//! 3. While a savepoint is there, `undo` has what each later write replaced, in their order.

use crate::EntryRef;
use silica_base::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::sync::Arc;

/// An entry of its own. A copy shares the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Put {
    value: Arc<[u8]>,
    expires_unix_ms: u64,
    user_bits: u32,
}

impl Put {
    pub(super) fn new(entry: EntryRef<'_>) -> Self {
        let EntryRef { value, expires_unix_ms, user_bits } = entry;
        Put { value: Arc::from(value), expires_unix_ms, user_bits }
    }

    pub(super) fn entry(&self) -> EntryRef<'_> {
        let Put { value, expires_unix_ms, user_bits } = self;
        EntryRef { value, expires_unix_ms: *expires_unix_ms, user_bits: *user_bits }
    }

    /// False if it has expired at that moment.
    pub(super) fn lives(&self, now_ms: u64) -> bool {
        self.expires_unix_ms == 0 || self.expires_unix_ms > now_ms
    }
}

/// An entry that was put, or `None` if the key was deleted.
pub(super) type Write = Option<Put>;

pub(super) type Points = BTreeMap<Vec<u8>, Write>;

/// Ranges from a key on and before another one; `None` stands for the end of all keys.
pub(super) type Deleted = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

#[derive(Debug)]
pub(super) enum Undo {
    /// A key was this before, or not written.
    Point(Vec<u8>, Option<Write>),
    /// The deleted ranges were these, before this one was.
    Deleted { before: Arc<Deleted>, lower: Vec<u8>, upper: Option<Vec<u8>> },
}

impl Undo {
    /// The key that was written, if it is of one.
    pub(super) fn key(&self) -> Option<&[u8]> {
        match self {
            Undo::Point(key, _) => Some(key),
            Undo::Deleted { .. } => None,
        }
    }
}

/// See [`super::Transaction::replaced`].
#[derive(Debug)]
pub enum Replaced<'r> {
    /// The next savepoint, by its place among all that are there.
    Savepoint(usize),
    /// A key was written over: what this transaction had written of it before, if it had.
    Key(&'r [u8], Option<Option<EntryRef<'r>>>),
    /// A range was deleted, from a key on and before another one, or to the end of all keys.
    Range(&'r [u8], Option<&'r [u8]>),
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Writes {
    points: Points,
    deleted: Arc<Deleted>,
    undo: Vec<Undo>,
    /// Each savepoint's number, and how long `undo` was then.
    savepoints: Vec<(u64, usize)>,
    /// How many points there were at the first savepoint.
    points_at_first: usize,
    last_savepoint: u64,
    /// How often writes were taken back.
    roll_backs: u64,
    /// Of `points`, and of what `undo` keeps.
    bytes: usize,
}

fn bytes_of(key: &[u8], write: Option<&Write>) -> usize {
    let value = write.and_then(Option::as_ref).map_or(0, |put| put.value.len());
    key.len() + value
}

/// True if the range up to `upper` reaches behind `key`.
fn reaches(upper: Option<&[u8]>, key: &[u8]) -> bool {
    upper.is_none_or(|upper| key < upper)
}

impl Writes {
    pub(super) fn is_empty(&self) -> bool {
        self.points.is_empty() && self.deleted.is_empty()
    }

    pub(super) fn points(&self) -> &Points {
        &self.points
    }

    pub(super) fn deleted(&self) -> &Deleted {
        &self.deleted
    }

    pub(super) fn undo(&self) -> &[Undo] {
        &self.undo
    }

    /// Each savepoint's number, and how long [`Writes::undo`] was then.
    pub(super) fn savepoints(&self) -> &[(u64, usize)] {
        &self.savepoints
    }

    /// How many points there were at the first savepoint.
    pub(super) fn points_at_first(&self) -> usize {
        self.points_at_first
    }

    /// How often writes were taken back: what they hid may be there again.
    pub(super) fn roll_backs(&self) -> u64 {
        self.roll_backs
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// What was written of `key`, if anything was; what has expired at `now_ms` is deleted.
    pub(super) fn find(&self, key: &[u8], now_ms: u64) -> Option<Write> {
        match self.points.get(key) {
            Some(write) => Some(write.clone().filter(|put| put.lives(now_ms))),
            None => self.range_of(key).map(|_| None),
        }
    }

    /// The deleted range that has `key`.
    pub(super) fn range_of(&self, key: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
        let up_to = (Bound::Unbounded, Bound::Included(key));
        let (lower, upper) = self.deleted.range::<[u8], _>(up_to).next_back()?;
        let upper = upper.as_deref();
        reaches(upper, key).then_some((lower, upper))
    }

    fn keep(&mut self, undo: impl FnOnce() -> Undo) {
        if !self.savepoints.is_empty() {
            let undo = undo();
            if let Undo::Point(key, before) = &undo {
                self.bytes += bytes_of(key, before.as_ref());
            }
            self.undo.push(undo);
        }
    }

    pub(super) fn set(&mut self, key: &[u8], write: Write) {
        self.bytes += bytes_of(key, Some(&write));
        // One search. The copy of a key that is there already costs less than a second search of
        // one that is not.
        let before = match self.points.entry(key.to_vec()) {
            Entry::Occupied(mut there) => Some(there.insert(write)),
            Entry::Vacant(place) => {
                place.insert(write);
                None
            }
        };
        if before.is_some() {
            self.bytes -= bytes_of(key, before.as_ref());
        }
        self.keep(|| Undo::Point(key.to_vec(), before));
    }

    fn unset(&mut self, key: Vec<u8>) {
        let before = self.points.remove(&key);
        self.bytes -= bytes_of(&key, before.as_ref());
        self.keep(|| Undo::Point(key, before));
    }

    /// Deletes the keys from `lower` on and before `upper`.
    pub(super) fn delete_range(&mut self, mut lower: Vec<u8>, mut upper: Option<Vec<u8>>) {
        if !reaches(upper.as_deref(), &lower) {
            return;
        }
        let from = self.points.range::<[u8], _>((Bound::Included(&lower[..]), Bound::Unbounded));
        let within = from.map(|(key, _)| key).take_while(|key| reaches(upper.as_deref(), key));
        for key in within.cloned().collect::<Vec<_>>() {
            self.unset(key);
        }
        let before = Arc::clone(&self.deleted);
        self.keep(|| Undo::Deleted { before, lower: lower.clone(), upper: upper.clone() });
        let deleted = Arc::make_mut(&mut self.deleted);
        // Those that it touches become one with it.
        loop {
            let to = match &upper {
                Some(upper) => Bound::Included(&upper[..]),
                None => Bound::Unbounded,
            };
            let last = deleted.range::<[u8], _>((Bound::Unbounded, to)).next_back();
            let Some((other, end)) = last.map(|(other, end)| (other.clone(), end.clone())) else {
                break;
            };
            if end.as_ref().is_some_and(|end| *end < lower) {
                break;
            }
            deleted.remove(&other);
            lower = lower.min(other);
            upper = upper.and_then(|upper| end.map(|end| upper.max(end)));
        }
        deleted.insert(lower, upper);
    }

    /// Sets a savepoint; its number.
    pub(super) fn mark(&mut self) -> u64 {
        self.last_savepoint += 1;
        if self.savepoints.is_empty() {
            self.points_at_first = self.points.len();
        }
        self.savepoints.push((self.last_savepoint, self.undo.len()));
        self.last_savepoint
    }

    /// What each write since the first savepoint has replaced, in their order, between the
    /// savepoints.
    pub(super) fn replaced(&self, each: &mut dyn FnMut(Replaced<'_>) -> Result<()>) -> Result<()> {
        let mut savepoints = self.savepoints.iter().map(|(_, len)| *len).enumerate().peekable();
        for (at, undo) in self.undo.iter().enumerate() {
            while let Some((place, _)) = savepoints.next_if(|(_, len)| *len <= at) {
                each(Replaced::Savepoint(place))?;
            }
            match undo {
                Undo::Point(key, before) => {
                    let before = before.as_ref().map(|write| write.as_ref().map(Put::entry));
                    each(Replaced::Key(key, before))?;
                }
                Undo::Deleted { lower, upper, .. } => {
                    each(Replaced::Range(lower, upper.as_deref()))?;
                }
            }
        }
        savepoints.try_for_each(|(place, _)| each(Replaced::Savepoint(place)))
    }

    /// The deleted ranges of the first savepoint; those of now if there is none.
    pub(super) fn deleted_at_first(&self) -> &Deleted {
        let first = self.undo.iter().find_map(|undo| match undo {
            Undo::Deleted { before, .. } => Some(before),
            Undo::Point(..) => None,
        });
        first.unwrap_or(&self.deleted)
    }

    fn place(&self, savepoint: u64) -> Result<usize> {
        self.savepoints.binary_search_by_key(&savepoint, |(number, _)| *number).map_err(|_| {
            let message = "the savepoint is gone: it was released, or an earlier one was";
            Error::new(ErrorKind::NotFound, message)
        })
    }

    pub(super) fn roll_back_to(&mut self, savepoint: u64) -> Result<()> {
        let place = self.place(savepoint)?;
        self.savepoints.truncate(place + 1);
        self.roll_backs += 1;
        let len = self.savepoints[place].1;
        while self.undo.len() > len {
            match self.undo.pop().expect("it is longer") {
                Undo::Deleted { before, .. } => self.deleted = before,
                Undo::Point(key, before) => self.undo_point(key, before),
            }
        }
        Ok(())
    }

    fn undo_point(&mut self, key: Vec<u8>, before: Option<Write>) {
        if let Some(write) = self.points.get(&key) {
            self.bytes -= bytes_of(&key, Some(write));
        }
        match before {
            // What was kept is what is written now, and counts as that.
            Some(write) => drop(self.points.insert(key, write)),
            None => {
                self.points.remove(&key);
                self.bytes -= key.len();
            }
        }
    }

    pub(super) fn release(&mut self, savepoint: u64) -> Result<()> {
        let place = self.place(savepoint)?;
        self.savepoints.truncate(place);
        if place == 0 {
            let kept = self.undo.drain(..).map(|undo| match undo {
                Undo::Point(key, before) => bytes_of(&key, before.as_ref()),
                Undo::Deleted { .. } => 0,
            });
            self.bytes -= kept.sum::<usize>();
        }
        Ok(())
    }
}
