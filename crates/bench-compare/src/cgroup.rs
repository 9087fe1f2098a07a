//! A memory cgroup for one child process: page cache and heap together stay below a limit, so that
//! a store that leans on the page cache has no more memory than one with a cache of its own.
//!
//! The group lies below the group that this process is in, so that limits set on this process hold
//! for the child, too.

use silica::{Error, ErrorKind, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

const PREFIX: &str = "silica-compare-";
const ROOT_V1: &str = "/sys/fs/cgroup/memory";
const ROOT_V2: &str = "/sys/fs/cgroup";

/// A group, removed when dropped.
#[derive(Debug)]
pub(crate) struct MemoryGroup {
    path: PathBuf,
    version: u8,
}

impl MemoryGroup {
    /// A new group with at most `bytes` of memory. The error says why it is not allowed here.
    pub(crate) fn new(bytes: u64) -> Result<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (parent, version) = own_group()?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("{PREFIX}{}-{number}", std::process::id()));
        fs::create_dir(&path).map_err(|e| refused(&path, e))?;
        let group = MemoryGroup { path, version };
        group.limit(bytes)?;
        Ok(group)
    }

    fn limit(&self, bytes: u64) -> Result<()> {
        let files: &[(&str, u64)] = match self.version {
            1 => &[("memory.limit_in_bytes", bytes)],
            _ => &[("memory.max", bytes), ("memory.swap.max", 0)],
        };
        for (i, (file, value)) in files.iter().enumerate() {
            let path = self.path.join(file);
            let written = fs::write(&path, value.to_string());
            // Swap may be off or not accounted; the first limit is the one that counts.
            if i == 0 {
                written.map_err(|e| refused(&path, e))?;
            }
        }
        Ok(())
    }

    /// The file that a process writes `0` to in order to enter.
    pub(crate) fn door(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    /// Takes in the process `pid`; what it has allocated before stays where it is counted.
    pub(crate) fn admit(&self, pid: u32) -> Result<()> {
        let door = self.door();
        fs::write(&door, pid.to_string()).map_err(|e| refused(&door, e))
    }

    /// The most memory it held, page cache included.
    pub(crate) fn peak_bytes(&self) -> Option<u64> {
        let file = if self.version == 1 { "memory.max_usage_in_bytes" } else { "memory.peak" };
        fs::read_to_string(self.path.join(file)).ok()?.trim().parse().ok()
    }

    /// How it is limited, for people.
    pub(crate) fn describe(&self) -> String {
        format!("memory cgroup, version {}", self.version)
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // A process that just died may still be in it for a moment. An empty group that stays
        // costs nothing, and the next run sweeps it out.
        for _ in 0..20 {
            match fs::remove_dir(&self.path) {
                Err(e) if e.kind() == std::io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
                _ => return,
            }
        }
    }
}

/// Puts this process into the group behind `door`.
pub(crate) fn enter(door: &Path) -> Result<()> {
    fs::write(door, "0").map_err(|e| refused(door, e))
}

/// Removes groups that runs left which were killed.
pub(crate) fn sweep() {
    let Ok((parent, _)) = own_group() else { return };
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|n| n.strip_prefix(PREFIX)?.split('-').next());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            // Only an empty group goes.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// The memory group that this process is in, and the version of its interface.
fn own_group() -> Result<(PathBuf, u8)> {
    let text = fs::read_to_string("/proc/self/cgroup")
        .map_err(|e| Error::io("reading /proc/self/cgroup", e))?;
    if let Some(name) = group_v1(&text) {
        let own = below(ROOT_V1, name);
        // Without hierarchy a child's memory would not count for its parents' limits.
        let flat = fs::read_to_string(own.join("memory.use_hierarchy"))
            .is_ok_and(|text| text.trim() == "0");
        return match own.exists() && !flat {
            true => Ok((own, 1)),
            false => Err(no_group("the memory controller has no group for this process")),
        };
    }
    let name = text.lines().find_map(|line| line.strip_prefix("0::"));
    match name.map(|name| below(ROOT_V2, name)) {
        Some(own) if own.join("cgroup.controllers").exists() => Ok((own, 2)),
        _ => Err(no_group("no cgroup file system with the memory controller is mounted")),
    }
}

/// The name of the group in the line `4:memory:/name`.
fn group_v1(text: &str) -> Option<&str> {
    text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next()?;
        controllers.split(',').any(|c| c == "memory").then(|| fields.next())?
    })
}

fn below(root: &str, name: &str) -> PathBuf {
    Path::new(root).join(name.trim().trim_start_matches('/'))
}

fn no_group(why: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("no memory limit for stores: {why}"))
}

fn refused(path: &Path, e: std::io::Error) -> Error {
    let message = format!("no memory limit for stores: {} refused; run as root", path.display());
    Error::io(message, e)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_in_both_forms() {
        let v1 = "9:name=systemd:/\n4:memory:/a/b\n0::/\n";
        assert_eq!(group_v1(v1), Some("/a/b"));
        assert_eq!(group_v1("0::/user.slice\n"), None);
        assert_eq!(below(ROOT_V1, "/a/b"), Path::new("/sys/fs/cgroup/memory/a/b"));
    }

    #[test]
    fn a_group_is_removed_or_refused_with_the_reason() {
        match MemoryGroup::new(64 << 20) {
            Ok(group) => {
                let path = group.path.clone();
                assert!(group.door().exists() && group.describe().contains("cgroup"));
                drop(group);
                assert!(!path.exists());
            }
            Err(e) => assert!(e.to_string().contains("no memory limit"), "{e}"),
        }
    }
}
