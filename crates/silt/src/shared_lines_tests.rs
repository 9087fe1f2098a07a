//! What a get writes: no line that other readers write, too, unless it reads the device.

use crate::Silt;
use crate::test_support::device;
use silica_base::HashSeed;
use silica_device::Device;
use silica_device::sim::SimDevice;
use silica_engine::{
    Budget, Durability, Engine, EngineExt, EntryRef, Environment, GetSink, OptionValues, Stage,
    StageWatch,
};
use std::cell::Cell;
use std::sync::Arc;

/// Reads after which every lock is biased again.
const WARM: usize = 4000;

/// Looks, at each stage of a get, how often versions and their stores are held.
struct Holders<'s> {
    store: &'s Silt<SimDevice>,
    most: &'s Cell<usize>,
}

impl StageWatch for Holders<'_> {
    fn enter(&mut self, _: Stage) {
        for partition in self.store.partitions.iter() {
            let stores = partition.read();
            let hash_stores = stores.version.hash_stores.iter().map(Arc::strong_count);
            let sorted_stores = stores.version.sorted_store.iter().map(Arc::strong_count);
            let all = hash_stores.chain(sorted_stores).chain([Arc::strong_count(&stores.version)]);
            self.most.set(all.fold(self.most.get(), usize::max));
        }
    }
}

struct Nothing;

impl GetSink for Nothing {
    fn found(&mut self, _: usize, _: EntryRef<'_>) {}
}

/// A store with entries in stores of all kinds.
fn full() -> Silt<SimDevice> {
    let mut options = OptionValues::default();
    options
        .set("partitions", 2)
        .set("log_store_blocks", 2)
        .set("log_store_block_buckets_log2", 3)
        .set("segment_bytes", 64 << 10)
        .set("sorted_filter_bits", 8);
    let environment = Environment::new(HashSeed([7; 16]));
    let store = Silt::open(device(), &options, &environment).expect("it opens");
    for n in 0..2000u32 {
        store.put(&n.to_be_bytes(), &[7; 20], Durability::Buffered).expect("a put");
        while n % 100 == 99 && store.maintain(Budget::of(1 << 20)).expect("upkeep").more {}
    }
    for n in 2000..2010u32 {
        store.put(&n.to_be_bytes(), &[7; 20], Durability::Buffered).expect("a put");
    }
    store
}

/// Gets of `keys` that read no device, and the most holders that one of them had.
fn holders(store: &Silt<SimDevice>, keys: impl Iterator<Item = u32>) -> (usize, usize) {
    let (most, mut gets) = (Cell::new(0), 0);
    for key in keys {
        let (reads, before) = (store.ground.device.counters().snapshot().reads, most.get());
        let watch = Holders { store, most: &most };
        store.reads.read_burst(&[&key.to_be_bytes()], &mut Nothing, watch).expect("a get");
        match store.ground.device.counters().snapshot().reads == reads {
            true => gets += 1,
            false => most.set(before),
        }
    }
    (gets, most.get())
}

#[test]
fn a_get_that_reads_no_device_holds_nothing_by_counting() {
    let store = full();
    let kinds = store.partitions.iter().map(|partition| {
        let version = partition.version();
        (version.hash_stores.len(), version.sorted_store.is_some())
    });
    assert!(kinds.clone().any(|(hash_stores, _)| hash_stores > 0), "no hash store");
    assert!(kinds.clone().any(|(_, has_sorted)| has_sorted), "no sorted store");
    let (misses, most) = holders(&store, 100_000..100_500);
    assert!(misses > 400, "{misses} of 500 misses read no device");
    assert_eq!(most, 1, "a miss counts itself among the holders of a version or a store");
    let (hits, most) = holders(&store, 2000..2010);
    assert!(hits > 5, "{hits} of 10 entries are in the log");
    assert_eq!(most, 1, "a get from the log counts itself among the holders of a version");
}

#[test]
fn locks_are_biased_to_readers_once_nobody_writes() {
    let store = full();
    let is_biased = |store: &Silt<SimDevice>| {
        store.partitions.iter().all(|partition| {
            let version = partition.version();
            let hash_stores = version.hash_stores.iter().all(|store| store.is_biased());
            let sorted_stores = version.sorted_store.iter().all(|store| store.is_biased());
            partition.is_biased() && hash_stores && sorted_stores
        })
    };
    assert!(!is_biased(&store), "it was just written");
    for n in 0..WARM as u32 {
        assert!(store.get(&(100_000 + n).to_be_bytes()).expect("a get").is_none());
    }
    assert!(is_biased(&store), "gets write lines that they share");
}
