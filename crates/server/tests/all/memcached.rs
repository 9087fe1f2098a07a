//! memcached's text protocol over real sockets.

use crate::support::memcached::Raw;
use crate::support::{Client, Probe, config, on_flash, script, shared, start_with};
use silica_server::{Config, Server};
use std::net::SocketAddr;

/// Servers whose engine is called by the loops, and by the workers.
fn servers() -> [Server; 2] {
    [false, true].map(|may_wait| {
        let memcached = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        start_with(Config { memcached, ..config() }, Probe::new(may_wait)).0
    })
}

fn connect(server: &Server) -> Raw {
    Raw::connect(server.memcached_addrs()[0])
}

#[test]
fn every_command_works() {
    for server in servers() {
        let mut client = connect(&server);
        let cases = [
            ("get a", "END"),
            ("set a 7 0 1\r\nx", "STORED"),
            ("get a", "VALUE a 7 1\r\nx\r\nEND"),
            ("get b a b a", "VALUE a 7 1\r\nx\r\nVALUE a 7 1\r\nx\r\nEND"),
            ("add a 0 0 1\r\ny", "NOT_STORED"),
            ("add b 4294967295 0 0\r\n", "STORED"),
            ("replace c 0 0 1\r\ny", "NOT_STORED"),
            ("replace b 1 0 1\r\ny", "STORED"),
            ("append a 0 0 2\r\nyz", "STORED"),
            ("prepend a 0 0 2\r\nvw", "STORED"),
            ("append c 0 0 1\r\nx", "NOT_STORED"),
            ("get a b", "VALUE a 7 5\r\nvwxyz\r\nVALUE b 1 1\r\ny\r\nEND"),
            ("incr a 1", "CLIENT_ERROR cannot increment or decrement non-numeric value"),
            ("set n 0 0 1\r\n5", "STORED"),
            ("incr n 18446744073709551615", "4"),
            ("decr n 9", "0"),
            ("incr none 1", "NOT_FOUND"),
            ("touch a 100", "TOUCHED"),
            ("touch none 100", "NOT_FOUND"),
            ("gat 100 a none", "VALUE a 7 5\r\nvwxyz\r\nEND"),
            ("gat 100", "END"),
            ("delete a", "DELETED"),
            ("delete a", "NOT_FOUND"),
            ("set a 0 -1 1\r\nx", "STORED"),
            ("get a", "END"),
            ("gat -1 b", "VALUE b 1 1\r\ny\r\nEND"),
            ("get b", "END"),
            ("verbosity 1", "OK"),
            ("version", "VERSION 1.6.18"),
            ("flush_all", "OK"),
            ("get n", "END"),
            ("stats items", "END"),
            ("stats nonsense", "ERROR"),
            ("nonsense", "ERROR"),
        ];
        for (request, want) in cases {
            let got = client.until(format!("{request}\r\n").as_bytes(), b"\r\n");
            assert_eq!(String::from_utf8_lossy(&got), format!("{want}\r\n"), "{request}");
        }
        let stats = String::from_utf8(client.until(b"stats\r\n", b"END\r\n")).unwrap();
        assert!(stats.contains("STAT version 1.6.18\r\n"), "{stats}");
        assert!(stats.contains("STAT curr_connections 1\r\n"), "{stats}");
        assert_eq!(client.until(b"quit\r\n", b"never"), b"");
        server.stop();
    }
}

#[test]
fn cas_stores_only_where_nothing_changed() {
    for server in servers() {
        let mut client = connect(&server);
        let unique = |client: &mut Raw, key: &str| {
            let got = client.until(format!("gets {key}\r\n").as_bytes(), b"END\r\n");
            let line = String::from_utf8(got).unwrap().lines().next().unwrap().to_string();
            line.rsplit(' ').next().unwrap().to_string()
        };
        client.until(b"set a 1 0 1\r\nx\r\n", b"\r\n");
        let first = unique(&mut client, "a");
        let cas = |client: &mut Raw, unique: &str, value: &str| {
            let request = format!("cas a 1 0 1 {unique}\r\n{value}\r\n");
            String::from_utf8(client.until(request.as_bytes(), b"\r\n")).unwrap()
        };
        assert_eq!(cas(&mut client, "1", "y"), "EXISTS\r\n");
        client.until(b"touch a 100\r\n", b"\r\n");
        assert_eq!(cas(&mut client, &first, "y"), "STORED\r\n");
        assert_eq!(cas(&mut client, &first, "z"), "EXISTS\r\n");
        let second = unique(&mut client, "a");
        // A value with other flags is a change too, and so is a write over RESP.
        client.until(b"set a 2 0 1\r\ny\r\n", b"\r\n");
        assert_eq!(cas(&mut client, &second, "z"), "EXISTS\r\n");
        let third = unique(&mut client, "a");
        assert_eq!(Client::connect(&server).ask("SET a other"), "OK");
        assert_eq!(cas(&mut client, &third, "z"), "EXISTS\r\n");
        client.until(b"delete a\r\n", b"\r\n");
        assert_eq!(cas(&mut client, &third, "z"), "NOT_FOUND\r\n");
        server.stop();
    }
}

