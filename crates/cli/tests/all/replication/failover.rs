//! FAILOVER: a primary hands its role over, Silica to Silica and between Silica and Redis.

use super::*;
use crate::support::scratch;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

fn start(is_redis: bool, dir: &Path, name: &str) -> Server {
    let path = dir.join(name);
    match is_redis {
        false => Server::start(&path, &["--loops", "2"]),
        true => {
            std::fs::create_dir_all(&path).expect("the directory can be made");
            let redis = Server::start_redis_in(&path, &path.join("redis"));
            ask(&mut redis.client(), "CONFIG SET repl-diskless-sync-delay 0");
            redis
        }
    }
}

fn refusal(client: &mut Client, line: &str) -> String {
    match try_ask(client, line) {
        Reply::Error(text) => text,
        other => panic!("{line}: {other:?}"),
    }
}

/// Counts a key up until it is answered that this is a replica; how often that was acknowledged.
fn count_up(port: u16, counted: &AtomicU64) {
    let mut client = Client::connect(port).expect("the primary accepts");
    loop {
        match client.ask(&[b"INCR", b"counted"]) {
            Ok(Reply::Number(_)) => counted.fetch_add(1, Relaxed),
            Ok(Reply::Error(text)) if text.starts_with("READONLY") => return,
            other => panic!("INCR: {other:?}"),
        };
    }
}

/// The primary at `from` hands over to `to` while a client writes; nothing is lost, and no data is
/// sent again.
fn hands_over(from: bool, to: bool) {
    let context = format!("redis: {from} to {to}");
    let dir = scratch(&format!("replication-failover-{from}-{to}"));
    let (first, second) = (start(from, &dir, "first"), start(to, &dir, "second"));
    let third = start(false, &dir, "third");
    let [mut one, mut two, mut three] = [&first, &second, &third].map(Server::client);
    write(&mut one, &mut Prng::new(1), 300);
    follow(&mut two, first.port);
    follow(&mut three, first.port);
    must_be_equal(&mut one, &mut two, &context);
    must_be_equal(&mut one, &mut three, &context);
    let counted = Arc::new(AtomicU64::new(0));
    let (port, seen) = (first.port, Arc::clone(&counted));
    let writer = std::thread::spawn(move || count_up(port, &seen));
    wait_for("writes", || counted.load(Relaxed) > 100);
    ask(&mut one, &format!("FAILOVER TO 127.0.0.1 {} TIMEOUT 30000", second.port));
    writer.join().expect("the writer is well");
    wait_for("the new primary", || info(&mut two, "replication", "role") == "master");
    let counted = counted.load(Relaxed).to_string().into_bytes();
    assert_eq!(ask(&mut two, "GET counted"), Reply::Bytes(Some(counted)), "{context}");
    wait_for("the old primary", || {
        info(&mut one, "replication", "role") == "slave"
            && info(&mut one, "replication", "master_link_status") == "up"
    });
    assert_eq!(info(&mut one, "replication", "master_failover_state"), "no-failover");
    write(&mut two, &mut Prng::new(2), 300);
    must_be_equal(&mut two, &mut one, &context);
    // It follows the old primary still, which passes on what it gets.
    must_be_equal(&mut two, &mut three, &context);
    assert_eq!(info(&mut two, "stats", "sync_full"), "0", "{context}: it went on where it was");
}

#[test]
fn the_role_goes_to_a_replica_without_a_lost_write() {
    hands_over(false, false);
    if has_redis() {
        hands_over(false, true);
        hands_over(true, false);
    }
}

#[test]
fn a_failover_that_cannot_be_is_refused_or_ends() {
    let dir = scratch("replication-failover-refused");
    let (first, second) = (start(false, &dir, "first"), start(false, &dir, "second"));
    let [mut one, mut two] = [&first, &second].map(Server::client);
    let known = format!("127.0.0.1 {}", second.port);
    assert_eq!(refusal(&mut one, "FAILOVER"), "ERR FAILOVER requires connected replicas.");
    assert_eq!(refusal(&mut one, "FAILOVER ABORT"), "ERR No failover in progress.");
    follow(&mut two, first.port);
    must_be_equal(&mut one, &mut two, "at first");
    for (line, text) in [
        ("FAILOVER TIMEOUT 0", "ERR FAILOVER timeout must be greater than 0"),
        ("FAILOVER TIMEOUT x", "ERR value is not an integer or out of range"),
        ("FAILOVER SOON", "ERR syntax error"),
        ("FAILOVER TO 127.0.0.1 1", "ERR FAILOVER target HOST and PORT is not a replica."),
        (
            &format!("FAILOVER TO {known} FORCE"),
            "ERR FAILOVER with force option requires both a timeout and target HOST and IP.",
        ),
    ] {
        assert_eq!(refusal(&mut one, line), text, "{line}");
    }
    let told = refusal(&mut two, "FAILOVER");
    assert_eq!(told, "ERR FAILOVER is not valid when server is a replica.");
    // The replica stands still: its primary waits for it, and clients wait for the primary.
    let stop = |name: &str| {
        let pid = second.pid().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().expect("kill runs").success());
    };
    stop("-STOP");
    ask(&mut one, "SET behind 1");
    // From before the request: on a busy machine the answers below take part of the time.
    let began = Instant::now();
    ask(&mut one, "FAILOVER TIMEOUT 1500");
    assert_eq!(info(&mut one, "replication", "master_failover_state"), "waiting-for-sync");
    assert_eq!(refusal(&mut one, "FAILOVER"), "ERR FAILOVER already in progress.");
    ask(&mut one, "CLIENT UNPAUSE");
    ask(&mut first.client(), "SET waits 1");
    assert!(began.elapsed() >= Duration::from_millis(1490), "{:?}", began.elapsed());
    assert_eq!(info(&mut one, "replication", "role"), "master");
    assert_eq!(info(&mut one, "replication", "master_failover_state"), "no-failover");
    ask(&mut one, "FAILOVER");
    ask(&mut one, "FAILOVER ABORT");
    ask(&mut one, "SET after 1");
    // With FORCE it is asked in any case; one that does not answer does not take over.
    ask(&mut one, "CONFIG SET repl-timeout 1");
    ask(&mut one, &format!("FAILOVER TO {known} FORCE TIMEOUT 50"));
    wait_for("the end of it", || {
        info(&mut one, "replication", "master_failover_state") == "no-failover"
    });
    assert_eq!(info(&mut one, "replication", "role"), "master");
    stop("-CONT");
    ask(&mut one, "CONFIG SET repl-timeout 60");
    ask(&mut one, "SET still 1");
}
