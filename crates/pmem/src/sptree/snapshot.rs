//! A store as it was at one moment, and iterators over it.

use super::read::read_one;
use super::run::{Moment, Run};
use super::top::Seek;
use super::tree::SpTree;
use silica_base::Result;
use silica_device::region::Region;
use silica_engine::{EntryIter, EntryRef, GetSink, IterateOptions, KeyRange, Snapshot};
use std::ops::Bound;
use std::sync::Arc;

/// A snapshot that is held.
pub(crate) struct Held<R: Region> {
    tree: Arc<SpTree<R>>,
    sequence: u64,
    unix_ms: u64,
}

impl<R: Region> Held<R> {
    pub(crate) fn take(tree: Arc<SpTree<R>>) -> Self {
        let (sequence, unix_ms) = {
            let _alone = tree.gate.write();
            (tree.history.hold(), tree.clock.unix_ms())
        };
        Held { tree, sequence, unix_ms }
    }
}

impl<R: Region> Drop for Held<R> {
    fn drop(&mut self) {
        self.tree.history.release(self.sequence);
    }
}

impl<R: Region> Snapshot for Held<R> {
    fn sequence(&self) -> u64 {
        self.sequence
    }

    fn unix_ms(&self) -> u64 {
        self.unix_ms
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        let mut bytes = Vec::new();
        for (index, key) in keys.iter().enumerate() {
            bytes.clear();
            let hash = self.tree.hash(key);
            let mut wants = |len| sink.wants(index, len);
            let now = read_one(&self.tree, key, hash, &mut bytes, &mut wants)?;
            // Asked after the leaf: whoever changed it meanwhile has noted what was before.
            let before = self.tree.history.before(key, self.sequence);
            let entry = match &before {
                Some(kept) => kept.as_ref().map(|kept| EntryRef {
                    value: &kept.value,
                    expires_unix_ms: kept.expires_unix_ms,
                    user_bits: kept.user_bits,
                }),
                None => now.map(|(meta, start)| EntryRef {
                    value: &bytes[start..],
                    expires_unix_ms: meta.expires_unix_ms,
                    user_bits: meta.user_bits,
                }),
            };
            let lives = |entry: &EntryRef<'_>| {
                entry.expires_unix_ms == 0 || entry.expires_unix_ms > self.unix_ms
            };
            if let Some(entry) = entry.filter(lives) {
                sink.found(index, entry);
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
        let moment = Moment {
            sequence: Some(self.sequence),
            unix_ms: self.unix_ms,
            is_of_keys: options.is_of_keys,
        };
        let (run, range) = (Run::default(), range.clone());
        let (at, is_within, large) = (None, false, Vec::new());
        Ok(Box::new(Iter { held: self, range, moment, run, is_within, at, large }))
    }
}

/// An iterator over a snapshot: a copy of one leaf at a time.
struct Iter<R: Region> {
    held: Arc<Held<R>>,
    range: KeyRange,
    moment: Moment,
    run: Run,
    /// All entries of the run are within the range.
    is_within: bool,
    at: Option<usize>,
    /// The value here, if it is a large one.
    large: Vec<u8>,
}

impl<R: Region> Iter<R> {
    fn load(&mut self, key: Option<&[u8]>, seek: Seek) -> Result<()> {
        self.is_within = false;
        self.run.load(&self.held.tree, key, seek, self.moment)?;
        if let Some(last) = self.run.len().checked_sub(1) {
            let is_within = |at: usize| self.range.contains(self.run.key(at));
            self.is_within = is_within(0) && is_within(last);
        }
        Ok(())
    }

    /// To the first entry from place `at` of the run on.
    fn forward(&mut self, mut at: usize) -> Result<bool> {
        while at >= self.run.len() {
            let Some(upper) = self.run.bounds.upper.take() else { return Ok(self.leave()) };
            if self.range.is_above(&upper) {
                return Ok(self.leave());
            }
            self.load(Some(&upper), Seek::At)?;
            at = self.run.before(&upper);
        }
        self.arrive(at)
    }

