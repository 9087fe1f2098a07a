//! The stores that run in this process and keep their data on a device keep what they are given. A
//! C library that is not installed takes no part, as in a comparison.

use silica::Durability::{self, Buffered, Synced};
use silica_bench::{Plan, Session, Sink, Target};
use silica_bench_compare::{Peer, Setup, find};
use std::path::Path;

const NAMES: &[&str] = &[
    "rocksdb",
    "rocksdb:lz4",
    "leveldb",
    "leveldb:snappy",
    "lmdb",
    "redb",
    "fjall",
    "fjall:lz4",
    "sqlite",
];

fn installed() -> impl Iterator<Item = &'static dyn Peer> {
    NAMES.iter().map(|name| find(name).unwrap()).filter(|peer| match peer.version() {
        Ok(_) => true,
        Err(missing) => {
            let text = missing.to_string();
            assert!(text.contains("apt-get install lib"), "{text}");
            eprintln!("{} takes no part: {text}", peer.name());
            false
        }
    })
}

fn setup(directory: &Path) -> Setup {
    let plan = Plan { keys: 1000, operations: 1000, ..Plan::new("mixed").unwrap() };
    Setup {
        directory: directory.to_path_buf(),
        memory_bytes: 16 << 20,
        level_bytes: Vec::new(),
        compaction_priority: None,
        server_threads: None,
        set: Vec::new(),
        plan,
    }
}

/// Runs `test` with each installed store.
fn each(test: impl Fn(&dyn Peer, &Setup)) {
    for peer in installed() {
        let directory = tempfile::tempdir().unwrap();
        eprintln!("{}", peer.name());
        test(peer, &setup(directory.path()));
    }
}

struct Found(Vec<Option<Vec<u8>>>);

impl Sink for Found {
    fn found(&mut self, index: usize, value: &[u8]) {
        assert!(self.0[index].replace(value.to_vec()).is_none(), "told twice");
    }
}

fn get(session: &mut dyn Session, keys: &[&str]) -> Vec<Option<String>> {
    let mut found = Found(vec![None; keys.len()]);
    let keys: Vec<&[u8]> = keys.iter().map(|key| key.as_bytes()).collect();
    session.get_many(&keys, &mut found).unwrap();
    found.0.into_iter().map(|v| v.map(|v| String::from_utf8(v).unwrap())).collect()
}

fn put(session: &mut dyn Session, entries: &[(&str, &str)]) {
    let entries: Vec<(&[u8], &[u8])> =
        entries.iter().map(|(key, value)| (key.as_bytes(), value.as_bytes())).collect();
    session.put_many(&entries).unwrap();
}

fn scan(session: &mut dyn Session, from: &str, count: usize) -> String {
    let mut seen = Vec::new();
    let mut add = |key: &[u8], value: &[u8]| {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        seen.push(format!("{}={}", text(key), text(value)));
    };
    session.scan(from.as_bytes(), count, &mut add).unwrap();
    seen.join(" ")
}

fn open(peer: &dyn Peer, setup: &Setup) -> Box<dyn Target> {
    peer.open(setup).unwrap()
}

fn some(value: &str) -> Option<String> {
    Some(value.to_string())
}

#[test]
fn gets_find_what_was_put_last() {
    each(|peer, setup| {
        let store = open(peer, setup);
        let mut session = store.session(Buffered).unwrap();
        let session = &mut *session;
        assert_eq!(get(session, &["a"]), [None]);
        put(session, &[("b", "2"), ("a", "1"), ("empty", "")]);
        put(session, &[("a", "one")]);
        assert_eq!(get(session, &["a"]), [some("one")]);
        let all = get(session, &["none", "b", "a", "b", "empty"]);
        assert_eq!(all, [None, some("2"), some("one"), some("2"), some("")]);
        assert_eq!(get(session, &[]), []);
        put(session, &[]);
        assert_eq!(store.metrics().unwrap().get("puts"), 4.0);
    });
}

#[test]
fn deleted_keys_are_gone() {
    each(|peer, setup| {
        let store = open(peer, setup);
        assert!(store.abilities().delete && !store.abilities().lossy);
        let mut session = store.session(Buffered).unwrap();
        let session = &mut *session;
        put(session, &[("a", "1"), ("b", "2"), ("c", "3")]);
        session.delete_many(&[b"a", b"c", b"never"]).unwrap();
        assert_eq!(get(session, &["a", "b", "c"]), [None, some("2"), None]);
        store.settle().unwrap();
        assert_eq!(get(session, &["c", "b", "a"]), [None, some("2"), None]);
        assert_eq!(scan(session, "", 9), "b=2");
    });
}

