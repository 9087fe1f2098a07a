//! The engine as others call it.

use super::batch::Bond;
use super::store::Turbo;
use super::write::check_limits;
use silica_base::Result;
use silica_device::region::Region;
use silica_engine::{
    Admin, Atomic, Budget, Descriptor, Durability, Engine, GetSink, MetricVisitor, Progress, Scan,
    Stage, StageWatch, Stages, WriteBatch,
};

impl<R: Region> Turbo<R> {
    fn write_ops(&self, batch: &WriteBatch<'_>, durability: Durability, bond: Bond) -> Result<()> {
        self.check_writable(durability)?;
        batch.refuse_ranges("turbo")?;
        let ops = batch.ops();
        check_limits(ops)?;
        match ops {
            [] => Ok(()),
            [op] => self.write_one(op),
            ops => self.write_batch(ops, bond),
        }
    }
}

impl<R: Region> Engine for Turbo<R> {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        self.read_burst(keys, sink)
    }

    fn get_many_staged(
        &self,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        stages: &mut Stages<'_>,
    ) -> Result<()> {
        // Nothing else is asked.
        stages.enter(Stage::Memory);
        self.read_burst(keys, sink)
    }

    fn reports_in_order(&self) -> bool {
        true
    }

    fn write(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        self.write_ops(batch, durability, Bond::Together)
    }

    fn write_each(&self, batch: &WriteBatch<'_>, durability: Durability) -> Result<()> {
        self.write_ops(batch, durability, Bond::Each)
    }

    fn sync(&self) -> Result<()> {
        self.check_survives()?;
        self.check_not_poisoned()?;
        self.fence()
    }

    fn maintain(&self, budget: Budget) -> Result<Progress> {
        self.do_some(budget)
    }

    fn metrics(&self, visitor: &mut dyn MetricVisitor) {
        self.report_metrics(visitor);
    }

    fn verify(&self) -> Result<()> {
        (0..self.shards.len()).try_for_each(|shard| self.verify_shard(shard))
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
