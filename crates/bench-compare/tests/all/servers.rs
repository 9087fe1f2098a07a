//! The servers keep what they are given, and go when they are not needed. One that is not installed
//! takes no part, as in a comparison.

use silica::Durability::{self, Buffered, Synced};
use silica_bench::memory::Process;
use silica_bench::{Plan, Session, Shape, Sink, Target};
use silica_bench_compare::{Class, Peer, Request, Run, Setup, Size, all, compare, find};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

fn installed() -> Vec<&'static dyn Peer> {
    let servers = all().into_iter().filter(|peer| peer.class() == Class::Server);
    servers
        .filter(|peer| match peer.version() {
            Ok(version) => {
                assert!(version.starts_with(|c: char| c.is_ascii_digit()), "{version}");
                true
            }
            Err(missing) => {
                let text = missing.to_string();
                assert!(text.contains("apt-get install") || text.contains("cargo build"), "{text}");
                eprintln!("{} takes no part: {text}", peer.name());
                false
            }
        })
        .collect()
}

fn setup(directory: &Path, durability: Durability) -> Setup {
    let shape = Shape { key_bytes: 16, value_bytes: 100 };
    let plan = Plan { shape, durability, ..Plan::new("mixed").unwrap() };
    Setup {
        directory: directory.to_path_buf(),
        memory_bytes: 64 << 20,
        level_bytes: Vec::new(),
        compaction_priority: None,
        server_threads: None,
        set: Vec::new(),
        plan,
    }
}

/// Runs `test` with each installed server.
fn each(test: impl Fn(&dyn Peer, &dyn Target, &Path)) {
    for peer in installed() {
        let directory = tempfile::tempdir().unwrap();
        eprintln!("{}", peer.name());
        let server = peer.open(&setup(directory.path(), Buffered)).unwrap();
        test(peer, &*server, directory.path());
    }
}

/// The processes that work in `directory`: the server's.
fn processes(directory: &Path) -> Vec<i32> {
    let directory = directory.canonicalize().unwrap();
    let works_there = |pid: &i32| {
        std::fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == directory)
    };
    let names = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = names.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(works_there).collect()
}

struct Found(Vec<Option<Vec<u8>>>);

impl Sink for Found {
    fn found(&mut self, index: usize, value: &[u8]) {
        assert!(self.0[index].replace(value.to_vec()).is_none(), "told twice");
    }
}

fn get(session: &mut dyn Session, keys: &[&[u8]]) -> Vec<Option<Vec<u8>>> {
    let mut found = Found(vec![None; keys.len()]);
    session.get_many(keys, &mut found).unwrap();
    found.0
}

fn some(value: &[u8]) -> Option<Vec<u8>> {
    Some(value.to_vec())
}

#[test]
fn gets_find_what_was_put_last_and_not_deleted() {
    each(|_, server, _| {
        assert!(server.abilities().delete && !server.abilities().scan);
        let mut session = server.session(Buffered).unwrap();
        let session = &mut *session;
        assert_eq!(get(session, &[b"a"]), [None]);
        session.put_many(&[(b"a", b"1"), (b"\0 \r\n\xFF", b"\r\nEND\r\n"), (b"e", b"")]).unwrap();
        session.put_many(&[(b"a", b"2"), (b"a", b"3")]).unwrap();
        assert_eq!(get(session, &[b"a"]), [some(b"3")]);
        let found = get(session, &[b"none", b"\0 \r\n\xFF", b"a", b"e", b"a"]);
        assert_eq!(found, [None, some(b"\r\nEND\r\n"), some(b"3"), some(b""), some(b"3")]);
        session.delete_many(&[b"a", b"never"]).unwrap();
        assert_eq!(get(session, &[b"a", b"e"]), [None, some(b"")]);
        assert_eq!(get(session, &[]), []);
        session.put_many(&[]).unwrap();
        session.delete_many(&[]).unwrap();
        assert!(session.scan(b"a", 1, &mut |_, _| {}).is_err());
        let metrics = server.metrics().unwrap();
        assert_eq!((metrics.get("puts"), metrics.get("deletes")), (5.0, 2.0));
    });
}

