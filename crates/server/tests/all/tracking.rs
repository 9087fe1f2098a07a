//! CLIENT TRACKING under load: nobody keeps an older value, and the table is bounded.

use crate::support::{Client, Probe, config, show, start_with};
use silica_base::test_size;
use silica_proto::Value;
use silica_server::{Config, Mode, Server};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// Reads keys as a client with a cache does, until `is_over` and then until nothing is told any
/// more; what it has in its cache.
fn cached(server: &Server, keys: &[String], is_over: &AtomicBool) -> BTreeMap<String, Value> {
    let mut client = Client::connect(server);
    client.ask("HELLO 3");
    assert_eq!(client.ask("CLIENT TRACKING ON"), "OK");
    let mut cache = BTreeMap::new();
    let forget = |push: &[Value], cache: &mut BTreeMap<String, Value>| {
        let [_, Value::Array(keys)] = push else { return cache.clear() };
        for key in keys {
            let Value::Bulk(key) = key else { panic!("a key") };
            cache.remove(std::str::from_utf8(key).unwrap());
        }
    };
    let next = |client: &mut Client, cache: &mut BTreeMap<String, Value>| loop {
        match client.reply().expect("the connection is open") {
            Value::Push(push) => forget(&push, cache),
            other => return other,
        }
    };
    while !is_over.load(SeqCst) {
        for key in keys.iter().filter(|key| !cache.contains_key(*key)).collect::<Vec<_>>() {
            client.send(format!("GET {key}\r\n").as_bytes());
            let value = next(&mut client, &mut cache);
            cache.insert(key.clone(), value);
        }
        client.send(b"PING\r\n");
        next(&mut client, &mut cache);
    }
    // What was told of the last writes is on its way to the client's loop.
    for _ in 0..20 {
        client.send(b"PING\r\n");
        next(&mut client, &mut cache);
        std::thread::sleep(Duration::from_millis(5));
    }
    cache
}

/// Changes keys in several ways, so many times.
fn write(server: &Server, keys: &[String], writer: usize, rounds: usize) {
    let mut client = Client::connect(server);
    for n in 0..rounds {
        let key = &keys[(n * 7 + writer * 3) % keys.len()];
        client.ask(&match n % 4 {
            0 => format!("SET {key} {writer}.{n}"),
            1 => format!("APPEND {key} x"),
            2 => format!("EVAL redis.call('set',KEYS[1],'{n}') 1 {key}"),
            _ => format!("DEL {key}"),
        });
    }
}

#[test]
fn no_client_keeps_an_older_value() {
    let rounds = test_size(300, 2_000, 50_000) as usize;
    let keys: Vec<String> = (0..8).map(|n| format!("k{n}")).collect();
    for mode in [Mode::Crcw, Mode::Crew, Mode::Erew] {
        for may_wait in [false, true] {
            let config = Config { mode, ..config() };
            let (server, _) = start_with(config, Probe::new(may_wait));
            let is_over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let readers: Vec<_> =
                    (0..2).map(|_| scope.spawn(|| cached(&server, &keys, &is_over))).collect();
                let writers: Vec<_> = (0..2)
                    .map(|n| {
                        let (server, keys) = (&server, &keys);
                        scope.spawn(move || write(server, keys, n, rounds))
                    })
                    .collect();
                writers.into_iter().for_each(|writer| writer.join().unwrap());
                is_over.store(true, SeqCst);
                let mut client = Client::connect(&server);
                for reader in readers {
                    for (key, value) in reader.join().unwrap() {
                        let is = client.ask(&format!("GET {key}"));
                        assert_eq!(show(&value), is, "{key}, {mode:?}, {may_wait}");
                    }
                }
            });
            server.stop();
        }
    }
}

#[test]
fn what_the_table_has_no_room_for_is_told() {
    let (server, _) = start_with(config(), Probe::new(false));
    let (mut reader, mut admin) = (Client::connect(&server), Client::connect(&server));
    assert_eq!(admin.ask("CONFIG SET tracking-table-max-keys 2"), "OK");
    reader.ask("HELLO 3");
    reader.ask("CLIENT TRACKING ON");
    let mut seen = Vec::new();
    for n in 0..5 {
        reader.send(format!("GET key:{n}\r\n").as_bytes());
        seen.push(show(&reader.reply().unwrap()));
    }
    reader.send(b"PING\r\n");
    while seen.len() < 9 {
        seen.push(show(&reader.reply().unwrap()));
    }
    let told = seen.iter().filter(|text| text.starts_with(">['invalidate' ['key:")).count();
    assert_eq!(told, 3, "{seen:?}");
    let info = admin.text("INFO stats");
    for line in ["tracking_total_keys:2\r\n", "tracking_total_items:2\r\n"] {
        assert!(info.contains(line), "{info}");
    }
    assert!(admin.text("INFO clients").contains("tracking_clients:1\r\n"));
    // Fewer keys are told at once.
    assert_eq!(admin.ask("CONFIG SET tracking-table-max-keys 1"), "OK");
    assert!(show(&reader.reply().unwrap()).starts_with(">['invalidate' ['key:"));
    server.stop();
}

/// What concerns several databases is told, too: keys have no number of a database, as in Redis.
#[test]
fn changes_of_several_databases_are_told() {
    for mode in [Mode::Crcw, Mode::Erew] {
        let (server, _) = start_with(Config { mode, ..config() }, Probe::new(false));
        let (mut reader, mut writer) = (Client::connect(&server), Client::connect(&server));
        reader.ask("HELLO 3");
        assert_eq!(reader.ask("CLIENT TRACKING ON"), "OK");
        let mut told = |requests: &[&str]| {
            reader.ask("GET a");
            requests.iter().for_each(|request| drop(writer.ask(request)));
            reader.send(b"PING\r\n");
            let mut all = Vec::new();
            loop {
                match show(&reader.reply().expect("the connection is open")) {
                    text if text == "PONG" => return all,
                    text => all.push(text),
                }
            }
        };
        let one = [">['invalidate' ['a']]"];
        assert_eq!(told(&["SET a 1"]), one);
        assert_eq!(told(&["MOVE a 1"]), one);
        assert_eq!(told(&["SET b 2", "COPY b a DB 2"]), one);
        assert_eq!(told(&["SWAPDB 0 1"]), [">['invalidate' nil]"]);
        assert_eq!(told(&["MULTI", "SELECT 1", "SET x 1", "SELECT 0", "DEL a", "EXEC"]), one);
        assert_eq!(told(&["MULTI", "SELECT 1", "FLUSHALL", "EXEC"]), [">['invalidate' nil]"]);
        server.stop();
    }
}
