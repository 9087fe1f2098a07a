//! Bytes that the medium writes inside: what write buffers are worth, in all of a store's life.

use super::crash::metric;
use super::harness::Tree;
use silica_base::{HashSeed, ManualClock, Prng, test_size};
use silica_device::region::RegionClass;
use silica_device::sim::SimRegions;
use silica_engine::{Budget, Durability, Engine, EngineExt, Environment, OptionValues};
use silica_pmem::sptree::SpTree;
use std::sync::Arc;

/// Bytes of a processor's cache before the medium: fewer than any of these trees has.
const CACHE_BYTES: u64 = 64 << 10;

struct Store {
    tree: Tree,
    place: SimRegions,
    keys: u64,
}

impl Store {
    fn new(options: &[(&str, u64)]) -> Store {
        let place = SimRegions::new(1, RegionClass::Lines);
        let mut values = OptionValues::default();
        values.set("memory_bytes", 1 << 30);
        for (name, value) in options {
            values.set(name, *value);
        }
        let clock = Arc::new(ManualClock::default());
        let environment = Environment { clock, seed: HashSeed([1; 16]) };
        let tree = SpTree::open_on(&place, &values, &environment).expect("it opens");
        Store { tree, place, keys: test_size(30_000, 100_000, 1_000_000) }
    }

    fn key(n: u64) -> [u8; 8] {
        Prng::new(n << 1).next_u64().to_le_bytes()
    }

    /// Bytes written and read for each of `count` calls.
    fn media(&self, count: u64, mut call: impl FnMut(u64)) -> (f64, f64) {
        self.place.region("sptree").expect("a region").count_media(CACHE_BYTES);
        for n in 0..count {
            call(n);
            if n % 4096 == 4095 {
                while self.tree.maintain(Budget::of(1 << 20)).expect("maintained").more {}
            }
        }
        let each = |name: &str| metric(&self.tree, name) / count as f64;
        (each("media_bytes_written"), each("media_bytes_read"))
    }

    fn put(&self, n: u64, version: u64) {
        let value = version.to_le_bytes();
        self.tree.put(&Store::key(n), &value, Durability::Synced).expect("a put");
    }

    fn get(&self, n: u64) {
        self.tree.get(&Store::key(n)).expect("a get");
    }

    /// Bytes written for an insert and an update, read for a hit and a miss.
    fn all(&self) -> [f64; 4] {
        let (keys, some) = (self.keys, self.keys / 2);
        let insert = self.media(keys, |n| self.put(n, 0)).0;
        let mut prng = Prng::new(3);
        let hit = self.media(some, |_| self.get(prng.below(keys))).1;
        let miss = self.media(some, |n| self.get(keys + n)).1;
        let update = self.media(some, |n| self.put(n % keys, 1)).0;
        [insert, update, hit, miss]
    }
}

#[test]
fn buffers_write_a_third_at_most_and_a_part_of_them_its_share() {
    let measured = |options: &[(&str, u64)]| {
        let all = Store::new(options).all();
        println!("{options:?}: insert, update, hit, miss: {all:.1?}");
        all
    };
    let plain = measured(&[]);
    let buffered = measured(&[("buffers", 100)]);
    let out_of_place = measured(&[("buffers", 100), ("merge", 1)]);
    let half = measured(&[("buffers", 50)]);
    assert!(buffered[0] * 3.0 < plain[0] && buffered[1] * 3.0 < plain[1]);
    assert!(out_of_place[0] * 3.0 < plain[0], "a new leaf costs more lines than a redo record");
    assert!(half[0] < plain[0] * 0.75 && half[0] > buffered[0], "half of the leaves");
}
