//! What stands in the place of the database's engine: reads go to the engine, writes to the log.
//!
//! A write holds the locks of its keys from before it reads until its effects are applied. The
//! leadership that it began in goes with the effects: if another leader was in between, they are
//! void. So nobody's write comes between what a command has read and what it writes.

use crate::core::Core;
use crate::database::Database;
use crate::effects::{encode, encode_op};
use crate::locks::{Held, Locks};
use crate::propose::Proposer;
use crate::types::Epoch;
use silica::engine::transaction::CommitTurns;
use silica::engine::{
    Admin, Atomic, Budget, Changes, Checkpoint, Count, Descriptor, Durability, Engine, EntryRef,
    Error, ErrorKind, GetSink, Intent, KeyRange, MetricVisitor, Near, Op, Ordered, Progress,
    RangeSize, Reads, Result, Scan, Snapshot, Stages, Update, WriteBatch,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of one batch at most: an entry of the log is a value of its keyspace.
const BATCH_BYTES_MAX: usize = 64 << 20;
/// Bytes of effects after which a burst of updates goes on later.
const UPDATES_BYTES_MAX: usize = 4 << 20;

/// The engine of a database that members agree about.
pub(crate) struct Agreed {
    pub(crate) core: Arc<Core>,
    pub(crate) database: Arc<Database>,
    pub(crate) proposer: Proposer,
    pub(crate) locks: Locks,
    pub(crate) descriptor: Descriptor,
}

/// An entry that was copied.
#[derive(Clone)]
struct Owned {
    value: Vec<u8>,
    expires_unix_ms: u64,
    user_bits: u32,
}

impl Owned {
    fn entry(&self) -> EntryRef<'_> {
        let Owned { value, expires_unix_ms, user_bits } = self;
        EntryRef { value, expires_unix_ms: *expires_unix_ms, user_bits: *user_bits }
    }
}

struct Collected(Vec<Option<Owned>>);

impl GetSink for Collected {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        let EntryRef { value, expires_unix_ms, user_bits } = entry;
        self.0[index] = Some(Owned { value: value.to_vec(), expires_unix_ms, user_bits });
    }
}

impl Agreed {
    pub(crate) fn new(core: Arc<Core>, database: Arc<Database>, proposer: Proposer) -> Self {
        let mut descriptor = *database.descriptor();
        let limits = &mut descriptor.limits;
        limits.batch_bytes_max = limits.batch_bytes_max.min(BATCH_BYTES_MAX);
        limits.value_bytes_max = limits.value_bytes_max.min(BATCH_BYTES_MAX / 2);
        Agreed { core, database, proposer, locks: Locks::default(), descriptor }
    }

    /// The leadership that a write begins in.
    fn begin(&self) -> Result<Epoch> {
        self.core.ready().ok_or_else(|| {
            Error::new(ErrorKind::Busy, "this member does not lead; nothing was written")
        })
    }

    fn lock(&self, batch: &WriteBatch<'_>) -> Held<'_> {
        match batch.has_ranges() {
            true => self.locks.hold_all(),
            false => self.locks.hold(batch.ops().iter().map(|op| op.key)),
        }
    }

    fn read(&self, keys: &[&[u8]]) -> Result<Vec<Option<Owned>>> {
        let mut found = Collected(vec![None; keys.len()]);
        self.database.engine().get_many(keys, &mut found)?;
        Ok(found.0)
    }
}

impl Engine for Agreed {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        self.database.engine().get_many(keys, sink)
    }

    fn get_many_with(&self, keys: &[&[u8]], intent: Intent, sink: &mut dyn GetSink) -> Result<()> {
        self.database.engine().get_many_with(keys, intent, sink)
    }

    fn get_many_at_hand(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        left: &mut Vec<usize>,
    ) -> Result<()> {
        self.database.engine().get_many_at_hand(keys, sink, left)
    }

