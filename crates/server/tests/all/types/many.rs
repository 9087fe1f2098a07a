//! Many connections on the same large objects: no change is lost, and every object stays sound.

use super::engine_pages::check_all;
use crate::support::{Client, Probe, config, shared, start_with};
use silica::OpenOptions;
use silica_base::{Prng, test_size};
use silica_engine::Engine;
use silica_proto::Value;
use silica_server::{Config, Databases, Server};
use std::collections::BTreeSet;
use std::sync::Arc;

const CLIENTS: u64 = 8;
const COUNTERS: u64 = 300;

/// What one client has done: its sum of each counter, its members, and the values that it pushed
/// and popped.
#[derive(Default)]
struct Did {
    counts: Vec<i64>,
    members: BTreeSet<String>,
    pushed: u64,
    popped: u64,
}

fn work(client: &mut Client, nth: u64, rounds: u64) -> Did {
    let mut prng = Prng::new(nth);
    let mut did = Did { counts: vec![0; COUNTERS as usize], ..Did::default() };
    for round in 0..rounds {
        let mut lines = String::new();
        for _ in 0..4 {
            let (counter, by) = (prng.below(COUNTERS), prng.below(9) as i64 - 4);
            did.counts[counter as usize] += by;
            lines += &format!("HINCRBY counters counter:{counter:06} {by}\r\n");
        }
        let member = format!("member:{nth}:{:06}", prng.below(400));
        if prng.below(3) > 0 {
            lines += &format!("SADD members {member}\r\n");
            did.members.insert(member);
        } else {
            lines += &format!("SREM members {member}\r\n");
            did.members.remove(&member);
        }
        lines += &format!("RPUSH queue {nth}:{round}\r\nLPUSH queue {nth}:{round}\r\n");
        lines += if prng.one_in(2) { "LPOP queue\r\n" } else { "RPOP queue\r\n" };
        client.send(lines.as_bytes());
        did.pushed += 2;
        for reply in client.replies(8) {
            match reply {
                Value::Integer(_) => {}
                Value::Bulk(_) => did.popped += 1,
                other => panic!("{other:?}"),
            }
        }
    }
    did
}

fn torture(server: &Server, engine: &Arc<dyn Engine>, rounds: u64) {
    let did: Vec<Did> = std::thread::scope(|scope| {
        let start = |nth| {
            let mut client = Client::connect(server);
            scope.spawn(move || work(&mut client, nth, rounds))
        };
        let threads: Vec<_> = (0..CLIENTS).map(start).collect();
        threads.into_iter().map(|thread| thread.join().expect("it runs")).collect()
    });
    let mut client = Client::connect(server);
    for counter in 0..COUNTERS {
        let sum: i64 = did.iter().map(|did| did.counts[counter as usize]).sum();
        let found = client.ask(&format!("HGET counters counter:{counter:06}"));
        let is_right = found == format!("'{sum}'") || (found == "nil" && sum == 0);
        assert!(is_right, "counter {counter}: {found}, not {sum}");
    }
    let wanted: BTreeSet<&String> = did.iter().flat_map(|did| &did.members).collect();
    assert_eq!(client.ask("SCARD members"), format!(":{}", wanted.len()));
    let Value::Array(found) = client.call(&[b"SMEMBERS", b"members"]) else { panic!("no array") };
    let text = |value: &Value| match value {
        Value::Bulk(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        found.iter().map(text).collect::<Vec<_>>(),
        wanted.into_iter().cloned().collect::<Vec<_>>()
    );
    let left: u64 = did.iter().map(|did| did.pushed - did.popped).sum();
    assert_eq!(client.ask("LLEN queue"), format!(":{left}"));
    assert_eq!(check_all(engine), (3, 0), "objects, and pages of nobody");
}

#[test]
fn no_change_of_many_connections_is_lost() {
    let rounds = test_size(100, 400, 20_000);
    for name in ["wip", "mica"] {
        let directory = tempfile::tempdir().expect("a directory");
        let options = OpenOptions::new().memory_bytes(128 << 20);
        let options = match name {
            "wip" => options,
            other => options.declare("default", other, &[("memory_bytes", "32MiB")]),
        };
        let store = Arc::new(options.open(directory.path().join("store")).expect("a store"));
        let engine = Databases::open(&*store, 0).expect("its engine");
        let config = Config { loops: 4, ..shared() };
        let server = Server::start(config, store as Arc<dyn Databases>).expect("a server");
        torture(&server, &engine, rounds);
        server.stop();
    }
    let (server, probe) = start_with(Config { loops: 4, ..config() }, Probe::new(false));
    let engine: Arc<dyn Engine> = Arc::clone(&probe.inner);
    torture(&server, &engine, rounds);
    server.stop();
}
