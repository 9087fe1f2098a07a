//! The engine trait.

use crate::{
    Admin, Atomic, Changes, EntryRef, Intent, MetricVisitor, Ordered, Scan, Sharded, Stage,
    StageWatch, Stages, WriteBatch,
};
use silica_base::Result;
use std::sync::Arc;

/// How long a write must survive when its call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Survives the death of the process, not a power cut.
    Buffered,
    /// Survives both; concurrent writers share one sync (group commit).
    #[default]
    Synced,
}

/// Which views an engine offers and how it behaves; for choosing and for showing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// Acknowledged writes survive as [`Durability`] says.
    pub durable: bool,
    /// [`Durability::Synced`] is there. Where an engine that is durable lacks it, its medium does
    /// not survive a power cut, and it refuses such writes.
    pub synced: bool,
    /// A clean close leaves everything for the next opening: so do all engines that are durable,
    /// and one in memory that writes an image ([`crate::Admin::close`]).
    pub kept_at_close: bool,
    /// A call may wait for a device, so an event loop must not make it itself.
    pub may_wait: bool,
    /// `as_scan` is there.
    pub scan: bool,
    /// `as_ordered` is there.
    pub ordered: bool,
    /// `as_atomic` is there.
    pub atomic: bool,
    /// `as_admin` is there.
    pub admin: bool,
    /// Entries may go without anybody having removed them, each counted by the metric
    /// `evictions`: a cache.
    pub may_evict: bool,
}

impl Capabilities {
    /// What a write survives of which nobody said what it must survive: as much as the engine can
    /// give.
    pub fn usual_durability(&self) -> Durability {
        if self.durable && !self.synced { Durability::Buffered } else { Durability::Synced }
    }
}

/// The largest things an engine accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a key; shorter ones, the empty key included, are fine.
    pub key_bytes_max: usize,
    /// Bytes of a value.
    pub value_bytes_max: usize,
    /// Bytes of keys and small values in one batch.
    pub batch_bytes_max: usize,
}

/// What an engine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// The name it is registered under.
    pub name: &'static str,
    /// What it offers.
    pub capabilities: Capabilities,
    /// What it accepts.
    pub limits: Limits,
}

/// Work that one `maintain` call may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Bytes read and written, roughly; a call always makes some progress.
    pub bytes: u64,
    /// Nothing else is likely to be done soon: so also what pays only in quiet times.
    pub is_idle: bool,
}

impl Budget {
    /// So many bytes of all that there is to do.
    pub const fn of(bytes: u64) -> Self {
        Budget { bytes, is_idle: true }
    }

    /// So many bytes while users are at work: what pays only in quiet times is left.
    pub const fn amid_work(bytes: u64) -> Self {
        Budget { bytes, is_idle: false }
    }
}

/// What a `maintain` call did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Bytes read and written.
    pub bytes: u64,
    /// True where more work is waiting right now.
    pub more: bool,
}

/// Receives the results of [`Engine::get_many`].
pub trait GetSink {
    /// The key at `index` has this entry, borrowed during the call. Called at most once per
    /// index, in any order; keys never reported are not in the store.
    fn found(&mut self, index: usize, entry: EntryRef<'_>);

    /// True if the value of the key at `index`, of `bytes` bytes, is wanted. Engines ask before
    /// they read a large value into memory of their own; a value that is not wanted is neither
    /// read nor reported. So a sink bounds the memory of a read by what it has room for.
    fn wants(&mut self, index: usize, bytes: usize) -> bool {
        let _ = (index, bytes);
        true
    }
}

/// A key-value engine.
pub trait Engine: Send + Sync {
    /// Name, capabilities and limits.
    fn descriptor(&self) -> &Descriptor;

    /// Looks up all `keys` as one burst and reports those found.
    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()>;

    /// As [`Engine::get_many`], for what is read not by a user who waits.
    fn get_many_with(&self, keys: &[&[u8]], _intent: Intent, sink: &mut dyn GetSink) -> Result<()> {
        self.get_many(keys, sink)
    }

    /// As [`Engine::get_many`], as far as memory has the answers: the index of each key that a
    /// device would have to be asked for goes to the end of `left`, and nothing is waited for.
    ///
    /// For threads that may not wait, such as event loops; others ask again for what is left.
    fn get_many_at_hand(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        left: &mut Vec<usize>,
    ) -> Result<()> {
        if self.descriptor().capabilities.may_wait {
            left.extend(0..keys.len());
            return Ok(());
        }
        self.get_many(keys, sink)
    }

    /// [`Engine::get_many`], telling `stages` where the time goes. Takes longer: it is for those
    /// who look for what is slow. An engine that does not tell its stages apart is one, `Other`.
    fn get_many_staged(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        stages: &mut Stages<'_>,
    ) -> Result<()> {
        stages.enter(Stage::Other);
        self.get_many(keys, sink)
    }

    /// True where [`Engine::get_many`] always reports in the order of the keys: a key that comes
    /// before one that is reported, and was not reported itself, is not in the store.
    fn reports_in_order(&self) -> bool {
        false
    }

    /// Applies `batch` atomically. When it returns, the batch is visible to every reader and as
    /// durable as asked. On an error nothing of the batch is acknowledged; after a failed sync
    /// the engine refuses further writes with `Poisoned`.
    fn write(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()>;

    /// Applies the operations of `batch` as [`Engine::write`] does, but each by itself: others may
    /// see some of them before the rest, and where it fails some may have happened. Those of one
    /// key keep their order.
    fn write_each(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        self.write(batch, durability)
    }

    /// Makes every write that returned before the call survive a power cut. Refused as a synced
    /// write is where the engine is durable and [`Capabilities::synced`] is false.
    fn sync(&self) -> Result<()>;

    /// Does a bounded piece of background work. May be called from several threads.
    fn maintain(&self, budget: Budget) -> Result<Progress>;

    /// Reports every metric once; names come from [`crate::COMMON_METRICS`] and from
    /// the engine's [`crate::EngineSpec::metrics`].
    fn metrics(&self, visitor: &mut dyn MetricVisitor);

    /// Walks everything and checks every invariant; the error names what is wrong and where.
    fn verify(&self) -> Result<()>;

    /// Calls `each` with the keys of a range, from its first on and below its second, that were
    /// written to this engine and are held back from the one that it stands before, in their order,
    /// and what they become. Only a step that is not committed yet has some: [`Engine::get_many`]
    /// sees them, and iterators of the engine behind it do not.
    fn held_back(
        &self,
        _range: (&[u8], &[u8]),
        _each: &mut dyn FnMut(&[u8], Option<EntryRef<'_>>),
    ) {
    }

    /// Iteration in the engine's own order.
    fn as_scan(&self) -> Option<&dyn Scan> {
        None
    }

    /// Snapshots, ranges and transactions. What they hand out keeps the engine alive, so this view
    /// is a shared one.
    fn as_ordered(self: Arc<Self>) -> Option<Arc<dyn Ordered>> {
        None
    }

    /// Committed batches since a point, if the engine keeps them.
    fn as_changes(self: Arc<Self>) -> Option<Arc<dyn Changes>> {
        None
    }

    /// Atomic read-modify-write.
    fn as_atomic(&self) -> Option<&dyn Atomic> {
        None
    }

    /// Partitions that threads can own.
    fn as_sharded(&self) -> Option<&dyn Sharded> {
        None
    }

    /// Counting, clearing and checkpoints.
    fn as_admin(&self) -> Option<&dyn Admin> {
        None
    }
}
