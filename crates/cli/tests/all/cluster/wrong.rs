//! What operators, tools and other nodes say that is wrong: it is refused in words, and changes
//! nothing.

use super::{address, again, ask, bytes, error, id, nodes, ok, text, until};
use crate::support::{Reply, Server, arg, said, scratch, silica};

fn say(node: &Server, words: &[&[u8]]) -> Reply {
    node.client().ask(words).expect("a reply")
}

/// Two nodes that claim one slot with the same epoch are of two clusters, or one of them was set up
/// wrongly: they do not meet, and the error names the slot, the nodes and the way out.
#[test]
fn two_claims_of_one_slot_with_one_epoch_are_told() {
    let dir = scratch("cluster-claims");
    let nodes = nodes(&dir, 2);
    for node in &nodes {
        assert_eq!(ask(node, "CLUSTER SET-CONFIG-EPOCH 7"), ok());
        assert_eq!(ask(node, "CLUSTER ADDSLOTSRANGE 100 200"), ok());
    }
    let (a, b) = (&nodes[0], &nodes[1]);
    let refused = error(ask(a, &format!("CLUSTER MEET 127.0.0.1 {}", b.port)));
    for part in ["slot 100", &id(a), &id(b), "epoch 7", "CLUSTER DELSLOTS", "CLUSTER RESET"] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    assert_eq!(bytes(ask(a, "CLUSTER NODES")).lines().count(), 1);
    // The way out works.
    assert_eq!(ask(b, "CLUSTER DELSLOTSRANGE 100 200"), ok());
    assert_eq!(ask(a, &format!("CLUSTER MEET 127.0.0.1 {}", b.port)), ok());
    until("they know each other", || bytes(ask(b, "CLUSTER NODES")).lines().count() == 2);
    until("of one epoch two are made", || {
        let info = bytes(ask(a, "CLUSTER INFO")) + &bytes(ask(b, "CLUSTER INFO"));
        let mut epochs = info.lines().filter(|line| line.starts_with("cluster_my_epoch:"));
        epochs.next() != epochs.next()
    });
}

/// A slot that is taken by force leaves its keys behind: they are removed, those of other slots and
/// of a slot that comes back are not.
#[test]
fn keys_of_a_slot_that_was_lost_are_removed() {
    let dir = scratch("cluster-lost");
    let nodes = nodes(&dir, 2);
    let (a, b) = (&nodes[0], &nodes[1]);
    assert_eq!(ask(a, "CLUSTER ADDSLOTSRANGE 0 16383"), ok());
    assert_eq!(ask(b, "CLUSTER SET-CONFIG-EPOCH 2"), ok());
    assert_eq!(ask(b, &format!("CLUSTER MEET 127.0.0.1 {}", a.port)), ok());
    let mut client = a.client();
    for n in 0..500 {
        let key = format!("{{foo}}{n}");
        client.ask(&[b"RPUSH", key.as_bytes(), &[b'x'; 100], b"y"]).expect("a reply");
        let other = format!("{{bar}}{n}");
        client.ask(&[b"SET", other.as_bytes(), b"1"]).expect("a reply");
    }
    // As `redis-cli --cluster fix` does if nobody seems to have the slot of `foo`.
    assert_eq!(ask(b, "CLUSTER DELSLOTS 12182"), ok());
    assert_eq!(ask(b, "CLUSTER ADDSLOTS 12182"), ok());
    assert!(matches!(ask(b, "CLUSTER BUMPEPOCH"), Reply::Status(_)));
    until("the other one has it", || error_of(ask(a, "GET {foo}1")).starts_with("MOVED"));
    until("its keys are removed", || ask(a, "DBSIZE") == Reply::Number(500));
    let info = bytes(ask(a, "CLUSTER INFO"));
    assert!(info.contains("silica_lost_keys_removed:500"), "{info}");
    until("nothing is left to do", || {
        bytes(ask(a, "CLUSTER INFO")).contains("silica_lost_slots_to_empty:0")
    });
    assert_eq!(ask(a, "GET {bar}7"), text("1"));
}

fn error_of(reply: Reply) -> String {
    match reply {
        Reply::Error(text) => text,
        _ => String::new(),
    }
}

