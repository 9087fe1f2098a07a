//! The engine: one log, many partitions, and the boundary.

use crate::ground::Ground;
use crate::intake::Intake;
use crate::journal::Journal;
use crate::partitions::Partitions;
use crate::read::Reads;
use crate::scheduler::Scheduler;
use crate::space::Space;
use silica_base::Result;
use silica_device::Device;
use silica_engine::{
    Admin, Atomic, Budget, Capabilities, Descriptor, Durability, Engine, GetSink, Limits,
    MetricVisitor, Progress, Scan, Stages, Unwatched, WriteBatch,
};
use std::sync::Arc;

/// Longest key.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// Longest value.
pub const VALUE_BYTES_MAX: usize = 512 << 20;
/// Most bytes of keys and inline values in one batch.
pub const BATCH_BYTES_MAX: usize = 64 << 20;

/// A SILT store on device `D`: owners, each of which knows those before it at the most.
pub struct Silt<D: Device> {
    pub(crate) descriptor: Descriptor,
    pub(crate) ground: Arc<Ground<D>>,
    pub(crate) journal: Arc<Journal<D>>,
    pub(crate) partitions: Arc<Partitions<D>>,
    pub(crate) space: Arc<Space<D>>,
    pub(crate) intake: Arc<Intake<D>>,
    pub(crate) reads: Reads<D>,
    pub(crate) scheduler: Scheduler<D>,
}

pub(crate) const DESCRIPTOR: Descriptor = Descriptor {
    name: "silt",
    capabilities: Capabilities {
        durable: true,
        synced: true,
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

impl<D: Device> Drop for Silt<D> {
    fn drop(&mut self) {
        self.journal.log.remove_spares();
        if let Err(error) = self.journal.close() {
            ::log::warn!("closing a SILT store: {error}");
        }
    }
}

impl<D: Device> Engine for Silt<D> {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        self.reads.read_burst(keys, sink, Unwatched)
    }

    fn get_many_staged(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        stages: &mut Stages<'_>,
    ) -> Result<()> {
        self.reads.read_burst(keys, sink, stages)
    }

    fn write(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        self.journal.spread_poison(self.write_batch(batch, durability))
    }

    fn sync(&self) -> Result<()> {
        self.journal.sync_log()
    }

    fn maintain(&self, budget: Budget) -> Result<Progress> {
        // While room is short it is left to merges, and to the writer who needs a segment.
        let may_make = !self.ground.is_short_of_space();
        let attended = self.journal.attend_log(may_make).map(drop);
        self.journal.spread_poison(attended.and_then(|()| self.scheduler.run_jobs(budget, true)))
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
