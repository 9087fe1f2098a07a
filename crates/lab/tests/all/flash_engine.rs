//! The model of the flash cache, held against the engine on emulated flash.

use silica_base::{HashSeed, ManualClock, Prng, test_size};
use silica_device::blocks::Geometry;
use silica_device::sim::{SimDevice, SimFlash, SimFlashOptions, SimOptions};
use silica_dida::{Dida, RawFlash, Startup};
use silica_engine::{
    Budget, Durability, Engine, EngineExt, Environment, MetricsMap, OptionValues, WriteBatch,
};
use silica_lab::simulate::flash::{Operation, Operations};
use silica_tune::model::{FlashCache, FlashCost, FlashLoad};
use silica_tune::recommend::describe;
use silica_tune::{Sizes, Workload};
use std::sync::Arc;

/// 64 blocks of 256 KiB on 4 channels.
const GEOMETRY: Geometry =
    Geometry { channels: 4, luns: 2, blocks: 8, pages: 64, page_bytes: 4096, spare_bytes: 0 };
/// Time from one request to the next, which the erase of emulated flash takes none of.
const INTERVAL_NS: u64 = 10_000;
const KEY_BYTES: usize = 16;
/// Memory of the cache, and slabs in it; the rest is the index.
const MEMORY_BYTES: u64 = 5 << 19;
const MEMORY_SLABS: u64 = 6;

type Cache = Dida<RawFlash<SimFlash>, SimDevice>;

fn cache(clock: &Arc<ManualClock>) -> Cache {
    let mut options = OptionValues::default();
    options
        .set("memory_bytes", MEMORY_BYTES)
        .set("memory_slabs", MEMORY_SLABS)
        .set("wear_period", 0);
    let environment = Environment { clock: clock.clone(), seed: HashSeed([7; 16]) };
    let flash = RawFlash::new(SimFlash::new(1, SimFlashOptions::flash(GEOMETRY))).unwrap();
    let files = SimDevice::new(1, SimOptions::default());
    Dida::open(flash, files, &options, &environment, Startup { boot: 1 }).unwrap()
}

/// Asks the engine; a get that misses is followed by a put.
fn perform(cache: &Cache, clock: &ManualClock, operation: Operation, overhead: usize) {
    clock.advance_ns(INTERVAL_NS);
    let name = |key: u32| format!("{key:0width$}", width = KEY_BYTES).into_bytes();
    let put = |key: u32, bytes: u32| {
        let value = vec![1; bytes as usize - overhead - KEY_BYTES];
        let done = cache.write(WriteBatch::new().put(&name(key), &value), Durability::Buffered);
        done.unwrap();
        while cache.maintain(Budget::of(1 << 20)).unwrap().more {}
    };
    match operation {
        Operation::Get(key, bytes) => {
            if cache.get(&name(key)).unwrap().is_none() {
                put(key, bytes);
            }
        }
        Operation::Put(key, bytes) => put(key, bytes),
        Operation::Delete(key) => {
            cache.write(WriteBatch::new().delete(&name(key)), Durability::Buffered).unwrap();
        }
    }
}

/// The puts in any order, so that the cache begins as it will be.
fn shuffled(mut puts: Vec<Operation>) -> Vec<Operation> {
    let mut prng = Prng::new(9);
    for end in (1..puts.len()).rev() {
        puts.swap(end, prng.below(end as u64 + 1) as usize);
    }
    puts
}

/// Hits, bytes written for each byte put, and erases for each request.
fn engine(workload: &Workload, requests: u64) -> [f64; 3] {
    let clock = Arc::new(ManualClock::default());
    let cache = cache(&clock);
    let overhead = silica_lab::simulate::flash::ITEM_OVERHEAD_BYTES as usize;
    let mut operations = Operations::drawn(workload, 1.0, 2 * requests, 1).unwrap();
    let preload = operations.preload();
    let metrics = || {
        let mut metrics = MetricsMap::default();
        cache.metrics(&mut metrics);
        let [gets, hits, bytes, erases] =
            ["gets", "get_hits", "user_bytes_written", "flash_erases"]
                .map(|name| metrics.get(name));
        [gets, hits, bytes, cache.flash_bytes_written() as f64, erases]
    };
    for operation in shuffled(preload).into_iter().chain((&mut operations).take(requests as usize))
    {
        perform(&cache, &clock, operation, overhead);
    }
    let before = metrics();
    for operation in (&mut operations).take(requests as usize) {
        perform(&cache, &clock, operation, overhead);
    }
    let after = metrics();
    let [gets, hits, bytes, written, erases] = std::array::from_fn(|at| after[at] - before[at]);
    [hits / gets.max(1.0), written / bytes.max(1.0), erases / requests as f64]
}

