//! Servers that are stopped and started again: after an orderly stop nobody fetches all data, after
//! a kill, or a write by somebody else, nothing is wrong.

use super::*;
use crate::support::{arg, free_port, scratch, silica_ok};

/// Starts the server of `path` at `port`.
fn start_again(path: &Path, port: u16, extra: &[&str]) -> Server {
    let listen = format!("127.0.0.1:{port}");
    Server::start_at(path, &listen, &[&["--loops", "2"], extra].concat())
}

/// Full and partial synchronisations that a server has given since it was started.
fn syncs(client: &mut Client) -> (String, String) {
    (info(client, "stats", "sync_full"), info(client, "stats", "sync_partial_ok"))
}

fn is_up(replica: &Server) -> bool {
    let Reply::Bytes(Some(text)) = try_ask(&mut replica.client(), "INFO replication") else {
        return false;
    };
    String::from_utf8_lossy(&text).contains("master_link_status:up")
}

/// A primary and a replica that has what it has.
fn pair(dir: &Path) -> (u16, Server, u16, Server) {
    let (port, other) = (free_port(), free_port());
    let primary = start_again(&dir.join("primary"), port, &[]);
    write(&mut primary.client(), &mut Prng::new(1), 400);
    let replica = start_replica_at(dir, other, port);
    wait_for("the link", || is_up(&replica));
    must_be_equal(&mut primary.client(), &mut replica.client(), "at first");
    (port, primary, other, replica)
}

fn start_replica_at(dir: &Path, port: u16, of: u16) -> Server {
    start_again(&dir.join("replica"), port, &["--replica-of", &format!("127.0.0.1:{of}")])
}

#[test]
fn after_an_orderly_stop_replicas_go_on() {
    let dir = scratch("replication-restarted");
    let (port, primary, other, replica) = pair(&dir);
    // The primary alone; its replica is there meanwhile.
    primary.stop();
    let primary = start_again(&dir.join("primary"), port, &[]);
    let mut one = primary.client();
    write(&mut one, &mut Prng::new(2), 300);
    wait_for("the link", || is_up(&replica));
    must_be_equal(&mut one, &mut replica.client(), "the primary was restarted");
    assert_eq!(syncs(&mut one), ("0".into(), "1".into()), "the primary was restarted");
    // Both: what the replica has missed is in the file.
    replica.stop();
    write(&mut one, &mut Prng::new(3), 300);
    ask(&mut one, "SET short x PX 1");
    drop(one);
    primary.stop();
    let primary = start_again(&dir.join("primary"), port, &[]);
    let replica = start_replica_at(&dir, other, port);
    wait_for("the link", || is_up(&replica));
    let mut one = primary.client();
    must_be_equal(&mut one, &mut replica.client(), "both were restarted");
    assert_eq!(syncs(&mut one), ("0".into(), "1".into()), "both were restarted");
    // The replica alone.
    replica.stop();
    write(&mut one, &mut Prng::new(4), 300);
    let replica = start_replica_at(&dir, other, port);
    wait_for("the link", || is_up(&replica));
    must_be_equal(&mut one, &mut replica.client(), "the replica was restarted");
    assert_eq!(syncs(&mut one), ("0".into(), "2".into()), "the replica was restarted");
    // They change their places.
    drop(one);
    primary.stop();
    ask(&mut replica.client(), "REPLICAOF NO ONE");
    let primary =
        start_again(&dir.join("primary"), port, &["--replica-of", &format!("127.0.0.1:{other}")]);
    write(&mut replica.client(), &mut Prng::new(5), 300);
    wait_for("the link", || is_up(&primary));
    must_be_equal(&mut replica.client(), &mut primary.client(), "the roles have changed");
    assert_eq!(info(&mut replica.client(), "stats", "sync_full"), "0");
    primary.stop();
    replica.stop();
}

#[test]
fn after_a_kill_or_a_write_of_another_all_data_comes() {
    let dir = scratch("replication-killed-primary");
    let (port, primary, other, replica) = pair(&dir);
    write(&mut primary.client(), &mut Prng::new(2), 300);
    primary.kill();
    let primary = start_again(&dir.join("primary"), port, &[]);
    write(&mut primary.client(), &mut Prng::new(3), 100);
    wait_for("the link", || is_up(&replica));
    must_be_equal(&mut primary.client(), &mut replica.client(), "the primary was killed");
    assert_eq!(syncs(&mut primary.client()), ("1".into(), "0".into()));
    // Both are stopped; then somebody else writes.
    replica.stop();
    primary.stop();
    assert!(dir.join("primary/REPLICATION").exists() && dir.join("replica/REPLICATION").exists());
    silica_ok(&["put", "by-hand", "v", "--path", arg(&dir.join("primary"))]);
    assert!(!dir.join("primary/REPLICATION").exists());
    let primary = start_again(&dir.join("primary"), port, &[]);
    let replica = start_replica_at(&dir, other, port);
    wait_for("the link", || is_up(&replica));
    let mut one = primary.client();
    must_be_equal(&mut one, &mut replica.client(), "somebody else has written");
    assert_eq!(syncs(&mut one), ("1".into(), "0".into()));
    let by_hand = try_ask(&mut replica.client(), "GET by-hand");
    assert_eq!(by_hand, Reply::Bytes(Some(b"v".to_vec())));
    // A kill of the replica, in the middle of writes.
    let mut sender = primary.client();
    let writer = std::thread::spawn(move || write(&mut sender, &mut Prng::new(6), 1_000));
    replica.kill();
    let replica = start_replica_at(&dir, other, port);
    writer.join().expect("the writer is well");
    wait_for("the link", || is_up(&replica));
    must_be_equal(&mut one, &mut replica.client(), "the replica was killed");
    primary.stop();
    replica.stop();
}

#[test]
fn a_replica_that_is_redis_goes_on_too() {
    if !has_redis() {
        return;
    }
    let dir = scratch("replication-restarted-redis");
    let port = free_port();
    let primary = start_again(&dir.join("primary"), port, &[]);
    write(&mut primary.client(), &mut Prng::new(1), 400);
    let own = dir.join("redis");
    std::fs::create_dir_all(&own).expect("the directory can be made");
    let redis = Server::start_redis_in(&own, &own.join("redis"));
    follow(&mut redis.client(), port);
    wait_for("the link", || is_up(&redis));
    must_be_equal(&mut primary.client(), &mut redis.client(), "at first");
    primary.stop();
    let primary = start_again(&dir.join("primary"), port, &[]);
    write(&mut primary.client(), &mut Prng::new(2), 300);
    wait_for("the link", || is_up(&redis));
    must_be_equal(&mut primary.client(), &mut redis.client(), "the primary was restarted");
    assert_eq!(syncs(&mut primary.client()), ("0".into(), "1".into()));
    primary.stop();
    redis.stop();
}
