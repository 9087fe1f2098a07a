//! Stores that are only read: nothing in their directories changes, and what an opening has to
//! recover is there.

use crate::killed::copy_of;
use silica::{ErrorKind, OpenOptions};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const ENGINES: [&str; 2] = ["wip", "silt"];

/// Every file below `path` with its bytes.
fn files(path: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(path).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path())),
            false => drop(found.insert(entry.path(), std::fs::read(entry.path()).unwrap())),
        }
    }
    found
}

fn value(n: u32) -> Vec<u8> {
    n.to_le_bytes().repeat(1 + n as usize % 1000)
}

/// Stores as a crash leaves them, with entries in the log, and as a close does.
fn stores(directory: &Path, engine: &str) -> [PathBuf; 2] {
    let path = directory.join(engine);
    let (crashed, closed) = (path.join("crashed"), path.join("closed"));
    std::fs::create_dir(&path).unwrap();
    let options = OpenOptions::new().memory_bytes(4 << 20).engine(engine);
    let store = options.open(&closed).unwrap();
    let keyspace = store.keyspace("default").unwrap();
    (0..2000u32).for_each(|n| keyspace.put(n.to_be_bytes(), value(n)).unwrap());
    (0..2000u32).step_by(7).for_each(|n| keyspace.delete(n.to_be_bytes()).unwrap());
    keyspace.sync().unwrap();
    copy_of(&closed, &crashed);
    drop(keyspace);
    store.close().unwrap();
    [crashed, closed]
}

#[test]
fn a_store_is_read_and_nothing_of_it_changes() {
    let directory = tempfile::tempdir().unwrap();
    for engine in ENGINES {
        for path in stores(directory.path(), engine) {
            let before = files(&path);
            let options = OpenOptions::new().memory_bytes(4 << 20).read_only(true);
            let store = options.clone().open(&path).unwrap();
            let other = options.open(&path).expect("several may read");
            let keyspace = store.keyspace("default").unwrap();
            for n in 0..2000u32 {
                let wanted = (n % 7 != 0).then(|| value(n));
                assert_eq!(keyspace.get(n.to_be_bytes()).unwrap(), wanted, "{engine}: {n}");
            }
            assert_eq!(keyspace.iter().count(), (0..2000).filter(|n| n % 7 != 0).count());
            store.verify().unwrap();
            assert!(keyspace.metrics().unwrap().get("gets") >= 2000.0);
            keyspace.sync().unwrap();
            let backup = directory.path().join(format!("{engine}.backup"));
            store.backup(&backup).expect("a backup reads");
            std::fs::remove_dir_all(&backup).unwrap();
            drop((keyspace, other));
            store.close().unwrap();
            assert!(files(&path) == before, "{engine}: the directory is as it was");
        }
    }
}

#[test]
fn writes_fail_and_name_the_fix() {
    let directory = tempfile::tempdir().unwrap();
    for engine in ENGINES {
        let [path, _] = stores(directory.path(), engine);
        let store = OpenOptions::new().read_only(true).open(&path).unwrap();
        let keyspace = store.keyspace("default").unwrap();
        let mut batch = silica::WriteBatch::new();
        batch.put(b"a", b"b");
        let refused = [
            keyspace.put("a", "b"),
            keyspace.delete("a"),
            keyspace.clear(),
            keyspace.write(&batch),
            store.drop_keyspace("default"),
            store.create_keyspace("new", engine, &[]).map(drop),
            store.migrate("default", "mica", &[], &mut |_| Ok(())).map(drop),
        ];
        for (n, outcome) in refused.into_iter().enumerate() {
            let error = outcome.expect_err("it is only read");
            assert_eq!(error.kind(), ErrorKind::ReadOnly, "{engine}, {n}: {error}");
            assert!(error.to_string().contains("without read_only"), "{engine}, {n}: {error}");
        }
        assert_eq!(store.keyspace("none").unwrap_err().kind(), ErrorKind::NotFound);
    }
}

#[test]
fn whoever_writes_and_whoever_reads_keep_each_other_out() {
    let directory = tempfile::tempdir().unwrap();
    let [path, _] = stores(directory.path(), "wip");
    let reader = OpenOptions::new().read_only(true).open(&path).unwrap();
    assert_eq!(silica::open(&path).map(drop).unwrap_err().kind(), ErrorKind::Locked);
    reader.close().unwrap();
    let writer = silica::open(&path).unwrap();
    let error = OpenOptions::new().read_only(true).open(&path).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Locked);
    writer.close().unwrap();
}

#[test]
fn a_store_without_a_lock_file_is_read_and_none_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let [path, _] = stores(directory.path(), "silt");
    std::fs::remove_file(path.join("LOCK")).unwrap();
    let store = OpenOptions::new().read_only(true).open(&path).unwrap();
    assert_eq!(store.keyspace("default").unwrap().get(1u32.to_be_bytes()).unwrap(), Some(value(1)));
    store.close().unwrap();
    assert!(!path.join("LOCK").exists());
    let missing = directory.path().join("nothing");
    let error = OpenOptions::new().read_only(true).open(&missing).map(drop).unwrap_err();
    assert_eq!((error.kind(), missing.exists()), (ErrorKind::NotFound, false));
}
