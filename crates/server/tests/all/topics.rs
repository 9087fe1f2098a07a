//! Channels: who listens gets every message, in order, and nobody else does.

use crate::support::{Client, Probe, config, show, start, start_with};
use silica_server::Config;
use std::time::{Duration, Instant};

fn next(client: &mut Client) -> String {
    show(&client.reply().expect("the connection is open"))
}

#[test]
fn messages_reach_those_who_listen() {
    for dialect in ["HELLO 2", "HELLO 3"] {
        let server = start();
        let (mut ear, mut mouth) = (Client::connect(&server), Client::connect(&server));
        ear.ask(dialect);
        let push = |text: &str| match dialect {
            "HELLO 2" => text.to_string(),
            _ => format!(">{text}"),
        };
        assert_eq!(mouth.ask("PUBLISH news nobody"), ":0");
        assert_eq!(ear.ask("SUBSCRIBE news sport"), push("['subscribe' 'news' :1]"));
        assert_eq!(next(&mut ear), push("['subscribe' 'sport' :2]"));
        assert_eq!(ear.ask("PSUBSCRIBE n*"), push("['psubscribe' 'n*' :3]"));
        assert_eq!(ear.ask("SUBSCRIBE news"), push("['subscribe' 'news' :3]"));
        assert_eq!(mouth.ask("PUBSUB NUMSUB news other"), "['news' :1 'other' :0]");
        assert_eq!(mouth.ask("PUBSUB CHANNELS"), "['news' 'sport']");
        assert_eq!(mouth.ask("PUBSUB CHANNELS s*"), "['sport']");
        assert_eq!(mouth.ask("PUBSUB NUMPAT"), ":1");
        assert_eq!(mouth.ask("PUBLISH news hi"), ":2");
        assert_eq!(next(&mut ear), push("['message' 'news' 'hi']"));
        assert_eq!(next(&mut ear), push("['pmessage' 'n*' 'news' 'hi']"));
        assert_eq!(mouth.ask("PUBLISH night x"), ":1");
        assert_eq!(next(&mut ear), push("['pmessage' 'n*' 'night' 'x']"));
        let list = mouth.text("CLIENT LIST");
        assert!(list.contains("sub=2 psub=1") && list.contains("sub=0 psub=0"), "{list}");
        assert_eq!(ear.ask("UNSUBSCRIBE"), push("['unsubscribe' 'news' :2]"));
        assert_eq!(next(&mut ear), push("['unsubscribe' 'sport' :1]"));
        assert_eq!(ear.ask("UNSUBSCRIBE"), push("['unsubscribe' nil :1]"));
        assert_eq!(ear.ask("PUNSUBSCRIBE n* none"), push("['punsubscribe' 'n*' :0]"));
        assert_eq!(next(&mut ear), push("['punsubscribe' 'none' :0]"));
        assert_eq!(mouth.ask("PUBLISH news again"), ":0");
        assert_eq!(ear.ask("PING"), "PONG");
        server.stop();
    }
}

#[test]
fn a_listener_in_the_old_dialect_may_do_little_else() {
    let server = start();
    let mut client = Client::connect(&server);
    client.ask("SUBSCRIBE a");
    let refused = client.ask("GET x");
    assert_eq!(
        refused,
        "-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET \
         are allowed in this context"
    );
    assert_eq!(client.ask("PING"), "['pong' '']");
    assert_eq!(client.ask("PING hi"), "['pong' 'hi']");
    assert_eq!(client.ask("RESET"), "RESET");
    assert_eq!(client.ask("GET x"), "nil");
    client.ask("HELLO 3");
    client.ask("SUBSCRIBE a");
    assert_eq!(client.ask("GET x"), "nil");
    assert_eq!(client.ask("PUBLISH a me"), ":1");
    assert_eq!(next(&mut client), ">['message' 'a' 'me']");
    server.stop();
}

/// What its sender wrote before is there when the message comes; all listeners see one order; a
/// listener's own requests keep their replies in order.
#[test]
fn order_is_kept() {
    for may_wait in [false, true] {
        let (server, _) = start_with(config(), Probe::new(may_wait));
        std::thread::scope(|scope| {
            let ears: Vec<_> = (0..3)
                .map(|_| {
                    let mut ear = Client::connect(&server);
                    ear.ask("HELLO 3");
                    ear.ask("SUBSCRIBE c");
                    let mut reader = Client::connect(&server);
                    scope.spawn(move || {
                        let mut seen = Vec::new();
                        while seen.len() < 400 {
                            let message = next(&mut ear);
                            let key = message.split('\'').nth(5).expect("a payload").to_string();
                            if seen.len() % 20 == 0 {
                                assert_eq!(reader.ask(&format!("GET {key}")), "'1'", "{key}");
                            }
                            seen.push(key);
                        }
                        seen
                    })
                })
                .collect();
            for thread in 0..2 {
                let server = &server;
                scope.spawn(move || {
                    let mut mouth = Client::connect(server);
                    for n in 0..200 {
                        let key = format!("k{thread}-{n}");
                        mouth.send(format!("SET {key} 1\r\nPUBLISH c {key}\r\n").as_bytes());
                        assert_eq!(show(&mouth.replies(2)[1]), ":3");
                    }
                });
            }
            let seen: Vec<_> = ears.into_iter().map(|ear| ear.join().unwrap()).collect();
            assert!(seen[0] == seen[1] && seen[1] == seen[2], "one order for all");
        });
        server.stop();
    }
}

