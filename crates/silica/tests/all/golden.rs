//! Promise 14: a store of each format version opens and holds what it held, and a file of a newer
//! version is refused by name.
//!
//! The stores lie in `tests/golden`: `v<version>` of the engine `silt`, `wip-v<version>`, of which
//! `wip-v1-tables-v2` has tables that say when their entries expire and `wip-v2` histories of
//! changes, and `log-v<version>` of both
//! as a process that was killed left them. A new version's store is made once:
//!
//! ```text
//! SILICA_GOLDEN=silt cargo test -p silica --test all golden::
//! SILICA_GOLDEN=wip cargo test -p silica --test all golden::
//! SILICA_GOLDEN=log cargo test -p silica --test all golden::
//! ```

use silica::{
    DEFAULT_KEYSPACE, Durability, EntryRef, ErrorKind, Keyspace, OpenOptions, Result, Silica,
    TableFiles, WriteBatch,
};
use silica_base::{Checksum, Prng, checksum};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const SEED: [u8; 16] = [42; 16];
const CHUNK: usize = 4096;

/// One keyspace with entries of many sizes, one with entries of one size: both kinds of trie.
const KEYSPACES: [(&str, u64); 2] = [(DEFAULT_KEYSPACE, 0), ("equal", 1500)];

/// Sizes at which a few kilobytes make every kind of file.
const OPTIONS: [(&str, &str); 10] = [
    ("partitions", "1"),
    ("memory_bytes", "4MiB"),
    ("log_store_blocks", "1"),
    ("log_store_block_buckets_log2", "3"),
    ("segment_bytes", "8KiB"),
    ("log_bytes_max", "16KiB"),
    ("inline_value_bytes_max", "1600"),
    ("value_log_segment_bytes", "8KiB"),
    ("sorted_filter_bits", "6"),
    // After the first merge hash stores stay.
    ("merge_ratio_percent", "10000"),
];

/// The stores of version 1 of either engine.
const SILT: &str = "v1";
const WIP: &str = "wip-v1";
/// A store of version 1 whose tables are of version 2.
const WIP_TABLES_2: &str = "wip-v1-tables-v2";
/// A store of version 2, which remembers the histories of its changes.
const WIP_2: &str = "wip-v2";

fn golden_directory(store: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(store)
}

/// True where the stores of an engine are to be made anew.
fn is_to_be_written(engine: &str) -> bool {
    std::env::var("SILICA_GOLDEN").is_ok_and(|what| what == engine)
}

/// A directory that goes when the test ends.
struct Temp(PathBuf);

impl Temp {
    fn new(name: &str) -> Self {
        let name = format!("silica-golden-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        Temp(path)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn open(path: &Path) -> Result<Silica> {
    let mut options = OpenOptions::new().engine("silt").create(false).background_threads(0);
    for (name, value) in OPTIONS {
        options = options.set(name, value);
    }
    options.open(path)
}

/// What the store of version 1 holds: written, overwritten, deleted.
fn contents(equal_bytes: u64) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut prng = Prng::new(equal_bytes + 1);
    let mut writes = Vec::new();
    for n in 0..if equal_bytes == 0 { 140 } else { 60 } {
        let key = format!("key-{:02}", n % 90).into_bytes();
        let len = match equal_bytes {
            0 if n % 30 == 3 => 3000,
            0 => prng.below(400),
            equal => equal,
        };
        let mut value = vec![0; len as usize];
        prng.fill(&mut value);
        writes.push((key, (n % 11 != 5).then_some(value)));
    }
    writes
}

fn expected(equal_bytes: u64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut entries = BTreeMap::new();
    for (key, value) in contents(equal_bytes) {
        match value {
            Some(value) => entries.insert(key, value),
            None => entries.remove(&key),
        };
    }
    entries
}

/// Copies every file of one directory tree to another, but not the lock.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("creates a directory");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else if !path.ends_with("LOCK") {
            std::fs::copy(&path, &target).expect("copies");
        }
    }
}

