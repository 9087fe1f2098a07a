//! The view in the order of the keys, next to a model: a `BTreeMap` of which every snapshot has
//! its own copy.

use super::differential::caught;
use super::harness::Harness;
use super::session::{Outcome, Stop, ensure};
use silica_base::Prng;
use silica_engine::{
    Budget, Durability, Engine, EntryBurst, EntryIter, EntryRef, ErrorKind, GetSink, Intent,
    IterateOptions, KeyRange, Ordered, Reads, Snapshot, WriteBatch,
};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// Snapshots and iterators that are held at most.
const HELD_MAX: usize = 6;
/// Operations between comparisons of everything.
const CHECK_EVERY: u64 = 2_000;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A snapshot, what it must show, and how many operations there were before it.
#[derive(Clone)]
struct Held {
    snapshot: Arc<dyn Snapshot>,
    map: Arc<Map>,
    operations: u64,
}

/// An iterator, what it must show, and where it must be.
struct Walk {
    iter: Box<dyn EntryIter>,
    map: Arc<Map>,
    range: KeyRange,
    /// Nobody asks for its values.
    is_of_keys: bool,
    at: Option<Vec<u8>>,
}

/// What the operations go to.
struct Run<'h, H: Harness> {
    harness: &'h mut H,
    engine: Option<Arc<H::Engine>>,
    prng: Prng,
    /// The model; a copy is made where a snapshot still has it.
    map: Arc<Map>,
    /// The last operation that changed a key.
    changed: BTreeMap<Vec<u8>, u64>,
    operations: u64,
    held: Vec<Held>,
    walks: Vec<Walk>,
    commits: u64,
    refused: u64,
}

/// Performs random operations (puts, deletes, batches, deletes of ranges, transactions,
/// maintenance, reopening) on an empty store, with snapshots that stay for a while and iterators
/// with all kinds of bounds that go on in both directions meanwhile, and compares every answer
/// with a model.
///
/// # Panics
///
/// Where an answer differs.
pub fn ordered<H: Harness>(harness: &mut H, seed: u64, operations: u64)
where
    H::Engine: 'static,
{
    let run = || {
        harness.wipe();
        let engine = Some(Arc::new(harness.open()?));
        let is_said = engine.as_ref().is_some_and(|e| e.descriptor().capabilities.ordered);
        ensure(is_said, || "the engine does not say that it keeps an order".into())?;
        let mut run = Run {
            harness,
            engine,
            prng: Prng::new(seed),
            map: Arc::default(),
            changed: BTreeMap::new(),
            operations: 0,
            held: Vec::new(),
            walks: Vec::new(),
            commits: 0,
            refused: 0,
        };
        while run.operations < operations {
            run.operations += 1;
            run.operation().map_err(|stop| at(run.operations, stop))?;
            if run.operations.is_multiple_of(CHECK_EVERY) {
                run.check_all().map_err(|stop| at(run.operations, stop))?;
            }
        }
        run.check_all()?;
        let few = operations < 5_000;
        ensure(few || run.commits > run.refused / 8, || {
            format!("{} commits, {} refused", run.commits, run.refused)
        })
    };
    if let Err(stop) = caught(run) {
        panic!("ordered(harness, {seed}, {operations}) fails: {stop}");
    }
}

fn at(operation: u64, stop: Stop) -> Stop {
    Stop::Wrong(format!("operation {operation}: {stop}"))
}

