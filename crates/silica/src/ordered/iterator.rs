//! Going through a range: as one likes, or as Rust's iterators do.

use crate::Keyspace;
use silica_engine::{EntryIter, EntryRef, Result};

/// A place among the entries of a range, nowhere at first. The entries are those of the moment
/// when it, or its snapshot, was made.
///
/// Every call that moves it says whether it is at an entry then.
pub struct RangeIterator {
    inner: Box<dyn EntryIter>,
    valid: bool,
    /// It was asked for a place.
    is_used: bool,
    /// Entries that it was at.
    entries: u64,
    /// The first of them, where somebody records it.
    began: Option<Vec<u8>>,
    /// Keeps the keyspace, and says whether it is open.
    keyspace: Keyspace,
}

impl RangeIterator {
    pub(crate) fn new(inner: Box<dyn EntryIter>, keyspace: Keyspace) -> Self {
        RangeIterator { inner, valid: false, is_used: false, entries: 0, began: None, keyspace }
    }

    fn go(&mut self, step: impl FnOnce(&mut dyn EntryIter) -> Result<bool>) -> Result<bool> {
        self.valid = false;
        self.keyspace.check_open()?;
        self.valid = step(&mut *self.inner)?;
        self.is_used = true;
        if self.valid && self.entries == 0 && self.keyspace.switch().live().is_recording() {
            self.began = Some(self.inner.key().to_vec());
        }
        self.entries += u64::from(self.valid);
        Ok(self.valid)
    }

    /// To the first entry.
    pub fn seek_to_first(&mut self) -> Result<bool> {
        self.go(|inner| inner.seek_to_first())
    }

    /// To the last entry.
    pub fn seek_to_last(&mut self) -> Result<bool> {
        self.go(|inner| inner.seek_to_last())
    }

    /// To the first entry at or after `key`.
    pub fn seek(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.go(|inner| inner.seek(key.as_ref()))
    }

    /// To the last entry at or before `key`.
    pub fn seek_for_prev(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.go(|inner| inner.seek_for_prev(key.as_ref()))
    }

    /// To the entry after this one; from nowhere it stays nowhere.
    #[allow(clippy::should_implement_trait)] // The name that people who come from RocksDB know.
    pub fn next(&mut self) -> Result<bool> {
        if self.valid { self.go(|inner| inner.next()) } else { Ok(false) }
    }

    /// To the entry before this one; from nowhere it stays nowhere.
    pub fn prev(&mut self) -> Result<bool> {
        if self.valid { self.go(|inner| inner.prev()) } else { Ok(false) }
    }

    /// True where it is at an entry.
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// The key here.
    pub fn key(&self) -> Option<&[u8]> {
        self.valid.then(|| self.inner.key())
    }

    /// The value here.
    pub fn value(&self) -> Option<&[u8]> {
        self.entry().map(|entry| entry.value)
    }

    /// Value and meta here.
    pub fn entry(&self) -> Option<EntryRef<'_>> {
        self.valid.then(|| self.inner.entry())
    }

    fn owned(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        Some((self.key()?.to_vec(), self.value()?.to_vec()))
    }
}

impl Drop for RangeIterator {
    fn drop(&mut self) {
        // One that found nothing has cost a search all the same.
        if self.is_used {
            let live = self.keyspace.switch().live();
            live.scanned(live.look(), self.entries, self.began.as_deref());
        }
    }
}

/// Keys and values of a range, in order, from the front or from the back.
pub struct Range {
    front: RangeIterator,
    back: RangeIterator,
    /// The last key taken from the front, and from the back.
    taken: (Option<Vec<u8>>, Option<Vec<u8>>),
    is_over: bool,
}

type Item = Result<(Vec<u8>, Vec<u8>)>;

impl Range {
    pub(crate) fn new(front: RangeIterator, back: RangeIterator) -> Self {
        Range { front, back, taken: (None, None), is_over: false }
    }

    /// What was moved to, unless the other end has taken it already.
    fn take(&mut self, moved: Result<bool>, from_front: bool) -> Option<Item> {
        let side = if from_front { &self.front } else { &self.back };
        let item = match moved {
            Err(error) => Some(Err(error)),
            Ok(_) => side
                .owned()
                .filter(|(key, _)| match &self.taken {
                    (_, Some(back)) if from_front => key < back,
                    (Some(front), _) if !from_front => key > front,
                    _ => true,
                })
                .map(Ok),
        };
        match &item {
            Some(Ok((key, _))) if from_front => self.taken.0 = Some(key.clone()),
            Some(Ok((key, _))) => self.taken.1 = Some(key.clone()),
            _ => self.is_over = true,
        }
        item
    }
}

impl Iterator for Range {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        if self.is_over {
            return None;
        }
        let is_first = self.taken.0.is_none();
        let moved = if is_first { self.front.seek_to_first() } else { self.front.next() };
        self.take(moved, true)
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Item> {
        if self.is_over {
            return None;
        }
        let is_first = self.taken.1.is_none();
        let moved = if is_first { self.back.seek_to_last() } else { self.back.prev() };
        self.take(moved, false)
    }
}

impl std::iter::FusedIterator for Range {}
