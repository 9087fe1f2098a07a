//! What a migration into memory keeps, and what must not lie inside a store.

use crate::killed::copy_of;
use silica::{ErrorKind, FORGET_AT_EXIT, Keyspace, OpenOptions, Silica};
use std::path::Path;

fn open(path: &Path) -> Silica {
    OpenOptions::new().memory_bytes(32 << 20).open(path).unwrap()
}

fn fill(store: &Silica) -> Keyspace {
    let keyspace = store.create_keyspace("k", "wip", &[]).unwrap();
    (0..1000_u32).for_each(|n| keyspace.put(n.to_be_bytes(), [b'v'; 40]).unwrap());
    keyspace
}

fn migrate(store: &Silica, options: &[(&str, &str)]) -> silica::Result<u64> {
    store.migrate("k", "mica", options, &mut |_| Ok(())).map(|report| report.entries)
}

fn count(store: &Silica) -> u64 {
    store.keyspace("k").unwrap().count(true).unwrap().estimate
}

#[test]
fn a_migration_into_memory_keeps_an_image_or_is_told_that_it_may_forget() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    drop(fill(&store));
    let refused = migrate(&store, &[]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Config);
    let text = refused.to_string();
    assert!(text.contains("warm_restart=on") && text.contains(FORGET_AT_EXIT), "{text}");
    assert!(migrate(&store, &[(FORGET_AT_EXIT, "maybe")]).is_err());
    assert_eq!(store.keyspace("k").unwrap().engine().descriptor().name, "wip");

    assert_eq!(migrate(&store, &[("warm_restart", "on")]).unwrap(), 1000);
    store.close().unwrap();
    let store = open(directory.path());
    assert_eq!(store.keyspace("k").unwrap().engine().descriptor().name, "mica");
    assert_eq!(count(&store), 1000, "a clean stop keeps them");

    // From one that keeps an image to one that does not.
    store.migrate("k", "silt", &[], &mut |_| Ok(())).unwrap();
    assert_eq!(migrate(&store, &[(FORGET_AT_EXIT, "on")]).unwrap(), 1000);
    store.close().unwrap();
    assert_eq!(count(&open(directory.path())), 0);
}

#[test]
fn the_old_files_go_when_the_image_is_durable() {
    let directory = tempfile::tempdir().unwrap();
    let (here, there) = (directory.path().join("here"), directory.path().join("there"));
    let store = open(&here);
    let keyspace = fill(&store);
    migrate(&store, &[("warm_restart", "on")]).unwrap();
    copy_of(&here, &there);
    assert_eq!(count(&open(&there)), 1000, "the process died right after the migration");

    // Saved again, and cleared: what was removed does not come back.
    keyspace.put("later", "x").unwrap();
    assert!(keyspace.save().unwrap());
    std::fs::remove_dir_all(&there).unwrap();
    copy_of(&here, &there);
    assert_eq!(count(&open(&there)), 1001);
    keyspace.clear().unwrap();
    std::fs::remove_dir_all(&there).unwrap();
    copy_of(&here, &there);
    assert_eq!(count(&open(&there)), 0);
}

#[test]
fn nothing_foreign_is_put_into_a_store() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path().join("here");
    let store = open(&here);
    drop(fill(&store));
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&here, &link).unwrap();
    let around = here.join("..").join("here").join("keyspace-0").join("..");
    let inside = [
        here.clone(),
        here.join("backup"),
        here.join("keyspace-9"),
        here.join("keyspace-0/a/b"),
        link.join("backup"),
        around.join("backup"),
    ];
    let before = names(&here);
    for target in &inside {
        let said = |error: silica::Error| {
            assert_eq!(error.kind(), ErrorKind::Config, "{}: {error}", target.display());
            let text = error.to_string();
            let words = ["give a path outside", "needs a new or empty directory"];
            assert!(words.iter().any(|word| text.contains(word)), "{text}");
        };
        said(store.backup(target).unwrap_err());
        said(silica::OpenOptions::new().image(target).open_cache().err().unwrap());
        said(silica::TableFiles::create(target.join("table")).err().unwrap());
        let keyspace = store.keyspace("k").unwrap();
        said(keyspace.record(target.join("trace"), &Default::default()).err().unwrap());
    }
    let itself = store.update_backup(&link).unwrap_err();
    assert!(itself.to_string().contains("the store itself"), "{itself}");
    let parent = store.backup(directory.path()).unwrap_err();
    assert!(parent.to_string().contains("new or empty directory"), "{parent}");
    assert_eq!(names(&here), before);

    let backup = directory.path().join("backup");
    store.backup(&backup).unwrap();
    store.update_backup(&backup).unwrap();
    let within = silica::restore(&backup, backup.join("x"), OpenOptions::new()).unwrap_err();
    assert!(within.to_string().contains("outside"), "{within}");
    silica::restore(&backup, directory.path().join("x"), OpenOptions::new()).unwrap();
}

fn names(directory: &Path) -> Vec<String> {
    let all = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        all.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
