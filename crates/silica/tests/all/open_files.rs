//! A process that may open no more files refuses writes, loses nothing and goes on when it may.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use silica::{Durability, OpenOptions};
use silica_base::in_own_process;

/// Files that may be opened beside those that are open.
const MORE_FILES: u64 = 24;

fn set_limit(current: u64) {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: Some(current), maximum }).unwrap();
}

fn open_files() -> u64 {
    std::fs::read_dir("/proc/self/fd").unwrap().count() as u64
}

fn key(n: u64) -> [u8; 8] {
    n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

fn options() -> OpenOptions {
    let small = [
        ("bucket_bytes_max", "262144"),
        ("memtable_bytes_max", "65536"),
        ("log_bytes_max", "262144"),
        ("segment_bytes", "32768"),
    ];
    let options = OpenOptions::new().engine("wip").memory_bytes(8 << 20);
    let options = options.background_threads(0).durability(Durability::Buffered);
    small.iter().fold(options, |options, (name, value)| options.set(*name, *value))
}

#[test]
fn too_many_open_files_refuse_writes_and_lose_nothing() {
    in_own_process("open_files::too_many_open_files_refuse_writes_and_lose_nothing", || {
        const KEYS: u64 = 60_000;
        let directory = tempfile::tempdir().unwrap();
        let store = options().open(directory.path()).unwrap();
        let keyspace = store.keyspace("default").unwrap();
        // Opening allowed as many as this user may have.
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!(current, maximum);
        set_limit(open_files() + MORE_FILES);
        let mut written = 0;
        let error = loop {
            match keyspace.put(key(written), [1; 100]) {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
            assert!(written < KEYS, "tables stay open");
        };
        let said = error.to_string();
        assert!(said.contains("ulimit -n"), "{said}");
        assert!(keyspace.get(key(0)).unwrap().is_some(), "reads go on");
        set_limit(current.unwrap_or(20_000));
        for n in written..KEYS {
            keyspace.put(key(n), [1; 100]).expect("writes go on");
        }
        drop(keyspace);
        store.close().unwrap();
        let store = options().open(directory.path()).unwrap();
        let keyspace = store.keyspace("default").unwrap();
        assert!((0..KEYS).all(|n| keyspace.get(key(n)).unwrap().is_some()));
        store.verify().unwrap();
    });
}
