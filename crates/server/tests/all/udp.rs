//! memcached's protocols in datagrams: as memcached answers, and where it is better not to.

use crate::support::memcached::{Datagrams, Memcached, Raw};
use crate::support::{Probe, config, start_with};
use silica_base::{Prng, test_size};
use silica_server::{Config, Server};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;

fn start(probe: Probe) -> (Server, std::sync::Arc<Probe>) {
    let udp = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    start_with(Config { udp, ..config() }, probe)
}

fn connect(server: &Server) -> Datagrams {
    Datagrams::connect(server.udp_addrs()[0])
}

/// A packet of the binary protocol.
fn packet(opcode: u8, key: &str) -> Vec<u8> {
    let mut bytes = vec![0; 24];
    bytes[..2].copy_from_slice(&[0x80, opcode]);
    bytes[3] = key.len() as u8;
    bytes[11] = key.len() as u8;
    bytes[15] = 7;
    bytes.extend_from_slice(key.as_bytes());
    bytes
}

/// What each datagram carries; they follow each other on the same entries.
fn cases() -> Vec<Vec<u8>> {
    let text = [
        "get a\r\n",
        "set a 5 0 1\r\nx\r\n",
        "get a\r\n",
        "get a\r\nget none\r\nget a\r\n",
        "get a",
        "set a 0 0 1 noreply\r\nz\r\n",
        "set a 0 0 1 noreply\r\nz\r\nget a\r\n",
        "mg a v f t\r\nmn\r\nmg none v\r\n",
        "ms b 3 F7\r\nabc\r\nmg b f v\r\nmd b q\r\nmg b\r\n",
        "version\r\n",
        "nonsense\r\n",
        "\r\n",
        "",
        "set c 0 0 3\r\nabcdef\r\n",
        "incr c 1\r\nset c 0 0 1\r\n7\r\nincr c 5\r\ndecr c 2 noreply\r\n",
        "touch c 100\r\ndelete c\r\n",
        "add a 0 0 1\r\ny\r\nreplace a 0 0 1\r\nw\r\nappend a 0 0 2\r\nab\r\nget a\r\n",
        "cas a 0 0 1 1\r\nq\r\n",
        "gat 100 a\r\n",
        "verbosity 1\r\n",
        "flush_all noreply\r\nget a\r\n",
        "flush_all\r\n",
    ];
    let mut cases: Vec<Vec<u8>> = text.iter().map(|text| text.as_bytes().to_vec()).collect();
    for len in [1370, 1371, 1372, 1373, 1374, 1375, 2000, 5000, 20_000] {
        cases.push(format!("set big 0 0 {len}\r\n{}\r\n", "y".repeat(len)).into_bytes());
        cases.push(b"get big\r\n".to_vec());
    }
    cases.push(format!("get {}\r\n", "k".repeat(251)).into_bytes());
    cases.push("x".repeat(3000).into_bytes());
    cases.extend([
        packet(0x0A, ""),
        packet(0x00, "none"),
        packet(0x0C, "none"),
        packet(0x04, "big"),
    ]);
    cases.push([0x81; 24].to_vec());
    cases
}

/// A datagram without what is each server's own: the blanks behind a number that got shorter.
fn comparable(all: Vec<(u16, u16, Vec<u8>)>) -> Vec<(u16, u16, String)> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    all.into_iter().map(|(number, count, bytes)| (number, count, text(bytes))).collect()
}

#[test]
fn datagrams_are_answered_as_memcached_answers() {
    for may_wait in [false, true] {
        let Some(memcached) = Memcached::start() else { return };
        let (server, _) = start(Probe::new(may_wait));
        let (mut theirs, mut ours) = (Datagrams::connect(memcached.address), connect(&server));
        for case in cases() {
            let want = theirs.exchange(&case, None);
            let got = ours.exchange(&case, Some(want.len()));
            let shown = String::from_utf8_lossy(&case[..case.len().min(80)]).into_owned();
            assert_eq!(comparable(got), comparable(want), "{shown:?}");
        }
        server.stop();
    }
}

#[test]
fn random_datagrams_are_answered_as_memcached_answers() {
    let Some(memcached) = Memcached::start() else { return };
    let (server, _) = start(Probe::new(false));
    let (mut theirs, mut ours) = (Datagrams::connect(memcached.address), connect(&server));
    let mut random = Prng::new(0xDA7A);
    for _ in 0..test_size(1000, 5000, 1_000_000) {
        let mut payload = Vec::new();
        for _ in 0..1 + random.below(3) {
            let key = format!("k{}", random.below(6));
            let len = [1, 30, 1300, 4000][random.below(4) as usize];
            let value = "v".repeat(len);
            let noreply = if random.below(4) == 0 { " noreply" } else { "" };
            let text = match random.below(8) {
                0 | 1 => format!("set {key} 3 0 {len}{noreply}\r\n{value}\r\n"),
                2 => format!("add {key} 0 100 {len}{noreply}\r\n{value}\r\n"),
                3 => format!("delete {key}{noreply}\r\n"),
                4 => format!("mg {key} v f k s\r\n"),
                _ => format!("get {key}\r\n"),
            };
            payload.extend(text.into_bytes());
        }
        let want = theirs.exchange(&payload, None);
        let got = ours.exchange(&payload, Some(want.len()));
        assert_eq!(comparable(got), comparable(want), "{:?}", payload.escape_ascii().to_string());
    }
    server.stop();
}