#[test]
fn one_port_takes_both_protocols() {
    for server in servers() {
        let mut resp = Client::connect(&server);
        assert_eq!(resp.ask("SET k value"), "OK");
        let mut memcached = Raw::connect(server.local_addr());
        let got = memcached.until(b"get k\r\n", b"END\r\n");
        assert_eq!(String::from_utf8_lossy(&got), "VALUE k 0 5\r\nvalue\r\nEND\r\n");
        memcached.until(b"set k 7 100 3\r\nabc\r\n", b"STORED\r\n");
        assert_eq!(resp.ask("GET k"), "'abc'");
        script(&mut resp, "TTL k -> :100");
        // What a connection spoke first it goes on with.
        assert_eq!(memcached.until(b"GET k\r\n", b"\r\n"), b"ERROR\r\n");
        let mut inline = Raw::connect(server.local_addr());
        assert_eq!(inline.until(b"GET k\r\n", b"abc\r\n"), b"$3\r\nabc\r\n");
        assert_eq!(inline.until(b"get k\r\n", b"abc\r\n"), b"$3\r\nabc\r\n");
        // The port of its own takes nothing else.
        let mut own = connect(&server);
        assert_eq!(own.until(b"PING\r\n", b"\r\n"), b"ERROR\r\n");
        server.stop();
    }
}

#[test]
fn a_pipeline_in_whatever_pieces_is_answered_in_order() {
    for server in servers() {
        let mut client = connect(&server);
        let (mut requests, mut want) = (Vec::new(), Vec::new());
        for n in 0..3000 {
            let quiet = if n % 3 == 0 { " noreply" } else { "" };
            requests.extend_from_slice(format!("set k{n} {n} 0 4{quiet}\r\n{n:04}\r\n").as_bytes());
            requests.extend_from_slice(format!("get k{n} none k{}\r\n", n / 2).as_bytes());
            if n % 3 != 0 {
                want.extend_from_slice(b"STORED\r\n");
            }
            let half = n / 2;
            want.extend_from_slice(format!("VALUE k{n} {n} 4\r\n{n:04}\r\n").as_bytes());
            want.extend_from_slice(format!("VALUE k{half} {half} 4\r\n{half:04}\r\n").as_bytes());
            want.extend_from_slice(b"END\r\n");
        }
        let mut socket = client.socket.try_clone().unwrap();
        let sender = std::thread::spawn(move || {
            use std::io::Write;
            requests.chunks(977).for_each(|piece| socket.write_all(piece).unwrap());
            socket.write_all(b"mn\r\n").unwrap();
        });
        let got = client.until(b"", b"MN\r\n");
        sender.join().unwrap();
        assert!(got == [&want[..], b"MN\r\n"].concat(), "{} of {}", got.len(), want.len());
        server.stop();
    }
}

#[test]
fn the_keys_of_a_pipeline_are_one_burst() {
    let (server, probe) = start_with(shared(), Probe::new(false));
    let mut client = Raw::connect(server.local_addr());
    let gets = (0..100).map(|n| format!("get a{n} b{n}\r\n")).collect::<String>();
    client.until(format!("{gets}nonsense\r\n").as_bytes(), b"ERROR\r\n");
    let calls = probe.get_calls.load(std::sync::atomic::Ordering::Relaxed);
    assert!(calls <= 2, "{calls} calls for 100 requests that were sent at once");
    server.stop();
}

