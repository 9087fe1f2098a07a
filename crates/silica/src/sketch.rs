//! The live sketch of a keyspace: which calls are looked at, and where the sketch is kept.
//!
//! A call costs a countdown of its thread and a load. Of a thread's first million calls one in
//! [`EVERY_FIRST`], at random, is looked at closely, so that a short life is seen, and of the
//! others one in [`EVERY_LATER`], since what is looked at rarely is in no cache any more. And now
//! and then, in windows, all requests for the keys of the sample are followed; the pause after a
//! window is in proportion to what the window cost, and the first windows are short, so that a
//! store that was just opened pays no more than one that runs for long. Nobody waits for a sketch:
//! where another thread has it, what was to be added is dropped.

use crate::recorder::Recorder;
use crate::sealed::Kind;
use arc_swap::ArcSwapOption;
use log::{info, warn};
use silica_base::{Format, HashSeed};
use silica_engine::{Durability, EntryRef, GetSink, OpKind, Result, Update, WriteBatch};
use silica_tune::Workload;
use silica_tune::sketch::{Call, Sketch, Totals, Touch};
use silica_tune::trace::TraceKind;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// One call in so many is looked at closely, until a thread has looked at so many.
const EVERY_FIRST: u64 = 256;
const LOOKS_FIRST: u64 = 4096;
/// And from then on.
const EVERY_LATER: u64 = 1024;
/// The first window ends after so many operations, or requests for keys of the sample; each one
/// after it may be twice as long, up to the last.
const WINDOW_FIRST: Window = Window { operations: 1 << 12, tracked: 1 << 12 };
const WINDOW_LAST: Window = Window { operations: 1 << 18, tracked: 1 << 16 };
/// Operations of the pause, for each request followed (some hundred nanoseconds) and for each
/// operation of the window (some ten).
const PAUSE_TRACKED: u64 = 1024;
const PAUSE_OPERATIONS: u64 = 255;
/// Keys of a call of gets that are noted without an allocation.
const FEW: usize = 32;
/// How often a sketch is written, where something was added.
const SAVE_EVERY: Duration = Duration::from_secs(60);
/// Of the sample's keys. The same for ever, so that a sketch goes on after a restart.
const SEED: HashSeed = HashSeed(*b"silica sketch v1");
const KIND: Kind =
    Kind(Format { name: "sketch", magic: b"SILSKTCH", version_bytes: 4, version: 1, steps: &[] });
const PREFIX: &str = "sketch-";
/// Of the directories of keyspaces.
const DIRECTORY_PREFIX: &str = "keyspace-";

/// All requests for keys of the sample are looked at, too.
const WATCHING: u8 = 1;
/// Nothing is looked at.
const OFF: u8 = 2;
/// Every call is recorded.
const RECORDING: u8 = 4;

thread_local! {
    /// Calls before the next one that is looked at; those that were; and where random numbers are.
    static COUNTDOWN: Cell<u32> = const { Cell::new(0) };
    static LOOKS: Cell<u64> = const { Cell::new(0) };
    static RANDOM: Cell<u64> = const { Cell::new(0) };
}

/// The file of the sketch of the keyspace in `directory`.
pub(crate) fn file_of(root: &Path, directory: &str) -> PathBuf {
    let number = directory.strip_prefix(DIRECTORY_PREFIX).unwrap_or(directory);
    root.join(format!("{PREFIX}{number}"))
}

/// The directory whose sketch the file `name` is.
pub(crate) fn directory_of(name: &str) -> Option<String> {
    name.strip_prefix(PREFIX).map(|number| format!("{DIRECTORY_PREFIX}{number}"))
}

/// Whether a call is looked at, and how.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    /// Calls that it stands for, where it is looked at closely; else 0.
    weight: u64,
    /// Of [`WATCHING`] and [`RECORDING`].
    state: u8,
}

impl Look {
    #[inline]
    pub(crate) fn any(self) -> bool {
        self.weight != 0 || self.state != 0
    }

    fn is_close(self) -> bool {
        self.weight != 0
    }

