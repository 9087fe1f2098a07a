//! A moment of the store under layers that a transaction has put aside (`staging.rs`).
//!
//! 1. Layers hide what is below them: a run key by key, a deleted range all keys in it.
//! 2. An iterator at an entry has every source at or behind its key, in the direction of the last
//!    move, and no source at a key that a later range hides.

use crate::run::part_of;
use crate::run_cursor::RunCursor;
use crate::staged_layer::Layer;
use crate::wip::Wip;
use silica_base::Result;
use silica_device::Device;
use silica_engine::{
    EntryBurst, EntryIter, EntryRef, GetSink, IterateOptions, KeyRange, Snapshot, SnapshotExt,
};
use silica_parts::frame::{POINTER, TOMBSTONE};
use silica_parts::table::Version as Row;
use std::cmp::Ordering;
use std::sync::Arc;

/// Bytes that an iterator reads at once in each run, at most.
const READ_AHEAD_BYTES: usize = 64 << 10;

/// See the module's documentation.
pub(crate) struct StagedView<D: Device> {
    wip: Arc<Wip<D>>,
    /// The newest first.
    layers: Vec<Layer<D>>,
    below: Arc<dyn Snapshot>,
}

impl<D: Device> StagedView<D> {
    /// Of layers that come with the newest last.
    pub(crate) fn new(wip: Arc<Wip<D>>, layers: &[Layer<D>], below: Arc<dyn Snapshot>) -> Self {
        StagedView { wip, layers: layers.iter().rev().cloned().collect(), below }
    }

