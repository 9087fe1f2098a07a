//! The directories of keyspaces: how they go.

use crate::catalog::{self, Catalog, Record};
use crate::migrate::{journal, noted_target_of, target_of};
use crate::{EngineSpec, Silica, sketch};
use log::{info, warn};
use silica_device::{Device, FileDevice};
use silica_engine::{Error, ErrorKind, Medium, Result};
use std::path::Path;

/// How often a directory is removed, in which background work that is at its end may make files.
const REMOVALS_MAX: u32 = 100;
/// How often a catalog that has no room is written in place of what was dropped.
const SAVES_MAX: u32 = 5;

impl Silica {
    /// Gives a directory a name that no keyspace has; it goes when the store is next opened.
    pub(crate) fn set_aside(&self, name: &str) -> std::io::Result<String> {
        let aside = format!("{name}{}", catalog::ASIDE);
        if self.path().join(&aside).exists() {
            // Of one that could not be removed.
            silica_device::remove_directory(&self.path().join(&aside))?;
        }
        std::fs::rename(self.path().join(name), self.path().join(&aside))?;
        Ok(aside)
    }

    /// Removes what the catalog does not name any more; what is left is swept at the next open.
    pub(crate) fn remove_directory(&self, name: &str) {
        let directory = self.path().join(name);
        let mut left = None;
        for attempt in 0..REMOVALS_MAX {
            left = silica_device::remove_directory(&directory).err();
            if !directory.exists() {
                return;
            }
            // A step of background work that is under way may still make a file.
            std::thread::sleep(std::time::Duration::from_millis(u64::from(attempt.min(20))));
        }
        if let Some(e) = left {
            warn!("removing {}: {e}; it goes when the store is next opened", directory.display());
        }
    }
}

/// What drops that had no room for the catalog need.
impl Silica {
    /// Drops the keyspace of a `record` that the catalog on the device keeps, by the name of its
    /// directory, which it has from now on.
    pub(crate) fn drop_by_name(&self, record: &Record) -> Result<String> {
        let aside = self.set_aside(&record.directory());
        let aside = aside.map_err(|e| Error::io(format!("dropping {}", record.directory()), e))?;
        self.device().sync_dir()?;
        Ok(aside)
    }

    /// Makes room for `catalog` by what is in `aside`, which stays until the catalog is written;
    /// true where it is.
    pub(crate) fn save_in_place_of(&self, aside: &str, catalog: &Catalog) -> bool {
        for attempt in 0..SAVES_MAX {
            let emptied = silica_device::empty_directory(&self.path().join(aside));
            match catalog.save(self.device()) {
                Ok(()) => {
                    self.remove_directory(aside);
                    return true;
                }
                Err(e) if attempt + 1 == SAVES_MAX => {
                    warn!("writing the catalog: {e}; {aside} says what was dropped ({emptied:?})");
                }
                // A step of background work may still have files open.
                Err(_) => std::thread::sleep(std::time::Duration::from_millis(10)),
            }
        }
        false
    }
}

/// Refuses a listed keyspace of an engine that keeps files whose files are not there: an engine
/// would make a new store, and everybody would take it for an empty one.
pub(crate) fn refuse_missing(path: &Path, spec: &EngineSpec, of: &Record) -> Result<()> {
    let directory = path.join(of.directory());
    let first = directory.join(match spec.medium {
        // A region's file has its engine's name.
        Medium::Region => spec.name,
        Medium::Files | Medium::Memory => silica_parts::manifest::CURRENT,
    });
    if spec.made.is_none() || first.exists() {
        return Ok(());
    }
    let what = if directory.is_dir() { &first } else { &directory };
    let message = format!(
        "{} is missing: the store is damaged; restore it from a backup, or run `silica repair` for \
         what is left",
        what.display()
    );
    Err(Error::new(ErrorKind::Corruption, message))
}

/// Ends drops that had no room for the catalog; false where it has none still.
pub(crate) fn finish_drops(
    path: &Path,
    device: &FileDevice,
    catalog: &mut Catalog,
) -> Result<bool> {
    let names = device.subdirectories()?;
    let aside = |record: &Record| record.directory() + catalog::ASIDE;
    let is_dropped =
        |record: &Record| !names.contains(&record.directory()) && names.contains(&aside(record));
    let dropped: Vec<Record> =
        catalog.keyspaces.iter().filter(|record| is_dropped(record)).cloned().collect();
    for record in &dropped {
        info!("keyspace '{}' was dropped", record.name);
        catalog.remove(&record.name);
        if device.is_read_only() {
            continue;
        }
        if let Err(e) = silica_device::empty_directory(&path.join(aside(record))) {
            warn!("removing what is in {}: {e}", aside(record));
        }
    }
    match dropped.is_empty() {
        true => Ok(true),
        false => match catalog.save(device) {
            Err(e) if e.kind() == ErrorKind::Full => Ok(false),
            saved => saved.map(|()| true),
        },
    }
}

/// Removes the directories of keyspaces that were dropped, or never completely created.
pub(crate) fn remove_rubbish(path: &Path, device: &FileDevice, catalog: &Catalog) {
    for name in device.list().unwrap_or_default() {
        let is_of = |directory: &str| catalog.keyspaces.iter().any(|r| r.directory() == directory);
        if sketch::directory_of(&name).is_some_and(|directory| !is_of(&directory)) {
            let _ = std::fs::remove_file(path.join(&name));
        }
    }
    let Ok(names) = device.subdirectories() else { return };
    for name in names {
        let listed = catalog.keyspaces.iter().any(|record| {
            let target = target_of(record).map(|(id, _)| catalog::directory_of(id));
            record.directory() == name || target.is_some_and(|directory| directory == name)
        });
        let targets = || catalog.keyspaces.iter().filter_map(noted_target_of);
        let journal = journal::target_of_directory(&name);
        let is_left = journal.is_some_and(|id| targets().all(|target| target != id));
        if is_left || !listed && catalog::is_directory_name(&name) {
            info!("removing {name}, which belongs to no keyspace");
            if let Err(e) = silica_device::remove_directory(&path.join(&name)) {
                warn!("removing {name}: {e}");
            }
        }
    }
}
