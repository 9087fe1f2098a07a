//! WATCH: any write between WATCH and EXEC keeps the transaction from running, whoever makes it,
//! and if the key holds in the end what it held before.

use crate::support::memcached::{Datagrams, Raw};
use crate::support::{Client, Probe, config, script, start_with};
use silica_proto::datagram::{Header, Kind, Request};
use silica_server::{Config, Mode, Server};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// How somebody writes `n`.
type Write<'a> = (&'a str, Box<dyn Fn(&Server) + 'a>);

fn resp(lines: &'static [&'static str]) -> Write<'static> {
    let write = move |server: &Server| {
        let mut client = Client::connect(server);
        for line in lines {
            let answer = client.ask(line);
            assert!(!answer.starts_with('-'), "{line}: {answer}");
        }
    };
    (lines[0], Box::new(write))
}

fn memcached(text: &'static [u8], end: &'static [u8]) -> Write<'static> {
    let write = move |server: &Server| drop(Raw::connect(server.local_addr()).until(text, end));
    (std::str::from_utf8(text).unwrap(), Box::new(write))
}

/// A packet of memcached's binary protocol that stores `n`.
fn packet(value: u8) -> Vec<u8> {
    let mut bytes = vec![0; 24];
    bytes[..5].copy_from_slice(&[0x80, 1, 0, 1, 8]);
    bytes[11] = 10;
    bytes.extend_from_slice(&[0; 8]);
    bytes.extend_from_slice(&[b'n', value]);
    bytes
}

fn binary(server: &Server) {
    let mut raw = Raw::connect(server.local_addr());
    for value in *b"65" {
        let noop = [&[0x80, 10][..], &[0; 22]].concat();
        raw.until(&[packet(value), noop.clone()].concat(), &[0; 8]);
    }
}

/// The server's own protocol of datagrams.
fn directed(server: &Server) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.connect(server.datagram_addrs()[0]).unwrap();
    let mut ask =
        Header { kind: Kind::Ask, room: 0, count: 0, sequence: 0, word: 0 }.bytes().to_vec();
    ask.resize(200, 0);
    socket.send(&ask).unwrap();
    let mut answer = [0; 2000];
    let len = socket.recv(&mut answer).unwrap();
    let word = Header::read(&answer[..len]).unwrap().0.word;
    for (sequence, value) in [(1, b"6"), (2, b"5")] {
        let header = Header { kind: Kind::Requests, room: 0, count: 1, sequence, word };
        let mut bytes = header.bytes().to_vec();
        Request::Put { key: b"n", value, expires_unix_ms: 0 }.write(&mut bytes);
        socket.send(&bytes).unwrap();
        let len = socket.recv(&mut answer).unwrap();
        assert_eq!(Header::read(&answer[..len]).unwrap().0.kind, Kind::Replies);
    }
}

fn writes() -> Vec<Write<'static>> {
    vec![
        resp(&["SET n 6", "SET n 5"]),
        resp(&["SET n 5"]),
        resp(&["INCR n", "DECR n"]),
        resp(&["DEL n", "SET n 5"]),
        resp(&["MSET n 6 m 1", "MSET m 1 n 5"]),
        resp(&["APPEND n 1", "SETRANGE n 0 5", "GETSET n 5"]),
        resp(&["EXPIRE n 100", "PERSIST n"]),
        resp(&["GETEX n EX 100", "GETEX n PERSIST"]),
        resp(&["RENAME n m", "RENAME m n"]),
        resp(&["COPY n m", "COPY m n REPLACE"]),
        resp(&["SETBIT n 0 1", "SETBIT n 0 0"]),
        resp(&["BITFIELD n SET u8 0 54", "BITFIELD n SET u8 0 53"]),
        resp(&["BITOP NOT n n", "BITOP NOT n n"]),
        resp(&["MULTI", "INCR n", "DECR n", "EXEC"]),
        resp(&["FLUSHALL", "SET n 5"]),
        resp(&["FLUSHDB", "MSETNX n 5 m 1"]),
        resp(&["GETDEL n", "SETNX n 5"]),
        memcached(b"set n 0 0 1\r\n6\r\nset n 0 0 1\r\n5\r\nmn\r\n", b"MN\r\n"),
        memcached(b"incr n 1\r\ndecr n 1\r\nmn\r\n", b"MN\r\n"),
        memcached(b"ms n 1\r\n6\r\nms n 1\r\n5\r\nmn\r\n", b"MN\r\n"),
        memcached(b"flush_all\r\nadd n 0 0 1\r\n5\r\nmn\r\n", b"MN\r\n"),
        memcached(b"delete n\r\nset n 0 0 1\r\n5\r\nmn\r\n", b"MN\r\n"),
        ("memcached's binary protocol", Box::new(binary)),
        (
            "memcached's datagrams",
            Box::new(|server| {
                let mut datagrams = Datagrams::connect(server.udp_addrs()[0]);
                datagrams.exchange(b"set n 0 0 1\r\n6\r\n", Some(1));
                datagrams.exchange(b"set n 0 0 1\r\n5\r\n", Some(1));
            }),
        ),
        ("datagrams", Box::new(directed)),
    ]
}

