//! Values that are too large for one place: what is stored of them, and what is left to be removed.
//!
//! Such a value is cut into **chunks**, entries of the partitions as others are. The entry of its
//! key has a [`List`] in place of the value. What reads and writes them is in `chunks.rs`.
//!
//! 1. Each put of a large value has a number of its own, and the key of a chunk begins with it. A
//!    chunk is written once and never overwritten. So a chunk that is found is of the value whose
//!    list was read, whatever was written meanwhile.
//! 2. A list is written when all its chunks are. Who misses one looks at the list again: if it is
//!    another one, the value was overwritten, and if it is the same, a chunk was evicted, and the
//!    value is gone.
//! 3. Whoever removes a list, or evicts a chunk, notes that in the partition's [`Remains`] under
//!    its lock. The rest is removed once no lock is held that would be in the way, by the same
//!    thread or the next one that writes there.
//! 4. Chunks are no entries to anybody else: no key of a user is compared with theirs, nobody
//!    counts, scans or evicts them under their own name.

use crate::item::{CHUNK_KEY_BYTES, Form, Item};
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of a list.
pub(crate) const LIST_BYTES: usize = 32;
/// The chunks of a list are in the partitions in turn, from that of its key on; otherwise all are
/// in that one.
const SPREAD: u64 = 1 << 63;

/// Where the chunks of a value are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct List {
    /// The number of the put.
    pub(crate) id: u64,
    /// Hash of the key.
    pub(crate) home: u64,
    /// Bytes of the value.
    pub(crate) bytes: usize,
    /// Bytes of each chunk but the last.
    pub(crate) chunk_bytes: usize,
    pub(crate) is_spread: bool,
}

/// The key of a chunk.
pub(crate) type ChunkKey = [u8; CHUNK_KEY_BYTES];

fn put_words<const N: usize>(words: &[u64], out: &mut [u8; N]) {
    let places = out.as_chunks_mut::<8>().0.iter_mut();
    places.zip(words).for_each(|(place, word)| *place = word.to_le_bytes());
}

fn word(bytes: &[u8], n: usize) -> u64 {
    u64::from_le_bytes(bytes.as_chunks::<8>().0[n])
}

impl List {
    /// The value of the list's entry.
    pub(crate) fn encode(&self) -> [u8; LIST_BYTES] {
        let mut out = [0; LIST_BYTES];
        let last = self.chunk_bytes as u64 | self.mark();
        put_words(&[self.id, self.home, self.bytes as u64, last], &mut out);
        out
    }

    /// The list that an entry has as its value; `None` of what is none.
    pub(crate) fn decode(value: &[u8]) -> Option<List> {
        let value: &[u8; LIST_BYTES] = value.try_into().ok()?;
        let (bytes, last) = (word(value, 2) as usize, word(value, 3));
        let chunk_bytes = (last & !SPREAD) as usize;
        let is_one = chunk_bytes > 0 && bytes <= crate::VALUE_BYTES_MAX;
        let (id, home) = (word(value, 0), word(value, 1));
        is_one.then_some(List { id, home, bytes, chunk_bytes, is_spread: last & SPREAD != 0 })
    }

    fn mark(&self) -> u64 {
        if self.is_spread { SPREAD } else { 0 }
    }

    /// How many chunks there are.
    pub(crate) fn chunks(&self) -> usize {
        self.bytes.div_ceil(self.chunk_bytes)
    }

    /// The key of chunk `n`.
    pub(crate) fn key(&self, n: usize) -> ChunkKey {
        let mut key = [0; CHUNK_KEY_BYTES];
        put_words(&[self.id, self.home, n as u64 | self.mark()], &mut key);
        key
    }

    /// Where in the value chunk `n` is.
    pub(crate) fn range(&self, n: usize) -> Range<usize> {
        let start = n * self.chunk_bytes;
        start..self.bytes.min(start + self.chunk_bytes)
    }

    /// How many partitions from that of the key on it is to that of chunk `n`.
    pub(crate) fn distance(&self, n: usize) -> usize {
        if self.is_spread { n } else { 0 }
    }
}

/// What the key of a chunk says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) id: u64,
    pub(crate) home: u64,
    /// As [`List::distance`].
    pub(crate) distance: usize,
}

impl Chunk {
    pub(crate) fn of(key: &ChunkKey) -> Self {
        let last = word(key, 2);
        let distance = if last & SPREAD != 0 { (last & !SPREAD) as usize } else { 0 };
        Chunk { id: word(key, 0), home: word(key, 1), distance }
    }
}