    fn watching(self) -> bool {
        self.state & WATCHING != 0
    }

    fn recording(self) -> bool {
        self.state & RECORDING != 0
    }
}

/// What an update did to a key.
#[derive(Clone, Copy)]
pub(crate) struct Change {
    was_there: bool,
    /// Bytes put; `None` where the key was removed or left alone.
    put: Option<usize>,
    deleted: bool,
}

impl Change {
    /// What a trace has of it: an update that puts has read before.
    fn events(self) -> impl Iterator<Item = TraceKind> {
        let reads = !self.deleted;
        let put = self.put.map(|value_bytes| TraceKind::Put { value_bytes });
        let wrote = if self.deleted { Some(TraceKind::Delete) } else { put };
        reads.then_some(TraceKind::Get).into_iter().chain(wrote)
    }
}

impl Change {
    pub(crate) fn of(entry: Option<EntryRef<'_>>, update: &Update) -> Self {
        let put = match update {
            Update::Put { value, .. } => Some(value.len()),
            Update::Keep | Update::Delete => None,
        };
        Change { was_there: entry.is_some(), put, deleted: *update == Update::Delete }
    }
}

/// How long requests are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    operations: u64,
    /// Requests for keys of the sample.
    tracked: u64,
}

impl Window {
    fn next(self) -> Self {
        Window {
            operations: (2 * self.operations).min(WINDOW_LAST.operations),
            tracked: (2 * self.tracked).min(WINDOW_LAST.tracked),
        }
    }
}

/// Operations until the next window, after one of so many in which so many requests were followed.
fn pause(operations: u64, tracked: u64) -> u64 {
    PAUSE_TRACKED * tracked + PAUSE_OPERATIONS * operations
}

/// What all calls read and few write: on lines of its own, so that those who count do not take it
/// from the caches of the others.
#[repr(align(128))]
struct Hot {
    /// Pausing or watching, or off meanwhile.
    state: AtomicU8,
    /// Of the sample.
    threshold: AtomicU64,
}

/// Where the windows are.
struct Turn {
    window: Window,
    /// Numbers of operations at which the window, or the pause, began and is to end.
    began: u64,
    at: u64,
    /// What halving has taken off the sketch's totals.
    taken: Totals,
}

/// Where the sketch is kept.
struct Place {
    path: PathBuf,
    saved: Instant,
    /// Operations and requests followed when it was saved.
    saved_at: (u64, u64),
}

/// The sketch of an open keyspace.
pub(crate) struct Live {
    hot: Hot,
    /// Operations so far, counted when a call is looked at.
    operations: AtomicU64,
    /// Requests followed in this window; those that were not, since another thread had the sketch;
    /// reads of other keys, not added yet.
    tracked: AtomicU64,
    missed: AtomicU64,
    passed: AtomicU64,
    sketch: Mutex<(Sketch, Turn)>,
    place: Mutex<Option<Place>>,
    recorder: ArcSwapOption<Recorder>,
    /// Held where a recording begins or ends, so that the bit is of the recorder that is there.
    turn: Mutex<()>,
}

impl Live {
    /// Goes on with `sketch`.
    pub(crate) fn new(sketch: Sketch) -> Self {
        Live {
            hot: Hot {
                state: AtomicU8::new(WATCHING),
                threshold: AtomicU64::new(sketch.sample.threshold()),
            },
            operations: AtomicU64::new(0),
            tracked: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            passed: AtomicU64::new(0),
            sketch: Mutex::new((
                sketch,
                Turn {
                    window: WINDOW_FIRST,
                    began: 0,
                    at: WINDOW_FIRST.operations,
                    taken: Totals::default(),
                },
            )),
            place: Mutex::new(None),
            recorder: ArcSwapOption::empty(),
            turn: Mutex::new(()),
        }
    }

    /// Records calls from now on; false where they are recorded already.
    pub(crate) fn begin_record(&self, recorder: &Arc<Recorder>) -> bool {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = self.recorder.load().is_none();
        if is_first {
            self.recorder.store(Some(Arc::clone(recorder)));
            self.hot.state.fetch_or(RECORDING, Ordering::Relaxed);
        }
        is_first
    }

