//! What the platform does for persistent memory when power fails.
//!
//! Linux says of each region of modules how far its energy reaches (`persistence_domain`, Linux's
//! Documentation/ABI/testing/sysfs-bus-nd): `memory_controller` means that lines have to be written
//! back by the program, `cpu_cache` that the platform writes the processors' caches back itself.

use rustix::fs::{major, minor};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Directories that a block device lies below its region of modules, with room to spare:
/// `regionN/namespaceN.N/btt or pfn/block/pmemN/partition`.
const ANCESTORS_MAX: usize = 8;

/// True if the platform writes caches back by itself for the memory that `file` lies on.
pub(super) fn flushes_caches(file: &File) -> bool {
    let Ok(metadata) = file.metadata() else { return false };
    let device = format!("/sys/dev/block/{}:{}", major(metadata.dev()), minor(metadata.dev()));
    domain_flushes_caches(device.as_ref())
}

/// The answer for a block device's directory in sysfs. A device that is made of others (of the
/// device mapper) has no region above it: its lines are flushed by the program.
fn domain_flushes_caches(device: &Path) -> bool {
    let Ok(device) = std::fs::canonicalize(device) else { return false };
    let found = device
        .ancestors()
        .take(ANCESTORS_MAX)
        .find_map(|above| std::fs::read_to_string(above.join("persistence_domain")).ok());
    found.is_some_and(|domain| domain.trim() == "cpu_cache")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_region_above_a_block_device_says_who_flushes() {
        let sysfs = tempfile::tempdir().unwrap();
        let region = sysfs.path().join("ndbus0/region0");
        let device = region.join("namespace0.0/block/pmem0/pmem0p1");
        std::fs::create_dir_all(&device).unwrap();
        let link = sysfs.path().join("259:1");
        std::os::unix::fs::symlink(&device, &link).unwrap();
        assert!(!domain_flushes_caches(&link), "nobody says so");
        for (domain, flushes) in [("memory_controller\n", false), ("cpu_cache\n", true)] {
            std::fs::write(region.join("persistence_domain"), domain).unwrap();
            assert_eq!(domain_flushes_caches(&link), flushes, "{domain}");
        }
        assert!(!domain_flushes_caches(&sysfs.path().join("8:0")), "there is no such device");
        assert!(!flushes_caches(&tempfile::tempfile().unwrap()), "no persistent memory is here");
    }
}
