//! The reference engine: so plain that it is right by inspection.

mod ordered;

use super::record::{self, Replay};
use super::reference_disk::{Journal, ReferenceDisk};
use silica_base::{Clock, Error, ErrorKind, Result, SystemClock, checksum};
use silica_engine::transaction::CommitTurns;
use silica_engine::{
    Admin, Atomic, Budget, Capabilities, ChangePoint, ChangeRing, Changes, Checkpoint, Count,
    Descriptor, Durability, Engine, EntryRef, GetSink, Histories, Limits, MetricVisitor, Op,
    OpKind, Ordered, Progress, Scan, Snapshot, Update, WriteBatch,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

const LIMITS: Limits =
    Limits { key_bytes_max: 1 << 16, value_bytes_max: 64 << 20, batch_bytes_max: 128 << 20 };

/// Updates that a burst makes at once.
const UPDATES_MAX: usize = 64;

/// Records of overwritten entries may fill this much before maintenance rewrites the journal.
const COMPACT_BYTES_MIN: u64 = 8 << 10;

/// An in-memory engine for tests: a `BTreeMap` behind one lock, ordered by an arbitrary but fixed
/// function of the key. Slow, complete and simple. [`Reference::open`] makes it durable.
pub struct Reference {
    descriptor: Descriptor,
    clock: Arc<dyn Clock>,
    inner: RwLock<Inner>,
    counters: Counters,
    turns: Arc<CommitTurns>,
    changes: ChangeRing,
}

/// Streams of changes so far: each engine has another one.
static HISTORIES: AtomicU64 = AtomicU64::new(1);

fn next_history() -> u64 {
    HISTORIES.fetch_add(1, Ordering::Relaxed)
}

/// Bytes of changes that are kept.
const CHANGES_BYTES_MAX: usize = 16 << 10;

#[derive(Debug, Default)]
struct Inner {
    state: State,
    journal: Option<Journal>,
}

#[derive(Debug, Clone)]
struct Stored {
    key: Vec<u8>,
    value: Vec<u8>,
    expires_unix_ms: u64,
    user_bits: u32,
}

impl Stored {
    /// The entry, where its time is not over.
    fn live(&self, now_ms: u64) -> Option<EntryRef<'_>> {
        let is_over = self.expires_unix_ms != 0 && self.expires_unix_ms <= now_ms;
        (!is_over).then(|| self.entry())
    }

    fn entry(&self) -> EntryRef<'_> {
        EntryRef {
            value: &self.value,
            expires_unix_ms: self.expires_unix_ms,
            user_bits: self.user_bits,
        }
    }
}

/// Entries by position; keys that share a position lie in one list.
#[derive(Debug, Default)]
struct State {
    positions: BTreeMap<u64, Vec<Stored>>,
    entries: u64,
    live_bytes: u64,
    /// Operations so far, and the last one of every key.
    sequence: u64,
    written: BTreeMap<Vec<u8>, u64>,
    /// When it was cleared last.
    cleared: u64,
    /// The copy made last, while nothing has changed since.
    copied: Option<Arc<ordered::Copied>>,
}

#[derive(Debug, Default)]
struct Counters {
    gets: AtomicU64,
    get_hits: AtomicU64,
    puts: AtomicU64,
    deletes: AtomicU64,
    user_bytes_written: AtomicU64,
    syncs: AtomicU64,
}

impl Default for Reference {
    fn default() -> Self {
        Reference::with_limits(LIMITS)
    }
}

impl Reference {
    /// An empty engine.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty engine that accepts no more than `limits`.
    pub fn with_limits(limits: Limits) -> Self {
        let capabilities = Capabilities {
            scan: true,
            ordered: true,
            atomic: true,
            admin: true,
            ..Capabilities::default()
        };
        Reference {
            descriptor: Descriptor { name: "reference", capabilities, limits },
            clock: Arc::new(SystemClock::default()),
            inner: RwLock::default(),
            counters: Counters::default(),
            turns: Arc::default(),
            changes: ChangeRing::new(CHANGES_BYTES_MAX, Histories::new(next_history(), 0)),
        }
    }

    /// This engine, whose entries expire by `clock`.
    #[must_use]
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> Self {
        Reference { clock, ..self }
    }

