//! Caches without a directory are looked after as stores are: what has expired goes by itself. The
//! test has a process of its own because it counts threads.
#![cfg(target_os = "linux")]

use silica::{Durability, Engine, EngineExt, EntryRef, MetricsMap, OpenOptions, WriteBatch};
use silica_base::in_own_process;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("threads of this process").count()
}

fn entries(cache: &Arc<dyn Engine>) -> f64 {
    let mut metrics = MetricsMap::default();
    cache.metrics(&mut metrics);
    metrics.get("entries_estimate")
}

fn put(cache: &Arc<dyn Engine>, n: u32, expires_unix_ms: u64) {
    let entry = EntryRef { value: b"value", expires_unix_ms, user_bits: 0 };
    let mut batch = WriteBatch::new();
    cache.write(batch.put_entry(&n.to_le_bytes(), entry), Durability::Buffered).expect("a put");
}

#[test]
fn caches_are_maintained_while_they_are_open() {
    in_own_process("upkeep::caches_are_maintained_while_they_are_open", || {
        let before = threads();
        let image = tempfile::tempdir().expect("a directory");
        for eviction in ["none", "s3-fifo"] {
            let options = || {
                let options = OpenOptions::new().memory_bytes(8 << 20).set("eviction", eviction);
                options.image(image.path())
            };
            let cache = options().open_cache().expect("a cache");
            assert_eq!(threads(), before + 1);
            let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
            let soon = now.as_millis() as u64 + 300;
            (0..1000).for_each(|n| put(&cache, n, if n % 4 == 0 { 0 } else { soon }));
            // Nobody asks for anything, and yet.
            while entries(&cache) != 250.0 {
                std::thread::sleep(Duration::from_millis(20));
            }
            assert!(cache.get(&0_u32.to_le_bytes()).expect("a get").is_some());
            cache.verify().expect("every invariant");
            drop(cache);
            assert_eq!(threads(), before, "the thread went with it");
            // As did its directory's lock: another process may open it at once.
            for _ in 0..5 {
                drop(options().open_cache().expect("the directory is free"));
            }
        }
        let alone = OpenOptions::new().background_threads(0).open_cache().expect("a cache");
        assert_eq!(threads(), before, "who wants no thread gets none");
        put(&alone, 1, 0);
    });
}
