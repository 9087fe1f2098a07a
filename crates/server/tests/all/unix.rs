//! The unix socket: every protocol, and who may replace its file.

use crate::support::{Client, Probe, Source, config, start_with};
use silica_server::{Config, Server};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A directory of this test's own, removed when it is dropped.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("silica-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("socket")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn start(path: &Path, may_wait: bool) -> Server {
    start_with(Config { unix: Some(path.into()), ..config() }, Probe::new(may_wait)).0
}

/// Sends `request` on a connection of its own; the reply has as many bytes as `want`.
fn says(path: &Path, request: &[u8], want: &[u8]) {
    let mut socket = UnixStream::connect(path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket.write_all(request).unwrap();
    let mut got = vec![0; want.len()];
    socket.read_exact(&mut got).unwrap();
    assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(want));
}

#[test]
fn every_protocol_works() {
    for may_wait in [false, true] {
        let directory = Directory::new("unix-protocols");
        let path = directory.socket();
        let server = start(&path, may_wait);
        says(&path, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n", b"+OK\r\n");
        says(&path, b"GET k\r\n", b"$1\r\nv\r\n");
        says(&path, b"get k\r\n", b"VALUE k 0 1\r\nv\r\nEND\r\n");
        says(&path, b"mg k v\r\n", b"VA 1\r\nv\r\n");
        let mut noop = [0; 24];
        (noop[0], noop[1]) = (0x80, 0x0a);
        let mut answer = noop;
        answer[0] = 0x81;
        says(&path, &noop, &answer);
        // TCP is served beside it, and shows where clients are.
        let mut tcp = Client::connect(&server);
        assert_eq!(tcp.ask("GET k"), "'v'");
        let idle = UnixStream::connect(&path).unwrap();
        let shown = format!("addr={}:0 laddr={0}:0", path.display());
        let begin = std::time::Instant::now();
        while !tcp.ask("CLIENT LIST").contains(&shown) {
            assert!(begin.elapsed().as_secs() < 20, "{}", tcp.ask("CLIENT LIST"));
        }
        drop(idle);
        server.stop();
        assert!(!path.exists(), "the file is removed");
    }
}

#[test]
fn values_of_megabytes_pass() {
    let directory = Directory::new("unix-values");
    let path = directory.socket();
    let server = start(&path, true);
    let value = vec![b'v'; 1_000_000];
    let set = [b"set k 0 0 1000000\r\n", &value[..], b"\r\n"].concat();
    says(&path, &set, b"STORED\r\n");
    let want = [b"VALUE k 0 1000000\r\n", &value[..], b"\r\nEND\r\n"].concat();
    says(&path, b"get k\r\n", &want);
    server.stop();
}

#[test]
fn only_this_user_may_connect_and_nothing_else_is_replaced() {
    let directory = Directory::new("unix-files");
    let path = directory.socket();
    let refused = |why: &str| {
        let config = Config { unix: Some(path.clone()), ..config() };
        let source = Source::new(std::sync::Arc::new(Probe::new(false)));
        let error = Server::start(config, std::sync::Arc::new(source)).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    };
    // The socket that a server has left behind which was killed.
    drop(UnixListener::bind(&path).unwrap());
    let server = start(&path, false);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    refused("is the socket of a server that runs");
    says(&path, b"PING\r\n", b"+PONG\r\n");
    server.stop();
    std::fs::write(&path, b"precious").unwrap();
    refused("is there and no socket");
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}

#[test]
fn redis_cli() {
    let directory = Directory::new("unix-redis-cli");
    let path = directory.socket();
    let server = start(&path, false);
    match Command::new("redis-cli").arg("-s").arg(&path).args(["SET", "k", "v"]).output() {
        Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stdout), "OK\n"),
        Err(_) => println!("skipped: redis-cli is not installed (Debian: redis-tools)"),
    }
    server.stop();
}
