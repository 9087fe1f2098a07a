//! A cache with flash behind it, and images of flash, by the real program.

use crate::support::{Client, Reply, Server, arg, encode, read_all, said, scratch, silica};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn started(directory: &Path, more: &[&str]) -> Server {
    let flash = directory.join("flash");
    let args = [&["--flash", arg(&flash)], more].concat();
    Server::start_cache(&directory.join("server"), "48MiB", &args)
}

fn fresh(name: &str) -> PathBuf {
    let directory = scratch(name);
    std::fs::create_dir_all(&directory).expect("made");
    directory
}

fn run(args: &[&str]) -> Output {
    silica(args).output().expect("it runs")
}

fn json(args: &[&str]) -> serde_json::Value {
    serde_json::from_slice(&run(args).stdout).expect("an object")
}

/// The command fails and says all `words`.
fn refused(output: &Output, words: &[&str]) {
    let told = said(output);
    assert!(!output.status.success(), "{told}");
    assert!(words.iter().all(|word| told.contains(word)), "{words:?} in {told}");
}

/// Objects of all types in a cache with flash behind it: after a kill each is there as a whole, as
/// it was when it went to flash or not at all.
#[test]
fn objects_of_a_cache_on_flash_are_whole() {
    let directory = fresh("objects-on-flash");
    let server = started(&directory, &["--flash-size", "192MiB"]);
    let mut client = server.client();
    let mut ask = |line: &str| {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        client.ask(&words).expect("it answers")
    };
    for n in 0..60 {
        let values: String = (0..100).map(|m| format!(" {n}:{m} value:{n}:{m}")).collect();
        assert_eq!(ask(&format!("HSET large{values}")), Reply::Number(100));
        ask(&format!("RPUSH list{values}"));
        ask(&format!("ZADD board {n} member:{n}"));
        ask(&format!("XADD stream {n}-1 field value:{n}"));
        ask(&format!("SADD set {n}"));
    }
    for (line, number) in [
        ("HLEN large", 6000),
        ("LLEN list", 12_000),
        ("ZRANK board member:44", 44),
        ("XLEN stream", 60),
        ("SISMEMBER set 59", 1),
        ("DEL list", 1),
        ("HSETNX large 59:99 other", 0),
    ] {
        assert_eq!(ask(line), Reply::Number(number), "{line}");
    }
    server.kill();
    let server = started(&directory, &[]);
    let mut client = server.client();
    let mut ask = |line: &str| {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        client.ask(&words).expect("it answers")
    };
    assert_eq!(ask("LLEN list"), Reply::Number(0), "what was deleted stays so");
    let Reply::Number(len) = ask("HLEN large") else { panic!("a number") };
    let Reply::Many(fields) = ask("HKEYS large") else { panic!("an array") };
    assert_eq!(fields.len() as i64, len, "a whole hash, or none");
    ask("HSET large again 1");
    server.stop();
}

