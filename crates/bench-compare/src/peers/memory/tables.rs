//! The tables themselves.

use super::Table;
use crate::peer::Setup;
use dashmap::DashMap;
use foldhash::fast::RandomState;
use hashbrown::HashMap;
use hashbrown::hash_map::EntryRef;
use parking_lot::RwLock;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, Weighter};
use std::hash::BuildHasher;
use std::sync::Arc;

type Bytes = Box<[u8]>;

const SHARDS_PER_CORE: usize = 4;
/// What quick_cache's table takes for an entry beside its bytes, with spare room and the heads of
/// the allocations.
const WEIGHT_BESIDE: u64 = 96;

fn keys(setup: &Setup) -> usize {
    usize::try_from(setup.plan.keys).unwrap_or(usize::MAX)
}

/// Puts `new` in the place of `old`, in the same allocation where it fits exactly.
fn replace(old: &mut Bytes, new: &[u8]) {
    if old.len() == new.len() {
        old.copy_from_slice(new);
    } else {
        *old = new.into();
    }
}

/// A lock and what it guards, on lines of their own.
#[repr(align(128))]
struct Shard(RwLock<HashMap<Bytes, Bytes, RandomState>>);

/// hashbrown's table under sharded locks.
pub(super) struct ShardedTable {
    shards: Box<[Shard]>,
    hasher: RandomState,
}

impl ShardedTable {
    #[inline]
    fn shard(&self, key: &[u8]) -> &RwLock<HashMap<Bytes, Bytes, RandomState>> {
        // The table takes its buckets from the low bits of a hash and its tags from the topmost
        // seven; those between are left.
        let hash = self.hasher.hash_one(key) >> 32;
        &self.shards[hash as usize & (self.shards.len() - 1)].0
    }
}

impl Table for ShardedTable {
    fn new(setup: &Setup) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let shards = (SHARDS_PER_CORE * cores).next_power_of_two();
        let hasher = RandomState::default();
        // A tenth more, since keys are not spread evenly.
        let keys = keys(setup) / shards * 11 / 10;
        let table = || HashMap::with_capacity_and_hasher(keys, hasher.clone());
        let shards = (0..shards).map(|_| Shard(RwLock::new(table()))).collect();
        ShardedTable { shards, hasher }
    }

    #[inline]
    fn get(&self, key: &[u8], found: impl FnOnce(&[u8])) {
        if let Some(value) = self.shard(key).read().get(key) {
            found(value);
        }
    }

    #[inline]
    fn put(&self, key: &[u8], value: &[u8]) {
        match self.shard(key).write().entry_ref(key) {
            EntryRef::Occupied(mut entry) => replace(entry.get_mut(), value),
            EntryRef::Vacant(entry) => {
                entry.insert_with_key(key.into(), value.into());
            }
        }
    }

    fn delete(&self, key: &[u8]) {
        self.shard(key).write().remove(key);
    }

    fn entries(&self) -> u64 {
        self.shards.iter().map(|shard| shard.0.read().len() as u64).sum()
    }
}

/// DashMap.
pub(super) struct DashTable(DashMap<Bytes, Bytes, RandomState>);

impl Table for DashTable {
    fn new(setup: &Setup) -> Self {
        DashTable(DashMap::with_capacity_and_hasher(keys(setup), RandomState::default()))
    }

    #[inline]
    fn get(&self, key: &[u8], found: impl FnOnce(&[u8])) {
        if let Some(value) = self.0.get(key) {
            found(&value);
        }
    }

    #[inline]
    fn put(&self, key: &[u8], value: &[u8]) {
        if let Some(mut old) = self.0.get_mut(key) {
            replace(&mut old, value);
            return;
        }
        self.0.insert(key.into(), value.into());
    }

    fn delete(&self, key: &[u8]) {
        self.0.remove(key);
    }

    fn entries(&self) -> u64 {
        self.0.len() as u64
    }
}

/// scc's hash table.
pub(super) struct SccTable(scc::HashMap<Bytes, Bytes, RandomState>);

impl Table for SccTable {
    fn new(setup: &Setup) -> Self {
        SccTable(scc::HashMap::with_capacity_and_hasher(keys(setup), RandomState::default()))
    }

    #[inline]
    fn get(&self, key: &[u8], found: impl FnOnce(&[u8])) {
        self.0.read_sync(key, |_, value| found(value));
    }

    #[inline]
    fn put(&self, key: &[u8], value: &[u8]) {
        if self.0.update_sync(key, |_, old| replace(old, value)).is_none() {
            self.0.upsert_sync(key.into(), value.into());
        }
    }

    fn delete(&self, key: &[u8]) {
        self.0.remove_sync(key);
    }

    fn entries(&self) -> u64 {
        self.0.len() as u64
    }
}

/// papaya's hash table. Values are never changed in place: readers hold no lock.
pub(super) struct PapayaTable(papaya::HashMap<Bytes, Bytes, RandomState>);

impl Table for PapayaTable {
    fn new(setup: &Setup) -> Self {
        let hasher = RandomState::default();
        PapayaTable(papaya::HashMap::with_capacity_and_hasher(keys(setup), hasher))
    }

    #[inline]
    fn get(&self, key: &[u8], found: impl FnOnce(&[u8])) {
        if let Some(value) = self.0.pin().get(key) {
            found(value);
        }
    }

    #[inline]
    fn put(&self, key: &[u8], value: &[u8]) {
        self.0.pin().insert(key.into(), value.into());
    }

    fn delete(&self, key: &[u8]) {
        self.0.pin().remove(key);
    }

    fn entries(&self) -> u64 {
        self.0.len() as u64
    }
}

/// What an entry counts for in quick_cache.
#[derive(Clone)]
struct Weigh;

fn weight(key_bytes: usize, value_bytes: usize) -> u64 {
    (key_bytes + value_bytes) as u64 + WEIGHT_BESIDE
}

impl Weighter<Bytes, Arc<[u8]>> for Weigh {
    fn weight(&self, key: &Bytes, value: &Arc<[u8]>) -> u64 {
        weight(key.len(), value.len())
    }
}

/// quick_cache, which forgets.
pub(super) struct LossyTable(Cache<Bytes, Arc<[u8]>, Weigh, RandomState>);

impl Table for LossyTable {
    fn new(setup: &Setup) -> Self {
        let shape = setup.plan.shape;
        let fit = setup.memory_bytes / weight(shape.key_bytes, shape.value_bytes);
        let options = OptionsBuilder::new()
            .weight_capacity(setup.memory_bytes)
            .estimated_items_capacity(keys(setup).min(fit as usize).max(1))
            .build()
            .expect("both capacities are set");
        let hasher = RandomState::default();
        LossyTable(Cache::with_options(options, Weigh, hasher, DefaultLifecycle::default()))
    }

    #[inline]
    fn get(&self, key: &[u8], found: impl FnOnce(&[u8])) {
        if let Some(value) = self.0.get(key) {
            found(&value);
        }
    }

    #[inline]
    fn put(&self, key: &[u8], value: &[u8]) {
        self.0.insert(key.into(), value.into());
    }

    fn delete(&self, key: &[u8]) {
        self.0.remove(key);
    }

    fn entries(&self) -> u64 {
        self.0.len() as u64
    }
}