/// Partitions whose locks the caller holds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Held {
    pub(crate) mask: u64,
    /// As a shard, which gets no others.
    pub(crate) is_owner: bool,
}

impl Held {
    pub(crate) const NONE: Held = Held { mask: 0, is_owner: false };

    pub(crate) fn locked(mask: u64) -> Self {
        Held { mask, is_owner: false }
    }

    pub(crate) fn owned(number: usize) -> Self {
        Held { mask: 1 << number, is_owner: true }
    }

    pub(crate) fn has(self, number: usize) -> bool {
        self.mask >> number & 1 == 1
    }
}

/// A part of a large value that went while the rest may still be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gone {
    /// The list. Its chunks are to go.
    List(List),
    /// A chunk of the list with this number, of the key with this hash. The whole is to go.
    Chunk { id: u64, home: u64 },
}

impl Gone {
    /// What is left of a value if `item` goes; `None` of what is no part of a large one.
    pub(crate) fn of(item: &Item<'_>) -> Option<Gone> {
        match item.header.form() {
            Form::Whole => None,
            Form::List => {
                let mut value = [0; LIST_BYTES];
                let list = item.copy_to(&mut value).then(|| List::decode(&value));
                list.flatten().map(Gone::List)
            }
            Form::Chunk => {
                let Chunk { id, home, .. } = Chunk::of(&item.chunk_key()?);
                Some(Gone::Chunk { id, home })
            }
        }
    }
}

/// The large values of which a partition has lost a part, until their rest is removed.
#[derive(Debug, Default)]
pub(crate) struct Remains {
    /// False if there are none. Whoever reads an old value leaves them to the next writer.
    any: AtomicBool,
    all: Mutex<Vec<Gone>>,
}

impl Remains {
    fn all(&self) -> MutexGuard<'_, Vec<Gone>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        !self.any.load(Relaxed)
    }

    pub(crate) fn push(&self, gone: Gone) {
        let mut all = self.all();
        // A burst may evict many chunks of a value one after the other.
        if all.last() != Some(&gone) {
            all.push(gone);
        }
        self.any.store(true, Relaxed);
    }

    /// How many there are, for [`Remains::take_back`].
    pub(crate) fn len(&self) -> usize {
        if self.is_empty() { 0 } else { self.all().len() }
    }

    /// Forgets all but the first `len`: what went after them is there again.
    pub(crate) fn take_back(&self, len: usize) {
        if !self.is_empty() {
            self.all().truncate(len);
        }
    }

    /// Takes all of them.
    pub(crate) fn take(&self) -> Vec<Gone> {
        let mut all = self.all();
        self.any.store(false, Relaxed);
        std::mem::take(&mut *all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_chunks_come_back_from_their_bytes() {
        for (bytes, is_spread) in [(1, false), (10, true), (11, true), (99, false)] {
            let list = List { id: 7, home: u64::MAX - 3, bytes, chunk_bytes: 10, is_spread };
            assert_eq!(List::decode(&list.encode()), Some(list));
            let mut at = 0;
            for n in 0..list.chunks() {
                assert_eq!(list.range(n).start, at);
                at = list.range(n).end;
                let chunk = Chunk::of(&list.key(n));
                assert_eq!(
                    (chunk.id, chunk.home, chunk.distance),
                    (7, list.home, list.distance(n))
                );
            }
            assert_eq!(at, bytes);
        }
        let none = List { id: 1, home: 2, bytes: 3, chunk_bytes: 0, is_spread: true };
        assert_eq!(List::decode(&none.encode()), None);
        let huge = List { bytes: usize::MAX, chunk_bytes: 1, ..none };
        assert_eq!((List::decode(&huge.encode()), List::decode(b"short")), (None, None));
    }

    #[test]
    fn remains_are_taken_once() {
        let (remains, gone) = (Remains::default(), |id| Gone::Chunk { id, home: 0 });
        assert!(remains.is_empty() && remains.take().is_empty());
        [1, 1, 2, 3].iter().for_each(|id| remains.push(gone(*id)));
        assert_eq!(remains.len(), 3);
        remains.take_back(2);
        assert_eq!(remains.take(), [gone(1), gone(2)]);
        assert!(remains.is_empty() && remains.take().is_empty());
    }
}
