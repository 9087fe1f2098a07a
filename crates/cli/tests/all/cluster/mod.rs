//! Clusters of real processes, made and changed by redis-cli, by CLUSTERX SETNODES and by hand,
//! while redis-py's cluster client writes; and nutcracker before caches.

pub(crate) mod clients;
mod handed;
mod replicas;
mod wrong;

use crate::clients::{is_there, must_be_content, source};
use crate::support::{Client, Reply, Server, arg, said, scratch};
use silica_base::test_size;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long nodes have to agree.
const LIMIT: Duration = Duration::from_secs(30);

fn ok() -> Reply {
    Reply::Status("OK".into())
}

/// Waits until `is_so`.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn ask(server: &Server, line: &str) -> Reply {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    server.client().ask(&words).expect("a reply")
}

fn bytes(reply: Reply) -> String {
    match reply {
        Reply::Bytes(Some(text)) => String::from_utf8(text).expect("text"),
        other => panic!("not text: {other:?}"),
    }
}

fn error(reply: Reply) -> String {
    match reply {
        Reply::Error(text) => text,
        other => panic!("no error: {other:?}"),
    }
}

fn id(server: &Server) -> String {
    bytes(ask(server, "CLUSTER MYID"))
}

fn address(server: &Server) -> String {
    format!("127.0.0.1:{}", server.port)
}

/// So many empty nodes in directories below `dir`.
fn nodes(dir: &Path, count: usize) -> Vec<Server> {
    std::fs::create_dir_all(dir).expect("a directory");
    let start = |n| {
        let extra = ["--cluster", "--loops", "1", "--durability", "buffered", "--memory", "64MiB"];
        Server::start(&dir.join(format!("n{n}")), &extra)
    };
    (0..count).map(start).collect()
}

/// Starts a node anew on its port.
fn again(dir: &Path, n: usize, port: u16) -> Server {
    let listen = format!("127.0.0.1:{port}");
    let extra = ["--cluster", "--loops", "1", "--durability", "buffered", "--memory", "64MiB"];
    Server::start_at(&dir.join(format!("n{n}")), &listen, &extra)
}

/// `redis-cli --cluster ARGS`, which must end well.
fn tool(args: &[&str]) -> String {
    let mut command = Command::new("redis-cli");
    let output = command.arg("--cluster").args(args).stdin(Stdio::null()).output();
    let output = output.expect("redis-cli starts");
    let text = said(&output);
    assert!(output.status.success(), "redis-cli --cluster {args:?}: {text}");
    text
}

fn create(nodes: &[Server]) {
    create_with(nodes, 0);
}

/// Makes a cluster of `nodes`, of which each primary has so many replicas.
fn create_with(nodes: &[Server], replicas: usize) {
    let replicas = replicas.to_string();
    let addresses: Vec<String> = nodes.iter().map(address).collect();
    let mut args = vec!["create"];
    args.extend(addresses.iter().map(String::as_str));
    args.extend(["--cluster-replicas", &replicas, "--cluster-yes"]);
    let text = tool(&args);
    assert!(text.contains("All 16384 slots covered"), "{text}");
}

