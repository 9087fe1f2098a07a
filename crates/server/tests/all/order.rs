//! What one connection sends takes effect in its order: a pipeline in one send is answered as its
//! commands are when each is sent after the reply to the one before.

use crate::support::memcached::Raw;
use crate::support::{Client, Probe, config, request, show, start_with};
use silica_base::{Prng, test_size};
use silica_proto::Value;
use silica_server::{Config, EventLoopKind, Server};
use std::collections::BTreeMap;

const LOOPS: [EventLoopKind; 2] = [EventLoopKind::Auto, EventLoopKind::Epoll];

/// Commands of every kind, each with one reply.
const COMMANDS: &[&str] = &[
    "PING",
    "ECHO x",
    "GET a",
    "SET a 1",
    "SET b 2",
    "INCR a",
    "DEL a b",
    "MGET a b",
    "MSET a 1 b 2",
    "EXISTS a b",
    "GETDEL a",
    "EXPIRE a 1000",
    "PERSIST a",
    "COPY a b",
    "DBSIZE",
    "KEYS *",
    "SCAN 0",
    "FLUSHDB",
    "FLUSHALL",
    "SELECT 0",
    "SELECT 1",
    "HELLO",
    "HELLO 2",
    "HELLO 3",
    "HELLO 3 SETNAME hello",
    "CLIENT SETNAME one",
    "CLIENT SETNAME two",
    "CLIENT GETNAME",
    "CLIENT ID",
    "CLIENT INFO",
    "CLIENT LIST",
    "CLIENT NO-EVICT ON",
    "CLIENT NO-EVICT OFF",
    "CLIENT SETINFO LIB-NAME lib",
    "CLIENT TRACKING ON BCAST",
    "CLIENT TRACKING OFF",
    "CLIENT TRACKINGINFO",
    "CLIENT GETREDIR",
    "CLIENT KILL ID 999999",
    "CLIENT UNPAUSE",
    "CLIENT REPLY ON",
    "CONFIG SET slowlog-max-len 77",
    "CONFIG SET slowlog-max-len 78",
    "CONFIG GET slowlog-max-len",
    "CONFIG RESETSTAT",
    "INFO stats",
    "INFO commandstats",
    "INFO clients",
    "SLOWLOG RESET",
    "SLOWLOG LEN",
    "LATENCY RESET",
    "COMMAND COUNT",
    "ACL SETUSER one on nopass ~* &* +@all",
    "ACL SETUSER one -get",
    "ACL SETUSER one +get",
    "ACL SETUSER one resetkeys ~a*",
    "ACL SETUSER default -mget",
    "ACL SETUSER default +mget",
    "ACL WHOAMI",
    "ACL LOG",
    "ACL LOG RESET",
    "ACL LIST",
    "AUTH one x",
    "AUTH none x",
    "AUTH default x",
    "MULTI",
    "MULTI",
    "EXEC",
    "EXEC",
    "DISCARD",
    "WATCH a",
    "UNWATCH",
    "SUBSCRIBE ch",
    "SUBSCRIBE other",
    "UNSUBSCRIBE ch",
    "PSUBSCRIBE c*",
    "PUNSUBSCRIBE c*",
    "PUBLISH ch hi",
    "PUBLISH ch ho",
    "PUBLISH other hi",
    "PUBSUB CHANNELS",
    "PUBSUB NUMSUB ch",
    "PUBSUB NUMPAT",
    "RESET",
    "NONSENSE",
    "GET",
];