    /// Reports what the layers say of a key; false if they say nothing.
    fn find(&self, at: usize, key: &[u8], sink: &mut dyn GetSink) -> Result<bool> {
        let hash = self.wip.seed.low(key);
        for layer in &self.layers {
            let run = match layer {
                Layer::Deleted(range) if range.covers(key) => return Ok(true),
                Layer::Deleted(_) => continue,
                Layer::Run(run) => &run.run,
            };
            let Some(part) = part_of(run, key) else { continue };
            let table = &part.table.table;
            if !table.may_contain(hash) {
                continue;
            }
            let mut cursor = table.cursor_through(&self.wip.tables.cache, 0);
            if cursor.seek(key, u64::MAX)? && cursor.key() == key {
                self.report(at, &cursor.version(), sink)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn report(&self, at: usize, row: &Row<'_>, sink: &mut dyn GetSink) -> Result<()> {
        if !is_there(row, self.below.unix_ms()) {
            return Ok(());
        }
        let (expires_unix_ms, user_bits) = (row.expires_unix_ms, row.user_bits);
        if row.flags & POINTER == 0 {
            sink.found(at, EntryRef { value: row.value, expires_unix_ms, user_bits });
        } else {
            let value = self.wip.value_at(row.key, row.value)?;
            sink.found(at, EntryRef { value: &value, expires_unix_ms, user_bits });
        }
        Ok(())
    }
}

/// False of a delete, and of what has expired.
fn is_there(row: &Row<'_>, now_ms: u64) -> bool {
    let has_expired = row.expires_unix_ms != 0 && row.expires_unix_ms <= now_ms;
    row.flags & TOMBSTONE == 0 && !has_expired
}

impl<D: Device> Snapshot for StagedView<D> {
    fn sequence(&self) -> u64 {
        self.below.sequence()
    }

    fn unix_ms(&self) -> u64 {
        self.below.unix_ms()
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        for (at, key) in keys.iter().enumerate() {
            if !self.find(at, key, sink)? {
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
        let (lower, upper) = range.half_open();
        let mut sources = Vec::new();
        let mut hides = Vec::new();
        for layer in &self.layers {
            match layer {
                Layer::Deleted(deleted) => hides.extend(deleted.within(&lower, upper.as_deref())),
                Layer::Run(run) => {
                    // A run that has nothing in the range need not be asked at each step.
                    let meets = |part: &crate::run::Part<D>| {
                        part.within(&lower, upper.as_deref()).is_some()
                    };
                    if run.run.iter().any(meets) {
                        let cursor = RunCursor::new(run.run.clone(), READ_AHEAD_BYTES)
                            .through(&self.wip.tables.cache);
                        let at = At::Run(Box::new(cursor));
                        sources.push(Source { at, is_there: false, hidden_by: hides.len() });
                    }
                }
            }
        }
        let below = Arc::clone(&self.below).iterate_with(range, options)?;
        let at = At::Below(below);
        sources.push(Source { at, is_there: false, hidden_by: hides.len() });
        let hides = hides.iter().map(|hide| (hide.lower.clone(), hide.upper.clone())).collect();
        Ok(Box::new(Iter {
            view: self,
            range: (lower, upper),
            sources,
            hides,
            way: Way::Up,
            here: None,
            value: Vec::new(),
            key: Vec::new(),
        }))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

enum At<D: Device> {
    Run(Box<RunCursor<D>>),
    Below(Box<dyn EntryIter>),
}

struct Source<D: Device> {
    at: At<D>,
    is_there: bool,
    /// So many of the ranges, the first ones, are of later layers.
    hidden_by: usize,
}

impl<D: Device> Source<D> {
    #[inline]
    fn key(&self) -> &[u8] {
        match &self.at {
            At::Run(run) => run.key(),
            At::Below(below) => below.key(),
        }
    }

    /// To the first entry from `key` on, or to the last one up to it; `None` is the end of all.
    fn seek(&mut self, way: Way, key: Option<&[u8]>) -> Result<()> {
        self.is_there = false;
        self.is_there = match (&mut self.at, way, key) {
            (At::Run(run), Way::Up, Some(key)) => run.seek(key, u64::MAX)?,
            (At::Run(run), Way::Up, None) => run.seek_to_first()?,
            // Sequence numbers of one key descend, and none is 0.
            (At::Run(run), Way::Down, Some(key)) => run.seek_before(key, 0)?,
            (At::Run(run), Way::Down, None) => run.seek_to_last()?,
            (At::Below(below), Way::Up, Some(key)) => below.seek(key)?,
            (At::Below(below), Way::Up, None) => below.seek_to_first()?,
            (At::Below(below), Way::Down, Some(key)) => below.seek_for_prev(key)?,
            (At::Below(below), Way::Down, None) => below.seek_to_last()?,
        };
        Ok(())
    }

    #[inline]
    fn step(&mut self, way: Way) -> Result<()> {
        self.is_there = false;
        self.is_there = match (&mut self.at, way) {
            (At::Run(run), Way::Up) => run.advance()?,
            (At::Run(run), Way::Down) => run.retreat()?,
            (At::Below(below), Way::Up) => below.next()?,
            (At::Below(below), Way::Down) => below.prev()?,
        };
        Ok(())
    }
}

type Hidden = (Vec<u8>, Option<Vec<u8>>);

struct Iter<D: Device> {
    view: Arc<StagedView<D>>,
    /// From the first key on and before the second one.
    range: (Vec<u8>, Option<Vec<u8>>),
    /// The newest first; what is below is the last one.
    sources: Vec<Source<D>>,
    /// Deleted ranges, the newest first.
    hides: Vec<Hidden>,
    way: Way,
    /// The source whose entry is here.
    here: Option<usize>,
    /// The value here, if it is in the value log.
    value: Vec<u8>,
    /// The key that a move left.
    key: Vec<u8>,
}

/// The range among the first `count` of `hides` that has `key`.
fn hidden_in<'h>(hides: &'h [Hidden], count: usize, key: &[u8]) -> Option<&'h Hidden> {
    let covers = |(lower, upper): &&Hidden| {
        **lower <= *key && upper.as_ref().is_none_or(|upper| *key < **upper)
    };
    hides[..count].iter().find(covers)
}

impl<D: Device> Iter<D> {
    /// Moves a source out of ranges that hide it, and stops it at the end of the iterator's range.
    fn leave_hidden(&mut self, at: usize) -> Result<()> {
        let source = &mut self.sources[at];
        while source.is_there {
            if let At::Run(run) = &source.at {
                let (key, (lower, upper)) = (run.key(), &self.range);
                let is_outside = match self.way {
                    Way::Up => upper.as_ref().is_some_and(|upper| *key >= **upper),
                    Way::Down => *key < **lower,
                };
                source.is_there = !is_outside;
                if is_outside {
                    break;
                }
            }
            let hidden = hidden_in(&self.hides, source.hidden_by, source.key());
            let Some((lower, upper)) = hidden else { break };
            match (self.way, upper) {
                (Way::Up, None) => source.is_there = false,
                (Way::Up, Some(upper)) => source.seek(Way::Up, Some(upper))?,
                (Way::Down, _) => {
                    source.seek(Way::Down, Some(lower))?;
                    if source.is_there && *source.key() == **lower {
                        source.step(Way::Down)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Has every source at the first entry this way from `key` on.
    fn seek_all(&mut self, way: Way, key: Option<&[u8]>) -> Result<()> {
        (self.way, self.here) = (way, None);
        let (lower, upper) = (self.range.0.clone(), self.range.1.clone());
        for at in 0..self.sources.len() {
            let source = &mut self.sources[at];
            match (&source.at, way, key) {
                (At::Run(_), Way::Up, None) => source.seek(way, Some(&lower))?,
                (At::Run(_), Way::Up, Some(key)) => source.seek(way, Some(key.max(&lower)))?,
                (At::Run(_), Way::Down, _) => {
                    let is_bounded =
                        upper.as_deref().filter(|upper| key.is_none_or(|k| k >= *upper));
                    source.seek(way, is_bounded.or(key))?;
                    // The bound itself is not in the range.
                    if is_bounded.is_some() && source.is_there && Some(source.key()) == is_bounded {
                        source.step(way)?;
                    }
                }
                (At::Below(_), ..) => source.seek(way, key)?,
            }
            self.leave_hidden(at)?;
        }
        Ok(())
    }

    /// The source whose key comes first this way: the newest of those with that key.
    #[inline]
    fn first(&self) -> Option<usize> {
        let mut first: Option<usize> = None;
        for (at, source) in self.sources.iter().enumerate().filter(|(_, source)| source.is_there) {
            let is_first = first.is_none_or(|first| {
                let order = source.key().cmp(self.sources[first].key());
                order == if self.way == Way::Up { Ordering::Less } else { Ordering::Greater }
            });
            if is_first {
                first = Some(at);
            }
        }
        first
    }

    /// To the entry that comes first among those where the sources are and behind.
    fn settle(&mut self) -> Result<bool> {
        self.here = None;
        while let Some(first) = self.first() {
            if let At::Run(run) = &self.sources[first].at {
                let row = run.version();
                if !is_there(&row, self.view.below.unix_ms()) {
                    self.leave(first)?;
                    continue;
                }
                if row.flags & POINTER != 0 {
                    self.value = self.view.wip.value_at(row.key, row.value)?;
                }
            }
            self.here = Some(first);
            return Ok(true);
        }
        Ok(false)
    }

    /// Moves all sources on that are at the key of source `here`.
    fn leave(&mut self, here: usize) -> Result<()> {
        if self.sources[here + 1..].iter().any(|source| source.is_there) {
            let mut key = std::mem::take(&mut self.key);
            key.clear();
            key.extend_from_slice(self.sources[here].key());
            for at in here + 1..self.sources.len() {
                let source = &mut self.sources[at];
                if source.is_there && *source.key() == *key {
                    source.step(self.way)?;
                    self.leave_hidden(at)?;
                }
            }
            self.key = key;
        }
        self.sources[here].step(self.way)?;
        self.leave_hidden(here)
    }

    fn step(&mut self, way: Way) -> Result<bool> {
        let Some(here) = self.here.take() else { return Ok(false) };
        if self.way != way {
            let key = self.sources[here].key().to_vec();
            self.seek_all(way, Some(&key))?;
            for at in 0..self.sources.len() {
                let source = &mut self.sources[at];
                if source.is_there && *source.key() == *key {
                    source.step(way)?;
                    self.leave_hidden(at)?;
                }
            }
            return self.settle();
        }
        self.leave(here)?;
        self.settle()
    }

    /// True if what is below is all that there is from here on this way.
    fn is_plain(&self, way: Way) -> bool {
        let last = self.sources.len() - 1;
        self.here == Some(last)
            && self.way == way
            && self.hides.is_empty()
            && self.sources[..last].iter().all(|source| !source.is_there)
    }

    fn step_many(&mut self, way: Way, burst: &mut EntryBurst) -> Result<bool> {
        if self.is_plain(way) {
            self.here = None;
            let last = self.sources.len() - 1;
            let Source { at: At::Below(below), is_there, .. } = &mut self.sources[last] else {
                unreachable!("what is below is the last source");
            };
            *is_there = false;
            *is_there = match way {
                Way::Up => below.next_many(burst)?,
                Way::Down => below.prev_many(burst)?,
            };
            self.here = is_there.then_some(last);
            return Ok(*is_there);
        }
        while !burst.is_full() {
            if !self.step(way)? {
                return Ok(false);
            }
            burst.push(self.key(), self.entry().value);
        }
        Ok(true)
    }
}

impl<D: Device> EntryIter for Iter<D> {
    fn seek_to_first(&mut self) -> Result<bool> {
        self.seek_all(Way::Up, None)?;
        self.settle()
    }

    fn seek_to_last(&mut self) -> Result<bool> {
        self.seek_all(Way::Down, None)?;
        self.settle()
    }

    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.seek_all(Way::Up, Some(key))?;
        self.settle()
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> Result<bool> {
        self.seek_all(Way::Down, Some(key))?;
        self.settle()
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
        self.sources[self.here.expect("it is at an entry")].key()
    }

    fn entry(&self) -> EntryRef<'_> {
        match &self.sources[self.here.expect("it is at an entry")].at {
            At::Below(below) => below.entry(),
            At::Run(run) => {
                let row = run.version();
                let (expires_unix_ms, user_bits) = (row.expires_unix_ms, row.user_bits);
                let value = if row.flags & POINTER == 0 { row.value } else { &self.value };
                EntryRef { value, expires_unix_ms, user_bits }
            }
        }
    }
}