#[test]
fn scans_go_up_from_where_they_start() {
    each(|peer, setup| {
        let store = open(peer, setup);
        assert!(store.abilities().scan);
        let mut session = store.session(Buffered).unwrap();
        let session = &mut *session;
        assert_eq!(scan(session, "a", 3), "");
        put(session, &[("m", "3"), ("b", "1"), ("z", "4"), ("bb", "2")]);
        assert_eq!(scan(session, "b", 9), "b=1 bb=2 m=3 z=4");
        assert_eq!(scan(session, "ba", 2), "bb=2 m=3");
        assert_eq!(scan(session, "zz", 2), "");
        put(session, &[("n", "new")]);
        assert_eq!(scan(session, "m", 2), "m=3 n=new");
        assert_eq!(scan(session, "m", 0), "");
    });
}

#[test]
fn data_is_there_when_the_directory_is_opened_again() {
    for durability in [Buffered, Synced] {
        each(|peer, setup| reopen(peer, setup, durability));
    }
}

fn reopen(peer: &dyn Peer, setup: &Setup, durability: Durability) {
    let store = open(peer, setup);
    let mut session = store.session(durability).unwrap();
    for i in 0..30 {
        put(&mut *session, &[(&format!("key{i}"), &format!("value{i}"))]);
    }
    session.delete_many(&[b"key7"]).unwrap();
    drop(session);
    store.sync().unwrap();
    drop(store);
    let store = open(peer, setup);
    let mut session = store.session(durability).unwrap();
    assert_eq!(get(&mut *session, &["key0"]), [some("value0")]);
    assert_eq!(get(&mut *session, &["key29", "key7"]), [some("value29"), None]);
}

/// Tells a process of this test which store it writes to before it dies, and where.
const DIES: &str = "SILICA_TEST_DIES";

#[test]
fn buffered_writes_survive_the_death_of_the_process() {
    if let Ok(task) = std::env::var(DIES) {
        let (name, directory) = task.split_once('=').unwrap();
        let store = open(find(name).unwrap(), &setup(Path::new(directory)));
        let mut session = store.session(Buffered).unwrap();
        put(&mut *session, &[("a", "1"), ("b", "2")]);
        session.delete_many(&[b"a"]).unwrap();
        std::process::abort();
    }
    each(|peer, setup| {
        let me = std::env::current_exe().unwrap();
        let status = std::process::Command::new(me)
            .args(["--exact", "embedded::buffered_writes_survive_the_death_of_the_process"])
            .env(DIES, format!("{}={}", peer.name(), setup.directory.display()))
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status()
            .unwrap();
        assert_eq!(status.code(), None, "it dies of a signal");
        let store = open(peer, setup);
        let mut session = store.session(Buffered).unwrap();
        assert_eq!(get(&mut *session, &["a", "b"]), [None, some("2")]);
    });
}

#[test]
fn threads_have_sessions_of_their_own() {
    each(|peer, setup| {
        let store = open(peer, setup);
        let work = |thread: usize, durability| {
            let mut session = store.session(durability).unwrap();
            for i in 0..60 {
                let (key, value) = (format!("{thread}-{i:03}"), i.to_string());
                put(&mut *session, &[(&key, &value), (&format!("{thread}"), &value)]);
                assert_eq!(get(&mut *session, &[&key]), [Some(value)]);
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| work(0, Buffered));
            scope.spawn(|| work(1, Buffered));
        });
        std::thread::scope(|scope| {
            scope.spawn(|| work(2, Synced));
            scope.spawn(|| work(3, Buffered));
        });
        let mut session = store.session(Buffered).unwrap();
        let last = get(&mut *session, &["0", "1", "2", "3", "1-023"]);
        assert_eq!(last, [some("59"), some("59"), some("59"), some("59"), some("23")]);
        assert_eq!(scan(&mut *session, "1-058", 3), "1-058=58 1-059=59 2=59");
    });
}

#[test]
fn a_batch_outlives_settling_whole() {
    each(|peer, setup| {
        let store = open(peer, setup);
        let mut session = store.session(Buffered).unwrap();
        let entries: Vec<_> =
            (0..2000).map(|i| (format!("{:04}", i * 7919 % 2000), "v".repeat(i % 3000))).collect();
        let entries: Vec<_> = entries.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        put(&mut *session, &entries);
        store.settle().unwrap();
        for (key, value) in &entries {
            assert_eq!(get(&mut *session, &[key]), [some(value)]);
        }
        let metrics = store.metrics().unwrap();
        assert_eq!(metrics.get("puts"), 2000.0);
        assert!(metrics.get("disk_bytes") > 0.0);
    });
}

#[test]
fn settings_have_names_values_and_reasons() {
    each(|peer, setup| {
        let settings = peer.settings(setup);
        assert!(settings.len() > 3);
        for setting in settings {
            assert!(!setting.value.is_empty() && !setting.why.is_empty(), "{}", setting.name);
        }
    });
}

#[test]
fn what_cannot_be_opened_is_an_error_that_says_why() {
    each(|peer, setup| {
        let file = setup.directory.join("file");
        std::fs::write(&file, "no directory").unwrap();
        let setup = Setup { directory: file, ..setup.clone() };
        let error = peer.open(&setup).err().unwrap();
        let text = error.to_string().to_lowercase();
        assert!(text.contains(peer.name().split(':').next().unwrap()), "{text}");
    });
}
