//! Values of tens of MiB in a cache, over the protocols, in every mode.

use crate::support::{Client, config};
use silica::{CacheDatabases, OpenOptions};
use silica_engine::{Engine, Result};
use silica_proto::Value;
use silica_server::{Config, Databases, Mode, Server};
use std::sync::Arc;

const MIB: usize = 1 << 20;

/// The databases of a cache.
struct Shared(CacheDatabases);

impl Databases for Shared {
    fn open(&self, index: u32) -> Result<Arc<dyn Engine>> {
        self.0.database(index as usize)
    }

    fn swap(&self, index: u32, other: u32) -> Result<()> {
        self.0.swap(index as usize, other as usize)
    }
}

fn cache(mode: Mode, eviction: &str) -> Server {
    let options = OpenOptions::new().memory_bytes(64 << 20).set("partitions", "4");
    let all = options.set("eviction", eviction).open_cache_databases().expect("a cache");
    let config = Config { mode, clients_bytes_max: 2 << 30, ..config() };
    Server::start(config, Arc::new(Shared(all))).expect("a server")
}

fn value(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|n| (n * 31 + n / 4099 + bytes) as u8).collect()
}

fn get(client: &mut Client, key: &str) -> Option<Vec<u8>> {
    match client.call(&[b"GET", key.as_bytes()]) {
        Value::Bulk(bytes) => Some(bytes),
        Value::Null => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn values_are_edited_and_read_in_parts() {
    for eviction in ["s3-fifo", "none"] {
        let server = cache(Mode::Crcw, eviction);
        let mut client = Client::connect(&server);
        // A store needs room for the new one beside the old one.
        let bytes = if eviction == "none" { 16 * MIB } else { 24 * MIB };
        let mut want = value(bytes);
        assert_eq!(client.call(&[b"SET", b"big", &want]), Value::Simple("OK".into()));
        assert!(get(&mut client, "big").as_ref() == Some(&want));
        assert_eq!(client.ask("STRLEN big"), format!(":{bytes}"));
        assert_eq!(client.ask("APPEND big tail"), format!(":{}", bytes + 4));
        want.extend_from_slice(b"tail");
        assert_eq!(client.ask("SETRANGE big 9000000 here"), format!(":{}", bytes + 4));
        want[9_000_000..9_000_004].copy_from_slice(b"here");
        assert_eq!(client.ask("GETRANGE big 9000000 9000003"), "'here'");
        assert_eq!(client.ask("GETRANGE big -4 -1"), "'tail'");
        let was = want[12_000_000] >> 7;
        assert_eq!(client.ask("SETBIT big 96000000 1"), format!(":{was}"));
        want[12_000_000] |= 0x80;
        assert_eq!(client.ask("GETBIT big 96000000"), ":1");
        let old = i64::from(want[4_000_000]);
        assert_eq!(client.ask("BITFIELD big INCRBY u8 32000000 0"), format!("[:{old}]"));
        assert!(get(&mut client, "big").as_ref() == Some(&want));
        let Value::Array(several) = client.call(&[b"MGET", b"none", b"big"]) else {
            panic!("MGET")
        };
        assert!(several == [Value::Null, Value::Bulk(want.clone())]);
        // Nothing else is an entry.
        assert_eq!((client.ask("DBSIZE"), client.ask("RANDOMKEY")), (":1".into(), "'big'".into()));
        assert_eq!(client.ask("KEYS *"), "['big']");
        assert_eq!(client.ask("EXPIRE big 1000"), ":1");
        assert_eq!(client.ask("RENAME big other"), "OK");
        assert!(get(&mut client, "other").as_ref() == Some(&want));
        assert_eq!(client.ask("DEL other"), ":1");
        assert_eq!((get(&mut client, "other"), client.ask("DBSIZE")), (None, ":0".into()));
        server.stop();
    }
}

#[test]
fn what_is_too_large_is_refused_with_the_number_and_the_option() {
    let server = cache(Mode::Crcw, "s3-fifo");
    let mut client = Client::connect(&server);
    let Value::Array(limit) = client.call(&[b"CONFIG", b"GET", b"proto-max-bulk-len"]) else {
        panic!("CONFIG GET")
    };
    let Value::Bulk(limit) = &limit[1] else { panic!("a setting") };
    let max: usize = String::from_utf8_lossy(limit).parse().expect("a number");
    assert!((24 * MIB..48 * MIB).contains(&max), "{max}");
    let refused = |reply: Value| {
        let Value::Error(text) = reply else { panic!("{reply:?}") };
        let text = text.to_string();
        assert!(text.contains(&max.to_string()) && text.contains("--cache"), "{text}");
    };
    refused(client.call(&[b"SET", b"big", &vec![0; max + 1]]));
    assert_eq!(client.call(&[b"SET", b"big", &vec![0; max]]), Value::Simple("OK".into()));
    refused(client.call(&[b"APPEND", b"big", b"x"]));
    refused(client.call(&[b"SETRANGE", b"big", max.to_string().as_bytes(), b"x"]));
    assert_eq!(client.ask("STRLEN big"), format!(":{max}"));
    server.stop();
}

#[test]
fn databases_are_flushed_and_swapped_with_them() {
    for eviction in ["s3-fifo", "none"] {
        let server = cache(Mode::Crcw, eviction);
        let mut client = Client::connect(&server);
        let (first, second) = (value(9 * MIB), value(7 * MIB));
        assert_eq!(client.call(&[b"SET", b"k", &first]), Value::Simple("OK".into()));
        assert_eq!(client.ask("SELECT 3"), "OK");
        assert_eq!(client.call(&[b"SET", b"k", &second]), Value::Simple("OK".into()));
        assert_eq!(client.ask("SWAPDB 0 3"), "OK");
        assert!(get(&mut client, "k").as_ref() == Some(&first));
        assert_eq!(client.ask("FLUSHDB"), "OK");
        assert_eq!((get(&mut client, "k"), client.ask("DBSIZE")), (None, ":0".into()));
        assert_eq!(client.ask("SELECT 0"), "OK");
        assert!(get(&mut client, "k").as_ref() == Some(&second));
        assert_eq!(client.ask("COPY k k DB 5"), ":1");
        assert_eq!(client.ask("SELECT 5"), "OK");
        assert!(get(&mut client, "k").as_ref() == Some(&second));
        server.stop();
    }
}

#[test]
fn owners_take_what_fits_into_their_partition() {
    for mode in [Mode::Crew, Mode::Erew] {
        let server = cache(mode, "s3-fifo");
        let mut client = Client::connect(&server);
        for n in 0..8 {
            let (key, want) = (format!("key{n}"), value(3 * MIB + n));
            assert_eq!(client.call(&[b"SET", key.as_bytes(), &want]), Value::Simple("OK".into()));
            assert!(get(&mut client, &key).as_ref() == Some(&want), "{mode:?}");
            assert_eq!(client.ask(&format!("APPEND {key} tail")), format!(":{}", want.len() + 4));
        }
        let Value::Error(text) = client.call(&[b"SET", b"big", &value(24 * MIB)]) else {
            panic!("it is more than a partition takes")
        };
        assert!(text.to_string().contains("mode crcw"), "{text:?}");
        server.stop();
    }
}

#[test]
fn clients_of_memcached_read_what_others_have_stored() {
    use std::io::{Read, Write};
    let server = cache(Mode::Crcw, "s3-fifo");
    let want = value(5 * MIB);
    let reply = Client::connect(&server).call(&[b"SET", b"big", &want]);
    assert_eq!(reply, Value::Simple("OK".into()));
    let mut socket = std::net::TcpStream::connect(server.local_addr()).expect("connected");
    socket.write_all(b"get big\r\n").expect("sent");
    let head = format!("VALUE big 0 {}\r\n", want.len());
    let mut found = vec![0; head.len() + want.len() + 7];
    socket.read_exact(&mut found).expect("all of it");
    assert!(found == [head.as_bytes(), &want, b"\r\nEND\r\n"].concat());
    server.stop();
}