/// A value that would be taken if the clients had more memory is refused with what to do about it.
#[test]
fn a_value_beyond_the_clients_memory_is_refused_with_the_option_that_helps() {
    // A cache takes every value that memcached does, however little memory clients have.
    if on_flash() {
        return;
    }
    let memcached = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    let config = Config { memcached, clients_bytes_max: 1 << 20, ..config() };
    let (server, _) = start_with(config, Probe::new(false));
    let mut client = connect(&server);
    let value = [&vec![b'v'; 600_000][..], b"\r\n"].concat();
    for command in ["set a 0 0 600000", "add b 0 0 600000", "ms c 600000"] {
        let request = [command.as_bytes(), b"\r\n", &value].concat();
        let answer = String::from_utf8(client.until(&request, b"\r\n")).unwrap();
        assert!(answer.starts_with("SERVER_ERROR out of memory storing object: "), "{answer}");
        assert!(answer.contains("--client-memory"), "{command}: {answer}");
    }
    server.stop();
}

#[test]
fn a_set_that_is_too_large_leaves_no_old_value() {
    for server in servers() {
        let mut client = connect(&server);
        client.until(b"set a 0 0 1\r\nx\r\n", b"\r\n");
        let large = [b"a 0 0 1048577\r\n".as_slice(), &vec![b'v'; 1_048_577], b"\r\n"].concat();
        let error = b"SERVER_ERROR object too large for cache\r\n";
        assert_eq!(client.until(&[b"add ", &large[..]].concat(), b"\r\n"), error);
        assert_eq!(client.until(b"get a\r\n", b"END\r\n"), b"VALUE a 0 1\r\nx\r\nEND\r\n");
        assert_eq!(client.until(&[b"set ", &large[..]].concat(), b"\r\n"), error);
        assert_eq!(client.until(b"get a\r\n", b"END\r\n"), b"END\r\n");
        server.stop();
    }
}

#[test]
fn a_password_is_a_set_before_all_others() {
    let config = Config { password: Some(b"psst".to_vec()), ..config() };
    let (server, _) = start_with(config, Probe::new(false));
    let mut client = Raw::connect(server.local_addr());
    let mut says = |request: &str, want: &str| {
        let got = client.until(format!("{request}\r\n").as_bytes(), b"\r\n");
        assert_eq!(String::from_utf8_lossy(&got), format!("{want}\r\n"), "{request}");
    };
    says("get a", "CLIENT_ERROR unauthenticated");
    says("version", "CLIENT_ERROR unauthenticated");
    says("set x 0 0 7\r\ndefault", "CLIENT_ERROR bad authentication token format");
    says("set x 0 0 12\r\ndefault pssT", "CLIENT_ERROR authentication failure");
    says("set x 0 0 10\r\nsmith psst", "CLIENT_ERROR authentication failure");
    says("set x 0 0 12\r\ndefault psst", "STORED");
    says("get x", "END");
    // A line without end is not collected.
    let mut hostile = Raw::connect(server.local_addr());
    hostile.until(b"version\r\n", b"\r\n");
    assert_eq!(hostile.until(&[&b"set "[..], &[b'x'; 3000]].concat(), b"never"), b"");
    server.stop();
}

#[test]
fn a_flush_may_come_later() {
    for server in servers() {
        let mut client = connect(&server);
        client.until(b"set a 0 0 1\r\nx\r\n", b"\r\n");
        let begin = std::time::Instant::now();
        assert_eq!(client.until(b"flush_all 1\r\n", b"\r\n"), b"OK\r\n");
        while client.until(b"get a\r\n", b"END\r\n") != b"END\r\n" {
            assert!(begin.elapsed().as_secs() < 20, "the flush does not come");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        assert!(begin.elapsed().as_millis() > 500, "the flush came too early");
        server.stop();
    }
}

#[test]
fn a_failed_sync_acknowledges_nothing() {
    let (server, probe) = start_with(config(), Probe::new(true));
    probe.fail_sync.store(true, std::sync::atomic::Ordering::Relaxed);
    let mut client = Raw::connect(server.local_addr());
    let got = client.until(b"set a 0 0 1\r\nx\r\n", b"\r\n");
    assert_eq!(String::from_utf8_lossy(&got), "SERVER_ERROR the sync failed\r\n");
    server.stop();
}

#[test]
fn web_pages_are_turned_away() {
    for server in servers() {
        let mut client = connect(&server);
        let page = b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nset a 0 0 1\r\nx\r\n";
        assert_eq!(client.until(page, b"never"), b"");
        assert_eq!(connect(&server).until(b"get a\r\n", b"END\r\n"), b"END\r\n");
        server.stop();
    }
}
