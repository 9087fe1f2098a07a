//! Concurrent histories over TCP, each of which must have an order: RESP and memcached's text
//! protocol on the same keys, and requests whose answer nobody waits for.

use crate::support;
use crate::support::memcached::Raw;
use crate::support::{Probe, config, request, start_with};
use silica::OpenOptions;
use silica_base::{Prng, test_size};
use silica_engine::{Engine, Result};
use silica_proto::Value;
use silica_server::{Config, Databases, Mode, Server};
use silica_testkit::histories::{Answer, Call, Client, History, Load, Memory, record};
use std::net::SocketAddr;
use std::sync::Arc;

/// A connection that speaks RESP, and now and then another one that does not wait.
struct Resp {
    address: SocketAddr,
    connection: support::Client,
    prng: Prng,
}

fn bulk(reply: Value) -> Option<Vec<u8>> {
    match reply {
        Value::Bulk(bytes) => Some(bytes),
        Value::Null => None,
        other => panic!("{other:?}"),
    }
}

impl Resp {
    fn connect(address: SocketAddr, seed: u64) -> Self {
        let connection = support::Client::connect_to(address).expect("a connection");
        Resp { address, connection, prng: Prng::new(seed) }
    }

    /// Sends a request, or a part of it, and closes the connection.
    fn leave(&mut self, request: &[u8]) {
        let len = self.prng.below(1 + request.len() as u64) as usize;
        let len = if self.prng.below(2) == 0 { len } else { request.len() };
        let mut other = support::Client::connect_to(self.address).expect("a connection");
        other.send(&request[..len]);
    }
}

impl Resp {
    fn watch(&mut self, key: &[u8]) -> Answer {
        self.connection.send(&[request(&[b"WATCH", key]), request(&[b"GET", key])].concat());
        let [ok, found] = self.connection.replies(2).try_into().expect("two replies");
        assert_eq!(ok, Value::Simple("OK".into()));
        Answer::Was(bulk(found))
    }

    /// Writes the key unless somebody has written it since it was watched.
    fn commit(&mut self, key: &[u8], new: Option<&[u8]>) -> Answer {
        let write = match new {
            Some(value) => request(&[b"SET", key, value]),
            None => request(&[b"DEL", key]),
        };
        let all = [request(&[b"MULTI"]), write, request(&[b"EXEC"])];
        if self.prng.below(2) == 0 {
            self.connection.send(&all.concat());
        } else {
            all.iter().for_each(|request| self.connection.send(request));
        }
        match self.connection.replies(3).pop() {
            Some(Value::Array(_)) => Answer::Did(true),
            Some(Value::Null) => Answer::Did(false),
            other => panic!("{other:?}"),
        }
    }
}

impl Client for Resp {
    fn call(&mut self, key: &[u8], call: &Call) -> Answer {
        let (number, expected);
        let words: Vec<&[u8]> = match call {
            Call::Get => vec![b"GET", key],
            Call::Put(value) => vec![b"SET", key, value],
            Call::Delete => vec![b"DEL", key],
            Call::Replace(Some(new)) => vec![b"SET", key, new, b"GET"],
            Call::Replace(None) => vec![b"GETDEL", key],
            Call::Swap { expected: None, new: Some(new) } => vec![b"SET", key, new, b"NX"],
            Call::Swap { expected: Some(old), new: Some(new) } => {
                expected = old.clone();
                vec![b"SET", key, new, b"IFEQ", &expected]
            }
            Call::Swap { new: None, .. } => return Answer::Refused,
            Call::Watch => return self.watch(key),
            Call::Commit(new) => return self.commit(key, new.as_deref()),
            Call::Add(by) => {
                number = by.to_string();
                vec![b"INCRBY", key, number.as_bytes()]
            }
        };
        if *call != Call::Get && self.prng.below(100) == 0 {
            self.leave(&request(&words));
            return Answer::Unknown;
        }
        match (call, self.connection.call(&words)) {
            (Call::Get | Call::Replace(_), reply) => Answer::Was(bulk(reply)),
            (Call::Put(_), Value::Simple(_)) => Answer::Done,
            (Call::Delete, Value::Integer(count)) => Answer::Did(count == 1),
            (Call::Swap { .. }, reply) => Answer::Did(reply != Value::Null),
            (Call::Add(_), Value::Integer(sum)) => Answer::Sum(sum),
            (call, reply) => panic!("{call:?}: {reply:?}"),
        }
    }

    fn get_many(&mut self, keys: &[&[u8]]) -> Vec<Answer> {
        let Value::Array(found) = self.connection.call(&[&[&b"MGET"[..]], keys].concat()) else {
            panic!("no array");
        };
        found.into_iter().map(|value| Answer::Was(bulk(value))).collect()
    }
}

/// A connection that speaks memcached's text protocol.
struct Text(Raw);

