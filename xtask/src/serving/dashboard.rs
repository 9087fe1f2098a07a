//! What the dashboard weighs and takes: its page, the answers behind it, and processor time of the
//! server without and with a page open, idle and under load.

use super::load::Load;
use super::{Serving, wait_until};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Requests for each page, of which the median counts.
const REQUESTS: usize = 50;
/// Thread of the admin port.
const THREAD: &str = "silica-admin";

/// A server with a dashboard.
struct Subject {
    server: Serving,
    port: u16,
    admin: u16,
}

/// Measures the server `binary` for `seconds` in each state, and prints rows of a table.
pub fn run(binary: &Path, seconds: u64) -> Result<(), String> {
    let subject = Subject::start(binary)?;
    for path in ["/", "/status", "/history?span=86400", "/models", "/metrics"] {
        let (bytes, median, worst) = subject.answers(path)?;
        println!("| `{path}` | {bytes} bytes; median {median:.2} ms, worst {worst:.2} ms |");
    }
    let idle = subject.cost(seconds, false, false)?;
    let open = subject.cost(seconds, true, false)?;
    println!("| idle, no page open: admin thread | {:.3} % of a core |", idle.admin);
    println!("| idle, no page open: whole server | {:.3} % of a core |", idle.whole);
    println!("| idle, a page open: whole server | {:.3} % of a core |", open.whole);
    let busy = subject.cost(seconds, false, true)?;
    let both = subject.cost(seconds, true, true)?;
    for (name, cost) in [("no page", busy), ("a page", both)] {
        let share = 100.0 * cost.admin / cost.whole.max(f64::MIN_POSITIVE);
        println!(
            "| under load, {name} open: admin thread, of the whole server's {:.0} % of a core | \
             {share:.3} % |",
            cost.whole
        );
    }
    Ok(())
}

/// Processor time in percent of a core: of the admin port's thread, and of the whole process.
struct Cost {
    admin: f64,
    whole: f64,
}

impl Subject {
    fn start(binary: &Path) -> Result<Subject, String> {
        let free = || {
            let socket = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
            socket.map(|address| address.port()).map_err(|e| format!("a free port: {e}"))
        };
        let (port, admin) = (free()?, free()?);
        let mut command = Command::new(binary);
        command.args(["serve", "--cache", "256MiB", "--listen", &format!("127.0.0.1:{port}")]);
        command.args(["--admin", &format!("127.0.0.1:{admin}")]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|e| format!("{}: {e}", binary.display()))?;
        let subject = Subject { server: Serving(child), port, admin };
        match wait_until(|| TcpStream::connect(("127.0.0.1", admin)).is_ok()) {
            true => Ok(subject),
            false => Err("the server does not listen".into()),
        }
    }

    fn get(&self, path: &str) -> Result<usize, String> {
        let failed = |e: std::io::Error| format!("GET {path}: {e}");
        let mut stream = TcpStream::connect(("127.0.0.1", self.admin)).map_err(failed)?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).map_err(failed)?;
        let mut text = Vec::new();
        stream.read_to_end(&mut text).map_err(failed)?;
        let end = text.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        match (end, text.starts_with(b"HTTP/1.0 200")) {
            (Some(end), true) => Ok(text.len() - end - 4),
            _ => Err(format!("GET {path}: {}", String::from_utf8_lossy(&text))),
        }
    }

    /// Bytes of an answer; milliseconds that it takes, in the middle and at worst.
    fn answers(&self, path: &str) -> Result<(usize, f64, f64), String> {
        let mut bytes = 0;
        let mut times = Vec::new();
        for _ in 0..REQUESTS {
            let begun = Instant::now();
            bytes = self.get(path)?;
            times.push(begun.elapsed().as_secs_f64() * 1000.0);
        }
        times.sort_by(f64::total_cmp);
        Ok((bytes, times[REQUESTS / 2], times[REQUESTS - 1]))
    }

    /// Processor time in `seconds`, with the requests of an open page and with load, or without.
    fn cost(&self, seconds: u64, is_open: bool, is_busy: bool) -> Result<Cost, String> {
        let load = Load {
            port: self.port,
            stop: AtomicBool::new(false),
            latencies_us: Mutex::default(),
            errors: Mutex::default(),
        };
        std::thread::scope(|scope| {
            if is_busy {
                scope.spawn(|| load.run());
            }
            let done = self.watched(seconds, is_open);
            load.stop.store(true, Relaxed);
            done
        })
    }

    fn watched(&self, seconds: u64, is_open: bool) -> Result<Cost, String> {
        let (before, begun) = (self.used()?, Instant::now());
        for second in 0..seconds {
            if is_open {
                self.get("/status")?;
                self.get("/history?span=300")?;
                if second % 10 == 0 {
                    self.get("/models")?;
                }
            }
            let due = begun + Duration::from_secs(second + 1);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
        let (after, ns) = (self.used()?, begun.elapsed().as_nanos() as f64);
        let share = |from: u64, to: u64| 100.0 * to.saturating_sub(from) as f64 / ns;
        Ok(Cost { admin: share(before.0, after.0), whole: share(before.1, after.1) })
    }

    /// Nanoseconds on a processor: of the admin port's thread, and of all threads.
    fn used(&self) -> Result<(u64, u64), String> {
        let tasks = format!("/proc/{}/task", self.server.0.id());
        let (mut admin, mut whole) = (None, 0);
        for task in std::fs::read_dir(&tasks).map_err(|e| format!("{tasks}: {e}"))?.flatten() {
            let read = |name: &str| std::fs::read_to_string(task.path().join(name));
            // A thread may just be gone.
            let (Ok(name), Ok(times)) = (read("comm"), read("schedstat")) else { continue };
            let ns: u64 = times.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0);
            whole += ns;
            if name.trim() == THREAD {
                admin = Some(ns);
            }
        }
        Ok((admin.ok_or_else(|| format!("no thread {THREAD}"))?, whole))
    }
}
