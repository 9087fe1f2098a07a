//! Keyspaces that change their engine while they are used.

use silica::{
    Durability, EntryRef, ErrorKind, Keyspace, MigrateProgress, OpenOptions, Result, Silica,
    Update, WriteBatch,
};
use silica_base::Prng;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const ENGINES: [&str; 3] = ["silt", "wip", "mica"];
const FORGETS: [(&str, &str); 1] = [(silica::FORGET_AT_EXIT, "on")];
const KEYS: u64 = 600;

type Entry = (Vec<u8>, u64, u32);
type Model = BTreeMap<Vec<u8>, Entry>;

fn open(path: &Path) -> Result<Silica> {
    OpenOptions::new().memory_bytes(64 << 20).durability(Durability::Buffered).open(path)
}

fn key(thread: u64, n: u64) -> Vec<u8> {
    format!("thread {thread}/{n}").into_bytes()
}

/// A random write to one of the thread's keys, in one of the ways that there are.
fn step(keyspace: &Keyspace, model: &mut Model, thread: u64, prng: &mut Prng) {
    let keys = [key(thread, prng.below(KEYS)), key(thread, prng.below(KEYS))];
    let far = 4_000_000_000_000;
    let entry = (vec![prng.below(256) as u8; prng.below(60) as usize], far, prng.below(9) as u32);
    let put = EntryRef { value: &entry.0, expires_unix_ms: entry.1, user_bits: entry.2 };
    let mut batch = WriteBatch::new();
    match prng.below(4) {
        0 => {
            batch.delete(&keys[0]);
            keyspace.write(&batch).unwrap();
            model.remove(&keys[0]);
        }
        1 => {
            let update = |old: Option<EntryRef<'_>>| match old {
                Some(_) => Update::Delete,
                None => Update::put(b"was not there".to_vec()),
            };
            keyspace.update(&keys[0], update).unwrap();
            if model.remove(&keys[0]).is_none() {
                model.insert(keys[0].clone(), (b"was not there".to_vec(), 0, 0));
            }
        }
        _ => {
            batch.put_entry(&keys[0], put).put_entry(&keys[1], put);
            keyspace.write(&batch).unwrap();
            keys.iter().for_each(|key| drop(model.insert(key.clone(), entry.clone())));
        }
    }
}

fn contents(keyspace: &Keyspace) -> Model {
    let scan = keyspace.engine().as_scan().expect("every engine of ours is iterated");
    let (mut all, mut next) = (Model::new(), Some(0));
    while let Some(cursor) = next {
        let visit = &mut |key: &[u8], entry: EntryRef<'_>| {
            let meta = (entry.value.to_vec(), entry.expires_unix_ms, entry.user_bits);
            all.insert(key.to_vec(), meta);
        };
        next = scan.scan(cursor, 100, visit).unwrap();
    }
    all
}

/// Writers go on from before a migration until it is over.
fn migrate_amid_writes(store: &Silica, to: &str, models: &mut [Model], seed: u64) {
    let keyspace = store.keyspace("k").unwrap();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (thread, model) in (0..).zip(models.iter_mut()) {
            let (keyspace, over) = (&keyspace, &over);
            scope.spawn(move || {
                let mut prng = Prng::new(seed * 10 + thread);
                let mut left = 200;
                while left > 0 {
                    step(keyspace, model, thread, &mut prng);
                    left -= u64::from(over.load(Ordering::Relaxed));
                }
            });
        }
        let report = store.migrate("k", to, &FORGETS, &mut |_| Ok(()));
        over.store(true, Ordering::Relaxed);
        let report = report.unwrap();
        assert!(report.entries > 100 && !report.resumed, "{report:?}");
    });
    assert_eq!(keyspace.engine().descriptor().name, to);
    let all: Model = models.iter().flat_map(|model| model.clone()).collect();
    assert_eq!(contents(&keyspace), all);
    keyspace.verify().unwrap();
}

#[test]
fn every_engine_takes_over_from_every_other_while_others_write() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    let keyspace = store.create_keyspace("k", ENGINES[0], &[]).unwrap();
    let mut models = [Model::new(), Model::new()];
    for (thread, model) in (0..).zip(&mut models) {
        let mut prng = Prng::new(thread);
        (0..2000).for_each(|_| step(&keyspace, model, thread, &mut prng));
    }
    for (round, to) in (1..).zip(["wip", "mica", "silt", "mica", "wip", "silt"]) {
        migrate_amid_writes(&store, to, &mut models, round);
    }
    drop(keyspace);
    store.verify().unwrap();
    store.close().unwrap();
    let store = open(directory.path()).unwrap();
    let all: Model = models.iter().flat_map(|model| model.clone()).collect();
    let keyspace = store.keyspace("k").unwrap();
    assert_eq!(keyspace.engine().descriptor().name, "silt");
    assert_eq!(contents(&keyspace), all);
    let directories = std::fs::read_dir(directory.path()).unwrap();
    let names = directories.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.starts_with("keyspace-")).count(), 1);
}

fn fill(store: &Silica, engine: &str, entries: u32) -> Keyspace {
    let keyspace = store.create_keyspace("k", engine, &[]).unwrap();
    for n in 0..entries {
        keyspace.put(n.to_be_bytes(), [b'v'; 50]).unwrap();
    }
    keyspace
}