#[test]
fn several_keys_are_answered_by_one_message() {
    let (server, _) = start(Probe::new(false));
    let mut client = connect(&server);
    let value = "v".repeat(3000);
    assert_eq!(client.ask(format!("set a 0 0 3000\r\n{value}\r\n").as_bytes()), "STORED\r\n");
    let one = format!("VALUE a 0 3000\r\n{value}\r\n");
    assert_eq!(client.ask(b"get a none a\r\n"), format!("{one}{one}END\r\n"));
    assert_eq!(client.ask(b"gat 0 a a\r\n"), format!("{one}{one}END\r\n"));
    for asked in ["get", "gat 0"] {
        let many = format!("{asked}{}\r\n", " a".repeat(1500));
        let refused = client.ask(many.as_bytes());
        assert!(refused.starts_with("SERVER_ERROR the reply is larger than"), "{refused}");
    }
    server.stop();
}

#[test]
fn what_is_no_whole_request_changes_nothing() {
    let (server, _) = start(Probe::new(false));
    let mut client = connect(&server);
    assert_eq!(client.ask(b"set a 0 0 1\r\n1\r\n"), "STORED\r\n");
    let broken: [&[u8]; 6] = [
        b"set a 0 0 10\r\nabc\r\n",
        b"get a",
        b"quit\r\nget a\r\n",
        b"\x80",
        b"",
        b"set a 0 0 1\r\n2",
    ];
    for payload in broken {
        assert_eq!(client.exchange(payload, None), [], "{payload:?}");
    }
    // Several datagrams of one request, and frames that are none.
    for bytes in
        [&b"\0\x01\0\0\0\x02\0\0get a\r\n"[..], b"\0\x01\0\0\0\0\0\0get a\r\n", b"\0\x01\0"]
    {
        client.socket.send(bytes).unwrap();
    }
    assert_eq!(client.ask(b"get a\r\n"), "VALUE a 0 1\r\n1\r\nEND\r\n");
    server.stop();
}

#[test]
fn datagrams_that_wait_become_a_burst() {
    let (server, probe) =
        start(Probe { delay: std::time::Duration::from_millis(200), ..Probe::new(true) });
    let mut client = connect(&server);
    assert_eq!(client.ask(b"set k 0 0 1\r\n1\r\n"), "STORED\r\n");
    // A busy machine may let some of them come later, but not each time.
    let mut calls = (0..10).map(|_| {
        let before = probe.get_calls.load(Ordering::Relaxed);
        let ids: Vec<u16> = (0..40).map(|_| client.send(b"get k\r\n")).collect();
        let mut answered: Vec<u16> = (0..40).map(|_| client.receive().0[0]).collect();
        answered.sort_unstable();
        assert_eq!(answered, ids);
        probe.get_calls.load(Ordering::Relaxed) - before
    });
    assert!(calls.any(|calls| calls <= 3), "40 datagrams that waited together");
    server.stop();
}

#[test]
fn a_write_that_is_not_durable_is_not_acknowledged() {
    let (server, probe) = start(Probe::new(true));
    probe.fail_sync.store(true, Ordering::Relaxed);
    let mut client = connect(&server);
    let replies = client
        .exchange(b"mn\r\nset a 0 0 1\r\n1\r\nmn\r\nset b 0 0 1 noreply\r\n1\r\nmn\r\n", Some(4));
    let texts: Vec<String> = comparable(replies).into_iter().map(|(_, _, text)| text).collect();
    let is_refused =
        |text: &str| text.starts_with("SERVER_ERROR") && text.contains("the sync failed");
    assert_eq!(texts[0], "MN\r\n");
    assert!(is_refused(&texts[1]), "{texts:?}");
    assert_eq!((texts[2].as_str(), texts[3].as_str()), ("MN\r\n", "MN\r\n"));
    server.stop();
}

#[test]
fn entries_are_those_of_connections() {
    let (server, _) = start(Probe::new(false));
    let mut client = connect(&server);
    assert_eq!(client.ask(b"set a 9 0 2\r\nhi\r\n"), "STORED\r\n");
    let mut other = Raw::connect(server.local_addr());
    assert_eq!(other.exchange(b"get a\r\n"), "VALUE a 9 2\r\nhi\r\nEND\r\n");
    let stats = client.ask(b"stats\r\n");
    assert!(stats.contains("STAT cmd_set 2\r\n") && stats.ends_with("END\r\n"), "{stats}");
    server.stop();
}

#[test]
fn a_real_client_stores() {
    let (server, _) = start(Probe::new(false));
    let servers = format!("--servers=127.0.0.1:{}", server.udp_addrs()[0].port());
    let args = [&servers, "--udp", "--test=set", "--concurrency=2", "--execute-number=100"];
    let Ok(output) = Command::new("memcslap").args(args).stdin(Stdio::null()).output() else {
        println!("skipped: memcslap is not installed (Debian: apt-get install libmemcached-tools)");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // It asks for no replies, so what it has sent last may still be under way.
    let mut client = connect(&server);
    let stored = |stats: String| stats.contains("STAT cmd_set 200\r\n");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !stored(client.ask(b"stats\r\n")) {
        assert!(std::time::Instant::now() < deadline, "{}", client.ask(b"stats\r\n"));
    }
    server.stop();
}
