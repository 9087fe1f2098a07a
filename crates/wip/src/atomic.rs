//! Atomic read-modify-write. Where the newest version of a key is in a memtable, its position
//! tells whether the key has changed; elsewhere the ceiling of its bucket does, which moves with
//! every flush.

use crate::bucket::LogEntries;
use crate::deleted::deleted_at;
use crate::wip::Wip;
use silica_base::Result;
use silica_device::Device;
use silica_engine::optimistic::{self, Condition, Optimistic, Seen};
use silica_engine::{Atomic, Durability, EntryRef, Update, WriteBatch};

impl<D: Device> Optimistic for Wip<D> {
    fn seen(&self, key: &[u8]) -> Seen {
        self.with_stores(key, |_, stores| {
            let segments = self.log.segments();
            let deleted = deleted_at(&stores.deleted, key, u64::MAX);
            match stores.find(self.seed.low(key), key, u64::MAX, &LogEntries(&segments)) {
                Some(found) => Seen::InMemory(found.position.max(deleted)),
                None if deleted > 0 => Seen::InMemory(deleted),
                None => Seen::Elsewhere(stores.version.ceiling),
            }
        })
    }

    fn write_if(
        &self,
        batch: &WriteBatch<'_>,
        conditions: &[Condition<'_>],
        durability: Durability,
    ) -> Result<bool> {
        self.write_batch_if(batch, conditions, durability)
    }

    fn unix_ms(&self) -> u64 {
        self.clock.unix_ms()
    }

    fn count_superseded(&self, puts: u64, deletes: u64) {
        self.metrics.count_write(puts, deletes, 0);
    }
}

impl<D: Device> Atomic for Wip<D> {
    fn update(
        &self,
        key: &[u8],
        durability: Durability,
        decide: &mut dyn FnMut(Option<EntryRef<'_>>) -> Update,
    ) -> Result<()> {
        self.update_many(&[key], durability, &mut |_, current| decide(current)).map(|_| ())
    }

    fn update_many(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(usize, Option<EntryRef<'_>>) -> Update,
    ) -> Result<usize> {
        self.spread_poison(optimistic::update_many(self, keys, durability, decide))
    }

    fn update_all(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
    ) -> Result<()> {
        self.spread_poison(optimistic::update_all(self, keys, durability, decide))
    }
}
