//! What commands on large objects take: of a loop's time, of memory, and of the count of keys.

use super::start_engine;
use crate::support::{Client, config, script, show};
use silica::OpenOptions;
use silica_server::{Config, Databases, Server};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Adds `len` members to a set, or values to a list.
pub(super) fn fill(client: &mut Client, command: &str, len: usize) {
    let mut left = 0..len;
    while !left.is_empty() {
        let some = left.by_ref().take(500).map(|n| format!(" member:{n:08}"));
        let line = format!("{command}{}", some.collect::<String>());
        let answer = client.ask(&line);
        assert!(answer.starts_with(':'), "{answer}");
    }
}

/// A figure of INFO.
fn figure(client: &mut Client, name: &str) -> u64 {
    let text = client.text("INFO stats");
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().expect("a number")
}

#[test]
fn what_takes_long_runs_apart_and_in_its_order() {
    for engine in ["mica", "wip"] {
        let (server, _directory) = start_engine(engine);
        let mut client = Client::connect(&server);
        fill(&mut client, "SADD large", 60_000);
        fill(&mut client, "RPUSH list", 60_000);
        let before = figure(&mut client, "long_bursts");
        client.send(
            b"SADD small a b\r\nSUNIONSTORE union large small\r\nSCARD union\r\nSADD small c\r\n\
              SORT list ALPHA LIMIT 0 1\r\nSCARD small\r\n\
              MULTI\r\nSADD small d\r\nSINTERCARD 2 large union\r\nSCARD small\r\nEXEC\r\n\
              LINDEX list -1\r\n",
        );
        let answers: Vec<String> = client.replies(12).iter().map(show).collect();
        let wanted = [
            ":2",
            ":60002",
            ":60002",
            ":1",
            "['member:00000000']",
            ":3",
            "OK",
            "QUEUED",
            "QUEUED",
            "QUEUED",
            "[:1 :60000 :4]",
            "'member:00059999'",
        ];
        assert_eq!(answers, wanted, "{engine}");
        let ran = figure(&mut client, "long_bursts") - before;
        assert!(ran >= 3, "{engine}: {ran} of three ran apart");
        // A script runs apart as a whole, whatever it does with the error of its command.
        for (asked, wanted) in [
            (
                "redis.call('set','x','y');return(redis.call('sunionstore','o',KEYS[1],KEYS[2]))",
                60004,
            ),
            (
                "redis.pcall('sunionstore','p',KEYS[1],KEYS[2]);return(redis.call('scard','p'))",
                60004,
            ),
            ("redis.call('copy','large','q');return(redis.call('scard','q'))", 60000),
        ] {
            let before = figure(&mut client, "long_bursts");
            assert_eq!(client.ask(&format!("EVAL {asked} 2 large small")), format!(":{wanted}"));
            let ran = figure(&mut client, "long_bursts") - before;
            assert!(ran >= 1, "{engine}: {asked} ran where others wait for it");
        }
        server.stop();
    }
}

#[test]
fn memory_usage_counts_the_pages_of_objects() {
    for engine in ["mica", "wip"] {
        let (server, _directory) = start_engine(engine);
        let mut client = Client::connect(&server);
        let mut usage = |line: &str| -> u64 {
            let answer = client.ask(&format!("MEMORY USAGE {line}"));
            answer.strip_prefix(':').unwrap_or_else(|| panic!("{answer}")).parse().unwrap()
        };
        usage_of_strings(&mut usage, &server);
        let mut other = Client::connect(&server);
        fill(&mut other, "SADD set", 20_000);
        let (some, all) = (usage("set"), usage("set SAMPLES 0"));
        // 15 bytes a member, and 2 of lengths; leaves are at least half full.
        assert!((20_000 * 17..20_000 * 17 * 5 / 2).contains(&all), "{engine}: {all}");
        assert!(some.abs_diff(all) < all / 3, "{engine}: {some} {all}");
        assert_eq!(other.ask("MEMORY USAGE none"), "nil");
        assert_eq!(other.ask("MEMORY USAGE set SAMPLES -1"), "-ERR syntax error");
        server.stop();
    }
}

