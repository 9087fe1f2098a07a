//! Servers of both programs, and a client that speaks just enough RESP.

use super::{Course, Program};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Connections of a load, and requests that each sends at once.
const CONNECTIONS: usize = 16;
const DEPTH: usize = 16;
/// How long anything may take that happens in the end.
const WAIT_MAX: Duration = Duration::from_secs(300);
/// Keys of a load, whose values are so long: entries of 100 bytes.
const VALUE_BYTES: usize = 84;
/// Bytes of the reply to SET.
const OK_BYTES: usize = 5;

/// A process, killed when this is dropped.
pub struct Process(pub Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Calls `is_so` until it is; `what` says in vain.
pub fn wait(what: &str, is_so: impl FnMut() -> Result<bool, String>) -> Result<Duration, String> {
    wait_within(WAIT_MAX, what, is_so)
}

/// As [`wait`], for `limit` at most.
pub fn wait_within(
    limit: Duration,
    what: &str,
    mut is_so: impl FnMut() -> Result<bool, String>,
) -> Result<Duration, String> {
    let began = Instant::now();
    while !is_so()? {
        if began.elapsed() > limit {
            return Err(format!("waiting in vain for {what}"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(began.elapsed())
}

/// A port that was free a moment ago.
pub fn free_port() -> Result<u16, String> {
    let bound = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    bound.map(|address| address.port()).map_err(|e| format!("a free port: {e}"))
}

/// Starts `command`, whose output goes to a file in `directory`.
pub fn start(mut command: Command, directory: &Path) -> Result<Process, String> {
    let log = fs::File::create(directory.join("server.log"));
    let log = log.map_err(|e| format!("{}: {e}", directory.display()))?;
    let errors = log.try_clone().map_err(|e| e.to_string())?;
    command.stdin(Stdio::null()).stdout(log).stderr(errors).current_dir(directory);
    command.spawn().map(Process).map_err(|e| format!("{command:?}: {e}"))
}

/// A connection for one request at a time.
pub struct Client(BufReader<TcpStream>);

impl Client {
    pub fn connect(port: u16) -> Result<Client, String> {
        Client::connect_within(port, WAIT_MAX)
    }

    /// A connection whose replies come within `limit` each.
    pub fn connect_within(port: u16, limit: Duration) -> Result<Client, String> {
        let failed = |e| format!("connecting to {port}: {e}");
        let stream = TcpStream::connect(("127.0.0.1", port)).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(limit)).map_err(failed)?;
        Ok(Client(BufReader::new(stream)))
    }

    /// Sends a line of words.
    pub fn send(&mut self, line: &str) -> Result<(), String> {
        let sent = self.0.get_mut().write_all(format!("{line}\r\n").as_bytes());
        sent.map_err(|e| format!("{line}: {e}"))
    }

    /// The lines of the reply to a line of words; an error is an error.
    pub fn ask(&mut self, line: &str) -> Result<Vec<String>, String> {
        self.send(line)?;
        let (mut lines, mut left) = (Vec::new(), 1);
        while left > 0 {
            left -= 1;
            let text = self.line()?;
            let (kind, rest) = text.split_at(text.len().min(1));
            let number = || rest.parse::<i64>().map_err(|_| format!("{line}: {text}"));
            match kind {
                "-" => return Err(format!("{line}: {rest}")),
                "$" if number()? >= 0 => {
                    let mut bytes = vec![0; number()? as usize + 2];
                    self.0.read_exact(&mut bytes).map_err(|e| format!("{line}: {e}"))?;
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    lines.extend(text.lines().map(str::to_string));
                }
                "*" => left += number()?.max(0),
                _ => lines.push(rest.to_string()),
            }
        }
        Ok(lines)
    }

    /// The next line as it comes.
    pub fn line(&mut self) -> Result<String, String> {
        let mut text = String::new();
        match self.0.read_line(&mut text) {
            Ok(0) => Err("the server has closed the connection".into()),
            Ok(_) => Ok(text.trim_end().to_string()),
            Err(e) => Err(format!("reading: {e}")),
        }
    }
}

/// A running server.
pub struct Node {
    pub port: u16,
    pub client: Client,
    process: Process,
}

impl Node {
    /// Starts one in a new directory called `name`, on a core of its own or those of the clients.
    pub fn start(
        course: &Course,
        program: Program,
        name: &str,
        is_apart: bool,
    ) -> Result<Node, String> {
        let directory = course.place(name)?;
        let port = free_port()?;
        let mut command = Command::new("taskset");
        let cores = if is_apart { &course.server_cores } else { &course.client_cores };
        command.args(["-c", cores]);
        let (host, digits) = ("127.0.0.1", port.to_string());
        match program {
            Program::Ours => {
                command.arg(&course.binary).args(["serve", "store", "--loops", "1"]);
                command.args(["--memory", "256MiB", "--durability", "buffered"]);
                command.args(["--listen", &format!("{host}:{digits}")]);
            }
            Program::Redis => {
                command.args(["redis-server", "--bind", host, "--port", &digits, "--save", ""]);
                command.args(["--appendonly", "no", "--repl-diskless-sync-delay", "0"]);
            }
        }
        let process = start(command, &directory)?;
        wait("a server", || Ok(TcpStream::connect((host, port)).is_ok()))?;
        Ok(Node { port, client: Client::connect(port)?, process })
    }

    /// A field of INFO replication.
    pub fn told(&mut self, field: &str) -> Result<String, String> {
        let lines = self.client.ask("INFO replication")?;
        let found = lines.iter().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        Ok(found.unwrap_or_default().to_string())
    }

    /// Waits until INFO replication says `value` of `field`.
    pub fn wait_for(&mut self, field: &str, value: &str) -> Result<(), String> {
        wait(&format!("{field}:{value}"), || Ok(self.told(field)? == value)).map(drop)
    }

    /// Follows `primary`; the seconds until it has all data.
    pub fn follow(&mut self, primary: &Node) -> Result<f64, String> {
        let began = Instant::now();
        self.client.ask(&format!("REPLICAOF 127.0.0.1 {}", primary.port))?;
        self.wait_for("master_link_status", "up")?;
        Ok(began.elapsed().as_secs_f64())
    }

    /// Waits until so many replicas have what was written.
    pub fn wait_for_replicas(&mut self, count: usize) -> Result<(), String> {
        let line = format!("WAIT {count} 1000");
        let is_so = || Ok(self.client.ask(&line)?[0] == count.to_string());
        wait("replicas", is_so).map(drop)
    }

    /// Seconds that its threads have run.
    pub fn cpu_seconds(&self) -> f64 {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.process.0.id()));
        let of = |task: fs::DirEntry| {
            let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse::<f64>().ok()
        };
        tasks.into_iter().flatten().flatten().filter_map(of).sum::<f64>() / 1e9
    }
}

/// A key of 16 bytes; neighbours in time are not neighbours in order.
pub fn key(nth: u64) -> String {
    format!("k{:015}", nth.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 15)
}

/// Connections that write.
pub struct Load {
    ends: Vec<TcpStream>,
    sent: u64,
}

impl Load {
    pub fn connect(port: u16) -> Result<Load, String> {
        let connect = |_| {
            let stream = TcpStream::connect(("127.0.0.1", port)).map_err(|e| e.to_string())?;
            stream.set_nodelay(true).map_err(|e| e.to_string())?;
            Ok(stream)
        };
        let ends = (0..CONNECTIONS).map(connect).collect::<Result<_, String>>()?;
        Ok(Load { ends, sent: 0 })
    }

    /// Sets `count` of `keys` keys, one after the other; with a rate so many a second at most.
    pub fn write(&mut self, count: u64, keys: u64, rate: Option<f64>) -> Result<f64, String> {
        let (began, mut done) = (Instant::now(), 0);
        let value = "v".repeat(VALUE_BYTES);
        let mut replies = [0; OK_BYTES * DEPTH];
        while done < count {
            if let Some(rate) = rate {
                let due = Duration::from_secs_f64(done as f64 / rate);
                std::thread::sleep(due.saturating_sub(began.elapsed()));
            }
            for end in &mut self.ends {
                let mut train = String::new();
                for _ in 0..DEPTH {
                    let key = key(self.sent % keys);
                    train += &format!("*3\r\n$3\r\nSET\r\n$16\r\n{key}\r\n$84\r\n");
                    train += &value;
                    train += "\r\n";
                    self.sent += 1;
                }
                end.write_all(train.as_bytes()).map_err(|e| format!("writing: {e}"))?;
            }
            for end in &mut self.ends {
                end.read_exact(&mut replies).map_err(|e| format!("reading: {e}"))?;
                if replies.chunks(OK_BYTES).any(|reply| reply != b"+OK\r\n") {
                    return Err(format!("SET: {}", String::from_utf8_lossy(&replies)));
                }
            }
            done += (CONNECTIONS * DEPTH) as u64;
        }
        Ok(done as f64 / began.elapsed().as_secs_f64())
    }
}
