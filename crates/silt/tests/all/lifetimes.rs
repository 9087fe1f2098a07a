//! The system is told how long each file will stay: logs, hash stores, sorted stores.

use silica_base::{HashSeed, Prng};
use silica_device::sim::{SimDevice, SimOptions};
use silica_device::{Device, Lifetime};
use silica_engine::{Budget, Durability, Engine, EngineExt, Environment, MetricsMap, OptionValues};
use silica_silt::Silt;
use std::collections::{BTreeMap, BTreeSet};

fn open(device: &SimDevice) -> Silt<SimDevice> {
    let mut options = OptionValues::default();
    options
        .set("partitions", 2)
        .set("log_store_blocks", 2)
        .set("log_store_block_buckets_log2", 3)
        .set("segment_bytes", 8 << 10)
        .set("log_bytes_max", 32 << 10)
        .set("inline_value_bytes_max", 200)
        .set("value_log_segment_bytes", 64 << 10);
    let environment = Environment::new(HashSeed([7; 16]));
    Silt::open(device.clone(), &options, &environment).expect("it opens")
}

/// Fills a store. Returns the lifetimes of files by the first letters of their names.
fn seen(
    device: &SimDevice,
    store: &Silt<SimDevice>,
) -> BTreeMap<String, BTreeSet<Option<Lifetime>>> {
    let mut prng = Prng::new(9);
    let mut seen: BTreeMap<String, BTreeSet<Option<Lifetime>>> = BTreeMap::new();
    for step in 0..6000_u64 {
        let key = prng.below(3000).to_be_bytes();
        let value = vec![step as u8; if prng.one_in(20) { 300 } else { 60 }];
        store.put(&key, &value, Durability::Buffered).expect("a put");
        // Between two steps there are hash stores that are merged by the next one.
        let _ = store.maintain(Budget::of(1 << 14)).expect("maintenance");
        if step.is_multiple_of(10) {
            for name in device.list().expect("names") {
                let kind = name.split('-').next().unwrap_or_default().to_string();
                seen.entry(kind).or_default().insert(device.lifetime_of(&name));
            }
        }
    }
    seen
}

#[test]
fn logs_hash_stores_and_sorted_stores_have_a_lifetime_each() {
    let device = SimDevice::new(1, SimOptions::default());
    let store = open(&device);
    let seen = seen(&device, &store);
    for (kind, expected) in [
        ("LOG", Some(Lifetime::Short)),
        ("HASH", Some(Lifetime::Medium)),
        ("SORTED", Some(Lifetime::Long)),
        ("VALUE", Some(Lifetime::Long)),
        ("MANIFEST", None),
    ] {
        assert_eq!(seen.get(kind), Some(&BTreeSet::from([expected])), "{kind} of {seen:?}");
    }
    let mut metrics = MetricsMap::default();
    store.metrics(&mut metrics);
    assert_eq!(metrics.get("write_lifetimes"), 3.0);
    for name in
        ["short_lived_bytes_written", "medium_lived_bytes_written", "long_lived_bytes_written"]
    {
        assert!(metrics.get(name) > 0.0, "{name}");
    }
}

#[test]
fn a_system_that_does_not_listen_is_told_nothing() {
    let device = SimDevice::new(1, SimOptions::default());
    device.refuse_lifetimes();
    let store = open(&device);
    let seen = seen(&device, &store);
    assert!(seen.values().all(|lifetimes| *lifetimes == BTreeSet::from([None])), "{seen:?}");
    let mut metrics = MetricsMap::default();
    store.metrics(&mut metrics);
    assert_eq!(metrics.get("write_lifetimes") + metrics.get("long_lived_bytes_written"), 0.0);
}
