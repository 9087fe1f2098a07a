//! A replica that is behind: what the primary has done before keys expired comes when their time is
//! over by every clock.

use super::proxy::Proxy;
use super::*;
use crate::support::scratch;

#[path = "../../../../server/tests/all/support/late.rs"]
mod cases;

use cases::{LATE, LIFE, lines};

/// Sends the lines of `text` about the keys of number `nth`.
fn send(client: &mut Client, text: &str, nth: usize) {
    lines(text, nth).iter().for_each(|line| drop(ask(client, line)));
}

#[test]
fn what_has_expired_meanwhile_is_changed_as_it_was_changed_before() {
    changed_late("replication-late", &|path, port| start_replica(path, port, &[]));
}

/// A cache goes by its primary's clock, too, as long as it follows one.
#[test]
fn in_a_cache_what_has_expired_is_changed_as_it_was_changed_before() {
    let start = |path: &Path, port: u16| {
        let of = format!("127.0.0.1:{port}");
        Server::start_cache(path, "64MiB", &["--replica-of", &of, "--loops", "2"])
    };
    changed_late("replication-late-cache", &start);
}

fn changed_late(name: &str, start: &dyn Fn(&Path, u16) -> Server) {
    let dir = scratch(name);
    let fast = ["--loops", "2", "--durability", "buffered"];
    let primary = Server::start(&dir.join("primary"), &fast);
    let proxy = Proxy::start(primary.port);
    let second = start(&dir.join("replica"), proxy.port);
    let [mut client, mut replica] = [&primary, &second].map(Server::client);
    LATE.iter().enumerate().for_each(|(nth, (make, _))| send(&mut client, make, nth));
    must_be_equal(&mut client, &mut replica, "at first");
    let began = Instant::now();
    for key in flat(ask(&mut client, "KEYS x*")) {
        ask(&mut client, &format!("PEXPIRE {key} {}", LIFE.as_millis()));
    }
    catch_up(&mut client, &mut replica);
    let syncs = info(&mut client, "stats", "sync_full");
    proxy.cut();
    LATE.iter().enumerate().for_each(|(nth, (_, late))| send(&mut client, late, nth));
    assert!(began.elapsed() < LIFE, "it is done before the keys expire");
    let is_over = |client: &mut Client| ask(client, "EXISTS x:0 x:1 y:20") == Reply::Number(0);
    wait_for("the time of the keys", || is_over(&mut client) && began.elapsed() > LIFE);
    assert!(is_over(&mut replica), "a replica hides what has expired");
    let mut hidden = |line: &str| !flat(ask(&mut replica, line)).contains(&"x:0".to_string());
    assert!(hidden("KEYS *") && hidden("SCAN 0 COUNT 10000"));
    proxy.mend();
    must_be_equal(&mut client, &mut replica, "behind what has expired");
    assert_eq!(info(&mut client, "stats", "sync_full"), syncs, "it went on where it was");
    // Whoever takes writes goes by its own clock.
    ask(&mut replica, "REPLICAOF NO ONE");
    assert_eq!(contents(&mut replica), contents(&mut client));
}
