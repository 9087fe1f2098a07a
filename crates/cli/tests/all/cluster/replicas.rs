//! Replicas of a cluster of real processes: made by redis-cli, read by redis-py, and put in the
//! place of their primaries.

use super::{
    LIMIT, Writer, address, again, ask, bytes, create_with, error, error_reply, has_tools, id,
    nodes, ok, settle, slots_of, text, tool, until,
};
use crate::clients::{must_be_content, source};
use crate::support::{Client, Reply, Server, scratch};
use silica_base::test_size;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The node's own line of CLUSTER NODES, in words.
fn own_line(server: &Server) -> Vec<String> {
    let text = bytes(ask(server, "CLUSTER NODES"));
    let mine = text.lines().find(|line| line.contains("myself")).expect("its own line");
    mine.split(' ').map(str::to_string).collect()
}

/// The id of the node that `server` follows; `-` if it follows none.
fn primary_of(server: &Server) -> String {
    own_line(server)[3].clone()
}

fn info(server: &Server, name: &str) -> String {
    let text = bytes(ask(server, "INFO replication"));
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_default().trim().to_string()
}

fn is_linked(server: &Server) -> bool {
    info(server, "master_link_status") == "up"
}

/// Waits until the replica has what its primary has.
fn catch_up(primary: &Server, replica: &Server) {
    until("the replica has everything", || {
        is_linked(replica)
            && info(primary, "master_repl_offset") == info(replica, "master_repl_offset")
    });
}

fn place_of(nodes: &[Server], wanted: &str) -> usize {
    nodes.iter().position(|node| id(node) == wanted).expect("a node")
}

#[test]
fn redis_cli_makes_replicas_and_they_take_over_while_clients_write() {
    if !has_tools() {
        return;
    }
    let dir = scratch("cluster-replicas");
    let nodes = nodes(&dir, 6);
    create_with(&nodes, 1);
    settle(&nodes[0]);
    let replicas: Vec<usize> = (0..6).filter(|n| primary_of(&nodes[*n]) != "-").collect();
    assert_eq!(replicas.len(), 3, "one for each primary");
    for replica in &replicas {
        until("the replica is linked", || is_linked(&nodes[*replica]));
    }
    must_be_content(
        Command::new("/usr/bin/python3")
            .arg(source("cluster/replicas.py"))
            .arg(nodes[0].port.to_string()),
    );
    let writer = Writer::start(&dir, &nodes[0]);
    // Each replica takes over, and the old primary back again.
    let (replica, primary) = (replicas[0], place_of(&nodes, &primary_of(&nodes[replicas[0]])));
    let served = slots_of(&nodes[primary]);
    for (taker, giver) in [(replica, primary), (primary, replica)] {
        until("it is linked", || is_linked(&nodes[taker]));
        assert_eq!(ask(&nodes[taker], "CLUSTER FAILOVER"), ok());
        assert_eq!(slots_of(&nodes[taker]), served, "it serves at once");
        until("the old primary follows", || primary_of(&nodes[giver]) == id(&nodes[taker]));
        settle(&nodes[0]);
        std::thread::sleep(Duration::from_millis(300));
    }
    // Keys move between primaries, and their replicas follow.
    let other = replicas.iter().map(|n| place_of(&nodes, &primary_of(&nodes[*n])));
    let other = other.into_iter().find(|n| *n != primary).expect("another primary");
    let (from, to) = (id(&nodes[primary]), id(&nodes[other]));
    let at = address(&nodes[0]);
    let reshard = ["reshard", &at, "--cluster-from", &from, "--cluster-to", &to];
    let slots = test_size(100, 100, 300).to_string();
    tool(&[&reshard[..], &["--cluster-slots", &slots, "--cluster-yes"]].concat());
    settle(&nodes[2]);
    println!("{}", writer.end());
    for replica in &replicas {
        let primary = &nodes[place_of(&nodes, &primary_of(&nodes[*replica]))];
        catch_up(primary, &nodes[*replica]);
        assert_eq!(ask(primary, "DBSIZE"), ask(&nodes[*replica], "DBSIZE"));
    }
    // A seventh node as a replica of the first primary.
    let seventh = super::nodes(&dir.join("more"), 1).remove(0);
    let wanted = id(&nodes[primary]);
    let (new, at) = (address(&seventh), address(&nodes[0]));
    tool(&["add-node", &new, &at, "--cluster-slave", "--cluster-master-id", &wanted]);
    until("the seventh follows", || primary_of(&seventh) == wanted && is_linked(&seventh));
    let Reply::Many(lines) = ask(&nodes[0], &format!("CLUSTER REPLICAS {wanted}")) else {
        panic!("no list")
    };
    assert_eq!(lines.len(), 2, "{lines:?}");
    tool(&["del-node", &at, &id(&seventh)]);
    until("the seventh is alone", || primary_of(&seventh) == "-");
    assert_eq!(ask(&seventh, "DBSIZE"), Reply::Number(0), "what it had was another node's");
}

