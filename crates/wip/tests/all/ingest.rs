//! Ingested files: newer than all before, all of them or none, and nothing where one is not well.

use crate::small;
use silica_base::{HashSeed, Prng, Result, test_size};
use silica_device::sim::{SimDevice, SimOptions};
use silica_device::{Device, DeviceFile, Mode};
use silica_engine::{
    Budget, Durability, Engine, EngineExt, EntryRef, Environment, ErrorKind, Ingested, KeyRange,
    OptionValues, Ordered, Reads, Snapshot, SortedFile, WriteBatch,
};
use silica_parts::table::Compression;
use silica_wip::{TableFileOptions, TableFiles, Wip, repair};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options() -> OptionValues {
    small::options(&[
        ("memory_bytes", 128 << 10),
        ("memtable_bytes_max", 8 << 10),
        ("log_bytes_max", 32 << 10),
        ("segment_bytes", 8 << 10),
        ("bucket_bytes_max", 48 << 10),
        ("split_buckets", 3),
    ])
}

fn environment() -> Environment {
    Environment::new(HashSeed([3; 16]))
}

fn open(device: &SimDevice) -> Arc<Wip<SimDevice>> {
    Arc::new(try_open(device).expect("it opens"))
}

fn try_open(device: &SimDevice) -> Result<Wip<SimDevice>> {
    Wip::open(device.clone(), &options(), &environment())
}

fn new_device() -> SimDevice {
    SimDevice::new(1, SimOptions::default())
}

fn settle(wip: &Wip<SimDevice>) {
    while wip.maintain(Budget::of(1 << 20)).expect("maintenance").more {}
}

fn file_options() -> TableFileOptions {
    TableFileOptions {
        memory_bytes: 16 << 10,
        file_bytes: 24 << 10,
        compression: Compression::None,
        block_bytes: 4096,
        id: 77,
    }
}

/// The files that are made of `entries`, which come in any order.
fn files_of<'e>(entries: impl IntoIterator<Item = (&'e Vec<u8>, &'e Vec<u8>)>) -> Vec<Vec<u8>> {
    let device = Arc::new(new_device());
    let mut files = TableFiles::new(device.clone(), file_options());
    for (key, value) in entries {
        files.put(key, EntryRef::new(value)).expect("an entry");
    }
    let made = files.finish(&mut |_, _| {}).expect("files");
    assert_eq!(device.list().expect("names"), made.names, "nothing else is left");
    made.names.iter().map(|name| device.peek(name).expect("a file")).collect()
}

/// Puts files where an ingest takes them from.
fn place(device: &SimDevice, files: &[Vec<u8>]) -> Vec<SortedFile> {
    let mut placed = Vec::new();
    for (n, bytes) in files.iter().enumerate() {
        let name = format!("INGEST-{n}");
        let _ = device.remove(&name);
        let file = device.create(&name, Mode::Buffered).expect("created");
        file.write_at(0, bytes).expect("written");
        file.sync().expect("synced");
        placed.push(SortedFile { name, shown: format!("file {n}") });
    }
    device.sync_dir().expect("synced");
    placed
}

fn ingest(wip: &Wip<SimDevice>, files: &[Vec<u8>]) -> Result<Ingested> {
    wip.ingest(&place(wip.device(), files), &mut |_, _| {})
}

/// Everything that a snapshot sees, in order.
fn contents(snapshot: Arc<dyn Snapshot>) -> Model {
    let mut found = Model::new();
    let mut entries = snapshot.iterate(&KeyRange::ALL).expect("an iterator");
    let mut more = entries.seek_to_first().expect("a read");
    while more {
        found.insert(entries.key().to_vec(), entries.entry().value.to_vec());
        more = entries.next().expect("a read");
    }
    found
}

fn check(wip: &Arc<Wip<SimDevice>>, model: &Model, keys: u64) {
    wip.verify().expect("every invariant");
    assert_eq!(contents(wip.clone().snapshot().expect("a snapshot")), *model);
    for key in 0..keys {
        let key = key_of(key);
        assert_eq!(wip.get(&key).expect("a get").as_ref(), model.get(&key), "{key:?}");
    }
}

fn key_of(n: u64) -> Vec<u8> {
    format!("key {n:05}").into_bytes()
}

fn value_of(prng: &mut Prng) -> Vec<u8> {
    let mut value = vec![0; prng.below(80) as usize];
    prng.fill(&mut value);
    value
}

