//! Databases with engines of their own, as a user sets them up with the real binary.

use crate::support::{Client, Reply, arg, said, scratch, silica, silica_ok};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A server whose first line was read; killed when dropped.
struct Served(Child, String);

impl Served {
    fn start(args: &[&str]) -> Served {
        let args = [&["serve", "--listen", "127.0.0.1:0"], args].concat();
        let mut command = silica(&args);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        Served(child, line)
    }

    fn client(&self) -> Client {
        let port = self.1.split(" on 127.0.0.1:").last().expect("an address");
        let port = port.split(' ').next().unwrap();
        Client::connect(port.parse().expect("a port")).unwrap()
    }

    fn stop(mut self) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // Both fail only where the process is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Each line a request and its reply.
fn script(client: &mut Client, lines: &str) {
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (ask, want) = line.split_once(" -> ").expect("request -> reply");
        let words: Vec<&[u8]> = ask.split(' ').map(str::as_bytes).collect();
        let shown = match client.ask(&words).unwrap() {
            Reply::Status(text) => text,
            Reply::Error(text) => format!("-{text}"),
            Reply::Number(n) => n.to_string(),
            Reply::Bytes(None) => "nil".into(),
            Reply::Bytes(Some(bytes)) => String::from_utf8(bytes).unwrap(),
            Reply::Many(all) => format!("{} of them", all.len()),
        };
        assert_eq!(shown, want, "{ask}");
    }
}

