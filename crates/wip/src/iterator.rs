//! Going through the entries of a snapshot's range, in both directions.
//!
//! 1. A bucket is entered by key, through the list of buckets as it is then. What it held at that
//!    moment (a [`View`]) has everything that the snapshot sees of its keys, and stays as it is
//!    while the iterator is there: splits, flushes and compactions make other versions.
//! 2. Going forwards, every source is at its first version at or behind the entry, and the entry is
//!    borrowed from one of them. Going backwards, every source is at its last version before the
//!    entry's key, and the entry is a copy.
//! 3. Bounds are kept as "from this key on" and "before this key".

mod ahead;
mod behind;

use crate::contents::Contents;
use crate::deleted::deleted_at;
use crate::memtable::is_from;
use crate::metrics::add;
use crate::prefix::Prefix;
use crate::run_cursor::{RunCursor, read_together};
use crate::snapshot::Held;
use crate::sorted::{Is, Listed, Positions, Sorted};
use crate::view::{View, view_at};
use silica_base::{AlignedBuf, Result};
use silica_device::Device;
use silica_engine::{EntryBurst, EntryIter, EntryRef, Intent, IterateOptions, KeyRange};
use silica_parts::BlockCache;
use silica_parts::frame::{POINTER, TOMBSTONE};
use silica_parts::table::{SeekRead, Version as Row};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The first key after `key`.
fn after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// Where an iterator is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Nowhere,
    /// At the entry where this source is.
    Source(usize),
    /// At the entry that was copied.
    Copied,
}

/// Entries that are gone which one step goes through before it is a long run of them.
const SKIPPED_MIN: u64 = 64;

/// Entries that are gone which were gone through in the bucket that was entered, as far as a
/// compaction would drop them.
#[derive(Debug, Default)]
struct Skipped {
    /// In tables, and in memtables.
    old: u64,
    young: u64,
    /// The oldest position and time that anybody saw when it was asked for.
    oldest: Option<(u64, u64)>,
}

impl Skipped {
    /// A version that is no entry, by its sequence number and expiry, in a table or not.
    #[cold]
    fn note(&mut self, (sequence, expires_unix_ms): (u64, u64), is_old: bool, oldest: (u64, u64)) {
        self.oldest = Some(oldest);
        let is_seen = sequence >= oldest.0 || expires_unix_ms > oldest.1;
        if !is_seen {
            *if is_old { &mut self.old } else { &mut self.young } += 1;
        }
    }
}

/// An entry that was copied.
#[derive(Debug, Default)]
struct Copied {
    key: Vec<u8>,
    value: Vec<u8>,
    sequence: u64,
    flags: u8,
    expires_unix_ms: u64,
    user_bits: u32,
}

impl Copied {
    fn copy(&mut self, version: &Row<'_>) {
        self.value.clear();
        self.value.extend_from_slice(version.value);
        self.sequence = version.sequence;
        self.flags = version.flags;
        self.expires_unix_ms = version.expires_unix_ms;
        self.user_bits = version.user_bits;
    }
}

/// A bucket that was entered.
struct Entered<D: Device> {
    view: View<D>,
    /// The newest first.
    sources: Vec<Sorted<D>>,
    /// Of each source's key, how it begins behind the prefix: nearly all are told apart by that.
    /// `None` where the source is nowhere.
    heads: Vec<Option<u64>>,
    /// What most keys of the bucket begin with.
    prefix: Prefix,
    /// Unless another source than the first one has moved since.
    lead: Option<Lead>,
    /// Memory of a run ahead.
    second_key: Vec<u8>,
}

/// The sources with the first version of all and with the one behind it.
#[derive(Debug, Clone, Copy)]
struct Lead {
    first: usize,
    second: Option<usize>,
}

/// See the module's documentation.
pub(crate) struct Iter<D: Device, W: Deref<Target = Contents<D>>> {
    snapshot: Arc<Held<D, W>>,
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
    entered: Option<Entered<D>>,
    at: At,
    /// The entry, where it is a copy; the last key, where one was passed.
    copied: Copied,
    /// Where a seek goes to.
    target: Vec<u8>,
    /// The entry's value, where that lies apart.
    apart: Option<Vec<u8>>,
    /// Nobody asks for values.
    is_of_keys: bool,
    intent: Intent,
    skipped: Skipped,
}

