//! Migrations that go on after the death of their process, again and again, while entries are
//! written in between: what is left is done, and nothing that changed is missed.

use silica::{Durability, KeyRange, Keyspace, MigrateProgress, MigrateReport, OpenOptions, Silica};
use silica::{EntryRef, ErrorKind, Update, WriteBatch};
use silica_base::{Prng, test_size};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

/// More than what is done between two notes, several times.
const ENTRIES: u32 = 150_000;
/// Entries that are written anew.
const WRITTEN: u64 = 200_000;

fn open(path: &Path) -> Silica {
    let options = OpenOptions::new().memory_bytes(64 << 20).durability(Durability::Buffered);
    options.open(path).unwrap()
}

/// A new store with [`ENTRIES`] entries.
fn filled(path: &Path, engine: &str) {
    let store = open(path);
    let keyspace = store.create_keyspace("k", engine, &[]).unwrap();
    for first in (0..ENTRIES).step_by(1000) {
        let keys: Vec<_> = (first..first + 1000).map(|n| key(n.into())).collect();
        let mut batch = WriteBatch::new();
        for key in &keys {
            batch.put(key, b"as it was");
        }
        keyspace.write(&batch).unwrap();
    }
    drop(keyspace);
    store.close().unwrap();
}

fn key(n: u64) -> [u8; 8] {
    // Neighbours are anywhere in any order.
    (n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).to_be_bytes()
}

/// A write to some keys, in one of the ways that there are.
fn write(keyspace: &Keyspace, prng: &mut Prng) {
    let keys = [key(prng.below(WRITTEN)), key(prng.below(WRITTEN))];
    let value = prng.next_u64().to_le_bytes();
    let mut batch = WriteBatch::new();
    match prng.below(8) {
        0 => keyspace.delete(keys[0]).unwrap(),
        1 => keyspace
            .update(keys[0], |old| match old {
                Some(_) => Update::Delete,
                None => Update::put(value.to_vec()),
            })
            .unwrap(),
        2 => {
            let entry =
                EntryRef { value: &value, expires_unix_ms: 4_000_000_000_000, user_bits: 7 };
            keyspace.write(batch.put_entry(&keys[0], entry).delete(&keys[1])).unwrap();
        }
        _ => keyspace.put(keys[0], value).unwrap(),
    }
}

type Contents = BTreeMap<Vec<u8>, (Vec<u8>, u64, u32)>;

fn contents(keyspace: &Keyspace) -> Contents {
    let scan = keyspace.engine().as_scan().unwrap();
    let (mut all, mut next) = (Contents::new(), Some(0));
    while let Some(cursor) = next {
        let visit = &mut |key: &[u8], entry: EntryRef<'_>| {
            let meta = (entry.value.to_vec(), entry.expires_unix_ms, entry.user_bits);
            all.insert(key.to_vec(), meta);
        };
        next = scan.scan(cursor, 1000, visit).unwrap();
    }
    all
}

fn migrate(store: &Silica, to: &str) -> MigrateReport {
    let report =
        store.migrate("k", to, &[(silica::FORGET_AT_EXIT, "on")], &mut |_| Ok(())).unwrap();
    let left = std::fs::read_dir(store.path()).unwrap();
    let names = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: Vec<String> = names.filter(|name| name.contains('-')).collect();
    assert!(!names.iter().any(|name| name.starts_with("migration")), "{names:?}");
    report
}

/// Tells a process of this test what to do until it dies.
const DIES: &str = "SILICA_TEST_MIGRATION_DIES";

/// Runs in the process that dies: of a migration to engine `to`, where `phase` has looked at
/// `entries`. With `writes` somebody writes all the time, and once before.
fn live_and_die() -> bool {
    let Ok(task) = std::env::var(DIES) else { return false };
    let [phase, entries, writes, to, path]: [&str; 5] =
        task.split('=').collect::<Vec<_>>().try_into().unwrap();
    let (entries, seed): (u64, u64) = (entries.parse().unwrap(), writes.parse().unwrap());
    let store = open(Path::new(path));
    let keyspace = store.keyspace("k").unwrap();
    std::thread::scope(|scope| {
        if seed > 0 {
            let keyspace = &keyspace;
            let mut prng = Prng::new(seed);
            (0..100).for_each(|_| write(keyspace, &mut prng));
            scope.spawn(move || {
                loop {
                    write(keyspace, &mut prng);
                    std::thread::sleep(std::time::Duration::from_micros(50));
                }
            });
        }
        let dies = &mut |at: MigrateProgress| match at.phase == phase && at.entries >= entries {
            true => std::process::abort(),
            false => Ok(()),
        };
        store.migrate("k", to, &[], dies).unwrap();
        panic!("it never came to {phase} {entries}");
    });
    true
}

