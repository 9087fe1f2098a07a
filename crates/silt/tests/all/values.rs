//! Large values end to end: the value log under the engine, on the simulated device.

use silica_base::{ErrorKind, HashSeed, Prng, Result};
use silica_device::Device;
use silica_device::sim::{SimDevice, SimOptions};
use silica_engine::{
    Budget, Durability, Engine, EngineExt, Environment, MetricsMap, OptionValues, WriteBatch,
};
use silica_silt::Silt;
use std::collections::BTreeMap;

/// Values over 40 bytes are large, and a segment holds a few of them.
fn options(segment_bytes: u64) -> OptionValues {
    let mut values = OptionValues::default();
    values
        .set("partitions", 2)
        .set("log_store_blocks", 2)
        .set("log_store_block_buckets_log2", 3)
        .set("segment_bytes", 8 << 10)
        .set("log_bytes_max", 32 << 10)
        .set("inline_value_bytes_max", 40)
        .set("value_log_segment_bytes", segment_bytes);
    values
}

fn open(device: &SimDevice) -> Result<Silt<SimDevice>> {
    let environment = Environment::new(HashSeed([7; 16]));
    Silt::open(device.clone(), &options(16 << 10), &environment)
}

fn device(seed: u64) -> SimDevice {
    SimDevice::new(seed, SimOptions::default())
}

fn value_files(device: &SimDevice) -> Vec<String> {
    let names = device.list().expect("lists");
    names.into_iter().filter(|name| name.starts_with("VALUE-")).collect()
}

fn maintain(store: &Silt<SimDevice>) {
    while store.maintain(Budget::of(1 << 20)).expect("maintains").more {}
}

fn large(prng: &mut Prng, max: u64) -> Vec<u8> {
    let mut value = vec![0; 41 + prng.below(max) as usize];
    prng.fill(&mut value);
    value
}

fn check(store: &Silt<SimDevice>, model: &BTreeMap<Vec<u8>, Vec<u8>>) {
    for (key, value) in model {
        let got = store.get(key).expect("gets");
        assert_eq!(got.as_ref(), Some(value), "{}", String::from_utf8_lossy(key));
    }
    let mut seen = BTreeMap::new();
    let scan = store.as_scan().expect("scans");
    let mut cursor = Some(0);
    while let Some(from) = cursor {
        cursor = scan
            .scan(from, 50, &mut |key, entry| {
                seen.insert(key.to_vec(), entry.value.to_vec());
            })
            .expect("scans");
    }
    assert!(seen == *model, "a scan sees what gets see");
}

#[test]
fn values_of_all_sizes_survive_overwrites_reclaim_and_reopening() {
    let device = device(1);
    let mut store = open(&device).expect("opens");
    let mut model = BTreeMap::new();
    let mut prng = Prng::new(5);
    let (mut live_max, mut merges) = (0, 0.0);
    for round in 0..12 {
        for _ in 0..150 {
            let key = format!("key {}", prng.below(80)).into_bytes();
            match prng.below(8) {
                0 => {
                    store.delete(&key, Durability::Buffered).expect("deletes");
                    model.remove(&key);
                }
                kind => {
                    let value = if kind < 3 { vec![7; 20] } else { large(&mut prng, 1500) };
                    store.put(&key, &value, Durability::Buffered).expect("puts");
                    model.insert(key, value);
                }
            }
        }
        maintain(&store);
        check(&store, &model);
        live_max = live_max.max(model.values().map(Vec::len).sum::<usize>());
        let mut metrics = MetricsMap::default();
        store.metrics(&mut metrics);
        if round % 4 == 3 {
            merges += metrics.get("merges");
            store.verify().expect("verifies");
            drop(store);
            store = open(&device).expect("opens");
            check(&store, &model);
        }
    }
    let on_device: usize =
        value_files(&device).iter().map(|name| device.peek(name).expect("exists").len()).sum();
    // About half of each full segment may be garbage, and entries keep old values until a merge.
    assert!(on_device < 5 * live_max + (64 << 10), "{on_device} bytes for {live_max} live ones");
    assert!(merges >= 1.0, "values die in merges, too");
}

#[test]
fn everything_deleted_leaves_no_value_segment_but_the_last() {
    let device = device(2);
    let store = open(&device).expect("opens");
    let mut prng = Prng::new(6);
    for i in 0..200u32 {
        let value = large(&mut prng, 900);
        store.put(&i.to_le_bytes(), &value, Durability::Buffered).expect("puts");
    }
    maintain(&store);
    assert!(value_files(&device).len() > 4);
    store.as_admin().expect("admin").clear().expect("clears");
    assert_eq!(value_files(&device), Vec::<String>::new());
    let value = large(&mut prng, 900);
    store.put(b"new", &value, Durability::Synced).expect("puts");
    assert_eq!(store.get(b"new").expect("gets"), Some(value.clone()));
    drop(store);
    let store = open(&device.reopen()).expect("opens");
    assert_eq!(store.get(b"new").expect("gets"), Some(value));
}

#[test]
fn a_large_value_of_the_whole_limit_round_trips_and_more_is_refused() {
    let store = open(&device(3)).expect("opens");
    // The limit itself takes seconds on the simulated device; its code path is the same from
    // one piece of a read on.
    let value: Vec<u8> = (0..5_000_000u32).map(|i| (i % 253) as u8).collect();
    store.put(b"big", &value, Durability::Synced).expect("puts");
    assert_eq!(store.get(b"big").expect("gets"), Some(value));
    let too_large = vec![0; silica_silt::VALUE_BYTES_MAX + 1];
    let error = store.put(b"big", &too_large, Durability::Buffered).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
}

#[test]
fn a_batch_with_large_values_is_whole_or_absent_after_any_power_cut() {
    let script = |store: &Silt<SimDevice>, acknowledged: &mut u32| -> Result<()> {
        for round in 0..10u32 {
            let value = vec![round as u8; 300 + 700 * round as usize];
            let mut batch = WriteBatch::new();
            batch.put(b"a", &value);
            batch.put(b"b", b"small");
            batch.put(b"c", &value);
            let durability = [Durability::Synced, Durability::Buffered][round as usize % 2];
            store.write(&batch, durability)?;
            if durability == Durability::Synced {
                *acknowledged = round + 1;
            }
            store.maintain(Budget::of(4096))?;
        }
        Ok(())
    };
    let mut op = 0;
    loop {
        for seed in 0..4 {
            let device = device(100 + seed);
            device.cut_at_op(op);
            let mut acknowledged = 0;
            if let Ok(store) = open(&device) {
                let _ = script(&store, &mut acknowledged);
            }
            if !device.is_cut() {
                assert!(op > 60, "the script has operations");
                return;
            }
            for _ in 0..2 {
                let device = device.reopen();
                let store = open(&device)
                    .unwrap_or_else(|e| panic!("cut at {op}, seed {seed}: does not open: {e}"));
                store.verify().unwrap_or_else(|e| panic!("cut at {op}, seed {seed}: {e}"));
                let get = |key: &[u8]| store.get(key).expect("gets");
                let (a, c) = (get(b"a"), get(b"c"));
                assert_eq!(a, c, "cut at {op}, seed {seed}: half a batch");
                let round = a.as_ref().map_or(0, |value| u32::from(value[0]) + 1);
                assert!(round >= acknowledged, "cut at {op}, seed {seed}: {round} is too old");
                store.put(b"after", &[9; 100], Durability::Synced).expect("goes on");
                assert_eq!(get(b"after"), Some(vec![9; 100]));
            }
        }
        op += 1;
    }
}
