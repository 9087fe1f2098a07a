//! Repair of a store that is not open.

use crate::catalog::{Catalog, FILE};
use crate::store::open_device;
use crate::{OpenOptions, Registration};
use silica_base::HashSeed;
use silica_device::{Device, FileDevice};
use silica_engine::{Environment, Error, ErrorKind, OptionValues, Repaired, Result};
use std::path::Path;

/// What became of one keyspace.
#[derive(Debug)]
pub struct KeyspaceRepair {
    /// Its name.
    pub name: String,
    /// Its engine.
    pub engine: String,
    /// What was found and done, or why nothing could be.
    pub outcome: Result<Repaired>,
}

/// Checks every keyspace of the store in the directory `path`, also where it does not open, and
/// makes a new one of what is intact where one is damaged. The files that were there are put aside
/// in a directory of the keyspace and never written over.
///
/// Keyspaces of engines that cannot be repaired are checked.
pub fn repair(path: impl AsRef<Path>, options: OpenOptions) -> Result<Vec<KeyspaceRepair>> {
    let path = path.as_ref();
    let options = options.create(false);
    let device = open_device(path, &options)?;
    let file = path.join(FILE).display().to_string();
    let catalog = Catalog::load(&device, &file).map_err(|error| {
        error.within("without its list of keyspaces a store cannot be repaired")
    })?;
    let Some(catalog) = catalog else {
        let message = format!("there is no store at {}; check the path", path.display());
        return Err(Error::new(ErrorKind::NotFound, message));
    };
    let mut done = Vec::new();
    for record in &catalog.keyspaces {
        let registration = options.registry.find(&record.engine)?;
        let kept = record.engine_options().map(|(name, value)| (name.as_str(), value.as_str()));
        let values = OptionValues::parse(registration.options, kept)?;
        let directory = device.subdirectory(&record.directory())?;
        let environment = Environment::new(HashSeed(options.new_seed()?));
        done.push(KeyspaceRepair {
            name: record.name.clone(),
            engine: record.engine.clone(),
            outcome: repair_keyspace(registration, directory, &values, &environment),
        });
    }
    Ok(done)
}

fn repair_keyspace(
    registration: &Registration,
    directory: FileDevice,
    values: &OptionValues,
    environment: &Environment,
) -> Result<Repaired> {
    if let Some(repair) = registration.repair() {
        return repair(directory, values, environment);
    }
    let engine = (registration.build)(directory, values, environment);
    let checked = engine.and_then(|engine| {
        engine.verify()?;
        let count = engine.as_admin().map_or(Ok(0), |admin| Ok(admin.count(false)?.estimate))?;
        Ok(Repaired { entries: count, ..Repaired::default() })
    });
    checked.map_err(|error| {
        error.within("only keyspaces of the engine wip can be repaired; restore a backup")
    })
}
