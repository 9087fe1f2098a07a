//! Logs of a directory that lie in another one, on another device most likely.
//!
//! The directory has a symbolic link `log` to where its logs are, so that it is opened again
//! without being told; and that place has a file `OWNER` with the path of the directory, so that a
//! copy of the directory, which has the link as well, does not write into the logs of the first.

use super::names::LOG_PREFIX;
use super::{OpenDirectory, failed, sync_directory};
use silica_base::{Error, ErrorKind, Result};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The link in the directory.
const LINK: &str = "log";
/// Whose logs they are.
const OWNER: &str = "OWNER";

/// Where the logs of a directory are.
pub(super) struct Logs {
    pub(super) path: PathBuf,
    pub(super) opened: OpenDirectory,
}

impl Logs {
    /// What the link of `directory` says, if there is one. A directory that is only read may have
    /// been moved, or be a copy: nobody writes to the logs, so they are taken as they are.
    pub(super) fn of(directory: &Path, is_read_only: bool) -> Result<Option<Logs>> {
        let Some(path) = target(directory)? else { return Ok(None) };
        let opened = OpenDirectory::open(&path).map_err(|e| {
            let what = format!(
                "the logs of {} are in {}, which is not there; mount its device or, where that is \
                 lost, remove the link `log` and run `silica repair`",
                directory.display(),
                path.display()
            );
            e.within(&what)
        })?;
        if is_read_only {
            return Ok(Some(Logs { opened, path }));
        }
        let owner = path.join(OWNER);
        let known = fs::read_to_string(&owner).map_err(|e| failed("read", &owner, e))?;
        let own = absolute(directory)?;
        if known != own {
            let is_elsewhere = target(Path::new(&known)).ok().flatten().as_ref() == Some(&path);
            if is_elsewhere {
                let message = format!(
                    "{} looks like a copy of {known}, whose logs are in {}; copy a store with \
                     `silica backup`, or remove the original first",
                    directory.display(),
                    path.display()
                );
                return Err(Error::new(ErrorKind::Config, message));
            }
            // It was moved.
            fs::write(&owner, own).map_err(|e| failed("write", &owner, e))?;
        }
        Ok(Some(Logs { opened, path }))
    }

    /// Has the logs of `directory` in `path` from now on, which is created or empty.
    pub(super) fn put(directory: &Path, path: &Path) -> Result<()> {
        super::directory::create_directories(path)?;
        let failed_here = |e| failed("look into", path, e);
        let path = fs::canonicalize(path).map_err(failed_here)?;
        let owner = path.join(OWNER);
        let own = absolute(directory)?;
        for entry in fs::read_dir(&path).map_err(failed_here)? {
            let name = entry.map_err(failed_here)?.file_name();
            // What an attempt left that was interrupted.
            let is_own = name == OWNER && fs::read_to_string(&owner).is_ok_and(|o| o == own);
            if !is_own {
                let message = format!(
                    "{} has {name:?} in it; logs need a directory of their own, new or empty",
                    path.display()
                );
                return Err(Error::new(ErrorKind::Config, message));
            }
        }
        let write = || {
            fs::write(&owner, own)?;
            fs::File::open(&owner)?.sync_all()
        };
        write().map_err(|e| failed("write", &owner, e))?;
        sync_directory(&path)?;
        let link = directory.join(LINK);
        symlink(&path, &link).map_err(|e| failed("create", &link, e))?;
        sync_directory(directory)
    }
}

fn target(directory: &Path) -> Result<Option<PathBuf>> {
    let link = directory.join(LINK);
    match fs::read_link(&link) {
        Ok(path) => Ok(Some(path)),
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) => {
            Ok(None)
        }
        Err(e) => Err(failed("read", &link, e)),
    }
}

fn absolute(directory: &Path) -> Result<String> {
    let path = fs::canonicalize(directory).map_err(|e| failed("look at", directory, e))?;
    Ok(path.to_string_lossy().into_owned())
}

/// Removes a directory with everything in it, and its logs where they are elsewhere.
pub fn remove_directory(directory: &Path) -> io::Result<()> {
    remove_logs(directory)?;
    fs::remove_dir_all(directory)
}

/// Removes what is in a directory, and its logs, wherever they are; the directory stays.
pub fn empty_directory(directory: &Path) -> io::Result<()> {
    remove_logs(directory)?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

fn remove_logs(directory: &Path) -> io::Result<()> {
    if let Ok(logs) = fs::read_link(directory.join(LINK))
        && let Ok(entries) = fs::read_dir(&logs)
    {
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        for name in names.filter(|name| name.starts_with(LOG_PREFIX) || name == OWNER) {
            fs::remove_file(logs.join(name))?;
        }
        fs::remove_dir(&logs)?;
    }
    Ok(())
}
