//! The sketch of a running keyspace: what it says, that it stays, that it never harms.

use silica::tune::{Access, Sizes, Workload};
use silica::{Durability, ErrorKind, Keyspace, OpenOptions, Silica, Update, WriteBatch};
use silica_base::Prng;
use std::path::Path;

const KEYS: u64 = 20_000;
const SKEW: f64 = 0.9;
/// Operations of each thread.
const ROUNDS: u64 = 80_000;

fn open(path: &Path) -> Silica {
    OpenOptions::new().durability(Durability::Buffered).open(path).unwrap()
}

fn key(number: u64) -> [u8; 12] {
    let mut key = *b"key-00000000";
    key[4..].copy_from_slice(&Prng::new(number).next_u64().to_le_bytes());
    key
}

/// Ranks from 0 on in proportion to `(rank + 1)^-SKEW`.
fn sums() -> Vec<f64> {
    let mut sum = 0.0;
    let add = |rank: u64| {
        sum += (rank as f64).powf(-SKEW);
        sum
    };
    (1..=KEYS).map(add).collect()
}

/// Of ten operations six gets (one of a key that is not there), three puts and one update.
fn work(keyspace: &Keyspace, sums: &[f64], seed: u64) {
    let mut prng = Prng::new(seed);
    for round in 0..ROUNDS {
        let at = prng.next_u64() as f64 / 2f64.powi(64) * sums[sums.len() - 1];
        let key = key(sums.partition_point(|sum| *sum <= at) as u64);
        match round % 10 {
            0 => assert_eq!(keyspace.get(prng.next_u64().to_le_bytes()).unwrap(), None),
            1..=5 => assert!(keyspace.get(key).unwrap().is_some()),
            6..=8 => keyspace.put(key, [7; 50]).unwrap(),
            _ => keyspace.update(key, |_| Update::put(vec![8; 50])).unwrap(),
        }
    }
}

fn fill(keyspace: &Keyspace) {
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    for keys in keys.chunks(100) {
        let mut batch = WriteBatch::new();
        for key in keys {
            batch.put(key, &[7; 50]);
        }
        keyspace.write(&batch).unwrap();
    }
}

fn near(found: f64, expected: f64, bound: f64, what: &str) {
    assert!((found - expected).abs() <= bound, "{what}: {found}, not {expected}");
}

#[test]
fn a_running_keyspace_knows_its_workload_and_a_restart_keeps_it() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let keyspace = store.keyspace("k").unwrap();
    assert_eq!(keyspace.workload().unwrap_err().kind(), ErrorKind::Config);
    fill(&keyspace);
    drop(keyspace);
    store.close().unwrap();
    // The load is another workload.
    std::fs::remove_file(directory.path().join("sketch-0")).unwrap();

    let store = open(directory.path());
    let keyspace = store.keyspace("k").unwrap();
    let sums = sums();
    std::thread::scope(|scope| {
        for seed in 1..=4 {
            let (keyspace, sums) = (&keyspace, &sums);
            scope.spawn(move || work(keyspace, sums, seed));
        }
    });
    let before = keyspace.workload().unwrap();
    near(before.mix.get_hits, 0.5, 0.05, "hits");
    near(before.mix.get_misses, 0.1, 0.03, "misses");
    near(before.mix.overwrites, 0.3, 0.05, "overwrites");
    near(before.mix.modifies, 0.1, 0.03, "modifies");
    assert_eq!((before.synced, before.burst), (0.0, 1.0));
    assert_eq!(before.value_bytes, Sizes::constant(50.0));
    near(before.key_bytes.mean(), 12.0 - 0.4, 0.2, "key bytes");
    near(before.keys as f64, KEYS as f64, 0.2 * KEYS as f64, "keys");
    let Access::Zipf { skew } = before.access else { panic!("{}", before.access) };
    near(skew, SKEW, 0.08, "skew");
    let cached = before.working_set.miss_ratio(KEYS as f64 / 10.0).unwrap();
    assert!((0.2..0.7).contains(&cached), "{cached}");
    assert_eq!(before.to_string().parse::<Workload>().unwrap(), before);
    drop(keyspace);
    store.close().unwrap();

    let store = open(directory.path());
    let again = store.keyspace("k").unwrap().workload().unwrap();
    assert_eq!(again.mix, before.mix);
    assert_eq!(again.access, before.access);
    assert_eq!(again.working_set, before.working_set);
}

#[test]
fn scans_are_counted_with_their_length() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let keyspace = store.keyspace("k").unwrap();
    fill(&keyspace);
    for _ in 0..6000 {
        assert_eq!(keyspace.range(..).unwrap().take(5).count(), 5);
    }
    let workload = keyspace.workload().unwrap();
    assert_eq!(workload.scan_entries, Sizes::constant(5.0));
    assert!(workload.mix.scans > 0.05, "{:?}", workload.mix);
}

#[test]
fn a_damaged_sketch_begins_anew() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let keyspace = store.keyspace("k").unwrap();
    (0..20_000).for_each(|n| keyspace.put(key(n), "v").unwrap());
    drop(keyspace);
    store.close().unwrap();
    let file = directory.path().join("sketch-0");
    let mut bytes = std::fs::read(&file).unwrap();
    assert!(bytes.len() < 256 << 10, "{} bytes", bytes.len());
    bytes[30] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    let store = open(directory.path());
    let keyspace = store.keyspace("k").unwrap();
    assert_eq!(keyspace.workload().unwrap_err().kind(), ErrorKind::Config);
    assert_eq!(keyspace.get(key(3)).unwrap().as_deref(), Some(&b"v"[..]));
    (0..20_000).for_each(|n| keyspace.put(key(n), "v").unwrap());
    assert!(keyspace.workload().unwrap().mix.overwrites > 0.9);
}

#[test]
fn a_sketch_goes_with_its_keyspace() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    for name in ["a", "b"] {
        let keyspace = store.keyspace(name).unwrap();
        (0..5000).for_each(|n| keyspace.put(key(n), "v").unwrap());
    }
    store.close().unwrap();
    let file = |n: u32| directory.path().join(format!("sketch-{n}"));
    assert!(file(0).exists() && file(1).exists());
    std::fs::copy(file(0), file(7)).unwrap();
    let store = open(directory.path());
    assert!(!file(7).exists(), "a sketch of no keyspace is swept");
    store.keyspace("a").unwrap();
    store.drop_keyspace("a").unwrap();
    store.drop_keyspace("b").unwrap();
    store.close().unwrap();
    assert!(!file(0).exists() && !file(1).exists());
}

#[test]
fn what_is_read_of_snapshots_and_ranges_without_entries_is_seen() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let keyspace = store.keyspace("k").unwrap();
    keyspace.put(key(1), [7; 50]).unwrap();
    let snapshot = keyspace.snapshot().unwrap();
    for n in 0..30_000u64 {
        match n % 4 {
            0 => assert_eq!(snapshot.get(b"none").unwrap(), None),
            1 => assert!(keyspace.range(&b"x"[..]..&b"y"[..]).unwrap().next().is_none()),
            _ => assert!(snapshot.get(key(1)).unwrap().is_some()),
        }
    }
    let workload = keyspace.workload().unwrap();
    near(workload.mix.get_hits, 0.5, 0.1, "hits");
    near(workload.mix.get_misses, 0.25, 0.1, "misses");
    near(workload.mix.scans, 0.25, 0.1, "scans");
}
