//! Reads whose answers are in memory need no worker.

use crate::support::{Client, Probe, request, shared, start_with};
use silica_proto::Value;
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
    for _ in 0..50 {
        client.send(&request(&[b"GET", b"hot1"]).repeat(3));
        client.send(&request(&[b"GET", b"hot-not-there"]));
        let replies = client.replies(4);
        assert_eq!(replies[..3], [bulk(b"one"), bulk(b"one"), bulk(b"one")]);
        assert_eq!(replies[3], Value::Null);
    }
    assert_eq!(probe.get_calls.load(Ordering::Relaxed), 0, "a worker was asked");
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