/// Some of `keys` keys with values.
fn entries(prng: &mut Prng, keys: u64) -> Model {
    let (from, len) = (prng.below(keys), 1 + prng.below(keys));
    let part = 1 + prng.below(3);
    let keys = (from..keys.min(from + len)).filter(|n| n % part == 0).map(key_of);
    keys.map(|key| (key, value_of(prng))).collect()
}

#[test]
fn files_hold_the_last_of_each_key_in_whatever_order_they_came() {
    let mut prng = Prng::new(1);
    for round in 0..30 {
        let (mut model, mut came) = (Model::new(), Vec::new());
        for n in 0..prng.below(3000) {
            // In order, in order but for some, and in none.
            let n = match round % 3 {
                0 => n / 2,
                1 if !prng.one_in(500) => n,
                _ => prng.below(2000),
            };
            let entry = (key_of(n), value_of(&mut prng));
            model.insert(entry.0.clone(), entry.1.clone());
            came.push(entry);
        }
        let files = files_of(came.iter().map(|(key, value)| (key, value)));
        let wip = open(&new_device());
        let ingested = ingest(&wip, &files).expect("an ingest");
        assert_eq!(ingested.entries, model.len() as u64);
        check(&wip, &model, 0);
    }
}

#[test]
fn what_is_ingested_is_newer_than_all_before_and_older_than_all_behind() {
    for seed in 0..test_size(4, 20, 1000) {
        let (device, mut prng) = (new_device(), Prng::new(seed));
        let mut wip = open(&device);
        let (mut model, keys) = (Model::new(), 600);
        let mut snapshots: Vec<(Arc<dyn Snapshot>, Model)> = Vec::new();
        for n in 0..test_size(3000, 10_000, 100_000) {
            let key = key_of(prng.below(keys));
            match prng.below(400) {
                0 | 1 => {
                    let entries = entries(&mut prng, keys);
                    ingest(&wip, &files_of(&entries)).expect("an ingest");
                    model.extend(entries);
                }
                2 => {
                    let end = key_of(prng.below(keys));
                    let range = KeyRange::new(key.clone(), end.clone());
                    wip.delete_range(&range, Durability::Buffered).expect("a delete");
                    model.retain(|k, _| *k < key || *k >= end);
                }
                3 => snapshots.push((wip.clone().snapshot().expect("one"), model.clone())),
                4 if !snapshots.is_empty() => {
                    let (snapshot, then) = snapshots.swap_remove(0);
                    assert!(contents(snapshot) == then, "seed {seed}, step {n}");
                }
                5 => {
                    snapshots.clear();
                    drop(wip);
                    wip = open(&device);
                    check(&wip, &model, keys);
                }
                6..20 => settle(&wip),
                20..80 => {
                    wip.delete(&key, Durability::Buffered).expect("a delete");
                    model.remove(&key);
                }
                _ => {
                    let value = value_of(&mut prng);
                    wip.put(&key, &value, Durability::Buffered).expect("a put");
                    model.insert(key, value);
                }
            }
        }
        check(&wip, &model, keys);
        let all = KeyRange::ALL;
        wip.compact_range(&all).expect("a compaction");
        check(&wip, &model, keys);
    }
}

#[test]
fn a_large_ingest_leaves_no_large_bucket() {
    let mut prng = Prng::new(5);
    let model: Model = (0..20_000).map(|n| (key_of(n), value_of(&mut prng))).collect();
    let device = new_device();
    let wip = open(&device);
    ingest(&wip, &files_of(&model)).expect("an ingest");
    let buckets = || {
        let text = wip.as_admin().expect("a view").inspect().expect("a description");
        let line = text.lines().find_map(|line| line.strip_prefix("buckets: "));
        line.expect("a line").parse::<u64>().expect("a number")
    };
    assert!(buckets() > 8, "{} buckets", buckets());
    check(&wip, &model, 20_000);
    settle(&wip);
    assert!(buckets() > 8, "{} buckets", buckets());
    check(&wip, &model, 20_000);
    drop(wip);
    check(&open(&device), &model, 20_000);
}

/// A store with entries in tables and in the log, and what it holds.
fn filled(device: &SimDevice) -> (Arc<Wip<SimDevice>>, Model) {
    let (wip, mut prng, mut model) = (open(device), Prng::new(9), Model::new());
    for n in 0..500 {
        let entry = (key_of(prng.below(300)), value_of(&mut prng));
        wip.put(&entry.0, &entry.1, Durability::Synced).expect("a put");
        model.insert(entry.0, entry.1);
        if n % 100 == 0 {
            settle(&wip);
        }
    }
    (wip, model)
}

