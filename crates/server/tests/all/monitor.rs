//! MONITOR shows what Redis shows, line by line.

use crate::redis::Redis;
use crate::support::{Client, Probe, config, show, start_with};
use silica_proto::Value;
use silica_server::Config;

/// What two clients do, the second of which is the connection `b`.
const LINES: &[&str] = &[
    "SET a 1",
    "SELECT 3",
    "GET a\\x01",
    "MULTI",
    "SET k 1",
    "GET k",
    "EXEC",
    "EXEC",
    "FOO",
    "GET",
    "AUTH pw",
    "AUTH user pw",
    "HELLO 3 AUTH default pw SETNAME x",
    "HELLO 2",
    "CONFIG GET port",
    "EVAL redis.call('set',KEYS[1],ARGV[1]);return(redis.call('get',KEYS[1])) 1 k v",
    "CLIENT SETNAME me",
    "ACL WHOAMI",
    "PUBLISH x y",
    "PING",
    "MULTI",
    "GET a",
    "DISCARD",
    "ECHO hi",
    "SELECT 0",
    "DEL a k",
    "INFO server",
    "WATCH a",
    "UNWATCH",
    "TTL a",
    "MSET a 1 b 2",
    "PING end",
];

/// A line without its time and address.
fn comparable(line: &str) -> String {
    let (time, rest) = line.split_once(' ').expect("a time comes first");
    let (seconds, micros) = time.split_once('.').expect("with a point");
    assert!(seconds.len() == 10 && micros.len() == 6, "{line}");
    let (source, args) = rest.split_once("] ").expect("a source");
    let source = source.split(' ').map(|word| word.split(':').next().unwrap_or_default());
    format!("{}] {args}", source.collect::<Vec<_>>().join(" "))
}

fn monitored(mut monitor: Client, mut client: Client) -> Vec<String> {
    assert_eq!(monitor.ask("MONITOR"), "OK");
    for line in LINES {
        client.ask(line);
    }
    let mut lines = Vec::new();
    loop {
        let Some(Value::Simple(line)) = monitor.reply() else { panic!("a line of text") };
        lines.push(comparable(&line));
        if line.ends_with("\"PING\" \"end\"") {
            break;
        }
    }
    assert_eq!(monitor.ask("GET a"), "-ERR Replica can't interact with the keyspace");
    assert!(client.text("CLIENT LIST").contains(" flags=O "));
    // What it is shown may come before the answer.
    monitor.send(b"RESET\r\n");
    while show(&monitor.reply().unwrap()) != "RESET" {}
    client.ask("SET a 5");
    assert_eq!(monitor.ask("GET a"), "'5'");
    lines
}

#[test]
fn lines_are_those_of_redis() {
    let Some(redis) = Redis::start() else {
        println!("skipped: redis-server is not installed (Debian: apt-get install redis-server)");
        return;
    };
    let theirs = monitored(redis.connect(), redis.connect());
    for may_wait in [false, true] {
        let (server, _) = start_with(config(), Probe::new(may_wait));
        let ours = monitored(Client::connect(&server), Client::connect(&server));
        assert_eq!(ours, theirs);
        server.stop();
    }
}

#[test]
fn requests_of_memcached_clients_are_shown() {
    let (server, _) = start_with(config(), Probe::new(false));
    let (mut monitor, mut client) = (Client::connect(&server), Client::connect(&server));
    assert_eq!(monitor.ask("MONITOR"), "OK");
    client.send(b"set k 0 0 1\r\nx\r\nget k l\r\n");
    let next = |monitor: &mut Client| comparable(&show(&monitor.reply().unwrap()));
    assert_eq!(next(&mut monitor), "[0 127.0.0.1] \"set\" \"k\"");
    assert_eq!(next(&mut monitor), "[0 127.0.0.1] \"get\" \"k\" \"l\"");
    server.stop();
}

#[test]
fn a_monitor_that_does_not_read_is_dropped() {
    let config = Config { client_output_bytes_max: 1 << 20, ..config() };
    let (server, _) = start_with(config, Probe::new(false));
    let (mut monitor, mut client) = (Client::connect(&server), Client::connect(&server));
    assert_eq!(monitor.ask("MONITOR"), "OK");
    let value = "x".repeat(100_000);
    let mut rounds = 0;
    while client.text("CLIENT LIST").contains(" flags=O ") {
        assert!(rounds < 1000, "it holds what nobody reads");
        rounds += 1;
        assert_eq!(client.ask(&format!("SET k {value}")), "OK");
    }
    assert_eq!(client.ask("PING"), "PONG");
    server.stop();
}

#[test]
fn another_policy_of_eviction_is_refused_in_words() {
    let (server, _) = start_with(config(), Probe::new(false));
    let mut client = Client::connect(&server);
    let is = client.ask("CONFIG GET maxmemory-policy");
    let is = is.trim_end_matches("']").rsplit('\'').next().unwrap().to_string();
    assert_eq!(client.ask(&format!("CONFIG SET maxmemory-policy {is}")), "OK");
    assert_eq!(client.ask(&format!("CONFIG SET maxmemory-policy {}", is.to_uppercase())), "OK");
    let refused = client.ask("CONFIG SET maxmemory-policy volatile-ttl");
    assert!(refused.contains(&is) && refused.contains("store"), "{refused}");
    let refused = client.ask("CONFIG SET maxmemory-policy foo");
    assert!(refused.contains("must be one of the following: volatile-lru, "), "{refused}");
    server.stop();
}
