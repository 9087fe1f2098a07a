//! What the kernel says of a block device: files of its `queue` directory in sysfs.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Where the kernel lists block devices by number.
const DEVICES: &str = "/sys/dev/block";

/// The limits of one block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueLimits {
    queue: PathBuf,
}

impl QueueLimits {
    /// Those of the block device `path`; `None` if it is none, or sysfs is not there.
    pub fn of_device(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        let number = metadata.rdev();
        metadata
            .file_type()
            .is_block_device()
            .then(|| Self::numbered(Path::new(DEVICES), number))?
    }

    /// Those of the block device that the file or directory `path` lies on; `None` if its file
    /// system lies on none.
    pub fn below(path: &Path) -> Option<Self> {
        Self::numbered(Path::new(DEVICES), fs::metadata(path).ok()?.dev())
    }

    /// Those of the device with this number in a directory like `/sys/dev/block`. A partition has
    /// those of its drive.
    pub fn numbered(devices: &Path, number: u64) -> Option<Self> {
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        let device = devices.join(format!("{major}:{minor}"));
        let own = device.join("queue");
        // The entry is a link, so `..` leads to the drive only once it is resolved.
        let above = || Some(fs::canonicalize(device).ok()?.parent()?.join("queue"));
        let queue = if own.is_dir() { Some(own) } else { above().filter(|queue| queue.is_dir()) };
        queue.map(|queue| QueueLimits { queue })
    }

    /// Those of all block devices in a directory like `/sys/block`, by name.
    pub fn of_all(devices: &Path) -> Vec<(String, Self)> {
        let entries = fs::read_dir(devices).into_iter().flatten().flatten();
        let mut all: Vec<_> = entries
            .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
            .map(|(name, path)| (name, QueueLimits { queue: path.join("queue") }))
            .collect();
        silica_base::compact_sort_by(&mut all, |a, b| a.0.cmp(&b.0));
        all
    }

    /// A limit in words; `None` if this kernel does not have it.
    pub fn text(&self, name: &str) -> Option<String> {
        let text = fs::read_to_string(self.queue.join(name)).ok()?;
        Some(text.trim().to_string())
    }

    /// A limit; `None` if this kernel does not have it.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// Write streams that the device keeps apart (NVMe's flexible data placement); `None` if this
    /// kernel does not say, which it does from 6.16 on.
    pub fn write_streams(&self) -> Option<u16> {
        Some(self.number("max_write_streams")?.min(u64::from(u16::MAX)) as u16)
    }

    /// True if the device has zones that are written in order.
    pub fn is_zoned(&self) -> bool {
        self.text("zoned").is_some_and(|zoned| zoned.starts_with("host-"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_the_drive_for_a_partition_too() {
        let root = tempfile::tempdir().unwrap();
        let drive = root.path().join("devices/nvme0n2");
        fs::create_dir_all(drive.join("queue")).unwrap();
        fs::create_dir_all(drive.join("nvme0n2p1")).unwrap();
        fs::create_dir_all(root.path().join("block")).unwrap();
        fs::write(drive.join("queue/zoned"), "host-managed\n").unwrap();
        fs::write(drive.join("queue/max_open_zones"), "14\n").unwrap();
        let link = |to: &Path, number: &str| {
            std::os::unix::fs::symlink(to, root.path().join("block").join(number)).unwrap();
        };
        link(&drive, "259:1");
        link(&drive.join("nvme0n2p1"), "259:2");
        for minor in [1, 2] {
            let number = rustix::fs::makedev(259, minor);
            let limits = QueueLimits::numbered(&root.path().join("block"), number).unwrap();
            assert!(limits.is_zoned());
            assert_eq!(limits.number("max_open_zones"), Some(14));
            assert_eq!(limits.number("max_write_streams"), None);
        }
        let all = QueueLimits::of_all(&root.path().join("devices"));
        assert_eq!(all.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["nvme0n2"]);
        assert!(all[0].1.is_zoned());
        let missing = rustix::fs::makedev(259, 3);
        assert_eq!(QueueLimits::numbered(&root.path().join("block"), missing), None);
    }
}