/// What only looks at a large object, or changes a small part of it, does so in little memory, as
/// long as the engine publishes in order; one in memory has what is compared.
#[test]
fn objects_larger_than_the_memory_of_a_command_are_passed_by() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = OpenOptions::new().memory_bytes(64 << 20);
    let store = Arc::new(options.open(directory.path().join("store")).expect("a store"));
    let limits = Config { clients_bytes_max: 8 << 20, ..config() };
    let server = Server::start(limits, store as Arc<dyn Databases>).expect("a server");
    let mut client = Client::connect(&server);
    let value = |n: usize| format!("{n:06}{}", "x".repeat(500));
    for start in (0..20_000).step_by(50) {
        let some: String = (start..start + 50).map(|n| format!(" {}", value(n))).collect();
        let list = client.ask(&format!("RPUSH list{some}"));
        assert!(list.starts_with(':'), "{list}");
        let set = client.ask(&format!("SADD set{some}"));
        assert!(set.starts_with(':'), "{set}");
    }
    assert!(client.ask("LRANGE list 0 -1").starts_with("-OOM"), "it is larger");
    let (late, later) = (value(15_000), value(15_001));
    for (line, answer) in [
        (format!("LPOS list {late}"), ":15000"),
        (format!("LINSERT list BEFORE {late} new"), ":20001"),
        ("LPOS list new".to_string(), ":15000"),
        (format!("LREM list 1 {later}"), ":1"),
        (format!("LREM list -1 {}", value(1)), ":1"),
        ("LLEN list".to_string(), ":19999"),
        ("SINTERCARD 2 set set".to_string(), ":20000"),
        (format!("SMOVE set other {late}"), ":1"),
        ("SDIFF set set".to_string(), "[]"),
    ] {
        assert_eq!(client.ask(&line), answer, "{:.30}", line);
    }
    let usage = client.ask("MEMORY USAGE set SAMPLES 0");
    assert!(usage.starts_with(':'), "{usage}");
    server.stop();
}

fn usage_of_strings(usage: &mut dyn FnMut(&str) -> u64, server: &Server) {
    let mut client = Client::connect(server);
    let long = vec![b'x'; 300_000];
    assert_eq!(show(&client.call(&[b"SET", b"long", &long])), "OK");
    assert_eq!(client.ask("SET short x"), "OK");
    assert!((300_000..301_000).contains(&usage("long")), "{}", usage("long"));
    assert!((6..100).contains(&usage("short")), "{}", usage("short"));
}

#[test]
fn a_warm_cache_knows_how_many_keys_it_has() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = [("memory_bytes", "64MiB"), ("warm_restart", "on")];
    let open = || {
        let open = OpenOptions::new().memory_bytes(128 << 20).declare("default", "mica", &options);
        Arc::new(open.open(directory.path().join("store")).expect("a store"))
    };
    let store = open();
    let server = Server::start(config(), Arc::clone(&store) as Arc<dyn Databases>).unwrap();
    let mut client = Client::connect(&server);
    for n in 0..20 {
        fill(&mut client, &format!("RPUSH list:{n}"), 10_000);
    }
    script(&mut client, "SET a 1 -> OK\nDBSIZE -> :21");
    server.stop();
    store.shut().expect("closed");
    drop(store);
    let server = Server::start(config(), open() as Arc<dyn Databases>).unwrap();
    let mut client = Client::connect(&server);
    let began = Instant::now();
    while client.ask("DBSIZE") != ":21" {
        let found = client.ask("DBSIZE");
        assert!(began.elapsed() < Duration::from_secs(20), "{found} keys are none");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(client.ask("LLEN list:7"), ":10000");
    server.stop();
}
