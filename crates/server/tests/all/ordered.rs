//! Databases whose engine keeps its keys in order: SCAN, KEYS and RANDOMKEY.

use crate::support::{Client, Probe, Source, config, show};
use silica_engine::{Durability, EngineExt};
use silica_proto::Value;
use silica_server::{Mode, Server};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A server on an engine with an order, which outlives it.
fn probe() -> Arc<Probe> {
    Arc::new(Probe { ordered: true, ..Probe::new(true) })
}

fn serve(probe: &Arc<Probe>) -> Server {
    // Keys that belong to loops are in the order of partitions.
    let config = silica_server::Config { mode: Mode::Crcw, ..config() };
    Server::start(config, Arc::new(Source::new(Arc::clone(probe)))).unwrap()
}

fn put(probe: &Probe, key: &str) {
    probe.inner.put(key.as_bytes(), b"v", Durability::Buffered).unwrap();
}

fn plain(key: &Value) -> String {
    show(key).trim_matches('\'').to_string()
}

/// A page of `SCAN cursor` with more words: the next cursor and the keys.
fn page(client: &mut Client, cursor: &str, more: &str) -> (String, Vec<String>) {
    let line = format!("SCAN {cursor} {more}");
    let words: Vec<&[u8]> = line.split_ascii_whitespace().map(str::as_bytes).collect();
    let Value::Array(parts) = client.call(&words) else { panic!("an array") };
    let [next, Value::Array(keys)] = &parts[..] else { panic!("two parts") };
    (plain(next), keys.iter().map(plain).collect())
}

/// All pages of a scan.
fn pages(client: &mut Client, more: &str) -> Vec<Vec<String>> {
    let (mut cursor, mut all) = ("0".to_string(), Vec::new());
    loop {
        let (next, keys) = page(client, &cursor, more);
        all.push(keys);
        if next == "0" {
            return all;
        }
        cursor = next;
    }
}

#[test]
fn scan_goes_in_the_order_of_the_keys() {
    let probe = probe();
    let mut keys: Vec<String> = (0..100).map(|n| format!("user:{:03}", n * 37 % 100)).collect();
    keys.extend(["a", "user", "user:", "user;", "z"].map(String::from));
    keys.iter().for_each(|key| put(&probe, key));
    keys.sort();
    let server = serve(&probe);
    let mut client = Client::connect(&server);
    for count in [1, 7, 1000] {
        let found = pages(&mut client, &format!("COUNT {count}"));
        assert!(found.iter().all(|page| page.len() <= count));
        assert_eq!(found.concat(), keys);
    }
    let users = pages(&mut client, "MATCH user:* COUNT 10");
    let within: Vec<_> = keys.iter().filter(|key| key.starts_with("user:")).cloned().collect();
    assert_eq!(users.concat(), within);
    assert_eq!(users.len(), within.len().div_ceil(10), "it looks at nothing else");
    assert_eq!(pages(&mut client, "MATCH *:00?").concat(), within[1..11]);
    assert_eq!(pages(&mut client, "MATCH z"), [["z"]]);
    assert_eq!(pages(&mut client, "MATCH none*"), [[""; 0]]);
    assert_eq!(pages(&mut client, "TYPE hash COUNT 1000"), [[""; 0]]);
    let Value::Array(found) = client.call(&[b"KEYS", b"user:?*"]) else { panic!("an array") };
    assert_eq!(found.iter().map(plain).collect::<Vec<_>>(), within[1..]);
    for _ in 0..20 {
        assert!(keys.contains(&plain(&client.call(&[b"RANDOMKEY"]))));
    }
    client.call(&[b"FLUSHALL"]);
    assert_eq!(client.call(&[b"RANDOMKEY"]), Value::Null);
    assert_eq!(pages(&mut client, ""), [[""; 0]]);
    server.stop();
}

