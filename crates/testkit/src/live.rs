//! Transactions that are open side by side, next to a model: savepoints, cursors that see later
//! writes, conditions on keys and ranges, exclusive turns. And, in threads, that no range which a
//! transaction read gets an entry before it commits.

#![allow(clippy::disallowed_methods)] // Threads that prove an engine right are not its own.

use super::differential::caught;
use super::harness::Harness;
use super::session::{Outcome, Stop, ensure};
use silica_base::Prng;
use silica_engine::transaction::{Cursor, Savepoint, Transaction, TransactionOptions, Wait};
use silica_engine::{
    Budget, Durability, Engine, EntryBurst, EntryIter, EntryRef, ErrorKind, KeyRange, Ordered,
    WriteBatch,
};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Transactions that are open at most, and cursors of each.
const OPEN_MAX: usize = 3;
const CURSORS_MAX: usize = 3;

const NOW: Durability = Durability::Buffered;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A write of a transaction.
#[derive(Debug, Clone)]
enum Write {
    Set(Vec<u8>, Option<Vec<u8>>),
    DeleteRange(KeyRange),
}

impl Write {
    fn touches(&self, key: &[u8]) -> bool {
        match self {
            Write::Set(written, _) => written == key,
            Write::DeleteRange(range) => range.contains(key),
        }
    }

    /// Does it to `map`, and says of which keys.
    fn apply(&self, map: &mut Map) -> Vec<Vec<u8>> {
        match self {
            Write::Set(key, Some(value)) => drop(map.insert(key.clone(), value.clone())),
            Write::Set(key, None) => drop(map.remove(key)),
            Write::DeleteRange(range) => {
                let keys: Vec<Vec<u8>> =
                    map.keys().filter(|key| range.contains(key)).cloned().collect();
                keys.iter().for_each(|key| drop(map.remove(key)));
                return keys;
            }
        }
        let Write::Set(key, _) = self else { return Vec::new() };
        vec![key.clone()]
    }
}

/// A cursor, and the entry that it must be at.
struct Walk {
    cursor: Cursor,
    range: KeyRange,
    at: Option<(Vec<u8>, Vec<u8>)>,
}

/// A transaction, and what it must show.
struct Open {
    transaction: Transaction,
    is_exclusive: bool,
    began: u64,
    view: Map,
    writes: Vec<Write>,
    /// What the view was, and how many writes there were.
    savepoints: Vec<(Savepoint, Map, usize)>,
    gone: Option<Savepoint>,
    watched_keys: Vec<Vec<u8>>,
    watched_ranges: Vec<KeyRange>,
    walks: Vec<Walk>,
}

struct Run<'e, E> {
    engine: &'e Arc<E>,
    prng: Prng,
    map: Map,
    /// The last operation that changed a key.
    changed: BTreeMap<Vec<u8>, u64>,
    operations: u64,
    open: Vec<Open>,
    commits: u64,
    conflicts: u64,
    /// Conflicts that nobody had to see.
    refused: u64,
    busy: u64,
}

/// Performs random operations of up to three transactions at a time and of others who write
/// meanwhile, on an empty store, and compares every answer with a model.
///
/// # Panics
///
/// Where an answer differs.
pub fn live_transactions<H: Harness>(harness: &mut H, seed: u64, operations: u64)
where
    H::Engine: 'static,
{
    let run = || {
        harness.wipe();
        let maintain_bytes_max = harness.workload().maintain_bytes_max;
        let engine = Arc::new(harness.open()?);
        let mut run = Run {
            engine: &engine,
            prng: Prng::new(seed),
            map: Map::new(),
            changed: BTreeMap::new(),
            operations: 0,
            open: Vec::new(),
            commits: 0,
            conflicts: 0,
            refused: 0,
            busy: 0,
        };
        while run.operations < operations {
            run.operations += 1;
            run.operation(maintain_bytes_max).map_err(|stop| at(run.operations, &stop))?;
        }
        run.open.clear();
        let Run { commits, conflicts, refused, busy, .. } = run;
        let told = format!("{commits} commits, {conflicts} conflicts, {refused} refused, {busy}");
        let few = operations < 5_000;
        ensure(few || commits > refused && conflicts > 0 && busy > 0, || told)?;
        Ok(engine.verify()?)
    };
    if let Err(stop) = caught(run) {
        panic!("live_transactions(harness, {seed}, {operations}) fails: {stop}");
    }
}