/// Makes the store of the present version.
fn write() {
    let temp = Temp::new("write");
    let options = OpenOptions::new().engine("silt").seed(SEED).background_threads(0);
    let store = options.open(&temp.0).expect("creates");
    for (name, equal_bytes) in KEYSPACES {
        let keyspace = store.create_keyspace(name, "silt", &OPTIONS).expect("creates");
        for (n, (key, value)) in contents(equal_bytes).iter().enumerate() {
            let mut batch = WriteBatch::new();
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            };
            keyspace.write_with(&batch, Durability::Synced).expect("writes");
            // The last ones stay in the log, some before them in hash stores.
            if n == 50 || n == 110 {
                keyspace.settle().expect("settles");
            }
        }
    }
    store.close().expect("closes");
    keep(&temp, SILT);
}

fn keep(temp: &Temp, store: &str) {
    let _ = std::fs::remove_dir_all(golden_directory(store));
    copy(&temp.0, &golden_directory(store));
    // What was asked of the store is no part of it, nor is what only a repair reads.
    let is_beside = |path: &PathBuf| {
        let path = path.to_string_lossy();
        path.contains("sketch-") || path.ends_with("silica.copy")
    };
    let beside = files(&golden_directory(store)).into_iter().filter(is_beside);
    beside.for_each(|path| std::fs::remove_file(path).expect("removes"));
}

fn golden(store: &str, name: &str) -> Temp {
    let temp = Temp::new(&format!("{store}-{name}"));
    copy(&golden_directory(store), &temp.0);
    temp
}

/// All files of the store, by path.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn entries(keyspace: &Keyspace) -> BTreeMap<Vec<u8>, Vec<u8>> {
    keyspace.iter().map(|entry| entry.expect("reads")).collect()
}

/// There are files of these kinds and of those that every store has, and they are small.
fn check_files(temp: &Temp, kinds: &[&str]) {
    let all = files(&temp.0);
    let has = |prefix: &str| {
        let named =
            |p: &PathBuf| p.file_name().is_some_and(|n| n.to_str().unwrap().starts_with(prefix));
        all.iter().any(named)
    };
    for kind in ["silica", "CURRENT", "MANIFEST-", "LOG-"].iter().chain(kinds) {
        assert!(has(kind), "the golden store has no {kind} file");
    }
    let bytes: u64 = all.iter().map(|p| p.metadata().expect("a file").len()).sum();
    assert!(bytes < 300 << 10, "{bytes} bytes of golden files");
}

#[test]
fn a_store_of_version_1_opens_and_holds_what_it_held() {
    if is_to_be_written("silt") {
        write();
    }
    let temp = golden(SILT, "open");
    check_files(&temp, &["HASH-", "SORTED-", "VALUE-"]);
    // Read as it is, then after everything was rewritten by this version.
    for round in 0..3 {
        let store = open(&temp.0).expect("opens");
        for (name, equal_bytes) in KEYSPACES {
            let keyspace = store.existing(name).expect("opens").expect("is there");
            let expected = expected(equal_bytes);
            keyspace.verify().expect("verifies");
            for n in 0..95 {
                let key = format!("key-{n:02}").into_bytes();
                assert_eq!(keyspace.get(&key).expect("gets").as_ref(), expected.get(&key));
            }
            assert_eq!(entries(&keyspace), expected, "round {round}");
            let [key, value] = [b"key-00".to_vec(), expected[&b"key-00".to_vec()].clone()];
            keyspace.put(&key, &value).expect("writes");
            keyspace.settle().expect("settles");
        }
        store.close().expect("closes");
    }
}

fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn placed(id: u64, at: u64, bytes: &[u8]) -> u32 {
    Checksum::at(id, at).update(bytes).finish()
}