#[test]
fn what_stays_is_visited_though_servers_and_other_keys_go() {
    let probe = probe();
    let keys: BTreeSet<String> = (0..300).map(|n| format!("{n:03}")).collect();
    keys.iter().for_each(|key| put(&probe, key));
    let mut server = serve(&probe);
    let mut client = Client::connect(&server);
    let (mut cursor, mut seen, mut gone) = ("0".to_string(), BTreeSet::new(), BTreeSet::new());
    for round in 0.. {
        let (next, found) = page(&mut client, &cursor, "COUNT 8");
        // The key that the cursor stands for goes, and another comes.
        if let Some(last) = found.last().filter(|_| round % 3 == 0) {
            probe.inner.delete(last.as_bytes(), Durability::Buffered).unwrap();
            gone.insert(last.clone());
            put(&probe, &format!("{last}+"));
        }
        seen.extend(found);
        if next == "0" {
            break;
        }
        cursor = next;
        if round % 10 == 0 {
            server.stop();
            server = serve(&probe);
            client = Client::connect(&server);
        }
    }
    assert!(keys.iter().all(|key| seen.contains(key)), "{:?}", keys.difference(&seen));
    assert!(gone.len() > 5);
    server.stop();
}

#[test]
fn a_pattern_that_changes_on_the_way_ends_or_goes_on() {
    let probe = probe();
    ["a1", "a2", "b1", "b2"].iter().for_each(|key| put(&probe, key));
    let server = serve(&probe);
    let mut client = Client::connect(&server);
    let (cursor, found) = page(&mut client, "0", "COUNT 3");
    assert_eq!(found, ["a1", "a2", "b1"]);
    assert_eq!(page(&mut client, &cursor, "MATCH a*"), ("0".to_string(), vec![]));
    assert_eq!(page(&mut client, &cursor, "MATCH b*").1, ["b2"]);
    let of_a_hashed_engine = (1_u64 << 61).to_string();
    assert_eq!(page(&mut client, &of_a_hashed_engine, "COUNT 1").1, ["a1"]);
    server.stop();
}

#[test]
fn a_database_changes_its_engine_while_it_is_served() {
    let directory = std::env::temp_dir().join(format!("silica-moves-{}", std::process::id()));
    let store = silica::OpenOptions::new().engine("silt").memory_bytes(64 << 20);
    let store: Arc<silica::Silica> = Arc::new(store.open(&directory).unwrap());
    let config = silica_server::Config { mode: Mode::Crcw, ..config() };
    let server = Server::start(config, Arc::clone(&store) as Arc<dyn silica_server::Databases>);
    let server = server.unwrap();
    let mut client = Client::connect(&server);
    for n in 0..2000 {
        let key = format!("key:{n:04}");
        client.call(&[b"SET", key.as_bytes(), b"0"]);
    }
    assert_eq!(client.text("SILICA.MIGRATE 0"), "none");
    assert_eq!(client.ask("SILICA.MIGRATE 0 wip"), "OK");
    let mut rounds = 0;
    loop {
        let keys: Vec<String> =
            (0..20).map(|n| format!("key:{:04}", rounds * 7 % 97 + n)).collect();
        for key in &keys {
            client.call(&[b"INCR", key.as_bytes()]);
        }
        client.send(b"MULTI\r\nSET both:a x\r\nSET both:b x\r\nEXEC\r\n");
        client.replies(4);
        rounds += 1;
        let state = client.text("SILICA.MIGRATE 0");
        assert!(!state.starts_with("failed"), "{state}");
        if state.starts_with("done") {
            break;
        }
    }
    let all = pages(&mut client, "MATCH key:* COUNT 500").concat();
    assert!(all.is_sorted() && all.len() == 2000);
    let mut sum = 0;
    for key in &all {
        let Value::Bulk(value) = client.call(&[b"GET", key.as_bytes()]) else { panic!("{key}") };
        sum += String::from_utf8(value).unwrap().parse::<u64>().unwrap();
    }
    assert_eq!(sum, 20 * rounds, "every INCR counts once");
    assert_eq!(client.text("GET both:b"), "x");
    let again = client.ask("SILICA.MIGRATE 0 wip");
    assert_eq!(again, "OK");
    let told = loop {
        let state = client.text("SILICA.MIGRATE 0");
        if state.starts_with("failed") {
            break state;
        }
    };
    assert!(told.contains("has engine wip already"), "{told}");
    assert!(client.ask("SILICA.MIGRATE 99 wip").contains("out of range"));
    server.stop();
    assert_eq!(store.keyspace("default").unwrap().engine().descriptor().name, "wip");
    drop(store);
    std::fs::remove_dir_all(&directory).unwrap();
}