fn at(operation: u64, stop: &Stop) -> Stop {
    Stop::Wrong(format!("operation {operation}: {stop}"))
}

fn first_from(map: &Map, range: &KeyRange, lower: Bound<&[u8]>) -> Option<Vec<u8>> {
    let mut keys = map.range::<[u8], _>((lower, Bound::Unbounded)).map(|(key, _)| key);
    keys.find(|key| range.contains(key)).cloned()
}

fn last_to(map: &Map, range: &KeyRange, upper: Bound<&[u8]>) -> Option<Vec<u8>> {
    let keys = map.range::<[u8], _>((Bound::Unbounded, upper)).map(|(key, _)| key);
    keys.rev().find(|key| range.contains(key)).cloned()
}

fn key(prng: &mut Prng) -> Vec<u8> {
    let len = prng.below(4) as usize;
    (0..len).map(|_| [0, b'a', b'b', 255][prng.below(4) as usize]).collect()
}

/// Mostly a small one.
fn range(prng: &mut Prng) -> KeyRange {
    let lower = key(prng);
    if prng.one_in(8) {
        return KeyRange { lower: Bound::Excluded(lower), upper: Bound::Unbounded };
    }
    let upper = [&lower[..], &key(prng)].concat();
    KeyRange { lower: Bound::Included(lower), upper: Bound::Included(upper) }
}

impl<E: Engine + 'static> Run<'_, E> {
    fn ordered(&self) -> Arc<dyn Ordered> {
        Arc::clone(self.engine).as_ordered().expect("the engine keeps an order")
    }

    fn operation(&mut self, maintain_bytes_max: u64) -> Outcome {
        match self.prng.below(100) {
            0..12 => self.write_plain(),
            12..16 => {
                let bytes = 1 + self.prng.below(maintain_bytes_max);
                Ok(self.engine.maintain(Budget::of(bytes)).map(|_| ())?)
            }
            16..22 => self.begin(),
            22..26 => self.end(),
            26 if self.prng.one_in(20) => {
                self.engine.as_admin().map_or(Ok(()), |admin| admin.clear())?;
                let keys: Vec<Vec<u8>> = self.map.keys().cloned().collect();
                self.changed.extend(keys.into_iter().map(|key| (key, self.operations)));
                self.map.clear();
                Ok(())
            }
            _ if self.open.is_empty() => Ok(()),
            _ => {
                let at = self.prng.below(self.open.len() as u64) as usize;
                self.open[at].operation(&mut self.prng, self.operations)
            }
        }
    }

    /// Writes that are no transaction.
    fn write_plain(&mut self) -> Outcome {
        let (key, value) = (key(&mut self.prng), format!("plain {}", self.operations));
        let write = match self.prng.below(8) {
            0 => Write::DeleteRange(range(&mut self.prng)),
            1 | 2 => Write::Set(key, None),
            _ => Write::Set(key, Some(value.into_bytes())),
        };
        let mut batch = WriteBatch::new();
        let bounds = if let Write::DeleteRange(range) = &write {
            range.half_open()
        } else {
            Default::default()
        };
        match &write {
            Write::Set(key, Some(value)) => batch.put(key, value),
            Write::Set(key, None) => batch.delete(key),
            Write::DeleteRange(_) => batch.delete_range(&bounds.0, bounds.1.as_deref()),
        };
        self.engine.write(&batch, NOW)?;
        self.note(&[write]);
        Ok(())
    }

    fn note(&mut self, writes: &[Write]) {
        for key in writes.iter().flat_map(|write| write.apply(&mut self.map)) {
            self.changed.insert(key, self.operations);
        }
    }

    fn begin(&mut self) -> Outcome {
        if self.open.len() == OPEN_MAX {
            return Ok(());
        }
        let is_exclusive = self.prng.one_in(4);
        let options = TransactionOptions { is_exclusive, wait: Wait::No };
        let is_taken = is_exclusive && self.open.iter().any(|open| open.is_exclusive);
        let transaction = match Transaction::begin(self.ordered(), options) {
            Err(error) if error.kind() == ErrorKind::Busy && is_taken => {
                self.busy += 1;
                return Ok(());
            }
            begun => begun?,
        };
        ensure(!is_taken, || "a second exclusive transaction is open".into())?;
        self.open.push(Open {
            transaction,
            is_exclusive,
            began: self.operations,
            view: self.map.clone(),
            writes: Vec::new(),
            savepoints: Vec::new(),
            gone: None,
            watched_keys: Vec::new(),
            watched_ranges: Vec::new(),
            walks: Vec::new(),
        });
        Ok(())
    }