    /// To the last entry before place `at` of the run.
    fn backward(&mut self, mut at: usize) -> Result<bool> {
        while at == 0 {
            let lower = std::mem::take(&mut self.run.bounds.lower);
            if lower.is_empty() || self.range.is_below(&lower) {
                return Ok(self.leave());
            }
            self.load(Some(&lower), Seek::Before)?;
            at = self.run.before(&lower);
        }
        self.arrive(at - 1)
    }

    fn leave(&mut self) -> bool {
        self.at = None;
        false
    }

    fn arrive(&mut self, at: usize) -> Result<bool> {
        if !self.is_within && !self.range.contains(self.run.key(at)) {
            return Ok(self.leave());
        }
        if self.run.entry(at).is_lazy && !self.moment.is_of_keys {
            self.at = None;
            let (held, key) = (Arc::clone(&self.held), self.run.key(at).to_vec());
            let mut large = std::mem::take(&mut self.large);
            large.clear();
            let mut sink = Copied(&mut large);
            held.get_many(&[&key], &mut sink)?;
            self.large = large;
        }
        self.at = Some(at);
        Ok(true)
    }

    /// To the first entry at or, unless `is_included`, after `key`.
    fn from(&mut self, key: &[u8], is_included: bool) -> Result<bool> {
        self.at = None;
        self.load(Some(key), Seek::At)?;
        let at = self.run.before(key);
        let is_there = at < self.run.len() && self.run.key(at) == key;
        self.forward(at + usize::from(is_there && !is_included))
    }

    /// To the last entry at or, unless `is_included`, before `key`.
    fn to(&mut self, key: &[u8], is_included: bool) -> Result<bool> {
        self.at = None;
        self.load(Some(key), Seek::At)?;
        let at = self.run.before(key);
        let is_there = at < self.run.len() && self.run.key(at) == key;
        self.backward(at + usize::from(is_there && is_included))
    }
}

/// Copies a value.
struct Copied<'v>(&'v mut Vec<u8>);

impl GetSink for Copied<'_> {
    fn found(&mut self, _index: usize, entry: EntryRef<'_>) {
        self.0.extend_from_slice(entry.value);
    }
}

impl<R: Region> EntryIter for Iter<R> {
    fn seek_to_first(&mut self) -> Result<bool> {
        match self.range.lower.clone() {
            Bound::Unbounded => self.from(b"", true),
            Bound::Included(key) => self.from(&key, true),
            Bound::Excluded(key) => self.from(&key, false),
        }
    }

    fn seek_to_last(&mut self) -> Result<bool> {
        match self.range.upper.clone() {
            Bound::Unbounded => {
                self.at = None;
                self.load(None, Seek::At)?;
                self.backward(self.run.len())
            }
            Bound::Included(key) => self.to(&key, true),
            Bound::Excluded(key) => self.to(&key, false),
        }
    }

    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        if self.range.is_below(key) { self.seek_to_first() } else { self.from(key, true) }
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> Result<bool> {
        if self.range.is_above(key) { self.seek_to_last() } else { self.to(key, true) }
    }

    fn next(&mut self) -> Result<bool> {
        let Some(at) = self.at.take() else { return Ok(false) };
        self.forward(at + 1)
    }

    fn prev(&mut self) -> Result<bool> {
        let Some(at) = self.at.take() else { return Ok(false) };
        self.backward(at)
    }

    fn key(&self) -> &[u8] {
        self.run.key(self.at.expect("it is at an entry"))
    }

    fn entry(&self) -> EntryRef<'_> {
        let at = self.at.expect("it is at an entry");
        let entry = self.run.entry(at);
        let value = if entry.is_lazy { &self.large } else { self.run.value(at) };
        let meta = entry.meta;
        EntryRef { value, expires_unix_ms: meta.expires_unix_ms, user_bits: meta.user_bits }
    }
}
