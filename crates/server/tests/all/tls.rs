//! TLS: what works without it works through it, on both kinds of loops, and who is kept out.

use crate::support::tls::{client_config, file, files};
use crate::support::{Client, Probe, config, read_some, request, show, start_with};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use silica_base::Prng;
use silica_proto::{Value, decode};
use silica_server::{Config, EventLoopKind, LinkFiles, Server, TlsFiles};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The kinds of loops of this machine.
fn loops() -> [EventLoopKind; 2] {
    [EventLoopKind::Epoll, EventLoopKind::Auto]
}

fn with_tls(event_loop: EventLoopKind) -> Config {
    Config { tls: Some(files()), event_loop, ..config() }
}

type Stream = StreamOwned<ClientConnection, TcpStream>;

fn connect_with(address: SocketAddr, config: Arc<ClientConfig>) -> Stream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.set_nodelay(true).unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    StreamOwned::new(ClientConnection::new(config, name).unwrap(), socket)
}

fn connect(address: SocketAddr) -> Stream {
    connect_with(address, client_config(&rustls::version::TLS13, None))
}

/// The next reply, and what came behind it stays in `rest`.
fn reply(stream: &mut impl Read, rest: &mut Vec<u8>) -> Value {
    let mut piece = vec![0; 64 << 10];
    loop {
        if let Some((value, used)) = decode(rest).expect("a well-formed reply") {
            rest.drain(..used);
            return value;
        }
        let n = read_some(stream, &mut piece).expect("a reply");
        assert!(n > 0, "the connection ended");
        rest.extend_from_slice(&piece[..n]);
    }
}

fn ask(stream: &mut (impl Read + Write), line: &str) -> String {
    let args: Vec<&[u8]> = line.split_ascii_whitespace().map(str::as_bytes).collect();
    stream.write_all(&request(&args)).unwrap();
    show(&reply(stream, &mut Vec::new()))
}

/// Waits until the server has ended the connection; what came before.
fn until_end(socket: &mut TcpStream) -> Vec<u8> {
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut came = Vec::new();
    match socket.read_to_end(&mut came) {
        Err(e) if e.kind() != ErrorKind::ConnectionReset => panic!("not ended: {e}"),
        _ => came,
    }
}

fn number(server: &Server, name: &str) -> u64 {
    let info = ask_info(&mut connect(server.local_addr()));
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap_or_else(|| panic!("no {name}")).trim().parse().unwrap()
}