impl<H: Harness> Run<'_, H>
where
    H::Engine: 'static,
{
    fn engine(&self) -> &Arc<H::Engine> {
        self.engine.as_ref().expect("it is open")
    }

    fn ordered(&self) -> Arc<dyn Ordered> {
        Arc::clone(self.engine()).as_ordered().expect("the engine keeps an order")
    }

    fn operation(&mut self) -> Outcome {
        match self.prng.below(100) {
            0..40 => self.write(),
            40..44 => self.delete_range(),
            44..50 => self.transaction(),
            50..56 => self.change_snapshots(),
            56..62 => self.get_at_snapshot(),
            62 if self.prng.one_in(4) => {
                let range = self.range();
                Ok(self.ordered().compact_range(&range)?)
            }
            62..66 => self.begin_walk(),
            66..92 => self.walk_on(),
            92..99 => {
                let bytes = 1 + self.prng.below(self.harness.workload().maintain_bytes_max);
                Ok(self.engine().maintain(Budget::of(bytes)).map(|_| ())?)
            }
            _ if self.prng.one_in(4) => self.reopen(),
            _ if self.prng.one_in(4) => self.clear(),
            _ => Ok(()),
        }
    }

    /// Any bytes, many of them with the same beginning.
    fn key(&mut self) -> Vec<u8> {
        let len = self.prng.below(5) as usize;
        let letters = [0, 1, b'a', 254, 255];
        let mut key: Vec<u8> = (0..len).map(|_| letters[self.prng.below(5) as usize]).collect();
        match self.prng.below(8) {
            0 => key.splice(0..0, *b"a long common beginning ").for_each(drop),
            1 => key.push(self.prng.below(256) as u8),
            _ => (),
        }
        key
    }

    fn range(&mut self) -> KeyRange {
        if self.prng.one_in(4) {
            let mut prefix = self.key();
            prefix.truncate(1 + self.prng.below(2) as usize);
            return KeyRange::prefix(&prefix);
        }
        let mut bound = || match self.prng.below(4) {
            0 => Bound::Unbounded,
            1 => Bound::Excluded(self.key()),
            _ => Bound::Included(self.key()),
        };
        let (lower, upper) = (bound(), bound());
        KeyRange { lower, upper }
    }

    fn change(&mut self, key: &[u8], value: Option<Vec<u8>>) {
        let map = Arc::make_mut(&mut self.map);
        match value {
            Some(value) => drop(map.insert(key.to_vec(), value)),
            None => drop(map.remove(key)),
        }
        self.changed.insert(key.to_vec(), self.operations);
    }

    /// A batch; some of its keys come twice, and some batches delete ranges between.
    fn batch(&mut self) -> Vec<Change> {
        let count = if self.prng.one_in(2) { 1 } else { 1 + self.prng.below(8) };
        let mut batch = Vec::new();
        for n in 0..count {
            if count > 1 && self.prng.one_in(16) {
                let lower = self.key();
                let upper = [&lower[..], &self.key()].concat();
                batch.push(Change::DeleteRange(lower, (!self.prng.one_in(64)).then_some(upper)));
                continue;
            }
            let len = self.prng.below(40) as usize;
            let mut value = format!("{} {n} ", self.operations).into_bytes();
            value.resize(value.len() + len, b'.');
            let value = (!self.prng.one_in(4)).then_some(value);
            batch.push(Change::Set(self.key(), value));
        }
        batch
    }

    fn write(&mut self) -> Outcome {
        let batch = self.batch();
        self.engine().write(&as_batch(&batch), Durability::Buffered)?;
        batch.into_iter().for_each(|change| self.apply(change));
        Ok(())
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Set(key, value) => self.change(&key, value),
            Change::DeleteRange(lower, upper) => {
                let upper = upper.map_or(Bound::Unbounded, Bound::Excluded);
                self.change_range(&KeyRange { lower: Bound::Included(lower), upper });
            }
        }
    }

    fn change_range(&mut self, range: &KeyRange) {
        let keys: Vec<Vec<u8>> =
            self.map.keys().filter(|key| range.contains(key)).cloned().collect();
        keys.iter().for_each(|key| self.change(key, None));
    }

    fn delete_range(&mut self) -> Outcome {
        let mut range = self.range();
        if !self.prng.one_in(16) {
            // A small one: the store is to have some entries.
            let lower = self.key();
            let upper = [&lower[..], &self.key()].concat();
            range = KeyRange::new(lower, upper);
        }
        match self.ordered().delete_range(&range, Durability::Buffered) {
            Err(error) if error.kind() == ErrorKind::Unsupported => return Ok(()),
            result => result?,
        }
        self.change_range(&range);
        Ok(())
    }

    fn clear(&mut self) -> Outcome {
        let Some(admin) = self.engine().as_admin() else { return Ok(()) };
        admin.clear()?;
        let keys: Vec<Vec<u8>> = self.map.keys().cloned().collect();
        keys.iter().for_each(|key| self.change(key, None));
        Ok(())
    }

    fn transaction(&mut self) -> Outcome {
        let Some(held) = self.any_held() else { return Ok(()) };
        let reads: Vec<Vec<u8>> = (0..self.prng.below(4)).map(|_| self.key()).collect();
        let refs: Vec<&[u8]> = reads.iter().map(Vec::as_slice).collect();
        let batch = self.batch();
        let is_done = self.ordered().commit(
            &*held.snapshot,
            Reads::of(&refs),
            &as_batch(&batch),
            Durability::Buffered,
        )?;
        let last = reads.iter().filter_map(|key| self.changed.get(key)).max();
        let is_changed = last.is_some_and(|last| *last > held.operations);
        ensure(!(is_done && is_changed), || format!("a key of {reads:?} was written before"))?;
        if is_done {
            self.commits += 1;
            batch.into_iter().for_each(|change| self.apply(change));
        } else {
            self.refused += u64::from(!is_changed);
        }
        Ok(())
    }

    fn any_held(&mut self) -> Option<Held> {
        let count = self.held.len() as u64;
        (count > 0).then(|| self.held[self.prng.below(count) as usize].clone())
    }

    fn change_snapshots(&mut self) -> Outcome {
        if self.held.len() == HELD_MAX || !self.held.is_empty() && self.prng.one_in(3) {
            let at = self.prng.below(self.held.len() as u64) as usize;
            self.held.swap_remove(at);
            return Ok(());
        }
        let snapshot = self.ordered().snapshot()?;
        let is_later = self.held.iter().all(|held| held.snapshot.sequence() <= snapshot.sequence());
        ensure(is_later, || "a later snapshot has a lower number".into())?;
        let map = Arc::clone(&self.map);
        self.held.push(Held { snapshot, map, operations: self.operations });
        Ok(())
    }

    fn get_at_snapshot(&mut self) -> Outcome {
        let Some(held) = self.any_held() else { return Ok(()) };
        if self.prng.one_in(4) {
            let range = self.range();
            let count = Arc::clone(&held.snapshot).count(&range)?;
            let want = held.map.keys().filter(|key| range.contains(key)).count() as u64;
            return ensure(count == want, || format!("{range:?} counts {count}, not {want}"));
        }
        let keys: Vec<Vec<u8>> = (0..1 + self.prng.below(4)).map(|_| self.key()).collect();
        compare_gets(&held, &keys, self.intent())
    }

    fn intent(&mut self) -> Intent {
        [Intent::Foreground, Intent::Scan, Intent::Background][self.prng.below(3) as usize]
    }

    fn begin_walk(&mut self) -> Outcome {
        let Some(held) = self.any_held() else { return Ok(()) };
        if self.walks.len() == HELD_MAX {
            let at = self.prng.below(HELD_MAX as u64) as usize;
            self.walks.swap_remove(at);
        }
        let range = self.range();
        let options = IterateOptions { is_of_keys: self.prng.one_in(4), intent: self.intent() };
        let iter = Arc::clone(&held.snapshot).iterate_with(&range, options)?;
        let is_of_keys = options.is_of_keys;
        self.walks.push(Walk { iter, map: held.map, range, is_of_keys, at: None });
        Ok(())
    }

    fn walk_on(&mut self) -> Outcome {
        if self.walks.is_empty() {
            return Ok(());
        }
        let key = self.key();
        let at = self.prng.below(self.walks.len() as u64) as usize;
        let kind = self.prng.below(MANY + 8);
        self.walks[at].step(kind, &key)
    }

    fn reopen(&mut self) -> Outcome {
        self.held.clear();
        self.walks.clear();
        let engine = self.engine.take().expect("it is open");
        if !engine.descriptor().capabilities.durable {
            self.engine = Some(engine);
            return Ok(());
        }
        if self.prng.one_in(2) {
            self.harness.kill();
        }
        let engine = Arc::into_inner(engine);
        ensure(engine.is_some(), || "something keeps the engine open".into())?;
        drop(engine);
        self.engine = Some(Arc::new(self.harness.open()?));
        // Transactions do not outlive it.
        self.changed.clear();
        Ok(())
    }

    /// Everything now and at every snapshot, forwards and backwards.
    fn check_all(&mut self) -> Outcome {
        let (snapshot, map) = (self.ordered().snapshot()?, Arc::clone(&self.map));
        let now = Held { snapshot, map, operations: self.operations };
        let keys: Vec<Vec<u8>> = self.changed.keys().cloned().collect();
        for held in self.held.iter().chain([&now]) {
            compare_gets(held, &keys, Intent::Foreground)?;
            let iter = Arc::clone(&held.snapshot).iterate(&KeyRange::ALL)?;
            let map = Arc::clone(&held.map);
            let mut walk = Walk { iter, map, range: KeyRange::ALL, is_of_keys: false, at: None };
            for (first, next) in [(FIRST, NEXT), (LAST, PREV), (FIRST, MANY + 4)] {
                walk.step(first, b"")?;
                while walk.at.is_some() {
                    walk.step(next, b"")?;
                }
            }
        }
        Ok(self.engine().verify()?)
    }
}