    /// Commits a transaction, or drops it.
    fn end(&mut self) -> Outcome {
        if self.open.is_empty() {
            return Ok(());
        }
        let at = self.prng.below(self.open.len() as u64) as usize;
        if self.prng.one_in(6) {
            drop(self.open.swap_remove(at));
            return Ok(());
        }
        let is_busy = !self.open[at].is_exclusive && self.open.iter().any(|o| o.is_exclusive);
        let durability = if self.prng.one_in(4) { Durability::Synced } else { NOW };
        let committed = self.open[at].transaction.commit(durability);
        if let Err(error) = &committed
            && error.kind() == ErrorKind::Busy
        {
            ensure(is_busy, || "a commit waits for nobody".into())?;
            self.busy += 1;
            return self.open[at].check();
        }
        ensure(!is_busy, || "a commit while an exclusive transaction is open".into())?;
        let open = self.open.swap_remove(at);
        let since = self.changed.iter().filter(|(_, at)| **at > open.began);
        let met = since.map(|(key, _)| key).find(|key| open.must_not_change(key)).cloned();
        match (committed, met) {
            (Ok(()), None) => {
                self.commits += 1;
                self.note(&open.writes);
            }
            (Err(error), met) if error.kind() == ErrorKind::Conflict => {
                self.conflicts += u64::from(met.is_some());
                self.refused += u64::from(met.is_none());
            }
            (Ok(()), Some(key)) => {
                let ranges = &open.watched_ranges;
                let message = format!("{key:?} has changed before the commit; {ranges:?}");
                return Err(Stop::Wrong(message));
            }
            (Err(error), _) => return Err(error.into()),
        }
        self.compare()
    }

    /// The whole store.
    fn compare(&mut self) -> Outcome {
        let mut iter = self.ordered().snapshot()?.iterate(&KeyRange::ALL)?;
        let (mut found, mut is_there) = (Map::new(), iter.seek_to_first()?);
        while is_there {
            found.insert(iter.key().to_vec(), iter.entry().value.to_vec());
            is_there = iter.next()?;
        }
        ensure(found == self.map, || format!("the store has {found:?} and not {:?}", self.map))
    }
}

impl Open {
    fn must_not_change(&self, key: &[u8]) -> bool {
        self.writes.iter().any(|write| write.touches(key))
            || self.watched_keys.iter().any(|watched| watched == key)
            || self.watched_ranges.iter().any(|range| range.contains(key))
    }

    fn operation(&mut self, prng: &mut Prng, number: u64) -> Outcome {
        match prng.below(40) {
            0..8 => {
                self.write(prng, number);
                Ok(())
            }
            8..12 => self.get(&key(prng)),
            12..16 => self.savepoints(prng),
            16 if prng.one_in(3) => {
                let range = range(prng);
                self.transaction.watch_range(range.clone());
                self.watched_ranges.push(range);
                Ok(())
            }
            16 => {
                let key = key(prng);
                self.transaction.get_for_update(&key, |_| ())?;
                self.watched_keys.push(key);
                Ok(())
            }
            17..20 => {
                if self.walks.len() == CURSORS_MAX {
                    self.walks.swap_remove(prng.below(CURSORS_MAX as u64) as usize);
                }
                let range = if prng.one_in(2) { KeyRange::ALL } else { range(prng) };
                let cursor = self.transaction.cursor(&range)?;
                self.walks.push(Walk { cursor, range, at: None });
                Ok(())
            }
            _ if self.walks.is_empty() => Ok(()),
            _ => {
                let at = prng.below(self.walks.len() as u64) as usize;
                self.walks[at].step(&self.view, prng.below(MANY + 6), &key(prng))
            }
        }
    }

    fn write(&mut self, prng: &mut Prng, number: u64) {
        let write = match prng.below(8) {
            0 => Write::DeleteRange(range(prng)),
            1 | 2 => Write::Set(key(prng), None),
            _ => Write::Set(key(prng), Some(format!("written {number}").into_bytes())),
        };
        match &write {
            Write::DeleteRange(range) => self.transaction.delete_range(range),
            Write::Set(key, None) => self.transaction.delete(key),
            Write::Set(key, Some(value)) => self.transaction.put(key, EntryRef::new(value)),
        }
        write.apply(&mut self.view);
        self.writes.push(write);
    }

