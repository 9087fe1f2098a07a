//! Slots that are handed over: what the file has durably, and when; and what a node does that was
//! handing slots over when it ended.

use super::{again, ask, bytes, error, id, nodes, ok, until};
use crate::support::{Server, scratch};
use silica_base::test_size;
use std::path::Path;

/// Two nodes that know each other; the first has all slots.
fn pair(dir: &Path) -> [Server; 2] {
    std::fs::create_dir_all(dir).expect("a directory");
    let extra = ["--cluster", "--loops", "1", "--memory", "64MiB"];
    let start = |name: &str| Server::start(&dir.join(name), &extra);
    let both = ["n0", "n1"].map(start);
    join(&both);
    both
}

fn join(both: &[Server]) {
    let (a, b) = (&both[0], &both[1]);
    assert_eq!(ask(a, "CLUSTER ADDSLOTSRANGE 0 16383"), ok());
    assert_eq!(ask(b, "CLUSTER SET-CONFIG-EPOCH 2"), ok());
    assert_eq!(ask(b, &format!("CLUSTER MEET 127.0.0.1 {}", a.port)), ok());
    until("both know both", || {
        [a, b].iter().all(|node| bytes(ask(node, "CLUSTER NODES")).lines().count() == 2)
    });
}

fn syncs(node: &Server) -> u64 {
    let info = bytes(ask(node, "CLUSTER INFO"));
    let line = info.lines().find_map(|line| line.strip_prefix("silica_map_syncs:"));
    line.and_then(|count| count.parse().ok()).expect("a count")
}

/// A slot without keys takes one sync, at the node that takes it; those in between come within a
/// second, so many slots have few of them.
#[test]
fn a_slot_without_keys_takes_one_sync() {
    let dir = scratch("cluster-syncs");
    let both = pair(&dir);
    let (a, b) = (&both[0], &both[1]);
    let (from, to) = (id(a), id(b));
    let before = [a, b].map(syncs);
    let begun = std::time::Instant::now();
    let slots = test_size(30, 60, 300);
    for slot in 0..slots {
        assert_eq!(ask(b, &format!("CLUSTER SETSLOT {slot} IMPORTING {from}")), ok());
        assert_eq!(ask(a, &format!("CLUSTER SETSLOT {slot} MIGRATING {to}")), ok());
        assert_eq!(ask(b, &format!("CLUSTER SETSLOT {slot} NODE {to}")), ok());
        assert_eq!(ask(a, &format!("CLUSTER SETSLOT {slot} NODE {to}")), ok());
    }
    // The first slot has the heir and an epoch, too.
    let usual = 10 + 2 * begun.elapsed().as_secs() + 2;
    let [source, target] = [a, b].map(syncs);
    assert!(source - before[0] <= usual, "{} syncs of the source", source - before[0]);
    assert!(target - before[1] <= slots + usual, "{} syncs of the target", target - before[1]);
    until("the source has heard of all", || {
        let text = bytes(ask(a, "CLUSTER NODES"));
        text.lines()
            .any(|line| line.contains("myself") && line.ends_with(&format!(" {slots}-16383")))
    });
}

/// That a slot is under way is durable before anything comes of it: before a client is sent to the
/// other node, before something is written there, and before a key is moved.
#[test]
fn what_comes_of_a_slot_under_way_is_behind_a_sync() {
    let dir = scratch("cluster-behind");
    let both = pair(&dir);
    let (a, b) = (&both[0], &both[1]);
    let (from, to) = (id(a), id(b));
    // Another slot is the first that goes to this node: that costs a sync at once.
    assert_eq!(ask(a, &format!("CLUSTER SETSLOT 1 MIGRATING {to}")), ok());
    // Slot 12182 has `foo`, 5061 `bar`.
    for (slot, key) in [(12182, "foo"), (5061, "bar")] {
        assert_eq!(ask(b, &format!("CLUSTER SETSLOT {slot} IMPORTING {from}")), ok());
        if key == "bar" {
            assert_eq!(ask(a, "SET bar 1"), ok());
        }
        assert_eq!(ask(a, "CLUSTER SAVECONFIG"), ok());
        assert_eq!(ask(a, &format!("CLUSTER SETSLOT {slot} MIGRATING {to}")), ok());
        let before = [a, b].map(syncs);
        match key {
            "foo" => {
                let asked = error(ask(a, "SET foo 1"));
                assert!(asked.starts_with("ASK 12182"), "{asked}");
                assert!(is_behind_a_sync(a, before[0]), "a client was sent away");
                let mut client = b.client();
                assert_eq!(client.ask(&[b"ASKING"]).expect("a reply"), ok());
                assert_eq!(client.ask(&[b"SET", b"foo", b"1"]).expect("a reply"), ok());
            }
            _ => {
                let line = format!("MIGRATE 127.0.0.1 {} bar 0 5000", b.port);
                assert_eq!(ask(a, &line), ok());
                assert!(is_behind_a_sync(a, before[0]), "a key was removed");
            }
        }
        assert!(is_behind_a_sync(b, before[1]), "a key was written there");
    }
}

/// True if the map was synced since there were `before` syncs, or nothing was left of it to sync by
/// then: half a second after a change the node syncs by itself.
fn is_behind_a_sync(node: &Server, before: u64) -> bool {
    if syncs(node) > before {
        return true;
    }
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    syncs(node) == before
}

/// A node that ended while it was handing slots over serves nothing until the other one has told
/// what it has taken, or is forgotten.
#[test]
fn a_node_that_was_handing_slots_over_asks_before_it_serves() {
    let dir = scratch("cluster-heirs");
    let mut both = nodes(&dir, 2);
    join(&both);
    let (b, a) = (both.pop().expect("a node"), both.pop().expect("a node"));
    let (heir, ports) = (id(&b), [a.port, b.port]);
    assert_eq!(ask(&a, "SET foo 1"), ok());
    assert_eq!(ask(&a, &format!("CLUSTER SETSLOT 1 MIGRATING {heir}")), ok());
    b.kill();
    a.kill();
    let a = again(&dir, 0, ports[0]);
    let refused = error(ask(&a, "GET foo"));
    assert!(refused.contains("CLUSTERDOWN") && refused.contains("CLUSTER FORGET"), "{refused}");
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    assert_eq!(error(ask(&a, "GET foo")), refused, "it does not get tired of it");
    let b = again(&dir, 1, ports[1]);
    until("it is told", || ask(&a, "SET foo 2") == ok());
    b.kill();
    a.kill();
    let a = again(&dir, 0, ports[0]);
    assert_eq!(error(ask(&a, "GET foo")), refused);
    assert_eq!(ask(&a, &format!("CLUSTER FORGET {heir}")), ok());
    assert_eq!(ask(&a, "SET foo 3"), ok());
}
