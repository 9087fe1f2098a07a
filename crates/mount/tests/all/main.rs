//! Tests of mounts. Where the kernel or this user cannot mount by FUSE they skip, in words.

mod fsx;
mod others;
mod system_calls;

use silica_mount::{LfsOptions, MountOptions, Mounted, Shape, Volume, now};
use std::path::PathBuf;
use tempfile::TempDir;

/// A mount on a new file system in a directory that goes with it.
struct Mount {
    directory: TempDir,
    mounted: Option<Mounted>,
}

impl Mount {
    /// Makes and mounts a file system of so many MiB; `None`, and words, if mounts do not work
    /// here.
    fn new(mib: u64) -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("image");
        std::fs::create_dir(directory.path().join("mount")).unwrap();
        let volume = Volume::create(&image, Shape::Drive(mib << 20), 7, user(), now()).unwrap();
        volume.close().unwrap();
        let mut mount = Mount { directory, mounted: None };
        match mount.mount() {
            Ok(()) => Some(mount),
            Err(error) => {
                eprintln!("skipped: no mount by FUSE here: {error}");
                None
            }
        }
    }

    fn mount(&mut self) -> silica_base::Result<()> {
        let volume = Volume::open(&self.image(), LfsOptions::default())?;
        // Nobody else is let in: that takes a setting of the system if the user is not root.
        let options = MountOptions { allows_others: false, ..MountOptions::default() };
        self.mounted = Some(Mounted::new(volume, &self.path(), &options)?);
        Ok(())
    }

    fn image(&self) -> PathBuf {
        self.directory.path().join("image")
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("mount")
    }

    fn unmount(&mut self) {
        self.mounted.take().unwrap().unmount().unwrap();
    }

    /// Unmounts and checks.
    fn end(mut self) {
        self.unmount();
        let volume = Volume::open(&self.image(), LfsOptions::default()).unwrap();
        assert_eq!(volume.check(false).unwrap(), []);
        volume.close().unwrap();
    }
}

/// The user who runs the tests.
fn user() -> (u32, u32) {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").map(|of| (of.uid(), of.gid())).unwrap_or((0, 0))
}
