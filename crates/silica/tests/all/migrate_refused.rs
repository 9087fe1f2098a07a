//! Migrations that cannot come to their end: the keyspace stays what it was, the error says why,
//! and it may be tried again.
#![cfg(unix)]

use crate::small_disk::on_a_small_disk;
use silica::{Durability, ErrorKind, Keyspace, MigrateProgress, OpenOptions, Result, Silica};
use silica_base::Prng;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

const FORGETS: [(&str, &str); 1] = [(silica::FORGET_AT_EXIT, "on")];

fn open(path: &Path) -> Silica {
    let options = OpenOptions::new().memory_bytes(8 << 20).durability(Durability::Buffered);
    options.open(path).unwrap()
}

fn value(n: u32, bytes: usize) -> Vec<u8> {
    Prng::new(n.into()).next_u64().to_le_bytes().repeat(bytes / 8)
}

/// `entries` entries of `bytes` bytes.
fn fill(store: &Silica, engine: &str, entries: u32, bytes: usize) -> Keyspace {
    let keyspace = store.create_keyspace("k", engine, &[]).unwrap();
    for n in 0..entries {
        keyspace.put(n.to_be_bytes(), value(n, bytes)).unwrap();
    }
    keyspace
}

/// The keyspace is on `engine`, has what [`fill`] wrote, and no target is left.
fn assert_whole(store: &Silica, keyspace: &Keyspace, engine: &str, entries: u32, bytes: usize) {
    assert_eq!(keyspace.engine().descriptor().name, engine);
    for n in 0..entries {
        assert_eq!(keyspace.get(n.to_be_bytes()).unwrap(), Some(value(n, bytes)), "entry {n}");
    }
    let catalog = std::fs::read(store.path().join("silica")).unwrap();
    assert!(!catalog.windows(9).any(|bytes| bytes == b"migration"), "{catalog:?}");
    let directories = std::fs::read_dir(store.path()).unwrap();
    let names = directories.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: Vec<String> = names.filter(|name| name.starts_with("keyspace-")).collect();
    assert_eq!(names.len(), 1, "{names:?}");
}

fn migrate(store: &Silica, engine: &str) -> Result<u64> {
    store.migrate("k", engine, &FORGETS, &mut |_| Ok(())).map(|report| report.entries)
}

#[test]
fn an_entry_over_the_limits_is_named_and_can_go_first() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let keyspace = fill(&store, "silt", 3000, 64);
    // More than mica takes with its half of the memory.
    keyspace.put("the large one", vec![7; 3 << 20]).unwrap();
    let error = migrate(&store, "mica").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert!(error.to_string().contains("the large one"), "{error}");
    assert_whole(&store, &keyspace, "silt", 3000, 64);
    keyspace.put("still", "writable").unwrap();
    keyspace.delete("still").unwrap();
    assert_eq!(keyspace.get("the large one").unwrap().map(|value| value.len()), Some(3 << 20));
    keyspace.delete("the large one").unwrap();
    assert_eq!(migrate(&store, "mica").unwrap(), 3000);
    assert_whole(&store, &keyspace, "mica", 3000, 64);
}

#[test]
fn a_user_may_write_what_is_over_the_targets_limits() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let keyspace = fill(&store, "silt", 3000, 64);
    let writes = &mut |at: MigrateProgress| {
        let is_half = at.phase == "copy" && at.entries >= 1000;
        if is_half { keyspace.put("the large one", vec![7; 3 << 20]) } else { Ok(()) }
    };
    let error = store.migrate("k", "mica", &FORGETS, writes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert_eq!(keyspace.get("the large one").unwrap().map(|value| value.len()), Some(3 << 20));
    keyspace.delete("the large one").unwrap();
    assert_whole(&store, &keyspace, "silt", 3000, 64);
    assert_eq!(migrate(&store, "mica").unwrap(), 3000);
}

/// Bytes of the small disk when it is large.
const LARGE: u64 = 256 << 20;

#[test]
fn a_full_disk_ends_a_migration_and_one_with_room_succeeds() {
    on_a_small_disk(
        "migrate_refused::a_full_disk_ends_a_migration_and_one_with_room_succeeds",
        |disk| {
            for (from, to) in [("silt", "wip"), ("wip", "silt")] {
                migrate_on_a_small_disk(disk, from, to);
            }
        },
    );
}

/// Bytes that the files below `path` take.
fn bytes_below(path: &Path) -> u64 {
    // Files come and go meanwhile.
    let of = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => bytes_below(&entry.path()),
        Ok(data) => 512 * data.blocks(),
        Err(_) => 0,
    };
    let Ok(entries) = std::fs::read_dir(path) else { return 0 };
    entries.filter_map(|entry| Some(of(entry.ok()?))).sum()
}

/// False where the files take more.
fn resize(disk: &Path, size: u64) -> bool {
    let options = format!("remount,size={size}");
    let output = Command::new("mount").args(["-o", &options]).arg(disk).output().unwrap();
    output.status.success()
}

fn migrate_on_a_small_disk(disk: &Path, from: &str, to: &str) {
    assert!(resize(disk, LARGE));
    let path = disk.join(from);
    let store = open(&path);
    let (entries, bytes) = (16_000, 1000);
    let keyspace = fill(&store, from, entries, bytes);
    let ballast = disk.join("ballast");
    for is_brimful in [false, false, true] {
        let mut least = LARGE;
        let shrinks = &mut |_: MigrateProgress| {
            // Whatever becomes free is gone, too.
            let size = bytes_below(disk) + (1 << 20);
            if size < least && resize(disk, size) {
                least = size;
            }
            if is_brimful {
                // Not even the catalog has room.
                let _ = std::fs::write(&ballast, vec![0; 8 << 20]);
            }
            Ok(())
        };
        let error = store.migrate("k", to, &[], shrinks).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Full, "{error}");
        assert_whole(&store, &keyspace, from, entries, bytes);
    }
    std::fs::remove_file(&ballast).unwrap();
    keyspace.delete(0_u32.to_be_bytes()).unwrap();
    assert!(resize(disk, LARGE));
    keyspace.put(0_u32.to_be_bytes(), value(0, bytes)).unwrap();
    assert_eq!(migrate(&store, to).unwrap(), u64::from(entries));
    assert_whole(&store, &keyspace, to, entries, bytes);
    drop(keyspace);
    store.verify().unwrap();
    store.close().unwrap();
    std::fs::remove_dir_all(&path).unwrap();
}
