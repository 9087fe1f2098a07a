//! memcached's binary protocol over real sockets, beside memcached itself.

use crate::support::memcached::{Memcached, Raw};
use crate::support::{Client, Probe, config, script, start_with};
use silica_base::{Prng, test_size};
use silica_server::{Config, Server};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;

const NOOP: u8 = 0x0a;

/// A request; its opaque is its opcode, to be found in its response.
fn packet(opcode: u8, unique: u64, extras: &[u8], key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut header = [0; 24];
    header[..2].copy_from_slice(&[0x80, opcode]);
    header[2..4].copy_from_slice(&(key.len() as u16).to_be_bytes());
    header[4] = extras.len() as u8;
    let body = (extras.len() + key.len() + value.len()) as u32;
    header[8..12].copy_from_slice(&body.to_be_bytes());
    header[12..16].copy_from_slice(&[0xab, 0, 0, opcode]);
    header[16..].copy_from_slice(&unique.to_be_bytes());
    [&header[..], extras, key, value].concat()
}

fn flags_and_expiry(flags: u32, expiry: u32) -> Vec<u8> {
    [flags.to_be_bytes(), expiry.to_be_bytes()].concat()
}

fn number(delta: u64, initial: u64, expiry: u32) -> Vec<u8> {
    [&delta.to_be_bytes()[..], &initial.to_be_bytes(), &expiry.to_be_bytes()].concat()
}

/// A response: opcode, status, unique, extras, key, value.
#[derive(Debug, Clone, PartialEq)]
struct Response {
    opcode: u8,
    status: u16,
    unique: u64,
    opaque: [u8; 4],
    extras: Vec<u8>,
    key: String,
    value: String,
}

fn responses(mut bytes: &[u8]) -> Vec<Response> {
    let mut all = Vec::new();
    while bytes.len() >= 24 {
        assert_eq!((bytes[0], bytes[5]), (0x81, 0), "{bytes:?}");
        let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        let (key, extras, body) = ((word(0) & 0xffff), usize::from(bytes[4]), word(8));
        let text = |from: usize, to: usize| {
            String::from_utf8_lossy(&bytes[24 + from..24 + to]).into_owned()
        };
        all.push(Response {
            opcode: bytes[1],
            status: u16::from_be_bytes([bytes[6], bytes[7]]),
            unique: u64::from_be_bytes(bytes[16..24].try_into().unwrap()),
            opaque: bytes[12..16].try_into().unwrap(),
            extras: bytes[24..24 + extras].to_vec(),
            key: text(extras, extras + key),
            value: text(extras + key, body),
        });
        bytes = &bytes[24 + body..];
    }
    all
}

/// Sends `bytes` and returns the responses before that of a noop behind them, and whether the
/// connection is still there.
fn exchange(client: &mut Raw, bytes: &[u8]) -> (Vec<Response>, bool) {
    // Its opaque tells this noop from others.
    let mut noop = packet(NOOP, 0, b"", b"", b"");
    noop[12..16].copy_from_slice(b"~end");
    let mut end = noop.clone();
    end[0] = 0x81;
    let out = client.until(&[bytes, &noop].concat(), &end);
    match out.strip_suffix(&end[..]) {
        Some(out) => (responses(out), true),
        None => (responses(&out), false),
    }
}

fn servers() -> [Server; 2] {
    [false, true].map(|may_wait| {
        let memcached = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        start_with(Config { memcached, ..config() }, Probe::new(may_wait)).0
    })
}

/// Both servers, and ours on either kind of engine.
fn both(test: impl Fn(SocketAddr, SocketAddr)) {
    for server in servers() {
        let Some(memcached) = Memcached::start() else { return };
        test(memcached.address, server.memcached_addrs()[0]);
        server.stop();
    }
}

