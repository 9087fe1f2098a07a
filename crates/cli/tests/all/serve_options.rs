//! Options of the engine that `silica serve` passes on: they do what they say, and bad ones are
//! refused by name.

use crate::support::{Reply, Server, arg, scratch, silica};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

const ENTRIES: u32 = 20_000;
const VALUE_BYTES: usize = 500;

/// Files below `dir` whose names begin with `prefix`, and their sizes.
fn files(dir: &Path, prefix: &str) -> Vec<(PathBuf, u64)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let entry = entry.expect("an entry");
        // Background work may have removed it.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            found.extend(files(&entry.path(), prefix));
        } else if entry.file_name().to_string_lossy().starts_with(prefix) {
            found.push((entry.path(), metadata.len()));
        }
    }
    found
}

fn fill(server: &Server) {
    let mut client = server.client();
    for n in 0..ENTRIES {
        let (key, value) = (format!("key-{n:08}"), vec![n as u8; VALUE_BYTES]);
        let reply = client.ask(&[b"SET", key.as_bytes(), &value]).expect("a reply");
        assert_eq!(reply, Reply::Status("OK".into()));
    }
}

#[test]
fn options_of_the_default_engine_do_what_they_say() {
    let dir = scratch("serve-options");
    let small = ["--set", "memtable_bytes_max=1MiB", "--memory", "64MiB"];
    let mut tables = Vec::new();
    for (name, extra) in [
        ("plain", &[][..]),
        ("lz4", &["--set", "compression=lz4", "--set", "segment_bytes=1MiB"][..]),
    ] {
        let path = dir.join(name);
        let server = Server::start(&path, &[&small[..], extra].concat());
        fill(&server);
        let logs = files(&path, "LOG-");
        assert!(!logs.is_empty());
        let longest = logs.iter().map(|(_, bytes)| *bytes).max().expect("there are some");
        assert_eq!(longest <= 1 << 20, name == "lz4", "{logs:?}");
        server.stop();
        tables.push(files(&path, "TABLE-").iter().map(|(_, bytes)| *bytes).sum::<u64>());
    }
    let most = u64::from(ENTRIES) * VALUE_BYTES as u64;
    assert!(tables[0] > most / 2, "most is in tables: {tables:?}");
    assert!(tables[1] < tables[0] / 4, "values of one byte shrink: {tables:?}");
}

/// What a server says that does not start.
fn refused(path: &Path, options: &[&str]) -> String {
    let listen = ["serve", arg(path), "--listen", "127.0.0.1:0"];
    let mut command = silica(&[&listen, options].concat());
    let mut child = command.stderr(Stdio::piped()).spawn().expect("the binary starts");
    let start = Instant::now();
    while child.try_wait().expect("a state").is_none() {
        if start.elapsed() > Duration::from_secs(20) {
            child.kill().expect("it is killed");
            panic!("{options:?} are accepted");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().expect("its end");
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_no_write_could_survive_is_refused_at_the_start() {
    let dir = scratch("serve-synced");
    let at = dir.join("store");
    if silica_device::region::class_of(&dir).unwrap().survives_power_cut() {
        return println!("skipped: this directory is on persistent memory");
    }
    let mut command = silica(&["serve", arg(&at), "--engine", "turbo", "--durability", "synced"]);
    let output = command.args(["--listen", "127.0.0.1:0"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("leave --durability out"), "{text}");
}

#[test]
fn bad_options_are_refused_by_name() {
    let dir = scratch("serve-bad-options");
    let few = refused(&dir.join("few"), &["--set", "runs_max=1"]);
    assert!(few.contains("runs_max") && few.contains('2'), "{few}");
    let unknown = refused(&dir.join("unknown"), &["--set", "no_such_option=1"]);
    assert!(unknown.contains("no_such_option"), "{unknown}");
    let store = dir.join("store");
    Server::start(&store, &["--set", "first_buckets=2"]).stop();
    let fixed = refused(&store, &["--set", "first_buckets=4"]);
    assert!(fixed.contains("first_buckets"), "{fixed}");
}

/// KiB of huge pages that a process has.
#[cfg(target_os = "linux")]
fn huge_kib(server: &Server) -> u64 {
    let file = format!("/proc/{}/smaps_rollup", server.pid());
    let text = std::fs::read_to_string(file).expect("the server runs");
    let line = text.lines().find_map(|line| line.strip_prefix("AnonHugePages:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse().ok());
    number.expect("a number")
}

/// A cache that is asked to has no huge pages, however much it holds.
#[test]
#[cfg(target_os = "linux")]
fn plain_pages_are_not_huge() {
    let dir = scratch("serve-pages");
    let held = |name: &str, extra: &[&str]| {
        let server = Server::start_cache(&dir.join(name), "256MiB", extra);
        let mut client = server.client();
        for n in 0..32 {
            let key = format!("k{n}");
            let set: [&[u8]; 3] = [b"SET", key.as_bytes(), &vec![b'v'; 1 << 20]];
            assert_eq!(client.ask(&set).expect("a reply"), Reply::Status("OK".into()));
        }
        huge_kib(&server)
    };
    if held("huge", &[]) == 0 {
        println!("skipped: this system has no transparent huge pages");
        return;
    }
    assert_eq!(held("plain", &["--plain-pages"]), 0);
}