impl<D: Device> Entered<D> {
    fn new(view: View<D>, before: u64, cache: &Arc<BlockCache>, keeps: bool) -> Self {
        let list = view.list.iter().map(|list| Sorted::List(Listed::new(list, &view, before)));
        let memtables = view.memtables.iter().map(|slice| {
            Sorted::Memtable(Positions::new(slice.clone(), Arc::clone(&view.segments)))
        });
        let count = view.version.runs.len();
        let runs = view.version.runs.iter().map(|run| Sorted::run(cache, run, count, keeps));
        let sources: Vec<_> = list.chain(memtables).chain(runs).collect();
        let heads = vec![None; sources.len()];
        let prefix = view.prefix();
        Entered { view, sources, heads, prefix, lead: None, second_key: Vec::new() }
    }

    /// Moves a source, which is nowhere where that fails.
    #[inline]
    fn go<T>(&mut self, source: usize, to: impl FnOnce(&mut Sorted<D>) -> Result<T>) -> Result<T> {
        self.heads[source] = None;
        let result = to(&mut self.sources[source])?;
        let key = self.sources[source].key();
        self.heads[source] = key.map(|key| self.head_of(key));
        Ok(result)
    }

    /// How a key of the bucket begins behind what most begin with.
    #[inline]
    fn head_of(&self, key: &[u8]) -> u64 {
        self.prefix.head_behind(key)
    }

    /// See [`Iter::read_together`].
    fn read_together(
        &mut self,
        contents: &Contents<D>,
        begin: impl Fn(&mut RunCursor<D>) -> Option<(SeekRead, AlignedBuf)>,
    ) -> Result<()> {
        self.lead = None;
        read_together(&*contents.device, &mut self.sources, Sorted::as_run, begin)
    }

    /// The source with the first version of all, of one key the newest.
    #[inline]
    fn first(&mut self) -> Option<usize> {
        // The entries of one source mostly come in a row: one comparison tells.
        match self.lead {
            Some(Lead { first, second }) if self.is_before(first, second) => Some(first),
            _ => self.find_first(),
        }
    }

    fn find_first(&mut self) -> Option<usize> {
        let (mut first, mut second) = (None, None);
        // The head of the second: most sources are behind it, and only that is looked at.
        let mut of_second = u64::MAX;
        for (at, head) in self.heads.iter().enumerate() {
            let Some(head) = head.filter(|head| *head <= of_second) else { continue };
            if self.is_before(at, first) {
                of_second = first.and_then(|first: usize| self.heads[first]).unwrap_or(u64::MAX);
                (first, second) = (Some(at), first);
            } else if self.is_before(at, second) {
                (second, of_second) = (Some(at), head);
            }
        }
        self.lead = first.map(|first| Lead { first, second });
        first
    }

    /// True where source `one` is at a version that comes before what `other` is at, if anything.
    #[inline]
    fn is_before(&self, one: usize, other: Option<usize>) -> bool {
        let Some(head) = self.heads[one] else { return false };
        let at = other.and_then(|other| Some((other, self.heads[other]?)));
        let Some((other, other_head)) = at else { return true };
        head < other_head || head == other_head && self.is_key_before(one, other)
    }

    /// True if the version of source `one` comes before that of `other`, whose head is equal.
    fn is_key_before(&self, one: usize, other: usize) -> bool {
        let version = |source: usize| self.sources[source].version().expect("it has a head");
        let (one, other) = (version(one), version(other));
        one.key.cmp(other.key).then(other.sequence.cmp(&one.sequence)).is_lt()
    }

    /// A source with the last key of all.
    fn last(&self) -> Option<usize> {
        let key = |source: usize| self.sources[source].key();
        let mut last: Option<(usize, u64)> = None;
        for (at, head) in self.heads.iter().enumerate() {
            let Some(head) = *head else { continue };
            let is_behind = last.is_none_or(|(last, last_head)| {
                head > last_head || head == last_head && key(at) > key(last)
            });
            if is_behind {
                last = Some((at, head));
            }
        }
        last.map(|(at, _)| at)
    }
}

