//! The life of a store, with the reference engine (in memory, so nothing is read back here).

use silica::{
    Durability, Engine, EngineSpec, Environment, ErrorKind, FileDevice, OpenOptions, OptionSpec,
    OptionValues, Registry, Result, Silica, Update, WriteBatch,
};
use silica_engine::OptionKind;
use silica_testkit::Reference;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "memory_bytes",
        kind: OptionKind::Size(1 << 20, 1 << 40),
        default: 1 << 28,
        fixed: false,
        tunable: true,
        doc: "memory",
    },
    OptionSpec {
        name: "partition_bits",
        kind: OptionKind::Count(0, 16),
        default: 4,
        fixed: true,
        tunable: true,
        doc: "partitions",
    },
];

fn build(_: FileDevice, _: &OptionValues, _: &Environment) -> Result<Arc<dyn Engine>> {
    Ok(Arc::new(Reference::new()))
}

fn options() -> OpenOptions {
    let reference = EngineSpec::new("reference", "", OPTIONS, build);
    OpenOptions::new().engine("reference").registry(Registry::empty().with(reference))
}

/// A directory that goes when the test ends.
struct Temp(PathBuf);

impl Temp {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("silica-store-test-{}-{number}", std::process::id());
        Temp(std::env::temp_dir().join(name))
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn store(&self) -> Silica {
        options().open(self.join("store")).unwrap()
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[track_caller]
fn refused(result: Result<Silica>, kind: ErrorKind, words: &[&str]) {
    let error = result.err().expect("it is refused");
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "'{word}' is missing in: {error}");
    }
}

#[test]
fn keyspaces_hold_keys_and_survive_in_the_catalog() -> Result<()> {
    let temp = Temp::new();
    let store = temp.store();
    let users = store.keyspace("users")?;
    users.put("ann", "1")?;
    let mut batch = WriteBatch::new();
    batch.put(b"bob", b"2").delete(b"ann").put(b"", b"empty");
    users.write_with(&batch, Durability::Buffered)?;
    let found = users.get_many(&["ann", "bob", ""])?;
    assert_eq!(found, [None, Some(b"2".to_vec()), Some(b"empty".to_vec())]);
    assert_eq!(store.keyspace("users")?.count(true)?.estimate, 2, "it is the same keyspace");
    let mut keys: Vec<_> = users.iter().map(|e| e.map(|(k, _)| k)).collect::<Result<_>>()?;
    keys.sort();
    assert_eq!(keys, [b"".to_vec(), b"bob".to_vec()]);
    users.update("bob", |old| Update::put([old.unwrap().value, b"!"].concat()))?;
    assert_eq!(users.get("bob")?.unwrap(), b"2!");
    assert_eq!(users.metrics()?.get("get_hits"), 3.0);
    users.clear()?;
    assert!(users.iter().next().is_none());
    store.create_keyspace("other", "reference", &[("partition_bits", "7")])?;
    drop(users);
    store.close()?;

    let store = temp.store();
    let infos = store.keyspaces()?;
    assert_eq!(infos.iter().map(|i| &i.name[..]).collect::<Vec<_>>(), ["other", "users"]);
    assert_eq!(infos[0].options, [("partition_bits".to_string(), "7".to_string())]);
    assert_eq!(infos[1].options, [("partition_bits".to_string(), "4".to_string())]);
    store.verify()
}

#[test]
fn iteration_resumes_at_its_cursor() -> Result<()> {
    let temp = Temp::new();
    let orphan = temp.store().keyspace("default")?;
    assert_eq!(orphan.get("k").unwrap_err().kind(), ErrorKind::Closed, "a dropped store is closed");
    drop(orphan);
    let store = temp.store();
    let keyspace = store.keyspace("default")?;
    for i in 0..1000 {
        keyspace.put(format!("{i}"), "v")?;
    }
    let mut iter = keyspace.iter();
    let mut seen: Vec<_> = iter.by_ref().take(600).map(|e| e.unwrap().0).collect();
    let cursor = iter.cursor().expect("there is more");
    seen.extend(keyspace.iter_from(cursor).map(|e| e.unwrap().0));
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 1000);
    Ok(())
}

