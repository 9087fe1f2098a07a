//! A full disk, a real one of 64 MiB: most of it is for entries, and deletes make room.

use crate::small_disk::on_a_disk_of_64_mib;
use silica::{Durability, ErrorKind, Keyspace, OpenOptions, Silica};
use silica_base::test_size;
use silica_engine::Budget;
use std::path::Path;
use std::time::{Duration, Instant};

const MIB: u64 = 1 << 20;
/// What a disk of 64 MB holds of keys and values at least before puts are refused.
const FILLED_BYTES_MIN: u64 = 64_000_000 / 100 * 60;

/// Puts go on so soon after deletes.
const SOON: Duration = Duration::from_secs(10);

fn open(path: &Path, engine: &str) -> (Silica, Keyspace) {
    let options = OpenOptions::new().memory_bytes(64 * MIB).engine(engine);
    let options = options.durability(Durability::Buffered);
    let store = options.open(path).unwrap();
    let keyspace = store.keyspace("default").unwrap();
    (store, keyspace)
}

fn key(n: u64) -> String {
    format!("key-{n:08}")
}

/// Bytes that do not compress and differ from key to key.
fn value(n: u64, bytes: usize) -> Vec<u8> {
    let mut state = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    std::iter::repeat_with(|| next().to_le_bytes()).flatten().take(bytes).collect()
}

/// False where the disk is full.
fn put(keyspace: &Keyspace, n: u64, bytes: usize) -> bool {
    match keyspace.put(key(n), value(n, bytes)) {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::Full => false,
        Err(error) => panic!("{error}"),
    }
}

/// Puts keys from `from` on until the disk is full, stays so for a second, and no work is left that
/// could free any; their end.
fn fill(keyspace: &Keyspace, from: u64, bytes: usize) -> u64 {
    let (mut next, mut refused_at) = (from, Instant::now());
    let mut rounds = 0;
    loop {
        if put(keyspace, next, bytes) {
            (next, refused_at, rounds) = (next + 1, Instant::now(), 0);
        } else if refused_at.elapsed() < Duration::from_secs(1) {
            std::thread::sleep(Duration::from_millis(20));
        } else if rounds == 2 {
            return next;
        } else {
            // A busy machine may not have come to it in a second; and what is left may be in the
            // hands of another thread.
            while keyspace.engine().maintain(Budget::of(64 << 20)).is_ok_and(|done| done.more) {}
            rounds += 1;
            refused_at = Instant::now();
        }
    }
}