impl Text {
    fn get(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        let reply = self.0.until(&[b"get ", key, b"\r\n"].concat(), b"END\r\n");
        let at = reply.windows(2).position(|two| two == b"\r\n").expect("a line") + 2;
        reply[at..].strip_suffix(b"\r\nEND\r\n").map(<[u8]>::to_vec)
    }

    fn ask(&mut self, line: String, value: &[u8]) -> String {
        let end = if value.is_empty() { &b""[..] } else { b"\r\n" };
        let reply = self.0.until(&[line.as_bytes(), value, end].concat(), b"\r\n");
        String::from_utf8(reply).expect("a text").trim_end().to_string()
    }
}

impl Client for Text {
    fn call(&mut self, key: &[u8], call: &Call) -> Answer {
        let name = String::from_utf8_lossy(key).into_owned();
        match call {
            Call::Put(value) => {
                let line = format!("set {name} 0 0 {}\r\n", value.len());
                assert_eq!(self.ask(line, value), "STORED");
                Answer::Done
            }
            Call::Swap { expected: None, new: Some(value) } => {
                let line = format!("add {name} 0 0 {}\r\n", value.len());
                Answer::Did(self.ask(line, value) == "STORED")
            }
            Call::Delete => Answer::Did(self.ask(format!("delete {name}\r\n"), b"") == "DELETED"),
            Call::Add(by) => {
                let reply = self.ask(format!("incr {name} {by}\r\n"), b"");
                match reply.parse() {
                    Ok(sum) => Answer::Sum(sum),
                    // Nothing is made of a missing key: a read that found none.
                    Err(_) => {
                        assert_eq!(reply, "NOT_FOUND");
                        Answer::Refused
                    }
                }
            }
            Call::Get => Answer::Was(self.get(key)),
            _ => Answer::Refused,
        }
    }
}

enum Either {
    Resp(Resp),
    Text(Text),
}

impl Client for Either {
    fn call(&mut self, key: &[u8], call: &Call) -> Answer {
        match self {
            Either::Resp(client) => client.call(key, call),
            Either::Text(client) => client.call(key, call),
        }
    }

    fn get_many(&mut self, keys: &[&[u8]]) -> Vec<Answer> {
        match self {
            Either::Resp(client) => client.get_many(keys),
            Either::Text(client) => keys.iter().map(|key| client.call(key, &Call::Get)).collect(),
        }
    }
}

fn check(server: &Server, memory: Memory, histories: u64) {
    let address = server.local_addr();
    let (mut committed, mut refused) = (0, 0);
    for number in 0..histories {
        let threads = 2 + number % 5;
        let calls = 600 / threads;
        let load = Load {
            threads,
            calls,
            keys: 2,
            counters: 2,
            recurring: 2,
            watches: true,
            value_bytes_max: 2000,
            updates: true,
        };
        let connect = |thread: u64| match thread % 3 {
            2 => Either::Text(Text(Raw::connect(address))),
            _ => Either::Resp(Resp::connect(address, number << 8 | thread)),
        };
        let history: History = record(load, number, &format!("{number}/"), connect);
        if let Err(piece) = history.check(memory) {
            panic!("history {number} of {threads} threads: {piece}");
        }
        for operation in &history.operations {
            match (&operation.call, &operation.answer) {
                (Call::Commit(_), Answer::Did(true)) => committed += 1,
                (Call::Commit(_), _) => refused += 1,
                _ => {}
            }
        }
    }
    assert!(committed > 10 && refused > 0, "{committed} transactions ran, {refused} did not");
}

#[test]
fn histories_of_an_engine_on_the_loops_and_on_the_workers() {
    for may_wait in [false, true] {
        let (server, _) = start_with(config(), Probe::new(may_wait));
        check(&server, Memory::Keeps, test_size(3, 20, 2_000));
        server.stop();
    }
}

#[test]
fn histories_of_partitions_that_loops_own() {
    for mode in [Mode::Crew, Mode::Erew] {
        let (server, _) = start_with(Config { mode, ..config() }, Probe::new(false));
        check(&server, Memory::Keeps, test_size(3, 20, 2_000));
        server.stop();
    }
}

/// One database, a cache.
struct Cache(Arc<dyn Engine>);

impl Databases for Cache {
    fn open(&self, _index: u32) -> Result<Arc<dyn Engine>> {
        Ok(Arc::clone(&self.0))
    }
}

#[test]
fn histories_of_a_cache() {
    // Logs that go round every few hundred calls.
    let options = OpenOptions::new().memory_bytes(256 << 10).set("partitions", "2");
    let source = Cache(options.open_cache().expect("a cache"));
    let server = Server::start(config(), Arc::new(source)).expect("a server");
    check(&server, Memory::Forgets, test_size(5, 40, 4_000));
    server.stop();
}
