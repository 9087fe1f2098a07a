//! A replica that is behind: what its primary has done before keys expired comes when their time is
//! over by every clock. And who makes a database.

use crate::redis::Redis;
use crate::replication::{contents, follow, handshake, info, until};
use crate::support::late::{LATE, LIFE, lines};
use crate::support::{Client, config, request, script, show};
use crate::types::start_engine;
use silica::OpenOptions;
use silica_commands::Follower;
use silica_commands::replication::LinkState;
use silica_server::{Databases, Server};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Sends the requests of `each`, of the keys of each number, all at once.
fn send(client: &mut Client, each: &dyn Fn(usize) -> String) {
    let all: Vec<String> = (0..LATE.len()).flat_map(|nth| lines(&each(nth), nth)).collect();
    let words = |line: &String| request(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>());
    client.send(&all.iter().flat_map(words).collect::<Vec<u8>>());
    for (line, reply) in all.iter().zip(client.replies(all.len())) {
        let reply = show(&reply);
        assert!(!reply.starts_with('-'), "{line}: {reply}");
    }
}

/// A server that is a replica, whose stream comes from the test.
fn replica(engine: &str) -> (Server, tempfile::TempDir, Client, Follower) {
    let (server, directory) = start_engine(engine);
    let mut client = Client::connect(&server);
    assert_eq!(client.ask("REPLICAOF 127.0.0.1 1"), "OK");
    let service = Arc::clone(server.service());
    let version = service.replication.role().1;
    let follower = Follower::new(service, version).expect("it follows");
    (server, directory, client, follower)
}

/// Applies what the stream of `primary` has behind `from`; where it ends.
fn apply(primary: &Server, from: u64, follower: &mut Follower) -> u64 {
    let replication = &primary.service().replication;
    let bytes = replication.read(from, usize::MAX >> 1).expect("it is kept");
    follower.feed(&bytes);
    follower.run().expect("all of it can be applied");
    from + bytes.len() as u64
}

#[test]
fn what_has_expired_meanwhile_is_changed_as_it_was_changed_before() {
    let (primary, _directory) = start_engine("wip");
    let mut client = Client::connect(&primary);
    let _feed = handshake(&primary);
    until("there is a stream", || primary.service().replication.tells());
    let (server, _own, mut behind, mut follower) = replica("wip");
    let begin = primary.service().replication.offset();
    send(&mut client, &|nth| LATE[nth].0.to_string());
    let (began, life) = (Instant::now(), LIFE.as_millis());
    send(&mut client, &|_| format!("PEXPIRE xK {life};PEXPIRE x1K {life}"));
    let at = apply(&primary, begin, &mut follower);
    assert_eq!(contents(&mut behind), contents(&mut client));
    client.ask("SELECT 0");
    send(&mut client, &|nth| LATE[nth].1.to_string());
    assert!(began.elapsed() < LIFE, "it is done before the keys expire");
    std::thread::sleep((LIFE + Duration::from_millis(50)).saturating_sub(began.elapsed()));
    for line in ["SELECT 0", "EXISTS x:0 x:1 y:20", "GET x:20", "KEYS x:0", "TTL x:0"] {
        let (want, have) = (client.ask(line), behind.ask(line));
        assert_eq!(have, want, "a replica hides what has expired: {line}");
    }
    assert!(!behind.ask("SCAN 0 COUNT 10000").contains("'x:0'"));
    apply(&primary, at, &mut follower);
    let (want, have) = (contents(&mut client), contents(&mut behind));
    for (key, value) in &want {
        assert_eq!(have.get(key), Some(value), "{key}");
    }
    assert_eq!(have.len(), want.len(), "the replica has more");
    // Whoever takes writes goes by its own clock.
    assert_eq!(behind.ask("REPLICAOF NO ONE"), "OK");
    assert_eq!(contents(&mut behind), want);
    drop(follower);
    server.stop();
    primary.stop();
}

fn now_ms() -> u64 {
    let passed = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    passed.as_millis() as u64
}

/// Applies `text`, lines in which `T` is the time `at_ms`.
fn feed(follower: &mut Follower, text: &str, at_ms: u64) {
    let at = at_ms.to_string();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let of = |word| if word == "T" { at.as_bytes() } else { str::as_bytes(word) };
        follower.feed(&request(&line.split(' ').map(of).collect::<Vec<_>>()));
        follower.run().unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}

/// The primary's clock is behind, or what it has sent is late: only its own clock counts for what
/// it changes, the replica's for what readers see.
#[test]
fn the_primarys_clock_says_what_it_still_had() {
    let (server, _directory, mut client, mut follower) = replica("wip");
    feed(
        &mut follower,
        "SELECT 0
        SET kept v PXAT T
        PERSIST kept
        RPUSH list a b
        PEXPIREAT list T
        RENAME list moved
        PERSIST moved
        SET longer v PXAT T
        GETEX longer PXAT 99999999999999
        HSET hash n 1
        PEXPIREAT hash T
        HINCRBY hash n 4
        PERSIST hash
        SET over v PXAT T
        SETEX counted 1000 v
        SET counts v
        EXPIRE counts 1000",
        now_ms() - 5_000,
    );
    for key in ["kept", "moved", "longer", "hash", "counted", "counts"] {
        assert_eq!(client.ask(&format!("EXISTS {key}")), ":1", "{key}");
    }
    script(
        &mut client,
        "HGET hash n -> '5'
        EXISTS over list -> :0
        GET over -> nil
        MGET over kept -> [nil 'v']
        STRLEN over -> :0
        TYPE over -> none
        KEYS over -> []
        TTL over -> :-2
        DUMP over -> nil",
    );
    // As Redis up to 6.2 tells times: from when it comes.
    for key in ["counted", "counts"] {
        let reply = client.ask(&format!("TTL {key}"));
        let seconds: u64 = reply[1..].parse().expect("a number");
        assert!((900..=1000).contains(&seconds), "{key}: {seconds} s");
    }
    // What has expired where it comes from is over.
    feed(&mut follower, "PING T", now_ms() - 1_000);
    feed(&mut follower, "PERSIST over", 0);
    assert_eq!(client.ask("EXISTS over"), ":0");
    drop(follower);
    server.stop();
}