fn info(client: &mut Client) -> String {
    match client.ask(&[b"INFO", b"everything"]).unwrap() {
        Reply::Bytes(Some(bytes)) => String::from_utf8(bytes).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_cache_beside_a_durable_database_is_asked_for_once() {
    let store = scratch("databases-once").join("store");
    let at = arg(&store).to_string();
    let cache = "1=mica,memory_bytes=8MiB,eviction=lru";
    let served = Served::start(&[&at, "--memory", "64MiB", "--database", cache]);
    let words = "(engine wip, synced writes; database 1: engine mica, in memory, 0 entries)";
    assert!(served.1.contains(words), "{}", served.1);
    script(&mut served.client(), "SET a 1 -> OK\nSELECT 1 -> OK\nGET a -> nil\nSET a 2 -> OK");
    served.stop();

    let served = Served::start(&[&at, "--memory", "64MiB"]);
    assert!(served.1.contains(words), "it needs no option again: {}", served.1);
    let mut client = served.client();
    script(&mut client, "GET a -> 1\nSELECT 1 -> OK\nGET a -> nil");
    let info = info(&mut client);
    assert!(info.contains("\r\ndb1_engine:mica\r\n"), "{info}");
    let line = info.lines().find_map(|line| line.strip_prefix("db1_memory_bytes:"));
    assert!(line.is_none_or(|bytes| bytes == (8 << 20).to_string()), "{line:?}");
    served.stop();

    let listed = silica_ok(&["keyspace", "list", "--path", &at]);
    assert!(listed.contains("db1\tmica\tmemory_bytes="), "{listed}");
    let other = silica(&["serve", &at, "--database", "1=silt"]).output().unwrap();
    assert!(said(&other).contains("keyspace 'db1' has engine mica, not silt"), "{}", said(&other));
    let small = silica(&["serve", &at, "--memory", "8MiB"]).output().unwrap();
    assert!(said(&small).contains("give more --memory"), "{}", said(&small));
}

#[test]
fn keyspaces_are_created_and_dropped_by_hand() {
    let store = scratch("databases-hand").join("store");
    let at = arg(&store).to_string();
    let create = ["keyspace", "create", "db1", "--engine", "mica", "--path", &at];
    let kept = ["--set", "memory_bytes=8MiB", "--set", "warm_restart=on"];
    silica_ok(&[&create[..], &kept].concat());
    let again = silica(&create).output().unwrap();
    assert!(said(&again).contains("keyspace 'db1' exists already"), "{}", said(&again));
    let served = Served::start(&[&at]);
    script(&mut served.client(), "SELECT 1 -> OK\nMSET a 1 b 2 -> OK");
    served.stop();
    let served = Served::start(&[&at]);
    assert!(served.1.contains("database 1: engine mica, in memory, 2 entries"), "{}", served.1);
    script(&mut served.client(), "SELECT 1 -> OK\nGET a -> 1");
    served.stop();
    silica_ok(&["keyspace", "drop", "db1", "--path", &at]);
    let listed = silica_ok(&["keyspace", "list", "--path", &at, "--json"]);
    assert!(listed.contains("\"default\"") && !listed.contains("db1"), "{listed}");
}

#[test]
fn a_server_without_a_directory_has_databases_too() {
    let images = scratch("databases-images");
    let args = ["--cache", "64MiB", "--database", "1=mica,eviction=none,memory_bytes=4MiB"];
    let args = [&args[..], &["--image", arg(&images)]].concat();
    let served = Served::start(&args);
    assert!(served.1.contains("serving a cache of 64 MiB on "), "{}", served.1);
    assert!(served.1.contains("database 1: engine mica, in memory, 0 entries"), "{}", served.1);
    let lines = "SET a 1 -> OK
        SELECT 1 -> OK
        SET a 2 -> OK
        SELECT 2 -> OK
        SET a 3 -> OK
        SELECT 16 -> -ERR DB index is out of range";
    script(&mut served.client(), lines);
    served.stop();
    let served = Served::start(&args);
    script(
        &mut served.client(),
        "GET a -> 1\nSELECT 1 -> OK\nGET a -> 2\nSELECT 2 -> OK\nGET a -> 3",
    );
    served.stop();
    for (database, why) in [
        ("1=silt", "needs a directory"),
        ("1=mica,memory_bytes=64MiB", "give a larger --cache"),
        ("16=mica", "databases are 0 to 15"),
        ("1", "use N=ENGINE"),
        ("1=mica,nothing=1", "nothing"),
    ] {
        let refused = silica(&["serve", "--cache", "64MiB", "--database", database]).output();
        let refused = said(&refused.unwrap());
        assert!(refused.contains(why), "{database}: {refused}");
    }
}

#[test]
fn a_store_in_memory_is_called_one() {
    let served = Served::start(&["--cache", "64MiB", "--set", "eviction=none"]);
    assert!(served.1.contains("serving a store in memory of 64 MiB on "), "{}", served.1);
    assert!(info(&mut served.client()).contains("\r\nmaxmemory_policy:noeviction\r\n"));
    served.stop();
}

/// Reads of a database that has nothing, and moves out of it.
const READS: &str = "GET a -> nil
    MGET a b -> 2 of them
    EXISTS a -> 0
    TTL a -> -2
    TYPE a -> none
    LRANGE a 0 -1 -> 0 of them
    SUNION a b -> 0 of them
    DBSIZE -> 0
    KEYS * -> 0 of them
    SCAN 0 -> 2 of them
    RANDOMKEY -> nil
    MULTI -> OK
    GET a -> QUEUED
    HGETALL a -> QUEUED
    EXEC -> 2 of them
    MOVE a 0 -> 0
    COPY a b DB 0 -> 0
    WATCH a b -> OK
    MULTI -> OK
    GET a -> QUEUED
    EXEC -> 1 of them
    WATCH a -> OK
    UNWATCH -> OK";
/// Moves into a database, and a transaction in one, of which nothing comes.
const NOTHING: &str = "SELECT 0 -> OK
    MOVE a 7 -> 0
    COPY a b DB 7 -> 0
    MULTI -> OK
    SELECT 9 -> QUEUED
    GET a -> QUEUED
    EXEC -> 2 of them
    SELECT 8 -> OK
    WATCH a -> OK
    SELECT 9 -> OK
    MULTI -> OK
    GET a -> QUEUED
    EXEC -> 1 of them
    MIGRATE 127.0.0.1 1 a 0 100 -> NOKEY";
/// Writes into the databases 3 to 7.
const WRITES: &str = "SELECT 3 -> OK
    GET a -> nil
    SET a 1 -> OK
    GET a -> 1
    SELECT 4 -> OK
    MULTI -> OK
    GET l -> QUEUED
    RPUSH l 1 -> QUEUED
    EXEC -> 2 of them
    SELECT 5 -> OK
    EVAL redis.call('set',KEYS[1],'2') 1 a -> nil
    GET a -> 2
    SELECT 3 -> OK
    COPY a b DB 6 -> 1
    SELECT 6 -> OK
    GET b -> 1
    SELECT 7 -> OK
    WATCH a -> OK
    SET a 1 -> OK
    DEL a -> 1
    MULTI -> OK
    GET a -> QUEUED
    EXEC -> 0 of them";

/// Asks for what is in the databases 1 to 15, of which none is there.
fn read_all_databases(client: &mut Client) {
    for number in 1..16 {
        script(client, &format!("SELECT {number} -> OK"));
        script(client, READS);
        info(client);
    }
    script(client, NOTHING);
}

/// Whoever looks into all databases, as exporters do, makes none of them.
#[test]
fn reads_of_a_database_that_is_not_there_make_none() {
    for engine in ["wip", "silt", "turbo", "sptree"] {
        let dir = scratch(&format!("databases-read-{engine}"));
        let path = dir.join("store");
        let serve = || Served::start(&["--path", arg(&path), "--engine", engine]);
        let listed = || silica_ok(&["keyspace", "list", "--path", arg(&path)]);
        let served = serve();
        let mut client = served.client();
        read_all_databases(&mut client);
        script(&mut client, "SELECT 10 -> OK");
        let statement: [&[u8]; 3] = [b"SILICA.SQL", b"books", b"CREATE TABLE t (a)"];
        client.ask(&statement).expect("a table in a database of SQL");
        drop(client);
        served.stop();
        assert!(!listed().contains("db"), "{engine}: {}", listed());

        let served = serve();
        script(&mut served.client(), WRITES);
        served.stop();
        for number in 1..16 {
            let is_there = (3..8).contains(&number);
            let name = format!("db{number}");
            let all = listed();
            let words = || all.split_ascii_whitespace();
            assert_eq!(words().any(|word| word == name), is_there, "{engine}: {name} in {all}");
        }
    }
}

/// Databases of a cache share its memory and its flash. One is there once something is put into it.
#[test]
fn reads_of_a_database_that_a_cache_does_not_have_make_none() {
    let dir = scratch("databases-read-cache");
    let flash = dir.join("flash");
    let on_flash = ["--cache", "48MiB", "--flash", arg(&flash), "--flash-size", "64MiB"];
    for args in [&on_flash[..2], &on_flash[..]] {
        let file = || std::fs::read(flash.join("DATABASES")).ok();
        let served = Served::start(args);
        let mut client = served.client();
        let databases = |client: &mut Client| -> Vec<u32> {
            let told = info(client);
            (0..16).filter(|number| told.contains(&format!("db{number}_engine:"))).collect()
        };
        let before = file();
        assert_eq!(before.is_some(), args.len() > 2);
        read_all_databases(&mut client);
        assert_eq!(databases(&mut client), [0], "{args:?}");
        assert!(file() == before, "reads changed which databases there are");
        script(&mut client, WRITES);
        assert_eq!(databases(&mut client), [0, 3, 4, 5, 6, 7], "{args:?}");
        drop(client);
        served.stop();
    }
    let served = Served::start(&on_flash[..4]);
    let mut client = served.client();
    script(&mut client, "SELECT 3 -> OK\nGET a -> 1\nSELECT 9 -> OK\nGET a -> nil");
    let told = info(&mut client);
    assert!(told.contains("db3:keys=") && !told.contains("db9_engine:"), "{told}");
    drop(client);
    served.stop();
}
