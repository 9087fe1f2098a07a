//! Links over TLS: of replicas, with Redis on either side, of nodes of a cluster, and of MIGRATE;
//! and what is said if the two sides cannot agree.

use super::*;
use crate::support::{certificate, free_port, said, scratch};

/// A server of Silica with a port for TLS beside the plain one, and that port.
fn start_with_tls(path: &Path, extra: &[&str]) -> (Server, u16) {
    let port = free_port();
    let listen = format!("127.0.0.1:{port}");
    let (cert, key) = (certificate("server.pem"), certificate("server.key"));
    let tls = ["--tls-listen", &listen, "--tls-cert", &cert, "--tls-key", &key];
    (Server::start(path, &[&tls, extra, &["--loops", "1"]].concat()), port)
}

/// Redis with a port for TLS, which wants certificates of its clients if `asks`, and that port.
fn start_redis_with_tls(dir: &Path, name: &str, cert: &str, asks: bool) -> (Server, u16) {
    let port = free_port();
    let own = dir.join(name);
    std::fs::create_dir_all(&own).expect("the directory can be made");
    let pem = certificate(&format!("{cert}.pem"));
    let key = certificate(&format!("{cert}.key"));
    let extra = ["--tls-port", &port.to_string(), "--tls-cert-file", &pem, "--tls-key-file", &key]
        .map(str::to_string);
    let more = ["--tls-ca-cert-file", &certificate("authority.pem"), "--tls-auth-clients"]
        .map(str::to_string);
    let asks = if asks { "yes" } else { "no" };
    let all: Vec<&str> = extra.iter().chain(&more).map(String::as_str).chain([asks]).collect();
    (Server::start_redis_with(&own, &dir.join(format!("{name}-log")), &all), port)
}

/// True if Debian's build of Redis, which has TLS, is there; says that the test is skipped if not.
fn redis_has_tls() -> bool {
    let help = Command::new("redis-cli").arg("--help").output();
    let has = has_redis() && help.is_ok_and(|output| said(&output).contains("--tls"));
    if !has {
        println!("skipped: this redis-server has no TLS");
    }
    has
}

fn trust() -> [String; 7] {
    let files = ["authority.pem", "server.pem", "server.key"].map(certificate);
    let [ca, cert, key] = files;
    let words = ["--tls-replication", "--tls-peer-ca", &ca, "--tls-client-cert", &cert];
    let words = words.into_iter().chain(["--tls-client-key", &key]).map(str::to_string);
    words.collect::<Vec<_>>().try_into().expect("seven words")
}

#[test]
fn replicas_follow_by_tls_in_all_directions() {
    if !redis_has_tls() {
        return;
    }
    let dir = scratch("replication-tls");
    let (redis, redis_tls) = start_redis_with_tls(&dir, "redis", "server", true);
    let mut primary = redis.client();
    ask(&mut primary, "CONFIG SET repl-diskless-sync-delay 0");
    write(&mut primary, &mut Prng::new(3), 1_000);
    // Redis, Silica, Silica, Redis: each link has TLS, and each side shows a certificate.
    let trust = trust();
    let trust: Vec<&str> = trust.iter().map(String::as_str).collect();
    let ca = certificate("authority.pem");
    let of = format!("127.0.0.1:{redis_tls}");
    let asks = ["--tls-ca", &ca, "--replica-of", &of];
    let (first, first_tls) = start_with_tls(&dir.join("first"), &[&trust[..], &asks].concat());
    let of = format!("127.0.0.1:{first_tls}");
    let asks = ["--tls-ca", &ca, "--replica-of", &of];
    let (second, second_tls) = start_with_tls(&dir.join("second"), &[&trust[..], &asks].concat());
    let (last, _) = start_redis_with_tls(&dir, "last", "server", true);
    let mut end = last.client();
    ask(&mut end, "CONFIG SET tls-replication yes");
    follow(&mut end, second_tls);
    write(&mut primary, &mut Prng::new(4), 500);
    must_be_equal(&mut primary, &mut first.client(), "Redis to Silica");
    must_be_equal(&mut primary, &mut second.client(), "Silica to Silica");
    must_be_equal(&mut primary, &mut end, "Silica to Redis");
    // The port that a replica tells is the one that the link needs.
    let told = info(&mut first.client(), "replication", "slave0");
    assert!(told.contains(&format!("port={second_tls},")), "{told}");
    assert_eq!(flat(ask(&mut first.client(), "CONFIG GET tls-replication"))[1], "yes");
    // Without TLS from now on: by the other port.
    ask(&mut second.client(), "CONFIG SET tls-replication no");
    follow(&mut second.client(), first.port);
    must_be_equal(&mut primary, &mut second.client(), "in the clear");
}

