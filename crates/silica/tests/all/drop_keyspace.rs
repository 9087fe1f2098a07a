//! Keyspaces that are dropped where there is no room for anything, and drops that were cut short.
#![cfg(unix)]

use crate::small_disk::on_a_small_disk;
use silica::{Durability, OpenOptions, Silica};
use std::io::Write;
use std::path::Path;

fn open(path: &Path) -> Silica {
    let options = OpenOptions::new().memory_bytes(16 << 20).durability(Durability::Buffered);
    // Nobody else takes what becomes free.
    options.background_threads(0).open(path).unwrap()
}

/// A store with these keyspaces, each with entries.
fn filled(path: &Path, names: &[&str]) -> Silica {
    let store = open(path);
    for (name, engine) in names.iter().zip(["silt", "wip"].into_iter().cycle()) {
        let keyspace = store.create_keyspace(name, engine, &[]).unwrap();
        for n in 0..2000_u32 {
            keyspace.put(n.to_be_bytes(), vec![b'v'; 1000]).unwrap();
        }
        keyspace.sync().unwrap();
    }
    store
}

fn names(store: &Silica) -> Vec<String> {
    store.keyspaces().unwrap().into_iter().map(|info| info.name).collect()
}

fn directories(path: &Path) -> Vec<String> {
    let all = std::fs::read_dir(path).unwrap();
    let names = all.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("keyspace-")).collect();
    names.sort();
    names
}

/// Leaves no room for a single byte.
fn fill_up(disk: &Path) {
    let ballast = disk.join("ballast");
    let mut file = std::fs::File::options().append(true).create(true).open(ballast).unwrap();
    for bytes in [1 << 20, 4096, 1] {
        while file.write_all(&vec![1; bytes]).is_ok() {}
    }
    assert!(std::fs::write(disk.join("one byte"), "1").is_err());
    std::fs::remove_file(disk.join("one byte")).unwrap();
}

#[test]
fn a_keyspace_is_dropped_on_a_full_disk_and_what_it_took_is_free() {
    on_a_small_disk(
        "drop_keyspace::a_keyspace_is_dropped_on_a_full_disk_and_what_it_took_is_free",
        |disk| {
            for name in ["of silt", "of wip"] {
                let path = disk.join(name);
                let store = filled(&path, &["of silt", "of wip"]);
                fill_up(disk);
                store.drop_keyspace(name).unwrap();
                assert_eq!(names(&store).len(), 1);
                assert_eq!(directories(&path).len(), 1);
                store.verify().unwrap();
                std::fs::write(disk.join("free"), vec![1; 1 << 20]).expect("its room is free");
                std::fs::remove_file(disk.join("free")).unwrap();
                fill_up(disk);
                store.close().unwrap();
                let store = open(&path);
                assert!(!names(&store).contains(&name.to_string()));
                std::fs::remove_file(disk.join("ballast")).unwrap();
                let other = store.keyspace(&names(&store)[0]).unwrap();
                assert_eq!(other.count(true).unwrap().estimate, 2000);
            }
        },
    );
}

#[test]
fn a_keyspace_that_somebody_holds_is_dropped_on_a_full_disk() {
    on_a_small_disk(
        "drop_keyspace::a_keyspace_that_somebody_holds_is_dropped_on_a_full_disk",
        |disk| {
            for (name, is_closed) in [("of silt", true), ("of wip", false)] {
                let path = disk.join(name);
                let store = filled(&path, &["of silt", "of wip"]);
                let held = store.keyspace(name).unwrap();
                let iterator = held.iter();
                fill_up(disk);
                store.drop_keyspace(name).unwrap();
                assert!(held.get([0; 4]).is_err());
                assert_eq!(names(&store).len(), 1);
                // There may be no room for the catalog as long as files of the keyspace are open.
                store.verify().unwrap();
                drop(iterator);
                if is_closed {
                    store.close().unwrap();
                } else {
                    drop(store);
                }
                drop(held);
                fill_up(disk);
                for _ in 0..2 {
                    let store = open(&path);
                    assert_eq!(names(&store).len(), 1, "it does not come back");
                    store.close().unwrap();
                }
                std::fs::remove_file(disk.join("ballast")).unwrap();
                let store = open(&path);
                assert_eq!((names(&store).len(), directories(&path).len()), (1, 1));
                store.verify().unwrap();
                let new = store.create_keyspace(name, "wip", &[]).unwrap();
                assert_eq!(new.count(true).unwrap().estimate, 0);
                assert!(
                    store.keyspaces().unwrap().iter().any(|info| info.directory == "keyspace-2")
                );
            }
        },
    );
}

#[test]
fn a_drop_that_was_cut_short_comes_to_its_end_at_the_next_opening() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    filled(&path, &["a", "b"]).close().unwrap();
    // As a drop leaves it that had no room for the catalog and died.
    std::fs::rename(path.join("keyspace-0"), path.join("keyspace-0.gone")).unwrap();
    std::fs::create_dir(path.join("keyspace-1.gone")).unwrap();
    let store = open(&path);
    assert_eq!(names(&store), ["b"]);
    assert_eq!(store.keyspace("b").unwrap().count(true).unwrap().estimate, 2000);
    assert_eq!(directories(&path), ["keyspace-1"]);
    store.close().unwrap();
    assert_eq!(names(&open(&path)), ["b"]);
}

#[test]
fn a_get_at_hand_sees_that_its_keyspace_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let store = silica::open(directory.path()).unwrap();
    let keyspace = store.keyspace("k").unwrap();
    keyspace.put("a", "1").unwrap();
    let length = |entry: Option<silica::EntryRef<'_>>| entry.map(|entry| entry.value.len());
    assert_eq!(keyspace.get_at_hand("a", length).unwrap(), Some(Some(1)));
    assert_eq!(keyspace.get_at_hand("b", length).unwrap(), Some(None));
    store.drop_keyspace("k").unwrap();
    let refused = keyspace.get_at_hand("a", length).unwrap_err();
    assert_eq!(refused.kind(), silica::ErrorKind::Closed);
}
