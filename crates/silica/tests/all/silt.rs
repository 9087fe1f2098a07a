//! The facade over the real engine on real files.

use silica::{Durability, OpenOptions, Result, WriteBatch};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A directory that goes when the test ends.
struct Temp(PathBuf);

impl Temp {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("silica-facade-silt-{}-{number}", std::process::id());
        Temp(std::env::temp_dir().join(name))
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Stores so small that a few thousand keys convert and merge.
fn tiny() -> OpenOptions {
    OpenOptions::new()
        .engine("silt")
        .durability(Durability::Buffered)
        .set("partitions", "2")
        .set("log_store_blocks", "1")
        .set("log_store_block_buckets_log2", "6")
        .set("segment_bytes", "64KiB")
        .set("log_bytes_max", "128KiB")
}

fn key(i: u64) -> String {
    format!("key{i}")
}

fn value(i: u64) -> String {
    format!("value {i} {}", "x".repeat((i % 50) as usize))
}

#[test]
fn background_threads_convert_and_merge_and_everything_is_read_back() -> Result<()> {
    let temp = Temp::new();
    let store = tiny().background_threads(2).open(temp.join("store"))?;
    let keyspace = store.keyspace("default")?;
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut written = 0;
    while keyspace.metrics()?.get("merges") < 2.0 {
        assert!(Instant::now() < deadline, "no merge by the background threads");
        for _ in 0..500 {
            keyspace.put(key(written), value(written))?;
            written += 1;
        }
    }
    drop(keyspace);
    store.close()?;

    let store = tiny().open(temp.join("store"))?;
    let keyspace = store.keyspace("default")?;
    for i in 0..written {
        assert_eq!(keyspace.get(key(i))?, Some(value(i).into_bytes()), "key {i}");
    }
    assert_eq!(keyspace.count(true)?.low, written);
    assert_eq!(keyspace.iter().filter(|e| e.is_ok()).count() as u64, written);
    store.verify()
}

/// One writer puts keys in order, so what a backup holds must be a prefix that reaches at least
/// as far as what was acknowledged when it began.
#[test]
fn a_backup_under_writes_is_one_moment() -> Result<()> {
    let temp = Temp::new();
    let store = tiny().open(temp.join("store"))?;
    let keyspace = store.keyspace("default")?;
    let (acknowledged, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut reached = Vec::new();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut i = 0;
            while !stop.load(Ordering::Relaxed) {
                keyspace.put(key(i), value(i))?;
                i += 1;
                acknowledged.store(i, Ordering::Release);
            }
            Ok::<(), silica::Error>(())
        });
        for round in 0..3 {
            let wanted = acknowledged.load(Ordering::Acquire) + 1500;
            while acknowledged.load(Ordering::Acquire) < wanted && !writer.is_finished() {
                std::thread::yield_now();
            }
            let before = acknowledged.load(Ordering::Acquire);
            let backup = store.backup(temp.join(&format!("backup{round}")));
            reached.push((before, acknowledged.load(Ordering::Acquire)));
            if backup.is_err() {
                stop.store(true, Ordering::Relaxed);
            }
            backup?;
        }
        stop.store(true, Ordering::Relaxed);
        writer.join().expect("the writer does not panic")
    })?;
    drop(keyspace);
    store.close()?;
    for (round, (before, after)) in reached.into_iter().enumerate() {
        let copy = tiny().create(false).open(temp.join(&format!("backup{round}")))?;
        copy.verify()?;
        let keyspace = copy.keyspace("default")?;
        let held = keyspace.count(true)?.low;
        assert!(held >= before && held <= after + 1, "{held} keys, not {before} to {after}");
        for i in 0..held {
            assert_eq!(keyspace.get(key(i))?, Some(value(i).into_bytes()), "key {i}");
        }
    }
    Ok(())
}