fn model(workload: &Workload) -> FlashCost {
    let slabs = f64::from(GEOMETRY.channels * GEOMETRY.luns * GEOMETRY.blocks);
    let index = MEMORY_BYTES - MEMORY_SLABS * GEOMETRY.block_bytes();
    let cache = FlashCache {
        slabs,
        slab_bytes: GEOMETRY.block_bytes() as f64,
        entry_bytes: workload.entry_bytes(),
        overhead_bytes: FlashCache::OVERHEAD_BYTES,
        low: 1.0 / slabs,
        high: 1.0 / slabs + FlashCache::BETWEEN,
        checkpoint_slabs: (index as f64 / GEOMETRY.block_bytes() as f64).ceil(),
    };
    let mix = workload.mix.normalised();
    let load =
        FlashLoad { gets: mix.get_hits, puts: mix.overwrites, inserts: mix.inserts, fills: true };
    cache.cost(&workload.popularity().unwrap(), &load).unwrap()
}

/// Workloads whose keys have room, and whose keys have not.
const WORKLOADS: [&str; 6] = [
    "keys=30k value=300 puts=100 uniform",
    "keys=30k value=300 gets=50 puts=50 zipf=0.9",
    "keys=100k value=300 gets=100 uniform",
    "keys=100k value=300 gets=100 zipf=0.9",
    "keys=100k value=300 gets=90 puts=10 zipf=0.9",
    "keys=100k value=300 gets=50 puts=50 uniform",
];
/// How far the model may be off.
const OFF_MAX: f64 = 0.05;

#[test]
fn the_model_foretells_what_the_engine_does() {
    let requests = test_size(200_000, 200_000, 3_000_000);
    for words in WORKLOADS {
        let (workload, _) = describe(words).unwrap();
        let [hits, written, erases] = engine(&workload, requests);
        let foretold = model(&workload);
        println!("{words}: hits {hits:.4} written {written:.3} erases {erases:.6}: {foretold:?}");
        let near = |found: f64, said: f64| (said / found - 1.0).abs() < OFF_MAX;
        assert!(near(written, foretold.write_amplification), "{words}: {written} {foretold:?}");
        assert!(near(erases, foretold.erases), "{words}: {erases} {foretold:?}");
        assert!(hits == 0.0 || near(hits, foretold.hits), "{words}: {hits} {foretold:?}");
    }
}

/// Entries of unlike sizes count by their mean.
#[test]
fn the_model_foretells_entries_of_many_sizes() {
    let requests = test_size(200_000, 200_000, 3_000_000);
    let (plain, _) = describe("keys=100k gets=90 puts=10 zipf=0.9").unwrap();
    let sizes = [(40.0, 4.0), (200.0, 3.0), (600.0, 2.0), (1500.0, 0.5)];
    let value_bytes = Sizes::weighted(sizes.to_vec()).unwrap();
    let workload = Workload { value_bytes, ..plain };
    let [hits, written, erases] = engine(&workload, requests);
    let foretold = model(&workload);
    println!("hits {hits:.4} written {written:.3} erases {erases:.6}: {foretold:?}");
    let near = |found: f64, said: f64| (said / found - 1.0).abs() < OFF_MAX;
    assert!(near(written, foretold.write_amplification), "{written} {foretold:?}");
    assert!(near(erases, foretold.erases), "{erases} {foretold:?}");
    assert!(near(hits, foretold.hits), "{hits} {foretold:?}");
}