impl<D: Device, W: Deref<Target = Contents<D>>> Iter<D, W> {
    pub(crate) fn new(snapshot: Arc<Held<D, W>>, range: &KeyRange) -> Self {
        Iter::with(snapshot, range, IterateOptions::default())
    }

    pub(crate) fn with(
        snapshot: Arc<Held<D, W>>,
        range: &KeyRange,
        options: IterateOptions,
    ) -> Self {
        let IterateOptions { is_of_keys, intent } = options;
        let (lower, upper) = range.half_open();
        let (copied, target) = (Copied::default(), Vec::new());
        let (entered, apart) = (None, None);
        let (at, skipped) = (At::Nowhere, Skipped::default());
        Iter {
            snapshot,
            lower,
            upper,
            entered,
            at,
            copied,
            target,
            apart,
            is_of_keys,
            intent,
            skipped,
        }
    }

    /// The iterator is at an entry with `flags`: fetches its value, where that lies apart.
    #[inline]
    fn settled_at(&mut self, at: At, flags: u8) -> Result<bool> {
        self.at = at;
        self.apart = None;
        if flags & POINTER != 0 && !self.is_of_keys {
            let version = self.version();
            let fetched = self.snapshot.contents.value_at(version.key, version.value);
            self.apart = Some(fetched.inspect_err(|_| self.at = At::Nowhere)?);
        }
        Ok(true)
    }

    /// True where what `flags` and expiry are of is no entry.
    #[inline]
    fn is_gone(&self, flags: u8, expires_unix_ms: u64) -> bool {
        let has_expired = expires_unix_ms != 0 && expires_unix_ms <= self.snapshot.unix_ms;
        flags & TOMBSTONE != 0 || has_expired
    }

    /// Notes that the version where a source is, which is no entry, was gone through.
    #[cold]
    fn note_skipped(&mut self, source: usize, moment: (u64, u64)) {
        let oldest =
            self.skipped.oldest.unwrap_or_else(|| self.snapshot.contents.snapshots.oldest_moment());
        let sources = self.entered.as_ref().map(|entered| &entered.sources);
        let is_old = sources.is_some_and(|sources| matches!(sources[source], Sorted::Run(_)));
        self.skipped.note(moment, is_old, oldest);
    }

    /// Tells the bucket of a long run of entries that are gone: it is worth a compaction, which
    /// ends it.
    fn count_skipped(&mut self) {
        let Skipped { old, young, .. } = self.skipped;
        (self.skipped.old, self.skipped.young) = (0, 0);
        if let Some(entered) = self.entered.as_ref().filter(|_| old + young >= SKIPPED_MIN) {
            let bucket = &entered.view.bucket;
            bucket.skipped.fetch_add(old, Ordering::Relaxed);
            bucket.skipped_young.fetch_add(young, Ordering::Relaxed);
        }
    }

    fn enter(&mut self, view: View<D>) -> &mut Entered<D> {
        let Held { contents, position, .. } = &*self.snapshot;
        let keeps = self.intent.keeps();
        self.entered.insert(Entered::new(view, *position, &contents.tables.cache, keeps))
    }

    /// To the first entry at or after `target`.
    fn go_forward(&mut self) -> Result<bool> {
        self.at = At::Nowhere;
        if !is_from(&self.lower, &self.target) {
            self.target.clone_from(&self.lower);
        }
        self.enter_at_target()?;
        self.settle_forward(None)
    }

    /// Has all sources of the bucket of `target` at their first version there or behind.
    fn enter_at_target(&mut self) -> Result<()> {
        let target = std::mem::take(&mut self.target);
        let mut result = Ok(Is::Stale);
        while matches!(result, Ok(Is::Stale)) {
            if self.entered.as_ref().is_none_or(|entered| !entered.view.has(&target)) {
                let view = view_at(&*self.snapshot.contents, Some(&target), false);
                self.enter(view);
            }
            result = self
                .read_together(|run| run.begin_seek(&target))
                .and_then(|()| self.all(|source, contents| source.seek(contents, &target)));
            self.count_search();
        }
        self.target = target;
        result.map(|_| ())
    }