/// Waits until a put is accepted.
fn wait_for_room(keyspace: &Keyspace, n: u64, bytes: usize, what: &str) {
    let begun = Instant::now();
    while !put(keyspace, n, bytes) {
        assert!(begun.elapsed() < SOON, "puts are refused {SOON:?} after {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("{what}: a put is accepted after {:?}", begun.elapsed());
}

fn check(keyspace: &Keyspace, keys: impl Iterator<Item = u64>, bytes: usize) {
    for n in keys {
        assert!(keyspace.get(key(n)).unwrap() == Some(value(n, bytes)), "key {n}");
    }
}

/// Fills the disk, deletes all, and fills it again, with values of `bytes`.
fn deletes_make_room(disk: &Path, engine: &str, bytes: usize) {
    let path = disk.join("store");
    let (store, keyspace) = open(&path, engine);
    let end = fill(&keyspace, 0, bytes);
    let filled = end * (bytes + key(0).len()) as u64;
    println!("{engine}, values of {bytes}: {filled} bytes in {end} entries");
    assert!(filled >= FILLED_BYTES_MIN, "{engine}, values of {bytes}: only {filled} bytes fit");
    check(&keyspace, (0..end).step_by(97), bytes);
    // One in ten is enough for some.
    for n in (0..end).step_by(10) {
        keyspace.delete(key(n)).expect("a delete is accepted on a full disk");
    }
    wait_for_room(&keyspace, end, bytes, "deletes of a tenth");
    check(&keyspace, (0..end).filter(|n| n % 10 != 0).step_by(97), bytes);
    for n in 0..=end {
        keyspace.delete(key(n)).expect("a delete is accepted on a full disk");
    }
    wait_for_room(&keyspace, 0, bytes, "deletes of all");
    let again = fill(&keyspace, 1, bytes);
    println!("{engine}, values of {bytes}: {again} entries the second time");
    assert!(again * 10 >= end * 9, "{engine}: {again} entries fit after {end} were deleted");
    // And after a restart.
    (0..again).for_each(|n| keyspace.delete(key(n)).expect("a delete is accepted"));
    drop(keyspace);
    store.close().unwrap();
    let (store, keyspace) = open(&path, engine);
    wait_for_room(&keyspace, 0, bytes, "deletes of all and a restart");
    drop(keyspace);
    store.close().unwrap();
    std::fs::remove_dir_all(path).unwrap();
}

/// Fills the disk and deletes all, again and again: a client that stops at its first refusal gets
/// as much in as before, since a put waits while what was deleted becomes free.
fn a_refusal_means_full(disk: &Path, engine: &str) {
    let (path, bytes) = (disk.join("store"), 20_000);
    let (store, keyspace) = open(&path, engine);
    let first = fill(&keyspace, 0, bytes);
    for round in 0..test_size(1, 2, 20) {
        match round % 2 == 0 && engine == "wip" {
            true => keyspace.delete_range("key-".."key.").expect("a delete is accepted"),
            false => (0..=first).for_each(|n| keyspace.delete(key(n)).expect("it is accepted")),
        }
        // A snapshot that sees nothing of it keeps nothing.
        let _snapshot = keyspace.snapshot().ok();
        let taken = (0..first).take_while(|n| put(&keyspace, *n, bytes)).count() as u64;
        println!("{engine}, round {round}: {taken} of {first}");
        assert!(taken * 4 >= first * 3, "{engine}: refused after {taken}, {first} fitted before");
    }
    drop(keyspace);
    store.close().unwrap();
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn wip_refuses_only_where_nothing_becomes_free() {
    on_a_disk_of_64_mib("full_disk::wip_refuses_only_where_nothing_becomes_free", |disk| {
        a_refusal_means_full(disk, "wip");
    });
}

#[test]
fn silt_refuses_only_where_nothing_becomes_free() {
    on_a_disk_of_64_mib("full_disk::silt_refuses_only_where_nothing_becomes_free", |disk| {
        a_refusal_means_full(disk, "silt");
    });
}

/// Sizes of values: fewer where tests are to be quick.
fn sizes() -> impl Iterator<Item = usize> {
    [20_000, 1_000_000, 300].into_iter().take(test_size(1, 2, 3) as usize)
}

#[test]
fn wip_deletes_make_room() {
    on_a_disk_of_64_mib("full_disk::wip_deletes_make_room", |disk| {
        for bytes in sizes() {
            deletes_make_room(disk, "wip", bytes);
        }
    });
}

#[test]
fn silt_deletes_make_room() {
    on_a_disk_of_64_mib("full_disk::silt_deletes_make_room", |disk| {
        for bytes in sizes() {
            deletes_make_room(disk, "silt", bytes);
        }
    });
}

/// Overwrites everything on a full disk with what takes no more, and then has room again.
fn overwrites_are_accepted(disk: &Path, engine: &str) {
    let (path, bytes) = (disk.join("store"), 20_000);
    let (store, keyspace) = open(&path, engine);
    let end = fill(&keyspace, 0, bytes);
    // In an order in which garbage is everywhere.
    for n in (0..end).map(|n| n * 1009 % end) {
        let accepted = keyspace.put(key(n), value(n, bytes / 2));
        accepted.unwrap_or_else(|error| panic!("{engine}: key {n} of {end}: {error}"));
    }
    check(&keyspace, (0..end).step_by(97), bytes / 2);
    wait_for_room(&keyspace, end, bytes, "overwriting all with halves");
    drop(keyspace);
    store.close().unwrap();
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn what_takes_less_than_it_overwrites_is_accepted_on_a_full_disk() {
    on_a_disk_of_64_mib(
        "full_disk::what_takes_less_than_it_overwrites_is_accepted_on_a_full_disk",
        |disk| {
            overwrites_are_accepted(disk, "wip");
        },
    );
}

#[test]
fn clearing_makes_room() {
    on_a_disk_of_64_mib("full_disk::clearing_makes_room", |disk| {
        for engine in ["wip", "silt"] {
            let (path, bytes) = (disk.join("store"), 20_000);
            let (store, keyspace) = open(&path, engine);
            let end = fill(&keyspace, 0, bytes);
            keyspace.clear().expect("a full disk can be cleared");
            wait_for_room(&keyspace, 0, bytes, "clearing");
            let again = fill(&keyspace, 1, bytes);
            assert!(again * 10 >= end * 9, "{engine}: {again} entries fit after {end}");
            drop(keyspace);
            store.close().unwrap();
            std::fs::remove_dir_all(path).unwrap();
        }
    });
}
