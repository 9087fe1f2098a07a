//! Order, sharing of engine calls, and isolation of what is slow.

use crate::support;
use crate::support::{Client, Probe, config, request, shared, start_with};
use silica_base::Prng;
use silica_proto::Value;
use silica_server::{Config, Mode};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

fn bulk(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

fn ok() -> Value {
    Value::Simple("OK".into())
}

/// A random pipeline and the replies that a sequential server would give.
fn pipeline(random: &mut Prng, prefix: &str, requests: usize) -> (Vec<u8>, Vec<Value>) {
    let mut model: BTreeMap<String, String> = BTreeMap::new();
    let mut bytes = Vec::new();
    let mut replies = Vec::new();
    for n in 0..requests {
        let key = format!("{prefix}:{}", random.below(5));
        let value = n.to_string();
        let old = model.get(&key).cloned();
        let shown = old.as_deref().map_or(Value::Null, bulk);
        match random.below(8) {
            0 | 1 => {
                bytes.extend(request(&[b"SET", key.as_bytes(), value.as_bytes()]));
                model.insert(key, value);
                replies.push(ok());
            }
            2 | 3 => {
                bytes.extend(request(&[b"GET", key.as_bytes()]));
                replies.push(shown);
            }
            4 => {
                bytes.extend(request(&[b"DEL", key.as_bytes()]));
                replies.push(Value::Integer(i64::from(model.remove(&key).is_some())));
            }
            5 => {
                bytes.extend(request(&[b"GETSET", key.as_bytes(), value.as_bytes()]));
                model.insert(key, value);
                replies.push(shown);
            }
            6 => {
                bytes.extend(request(&[b"INCR", key.as_bytes()]));
                let next = old.map_or(0, |text| text.parse::<i64>().unwrap()) + 1;
                model.insert(key, next.to_string());
                replies.push(Value::Integer(next));
            }
            _ => {
                bytes.extend(request(&[b"PING"]));
                replies.push(Value::Simple("PONG".into()));
            }
        }
    }
    (bytes, replies)
}

#[test]
fn each_connection_sees_its_own_order() {
    for may_wait in [false, true] {
        let (server, _) = start_with(config(), Probe::new(may_wait));
        let mut random = Prng::new(11);
        let mut clients: Vec<Client> = (0..8).map(|_| Client::connect(&server)).collect();
        for round in 0..20 {
            let mut wants = Vec::new();
            for (index, client) in clients.iter_mut().enumerate() {
                let (bytes, replies) = pipeline(&mut random, &format!("{round}:{index}"), 200);
                client.send(&bytes);
                wants.push(replies);
            }
            for (client, want) in clients.iter_mut().zip(wants) {
                assert_eq!(client.replies(want.len()), want);
            }
        }
        server.stop();
    }
}

#[test]
fn increments_are_atomic_across_connections_and_loops() {
    for may_wait in [false, true] {
        let (server, _) = start_with(config(), Probe::new(may_wait));
        let mut clients: Vec<Client> = (0..10).map(|_| Client::connect(&server)).collect();
        for client in &mut clients {
            client.send(&request(&[b"INCR", b"n"]).repeat(300));
        }
        let mut seen: Vec<i64> = Vec::new();
        for client in &mut clients {
            seen.extend(client.replies(300).iter().map(|value| match value {
                Value::Integer(n) => *n,
                other => panic!("{other:?}"),
            }));
        }
        seen.sort_unstable();
        assert_eq!(seen, (1..=3000).collect::<Vec<_>>());
        server.stop();
    }
}

#[test]
fn a_pipeline_is_few_engine_calls() {
    for may_wait in [false, true] {
        let (server, probe) = start_with(config(), Probe::new(may_wait));
        let mut client = Client::connect(&server);
        let sets: Vec<u8> = (0..500).flat_map(|_| request(&[b"SET", b"k", b"v"])).collect();
        client.send(&sets);
        assert_eq!(client.replies(500), vec![ok(); 500]);
        // A read of the socket may split the pipeline, not shred it.
        assert!(probe.write_calls.load(Relaxed) <= 20, "{}", probe.write_calls.load(Relaxed));
        assert!(probe.sync_calls.load(Relaxed) <= 20);
        client.send(&request(&[b"GET", b"k"]).repeat(500));
        assert_eq!(client.replies(500), vec![bulk("v"); 500]);
        assert!(probe.get_calls.load(Relaxed) <= 20, "{}", probe.get_calls.load(Relaxed));
        server.stop();
    }
}

#[test]
fn updates_are_few_engine_calls_and_keep_their_order() {
    for may_wait in [false, true] {
        let (server, probe) = start_with(shared(), Probe::new(may_wait));
        let mut client = Client::connect(&server);
        client.send(&request(&[b"INCR", b"n"]).repeat(640));
        assert_eq!(client.replies(640), (1..=640).map(Value::Integer).collect::<Vec<_>>());
        // The reference engine takes 64 of a burst at once.
        let calls = probe.update_calls.swap(0, Relaxed);
        assert!(calls <= 30, "{calls}");
        let keys: Vec<String> = (0..100).map(|n| format!("k{n}")).collect();
        let pairs = keys.iter().flat_map(|key| [key.as_bytes(), b"v"]);
        assert_eq!(client.call(&[&b"MSET"[..]].into_iter().chain(pairs).collect::<Vec<_>>()), ok());
        let keys = keys.iter().map(|key| key.as_bytes());
        let del: Vec<&[u8]> = [&b"DEL"[..]].into_iter().chain(keys).chain([&b"k7"[..]]).collect();
        assert_eq!(client.call(&del), Value::Integer(100), "a key that comes twice counts once");
        assert_eq!(client.call(&del), Value::Integer(0));
        assert_eq!(probe.update_calls.load(Relaxed), 4);
        server.stop();
    }
}

#[test]
fn a_wrong_update_hurts_only_its_sender() {
    let (server, _) = start_with(config(), Probe::new(true));
    let mut client = Client::connect(&server);
    let key = vec![b'k'; (1 << 16) + 1];
    let pipeline = [
        request(&[b"APPEND", b"a", b"1"]),
        request(&[b"DEL", b"none", &key]),
        request(&[b"INCRBY", b"a", b"x"]),
        request(&[b"INCRBY", b"a", b"2"]),
        request(&[b"SETNX", b"a", b"9"]),
        request(&[b"SET", b"a", b"4", b"XX", b"GET"]),
        request(&[b"PING"]),
        request(&[b"GETDEL", b"a"]),
        request(&[b"GETDEL", b"a"]),
    ];
    client.send(&pipeline.concat());
    let shown: Vec<String> = client.replies(9).iter().map(support::show).collect();
    let too_large = "-ERR a key of 65537 bytes is over the limit of 65536";
    let no_number = "-ERR value is not an integer or out of range";
    assert_eq!(shown, [":1", too_large, no_number, ":3", ":0", "'3'", "PONG", "'4'", "nil"]);
    let failed = "-ERR the key is on fire";
    assert_eq!(support::show(&client.call(&[b"DEL", b"a", b"on fire"])), failed);
    assert_eq!(client.ask("INCR a"), ":1");
    server.stop();
}

#[test]
fn large_old_values_pass() {
    let (server, _) = start_with(config(), Probe::new(true));
    let mut client = Client::connect(&server);
    let value = vec![b'x'; 5 << 20];
    client.call(&[b"SET", b"big", &value]);
    // Together they are more than a burst answers at once.
    client.send(&request(&[b"SET", b"big", &value, b"XX", b"GET"]).repeat(6));
    client.send(&request(&[b"DEL", b"none", b"big"]));
    for _ in 0..6 {
        assert!(client.reply() == Some(Value::Bulk(value.clone())));
    }
    assert_eq!(client.reply(), Some(Value::Integer(1)));
    server.stop();
}

#[test]
fn msetnx_is_all_or_nothing_across_connections() {
    for may_wait in [false, true] {
        let (server, _) = start_with(config(), Probe::new(may_wait));
        let mut clients: Vec<Client> = (0..8).map(|_| Client::connect(&server)).collect();
        let mut winners = 0;
        for round in 0..50 {
            let [a, b] = ["a", "b"].map(|name| format!("{name}{round}"));
            for (index, client) in clients.iter_mut().enumerate() {
                let me = index.to_string();
                // Half of them name the keys the other way round.
                let (a, b) = if index % 2 == 0 { (&a, &b) } else { (&b, &a) };
                let [a, b, me] = [a, b, &me].map(|text| text.as_bytes());
                client.send(&request(&[b"MSETNX", a, me, b, me]));
            }
            let replies: Vec<Value> = clients.iter_mut().map(|c| c.reply().unwrap()).collect();
            winners += replies.iter().filter(|reply| **reply == Value::Integer(1)).count();
            let won = replies.iter().position(|reply| *reply == Value::Integer(1));
            let won = won.expect("one is first").to_string();
            let both = Value::Array(vec![bulk(&won), bulk(&won)]);
            assert_eq!(clients[0].call(&[b"MGET", a.as_bytes(), b.as_bytes()]), both);
        }
        assert_eq!(winners, 50);
        server.stop();
    }
}

#[test]
fn requests_of_many_connections_share_a_sync() {
    // So long that all of them are sent while the first one's sync is waited for.
    let probe = Probe { delay: Duration::from_millis(200), ..Probe::new(true) };
    let (server, probe) = start_with(config(), probe);
    let mut clients: Vec<Client> = (0..40).map(|_| Client::connect(&server)).collect();
    for client in &mut clients {
        client.call(&[b"PING"]);
    }
    for (n, client) in clients.iter_mut().enumerate() {
        client.send(&request(&[b"SET", n.to_string().as_bytes(), b"v"]));
    }
    for client in &mut clients {
        assert_eq!(client.reply(), Some(ok()));
    }
    let syncs = probe.sync_calls.load(Relaxed);
    assert!(syncs <= 20, "{syncs} syncs for 40 writes at the same time");
    server.stop();
}

#[test]
fn nothing_is_acknowledged_when_the_sync_fails() {
    let (server, probe) = start_with(config(), Probe::new(true));
    probe.fail_sync.store(true, Relaxed);
    let mut client = Client::connect(&server);
    client.send(b"PING\r\nSET a 1\r\nGET missing\r\nINCR n\r\nPING\r\n");
    let shown: Vec<String> = client.replies(5).iter().map(support::show).collect();
    let failed = "-MISCONF the sync failed";
    assert_eq!(shown, ["PONG", failed, "nil", failed, "PONG"]);
    server.stop();
}

/// Asks for PING on other connections until `busy` was answered; returns the longest wait.
fn longest_ping(clients: &mut [Client], busy: &mut Client, for_at_least: Duration) -> Duration {
    let start = Instant::now();
    let mut longest = Duration::ZERO;
    while start.elapsed() < for_at_least {
        for client in &mut *clients {
            let asked = Instant::now();
            assert_eq!(client.ask("GET some"), "nil");
            assert_eq!(client.ask("SET other 1"), "OK");
            longest = longest.max(asked.elapsed());
        }
    }
    busy.reply().expect("an answer in the end");
    longest
}

#[test]
fn long_operations_hold_nobody_up() {
    for may_wait in [false, true] {
        let probe = Probe { walk_delay: Duration::from_millis(600), ..Probe::new(may_wait) };
        let (server, _) = start_with(config(), probe);
        // More long requests than workers may take, and clients on every loop.
        let mut busy: Vec<Client> = (0..4).map(|_| Client::connect(&server)).collect();
        let mut clients: Vec<Client> = (0..4).map(|_| Client::connect(&server)).collect();
        // The machine may hold somebody up; long requests would do so each time.
        let mut longest = (0..10).map(|_| {
            busy.iter_mut().for_each(|client| client.send(b"KEYS none*\r\n"));
            let longest = longest_ping(&mut clients, &mut busy[0], Duration::from_millis(400));
            busy[1..].iter_mut().for_each(|client| drop(client.reply().expect("an answer")));
            longest
        });
        assert!(longest.any(|longest| longest < Duration::from_millis(300)));
        server.stop();
    }
}

#[test]
fn large_values_and_large_replies_pass() {
    for may_wait in [false, true] {
        let (server, _) = start_with(config(), Probe::new(may_wait));
        let mut client = Client::connect(&server);
        let value = vec![b'x'; 9 << 20];
        assert_eq!(client.call(&[b"SET", b"big", &value]), ok());
        // Each is larger than a wave's room, and all together than a burst's.
        client.send(&[request(&[b"GET", b"big"]).repeat(3), request(&[b"PING"])].concat());
        for _ in 0..3 {
            assert!(client.reply() == Some(Value::Bulk(value.clone())));
        }
        assert_eq!(client.reply(), Some(Value::Simple("PONG".into())));
        let Value::Array(values) = client.call(&[b"MGET", b"big", b"none", b"big"]) else {
            panic!("an array")
        };
        assert!(values[0] == Value::Bulk(value) && values[1] == Value::Null && values.len() == 3);
        let keys = vec![&b"missing"[..]; 3000];
        let Value::Array(values) = client.call(&[&[&b"MGET"[..]], &keys[..]].concat()) else {
            panic!("an array")
        };
        assert_eq!(values.len(), 3000);
        server.stop();
    }
}

#[test]
fn a_read_that_fails_is_an_error_of_what_it_has_not_told() {
    for may_wait in [false, true] {
        let (server, probe) = start_with(shared(), Probe::new(may_wait));
        let mut client = Client::connect(&server);
        assert_eq!(client.call(&[b"MSET", b"a", b"1", b"b", b"2"]), ok());
        probe.fail_get.store(true, Relaxed);
        let gets = [&b"a"[..], b"none", b"b", b"none"].map(|key| request(&[b"GET", key]));
        let many = request(&[b"MGET", b"none", b"a", b"none"]);
        client.send(&[gets.concat(), request(&[b"PING"]), many].concat());
        let shown: Vec<String> = client.replies(6).iter().map(support::show).collect();
        let failed = "-ERR the read failed";
        let want = match may_wait {
            true => [failed, failed, failed, failed, "PONG", failed],
            false => ["'1'", "nil", "'2'", "nil", "PONG", failed],
        };
        assert_eq!(shown, want);
        server.stop();
    }
}

#[test]
fn a_stop_finishes_what_is_in_hand() {
    let probe = Probe { delay: Duration::from_millis(200), ..Probe::new(true) };
    let (server, probe) = start_with(config(), probe);
    let mut client = Client::connect(&server);
    client.call(&[b"PING"]);
    client.send(&request(&[b"SET", b"a", b"1"]));
    while probe.sync_calls.load(Relaxed) == 0 {
        std::thread::yield_now();
    }
    let handle = server.stop_handle();
    handle.stop();
    assert_eq!(client.reply(), Some(ok()));
    assert_eq!(client.reply(), None);
    let started = Instant::now();
    server.stop();
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_value_over_the_engine_limit_hurts_only_its_sender() {
    let (server, _) = start_with(config(), Probe::new(true));
    let mut client = Client::connect(&server);
    let key = vec![b'k'; (1 << 16) + 1];
    client.send(&[request(&[b"SET", &key, b"v"]), request(&[b"SET", b"a", b"v"])].concat());
    let shown: Vec<String> = client.replies(2).iter().map(support::show).collect();
    assert_eq!(shown, ["-ERR a key of 65537 bytes is over the limit of 65536", "OK"]);
    server.stop();
}

/// A server whose partitions belong to its loops.
fn owned(mode: Mode) -> (silica_server::Server, std::sync::Arc<Probe>) {
    start_with(Config { mode, ..config() }, Probe::new(false))
}

#[test]
fn updates_go_to_the_owners_of_their_keys_and_hold_nobody_still() {
    for mode in [Mode::Erew, Mode::Crew] {
        let (server, probe) = owned(mode);
        let mut client = Client::connect(&server);
        let keys: Vec<String> = (0..40).map(|n| format!("key {n}")).collect();
        for key in &keys {
            client.call(&[b"SET", key.as_bytes(), b"1"]);
        }
        let taken = probe.take_calls.load(Relaxed);
        let (mut pipeline, mut wants) = (Vec::new(), Vec::new());
        for round in 2..6 {
            for key in keys.iter().map(|key| key.as_bytes()) {
                pipeline.extend(request(&[b"INCR", key]));
                wants.push(Value::Integer(round));
            }
        }
        for key in keys.iter().map(|key| key.as_bytes()) {
            pipeline.extend(request(&[b"APPEND", key, b"0"]));
            pipeline.extend(request(&[b"GETSET", key, b"new"]));
            wants.extend([Value::Integer(2), bulk("50")]);
        }
        client.send(&pipeline);
        assert_eq!(client.replies(wants.len()), wants);
        let names = keys.iter().map(|key| key.as_bytes()).chain([&b"none"[..], b"key 0"]);
        let del: Vec<&[u8]> = [&b"DEL"[..]].into_iter().chain(names).collect();
        assert_eq!(client.call(&del), Value::Integer(40));
        assert_eq!(probe.take_calls.load(Relaxed), taken, "an owner gave its partitions up");
        server.stop();
    }
}

#[test]
fn values_of_all_owners_come_in_their_order_however_many_bytes_they_have() {
    for mode in [Mode::Erew, Mode::Crew] {
        let (server, _) = owned(mode);
        let mut client = Client::connect(&server);
        let mut random = Prng::new(5);
        let entries: Vec<(String, Vec<u8>)> = (0..60)
            .map(|n| {
                let bytes = [1, 1000, 90_000, 700_000][random.below(4) as usize];
                (format!("key {n}"), vec![b'a' + n % 26; bytes])
            })
            .collect();
        for (key, value) in &entries {
            client.call(&[b"SET", key.as_bytes(), value]);
        }
        // One in three is not there.
        let missing = b"missing".to_vec();
        let asked: Vec<Option<&(String, Vec<u8>)>> =
            (0..100).map(|_| entries.get(random.below(90) as usize)).collect();
        let name = |entry: &Option<&(String, Vec<u8>)>| {
            entry.map_or(missing.clone(), |(key, _)| key.as_bytes().to_vec())
        };
        let names: Vec<Vec<u8>> = asked.iter().map(name).collect();
        let mget: Vec<&[u8]> =
            [&b"MGET"[..]].into_iter().chain(names.iter().map(Vec::as_slice)).collect();
        let wants: Vec<Value> = asked
            .iter()
            .map(|entry| entry.map_or(Value::Null, |(_, value)| Value::Bulk(value.clone())))
            .collect();
        assert!(client.call(&mget) == Value::Array(wants.clone()));
        let gets: Vec<u8> = names.iter().flat_map(|key| request(&[b"GET", key])).collect();
        client.send(&gets);
        assert!(client.replies(wants.len()) == wants);
        server.stop();
    }
}
