//! Engines that are broken on purpose, one bug each: what the suite must catch.

use crate::{DeviceHarness, Fault, Harness, Image, Reference, ReferenceHarness, Workload};
use silica_engine::transaction::CommitTurns;
use silica_engine::{
    Admin, Atomic, ChangePoint, Changes, Checkpoint, Count, Descriptor, Durability, Engine,
    EngineExt, EntryIter, EntryRef, Error, ErrorKind, Expected, GetSink, KeyRange, Layer,
    MetricVisitor, Op, OpKind, Ordered, RangeSize, Reads, Result, Scan, Snapshot, Stage,
    StageWatch, Stages, Update, WriteBatch,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Bug {
    /// Acknowledges some writes without doing them.
    DropsWrites,
    /// Now and then reports the value found before.
    SwapsValues,
    /// Does only the first half of a batch.
    HalvesBatches,
    /// Writes a batch as two.
    SplitsBatches,
    /// Does not sync synced writes.
    AcknowledgesEarly,
    /// Does not sync in `sync`.
    SkipsSyncs,
    /// Loses a key when it is opened.
    Forgets,
    /// Reports a failed sync as success.
    HidesFailedSyncs,
    /// Acknowledges writes after a failed sync.
    IgnoresPoison,
    /// Reports everything as `Io`.
    BlursErrors,
    /// Acknowledges writes for which there is no space.
    HidesFull,
    /// Leaves some entries out of scans.
    SkipsInScans,
    /// Visits an entry that nobody wrote.
    InventsInScans,
    /// Now and then reports what was there before the last write.
    ReadsStale,
    /// Now and then acknowledges a write and does it before the next one.
    AnswersEarly,
    /// Now and then does the put before a delete once more after it.
    RepeatsPuts,
    /// Now and then reports the beginning of a value and the rest of the one before it.
    TearsValues,
    /// Reads and writes in an update as two steps.
    TearsUpdates,
    /// Shows a burst's repeated keys as they were before the burst.
    ForgetsRepeats,
    /// Makes several steps of an update of several keys.
    SplitsUpdates,
    /// No bug: a cache, which now and then drops what it is asked to put, and counts it.
    Evicts,
    /// A cache that drops some of what it is asked to put without counting all of it.
    EvictsInSilence,
    /// A cache that finds again what it dropped and counted.
    Resurrects,
    /// Forgets expiry and user bits.
    LosesMeta,
    /// Counts one entry too many.
    Miscounts,
    /// Does nothing on `clear`.
    IgnoresClear,
    /// Panics when it finds damage.
    PanicsOnDamage,
    /// Is empty instead of damaged.
    StartsAfresh,
    /// Loses out of snapshots what expires while they are held.
    AgesSnapshots,
    /// Commits what was decided by entries that have expired.
    CommitsExpired,
    /// Commits although a range that was read has changed.
    IgnoresRanges,
    /// Leaves what a batch does out of the stream of changes now and then.
    SkipsChanges,
    /// Lets readers of its changes go on whatever survived.
    ForgetsHistories,
    /// Does not delete what a batch put before it deletes a range.
    SparesBatches,
    /// Makes a batch visible one operation after the other, the last one first.
    PublishesBackwards,
    /// Makes a batch visible one operation after the other, and says at once that all are.
    NeverSettles,
    /// Writes whatever is expected.
    ExpectsNothing,
}

pub(super) struct BrokenHarness {
    pub(super) inner: ReferenceHarness,
    bug: Bug,
}

impl BrokenHarness {
    pub(super) fn new(bug: Bug) -> Self {
        BrokenHarness { inner: ReferenceHarness::default(), bug }
    }
}

pub(super) struct Broken {
    inner: Arc<Reference>,
    bug: Bug,
    calls: AtomicU64,
    former: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    last: Mutex<Vec<u8>>,
    late: Mutex<Option<(Vec<u8>, Vec<u8>)>>,
    descriptor: Descriptor,
    evictions: AtomicU64,
    turns: Arc<CommitTurns>,
}

impl Harness for BrokenHarness {
    type Engine = Broken;

    fn open(&mut self) -> Result<Broken> {
        let opened = match (self.bug, self.inner.open()) {
            (Bug::PanicsOnDamage, Err(e)) if e.kind() == ErrorKind::Corruption => panic!("{e}"),
            (Bug::StartsAfresh, Err(e)) if e.kind() == ErrorKind::Corruption => {
                self.inner.wipe();
                self.inner.open()
            }
            (_, opened) => opened,
        };
        let (inner, calls) = (Arc::new(opened?), AtomicU64::new(0));
        if self.bug == Bug::Forgets {
            inner.delete(&3_u32.to_le_bytes(), Durability::Synced)?;
            inner.delete(b"", Durability::Synced)?;
        }
        let (former, last, bug) = (Mutex::default(), Mutex::default(), self.bug);
        let late = Mutex::default();
        let mut descriptor = *inner.descriptor();
        if matches!(bug, Bug::Evicts | Bug::EvictsInSilence | Bug::Resurrects) {
            descriptor.capabilities.may_evict = true;
        }
        let evictions = AtomicU64::new(0);
        Ok(Broken {
            inner,
            bug,
            calls,
            former,
            last,
            late,
            descriptor,
            evictions,
            turns: Arc::default(),
        })
    }

    fn wipe(&mut self) {
        self.inner.wipe();
    }

    fn workload(&self) -> Workload {
        self.inner.workload()
    }
}

impl DeviceHarness for BrokenHarness {
    fn power_cut(&mut self, seed: u64) {
        self.inner.power_cut(seed);
    }
    fn op_count(&self) -> u64 {
        self.inner.op_count()
    }
    fn cut_at_op(&mut self, op: u64) {
        self.inner.cut_at_op(op);
    }
    fn power_is_off(&self) -> bool {
        self.inner.power_is_off()
    }
    fn fail_at(&mut self, fault: Fault, nth: u64) {
        self.inner.fail_at(fault, nth);
    }
    fn fault_is_pending(&self) -> bool {
        self.inner.fault_is_pending()
    }
    fn clear_faults(&mut self) {
        self.inner.clear_faults();
    }
    fn set_capacity(&mut self, bytes: Option<u64>) {
        self.inner.set_capacity(bytes);
    }
    fn image(&self) -> Image {
        self.inner.image()
    }
    fn restore(&mut self, image: &Image) {
        self.inner.restore(image);
    }
}

impl Broken {
    /// True once in `n` calls.
    fn every(&self, n: u64) -> bool {
        self.calls.fetch_add(1, Ordering::Relaxed) % n == n - 1
    }

    fn remember_former(&self, batch: &WriteBatch<'_>) -> Result<()> {
        for op in batch.ops() {
            let value = self.inner.get(op.key)?.unwrap_or_default();
            self.former.lock().unwrap().insert(op.key.to_vec(), value);
        }
        Ok(())
    }

    /// Writes and now and then drops what was written. [`Bug::Resurrects`] brings back what it
    /// dropped before that.
    fn write_and_evict(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        self.inner.write(batch, durability)?;
        let Some(op) = batch.ops().first().filter(|_| self.every(50)) else { return Ok(()) };
        let Some(value) = self.inner.get(op.key)? else { return Ok(()) };
        self.inner.delete(op.key, durability)?;
        if self.bug != Bug::EvictsInSilence || self.every(2) {
            self.evictions.fetch_add(1, Ordering::Relaxed);
        }
        if self.bug == Bug::Resurrects {
            let lost = self.former.lock().unwrap().insert(Vec::new(), op.key.to_vec());
            let mut last = self.last.lock().unwrap();
            let old = std::mem::replace(&mut *last, value);
            if let Some(key) = lost.filter(|key| key != op.key) {
                self.inner.put(&key, &old, durability)?;
            }
        }
        Ok(())
    }

    /// Does the put that waits, and lets one of many puts wait.
    fn write_late(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        let mut late = self.late.lock().unwrap();
        if let Some((key, value)) = late.take() {
            self.inner.put(&key, &value, durability)?;
        }
        match batch.ops() {
            [Op { key, kind: OpKind::Put(entry) }] if self.every(20) => {
                *late = Some((key.to_vec(), entry.value.to_vec()));
                Ok(())
            }
            _ => self.inner.write(batch, durability),
        }
    }

    fn write_again(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        self.inner.write(batch, durability)?;
        let mut former = self.former.lock().unwrap();
        for op in batch.ops() {
            match op.kind {
                OpKind::Put(entry) => drop(former.insert(op.key.to_vec(), entry.value.to_vec())),
                OpKind::Delete if self.every(10) => {
                    let Some(value) = former.get(op.key) else { continue };
                    self.inner.put(op.key, value, durability)?;
                }
                OpKind::Delete | OpKind::DeleteRange(_) => {}
            }
        }
        Ok(())
    }

    fn write_in_pieces(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        let half = batch.len().div_ceil(2);
        let without_meta = |entry: EntryRef<'_>| entry.expires_unix_ms == 0 && entry.user_bits == 0;
        let mut pieces = [WriteBatch::new(), WriteBatch::new()];
        for (index, op) in batch.ops().iter().enumerate() {
            let piece = &mut pieces[usize::from(self.bug != Bug::LosesMeta && index >= half)];
            match op.kind {
                OpKind::Delete => piece.delete(op.key),
                OpKind::DeleteRange(upper) => piece.delete_range(op.key, upper),
                OpKind::Put(entry) if self.bug == Bug::LosesMeta && !without_meta(entry) => {
                    piece.put(op.key, entry.value)
                }
                OpKind::Put(entry) => piece.put_entry(op.key, entry),
            };
        }
        self.inner.write(&pieces[0], durability)?;
        if self.bug != Bug::HalvesBatches {
            std::thread::yield_now();
            self.inner.write(&pieces[1], durability)?;
        }
        Ok(())
    }
}

/// The batch with its deletes of ranges before all that it puts.
fn ranges_first<'a>(batch: &WriteBatch<'a>) -> WriteBatch<'a> {
    let mut first = WriteBatch::new();
    for is_range in [true, false] {
        for op in batch.ops() {
            if matches!(op.kind, OpKind::DeleteRange(_)) == is_range {
                first.push(*op);
            }
        }
    }
    first
}

