//! A region whose contents are in doubt, for whoever saves what is whole of it.

use super::layout::{FIXED_PAGES, FRONT_BYTES, Kind, decode_front};
use super::redo::finish;
use super::{PAGE_BYTES, Settings, Space};
use silica_base::{Error, ErrorKind, Result};
use silica_device::region::{Region, Regions};

impl<R: Region> Space<R> {
    /// Opens the region `name` as it is: nothing is known of its pages, and it stays in doubt for
    /// the next opening. Only what a redo record began is finished, as any opening does. Nobody
    /// allocates in it or writes to it.
    ///
    /// # Errors
    /// `NotFound`, `Unsupported` for a newer version, `Io`; `Corruption` if the header does not say
    /// which store it is: then no checksum in it can be told.
    pub fn salvage_on<P>(place: &P, name: &str, kind: Kind) -> Result<Space<R>>
    where
        P: Regions<Region = R>,
    {
        let missing = || Error::new(ErrorKind::NotFound, format!("there is no region {name}"));
        let region = place.open_region(name)?.ok_or_else(missing)?;
        if region.len() < FIXED_PAGES * PAGE_BYTES {
            return Err(Error::corruption(name, region.len(), "it was cut: restore a backup"));
        }
        let mut bytes = [0; FRONT_BYTES];
        region.read(0, &mut bytes);
        let store = decode_front(name, kind, &bytes)?;
        if let Err(error) = finish(&region, store, name) {
            log::warn!("{name}: a change of several words stays as it is: {error}");
        }
        let settings = Settings { kind, store, limit_bytes: 0, salvage: true };
        Ok(Self::new(region, name, place.boot(), store, &settings))
    }
}