    /// Counts a search in the bucket that was entered.
    fn count_search(&mut self) {
        let Some(entered) = &mut self.entered else { return };
        let device_reads = entered.sources.iter_mut().map(Sorted::take_device_reads).sum();
        let View { bucket, version, list, memtables, .. } = &entered.view;
        let has_memtable = list.is_some() || !memtables.is_empty();
        bucket.count_search(device_reads, version.runs.len(), has_memtable);
        add(&self.snapshot.contents.metrics.searches, 1);
    }

    /// Has the device read together what the runs' searches read first, which `begin` begins.
    fn read_together(
        &mut self,
        begin: impl Fn(&mut RunCursor<D>) -> Option<(SeekRead, AlignedBuf)>,
    ) -> Result<()> {
        let entered = self.entered.as_mut().expect("a bucket was entered");
        let result = entered.read_together(&self.snapshot.contents, begin);
        // Searches that have begun and do not come to their end are not gone on with.
        result.inspect_err(|_| self.entered = None)
    }

    /// Moves all sources; where one is stale, the bucket is left.
    fn all(&mut self, to: impl Fn(&mut Sorted<D>, &Contents<D>) -> Result<Is>) -> Result<Is> {
        let entered = self.entered.as_mut().expect("a bucket was entered");
        entered.lead = None;
        for source in 0..entered.sources.len() {
            if entered.go(source, |sorted| to(sorted, &self.snapshot.contents))? == Is::Stale {
                self.entered = None;
                return Ok(Is::Stale);
            }
        }
        Ok(Is::There)
    }

    /// From where the sources are to the first entry there or behind; where a key with the head
    /// `passed` was passed, which is the copied one, to one that has another.
    fn settle_forward(&mut self, passed: Option<u64>) -> Result<bool> {
        let settled = self.find_forward(passed);
        if self.skipped.old + self.skipped.young > 0 {
            self.count_skipped();
        }
        settled
    }

    /// To the next entry, where a run is the only source: nothing is compared but a key with the
    /// one before it, of which it may be an older version. A step takes half of the instructions.
    #[inline]
    fn next_of_run(&mut self) -> Result<bool> {
        let entered = self.entered.as_mut().expect("it is at an entry");
        let Some(Sorted::Run(run)) = entered.sources.first_mut() else { unreachable!("it is one") };
        self.copied.key.clear();
        self.copied.key.extend_from_slice(run.key());
        entered.heads[0] = None;
        while run.advance()? {
            let (key, mark) = (run.key(), run.mark());
            if mark.sequence >= self.snapshot.position || *key == *self.copied.key {
                continue;
            }
            let is_behind = self.upper.as_ref().is_some_and(|upper| **upper <= *key);
            let is_plain = mark.flags & TOMBSTONE == 0 && mark.expires_unix_ms == 0;
            if is_behind || !is_plain || !entered.view.deleted.is_empty() {
                // As any other source.
                entered.heads[0] = Some(entered.prefix.head_behind(key));
                let passed = entered.prefix.head_behind(&self.copied.key);
                return self.settle_forward(Some(passed));
            }
            // Only that it is there: nobody else has a head to compare it with.
            entered.heads[0] = Some(0);
            return self.settled_at(At::Source(0), mark.flags);
        }
        self.settle_forward(None)
    }

    fn find_forward(&mut self, mut passed: Option<u64>) -> Result<bool> {
        self.at = At::Nowhere;
        loop {
            let entered = self.entered.as_mut().expect("a bucket was entered");
            let Some(first) = entered.first() else {
                let Some(upper) = &entered.view.upper else { return Ok(false) };
                self.target.clone_from(upper);
                if self.upper.as_ref().is_some_and(|end| *end <= self.target) {
                    return Ok(false);
                }
                self.count_skipped();
                self.enter_at_target()?;
                // Heads of another bucket say something else, and the key is not of that one.
                passed = None;
                continue;
            };
            let entered = self.entered.as_ref().expect("a bucket was entered");
            let version = entered.sources[first].version().expect("it is at the first of all");
            if self.upper.as_ref().is_some_and(|upper| **upper <= *version.key) {
                return Ok(false);
            }
            let is_seen = version.sequence < self.snapshot.position;
            let head = entered.heads[first];
            let is_passed = passed.is_some() && passed == head && *version.key == *self.copied.key;
            if is_seen && !is_passed {
                let deleted = &entered.view.deleted;
                let is_hidden = !deleted.is_empty()
                    && deleted_at(deleted, version.key, self.snapshot.position) > version.sequence;
                if !is_hidden && !self.is_gone(version.flags, version.expires_unix_ms) {
                    return self.settled_at(At::Source(first), version.flags);
                }
                self.copied.key.clear();
                self.copied.key.extend_from_slice(version.key);
                passed = head;
                let moment = (version.sequence, version.expires_unix_ms);
                self.note_skipped(first, moment);
            }
            let entered = self.entered.as_mut().expect("a bucket was entered");
            entered.go(first, Sorted::advance)?;
        }
    }

