//! Synced writes of all loops share syncs.

use crate::support::{Client, Probe, request, shared, start_with};
use silica_engine::{Durability, EngineExt};
use silica_proto::Value;
use silica_server::Config;
use std::sync::atomic::Ordering;
use std::time::Duration;

const LOOPS: usize = 4;
const CLIENTS: usize = 16;

fn synced() -> Config {
    Config { durability: Durability::Synced, loops: LOOPS, ..shared() }
}

/// While one sync goes on, the writes of all connections come to the engine; then they share the
/// next.
#[test]
fn writes_that_wait_at_the_same_time_share_a_sync() {
    let (server, probe) = start_with(synced(), Probe::new(true));
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::connect(&server)).collect();
    let held = probe.syncs_held.lock().unwrap();
    let key = |client: usize| format!("key{client}").into_bytes();
    // Bursts of a loop grow while others of it are under way, so each is sent when the one before
    // is in the engine.
    for (index, client) in clients.iter_mut().enumerate().take(LOOPS) {
        client.send(&request(&[b"SET", &key(index), b"value"]));
        while probe.inner.get(&key(index)).unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    for (index, client) in clients.iter_mut().enumerate().skip(LOOPS) {
        client.send(&request(&[b"SET", &key(index), b"value"]));
    }
    drop(held);
    for client in &mut clients {
        assert_eq!(client.replies(1), [Value::Simple("OK".into())]);
    }
    let (writes, syncs) =
        (probe.write_calls.load(Ordering::Relaxed), probe.sync_calls.load(Ordering::Relaxed));
    assert!(writes >= LOOPS as u64, "{writes} bursts");
    // The first burst had the first sync alone; the other loops' shared one.
    assert!(syncs < writes, "{syncs} syncs of {writes} bursts");
    server.stop();
}

#[test]
fn no_write_is_acknowledged_whose_sync_failed() {
    let (server, probe) = start_with(synced(), Probe::new(true));
    let mut clients: Vec<Client> = (0..CLIENTS).map(|_| Client::connect(&server)).collect();
    probe.fail_sync.store(true, Ordering::Relaxed);
    for client in &mut clients {
        client.send(&request(&[b"SET", b"hot", b"value"]));
        client.send(&request(&[b"GET", b"hot"]));
    }
    for client in &mut clients {
        let replies = client.replies(2);
        assert!(matches!(replies[0], Value::Error(_)), "{replies:?}");
        assert_eq!(replies[1], Value::Bulk(b"value".to_vec()), "a read needs no sync");
    }
    server.stop();
}
