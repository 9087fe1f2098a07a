//! A store on the simulated device: fill, overwrite, convert, merge, reopen.

use silica_base::HashSeed;
use silica_device::sim::{SimDevice, SimOptions};
use silica_engine::{
    Budget, Durability, Engine, EngineExt, Environment, MetricsMap, OptionValues, WriteBatch,
};
use silica_silt::Silt;
use std::sync::atomic::{AtomicBool, Ordering};

fn options() -> OptionValues {
    let mut values = OptionValues::default();
    values
        .set("partitions", 2)
        .set("log_store_blocks", 2)
        .set("log_store_block_buckets_log2", 4)
        .set("segment_bytes", 8 << 10)
        .set("log_bytes_max", 64 << 10);
    values
}

fn open(device: &SimDevice) -> Silt<SimDevice> {
    let environment = Environment::new(HashSeed([7; 16]));
    Silt::open(device.clone(), &options(), &environment).expect("opens")
}

fn metrics(store: &Silt<SimDevice>) -> MetricsMap {
    let mut metrics = MetricsMap::default();
    store.metrics(&mut metrics);
    metrics
}

#[test]
fn entries_survive_conversions_merges_and_reopening() {
    let device = SimDevice::new(1, SimOptions::default());
    let store = open(&device);
    for round in 0..3u32 {
        for i in 0..3000u32 {
            let (key, value) = (format!("key{i}"), format!("value{round}-{i}"));
            store.put(key.as_bytes(), value.as_bytes(), Durability::Buffered).expect("puts");
        }
        while store.maintain(Budget::of(1 << 16)).expect("maintains").more {}
    }
    let before = metrics(&store);
    println!("{before:#?}");
    assert!(before.get("merges") >= 3.0 && before.get("conversions") >= 10.0);
    store.verify().expect("verifies");
    drop(store);
    let store = open(&device);
    for i in 0..3000u32 {
        let got = store.get(format!("key{i}").as_bytes()).expect("gets");
        assert_eq!(got, Some(format!("value2-{i}").into_bytes()), "key {i}");
    }
    assert_eq!(store.get(b"nokey").expect("gets"), None);
    println!("{:#?}", metrics(&store));
    assert_eq!(store.as_admin().expect("admin").count(true).expect("counts").low, 3000);
}

#[test]
fn opening_without_writing_leaves_the_store_openable() {
    let device = SimDevice::new(1, SimOptions::default());
    open(&device).put(b"key", b"value", Durability::Synced).expect("puts");
    for _ in 0..4 {
        let store = open(&device);
        assert_eq!(store.get(b"key").expect("gets"), Some(b"value".to_vec()));
        store.sync().expect("syncs");
    }
}

#[test]
fn only_the_first_open_after_a_death_writes() {
    let device = SimDevice::new(1, SimOptions::default());
    let store = open(&device);
    store.put(b"key", b"value", Durability::Buffered).expect("puts");
    let device = device.reopen();
    drop(store);
    let writes_of_an_open = || {
        let before = device.op_count();
        let store = open(&device);
        assert_eq!(store.get(b"key").expect("gets"), Some(b"value".to_vec()));
        device.op_count() - before
    };
    assert!(writes_of_an_open() > 0, "nothing makes the tail of the log durable");
    assert_eq!(writes_of_an_open(), 0, "the store was closed");
}

#[test]
fn a_reader_never_sees_a_key_between_two_operations_of_one_batch() {
    let store = open(&SimDevice::new(1, SimOptions::default()));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        store.put(b"key", b"first", Durability::Buffered).expect("puts");
        let reader = scope.spawn(|| {
            let mut reads = 0u64;
            while !stop.load(Ordering::Relaxed) {
                let value = store.get(b"key").expect("gets");
                assert!(value.is_some_and(|v| v != b"middle"), "after {reads} reads");
                reads += 1;
            }
        });
        for n in 0..30_000u32 {
            let (other, last) = (n.to_le_bytes(), n.to_be_bytes());
            let mut batch = WriteBatch::new();
            batch.delete(b"key").put(b"key", b"middle").put(&other, b"x").put(b"key", &last);
            store.write(&batch, Durability::Buffered).expect("writes");
            if reader.is_finished() {
                break;
            }
            if n % 64 == 0 {
                store.maintain(Budget::of(1 << 14)).expect("maintains");
            }
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().expect("the reader saw only whole batches");
    });
}