fn ask_info(stream: &mut Stream) -> String {
    stream.write_all(b"INFO everything\r\n").unwrap();
    match reply(stream, &mut Vec::new()) {
        Value::Bulk(text) => String::from_utf8(text).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_protocol_works_through_both_versions() {
    for event_loop in loops() {
        for may_wait in [false, true] {
            let (server, _) = start_with(with_tls(event_loop), Probe::new(may_wait));
            for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
                let new = || connect_with(server.local_addr(), client_config(version, None));
                let mut client = new();
                assert_eq!(ask(&mut client, "SET a 1"), "OK");
                assert_eq!(ask(&mut client, "INCR a"), ":2");
                let mut memcached = new();
                memcached.write_all(b"get a\r\n").unwrap();
                let mut got = [0; 21];
                memcached.read_exact(&mut got).unwrap();
                assert_eq!(&got, b"VALUE a 0 1\r\n2\r\nEND\r\n");
                let mut binary = new();
                let mut noop = [0; 24];
                (noop[0], noop[1]) = (0x80, 0x0a);
                binary.write_all(&noop).unwrap();
                binary.read_exact(&mut noop).unwrap();
                assert_eq!(noop[0], 0x81);
            }
            server.stop();
        }
    }
}

#[test]
fn pipelines_and_large_values_arrive_whole() {
    for event_loop in loops() {
        let (server, _) = start_with(with_tls(event_loop), Probe::new(false));
        let mut client = connect(server.local_addr());
        let mut value = vec![0; 5_000_000];
        Prng::new(7).fill(&mut value);
        client.write_all(&request(&[b"SET", b"large", &value])).unwrap();
        let mut rest = Vec::new();
        assert_eq!(reply(&mut client, &mut rest), Value::Simple("OK".into()));
        let mut asked = Vec::new();
        for n in 0..3000 {
            let text = n.to_string();
            asked.extend(request(&[b"SET", text.as_bytes(), text.as_bytes()]));
            asked.extend(request(&[b"GET", text.as_bytes()]));
            if n % 1000 == 999 {
                asked.extend(request(&[b"GET", b"large"]));
            }
        }
        client.write_all(&asked).unwrap();
        for n in 0..3000 {
            assert_eq!(reply(&mut client, &mut rest), Value::Simple("OK".into()));
            let want = n.to_string().into_bytes();
            assert_eq!(reply(&mut client, &mut rest), Value::Bulk(want));
            if n % 1000 == 999 {
                assert!(reply(&mut client, &mut rest) == Value::Bulk(value.clone()), "large");
            }
        }
        server.stop();
    }
}

#[test]
fn a_handshake_may_come_byte_by_byte() {
    struct Slowly(TcpStream);
    impl Read for Slowly {
        fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
            self.0.read(buf)
        }
    }
    impl Write for Slowly {
        fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
            self.0.write(&buf[..buf.len().min(1)])
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    for event_loop in loops() {
        let (server, _) = start_with(with_tls(event_loop), Probe::new(false));
        let Stream { conn, sock } = connect(server.local_addr());
        let mut client = StreamOwned::new(conn, Slowly(sock));
        assert_eq!(ask(&mut client, "SET a 1"), "OK");
        assert_eq!(ask(&mut client, "GET a"), "'1'");
        server.stop();
    }
}

#[test]
fn who_has_sent_everything_gets_all_replies_and_a_farewell() {
    for event_loop in loops() {
        let (server, _) = start_with(with_tls(event_loop), Probe::new(true));
        let mut client = connect(server.local_addr());
        client.write_all(&b"PING\r\nSET a 1\r\n".repeat(500)).unwrap();
        client.conn.send_close_notify();
        client.flush().unwrap();
        client.sock.shutdown(Shutdown::Write).unwrap();
        let mut came = Vec::new();
        // An end without a farewell is an error of rustls.
        client.read_to_end(&mut came).unwrap();
        assert_eq!(came, b"+PONG\r\n+OK\r\n".repeat(500));
        let mut client = connect(server.local_addr());
        client.write_all(b"QUIT\r\n").unwrap();
        came.clear();
        client.read_to_end(&mut came).unwrap();
        assert_eq!(came, b"+OK\r\n");
        server.stop();
    }
}

#[test]
fn what_is_no_tls_is_dropped_and_counted() {
    for event_loop in loops() {
        let (server, _) = start_with(with_tls(event_loop), Probe::new(false));
        for bytes in [&b"PING\r\n"[..], b"get a\r\n", &[0x80; 40], &[0x16; 70_000]] {
            let mut socket = TcpStream::connect(server.local_addr()).unwrap();
            // The server may be quicker than the rest of what is sent.
            let _ = socket.write_all(bytes);
            let came = until_end(&mut socket);
            assert!(came.len() < 16, "no more than an alert: {came:?}");
        }
        // Cut off in the middle of a message, and a message that was changed on its way.
        let mut client = connect(server.local_addr());
        assert_eq!(ask(&mut client, "PING"), "PONG");
        client.sock.write_all(&[23, 3, 3, 0, 40]).unwrap();
        client.sock.write_all(&[0x55; 40]).unwrap();
        until_end(&mut client.sock);
        assert_eq!(number(&server, "tls_failures"), 5);
        server.stop();
    }
}

#[test]
fn hands_are_shaken_soon_or_not_at_all() {
    for event_loop in loops() {
        let config = Config { auth_ms_max: 1500, ..with_tls(event_loop) };
        let (server, _) = start_with(config, Probe::new(false));
        let mut friend = connect(server.local_addr());
        assert_eq!(ask(&mut friend, "PING"), "PONG");
        let begun = Instant::now();
        let mut silent = TcpStream::connect(server.local_addr()).unwrap();
        let mut slow = TcpStream::connect(server.local_addr()).unwrap();
        // The head of a message that never comes.
        slow.write_all(&[22, 3, 1, 2, 0, 1]).unwrap();
        assert_eq!(until_end(&mut silent), b"");
        assert_eq!(until_end(&mut slow), b"");
        assert!(begun.elapsed() < Duration::from_secs(60));
        assert_eq!(ask(&mut friend, "PING"), "PONG");
        assert_eq!(number(&server, "auth_timeouts"), 2);
        server.stop();
    }
}

#[test]
fn sessions_count_as_memory_of_clients() {
    for event_loop in loops() {
        let (server, _) = start_with(with_tls(event_loop), Probe::new(false));
        let mut clients: Vec<_> = (0..50).map(|_| connect(server.local_addr())).collect();
        clients.iter_mut().for_each(|client| assert_eq!(ask(client, "PING"), "PONG"));
        let held = number(&server, "clients_bytes");
        assert!((50 * 4096..50 * 64_000).contains(&held), "{held}");
        server.stop();
    }
}

#[test]
fn a_password_is_asked_for_through_tls_with_the_limits_before_it() {
    for event_loop in loops() {
        let config = Config { password: Some(b"secret".to_vec()), ..with_tls(event_loop) };
        let (server, _) = start_with(config, Probe::new(false));
        let mut client = connect(server.local_addr());
        assert_eq!(ask(&mut client, "GET a"), "-NOAUTH Authentication required.");
        assert_eq!(ask(&mut client, "AUTH secret"), "OK");
        assert_eq!(ask(&mut client, "GET a"), "nil");
        let mut client = connect(server.local_addr());
        client.write_all(b"*2\r\n$16385\r\n").unwrap();
        let refused = show(&reply(&mut client, &mut Vec::new()));
        assert_eq!(refused, "-ERR Protocol error: unauthenticated bulk length");
        server.stop();
    }
}

#[test]
fn clients_may_need_a_certificate() {
    let ca = Some(file("authority.pem"));
    let tls = Some(TlsFiles { ca, ..files() });
    let (server, _) = start_with(Config { tls, ..config() }, Probe::new(false));
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let known = client_config(version, Some("client"));
        assert_eq!(ask(&mut connect_with(server.local_addr(), known), "PING"), "PONG");
        let mut stranger = connect_with(server.local_addr(), client_config(version, None));
        let written = stranger.write_all(b"PING\r\n");
        let refused = written.and_then(|()| stranger.read(&mut [0; 100])).unwrap_err();
        assert!(refused.to_string().contains("CertificateRequired"), "{refused}");
    }
    server.stop();
}

