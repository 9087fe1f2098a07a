//! The directory of the map's file, in a file system.

use super::file::{Directory, InPlace};
use silica::device::FileLock;
use silica::engine::{Error, Result};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A directory by its path; the working directory if that is empty. Its file is this node's alone.
pub(super) struct PathDirectory {
    path: PathBuf,
    _lock: FileLock,
}

impl PathDirectory {
    /// The directory of `file`.
    ///
    /// # Errors
    /// `Locked` if another node has the file: two that write to it would each replace what the
    /// other says of itself, and be the same node to all others.
    pub(super) fn of(file: &Path) -> Result<Self> {
        let _lock = FileLock::take(file)?;
        let path = file.parent().map(Path::to_path_buf).unwrap_or_default();
        Ok(PathDirectory { path, _lock })
    }

    fn failed(&self, what: &str, name: &str, error: io::Error) -> Error {
        Error::io(format!("{what} {}", self.path.join(name).display()), error)
    }
}

/// A file and its path, for errors.
pub(super) struct PathFile(File, PathBuf);

impl PathFile {
    fn failed(&self, what: &str, error: io::Error) -> Error {
        Error::io(format!("{what} {}", self.1.display()), error)
    }
}

impl InPlace for PathFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.0.write_all_at(bytes, offset).map_err(|error| self.failed("writing", error))
    }

    fn sync(&self) -> Result<()> {
        self.0.sync_data().map_err(|error| self.failed("syncing", error))
    }
}

impl Directory for PathDirectory {
    type File = PathFile;

    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        match std::fs::read(self.path.join(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("reading", name, error)),
        }
    }

    fn create(&self, name: &str) -> Result<PathFile> {
        let path = self.path.join(name);
        let file = File::create(&path).map_err(|error| self.failed("creating", name, error))?;
        Ok(PathFile(file, path))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let renamed = std::fs::rename(self.path.join(from), self.path.join(to));
        renamed.map_err(|error| self.failed("renaming", from, error))
    }

    fn sync(&self) -> Result<()> {
        let path = if self.path.as_os_str().is_empty() { Path::new(".") } else { &self.path };
        let synced = File::open(path).and_then(|directory| directory.sync_all());
        synced.map_err(|error| self.failed("syncing", "", error))
    }

    fn has(&self, name: &str, file: &PathFile) -> bool {
        let inode = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let named = std::fs::metadata(self.path.join(name)).map(inode);
        named.is_ok_and(|named| file.0.metadata().map(inode).is_ok_and(|open| open == named))
    }
}
