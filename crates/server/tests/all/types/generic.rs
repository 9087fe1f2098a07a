//! Commands of any type on objects: types, expiry, names, copies; keys and their number; and the
//! space of objects that are no more.

use super::{Compare, Requests, differ, start_engine};
use crate::support::{Client, config, script};
use silica::OpenOptions;
use silica::engine::KeyRange;
use silica_server::{Databases, Server};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[test]
fn keys_of_all_types_are_treated_as_redis_does() {
    differ(&Requests {
        templates: &[
            "RPUSH K V V V",
            "RPUSH K V V V",
            "HSET K F V F V",
            "HSET K F V F V",
            "SET K V",
            "SET K V NX",
            "SET K V GET",
            "SETNX K V",
            "GET K",
            "MGET K L M",
            "GETSET K V",
            "GETDEL K",
            "GETEX K PERSIST",
            "STRLEN K",
            "APPEND K V",
            "GETRANGE K 0 3",
            "SETRANGE K 2 V",
            "INCRBY K N",
            "INCRBYFLOAT K 1.5",
            "SETBIT K 3 1",
            "GETBIT K 3",
            "BITCOUNT K",
            "BITPOS K 1",
            "BITFIELD K INCRBY u8 0 1",
            "BITFIELD_RO K GET u8 0",
            "BITOP OR K L M",
            "MSETNX K V L V",
            "LLEN K",
            "HGET K F",
            "LPUSH K V",
            "TYPE K",
            "EXISTS K L M",
            "TOUCH K L",
            "EXPIREAT K 4000000000",
            "EXPIRETIME K",
            "PERSIST K",
            "EXPIRE K -1",
            "RENAME K L",
            "RENAMENX K L",
            "COPY K L",
            "COPY K L REPLACE",
            "DEL K L",
            "UNLINK K",
            "LRANGE K 0 -1",
            "DBSIZE",
        ],
        compare: |_| Compare::Exactly,
    });
}

/// Pages and other entries of a store.
fn entries(store: &silica::Silica) -> (usize, usize) {
    let keyspace = store.keyspace("default").expect("the keyspace");
    let ordered = Arc::clone(keyspace.engine()).as_ordered().expect("keys in order");
    let snapshot = ordered.snapshot().expect("a snapshot");
    let mut iterator = snapshot.iterate(&KeyRange::ALL).expect("an iterator");
    let (mut pages, mut others) = (0, 0);
    let mut is_there = iterator.seek_to_first().expect("an entry");
    while is_there {
        let is_page = iterator.key().starts_with(&[0xFF, 0x51, 0xCA, 0]);
        if is_page {
            pages += 1
        } else {
            others += 1
        }
        is_there = iterator.next().expect("an entry");
    }
    (pages, others)
}

/// Pushes `len` values of 20 bytes to a list.
fn push(client: &mut Client, key: &str, len: usize) {
    let values = " 01234567890123456789".repeat(100);
    for _ in 0..len / 100 {
        client.ask(&format!("RPUSH {key}{values}"));
    }
}