#[test]
fn bursts_and_values_of_any_size_pass() {
    each(|_, server, _| {
        let mut session = server.session(Buffered).unwrap();
        let session = &mut *session;
        let size = |i: usize| [0, 10, 100, 1300, 1400, 5000, 16_000, 100_000][i % 8];
        let entries: Vec<_> =
            (0..700usize).map(|i| (i.to_le_bytes(), vec![i as u8; size(i)])).collect();
        let refs: Vec<_> = entries.iter().map(|(k, v)| (&k[..], &v[..])).collect();
        session.put_many(&refs).unwrap();
        let keys: Vec<_> = refs.iter().map(|entry| entry.0).collect();
        let found = get(session, &keys);
        for ((_, value), found) in entries.iter().zip(found) {
            assert_eq!(found.as_ref(), Some(value));
        }
        session.delete_many(&keys[..600]).unwrap();
        assert_eq!(get(session, &keys).iter().flatten().count(), 100);
    });
}

#[test]
fn threads_have_connections_of_their_own() {
    each(|_, server, _| {
        std::thread::scope(|scope| {
            for thread in 0..3u8 {
                scope.spawn(move || {
                    let mut session = server.session(Buffered).unwrap();
                    for i in 0..100u8 {
                        session.put_many(&[(&[thread, i], &[i]), (&[thread], &[i])]).unwrap();
                        assert_eq!(get(&mut *session, &[&[thread, i]]), [some(&[i])]);
                    }
                });
            }
        });
        let mut session = server.session(Buffered).unwrap();
        assert_eq!(get(&mut *session, &[&[0], &[1], &[2]]), vec![some(&[99]); 3]);
    });
}

#[test]
fn a_killed_server_is_an_error() {
    each(|peer, server, directory| {
        let mut session = server.session(Buffered).unwrap();
        session.put_many(&[(b"a", b"1")]).unwrap();
        let pids = processes(directory);
        assert_eq!(pids.len(), 1, "{}", peer.name());
        let pid = rustix::process::Pid::from_raw(pids[0]).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        let started = Instant::now();
        while session.put_many(&[(b"a", b"1")]).is_ok() {
            assert!(started.elapsed() < Duration::from_secs(60));
        }
        assert!(session.get_many(&[b"a"], &mut Found(vec![None])).is_err());
        // The connection may end a moment before the process has.
        let told = loop {
            match server.settle() {
                Err(told) => break told.to_string(),
                Ok(()) => assert!(started.elapsed() < Duration::from_secs(60)),
            }
        };
        assert!(told.contains("died"), "{told}");
    });
}

#[test]
fn no_process_is_left_behind() {
    for peer in installed() {
        let directory = tempfile::tempdir().unwrap();
        let server = peer.open(&setup(directory.path(), Buffered)).unwrap();
        assert_eq!(processes(directory.path()).len(), 1);
        drop(server);
        assert!(processes(directory.path()).is_empty(), "{}", peer.name());
        // Another one may work where it did.
        drop(peer.open(&setup(directory.path(), Buffered)).unwrap());
    }
}

/// Tells a process of this test in which directory to start a server before it dies.
const DIES: &str = "SILICA_TEST_DIES";