/// Two primaries and a replica of the first, made by hand.
fn three(dir: &Path) -> Vec<Server> {
    let nodes = nodes(dir, 3);
    let (a, b, c) = (&nodes[0], &nodes[1], &nodes[2]);
    assert_eq!(ask(a, "CLUSTER ADDSLOTSRANGE 0 12999"), ok());
    assert_eq!(ask(b, "CLUSTER ADDSLOTSRANGE 13000 16383"), ok());
    for (node, epoch) in [(a, 1), (b, 2), (c, 3)] {
        assert_eq!(ask(node, &format!("CLUSTER SET-CONFIG-EPOCH {epoch}")), ok());
    }
    for node in [b, c] {
        assert_eq!(ask(node, &format!("CLUSTER MEET 127.0.0.1 {}", a.port)), ok());
    }
    until("all know each other", || {
        nodes.iter().all(|node| bytes(ask(node, "CLUSTER NODES")).lines().count() == 3)
    });
    nodes
}

/// Kills node `n`; its port.
fn kill(nodes: &[Server], n: usize) -> u16 {
    let _ = Command::new("kill").args(["-9", &nodes[n].pid().to_string()]).status();
    nodes[n].port
}

#[test]
fn a_replica_serves_reads_and_takes_the_place_of_a_dead_primary() {
    let dir = scratch("cluster-takeover");
    let mut nodes = three(&dir);
    let (a, b, c) = (id(&nodes[0]), id(&nodes[1]), id(&nodes[2]));
    // `foo` is in slot 12182.
    assert_eq!(ask(&nodes[0], "SET foo 1"), ok());
    for (line, why) in [
        (format!("CLUSTER REPLICATE {c}"), "Can't replicate myself"),
        ("CLUSTER FAILOVER".to_string(), "You should send CLUSTER FAILOVER to a replica"),
    ] {
        assert!(error(ask(&nodes[2], &line)).contains(why), "{line}");
    }
    assert!(error(ask(&nodes[0], &format!("CLUSTER REPLICATE {b}"))).contains("must be empty"));
    assert_eq!(ask(&nodes[2], &format!("CLUSTER REPLICATE {a}")), ok());
    assert!(error(ask(&nodes[2], "CLUSTER ADDSLOTS 5")).contains("is a replica"));
    until("the replica is linked", || is_linked(&nodes[2]));
    until("all know it", || {
        bytes(ask(&nodes[1], "CLUSTER NODES")).contains(&format!(" slave {a} "))
    });
    let refused = error(ask(&nodes[1], &format!("CLUSTER REPLICATE {c}")));
    assert!(refused.contains("must be empty") || refused.contains("not a replica"), "{refused}");
    catch_up(&nodes[0], &nodes[2]);
    reads_are_served(&nodes);
    // A replica is listed for clients from when it has said that its data is whole.
    until("the slots have two nodes", || {
        let Reply::Many(slots) = ask(&nodes[1], "CLUSTER SLOTS") else { panic!("no slots") };
        let Reply::Many(first) = &slots[0] else { panic!("no range") };
        first.len() == 4
    });
    // A restart does not change whom it follows.
    let port = kill(&nodes, 2);
    nodes[2] = again(&dir, 2, port);
    assert_eq!(primary_of(&nodes[2]), a);
    until("the replica is linked", || is_linked(&nodes[2]));
    // The primary dies. Of two primaries one is no majority.
    catch_up(&nodes[0], &nodes[2]);
    let port = kill(&nodes, 0);
    let is_down = |node: &Server| bytes(ask(node, "CLUSTER NODES")).contains("master,fail");
    until("the others notice", || is_down(&nodes[1]) && is_down(&nodes[2]));
    until("they tell each other", || {
        ask(&nodes[1], &format!("CLUSTER COUNT-FAILURE-REPORTS {a}")) == Reply::Number(1)
    });
    assert!(bytes(ask(&nodes[1], "CLUSTER INFO")).contains("cluster_slots_pfail:13000"));
    assert!(error(ask(&nodes[2], "CLUSTER FAILOVER")).contains("FORCE"));
    assert!(error(ask(&nodes[2], "CLUSTER FAILOVER FORCE")).contains("1 of 2 primaries"));
    assert_eq!(ask(&nodes[2], "CLUSTER FAILOVER TAKEOVER"), ok());
    assert_eq!(ask(&nodes[2], "GET foo"), text("1"));
    assert_eq!(ask(&nodes[2], "SET foo 2"), ok());
    until("the other one knows", || {
        ask(&nodes[1], "GET foo") == error_reply(&format!("MOVED 12182 {}", address(&nodes[2])))
    });
    // The old primary answers for nothing of its old, and follows.
    nodes[0] = again(&dir, 0, port);
    let mut client = nodes[0].client();
    let begun = Instant::now();
    loop {
        match client.ask(&[b"GET", b"foo"]).expect("a reply") {
            Reply::Error(text) if text.starts_with("MOVED") => break,
            Reply::Error(text) if text.starts_with("CLUSTERDOWN") => {}
            other => panic!("an old value: {other:?}"),
        }
        assert!(begun.elapsed() < LIMIT);
    }
    until("it follows", || primary_of(&nodes[0]) == c && is_linked(&nodes[0]));
    catch_up(&nodes[2], &nodes[0]);
    client.ask(&[b"READONLY"]).unwrap();
    assert_eq!(client.ask(&[b"GET", b"foo"]).unwrap(), text("2"));
    three_primaries_and_force(&dir, &nodes);
}