    fn get_many_staged(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        stages: &mut Stages<'_>,
    ) -> Result<()> {
        self.database.engine().get_many_staged(keys, sink, stages)
    }

    fn reports_in_order(&self) -> bool {
        self.database.engine().reports_in_order()
    }

    fn write(&self, batch: &WriteBatch<'_>, _: Durability) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let _held = self.lock(batch);
        self.proposer.propose(self.begin()?, encode(batch))
    }

    fn sync(&self) -> Result<()> {
        // What is acknowledged is in the logs of a majority.
        Ok(())
    }

    fn maintain(&self, budget: Budget) -> Result<Progress> {
        self.database.engine().maintain(budget)
    }

    fn metrics(&self, visitor: &mut dyn MetricVisitor) {
        self.database.engine().metrics(visitor);
    }

    fn verify(&self) -> Result<()> {
        self.database.engine().verify()
    }

    fn as_scan(&self) -> Option<&dyn Scan> {
        self.database.engine().as_scan().map(|_| self as &dyn Scan)
    }

    fn as_ordered(self: Arc<Self>) -> Option<Arc<dyn Ordered>> {
        let (generation, engine) = self.database.generation();
        let ordered = engine.as_ordered()?;
        Some(Arc::new(AgreedOrdered { agreed: self, generation, ordered }))
    }

    fn as_changes(self: Arc<Self>) -> Option<Arc<dyn Changes>> {
        self.database.engine().as_changes()
    }

    fn as_atomic(&self) -> Option<&dyn Atomic> {
        Some(self)
    }

    fn as_admin(&self) -> Option<&dyn Admin> {
        self.database.engine().as_admin().map(|_| self as &dyn Admin)
    }
}

fn lacks(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("the engine has no {what}"))
}

impl Scan for Agreed {
    fn scan(
        &self,
        cursor: u64,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], EntryRef<'_>),
    ) -> Result<Option<u64>> {
        let engine = self.database.engine();
        engine.as_scan().ok_or_else(|| lacks("scans"))?.scan(cursor, limit, visit)
    }

    fn cursor_of(&self, key: &[u8]) -> u64 {
        self.database.engine().as_scan().map_or(0, |scan| scan.cursor_of(key))
    }
}