/// Each line a request and its reply.
fn script(client: &mut Client, lines: &str) {
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (ask, want) = line.split_once(" -> ").expect("request -> reply");
        let words: Vec<&[u8]> = ask.split(' ').map(str::as_bytes).collect();
        let shown = match client.ask(&words).expect("it answers") {
            Reply::Status(text) => text,
            Reply::Error(text) => format!("-{text}"),
            Reply::Number(n) => n.to_string(),
            Reply::Bytes(bytes) => {
                bytes.map_or("nil".into(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
            }
            Reply::Many(all) => format!("{} of them", all.len()),
        };
        assert_eq!(shown, want, "{ask}");
    }
}

#[test]
fn numbered_databases_share_flash_and_are_there_after_a_kill() {
    let directory = fresh("databases-on-flash");
    for mode in ["crew", "erew"] {
        let flash = directory.join("none");
        let args = ["serve", "--cache", "48MiB", "--flash", arg(&flash), "--mode", mode];
        refused(&run(&args), &["--mode crcw", "waits for the flash"]);
    }
    let server = started(&directory, &["--flash-size", "64MiB"]);
    script(
        &mut server.client(),
        "SET a first -> OK
         SET m moved -> OK
         SELECT 1 -> OK
         SET a second -> OK
         DBSIZE -> 1
         SELECT 15 -> OK
         SET a last -> OK
         SELECT 16 -> -ERR DB index is out of range
         SELECT 0 -> OK
         MOVE m 1 -> 1
         GET m -> nil
         SELECT 5 -> OK
         SET gone 1 -> OK
         FLUSHDB -> OK
         GET gone -> nil
         SET back 1 -> OK
         HSET hash f v g w -> 2
         SWAPDB 0 15 -> OK
         SELECT 0 -> OK
         GET a -> last
         FLUSHDB -> OK
         SET b new -> OK
         KEYS * -> 1 of them",
    );
    let told = String::from_utf8_lossy(&match server.client().ask(&[b"INFO", b"keyspace"]) {
        Ok(Reply::Bytes(Some(bytes))) => bytes,
        other => panic!("{other:?}"),
    })
    .into_owned();
    for line in ["db0:keys=1,", "db1:keys=2,", "db5:keys=2,", "db15:keys=1,"] {
        assert!(told.contains(line), "{line} in {told}");
    }
    server.kill();
    let server = started(&directory, &[]);
    script(
        &mut server.client(),
        "GET a -> nil
         GET b -> new
         SELECT 1 -> OK
         GET a -> second
         GET m -> moved
         SELECT 5 -> OK
         GET gone -> nil
         GET back -> 1
         HGET hash g -> w
         SELECT 15 -> OK
         GET a -> first
         FLUSHALL -> OK
         SELECT 1 -> OK
         DBSIZE -> 0
         SET c 1 -> OK",
    );
    server.stop();
    let server = started(&directory, &[]);
    let keyspace = "GET a -> nil\nDBSIZE -> 0\nSELECT 1 -> OK\nGET c -> 1\nDBSIZE -> 1";
    script(&mut server.client(), keyspace);
    server.stop();
}

#[test]
fn a_cache_on_flash_is_larger_than_memory_and_there_after_a_kill() {
    let directory = fresh("cache-on-flash");
    let server = started(&directory, &["--flash-size", "192MiB"]);
    let mut client = server.client();
    let keys: Vec<Vec<u8>> = (0..8000).map(|n| format!("key{n}").into_bytes()).collect();
    let value = |n: usize| format!("{n:04}").repeat(2048).into_bytes();
    for (n, key) in keys.iter().enumerate() {
        let mut words = Vec::new();
        encode(&mut words, &[b"SET", key, &value(n)]);
        client.send(&words).expect("it takes it");
        client.reply().expect("it answers");
    }
    client.ask(&[b"DEL", b"key7"]).expect("deleted");
    client.ask(&[b"SET", b"key8", b"new"]).expect("overwritten");
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("it runs");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("its memory");
    let kib: u64 = line.split_whitespace().nth(1).expect("a number").parse().expect("a number");
    assert!(kib < 48 * 1024 * 14 / 10, "{line}");
    server.kill();

    let server = started(&directory, &[]);
    let found = read_all(&mut server.client(), &keys);
    for (n, found) in found.into_iter().enumerate() {
        // 62 MiB of values, of which none was dropped: flash has room for all.
        let wanted = match n {
            7 => None,
            8 => Some(b"new".to_vec()),
            _ => Some(value(n)),
        };
        assert!(found == wanted, "key{n}");
    }
    server.stop();

    let flash = directory.join("flash");
    let info = json(&["flash", "info", arg(&flash), "--json"]);
    assert!(info["full_blocks"].as_u64().expect("a number") > 20, "{info}");
    let check = run(&["flash", "check", arg(&flash)]);
    assert!(check.status.success() && said(&check).contains("all can be read"));
    let svg = directory.join("wear.svg");
    let wear = run(&["flash", "wear", arg(&flash), "--svg", arg(&svg)]);
    assert!(said(&wear).contains("channel 3 LUN 1"), "{}", said(&wear));
    assert!(std::fs::read_to_string(&svg).expect("drawn").contains("<title>"));
    std::fs::remove_dir_all(&directory).expect("removed");
}

#[test]
fn what_is_wrong_with_flash_is_said_in_words() {
    let directory = fresh("wrong-flash");
    let at = |name: &str| arg(&directory.join(name)).to_string();
    let cache = |args: &[&str]| run(&[&["serve", "--cache", "48MiB", "--flash"], args].concat());
    refused(&run(&["serve", "--flash", &at("a")]), &["--cache"]);
    refused(&cache(&[&at("a"), "--flash-size", "4MiB"]), &["--flash-size"]);
    refused(&cache(&[&at("a"), "--flash-writes-per-day=-1"]), &["over 0"]);
    std::fs::create_dir(directory.join("full")).expect("made");
    std::fs::write(directory.join("full").join("letters"), "dear").expect("written");
    refused(&cache(&[&at("full")]), &["letters", "empty directory"]);
    std::fs::write(directory.join("file"), "dear").expect("written");
    assert!(!cache(&[&at("file")]).status.success());
    let small = run(&["serve", "--cache", "16MiB", "--flash", &at("b"), "--flash-size", "64MiB"]);
    refused(&small, &["memory"]);
    refused(&cache(&[&at("c"), "--flash-size", "400TiB"]), &["--flash-size"]);

    let server = started(&directory, &["--flash-size", "64MiB"]);
    refused(&cache(&[&at("flash")]), &["process"]);
    server.stop();
    refused(&cache(&[&at("flash"), "--flash-size", "128MiB"]), &["was made with 64 MiB"]);
}

#[test]
fn an_image_of_flash_is_made_and_described() {
    let directory = fresh("flash-image");
    let at = directory.join("image");
    let at = arg(&at);
    refused(&run(&["flash", "create", at]), &["--profile"]);
    refused(&run(&["flash", "create", at, "--geometry", "4x4x0x1x4KiB"]), &["blocks"]);
    refused(&run(&["flash", "create", at, "--profile", "tape"]), &["paper"]);
    let made = run(&["flash", "create", at, "--geometry", "2x2x8x16x4KiB"]);
    assert!(made.status.success(), "{}", said(&made));
    let info = json(&["flash", "info", at, "--json"]);
    assert_eq!((&info["geometry"]["channels"], &info["free_blocks"]), (&2.into(), &32.into()));
    refused(&run(&["flash", "info", "/nowhere/at/all"]), &["/nowhere/at/all"]);
    std::fs::OpenOptions::new().write(true).open(at).expect("opens").set_len(5000).expect("cut");
    refused(&run(&["flash", "info", at]), &["cut"]);
}

#[test]
fn why_tells_what_limits_a_running_cache_on_flash() {
    let directory = fresh("why-flash");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let admin = listener.local_addr().expect("its address").to_string();
    drop(listener);
    let more = ["--flash-size", "64MiB", "--admin", &admin, "--flash-writes-per-day", "0.01"];
    let server = started(&directory, &more);
    let mut client = server.client();
    for n in 0..2000 {
        client.ask(&[b"SET", format!("key{n}").as_bytes(), &[7; 4000]]).expect("it answers");
    }
    client.ask(&[b"GET", b"key1999"]).expect("it answers");
    let words = ["why", &admin, "--describe", "keys=100k zipf=0.9"];
    let told = said(&run(&words));
    for word in ["hit ratio", "--flash-writes-per-day allows no more", "--flash-size 1342"] {
        assert!(told.contains(word), "{word} in {told}");
    }
    let object = json(&[&words[..], &["--json"]].concat());
    assert_eq!(object["figures"][0]["measured"], 1.0, "{object}");
    assert_eq!(object["verdicts"].as_array().expect("a list").len(), 1, "{object}");
    server.stop();
}

/// A file as a block device, for as long as this lives.
struct Loop(String);

impl Loop {
    /// `None`, and why, if this user may not make one.
    fn new(file: &Path) -> Option<Self> {
        let made = Command::new("losetup").args(["--find", "--show", arg(file)]).output();
        let made = made.ok().filter(|made| made.status.success());
        if made.is_none() {
            eprintln!("skipped: losetup makes no loop device here; it needs root");
        }
        made.map(|made| Loop(String::from_utf8_lossy(&made.stdout).trim().to_string()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn a_cache_on_a_block_device_is_there_after_a_kill() {
    let directory = fresh("cache-on-a-device");
    let (file, files) = (directory.join("disk"), directory.join("files"));
    std::fs::write(&file, vec![7; 1 << 20]).expect("written");
    std::fs::OpenOptions::new().write(true).open(&file).expect("open").set_len(80 << 20).expect("");
    let Some(device) = Loop::new(&file) else { return };
    let cache = ["serve", "--cache", "48MiB", "--flash", &device.0];
    refused(&run(&cache), &["--flash-files"]);
    refused(&run(&[&cache[..], &["--flash-files", arg(&files)]].concat()), &["flash"]);
    let create = ["flash", "create", &device.0, "--geometry", "2x2x8x512x4KiB"];
    refused(&run(&create), &["--overwrite"]);
    let made = run(&[&create[..], &["--overwrite"]].concat());
    assert!(made.status.success(), "{}", said(&made));
    let start = || {
        let args = ["--flash", &device.0, "--flash-files", arg(&files)];
        Server::start_cache(&directory.join("server"), "48MiB", &args)
    };
    let server = start();
    let mut client = server.client();
    client.ask(&[b"SET", b"kept", b"value"]).expect("written");
    refused(&run(&["flash", "info", &device.0]), &["open elsewhere"]);
    server.kill();
    let server = start();
    let found = read_all(&mut server.client(), &[b"kept".to_vec()]);
    assert_eq!(found, [Some(b"value".to_vec())]);
    server.kill();
    let info = json(&["flash", "info", &device.0, "--json"]);
    assert_eq!(info["geometry"]["blocks"], 8);
    assert!(run(&["flash", "check", arg(&files)]).status.success());
}