fn die(test: &str, phase: &str, entries: u64, writes: u64, to: &str, path: &Path) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("migrate_resumed::{test}")])
        .env(DIES, format!("{phase}={entries}={writes}={to}={}", path.display()))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), None, "it dies of a signal: {said}");
}

/// Where it dies, and how much is left to look at: what a note is behind at most, and all steps
/// that come then.
const DEATHS: [(&str, u64, u64); 4] = [
    ("copy", 120_000, 30_000 + 40_000 + 300_000),
    ("verify", 120_000, 30_000 + 40_000 + 150_000),
    ("verify", 270_000, 30_000 + 40_000),
    ("switch", 0, 0),
];

#[test]
fn what_is_left_is_done_where_nobody_wrote() {
    if live_and_die() {
        return;
    }
    for (round, (from, to)) in (0..).zip([("silt", "wip"), ("wip", "silt")]) {
        // The other way is the same but for the engines.
        let skipped = if test_size(0, 0, 1) == 0 { 2 * round } else { 0 };
        for (phase, entries, left) in DEATHS.into_iter().skip(skipped) {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("store");
            filled(&path, from);
            die("what_is_left_is_done_where_nobody_wrote", phase, entries, 0, to, &path);
            let store = open(&path);
            let report = migrate(&store, to);
            assert!(report.resumed && report.looked <= left, "{phase} {entries}: {report:?}");
            assert_eq!(report.entries, u64::from(ENTRIES), "{phase} {entries}: {report:?}");
            let keyspace = store.keyspace("k").unwrap();
            assert_eq!(keyspace.engine().descriptor().name, to);
            assert_eq!(contents(&keyspace).len(), ENTRIES as usize);
        }
    }
}

#[test]
fn nothing_that_changed_is_missed_whenever_it_dies() {
    let name = "nothing_that_changed_is_missed_whenever_it_dies";
    if live_and_die() {
        return;
    }
    for (seed, (from, to)) in (1..).zip([("silt", "wip"), ("wip", "silt")]) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("store");
        filled(&path, from);
        let mut prng = Prng::new(seed);
        for (round, (phase, entries, _)) in (1..).zip(DEATHS) {
            die(name, phase, entries, seed * 100 + round, to, &path);
            // Others open it, and only write.
            for process in 0..3 {
                let store = open(&path);
                let keyspace = store.keyspace("k").unwrap();
                assert_eq!(keyspace.engine().descriptor().name, from);
                (0..200).for_each(|_| write(&keyspace, &mut prng));
                drop(keyspace);
                if process == 1 {
                    store.close().unwrap();
                }
            }
        }
        let store = open(&path);
        let keyspace = store.keyspace("k").unwrap();
        let before = contents(&keyspace);
        let report = migrate(&store, to);
        assert!(report.resumed && report.looked < 20_000, "{report:?}");
        assert_eq!(contents(&keyspace), before, "{report:?}");
        keyspace.verify().unwrap();
    }
}

#[test]
fn what_no_journal_can_name_has_everything_compared() {
    let directory = tempfile::tempdir().unwrap();
    for (round, change) in (0..).zip(["clear", "range", "ingest", "another engine"]) {
        let path = directory.path().join(change);
        filled(&path, "wip");
        let store = open(&path);
        let keyspace = store.keyspace("k").unwrap();
        let stops = &mut |at: MigrateProgress| match at.phase == "verify" && at.entries >= 100_000 {
            true => Err(silica::Error::new(ErrorKind::Closed, "interrupted")),
            false => Ok(()),
        };
        store.migrate("k", "silt", &[], stops).unwrap_err();
        match change {
            "clear" => keyspace.clear().unwrap(),
            "range" => keyspace.delete_range(KeyRange::prefix(&[7])).unwrap(),
            "ingest" => {
                let mut table =
                    silica::TableFiles::create(directory.path().join("a.table")).unwrap();
                (0..100_u8).for_each(|n| table.put([7, n], "ingested").unwrap());
                keyspace.ingest(&table.finish().unwrap()).unwrap();
            }
            _ => assert!(!migrate(&store, "mica").resumed),
        }
        keyspace.put(key(round), "changed").unwrap();
        let before = contents(&keyspace);
        let report = migrate(&store, "silt");
        assert_eq!(report.resumed, change != "another engine");
        assert!(change == "clear" || report.looked > 2 * before.len() as u64, "{report:?}");
        assert_eq!(report.entries, before.len() as u64);
        assert_eq!(contents(&keyspace), before, "{change}");
    }
}
