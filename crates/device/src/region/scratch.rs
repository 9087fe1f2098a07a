//! The class that a region in a directory has.

use super::{FileRegion, Region, RegionClass, RegionOptions};
use crate::os::failed;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use silica_base::Result;
use std::fs::{File, OpenOptions};
use std::path::Path;

/// Bytes of a scratch file: a huge page, for file systems that have nothing smaller.
const SCRATCH_BYTES: u64 = 2 << 20;

/// Finds out the class that a region in the directory `path` has, by mapping a scratch file there.
/// Nothing is left of it.
///
/// # Errors
/// `NotFound` if there is no such directory; `Full`, `Io`.
pub fn class_of(path: &Path) -> Result<RegionClass> {
    let file = scratch_file(path)?;
    file.set_len(SCRATCH_BYTES).map_err(|e| failed("extend a scratch file in", path, e))?;
    let options = RegionOptions {
        address_bytes: SCRATCH_BYTES,
        fills_holes: false,
        ..RegionOptions::default()
    };
    Ok(FileRegion::from_file(file, options)?.class())
}

/// A file without a name in the directory `path`, or one whose name is removed at once.
fn scratch_file(path: &Path) -> Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => return Ok(file.into()),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {}
        Err(e) => return Err(failed("open a scratch file in", path, e.into())),
    }
    let scratch = path.join(format!(".silica-scratch-{}", std::process::id()));
    let opened = OpenOptions::new().read(true).write(true).create_new(true).open(&scratch);
    let file = opened.map_err(|e| failed("create", &scratch, e))?;
    std::fs::remove_file(&scratch).map_err(|e| failed("remove", &scratch, e))?;
    Ok(file)
}