/// Tells a process of this test where to die in a migration.
const DIES: &str = "SILICA_TEST_MIGRATION_DIES";

#[test]
fn a_migration_goes_on_after_the_death_of_its_process() {
    if let Ok(task) = std::env::var(DIES) {
        let (phase, directory) = task.split_once('=').unwrap();
        let store = open(Path::new(directory)).unwrap();
        let dies = &mut |at: MigrateProgress| match at.phase == phase && at.entries >= 2000 {
            true => std::process::abort(),
            false => Ok(()),
        };
        let _ = store.migrate("k", "wip", &[], dies);
        return;
    }
    for phase in ["copy", "verify", "switch"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        let store = open(&path).unwrap();
        drop(fill(&store, "silt", 5000));
        store.close().unwrap();
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "migrate::a_migration_goes_on_after_the_death_of_its_process"])
            .env(DIES, format!("{phase}={}", path.display()))
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status()
            .unwrap();
        assert_eq!(status.code(), None, "it dies of a signal");
        let store = open(&path).unwrap();
        let keyspace = store.keyspace("k").unwrap();
        assert_eq!(keyspace.engine().descriptor().name, "silt");
        assert_eq!(keyspace.count(true).unwrap().estimate, 5000);
        assert!(!store.keyspaces().unwrap()[0].options.iter().any(|(name, _)| name == "migration"));
        // What changes meanwhile is found.
        keyspace.put(7_u32.to_be_bytes(), "changed").unwrap();
        keyspace.delete(8_u32.to_be_bytes()).unwrap();
        let report = store.migrate("k", "wip", &[], &mut |_| Ok(())).unwrap();
        assert!(report.resumed && report.entries == 4999 && report.copied < 4500, "{report:?}");
        assert_eq!(keyspace.get(7_u32.to_be_bytes()).unwrap().unwrap(), b"changed");
        assert_eq!(keyspace.get(8_u32.to_be_bytes()).unwrap(), None);
        assert_eq!(keyspace.range(..).unwrap().count(), 4999);
    }
}

#[test]
fn what_cannot_be_migrated_stays_what_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    let keyspace = fill(&store, "wip", 3000);
    let refused = |engine: &str, options: &[(&str, &str)], kind: ErrorKind, words: &str| {
        let error = store.migrate("k", engine, options, &mut |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(keyspace.engine().descriptor().name, "wip");
        keyspace.put("still", "writable").unwrap();
        assert_eq!(keyspace.range(..).unwrap().count(), 3001);
    };
    refused("wip", &[], ErrorKind::Config, "has engine wip already");
    refused("rocks", &[], ErrorKind::Config, "no engine 'rocks'");
    refused("silt", &[("speed", "9")], ErrorKind::Config, "no option 'speed'");
    keyspace.put([b'k'; 5000], "long key").unwrap();
    keyspace.delete("still").unwrap();
    let stop = &mut |_| Err(silica::Error::new(ErrorKind::Closed, "interrupted"));
    assert_eq!(store.migrate("k", "silt", &[], stop).unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(keyspace.count(true).unwrap().estimate, 3001);
    let missing = store.migrate("none", "silt", &[], &mut |_| Ok(())).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}

#[test]
fn a_memory_that_is_too_small_is_told_and_nothing_is_lost() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path()).unwrap();
    let keyspace = fill(&store, "wip", 10);
    for n in 0..2000_u32 {
        keyspace.put(n.to_be_bytes(), vec![b'v'; 10_000]).unwrap();
    }
    let options = [("memory_bytes", "8MiB"), FORGETS[0]];
    let full = store.migrate("k", "mica", &options, &mut |_| Ok(())).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::Full, "{full}");
    assert_eq!(keyspace.count(true).unwrap().estimate, 2000);
    let lru = [("memory_bytes", "8MiB"), ("eviction", "lru"), FORGETS[0]];
    let full = store.migrate("k", "mica", &lru, &mut |_| Ok(())).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::Full, "{full}");
    assert!(full.to_string().contains("memory_bytes"), "{full}");
    assert_eq!(keyspace.range(..).unwrap().count(), 2000);
}

/// What a transaction puts aside in the engine goes into a keyspace that nobody moved meanwhile,
/// and into no engine that another one follows.
#[test]
fn what_was_put_aside_before_a_migration_is_not_committed_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let silica = open(dir.path()).unwrap();
    let keyspace = silica.create_keyspace("k", "wip", &[]).unwrap();
    let aside = |value: &'static [u8]| {
        let ordered = Arc::clone(keyspace.engine()).as_ordered().expect("wip keeps an order");
        let mut staging = ordered.staging().expect("wip has layers");
        let write = (&b"key"[..], Some(EntryRef::new(value)));
        staging.put(100, &mut std::iter::once(write)).unwrap();
        staging
    };
    let mut first = aside(b"first");
    assert_eq!(keyspace.get(b"key").unwrap(), None, "nobody else sees it");
    first.commit().unwrap();
    assert_eq!(keyspace.get(b"key").unwrap(), Some(b"first".to_vec()));
    let mut second = aside(b"second");
    silica.migrate("k", "silt", &[], &mut |_| Ok(())).unwrap();
    let refused = second.commit().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Locked, "{refused}");
    drop(second);
    assert_eq!(keyspace.get(b"key").unwrap(), Some(b"first".to_vec()));
}
