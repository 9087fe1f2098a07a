//! The engine: one log, buckets of key ranges, and the boundary.

use crate::contents::Contents;
use crate::job_context::JobContext;
use crate::job_list::Jobs;
use crate::memory::MemoryBudget;
use crate::read::{read_at_hand, read_burst, read_keys};
use crate::report::{report_buckets, report_lifetimes};
use crate::space::{SpaceAccount, SpaceContext};
use crate::value_jobs::ValueJobs;
use crate::verify::verify_all;
use silica_base::{ErrorKind, Result};
use silica_device::Device;
use silica_engine::transaction::CommitTurns;
use silica_engine::{
    Admin, Atomic, Budget, Capabilities, Changes, Descriptor, Durability, Engine, GetSink, Intent,
    Limits, MetricVisitor, Ordered, Progress, Scan, Stages, WriteBatch,
};
use silica_parts::wal::POSITION_BYTES;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Longest key.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// Longest value.
pub const VALUE_BYTES_MAX: usize = 512 << 20;
/// Most bytes of keys and values in one batch; those that lie apart do not count.
pub const BATCH_BYTES_MAX: usize = 64 << 20;

/// A WipDB store on device `D`: what it holds, and what decides about that.
pub struct Wip<D: Device> {
    contents: Contents<D>,
    /// Held by an ingest: one at a time.
    pub(crate) ingests: Mutex<()>,
    /// Commits of more bytes become tables at once: [`BATCH_BYTES_MAX`], or less in tests.
    pub(crate) record_bytes_max: AtomicUsize,
    /// Bytes that the store had when it was opened.
    pub(crate) found_bytes: AtomicU64,
    pub(crate) memory: MemoryBudget,
    pub(crate) jobs: Jobs<D>,
    pub(crate) value_jobs: ValueJobs<D::File>,
    pub(crate) space: SpaceAccount,
    pub(crate) commit_turns: Arc<CommitTurns>,
}

/// What decides reads its contents all the time.
impl<D: Device> Deref for Wip<D> {
    type Target = Contents<D>;

    #[inline]
    fn deref(&self) -> &Contents<D> {
        &self.contents
    }
}

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "wip",
    capabilities: Capabilities {
        durable: true,
        synced: true,
        kept_at_close: true,
        may_wait: true,
        scan: true,
        ordered: true,
        atomic: true,
        admin: true,
        may_evict: false,
    },
    limits: Limits {
        key_bytes_max: KEY_BYTES_MAX,
        value_bytes_max: VALUE_BYTES_MAX,
        batch_bytes_max: BATCH_BYTES_MAX,
    },
};

impl<D: Device> Wip<D> {
    pub(crate) fn new(contents: Contents<D>, memory_bytes: u64) -> Self {
        Wip {
            contents,
            ingests: Mutex::default(),
            record_bytes_max: AtomicUsize::new(BATCH_BYTES_MAX),
            found_bytes: AtomicU64::new(0),
            memory: MemoryBudget::new(memory_bytes),
            jobs: Jobs::new(),
            value_jobs: ValueJobs::new(),
            space: SpaceAccount::default(),
            commit_turns: Arc::default(),
        }
    }

    /// What it holds.
    #[inline]
    pub(crate) fn contents(&self) -> &Contents<D> {
        &self.contents
    }

    /// Has commits of more than `bytes` bytes take the way of those over [`BATCH_BYTES_MAX`]: so
    /// tests try it with few entries.
    #[doc(hidden)]
    pub fn set_record_bytes_max(&self, bytes: usize) {
        self.record_bytes_max.store(bytes.min(BATCH_BYTES_MAX), Ordering::Relaxed);
    }