/// Finds the id that the checksum at `sum_at` of bytes before it is bound to, among those that
/// the store id gives.
fn raise(name: &str, bytes: &mut [u8], store_id: u64) {
    let number: u64 = name.rsplit('-').next().and_then(|n| n.parse().ok()).unwrap_or(0);
    let magic = u64_at(bytes, 0);
    let header = |bytes: &mut [u8], sum_at: usize, id: u64, version: u32| {
        assert_eq!(bytes[sum_at..sum_at + 4], placed(id, 0, &bytes[..sum_at]).to_le_bytes());
        put_u32(bytes, 8, version);
        let sum = placed(id, 0, &bytes[..sum_at]);
        put_u32(bytes, sum_at, sum);
    };
    match name.split('-').next().expect("a name") {
        "silica" => {
            put_u32(bytes, 8, 2);
            let at = bytes.len() - 4;
            let sum = checksum(&bytes[..at]);
            put_u32(bytes, at, sum);
        }
        "CURRENT" => header(bytes, 32, 0, 2),
        "MANIFEST" => header(bytes, 24, magic ^ number, 2),
        "LOG" | "VALUE" => {
            // Logs are at version 2.
            let newer = if name.starts_with("LOG") { 3 } else { 2 };
            header(bytes, 56, store_id ^ number.rotate_left(32) ^ magic, newer);
        }
        "TABLE" => {
            let at = bytes.len() - CHUNK;
            let id = store_id.rotate_left(23) ^ number;
            let footer = &mut bytes[at..];
            let sum = placed(id, at as u64, &footer[..CHUNK - 4]);
            assert_eq!(footer[CHUNK - 4..], sum.to_le_bytes());
            // Tables are at version 2.
            put_u32(footer, 8, 3);
            let sum = placed(id, at as u64, &footer[..CHUNK - 4]);
            put_u32(footer, CHUNK - 4, sum);
        }
        "HASH" | "SORTED" => {
            let (chunk, at) = (bytes.len() / CHUNK - 1, bytes.len() - CHUNK);
            let id = store_id.rotate_left(17) ^ number;
            let footer = &mut bytes[at..];
            let sum = placed(id, chunk as u64, &footer[..CHUNK - 4]);
            assert_eq!(footer[CHUNK - 4..], sum.to_le_bytes());
            // Packed files are at version 2.
            put_u32(footer, 8, 3);
            let sum = placed(id, chunk as u64, &footer[..CHUNK - 4]);
            put_u32(footer, CHUNK - 4, sum);
        }
        other => panic!("a file of an unknown kind: {other}"),
    }
}

/// The store id stands in the snapshot, the first record of the manifest, behind its version.
fn store_id(directory: &Path) -> u64 {
    let manifest = files(directory).into_iter().find(|p| p.to_string_lossy().contains("MANIFEST-"));
    let bytes = std::fs::read(manifest.expect("a manifest")).expect("reads");
    u64_at(&bytes, 32 + 24 + 1)
}

/// Opens the store and all keyspaces.
fn open_all(path: &Path) -> Result<()> {
    let store = open(path)?;
    store.keyspaces()?.iter().try_for_each(|info| store.keyspace(&info.name).map(drop))
}

#[test]
fn files_of_a_newer_version_are_refused_by_name() {
    for which in [SILT, WIP, WIP_TABLES_2, WIP_2] {
        let temp = golden(which, "newer");
        open_all(&temp.0).expect("opens as it is");
        drop(temp);
        let names: Vec<PathBuf> = files(&golden_directory(which));
        assert!(names.len() > 10, "{names:?}");
        for name in names {
            let temp = golden(which, "newer");
            let path = temp.0.join(name.strip_prefix(golden_directory(which)).expect("inside"));
            let file = path.file_name().expect("a name").to_string_lossy().into_owned();
            let mut bytes = std::fs::read(&path).expect("reads");
            let id = if file == "silica" { 0 } else { store_id(path.parent().expect("one")) };
            raise(&file, &mut bytes, id);
            std::fs::write(&path, bytes).expect("writes");
            let error = open_all(&temp.0).expect_err("a newer version");
            let text = error.to_string();
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{file}: {text}");
            assert!(text.contains("newer") && text.contains(&file), "{file}: {text}");
        }
    }
}