fn hide(result: Result<()>, kind: ErrorKind) -> Result<()> {
    result.or_else(|e| if e.kind() == kind { Ok(()) } else { Err(e) })
}

fn blur(result: Result<()>) -> Result<()> {
    result.map_err(|e| Error::new(ErrorKind::Io, e.to_string()))
}

struct Sink<'a> {
    broken: &'a Broken,
    sink: &'a mut dyn GetSink,
}

impl GetSink for Sink<'_> {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        let last = self.broken.last.lock();
        let mut last = last.unwrap_or_else(PoisonError::into_inner);
        if self.broken.every(100) {
            self.sink.found(index, EntryRef { value: &last, ..entry });
        } else {
            self.sink.found(index, entry);
        }
        *last = entry.value.to_vec();
    }
}

struct TornSink<'a> {
    broken: &'a Broken,
    keys: &'a [&'a [u8]],
    sink: &'a mut dyn GetSink,
}

impl GetSink for TornSink<'_> {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        let former = self.broken.former.lock().unwrap();
        let rest = former.get(self.keys[index]).map_or(&b""[..], |former| {
            let torn = entry.value.len() / 2;
            &former[torn.min(former.len())..]
        });
        let value = [&entry.value[..entry.value.len() / 2], rest].concat();
        self.sink.found(index, EntryRef { value: &value, ..entry });
    }
}

