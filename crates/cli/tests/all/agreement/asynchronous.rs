//! The control: a primary with a replica, whose writes wait for the replica (`WAIT 1`). Reads do
//! not wait, so a client may have seen what the replica never gets. Whoever calls that agreement
//! must be found out by the checkers that the group passes.

use super::clients::Follower;
use super::histories::load;
use super::porcupine::Porcupine;
use super::proxy::{self, Links, Weather};
use crate::support::{Reply, Server, scratch};
use silica_base::{Prng, test_size};
use silica_testkit::histories::{Load, Memory, record};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[test]
fn replication_that_waits_for_an_acknowledgement_is_found_failing() {
    let rounds = test_size(1, 2, 20);
    let (mut prng, mut found) = (Prng::new(11), 0);
    let mut second = Porcupine::of_soak();
    for round in 0..rounds {
        found += u64::from(one(round, prng.next_u64(), &mut second));
    }
    assert!(found > 0, "no history of {rounds} was found to be without an order");
    println!("{found} of {rounds} histories have no order");
}

/// Waits until the clients of `server` have sent so many requests, about a third of what they will,
/// so that what befalls it comes amid their work on a machine of any speed.
fn wait_for_requests(server: &Server, requests: u64) {
    let (mut client, begun) = (server.client(), Instant::now());
    loop {
        let Ok(Reply::Bytes(Some(info))) = client.ask(&[b"INFO", b"stats"]) else {
            panic!("no INFO")
        };
        let info = String::from_utf8_lossy(&info);
        let sent = info.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
        if sent.and_then(|sent| sent.trim().parse::<u64>().ok()).expect("a number") >= requests {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "the clients stand still");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The primary is cut off from its replica, and then dies; true if what clients saw has no order.
fn one(round: u64, seed: u64, second: &mut Porcupine) -> bool {
    let dir = scratch("asynchronous");
    let options = ["--loops", "1", "--memory", "64MiB"];
    let primary = Server::start(&dir.join(format!("p{round}")), &options);
    let replica = Server::start(&dir.join(format!("r{round}")), &options);
    let (links, stop) = (Links::default(), Arc::new(AtomicBool::new(false)));
    let front = TcpListener::bind("127.0.0.1:0").expect("a port for a proxy");
    let proxy = front.local_addr().expect("an address");
    let back = format!("127.0.0.1:{}", primary.port);
    proxy::start(front, back, links.clone(), Arc::clone(&stop));
    let port = proxy.port().to_string();
    let mut admin = replica.client();
    let follows = admin.ask(&[b"REPLICAOF", b"127.0.0.1", port.as_bytes()]);
    assert_eq!(follows.expect("a reply"), Reply::Status("OK".into()));
    let begun = Instant::now();
    loop {
        let Ok(Reply::Bytes(Some(info))) = admin.ask(&[b"INFO", b"replication"]) else {
            panic!("no INFO")
        };
        if String::from_utf8_lossy(&info).contains("master_link_status:up") {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "the replica does not follow");
        std::thread::sleep(Duration::from_millis(20));
    }
    let ports = [primary.port, replica.port];
    let history = std::thread::scope(|scope| {
        let clients = scope.spawn(move || {
            let connect = |_| {
                let mut client = Follower::new(&ports, 0);
                client.waits_for = 1;
                client
            };
            let load = Load { threads: 4, calls: 80, watches: false, ..load(80) };
            record(load, seed, "a/", connect)
        });
        wait_for_requests(&primary, 150);
        // What the primary sends, and what the replica acknowledges.
        links.set(&proxy.to_string(), "", Weather::Lost);
        links.set("", &proxy.to_string(), Weather::Lost);
        std::thread::sleep(Duration::from_millis(600));
        primary.kill();
        // The server that follows nobody any more takes writes.
        let promoted = admin.ask(&[b"REPLICAOF", b"NO", b"ONE"]).expect("a reply");
        assert_eq!(promoted, Reply::Status("OK".into()));
        clients.join().expect("clients")
    });
    stop.store(true, Ordering::Relaxed);
    links.heal();
    let failed = history.check(Memory::Keeps).is_err();
    if let Some(second) = second.check(&history) {
        assert!(second.is_err() || !failed, "the second checker finds an order");
    }
    failed
}