/// The versions inside files: the state in the manifest, tries and filters in their sections.
#[test]
fn sections_of_a_newer_version_are_refused_by_name() {
    for (magic, version_at, width) in [(&b"SECT"[..], 4, 1), (&b"SiCF"[..], 4, 2)] {
        let temp = golden(SILT, "section");
        let mut raised = Vec::new();
        for path in files(&temp.0) {
            let file = path.file_name().expect("a name").to_string_lossy().into_owned();
            if !file.starts_with("HASH-") && !file.starts_with("SORTED-") {
                continue;
            }
            let number: u64 = file.rsplit('-').next().expect("one").parse().expect("a number");
            let id = store_id(path.parent().expect("one")).rotate_left(17) ^ number;
            let mut bytes = std::fs::read(&path).expect("reads");
            for (n, chunk) in bytes.chunks_exact_mut(CHUNK).enumerate() {
                if chunk.starts_with(magic) {
                    chunk[version_at..version_at + width].fill(0);
                    chunk[version_at] = 2;
                    let sum = placed(id, n as u64, &chunk[..CHUNK - 4]);
                    put_u32(chunk, CHUNK - 4, sum);
                    raised.push(chunk[5]);
                }
            }
            std::fs::write(&path, bytes).expect("writes");
        }
        // Of tries both kinds: dense is 1, sparse is 2.
        let both = magic != b"SECT" || raised.contains(&1) && raised.contains(&2);
        assert!(!raised.is_empty() && both, "sections with {magic:?}: {raised:?}");
        let store = open(&temp.0).expect("opens: indexes are read later");
        let refused = KEYSPACES
            .iter()
            .filter_map(|(name, _)| store.keyspace(name).expect("opens").verify().err());
        let refused: Vec<_> = refused.collect();
        assert!(!refused.is_empty());
        for error in refused {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            assert!(error.to_string().contains("newer"), "{error}");
        }
    }
}

#[test]
fn a_state_of_a_newer_version_is_refused_by_name() {
    state_of_a_newer_version(SILT, 2);
    state_of_a_newer_version(WIP, 3);
    state_of_a_newer_version(WIP_2, 3);
}

fn state_of_a_newer_version(which: &str, newer: u8) {
    let temp = golden(which, "state");
    let manifests =
        files(&temp.0).into_iter().filter(|p| p.to_string_lossy().contains("MANIFEST-"));
    for path in manifests {
        let mut bytes = std::fs::read(&path).expect("reads");
        // Header of 32 bytes, then the snapshot's record: header of 24 bytes, version.
        let len = u32::from_le_bytes(bytes[36..40].try_into().expect("four bytes")) as usize;
        bytes[56] = newer;
        let number = path.to_string_lossy().rsplit('-').next().and_then(|n| n.parse::<u64>().ok());
        let id = u64_at(&bytes, 0) ^ number.expect("a number");
        let sum = placed(id, 32, &bytes[36..56 + len]);
        put_u32(&mut bytes, 32, sum);
        std::fs::write(&path, bytes).expect("writes");
    }
    let error = open_all(&temp.0).expect_err("a newer version");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("newer"), "{error}");
}

/// The keyspaces of the engine `wip`: one for each kind of compression, and one of several first
/// buckets whose larger values are apart.
const WIP_KEYSPACES: [(&str, Given); 4] = [
    (DEFAULT_KEYSPACE, &[("memtable_bytes_max", "16KiB"), ("bucket_bytes_max", "8KiB")]),
    ("lz4", &[("compression", "lz4"), ("memtable_bytes_max", "64KiB")]),
    ("zstd", &[("compression", "zstd"), ("memtable_bytes_max", "512KiB")]),
    (
        "many",
        &[
            ("memtable_bytes_max", "16KiB"),
            ("first_buckets", "3"),
            ("inline_value_bytes_max", "30"),
            ("value_log_segment_bytes", "8KiB"),
        ],
    ),
];

/// The keyspaces of a golden store: compression has nothing to do with the versions of tables.
fn wip_keyspaces(which: &str) -> impl Iterator<Item = (&'static str, Given)> {
    let has_all = which == WIP;
    let is_there = move |name: &str| has_all || !["lz4", "zstd"].contains(&name);
    WIP_KEYSPACES.into_iter().filter(move |(name, _)| is_there(name))
}

/// Sizes at which a few kilobytes make every kind of file.
const WIP_OPTIONS: [(&str, &str); 5] = [
    ("memory_bytes", "4MiB"),
    ("segment_bytes", "8KiB"),
    ("log_bytes_max", "32KiB"),
    ("split_buckets", "2"),
    ("runs_max", "4"),
];

/// The year 2100, and 2001.
const LATER_MS: u64 = 4_102_444_800_000;
const EARLIER_MS: u64 = 1_000_000_000_000;

/// A value and its meta.
type Held = (Vec<u8>, u64, u32);

fn put_held(keyspace: &Keyspace, key: &[u8], held: &Held) {
    let mut batch = WriteBatch::new();
    let (value, expires_unix_ms, user_bits) = (&held.0[..], held.1, held.2);
    batch.put_entry(key, EntryRef { value, expires_unix_ms, user_bits });
    keyspace.write_with(&batch, Durability::Synced).expect("writes");
}