#[test]
fn after_a_power_cut_at_any_moment_all_of_it_is_there_or_none() {
    let mut prng = Prng::new(6);
    let added: Model = (100..700).map(|n| (key_of(n), value_of(&mut prng))).collect();
    let files = files_of(&added);
    assert!(files.len() > 1);
    let begin = || {
        let device = new_device();
        let (wip, model) = filled(&device);
        let placed = place(&device, &files);
        (device, wip, model, placed)
    };
    let (device, wip, ..) = begin();
    let first = device.op_count();
    ingest_placed(&wip, &files).expect("an ingest");
    let last = device.op_count();
    drop(wip);
    let (mut all, mut none) = (0, 0);
    for op in first..=last {
        let (device, wip, before, placed) = begin();
        device.cut_at_op(op + 1);
        let ended = wip.ingest(&placed, &mut |_, _| {});
        drop(wip);
        device.power_cut();
        let device = device.reopen();
        device.cut_at_op(u64::MAX);
        let wip = open(&device);
        let mut after = before.clone();
        after.extend(added.clone());
        wip.verify().expect("every invariant");
        let found = contents(wip.clone().snapshot().expect("a snapshot"));
        assert!(found == after || found == before, "cut at {op}: neither all nor nothing");
        assert!(ended.is_err() || found == after, "cut at {op}: acknowledged, and gone");
        if found == after {
            all += 1
        } else {
            none += 1
        }
        let strange = |name: &String| name.starts_with("INGEST");
        assert!(!device.list().expect("names").iter().any(strange), "files are left");
        // And it goes on.
        ingest(&wip, &files).expect("an ingest");
        check(&wip, &after, 700);
    }
    assert!(all > 0 && none > 0, "{all} whole, {none} without");
}

fn ingest_placed(wip: &Wip<SimDevice>, files: &[Vec<u8>]) -> Result<Ingested> {
    let shown = |n: usize| SortedFile { name: format!("INGEST-{n}"), shown: format!("file {n}") };
    wip.ingest(&(0..files.len()).map(shown).collect::<Vec<_>>(), &mut |_, _| {})
}

#[test]
fn an_error_of_the_device_at_any_moment_leaves_all_or_nothing() {
    use silica_device::sim::FaultKind::{Eio, Enospc, FailedSync, ReadEio};
    let mut prng = Prng::new(7);
    let added: Model = (100..300).map(|n| (key_of(n), value_of(&mut prng))).collect();
    let files = files_of(&added);
    for kind in [Enospc, Eio, FailedSync, ReadEio] {
        for nth in 1..u64::MAX {
            let device = new_device();
            let (wip, before) = filled(&device);
            let placed = place(&device, &files);
            let names = device.list().expect("names");
            device.fail_at(kind, nth);
            let ended = wip.ingest(&placed, &mut |_, _| {});
            let was_hit = !device.faults_pending();
            device.clear_faults();
            let mut after = before.clone();
            after.extend(added.clone());
            let is_fine = ended.is_ok();
            if is_fine || kind != FailedSync {
                let now = contents(wip.clone().snapshot().expect("a snapshot"));
                assert!(now == if is_fine { after.clone() } else { before.clone() }, "{kind:?}");
            }
            if !is_fine && kind == Enospc {
                let more: Vec<_> = device.list().expect("names");
                let tables = |all: &[String]| all.iter().filter(|n| n.starts_with("TABLE")).count();
                assert!(tables(&more) <= tables(&names) + 1, "{more:?}: tables are left");
            }
            drop(wip);
            // As another process finds it: a sync that failed is over.
            let wip = open(&device.reopen());
            wip.verify().expect("every invariant");
            let found = contents(wip.clone().snapshot().expect("a snapshot"));
            assert!(found == after || (!is_fine && found == before), "{kind:?} at {nth}");
            if !was_hit {
                break;
            }
        }
    }
}