impl Layer for Broken {
    type Inner = Reference;

    fn inner(&self) -> &Arc<Reference> {
        &self.inner
    }

    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        match self.bug {
            Bug::SwapsValues => self.inner.get_many(keys, &mut Sink { broken: self, sink }),
            Bug::TearsValues if self.every(10) => {
                self.inner.get_many(keys, &mut TornSink { broken: self, keys, sink })
            }
            Bug::ReadsStale if self.every(10) => {
                let former = self.former.lock().unwrap();
                for (index, key) in keys.iter().enumerate() {
                    if let Some(value) = former.get(*key).filter(|value| !value.is_empty()) {
                        sink.found(index, EntryRef::new(value));
                    }
                }
                Ok(())
            }
            _ => self.inner.get_many(keys, sink),
        }
    }

    fn get_many_staged(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        stages: &mut Stages<'_>,
    ) -> Result<()> {
        stages.enter(Stage::Other);
        Layer::get_many(self, keys, sink)
    }

    fn write(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        match self.bug {
            Bug::DropsWrites if self.every(50) => Ok(()),
            Bug::HalvesBatches | Bug::SplitsBatches | Bug::LosesMeta => {
                self.write_in_pieces(batch, durability)
            }
            Bug::Evicts | Bug::EvictsInSilence | Bug::Resurrects => {
                self.write_and_evict(batch, durability)
            }
            Bug::AcknowledgesEarly => self.inner.write(batch, Durability::Buffered),
            Bug::HidesFailedSyncs if durability == Durability::Synced => {
                self.inner.write(batch, Durability::Buffered)?;
                Layer::sync(self)
            }
            Bug::IgnoresPoison => hide(self.inner.write(batch, durability), ErrorKind::Poisoned),
            Bug::HidesFull => hide(self.inner.write(batch, durability), ErrorKind::Full),
            Bug::BlursErrors => blur(self.inner.write(batch, durability)),
            Bug::ReadsStale | Bug::TearsValues => {
                self.remember_former(batch)?;
                self.inner.write(batch, durability)
            }
            Bug::AnswersEarly => self.write_late(batch, durability),
            Bug::SparesBatches => self.inner.write(&ranges_first(batch), durability),
            Bug::RepeatsPuts => self.write_again(batch, durability),
            _ => self.inner.write(batch, durability),
        }
    }

    fn write_each(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        Layer::write(self, batch, durability)
    }

    fn sync(&self) -> Result<()> {
        match self.bug {
            Bug::SkipsSyncs => Ok(()),
            Bug::HidesFailedSyncs => hide(self.inner.sync(), ErrorKind::Io),
            _ => self.inner.sync(),
        }
    }

    fn metrics(&self, visitor: &mut dyn MetricVisitor) {
        self.inner.metrics(visitor);
        visitor.metric("evictions", self.evictions.load(Ordering::Relaxed) as f64);
    }

    fn as_scan(&self) -> Option<&dyn Scan> {
        Some(self)
    }

    fn as_changes(self: Arc<Self>) -> Option<Arc<dyn Changes>> {
        match self.bug {
            Bug::SkipsChanges | Bug::ForgetsHistories => Some(self),
            _ => Arc::clone(&self.inner).as_changes(),
        }
    }

    fn as_ordered(self: Arc<Self>) -> Option<Arc<dyn Ordered>> {
        Some(self)
    }

    fn as_atomic(&self) -> Option<&dyn Atomic> {
        Some(self)
    }

    fn as_admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}