    /// Opens the durable engine whose files are on `disk`.
    pub fn open(disk: &ReferenceDisk) -> Result<Self> {
        let mut engine = Reference::new();
        engine.descriptor.capabilities.durable = true;
        let mut inner = engine.write_lock();
        let mut journal = Journal::new(disk);
        let state = &mut inner.state;
        journal.load(|replay| match replay {
            Replay::Op(op) => state.apply(&op),
            Replay::Clear => state.clear(),
        })?;
        journal.replace(state.encode())?;
        inner.journal = Some(journal);
        engine.changes.begin_history(next_history(), inner.state.sequence);
        drop(inner);
        Ok(engine)
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_lock(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_limits(&self, batch: &WriteBatch<'_>) -> Result<()> {
        let limits = self.descriptor.limits;
        let mut total = 0;
        for op in batch.ops() {
            let value_bytes = match op.kind {
                OpKind::Put(entry) => entry.value.len(),
                OpKind::Delete | OpKind::DeleteRange(_) => 0,
            };
            at_most(op.key.len(), limits.key_bytes_max, "key")?;
            at_most(value_bytes, limits.value_bytes_max, "value")?;
            total += op.key.len() + value_bytes;
        }
        at_most(total, limits.batch_bytes_max, "batch")
    }

    fn commit(
        &self,
        inner: &mut Inner,
        batch: &WriteBatch<'_>,
        durability: Durability,
    ) -> Result<()> {
        self.check_limits(batch)?;
        if batch.has_ranges() {
            let doomed = inner.state.doomed(batch);
            let batch = batch.without_ranges(&doomed);
            return self.commit(inner, &batch, durability);
        }
        if let (Some(journal), false) = (&mut inner.journal, batch.is_empty()) {
            journal.append(batch)?;
        }
        for op in batch.ops() {
            self.counters.count(op);
            inner.state.apply(op);
        }
        if !batch.is_empty() {
            self.changes.record(inner.state.sequence, batch.ops());
        }
        match durability {
            Durability::Synced => self.sync_inner(inner),
            Durability::Buffered => Ok(()),
        }
    }

    fn commit_updates(
        &self,
        inner: &mut Inner,
        keys: &[&[u8]],
        updates: &[Update],
        durability: Durability,
    ) -> Result<()> {
        let mut batch = WriteBatch::new();
        for (key, update) in keys.iter().zip(updates) {
            if let Some(kind) = update.kind() {
                batch.push(Op { key, kind });
            }
        }
        match batch.is_empty() {
            true => Ok(()),
            false => self.commit(inner, &batch, durability),
        }
    }

    fn sync_inner(&self, inner: &mut Inner) -> Result<()> {
        add(&self.counters.syncs, 1);
        inner.journal.as_mut().map_or(Ok(()), Journal::sync)
    }
}

fn at_most(bytes: usize, max: usize, what: &str) -> Result<()> {
    if bytes <= max {
        return Ok(());
    }
    let message = format!("a {what} of {bytes} bytes is over the limit of {max}");
    Err(Error::new(ErrorKind::TooLarge, message))
}

/// Where `key` stands in the engine's order.
fn position(key: &[u8]) -> u64 {
    let mixed = key.iter().fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    (u64::from(checksum(key)) << 32 ^ mixed) >> 1
}

impl State {
    fn get(&self, key: &[u8]) -> Option<&Stored> {
        self.positions.get(&position(key))?.iter().find(|s| s.key == key)
    }

    fn live(&self, key: &[u8], now_ms: u64) -> Option<EntryRef<'_>> {
        self.get(key)?.live(now_ms)
    }

    fn clear(&mut self) {
        let sequence = self.sequence + 1;
        *self = State { sequence, cleared: sequence, ..State::default() };
    }

    fn apply(&mut self, op: &Op<'_>) {
        self.remove(op.key);
        self.copied = None;
        self.sequence += 1;
        self.written.insert(op.key.to_vec(), self.sequence);
        if let OpKind::Put(entry) = op.kind {
            self.entries += 1;
            self.live_bytes += (op.key.len() + entry.value.len()) as u64;
            self.positions.entry(position(op.key)).or_default().push(Stored {
                key: op.key.to_vec(),
                value: entry.value.to_vec(),
                expires_unix_ms: entry.expires_unix_ms,
                user_bits: entry.user_bits,
            });
        }
    }

    /// One record per entry.
    fn encode(&self) -> Vec<u8> {
        let mut log = Vec::new();
        for stored in self.positions.values().flatten() {
            let mut batch = WriteBatch::new();
            batch.put_entry(&stored.key, stored.entry());
            record::encode(&batch, &mut log);
        }
        log
    }

    fn remove(&mut self, key: &[u8]) {
        let position = position(key);
        let Some(list) = self.positions.get_mut(&position) else { return };
        if let Some(index) = list.iter().position(|s| s.key == key) {
            let old = list.swap_remove(index);
            self.entries -= 1;
            self.live_bytes -= (old.key.len() + old.value.len()) as u64;
        }
        if list.is_empty() {
            self.positions.remove(&position);
        }
    }
}

impl Counters {
    fn count(&self, op: &Op<'_>) {
        match op.kind {
            OpKind::Put(entry) => {
                add(&self.puts, 1);
                add(&self.user_bytes_written, (op.key.len() + entry.value.len()) as u64);
            }
            OpKind::Delete | OpKind::DeleteRange(_) => add(&self.deletes, 1),
        }
    }
}

fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

impl Reference {
    /// What `decide` makes of `keys` at a time at which all that it saw is still there.
    fn decided(
        &self,
        state: &State,
        keys: &[&[u8]],
        decide: &mut dyn FnMut(u64) -> Vec<Update>,
    ) -> Vec<Update> {
        loop {
            let now_ms = self.clock.unix_ms();
            let updates = decide(now_ms);
            let then_ms = self.clock.unix_ms();
            let is_there = |key: &&&[u8], at_ms: u64| state.live(key, at_ms).is_some();
            if keys.iter().all(|key| is_there(&key, now_ms) == is_there(&key, then_ms)) {
                return updates;
            }
        }
    }
}

impl Engine for Reference {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        let state = &self.read().state;
        let now_ms = self.clock.unix_ms();
        add(&self.counters.gets, keys.len() as u64);
        for (index, key) in keys.iter().enumerate() {
            if let Some(entry) = state.live(key, now_ms) {
                add(&self.counters.get_hits, 1);
                sink.found(index, entry);
            }
        }
        Ok(())
    }