    /// Calls are not recorded by `recorder` any more.
    pub(crate) fn end_record(&self, recorder: &Arc<Recorder>) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // The bit first: whoever sees it without a recorder records nothing.
        let is_current = self.recorder.load().as_ref().is_some_and(|r| Arc::ptr_eq(r, recorder));
        if is_current {
            self.hot.state.fetch_and(!RECORDING, Ordering::Relaxed);
            self.recorder.store(None);
        }
    }

    /// True where calls are recorded.
    pub(crate) fn is_recording(&self) -> bool {
        self.hot.state.load(Ordering::Relaxed) & RECORDING != 0
    }

    /// Records by what is there, if it still is.
    #[cold]
    fn record(&self, record: impl FnOnce(&Recorder)) {
        let recorder = self.recorder.load();
        let Some(recorder) = recorder.as_ref() else { return };
        match recorder.is_abandoned() {
            true => self.end_record(recorder),
            false => record(recorder),
        }
    }

    /// Goes on with the sketch in the file `path`, or with a new one where there is none, or it
    /// is damaged. `keys` are asked for where it is new.
    pub(crate) fn open(&self, path: PathBuf, keys: impl FnOnce() -> u64) {
        let read = KIND.read(&path).and_then(|body| {
            body.map(|body| Sketch::decode(&body).map_err(|e| e.within(path.display()))).transpose()
        });
        let sketch = match read {
            Ok(Some(sketch)) => sketch,
            Ok(None) => Sketch::new(keys()),
            Err(e) => {
                info!("the workload's sketch begins anew: {e}");
                Sketch::new(keys())
            }
        };
        self.hot.threshold.store(sketch.sample.threshold(), Ordering::Relaxed);
        self.lock().0 = sketch;
        let saved = Instant::now();
        let place = Place { path, saved, saved_at: (0, 0) };
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
    }

    fn lock(&self) -> MutexGuard<'_, (Sketch, Turn)> {
        self.sketch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, (Sketch, Turn)>> {
        match self.sketch.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(e)) => Some(e.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// What `show` makes of the sketch as it is now. Requests that come meanwhile are not added.
    fn show<T>(&self, show: impl FnOnce(&Sketch) -> T) -> T {
        let (sketch, _) = &mut *self.lock();
        sketch.sample.pass(self.passed.swap(0, Ordering::Relaxed));
        show(sketch)
    }

    /// What was asked, as often as the sketch saw it: what was long ago, too, so that the
    /// difference of two is what came between them.
    pub(crate) fn totals(&self) -> Totals {
        let (sketch, turn) = &*self.lock();
        sketch.totals.plus(turn.taken)
    }

    /// Halves the sketch where it has seen much, so that new habits show. `keys` are asked for
    /// then.
    pub(crate) fn age(&self, keys: impl FnOnce() -> Option<u64>) {
        if !self.try_lock().is_some_and(|guard| guard.0.is_old()) {
            return;
        }
        // Not under the lock: counting may take its time.
        let Some(keys) = keys() else { return };
        let (sketch, turn) = &mut *self.lock();
        sketch.sample.pass(self.passed.swap(0, Ordering::Relaxed));
        // More than once where it comes from a file that was never halved.
        while sketch.is_old() {
            let before = sketch.totals;
            sketch.halve(keys);
            turn.taken = turn.taken.plus(before.minus(sketch.totals));
        }
    }

    /// The workload of the keyspace, which has `keys` keys.
    pub(crate) fn workload(&self, keys: u64) -> Result<Workload> {
        // Fitting takes long against a call, so it is of a copy.
        let sketch = self.show(Sketch::clone);
        sketch.workload(keys)
    }

    /// Writes the sketch where it was not written for a while, or `now`, and has changed.
    pub(crate) fn save(&self, now: bool) {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(place) = place.as_mut() else { return };
        let at = (self.operations.load(Ordering::Relaxed), self.tracked.load(Ordering::Relaxed));
        if at == place.saved_at || !(now || place.saved.elapsed() >= SAVE_EVERY) {
            return;
        }
        (place.saved, place.saved_at) = (Instant::now(), at);
        // Its directory may be gone: the keyspace was dropped, or the whole store.
        if place.path.parent().is_some_and(Path::is_dir)
            // No copy of the sketch: it stays within its memory while it is written, too.
            && let Err(e) = KIND.write(&place.path, &self.show(Sketch::encode))
        {
            warn!("the workload's sketch is not kept: {e}");
        }
    }

    /// The sketch is not kept any more, and its file goes.
    pub(crate) fn forget(&self) {
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(place) = place {
            let _ = std::fs::remove_file(place.path);
        }
    }

    /// The keyspace is in another directory now.
    pub(crate) fn move_to(&self, path: PathBuf) {
        if let Some(place) = self.place.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            let old = std::mem::replace(&mut place.path, path);
            let _ = std::fs::rename(old, &place.path);
        }
    }

    /// Counts the call; says how it is to be looked at.
    #[inline]
    pub(crate) fn look(&self) -> Look {
        let state = self.hot.state.load(Ordering::Relaxed);
        if state & OFF != 0 {
            return Look { weight: 0, state: state & RECORDING };
        }
        let weight = COUNTDOWN.with(|countdown| match countdown.get() {
            0 => begin_countdown(countdown),
            calls => {
                countdown.set(calls - 1);
                0
            }
        });
        Look { weight, state }
    }

    /// Gets of `keys` that `get` makes with a sink of ours.
    pub(crate) fn gets(
        &self,
        look: Look,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        get: impl FnOnce(&mut dyn GetSink) -> Result<()>,
    ) -> Result<()> {
        let mut counting = Counting { sink, count: 0, few: [(0, 0); FEW], more: Vec::new() };
        get(&mut counting)?;
        if look.recording() {
            let all = keys.iter().map(|key| (TraceKind::Get, *key));
            self.record(|recorder| recorder.record(all));
        }
        if look.watching() {
            // A key that is not there has no popularity among those that are.
            let found = counting.all().filter_map(|(index, _)| keys.get(*index));
            self.follow(found.copied(), Touch::Read);
        }
        if !look.is_close() {
            return Ok(());
        }
        let get_hits = counting.all().count() as u64;
        let get_misses = (keys.len() as u64).saturating_sub(get_hits);
        self.add(look, keys.len(), |sketch| {
            sketch.call(&Call { get_hits, get_misses, ..Call::default() }, look.weight);
            keys.iter().for_each(|key| sketch.key_bytes.add(key.len() as u64, look.weight));
            counting
                .all()
                .for_each(|(_, bytes)| sketch.found_bytes.add(*bytes as u64, look.weight));
        });
        Ok(())
    }

    /// A batch that was written.
    pub(crate) fn wrote(&self, look: Look, batch: &WriteBatch<'_>, durability: Durability) {
        if look.recording() {
            let all = batch.ops().iter().filter_map(|op| match op.kind {
                OpKind::Put(entry) => {
                    Some((TraceKind::Put { value_bytes: entry.value.len() }, op.key))
                }
                OpKind::Delete => Some((TraceKind::Delete, op.key)),
                OpKind::DeleteRange(_) => None,
            });
            self.record(|recorder| recorder.record(all));
            if batch.has_ranges() {
                self.record(Recorder::cannot_record);
            }
        }
        if look.watching() {
            self.follow(batch.ops().iter().map(|op| op.key), Touch::Write);
        }
        if !look.is_close() {
            return;
        }
        let synced = durability == Durability::Synced;
        self.add(look, batch.len(), |sketch| {
            let mut call = Call { synced, ..Call::default() };
            for op in batch.ops() {
                sketch.key_bytes.add(op.key.len() as u64, look.weight);
                match op.kind {
                    OpKind::Put(entry) => {
                        call.puts += 1;
                        sketch.put_bytes.add(entry.value.len() as u64, look.weight);
                    }
                    OpKind::Delete | OpKind::DeleteRange(_) => call.deletes += 1,
                }
            }
            sketch.call(&call, look.weight);
        });
    }

    /// Updates of `keys`, the first of which these `changes` came to.
    pub(crate) fn updated(
        &self,
        look: Look,
        keys: &[&[u8]],
        changes: &[Option<Change>],
        durability: Durability,
    ) {
        let done = || keys.iter().zip(changes).filter_map(|(key, c)| Some((*key, (*c)?)));
        if look.recording() {
            let all = done().flat_map(|(key, change)| change.events().map(move |e| (e, key)));
            self.record(|recorder| recorder.record(all));
        }
        if look.watching() {
            let is_there = |change: Change| change.was_there || change.put.is_some();
            let there = done().filter(|(_, change)| is_there(*change));
            self.follow(there.map(|(key, _)| key), Touch::Read);
        }
        if !look.is_close() {
            return;
        }
        let synced = durability == Durability::Synced;
        self.add(look, changes.len(), |sketch| {
            let mut call = Call { synced, ..Call::default() };
            for (key, change) in done() {
                sketch.key_bytes.add(key.len() as u64, look.weight);
                if let Some(bytes) = change.put {
                    sketch.put_bytes.add(bytes as u64, look.weight);
                }
                let count = match (change.deleted, change.put, change.was_there) {
                    (true, _, _) => &mut call.deletes,
                    (_, Some(_), true) => &mut call.modifies,
                    (_, Some(_), false) => &mut call.puts,
                    (_, None, true) => &mut call.get_hits,
                    (_, None, false) => &mut call.get_misses,
                };
                *count += 1;
            }
            call.synced &= call.puts + call.deletes + call.modifies > 0;
            sketch.call(&call, look.weight);
        });
    }

    /// A scan of so many entries; `from` is the first of their keys, where they are in order.
    pub(crate) fn scanned(&self, look: Look, entries: u64, from: Option<&[u8]>) {
        if look.recording() {
            let kind = TraceKind::Scan { entries: usize::try_from(entries).unwrap_or(usize::MAX) };
            self.record(|recorder| match from {
                Some(key) => recorder.record(std::iter::once((kind, key))),
                None => recorder.cannot_record(),
            });
        }
        if look.is_close() {
            self.add(look, 1, |sketch| {
                sketch.call(&Call { scans: 1, ..Call::default() }, look.weight);
                sketch.scan_entries.add(entries, look.weight);
            });
        }
    }

    /// A range of keys was removed, for which traces have no line.
    pub(crate) fn removed_range(&self, look: Look) {
        if look.recording() {
            self.record(Recorder::cannot_record);
        }
        if look.is_close() {
            self.add(look, 1, |sketch| {
                sketch.call(&Call { deletes: 1, ..Call::default() }, look.weight)
            });
        }
    }

    /// A sync by itself.
    pub(crate) fn synced(&self, look: Look) {
        if look.is_close() {
            self.add(look, 0, |sketch| {
                sketch.call(&Call { synced: true, ..Call::default() }, look.weight)
            });
        }
    }

    /// Adds what a call of `operations` came to, and turns to the next window or pause where it is
    /// time.
    #[cold]
    fn add(&self, look: Look, operations: usize, add: impl FnOnce(&mut Sketch)) {
        let more = look.weight * operations as u64;
        let now = self.operations.fetch_add(more, Ordering::Relaxed) + more;
        let Some(mut guard) = self.try_lock() else { return };
        let (sketch, turn) = &mut *guard;
        add(sketch);
        sketch.sample.pass(self.passed.swap(0, Ordering::Relaxed));
        let tracked = self.tracked.load(Ordering::Relaxed);
        let watching = self.hot.state.load(Ordering::Relaxed) & WATCHING != 0;
        if watching {
            // The window is of operations that could be followed: while a thread that has the
            // sketch is off its processor, thousands may not be.
            turn.at += self.missed.swap(0, Ordering::Relaxed);
            if now < turn.at && tracked < turn.window.tracked {
                return;
            }
            turn.at = now + pause(now.saturating_sub(turn.began), tracked);
            turn.began = now;
            turn.window = turn.window.next();
            self.hot.state.fetch_and(!WATCHING, Ordering::Relaxed);
        } else if now >= turn.at {
            self.tracked.store(0, Ordering::Relaxed);
            self.missed.store(0, Ordering::Relaxed);
            turn.began = now;
            turn.at = now + turn.window.operations;
            self.hot.state.fetch_or(WATCHING, Ordering::Relaxed);
        }
    }

    /// Looks at calls from now on, or at none.
    pub(crate) fn switch(&self, on: bool) {
        match on {
            true => self.hot.state.fetch_and(!OFF, Ordering::Relaxed),
            false => self.hot.state.fetch_or(OFF, Ordering::Relaxed),
        };
    }

    /// Shows requests for keys of the sample to it.
    #[cold]
    fn follow<'k>(&self, keys: impl Iterator<Item = &'k [u8]>, touch: Touch) {
        let threshold = self.hot.threshold.load(Ordering::Relaxed);
        let (mut guard, mut tracked, mut missed, mut passed) = (None, 0, 0, 0);
        for key in keys {
            let hash = SEED.hash(key).high();
            if hash >= threshold {
                passed += u64::from(touch == Touch::Read);
                continue;
            }
            if guard.is_none() {
                guard = self.try_lock();
            }
            let Some((sketch, _)) = guard.as_deref_mut() else {
                missed += 1;
                continue;
            };
            tracked += u64::from(sketch.sample.request(hash, touch));
        }
        if passed > 0 {
            self.passed.fetch_add(passed, Ordering::Relaxed);
        }
        if missed > 0 {
            self.missed.fetch_add(missed, Ordering::Relaxed);
        }
        if let Some((sketch, _)) = guard.as_deref() {
            self.tracked.fetch_add(tracked, Ordering::Relaxed);
            if sketch.sample.threshold() != threshold {
                self.hot.threshold.store(sketch.sample.threshold(), Ordering::Relaxed);
            }
        }
    }
}

