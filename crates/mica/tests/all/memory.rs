//! The memory number against what the system says, for a cache that has been full for long and for
//! a full store, in a process of its own.
#![cfg(target_os = "linux")]

use crate::support::{MIB, metric};
use silica_base::{HashSeed, in_own_process};
use silica_engine::{
    Admin, Budget, Durability, Engine, EngineExt, Environment, OptionValues, WriteBatch,
};
use silica_mica::{Mica, OPTIONS};

/// What the system says of this process.
fn status_bytes(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("status of this process");
    let line = status.lines().find(|line| line.starts_with(field)).expect("the field");
    let kib = line.split_whitespace().nth(1).expect("a number");
    1024 * kib.parse::<u64>().expect("a number")
}

/// Anonymous memory of this process that is resident.
fn resident_bytes() -> u64 {
    status_bytes("RssAnon:")
}

/// Options of an engine of so much memory, none of it in pages that the system has reserved.
fn options(eviction: &str, memory: u64, entry_bytes_mean: u64) -> OptionValues {
    let mut options = OptionValues::parse(OPTIONS, [("eviction", eviction)]).expect("valid");
    options.set("memory_bytes", memory).set("entry_bytes_mean", entry_bytes_mean);
    options.set("reserved_pages", 0);
    options
}

/// Entries of 8 + 8 bytes until the store is full: what docs/engines/mica.md says of them.
fn fill_a_store() {
    let (before, memory) = (resident_bytes(), 48 * MIB);
    let options = options("none", memory, 16);
    let store = Mica::open(&options, &Environment::new(HashSeed([5; 16]))).expect("a store");
    let opened = resident_bytes() - before;
    assert!(opened < memory / 4, "memory is held once it is used: {opened}");
    let put = |n: u64| store.put(&n.to_le_bytes(), &n.to_le_bytes(), Durability::Buffered);
    let entries = (0..).find(|n| put(*n).is_err()).expect("full one day");
    let full = resident_bytes() - before;
    assert!(full <= memory + 2 * MIB, "{full} of {memory} bytes");
    let each = memory as f64 / entries as f64;
    assert!(each <= 36.0, "{each} bytes of all memory for each entry");
}

/// Wherever the memory comes from: the engine works, holds what it was given, and says what the
/// system says.
fn reserved_pages_are_told(eviction: &str) {
    let (before, memory) = (resident_bytes(), 48 * MIB);
    let mut options = options(eviction, memory, 1000);
    options.set("reserved_pages", 1).set("partitions", 2);
    let mica = Mica::open(&options, &Environment::new(HashSeed([5; 16]))).expect("it opens");
    let reserved = || metric(&mica, "reserved_page_bytes");
    assert_eq!(reserved(), status_bytes("HugetlbPages:") as f64);
    let held = || resident_bytes().saturating_sub(before) + status_bytes("HugetlbPages:");
    let put = |n: u64| mica.put(&n.to_le_bytes(), &[1; 1000], Durability::Buffered);
    for _ in 0..2 {
        let count = (0..60_000).take_while(|n| put(*n).is_ok()).count() as u64;
        assert!(mica.get(&(count - 1).to_le_bytes()).expect("a get").is_some());
        assert!((memory / 10 * 8..=memory + 2 * MIB).contains(&held()), "{} bytes", held());
        mica.verify().expect("every invariant");
        mica.clear().expect("a clear");
        while mica.maintain(Budget::of(MIB)).expect("it works").more {}
        // Reserved pages stay, and nobody says otherwise.
        assert_eq!(reserved(), status_bytes("HugetlbPages:") as f64);
        assert!(held() < memory / 5 + reserved() as u64, "{} bytes are still held", held());
        if eviction == "none" {
            let returned = metric(&mica, "returned_bytes") + reserved();
            assert!(returned > (memory / 4 * 3) as f64 && returned <= memory as f64, "{returned}");
        }
        mica.verify().expect("every invariant");
    }
    let inspected = mica.inspect().expect("a text");
    assert!(inspected.contains(&format!("reserved_page_bytes: {}\n", reserved())), "{inspected}");
}

