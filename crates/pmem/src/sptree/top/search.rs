//! Search among separators: the lowest keys of leaves, or of chunks of them.
//!
//! Separators in order share a *prefix*; of what follows, each has its first eight bytes as a
//! number (its *window*) where a search looks first. Separator 0 is at or below every key that is
//! looked for, so it is never compared and need not have the prefix.

use super::super::layout::head;
use std::cmp::Ordering;

/// Bytes of a window.
pub(super) const WINDOW_BYTES: usize = 8;
/// The length of what follows a prefix if no window has room for it.
pub(super) const IS_LONGER: usize = WINDOW_BYTES + 1;

/// Which separator is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seek {
    /// The last one at or before the key.
    At,
    /// The last one before the key.
    Before,
}

impl Seek {
    /// True if a separator that compares so with the key may be the one.
    pub(super) fn takes(self, separator_to_key: Ordering) -> bool {
        match self {
            Seek::At => separator_to_key != Ordering::Greater,
            Seek::Before => separator_to_key == Ordering::Less,
        }
    }
}

/// Separators as a search sees them.
pub(super) trait Separators {
    fn len(&self) -> usize;
    /// What all but separator 0 begin with.
    fn prefix(&self) -> &[u8];
    fn window(&self, at: usize) -> u64;
    /// Bytes behind the prefix, or [`IS_LONGER`].
    fn rest_len(&self, at: usize) -> usize;
    /// The place by whole separators.
    fn place_by_whole(&self, key: &[u8], seek: Seek) -> usize;

    /// The last separator whose window is not above `wanted`, else 0.
    #[inline]
    fn last_not_above(&self, wanted: u64) -> usize {
        let (mut low, mut size) = (1, self.len().saturating_sub(1));
        while size > 0 {
            let half = size / 2;
            let is_not_above = self.window(low + half) <= wanted;
            low = if is_not_above { low + half + 1 } else { low };
            size = if is_not_above { size - half - 1 } else { half };
        }
        low - 1
    }

    /// What follows the prefix in `key`; where the search ends if the key does not have it.
    #[inline(always)]
    fn rest_of<'k>(&self, key: &'k [u8]) -> Result<&'k [u8], usize> {
        let prefix = self.prefix();
        if prefix.is_empty() {
            return Ok(key);
        }
        let shared = prefix.len().min(key.len());
        match key[..shared].cmp(&prefix[..shared]) {
            Ordering::Greater => Err(self.len().saturating_sub(1)),
            Ordering::Equal if shared == prefix.len() => Ok(&key[shared..]),
            Ordering::Less | Ordering::Equal => Err(0),
        }
    }

    /// Where the separator is that is looked for; 0 if all others come behind it.
    #[inline]
    fn place(&self, key: &[u8], seek: Seek) -> usize {
        let rest = match self.rest_of(key) {
            Ok(rest) => rest,
            Err(at) => return at,
        };
        let wanted = head(rest);
        let mut at = self.last_not_above(wanted);
        while at > 0 && self.window(at) == wanted {
            let its = self.rest_len(at);
            if its == IS_LONGER {
                return self.place_by_whole(key, seek);
            }
            // The shorter of two that differ by zeroes at their end comes first.
            if seek.takes(its.cmp(&rest.len())) {
                break;
            }
            at -= 1;
        }
        at
    }
}

/// The window of a separator with a prefix of `prefix` bytes, and the length of what follows.
pub(super) fn window_of(separator: &[u8], prefix: usize) -> (u64, usize) {
    let rest = separator.get(prefix..).unwrap_or_default();
    (head(rest), rest.len().min(IS_LONGER))
}

/// Separators one after the other.
#[derive(Debug, Default, Clone)]
pub(super) struct Packed {
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Packed {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn get(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..self.ends[at] as usize]
    }

    pub(super) fn insert(&mut self, at: usize, separator: &[u8]) {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.bytes.splice(start as usize..start as usize, separator.iter().copied());
        self.ends.insert(at, start);
        for end in &mut self.ends[at..] {
            *end += separator.len() as u32;
        }
    }

    pub(super) fn remove(&mut self, at: usize) {
        let start = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        let end = self.ends.remove(at);
        self.bytes.drain(start as usize..end as usize);
        for later in &mut self.ends[at..] {
            *later -= end - start;
        }
    }

    /// The last of all but separator 0 that `seek` takes, else 0.
    pub(super) fn place(&self, key: &[u8], seek: Seek) -> usize {
        let (mut low, mut high) = (1, self.len().max(1));
        while low < high {
            let middle = low.midpoint(high);
            if seek.takes(self.get(middle).cmp(key)) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low - 1
    }

    pub(super) fn bytes(&self) -> u64 {
        (self.bytes.capacity() + self.ends.capacity() * 4) as u64
    }
}
