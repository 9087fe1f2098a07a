//! What a command leaves that failed: no store, if there was none and nothing was put into it.

use silica::{DeviceOptions, Error, ErrorKind, FileDevice, OpenOptions, Result, Silica};
use std::path::{Path, PathBuf};

/// A place where there was no store when the command began.
#[derive(Clone)]
pub struct Fresh {
    path: PathBuf,
    /// Directories that were not there, the innermost first.
    missing: Vec<PathBuf>,
}

impl Fresh {
    /// The place `path`; `None` where there is anything already.
    pub fn at(path: &Path) -> Option<Self> {
        if std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some()) {
            return None;
        }
        let ancestors = path.ancestors().filter(|ancestor| !ancestor.as_os_str().is_empty());
        let missing = ancestors.take_while(|ancestor| !ancestor.exists()).map(Path::to_path_buf);
        Some(Fresh { path: path.to_path_buf(), missing: missing.collect() })
    }

    /// Removes the store that is there now, unless it holds an entry, another process has it, or
    /// there is something in its directory that no store makes.
    pub fn remove_if_empty(&self) {
        // What cannot be removed does no harm; the error that matters is the command's.
        if self.path.is_dir() {
            let _ = self.remove_store();
        }
    }

    fn remove_store(&self) -> Result<()> {
        let failed = |e| Error::io(format!("removing {}", self.path.display()), e);
        let options = OpenOptions::new().create(false).background_threads(0);
        let store = match options.open(&self.path) {
            Ok(store) => store,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                // A lock without a store; it is held until its file is gone.
                let here = DeviceOptions { create: false, ..DeviceOptions::default() };
                let _held = FileDevice::open(&self.path, here)?;
                return self.remove_files().map_err(failed);
            }
            Err(e) => return Err(e),
        };
        if is_empty(&store)? {
            // Logs on another device go with their keyspaces.
            for info in store.keyspaces()? {
                store.drop_keyspace(&info.name)?;
            }
            // The store is open, so nobody else puts anything into it meanwhile.
            self.remove_files().map_err(failed)?;
        }
        store.close()
    }

    fn remove_files(&self) -> std::io::Result<()> {
        for entry in std::fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let lists = ["LOCK", "silica", "silica.new", "silica.copy", "silica.copy.new"];
            let is_ours = lists.contains(&name.as_str())
                || name.starts_with("load-")
                || name.starts_with("sketch-");
            if is_ours && entry.file_type()?.is_file() {
                std::fs::remove_file(entry.path())?;
            }
        }
        // A directory with something else in it stays.
        self.missing.iter().try_for_each(std::fs::remove_dir)
    }
}

fn is_empty(store: &Silica) -> Result<bool> {
    for info in store.keyspaces()? {
        if store.keyspace(&info.name)?.iter().next().transpose()?.is_some() {
            return Ok(false);
        }
    }
    Ok(true)
}
