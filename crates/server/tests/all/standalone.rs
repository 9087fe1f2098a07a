//! What clients and tools ask of a server that is alone, and settings that change while it runs.

use crate::support::{Client, start};
use std::time::{Duration, Instant};

#[test]
fn roles_and_modules_are_told() {
    let server = start();
    let mut client = Client::connect(&server);
    for (line, answer) in [
        ("ROLE", "['master' :0 []]"),
        ("MODULE LIST", "[]"),
        ("CLUSTER INFO", "-ERR This instance has cluster support disabled"),
        ("CLUSTER NODES", "-ERR This instance has cluster support disabled"),
        ("MEMORY PURGE", "OK"),
        ("SORT missing", "[]"),
        ("SORT missing LIMIT 0 10 DESC ALPHA", "[]"),
        ("SORT_RO missing", "[]"),
        ("SORT missing LIMIT 0", "-ERR syntax error"),
        ("SORT missing LIMIT a b", "-ERR value is not an integer or out of range"),
        ("SET text x", "OK"),
        ("SORT text", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SET f 0.1", "OK"),
        ("INCRBYFLOAT f 0.2", "'0.3'"),
        ("INCRBYFLOAT f -0.3", "'0'"),
    ] {
        assert_eq!(client.ask(line), answer, "{line}");
    }
    server.stop();
}

#[test]
fn a_day_has_microseconds() {
    let server = start();
    let mut client = Client::connect(&server);
    let micros = |text: String| -> u64 {
        text.split('\'').nth(3).and_then(|part| part.parse().ok()).expect("two numbers")
    };
    // Of a clock of milliseconds every one would end so.
    let is_finer = (0..20).any(|_| micros(client.ask("TIME")) % 1000 != 0);
    assert!(is_finer);
    server.stop();
}

#[test]
fn what_was_slow_is_told_in_words() {
    let server = start();
    let mut client = Client::connect(&server);
    assert!(client.text("LATENCY DOCTOR").contains("latency-monitor-threshold"));
    let nothing = client.ask("LATENCY GRAPH command");
    assert_eq!(nothing, "-ERR No samples available for event 'command'");
    client.ask("CONFIG SET latency-monitor-threshold 20");
    assert!(client.text("LATENCY DOCTOR").starts_with("No burst"));
    assert_eq!(client.ask("DEBUG SLEEP 0.05"), "OK");
    let said = client.text("LATENCY DOCTOR");
    assert!(said.starts_with("1 seconds had a slow burst"), "{said}");
    let drawn = client.text("LATENCY GRAPH command");
    assert!(drawn.contains("all time high") && drawn.contains("###"), "{drawn}");
    server.stop();
}

#[test]
fn nobody_is_served_while_the_server_sleeps() {
    let server = start();
    let (mut sleeper, mut other) = (Client::connect(&server), Client::connect(&server));
    other.ask("PING");
    let begun = Instant::now();
    sleeper.send(b"DEBUG SLEEP 0.3\r\n");
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(other.ask("GET a"), "nil");
    assert!(begun.elapsed() >= Duration::from_millis(290), "{:?}", begun.elapsed());
    for wrong in ["x", "-1", "1e9", "nan"] {
        assert!(other.ask(&format!("DEBUG SLEEP {wrong}")).starts_with("-ERR"), "{wrong}");
    }
    server.stop();
}

#[test]
fn the_password_changes_while_the_server_runs() {
    let server = start();
    let mut client = Client::connect(&server);
    assert_eq!(client.ask("CONFIG GET requirepass"), "['requirepass' '']");
    assert_eq!(client.ask("CONFIG SET requirepass one"), "OK");
    assert_eq!(client.ask("CONFIG SET requirepass two"), "OK");
    assert_eq!(client.ask("CONFIG GET requirepass"), "['requirepass' '(hidden)']");
    let mut stranger = Client::connect(&server);
    assert!(stranger.ask("GET a").starts_with("-NOAUTH"));
    assert!(stranger.ask("AUTH one").starts_with("-WRONGPASS"));
    assert_eq!(stranger.ask("AUTH two"), "OK");
    client.call(&[b"CONFIG", b"SET", b"requirepass", b""]);
    assert_eq!(Client::connect(&server).ask("GET a"), "nil");
    server.stop();
}

#[test]
fn idle_clients_are_let_go() {
    let server = start();
    let (mut idle, mut ear) = (Client::connect(&server), Client::connect(&server));
    assert_eq!(idle.ask("CONFIG GET timeout"), "['timeout' '0']");
    ear.ask("SUBSCRIBE c");
    // From before the request: a busy machine may show its answer late.
    let begun = Instant::now();
    assert_eq!(idle.ask("CONFIG SET timeout 1"), "OK");
    assert!(idle.reply().is_none(), "it was closed");
    assert!(begun.elapsed() >= Duration::from_millis(999), "{:?}", begun.elapsed());
    let mut mouth = Client::connect(&server);
    assert_eq!(mouth.ask("PUBLISH c hi"), ":1", "who listens stays");
    server.stop();
}

#[test]
fn several_settings_change_together_or_none_does() {
    let server = start();
    let mut client = Client::connect(&server);
    let refused = client.ask("CONFIG SET timeout 7 maxmemory many");
    assert!(refused.contains("'maxmemory') - argument must be a memory value"), "{refused}");
    assert_eq!(client.ask("CONFIG GET timeout"), "['timeout' '0']");
    server.stop();
}

/// A browser's request that some page has made it send must do nothing here.
#[test]
fn browsers_are_hung_up_on() {
    let server = start();
    for line in [
        "GET / HTTP/1.1",
        "POST / HTTP/1.1",
        "PUT /x HTTP/1.1",
        "HEAD / HTTP/1.0",
        "DELETE /x HTTP/1.1",
        "OPTIONS / HTTP/1.1",
        "Host: x",
    ] {
        let mut client = Client::connect(&server);
        client.send(format!("{line}\r\nSET stolen 1\r\n").as_bytes());
        assert!(client.reply().is_none(), "{line}");
    }
    let mut client = Client::connect(&server);
    assert_eq!(client.ask("GET stolen"), "nil");
    assert_eq!(client.ask("SET path HTTP/1.1"), "OK", "a value may be anything");
    server.stop();
}

#[test]
fn rules_about_commands_of_redis_are_taken() {
    let server = start();
    let mut client = Client::connect(&server);
    assert_eq!(client.ask("ACL SETUSER bob on nopass ~* +@all -hset -xinfo|stream +lpush"), "OK");
    assert!(client.ask("ACL LIST").contains("+@all -hset -xinfo|stream +lpush"));
    assert!(client.ask("ACL SETUSER bob +nosuch").contains("Unknown command or category"));
    let mut bob = Client::connect(&server);
    bob.ask("AUTH bob x");
    assert_eq!(bob.ask("SET a b"), "OK");
    server.stop();
}
