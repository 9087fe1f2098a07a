//! Simulated regions with names.

use super::handle::SimRegion;
use crate::files::check_name;
use crate::region::{Region as _, RegionClass, Regions};
use silica_base::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// A simulated place with named regions. Clones share everything.
#[derive(Clone)]
pub struct SimRegions {
    state: Arc<Mutex<State>>,
    class: RegionClass,
}

struct State {
    seed: u64,
    boot: u64,
    regions: BTreeMap<String, Named>,
}

struct Named {
    region: SimRegion,
    /// True if nobody has opened it: it needs no new handle.
    is_unopened: bool,
}

impl SimRegions {
    /// A place without regions. Those that are made there have this class.
    pub fn new(seed: u64, class: RegionClass) -> SimRegions {
        let state = State { seed, boot: 1, regions: BTreeMap::new() };
        SimRegions { state: Arc::new(Mutex::new(state)), class }
    }

    /// A place with one region, a [`super::CrashImage`]'s for instance. The machine was started a
    /// second time if `is_rebooted`.
    pub fn holding(name: &str, region: SimRegion, is_rebooted: bool) -> SimRegions {
        let place = SimRegions::new(0, region.class());
        let mut state = place.state();
        state.boot += u64::from(is_rebooted);
        state.regions.insert(name.to_string(), Named { region, is_unopened: true });
        drop(state);
        place
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while locked")
    }

    /// The region `name` as it is open now, for tests that cut it, count or look at it.
    pub fn region(&self, name: &str) -> Option<SimRegion> {
        self.state().regions.get(name).map(|named| named.region.clone())
    }

    /// Cuts the power of all regions and starts the machine again. In the class
    /// [`RegionClass::Process`] no region is left.
    pub fn power_cut(&self) {
        let mut state = self.state();
        state.boot += 1;
        for named in state.regions.values_mut() {
            named.region.power_cut();
            named.region = named.region.reopen();
            named.is_unopened = true;
        }
        if self.class == RegionClass::Process {
            state.regions.clear();
        }
    }
}

impl Regions for SimRegions {
    type Region = SimRegion;

    fn create_region(&self, name: &str, bytes: u64) -> Result<SimRegion> {
        check_name(name)?;
        if bytes == 0 || !bytes.is_multiple_of(4096) {
            let message = format!("a region of {bytes} bytes cannot be; use a multiple of 4096");
            return Err(Error::new(ErrorKind::Config, message));
        }
        let mut state = self.state();
        if state.regions.contains_key(name) {
            let source = std::io::ErrorKind::AlreadyExists.into();
            return Err(Error::io(format!("cannot create {name}"), source));
        }
        state.seed += 1;
        let region = SimRegion::new(state.seed, bytes, self.class);
        let named = Named { region: region.clone(), is_unopened: false };
        state.regions.insert(name.to_string(), named);
        Ok(region)
    }

    fn open_region(&self, name: &str) -> Result<Option<SimRegion>> {
        check_name(name)?;
        let mut state = self.state();
        let Some(named) = state.regions.get_mut(name) else { return Ok(None) };
        if !std::mem::take(&mut named.is_unopened) {
            named.region = named.region.reopen();
        }
        Ok(Some(named.region.clone()))
    }

    fn remove_region(&self, name: &str) -> Result<()> {
        check_name(name)?;
        match self.state().regions.remove(name) {
            Some(_) => Ok(()),
            None => {
                let source = std::io::ErrorKind::NotFound.into();
                Err(Error::io(format!("cannot remove {name}"), source))
            }
        }
    }

    fn boot(&self) -> u64 {
        self.state().boot
    }
}
