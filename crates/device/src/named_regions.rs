//! Regions that are files of a [`FileDevice`]'s directory.

use crate::files::{Device, FileDevice};
use crate::os::boot_number;
use crate::region::{FileRegion, RegionOptions, Regions};
use silica_base::{Error, ErrorKind, Result};

/// Holes of a file stay holes when it is opened: they are what its owner gave back.
const OPTIONS: RegionOptions = RegionOptions { fills_holes: false, ..RegionOptions::USUAL };

impl Regions for FileDevice {
    type Region = FileRegion;

    fn create_region(&self, name: &str, bytes: u64) -> Result<FileRegion> {
        FileRegion::create_with(&self.region_path(name)?, bytes, OPTIONS)
    }

    fn open_region(&self, name: &str) -> Result<Option<FileRegion>> {
        match FileRegion::open_with(&self.region_path(name)?, None, OPTIONS) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }

    fn remove_region(&self, name: &str) -> Result<()> {
        self.region_path(name)?;
        self.remove(name)?;
        self.sync_dir()
    }

    fn boot(&self) -> u64 {
        boot_number()
    }
}

impl FileDevice {
    /// Where the region `name` is. A device that is only read has none: stores to a region are
    /// writes.
    fn region_path(&self, name: &str) -> Result<std::path::PathBuf> {
        if self.is_read_only() {
            let message = format!(
                "{} is opened to be read, and a region in it would be written; open it for writing",
                self.path().display()
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        self.child(name)
    }
}