/// Without the value of uniques, which are each server's own.
fn comparable(found: (Vec<Response>, bool)) -> (Vec<Response>, bool) {
    let same = |r: Response| Response { unique: u64::from(r.unique != 0), ..r };
    (found.0.into_iter().map(same).collect(), found.1)
}

/// Requests that are sent on a connection of their own.
fn cases() -> Vec<Vec<Vec<u8>>> {
    let key = b"key";
    let set = |value: &[u8]| packet(0x01, 0, &flags_and_expiry(7, 0), key, value);
    let get = || packet(0x00, 0, b"", key, b"");
    let store = |opcode, unique| packet(opcode, unique, &flags_and_expiry(3, 0), key, b"new");
    let mut cases = vec![
        vec![get(), packet(0x09, 0, b"", key, b""), packet(0x0c, 0, b"", key, b"")],
        vec![set(b"v"), get(), packet(0x09, 0, b"", key, b""), packet(0x0d, 0, b"", key, b"")],
        vec![store(0x12, 0), store(0x12, 0), store(0x02, 0), get()],
        vec![store(0x13, 0), store(0x03, 0), set(b""), store(0x03, 0), get()],
        vec![set(b"v"), store(0x01, 1), store(0x11, 1), store(0x02, 1), store(0x03, 1)],
        vec![store(0x01, 1), store(0x02, 1), store(0x03, 1)],
        vec![packet(0x0e, 0, b"", key, b"x"), set(b"b"), packet(0x0e, 0, b"", key, b"c")],
        vec![set(b"b"), packet(0x1a, 0, b"", key, b"a"), packet(0x0f, 1, b"", key, b"x"), get()],
        vec![packet(0x04, 0, b"", key, b""), packet(0x14, 0, b"", key, b"")],
        vec![set(b"v"), packet(0x04, 1, b"", key, b""), packet(0x14, 0, b"", key, b""), get()],
        vec![
            packet(0x05, 0, &number(1, 5, 0), key, b""),
            packet(0x05, 0, &number(9, 5, 0), key, b""),
        ],
        vec![packet(0x05, 0, &number(1, 5, u32::MAX), key, b"")],
        vec![
            set(b"10"),
            packet(0x16, 0, &number(20, 5, 0), key, b""),
            packet(0x06, 0, &number(1, 0, 0), key, b""),
        ],
        vec![
            set(b"10"),
            packet(0x15, 1, &number(20, 5, 0), key, b""),
            set(b"x"),
            packet(0x15, 0, &number(1, 5, 0), key, b""),
        ],
        vec![
            set(b"v"),
            packet(0x1c, 0, &[0, 0, 0, 100], key, b""),
            packet(0x1d, 0, &[0, 0, 0, 0], key, b""),
            packet(0x24, 0, &[0, 0, 0, 9], key, b""),
        ],
        vec![
            packet(0x1c, 0, &[0; 4], key, b""),
            packet(0x1d, 0, &[0; 4], key, b""),
            packet(0x1e, 0, &[0; 4], key, b""),
            packet(0x23, 0, &[0; 4], key, b""),
        ],
        vec![set(b"v"), packet(0x08, 0, b"", b"", b""), get(), packet(0x18, 0, &[0; 4], b"", b"")],
        vec![packet(NOOP, 0, b"", b"", b""), packet(0x0b, 0, b"", b"", b"")],
        vec![packet(0x07, 0, b"", b"", b""), get()],
        vec![packet(0x17, 0, b"", b"", b""), get()],
        vec![packet(0x10, 0, b"", b"nonsense", b""), packet(0x10, 0, b"", b"reset", b"")],
        vec![packet(0x20, 0, b"", b"", b""), packet(0x21, 0, b"", b"PLAIN", b"\0a\0b"), get()],
        // With a body memcached would take the next packet for a part of it.
        vec![packet(0x7f, 0, b"", b"", b""), get()],
        vec![packet(0x01, 0, &[0; 8], key, &[b'x'; 2_000_000]), get()],
        vec![set(b"v"), packet(0x01, 0, &[0; 8], key, &[b'x'; 2_000_000]), get()],
        vec![set(b"v"), packet(0x02, 0, &[0; 8], key, &[b'x'; 2_000_000]), get()],
        vec![packet(0x01, 0, &flags_and_expiry(1, 100), key, b"v"), get()],
        vec![packet(0x01, 0, &flags_and_expiry(1, 2_600_000), key, b"v"), get()],
    ];
    // Parts that do not fit.
    for opcode in (0x00..=0x24).filter(|opcode| ![0x10, 0x1b, 0x1f, 0x21, 0x22].contains(opcode)) {
        cases.push(vec![packet(opcode, 0, &[0; 3], key, b"")]);
        cases.push(vec![packet(opcode, 0, &[0; 8], b"", b"")]);
        cases.push(vec![packet(opcode, 0, &[0; 8], &[b'k'; 251], b"")]);
    }
    cases
}

