//! What several tests set up in the same way.
#![allow(dead_code)] // Each of them uses a part.

use silica_base::{Error, ErrorKind, HashSeed, ManualClock, Result};
use silica_device::region::{Region, RegionClass, Regions};
use silica_device::sim::SimRegion;
use silica_device::{DeviceOptions, FileDevice};
use silica_engine::{Environment, OptionValues};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// What a store in a file is opened with.
pub(crate) fn environment() -> Environment {
    Environment { clock: Arc::new(ManualClock::default()), seed: HashSeed([5; 16]) }
}

/// Options of an engine beside its memory.
pub(crate) fn options(more: &[(&str, u64)]) -> OptionValues {
    let mut options = OptionValues::default();
    options.set("memory_bytes", 64 << 20);
    for (name, value) in more {
        options.set(name, *value);
    }
    options
}

/// A directory of regions in files.
pub(crate) fn device(path: &Path) -> FileDevice {
    FileDevice::open(path, DeviceOptions::default()).expect("a directory")
}

/// A place with one region, which has its full length from the start and outlives who opens it.
#[derive(Clone)]
pub(crate) struct Fixed {
    region: Arc<Mutex<Option<SimRegion>>>,
    bytes: u64,
    pub(crate) boot: u64,
    pub(crate) class: RegionClass,
    pub(crate) seed: u64,
}

impl Fixed {
    pub(crate) fn new(bytes: u64) -> Fixed {
        Fixed { region: Arc::default(), bytes, boot: 1, class: RegionClass::Lines, seed: 1 }
    }

    /// The region that was made.
    pub(crate) fn region(&self) -> SimRegion {
        self.region.lock().unwrap().clone().expect("a region was made")
    }

    /// Another place with this region.
    pub(crate) fn with(&self, region: SimRegion) -> Fixed {
        Fixed { region: Arc::new(Mutex::new(Some(region))), ..self.clone() }
    }

    /// The machine loses power, and is started anew.
    pub(crate) fn lose_power(&mut self) {
        self.region().power_cut();
        self.boot += 1;
    }
}

impl Regions for Fixed {
    type Region = SimRegion;

    fn create_region(&self, _name: &str, bytes: u64) -> Result<SimRegion> {
        let mut region = self.region.lock().unwrap();
        assert!(region.is_none(), "it is there already");
        let made = SimRegion::new(self.seed, self.bytes.max(bytes), self.class);
        *region = Some(made.clone());
        Ok(made)
    }

    fn open_region(&self, _name: &str) -> Result<Option<SimRegion>> {
        let mut region = self.region.lock().unwrap();
        let Some(old) = region.as_ref() else { return Ok(None) };
        let new = old.reopen();
        if new.is_empty() {
            return Err(Error::new(ErrorKind::Io, "a region without bytes"));
        }
        *region = Some(new.clone());
        Ok(Some(new))
    }

    fn remove_region(&self, _name: &str) -> Result<()> {
        *self.region.lock().unwrap() = None;
        Ok(())
    }

    fn boot(&self) -> u64 {
        self.boot
    }
}