    /// What jobs work with.
    pub(crate) fn job_context(&self) -> JobContext<'_, D> {
        let (contents, memory) = (&self.contents, &self.memory);
        JobContext { contents, memory, is_attended: self.is_attended() }
    }

    /// Bytes of the log at which the buckets at its tail are flushed.
    pub(crate) fn log_bytes_max(&self) -> u64 {
        self.memory.log_bytes_max(&self.config)
    }

    /// Shares the memory anew; see [`MemoryBudget::share`].
    pub(crate) fn share_memory(&self, may_load: bool) {
        self.memory.share(&self.contents, may_load, self.is_attended());
    }

    /// What decides about space.
    pub(crate) fn space_context(&self) -> SpaceContext<'_, D> {
        let (contents, memory) = (&self.contents, &self.memory);
        SpaceContext { contents, memory, account: &self.space }
    }

    /// Has the log's next segment made before a writer needs it, and little left to sync then.
    pub(crate) fn attend_log(&self) -> Result<()> {
        self.note_history()?;
        // While room is short it is left to what frees some, and to the writer who needs a segment.
        if self.journal.attend_log(!self.space.is_short())? {
            // The log takes a segment more.
            self.share_memory(false);
        }
        Ok(())
    }

    /// Syncs the log by a writer that holds no lock, if a segment is about to end.
    pub(crate) fn sync_before_end(&self) -> Result<()> {
        self.log.sync_before_end(&|| self.sync_log())
    }

    /// Lets go of log segments that no bucket needs.
    pub(crate) fn release_log(&self) -> Result<()> {
        // In this order: what is written meanwhile lies behind. With the writer locked, since what
        // is in the log and in no memtable yet counts as unflushed, too.
        let writer = self.writer.lock();
        let end = self.log.end() / POSITION_BYTES;
        drop(writer);
        let guard = self.lock_install();
        let gone = self.release_log_below(self.needed_from(end))?;
        drop(guard);
        // Who keeps files, for a checkpoint, has the segments and asks for none by its name.
        self.log.retire(gone, !self.space.is_short());
        Ok(())
    }

    /// The device.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Buckets and tables, in words.
    pub fn sizes(&self) -> String {
        let buckets = self.buckets();
        let versions = || buckets.iter().map(|bucket| bucket.read().version.clone());
        let runs: usize = versions().map(|version| version.runs.len()).sum();
        let bytes: u64 = versions().map(|version| version.bytes()).sum();
        let count = buckets.iter().count();
        format!("{count} buckets, {runs} runs, {} MiB of tables", bytes >> 20)
    }

    /// Bytes of entries that are in no table yet at which a flush is due.
    pub(crate) fn memtable_bytes_max(&self) -> u64 {
        self.memory.memtable_bytes_max(&self.config)
    }
}

#[cfg(test)]
impl<D: Device> Wip<D> {
    /// Flushes all that a bucket has in its oldest memtable; for tests.
    pub(crate) fn flush(&self, bucket: &Arc<crate::bucket::Bucket<D>>) -> Result<u64> {
        let Some(frozen) = self.oldest_frozen(bucket) else { return Ok(0) };
        let Some(mut flush) = crate::flush::Flush::new(self, vec![frozen]) else { return Ok(0) };
        while !matches!(flush.step(&self.job_context(), u64::MAX, true)?, crate::step::Step::Ready)
        {
        }
        crate::flush::Flush::finish(vec![flush], &self.job_context())
    }
}

impl<D: Device> Drop for Wip<D> {
    fn drop(&mut self) {
        self.log.remove_spares();
        match self.contents.close() {
            Ok(()) => {}
            // The store was removed while somebody had it.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                ::log::debug!("closing a WipDB store: {error}");
            }
            Err(error) => ::log::warn!("closing a WipDB store: {error}"),
        }
    }
}

impl<D: Device> Engine for Wip<D> {
    fn descriptor(&self) -> &Descriptor {
        &DESCRIPTOR
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        read_keys(self, keys, (u64::MAX, None), Intent::Foreground, sink)
    }

    fn get_many_with(&self, keys: &[&[u8]], intent: Intent, sink: &mut dyn GetSink) -> Result<()> {
        read_keys(self, keys, (u64::MAX, None), intent, sink)
    }

    fn get_many_at_hand(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        left: &mut Vec<usize>,
    ) -> Result<()> {
        read_at_hand(self, keys, sink, left)
    }

    fn get_many_staged(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        stages: &mut Stages<'_>,
    ) -> Result<()> {
        read_burst(self, keys, (u64::MAX, None), Intent::Foreground, sink, stages)
    }

    fn write(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        self.spread_poison(self.write_batch(batch, durability))
    }

    fn sync(&self) -> Result<()> {
        self.sync_log()
    }

    fn maintain(&self, budget: Budget) -> Result<Progress> {
        self.spread_poison(self.attend(budget))
    }

    fn metrics(&self, visitor: &mut dyn MetricVisitor) {
        self.metrics.report(visitor);
        self.memory.report(self, visitor);
        report_buckets(self, visitor);
        report_lifetimes(&*self.device, visitor);
    }

    fn verify(&self) -> Result<()> {
        verify_all(self)
    }

    fn as_admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }

    fn as_scan(&self) -> Option<&dyn Scan> {
        Some(self)
    }

    fn as_ordered(self: Arc<Self>) -> Option<Arc<dyn Ordered>> {
        Some(self)
    }

    fn as_changes(self: Arc<Self>) -> Option<Arc<dyn Changes>> {
        self.changes.is_some().then_some(self)
    }

    fn as_atomic(&self) -> Option<&dyn Atomic> {
        Some(self)
    }
}
