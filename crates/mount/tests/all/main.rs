//! Tests of mounts. Where the kernel or this user cannot mount by FUSE they skip, in words.

mod fsx;
mod others;
mod suites;
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
        // Nobody else is let in: that takes a setting of the system if the user is not root.
        self.mount_for(false)
    }

    /// Mounts again so that all users reach it; `None`, and words, if that does not work here.
    fn open_to_others(mut self) -> Option<Self> {
        use std::os::unix::fs::PermissionsExt;
        let everybody = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(self.directory.path(), everybody).unwrap();
        self.unmount();
        match self.mount_for(true) {
            Ok(()) => Some(self),
            Err(error) => {
                eprintln!("skipped: no mount for other users here: {error}");
                None
            }
        }
    }

    fn mount_for(&mut self, allows_others: bool) -> silica_base::Result<()> {
        let volume = Volume::open(&self.image(), LfsOptions::default())?;
        let options = MountOptions { allows_others, ..MountOptions::default() };
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
