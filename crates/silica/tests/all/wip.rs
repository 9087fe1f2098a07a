//! The facade over the ordered engine on real files.

use silica::{Durability, ErrorKind, Keyspace, OpenOptions, Result, Silica};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A directory that goes when the test ends.
struct Temp(PathBuf);

impl Temp {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("silica-facade-wip-{}-{number}", std::process::id());
        let temp = Temp(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&temp.0).expect("a directory");
        temp
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A store so small that a few thousand entries are in several tables; nobody merges them unasked.
fn open(path: &Path) -> (Silica, Keyspace) {
    let options = OpenOptions::new()
        .engine("wip")
        .durability(Durability::Buffered)
        .background_threads(0)
        .set("memtable_bytes_max", "64KiB")
        .set("log_bytes_max", "256KiB");
    let store = options.open(path).expect("opens");
    let keyspace = store.keyspace("default").expect("opens");
    (store, keyspace)
}

fn put(keyspace: &Keyspace, numbers: std::ops::Range<u64>) {
    for n in numbers {
        keyspace.put(n.to_be_bytes(), vec![n as u8; 100]).expect("a put");
    }
}

fn check(path: &Path, entries: u64) {
    let (store, keyspace) = open(path);
    store.verify().expect("every invariant");
    assert_eq!(keyspace.count(true).expect("a count").estimate, entries);
    for n in 0..entries {
        assert_eq!(keyspace.get(n.to_be_bytes()).expect("a get"), Some(vec![n as u8; 100]));
    }
}

fn names(path: &Path) -> Vec<String> {
    let names = std::fs::read_dir(path).expect("a directory");
    let mut names: Vec<_> =
        names.map(|e| e.expect("an entry").file_name().into_string().expect("a name")).collect();
    names.sort();
    names
}

#[test]
fn a_backup_brought_up_to_date_takes_new_tables_only_and_is_whole() -> Result<()> {
    let temp = Temp::new();
    let (store, keyspace) = open(&temp.join("store"));
    let (first, second) = (temp.join("first"), temp.join("second"));
    put(&keyspace, 0..5000);
    let report = store.backup(&first)?;
    assert!(report.files_linked > 3 && report.files_shared == 0, "{report:?}");
    put(&keyspace, 5000..6000);
    let since = store.backup_since(&second, &first)?;
    assert!(since.files_linked > since.files_shared, "{since:?} after {report:?}");
    assert!(since.files_shared > 2, "{since:?} after {report:?}");
    check(&second, 6000);
    check(&first, 5000);
    put(&keyspace, 6000..7000);
    let update = store.update_backup(&first)?;
    assert!(update.files_shared > 2, "{update:?}");
    assert_eq!(names(&temp.0), ["first", "second", "store"], "nothing is left over");
    check(&first, 7000);

    // A directory that is no backup is left alone.
    std::fs::create_dir(temp.join("other")).expect("created");
    std::fs::write(temp.join("other").join("file"), "mine").expect("written");
    let refused = store.update_backup(temp.join("other")).expect_err("no backup");
    assert_eq!(refused.kind(), ErrorKind::NotFound, "{refused}");
    let refused = store.update_backup(temp.join("store")).expect_err("the store itself");
    assert_eq!(refused.kind(), ErrorKind::Config, "{refused}");
    Ok(())
}

#[test]
fn an_earlier_backup_of_another_store_gives_nothing() -> Result<()> {
    let temp = Temp::new();
    let (one, keyspace) = open(&temp.join("one"));
    put(&keyspace, 0..3000);
    one.backup(temp.join("backup of one"))?;
    let (other, keyspace) = open(&temp.join("other"));
    put(&keyspace, 0..3000);
    let report = other.backup_since(temp.join("backup of other"), temp.join("backup of one"))?;
    assert_eq!(report.files_shared, 0, "{report:?}");
    check(&temp.join("backup of other"), 3000);
    Ok(())
}

#[test]
fn logs_lie_on_another_device_and_go_with_their_keyspace() -> Result<()> {
    let temp = Temp::new();
    let logs = temp.join("logs");
    let count =
        |directory: &str| std::fs::read_dir(logs.join(directory)).map_or(0, Iterator::count);
    let store = OpenOptions::new().log_path(&logs).open(temp.join("store"))?;
    store.keyspace("default")?.put("key", "value")?;
    store.keyspace("other")?.put("key", "value")?;
    assert!(count("keyspace-0") > 1 && count("keyspace-1") > 1, "segments, and whose they are");
    store.backup(temp.join("backup"))?;
    store.drop_keyspace("other")?;
    assert!(!logs.join("keyspace-1").exists());
    drop(store);
    let value = Some(b"value".to_vec());
    let store = silica::open(temp.join("store"))?;
    assert_eq!(store.keyspace("default")?.get("key")?, value);
    drop(store);
    std::fs::remove_dir_all(&logs).expect("logs are removed");
    let lost = silica::open(temp.join("store"))?.keyspace("default").expect_err("no logs");
    assert!(lost.to_string().contains("mount its device"), "{lost}");
    let backup = silica::open(temp.join("backup"))?;
    assert_eq!(backup.keyspace("default")?.get("key")?, value);
    assert_eq!(backup.keyspace("other")?.get("key")?, value);
    Ok(())
}
