//! The real binary, as a user or a script meets it.

use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A directory that goes when the test ends.
struct Temp(PathBuf);

impl Temp {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("silica-cli-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Temp(path)
    }

    fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Runs `silica ARGUMENTS --path STORE`.
    fn run(&self, arguments: &[&str]) -> Output {
        command(arguments).arg("--path").arg(self.join("store")).output().unwrap()
    }

    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        one_object(&output)
    }
}

impl Drop for Temp {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_silica"));
    command.args(arguments).env_remove("RUST_LOG");
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Standard output holds exactly one JSON object.
#[track_caller]
fn one_object(output: &Output) -> Value {
    let value: Value = serde_json::from_slice(&output.stdout).expect("one JSON value");
    assert!(value.is_object(), "{value}");
    value
}

#[track_caller]
fn refused(output: &Output, code: i32, words: &[&str]) {
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{error}");
    for word in words {
        assert!(error.contains(word), "'{word}' is missing in: {error}");
    }
}

#[test]
fn values_are_put_got_listed_counted_and_deleted() {
    let temp = Temp::new();
    assert!(temp.run(&["put", "hello", "world"]).status.success());
    assert!(temp.run(&["put", "a\\x00b", "\\xff\\n"]).status.success());
    assert_eq!(text(&temp.run(&["get", "hello"]).stdout), "world\n");
    assert_eq!(temp.run(&["get", "a\\x00b", "--raw"]).stdout, b"\xff\n");
    assert_eq!(text(&temp.run(&["get", "a\\x00b"]).stdout), "\\xff\\n\n");
    assert_eq!(text(&temp.run(&["get", "610062", "--hex"]).stdout), "ff0a\n");
    let found = temp.json(&["get", "hello"]);
    assert_eq!((&found["value"], &found["found"]), (&"world".into(), &true.into()));
    assert_eq!(temp.json(&["get", "a\\x00b"])["value_hex"], "ff0a");

    let scanned = temp.json(&["scan"]);
    assert_eq!(scanned["entries"].as_array().unwrap().len(), 2);
    assert!(scanned["cursor"].is_null());
    assert_eq!(temp.json(&["count", "--exact"])["count"], 2);
    assert_eq!(text(&temp.run(&["count", "--exact"]).stdout), "2\n");

    assert!(temp.run(&["del", "hello", "never-there"]).status.success());
    let gone = temp.run(&["get", "hello"]);
    refused(&gone, 1, &["no key hello"]);
    assert!(gone.stdout.is_empty());
    assert_eq!(temp.json(&["stats"])["metrics"]["buckets"], 1.0);
    assert_eq!(temp.json(&["verify"])["ok"], true);
    assert_eq!(temp.json(&["inspect"])["keyspaces"][0]["engine"], "wip");
}

#[test]
fn a_range_is_listed_from_either_end_in_pages() {
    let temp = Temp::new();
    for key in ["user:b", "user:a", "z", "user:c", "\\xff\\n", "a"] {
        let put = temp.run(&["put", key, "v", "--engine", "wip", "--durability", "buffered"]);
        assert!(put.status.success(), "{}", text(&put.stderr));
    }
    let keys = |args: &[&str]| {
        let output = temp.run(&[&["scan", "--keys-only"], args].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        (text(&output.stdout).replace('\n', " "), text(&output.stderr))
    };
    let all = "a user:a user:b user:c z \\xff\\n ";
    assert_eq!(keys(&[]), (all.to_string(), String::new()));
    assert_eq!(keys(&["--limit", "0"]).0, all);
    assert_eq!(keys(&["--from", "user:b", "--to", "z"]).0, "user:b user:c ");
    assert_eq!(keys(&["--prefix", "user:", "--reverse"]).0, "user:c user:b user:a ");
    assert_eq!(keys(&["--from", "\\xff"]).0, "\\xff\\n ");
    assert_eq!(keys(&["--from", "z", "--to", "a"]).0, "");
    let (first, told) = keys(&["--prefix", "user:", "--limit", "2"]);
    assert_eq!(first, "user:a user:b ");
    assert!(told.contains("go on with --from 'user:c'"), "{told}");
    assert_eq!(keys(&["--prefix", "user:", "--from", "user:c"]).0, "user:c ");
    let (last, told) = keys(&["--prefix", "user:", "--limit", "2", "--reverse"]);
    assert_eq!(last, "user:c user:b ");
    assert!(told.contains("go on with --to 'user:b'"), "{told}");
    assert_eq!(keys(&["--prefix", "user:", "--reverse", "--to", "user:b"]).0, "user:a ");
    let page = temp.json(&["scan", "--limit", "2", "--from", "user:b"]);
    assert_eq!(page["entries"][1]["key"], "user:c");
    assert_eq!((&page["entries"][1]["value"], &page["next_from"]), (&"v".into(), &"z".into()));
    assert!(temp.json(&["scan", "--from", "z"])["next_from"].is_null());
    let both = temp.run(&["scan", "--cursor", "5", "--from", "a"]);
    refused(&both, 2, &["--cursor", "--from"]);
    refused(&temp.run(&["scan", "--from", "\\q"]), 2, &["backslash"]);
    temp.run(&["put", "k", "v", "--keyspace", "hashed", "--engine", "silt"]);
    let hashed = temp.run(&["scan", "--keyspace", "hashed", "--prefix", "k"]);
    refused(&hashed, 2, &["keeps no order", "engine 'wip'"]);
}

#[test]
fn a_keyspace_moves_to_another_engine() {
    let temp = Temp::new();
    for n in 0..20 {
        let key = format!("key {n:02}");
        temp.run(&["put", &key, "v", "--engine", "silt", "--durability", "buffered"]);
    }
    let moved = temp.json(&["migrate", "default", "--to", "wip"]);
    assert_eq!((&moved["entries"], &moved["copied"]), (&20.into(), &20.into()));
    assert_eq!(temp.json(&["inspect"])["keyspaces"][0]["engine"], "wip");
    let keys = text(&temp.run(&["scan", "--from", "key 18", "--keys-only"]).stdout);
    assert_eq!(keys, "key 18\nkey 19\n");
    refused(&temp.run(&["migrate", "default", "--to", "wip"]), 2, &["has engine wip already"]);
    refused(&temp.run(&["migrate", "default", "--to", "rocks"]), 2, &["no engine 'rocks'"]);
    refused(&temp.run(&["migrate", "none", "--to", "silt"]), 1, &["no keyspace 'none'"]);
    let back = temp.run(&["migrate", "default", "--to", "silt", "--set", "partitions=2"]);
    assert!(text(&back.stdout).contains("20 entries compared, 20 copied"), "{back:?}");
    assert_eq!(temp.json(&["stats"])["metrics"]["partitions"], 2.0);
}

#[test]
fn errors_name_the_fix_and_are_one_object_with_json() {
    let temp = Temp::new();
    refused(&temp.run(&["get", "k"]), 1, &["no store at", "silica put"]);
    let json = temp.run(&["get", "k", "--json"]);
    refused(&json, 1, &[]);
    assert_eq!(one_object(&json)["kind"], "NotFound");
    refused(&temp.run(&["put", "k"]), 2, &["VALUE", "Usage"]);
    refused(&temp.run(&["put", "k\\q", "v"]), 2, &["backslash"]);
    refused(&temp.run(&["put", "k", "v", "--engine", "rocks"]), 2, &["known are wip"]);
    refused(&temp.run(&["put", "k", "v", "--set", "speed=9"]), 2, &["no option 'speed'"]);
    assert!(temp.run(&["put", "k", "v"]).status.success());
    let keyspace = temp.run(&["get", "k", "--keyspace", "other"]);
    refused(&keyspace, 1, &["no keyspace 'other'", "there are default"]);
    let silt = ["--engine", "silt", "--keyspace", "hashed"];
    assert!(temp.run(&[&["put", "k", "v"], &silt[..]].concat()).status.success());
    let fixed = temp.run(&[&["get", "k", "--set", "partitions=2"], &silt[..]].concat());
    refused(&fixed, 2, &["fixed to 8"]);

    let catalog = temp.join("store").join("silica");
    let mut bytes = std::fs::read(&catalog).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&catalog, bytes).unwrap();
    refused(&temp.run(&["get", "k"]), 3, &["damaged", "checksum"]);
}

#[test]
fn a_backup_is_restored_elsewhere() {
    let temp = Temp::new();
    temp.run(&["put", "key", "before"]);
    let (backup, other) = (temp.join("backup"), temp.join("other"));
    let report = temp.json(&["backup", backup.to_str().unwrap()]);
    assert_eq!(report["keyspaces"], 1);
    temp.run(&["put", "key", "after"]);
    refused(&temp.run(&["backup", backup.to_str().unwrap()]), 2, &["new or empty directory"]);
    let restore = command(&["restore"]).arg(&backup).arg("--path").arg(&other).output().unwrap();
    assert!(restore.status.success(), "{}", text(&restore.stderr));
    let get = command(&["get", "key"]).arg("--path").arg(&other).output().unwrap();
    assert_eq!(text(&get.stdout), "before\n");
    assert_eq!(text(&temp.run(&["get", "key"]).stdout), "after\n");
}

fn tsv(records: u32) -> String {
    (0..records).map(|i| format!("key{i}\tvalue {i}\n")).collect()
}

#[test]
fn files_are_loaded_in_both_formats_and_from_standard_input() {
    let temp = Temp::new();
    let file = temp.join("records.tsv");
    std::fs::write(&file, tsv(5000)).unwrap();
    let report = temp.json(&["load", file.to_str().unwrap()]);
    assert_eq!((&report["records"], &report["resumed_at_byte"]), (&5000.into(), &0.into()));
    assert!(report["records_per_second"].as_f64().unwrap() > 0.0);
    assert_eq!(text(&temp.run(&["get", "key4999"]).stdout), "value 4999\n");

    let lp = temp.join("records.lp");
    let mut bytes = Vec::new();
    for (key, value) in [(&b"\0bin"[..], &b"\n\t"[..]), (b"", b"")] {
        bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(value);
    }
    std::fs::write(&lp, &bytes).unwrap();
    assert_eq!(temp.json(&["load", lp.to_str().unwrap(), "--format", "lp"])["records"], 2);
    assert_eq!(temp.run(&["get", "\\x00bin", "--raw"]).stdout, b"\n\t");

    let mut child = command(&["load", "-", "--json", "--path"])
        .arg(temp.join("store"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"from\tstdin").unwrap();
    assert_eq!(one_object(&child.wait_with_output().unwrap())["records"], 1);
    assert_eq!(text(&temp.run(&["get", "from"]).stdout), "stdin\n");
}

#[test]
fn bad_files_are_refused_where_they_are_bad() {
    let temp = Temp::new();
    refused(&temp.run(&["load", "/no/such/file"]), 1, &["/no/such/file", "check the path"]);
    let file = temp.join("bad.tsv");
    std::fs::write(&file, "good\trecord\nbad record\n").unwrap();
    let bad = temp.run(&["load", file.to_str().unwrap()]);
    refused(&bad, 2, &["at byte 12", "record 2", "--format lp"]);
    std::fs::write(&file, [9, 0, 0, 0, 9, 0, 0, 0, b'x']).unwrap();
    let cut = temp.run(&["load", file.to_str().unwrap(), "--format", "lp"]);
    refused(&cut, 2, &["cut short"]);
}

/// Kills a load in the middle; the next one goes on, and every record is there.
#[test]
fn a_killed_load_goes_on_where_it_was() {
    let temp = Temp::new();
    let file = temp.join("records.tsv");
    let records = 60_000;
    std::fs::write(&file, tsv(records)).unwrap();
    let load = ["load", file.to_str().unwrap(), "--sync-every", "64KiB", "--json"];
    let mut child = command(&load)
        .arg("--path")
        .arg(temp.join("store"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !remembers_a_position(&temp.join("store")) {
        assert!(child.try_wait().unwrap().is_none(), "the load ended before it was killed");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let report = temp.json(&load[..4]);
    assert!(report["resumed_at_byte"].as_u64().unwrap() >= 64 << 10, "{report}");
    assert!(report["records"].as_u64().unwrap() < u64::from(records));
    assert_eq!(report["records_total"], records);
    assert_eq!(temp.json(&["count", "--exact"])["count"], records);
    assert_eq!(temp.json(&["verify"])["ok"], true);
    assert!(!remembers_a_position(&temp.join("store")), "a finished load leaves nothing");
    let again = temp.json(&load[..4]);
    assert_eq!((&again["resumed_at_byte"], &again["records"]), (&0.into(), &records.into()));
}

/// What was cleared is loaded again, though an interrupted load remembers a position.
#[test]
fn a_cleared_keyspace_is_loaded_from_the_start() {
    let temp = Temp::new();
    let file = temp.join("records.tsv");
    // The last line is wrong, which ends the load with a position behind most records.
    std::fs::write(&file, tsv(5000) + "no tab\n").unwrap();
    let load = ["load", file.to_str().unwrap(), "--sync-every", "4KiB"];
    refused(&temp.run(&load), 2, &["no TAB"]);
    assert!(remembers_a_position(&temp.join("store")));
    let resumed = temp.run(&load);
    refused(&resumed, 2, &["going on at byte", "record 5001"]);
    let store = silica::open(temp.join("store")).unwrap();
    let keyspace = store.keyspace(silica::DEFAULT_KEYSPACE).unwrap();
    keyspace.clear().unwrap();
    drop(keyspace);
    store.close().unwrap();
    let begun = temp.run(&load);
    refused(&begun, 2, &["was cleared", "record 5001"]);
    assert_eq!(temp.json(&["count", "--exact"])["count"], 5000);
}

fn remembers_a_position(store: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(store) else { return false };
    let is_position = |name: &str| name.starts_with("load-") && !name.ends_with(".new");
    entries.flatten().any(|e| is_position(&e.file_name().to_string_lossy()))
}

#[test]
fn a_table_is_built_in_little_memory_as_in_much() {
    let temp = Temp::new();
    let keys = temp.join("keys");
    std::fs::write(&keys, (0..50_000).map(|i| format!("key{i}\n")).collect::<String>()).unwrap();
    let build = |input: &Path, name: &str, more: &[&str]| {
        let output = command(&["build-table", "--json"])
            .arg(input)
            .arg("--out")
            .arg(temp.join(name))
            .args(more)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        (one_object(&output), std::fs::read(temp.join(name)).unwrap())
    };
    let sorted = temp.join("sorted");
    let sorted_flag = ["--memory", "200KiB", "--sorted", sorted.to_str().unwrap()];
    let (report, little) = build(&keys, "little", &sorted_flag);
    assert_eq!(report["keys"], 50_000);
    assert!(report["bits_per_key"].as_f64().unwrap() < 4.0, "{report}");
    let (_, much) = build(&keys, "much", &["--threads", "3"]);
    assert!(little == much, "the index depends on the keys alone");
    let hashes = std::fs::read(&sorted).unwrap();
    let (hashes, _) = hashes.as_chunks::<16>();
    assert!(hashes.len() == 50_000 && hashes.is_sorted_by_key(|h| u128::from_le_bytes(*h)));
    let (report, again) = build(&sorted, "again", &["--format", "hashes"]);
    assert!(little == again && report["keys"] == 50_000);
    let (sparse, _) = build(&keys, "sparse", &["--per-chunk", "16"]);
    assert!(sparse["bits_per_key"].as_f64() < report["bits_per_key"].as_f64());
    assert!(!temp.join("little.spill").exists());
    std::fs::write(&keys, "short").unwrap();
    let out = temp.join("out");
    let cut = temp.run(&[
        "build-table",
        keys.to_str().unwrap(),
        "--format",
        "hashes",
        "--out",
        out.to_str().unwrap(),
    ]);
    refused(&cut, 2, &["16 bytes"]);
}

#[test]
fn the_prompt_takes_the_verbs() {
    let temp = Temp::new();
    let mut child = command(&["--path"])
        .arg(temp.join("store"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines =
        "put 'a key' \"a value\"\nget 'a key'\nuse other\nput k v\nscan\nkeyspaces\nhelp\nquit\n";
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let shown = text(&output.stdout);
    assert!(output.status.success());
    assert!(shown.starts_with("OK\na value\nOK\nk\tv\ndefault\twip\nother\twip\n"), "{shown}");
    assert!(shown.contains("Map a key to a value"), "{shown}");
}

/// A server on a free port.
struct Served {
    child: Child,
    address: String,
}

impl Served {
    fn start(store: &Path, more: &[&str]) -> Self {
        let mut serve = command(&["serve"]);
        serve.arg(store).args(more);
        Served::start_as(serve, "wip")
    }

    fn start_as(mut serve: Command, engine: &str) -> Self {
        let mut child = serve
            .args(["--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(words[..2], ["silica:", "serving"], "{line}");
        assert!(line.contains(&format!("(engine {engine}, ")), "{line}");
        let after_on = words.iter().skip_while(|word| **word != "on").nth(1);
        let address = after_on.expect("an address").to_string();
        Served { child, address }
    }

    /// Sends inline commands, one reply line each.
    fn ask(&self, lines: &[&str]) -> Vec<String> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        lines.iter().for_each(|l| write!(stream, "{l}\r\n").unwrap());
        let replies = BufReader::new(stream).lines().take(lines.len());
        replies.map(|r| r.unwrap()).collect()
    }

    fn signal(&mut self, name: &str) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
        self.child.wait().unwrap().code()
    }
}

#[test]
fn a_server_stops_gracefully_and_locks_its_store() {
    let temp = Temp::new();
    let store = temp.join("store");
    let mut served = Served::start(&store, &["--memory", "64MiB", "--engine", "wip"]);
    assert_eq!(served.ask(&["PING", "SET key value", "STRLEN key"]), ["+PONG", "+OK", ":5"]);
    assert_eq!(served.ask(&["SELECT 3", "SET other 1"]), ["+OK", "+OK"]);
    let locked = temp.run(&["get", "key"]);
    refused(&locked, 4, &["in use by process", &served.child.id().to_string()]);
    assert_eq!(served.signal("-TERM"), Some(0));
    assert_eq!(text(&temp.run(&["get", "key"]).stdout), "value\n");
    assert_eq!(text(&temp.run(&["get", "other", "--keyspace", "db3"]).stdout), "1\n");
}

#[test]
fn a_server_speaks_tls_and_reads_its_certificate_again() {
    let temp = Temp::new();
    let certificates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/tests/certificates");
    let file = |name: &str| certificates.join(name).to_str().unwrap().to_string();
    let [cert, key] = ["server.pem", "server.key"].map(file);
    let with = |more: &[&str]| command(&[&["serve", "--cache", "64MiB"], more].concat());
    let other = with(&["--tls-cert", &cert, "--tls-key", &file("client.key")]).output().unwrap();
    refused(&other, 2, &["its key is not the one", "client.key"]);
    let alone = with(&["--tls-cert", &cert]).output().unwrap();
    refused(&alone, 2, &["--tls-key"]);
    let copies = [temp.join("cert"), temp.join("key")];
    std::fs::copy(&cert, &copies[0]).unwrap();
    std::fs::copy(&key, &copies[1]).unwrap();
    let [cert, key] = copies.each_ref().map(|path| path.to_str().unwrap());
    let mut served = Served::start_as(with(&["--tls-cert", cert, "--tls-key", key]), "mica");
    let mut plain = TcpStream::connect(&served.address).unwrap();
    plain.write_all(b"PING\r\n").unwrap();
    assert_ne!(BufReader::new(plain).fill_buf().unwrap_or_default().first(), Some(&b'+'));
    let port = served.address.rsplit(':').next().unwrap().to_string();
    let ask = |authority: &str| {
        let args = ["--tls", "--cacert", &file(authority), "-h", "localhost", "-p", &port, "PING"];
        let output = Command::new("redis-cli").args(args).output();
        output.map(|output| text(&output.stdout).to_string()).ok()
    };
    let Some(said) = ask("authority.pem") else {
        println!("skipped: redis-cli is not installed (Debian: apt-get install redis-tools)");
        return;
    };
    assert_eq!(said, "PONG\n");
    std::fs::copy(certificates.join("client.pem"), cert).unwrap();
    std::fs::copy(certificates.join("client.key"), key).unwrap();
    let pid = served.child.id().to_string();
    assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    let begun = Instant::now();
    // A certificate for clients is none for a server.
    while ask("authority.pem").as_deref() == Some("PONG\n") {
        assert!(begun.elapsed() < Duration::from_secs(60), "the old certificate is still shown");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(served.signal("-TERM"), Some(0));
}

#[test]
fn a_cache_needs_no_directory() {
    let temp = Temp::new();
    let mut served = Served::start_as(command(&["serve", "--cache", "64MiB"]), "mica");
    assert_eq!(served.ask(&["SET key value EX 100", "TTL key", "DBSIZE"]), ["+OK", ":100", ":1"]);
    let others = served.ask(&["SELECT 1", "DBSIZE", "SELECT 16", "SELECT 0"]);
    assert_eq!(others, ["+OK", ":0", "-ERR DB index is out of range", "+OK"]);
    // Far more than fits: the cache goes on, and holds its memory.
    let value = "x".repeat(60_000);
    let lines: Vec<_> = (0..4000).map(|n| format!("SET big{n} {value}")).collect();
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    assert!(served.ask(&lines).iter().all(|reply| reply == "+OK"));
    let told = served.ask(&["STRLEN big3999", "DBSIZE"]);
    assert_eq!(told[0], ":60000");
    let held: usize = told[1][1..].parse().unwrap();
    assert!((500..64 * 1024 * 1024 / 60_000).contains(&held), "{held} of 4000 values");
    let status = std::fs::read_to_string(format!("/proc/{}/status", served.child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kib < 64 * 1024 * 11 / 10, "{line}");
    assert_eq!(served.signal("-TERM"), Some(0));
    assert_eq!(std::fs::read_dir(temp.join("")).unwrap().count(), 0, "nothing was written");
    let run = |args: &[&str]| command(args).stdin(Stdio::null()).output().unwrap();
    let both = run(&["serve", "--cache", "64MiB", "dir"]);
    refused(&both, 2, &["--cache", "cannot be used with"]);
    let other = run(&["serve", "--cache", "64MiB", "--engine", "silt"]);
    refused(&other, 2, &["a cache in memory has the engine mica, not silt"]);
    let small = run(&["serve", "--cache", "1MiB"]);
    refused(&small, 2, &["--cache 1 MiB", "leaves too little"]);
}

#[test]
fn what_a_killed_server_acknowledged_is_there() {
    let temp = Temp::new();
    let mut served = Served::start(&temp.join("store"), &["--durability", "buffered"]);
    let lines: Vec<_> = (0..500).map(|i| format!("SET key{i} value{i}")).collect();
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    assert!(served.ask(&lines).iter().all(|r| r == "+OK"));
    assert_eq!(served.signal("-KILL"), None);
    assert_eq!(temp.json(&["count", "--exact"])["count"], 500);
    assert_eq!(text(&temp.run(&["get", "key499"]).stdout), "value499\n");
    assert_eq!(temp.json(&["verify"])["ok"], true);
}

#[test]
fn servers_refuse_what_cannot_work() {
    let temp = Temp::new();
    refused(&temp.run(&["serve", "--listen", "0.0.0.0:0"]), 2, &["password"]);
    refused(&temp.run(&["serve", "--listen", "nonsense"]), 2, &["--listen HOST:PORT"]);
    let served = Served::start(&temp.join("other"), &[]);
    let twice = temp.run(&["serve", "--listen", &served.address]);
    refused(&twice, 5, &[&served.address]);
    let mut served = served;
    served.signal("-INT");
}

#[test]
fn benchmarks_print_their_fields_and_repeat() {
    let temp = Temp::new();
    let small = ["--keys", "2000", "--value-size", "50", "--threads", "2"];
    let fields = [
        "throughput_ops",
        "p50_us",
        "p99_us",
        "p999_us",
        "device_reads_per_get",
        "write_amplification",
        "space_amplification",
        "index_bytes_per_key",
        "rss_bytes_max",
        "result_hash",
    ];
    let mut hashes = Vec::new();
    for store in ["first", "second"] {
        let path = temp.join(store);
        let path = path.to_str().unwrap();
        let arguments = [&["bench", "ycsb-b", "--json", "--path", path], &small[..]].concat();
        let report = one_object(&command(&arguments).output().unwrap());
        assert!(fields.iter().all(|f| !report[*f].is_null()), "{report}");
        hashes.push(report["result_hash"].clone());
    }
    assert_eq!(hashes[0], hashes[1]);
    let ect = temp.json(&["bench", "ect", "--keys", "5000", "--group", "256", "--hmax", "64"]);
    assert!(ect["bits_per_key"].as_f64().unwrap() > 0.0);
    let cuckoo = temp.json(&["bench", "cuckoo", "--keys", "100000"]);
    assert!(cuckoo["occupancy"].as_f64().unwrap() > 0.9, "{cuckoo}");
    refused(&temp.run(&["bench", "fil"]), 2, &["known are fill, overwrite"]);
    let list = temp.json(&["bench", "list"]);
    let workloads = list["workloads"].as_array().unwrap();
    assert!(workloads.iter().any(|w| w["name"] == "mica-large-95" && w["value_bytes"] == 1024));
    let own = temp.json(&["bench", "generator", "--operations", "2000"]);
    assert!(own["rows"][0]["draw_ns"].as_f64().unwrap() > 0.0);
}

#[test]
fn traces_are_replayed_and_bad_ones_refused_by_line() {
    let temp = Temp::new();
    let trace = temp.join("trace");
    let lines = "silica-trace 1\n0 put a\\x20b 500\n20 get a\\x20b\n30 get c\n90 delete c\n";
    std::fs::write(&trace, lines).unwrap();
    let replay = ["bench", "replay", trace.to_str().unwrap(), "--engine", "silt"];
    let report = temp.json(&replay);
    for (field, expected) in [("operations", 4), ("puts", 1), ("reads", 2), ("hits", 1)] {
        assert_eq!(report[field], expected, "{field}");
    }
    let again = temp.json(&[&replay[..], &["--timed", "--threads", "2"]].concat());
    assert_eq!((&again["hits"], &again["keys"]), (&1.into(), &1.into()));
    std::fs::write(&trace, "silica-trace 1\n0 scan a 5\n").unwrap();
    refused(&temp.run(&replay), 2, &["line 2: this store does not scan"]);
    std::fs::write(&trace, "silica-trace 1\n0 get a\nnow get b\n").unwrap();
    refused(&temp.run(&replay), 2, &["line 3: its time is no number"]);
}