#[test]
fn sides_that_cannot_agree_say_what_to_change() {
    let dir = scratch("replication-tls-refused");
    let ca = certificate("authority.pem");
    let (plain, tls) = start_with_tls(&dir.join("primary"), &["--tls-ca", &ca]);
    let path = dir.join("replica");
    let replica = Server::start(&path, &["--tls-peer-ca", &ca, "--loops", "1"]);
    let mut client = replica.client();
    follow(&mut client, tls);
    wait_for_log(&path, "set tls-replication to yes");
    ask(&mut client, "CONFIG SET tls-replication yes");
    wait_for_log(&path, "give --tls-client-cert and --tls-client-key");
    follow(&mut client, plain.port);
    wait_for_log(&path, "is that a plain port? (tls-replication is yes)");
    let refused = format!("MIGRATE 127.0.0.1 {tls} key 0 5000");
    ask(&mut client, "REPLICAOF NO ONE");
    ask(&mut client, "SET key value");
    let Reply::Error(text) = try_ask(&mut client, &refused) else { panic!("it was moved") };
    assert!(text.contains("tls-cluster"), "{text}");
    drop((client, replica));
    // An authority that has signed nothing, another name, and a certificate whose time is over.
    let wrong = certificate("client.pem");
    let of = format!("127.0.0.1:{tls}");
    let follows = ["--replica-of", &of, "--tls-replication", "--loops", "1"];
    let trusts = |words: &[&str], text: &str| {
        let server = Server::start(&path, &[&follows, words].concat());
        wait_for_log(&path, text);
        drop(server);
    };
    trusts(&["--tls-peer-ca", &wrong], "client.pem (--tls-peer-ca)");
    let named = ["--tls-peer-ca", &ca, "--tls-peer-name", "db.example"];
    trusts(&named, "--tls-peer-name says which to expect");
    let untrusted = Server::start(&path, &["--loops", "1"]);
    let refused = try_ask(&mut untrusted.client(), "CONFIG SET tls-replication yes");
    let Reply::Error(text) = refused else { panic!("it was taken") };
    assert!(text.contains("--tls-peer-ca"), "{text}");
    drop(untrusted);
    if redis_has_tls() {
        let (_redis, late) = start_redis_with_tls(&dir, "late", "expired", false);
        let of = format!("127.0.0.1:{late}");
        let words = ["--replica-of", &of, "--tls-replication", "--tls-peer-ca", &ca];
        let server = Server::start(&path, &words);
        wait_for_log(&path, "its certificate has expired");
        drop(server);
    }
}

#[test]
fn nodes_of_a_cluster_and_migrate_have_tls() {
    let dir = scratch("cluster-tls");
    let ca = certificate("authority.pem");
    let words = ["--cluster", "--tls-cluster", "--tls-peer-ca", &ca, "--durability", "buffered"];
    let node = |name: &str| start_with_tls(&dir.join(name), &words);
    let ((one, one_tls), (other, other_tls)) = (node("one"), node("other"));
    let (mut a, mut b) = (one.client(), other.client());
    ask(&mut a, "CLUSTER ADDSLOTSRANGE 0 16383");
    ask(&mut a, &format!("CLUSTER MEET 127.0.0.1 {other_tls}"));
    let moved = |client: &mut Client| match try_ask(client, "GET key") {
        Reply::Error(text) => text,
        other => format!("{other:?}"),
    };
    let to_one = format!("MOVED 12539 127.0.0.1:{one_tls}");
    wait_for("the other node to know the slots", || moved(&mut b) == to_one);
    let ids = [&mut a, &mut b].map(|client| flat(ask(client, "CLUSTER MYID")).concat());
    ask(&mut a, "SET key value");
    ask(&mut b, &format!("CLUSTER SETSLOT 12539 IMPORTING {}", ids[0]));
    ask(&mut a, &format!("CLUSTER SETSLOT 12539 MIGRATING {}", ids[1]));
    ask(&mut a, &format!("MIGRATE 127.0.0.1 {other_tls} key 0 5000"));
    for client in [&mut b, &mut a] {
        ask(client, &format!("CLUSTER SETSLOT 12539 NODE {}", ids[1]));
    }
    assert_eq!(ask(&mut b, "GET key"), Reply::Bytes(Some(b"value".to_vec())));
    assert_eq!(moved(&mut a), format!("MOVED 12539 127.0.0.1:{other_tls}"));
    // A replica of a node follows by the same port.
    let (third, third_tls) = node("third");
    ask(&mut a, &format!("CLUSTER MEET 127.0.0.1 {third_tls}"));
    let mut replica = third.client();
    let knows = |client: &mut Client| flat(ask(client, "CLUSTER NODES")).concat().contains(&ids[1]);
    wait_for("the third node to know the second", || knows(&mut replica));
    ask(&mut replica, &format!("CLUSTER REPLICATE {}", ids[1]));
    ask(&mut replica, "READONLY");
    wait_for("the key", || {
        try_ask(&mut replica, "GET key") == Reply::Bytes(Some(b"value".to_vec()))
    });
    assert_eq!(flat(ask(&mut replica, "CONFIG GET cluster-announce-ip"))[1], "");
}

#[test]
fn migrate_keeps_its_connection() {
    let dir = scratch("migrate-kept");
    let path = dir.join("target");
    let source = Server::start(&dir.join("source"), &["--loops", "1"]);
    let target = Server::start(&path, &["--loops", "1"]);
    let (mut from, port) = (source.client(), target.port);
    let mut came = target.client();
    let count = |client: &mut Client| -> u64 {
        info(client, "stats", "total_connections_received").parse().expect("a number")
    };
    let before = count(&mut came);
    for nth in 0..20 {
        ask(&mut from, &format!("SET k{nth} v"));
        ask(&mut from, &format!("MIGRATE 127.0.0.1 {port} k{nth} 0 5000"));
    }
    assert_eq!(ask(&mut came, "EXISTS k0 k19"), Reply::Number(2));
    assert_eq!(count(&mut came) - before, 1, "one connection for all of them");
    // Another database has one of its own; and a target that was started anew is reached again.
    ask(&mut from, "SET other v");
    ask(&mut from, &format!("MIGRATE 127.0.0.1 {port} other 3 5000"));
    assert_eq!(count(&mut came) - before, 2);
    target.stop();
    let _target = Server::start_at(&path, &format!("127.0.0.1:{port}"), &["--loops", "1"]);
    ask(&mut from, "SET last v");
    ask(&mut from, &format!("MIGRATE 127.0.0.1 {port} last 0 5000"));
}
