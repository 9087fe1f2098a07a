//! What a process and a device did, as the kernel counts it, and what a directory holds.

use silica::{Error, Result};
use silica_bench::memory::Process;
use std::fs;
use std::ops::Add;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes of a sector in the kernel's counters, whatever the device's own sectors are.
const SECTOR_BYTES: u64 = 512;

/// Bytes read and written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Bytes {
    pub(crate) read: u64,
    pub(crate) written: u64,
}

impl Add for Bytes {
    type Output = Bytes;

    fn add(self, more: Bytes) -> Bytes {
        Bytes { read: self.read + more.read, written: self.written + more.written }
    }
}

impl Bytes {
    pub(crate) fn since(self, before: Bytes) -> Bytes {
        Bytes {
            read: self.read.saturating_sub(before.read),
            written: self.written.saturating_sub(before.written),
        }
    }
}

/// What `process` made the devices do: reads that missed the page cache, pages it dirtied; nothing
/// where the kernel does not tell us.
pub(crate) fn of_process(process: Process) -> Option<Bytes> {
    let text = fs::read_to_string(process.file("io")).ok()?;
    let field = |name| number(text.lines().find_map(|line| line.strip_prefix(name)));
    let cancelled = field("cancelled_write_bytes:");
    let written = field("write_bytes:").saturating_sub(cancelled);
    Some(Bytes { read: field("read_bytes:"), written })
}

/// What the device under `path` did, for everybody; nothing where it is none (a tmpfs).
pub(crate) fn of_device(path: &Path) -> Option<Bytes> {
    let text = fs::read_to_string("/proc/diskstats").ok()?;
    let (major, minor) = device_of(path)?;
    disk_line(&text, major, minor)
}

/// The device number of the file system that holds `path`.
pub(crate) fn device_of(path: &Path) -> Option<(u32, u32)> {
    let device = fs::metadata(path).ok()?.dev();
    Some((rustix::fs::major(device), rustix::fs::minor(device)))
}

fn disk_line(text: &str, major: u32, minor: u32) -> Option<Bytes> {
    text.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let same =
            fields.len() > 9 && fields[0].parse() == Ok(major) && fields[1].parse() == Ok(minor);
        same.then(|| Bytes {
            read: number(Some(fields[5])) * SECTOR_BYTES,
            written: number(Some(fields[9])) * SECTOR_BYTES,
        })
    })
}

fn number(text: Option<&str>) -> u64 {
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// Bytes that the files below `directory` take on the device.
pub(crate) fn space_bytes(directory: &Path) -> u64 {
    let mut sum = 0;
    // Files may go while they are counted: stores work in the background.
    let _ = walk(directory, &mut |_, metadata| {
        sum += metadata.blocks() * SECTOR_BYTES;
        Ok(())
    });
    sum
}

/// Writes the files below `directory` to the device and has the kernel forget their pages, so that
/// the next read comes from the device. Pages that a process has mapped stay; nobody else's pages
/// are touched.
pub(crate) fn make_cold(directory: &Path) -> Result<()> {
    walk(directory, &mut |path, _| {
        let file = fs::File::open(path).map_err(|e| failed("opening", path, e))?;
        file.sync_all().map_err(|e| failed("syncing", path, e))?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)
            .map_err(|e| failed("dropping the cached pages of", path, e.into()))
    })
}

/// Copies the files below `from` to the new directory `to`, sharing blocks where the file system
/// can.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).map_err(|e| failed("creating", to, e))?;
    walk(from, &mut |path, _| {
        let name = path.strip_prefix(from).expect("it lies below");
        let target = to.join(name);
        if let Some(parent) = target.parent() {
            fs::create_dir_all(parent).map_err(|e| failed("creating", parent, e))?;
        }
        fs::copy(path, &target).map(drop).map_err(|e| failed("copying to", &target, e))
    })
}

fn failed(doing: &str, path: &Path, e: std::io::Error) -> Error {
    Error::io(format!("{doing} {}", path.display()), e)
}

type Visit<'a> = dyn FnMut(&Path, &fs::Metadata) -> Result<()> + 'a;

/// Visits every plain file below `directory`.
fn walk(directory: &Path, visit: &mut Visit<'_>) -> Result<()> {
    let entries = fs::read_dir(directory).map_err(|e| failed("listing", directory, e))?;
    for entry in entries {
        let entry = entry.map_err(|e| failed("listing", directory, e))?;
        let path = entry.path();
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() {
            walk(&path, visit)?;
        } else if metadata.is_file() {
            visit(&path, &metadata)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_diskstats_is_read() {
        let text = "   7 0 loop0 1 2 3 4 5 6 7\n 254 0 vda 34 36 100 16 31 54 200 27 0 15 19\n";
        assert_eq!(disk_line(text, 254, 0), Some(Bytes { read: 51_200, written: 102_400 }));
        assert_eq!(disk_line(text, 254, 1), None);
    }

    #[test]
    fn copies_are_whole_and_space_is_counted() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("a"), root.path().join("b"));
        fs::create_dir_all(from.join("deep")).unwrap();
        fs::write(from.join("deep/file"), vec![7; 10_000]).unwrap();
        copy(&from, &to).unwrap();
        make_cold(&to).unwrap();
        assert_eq!(fs::read(to.join("deep/file")).unwrap(), vec![7; 10_000]);
        assert!(space_bytes(&to) >= 10_000, "{}", space_bytes(&to));
    }

    #[test]
    fn the_kernel_tells_of_this_process() {
        let (before, after) = (of_process(Process::This), of_process(Process::This));
        assert!(after.unwrap().since(before.unwrap()).written < 1 << 30);
        assert_eq!(of_process(Process::Other(u32::MAX)), None);
    }
}