#[test]
fn a_file_that_is_not_well_changes_nothing_and_is_named() {
    let device = new_device();
    let (wip, before) = filled(&device);
    let mut prng = Prng::new(8);
    let good: Model = (1000..1100).map(|n| (key_of(n), value_of(&mut prng))).collect();
    let bad: Model = (2000..2300).map(|n| (key_of(n), value_of(&mut prng))).collect();
    let (good, bad) = (files_of(&good).remove(0), files_of(&bad).remove(0));
    let tables = || device.list().expect("names").iter().filter(|n| n.starts_with("TABLE")).count();
    settle(&wip);
    let tables_before = tables();
    let refused = |files: &[Vec<u8>], kind: ErrorKind, says: &[&str]| {
        let error = ingest(&wip, files).expect_err("it is refused");
        let text = error.to_string();
        assert_eq!(error.kind(), kind, "{text}");
        for what in says.iter().chain(&["nothing was ingested"]) {
            assert!(text.contains(what), "{what}: {text}");
        }
        assert_eq!(tables(), tables_before, "{text}");
    };
    let damaged = &["file 1", "at byte", "silica build-table"];
    // Every kind of cut and flip, of a file behind one that is well.
    for len in [0, 1, 4095, 4096, bad.len() / 8192 * 4096, bad.len() - 4096, bad.len() - 1] {
        refused(&[good.clone(), bad[..len].to_vec()], ErrorKind::Corruption, damaged);
    }
    for at in (0..bad.len()).step_by(61) {
        let mut flipped = bad.clone();
        flipped[at] ^= 1 << (at % 8);
        refused(&[good.clone(), flipped], ErrorKind::Corruption, damaged);
    }
    let foreign = vec![b'x'; 3 * 4096];
    refused(&[good.clone(), foreign], ErrorKind::Corruption, damaged);
    let name = device.list().expect("names").into_iter().find(|n| n.starts_with("TABLE"));
    let of_a_store = device.peek(&name.expect("a table")).expect("a file");
    refused(&[good.clone(), of_a_store], ErrorKind::Unsupported, &["file 1", "of a store"]);
    let newer = newer_version(&bad);
    refused(&[good.clone(), newer], ErrorKind::Unsupported, &["file 1", "newer release"]);
    refused(
        &[bad.clone(), good.clone(), bad.clone()],
        ErrorKind::Config,
        &["overlap", "file 0", "file 2", "key 02"],
    );
    check(&wip, &before, 300);
    drop(wip);
    check(&open(&device), &before, 300);
    ingest(&open(&device), &[bad, good]).expect("in any order");
}