fn reads_are_served(nodes: &[Server]) {
    let moved = || error_reply(&format!("MOVED 12182 {}", address(&nodes[0])));
    let mut client: Client = nodes[2].client();
    let mut say = |line: &str| {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        client.ask(&words).expect("a reply")
    };
    assert_eq!(say("GET foo"), moved());
    assert_eq!(say("READONLY"), ok());
    assert_eq!(say("GET foo"), text("1"));
    assert_eq!(say("SET foo 2"), moved());
    assert_eq!(say("MULTI"), ok());
    say("GET foo");
    assert_eq!(say("EXEC"), Reply::Many(vec![text("1")]), "a transaction that only reads");
    assert_eq!(say("READWRITE"), ok());
    assert_eq!(say("GET foo"), moved());
}

/// With three primaries, two are a majority: FORCE takes the slots of a dead one.
fn three_primaries_and_force(dir: &Path, nodes: &[Server]) {
    // The nodes: 0 follows 2, 1 is a primary; a fourth one gets a slot.
    let fourth = super::nodes(&dir.join("fourth"), 1).remove(0);
    assert_eq!(ask(&fourth, &format!("CLUSTER MEET 127.0.0.1 {}", nodes[1].port)), ok());
    until("it is known", || bytes(ask(&nodes[1], "CLUSTER NODES")).contains(&id(&fourth)));
    let (from, to) = (id(&nodes[1]), id(&fourth));
    assert_eq!(ask(&fourth, &format!("CLUSTER SETSLOT 16383 IMPORTING {from}")), ok());
    assert_eq!(ask(&nodes[1], &format!("CLUSTER SETSLOT 16383 MIGRATING {to}")), ok());
    for node in [&fourth, &nodes[1]] {
        assert_eq!(ask(node, &format!("CLUSTER SETSLOT 16383 NODE {to}")), ok());
    }
    until("all know", || {
        nodes.iter().all(|node| bytes(ask(node, "CLUSTER NODES")).contains(" 16383"))
    });
    kill(nodes, 2);
    until("it is missed", || bytes(ask(&nodes[0], "CLUSTER NODES")).contains("master,fail"));
    assert_eq!(ask(&nodes[0], "CLUSTER FAILOVER FORCE"), ok());
    assert_eq!(ask(&nodes[0], "GET foo"), text("2"));
    assert_eq!(ask(&nodes[0], "SET foo 3"), ok());
}