/// Draws how many calls are not looked at; how many those before this one were on average, where
/// this one is.
#[cold]
fn begin_countdown(countdown: &Cell<u32>) -> u64 {
    static THREADS: AtomicU64 = AtomicU64::new(1);
    let every = |looks: u64| if looks <= LOOKS_FIRST { EVERY_FIRST } else { EVERY_LATER };
    let looks = LOOKS.get();
    LOOKS.set(looks + 1);
    if looks == 0 {
        let number = THREADS.fetch_add(1, Ordering::Relaxed);
        RANDOM.set(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    }
    // Marsaglia's xorshift: a few operations, and good enough to be in step with nobody.
    let mut x = RANDOM.get();
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    RANDOM.set(x);
    // The call itself is one more, so that one in so many is looked at on average.
    countdown.set(((x >> 32) % (2 * every(looks + 1) - 1)) as u32);
    // A thread's first call is not looked at more often than others.
    if looks == 0 { 0 } else { every(looks) }
}

/// A sink that remembers what was found: place and bytes.
struct Counting<'s> {
    sink: &'s mut dyn GetSink,
    count: usize,
    /// The first of them, and what does not fit there.
    few: [(usize, usize); FEW],
    more: Vec<(usize, usize)>,
}

impl Counting<'_> {
    fn all(&self) -> impl Iterator<Item = &(usize, usize)> {
        self.few.iter().take(self.count).chain(&self.more)
    }
}

impl GetSink for Counting<'_> {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        let found = (index, entry.value.len());
        match self.few.get_mut(self.count) {
            Some(place) => *place = found,
            None => self.more.push(found),
        }
        self.count += 1;
        self.sink.found(index, entry);
    }

    fn wants(&mut self, index: usize, bytes: usize) -> bool {
        self.sink.wants(index, bytes)
    }
}

#[cfg(test)]
mod tests;