#[test]
fn a_backup_and_its_store_live_apart() -> Result<()> {
    let temp = Temp::new();
    let store = tiny().open(temp.join("store"))?;
    let keyspace = store.keyspace("default")?;
    (0..4000).try_for_each(|i| keyspace.put(key(i), value(i)))?;
    keyspace.settle()?;
    let report = store.backup(temp.join("backup"))?;
    assert!(report.files_linked > 0, "tables are linked: {report:?}");
    let copy = tiny().open(temp.join("backup"))?;
    let copied = copy.keyspace("default")?;
    // Both go on merging; neither may touch what the other has.
    for i in 0..4000 {
        keyspace.put(key(i), "changed in the store")?;
        copied.delete(key(i))?;
    }
    keyspace.settle()?;
    copied.settle()?;
    assert_eq!(copied.count(true)?.low, 0);
    assert_eq!(keyspace.count(true)?.low, 4000);
    assert_eq!(keyspace.get(key(77))?.as_deref(), Some(&b"changed in the store"[..]));
    store.verify()?;
    copy.verify()
}

#[test]
fn memory_is_divided_among_the_keyspaces_that_name_none() -> Result<()> {
    let temp = Temp::new();
    let store = OpenOptions::new().memory_bytes(96 << 20).open(temp.join("store"))?;
    let budget = |k: &silica::Keyspace| k.metrics().map(|m| m.get("memory_budget_bytes"));
    let first = store.keyspace("first")?;
    assert_eq!(budget(&first)?, f64::from(96 << 20));
    let second = store.keyspace("second")?;
    let own = store.create_keyspace("own", "silt", &[("memory_bytes", "32MiB")])?;
    assert_eq!(budget(&own)?, f64::from(32 << 20));
    assert_eq!([budget(&first)?, budget(&second)?], [f64::from(32 << 20); 2]);
    drop(second);
    store.drop_keyspace("second")?;
    assert_eq!(budget(&first)?, f64::from(64 << 20));
    drop((first, own));
    store.close()?;
    // Parts given when the store is opened come before what is in the catalog.
    let parts = OpenOptions::new().memory_bytes(96 << 20).keyspace_memory("own", 8 << 20);
    let store = parts.keyspace_memory("third", 48 << 20).open(temp.join("store"))?;
    let [first, own] = [store.keyspace("first")?, store.keyspace("own")?];
    assert_eq!([budget(&first)?, budget(&own)?], [88, 8].map(|mib| f64::from(mib << 20)));
    let third = store.keyspace("third")?;
    assert_eq!([budget(&first)?, budget(&third)?], [40, 48].map(|mib| f64::from(mib << 20)));
    drop((first, own, third));
    store.close()?;
    let too_much = OpenOptions::new().memory_bytes(96 << 20).keyspace_memory("own", 97 << 20);
    let refused = too_much.open(temp.join("store")).err().expect("it does not fit");
    assert!(refused.to_string().contains("more memory or smaller parts"), "{refused}");
    Ok(())
}

#[test]
fn batches_are_atomic_and_updates_do_not_get_lost() -> Result<()> {
    let temp = Temp::new();
    let store = tiny().open(temp.join("store"))?;
    let keyspace = store.keyspace("default")?;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let add = |old: Option<silica::EntryRef<'_>>| {
                        let old =
                            old.map_or(0, |e| u64::from_le_bytes(e.value.try_into().unwrap()));
                        silica::Update::put((old + 1).to_le_bytes().to_vec())
                    };
                    keyspace.update("counter", add).unwrap();
                }
            });
        }
    });
    assert_eq!(keyspace.get("counter")?, Some(800u64.to_le_bytes().to_vec()));
    let mut batch = WriteBatch::new();
    let too_long = vec![0; 1 << 20];
    batch.put(b"counter", b"gone").put(&too_long, b"");
    assert!(keyspace.write(&batch).is_err(), "a key of a MiB is over the limit");
    assert_eq!(keyspace.get("counter")?, Some(800u64.to_le_bytes().to_vec()));
    Ok(())
}
