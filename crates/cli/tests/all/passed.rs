//! Sockets that a parent process listens on and passes to the server, as systemd does.

use crate::support::{Client, Reply, arg, scratch};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long a server may take for anything here.
const LIMIT: Duration = Duration::from_secs(60);

/// Passes its standard streams on as descriptors 3, 4 and 5, then becomes `silica serve ARGS`.
const PASS: &str = "exec 3<&0 4<&1 5<&2 </dev/null >\"$SAID\" 2>&1; LISTEN_PID=$$ exec \"$@\"";

/// Where servers say what they say, and a service manager is told that they are ready.
struct Manager {
    dir: PathBuf,
    notify: UnixDatagram,
    /// Paths of unix sockets are short.
    sockets: tempfile::TempDir,
}

/// A server that is killed when dropped.
struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Service {
    /// Stops it by SIGTERM.
    fn stop(mut self) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill").success());
        assert!(self.0.wait().expect("own child").success());
    }
}

impl Manager {
    fn new(name: &str) -> Manager {
        let sockets = tempfile::tempdir().expect("a directory");
        let notify = UnixDatagram::bind(sockets.path().join("notify")).expect("a socket");
        notify.set_read_timeout(Some(LIMIT)).expect("a limit");
        Manager { dir: scratch(name), notify, sockets }
    }

    fn unix(&self, name: &str) -> (UnixListener, PathBuf) {
        let path = self.sockets.path().join(name);
        (UnixListener::bind(&path).expect("a socket"), path)
    }

    /// Starts a server with up to three sockets, by their names.
    fn start(&self, sockets: Vec<(&str, OwnedFd)>, args: &[&str]) -> Service {
        let names: Vec<&str> = sockets.iter().map(|(name, _)| *name).collect();
        let mut command = Command::new("sh");
        command.args(["-c", PASS, "sh", env!("CARGO_BIN_EXE_silica"), "serve"]).args(args);
        command.env("SAID", self.dir.join("said"));
        command.env("NOTIFY_SOCKET", self.sockets.path().join("notify"));
        command.env("LISTEN_FDS", names.len().to_string()).env("LISTEN_FDNAMES", names.join(":"));
        let mut streams = sockets.into_iter().map(|(_, socket)| Stdio::from(socket));
        let mut next = || streams.next().unwrap_or_else(Stdio::null);
        command.stdin(next()).stdout(next()).stderr(next());
        Service(command.spawn().expect("a shell starts"))
    }

    /// What the server has said since it was started.
    fn said(&self) -> String {
        std::fs::read_to_string(self.dir.join("said")).expect("it has said something")
    }

    fn wait_until_ready(&self) {
        let mut text = [0; 256];
        let len = self.notify.recv(&mut text).expect("a server that says that it is ready");
        assert_eq!(&text[..len], b"READY=1\n");
    }
}

fn tcp() -> (TcpListener, u16) {
    let socket = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let port = socket.local_addr().expect("a bound socket has an address").port();
    (socket, port)
}

fn passed<T: Into<OwnedFd>>(socket: std::io::Result<T>) -> OwnedFd {
    socket.expect("a second descriptor").into()
}

/// A client that comes before the server, and waits for it.
fn early(port: u16) -> TcpStream {
    let mut stream = TcpStream::connect(port_of(port)).expect("somebody listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    stream.write_all(b"PING\r\n").expect("sent");
    stream
}

fn port_of(port: u16) -> (&'static str, u16) {
    ("127.0.0.1", port)
}

fn must_read(stream: &mut impl Read, wanted: &[u8]) {
    let mut got = vec![0; wanted.len()];
    stream.read_exact(&mut got).expect("an answer");
    assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(wanted));
}

fn must_serve_memcached(path: &Path) {
    let mut stream = UnixStream::connect(path).expect("somebody listens");
    stream.set_read_timeout(Some(LIMIT)).expect("a limit");
    stream.write_all(b"set m 0 0 1\r\nx\r\nget m\r\n").expect("sent");
    must_read(&mut stream, b"STORED\r\nVALUE m 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn no_client_is_refused_while_a_service_is_started_anew() {
    let manager = Manager::new("passed");
    let ((resp, port), (admin, admin_port)) = (tcp(), tcp());
    let (memcached, path) = manager.unix("memcached");
    let start = || {
        let sockets = vec![
            ("resp", passed(resp.try_clone())),
            ("silica-memcached.socket", passed(memcached.try_clone())),
            ("admin", passed(admin.try_clone())),
        ];
        // The address in the options is not used: somebody listens for the server already.
        manager.start(sockets, &[arg(&manager.dir.join("data")), "--listen", "0.0.0.0:1"])
    };
    let mut waiting = early(port);
    let first = start();
    must_read(&mut waiting, b"+PONG\r\n");
    manager.wait_until_ready();
    let said = manager.said();
    assert!(said.contains(&format!("127.0.0.1:{port}, {}", path.display())), "{said}");
    assert!(said.contains(&format!("http://127.0.0.1:{admin_port}/")), "{said}");
    let mut client = Client::connect(port).expect("the server accepts");
    assert_eq!(client.ask(&[b"SET", b"a", b"1"]).expect("a reply"), Reply::Status("OK".into()));
    must_serve_memcached(&path);
    let mut page = TcpStream::connect(port_of(admin_port)).expect("somebody listens");
    page.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("sent");
    must_read(&mut page, b"HTTP/1.0 200 OK\r\n");
    drop((client, page, waiting));
    first.stop();

    let mut waiting = early(port);
    let second = start();
    must_read(&mut waiting, b"+PONG\r\n");
    let mut client = Client::connect(port).expect("the server accepts");
    let value = client.ask(&[b"GET", b"a"]).expect("a reply");
    assert_eq!(value, Reply::Bytes(Some(b"1".to_vec())));
    must_serve_memcached(&path);
    second.stop();
}

#[test]
fn a_unix_socket_may_be_all_that_is_listened_on() {
    let manager = Manager::new("passed-unix");
    let (socket, path) = manager.unix("silica");
    let sockets = vec![("silica.socket", passed(socket.try_clone()))];
    let service = manager.start(sockets, &["--cache", "16MiB"]);
    manager.wait_until_ready();
    must_serve_memcached(&path);
    let (said, only) = (manager.said(), format!(" on {} (engine", path.display()));
    assert!(said.contains(&only), "{said}");
    service.stop();
    assert!(path.exists(), "the socket's file is the manager's");
}

#[test]
fn sockets_that_cannot_be_served_end_the_start() {
    let manager = Manager::new("passed-refused");
    let refused = |name: &str, socket: OwnedFd, why: &str| {
        let mut service = manager.start(vec![(name, socket)], &["--cache", "16MiB"]);
        assert!(!service.0.wait().expect("own child").success(), "{name}");
        let said = manager.said();
        assert!(said.contains(why), "{name}: {said}");
    };
    refused("http", tcp().0.into(), "use resp, memcached, tls or admin");
    let open = TcpListener::bind("0.0.0.0:0").expect("a free port");
    refused("resp", open.into(), "without a password would let anyone in");
    refused("tls", tcp().0.into(), "needs a certificate");
    let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
    refused("resp", datagrams.into(), "is no TCP or unix socket for streams");
}
