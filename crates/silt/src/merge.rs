//! Streams of entries in hash order, and their merge.
//!
//! A stream yields entries in the order of (hash, key) and holds a bounded number of them in
//! memory. Hash stores and sorted stores give streams; [`MergeStream`] makes one of many, in
//! which the newest entry of each key wins. Merging partitions, scanning a store and verifying it
//! all read through these.

use silica_base::{KeyHash, Result};
use silica_parts::frame::Frame;
use std::cmp::Ordering;

/// Entries in the order of (hash, key), each key once. After [`EntryStream::advance`] returned
/// true, the other methods speak of the entry it moved to; before, they MUST NOT be called.
pub trait EntryStream {
    /// Moves to the next entry; false at the end, and again when called again. After an error
    /// the stream is of no more use.
    fn advance(&mut self) -> Result<bool>;
    /// The hash of the entry's key.
    fn hash(&self) -> KeyHash;
    /// The entry's key.
    fn key(&self) -> &[u8];
    /// The entry's encoded frame.
    fn frame_bytes(&self) -> &[u8];

    /// The entry.
    fn frame(&self) -> Frame<'_> {
        Frame::decode(self.frame_bytes()).expect("a stream moves to whole frames only").0
    }
}

impl<S: EntryStream + ?Sized> EntryStream for Box<S> {
    fn advance(&mut self) -> Result<bool> {
        (**self).advance()
    }

    fn hash(&self) -> KeyHash {
        (**self).hash()
    }

    fn key(&self) -> &[u8] {
        (**self).key()
    }

    fn frame_bytes(&self) -> &[u8] {
        (**self).frame_bytes()
    }
}

/// Merges streams, the newest first; of the entries of one key it yields the newest.
pub struct MergeStream<S> {
    streams: Vec<S>,
    /// Hash of each stream's entry; `None` once the stream ended. Apart from the streams, so
    /// that the smallest is found without touching them.
    heads: Vec<Option<KeyHash>>,
    /// Streams whose entry was yielded or dropped: they move at the next advance.
    spent: Vec<usize>,
    current: usize,
    started: bool,
    dropped: u64,
    dropped_bytes: u64,
}

impl<S: EntryStream> MergeStream<S> {
    /// Merges `streams`, the newest first.
    pub fn new(streams: Vec<S>) -> Self {
        MergeStream {
            heads: vec![None; streams.len()],
            spent: (0..streams.len()).collect(),
            streams,
            current: 0,
            started: false,
            dropped: 0,
            dropped_bytes: 0,
        }
    }

    /// Entries dropped so far because a newer stream had their key.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Bytes of the frames dropped so far.
    pub fn dropped_bytes(&self) -> u64 {
        self.dropped_bytes
    }

    /// The streams, and for each whether it has ended.
    pub fn streams(&self) -> impl Iterator<Item = (&S, bool)> {
        self.streams.iter().zip(self.heads.iter().map(|h| self.started && h.is_none()))
    }

    /// Index of the stream (0 is the newest) that the current entry comes from.
    pub fn source(&self) -> usize {
        self.current
    }

