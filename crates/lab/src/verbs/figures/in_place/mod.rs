//! A file system that writes in place, for table 3.2: the kernel's ext4 on a simulated conventional
//! drive, which is a file by FUSE with a loop device on it. The paper's MIT-XMP hands calls on to
//! such an ext4 and adds nothing that the flash would see.
//!
//! It takes root, `/dev/fuse`, loop devices and `mkfs.ext4`; who has not these is told so.

mod drive;

use self::drive::{NAME, Served};
use rustix::fs::{Advice, fadvise, statvfs, syncfs};
use silica::{Error, ErrorKind, Result};
use silica_lab::figures::lfs::{Files, ROOT, SsdShape, Usage, Work};
use silica_lab::simulate::DriveDesign;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often, and how long, an unmount is tried again while somebody looks at the mount.
const UNMOUNT_ATTEMPTS: u32 = 100;
const UNMOUNT_PAUSE: Duration = Duration::from_millis(20);

/// ext4 on a simulated drive.
pub(super) struct InPlace {
    /// Before what it stands on: fields are dropped in this order.
    mount: Mount,
    served: Served,
    page_bytes: u64,
    paths: BTreeMap<u64, PathBuf>,
    bytes: BTreeMap<u64, u64>,
    next: u64,
    written: u64,
    /// Set by Ctrl-C: mounts are taken away before the program ends.
    stop: Arc<AtomicBool>,
}

/// A loop device and the file system on it.
struct Mount {
    device: String,
    at: PathBuf,
    is_mounted: bool,
}

impl Drop for Mount {
    fn drop(&mut self) {
        for _ in 0..UNMOUNT_ATTEMPTS {
            if !self.is_mounted || run("umount", &[&self.at.display().to_string()]).is_ok() {
                break;
            }
            std::thread::sleep(UNMOUNT_PAUSE);
        }
        // What stays behind shows in the table of loop devices.
        let _ = run("losetup", &["-d", &self.device]);
    }
}

/// Runs a program to a good end; what it printed.
fn run(name: &str, arguments: &[&str]) -> std::result::Result<String, String> {
    let output = Command::new(name).args(arguments).output();
    let output = output.map_err(|error| format!("{name} cannot be started: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_string());
    }
    Err(format!("{name} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)))
}

fn failed(path: &Path, error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::StorageFull => {
            Error::new(ErrorKind::Full, format!("the load does not fit: {error}"))
        }
        _ => Error::io(path.display().to_string(), error),
    }
}

impl InPlace {
    /// Makes the drive and the file system below `scratch`; `Err` within says in words why that
    /// does not work here.
    ///
    /// # Errors
    /// `Config` for a design that does not add up; `Io` if `scratch` cannot be written.
    pub(super) fn new(
        design: DriveDesign,
        shape: SsdShape,
        scratch: &Path,
        stop: &Arc<AtomicBool>,
    ) -> Result<std::result::Result<Self, String>> {
        let (below, at) = (scratch.join("flash"), scratch.join("ext4"));
        for directory in [&below, &at] {
            fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
        }
        let served = match Served::new(design, shape, &below)? {
            Ok(served) => served,
            Err(error) => return Ok(Err(format!("no mount by FUSE here: {error}"))),
        };
        let mount = match mounted(&below.join(NAME), &at) {
            Ok(mount) => mount,
            Err(told) => return Ok(Err(told)),
        };
        Ok(Ok(InPlace {
            mount,
            served,
            page_bytes: shape.page_bytes as u64,
            paths: BTreeMap::from([(ROOT, at)]),
            bytes: BTreeMap::new(),
            next: ROOT + 1,
            written: 0,
            stop: stop.clone(),
        }))
    }

    fn path(&self, number: u64) -> &Path {
        &self.paths[&number]
    }

    fn go_on(&self) -> Result<()> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(Error::new(ErrorKind::Closed, "interrupted; nothing was written")),
            false => Ok(()),
        }
    }
}

