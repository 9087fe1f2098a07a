//! Regions of files that grow, shrink and give space back; file systems that are full or have
//! large pages; files in memory that are handed on.

use super::*;
use silica_base::ErrorKind;
use silica_device::region::{Flush, RegionOptions, class_of};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// A file system that is mounted for a test.
struct Mount(tempfile::TempDir);

impl Mount {
    /// `None` if this user may not mount, which is said.
    fn new(kind: &str, options: &str) -> Option<Mount> {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", kind, "-o", options, "none"]).arg(dir.path());
        match mount.output() {
            Ok(output) if output.status.success() => Some(Mount(dir)),
            other => {
                eprintln!("skipped: {kind} cannot be mounted here: {other:?}");
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
    }
}

/// A directory on a disk, and one in memory.
fn directories() -> [tempfile::TempDir; 2] {
    [tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap()]
}

#[test]
fn a_region_grows_and_shrinks_while_threads_read_it() {
    for dir in directories() {
        let path = dir.path().join("region");
        let region = FileRegion::create(&path, 4096).unwrap();
        region.store(0, 7);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::Acquire) {
                        let last = region.len() - 8;
                        assert_eq!((region.load(0), region.word(0)), (7, 7));
                        region.prefetch(last);
                        if last < 1 << 20 {
                            assert_eq!(region.load(last.min(4088)), 0);
                        }
                    }
                });
            }
            for bytes in (2..200).map(|pages| 4096 * pages) {
                region.grow(bytes).unwrap();
                assert_eq!((region.len(), region.load(bytes - 8)), (bytes, 0));
                region.store(bytes - 8, bytes);
            }
            done.store(true, Ordering::Release);
        });
        region.truncate(8192).unwrap();
        assert_eq!((region.len(), std::fs::metadata(&path).unwrap().len()), (8192, 8192));
        assert!(std::panic::catch_unwind(|| region.load(8192)).is_err());
        region.grow(16_384).unwrap();
        assert_eq!((region.load(8184), region.load(16_376)), (8192, 0), "what was cut is zero");
        drop(region);
        assert_eq!(FileRegion::open(&path, Some(16_384)).unwrap().load(8184), 8192);
    }
}

#[test]
fn the_twin_grows_as_files_do() {
    let region = SimRegion::new(1, 4096, RegionClass::Lines);
    region.store(0, 7);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                let last = region.len() - 8;
                assert_eq!((region.load(0), region.word(last) & !0xF_FFFF), (7, 0));
            }
        });
        for bytes in (2..200).map(|pages| 4096 * pages) {
            region.grow(bytes).unwrap();
            assert_eq!((region.len(), region.load(bytes - 8)), (bytes, 0));
            region.store(bytes - 8, bytes);
        }
        done.store(true, Ordering::Release);
    });
    assert!(std::panic::catch_unwind(|| region.load(199 * 4096)).is_err());
    region.truncate(8192).unwrap();
    assert!(std::panic::catch_unwind(|| region.store(8192, 1)).is_err());
    region.grow(16_384).unwrap();
    assert_eq!((region.load(8184), region.load(16_376)), (8192, 0), "what was cut is zero");
    for refused in [region.grow(8192), region.truncate(20_480), region.grow(16_385)] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Config);
    }
    region.set_room(20_480);
    assert_eq!(region.grow(24_576).unwrap_err().kind(), ErrorKind::Full);
    assert_eq!((region.len(), region.reopen().load(8184)), (16_384, 8192));
}

#[test]
fn lengths_that_cannot_be_are_refused_in_words() {
    let dir = tempfile::tempdir().unwrap();
    let options = RegionOptions { address_bytes: 4 << 20, ..RegionOptions::default() };
    let path = dir.path().join("region");
    let region = FileRegion::create_with(&path, 8192, options).unwrap();
    assert_eq!(region.bytes_max(), 4 << 20);
    let refused = [
        (region.grow(4096), "truncate"),
        (region.truncate(12_288), "grow"),
        (region.grow(10_000), "multiple of 4096"),
        (region.truncate(0), "multiple of 4096"),
        (region.grow((4 << 20) + 4096), "can be mapped"),
    ];
    for (result, word) in refused {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains(word), "{error}");
    }
    assert_eq!(region.len(), 8192);
    region.grow(4 << 20).unwrap();
    region.grow(4 << 20).unwrap();
    region.truncate(4 << 20).unwrap();
}

#[test]
fn a_file_system_that_is_full_changes_nothing() {
    let Some(mount) = Mount::new("tmpfs", "size=1m") else { return };
    let path = mount.path().join("region");
    let region = FileRegion::create(&path, 512 << 10).unwrap();
    region.store((512 << 10) - 8, 9);
    let error = region.grow(4 << 20).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    let length = || std::fs::metadata(&path).unwrap().len();
    assert_eq!((region.len(), length()), (512 << 10, 512 << 10));
    assert_eq!(region.load((512 << 10) - 8), 9);
    // What one region gives back, another one takes; then the first cannot have it again.
    region.release(0, 256 << 10).unwrap();
    let other = FileRegion::create(&mount.path().join("other"), 700 << 10).unwrap();
    let error = region.reserve(0, 256 << 10).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    let path_of_other = other.path().to_path_buf();
    drop(other);
    std::fs::remove_file(path_of_other).unwrap();
    region.reserve(0, 256 << 10).unwrap();
    region.store(0, 1);
    assert_eq!(region.load((512 << 10) - 8), 9);
}