#[test]
fn a_listener_that_does_not_read_is_dropped_and_forgotten() {
    let config = Config { client_output_bytes_max: 1 << 20, ..config() };
    let (server, _) = start_with(config, Probe::new(false));
    let (mut deaf, mut mouth) = (Client::connect(&server), Client::connect(&server));
    deaf.ask("SUBSCRIBE a");
    let message = "x".repeat(60_000);
    let deadline = Instant::now() + Duration::from_secs(20);
    while mouth.ask(&format!("PUBLISH a {message}")) == ":1" {
        assert!(Instant::now() < deadline, "the listener is still there");
    }
    assert_eq!(mouth.ask("PUBSUB CHANNELS"), "[]");
    let stats = mouth.text("INFO stats");
    assert!(stats.contains("stalled_clients_dropped:1"), "{stats}");
    server.stop();
}

#[test]
fn a_connection_that_ends_listens_no_more() {
    let server = start();
    let mut mouth = Client::connect(&server);
    let mut ear = Client::connect(&server);
    ear.ask("SUBSCRIBE a");
    ear.send(b"PSUBSCRIBE b*\r\n");
    next(&mut ear);
    drop(ear);
    let deadline = Instant::now() + Duration::from_secs(20);
    while mouth.ask("PUBSUB NUMPAT") != ":0" {
        assert!(Instant::now() < deadline, "the pattern is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(mouth.ask("PUBSUB CHANNELS"), "[]");
    server.stop();
}

#[test]
fn sharded_channels_are_apart() {
    let server = start();
    let (mut ear, mut mouth) = (Client::connect(&server), Client::connect(&server));
    assert_eq!(ear.ask("SUBSCRIBE c"), "['subscribe' 'c' :1]");
    assert_eq!(ear.ask("SSUBSCRIBE c d"), "['ssubscribe' 'c' :1]");
    assert_eq!(next(&mut ear), "['ssubscribe' 'd' :2]");
    assert_eq!(ear.ask("PSUBSCRIBE *"), "['psubscribe' '*' :2]");
    assert_eq!(mouth.ask("SPUBLISH c one"), ":1");
    assert_eq!(next(&mut ear), "['smessage' 'c' 'one']");
    assert_eq!(mouth.ask("PUBLISH c two"), ":2");
    assert_eq!(next(&mut ear), "['message' 'c' 'two']");
    assert_eq!(next(&mut ear), "['pmessage' '*' 'c' 'two']");
    assert_eq!(mouth.ask("PUBSUB SHARDCHANNELS"), "['c' 'd']");
    assert_eq!(mouth.ask("PUBSUB SHARDCHANNELS d*"), "['d']");
    assert_eq!(mouth.ask("PUBSUB SHARDNUMSUB c x"), "['c' :1 'x' :0]");
    assert!(mouth.text("CLIENT LIST").contains("sub=1 psub=1 ssub=2"));
    for (line, answer) in [("MULTI", "OK"), ("SPUBLISH d three", "QUEUED"), ("EXEC", "[:1]")] {
        assert_eq!(mouth.ask(line), answer);
    }
    assert_eq!(next(&mut ear), "['smessage' 'd' 'three']");
    assert_eq!(ear.ask("SUNSUBSCRIBE"), "['sunsubscribe' 'c' :1]");
    assert_eq!(next(&mut ear), "['sunsubscribe' 'd' :0]");
    assert_eq!(mouth.ask("SPUBLISH c nobody"), ":0");
    server.stop();
}

/// CLIENT REPLY OFF takes replies away, and no messages: confirmations are such.
#[test]
fn whoever_wants_no_replies_listens_all_the_same() {
    for dialect in [2, 3] {
        let server = start();
        let (mut ear, mut mouth) = (Client::connect(&server), Client::connect(&server));
        ear.ask(&format!("HELLO {dialect}"));
        ear.send(b"CLIENT REPLY OFF\r\nSUBSCRIBE c\r\nPING\r\n");
        let push = if dialect == 3 { ">" } else { "" };
        assert_eq!(next(&mut ear), format!("{push}['subscribe' 'c' :1]"));
        assert_eq!(mouth.ask("PUBLISH c hi"), ":1");
        assert_eq!(next(&mut ear), format!("{push}['message' 'c' 'hi']"));
        ear.send(b"UNSUBSCRIBE c\r\nCLIENT REPLY ON\r\n");
        assert_eq!(next(&mut ear), format!("{push}['unsubscribe' 'c' :0]"));
        assert_eq!(next(&mut ear), "OK");
        server.stop();
    }
}