fn mounted(file: &Path, at: &Path) -> std::result::Result<Mount, String> {
    let file = file.display().to_string();
    let device = run("losetup", &["--find", "--show", &file])?;
    let mut mount = Mount { device, at: at.to_path_buf(), is_mounted: false };
    // Nothing is left to be made while the load runs, and the drive is not told what is free.
    let extended = "lazy_itable_init=0,lazy_journal_init=0,nodiscard";
    run("mkfs.ext4", &["-q", "-F", "-m", "0", "-E", extended, &mount.device])?;
    run("mount", &["-t", "ext4", "-o", "noatime", &mount.device, &at.display().to_string()])?;
    mount.is_mounted = true;
    Ok(mount)
}

impl Files for InPlace {
    fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    fn usage(&self) -> Result<Usage> {
        let found =
            statvfs(&self.mount.at).map_err(|error| failed(&self.mount.at, error.into()))?;
        let pages = |blocks: u64| blocks * found.f_frsize / self.page_bytes;
        Ok(Usage { pages: pages(found.f_blocks), free_pages: pages(found.f_bavail) })
    }

    fn make(&mut self, parent: u64, name: &str, is_directory: bool) -> Result<u64> {
        self.go_on()?;
        let path = self.path(parent).join(name);
        let made = match is_directory {
            true => fs::create_dir(&path),
            false => File::create_new(&path).map(drop),
        };
        made.map_err(|error| failed(&path, error))?;
        let number = self.next;
        self.next += 1;
        self.paths.insert(number, path);
        self.bytes.insert(number, 0);
        Ok(number)
    }

    fn append(&mut self, file: u64, bytes: u64) -> Result<u64> {
        let path = self.path(file);
        let opened = OpenOptions::new().append(true).open(path);
        let appended = opened.and_then(|mut to| to.write_all(&vec![0; bytes as usize]));
        appended.map_err(|error| failed(path, error))?;
        let before = self.bytes.get_mut(&file).expect("it was made");
        *before += bytes;
        let before = *before - bytes;
        // Whole pages count, as with a file system that writes no parts.
        self.written += (before + bytes).div_ceil(self.page_bytes) - before / self.page_bytes;
        Ok(before)
    }

    fn bytes(&self, file: u64) -> Result<u64> {
        Ok(self.bytes[&file])
    }

    fn read(&mut self, file: u64, at: u64, bytes: u64) -> Result<()> {
        let path = self.path(file);
        let read = || {
            let file = File::open(path)?;
            // The load says what a page cache has; that of this machine is larger.
            fadvise(&file, at, std::num::NonZeroU64::new(bytes), Advice::DontNeed)?;
            file.read_exact_at(&mut vec![0; bytes as usize], at)
        };
        read().map_err(|error| failed(path, error))
    }

    fn unlink(&mut self, _parent: u64, _name: &str, file: u64) -> Result<()> {
        let path = self.paths.remove(&file).expect("it was made");
        self.bytes.remove(&file);
        fs::remove_file(&path).map_err(|error| failed(&path, error))
    }

    fn empty(&mut self, file: u64) -> Result<()> {
        self.bytes.insert(file, 0);
        let path = self.path(file);
        let emptied = OpenOptions::new().write(true).open(path).and_then(|to| to.set_len(0));
        emptied.map_err(|error| failed(path, error))
    }

    fn sync(&mut self) -> Result<()> {
        let root = &self.mount.at;
        let synced = File::open(root).and_then(|root| Ok(syncfs(&root)?));
        synced.map_err(|error| failed(root, error))
    }

    /// The kernel writes back after seconds, in which a load of virtual time does a great deal:
    /// every round is one such time.
    fn end_round(&mut self) -> Result<()> {
        self.go_on()?;
        self.sync()
    }

    fn work(&self) -> Work {
        Work { written: self.written, ..self.served.work() }
    }
}
