//! The engine: one log, buckets of key ranges, and the boundary.

use crate::buckets::Buckets;
use crate::files::Removals;
use crate::jobs::Jobs;
use crate::memory::Requests;
use crate::metrics::Metrics;
use crate::options::Config;
use crate::snapshot::Snapshots;
use crate::space::Space;
use crate::state::{Edit, StoreState};
use crate::values::ValueJobs;
use crate::write::Writer;
use arc_swap::ArcSwap;
use silica_base::{Clock, Error, ErrorKind, HashSeed, Result};
use silica_device::Device;
use silica_engine::{
    Admin, Atomic, Budget, Capabilities, Descriptor, Durability, Engine, GetSink, Limits,
    MetricVisitor, Ordered, Progress, Scan, WriteBatch,
};
use silica_parts::manifest::Book;
use silica_parts::value_log::{Garbage, ValueLog};
use silica_parts::wal::{POSITION_BYTES, Wal};
use silica_parts::{BlockCache, Buffers};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

/// Longest key.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// Longest value.
pub const VALUE_BYTES_MAX: usize = 512 << 20;
/// Most bytes of keys and values in one batch; those that lie apart do not count.
pub const BATCH_BYTES_MAX: usize = 64 << 20;

/// A WipDB store on device `D`.
pub struct Wip<D: Device> {
    pub(crate) config: Config,
    pub(crate) device: Arc<D>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) seed: HashSeed,
    pub(crate) store_id: u64,
    pub(crate) log: Wal<D>,
    pub(crate) values: ValueLog<D>,
    pub(crate) buckets: ArcSwap<Buckets<D>>,
    pub(crate) writer: Mutex<Writer<D::Log>>,
    /// Writes are not held any more.
    pub(crate) released: Condvar,
    /// Held by an ingest: one at a time.
    pub(crate) ingests: Mutex<()>,
    pub(crate) book: Mutex<Book<D, StoreState>>,
    pub(crate) next_file: AtomicU64,
    pub(crate) cache: Arc<BlockCache>,
    /// Of tables that are written.
    pub(crate) buffers: Arc<Buffers>,
    /// What entries that are in no table count for.
    pub(crate) unflushed_bytes: AtomicU64,
    /// Bytes that the store had when it was opened.
    pub(crate) found_bytes: AtomicU64,
    /// The memory number as it is now.
    pub(crate) memory_bytes: AtomicU64,
    pub(crate) requests: Requests,
    /// Files to be removed, while somebody needs them all.
    pub(crate) removals: Mutex<Removals>,
    pub(crate) jobs: Jobs<D>,
    pub(crate) value_jobs: ValueJobs<D::File>,
    pub(crate) snapshots: Snapshots,
    pub(crate) space: Space,
    pub(crate) metrics: Metrics,
}

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "wip",
    capabilities: Capabilities {
        durable: true,
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
    /// The buckets as they are now.
    #[inline]
    pub(crate) fn buckets(&self) -> Arc<Buckets<D>> {
        self.buckets.load_full()
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

    /// Makes `edits` durable in the manifest and applies them to the state.
    pub(crate) fn edit(&self, edits: &[Edit]) -> Result<()> {
        let mut book = self.book.lock().expect("no panic while held");
        let result = book.edit(edits);
        if book.is_poisoned() {
            // What the manifest says is not known any more, so nothing may build on it.
            self.log.poison();
        }
        result
    }

    /// Where a file or directory refuses further syncs, the whole store refuses further writes.
    pub(crate) fn spread_poison<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| self.poison_with(error))
    }

    pub(crate) fn poison_with(&self, error: &Error) {
        if error.kind() == ErrorKind::Poisoned {
            self.log.poison();
        }
    }

    pub(crate) fn sync_log(&self) -> Result<()> {
        self.log.sync(&|| self.values.sync())
    }

    /// The same for what is before a position.
    pub(crate) fn sync_log_to(&self, position: u64) -> Result<()> {
        self.log.sync_to(position * POSITION_BYTES, &|| self.values.sync())
    }

    /// A number for a new table.
    pub(crate) fn next_file_number(&self) -> u64 {
        self.next_file.fetch_add(1, Ordering::Relaxed)
    }

    /// Bytes of entries that are in no table yet at which a flush is due.
    pub(crate) fn memtable_bytes_max(&self) -> u64 {
        self.config.memtable_bytes_max(self.memory_bytes.load(Ordering::Relaxed))
    }

    /// Removes a file that nothing names, once nobody keeps files; where that fails, the next open
    /// does it.
    pub(crate) fn remove_quietly(&self, name: &str) {
        let mut removals = self.removals.lock().expect("no panic while held");
        if removals.keepers > 0 {
            removals.names.push(name.to_owned());
            return;
        }
        drop(removals);
        if let Err(error) = self.device.remove(name) {
            ::log::debug!("removing {name}: {error}");
        }
    }

    fn close(&self) -> Result<()> {
        self.log.check()?;
        self.sync_log()?;
        let end = self.log.end_of_records();
        let garbage = self.garbage_edit(&Garbage::default());
        let mut book = self.book.lock().expect("no panic while held");
        if book.state().durable_end < end {
            book.edit(&[Edit::DurableEnd(end)])?;
        }
        garbage.map_or(Ok(()), |edit| book.edit(&[edit]))?;
        book.close()
    }
}

impl<D: Device> Drop for Wip<D> {
    fn drop(&mut self) {
        self.log.remove_spares();
        match self.close() {
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
        self.read_burst(keys, (u64::MAX, None), sink)
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
        self.report_memory(visitor);
        self.report_buckets(visitor);
    }

    fn verify(&self) -> Result<()> {
        self.verify_all()
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

    fn as_atomic(&self) -> Option<&dyn Atomic> {
        Some(self)
    }
}