#[test]
fn single_requests() {
    both(|theirs, ours| {
        for case in cases() {
            let ask = |address| {
                let mut client = Raw::connect(address);
                exchange(&mut client, &packet(0x08, 0, b"", b"", b""));
                comparable(exchange(&mut client, &case.concat()))
            };
            let shown: Vec<_> = case.iter().map(|p| &p[..p.len().min(40)]).collect();
            assert_eq!(ask(ours), ask(theirs), "{shown:x?}");
        }
    });
}

/// A random request for `key`.
fn request(random: &mut Prng, key: &[u8], unique: u64, n: u64) -> Vec<u8> {
    let unique = if random.below(3) == 0 { unique } else { 0 };
    let expiry = [0, 0, 100, 2_000_000_000][random.below(4) as usize];
    let extras = flags_and_expiry(random.below(3) as u32, expiry);
    // A value that comes once only, since a value that comes back brings its unique back.
    let value = format!("{}", 5_000_000_000 + n * 1000).into_bytes();
    let opcodes = [0x01, 0x02, 0x03, 0x11, 0x12, 0x13, 0x0e, 0x0f, 0x19, 0x1a];
    match random.below(8) {
        0 => {
            let opcode = [0x05, 0x06, 0x15, 0x16][random.below(4) as usize];
            let delta = 1 + random.below(900);
            let expiry = if random.below(2) == 0 { u32::MAX } else { expiry };
            packet(opcode, unique, &number(delta, 6_000_000_000 + n * 1000, expiry), b"number", b"")
        }
        1 => packet([0x04, 0x14][random.below(2) as usize], unique, b"", key, b""),
        2 => {
            let opcode = [0x1c, 0x1d, 0x1e, 0x23, 0x24][random.below(5) as usize];
            packet(opcode, 0, &expiry.to_be_bytes(), key, b"")
        }
        3 | 4 => packet([0x00, 0x09, 0x0c, 0x0d][random.below(4) as usize], 0, b"", key, b""),
        _ => {
            let opcode = opcodes[random.below(10) as usize];
            let extras = if opcode & 0x0f > 3 && opcode != 0x11 { &b""[..] } else { &extras };
            packet(opcode, unique, extras, key, &value)
        }
    }
}

#[test]
fn random_requests() {
    let steps = test_size(1500, 6000, 1_000_000);
    both(|theirs, ours| {
        let mut random = Prng::new(0xB17);
        let mut sides = [theirs, ours].map(|address| (Raw::connect(address), BTreeMap::new()));
        for n in 0..steps {
            let key = format!("k{}", random.below(6)).into_bytes();
            let seed = random.next_u64();
            let answers = sides.each_mut().map(|(client, uniques)| {
                let unique = uniques.get(&key).copied().unwrap_or(u64::MAX / 2);
                // Both sides get one request, each with its own unique.
                let request = request(&mut Prng::new(seed), &key, unique, n);
                let found = exchange(client, &request);
                if let Some(response) = found.0.first()
                    && response.unique != 0
                    && request.ends_with(&key)
                {
                    uniques.insert(key.clone(), response.unique);
                }
                (request[1], comparable(found))
            });
            assert_eq!(answers[1], answers[0], "request {n}");
        }
    });
}

