//! Promise 14: a store of each format version opens and holds what it held, and a file of a newer
//! version is refused by name.
//!
//! The stores lie in `tests/golden/v<version>`. A new version's store is made once:
//!
//! ```text
//! SILICA_GOLDEN=write cargo test -p silica --test golden
//! ```

use silica::{
    DEFAULT_KEYSPACE, Durability, ErrorKind, Keyspace, OpenOptions, Result, Silica, WriteBatch,
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

fn golden_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/v1")
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
    let _ = std::fs::remove_dir_all(golden_directory());
    copy(&temp.0, &golden_directory());
}

fn golden(name: &str) -> Temp {
    let temp = Temp::new(name);
    copy(&golden_directory(), &temp.0);
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

#[test]
fn a_store_of_version_1_opens_and_holds_what_it_held() {
    if std::env::var("SILICA_GOLDEN").is_ok_and(|what| what == "write") {
        write();
    }
    let temp = golden("open");
    let all = files(&temp.0);
    let has = |prefix: &str| {
        let named =
            |p: &PathBuf| p.file_name().is_some_and(|n| n.to_str().unwrap().starts_with(prefix));
        all.iter().any(named)
    };
    for kind in ["silica", "CURRENT", "MANIFEST-", "LOG-", "HASH-", "SORTED-", "VALUE-"] {
        assert!(has(kind), "the golden store has no {kind} file");
    }
    let bytes: u64 = all.iter().map(|p| p.metadata().expect("a file").len()).sum();
    assert!(bytes < 200 << 10, "{bytes} bytes of golden files");
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
    let header = |bytes: &mut [u8], sum_at: usize, id: u64| {
        assert_eq!(bytes[sum_at..sum_at + 4], placed(id, 0, &bytes[..sum_at]).to_le_bytes());
        put_u32(bytes, 8, 2);
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
        "CURRENT" => header(bytes, 32, 0),
        "MANIFEST" => header(bytes, 24, magic ^ number),
        "LOG" | "VALUE" => header(bytes, 56, store_id ^ number.rotate_left(32) ^ magic),
        "HASH" | "SORTED" => {
            let (chunk, at) = (bytes.len() / CHUNK - 1, bytes.len() - CHUNK);
            let id = store_id.rotate_left(17) ^ number;
            let footer = &mut bytes[at..];
            let sum = placed(id, chunk as u64, &footer[..CHUNK - 4]);
            assert_eq!(footer[CHUNK - 4..], sum.to_le_bytes());
            put_u32(footer, 8, 2);
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

/// Opens the store and both keyspaces.
fn open_all(path: &Path) -> Result<()> {
    let store = open(path)?;
    KEYSPACES.iter().try_for_each(|(name, _)| store.keyspace(name).map(drop))
}

#[test]
fn files_of_a_newer_version_are_refused_by_name() {
    let temp = golden("newer");
    open_all(&temp.0).expect("opens as it is");
    drop(temp);
    let names: Vec<PathBuf> = files(&golden_directory());
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        let temp = golden("newer");
        let path = temp.0.join(name.strip_prefix(golden_directory()).expect("inside"));
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

/// The versions inside files: the state in the manifest, tries and filters in their sections.
#[test]
fn sections_of_a_newer_version_are_refused_by_name() {
    for (magic, version_at, width) in [(&b"SECT"[..], 4, 1), (&b"SiCF"[..], 4, 2)] {
        let temp = golden("section");
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
    let temp = golden("state");
    let manifests =
        files(&temp.0).into_iter().filter(|p| p.to_string_lossy().contains("MANIFEST-"));
    for path in manifests {
        let mut bytes = std::fs::read(&path).expect("reads");
        // Header of 32 bytes, then the snapshot's record: header of 24 bytes, version.
        let len = u32::from_le_bytes(bytes[36..40].try_into().expect("four bytes")) as usize;
        bytes[56] = 2;
        let id = u64_at(&bytes, 0) ^ 1;
        let sum = placed(id, 32, &bytes[36..56 + len]);
        put_u32(&mut bytes, 32, sum);
        std::fs::write(&path, bytes).expect("writes");
    }
    let error = open_all(&temp.0).expect_err("a newer version");
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("newer"), "{error}");
}