/// Waits until all nodes agree and `redis-cli --cluster check` is content.
fn settle(node: &Server) -> String {
    let begun = Instant::now();
    loop {
        let output =
            Command::new("redis-cli").args(["--cluster", "check", &address(node)]).output();
        let output = output.expect("redis-cli starts");
        let text = said(&output);
        if output.status.success() && text.contains("All nodes agree about slots configuration") {
            return text;
        }
        assert!(begun.elapsed() < LIMIT, "{text}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A client that writes until it is told to stop.
struct Writer {
    child: Child,
    stop: PathBuf,
}

impl Writer {
    fn start(dir: &Path, node: &Server) -> Writer {
        let stop = dir.join("stop");
        let mut command = Command::new("/usr/bin/python3");
        command.arg(source("cluster/writer.py")).arg(node.port.to_string()).arg(&stop);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Writer { child: command.spawn().expect("python starts"), stop }
    }

    /// Ends it; every read and every key must have been right.
    fn end(self) -> String {
        std::fs::write(&self.stop, "").expect("written");
        let output = self.child.wait_with_output().expect("its output");
        let text = said(&output);
        assert!(output.status.success() && text.contains("content\n"), "{text}");
        text
    }
}

/// True if what these tests need is installed.
fn has_tools() -> bool {
    let has_python = || {
        let mut python = Command::new("/usr/bin/python3");
        let has = python.args(["-c", "import redis.cluster"]).output();
        let has = has.is_ok_and(|output| output.status.success());
        if !has {
            println!("skipped: redis-py is missing (Debian: apt-get install python3-redis)");
        }
        has
    };
    is_there("redis-cli", "redis-tools") && has_python()
}

#[test]
fn redis_cli_makes_a_cluster_and_moves_slots_while_clients_write() {
    if !has_tools() {
        return;
    }
    let dir = scratch("cluster-reshard");
    let mut nodes = nodes(&dir, 4);
    create(&nodes[..3]);
    settle(&nodes[0]);
    let writer = Writer::start(&dir, &nodes[0]);
    let (first, second) = (id(&nodes[0]), id(&nodes[1]));
    let at = address(&nodes[0]);
    let reshard = ["reshard", &at, "--cluster-from", &first, "--cluster-to", &second];
    let slots = test_size(100, 100, 300).to_string();
    tool(&[&reshard[..], &["--cluster-slots", &slots, "--cluster-yes"]].concat());
    settle(&nodes[2]);
    // A fourth node takes its share, and gives it back.
    tool(&["add-node", &address(&nodes[3]), &at]);
    settle(&nodes[0]);
    let fourth = id(&nodes[3]);
    // By its weight: a full share would take minutes.
    let weight = format!("{fourth}=0.01");
    let rebalance = ["rebalance", &at, "--cluster-use-empty-masters", "--cluster-threshold", "20"];
    tool(&[&rebalance[..], &["--cluster-weight", &weight]].concat());
    settle(&nodes[1]);
    assert!(slots_of(&nodes[3]) > 0);
    let weight = format!("{fourth}=0");
    tool(&["rebalance", &at, "--cluster-weight", &weight, "--cluster-threshold", "20"]);
    settle(&nodes[0]);
    assert_eq!(slots_of(&nodes[3]), 0);
    tool(&["del-node", &at, &fourth]);
    let text = writer.end();
    println!("{text}");
    nodes.pop();
    settle(&nodes[0]);
    // The map is there after a restart, and a change that a node has missed reaches it.
    let (before, port) = (slots_of(&nodes[2]), nodes[2].port);
    nodes.pop().expect("a node").stop();
    let back = again(&dir, 2, port);
    assert_eq!(slots_of(&back), before);
    settle(&back);
}

/// Slots that a node serves as it says.
fn slots_of(server: &Server) -> usize {
    let text = bytes(ask(server, "CLUSTER NODES"));
    let mine = text.lines().find(|line| line.contains("myself")).expect("its own line");
    let ranges = mine.split(' ').skip(8).filter(|word| !word.starts_with('['));
    let count = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |text: &str| text.parse::<usize>().expect("a slot");
        number(last) - number(first) + 1
    };
    ranges.map(count).sum()
}

/// The text of the newest record of a map's file (docs/formats/cluster.md), none of which is torn
/// as long as nobody writes; empty if it is not whole.
fn kept(file: &Path) -> String {
    let bytes = std::fs::read(file).expect("the map");
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("4 bytes")) as usize;
    let sequence =
        |sector: &[u8]| u64::from_le_bytes(sector[500..508].try_into().expect("8 bytes"));
    let places = bytes.chunks(number(&bytes[12..16]));
    let newest = places.max_by_key(|place| sequence(place)).expect("three places");
    let record = newest.chunks(512).flat_map(|sector| &sector[..500]).copied().skip(20);
    String::from_utf8(record.take(number(&newest[16..20])).collect()).unwrap_or_default()
}

/// What another node says is in the file soon, and not before it takes effect.
#[test]
fn what_a_node_hears_is_in_its_file_soon() {
    let dir = scratch("cluster-hears");
    let mut nodes = nodes(&dir, 2);
    assert_eq!(ask(&nodes[0], "CLUSTER ADDSLOTSRANGE 0 16383"), ok());
    assert_eq!(ask(&nodes[1], &format!("CLUSTER MEET 127.0.0.1 {}", nodes[0].port)), ok());
    let id = id(&nodes[0]);
    let says = |text: String, slots: &str| {
        text.lines().any(|line| line.contains(&id) && line.ends_with(slots))
    };
    let kept = || kept(&dir.join("n1").join("CLUSTER"));
    until("what was met is kept", || says(kept(), " 0-16383"));
    assert_eq!(ask(&nodes[0], "CLUSTER DELSLOTS 5"), ok());
    until("it is heard", || says(bytes(ask(&nodes[1], "CLUSTER NODES")), " 0-4 6-16383"));
    until("what was heard is kept", || says(kept(), " 0-4,6-16383"));
    // One that is killed before it was kept hears it again.
    assert_eq!(ask(&nodes[0], "CLUSTER DELSLOTS 7"), ok());
    let port = nodes[1].port;
    nodes.pop().expect("a node").kill();
    let back = again(&dir, 1, port);
    until("it hears it again", || says(bytes(ask(&back, "CLUSTER NODES")), " 0-4 6 8-16383"));
    // A stop keeps all.
    assert_eq!(ask(&nodes[0], "CLUSTER DELSLOTS 9"), ok());
    until("it is heard", || says(bytes(ask(&back, "CLUSTER NODES")), " 0-4 6 8 10-16383"));
    back.stop();
    assert!(says(kept(), " 0-4,6,8,10-16383"), "{}", kept());
}

#[test]
fn a_reshard_that_a_kill_has_ended_is_mended() {
    if !has_tools() {
        return;
    }
    let dir = scratch("cluster-kill");
    let mut nodes = nodes(&dir, 3);
    create(&nodes);
    settle(&nodes[0]);
    // Keys of the first slots of the first node.
    let mut client = nodes[0].client();
    let mut keys = Vec::new();
    for n in 0..200_000 {
        let key = format!("k{n}");
        let Reply::Number(slot) = client.ask(&[b"CLUSTER", b"KEYSLOT", key.as_bytes()]).unwrap()
        else {
            panic!("no slot");
        };
        if slot < 40 {
            let reply = client.ask(&[b"SET", key.as_bytes(), key.as_bytes()]).unwrap();
            assert_eq!(reply, Reply::Status("OK".into()));
            keys.push((key, slot));
        }
        if keys.len() == 300 {
            break;
        }
    }
    let (first, second) = (id(&nodes[0]), id(&nodes[1]));
    for killed in [1, 0] {
        let mut reshard = Command::new("redis-cli");
        reshard.args(["--cluster", "reshard", &address(&nodes[0]), "--cluster-from", &first]);
        reshard.args(["--cluster-to", &second, "--cluster-slots", "40", "--cluster-yes"]);
        reshard.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut reshard = reshard.spawn().expect("redis-cli starts");
        let begun = Instant::now();
        while !bytes(ask(&nodes[0], "CLUSTER NODES")).contains("->-") {
            assert!(begun.elapsed() < LIMIT, "no slot is handed over");
        }
        let port = nodes[killed].port;
        let _ = Command::new("kill").args(["-9", &nodes[killed].pid().to_string()]).status();
        reshard.wait().expect("redis-cli ends");
        let old = std::mem::replace(&mut nodes[killed], again(&dir, killed, port));
        drop(old);
        let begun = Instant::now();
        while bytes(ask(&nodes[2], "CLUSTER NODES")).contains("disconnected") {
            assert!(begun.elapsed() < LIMIT, "the node does not come back");
            std::thread::sleep(Duration::from_millis(20));
        }
        tool(&["fix", &address(&nodes[2]), "--cluster-yes"]);
        settle(&nodes[0]);
    }
    for (key, slot) in keys {
        let reply = nodes.iter().find_map(|node| {
            match node.client().ask(&[b"GET", key.as_bytes()]).expect("a reply") {
                Reply::Error(text) if text.starts_with("MOVED") => None,
                other => Some(other),
            }
        });
        assert_eq!(reply, Some(Reply::Bytes(Some(key.clone().into_bytes()))), "{key} of {slot}");
    }
}

#[test]
fn a_tool_sets_the_nodes_from_outside() {
    let dir = scratch("cluster-setnodes");
    let nodes = nodes(&dir, 2);
    let (a, b) = ("a".repeat(40), id(&nodes[1]));
    assert_eq!(ask(&nodes[0], "CLUSTERX VERSION"), Reply::Number(-1));
    assert_eq!(ask(&nodes[0], &format!("CLUSTERX SETNODEID {a}")), Reply::Status("OK".into()));
    let text = |middle: u16| {
        let (one, two) = (nodes[0].port, nodes[1].port);
        format!(
            "{a} 127.0.0.1 {one} master - 0-{middle}\n{b} 127.0.0.1 {two} master - {}-16383\n",
            middle + 1
        )
    };
    let set = |node: &Server, text: &str, version: &str| {
        let words: [&[u8]; 4] = [b"CLUSTERX", b"SETNODES", text.as_bytes(), version.as_bytes()];
        node.client().ask(&words).expect("a reply")
    };
    for node in &nodes {
        assert_eq!(set(node, &text(8191), "3"), Reply::Status("OK".into()));
        assert_eq!(set(node, &text(8191), "3"), Reply::Status("OK".into()));
        assert!(error(set(node, &text(8191), "2")).contains("version 3 is set already"));
        assert!(error(set(node, &text(8000), "3")).contains("higher version"));
    }
    for (wrong, why) in [
        (text(8191).replace("8192-", "8190-"), "belongs to both"),
        (text(8191).replace("8192-", "8193-"), "slot 8192 belongs to no node"),
        (text(8191).replace("16383", "16384"), "is no slot"),
        (text(8191).replace(&a, &"c".repeat(39)), "no id"),
    ] {
        assert!(error(set(&nodes[0], &wrong, "4")).contains(why), "{why}");
    }
    // `foo` is in slot 12182.
    let moved = format!("MOVED 12182 {}", address(&nodes[1]));
    assert_eq!(error(ask(&nodes[0], "SET foo 1")), moved);
    assert_eq!(ask(&nodes[1], "SET foo 1"), Reply::Status("OK".into()));
    assert_eq!(
        ask(&nodes[0], &format!("CLUSTERX SETSLOT 5 NODE {b} 4")),
        Reply::Status("OK".into())
    );
    assert_eq!(ask(&nodes[0], "CLUSTERX VERSION"), Reply::Number(4));
    assert!(error(ask(&nodes[0], "CLUSTER MEET 127.0.0.1 1")).contains("was not met"));
    // A node of a cluster that a tool has set stays so.
    let port = nodes[0].port;
    let mut nodes = nodes;
    nodes.remove(0).stop();
    let back = again(&dir, 0, port);
    assert_eq!(ask(&back, "CLUSTERX VERSION"), Reply::Number(4));
    assert_eq!(id(&back), a);
}

/// Requests that Redis and Silica answer alike, in cluster mode.
fn same_lines() -> Vec<String> {
    same_slots().into_iter().chain(same_nodes()).collect()
}

fn same_slots() -> Vec<String> {
    vec![
        "SET foo 1".into(),
        "CLUSTER ADDSLOTSRANGE 0 16000".into(),
        "SET bar 1".into(),
        "CLUSTER ADDSLOTSRANGE 16001 16383".into(),
        "CLUSTER ADDSLOTS 5".into(),
        "CLUSTER ADDSLOTS 16384".into(),
        "CLUSTER ADDSLOTS 1 1".into(),
        "CLUSTER ADDSLOTS x".into(),
        "CLUSTER ADDSLOTSRANGE 5 4".into(),
        "SET {a}1 1".into(),
        "MGET {a}1 {a}2".into(),
        "MGET {a}1 {b}2".into(),
        "MSET {a}1 1 {b}2 2".into(),
        "DEL foo bar".into(),
        "SINTER foo bar".into(),
        "EVAL return 2 foo bar".into(),
        "SUNIONSTORE foo bar".into(),
        "SELECT 1".into(),
        "SELECT 0".into(),
        "MOVE foo 1".into(),
        "SWAPDB 0 1".into(),
        "CLUSTER KEYSLOT foo".into(),
        "CLUSTER KEYSLOT {foo}bar".into(),
        "CLUSTER KEYSLOT foo{}{bar}".into(),
        "CLUSTER KEYSLOT {{bar}}zap".into(),
        "CLUSTER COUNTKEYSINSLOT 15495".into(),
        "CLUSTER COUNTKEYSINSLOT 16384".into(),
        "CLUSTER GETKEYSINSLOT 15495 10".into(),
        "CLUSTER GETKEYSINSLOT 15495 -1".into(),
        "CLUSTER SETSLOT 5 MIGRATING x".into(),
    ]
}

fn same_nodes() -> Vec<String> {
    let stranger = "d".repeat(40);
    vec![
        format!("CLUSTER SETSLOT 5 MIGRATING {stranger}"),
        format!("CLUSTER SETSLOT 5 IMPORTING {stranger}"),
        format!("CLUSTER SETSLOT 5 NODE {stranger}"),
        "CLUSTER SETSLOT 5 NOTHING".into(),
        "CLUSTER SETSLOT 16384 STABLE".into(),
        "CLUSTER SETSLOT 5 STABLE".into(),
        "CLUSTER SET-CONFIG-EPOCH 7".into(),
        "CLUSTER SET-CONFIG-EPOCH 8".into(),
        "CLUSTER SET-CONFIG-EPOCH -8".into(),
        "CLUSTER BUMPEPOCH".into(),
        format!("CLUSTER FORGET {stranger}"),
        format!("CLUSTER REPLICATE {stranger}"),
        format!("CLUSTER REPLICAS {stranger}"),
        format!("CLUSTER COUNT-FAILURE-REPORTS {stranger}"),
        "CLUSTER MEET x y".into(),
        "CLUSTER DELSLOTS 77".into(),
        "CLUSTER DELSLOTS 77".into(),
        "SET foo 1".into(),
        "CLUSTER ADDSLOTS 77".into(),
        "CLUSTER FLUSHSLOTS".into(),
        "CLUSTER RESET".into(),
        "CLUSTER SAVECONFIG".into(),
        "READONLY".into(),
        "READWRITE".into(),
        "CLUSTER FAILOVER".into(),
        "CLUSTER FAILOVER NOW".into(),
        "REPLICAOF 127.0.0.1 1".into(),
        "ASKING".into(),
        "CLUSTER LINKS".into(),
        "MIGRATE 127.0.0.1 1 key 0 100 KEYS a".into(),
        "MIGRATE 127.0.0.1 1 missing 0 100 NOTHING".into(),
        "FLUSHALL".into(),
        "CLUSTER FLUSHSLOTS".into(),
        "SET foo 1".into(),
    ]
}

/// What Redis and Silica say to the same requests, in cluster mode.
#[test]
fn errors_and_slots_are_those_of_redis() {
    if !is_there("redis-server", "redis") {
        return;
    }
    let dir = scratch("cluster-differential");
    let silica = nodes(&dir, 1).remove(0);
    let redis = Server::start_redis_node(&dir);
    let (mut one, mut two) = (silica.client(), redis.client());
    // Redis needs a moment until it takes the slots into account.
    let begun = Instant::now();
    for line in &same_lines() {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let ours = one.ask(&words).expect("a reply");
        let mut theirs = two.ask(&words).expect("a reply");
        while theirs != ours
            && begun.elapsed() < Duration::from_secs(10)
            && format!("{theirs:?}").contains("CLUSTERDOWN The cluster is down")
        {
            std::thread::sleep(Duration::from_millis(20));
            theirs = two.ask(&words).expect("a reply");
        }
        assert_eq!(ours, theirs, "{line}");
    }
}

/// A key goes to a server that is in no cluster, and back.
#[test]
fn keys_migrate_to_redis_and_back() {
    if !is_there("redis-server", "redis") {
        return;
    }
    let dir = scratch("migrate-redis");
    let silica = Server::start(&dir.join("s"), &["--loops", "1", "--memory", "64MiB"]);
    let redis = Server::start_redis(&dir.join("redis"));
    let mut client = silica.client();
    let say = |client: &mut Client, line: &str| {
        let words: Vec<&[u8]> =
            line.split(' ').map(|w| if w == "''" { &b""[..] } else { w.as_bytes() }).collect();
        client.ask(&words).expect("a reply")
    };
    let ok = || Reply::Status("OK".into());
    for line in ["SET s 1", "RPUSH l a b", "HSET h f v", "ZADD z 1 m", "SET t x PX 100000"] {
        say(&mut client, line);
    }
    let (to, back) = (redis.port, silica.port);
    assert_eq!(say(&mut client, &format!("MIGRATE 127.0.0.1 {to} s 0 1000")), ok());
    assert_eq!(say(&mut client, "EXISTS s"), Reply::Number(0));
    let all = format!("MIGRATE 127.0.0.1 {to} '' 0 1000 KEYS l h z t missing");
    assert_eq!(say(&mut client, &all), ok());
    assert_eq!(say(&mut client, "DBSIZE"), Reply::Number(0));
    let none = say(&mut client, &all);
    assert_eq!(none, Reply::Status("NOKEY".into()));
    let mut other = redis.client();
    assert_eq!(say(&mut other, "LRANGE l 0 -1"), Reply::Many(vec![text("a"), text("b")]));
    let Reply::Number(left) = say(&mut other, "PTTL t") else { panic!("no time") };
    assert!((50_000..=100_000).contains(&left), "{left}");
    // What is there already is not replaced unless that is asked for.
    say(&mut client, "SET s 2");
    let refused = error(say(&mut client, &format!("MIGRATE 127.0.0.1 {to} s 0 1000")));
    assert!(refused.contains("BUSYKEY"), "{refused}");
    let copy = format!("MIGRATE 127.0.0.1 {to} s 0 1000 COPY REPLACE");
    assert_eq!(say(&mut client, &copy), ok());
    assert_eq!(say(&mut client, "GET s"), text("2"));
    assert_eq!(say(&mut other, "GET s"), text("2"));
    let home = format!("MIGRATE 127.0.0.1 {back} '' 3 1000 REPLACE KEYS s l h z t");
    assert_eq!(say(&mut other, &home), ok());
    say(&mut client, "SELECT 3");
    assert_eq!(say(&mut client, "DBSIZE"), Reply::Number(5));
    assert_eq!(say(&mut client, "HGET h f"), text("v"));
    let closed = error(say(&mut client, "MIGRATE 127.0.0.1 1 s 0 100"));
    assert!(closed.starts_with("IOERR"), "{closed}");
    let denied = error(say(&mut client, &format!("MIGRATE 127.0.0.1 {to} s 0 100 AUTH x")));
    assert!(denied.contains("Target instance replied with error"), "{denied}");
}

fn text(value: &str) -> Reply {
    Reply::Bytes(Some(value.as_bytes().to_vec()))
}

/// A slot on its way between two nodes, step by step: who answers for a key at each of them.
#[test]
fn a_key_is_always_at_one_of_two_nodes() {
    let dir = scratch("cluster-steps");
    let nodes = nodes(&dir, 2);
    let (a, b) = (&nodes[0], &nodes[1]);
    let ok = || Reply::Status("OK".into());
    assert_eq!(ask(a, "CLUSTER ADDSLOTSRANGE 0 16383"), ok());
    assert_eq!(ask(b, "CLUSTER SET-CONFIG-EPOCH 2"), ok());
    assert_eq!(ask(b, &format!("CLUSTER MEET 127.0.0.1 {}", a.port)), ok());
    assert_eq!(
        ask(a, "MSET {foo}1 1 {foo}2 2 bar 3"),
        error_reply("CROSSSLOT Keys in request don't hash to the same slot")
    );
    assert_eq!(ask(a, "MSET {foo}1 1 {foo}2 2"), ok());
    assert_eq!(ask(b, &format!("CLUSTER SETSLOT 12182 IMPORTING {}", id(a))), ok());
    assert_eq!(ask(a, &format!("CLUSTER SETSLOT 12182 MIGRATING {}", id(b))), ok());
    let asks = || error_reply(&format!("ASK 12182 {}", address(b)));
    let again = || error_reply("TRYAGAIN Multiple keys request during rehashing of slot");
    assert_eq!(ask(a, "GET {foo}1"), text("1"));
    assert_eq!(ask(a, "SET {foo}3 3"), asks());
    assert_eq!(ask(a, "MGET {foo}1 {foo}3"), again());
    let moved = ask(a, &format!("MIGRATE 127.0.0.1 {} {{foo}}1 0 1000", b.port));
    assert_eq!(moved, ok());
    assert_eq!(ask(a, "GET {foo}1"), asks());
    assert!(error(ask(b, "GET {foo}1")).starts_with("MOVED 12182"));
    let mut there = b.client();
    assert_eq!(there.ask(&[b"ASKING"]).unwrap(), ok());
    assert_eq!(there.ask(&[b"GET", b"{foo}1"]).unwrap(), text("1"));
    assert!(matches!(there.ask(&[b"GET", b"{foo}1"]).unwrap(), Reply::Error(_)), "once");
    there.ask(&[b"ASKING"]).unwrap();
    assert_eq!(there.ask(&[b"MGET", b"{foo}1", b"{foo}2"]).unwrap(), again());
    the_slot_leaves(a, b);
    // A stranger with slots of its own does not come in.
    let other = scratch("cluster-stranger");
    let stranger = self::nodes(&other, 1).remove(0);
    ask(&stranger, "CLUSTER ADDSLOTS 5");
    let refused = error(ask(&stranger, &format!("CLUSTER MEET 127.0.0.1 {}", a.port)));
    assert!(refused.contains("slot 5 is claimed by node"), "{refused}");
}

/// The rest of the slot's keys, those who wait and listen, and the slot itself go to `b`.
fn the_slot_leaves(a: &Server, b: &Server) {
    let ok = || Reply::Status("OK".into());
    let asks = || error_reply(&format!("ASK 12182 {}", address(b)));
    // A transaction and a script are where their keys are.
    let mut here = a.client();
    assert_eq!(here.ask(&[b"MULTI"]).unwrap(), ok());
    here.ask(&[b"SET", b"{foo}2", b"5"]).unwrap();
    assert_eq!(here.ask(&[b"EXEC"]).unwrap(), Reply::Many(vec![ok()]));
    here.ask(&[b"MULTI"]).unwrap();
    here.ask(&[b"SET", b"{foo}9", b"5"]).unwrap();
    assert_eq!(here.ask(&[b"EXEC"]).unwrap(), asks());
    here.ask(&[b"MULTI"]).unwrap();
    let cross = here.ask(&[b"MSET", b"a", b"1", b"b", b"2"]).unwrap();
    assert!(error(cross).starts_with("CROSSSLOT"));
    assert!(error(here.ask(&[b"EXEC"]).unwrap()).starts_with("EXECABORT"));
    assert!(error(ask(a, &format!("CLUSTER SETSLOT 12182 NODE {}", id(b)))).contains("still hold"));
    assert_eq!(ask(a, "CLUSTER COUNTKEYSINSLOT 12182"), Reply::Number(1));
    assert_eq!(ask(a, "CLUSTER GETKEYSINSLOT 12182 10"), Reply::Many(vec![text("{foo}2")]));
    // Whoever waits for a key that goes away is told so.
    let mut waits = a.client();
    waits.send(b"*3\r\n$5\r\nBLPOP\r\n$7\r\n{q}list\r\n$1\r\n0\r\n").unwrap();
    let mut hears = a.client();
    hears.ask(&[b"SSUBSCRIBE", b"foo"]).unwrap();
    ask(a, &format!("MIGRATE 127.0.0.1 {} {{foo}}2 0 1000", b.port));
    assert_eq!(ask(b, &format!("CLUSTER SETSLOT 12182 NODE {}", id(b))), ok());
    assert_eq!(ask(a, &format!("CLUSTER SETSLOT 12182 NODE {}", id(b))), ok());
    assert_eq!(ask(b, "MGET {foo}1 {foo}2"), Reply::Many(vec![text("1"), text("5")]));
    assert!(error(ask(a, "GET {foo}1")).starts_with("MOVED"));
    let left = hears.reply().expect("a message");
    assert_eq!(left, Reply::Many(vec![text("sunsubscribe"), text("foo"), Reply::Number(0)]));
    assert!(error(ask(a, "SPUBLISH foo x")).starts_with("MOVED"));
    ask(a, "RPUSH {q}list x");
    assert_eq!(waits.reply().unwrap(), Reply::Many(vec![text("{q}list"), text("x")]));
    // A message reaches the subscribers of all nodes.
    let mut far = b.client();
    far.ask(&[b"SUBSCRIBE", b"news"]).unwrap();
    ask(a, "PUBLISH news hello");
    assert_eq!(
        far.reply().unwrap(),
        Reply::Many(vec![text("message"), text("news"), text("hello")])
    );
}

fn error_reply(text: &str) -> Reply {
    Reply::Error(text.into())
}

/// nutcracker before three caches, in RESP and in memcached's protocol.
#[test]
fn nutcracker_spreads_keys_over_caches() {
    if !is_there("nutcracker", "nutcracker") {
        return;
    }
    let dir = scratch("cluster-nutcracker");
    let start = |n| {
        let extra = ["--loops", "1"];
        Server::start_cache(&dir.join(format!("cache{n}")), "64MiB", &extra)
    };
    let caches: Vec<Server> = (0..3).map(start).collect();
    let free = |_| {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("free ports");
        free.local_addr().expect("an address").port()
    };
    let ports: Vec<u16> = (0..2).map(free).collect();
    let mut config = String::new();
    for (port, is_redis) in ports.iter().zip([true, false]) {
        config += &format!(
            "p{port}:\n  listen: 127.0.0.1:{port}\n  hash: fnv1a_64\n  distribution: ketama\n  \
             redis: {is_redis}\n  servers:\n"
        );
        // Keys are spread by the names, which are the same in each run, as ports are not.
        for (cache, name) in caches.iter().zip(["first", "second", "third"]) {
            config += &format!("   - {}:1 {name}\n", address(cache));
        }
    }
    let file = dir.join("nutcracker.yml");
    std::fs::write(&file, config).expect("written");
    let mut nutcracker = Command::new("nutcracker");
    nutcracker.args(["-c", arg(&file), "-s", &free(0).to_string()]).stdin(Stdio::null());
    let mut nutcracker = nutcracker.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    let mut client = loop {
        match Client::connect(ports[0]) {
            Ok(client) => break client,
            Err(error) => assert!(begun.elapsed() < LIMIT, "{error}"),
        }
    };
    for n in 0..1000 {
        let key = format!("key{n}");
        let set = client.ask(&[b"SET", key.as_bytes(), key.as_bytes()]).unwrap();
        assert_eq!(set, Reply::Status("OK".into()));
    }
    for n in 0..1000 {
        let key = format!("key{n}");
        assert_eq!(client.ask(&[b"GET", key.as_bytes()]).unwrap(), text(&key));
    }
    let sizes: Vec<i64> = caches
        .iter()
        .map(|cache| match ask(cache, "DBSIZE") {
            Reply::Number(n) => n,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(sizes.iter().sum::<i64>() == 1000 && sizes.iter().all(|n| *n > 100), "{sizes:?}");
    let mut memcached = Command::new("/usr/bin/python3");
    memcached.arg(source("cluster/memcached.py")).arg(ports[1].to_string());
    must_be_content(&mut memcached);
    nutcracker.kill().expect("own child");
    nutcracker.wait().expect("own child");
}