impl Scan for Broken {
    fn scan(
        &self,
        cursor: u64,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], EntryRef<'_>),
    ) -> Result<Option<u64>> {
        self.inner.scan(cursor, limit, &mut |key, entry| {
            if self.bug == Bug::InventsInScans && self.every(100) {
                visit(b"nobody wrote this", entry);
            }
            if self.bug != Bug::SkipsInScans || !self.every(100) {
                visit(key, entry);
            }
        })
    }

    fn cursor_of(&self, key: &[u8]) -> u64 {
        self.inner.cursor_of(key)
    }
}

impl Atomic for Broken {
    fn update(
        &self,
        key: &[u8],
        durability: Durability,
        decide: &mut dyn FnMut(Option<EntryRef<'_>>) -> Update,
    ) -> Result<()> {
        if self.bug != Bug::TearsUpdates {
            return self.inner.update(key, durability, decide);
        }
        let current = self.inner.get(key)?;
        let decision = decide(current.as_deref().map(EntryRef::new));
        std::thread::yield_now();
        self.inner.update(key, durability, &mut |_| decision.clone())
    }

    fn update_many(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(usize, Option<EntryRef<'_>>) -> Update,
    ) -> Result<usize> {
        let Some(key) = keys.first() else { return Ok(0) };
        if self.bug != Bug::ForgetsRepeats || keys.len() < 2 {
            self.update(key, durability, &mut |current| decide(0, current))?;
            return Ok(1);
        }
        // Everything is read first, so that a repeated key does not see its earlier update.
        let entries: Vec<_> = keys.iter().map(|key| self.inner.get(key)).collect::<Result<_>>()?;
        for (index, (key, entry)) in keys.iter().zip(entries).enumerate() {
            let update = decide(index, entry.as_deref().map(EntryRef::new));
            self.inner.update(key, durability, &mut |_| update.clone())?;
        }
        Ok(keys.len())
    }

    fn update_all(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
    ) -> Result<()> {
        if self.bug != Bug::SplitsUpdates {
            return self.inner.update_all(keys, durability, decide);
        }
        let mut updates = Vec::new();
        self.inner.update_all(keys, durability, &mut |entries| {
            updates = decide(entries);
            vec![Update::Keep; entries.len()]
        })?;
        for (key, update) in keys.iter().zip(&updates) {
            std::thread::yield_now();
            self.inner.update(key, durability, &mut |_| update.clone())?;
        }
        Ok(())
    }

    fn write_expecting(
        &self,
        expected: &[Expected<'_>],
        ops: &[Op<'_>],
        durability: Durability,
    ) -> Result<bool> {
        let is_backwards = self.bug == Bug::PublishesBackwards;
        match self.bug {
            Bug::ExpectsNothing => return self.inner.write_expecting(&[], ops, durability),
            Bug::PublishesBackwards | Bug::NeverSettles => {}
            _ => return self.inner.write_expecting(expected, ops, durability),
        }
        let turn = self.last.lock().unwrap();
        if !self.inner.write_expecting(expected, &[], durability)? {
            return Ok(false);
        }
        let mut ops = ops.to_vec();
        if is_backwards {
            ops.reverse();
        }
        for op in ops {
            std::thread::yield_now();
            self.inner.write_expecting(&[], &[op], durability)?;
        }
        drop(turn);
        Ok(true)
    }

    fn order_epoch(&self) -> Option<u64> {
        matches!(self.bug, Bug::PublishesBackwards | Bug::NeverSettles).then_some(0)
    }

    fn settle(&self) {
        if self.bug == Bug::PublishesBackwards {
            drop(self.last.lock().unwrap());
        }
    }
}

impl Admin for Broken {
    fn count(&self, exact: bool) -> Result<Count> {
        let mut count = self.inner.count(exact)?;
        count.estimate += u64::from(self.bug == Bug::Miscounts);
        Ok(count)
    }

    fn clear(&self) -> Result<()> {
        if self.bug == Bug::IgnoresClear { Ok(()) } else { Admin::clear(&*self.inner) }
    }

    fn checkpoint(&self, target: &mut dyn Checkpoint) -> Result<()> {
        self.inner.checkpoint(target)
    }

    fn inspect(&self) -> Result<String> {
        self.inner.inspect()
    }
}

impl Broken {
    fn ordered(&self) -> Arc<dyn Ordered> {
        Arc::clone(&self.inner).as_ordered().expect("the reference keeps an order")
    }
}

/// A snapshot that has the time of each call: a new one each time, where nobody writes.
struct Ageing(Arc<Broken>, Arc<dyn Snapshot>);

impl Ageing {
    fn now(&self) -> Result<Arc<dyn Snapshot>> {
        self.0.ordered().snapshot()
    }
}

impl Snapshot for Ageing {
    fn sequence(&self) -> u64 {
        self.1.sequence()
    }

    fn unix_ms(&self) -> u64 {
        self.1.unix_ms()
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        self.now()?.get_many(keys, sink)
    }

    fn iterate(self: Arc<Self>, range: &KeyRange) -> Result<Box<dyn EntryIter>> {
        self.now()?.iterate(range)
    }
}

impl Changes for Broken {
    fn begin(self: Arc<Self>) -> Result<(Arc<dyn Snapshot>, ChangePoint)> {
        Changes::begin(Arc::clone(&self.inner))
    }

    fn now(&self) -> ChangePoint {
        Changes::now(&*self.inner)
    }

    fn read(
        &self,
        from: ChangePoint,
        bytes_max: usize,
        each: &mut dyn FnMut(ChangePoint, &WriteBatch<'_>),
    ) -> Result<ChangePoint> {
        if self.bug == Bug::ForgetsHistories {
            let from = ChangePoint { sequence: from.sequence, ..Changes::now(&*self.inner) };
            return Changes::read(&*self.inner, from, bytes_max, each);
        }
        Changes::read(&*self.inner, from, bytes_max, &mut |point, batch| {
            let nothing = WriteBatch::new();
            // So many that not all of them are written over by the end.
            each(point, if self.every(4) { &nothing } else { batch });
        })
    }
}

impl Ordered for Broken {
    fn snapshot(self: Arc<Self>) -> Result<Arc<dyn Snapshot>> {
        let snapshot = self.ordered().snapshot()?;
        Ok(match self.bug {
            Bug::AgesSnapshots => Arc::new(Ageing(self, snapshot)),
            _ => snapshot,
        })
    }

    fn delete_range(&self, range: &KeyRange, durability: Durability) -> Result<()> {
        self.ordered().delete_range(range, durability)
    }

    fn commit(
        &self,
        snapshot: &dyn Snapshot,
        reads: Reads<'_>,
        batch: &WriteBatch<'_>,
        durability: Durability,
    ) -> Result<bool> {
        let reads = match self.bug {
            Bug::CommitsExpired => Reads { expires_unix_ms: 0, ..reads },
            Bug::IgnoresRanges => Reads { ranges: &[], ..reads },
            _ => reads,
        };
        match self.bug {
            Bug::SparesBatches => {
                self.ordered().commit(snapshot, reads, &ranges_first(batch), durability)
            }
            _ => self.ordered().commit(snapshot, reads, batch, durability),
        }
    }

    fn commit_turns(&self) -> &Arc<CommitTurns> {
        &self.turns
    }

    fn sync_commits(&self) -> Result<()> {
        self.ordered().sync_commits()
    }

    fn range_size(&self, range: &KeyRange) -> RangeSize {
        self.ordered().range_size(range)
    }

    fn compact_range(&self, range: &KeyRange) -> Result<()> {
        self.ordered().compact_range(range)
    }
}
