//! A writer that panics in the middle leaves its partition in a safe state: a cache forgets what
//! was in it, a store says that it cannot go on until it is cleared.

use silica_base::{Clock, ErrorKind, HashSeed};
use silica_engine::{
    Admin, Durability, Engine, EngineExt, EntryRef, Environment, OptionValues, Scan, Sharded,
    WriteBatch,
};
use silica_mica::{Mica, OPTIONS};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const NOW: Durability = Durability::Buffered;

/// A clock that breaks when it is next asked, once it is told to.
#[derive(Default)]
struct Brittle(AtomicBool);

impl Clock for Brittle {
    fn unix_ms(&self) -> u64 {
        assert!(!self.0.swap(false, Relaxed), "the clock broke");
        1
    }

    fn monotonic_ns(&self) -> u64 {
        0
    }
}

fn open(eviction: &str) -> (Mica, Arc<Brittle>) {
    let clock = Arc::new(Brittle::default());
    let pairs = [("eviction", eviction), ("memory_bytes", "64KiB"), ("partitions", "1")];
    let options = OptionValues::parse(OPTIONS, pairs).expect("valid");
    let environment = Environment { clock: clock.clone(), seed: HashSeed([1; 16]) };
    (Mica::open(&options, &environment).expect("it opens"), clock)
}

fn batch<'e>(key: &'e [u8], value: &'e [u8], expires_unix_ms: u64) -> WriteBatch<'e> {
    let mut batch = WriteBatch::new();
    batch.put_entry(key, EntryRef { value, expires_unix_ms, user_bits: 0 });
    batch
}

/// What is evicted is asked for its expiry, by the writer, in the middle of an append.
fn fill(mica: &Mica) {
    for n in 0..2000_u64 {
        mica.write(&batch(&n.to_le_bytes(), &[1; 40], 1000), NOW).expect("a put");
    }
}

fn breaks(what: impl FnOnce()) {
    catch_unwind(AssertUnwindSafe(what)).expect_err("the clock broke");
}

/// Everything works again, and nothing that is wrong is found.
fn check(mica: &Mica) {
    for n in 0..2000_u64 {
        let found = mica.get(&n.to_le_bytes()).expect("a get");
        assert!(found.is_none_or(|value| value == [1; 40]));
    }
    mica.verify().expect("every invariant");
    fill(mica);
    assert!(mica.get(&1999_u64.to_le_bytes()).expect("a get").is_some());
    mica.verify().expect("every invariant");
}

#[test]
fn a_cache_goes_on_without_the_partition_s_entries() {
    let (mica, clock) = open("fifo");
    fill(&mica);
    clock.0.store(true, Relaxed);
    breaks(|| mica.put(b"new", &[2; 400], NOW).expect("a put"));
    assert_eq!(mica.count(true).expect("a count").high, 0);
    check(&mica);
    // The owner of the partition breaks, and stays the owner.
    let mut shard = mica.take(0).expect("a shard");
    clock.0.store(true, Relaxed);
    breaks(|| shard.write(&batch(b"new", &[2; 400], 0), NOW).expect("a put"));
    assert_eq!(mica.put(b"key", b"value", NOW).expect_err("owned").kind(), ErrorKind::Locked);
    shard.write(&batch(b"new", b"value", 0), NOW).expect("a put");
    assert_eq!(mica.get(b"new").expect("a get"), Some(b"value".to_vec()));
    drop(shard);
    check(&mica);
}

#[test]
fn a_reader_that_moves_what_it_finds_is_a_writer() {
    let (mica, clock) = open("lru");
    fill(&mica);
    mica.put(b"stays", b"value", NOW).expect("a put");
    mica.put(b"newer", b"value", NOW).expect("a put");
    clock.0.store(true, Relaxed);
    breaks(|| drop(mica.get(b"stays")));
    check(&mica);
}

#[test]
fn a_store_refuses_to_go_on_until_it_is_cleared() {
    let (mica, clock) = open("none");
    // Entries that expire some time, so that a write that does not fit asks for the time.
    let put = |n: u64| mica.write(&batch(&n.to_le_bytes(), &[1; 40], 1000), NOW);
    let full = (0..).find(|n| put(*n).is_err()).expect("full one day");
    clock.0.store(true, Relaxed);
    breaks(|| drop(put(full)));
    let refused = |error: silica_base::Error| {
        assert_eq!(error.kind(), ErrorKind::Poisoned, "{error}");
        assert!(error.to_string().contains("clear"), "{error}");
    };
    refused(put(0).expect_err("a put"));
    refused(mica.take(0).map(drop).expect_err("a shard"));
    refused(mica.verify().expect_err("a check"));
    refused(mica.scan(0, usize::MAX, &mut |_, _| {}).map(drop).expect_err("a scan"));
    // Buckets that were not being written have what they had; of others it is said.
    let found = (0..full).filter(|n| match mica.get(&n.to_le_bytes()) {
        Ok(value) => value == Some(vec![1; 40]),
        Err(error) => {
            refused(error);
            false
        }
    });
    let found = found.count() as u64;
    assert!(found > full / 2 && found <= full, "{found} of {full}");
    refused(mica.get(&full.to_le_bytes()).map(drop).expect_err("its bucket was being written"));
    mica.clear().expect("a clear");
    put(0).expect("a put");
    assert_eq!(mica.count(true).expect("a count").high, 1);
    mica.verify().expect("every invariant");
    let again = (1..).find(|n| put(*n).is_err()).expect("full one day");
    assert_eq!(again, full, "as much fits as before");
}

#[test]
fn a_panic_before_anything_is_written_changes_nothing() {
    for eviction in ["fifo", "none"] {
        let (mica, _) = open(eviction);
        mica.put(b"key", b"value", NOW).expect("a put");
        let atomic = mica.as_atomic().expect("it has the view");
        breaks(|| atomic.update(b"key", NOW, &mut |_| panic!("the decision")).expect("an update"));
        assert_eq!(mica.get(b"key").expect("a get"), Some(b"value".to_vec()));
        mica.put(b"key", b"other", NOW).expect("a put");
        mica.verify().expect("every invariant");
    }
}
