//! The real binary as a child process, and a client that speaks just enough RESP.
#![allow(dead_code, unreachable_pub)] // Each test uses its part.

use std::collections::VecDeque;
use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take from its start to its first reply.
const START_LIMIT: Duration = Duration::from_secs(60);

/// An empty directory of this test's own.
pub fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("the target directory can be written");
    dir
}

/// `silica ARGS`.
pub fn silica(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_silica"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs `silica ARGS` to its end, which must be a good one.
pub fn silica_ok(args: &[&str]) -> String {
    let output = silica(args).output().expect("the binary starts");
    assert!(output.status.success(), "silica {args:?}: {}", said(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// All that a command printed.
pub fn said(output: &Output) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    format!("{}\n{}\n{}", output.status, text(&output.stdout), text(&output.stderr))
}

/// A path as an argument.
pub fn arg(path: &Path) -> &str {
    path.to_str().expect("test paths are UTF-8")
}

/// A certificate or a key of the tests of TLS.
pub fn certificate(name: &str) -> String {
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/tests/certificates");
    arg(&server.join(name)).to_string()
}

/// A port of the loopback device that nobody uses for the moment.
pub fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    free.local_addr().expect("a bound socket has an address").port()
}

/// A running `silica serve`; killed with SIGKILL when dropped.
pub struct Server {
    child: Child,
    /// Where it listens.
    pub port: u16,
}

impl Server {
    /// Starts a server on a free port of the loopback device, without waiting for it.
    pub fn spawn(path: &Path, extra: &[&str]) -> Server {
        Self::spawn_on(path, &[&[arg(path)], extra].concat())
    }

    /// Starts a cache on a free port; `path` only names its log.
    pub fn spawn_cache(path: &Path, size: &str, extra: &[&str]) -> Server {
        Self::spawn_on(path, &[&["--cache", size], extra].concat())
    }

    fn spawn_on(path: &Path, args: &[&str]) -> Server {
        Self::spawn_as(path, |listen| {
            let mut command = silica(&["serve", "--listen", listen]);
            command.args(args);
            command
        })
    }

    /// Starts what `command` makes of the address to listen on.
    fn spawn_as(path: &Path, command: impl Fn(&str) -> Command) -> Server {
        let free = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        let port = free.local_addr().expect("a bound socket has an address").port();
        drop(free);
        let listen = format!("127.0.0.1:{port}");
        let log = std::fs::File::create(path.with_extension("log")).expect("the log can be made");
        let mut command = command(&listen);
        command.stdout(Stdio::null()).stderr(log);
        Server { child: command.spawn().expect("the binary starts"), port }
    }

    /// Starts a server and waits until it answers.
    pub fn start(path: &Path, extra: &[&str]) -> Server {
        Self::start_by(path, || Server::spawn(path, extra))
    }

    /// Starts a cache and waits until it answers; `path` only names its log.
    pub fn start_cache(path: &Path, size: &str, extra: &[&str]) -> Server {
        Self::start_by(path, || Server::spawn_cache(path, size, extra))
    }

    /// Starts a cache whose clients need `password`, where there is one.
    pub fn start_cache_of(
        path: &Path,
        size: &str,
        extra: &[&str],
        password: Option<&str>,
    ) -> Server {
        Self::start_when(path, || Server::spawn_cache(path, size, extra), password)
    }

    /// Starts Redis, which keeps nothing; `path` only names its log.
    pub fn start_redis(path: &Path) -> Server {
        let command = |listen: &str| {
            let (host, port) = listen.split_once(':').expect("an address");
            let mut command = Command::new("redis-server");
            command.args(["--bind", host, "--port", port, "--save", "", "--appendonly", "no"]);
            command.stdin(Stdio::null());
            command
        };
        Self::start_by(path, || Server::spawn_as(path, command))
    }

    /// Starts a server at a certain address and waits until it answers.
    pub fn start_at(path: &Path, listen: &str, extra: &[&str]) -> Server {
        let port = listen.rsplit_once(':').and_then(|(_, port)| port.parse().ok()).expect("a port");
        Self::start_by(path, || {
            let log = std::fs::File::create(path.with_extension("log")).expect("a log");
            let mut command = silica(&["serve", arg(path), "--listen", listen]);
            command.args(extra).stdout(Stdio::null()).stderr(log);
            Server { child: command.spawn().expect("the binary starts"), port }
        })
    }

    /// Starts Redis as a node of a cluster, whose files are in `dir`.
    pub fn start_redis_node(dir: &Path) -> Server {
        let command = |listen: &str| {
            let (host, port) = listen.split_once(':').expect("an address");
            let mut command = Command::new("redis-server");
            command.args(["--bind", host, "--port", port, "--save", "", "--dir", arg(dir)]);
            // Its other port is 10000 above the first by itself, which may be no port.
            let bus = port.parse::<u32>().map_or(0, |port| port ^ 1).to_string();
            command.args(["--cluster-enabled", "yes", "--cluster-port", &bus]);
            command.stdin(Stdio::null());
            command
        };
        Self::start_by(&dir.join("redis"), || Server::spawn_as(&dir.join("redis"), command))
    }

    /// Starts Redis in `dir`, whose dump.rdb it takes and SAVE writes; `path` names its log.
    pub fn start_redis_in(dir: &Path, path: &Path) -> Server {
        let command = |listen: &str| {
            let (host, port) = listen.split_once(':').expect("an address");
            let mut command = Command::new("redis-server");
            command.args(["--bind", host, "--port", port, "--save", "", "--dir", arg(dir)]);
            command.stdin(Stdio::null());
            command
        };
        Self::start_by(path, || Server::spawn_as(path, command))
    }

    /// Starts Redis in `dir` with more of its options; `path` names its log.
    pub fn start_redis_with(dir: &Path, path: &Path, extra: &[&str]) -> Server {
        let command = |listen: &str| {
            let (host, port) = listen.split_once(':').expect("an address");
            let mut command = Command::new("redis-server");
            command.args(["--bind", host, "--port", port, "--save", "", "--dir", arg(dir)]);
            command.args(extra).stdin(Stdio::null());
            command
        };
        Self::start_by(path, || Server::spawn_as(path, command))
    }

    /// Starts a cache by a shell that allows so many descriptors, and more to who asks for it.
    pub fn start_cache_within(path: &Path, size: &str, descriptors: u32) -> Server {
        let limit = format!("ulimit -S -n {descriptors} && exec \"$@\"");
        let command = |listen: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", &limit, "sh", env!("CARGO_BIN_EXE_silica")]);
            command.args(["serve", "--listen", listen, "--cache", size]).stdin(Stdio::null());
            command
        };
        Self::start_by(path, || Server::spawn_as(path, command))
    }

    /// Starts a server under `ulimit LIMIT` and waits until it answers.
    pub fn start_within(path: &Path, limit: &str) -> Server {
        let limit = format!("ulimit {limit} && exec \"$@\"");
        let command = |listen: &str| {
            let mut command = Command::new("bash");
            command.args(["-c", &limit, "bash", env!("CARGO_BIN_EXE_silica")]);
            command.args(["serve", arg(path), "--listen", listen]).stdin(Stdio::null());
            command
        };
        Self::start_by(path, || Server::spawn_as(path, command))
    }

    /// Starts a server on a file system of `size` of its own, mounted at `disk`, which only that
    /// process sees; `path` names its log. `None` if nothing can be mounted here.
    pub fn start_on_disk_of(
        path: &Path,
        disk: &Path,
        size: &str,
        extra: &[&str],
    ) -> Option<Server> {
        let script = format!("mount -t tmpfs -o size={size} none \"$0\" && exec \"$@\"");
        let within = |words: &[&str]| {
            let mut command = Command::new("unshare");
            command.args(["--map-root-user", "--mount", "sh", "-c", &script, arg(disk)]);
            command.args(words).stdin(Stdio::null());
            command
        };
        let can_mount = within(&["true"]).output().is_ok_and(|output| output.status.success());
        let store = disk.join("store");
        let command = |listen: &str| {
            let silica = [env!("CARGO_BIN_EXE_silica"), "serve", arg(&store), "--listen", listen];
            within(&[&silica[..], extra].concat())
        };
        can_mount.then(|| Self::start_by(path, || Server::spawn_as(path, command)))
    }

    fn start_by(path: &Path, spawn: impl Fn() -> Server) -> Server {
        Self::start_when(path, spawn, None)
    }

    fn start_when(path: &Path, spawn: impl Fn() -> Server, password: Option<&str>) -> Server {
        for _ in 0..5 {
            let mut server = spawn();
            if server.wait_until_ready(password) {
                return server;
            }
            // Another process may have taken the port meanwhile; an unfit store fails again.
        }
        let log = std::fs::read_to_string(path.with_extension("log")).unwrap_or_default();
        panic!("the server on {} does not start:\n{log}", path.display());
    }

    fn wait_until_ready(&mut self, password: Option<&str>) -> bool {
        let asked: &[&[u8]] = match password {
            None => &[b"PING"],
            Some(word) => &[b"AUTH", word.as_bytes()],
        };
        let start = Instant::now();
        while start.elapsed() < START_LIMIT {
            if let Ok(mut client) = Client::connect(self.port)
                && client.ask(asked).is_ok_and(|reply| matches!(reply, Reply::Status(_)))
                && process_of(&mut client) == Some(self.pid())
            {
                return true;
            }
            if self.child.try_wait().expect("own child").is_some() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }

    /// A new connection.
    pub fn client(&self) -> Client {
        Client::connect(self.port).expect("the server accepts")
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL, now.
    pub fn kill(mut self) {
        self.kill_in_place();
    }

    /// SIGTERM; the exit must be a good one.
    pub fn stop(self) {
        let pid = self.pid().to_string();
        let sent = Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs");
        assert!(sent.success(), "the server died before it was told to stop");
        self.wait();
    }

    /// Waits for the end of a server that was told to stop; the exit must be a good one.
    pub fn wait(mut self) {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("own child") {
                break status;
            }
            assert!(start.elapsed() < START_LIMIT, "the server does not stop");
            std::thread::sleep(Duration::from_millis(2));
        };
        assert!(status.success(), "a graceful stop ended with {status}");
    }

    fn kill_in_place(&mut self) {
        // Both fail only where the process is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill_in_place();
    }
}

/// The process that answers a client: where two servers were to have one port, it may be another
/// one than the one that was started.
fn process_of(client: &mut Client) -> Option<u32> {
    let Ok(Reply::Bytes(Some(text))) = client.ask(&[b"INFO", b"server"]) else { return None };
    let text = String::from_utf8(text).ok()?;
    text.lines().find_map(|line| line.strip_prefix("process_id:"))?.parse().ok()
}

/// A RESP2 reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// `+…`
    Status(String),
    /// `-…`
    Error(String),
    /// `:…`
    Number(i64),
    /// `$…`
    Bytes(Option<Vec<u8>>),
    /// `*…`
    Many(Vec<Reply>),
}

/// A connection.
pub struct Client {
    read: BufReader<TcpStream>,
    write: TcpStream,
}

impl Client {
    /// Connects to the loopback device.
    pub fn connect(port: u16) -> io::Result<Client> {
        Self::over(TcpStream::connect(("127.0.0.1", port))?)
    }

    /// Connects to `address`, within `limit`.
    pub fn connect_to(address: SocketAddr, limit: Duration) -> io::Result<Client> {
        Self::over(TcpStream::connect_timeout(&address, limit)?)
    }

    fn over(write: TcpStream) -> io::Result<Client> {
        write.set_nodelay(true)?;
        write.set_read_timeout(Some(START_LIMIT))?;
        Ok(Client { read: BufReader::new(write.try_clone()?), write })
    }

    /// Waits no longer than `limit` for each reply from now on.
    pub fn limit(&self, limit: Duration) {
        self.write.set_read_timeout(Some(limit)).expect("a limit above zero");
    }

    /// Another way to send to the same connection, for a thread of its own.
    pub fn sender(&self) -> io::Result<TcpStream> {
        self.write.try_clone()
    }

    /// Sends commands without waiting.
    pub fn send(&mut self, commands: &[u8]) -> io::Result<()> {
        self.write.write_all(commands)
    }

    /// One command, one reply.
    pub fn ask(&mut self, words: &[&[u8]]) -> io::Result<Reply> {
        let mut bytes = Vec::new();
        encode(&mut bytes, words);
        self.send(&bytes)?;
        self.reply()
    }

    /// The next reply.
    pub fn reply(&mut self) -> io::Result<Reply> {
        let line = self.line()?;
        let (kind, rest) = line.split_at(1);
        let number = || rest.parse::<i64>().map_err(|_| bad(&line));
        Ok(match kind {
            "+" => Reply::Status(rest.into()),
            "-" => Reply::Error(rest.into()),
            ":" => Reply::Number(number()?),
            "$" if rest == "-1" => Reply::Bytes(None),
            "$" => {
                let mut bytes = vec![0; number()? as usize + 2];
                self.read.read_exact(&mut bytes)?;
                bytes.truncate(bytes.len() - 2);
                Reply::Bytes(Some(bytes))
            }
            "*" => Reply::Many((0..number()?).map(|_| self.reply()).collect::<io::Result<_>>()?),
            _ => return Err(bad(&line)),
        })
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        let mut byte = [0];
        while !line.ends_with(b"\r\n") {
            self.read.read_exact(&mut byte)?;
            line.push(byte[0]);
        }
        line.truncate(line.len() - 2);
        String::from_utf8(line).ok().filter(|l| !l.is_empty()).ok_or_else(|| bad("not text"))
    }
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Appends one command.
pub fn encode(out: &mut Vec<u8>, words: &[&[u8]]) {
    out.extend(format!("*{}\r\n", words.len()).bytes());
    for word in words {
        out.extend(format!("${}\r\n", word.len()).bytes());
        out.extend(*word);
        out.extend(b"\r\n");
    }
}

/// Reads all `keys`, a burst at a time.
pub fn read_all(client: &mut Client, keys: &[Vec<u8>]) -> Vec<Option<Vec<u8>>> {
    let mut values = VecDeque::new();
    for burst in keys.chunks(256) {
        let words: Vec<&[u8]> =
            std::iter::once(&b"MGET"[..]).chain(burst.iter().map(Vec::as_slice)).collect();
        let Ok(Reply::Many(replies)) = client.ask(&words) else { panic!("MGET failed") };
        for reply in replies {
            let Reply::Bytes(value) = reply else { panic!("MGET replied {reply:?}") };
            values.push_back(value);
        }
    }
    values.into()
}
