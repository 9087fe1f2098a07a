//! Reads through the block cache while the tables that they read from are merged and removed: each
//! finds what was there, and never something older than before.

use silica_base::{Prng, test_size};
use silica_device::sim::{SimDevice, SimOptions};
use silica_engine::{
    Budget, Durability, Engine, EngineExt, EntryRef, Environment, GetSink, KeyRange, OptionValues,
    Ordered,
};
use silica_wip::Wip;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

const KEYS: u64 = 600;

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// Values tell their key and their round, and are long enough for blocks of several sizes.
fn value(n: u64, round: u64) -> Vec<u8> {
    let words = 2 + n as usize * 7 % 300;
    let pair = [n.to_le_bytes(), round.to_le_bytes()].concat();
    let mut bytes = pair.repeat(words.div_ceil(2));
    bytes.truncate(8 * words);
    bytes
}

/// The round of a value, which has to be one of key `n`.
fn round_of(n: u64, bytes: &[u8]) -> u64 {
    let round = u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes"));
    let (pair, words) = (&bytes[..16], 2 + n as usize * 7 % 300);
    let is_its = pair[..8] == n.to_le_bytes() && bytes.len() == 8 * words;
    // Behind each pair comes the next one.
    assert!(is_its && bytes[16..] == bytes[..bytes.len() - 16], "key {n} has another one's bytes");
    round
}

struct Rounds<'r> {
    keys: &'r [u64],
    /// The last round that was seen of each key.
    seen: &'r mut [u64],
    found: usize,
}

impl Rounds<'_> {
    fn see(&mut self, n: u64, bytes: &[u8]) {
        let (round, seen) = (round_of(n, bytes), &mut self.seen[n as usize]);
        assert!(*seen <= round, "key {n}: round {round} after round {seen}");
        *seen = round;
    }
}

impl GetSink for Rounds<'_> {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        self.see(self.keys[index], entry.value);
        self.found += 1;
    }
}

/// Gets, one by one and in bursts, and ranges, until `is_over`.
fn read(store: &Arc<Wip<SimDevice>>, seed: u64, is_over: &AtomicBool) {
    let (mut prng, mut seen) = (Prng::new(seed), vec![0; KEYS as usize]);
    while !is_over.load(Relaxed) {
        let len = [1, 8, 40][prng.below(3) as usize];
        let mut keys: Vec<u64> = (0..len).map(|_| prng.below(KEYS)).collect();
        keys.sort_unstable();
        keys.dedup();
        let names: Vec<_> = keys.iter().map(|n| key(*n)).collect();
        let names: Vec<&[u8]> = names.iter().map(|name| &name[..]).collect();
        let mut rounds = Rounds { keys: &keys, seen: &mut seen, found: 0 };
        store.get_many(&names, &mut rounds).expect("gets");
        assert_eq!(rounds.found, keys.len());
        let ordered: Arc<dyn Ordered> = store.clone();
        let mut iter =
            ordered.snapshot().and_then(|s| s.iterate(&KeyRange::ALL)).expect("an iterator");
        let mut n = keys[0];
        let is_forward = prng.one_in(2);
        let mut is_there = iter.seek(&key(n)).expect("a seek");
        for _ in 0..30 {
            if !is_there {
                break;
            }
            assert_eq!(iter.key(), key(n));
            rounds.see(n, iter.entry().value);
            is_there = if is_forward { iter.next() } else { iter.prev() }.expect("a step");
            n = if is_forward { n + 1 } else { n.saturating_sub(1) };
        }
    }
}

#[test]
fn readers_of_tables_that_are_merged_and_removed_find_what_was_there() {
    let mut options = OptionValues::default();
    for (name, bytes) in [
        // A cache that is always too small, whose blocks go all the time.
        ("memory_bytes", 1 << 20),
        ("memtable_bytes_max", 64 << 10),
        ("log_bytes_max", 256 << 10),
        ("bucket_bytes_max", 256 << 10),
    ] {
        options.set(name, bytes);
    }
    let device = SimDevice::new(1, SimOptions::default());
    let environment = Environment::new(silica_base::HashSeed([3; 16]));
    let store = Arc::new(Wip::open(device, &options, &environment).expect("opens"));
    let put = |n: u64, round: u64| {
        store.put(&key(n), &value(n, round), Durability::Buffered).expect("a put");
    };
    (0..KEYS).for_each(|n| put(n, 1));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|seed| {
                let (store, is_over) = (&store, &is_over);
                scope.spawn(move || read(store, seed, is_over))
            })
            .collect();
        let mut prng = Prng::new(7);
        let rounds = test_size(20, 60, 2000);
        for round in 2..rounds as u64 {
            for _ in 0..KEYS / 2 {
                put(prng.below(KEYS), round);
                store.maintain(Budget::of(16 << 10)).expect("maintains");
            }
            if round % 4 == 0 {
                let ordered: Arc<dyn Ordered> = store.clone();
                ordered.compact_range(&KeyRange::ALL).expect("compacts");
            }
            if readers.iter().any(|reader| reader.is_finished()) {
                break;
            }
        }
        is_over.store(true, Relaxed);
        readers.into_iter().for_each(|reader| reader.join().expect("no reader failed"));
    });
    store.verify().expect("verifies");
}