    /// To the last entry before `target`, or of all where there is none.
    fn go_backward(&mut self, has_target: bool) -> Result<bool> {
        self.at = At::Nowhere;
        let upper = match (has_target.then_some(&self.target), &self.upper) {
            (Some(target), Some(upper)) => Some(target.min(upper).clone()),
            (target, upper) => target.or(upper.as_ref()).cloned(),
        };
        self.enter_before(upper.as_deref())?;
        self.settle_backward()
    }

    fn enter_before(&mut self, key: Option<&[u8]>) -> Result<()> {
        let is_there = |view: &View<D>| match key {
            Some(key) => {
                *view.lower < *key && view.upper.as_ref().is_none_or(|upper| *key <= **upper)
            }
            None => view.upper.is_none(),
        };
        loop {
            if self.entered.as_ref().is_none_or(|entered| !is_there(&entered.view)) {
                let view = view_at(&*self.snapshot.contents, key, true);
                self.enter(view);
            }
            if let Some(key) = key {
                self.read_together(|run| run.begin_seek_before(key))?;
            }
            let is = self.all(|source, contents| source.seek_before(contents, key))?;
            self.count_search();
            if is == Is::There {
                return Ok(());
            }
        }
    }

    /// From where the sources are to the last entry there or before.
    fn settle_backward(&mut self) -> Result<bool> {
        let settled = self.find_backward();
        if self.skipped.old + self.skipped.young > 0 {
            self.count_skipped();
        }
        settled
    }

    fn find_backward(&mut self) -> Result<bool> {
        self.at = At::Nowhere;
        loop {
            let entered = self.entered.as_mut().expect("a bucket was entered");
            let Some(last) = entered.last() else {
                let lower = entered.view.lower.clone();
                if lower <= self.lower {
                    return Ok(false);
                }
                self.count_skipped();
                self.enter_before(Some(&lower))?;
                continue;
            };
            let version = entered.sources[last].version().expect("it is at a version");
            if !is_from(&self.lower, version.key) {
                return Ok(false);
            }
            self.copied.key.clear();
            self.copied.key.extend_from_slice(version.key);
            let Some(is_seen) = self.copy_newest()? else {
                // Once more, from behind the key.
                let target = after(&self.copied.key);
                self.enter_before(Some(&target))?;
                continue;
            };
            if is_seen && self.settled_at_copied(last)? {
                return Ok(true);
            }
        }
    }

    /// All sources are before the copied version: settles at it, if it is an entry. It is of
    /// `source`.
    fn settled_at_copied(&mut self, source: usize) -> Result<bool> {
        let Copied { sequence, flags, expires_unix_ms, .. } = self.copied;
        let deleted = self.entered.as_ref().map_or(&[][..], |entered| &entered.view.deleted);
        let is_hidden = deleted_at(deleted, &self.copied.key, self.snapshot.position) > sequence;
        if !is_hidden && !self.is_gone(flags, expires_unix_ms) {
            return self.settled_at(At::Copied, flags);
        }
        // The copy tells no longer where it was.
        self.note_skipped(source, (sequence, expires_unix_ms));
        Ok(false)
    }

