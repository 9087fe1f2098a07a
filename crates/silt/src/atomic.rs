//! Atomic read-modify-write. Where the newest version of a key is in the log stores, its log
//! position tells whether the key has changed; elsewhere the partition's epoch does.

use crate::silt::Silt;
use silica_base::{Error, Result};
use silica_device::Device;
use silica_engine::optimistic::{Conditions, Optimistic, Seen};
use silica_engine::{Durability, WriteBatch};

impl<D: Device> Optimistic for Silt<D> {
    fn seen(&self, key: &[u8]) -> Seen {
        self.reads.seen(key)
    }

    fn write_if(
        &self,
        batch: &WriteBatch<'_>,
        conditions: Conditions<'_>,
        durability: Durability,
    ) -> Result<bool> {
        self.write_batch_if(batch, conditions, durability)
    }

    /// All writes take turns, and a batch is visible when its writer's turn ends.
    fn settle(&self) {
        drop(self.intake.writer.lock().expect("no panic while held"));
    }

    fn prefetch(&self, keys: &[&[u8]]) {
        self.reads.hash_and_prefetch(keys.iter().copied());
    }

    fn unix_ms(&self) -> u64 {
        self.ground.clock.unix_ms()
    }

    fn count_superseded(&self, puts: u64, deletes: u64) {
        self.ground.metrics.count_write(puts, deletes, 0);
    }

    fn note_error(&self, error: &Error) {
        self.journal.poison_with(error);
    }
}
