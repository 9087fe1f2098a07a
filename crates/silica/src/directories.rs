//! The directories of keyspaces: how they go.

use crate::catalog::{self, Catalog};
use crate::migrate::target_of;
use crate::{Silica, sketch};
use log::{info, warn};
use silica_device::{Device, FileDevice};
use std::path::Path;

/// How often a directory is removed, in which background work that is at its end may make files.
const REMOVALS_MAX: u32 = 100;

impl Silica {
    /// Gives a directory a name that no keyspace has; it goes when the store is next opened.
    pub(crate) fn set_aside(&self, name: &str) -> std::io::Result<String> {
        let aside = format!("{name}{}", catalog::ASIDE);
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
        if !listed && catalog::is_directory_name(&name) {
            info!("removing {name}, which belongs to no keyspace");
            if let Err(e) = silica_device::remove_directory(&path.join(&name)) {
                warn!("removing {name}: {e}");
            }
        }
    }
}
