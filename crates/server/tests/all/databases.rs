//! Databases with different engines in one server, and a store in memory that is full.

use crate::support::{Client, config, script, shared};
use silica::OpenOptions;
use silica_engine::{Engine, Result};
use silica_proto::Value;
use silica_server::{Config, Databases, Server};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

/// A store in a directory that goes when it is dropped.
struct Stored(Arc<silica::Silica>, std::path::PathBuf);

impl Stored {
    /// Database 0 durable, database 1 a cache, database 2 a store in memory.
    fn open(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("silica-db-{name}-{}", std::process::id()));
        let cache = [("memory_bytes", "4MiB")];
        let store = [("memory_bytes", "4MiB"), ("eviction", "none")];
        let options = OpenOptions::new().memory_bytes(64 << 20);
        let options = options.declare("db1", "mica", &cache).declare("db2", "mica", &store);
        let silica = options.open(&path).unwrap();
        for name in ["default", "db1", "db2"] {
            silica.keyspace(name).unwrap();
        }
        Stored(Arc::new(silica), path)
    }

    /// Database 0 has no partitions that loops could own, whatever the mode of the tests.
    fn serve(&self, config: Config) -> Server {
        let config = Config { mode: shared().mode, ..config };
        Server::start(config, Arc::clone(&self.0) as Arc<dyn Databases>).unwrap()
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.1);
    }
}

#[test]
fn engines_stand_side_by_side() {
    let stored = Stored::open("side");
    let admin = Some("127.0.0.1:0".parse().unwrap());
    let server = stored.serve(Config { admin, ..config() });
    let mut client = Client::connect(&server);
    script(
        &mut client,
        "SET a durable -> OK
         SELECT 1 -> OK
         GET a -> nil
         SET a hot EX 100 -> OK
         MULTI -> OK
         INCR n -> QUEUED
         APPEND a ter -> QUEUED
         EXEC -> [:1 :6]
         SELECT 2 -> OK
         SETNX a stored -> :1
         SELECT 0 -> OK
         MULTI -> OK
         GET a -> QUEUED
         SELECT 1 -> QUEUED
         GET a -> QUEUED
         EXEC -> ['durable' OK 'hotter']
         SELECT 0 -> OK
         COPY a b DB 1 -> :1
         SELECT 1 -> OK
         GETDEL b -> 'durable'
         GET a -> 'hotter'",
    );
    let info = client.text("INFO everything");
    for line in [
        "db0_engine:wip",
        "db0_in_memory:0",
        "db1_engine:mica",
        "db1_in_memory:1",
        "db2_engine:mica",
        "maxmemory_policy:noeviction",
        "db1:keys=2,",
        "db2:keys=1,",
    ] {
        assert!(info.contains(&format!("\r\n{line}")), "{line}: {info}");
    }
    let mut stats = TcpStream::connect(server.local_addr()).unwrap();
    stats.write_all(b"stats databases\r\n").unwrap();
    let lines: Vec<String> = BufReader::new(stats)
        .lines()
        .map(|line| line.unwrap())
        .take_while(|line| line != "END")
        .collect();
    for line in ["STAT 0:engine wip", "STAT 1:engine mica", "STAT 1:curr_items 2"] {
        assert!(lines.iter().any(|other| other == line), "{line}: {lines:?}");
    }
    assert!(lines.iter().any(|line| line.starts_with("STAT 2:evictions 0")), "{lines:?}");
    let mut http = TcpStream::connect(server.admin_addr().unwrap()).unwrap();
    http.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    http.read_to_string(&mut page).unwrap();
    for labels in ["{db=\"0\",engine=\"wip\"}", "{db=\"1\",engine=\"mica\"}"] {
        assert!(page.contains(labels), "{labels}: {page}");
    }
    server.stop();
}

