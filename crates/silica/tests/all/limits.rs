//! Entries as large as any engine takes them, on a real directory, and what is refused beyond that.
//!
//! Each engine has a process of its own, so that the largest resident size the kernel ever saw
//! (`VmHWM`) is that of this load: a value is not copied as a whole on its way in, and once on
//! its way out, from the engine's buffer to the caller's.

use silica::{Durability, ErrorKind, Keyspace, OpenOptions, Silica};
use silica_base::{Prng, in_own_process, test_size};
use std::path::{Path, PathBuf};

const KEY_BYTES_MAX: usize = 64 << 10;
const VALUE_BYTES_MAX: usize = 512 << 20;
const MEMORY_BYTES: u64 = 32 << 20;
/// What the process holds besides the value and the store's memory: code and stacks.
const PROCESS_BYTES: u64 = 8 << 20;
const PIECE_BYTES: usize = 1 << 20;

/// A directory that goes when the test ends.
struct Temp(PathBuf);

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A number of this process's status file, in bytes.
fn status(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = text.lines().find(|line| line.starts_with(field)).expect("a field of the file");
    let kib = line.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok());
    kib.expect("a number of KiB") * 1024
}

fn open(path: &Path, engine: &str) -> (Silica, Keyspace) {
    let options = OpenOptions::new()
        .engine(engine)
        .memory_bytes(MEMORY_BYTES)
        .durability(Durability::Buffered);
    let store = options.open(path).expect("opens");
    let keyspace = store.keyspace("default").expect("opens");
    (store, keyspace)
}

/// Piece `n` of a value; no two pieces are alike.
fn piece(n: usize, bytes: &mut [u8]) {
    Prng::new(n as u64).fill(bytes);
}

fn value(len: usize) -> Vec<u8> {
    let mut value = vec![0; len];
    value.chunks_mut(PIECE_BYTES).enumerate().for_each(|(n, bytes)| piece(n, bytes));
    value
}

/// Compares with [`value`] piece by piece, so that there is no second value in memory.
fn is_value(found: &[u8], len: usize) -> bool {
    let mut expected = vec![0; PIECE_BYTES];
    found.len() == len
        && found.chunks(PIECE_BYTES).enumerate().all(|(n, bytes)| {
            let expected = &mut expected[..bytes.len()];
            piece(n, expected);
            bytes == expected
        })
}

fn refused(keyspace: &Keyspace, key: &[u8], value: &[u8], limit: usize) {
    let error = keyspace.put(key, value).expect_err("over the limit");
    assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
    assert!(error.to_string().contains(&limit.to_string()), "the limit is not named: {error}");
}

/// Entries of the largest sizes round trip, and larger ones are refused.
fn round_trip(engine: &str) {
    let name = format!("silica-limits-{}-{engine}", std::process::id());
    let temp = Temp(std::env::temp_dir().join(name));
    let (store, keyspace) = open(&temp.0, engine);
    let before = status("VmRSS:");
    let largest = test_size(64 << 20, 64 << 20, VALUE_BYTES_MAX as u64) as usize;
    let within = |values: u64| {
        let most = status("VmHWM:");
        let allowed = values * largest as u64 + MEMORY_BYTES / 10 * 11 + PROCESS_BYTES;
        let limit = before + allowed;
        println!(
            "{engine}: {values} values of {largest} bytes: {} of {} KiB",
            most >> 10,
            limit >> 10
        );
        assert!(most <= limit, "{} of {} KiB resident", most >> 10, limit >> 10);
    };

    keyspace.put(b"largest", value(largest)).expect("puts");
    within(1);
    let found = keyspace.get(b"largest").expect("gets").expect("is there");
    assert!(is_value(&found, largest), "another value while the store is open");
    drop(found);
    let long_key: Vec<u8> = value(KEY_BYTES_MAX);
    keyspace.put(&long_key, b"of the longest key").expect("puts");
    let other_key = [&long_key[..KEY_BYTES_MAX - 1], b"\n"].concat();
    keyspace.put(&other_key, b"").expect("puts");
    keyspace.put(b"", b"of the empty key").expect("puts");

    // Zeroes that nobody touched are not resident.
    refused(&keyspace, b"largest", &vec![0; VALUE_BYTES_MAX + 1], VALUE_BYTES_MAX);
    refused(&keyspace, &vec![0; KEY_BYTES_MAX + 1], b"", KEY_BYTES_MAX);
    assert_eq!(keyspace.get(vec![0; KEY_BYTES_MAX + 1]).ok().flatten(), None);

    drop(keyspace);
    store.close().expect("closes");
    let (store, keyspace) = open(&temp.0, engine);
    let found = keyspace.get(b"largest").expect("gets").expect("is there");
    assert!(is_value(&found, largest), "another value after the store was opened again");
    drop(found);
    let get = |key: &[u8]| keyspace.get(key).expect("gets");
    assert_eq!(get(&long_key), Some(b"of the longest key".to_vec()));
    assert_eq!(get(&other_key), Some(Vec::new()));
    assert_eq!(get(b""), Some(b"of the empty key".to_vec()));
    assert_eq!(get(&long_key[1..]), None);
    drop(keyspace);
    store.verify().expect("verifies");
    store.close().expect("closes");
    within(2);
}

#[test]
fn of_hashed_keys() {
    in_own_process("limits::of_hashed_keys", || round_trip("silt"));
}

#[test]
fn of_ordered_keys() {
    in_own_process("limits::of_ordered_keys", || round_trip("wip"));
}

/// A commit takes no more than the store's memory, however large it is: what it writes is in the
/// memory of the program already.
#[test]
fn of_a_commit() {
    in_own_process("limits::of_a_commit", || {
        let temp = Temp(std::env::temp_dir().join(format!("silica-commit-{}", std::process::id())));
        let options = OpenOptions::new()
            .engine("wip")
            .memory_bytes(MEMORY_BYTES)
            .set("inline_value_bytes_max", "4KiB")
            .durability(Durability::Buffered);
        let store = options.open(&temp.0).expect("opens");
        let keyspace = store.keyspace("default").expect("opens");
        let (entries, value) = (50_000u64, value(4096));
        let mut transaction = keyspace.transaction().expect("begins");
        for n in 0..entries {
            transaction.put(n.to_be_bytes(), &value);
        }
        let before = status("VmRSS:");
        transaction.commit().expect("commits");
        let taken = status("VmHWM:") - before;
        // Of each entry its operation, its condition and its place in the order.
        let limit = MEMORY_BYTES / 10 * 11 + PROCESS_BYTES + entries * 200;
        println!("a commit of {} MiB took {} KiB", (entries * 4096) >> 20, taken >> 10);
        assert!(taken <= limit, "{} of {} KiB", taken >> 10, limit >> 10);
        assert_eq!(keyspace.range(..).expect("a range").count() as u64, entries);
        let mut batch = silica::WriteBatch::new();
        for _ in 0..entries {
            batch.put(b"key", &value);
        }
        let error = keyspace.write(&batch).expect_err("over the limit");
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
        assert!(error.to_string().contains("commit a transaction"), "{error}");
        drop(keyspace);
        store.verify().expect("verifies");
    });
}
