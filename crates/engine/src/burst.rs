//! Entries that an iterator hands over many at a time.

use std::ops::Range;

/// Copies of entries one after the other, keys and values. A step of an iterator costs calls
/// through several layers; a burst pays for them once.
#[derive(Debug, Default)]
pub struct EntryBurst {
    bytes: Vec<u8>,
    /// Where each key ends, and the value behind it.
    ends: Vec<(usize, usize)>,
    key_bytes_max: usize,
    entries_max: usize,
    bytes_max: usize,
    is_of_keys: bool,
}

impl EntryBurst {
    /// Empties it. It is full with `entries_max` entries, or once it has `bytes_max` bytes.
    pub fn begin(&mut self, entries_max: usize, bytes_max: usize) {
        self.bytes.clear();
        self.ends.clear();
        self.key_bytes_max = 0;
        (self.entries_max, self.bytes_max) = (entries_max, bytes_max);
        self.is_of_keys = false;
    }

    /// As [`EntryBurst::begin`], for the keys alone: all values are empty.
    pub fn begin_keys(&mut self, entries_max: usize, bytes_max: usize) {
        self.begin(entries_max, bytes_max);
        self.is_of_keys = true;
    }

    /// True if all values are empty.
    #[inline]
    pub fn is_of_keys(&self) -> bool {
        self.is_of_keys
    }

    /// True if no further entry is wanted.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.ends.len() >= self.entries_max || self.bytes.len() >= self.bytes_max
    }

    /// Appends an entry.
    #[inline]
    pub fn push(&mut self, key: &[u8], value: &[u8]) {
        self.key_bytes_max = self.key_bytes_max.max(key.len());
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        if !self.is_of_keys {
            self.bytes.extend_from_slice(value);
        }
        self.ends.push((key_end, self.bytes.len()));
    }

    /// Gives the last entry another value.
    ///
    /// # Panics
    /// Panics if there is no entry.
    #[inline]
    pub fn set_last_value(&mut self, value: &[u8]) {
        let (key_end, end) = self.ends.last_mut().expect("an entry was appended");
        self.bytes.truncate(*key_end);
        if !self.is_of_keys {
            self.bytes.extend_from_slice(value);
        }
        *end = self.bytes.len();
    }

    /// Drops all but the first `len` entries.
    pub fn truncate(&mut self, len: usize) {
        if len < self.ends.len() {
            self.ends.truncate(len);
            self.bytes.truncate(self.ends.last().map_or(0, |(_, end)| *end));
        }
    }

    /// Bytes that no key is longer than.
    #[inline]
    pub fn key_bytes_max(&self) -> usize {
        self.key_bytes_max
    }

    /// The number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there is no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    fn key_range(&self, at: usize) -> Range<usize> {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before].1);
        start..self.ends[at].0
    }

    /// The key of entry `at`.
    ///
    /// # Panics
    /// Panics if there is no such entry.
    #[inline]
    pub fn key(&self, at: usize) -> &[u8] {
        &self.bytes[self.key_range(at)]
    }

    /// The value of entry `at`.
    ///
    /// # Panics
    /// Panics if there is no such entry.
    #[inline]
    pub fn value(&self, at: usize) -> &[u8] {
        let (start, end) = self.ends[at];
        &self.bytes[start..end]
    }

    /// Keys and values in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |(key_end, end)| {
            let entry = (&self.bytes[start..*key_end], &self.bytes[*key_end..*end]);
            start = *end;
            entry
        })
    }
}