#[test]
fn pages_of_objects_that_are_no_more_are_reclaimed() {
    let directory = tempfile::tempdir().expect("a directory");
    let options = OpenOptions::new().memory_bytes(64 << 20);
    let store = Arc::new(options.open(directory.path().join("store")).expect("a store"));
    let server = Server::start(config(), Arc::clone(&store) as Arc<dyn Databases>).unwrap();
    let mut client = Client::connect(&server);
    for key in ["deleted", "set", "expired", "renamed-over", "kept", "moved", "flat"] {
        push(&mut client, key, 6000);
    }
    script(
        &mut client,
        "LTRIM flat 0 2 -> OK
         DBSIZE -> :7
         DEL deleted -> :1
         SET set x -> OK
         PEXPIRE expired 1 -> :1
         RENAME kept kept-2 -> OK
         COPY kept-2 kept -> :1
         RENAME kept renamed-over -> OK
         MOVE moved 3 -> :1
         COPY kept-2 copy DB 2 -> :1
         LLEN renamed-over -> :6000
         LLEN kept-2 -> :6000
         SELECT 3 -> OK
         LLEN moved -> :6000
         LTRIM moved 5990 -1 -> OK
         LLEN moved -> :10
         SELECT 2 -> OK
         LLEN copy -> :6000
         FLUSHDB -> OK
         DBSIZE -> :0
         SELECT 0 -> OK",
    );
    let began = Instant::now();
    let want = client.ask("LRANGE kept-2 0 -1");
    // Two lists of 6,000 values in pages of 46 of them.
    let live = 2 * (6000 / 46 + 6);
    while entries(&store).0 > live {
        let (pages, _) = entries(&store);
        assert!(began.elapsed() < Duration::from_secs(60), "{pages} pages are left");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(entries(&store).1, 4, "set, renamed-over, kept-2, flat");
    assert_eq!(client.ask("DBSIZE"), ":4");
    assert_eq!(client.ask("LRANGE kept-2 0 -1"), want);
    assert_eq!(client.ask("LRANGE renamed-over 0 -1"), want);
    // What is not there any more is not walked over for ever, and what is there stays.
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(client.ask("LRANGE kept-2 0 -1"), want);
    server.stop();
}

#[test]
fn pages_are_no_keys() {
    for engine in ["wip", "mica"] {
        let (server, _directory) = start_engine(engine);
        let mut client = Client::connect(&server);
        push(&mut client, "list", 6000);
        client.ask("SET string x");
        client.ask("HSET hash f v");
        assert_eq!(client.ask("DBSIZE"), ":3", "{engine}");
        let mut keys: Vec<String> = Vec::new();
        let mut cursor = "0".to_string();
        loop {
            let text = client.ask(&format!("SCAN {cursor} COUNT 10"));
            let (next, found) = text.trim_start_matches("['").split_once("' [").unwrap();
            keys.extend(found.trim_end_matches(']').split_whitespace().map(String::from));
            cursor = next.into();
            if cursor == "0" {
                break;
            }
        }
        keys.sort();
        keys.dedup();
        assert_eq!(keys, ["'hash'", "'list'", "'string'"], "{engine}");
        for (kind, want) in [("list", "list"), ("string", "string"), ("HASH", "hash")] {
            let text = client.ask(&format!("SCAN 0 TYPE {kind} COUNT 10000"));
            assert_eq!(text, format!("['0' ['{want}']]"), "{engine}");
        }
        assert_eq!(client.ask("SCAN 0 TYPE zset COUNT 10000"), "['0' []]");
        let mut found = client.ask("KEYS *").replace(['[', ']'], "");
        let mut names: Vec<&str> = found.split_whitespace().collect();
        names.sort_unstable();
        found = names.join(" ");
        assert_eq!(found, "'hash' 'list' 'string'");
        for _ in 0..20 {
            let key = client.ask("RANDOMKEY");
            assert!(["'hash'", "'list'", "'string'"].contains(&&key[..]), "{key}");
        }
        assert!(client.text("INFO keyspace").contains("db0:keys=3,expires=0"), "{engine}");
        // Nobody reaches them by their names.
        let page = b"\xFF\x51\xCA\x00aaaaaaaabbbbbbbb";
        for request in [&[b"SET", &page[..], b"x"][..], &[b"INCR", page], &[b"LPUSH", page, b"x"]] {
            let answer = crate::support::show(&client.call(request));
            assert!(answer.starts_with("-ERR keys that begin with"), "{answer}");
        }
        server.stop();
    }
}

/// Few keys are counted, whatever was deleted, and pages of objects are none.
#[test]
fn memcached_counts_keys_as_redis_does() {
    let (server, _directory) = start_engine("wip");
    let mut client = Client::connect(&server);
    for n in 0..600 {
        client.ask(&format!("SET k{n} v"));
    }
    for n in 5..600 {
        client.ask(&format!("DEL k{n}"));
    }
    let elements: String = (0..2000).map(|n| format!(" {n}")).collect();
    client.ask(&format!("RPUSH list{elements}"));
    assert_eq!(client.ask("DBSIZE"), ":6");
    let mut memcached = Client::connect(&server);
    for (word, name) in [("stats", "curr_items"), ("stats databases", "0:curr_items")] {
        memcached.send(format!("{word}\r\n").as_bytes());
        let lines = std::iter::from_fn(|| Some(memcached.line()).filter(|line| line != "END"));
        let lines: Vec<String> = lines.collect();
        assert!(lines.contains(&format!("STAT {name} 6")), "{lines:?}");
    }
    server.stop();
}

/// Entries that memcached's clients store are strings, and objects are none.
#[test]
fn memcached_sees_strings_alone() {
    let (server, _directory) = start_engine("wip");
    let mut client = Client::connect(&server);
    client.ask("RPUSH list x");
    let mut memcached = Client::connect(&server);
    let mut ask = |line: &[u8]| {
        memcached.send(line);
        memcached.line()
    };
    assert_eq!(ask(b"get list\r\n"), "END");
    let refused = ask(b"append list 0 0 1\r\nx\r\n");
    assert!(refused.contains("wrong kind of value"), "{refused}");
    let refused = ask(b"set string 1372192769 0 1\r\nx\r\n");
    assert!(refused.contains("flags from 51CA0000"), "{refused}");
    assert_eq!(ask(b"set string 1372127232 0 1\r\nx\r\n"), "STORED");
    assert_eq!(ask(b"delete list\r\n"), "DELETED");
    assert_eq!(client.ask("EXISTS list"), ":0");
    server.stop();
}