/// An operation of a batch.
enum Change {
    Set(Vec<u8>, Option<Vec<u8>>),
    DeleteRange(Vec<u8>, Option<Vec<u8>>),
}

fn as_batch(changes: &[Change]) -> WriteBatch<'_> {
    let mut batch = WriteBatch::new();
    for change in changes {
        match change {
            Change::Set(key, Some(value)) => batch.put(key, value),
            Change::Set(key, None) => batch.delete(key),
            Change::DeleteRange(lower, upper) => batch.delete_range(lower, upper.as_deref()),
        };
    }
    batch
}

#[derive(Default)]
struct Found(BTreeMap<usize, Vec<u8>>);

impl GetSink for Found {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        let twice = self.0.insert(index, entry.value.to_vec());
        assert!(twice.is_none(), "key {index} was reported twice");
    }
}

fn compare_gets(held: &Held, keys: &[Vec<u8>], intent: Intent) -> Outcome {
    let refs: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut found = Found::default();
    held.snapshot.get_many_with(&refs, intent, &mut found)?;
    for (index, key) in keys.iter().enumerate() {
        let (got, want) = (found.0.get(&index), held.map.get(key));
        ensure(got == want, || format!("a get of {key:?} gave {got:?}, not {want:?}"))?;
    }
    Ok(())
}

