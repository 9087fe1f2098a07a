//! What a device that is only read keeps in memory instead of writing it.
//!
//! An engine that opens a store may have to recover it: it replays its log, makes durable what it
//! found and removes what a crash left. On a device that is only read all of that happens in
//! memory:
//!
//! 1. Files that are created are anonymous files in memory, under the names that they were given.
//! 2. Names that are removed or replaced are so for this device alone.
//! 3. What is written to a file that was there is dropped. Nobody reads that again: engines keep
//!    what they write to old files (edits of a manifest, records that are made durable once more)
//!    in memory, too.

use super::failed;
use rustix::fs::MemfdFlags;
use silica_base::Result;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

/// Names that are not as on the file system.
#[derive(Default)]
pub(super) struct Unwritten(Mutex<BTreeMap<PathBuf, Option<File>>>);

/// What a name stands for.
pub(super) enum Named {
    /// What it stands for on the file system.
    AsThere,
    /// A file in memory.
    Here(File),
    /// Nothing.
    Gone,
}

impl Unwritten {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Option<File>>> {
        self.0.lock().expect("no panic while locked")
    }

    /// What `path` stands for.
    pub(super) fn find(&self, path: &Path) -> Result<Named> {
        match self.lock().get(path) {
            None => Ok(Named::AsThere),
            Some(None) => Ok(Named::Gone),
            Some(Some(file)) => {
                let file = file.try_clone().map_err(|e| failed("open", path, e))?;
                Ok(Named::Here(file))
            }
        }
    }

    /// A new, empty file by the name `path`.
    pub(super) fn create(&self, path: &Path) -> Result<File> {
        let is_taken = match self.find(path)? {
            Named::AsThere => path.exists(),
            Named::Here(_) => true,
            Named::Gone => false,
        };
        let made = match is_taken {
            true => Err(io::ErrorKind::AlreadyExists.into()),
            false => rustix::fs::memfd_create("silica", MemfdFlags::CLOEXEC).map_err(Into::into),
        };
        let file = made.map(File::from).map_err(|e: io::Error| failed("create", path, e))?;
        let kept = file.try_clone().map_err(|e| failed("create", path, e))?;
        self.lock().insert(path.to_path_buf(), Some(kept));
        Ok(file)
    }

    /// Gives the file `from` the name `to`.
    pub(super) fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let file = match self.find(from)? {
            Named::Here(file) => Ok(file),
            Named::AsThere => File::open(from),
            Named::Gone => Err(io::ErrorKind::NotFound.into()),
        };
        let file = file.map_err(|e| failed("rename", from, e))?;
        let mut names = self.lock();
        names.insert(to.to_path_buf(), Some(file));
        names.insert(from.to_path_buf(), None);
        Ok(())
    }

    /// Lets `path` stand for nothing.
    pub(super) fn remove(&self, path: &Path) -> Result<()> {
        let is_there = match self.find(path)? {
            Named::AsThere => path.exists(),
            Named::Here(_) => true,
            Named::Gone => false,
        };
        if !is_there {
            return Err(failed("remove", path, io::ErrorKind::NotFound.into()));
        }
        self.lock().insert(path.to_path_buf(), None);
        Ok(())
    }

    /// Makes `names`, those of the files in `directory`, what they are for this device.
    pub(super) fn correct(&self, directory: &Path, names: &mut Vec<String>) {
        for (path, file) in self.lock().iter().filter(|(p, _)| p.parent() == Some(directory)) {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            names.retain(|other| other != name);
            if file.is_some() {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
    }
}
