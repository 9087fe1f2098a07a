//! The directory of a store: which one it may be, and how it is opened.

use crate::OpenOptions;
use crate::catalog::{self, Catalog};
use log::info;
use silica_device::{DeviceOptions, FileDevice};
use silica_engine::{Error, ErrorKind, Result};
use std::path::Path;

/// Opens the directory of a store, also one that lost its list of keyspaces.
pub(crate) fn open_damaged_device(path: &Path, options: &OpenOptions) -> Result<FileDevice> {
    let has_keyspaces = || {
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        let mut names = entries.map(|entry| entry.file_name());
        names.any(|name| name.to_str().is_some_and(catalog::is_directory_name))
    };
    if !path.join(catalog::FILE).exists() && (path.join(catalog::COPY).exists() || has_keyspaces())
    {
        return FileDevice::open(path, DeviceOptions { create: false, ..options.device });
    }
    open_device(path, options)
}

/// Opens the directory of a store, or of what may become one.
pub(crate) fn open_device(path: &Path, options: &OpenOptions) -> Result<FileDevice> {
    if !path.exists() && (!options.create || options.is_read_only()) {
        let message = format!(
            "there is no store at {}; check the path, or create one with `silica put` or \
             `silica serve`",
            path.display()
        );
        return Err(Error::new(ErrorKind::NotFound, message));
    }
    if path.exists() && !path.is_dir() {
        let message =
            format!("{} is a file, a store is a directory; give its path", path.display());
        return Err(Error::new(ErrorKind::Config, message));
    }
    let is_store = path.join(catalog::FILE).exists();
    if !is_store && path.exists() {
        refuse_foreign(path, options)?;
    }
    let device = DeviceOptions { create: options.create, ..options.device };
    FileDevice::open(path, device)
}

/// Refuses a directory without a catalog unless it may become a store.
fn refuse_foreign(path: &Path, options: &OpenOptions) -> Result<()> {
    let entries = std::fs::read_dir(path)
        .map_err(|e| Error::io(format!("reading directory {}", path.display()), e))?;
    let foreign = entries.filter_map(|e| e.ok()).map(|e| e.file_name()).find(|n| {
        let name = n.to_string_lossy();
        let ours = [
            catalog::FILE_NEW,
            catalog::COPY_NEW,
            "LOCK",
            crate::probe::FILE,
            crate::probe::ENGINES,
        ];
        !ours.contains(&&*name)
    });
    let message = match foreign {
        Some(_) if path.join(catalog::COPY).exists() => format!(
            "{} lacks the file 'silica', the list of its keyspaces; `silica repair` brings it back",
            path.display()
        ),
        Some(name) => format!(
            "{} is not a Silica store: it holds {name:?} but no file 'silica' (an interrupted \
             backup looks like that, too); give the path of a store, or of a new directory",
            path.display()
        ),
        None if options.create && !options.is_read_only() => return Ok(()),
        None => format!(
            "{} is an empty directory, not a store; check the path, or create one with `silica \
             put` or `silica serve`",
            path.display()
        ),
    };
    Err(Error::new(ErrorKind::NotFound, message))
}

/// Makes an empty store.
pub(crate) fn create(path: &Path, device: &FileDevice, options: &OpenOptions) -> Result<Catalog> {
    if !options.create {
        let message = format!("there is no store at {}", path.display());
        return Err(Error::new(ErrorKind::NotFound, message));
    }
    let catalog = Catalog::default();
    catalog.save(device)?;
    info!("created a store in {}", path.display());
    Ok(catalog)
}