fn bytes(line: &str) -> Vec<u8> {
    request(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
}

/// What `line` is about where it is one line of a description of a client.
fn client_line(line: &str) -> String {
    let kept = ["id", "name", "db", "sub", "psub", "multi", "resp", "user", "cmd", "lib-name"];
    let is_kept =
        |field: &&str| field.split_once('=').is_some_and(|(name, _)| kept.contains(&name));
    line.split(' ').filter(is_kept).collect::<Vec<_>>().join(" ")
}

/// The parts of a reply that do not depend on time, ports or how requests were put together.
fn judged(line: &str, value: &Value) -> String {
    let text = match value {
        Value::Bulk(bytes) | Value::Verbatim(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => show(other),
    };
    let lines = text.lines();
    match line {
        "CLIENT INFO" | "CLIENT LIST" if text.contains("id=") => {
            lines.map(client_line).collect::<Vec<_>>().join("\n")
        }
        "INFO stats" => {
            let kept = ["total_commands_processed", "total_error_replies", "keyspace_"];
            let lines = lines.filter(|line| kept.iter().any(|kept| line.starts_with(kept)));
            lines.collect::<Vec<_>>().join("\n")
        }
        "INFO commandstats" => {
            let kept = ["cmdstat", "calls", "rejected_calls", "failed_calls"];
            let field = |field: &&str| kept.iter().any(|kept| field.starts_with(kept));
            let shorten = |line: &str| line.split(',').filter(field).collect::<Vec<_>>().join(",");
            lines.map(shorten).collect::<Vec<_>>().join("\n")
        }
        "INFO clients" => {
            let kept = ["connected_clients", "pubsub_clients", "tracking_clients"];
            let lines = lines.filter(|line| kept.iter().any(|kept| line.starts_with(kept)));
            lines.collect::<Vec<_>>().join("\n")
        }
        "ACL LOG" => match value {
            Value::Array(entries) => format!("{} entries", entries.len()),
            other => show(other),
        },
        _ => text,
    }
}

/// What a connection was told: replies, messages of channels, and keys that were written.
#[derive(Debug, Default, PartialEq)]
struct Told {
    replies: Vec<String>,
    messages: Vec<String>,
    written: Vec<String>,
}

impl Told {
    /// Reads until the reply to `line` has come.
    fn read(&mut self, client: &mut Client, line: &str) {
        loop {
            let value = client.reply().expect("the connection is open");
            let word = match &value {
                Value::Push(parts) | Value::Array(parts) => match parts.first() {
                    Some(Value::Bulk(word)) => String::from_utf8_lossy(word).into_owned(),
                    _ => String::new(),
                },
                _ => String::new(),
            };
            match (&word[..], &value) {
                ("message" | "pmessage", value) => self.messages.push(show(value)),
                ("invalidate", Value::Push(parts)) => match &parts[1] {
                    Value::Array(keys) => self.written.extend(keys.iter().map(show)),
                    all => self.written.push(show(all)),
                },
                _ => return self.replies.push(format!("{line} -> {}", judged(line, &value))),
            }
        }
    }

    /// What still comes goes before the reply to a last request.
    fn end(&mut self, client: &mut Client) {
        client.send(&bytes("PING end"));
        self.read(client, "PING end");
    }
}

fn one_by_one(server: &Server, pipeline: &[&str]) -> Told {
    let (mut client, mut told) = (Client::connect(server), Told::default());
    for line in pipeline {
        client.send(&bytes(line));
        told.read(&mut client, line);
    }
    told.end(&mut client);
    told
}

fn in_one_send(server: &Server, pipeline: &[&str], inline: bool) -> Told {
    let (mut client, mut told) = (Client::connect(server), Told::default());
    let send = |line: &&str| {
        if inline { format!("{line}\r\n").into_bytes() } else { bytes(line) }
    };
    client.send(&pipeline.iter().flat_map(send).collect::<Vec<_>>());
    pipeline.iter().for_each(|line| told.read(&mut client, line));
    told.end(&mut client);
    told
}

/// Makes `server` as new, and waits until its earlier connections are gone. Its own stays, for as
/// long as clients are counted.
fn forget(server: &Server) -> Client {
    let mut client = Client::connect(server);
    for line in ["ACL SETUSER default +mget", "FLUSHALL", "CONFIG SET slowlog-max-len 128"] {
        assert_eq!(client.ask(line), "OK", "{line}");
    }
    client.ask("ACL DELUSER one");
    while !client.text("INFO clients").contains("connected_clients:1\r\n") {}
    for line in ["ACL LOG RESET", "SLOWLOG RESET", "CONFIG RESETSTAT"] {
        assert_eq!(client.ask(line), "OK", "{line}");
    }
    client
}

#[test]
fn one_send_is_answered_as_many_are() {
    let mut random = Prng::new(6);
    for event_loop in LOOPS {
        for may_wait in [false, true] {
            let start = || {
                let config = Config { event_loop, ..config() };
                start_with(config, Probe::new(may_wait)).0
            };
            let (alone, together) = (start(), start());
            for _ in 0..test_size(100, 500, 50_000) {
                let pipeline: Vec<&str> = (0..2 + random.below(14))
                    .map(|_| COMMANDS[random.below(COMMANDS.len() as u64) as usize])
                    .collect();
                let _others = (forget(&alone), forget(&together));
                let inline = random.one_in(4);
                let want = one_by_one(&alone, &pipeline);
                let got = in_one_send(&together, &pipeline, inline);
                assert_eq!(got, want, "{pipeline:?} on {event_loop:?}, waits: {may_wait}");
            }
            alone.stop();
            together.stop();
        }
    }
}

/// Pairs of a command that waits for an engine and one that acts on more than keys, each of which
/// was seen out of order.
#[test]
fn what_comes_later_acts_later() {
    for event_loop in LOOPS {
        for may_wait in [false, true] {
            let config = Config { event_loop, ..config() };
            let (server, _) = start_with(config, Probe::new(may_wait));
            let told = |pipeline: &[&str]| in_one_send(&server, pipeline, false);
            let shown = told(&["HELLO 3", "SUBSCRIBE ch", "PUBLISH ch hi", "UNSUBSCRIBE ch"]);
            assert_eq!(shown.replies[2], "PUBLISH ch hi -> :1");
            assert_eq!(shown.messages, [">['message' 'ch' 'hi']"]);
            let shown = told(&["PUBLISH ch hi", "SUBSCRIBE ch"]);
            assert_eq!(shown.replies[0], "PUBLISH ch hi -> :0");
            assert_eq!(shown.messages.len(), 0);
            let shown = told(&["CLIENT LIST", "CLIENT SETNAME late", "SELECT 3", "AUTH x y"]);
            assert!(shown.replies[0].contains("name= db=0"), "{}", shown.replies[0]);
            let shown = told(&["SET a 1", "CLIENT TRACKING ON BCAST", "HELLO 3"]);
            assert_eq!(shown.written.len(), 0, "it was written before");
            let shown = told(&["GET a", "CONFIG RESETSTAT", "INFO stats"]);
            assert!(shown.replies[2].contains("keyspace_hits:0"), "{}", shown.replies[2]);
            server.stop();
        }
    }
}

#[test]
fn figures_of_memcached_count_what_came_before() {
    let counted = |text: &[u8]| {
        let text = String::from_utf8_lossy(text).into_owned();
        let lines = text.lines().filter_map(|line| line.strip_prefix("STAT cmd_set "));
        lines.map(|count| count.parse::<u32>().unwrap()).collect::<Vec<_>>()
    };
    for event_loop in LOOPS {
        let config = Config { event_loop, ..config() };
        let (server, _) = start_with(config, Probe::new(false));
        let mut client = Raw::connect(server.local_addr());
        let pipeline = "set a 0 0 1\r\na\r\nstats\r\nset a 0 0 1\r\nb\r\nstats\r\nmn\r\n";
        assert_eq!(counted(&client.until(pipeline.as_bytes(), b"MN\r\n")), [1, 2]);
        server.stop();
    }
}

#[test]
fn many_of_them_are_answered_at_once() {
    for event_loop in LOOPS {
        let config = Config { event_loop, ..config() };
        let (server, _) = start_with(config, Probe::new(true));
        let mut client = Client::connect(&server);
        let names: Vec<String> = (0..2000).map(|n| format!("CLIENT SETNAME 'n{n}'\r\n")).collect();
        client.send(names.concat().as_bytes());
        client.socket.shutdown(std::net::Shutdown::Write).unwrap();
        // Whoever sends no more gets all replies, too.
        let mut replies = BTreeMap::new();
        while let Some(value) = client.reply() {
            *replies.entry(show(&value)).or_insert(0) += 1;
        }
        assert_eq!(replies, BTreeMap::from([("OK".to_string(), 2000)]));
        server.stop();
    }
}
