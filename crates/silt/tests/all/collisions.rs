//! Keys of equal hashes: a hash of three bits sends every key to one of eight places, so that
//! tags, buckets, positions and sort order all tie, and more keys share a hash than a pair of
//! buckets has slots. Everything must stay right, only slower.

use silica_base::{HashSeed, KeyHash, ManualClock, Prng, test_size};
use silica_device::sim::{SimDevice, SimOptions};
use silica_engine::{
    Budget, Durability, Engine, EngineExt, Environment, MetricsMap, OptionValues, Scan, WriteBatch,
};
use silica_silt::{Hasher, Silt};
use std::collections::BTreeMap;
use std::sync::Arc;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Three bits of the real hash, spread over the 128 so that partitions and buckets differ.
fn weak(key: &[u8]) -> KeyHash {
    let bits = HashSeed([1; 16]).hash(key).0 % 8;
    KeyHash(bits << 125 | bits.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// One hash for all keys.
fn constant(_: &[u8]) -> KeyHash {
    KeyHash(5 << 100)
}

fn options(sorted_index: u64, filter_bits: u64) -> OptionValues {
    let mut values = OptionValues::default();
    for (name, value) in [
        ("memory_bytes", 1 << 20),
        ("partitions", 2),
        ("log_store_blocks", 2),
        ("log_store_block_buckets_log2", 4),
        ("segment_bytes", 8 << 10),
        ("log_bytes_max", 16 << 10),
        ("sorted_index", sorted_index),
        ("sorted_filter_bits", filter_bits),
        ("ect_group", 16),
    ] {
        values.set(name, value);
    }
    values
}

struct Fixture {
    device: SimDevice,
    options: OptionValues,
    hash: fn(&[u8]) -> KeyHash,
}

impl Fixture {
    fn open(&self) -> Silt<SimDevice> {
        let clock = Arc::new(ManualClock::default());
        let environment = Environment { clock, seed: HashSeed([7; 16]) };
        let hasher = Some(Hasher::Function(self.hash));
        Silt::open_with(self.device.clone(), &self.options, &environment, hasher).expect("opens")
    }
}

/// Everything that a whole iteration with steps of `limit` shows.
fn scanned(store: &Silt<SimDevice>, limit: usize) -> Model {
    let (mut all, mut cursor) = (Model::new(), Some(0));
    while let Some(at) = cursor {
        let mut visit = |key: &[u8], entry: silica_engine::EntryRef<'_>| {
            let old = all.insert(key.to_vec(), entry.value.to_vec());
            assert_eq!(old, None, "nobody writes meanwhile, so nothing is seen twice");
        };
        cursor = store.scan(at, limit, &mut visit).expect("scans");
        assert!(cursor.is_none_or(|next| next > at), "a cursor moves on");
    }
    all
}

fn check(store: &Silt<SimDevice>, model: &Model, keys: u64) {
    let names: Vec<Vec<u8>> = (0..keys).map(name).collect();
    let all: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    let got = store.get_all(&all).expect("gets");
    for (name, got) in names.iter().zip(got) {
        assert_eq!(got.as_ref(), model.get(name), "{}", String::from_utf8_lossy(name));
    }
    assert_eq!(scanned(store, 3), *model);
    store.verify().expect("verifies");
    let count = store.as_admin().expect("admin").count(true).expect("counts");
    assert_eq!(count.low, model.len() as u64);
}

fn name(n: u64) -> Vec<u8> {
    format!("key{n}").into_bytes()
}

fn metric(store: &Silt<SimDevice>, name: &str) -> f64 {
    let mut metrics = MetricsMap::default();
    store.metrics(&mut metrics);
    metrics.get(name)
}

/// Random puts, deletes, batches, maintenance and reopening, checked against a map throughout.
fn run(fixture: &Fixture, seed: u64, keys: u64, steps: u64, equal_sizes: bool) -> (f64, f64) {
    let mut prng = Prng::new(seed);
    let mut model = Model::new();
    let mut store = fixture.open();
    let (mut merges, mut conversions) = (0.0, 0.0);
    for step in 0..steps {
        let mut batch = WriteBatch::new();
        let ops: Vec<(Vec<u8>, Option<Vec<u8>>)> = (0..1 + prng.below(3))
            .map(|_| {
                let len = if equal_sizes { 100 } else { prng.below(400) as usize };
                let mut value = vec![0; len];
                prng.fill(&mut value);
                (name(prng.below(keys)), (!prng.one_in(4)).then_some(value))
            })
            .collect();
        for (key, value) in &ops {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            };
        }
        store.write(&batch, Durability::Buffered).expect("writes");
        for (key, value) in ops {
            match value {
                Some(value) => model.insert(key, value),
                None => model.remove(&key),
            };
        }
        match prng.below(400) {
            0 => {
                merges += metric(&store, "merges");
                conversions += metric(&store, "conversions");
                drop(store);
                store = fixture.open();
                check(&store, &model, keys + 20);
            }
            1 => while store.maintain(Budget::of(1 << 12)).expect("maintains").more {},
            2..40 => {
                store.maintain(Budget::of(1 << 10)).expect("maintains");
            }
            _ => {}
        }
        if step % 500 == 0 {
            check(&store, &model, keys + 20);
        }
    }
    while store.maintain(Budget::of(1 << 16)).expect("maintains").more {}
    check(&store, &model, keys + 20);
    (merges + metric(&store, "merges"), conversions + metric(&store, "conversions"))
}

fn fixture(hash: fn(&[u8]) -> KeyHash, sorted_index: u64, filter_bits: u64) -> Fixture {
    let device = SimDevice::new(1, SimOptions::default());
    Fixture { device, options: options(sorted_index, filter_bits), hash }
}

#[test]
fn eight_hashes_for_all_keys() {
    let steps = test_size(1_500, 20_000, 2_000_000);
    for (sorted_index, filter_bits, equal) in [(0, 0, false), (2, 6, true), (1, 6, false)] {
        let fixture = fixture(weak, sorted_index, filter_bits);
        let (merges, conversions) = run(&fixture, 7, 300, steps, equal);
        assert!(merges >= 4.0 && conversions >= 20.0, "{merges} merges, {conversions} conversions");
    }
}

#[test]
fn one_hash_for_all_keys() {
    let steps = test_size(400, 5_000, 500_000);
    let (merges, conversions) = run(&fixture(constant, 0, 0), 9, 60, steps, false);
    assert!(merges >= 1.0 && conversions >= 10.0, "{merges} merges, {conversions} conversions");
}
