//! What several tests set up in the same way.
#![allow(dead_code)] // Each of them uses a part.

use silica_base::{HashSeed, ManualClock, Result};
use silica_device::region::{FileRegion, Region, RegionClass, Regions};
use silica_device::{DeviceOptions, FileDevice};
use silica_engine::{Budget, Engine, Environment, MetricsMap, OptionValues};
use silica_pmem::turbo::Turbo;
use silica_testkit::{Harness, Workload};
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

/// A region of a file that passes for persistent memory: everything but a power cut is real.
pub(crate) struct AsLines(FileRegion);

impl Region for AsLines {
    fn len(&self) -> u64 {
        self.0.len()
    }
    fn class(&self) -> RegionClass {
        RegionClass::Lines
    }
    fn grow(&self, bytes: u64) -> Result<()> {
        self.0.grow(bytes)
    }
    fn truncate(&self, bytes: u64) -> Result<()> {
        self.0.truncate(bytes)
    }
    fn release(&self, offset: u64, len: u64) -> Result<()> {
        self.0.release(offset, len)
    }
    fn reserve(&self, offset: u64, len: u64) -> Result<()> {
        self.0.reserve(offset, len)
    }
    fn sync(&self) -> Result<()> {
        self.0.fence()
    }
    fn word(&self, offset: u64) -> u64 {
        self.0.word(offset)
    }
    fn load(&self, offset: u64) -> u64 {
        self.0.load(offset)
    }
    fn store(&self, offset: u64, value: u64) {
        self.0.store(offset, value);
    }
    fn read(&self, offset: u64, bytes: &mut [u8]) {
        self.0.read(offset, bytes);
    }
    fn write(&self, offset: u64, bytes: &[u8]) {
        self.0.write(offset, bytes);
    }
    fn flush(&self, _offset: u64, _len: u64) {}
    fn fence(&self) -> Result<()> {
        Ok(())
    }
}

/// A directory with such regions.
pub(crate) struct Place(FileDevice);

impl Regions for Place {
    type Region = AsLines;
    fn create_region(&self, name: &str, bytes: u64) -> Result<AsLines> {
        self.0.create_region(name, bytes).map(AsLines)
    }
    fn open_region(&self, name: &str) -> Result<Option<AsLines>> {
        Ok(self.0.open_region(name)?.map(AsLines))
    }
    fn remove_region(&self, name: &str) -> Result<()> {
        self.0.remove_region(name)
    }
    fn boot(&self) -> u64 {
        1
    }
}

/// A store in a file, which outlives it.
pub(crate) struct TurboHarness {
    dir: TempDir,
    killed: Option<Vec<u8>>,
    pub(crate) options: OptionValues,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) workload: Workload,
}

impl TurboHarness {
    /// A store of few shards, so that each has many entries.
    pub(crate) fn new() -> Self {
        let mut options = OptionValues::default();
        options.set("memory_bytes", 64 << 20).set("shards", 4);
        let workload = Workload { value_bytes_max: 40, ..Workload::default() };
        let dir = tempfile::tempdir().expect("a directory");
        TurboHarness { dir, killed: None, options, clock: Arc::default(), workload }
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Workload)) -> Self {
        change(&mut self.workload);
        self
    }

    pub(crate) fn set(mut self, name: &str, value: u64) -> Self {
        self.options.set(name, value);
        self
    }

    /// Keys and values of eight bytes: all entries lie in their slots.
    pub(crate) fn inline(self) -> Self {
        self.with(|w| {
            w.key_bytes_max = 8;
            w.value_bytes_max = 8;
            w.large_value_bytes_max = 8;
            w.equal_sizes = true;
        })
    }

    pub(crate) fn file(&self) -> PathBuf {
        self.dir.path().join("turbo")
    }

    pub(crate) fn environment(&self) -> Environment {
        Environment { clock: self.clock.clone(), seed: HashSeed([7; 16]) }
    }
}

impl Harness for TurboHarness {
    type Engine = Turbo<AsLines>;

    fn open(&mut self) -> Result<Turbo<AsLines>> {
        if let Some(bytes) = self.killed.take() {
            std::fs::write(self.file(), bytes).expect("written");
        }
        let place = Place(FileDevice::open(self.dir.path(), DeviceOptions::default())?);
        Turbo::open_on(place, &self.options, &self.environment())
    }

    fn wipe(&mut self) {
        self.killed = None;
        self.dir = tempfile::tempdir().expect("a directory");
    }

    fn kill(&mut self) {
        self.killed = std::fs::read(self.file()).ok();
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

/// Calls `maintain` until there is nothing to do.
pub(crate) fn maintain(engine: &dyn Engine) {
    while engine.maintain(Budget::of(1 << 20)).expect("maintained").more {}
}

/// The seed of a test: what `SILICA_SEED` says, or `usual`.
pub(crate) fn seed(usual: u64) -> u64 {
    std::env::var("SILICA_SEED").map_or(usual, |s| s.parse().expect("SILICA_SEED is a number"))
}
