//! Engines in regions of mapped bytes, through the store: in memory that outlives the process, and
//! on a disk.

use silica::{Durability, ErrorKind, Keyspace, OpenOptions, Silica};
use std::path::Path;

const ENGINES: [&str; 2] = ["turbo", "sptree"];

/// A directory in memory, where there is one.
fn in_memory() -> Option<tempfile::TempDir> {
    let directory = tempfile::tempdir_in("/dev/shm").ok()?;
    let class = silica_device::region::class_of(directory.path()).ok()?;
    let is_memory = class == silica_device::region::RegionClass::Process;
    if !is_memory {
        println!("skipped: /dev/shm is not in memory here");
    }
    is_memory.then_some(directory)
}

fn open(path: &Path, engine: &str) -> Silica {
    OpenOptions::new().engine(engine).memory_bytes(64 << 20).open(path).unwrap()
}

fn fill(keyspace: &Keyspace, entries: u32) {
    for n in 0..entries {
        // Some in their slots, some beside, one large.
        let value = match n % 3 {
            0 => u64::from(n).to_le_bytes().to_vec(),
            1 => vec![n as u8; 100],
            _ => vec![n as u8; if n == 2 { 300_000 } else { 3 }],
        };
        keyspace.put(key(n), value).unwrap();
    }
}

fn key(n: u32) -> Vec<u8> {
    match n % 2 {
        0 => (u64::from(n) << 32 | 7).to_be_bytes().to_vec(),
        _ => format!("key number {n}").into_bytes(),
    }
}

fn check(keyspace: &Keyspace, entries: u32) {
    for n in 0..entries {
        let value = keyspace.get(key(n)).unwrap().unwrap_or_else(|| panic!("{n} is gone"));
        let len = [8, 100, if n == 2 { 300_000 } else { 3 }][n as usize % 3];
        assert_eq!(value.len(), len, "{n}");
        assert_eq!(value[0], n as u8, "{n}");
    }
    assert_eq!(keyspace.count(true).unwrap().estimate, u64::from(entries));
}

#[test]
fn a_store_in_memory_outlives_who_opened_it_and_says_what_it_survives() {
    let Some(directory) = in_memory() else { return };
    for engine in ENGINES {
        let path = directory.path().join(engine);
        let store = open(&path, engine);
        let keyspace = store.keyspace("default").unwrap();
        assert_eq!(keyspace.durability(), Durability::Buffered);
        assert_eq!(keyspace.metrics().unwrap().get("durability_class"), 1.0);
        fill(&keyspace, 2000);
        let mut batch = silica::WriteBatch::new();
        batch.put(b"not", b"kept");
        let error = keyspace.write_with(&batch, Durability::Synced).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(keyspace.get("not").unwrap().is_none());
        assert_eq!(keyspace.sync().unwrap_err().kind(), ErrorKind::Unsupported);
        assert!(keyspace.save().unwrap(), "it survives the process");
        drop(keyspace);
        store.close().unwrap();
        let store = open(&path, engine);
        let keyspace = store.keyspace("default").unwrap();
        check(&keyspace, 2000);
        store.verify().unwrap();
    }
}

#[test]
fn a_store_on_a_disk_survives_a_clean_stop() {
    let directory = tempfile::tempdir().unwrap();
    for engine in ENGINES {
        let path = directory.path().join(engine);
        let store = open(&path, engine);
        let keyspace = store.keyspace("default").unwrap();
        let survives = keyspace.metrics().unwrap().get("durability_class");
        assert!(survives < 2.0 || silica_is_on_persistent_memory(&path), "{survives}");
        fill(&keyspace, 500);
        drop(keyspace);
        store.close().unwrap();
        check(&open(&path, engine).keyspace("default").unwrap(), 500);
    }
}

fn silica_is_on_persistent_memory(path: &Path) -> bool {
    silica_device::region::class_of(path).unwrap() == silica_device::region::RegionClass::Lines
}

#[test]
fn backups_of_regions_open_as_what_was_there() {
    let directory = tempfile::tempdir().unwrap();
    for engine in ENGINES {
        let path = directory.path().join(engine);
        let store = open(&path, engine);
        let keyspace = store.keyspace("default").unwrap();
        fill(&keyspace, 700);
        let target = directory.path().join(format!("{engine}-backup"));
        store.backup(&target).unwrap();
        keyspace.put("later", "this").unwrap();
        check(&open(&target, engine).keyspace("default").unwrap(), 700);
        assert_eq!(keyspace.get("later").unwrap(), Some(b"this".to_vec()));
        drop(keyspace);
        store.close().unwrap();
        assert!(open(&path, engine).keyspace("default").unwrap().get("later").unwrap().is_some());
    }
}

#[test]
fn keyspaces_move_into_regions_and_out_of_them() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), "wip");
    let keyspace = store.create_keyspace("k", "wip", &[]).unwrap();
    fill(&keyspace, 1000);
    for engine in ["turbo", "sptree", "silt", "sptree", "turbo", "wip"] {
        store.migrate("k", engine, &[], &mut |_| Ok(())).unwrap();
        assert_eq!(keyspace.engine().descriptor().name, engine);
        check(&keyspace, 1000);
    }
    store.close().unwrap();
}

#[test]
fn a_region_is_within_the_memory_number() {
    let directory = tempfile::tempdir().unwrap();
    for engine in ENGINES {
        let path = directory.path().join(engine);
        let store = OpenOptions::new().engine(engine).memory_bytes(8 << 20).open(path).unwrap();
        let keyspace = store.keyspace("default").unwrap();
        let value = vec![5; 1000];
        let error = (0..20_000_u32)
            .find_map(|n| keyspace.put(n.to_be_bytes(), &value).err())
            .expect("8 MiB are full");
        assert_eq!(error.kind(), ErrorKind::Full, "{engine}: {error}");
        let metrics = keyspace.metrics().unwrap();
        assert!(metrics.get("region_bytes") <= (8 << 20) as f64, "{engine}");
        // What was deleted makes room again.
        (0..3000_u32).for_each(|n| keyspace.delete(n.to_be_bytes()).unwrap());
        keyspace.put("more", &value).unwrap();
        store.close().unwrap();
    }
}

/// A store whose region is gone must not be taken for an empty one.
#[test]
fn a_region_that_is_gone_is_missed() {
    for engine in ["turbo", "sptree"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let store = open(&path, engine);
        fill(&store.keyspace("default").unwrap(), 10);
        store.close().unwrap();
        let file = path.join("keyspace-0").join(engine);
        std::fs::rename(&file, directory.path().join("aside")).unwrap();
        let error = open(&path, engine).keyspace("default").expect_err("refused");
        assert!(error.to_string().contains(&format!("{engine} is missing")), "{error}");
        std::fs::rename(directory.path().join("aside"), &file).unwrap();
        check(&open(&path, engine).keyspace("default").unwrap(), 10);
    }
}