impl Atomic for Agreed {
    fn update(
        &self,
        key: &[u8],
        durability: Durability,
        decide: &mut dyn FnMut(Option<EntryRef<'_>>) -> Update,
    ) -> Result<()> {
        self.update_many(&[key], durability, &mut |_, current| decide(current)).map(drop)
    }

    fn update_many(
        &self,
        keys: &[&[u8]],
        _: Durability,
        decide: &mut dyn FnMut(usize, Option<EntryRef<'_>>) -> Update,
    ) -> Result<usize> {
        let _held = self.locks.hold(keys.iter().copied());
        let epoch = self.begin()?;
        let mut entries = self.read(keys)?;
        // Where each key stands first: what it holds later is kept there.
        let mut places: HashMap<&[u8], usize> = HashMap::with_capacity(keys.len());
        let (mut effects, mut done) = (Vec::new(), 0);
        for (index, key) in keys.iter().enumerate() {
            let place = *places.entry(key).or_insert(index);
            let update = decide(index, entries[place].as_ref().map(Owned::entry));
            if let Some(kind) = update.kind() {
                encode_op(&Op { key, kind }, &mut effects);
            }
            match update {
                Update::Keep => {}
                Update::Delete => entries[place] = None,
                Update::Put { value, expires_unix_ms, user_bits } => {
                    entries[place] = Some(Owned { value, expires_unix_ms, user_bits });
                }
            }
            done = index + 1;
            if effects.len() > UPDATES_BYTES_MAX {
                break;
            }
        }
        if !effects.is_empty() {
            self.proposer.propose(epoch, effects)?;
        }
        Ok(done)
    }

    fn update_all(
        &self,
        keys: &[&[u8]],
        _: Durability,
        decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
    ) -> Result<()> {
        let _held = self.locks.hold(keys.iter().copied());
        let epoch = self.begin()?;
        let entries = self.read(keys)?;
        let entries: Vec<Option<EntryRef<'_>>> =
            entries.iter().map(|entry| entry.as_ref().map(Owned::entry)).collect();
        let updates = decide(&entries);
        let mut effects = Vec::new();
        for (key, update) in keys.iter().zip(&updates) {
            if let Some(kind) = update.kind() {
                encode_op(&Op { key, kind }, &mut effects);
            }
        }
        match effects.is_empty() {
            true => Ok(()),
            false => self.proposer.propose(epoch, effects),
        }
    }
}

impl Admin for Agreed {
    fn count(&self, exact: bool) -> Result<Count> {
        let engine = self.database.engine();
        engine.as_admin().ok_or_else(|| lacks("whole-store operations"))?.count(exact)
    }

    fn estimate(&self) -> Result<Count> {
        let engine = self.database.engine();
        engine.as_admin().ok_or_else(|| lacks("whole-store operations"))?.estimate()
    }

    fn clear(&self) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete_range(b"", None);
        self.write(&batch, Durability::Synced)
    }

    fn checkpoint(&self, target: &mut dyn Checkpoint) -> Result<()> {
        let engine = self.database.engine();
        engine.as_admin().ok_or_else(|| lacks("whole-store operations"))?.checkpoint(target)
    }

    fn set_memory_bytes(&self, bytes: u64) {
        let engine = self.database.engine();
        engine.as_admin().into_iter().for_each(|admin| admin.set_memory_bytes(bytes));
    }

    fn inspect(&self) -> Result<String> {
        let engine = self.database.engine();
        engine.as_admin().ok_or_else(|| lacks("whole-store operations"))?.inspect()
    }
}

/// The ordered view: snapshots are the engine's own, of one generation.
struct AgreedOrdered {
    agreed: Arc<Agreed>,
    generation: u64,
    ordered: Arc<dyn Ordered>,
}

impl Ordered for AgreedOrdered {
    fn snapshot(self: Arc<Self>) -> Result<Arc<dyn Snapshot>> {
        Arc::clone(&self.ordered).snapshot()
    }

    fn delete_range(&self, range: &KeyRange, durability: Durability) -> Result<()> {
        let (lower, upper) = range.half_open();
        let mut batch = WriteBatch::new();
        batch.delete_range(&lower, upper.as_deref());
        self.agreed.write(&batch, durability)
    }

    fn commit(
        &self,
        snapshot: &dyn Snapshot,
        reads: Reads<'_>,
        batch: &WriteBatch<'_>,
        _: Durability,
    ) -> Result<bool> {
        let agreed = &self.agreed;
        let keys = batch.ops().iter().map(|op| op.key).chain(reads.keys.iter().copied());
        let _held = match batch.has_ranges() || !reads.ranges.is_empty() {
            true => agreed.locks.hold_all(),
            false => agreed.locks.hold(keys),
        };
        let epoch = agreed.begin()?;
        if agreed.database.generation().0 != self.generation {
            return Ok(false);
        }
        // Nobody writes these keys meanwhile: what holds now holds when the batch is applied.
        if !self.ordered.commit(snapshot, reads, &WriteBatch::new(), Durability::Buffered)? {
            return Ok(false);
        }
        if !batch.is_empty() {
            agreed.proposer.propose(epoch, encode(batch))?;
        }
        Ok(true)
    }

    fn commit_turns(&self) -> &Arc<CommitTurns> {
        self.ordered.commit_turns()
    }

    fn sync_commits(&self) -> Result<()> {
        Ok(())
    }

    fn range_size(&self, range: &KeyRange) -> RangeSize {
        self.ordered.range_size(range)
    }

    fn near(&self, random: u64) -> Option<Near> {
        self.ordered.near(random)
    }

    fn compact_range(&self, range: &KeyRange) -> Result<()> {
        self.ordered.compact_range(range)
    }
}