#[test]
fn all_protocols_see_the_same_entries() {
    for server in servers() {
        for address in [server.local_addr(), server.memcached_addrs()[0]] {
            let mut binary = Raw::connect(address);
            let set = packet(0x01, 0, &flags_and_expiry(9, 100), b"k", b"value");
            let stored = exchange(&mut binary, &set).0;
            assert_eq!((stored[0].status, stored[0].opaque), (0, [0xab, 0, 0, 1]));
            let mut text = Raw::connect(address);
            let got = text.until(b"gets k\r\n", b"END\r\n");
            let want = format!("VALUE k 9 5 {}\r\nvalue\r\nEND\r\n", stored[0].unique);
            assert_eq!(String::from_utf8(got).unwrap(), want);
            let mut resp = Client::connect(&server);
            assert_eq!(resp.ask("GET k"), "'value'");
            script(&mut resp, "TTL k -> :100");
            let stats = exchange(&mut binary, &packet(0x10, 0, b"", b"", b"")).0;
            assert!(stats.iter().any(|r| r.key == "version" && r.value == "1.6.18"));
            assert_eq!(stats.last().map(|r| (r.key.len(), r.value.len())), Some((0, 0)));
        }
        server.stop();
    }
}

#[test]
fn a_password_is_given_by_sasl() {
    let config = Config { password: Some(b"psst".to_vec()), ..config() };
    let (server, _) = start_with(config, Probe::new(false));
    let get = packet(0x00, 0, b"", b"k", b"");
    let refused = exchange(&mut Raw::connect(server.local_addr()), &get);
    assert_eq!((refused.0[0].status, refused.1), (0x20, false), "the connection ends");
    let auth = |given: &[u8]| packet(0x21, 0, b"", b"PLAIN", given);
    let mut client = Raw::connect(server.local_addr());
    let requests = [
        packet(0x20, 0, b"", b"", b""),
        packet(0x0b, 0, b"", b"", b""),
        auth(b"\0default\0pssT"),
        auth(b"\0smith\0psst"),
        auth(b"psst"),
        packet(0x21, 0, b"", b"CRAM", b"\0default\0psst"),
        auth(&[0; 2000]),
        auth(b"\0default\0psst"),
        get,
    ];
    let found = exchange(&mut client, &requests.concat()).0;
    let seen: Vec<_> = found.iter().map(|r| (r.status, r.value.as_str())).collect();
    let failure = (0x20, "Auth failure.");
    let want = [
        (0, "PLAIN"),
        (0, "1.6.18"),
        failure,
        failure,
        failure,
        failure,
        (3, "Too large."),
        (0, "Authenticated"),
        (1, "Not found"),
    ];
    assert_eq!(seen, want);
    server.stop();
}

#[test]
fn quiet_stores_tell_of_a_failed_sync() {
    let (server, probe) = start_with(config(), Probe::new(true));
    probe.fail_sync.store(true, Relaxed);
    let mut client = Raw::connect(server.local_addr());
    let set = packet(0x11, 0, &[0; 8], b"k", b"v");
    let found = exchange(&mut client, &set).0;
    assert_eq!((found[0].opcode, found[0].status, found[0].opaque[0]), (0x11, 0x84, 0xab));
    server.stop();
}

#[test]
fn bytes_that_are_no_packet_end_the_connection() {
    for server in servers() {
        let mut client = Raw::connect(server.local_addr());
        let bytes = [packet(NOOP, 0, b"", b"", b""), b"get k\r\n".to_vec()].concat();
        let out = client.until(&bytes, b"never");
        assert_eq!(responses(&out).len(), 1);
        server.stop();
    }
}
