//! What several tests of the engine set up in the same way.
#![allow(dead_code)] // Each of them uses a part.

use silica_base::{HashSeed, ManualClock, Result};
use silica_engine::{
    Budget, Durability, Engine, EntryRef, Environment, MetricsMap, OptionValues, Sharded,
    WriteBatch,
};
use silica_mica::{Mica, OPTIONS};
use silica_testkit::{Harness, Workload};
use std::sync::Arc;

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const NOW: Durability = Durability::Buffered;

/// The seed of a test: what `SILICA_SEED` says, or `usual`.
pub(crate) fn seed(usual: u64) -> u64 {
    std::env::var("SILICA_SEED").map_or(usual, |s| s.parse().expect("SILICA_SEED is a number"))
}

/// Options of an engine with this memory, partitions and policy.
pub(crate) fn options(memory_bytes: u64, partitions: u64, eviction: &str) -> OptionValues {
    let mut options = OptionValues::parse(OPTIONS, [("eviction", eviction)]).expect("valid");
    options.set("memory_bytes", memory_bytes).set("partitions", partitions);
    options
}

/// An engine, and the clock by which its entries expire.
pub(crate) fn open(options: &OptionValues) -> (Mica, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    (open_at(options, &clock).expect("it opens"), clock)
}

fn open_at(options: &OptionValues, clock: &Arc<ManualClock>) -> Result<Mica> {
    Mica::open(options, &Environment { clock: clock.clone(), seed: HashSeed([7; 16]) })
}

/// What the conformance suite opens.
pub(crate) struct MicaHarness {
    pub(crate) options: OptionValues,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) workload: Workload,
}

impl MicaHarness {
    pub(crate) fn new(memory_bytes: u64, partitions: u64, eviction: &str) -> Self {
        let options = options(memory_bytes, partitions, eviction);
        MicaHarness { options, clock: Arc::default(), workload: Workload::default() }
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Workload)) -> Self {
        change(&mut self.workload);
        self
    }
}

impl Harness for MicaHarness {
    type Engine = Mica;

    fn open(&mut self) -> Result<Mica> {
        open_at(&self.options, &self.clock)
    }

    fn wipe(&mut self) {}

    fn workload(&self) -> Workload {
        self.workload
    }
}

pub(crate) fn sharded(mica: &Mica) -> &dyn Sharded {
    mica.as_sharded().expect("partitions can be owned")
}

pub(crate) fn metrics(engine: &dyn Engine) -> MetricsMap {
    let mut metrics = MetricsMap::default();
    engine.metrics(&mut metrics);
    metrics
}

pub(crate) fn metric(engine: &dyn Engine, name: &str) -> f64 {
    metrics(engine).get(name)
}

pub(crate) fn advance_ms(clock: &ManualClock, ms: u64) {
    clock.advance_ns(ms * 1_000_000);
}

/// Puts 100 bytes that expire then; 0 is never.
pub(crate) fn put_until(engine: &dyn Engine, n: u32, expires_unix_ms: u64) -> Result<()> {
    let entry = EntryRef { value: &[9; 100], expires_unix_ms, user_bits: 0 };
    engine.write(WriteBatch::new().put_entry(&n.to_le_bytes(), entry), NOW)
}

/// Calls `maintain` with a small budget until it has nothing to do; returns how often it had more.
pub(crate) fn maintain(engine: &dyn Engine) -> u32 {
    let more = || engine.maintain(Budget::of(4096)).expect("maintained").more;
    (0..).take_while(|_| more()).count() as u32
}