    /// Moves to the next key. Every older entry of that key goes to `on_dropped`, which learns so
    /// of values in the value log that nothing points to any more.
    pub fn advance_with(&mut self, on_dropped: &mut dyn FnMut(&Frame<'_>)) -> Result<bool> {
        while let Some(&i) = self.spent.last() {
            let stream = &mut self.streams[i];
            self.heads[i] = if stream.advance()? { Some(stream.hash()) } else { None };
            self.spent.pop();
        }
        self.started = true;
        let Some((newest, hash)) = self.smallest_head() else { return Ok(false) };
        self.current = newest;
        let ties = self.heads[newest + 1..].contains(&Some(hash));
        if ties {
            self.settle_ties(hash, on_dropped);
        }
        self.spent.push(self.current);
        Ok(true)
    }

    /// The newest of the streams with the smallest hash.
    #[inline]
    fn smallest_head(&self) -> Option<(usize, KeyHash)> {
        let mut smallest: Option<(usize, KeyHash)> = None;
        for (i, head) in self.heads.iter().enumerate() {
            if let Some(hash) = *head
                && smallest.is_none_or(|(_, best)| hash < best)
            {
                smallest = Some((i, hash));
            }
        }
        smallest
    }

    /// Of the streams at `hash`, finds the newest with the smallest key, and drops the entries of
    /// the same key in older ones.
    fn settle_ties(&mut self, hash: KeyHash, on_dropped: &mut dyn FnMut(&Frame<'_>)) {
        let at_hash = |i: &usize| self.heads[*i] == Some(hash);
        for i in (self.current + 1..self.streams.len()).filter(at_hash) {
            if self.streams[i].key() < self.streams[self.current].key() {
                self.current = i;
            }
        }
        for i in (self.current + 1..self.streams.len()).filter(at_hash) {
            if self.streams[i].key().cmp(self.streams[self.current].key()) == Ordering::Equal {
                self.dropped += 1;
                self.dropped_bytes += self.streams[i].frame_bytes().len() as u64;
                on_dropped(&self.streams[i].frame());
                self.spent.push(i);
            }
        }
    }
}

impl<S: EntryStream> EntryStream for MergeStream<S> {
    fn advance(&mut self) -> Result<bool> {
        self.advance_with(&mut |_| {})
    }

    fn hash(&self) -> KeyHash {
        self.streams[self.current].hash()
    }

    fn key(&self) -> &[u8] {
        self.streams[self.current].key()
    }

    fn frame_bytes(&self) -> &[u8] {
        self.streams[self.current].frame_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::Prng;
    use silica_parts::frame::POINTER;
    use std::collections::BTreeMap;

    /// Entries in memory.
    struct Listed {
        entries: Vec<(KeyHash, Vec<u8>, Vec<u8>)>,
        at: usize,
    }

    impl Listed {
        fn new(entries: &BTreeMap<(KeyHash, Vec<u8>), Vec<u8>>) -> Self {
            let mut list = vec![(KeyHash(0), Vec::new(), Vec::new())];
            list.extend(entries.iter().map(|((h, k), f)| (*h, k.clone(), f.clone())));
            Listed { entries: list, at: 0 }
        }
    }

    impl EntryStream for Listed {
        fn advance(&mut self) -> Result<bool> {
            self.at = (self.at + 1).min(self.entries.len());
            Ok(self.at < self.entries.len())
        }

        fn hash(&self) -> KeyHash {
            self.entries[self.at].0
        }

        fn key(&self) -> &[u8] {
            &self.entries[self.at].1
        }

        fn frame_bytes(&self) -> &[u8] {
            &self.entries[self.at].2
        }
    }

    #[test]
    fn the_newest_entry_of_each_key_wins_and_the_others_are_reported() {
        for seed in 0..200 {
            let mut prng = Prng::new(seed);
            let mut expected = BTreeMap::new();
            let mut stores = Vec::new();
            let (mut entries, mut pointers) = (0, 0);
            // The oldest first, so that a later insert replaces.
            for age in 0..prng.below(6) {
                let mut store = BTreeMap::new();
                for _ in 0..prng.below(30) {
                    let key = vec![prng.below(20) as u8];
                    // Few hashes, so that different keys share one.
                    let hash = KeyHash(u128::from(key[0] % 5));
                    let mut frame = Vec::new();
                    let flags = if age % 2 == 0 { POINTER } else { 0 };
                    Frame { flags, ..Frame::put(&key, &[age as u8]) }.encode(&mut frame);
                    store.insert((hash, key), frame);
                }
                entries += store.len();
                pointers += if age % 2 == 0 { store.len() } else { 0 };
                expected.extend(store.clone());
                stores.insert(0, Listed::new(&store));
            }
            let mut merged = MergeStream::new(stores);
            let (mut got, mut dropped_pointers) = (Vec::new(), 0);
            let mut on_dropped = |f: &Frame<'_>| dropped_pointers += usize::from(f.is_pointer());
            while merged.advance_with(&mut on_dropped).expect("no device") {
                pointers -= usize::from(merged.frame().is_pointer());
                let key = (merged.hash(), merged.key().to_vec());
                got.push((key, merged.frame_bytes().to_vec()));
            }
            assert!(!merged.advance().expect("no device"), "ended streams stay ended");
            assert_eq!(merged.dropped() as usize, entries - got.len(), "seed {seed}");
            assert_eq!(dropped_pointers, pointers);
            assert_eq!(got, expected.into_iter().collect::<Vec<_>>(), "seed {seed}");
        }
    }
}