#[test]
fn whole_pages_are_given_back() {
    for dir in directories() {
        let path = dir.path().join("region");
        let region = FileRegion::create(&path, 64 << 10).unwrap();
        region.write(0, &[1; 64 << 10]);
        region.sync().unwrap();
        let used = || region.file().metadata().unwrap().blocks() * 512;
        let before = used();
        assert!(before >= 64 << 10);
        region.release(4000, 200).unwrap();
        region.release(100, 0).unwrap();
        assert_eq!(used(), before, "no whole page");
        region.release(5000, 20_000).unwrap();
        assert_eq!(used(), before - 16_384);
        let mut bytes = vec![9; 64 << 10];
        region.read(0, &mut bytes);
        let zeroes = bytes.iter().filter(|byte| **byte == 0).count();
        assert_eq!((zeroes, bytes[8191], bytes[8192], bytes[24_576]), (16_384, 1, 0, 1));
        // A look at a page of a file in memory takes its space again.
        region.release(5000, 20_000).unwrap();
        // Who wants holes to stay says so.
        drop(region);
        let keeps = RegionOptions { fills_holes: false, ..RegionOptions::default() };
        let region = FileRegion::open_with(&path, Some(64 << 10), keeps).unwrap();
        let used = || region.file().metadata().unwrap().blocks() * 512;
        assert_eq!(used(), before - 16_384);
        region.reserve(8192, 1).unwrap();
        assert_eq!((used(), region.load(8192)), (before - 12_288, 0));
        drop(region);
        let region = FileRegion::open(&path, None).unwrap();
        assert_eq!(region.file().metadata().unwrap().blocks() * 512, before);
        assert!(std::panic::catch_unwind(|| region.release(65_000, 8192)).is_err());
    }
}

/// Huge pages of the kernel's pool, for as long as this lives.
struct HugePages(String);

impl HugePages {
    const PATH: &str = "/proc/sys/vm/nr_hugepages";

    fn take(pages: u32) -> Option<HugePages> {
        let before = std::fs::read_to_string(Self::PATH).ok()?;
        let given = std::fs::write(Self::PATH, pages.to_string()).is_ok().then(|| {
            let now = std::fs::read_to_string(Self::PATH).unwrap_or_default();
            now.trim().parse::<u32>().unwrap_or(0)
        });
        let taken = HugePages(before);
        if given >= Some(pages) {
            return Some(taken);
        }
        eprintln!("skipped: the kernel gives {given:?} huge pages, not {pages}");
        None
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        let _ = std::fs::write(Self::PATH, &self.0);
    }
}

#[test]
fn lengths_are_whole_huge_pages_where_files_have_them() {
    let Some(_pages) = HugePages::take(4) else { return };
    let Some(mount) = Mount::new("hugetlbfs", "pagesize=2M") else { return };
    let (path, huge) = (mount.path().join("region"), 2 << 20);
    let region = FileRegion::create(&path, 4096).unwrap();
    assert_eq!((region.len(), region.class()), (huge, RegionClass::Process));
    region.store(huge - 8, 5);
    region.grow(huge + 4096).unwrap();
    assert_eq!((region.len(), region.load(2 * huge - 8)), (2 * huge, 0));
    let error = region.grow(1 << 30).unwrap_err();
    assert_eq!((error.kind(), region.len()), (ErrorKind::Full, 2 * huge), "{error}");
    region.release(4096, huge).unwrap();
    assert_eq!(region.load(huge - 8), 5, "less than a huge page stays");
    region.release(0, huge + 4096).unwrap();
    assert_eq!(region.load(huge - 8), 0);
    region.sync().unwrap();
    region.truncate(4096).unwrap();
    assert_eq!(region.len(), huge);
    drop(region);
    assert_eq!(FileRegion::open(&path, Some(4096)).unwrap().len(), huge);
    assert_eq!(class_of(mount.path()).unwrap(), RegionClass::Process);
}

#[test]
fn a_file_in_memory_is_handed_on() {
    let region = FileRegion::in_memory("store", 8192, RegionOptions::default()).unwrap();
    assert_eq!(region.class(), RegionClass::Process);
    region.store(8, 3);
    region.grow(1 << 20).unwrap();
    let handed: File = region.file().try_clone().unwrap();
    drop(region);
    let options = RegionOptions { flush: Flush::Always, ..RegionOptions::default() };
    let region = FileRegion::from_file(handed, options).unwrap();
    assert_eq!((region.load(8), region.len()), (3, 1 << 20));
    assert!(region.path().to_string_lossy().contains("store"), "{:?}", region.path());
    let empty = FileRegion::from_file(tempfile::tempfile().unwrap(), options).map(|_| ());
    assert_eq!(empty.unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn a_directory_tells_the_class_of_its_regions() {
    let names = |dir: &Path| std::fs::read_dir(dir).unwrap().count();
    let [disk, memory] = directories();
    assert_eq!(class_of(memory.path()).unwrap(), RegionClass::Process);
    let class = class_of(disk.path()).unwrap();
    let region = FileRegion::create(&disk.path().join("region"), 4096).unwrap();
    assert_eq!(class, region.class());
    assert_eq!((names(memory.path()), names(disk.path())), (0, 1), "nothing is left");
    let none: PathBuf = disk.path().join("none");
    assert_eq!(class_of(&none).unwrap_err().kind(), ErrorKind::NotFound);
}