const ANY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

#[test]
fn a_value_that_was_changed_back_counts_as_changed() {
    for mode in [Mode::Crcw, Mode::Crew, Mode::Erew] {
        for may_wait in [false, true] {
            let config = Config { mode, udp: vec![ANY], datagrams: Some(ANY), ..config() };
            let (server, _) = start_with(config, Probe::new(may_wait));
            let mut watcher = Client::connect(&server);
            for (name, write) in writes() {
                watcher.ask("SET n 5");
                assert_eq!(watcher.ask("WATCH n"), "OK");
                write(&server);
                assert_eq!(watcher.ask("GET n"), "'5'", "{mode:?} {name}");
                script(&mut watcher, "MULTI -> OK\nSET n 7 -> QUEUED");
                assert_eq!(watcher.ask("EXEC"), "nil", "{mode:?} {name}");
                // Who does not watch any more is not kept from anything.
                script(&mut watcher, "MULTI -> OK\nSET n 7 -> QUEUED\nEXEC -> [OK]");
            }
            server.stop();
        }
    }
}

#[test]
fn a_key_that_was_there_for_a_while_counts_as_changed() {
    for mode in [Mode::Crcw, Mode::Crew, Mode::Erew] {
        let (server, _) = start_with(Config { mode, ..config() }, Probe::new(false));
        let (mut watcher, mut other) = (Client::connect(&server), Client::connect(&server));
        script(&mut watcher, "WATCH x y -> OK");
        script(&mut other, "SET y 1 -> OK\nDEL y -> :1");
        script(&mut watcher, "MULTI -> OK\nSET n 7 -> QUEUED\nEXEC -> nil\nGET n -> nil");
        server.stop();
    }
}

/// What changes nothing, and what others' keys are written, keeps nobody from anything.
#[test]
fn what_changes_nothing_is_no_write() {
    for mode in [Mode::Crcw, Mode::Crew, Mode::Erew] {
        let (server, _) = start_with(Config { mode, ..config() }, Probe::new(false));
        let (mut watcher, mut other) = (Client::connect(&server), Client::connect(&server));
        watcher.ask("MSET n 5 m 1");
        script(&mut watcher, "WATCH n none -> OK\nWATCH n n -> OK");
        script(
            &mut other,
            "SETNX n 6 -> :0
             MSETNX k 1 n 6 -> :0
             SET n 6 NX -> nil
             DEL none -> :0
             EXPIRE none 10 -> :0
             PERSIST n -> :0
             EXPIRE n 10 XX -> :0
             GETEX n -> '5'
             RENAME none k -> -ERR no such key
             COPY m n -> :0
             INCR m -> :2
             SET k 5 -> OK
             SELECT 1 -> OK
             SET n 9 -> OK",
        );
        script(&mut watcher, "MULTI -> OK\nINCR n -> QUEUED\nINCR n -> QUEUED\nEXEC -> [:6 :7]");
        // Two who watch the same key: one of them is the faster.
        script(&mut watcher, "WATCH n -> OK");
        script(&mut other, "SELECT 0 -> OK\nWATCH n -> OK\nMULTI -> OK\nINCR n -> QUEUED");
        script(&mut other, "EXEC -> [:8]");
        script(&mut watcher, "MULTI -> OK\nINCR n -> QUEUED\nEXEC -> nil");
        server.stop();
    }
}

/// An entry that expires meanwhile is a change; one that had expired before is none.
#[test]
fn expiry_is_a_change() {
    let (server, _) = start_with(config(), Probe::new(false));
    let mut client = Client::connect(&server);
    script(&mut client, "SET a 1 PX 40 -> OK\nSET b 1 PX 40 -> OK\nWATCH a -> OK");
    let deadline = Instant::now() + Duration::from_secs(20);
    while client.ask("EXISTS a") == ":1" || client.ask("EXISTS b") == ":1" {
        assert!(Instant::now() < deadline, "the keys do not expire");
    }
    script(&mut client, "MULTI -> OK\nSET n 7 -> QUEUED\nEXEC -> nil");
    script(&mut client, "WATCH b -> OK\nMULTI -> OK\nSET n 7 -> QUEUED\nEXEC -> [OK]");
    server.stop();
}