#[test]
fn figures_of_every_database_are_there_from_the_start() {
    let stored = Stored::open("start");
    stored.0.keyspace("db3").unwrap().put("a", "1").unwrap();
    let server = stored.serve(config());
    let info = Client::connect(&server).text("INFO everything");
    for line in ["db1_engine:mica", "db3_engine:wip", "db3:keys=1,"] {
        assert!(info.contains(&format!("\r\n{line}")), "{line}: {info}");
    }
    // Ids of hexadecimal digits may have these three, too.
    assert!(!info.contains("\r\ndb4"), "nobody has asked for it");
    server.stop();
}

/// One database: a store in memory.
struct One(Arc<dyn Engine>);

impl Databases for One {
    fn open(&self, _: u32) -> Result<Arc<dyn Engine>> {
        Ok(Arc::clone(&self.0))
    }
}

/// Asks over memcached's protocol: one line.
fn memcached(stream: &mut BufReader<TcpStream>, request: &str) -> String {
    stream.get_mut().write_all(request.as_bytes()).unwrap();
    let mut line = String::new();
    stream.read_line(&mut line).unwrap();
    line.trim_end().to_string()
}

const FULL: &str = "SERVER_ERROR out of memory storing object";

#[test]
fn a_full_store_refuses_and_loses_nothing() {
    let options = OpenOptions::new().memory_bytes(2 << 20).set("eviction", "none");
    let engine = options.open_cache().unwrap();
    let config = Config { databases: 1, ..config() };
    let server = Server::start(config, Arc::new(One(engine))).unwrap();
    let mut client = Client::connect(&server);
    let policy = client.ask("CONFIG GET maxmemory-policy");
    assert_eq!(policy, "['maxmemory-policy' 'noeviction']");
    let value = "v".repeat(1000);
    let mut stored = 0;
    let refused = loop {
        match client.ask(&format!("SET key{stored} {value}{stored}")) {
            reply if reply == "OK" => stored += 1,
            reply => break reply,
        }
        assert!(stored < 3000, "2 MiB have no room for so much");
    };
    assert!(refused.starts_with("-OOM "), "{refused}");
    assert!(stored > 1000, "{stored} of 1000 bytes in 2 MiB");
    let line = format!("SET more {}", "m".repeat(100_000));
    assert!(client.ask(&line).starts_with("-OOM "));
    let mset = format!("MSET key0 changed x {} y {}", "x".repeat(90_000), "y".repeat(90_000));
    assert!(client.ask(&mset).starts_with("-OOM "));
    assert!(client.ask(&format!("APPEND key1 {}", "a".repeat(100_000))).starts_with("-OOM "));
    let mut text = BufReader::new(TcpStream::connect(server.local_addr()).unwrap());
    let set = format!("set big 0 0 100000\r\n{}\r\n", "b".repeat(100_000));
    assert_eq!(memcached(&mut text, &set), FULL);
    assert_eq!(memcached(&mut text, &set.replace("set big", "add big")), FULL);
    let meta = format!("ms big 100000\r\n{}\r\n", "b".repeat(100_000));
    assert_eq!(memcached(&mut text, &meta), FULL);
    for n in 0..stored {
        assert_eq!(client.ask(&format!("GET key{n}")), format!("'{value}{n}'"), "nothing is lost");
    }
    assert_eq!(client.ask("EXISTS more x y big"), ":0");
    assert_eq!(client.ask("DBSIZE"), format!(":{stored}"));
    // What is deleted makes room, whoever deletes it and whoever takes it.
    for n in 0..150 {
        assert_eq!(client.ask(&format!("DEL key{n}")), ":1");
        assert_eq!(memcached(&mut text, &format!("delete key{}\r\n", 150 + n)), "DELETED");
    }
    assert_eq!(memcached(&mut text, &set), "STORED");
    assert_eq!(client.ask(&line), "OK");
    let Value::Bulk(big) = client.call(&[b"GET", b"big"]) else { panic!("it is there") };
    assert!(big.len() == 100_000 && big.iter().all(|byte| *byte == b'b'));
    for n in 300..stored {
        assert_eq!(
            client.ask(&format!("STRLEN key{n}")),
            format!(":{}", 1000 + n.to_string().len())
        );
    }
    server.stop();
}