/// The steps that made a keyspace: without one, only what they come to.
fn wip_steps(name: &str, keyspace: Option<&Keyspace>, files: &Path) -> BTreeMap<Vec<u8>, Held> {
    let (mut held, mut prng) = (BTreeMap::new(), Prng::new(name.len() as u64));
    // Compressible; of the dictionary's keyspace enough for one.
    let repeats = if name == "zstd" { 30 } else { 4 };
    for n in 0..700u64 {
        let mut key = format!("key-{:03}", n * 37 % 250).into_bytes();
        if name == "many" {
            // All over the keys that the first buckets share by their first eight bytes.
            key.insert(0, (n * 37 % 250) as u8);
        }
        let value = format!("value {n} {} ", prng.below(1000)).repeat(prng.below(repeats) as usize);
        let (expires, bits) = match n % 11 {
            3 => (LATER_MS + n, 0),
            4 => (EARLIER_MS, 0),
            5 => (LATER_MS, u32::MAX - n as u32),
            6 => (0, n as u32),
            _ => (0, 0),
        };
        let entry = (value.into_bytes(), expires, bits);
        if n % 13 == 5 {
            held.remove(&key);
            keyspace.iter().for_each(|keyspace| keyspace.delete(&key).expect("deletes"));
        } else {
            keyspace.iter().for_each(|keyspace| put_held(keyspace, &key, &entry));
            held.insert(key, entry);
        }
        if [200, 400, 600, 650].contains(&n) {
            keyspace.iter().for_each(|keyspace| keyspace.settle().expect("settles"));
        }
        // One of them in tables, the other in the log.
        for (at, from, to) in [(330, "key-040", "key-060"), (690, "key-100", "key-105")] {
            if n == at {
                held.retain(|key, _| key[..] < *from.as_bytes() || key[..] >= *to.as_bytes());
                keyspace.iter().for_each(|k| k.delete_range(from..to).expect("deletes"));
            }
        }
        if n == 640 {
            let ingested: Vec<_> = (0..30).map(|n| format!("key-{:03}", 7 * n)).collect();
            let value = |key: &String| format!("ingested {key}").into_bytes();
            if let Some(keyspace) = keyspace {
                let mut table = TableFiles::create(files).expect("creates");
                ingested.iter().for_each(|key| table.put(key, value(key)).expect("puts"));
                keyspace.ingest(&table.finish().expect("makes a file")).expect("ingests");
            }
            held.extend(ingested.iter().map(|key| (key.clone().into_bytes(), (value(key), 0, 0))));
        }
    }
    held.retain(|_, (_, expires, _)| *expires != EARLIER_MS);
    held
}

fn open_wip(path: &Path) -> Silica {
    OpenOptions::new().create(false).background_threads(0).open(path).expect("opens")
}

fn write_wip() {
    let temp = Temp::new("write-wip");
    let table = Temp::new("write-wip-table");
    let options = OpenOptions::new().engine("wip").seed(SEED).background_threads(0);
    let store = options.open(&temp.0).expect("creates");
    for (name, own) in wip_keyspaces(WIP_2) {
        let changes = [("changes_bytes_max", "64KiB")];
        let options: Vec<_> = WIP_OPTIONS.iter().chain(own).chain(&changes).copied().collect();
        let keyspace = store.create_keyspace(name, "wip", &options).expect("creates");
        wip_steps(name, Some(&keyspace), &table.0);
    }
    store.close().expect("closes");
    let _ = std::fs::remove_file(&table.0);
    keep(&temp, WIP_2);
}

/// All entries with what belongs to them.
fn all_held(keyspace: &Keyspace) -> BTreeMap<Vec<u8>, Held> {
    let mut found = BTreeMap::new();
    let mut entries = keyspace.iterator(..).expect("an iterator");
    entries.seek_to_first().expect("reads");
    while let (Some(key), Some(entry)) = (entries.key(), entries.entry()) {
        let held = (entry.value.to_vec(), entry.expires_unix_ms, entry.user_bits);
        found.insert(key.to_vec(), held);
        entries.next().expect("reads");
    }
    found
}

