use crate::Wip;
use silica_base::{HashSeed, Prng, test_size};
use silica_device::Device;
use silica_device::sim::{SimDevice, SimOptions};
use silica_engine::{Budget, Durability, Engine, EngineExt, Environment, OptionValues};
use std::collections::BTreeMap;

fn options() -> OptionValues {
    let mut options = OptionValues::default();
    for (name, value) in [
        ("memory_bytes", 8 << 20),
        ("memtable_bytes_max", 16 << 10),
        ("log_bytes_max", 64 << 10),
        ("segment_bytes", 16 << 10),
        ("runs_max", 4),
        ("bucket_bytes_max", 64 << 10),
        ("split_buckets", 4),
    ] {
        options.set(name, value);
    }
    options
}

fn open(device: &SimDevice) -> Wip<SimDevice> {
    let environment = Environment::new(HashSeed([1; 16]));
    Wip::open(device.clone(), &options(), &environment).expect("it opens")
}

#[test]
fn buckets_split_and_everything_stays() {
    let device = SimDevice::new(1, SimOptions::default());
    let mut wip = open(&device);
    let (mut model, mut prng) = (BTreeMap::new(), Prng::new(1));
    let mut buckets = 1;
    for n in 0..test_size(40_000, 200_000, 2_000_000) {
        let key = prng.below(1 << 40).to_be_bytes();
        let value = vec![n as u8; prng.below(60) as usize];
        wip.put(&key, &value, Durability::Buffered).expect("a put");
        model.insert(key, value);
        if prng.one_in(100) {
            while wip.maintain(Budget { bytes: 1 << 20 }).expect("maintenance").more {}
        }
        if prng.one_in(20_000) {
            buckets = buckets.max(wip.buckets().iter().count());
            drop(wip);
            wip = open(&device);
            assert!(wip.buckets().iter().count() >= buckets, "buckets after opening again");
        }
    }
    buckets = wip.buckets().iter().count();
    let written = device.counters().snapshot().bytes_written;
    let user: usize = model.values().map(|value| 8 + value.len()).sum();
    println!("{buckets} buckets, written {:.2} times", written as f64 / user as f64);
    assert!(buckets > 16, "{buckets} buckets");
    wip.verify().expect("every invariant");
    for (key, value) in &model {
        assert_eq!(wip.get(key).expect("a get").as_ref(), Some(value), "{key:?}");
    }
    let tables = device.list().expect("names").iter().filter(|n| n.starts_with("TABLE")).count();
    let named = wip.book.lock().expect("no panic").state().tables().len();
    assert_eq!(tables, named, "files that no bucket needs are gone");
}