#[test]
fn a_port_of_its_own_leaves_the_others_plain() {
    let tls_listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
    let tls = Some(files());
    let (server, _) = start_with(Config { tls, tls_listen, ..config() }, Probe::new(false));
    assert_eq!(Client::connect(&server).ask("SET a 1"), "OK");
    assert_eq!(ask(&mut connect(server.tls_addrs()[0]), "GET a"), "'1'");
    server.stop();
}

#[test]
fn certificates_are_read_again_for_connections_to_come() {
    let directory = std::env::temp_dir().join(format!("silica-tls-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| directory.join(name));
    let copy = |name: &str| {
        std::fs::copy(file(&format!("{name}.pem")), &cert).unwrap();
        std::fs::copy(file("server.key"), &key).unwrap();
    };
    copy("server");
    let tls = Some(TlsFiles { cert: cert.clone(), key: key.clone(), ca: None });
    let (server, _) = start_with(Config { tls, ..config() }, Probe::new(false));
    let mut early = connect(server.local_addr());
    assert_eq!(ask(&mut early, "PING"), "PONG");
    copy("client");
    let refused = server.stop_handle().read_certificates().unwrap_err().to_string();
    assert!(refused.contains("its key is not the one"), "{refused}");
    assert_eq!(ask(&mut connect(server.local_addr()), "PING"), "PONG");
    std::fs::copy(file("client.key"), &key).unwrap();
    server.stop_handle().read_certificates().unwrap();
    let refused = connect(server.local_addr()).write_all(b"PING\r\n").unwrap_err().to_string();
    assert!(refused.contains("invalid peer certificate"), "{refused}");
    assert_eq!(ask(&mut early, "PING"), "PONG");
    std::fs::remove_dir_all(&directory).unwrap();
    server.stop();
}

#[test]
fn certificates_are_read_again_all_together_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let [cert, key, ca] = ["cert.pem", "key.pem", "ca.pem"].map(|name| directory.path().join(name));
    let place = |name: &str| {
        std::fs::copy(file(&format!("{name}.pem")), &cert).unwrap();
        std::fs::copy(file(&format!("{name}.key")), &key).unwrap();
    };
    place("server");
    std::fs::copy(file("authority.pem"), &ca).unwrap();
    let tls = Some(TlsFiles { cert: cert.clone(), key: key.clone(), ca: None });
    let links = Some(LinkFiles { ca: ca.clone(), identity: None, name: None });
    let (server, _) = start_with(Config { tls, links, ..config() }, Probe::new(false));
    // A new certificate, which no client takes, and an authority that is none.
    place("client");
    std::fs::write(&ca, "nothing").unwrap();
    let refused = server.stop_handle().read_certificates().unwrap_err().to_string();
    assert!(refused.contains("ca.pem"), "{refused}");
    assert_eq!(ask(&mut connect(server.local_addr()), "PING"), "PONG");
    std::fs::copy(file("authority.pem"), &ca).unwrap();
    server.stop_handle().read_certificates().unwrap();
    let refused = connect(server.local_addr()).write_all(b"PING\r\n").unwrap_err().to_string();
    assert!(refused.contains("invalid peer certificate"), "{refused}");
    server.stop();
}

/// Runs a program of other people; `None` where it is not installed.
fn run(program: &str, args: &[&str], input: &str) -> Option<String> {
    let child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Err(e) if e.kind() == ErrorKind::NotFound => {
            println!("skipped: {program} is not installed");
            return None;
        }
        child => child.unwrap(),
    };
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let all = [output.stdout, output.stderr].concat();
    Some(String::from_utf8_lossy(&all).into_owned())
}

#[test]
fn redis_cli_and_openssl_get_in() {
    for event_loop in loops() {
        let (server, _) = start_with(with_tls(event_loop), Probe::new(false));
        let address = server.local_addr();
        let port = address.port().to_string();
        let authority = file("authority.pem");
        let authority = authority.to_str().unwrap();
        let args = ["--tls", "--cacert", authority, "-h", "localhost", "-p", &port];
        if let Some(said) = run("redis-cli", &args, "SET a 12\nINCRBY a 30\nGET a\n") {
            assert_eq!(said, "OK\n42\n42\n");
        }
        let to = address.to_string();
        for version in ["-tls1_2", "-tls1_3"] {
            let args = ["s_client", "-connect", &to, "-CAfile", authority, version, "-quiet"];
            // Quiet, it waits for the server's end whatever becomes of its input.
            let args = [&args[..], &["-verify_return_error"]].concat();
            if let Some(said) = run("openssl", &args, "SET b 1\r\nQUIT\r\n") {
                assert!(said.contains("+OK\r\n+OK\r\n"), "{said}");
            }
        }
        server.stop();
    }
}
