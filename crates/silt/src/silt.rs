//! The engine: one log, many partitions, and the boundary.

use crate::Hasher;
use crate::jobs::Jobs;
use crate::metrics::Metrics;
use crate::options::Config;
use crate::partition::Partition;
use crate::space::Space;
use crate::state::{Edit, StoreState};
use crate::write::Writer;
use silica_base::{Clock, Error, ErrorKind, KeyHash, Result};
use silica_device::Device;
use silica_engine::{
    Admin, Atomic, Budget, Capabilities, Descriptor, Durability, Engine, GetSink, Limits,
    MetricVisitor, Progress, Scan, WriteBatch,
};
use silica_parts::manifest::Manifest;
use silica_parts::value_log::ValueLog;
use silica_parts::wal::Wal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Longest key.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// Longest value.
pub const VALUE_BYTES_MAX: usize = 512 << 20;
/// Most bytes of keys and inline values in one batch.
pub const BATCH_BYTES_MAX: usize = 64 << 20;

/// The manifest and the state it holds; every change goes through [`Silt::edit`].
pub(crate) struct Book<D: Device> {
    pub(crate) manifest: Manifest<D>,
    pub(crate) state: StoreState,
    /// Edits since the last snapshot.
    pub(crate) edits: u32,
}

impl<D: Device> Book<D> {
    fn edit(&mut self, edits: &[Edit]) -> Result<()> {
        for edit in edits {
            self.manifest.append(&edit.encode())?;
            self.state.apply(edit);
            self.edits += 1;
        }
        if self.edits >= EDITS_MAX {
            let snapshot = self.state.encode();
            self.manifest.rewrite(&snapshot)?;
            self.edits = 0;
        }
        Ok(())
    }
}

/// A SILT store on device `D`.
pub struct Silt<D: Device> {
    pub(crate) descriptor: Descriptor,
    pub(crate) config: Config,
    pub(crate) device: Arc<D>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) hasher: Hasher,
    pub(crate) store_id: u64,
    pub(crate) log: Wal<D>,
    pub(crate) values: ValueLog<D>,
    pub(crate) partitions: Vec<Partition<D>>,
    pub(crate) writer: Mutex<Writer<D::Log>>,
    pub(crate) book: Mutex<Book<D>>,
    pub(crate) next_file: AtomicU64,
    pub(crate) jobs: Jobs<D>,
    pub(crate) space: Space,
    pub(crate) metrics: Metrics,
    pub(crate) memory_bytes: AtomicU64,
    /// Share of young entries that are new keys, learnt from merges; the bits of an `f64`.
    pub(crate) growth: AtomicU64,
}

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "silt",
    capabilities: Capabilities {
        durable: true,
        kept_at_close: true,
        may_wait: true,
        scan: true,
        ordered: false,
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

/// Edits after which the manifest is rewritten as one snapshot.
const EDITS_MAX: u32 = 1000;

impl<D: Device> Silt<D> {
    /// The hash of a key under the store's seed.
    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> KeyHash {
        self.hasher.hash(key)
    }

    /// Index of the partition that holds `hash`.
    #[inline]
    pub(crate) fn partition_index(&self, hash: KeyHash) -> usize {
        // Two shifts, since a shift by 64 is not defined.
        (hash.high() >> 1 >> (63 - self.config.partition_bits)) as usize
    }

    /// The partition that holds `hash`.
    #[inline]
    pub(crate) fn partition_of(&self, hash: KeyHash) -> &Partition<D> {
        &self.partitions[self.partition_index(hash)]
    }

    /// Makes `edits` durable in the manifest and applies them to the state.
    pub(crate) fn edit(&self, edits: &[Edit]) -> Result<()> {
        let mut book = self.book.lock().expect("no panic while held");
        let result = book.edit(edits);
        if book.manifest.is_poisoned() {
            // What the manifest says is not known any more, so nothing may build on it.
            self.log.poison();
        }
        result
    }

    /// Where a file or directory refuses further syncs, the whole store refuses further writes:
    /// half a store that goes on would only fail later.
    pub(crate) fn spread_poison<T>(&self, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| self.poison_with(error))
    }

    pub(crate) fn poison_with(&self, error: &Error) {
        if error.kind() == ErrorKind::Poisoned {
            self.log.poison();
        }
    }

    /// Makes everything written so far durable: values first, then the records that point at
    /// them.
    pub(crate) fn sync_log(&self) -> Result<()> {
        self.log.sync(&|| self.sync_values())
    }

    /// A number for a new table file.
    pub(crate) fn next_file_number(&self) -> u64 {
        self.next_file.fetch_add(1, Ordering::Relaxed)
    }

    /// Removes a file that nothing names; where that fails, the next open does it.
    pub(crate) fn remove_quietly(&self, name: &str) {
        if let Err(error) = self.device.remove(name) {
            ::log::debug!("removing {name}: {error}");
        }
    }

    /// Bytes of the log before its oldest log store is converted.
    pub(crate) fn log_bytes_max(&self) -> u64 {
        self.config.log_bytes_max(self.memory_bytes())
    }

    /// The memory number.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// Syncs everything and notes in the manifest how far the log is durable, so that damage to
    /// its end is told from a torn tail. Called on drop; errors then are lost, the data is not.
    fn close(&self) -> Result<()> {
        self.log.check()?;
        self.sync_log()?;
        self.note_dead_values()?;
        let mut book = self.book.lock().expect("no panic while held");
        let end = self.log.end_of_records();
        if book.state.durable_end < end {
            let edit = Edit::DurableEnd(end);
            book.manifest.append(&edit.encode())?;
            book.state.apply(&edit);
        }
        book.manifest.close()
    }
}

impl<D: Device> Drop for Silt<D> {
    fn drop(&mut self) {
        self.log.remove_spares();
        if let Err(error) = self.close() {
            ::log::warn!("closing a SILT store: {error}");
        }
    }
}

impl<D: Device> Engine for Silt<D> {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        self.read_burst(keys, sink)
    }

    fn write(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        self.spread_poison(self.write_batch(batch, durability))
    }

    fn sync(&self) -> Result<()> {
        self.sync_log()
    }

    fn maintain(&self, budget: Budget) -> Result<Progress> {
        self.spread_poison(self.attend_log().and_then(|()| self.run_jobs(budget, true)))
    }

    fn metrics(&self, visitor: &mut dyn MetricVisitor) {
        self.report_metrics(visitor);
    }

    fn verify(&self) -> Result<()> {
        self.verify_store()
    }

    fn as_scan(&self) -> Option<&dyn Scan> {
        Some(self)
    }

    fn as_atomic(&self) -> Option<&dyn Atomic> {
        Some(self)
    }

    fn as_admin(&self) -> Option<&dyn Admin> {
        Some(self)
    }
}