    fn reports_in_order(&self) -> bool {
        true
    }

    fn write(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        self.commit(&mut self.write_lock(), batch, durability)
    }

    fn sync(&self) -> Result<()> {
        self.sync_inner(&mut self.write_lock())
    }

    fn maintain(&self, _budget: Budget) -> Result<Progress> {
        let mut inner = self.write_lock();
        let Inner { state, journal: Some(journal) } = &mut *inner else {
            return Ok(Progress::default());
        };
        if journal.len() < 4 * state.live_bytes + COMPACT_BYTES_MIN {
            return Ok(Progress::default());
        }
        let log = state.encode();
        let bytes = log.len() as u64;
        journal.replace(log)?;
        Ok(Progress { bytes, more: false })
    }

    fn metrics(&self, visitor: &mut dyn MetricVisitor) {
        let counters = &self.counters;
        for (name, counter) in [
            ("gets", &counters.gets),
            ("get_hits", &counters.get_hits),
            ("puts", &counters.puts),
            ("deletes", &counters.deletes),
            ("user_bytes_written", &counters.user_bytes_written),
            ("syncs", &counters.syncs),
        ] {
            visitor.metric(name, counter.load(Ordering::Relaxed) as f64);
        }
        let state = &self.read().state;
        visitor.metric("entries_estimate", state.entries as f64);
        visitor.metric("live_bytes", state.live_bytes as f64);
    }

    fn verify(&self) -> Result<()> {
        let state = &self.read().state;
        for (at, list) in &state.positions {
            if list.is_empty() || list.iter().any(|s| position(&s.key) != *at) {
                return Err(Error::corruption("position list", *at, "wrong key"));
            }
        }
        if state.positions.values().map(|l| l.len() as u64).sum::<u64>() != state.entries {
            return Err(Error::corruption("entry count", 0, state.entries));
        }
        Ok(())
    }

    fn as_scan(&self) -> Option<&dyn Scan> {
        Some(self)
    }