/// The table with a footer of format 2.
fn newer_version(table: &[u8]) -> Vec<u8> {
    let mut bytes = table.to_vec();
    let at = bytes.len() - 4096;
    let id = u64::from_le_bytes(bytes[at + 16..at + 24].try_into().expect("eight bytes"));
    let sum = |unit: &[u8]| silica_base::Checksum::at(id, at as u64).update(unit).finish();
    let footer = &mut bytes[at..];
    assert_eq!(footer[4092..], sum(&footer[..4092]).to_le_bytes(), "as the page says");
    footer[8] += 1;
    let sum = sum(&footer[..4092]);
    footer[4092..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

#[test]
fn writers_go_on_and_each_key_has_what_came_last() {
    let keys = 6000;
    for round in 0..test_size(6, 30, 1000) {
        let device = new_device();
        let wip = open(&device);
        let mut prng = Prng::new(round);
        let sentinel = key_of(keys);
        let added: Model = (0..=keys).map(|n| (key_of(n), b"ingested".to_vec())).collect();
        let files = files_of(&added);
        // Of each key the number of its last write, and of the last one that ended before a key was
        // there which nobody writes.
        let counters = || (0..keys).map(|_| AtomicU64::new(0)).collect::<Vec<_>>();
        let (ended, early) = (counters(), counters());
        let stop = AtomicU64::new(0);
        thread::scope(|scope| {
            let (ended, early, stop) = (&ended, &early, &stop);
            let (wip, sentinel) = (&wip, &sentinel);
            for writer in 0..2 {
                let mut prng = Prng::new(1000 * round + writer);
                scope.spawn(move || {
                    for n in 1.. {
                        if stop.load(Ordering::SeqCst) == 1 {
                            return;
                        }
                        // Each key has one writer.
                        let key = 2 * prng.below(keys / 2) + writer;
                        let value = n.to_string().into_bytes();
                        wip.put(&key_of(key), &value, Durability::Buffered).expect("a put");
                        ended[key as usize].store(n, Ordering::SeqCst);
                        if wip.get(sentinel).expect("a get").is_none() {
                            early[key as usize].store(n, Ordering::SeqCst);
                        }
                    }
                });
            }
            scope.spawn(move || {
                while stop.load(Ordering::SeqCst) == 0 {
                    wip.maintain(Budget::of(64 << 10)).expect("maintenance");
                }
            });
            thread::sleep(std::time::Duration::from_millis(prng.below(30)));
            let snapshot = wip.clone().snapshot().expect("a snapshot");
            let then = contents(Arc::clone(&snapshot));
            ingest(wip, &files).expect("an ingest");
            stop.store(1, Ordering::SeqCst);
            assert!(contents(snapshot) == then, "a snapshot from before does not change");
        });
        for (key, early) in early.iter().enumerate() {
            let value = wip.get(&key_of(key as u64)).expect("a get").expect("it is there");
            if value == b"ingested" {
                continue;
            }
            let n: u64 = String::from_utf8_lossy(&value).parse().expect("a number");
            let early = early.load(Ordering::SeqCst);
            assert!(n > early, "{n} was there before what was ingested, as {early} was");
        }
        // Of versions in a wrong order this would make a table.
        wip.compact_range(&KeyRange::ALL).expect("a compaction");
        drop(wip);
        let wip = open(&device);
        wip.verify().expect("every invariant");
        for (key, last) in ended.iter().enumerate() {
            let value = wip.get(&key_of(key as u64)).expect("a get").expect("it is there");
            let last = last.load(Ordering::SeqCst);
            let is_last = value == last.to_string().into_bytes();
            assert!(is_last || value == b"ingested", "key {key}");
        }
    }
}

#[test]
fn a_transaction_that_read_before_an_ingest_conflicts() {
    let device = new_device();
    let (wip, _) = filled(&device);
    let key = key_of(5);
    let snapshot = wip.clone().snapshot().expect("a snapshot");
    let mut batch = WriteBatch::new();
    batch.put(&key, b"from the transaction");
    let added = Model::from([(key.clone(), b"ingested".to_vec())]);
    ingest(&wip, &files_of(&added)).expect("an ingest");
    let commit = |snapshot: &dyn Snapshot, key: &[u8]| {
        wip.commit(snapshot, Reads::of(&[key]), &batch, Durability::Buffered).expect("an answer")
    };
    assert!(!commit(&*snapshot, &key), "the key was written since");
    assert_eq!(wip.get(&key).expect("a get").as_deref(), Some(&b"ingested"[..]));
    assert!(commit(&*snapshot, &key_of(6)), "another key was not");
    let snapshot = wip.clone().snapshot().expect("a snapshot");
    assert!(commit(&*snapshot, &key));
}

#[test]
fn a_repair_keeps_what_was_ingested() {
    let device = new_device();
    let (wip, mut model) = filled(&device);
    wip.delete_range(&KeyRange::ALL, Durability::Synced).expect("a delete");
    model.clear();
    let added: Model = (0..2000).map(|n| (key_of(n), vec![n as u8; 40])).collect();
    ingest(&wip, &files_of(&added)).expect("an ingest");
    wip.put(&key_of(1), b"newer", Durability::Synced).expect("a put");
    model.extend(added);
    model.insert(key_of(1), b"newer".to_vec());
    drop(wip);
    let files = device.list().expect("names");
    for damaged in ["TABLE", "MANIFEST"] {
        let copy = SimDevice::new(2, SimOptions::default());
        let victim = files.iter().rfind(|name| name.starts_with(damaged)).expect("one");
        for name in &files {
            let mut bytes = device.peek(name).expect("a file");
            if name == victim {
                let at = if damaged == "TABLE" { 100 } else { 40 };
                bytes[at] ^= 1;
            }
            let file = copy.create(name, Mode::Buffered).expect("created");
            file.write_at(0, &bytes).and_then(|()| file.sync()).expect("written");
        }
        copy.sync_dir().expect("synced");
        let done = repair(copy.clone(), &options(), &environment()).expect("a repair");
        assert!(!done.findings.is_empty(), "{damaged}");
        let wip = open(&copy);
        wip.verify().expect("every invariant");
        let mut same = 0;
        for (key, value) in &model {
            same += usize::from(wip.get(key).expect("a get").as_ref() == Some(value));
        }
        let lost = model.len() - same;
        assert!(lost < 200, "{damaged}: {lost} lost: {done:?}");
    }
}