#[test]
fn servers_die_with_the_process_that_started_them() {
    if let Ok(task) = std::env::var(DIES) {
        let (name, directory) = task.split_once('=').unwrap();
        let server = find(name).unwrap().open(&setup(Path::new(directory), Buffered)).unwrap();
        server.session(Buffered).unwrap().put_many(&[(b"a", b"1")]).unwrap();
        std::process::abort();
    }
    for peer in installed() {
        let directory = tempfile::tempdir().unwrap();
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "servers::servers_die_with_the_process_that_started_them"])
            .env(DIES, format!("{}={}", peer.name(), directory.path().display()))
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status()
            .unwrap();
        assert_eq!(status.code(), None, "it dies of a signal");
        assert!(directory.path().join("server.log").is_file(), "the server was there");
        let started = Instant::now();
        while !processes(directory.path()).is_empty() {
            assert!(started.elapsed() < Duration::from_secs(60), "{} is left", peer.name());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// True for caches that memcached's text protocol is spoken to.
fn speaks_memcached(peer: &dyn Peer) -> bool {
    peer.name().starts_with("memcached") || peer.name() == "silica:udp"
}

#[test]
fn synced_writes_are_there_when_the_server_is_started_again() {
    for peer in installed() {
        let directory = tempfile::tempdir().unwrap();
        let setup = setup(directory.path(), Synced);
        let server = peer.open(&setup).unwrap();
        let is_cache = ["silica:cache", "silica:store", "silica:datagram"].contains(&peer.name());
        if speaks_memcached(peer) || is_cache {
            let refused = server.session(Synced).err().unwrap().to_string();
            assert!(refused.contains("synced"), "{refused}");
            continue;
        }
        server.session(Synced).unwrap().put_many(&[(b"a", b"1"), (b"b", b"2")]).unwrap();
        assert!(server.metrics().unwrap().get("disk_bytes") > 0.0);
        drop(server);
        let server = peer.open(&setup).unwrap();
        let found = get(&mut *server.session(Buffered).unwrap(), &[b"a", b"b"]);
        assert_eq!(found, [some(b"1"), some(b"2")], "{}", peer.name());
    }
    each(|_, server, _| assert!(server.session(Synced).is_err()));
}

#[test]
fn keys_that_memcached_cannot_take_are_refused() {
    each(|peer, server, _| {
        let mut session = server.session(Buffered).unwrap();
        let long = [7; 188];
        session.put_many(&[(&long[..187], b"1")]).unwrap();
        assert_eq!(get(&mut *session, &[&long[..187]]), [some(b"1")]);
        let refused = session.put_many(&[(&long, b"1")]).is_err();
        assert_eq!(refused, speaks_memcached(peer));
        // The connection goes on as before.
        assert_eq!(get(&mut *session, &[&long[..187]]), [some(b"1")]);
    });
}

#[test]
fn settings_have_names_values_and_reasons() {
    let directory = tempfile::tempdir().unwrap();
    for peer in installed() {
        let settings = peer.settings(&setup(directory.path(), Buffered));
        assert!(settings.len() > 4);
        for setting in settings {
            assert!(!setting.value.is_empty() && !setting.why.is_empty(), "{}", setting.name);
        }
    }
}

#[test]
fn memory_and_bytes_are_those_of_the_server() {
    each(|peer, server, directory| {
        let Process::Other(pid) = server.process() else { panic!("{} is no process", peer.name()) };
        assert_eq!(processes(directory), [pid as i32]);
    });
    let Some(peer) = installed().first().map(|peer| peer.name()) else { return };
    let out = tempfile::tempdir().unwrap();
    let mut request = Request::new("server", Size::Toy);
    request.peers = vec![peer.to_string()];
    request.workloads = vec!["set".to_string()];
    let run = Run {
        request,
        out: out.path().to_path_buf(),
        stores: None,
        child: Vec::new(),
        command: String::new(),
    };
    let results = compare(&run, &AtomicBool::new(false), &mut |_, _, _| {}).unwrap();
    let row = |metric| results.row("server", "set", peer, metric).unwrap().median;
    let (server, client) = (row("rss_bytes_max"), row("client_rss_bytes_max"));
    assert!(server > 1e5 && client > 1e5 && server != client, "{server} and {client}");
    assert!(row("process_write_bytes") >= 0.0 && row("client_write_bytes") >= 0.0);
}