/// A replica of Redis removes what has expired when it is told, by whoever is the primary then.
#[test]
fn a_promoted_replica_tells_what_expires_of_what_it_was_told() {
    let Some(redis) = Redis::start() else { return };
    let (server, _directory, mut client, mut follower) = replica("wip");
    let mut third = redis.connect();
    server.service().replication.link().state = LinkState::Connected;
    follow(&mut third, &server);
    let text = "SELECT 0
        SET a 1 PXAT T
        RPUSH b 1
        PEXPIREAT b T
        SET c 1";
    feed(&mut follower, text, now_ms() + 3_000);
    until("it has come", || third.ask("EXISTS c") == ":1");
    drop(follower);
    let full = info(&mut client, "stats", "sync_full");
    assert_eq!(client.ask("REPLICAOF NO ONE"), "OK");
    until("what has expired is removed", || third.ask("DBSIZE") == ":1");
    assert_eq!(info(&mut client, "stats", "sync_full"), full, "it went on where it was");
    server.stop();
}

/// Whoever looks into all databases, as exporters do, makes none of them.
#[test]
fn reads_of_a_database_that_is_not_there_make_none() {
    for engine in ["wip", "silt"] {
        let directory = tempfile::tempdir().expect("a directory");
        let options = OpenOptions::new().memory_bytes(128 << 20).engine(engine);
        let store = Arc::new(options.open(directory.path().join("store")).expect("a store"));
        let databases = Arc::clone(&store) as Arc<dyn Databases>;
        let server = Server::start(config(), databases).expect("a server");
        let made = || {
            let all = store.keyspaces().expect("a list").into_iter();
            let names: Vec<String> = all.map(|info| info.name).collect();
            names.into_iter().filter(|name| name.starts_with("db")).collect::<Vec<_>>()
        };
        let mut client = Client::connect(&server);
        for number in 1..16 {
            script(&mut client, &format!("SELECT {number} -> OK"));
            let reads = "GET a -> nil
                MGET a b -> [nil nil]
                EXISTS a -> :0
                TTL a -> :-2
                TYPE a -> none
                LRANGE a 0 -1 -> []
                SUNION a b -> []
                DBSIZE -> :0
                KEYS * -> []
                SCAN 0 -> ['0' []]
                RANDOMKEY -> nil
                OBJECT ENCODING a -> nil
                MULTI -> OK
                GET a -> QUEUED
                HGETALL a -> QUEUED
                EXEC -> [nil []]
                MOVE a 0 -> :0
                COPY a b DB 0 -> :0";
            script(&mut client, reads);
            client.ask("INFO everything");
        }
        let nothing = "SELECT 0 -> OK
            MOVE a 7 -> :0
            COPY a b DB 7 -> :0
            MULTI -> OK
            SELECT 9 -> QUEUED
            GET a -> QUEUED
            EXEC -> [OK nil]";
        script(&mut client, nothing);
        assert_eq!(made(), Vec::<String>::new(), "{engine}");
        let writes = "SELECT 3 -> OK
            GET a -> nil
            SET a 1 -> OK
            GET a -> '1'
            SELECT 4 -> OK
            MULTI -> OK
            GET l -> QUEUED
            RPUSH l 1 -> QUEUED
            EXEC -> [nil :1]
            SELECT 5 -> OK
            EVAL redis.call('set',KEYS[1],'2') 1 a -> nil
            GET a -> '2'
            SELECT 3 -> OK
            COPY a b DB 6 -> :1
            SELECT 6 -> OK
            GET b -> '1'";
        script(&mut client, writes);
        let mut names = made();
        names.sort();
        assert_eq!(names, ["db3", "db4", "db5", "db6"], "{engine}");
        server.stop();
    }
}

#[test]
fn tools_ask_what_a_value_looks_like() {
    let (server, _directory) = start_engine("wip");
    let mut client = Client::connect(&server);
    script(
        &mut client,
        "SET s 12 -> OK
        RPUSH l a b -> :2
        DEBUG OBJECT none -> -ERR no such key
        DEBUG PROTOCOL integer -> :12345
        DEBUG PROTOCOL string -> 'Hello World'
        DEBUG ERROR MYERR -> -MYERR
        DEBUG LOG line -> OK",
    );
    let said = client.ask("DEBUG OBJECT s");
    assert!(said.contains(" refcount:1 encoding:int serializedlength:"), "{said}");
    let said = client.ask("DEBUG OBJECT l");
    assert!(said.contains(" encoding:") && said.contains(" serializedlength:"), "{said}");
    assert!(client.ask("DEBUG OTHER").starts_with("-ERR unknown subcommand"));
    server.stop();
}