    fn get(&self, key: &[u8]) -> Outcome {
        let got = self.transaction.get(key, |entry| entry.map(|entry| entry.value.to_vec()))?;
        let want = self.view.get(key);
        ensure(got.as_ref() == want, || format!("a get of {key:?} gave {got:?}, not {want:?}"))
    }

    fn savepoints(&mut self, prng: &mut Prng) -> Outcome {
        let count = self.savepoints.len() as u64;
        if count == 0 || prng.one_in(2) {
            let savepoint = self.transaction.savepoint();
            self.savepoints.push((savepoint, self.view.clone(), self.writes.len()));
            return Ok(());
        }
        let at = prng.below(count) as usize;
        let (savepoint, view, writes) = self.savepoints[at].clone();
        if prng.one_in(2) {
            self.transaction.roll_back_to(savepoint)?;
            self.gone = self.savepoints.get(at + 1).map(|later| later.0).or(self.gone);
            self.savepoints.truncate(at + 1);
            self.view = view;
            self.writes.truncate(writes);
        } else {
            self.transaction.release(savepoint)?;
            self.savepoints.truncate(at);
            self.gone = Some(savepoint);
        }
        if let Some(gone) = self.gone {
            let kind = self.transaction.roll_back_to(gone).err().map(|error| error.kind());
            ensure(kind == Some(ErrorKind::NotFound), || format!("{gone:?} is not gone"))?;
        }
        self.check()
    }

    /// Everything that it shows.
    fn check(&self) -> Outcome {
        let (cursor, range) = (self.transaction.cursor(&KeyRange::ALL)?, KeyRange::ALL);
        let mut walk = Walk { cursor, range, at: None };
        for (first, next) in [(0, NEXT), (1, PREV), (0, MANY + 3)] {
            walk.step(&self.view, first, b"")?;
            while walk.at.is_some() {
                walk.step(&self.view, next, b"")?;
            }
        }
        Ok(())
    }
}

const PREV: u64 = 4;
const NEXT: u64 = 10;
/// From here on a burst, of one entry more with each number.
const MANY: u64 = 16;

impl Walk {
    /// Takes a burst of up to `count` entries, and compares them and where it ends.
    fn step_many(&mut self, view: &Map, count: usize) -> Outcome {
        let from = self.at.take();
        let (mut wanted, mut last) = (Vec::new(), from.clone().map(|(key, _)| key));
        while let Some(at) = last.as_deref()
            && wanted.len() < count
        {
            last = first_from(view, &self.range, Bound::Excluded(at));
            wanted.extend(last.iter().map(|key| (key.clone(), view[key].clone())));
        }
        let mut burst = EntryBurst::default();
        burst.begin(count, usize::MAX);
        let is_there = self.cursor.next_many(&mut burst)?;
        let own = |(key, value): (&[u8], &[u8])| (key.to_vec(), value.to_vec());
        let found: Vec<_> = burst.iter().map(own).collect();
        let how = || format!("a burst of {count} from {from:?} in {:?}", self.range);
        ensure(found == wanted, || format!("{}: {found:?} and not {wanted:?}", how()))?;
        ensure(is_there == last.is_some(), || format!("{}: ends: {is_there}, {last:?}", how()))?;
        self.at = last.map(|key| (key.clone(), view[&key].clone()));
        Ok(())
    }

    /// Moves the cursor, and compares where it comes to with what the transaction must show now.
    fn step(&mut self, view: &Map, kind: u64, key: &[u8]) -> Outcome {
        if let Some(more) = kind.checked_sub(MANY) {
            return self.step_many(view, 1 + more as usize);
        }
        let from = self.at.clone();
        if let Some((at, value)) = &from {
            // Whatever was written since it came there.
            let is_as_it_was = self.cursor.key() == at && self.cursor.entry().value == value;
            ensure(is_as_it_was, || format!("the entry at {at:?} has changed under a cursor"))?;
        }
        let (at, range) = (from.as_ref().map(|(key, _)| key.as_slice()), &self.range);
        let from_here = |lower| first_from(view, range, lower);
        let to_here = |upper| last_to(view, range, upper);
        let (is_there, wanted) = match kind {
            0 => (self.cursor.seek_to_first()?, from_here(Bound::Unbounded)),
            1 => (self.cursor.seek_to_last()?, to_here(Bound::Unbounded)),
            2 => (self.cursor.seek(key)?, from_here(Bound::Included(key))),
            3 => (self.cursor.seek_for_prev(key)?, to_here(Bound::Included(key))),
            PREV..NEXT => (self.cursor.prev()?, at.and_then(|at| to_here(Bound::Excluded(at)))),
            _ => (self.cursor.next()?, at.and_then(|at| from_here(Bound::Excluded(at)))),
        };
        self.at = wanted.map(|key| (key.clone(), view[&key].clone()));
        let how = || format!("step {kind} to {key:?} from {from:?} in {:?}", self.range);
        ensure(is_there == self.at.is_some(), || {
            format!("{}: found one: {is_there}, and not {:?}", how(), self.at)
        })?;
        let Some((at, value)) = &self.at else { return Ok(()) };
        let (got, entry) = (self.cursor.key(), self.cursor.entry().value);
        ensure((got, entry) == (at, value), || {
            format!("{}: at {got:?} with {entry:?} and not {at:?}, {value:?}", how())
        })
    }
}

