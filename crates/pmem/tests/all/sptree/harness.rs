//! A tree on a simulated region that outlives it.

use crate::support::Fixed;
use silica_base::{HashSeed, ManualClock, Result};
use silica_device::region::{Region, Regions};
use silica_device::sim::{SimRegion, SimRegions};
use silica_engine::{Environment, OptionValues};
use silica_pmem::sptree::SpTree;
use silica_testkit::{DeviceHarness, Fault, Harness, Image, Workload};
use std::sync::Arc;

pub(crate) type Tree = SpTree<SimRegion>;

/// The seed of a test: what `SILICA_SEED` says, or `usual`.
pub(crate) fn seed(usual: u64) -> u64 {
    std::env::var("SILICA_SEED").map_or(usual, |s| s.parse().expect("SILICA_SEED is a number"))
}

pub(crate) struct TreeHarness {
    pub(crate) place: Fixed,
    pub(crate) bytes: u64,
    pub(crate) options: OptionValues,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) workload: Workload,
}

impl TreeHarness {
    pub(crate) fn new(bytes: u64) -> Self {
        let mut options = OptionValues::default();
        options.set("memory_bytes", bytes * 2);
        let workload = Workload { tried_bytes_max: 64 << 10, ..Workload::default() };
        let place = Fixed::new(bytes);
        TreeHarness { place, bytes, options, clock: Arc::default(), workload }
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Workload)) -> Self {
        change(&mut self.workload);
        self
    }

    pub(crate) fn set(mut self, name: &str, value: u64) -> Self {
        self.options.set(name, value);
        self
    }

    pub(crate) fn open_in(&self, place: &SimRegions) -> Result<Tree> {
        let environment = Environment { clock: self.clock.clone(), seed: HashSeed([7; 16]) };
        SpTree::open_on(place, &self.options, &environment)
    }

    pub(crate) fn open_tree(&self) -> Result<Tree> {
        let environment = Environment { clock: self.clock.clone(), seed: HashSeed([7; 16]) };
        SpTree::open_on(&self.place, &self.options, &environment)
    }
}

impl Harness for TreeHarness {
    type Engine = Tree;

    fn open(&mut self) -> Result<Tree> {
        self.open_tree()
    }

    fn wipe(&mut self) {
        self.place = Fixed::new(self.bytes);
        self.place.create_region("", self.bytes).expect("a region of zeroes");
    }

    fn workload(&self) -> Workload {
        self.workload
    }
}

impl DeviceHarness for TreeHarness {
    fn power_cut(&mut self, seed: u64) {
        let region = self.place.region();
        // A power cut that was armed has chosen already.
        let region = if region.is_cut() { region } else { region.fork(seed) };
        region.power_cut();
        self.place = self.place.with(region);
        self.place.boot += 1;
    }

    fn op_count(&self) -> u64 {
        self.place.region().op_count()
    }

    fn cut_at_op(&mut self, op: u64) {
        self.place.region().cut_at_op(op);
    }

    fn power_is_off(&self) -> bool {
        self.place.region().is_cut()
    }

    fn fail_at(&mut self, fault: Fault, nth: u64) {
        assert_eq!(fault, Fault::Sync, "a region has no other faults");
        self.place.region().fail_fence(nth);
    }

    fn fault_is_pending(&self) -> bool {
        false
    }

    fn clear_faults(&mut self) {}

    fn set_capacity(&mut self, bytes: Option<u64>) {
        self.options.set("memory_bytes", bytes.unwrap_or(self.bytes * 2));
    }

    fn image(&self) -> Image {
        let region = self.place.region();
        let mut bytes = vec![0; region.len() as usize];
        region.read(0, &mut bytes);
        Image::from([("sptree".into(), bytes)])
    }

    fn restore(&mut self, image: &Image) {
        let bytes = &image["sptree"];
        let region = SimRegion::new(1, bytes.len() as u64, self.place.class);
        region.poke(0, bytes);
        self.place = self.place.with(region);
    }
}