    fn as_ordered(self: Arc<Self>) -> Option<Arc<dyn Ordered>> {
        Some(self)
    }

    fn as_changes(self: Arc<Self>) -> Option<Arc<dyn Changes>> {
        Some(self)
    }

    fn as_atomic(&self) -> Option<&dyn Atomic> {
        Some(self)
    }

    fn as_admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}

impl Changes for Reference {
    fn begin(self: Arc<Self>) -> Result<(Arc<dyn Snapshot>, ChangePoint)> {
        self.changes.begin(&mut || Arc::clone(&self).snapshot())
    }

    fn now(&self) -> ChangePoint {
        self.changes.now()
    }

    fn read(
        &self,
        from: ChangePoint,
        bytes_max: usize,
        each: &mut dyn FnMut(ChangePoint, &WriteBatch<'_>),
    ) -> Result<ChangePoint> {
        self.changes.read(from, bytes_max, each)
    }
}

impl Scan for Reference {
    fn scan(
        &self,
        cursor: u64,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], EntryRef<'_>),
    ) -> Result<Option<u64>> {
        let state = &self.read().state;
        let now_ms = self.clock.unix_ms();
        let mut visited = 0;
        for (position, list) in state.positions.range(cursor..) {
            if visited >= limit.max(1) {
                return Ok(Some(*position));
            }
            for stored in list {
                if let Some(entry) = stored.live(now_ms) {
                    visit(&stored.key, entry);
                }
            }
            visited += list.len();
        }
        Ok(None)
    }

    fn cursor_of(&self, key: &[u8]) -> u64 {
        position(key)
    }
}

impl Atomic for Reference {
    fn update(
        &self,
        key: &[u8],
        durability: Durability,
        decide: &mut dyn FnMut(Option<EntryRef<'_>>) -> Update,
    ) -> Result<()> {
        self.update_all(&[key], durability, &mut |entries| vec![decide(entries[0])])
    }

    fn update_many(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(usize, Option<EntryRef<'_>>) -> Update,
    ) -> Result<usize> {
        let keys = &keys[..keys.len().min(UPDATES_MAX)];
        let mut inner = self.write_lock();
        let updates = self.decided(&inner.state, keys, &mut |now_ms| {
            let mut updates: Vec<Update> = Vec::new();
            for (index, key) in keys.iter().enumerate() {
                let earlier =
                    (0..index).rev().find(|i| keys[*i] == *key && updates[*i] != Update::Keep);
                let current = match earlier.map(|i| updates[i].kind()) {
                    None => inner.state.live(key, now_ms),
                    Some(Some(OpKind::Put(entry))) => Some(entry),
                    Some(_) => None,
                };
                let update = decide(index, current);
                updates.push(update);
            }
            updates
        });
        self.commit_updates(&mut inner, keys, &updates, durability)?;
        Ok(keys.len())
    }

    fn update_all(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
    ) -> Result<()> {
        let mut inner = self.write_lock();
        let updates = self.decided(&inner.state, keys, &mut |now_ms| {
            let entries = keys.iter().map(|key| inner.state.live(key, now_ms));
            decide(&entries.collect::<Vec<_>>())
        });
        self.commit_updates(&mut inner, keys, &updates, durability)
    }
}

impl Admin for Reference {
    fn count(&self, _exact: bool) -> Result<Count> {
        let (state, now_ms) = (&self.read().state, self.clock.unix_ms());
        let all = state.positions.values().flatten();
        let entries = all.filter(|stored| stored.live(now_ms).is_some()).count() as u64;
        Ok(Count { low: entries, estimate: entries, high: entries })
    }

    fn clear(&self) -> Result<()> {
        let mut inner = self.write_lock();
        if let Some(journal) = &mut inner.journal {
            journal.append_clear()?;
        }
        inner.state.clear();
        self.changes.begin_history(next_history(), inner.state.sequence);
        self.sync_inner(&mut inner)
    }

    fn checkpoint(&self, target: &mut dyn Checkpoint) -> Result<()> {
        let state = &self.read().state;
        target.piece("log", &state.encode())
    }

    fn inspect(&self) -> Result<String> {
        let state = &self.read().state;
        Ok(format!("entries: {}\nlive_bytes: {}\n", state.entries, state.live_bytes))
    }
}