    /// Copies the newest version of the copied key that the snapshot sees, and has all sources
    /// before that key; false where it sees none, `None` where a source is stale.
    fn copy_newest(&mut self) -> Result<Option<bool>> {
        let entered = self.entered.as_mut().expect("a bucket was entered");
        let (copied, mut is_found) = (&mut self.copied, false);
        entered.lead = None;
        let wanted = Some(entered.head_of(&copied.key));
        for source in 0..entered.sources.len() {
            while entered.heads[source] == wanted
                && let Some(version) = entered.sources[source].version()
                && version.key == copied.key
            {
                let is_newer = !is_found || version.sequence > copied.sequence;
                if version.sequence < self.snapshot.position && is_newer {
                    copied.copy(&version);
                    is_found = true;
                }
                let contents = &self.snapshot.contents;
                if entered.go(source, |sorted| sorted.retreat(contents))? == Is::Stale {
                    self.entered = None;
                    return Ok(None);
                }
            }
        }
        Ok(Some(is_found))
    }

    fn set_target(&mut self, key: &[u8]) {
        self.target.clear();
        self.target.extend_from_slice(key);
    }

    fn version(&self) -> Row<'_> {
        match (self.at, &self.entered) {
            (At::Source(at), Some(entered)) => {
                entered.sources[at].version().expect("it is at a version")
            }
            (At::Copied, _) => Row {
                key: &self.copied.key,
                sequence: self.copied.sequence,
                flags: self.copied.flags,
                expires_unix_ms: self.copied.expires_unix_ms,
                user_bits: self.copied.user_bits,
                value: &self.copied.value,
            },
            _ => panic!("the iterator is nowhere"),
        }
    }
}

impl<D: Device, W: Deref<Target = Contents<D>> + Send + Sync> EntryIter for Iter<D, W> {
    fn seek_to_first(&mut self) -> Result<bool> {
        self.set_target(b"");
        self.go_forward()
    }

    fn seek_to_last(&mut self) -> Result<bool> {
        self.go_backward(false)
    }

    fn seek(&mut self, key: &[u8]) -> Result<bool> {
        self.set_target(key);
        self.go_forward()
    }

    fn seek_for_prev(&mut self, key: &[u8]) -> Result<bool> {
        self.set_target(key);
        self.target.push(0);
        self.go_backward(true)
    }

    fn next(&mut self) -> Result<bool> {
        match self.at {
            At::Nowhere => Ok(false),
            At::Source(source) => {
                self.at = At::Nowhere;
                let entered = self.entered.as_mut().expect("it is at an entry");
                if let [Sorted::Run(_)] = entered.sources[..] {
                    return self.next_of_run();
                }
                let key = entered.sources[source].key().expect("it is there");
                self.copied.key.clear();
                self.copied.key.extend_from_slice(key);
                let passed = entered.heads[source];
                entered.go(source, Sorted::advance)?;
                self.settle_forward(passed)
            }
            At::Copied => {
                self.target.clone_from(&self.copied.key);
                self.target.push(0);
                self.go_forward()
            }
        }
    }

    fn next_many(&mut self, burst: &mut EntryBurst) -> Result<bool> {
        while !burst.is_full() {
            if self.run_ahead(burst)? {
                continue;
            }
            if !self.next()? {
                return Ok(false);
            }
            burst.push(self.key(), self.entry().value);
        }
        Ok(self.at != At::Nowhere)
    }

    fn prev(&mut self) -> Result<bool> {
        match self.at {
            At::Nowhere => Ok(false),
            At::Source(_) => {
                let mut target = std::mem::take(&mut self.target);
                target.clear();
                target.extend_from_slice(self.version().key);
                self.target = target;
                self.go_backward(true)
            }
            At::Copied => self.settle_backward(),
        }
    }

    fn prev_many(&mut self, burst: &mut EntryBurst) -> Result<bool> {
        while !burst.is_full() {
            if self.run_behind(burst)? {
                continue;
            }
            if !self.prev()? {
                return Ok(false);
            }
            burst.push(self.key(), self.entry().value);
        }
        Ok(self.at != At::Nowhere)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        match (self.at, &self.entered) {
            (At::Source(at), Some(entered)) => {
                entered.sources[at].key().expect("it is at a version")
            }
            _ => self.version().key,
        }
    }

    fn entry(&self) -> EntryRef<'_> {
        let Row { value, expires_unix_ms, user_bits, .. } = self.version();
        let value = self.apart.as_deref().unwrap_or(value);
        EntryRef { value, expires_unix_ms, user_bits }
    }
}