/// Slots of a room, and tries of a thread until it goes to the next room: threads are about as far
/// as each other, so they meet.
const SLOTS: u64 = 12;
const TRIES: u64 = 8;

/// A committed booking: the slots that were free when it was decided, and the one that it took.
#[derive(Debug, Clone, Copy)]
struct Booking {
    room: u64,
    free: (u64, u64),
    slot: u64,
}

fn slot_key(room: u64, slot: u64, number: u64) -> Vec<u8> {
    [room.to_be_bytes(), slot.to_be_bytes(), number.to_be_bytes()].concat()
}

/// Lets `threads` threads book rooms, `each` times: each reads a range, and puts a key of its own
/// into it if it is empty. No two of those that committed may both have missed the other's key.
///
/// # Panics
///
/// Where a range that was read got an entry before the commit of what was decided by it.
pub fn bookings<H: Harness>(harness: &mut H, seed: u64, threads: u64, each: u64)
where
    H::Engine: 'static,
{
    harness.wipe();
    let engine = Arc::new(harness.open().expect("an empty store opens"));
    let is_done = AtomicBool::new(false);
    let made: Vec<Booking> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..threads)
            .map(|thread| {
                let engine = Arc::clone(&engine);
                scope.spawn(move || book(&engine, seed * threads + thread, each))
            })
            .collect();
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                engine.maintain(Budget::of(64 << 10)).expect("maintenance");
            }
        });
        let joined: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
        is_done.store(true, Ordering::Relaxed);
        joined.into_iter().flat_map(|made| made.expect("no panic")).collect()
    });
    engine.verify().expect("a sound store");
    assert!(made.len() as u64 >= each / TRIES, "only {} bookings", made.len());
    let has = |one: &Booking, other: &Booking| {
        one.room == other.room && (one.free.0..one.free.1).contains(&other.slot)
    };
    for (at, one) in made.iter().enumerate() {
        for other in &made[at + 1..] {
            assert!(
                !(has(one, other) && has(other, one)),
                "bookings(harness, {seed}, {threads}, {each}): {one:?} and {other:?} missed one \
                 another"
            );
        }
    }
}

/// The bookings of one thread.
fn book<E: Engine + 'static>(engine: &Arc<E>, seed: u64, each: u64) -> Vec<Booking> {
    let (mut prng, mut made) = (Prng::new(seed), Vec::new());
    let ordered = Arc::clone(engine).as_ordered().expect("the engine keeps an order");
    for n in 0..each {
        let room = n / TRIES + prng.below(2);
        let first = prng.below(SLOTS);
        let free = (first, first + 1 + prng.below(8));
        let slot = free.0 + prng.below(free.1 - free.0);
        let range = KeyRange::new(slot_key(room, free.0, 0), slot_key(room, free.1, 0));
        let options = TransactionOptions::default();
        let begun = Transaction::begin(Arc::clone(&ordered), options);
        let mut transaction = begun.expect("a transaction");
        transaction.watch_range(range.clone());
        let mut cursor = transaction.cursor(&range).expect("a cursor");
        if cursor.seek_to_first().expect("a seek") {
            continue;
        }
        let key = slot_key(room, slot, (seed << 32) | n);
        transaction.put(&key, EntryRef::new(&[b'b'; 60]));
        match transaction.commit(NOW) {
            Ok(()) => made.push(Booking { room, free, slot }),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
        }
    }
    made
}
