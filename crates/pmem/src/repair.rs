//! Repair of a region that an opening refuses: what is whole goes to a new one.
//!
//! 1. The new store is made in a directory of its own, `repaired-N`, and closed.
//! 2. The old region gets a second name in a directory `damaged-N`, durably. Nothing of it is
//!    written over, but for changes of several words that were begun, which any opening finishes.
//! 3. The new region takes the old one's name by a rename. A repair that is interrupted before that
//!    leaves the old store, and one that is interrupted after it the new one.

use crate::saved::{Saved, Sink};
use crate::{sptree, turbo};
use silica_base::{Error, ErrorKind, Result};
use silica_device::region::{FileRegion, Regions};
use silica_device::{Device, FileDevice};
use silica_engine::{Durability, Engine, Environment, OptionValues, Repaired, WriteBatch};
use std::sync::Arc;

/// Directories of what was there, and of what is being made.
const DAMAGED: &str = "damaged-";
const REPAIRED: &str = "repaired-";
/// Entries of the new store between two pieces of background work.
const MAINTAIN_ENTRIES: u64 = 4096;

/// A directory that is opened several times.
#[derive(Clone)]
struct Place(Arc<FileDevice>);

impl Regions for Place {
    type Region = FileRegion;

    fn create_region(&self, name: &str, bytes: u64) -> Result<FileRegion> {
        self.0.create_region(name, bytes)
    }

    fn open_region(&self, name: &str) -> Result<Option<FileRegion>> {
        self.0.open_region(name)
    }

    fn remove_region(&self, name: &str) -> Result<()> {
        self.0.remove_region(name)
    }

    fn boot(&self) -> u64 {
        self.0.boot()
    }
}

impl Place {
    fn within(&self, directory: &str) -> Result<Place> {
        Ok(Place(Arc::new(self.0.subdirectory(directory)?)))
    }
}

/// An engine as its repair sees it.
struct Kind {
    region: &'static str,
    open: fn(Place, &OptionValues, &Environment) -> Result<Box<dyn Engine>>,
    salvage: fn(&Place, Sink<'_>) -> Result<Saved>,
}

const TURBO: Kind = Kind {
    region: turbo::NAME,
    open: |place, options, environment| {
        Ok(Box::new(turbo::Turbo::open_on(place, options, environment)?))
    },
    salvage: |place, sink| turbo::salvage(place, sink),
};

const SPTREE: Kind = Kind {
    region: sptree::NAME,
    open: |place, options, environment| {
        Ok(Box::new(sptree::SpTree::open_on(&place, options, environment)?))
    },
    salvage: |place, sink| sptree::salvage(place, sink),
};

/// Checks a store of `turbo`, and makes a new one of what is whole if it is damaged, or was in use
/// when the machine stopped on memory that does not survive that.
///
/// # Errors
/// `Corruption` if nothing can be told of the region; those of an opening that are not about what
/// it holds; `Full` if there is no room for both.
pub fn repair_turbo(
    device: FileDevice,
    options: &OptionValues,
    environment: &Environment,
) -> Result<Repaired> {
    repair(&Place(Arc::new(device)), &TURBO, options, environment)
}

/// As [`repair_turbo`], a store of `sptree`.
///
/// # Errors
/// Those of [`repair_turbo`].
pub fn repair_sptree(
    device: FileDevice,
    options: &OptionValues,
    environment: &Environment,
) -> Result<Repaired> {
    repair(&Place(Arc::new(device)), &SPTREE, options, environment)
}

/// True if a region of `turbo` is in the directory.
///
/// # Errors
/// `Io`.
pub fn made_turbo(device: &FileDevice) -> Result<bool> {
    Ok(device.list()?.iter().any(|name| name == TURBO.region))
}

/// True if a region of `sptree` is in the directory.
///
/// # Errors
/// `Io`.
pub fn made_sptree(device: &FileDevice) -> Result<bool> {
    Ok(device.list()?.iter().any(|name| name == SPTREE.region))
}

fn repair(
    place: &Place,
    kind: &Kind,
    options: &OptionValues,
    environment: &Environment,
) -> Result<Repaired> {
    let device = &*place.0;
    let error = match check(place.clone(), kind, options, environment) {
        Ok(entries) => return Ok(Repaired { entries, ..Repaired::default() }),
        Err(error) if error.kind() == ErrorKind::Corruption => error,
        Err(error) => return Err(error),
    };
    let made = unused(device, REPAIRED)?;
    let saved = write_new(place, &made, kind, options, environment)?;
    let entries = check(place.within(&made)?, kind, options, environment)?;
    let aside = unused(device, DAMAGED)?;
    let (old, new) = (device.subdirectory(&aside)?, device.subdirectory(&made)?);
    device.link_into(kind.region, &old, kind.region)?;
    old.sync_dir()?;
    let whole = format!("{}.whole", kind.region);
    if device.list()?.contains(&whole) {
        device.remove(&whole)?;
    }
    new.link_into(kind.region, device, &whole)?;
    device.rename(&whole, kind.region)?;
    device.sync_dir()?;
    new.remove(kind.region)?;
    let mut findings = saved.findings.clone();
    findings.insert(0, error.to_string());
    let lost = saved.loss();
    Ok(Repaired { entries, findings, aside: Some(aside), lost, may_be_older: saved.may_be_older })
}

/// Makes a store of what is whole in the directory `made`.
fn write_new(
    place: &Place,
    made: &str,
    kind: &Kind,
    options: &OptionValues,
    environment: &Environment,
) -> Result<Saved> {
    let engine = (kind.open)(place.within(made)?, options, environment)?;
    let mut written = 0;
    let saved = (kind.salvage)(place, &mut |key, entry| {
        let mut batch = WriteBatch::new();
        match entry {
            Some(entry) => batch.put_entry(key, entry),
            None => batch.delete(key),
        };
        engine.write(&batch, Durability::Buffered)?;
        written += 1;
        if written % MAINTAIN_ENTRIES == 0 {
            engine.maintain(silica_engine::Budget::of(1 << 20))?;
        }
        Ok(())
    })?;
    close(&*engine)?;
    Ok(saved)
}

/// Opens a store and looks at everything in it; its entries.
fn check(
    place: Place,
    kind: &Kind,
    options: &OptionValues,
    environment: &Environment,
) -> Result<u64> {
    let engine = (kind.open)(place, options, environment)?;
    engine.verify()?;
    let admin = engine.as_admin().expect("engines in regions can be counted");
    let entries = admin.count(true)?.estimate;
    close(&*engine)?;
    Ok(entries)
}

fn close(engine: &dyn Engine) -> Result<()> {
    engine.as_admin().expect("engines in regions can be closed").close(&mut |_, _| ())
}

/// A name of a directory that is not there, or is empty.
fn unused(device: &FileDevice, begins: &str) -> Result<String> {
    let there = device.subdirectories()?;
    for number in 1..u32::MAX {
        let name = format!("{begins}{number}");
        if !there.contains(&name) {
            return Ok(name);
        }
        // What an interrupted repair was making is of no use.
        let directory = device.subdirectory(&name)?;
        if begins == REPAIRED {
            directory.list()?.iter().try_for_each(|name| directory.remove(name))?;
            return Ok(name);
        }
    }
    Err(Error::new(ErrorKind::Full, format!("there are too many directories {begins}")))
}