#[test]
fn full_engines_hold_what_they_were_given_and_no_more() {
    in_own_process("memory::full_engines_hold_what_they_were_given_and_no_more", || {
        fill_a_store();
        fill_caches();
        ["none", "s3-fifo"].into_iter().for_each(reserved_pages_are_told);
        for eviction in ["none", "fifo"] {
            memory_comes_back(eviction);
        }
    });
}

/// What was freed, by deletes or by clearing, is the system's again.
fn memory_comes_back(eviction: &str) {
    let (before, memory) = (resident_bytes(), 96 * MIB);
    let mut options = options(eviction, memory, 1000);
    options.set("partitions", 2);
    let mica = Mica::open(&options, &Environment::new(HashSeed([5; 16]))).expect("it opens");
    let held = || resident_bytes().saturating_sub(before);
    let put = |n: u64| mica.put(&n.to_le_bytes(), &[1; 1000], Durability::Buffered);
    let entries = 120_000;
    let fill = || (0..entries).take_while(|n| put(*n).is_ok()).count() as u64;
    let returned = || metric(&mica, "returned_bytes");
    for round in 0..3 {
        let count = fill();
        assert!(held() > memory / 10 * 8, "{} of {memory} bytes are in use", held());
        if eviction == "none" && round != 1 {
            assert!(count < entries && returned() < (4 * MIB) as f64, "{count} {}", returned());
            // Half of them, every second one: no page is free.
            let delete = |n| mica.delete(&u64::to_le_bytes(n), Durability::Buffered);
            (0..count).step_by(2).for_each(|n| delete(n).expect("a delete"));
            let half = (held(), returned());
            assert!(half.0 > memory / 10 * 8, "{half:?}");
            (1..count).step_by(2).for_each(|n| delete(n).expect("a delete"));
            assert!(held() < memory / 6, "{} bytes are still held", held());
            assert!(returned() > (memory / 6 * 5) as f64, "{} bytes are returned", returned());
            while mica.maintain(Budget::of(MIB)).expect("it works").more {}
            assert!(held() < memory / 7, "{} bytes are still held", held());
        } else {
            mica.clear().expect("a clear");
            assert!(held() < memory / 7, "{} bytes are still held", held());
        }
        mica.verify().expect("every invariant");
        let parts = ["live_bytes", "dead_bytes", "free_bytes"].map(|name| metric(&mica, name));
        assert_eq!(parts.iter().sum::<f64>(), metric(&mica, "log_bytes"), "{parts:?}");
        let parts = ["log_bytes", "index_bytes", "management_bytes"].map(|n| metric(&mica, n));
        let sum: f64 = parts.iter().sum();
        assert!(sum <= memory as f64 && sum > (memory - MIB) as f64, "{parts:?}");
    }
}

fn fill_caches() {
    for (memory, value_bytes) in [(96 * MIB, 8), (64 * MIB, 1000)] {
        let before = resident_bytes();
        let options = options("s3-fifo", memory, 8 + value_bytes);
        let environment = Environment::new(HashSeed([5; 16]));
        let mica = Mica::open(&options, &environment).expect("a cache");
        let opened = resident_bytes() - before;
        assert!(opened < memory / 8, "memory is held once it is used: {opened}");
        let value = vec![1; value_bytes as usize];
        // Twice what fits.
        let entries = 2 * memory / (16 + value_bytes);
        for first in (0..entries).step_by(32) {
            let keys: [[u8; 8]; 32] = std::array::from_fn(|i| (first + i as u64).to_le_bytes());
            let mut batch = WriteBatch::new();
            keys.iter().for_each(|key| {
                batch.put(key, &value);
            });
            mica.write(&batch, Durability::Buffered).expect("a write");
        }
        assert!(mica.get(&(entries - 1).to_le_bytes()).expect("a get").is_some());
        let is_gone = |key: u64| mica.get(&key.to_le_bytes()).expect("a get").is_none();
        assert!(is_gone(0) || is_gone(entries / 4 * 3), "it is full");
        let full = resident_bytes() - before;
        let slack = 2 * MIB;
        assert!(full <= memory + slack, "{full} of {memory} bytes");
        assert!(full > memory / 10 * 9, "{full} of {memory} bytes are in use");
    }
}
