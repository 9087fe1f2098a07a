//! The cache on each level of the flash library.

use crate::recovery::Model;
use crate::support::{DidaHarness, metric, seed};
use silica_base::{HashSeed, Prng, test_size};
use silica_device::blocks::{FlashDevice, Geometry};
use silica_device::sim::{SimFlash, SimFlashOptions};
use silica_dida::{Dida, FunctionFlash, PolicyFlash, RawFlash};
use silica_engine::{Engine, Environment};
use silica_flash::functions::{FunctionOptions, Functions, Mapping};
use silica_flash::policy::{Collection, Policy, PolicyOptions, RangeOptions};
use silica_flash::{Monitor, MonitorOptions, Space};

const KEYS: u32 = 300;

/// Blocks with spare bytes, which the policy level keeps its numbers in.
fn geometry() -> Geometry {
    Geometry { channels: 2, luns: 2, blocks: 14, pages: 16, page_bytes: 512, spare_bytes: 64 }
}

#[derive(Debug, Clone, Copy)]
enum Level {
    Raw,
    Application,
    Function,
    Policy,
}

/// Opens the cache at a level of the library.
fn open(level: Level, harness: &DidaHarness) -> Box<dyn Engine> {
    let environment = Environment { clock: harness.clock.clone(), seed: HashSeed([7; 16]) };
    let (files, options) = (harness.files.clone(), &harness.options);
    let (flash, startup) = (harness.flash.clone(), harness.startup);
    let functions = |flash| Functions::open(flash, FunctionOptions::default()).expect("functions");
    match level {
        Level::Raw => {
            let raw = RawFlash::new(flash).expect("raw");
            Box::new(Dida::open(raw, files, options, &environment, startup).expect("opens"))
        }
        Level::Application => {
            let monitor = match Monitor::open(flash.clone()) {
                Ok(monitor) => monitor,
                Err(_) => {
                    let options = MonitorOptions { id: 3, spare_blocks: 1 };
                    Monitor::format(flash, options).expect("formats")
                }
            };
            let space = Space { luns: 3, over_provisioned_luns: 0 };
            let application = monitor
                .application("cache")
                .or_else(|_| monitor.create("cache", space))
                .expect("an application");
            let raw = RawFlash::new(application).expect("raw");
            Box::new(Dida::open(raw, files, options, &environment, startup).expect("opens"))
        }
        Level::Function => {
            let flash = FunctionFlash::new(functions(flash)).expect("claims");
            Box::new(Dida::open(flash, files, options, &environment, startup).expect("opens"))
        }
        Level::Policy => {
            let disk = Policy::open(functions(flash.clone()), 5).or_else(|_| {
                let range = RangeOptions {
                    begin: 0,
                    end: 24 * 16,
                    mapping: Mapping::Block,
                    collection: Collection::Greedy,
                    over_provisioning: 25,
                };
                Policy::format(functions(flash), PolicyOptions { device: 5, ranges: vec![range] })
            });
            let flash = PolicyFlash::new(disk.expect("a disk"), 16).expect("reads");
            Box::new(Dida::open(flash, files, options, &environment, startup).expect("opens"))
        }
    }
}

#[test]
fn each_level_of_the_library_carries_the_cache() {
    for level in [Level::Raw, Level::Application, Level::Function, Level::Policy] {
        let mut harness = DidaHarness::new(geometry()).set("memory_bytes", 160 << 10);
        harness.flash = SimFlash::new(1, SimFlashOptions::flash(geometry()));
        let mut prng = Prng::new(seed(1));
        let mut model = Model::default();
        let (mut written, mut collected, mut found_all) = (0.0, 0.0, 0);
        for round in 0..test_size(12, 60, 1000) {
            let cache = open(level, &harness);
            found_all += model.check_all(&*cache, KEYS).0;
            cache.verify().unwrap_or_else(|e| panic!("{level:?}, round {round}: {e}"));
            for _ in 0..700 {
                assert!(model.step(&*cache, &mut prng, KEYS), "{level:?}, round {round}");
            }
            written += metric(&*cache, "slabs_written");
            collected += metric(&*cache, "slabs_dropped") + metric(&*cache, "slabs_emptied");
            if round % 3 == 0 {
                cache.as_admin().expect("it has").close(&mut |_, _| ()).expect("it closes");
            }
            drop(cache);
            harness.die();
        }
        assert!(written > 50.0 && collected > 10.0, "{level:?}: {written} {collected}");
        assert!(found_all > 500, "{level:?}: {found_all}");
        assert!(harness.flash.counters().syncs() < u64::MAX);
    }
}