#[test]
fn an_ordered_store_of_version_1_opens_and_holds_what_it_held() {
    if is_to_be_written("wip") {
        write_wip();
    }
    holds_what_it_held(WIP, 1);
    holds_what_it_held(WIP_TABLES_2, 2);
    holds_what_it_held(WIP_2, 2);
}

/// The version in the footer of every table file of a store.
fn table_versions(root: &Path) -> Vec<u8> {
    let is_table = |path: &PathBuf| path.to_string_lossy().contains("TABLE-");
    let version = |path: PathBuf| {
        let bytes = std::fs::read(path).expect("reads");
        bytes[bytes.len() - CHUNK + 8]
    };
    files(root).into_iter().filter(is_table).map(version).collect()
}

fn holds_what_it_held(which: &str, tables: u8) {
    let temp = golden(which, "open");
    let versions = table_versions(&temp.0);
    assert!(versions.iter().all(|version| *version == tables), "{which}: {versions:?}");
    check_files(&temp, &["TABLE-", "VALUE-"]);
    // Read as it is, then after more was written, and after all was rewritten by this version.
    for round in 0..3 {
        let store = open_wip(&temp.0);
        for (name, _) in wip_keyspaces(which) {
            let keyspace = store.existing(name).expect("opens").expect("is there");
            let expected = wip_steps(name, None, Path::new(""));
            keyspace.verify().expect("verifies");
            let found = all_held(&keyspace);
            let keys = found.keys().chain(expected.keys());
            let differ: Vec<_> = keys.filter(|key| found.get(*key) != expected.get(*key)).collect();
            if let Some(key) = differ.first() {
                let (key, some) = (key.escape_ascii(), (found.get(*key), expected.get(*key)));
                panic!("{name}, round {round}: {} keys differ, {key}: {some:?}", differ.len());
            }
            for (key, (value, ..)) in &expected {
                assert_eq!(keyspace.get(key).expect("gets").as_ref(), Some(value), "{name}");
            }
            let buckets = keyspace.get_property("buckets").expect("told").expect("there is one");
            let least = if name == DEFAULT_KEYSPACE { 2.0 } else { 1.0 };
            assert!(buckets.parse::<f64>().expect("a number") >= least, "{name}: {buckets}");
            if round == 1 {
                keyspace.compact_range(..).expect("compacts");
            }
            let (key, held) = expected.first_key_value().expect("entries");
            put_held(&keyspace, key, held);
        }
        store.close().expect("closes");
    }
}

/// A store as the end of a process left it, whose logs are of format 2: segments that were made
/// ahead, in files of earlier ones.
const LOG_2: &str = "log-v2";

/// Options by name.
type Given = &'static [(&'static str, &'static str)];

/// A keyspace of each engine that has a log.
const LOG_KEYSPACES: [(&str, &str, Given); 2] = [
    ("ordered", "wip", &[("memtable_bytes_max", "64KiB")]),
    (
        "hashed",
        "silt",
        &[("partitions", "1"), ("log_store_blocks", "1"), ("log_store_block_buckets_log2", "3")],
    ),
];
const LOG_OPTIONS: [(&str, &str); 3] =
    [("memory_bytes", "4MiB"), ("segment_bytes", "8KiB"), ("log_bytes_max", "32KiB")];

/// Where a keyspace says how many steps made it.
const STEPS: &[u8] = b"steps";

/// The steps that made a keyspace, one after the other: without it, only what they come to.
struct LogSteps {
    held: BTreeMap<Vec<u8>, Vec<u8>>,
    prng: Prng,
    count: u64,
}

impl LogSteps {
    fn new() -> Self {
        LogSteps { held: BTreeMap::new(), prng: Prng::new(3), count: 0 }
    }

    fn next(&mut self, keyspace: Option<&Keyspace>) {
        let key = format!("key-{:02}", self.prng.below(80)).into_bytes();
        let mut value = vec![0; self.prng.below(150) as usize];
        self.prng.fill(&mut value);
        self.count += 1;
        if self.count % 9 == 4 {
            keyspace.iter().for_each(|keyspace| keyspace.delete(&key).expect("deletes"));
            self.held.remove(&key);
            return;
        }
        if let Some(keyspace) = keyspace {
            keyspace.put(&key, &value).expect("puts");
            if self.count.is_multiple_of(8) {
                keyspace.settle().expect("settles");
            }
        }
        self.held.insert(key, value);
    }
}

