//! A tree on a simulated region that outlives it.

use crate::support::Fixed;
use silica_base::{HashSeed, ManualClock, Result};
use silica_device::sim::SimRegion;
use silica_engine::testkit::{Harness, Workload};
use silica_engine::{Environment, OptionValues};
use silica_pmem::sptree::SpTree;
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
    }

    fn workload(&self) -> Workload {
        self.workload
    }
}
