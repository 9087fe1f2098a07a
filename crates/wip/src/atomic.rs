//! Atomic read-modify-write. Where the newest version of a key is in a memtable, its position
//! tells whether the key has changed; elsewhere the ceiling of its bucket does, which moves with
//! every flush.

use crate::unwritten::Quiet;
use crate::wip::Wip;
use silica_base::{Error, Result};
use silica_device::Device;
use silica_engine::optimistic::{Conditions, Optimistic, Seen};
use silica_engine::{Durability, WriteBatch};

impl<D: Device> Optimistic for Wip<D> {
    fn seen(&self, key: &[u8]) -> Seen {
        self.contents().seen(key)
    }

    fn write_if(
        &self,
        batch: &WriteBatch<'_>,
        conditions: Conditions<'_>,
        durability: Durability,
    ) -> Result<bool> {
        self.write_batch_if(batch, conditions, &mut Quiet::default(), durability)
    }

    fn settle(&self) {
        self.writer.settle();
    }

    fn unix_ms(&self) -> u64 {
        self.clock.unix_ms()
    }

    fn count_superseded(&self, puts: u64, deletes: u64) {
        self.metrics.count_write(puts, deletes, 0);
    }

    fn note_error(&self, error: &Error) {
        self.poison_with(error);
    }

    /// A batch goes into memtables one operation after the other, and readers look there first.
    fn publishes_in_order(&self) -> bool {
        true
    }
}