/// Maps, ids and files that are wrong.
#[test]
fn wrong_maps_ids_and_data_are_refused() {
    let dir = scratch("cluster-wrong");
    let mut nodes = nodes(&dir, 2);
    let (a, b, stranger) = (id(&nodes[0]), id(&nodes[1]), "d".repeat(40));
    assert_eq!(ask(&nodes[0], "CLUSTER ADDSLOTSRANGE 0 16383"), ok());
    for (line, why) in [
        (format!("CLUSTER REPLICATE {stranger}"), "Unknown node"),
        (format!("CLUSTER SETSLOT 1 NODE {stranger}"), "Unknown node"),
        (format!("CLUSTER FORGET {a}"), "can't forget myself"),
        ("CLUSTER FAILOVER SOON".to_string(), "syntax"),
        (format!("CLUSTERX HANDOVER {stranger}"), "Unknown node"),
        (format!("CLUSTERX HANDOVER {a}"), "is no replica of"),
        ("CLUSTERX SETNODEID abc".to_string(), "40 hexadecimal digits"),
        ("REPLICAOF 127.0.0.1 1".to_string(), "not allowed in cluster mode"),
        ("CONFIG SET replicaof x".to_string(), "CONFIG SET failed"),
    ] {
        let refused = error(ask(&nodes[0], &line));
        assert!(refused.contains(why), "{line}: {refused}");
    }
    // A node that speaks in the name of one that is not known.
    let state = format!(
        "silica-cluster 1\nme {stranger}\nepoch 9\nversion -1\n\
         node {stranger} 127.0.0.1 1 9 9 - 0-5\n"
    );
    let refused = error(say(&nodes[0], &[b"CLUSTERX", b"STATE", state.as_bytes()]));
    assert!(refused.contains("introduce it with CLUSTER MEET"), "{refused}");
    for (wrong, why) in [
        (state.replace("0-5", "0-16384"), "is no slot"),
        (state.replace("0-5", "5-0"), "ends before it begins"),
        (state.replace("0-5", "0-5,3"), "named twice"),
        (state.replace(" 9 9 - ", " 9 - "), "words"),
        (state.replace("silica-cluster 1", "silica-cluster 2"), "does not begin with"),
        (state.replace(&format!("me {stranger}"), &format!("me {b}")), "which of the nodes"),
        (state.replace(&stranger, "abc"), "not understood"),
    ] {
        let refused = error(say(&nodes[0], &[b"CLUSTERX", b"STATE", wrong.as_bytes()]));
        assert!(refused.contains(why), "{why}: {refused}");
    }
    assert_eq!(ask(&nodes[0], "SET foo 1"), ok(), "nothing has changed");
    assert_eq!(ask(&nodes[0], "CONFIG GET cluster-enabled"), both("cluster-enabled", "yes"));
    // A damaged file is refused at the start, and says what to do.
    let port = nodes[1].port;
    nodes.pop().expect("a node").stop();
    let file = dir.join("n1/CLUSTER");
    let whole = std::fs::read(&file).expect("the map");
    std::fs::write(&file, &whole[..whole.len() - 20]).expect("written");
    let listen = format!("127.0.0.1:{port}");
    let output =
        silica(&["serve", arg(&dir.join("n1")), "--cluster", "--listen", &listen]).output();
    let text = said(&output.expect("it ends"));
    for part in ["CLUSTER", "damaged", "put a copy back"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    std::fs::write(&file, whole).expect("written");
    let back = again(&dir, 1, port);
    assert_eq!(id(&back), b);
    // The data of a node with slots becomes nobody's replica: it is not given away.
    assert_eq!(ask(&back, &format!("CLUSTER MEET 127.0.0.1 {}", nodes[0].port)), ok());
    let refused = error(ask(&nodes[0], &format!("CLUSTER REPLICATE {b}")));
    assert!(refused.contains("must be empty"), "{refused}");
    assert!(address(&back).ends_with(&port.to_string()));
}

fn both(name: &str, value: &str) -> Reply {
    Reply::Many(vec![text(name), text(value)])
}

/// Two processes with one map would be one node: the second is refused and names the first, and
/// the map stays as it was. It starts when the first has ended, however that was.
#[test]
fn a_map_is_of_one_process() {
    let dir = scratch("cluster-one-map");
    let map = dir.join("map");
    let extra = ["--cluster", "--cluster-file", arg(&map), "--loops", "1"];
    let first = Server::start_cache(&dir.join("first"), "64MiB", &extra);
    assert_eq!(ask(&first, "CLUSTER ADDSLOTSRANGE 0 16383"), ok());
    let before = std::fs::read(&map).expect("the map");
    let store = dir.join("store");
    for other in [&["--cache", "64MiB"][..], &[arg(&store)]] {
        let args = [&["serve", "--listen", "127.0.0.1:0"], other, &extra].concat();
        let output = silica(&args).output().expect("it ends");
        let text = said(&output);
        assert_eq!(output.status.code(), Some(4), "{text}");
        for part in [arg(&map), "is in use by", &format!("process {}", first.pid())] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    assert_eq!(std::fs::read(&map).expect("the map"), before);
    let id = id(&first);
    first.kill();
    let second = Server::start_cache(&dir.join("second"), "64MiB", &extra);
    assert_eq!(self::id(&second), id);
}