const FIRST: u64 = 0;
const LAST: u64 = 1;
const PREV: u64 = 4;
const NEXT: u64 = 10;
/// From here on a burst, of one entry more with each number.
const MANY: u64 = 16;

impl Walk {
    /// Takes a burst of up to `count` entries, and compares them and where it ends.
    fn step_many(&mut self, count: usize) -> Outcome {
        let from = self.at.take();
        let mut wanted: Vec<Vec<u8>> = Vec::new();
        let mut last = from.clone();
        while let Some(at) = last.as_deref()
            && wanted.len() < count
        {
            last = self.first_from(Bound::Excluded(at));
            wanted.extend(last.clone());
        }
        let mut burst = EntryBurst::default();
        burst.begin(count, usize::MAX);
        let is_there = self.iter.next_many(&mut burst)?;
        let how = || format!("a burst of {count} from {from:?} in {:?}", self.range);
        let keys: Vec<&[u8]> = burst.iter().map(|(key, _)| key).collect();
        ensure(keys == wanted, || format!("{}: {keys:?} and not {wanted:?}", how()))?;
        let is_right = |(key, value): (&[u8], &[u8])| self.is_of_keys || self.map[key] == value;
        ensure(burst.iter().all(is_right), || format!("{}: other values", how()))?;
        ensure(is_there == last.is_some(), || format!("{}: ends: {is_there}, {last:?}", how()))?;
        let is_at_last = last.as_ref().is_none_or(|last| self.iter.key() == last);
        ensure(is_at_last, || format!("{}: is not at {last:?}", how()))?;
        self.at = last;
        Ok(())
    }

    /// The first key of the range that is at or after a bound.
    fn first_from(&self, lower: Bound<&[u8]>) -> Option<Vec<u8>> {
        let mut keys = self.map.range::<[u8], _>((lower, Bound::Unbounded)).map(|(key, _)| key);
        keys.find(|key| self.range.contains(key)).cloned()
    }

    fn last_to(&self, upper: Bound<&[u8]>) -> Option<Vec<u8>> {
        let keys = self.map.range::<[u8], _>((Bound::Unbounded, upper)).map(|(key, _)| key);
        keys.rev().find(|key| self.range.contains(key)).cloned()
    }

    /// Moves both.
    fn step(&mut self, kind: u64, key: &[u8]) -> Outcome {
        if let Some(more) = kind.checked_sub(MANY) {
            return self.step_many(1 + more as usize);
        }
        let from = self.at.clone();
        let at = from.as_deref();
        let (is_there, wanted) = match kind {
            FIRST => (self.iter.seek_to_first()?, self.first_from(Bound::Unbounded)),
            LAST => (self.iter.seek_to_last()?, self.last_to(Bound::Unbounded)),
            2 => (self.iter.seek(key)?, self.first_from(Bound::Included(key))),
            3 => (self.iter.seek_for_prev(key)?, self.last_to(Bound::Included(key))),
            PREV..NEXT => (self.iter.prev()?, at.and_then(|at| self.last_to(Bound::Excluded(at)))),
            _ => (self.iter.next()?, at.and_then(|at| self.first_from(Bound::Excluded(at)))),
        };
        self.at = wanted;
        let how = || format!("step {kind} to {key:?} from {from:?} in {:?}", self.range);
        ensure(is_there == self.at.is_some(), || {
            format!("{}: found one: {is_there}, and not {:?}", how(), self.at)
        })?;
        let Some(at) = &self.at else { return Ok(()) };
        ensure(self.iter.key() == at, || {
            format!("{}: at {:?} and not {at:?}", how(), self.iter.key())
        })?;
        if self.is_of_keys {
            return Ok(());
        }
        let (got, want) = (self.iter.entry().value, &self.map[at]);
        ensure(got == want, || format!("{}: {at:?} has {got:?} and not {want:?}", how()))
    }
}