#[test]
fn dropped_keyspaces_are_gone_and_their_handles_say_so() -> Result<()> {
    let temp = Temp::new();
    let store = temp.store();
    let keyspace = store.keyspace("old")?;
    let directory = temp.join("store").join(&store.keyspaces()?[0].directory);
    assert!(directory.is_dir());
    store.drop_keyspace("old")?;
    assert!(!directory.exists());
    assert_eq!(keyspace.put("k", "v").unwrap_err().kind(), ErrorKind::Closed);
    assert!(store.existing("old")?.is_none());
    let missing = store.drop_keyspace("old").unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    let again = store.create_keyspace("old", "reference", &[])?;
    again.put("k", "v")?;
    assert_ne!(temp.join("store").join(&store.keyspaces()?[0].directory), directory);
    Ok(())
}

#[test]
fn rubbish_of_interrupted_creations_is_swept() -> Result<()> {
    let temp = Temp::new();
    temp.store().close()?;
    let rubbish = temp.join("store").join("keyspace-9");
    std::fs::create_dir(&rubbish).unwrap();
    std::fs::write(rubbish.join("half"), "x").unwrap();
    temp.store().close()?;
    assert!(!rubbish.exists());
    Ok(())
}

#[test]
fn refusals_name_the_fix() -> Result<()> {
    let temp = Temp::new();
    let missing = options().create(false).open(temp.join("nowhere"));
    refused(missing, ErrorKind::NotFound, &["no store at", "silica serve"]);

    std::fs::create_dir_all(temp.join("full")).unwrap();
    refused(options().create(false).open(temp.join("full")), ErrorKind::NotFound, &["empty"]);
    std::fs::write(temp.join("full").join("letter.txt"), "x").unwrap();
    let foreign = options().open(temp.join("full"));
    refused(foreign, ErrorKind::NotFound, &["not a Silica store", "letter.txt"]);
    let file = options().open(temp.join("full").join("letter.txt"));
    refused(file, ErrorKind::Config, &["is a file"]);

    let store = temp.store();
    let pid = std::process::id().to_string();
    refused(options().open(temp.join("store")), ErrorKind::Locked, &[&pid, "in use"]);
    let engine = store.create_keyspace("x", "rocks", &[]).unwrap_err().to_string();
    assert!(engine.contains("no engine 'rocks'; known are reference"), "{engine}");
    let option = store.create_keyspace("x", "reference", &[("a", "1")]).unwrap_err().to_string();
    assert!(option.contains("known are memory_bytes, partition_bits"), "{option}");
    let name = store.create_keyspace("a\nb", "reference", &[]).unwrap_err();
    assert_eq!(name.kind(), ErrorKind::Config);
    store.keyspace("x")?;
    let twice = store.create_keyspace("x", "reference", &[]).unwrap_err().to_string();
    assert!(twice.contains("exists already"), "{twice}");
    store.close()?;

    let fixed = options().set("partition_bits", "9").open(temp.join("store"))?;
    let error = fixed.keyspace("x").unwrap_err().to_string();
    assert!(error.contains("fixed to 4"), "{error}");
    Ok(())
}

#[test]
fn damage_and_newer_versions_are_told_apart() {
    let temp = Temp::new();
    temp.store().close().unwrap();
    let file = temp.join("store").join("silica");
    let good = std::fs::read(&file).unwrap();
    let mut bad = good.clone();
    bad[good.len() - 1] ^= 1;
    std::fs::write(&file, bad).unwrap();
    refused(options().open(temp.join("store")), ErrorKind::Corruption, &["silica", "checksum"]);
    let mut newer = good;
    newer[8] = 99;
    std::fs::write(&file, newer).unwrap();
    refused(options().open(temp.join("store")), ErrorKind::Unsupported, &["version 99"]);
}

#[test]
fn a_backup_is_a_store_and_goes_only_into_an_empty_directory() -> Result<()> {
    let temp = Temp::new();
    let store = temp.store();
    store.keyspace("a")?.put("k", "v")?;
    store.keyspace("b")?;
    let report = store.backup(temp.join("copy"))?;
    assert_eq!(report.keyspaces, 2);
    let again = store.backup(temp.join("copy")).unwrap_err().to_string();
    assert!(again.contains("new or empty"), "{again}");
    let copy = options().create(false).open(temp.join("copy"))?;
    assert_eq!(copy.keyspaces()?, store.keyspaces()?);
    copy.close()?;
    silica::restore(temp.join("copy"), temp.join("restored"), options())?;
    let restored = options().create(false).open(temp.join("restored"))?;
    assert_eq!(restored.keyspaces()?.len(), 2);
    let nothing = silica::restore(temp.join("nowhere"), temp.join("x"), options()).unwrap_err();
    assert!(nothing.to_string().contains("not a complete backup"), "{nothing}");
    Ok(())
}
