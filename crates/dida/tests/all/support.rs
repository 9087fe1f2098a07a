//! What several tests set up in the same way.
#![allow(dead_code)] // Each of them uses a part.

use silica_base::{HashSeed, ManualClock, Result};
use silica_device::blocks::Geometry;
use silica_device::sim::{SimDevice, SimFlash, SimFlashOptions, SimOptions};
use silica_dida::{Dida, RawFlash, Startup};
use silica_engine::{
    Budget, Durability, Engine, EngineExt, Environment, MetricsMap, OptionValues, WriteBatch,
};
use silica_testkit::{Harness, Workload};
use std::sync::Arc;

pub(crate) const NOW: Durability = Durability::Buffered;
pub(crate) type Cache = Dida<RawFlash<SimFlash>, SimDevice>;

/// The seed of a test: what `SILICA_SEED` says, or `usual`.
pub(crate) fn seed(usual: u64) -> u64 {
    std::env::var("SILICA_SEED").map_or(usual, |s| s.parse().expect("SILICA_SEED is a number"))
}

/// Flash of 2 channels with 2 LUNs each and blocks of 16 pages of 512 bytes.
pub(crate) fn geometry(blocks_of_lun: u32) -> Geometry {
    Geometry {
        channels: 2,
        luns: 2,
        blocks: blocks_of_lun,
        pages: 16,
        page_bytes: 512,
        spare_bytes: 0,
    }
}

/// A cache on simulated flash and files, which outlive it.
pub(crate) struct DidaHarness {
    pub(crate) flash_options: SimFlashOptions,
    pub(crate) flash: SimFlash,
    pub(crate) files: SimDevice,
    pub(crate) options: OptionValues,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) startup: Startup,
    pub(crate) workload: Workload,
}

impl DidaHarness {
    /// A cache on flash of this geometry, with slots for many entries.
    pub(crate) fn new(geometry: Geometry) -> Self {
        let flash_options = SimFlashOptions::flash(geometry);
        let mut options = OptionValues::default();
        options.set("memory_bytes", 512 << 10).set("memory_slabs", 6);
        DidaHarness {
            flash_options,
            flash: SimFlash::new(1, flash_options),
            files: SimDevice::new(1, SimOptions::default()),
            options,
            clock: Arc::default(),
            startup: Startup { boot: 1 },
            workload: Workload::default(),
        }
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Workload)) -> Self {
        change(&mut self.workload);
        self
    }

    pub(crate) fn set(mut self, name: &str, value: u64) -> Self {
        self.options.set(name, value);
        self
    }

    pub(crate) fn open_cache(&self) -> Result<Cache> {
        let environment = Environment { clock: self.clock.clone(), seed: HashSeed([7; 16]) };
        let flash = RawFlash::new(self.flash.clone())?;
        Dida::open(flash, self.files.clone(), &self.options, &environment, self.startup)
    }

    /// The process dies.
    pub(crate) fn die(&mut self) {
        self.flash = self.flash.reopen();
        self.files = self.files.reopen();
    }

    /// The machine loses power and is started anew.
    pub(crate) fn lose_power(&mut self) {
        self.flash.power_cut();
        self.files.power_cut();
        self.startup.boot += 1;
        self.die();
    }
}

impl Harness for DidaHarness {
    type Engine = Cache;

    fn open(&mut self) -> Result<Cache> {
        self.die();
        self.open_cache()
    }

    fn wipe(&mut self) {
        self.flash = SimFlash::new(1, self.flash_options);
        self.files = SimDevice::new(1, SimOptions::default());
    }

    fn kill(&mut self) {
        self.die();
    }

    fn workload(&self) -> Workload {
        self.workload
    }
}

pub(crate) fn metric(engine: &dyn Engine, name: &str) -> f64 {
    let mut metrics = MetricsMap::default();
    engine.metrics(&mut metrics);
    metrics.get(name)
}

pub(crate) fn get(engine: &dyn Engine, key: &[u8]) -> Option<Vec<u8>> {
    engine.get(key).expect("a get")
}

pub(crate) fn put(engine: &dyn Engine, key: &[u8], value: &[u8]) {
    engine.write(WriteBatch::new().put(key, value), NOW).expect("a put");
}

pub(crate) fn delete(engine: &dyn Engine, key: &[u8]) {
    engine.write(WriteBatch::new().delete(key), NOW).expect("a delete");
}

/// Calls `maintain` until there is nothing to do.
pub(crate) fn maintain(engine: &dyn Engine) {
    while engine.maintain(Budget::of(1 << 20)).expect("maintained").more {}
}