fn write_log() {
    let temp = Temp::new("write-log");
    let options = OpenOptions::new().engine("wip").seed(SEED).background_threads(0);
    let store = options.open(&temp.0).expect("creates");
    let mut keyspaces = Vec::new();
    for (index, (name, engine, own)) in LOG_KEYSPACES.iter().enumerate() {
        let options: Vec<_> = LOG_OPTIONS.iter().chain(*own).copied().collect();
        let keyspace = store.create_keyspace(name, engine, &options).expect("creates");
        let directory = temp.0.join(format!("keyspace-{index}"));
        let mut steps = LogSteps::new();
        while steps.count < 600 || steps.count % 8 != 2 || !is_telling(&segments(&directory)) {
            assert!(steps.count < 6000, "{name}: {:?}", segments(&directory));
            steps.next(Some(&keyspace));
        }
        keyspace.put(STEPS, steps.count.to_le_bytes()).expect("puts");
        keyspaces.push(keyspace);
    }
    // Not closed: as it is now.
    keep(&temp, LOG_2);
}

/// Of a segment of the log: its format, its records, and whether zeroes follow.
fn segment(path: &Path, store_id: u64) -> (u8, usize, bool) {
    let bytes = std::fs::read(path).expect("reads");
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    let number: u64 = name.rsplit('-').next().and_then(|n| n.parse().ok()).expect("a number");
    let id = store_id ^ number.rotate_left(32) ^ u64_at(&bytes, 0);
    let (mut at, mut records) = (64, 0);
    while at + 24 < bytes.len() {
        let len = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().expect("four bytes"));
        let Some(covered) = bytes.get(at + 4..at + 24 + len as usize) else { break };
        if bytes[at..at + 4] != placed(id, at as u64, covered).to_le_bytes() {
            break;
        }
        at = (at + 24 + len as usize).next_multiple_of(8);
        records += 1;
    }
    (bytes[8], records, bytes[at..].iter().all(|byte| *byte == 0))
}

/// Version, records and whether zeroes follow, of all segments of a directory.
fn segments(directory: &Path) -> Vec<(u8, usize, bool)> {
    let is_log = |path: &PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy();
        name.starts_with("LOG-") && !name.contains("spare")
    };
    let logs = files(directory).into_iter().filter(is_log);
    logs.map(|path| segment(&path, store_id(directory))).collect()
}

/// True where the log goes on through segments that were made ahead, and old records lie behind
/// the new ones.
fn is_telling(segments: &[(u8, usize, bool)]) -> bool {
    let goes_on = |(version, records, _): &&(u8, usize, bool)| *version == 2 && *records > 0;
    let continues = || segments.iter().filter(goes_on);
    continues().count() >= 2 && continues().any(|(.., ends)| !ends)
}

#[test]
fn logs_of_format_2_with_recycled_segments_are_read() {
    if is_to_be_written("log") {
        write_log();
    }
    let temp = golden(LOG_2, "open");
    check_files(&temp, &[]);
    for index in 0..LOG_KEYSPACES.len() {
        let found = segments(&temp.0.join(format!("keyspace-{index}")));
        assert!(is_telling(&found), "{found:?}");
    }
    // Read as it was left, then after more was written and both were closed.
    for round in 0..3 {
        let store = open_wip(&temp.0);
        for (name, ..) in LOG_KEYSPACES {
            let keyspace = store.existing(name).expect("opens").expect("is there");
            keyspace.verify().expect("verifies");
            let count = keyspace.get(STEPS).expect("gets").expect("is there");
            let count = u64_at(&count, 0);
            let mut steps = LogSteps::new();
            (0..count).for_each(|_| steps.next(None));
            let mut found = entries(&keyspace);
            found.remove(STEPS);
            assert!(count >= 600 && found == steps.held, "{name}, round {round}: {}", found.len());
            let (key, value) = steps.held.first_key_value().expect("entries");
            keyspace.put(key, value).expect("writes");
            keyspace.settle().expect("settles");
        }
        store.close().expect("closes");
        assert!(files(&temp.0).iter().all(|path| !path.to_string_lossy().contains("spare")));
    }
}
