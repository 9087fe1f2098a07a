//! A store in a simulated region: power cuts, failing fences, little room, damage.

use silica_base::{Error, ErrorKind, HashSeed, ManualClock, Result};
use silica_device::region::{Region, RegionClass, Regions};
use silica_device::sim::{SimRegion, SimRegions};
use silica_engine::{Environment, OptionValues};
use silica_pmem::turbo::Turbo;
use silica_testkit::{DeviceHarness, Fault, Harness, Image, Workload};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) const NAME: &str = "turbo";
/// Bytes of a region with nothing in it.
const EMPTY_BYTES: u64 = 64 * 4096;

/// A store in a simulated region, which outlives it.
pub(crate) struct SimHarness {
    pub(crate) place: SimRegions,
    /// The region was taken away: a catalog would say that there should be one.
    is_missing: bool,
    /// Fences that will have begun when one fails, and those that have.
    failing_fence: Option<(u64, Arc<AtomicU64>)>,
    pub(crate) options: OptionValues,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) workload: Workload,
}

fn blank(seed: u64) -> SimRegions {
    let place = SimRegions::new(seed, RegionClass::Lines);
    place.create_region(NAME, EMPTY_BYTES).expect("a region");
    place
}

impl SimHarness {
    pub(crate) fn new() -> Self {
        let mut options = OptionValues::default();
        options.set("memory_bytes", 16 << 20).set("shards", 4);
        SimHarness {
            place: blank(1),
            is_missing: false,
            failing_fence: None,
            options,
            clock: Arc::default(),
            workload: Workload { value_bytes_max: 40, ..Workload::default() },
        }
    }

    pub(crate) fn with(mut self, change: impl FnOnce(&mut Workload)) -> Self {
        change(&mut self.workload);
        self
    }

    /// Keys and values of eight bytes.
    pub(crate) fn inline(self) -> Self {
        self.with(|w| {
            w.key_bytes_max = 8;
            w.value_bytes_max = 8;
            w.large_value_bytes_max = 8;
            w.equal_sizes = true;
        })
    }

    pub(crate) fn set(mut self, name: &str, value: u64) -> Self {
        self.options.set(name, value);
        self
    }

    pub(crate) fn region(&self) -> SimRegion {
        self.place.region(NAME).expect("a region")
    }

    pub(crate) fn open_in(&self, place: &SimRegions) -> Result<Turbo<SimRegion>> {
        let environment = Environment { clock: self.clock.clone(), seed: HashSeed([7; 16]) };
        Turbo::open_on(place.clone(), &self.options, &environment)
    }
}

impl Harness for SimHarness {
    type Engine = Turbo<SimRegion>;

    fn open(&mut self) -> Result<Turbo<SimRegion>> {
        if self.is_missing {
            return Err(Error::new(ErrorKind::NotFound, "the region was taken away"));
        }
        self.open_in(&self.place)
    }

    fn wipe(&mut self) {
        (self.place, self.is_missing, self.failing_fence) = (blank(1), false, None);
    }

    fn kill(&mut self) {
        // Another handle closes the one before it.
        self.place.open_region(NAME).expect("opened");
    }

    fn workload(&self) -> Workload {
        self.workload
    }
}

impl DeviceHarness for SimHarness {
    fn power_cut(&mut self, seed: u64) {
        let region = self.region();
        let region = if region.is_cut() { region } else { region.fork(seed) };
        region.power_cut();
        self.place = SimRegions::holding(NAME, region.reopen(), true);
        // The fence that was to fail is one of the region that is gone.
        self.region().fail_fence(u64::MAX);
    }

    fn op_count(&self) -> u64 {
        self.region().op_count()
    }

    fn cut_at_op(&mut self, op: u64) {
        self.region().cut_at_op(op);
    }

    fn power_is_off(&self) -> bool {
        self.region().is_cut()
    }

    fn fail_at(&mut self, fault: Fault, nth: u64) {
        self.failing_fence = None;
        if fault == Fault::Sync {
            let begun = Arc::new(AtomicU64::new(0));
            let counted = begun.clone();
            self.region().on_fence(move |_| {
                counted.fetch_add(1, Ordering::Relaxed);
            });
            self.region().fail_fence(nth);
            self.failing_fence = Some((nth, begun));
        }
    }

    fn fault_is_pending(&self) -> bool {
        // Other faults cannot happen to mapped bytes.
        let is_pending = |(at, begun): &(u64, Arc<AtomicU64>)| begun.load(Ordering::Relaxed) < *at;
        self.failing_fence.as_ref().is_none_or(is_pending)
    }

    fn clear_faults(&mut self) {
        self.failing_fence = None;
        self.region().fail_fence(u64::MAX);
    }

    fn set_capacity(&mut self, bytes: Option<u64>) {
        self.region().set_room(bytes.map_or(u64::MAX, |bytes| bytes / 4096 * 4096));
    }

    fn image(&self) -> Image {
        let region = self.region();
        let mut bytes = vec![0; region.len() as usize];
        region.read(0, &mut bytes);
        Image::from([(NAME.to_string(), bytes)])
    }

    fn restore(&mut self, image: &Image) {
        let Some(bytes) = image.get(NAME) else {
            self.is_missing = true;
            return;
        };
        self.is_missing = false;
        let len = (bytes.len() / 4096).max(1) * 4096;
        let region = SimRegion::new(3, len as u64, RegionClass::Lines);
        region.poke(0, &bytes[..bytes.len().min(len)]);
        self.place = SimRegions::holding(NAME, region.reopen(), false);
    }

    fn tail_may_vanish(&self, _file: &str) -> bool {
        // The whole store is one region: an older copy of it is a store as it was then.
        true
    }
}
