//! Reads whose answers are in memory need no worker.

use crate::support::{Client, Probe, request, shared, start_with};
use silica_proto::Value;
use silica_server::Config;
use std::sync::atomic::Ordering;

fn bulk(bytes: &[u8]) -> Value {
    Value::Bulk(bytes.to_vec())
}

#[test]
fn what_is_in_memory_is_answered_by_the_loop() {
    let (server, probe) = start_with(shared(), Probe::new(true));
    let mut client = Client::connect(&server);
    client.send(&request(&[b"SET", b"hot1", b"one"]));
    assert_eq!(client.replies(1), [Value::Simple("OK".into())]);
    // The server itself has looked for what a replica leaves.
    let before = probe.get_calls.load(Ordering::Relaxed);
    for _ in 0..50 {
        client.send(&request(&[b"GET", b"hot1"]).repeat(3));
        client.send(&request(&[b"GET", b"hot-not-there"]));
        let replies = client.replies(4);
        assert_eq!(replies[..3], [bulk(b"one"), bulk(b"one"), bulk(b"one")]);
        assert_eq!(replies[3], Value::Null);
    }
    assert_eq!(probe.get_calls.load(Ordering::Relaxed), before, "a worker was asked");
    client.send(&request(&[b"INFO", b"stats"]));
    let Value::Bulk(info) = &client.replies(1)[0] else { panic!("INFO is text") };
    let info = String::from_utf8_lossy(info).into_owned();
    assert!(info.contains("keyspace_hits:150\r\n"), "{info}");
    assert!(info.contains("keyspace_misses:50\r\n"), "{info}");
    server.stop();
}

/// A worker goes on where the loop had to stop, and each key is counted once.
#[test]
fn what_is_not_in_memory_is_answered_in_its_order() {
    let (server, probe) = start_with(shared(), Probe::new(true));
    let mut client = Client::connect(&server);
    for key in [&b"hot1"[..], b"cold1", b"cold2"] {
        client.send(&request(&[b"SET", key, key]));
        assert_eq!(client.replies(1), [Value::Simple("OK".into())]);
    }
    let asked = [&b"hot1"[..], b"cold1", b"hot1", b"cold2", b"hot-none", b"hot1"];
    let rounds = 100;
    for _ in 0..rounds {
        for key in asked {
            client.send(&request(&[b"GET", key]));
        }
        client.send(&request(&[b"MGET", b"hot1", b"cold2", b"none"]));
        let replies = client.replies(asked.len() + 1);
        for (key, reply) in asked.iter().zip(&replies) {
            let want = if *key == b"hot-none" { Value::Null } else { bulk(key) };
            assert_eq!(*reply, want, "{}", String::from_utf8_lossy(key));
        }
        let several = Value::Array(vec![bulk(b"hot1"), bulk(b"cold2"), Value::Null]);
        assert_eq!(replies[asked.len()], several);
    }
    assert!(probe.get_calls.load(Ordering::Relaxed) > 0, "nobody asked for what was cold");
    client.send(&request(&[b"INFO", b"stats"]));
    let Value::Bulk(info) = &client.replies(1)[0] else { panic!("INFO is text") };
    let info = String::from_utf8_lossy(info).into_owned();
    assert!(info.contains(&format!("keyspace_hits:{}\r\n", 7 * rounds)), "{info}");
    assert!(info.contains(&format!("keyspace_misses:{}\r\n", 2 * rounds)), "{info}");
    server.stop();
}

/// A large value is not answered on the loop, and a read that finds no room for all its values
/// begins anew: each of its keys is counted once all the same.
#[test]
fn a_key_counts_once_however_often_it_is_looked_for() {
    // The one engine leaves reads to workers, the other's are answered while it reports.
    for may_wait in [true, false] {
        let config = Config { clients_bytes_max: 32 << 20, ..shared() };
        let (server, probe) = start_with(config, Probe::new(may_wait));
        let mut client = Client::connect(&server);
        // Three fit into the room of a thread, and the fourth does not.
        let value = vec![b'v'; 300 << 10];
        let keys = [&b"hot1"[..], b"hot2", b"cold1", b"hot3", b"hot4"];
        for key in keys {
            client.send(&request(&[b"SET", key, &value]));
            assert_eq!(client.replies(1), [Value::Simple("OK".into())]);
        }
        let all = [&[&b"MGET"[..]], &keys[..], &[b"none"]].concat();
        let rounds = 5;
        for _ in 0..rounds {
            keys.iter().for_each(|key| client.send(&request(&[b"GET", key])));
            client.send(&request(&all));
            let replies = client.replies(keys.len() + 1);
            assert!(replies[..keys.len()].iter().all(|reply| *reply == bulk(&value)));
            let Value::Array(several) = &replies[keys.len()] else { panic!("MGET has many") };
            assert_eq!((several.len(), &several[keys.len()]), (keys.len() + 1, &Value::Null));
        }
        assert!(probe.get_calls.load(Ordering::Relaxed) > 0, "all at once has room");
        client.send(&request(&[b"INFO", b"stats"]));
        let Value::Bulk(info) = &client.replies(1)[0] else { panic!("INFO is text") };
        let info = String::from_utf8_lossy(info).into_owned();
        let hits = 2 * keys.len() * rounds;
        assert!(info.contains(&format!("keyspace_hits:{hits}\r\n")), "{info}");
        assert!(info.contains(&format!("keyspace_misses:{rounds}\r\n")), "{info}");
        server.stop();
    }
}
