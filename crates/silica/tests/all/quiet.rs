//! What pays only in quiet times is done by the threads of a store that is left alone.

use silica::{Durability, OpenOptions};
use std::time::{Duration, Instant};

/// Runs of a level, which a bucket may have more of while it is only written.
const RUNS_MAX: f64 = 20.0;

fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

#[test]
fn runs_of_a_store_that_is_left_alone_are_merged() {
    let small = [
        ("bucket_bytes_max", "1073741824"),
        // So large that background work is not taken for absent while a core is busy.
        ("memtable_bytes_max", "1048576"),
        ("log_bytes_max", "4194304"),
        ("segment_bytes", "262144"),
    ];
    let options = OpenOptions::new().engine("wip").memory_bytes(128 << 20).background_threads(1);
    let options = options.durability(Durability::Buffered);
    let options = small.iter().fold(options, |options, (name, value)| options.set(*name, *value));
    let directory = tempfile::tempdir().unwrap();
    let store = options.open(directory.path()).unwrap();
    let keyspace = store.keyspace("default").unwrap();
    let metric = |name: &str| keyspace.metrics().unwrap().get(name);
    // New keys only: nothing but the number of runs has them merged.
    let mut written = 0;
    while metric("runs") <= RUNS_MAX + 5.0 {
        for _ in 0..1000 {
            keyspace.put(key(written), [1; 100]).unwrap();
            written += 1;
        }
        assert!(written < 1_000_000, "{} compactions amid writes", metric("compactions"));
    }
    let before = metric("compactions");
    let started = Instant::now();
    while metric("runs") >= RUNS_MAX {
        assert!(started.elapsed() < Duration::from_secs(60), "{} runs", metric("runs"));
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(metric("compactions") > before);
}
