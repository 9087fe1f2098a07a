//! A serving process under mixed load: what it holds and how fast it answers, every second.
//!
//! The load runs in this process: single requests whose time is taken, pipelines, counters, half a
//! megabyte at a time, connections that come and go in hundreds, and readers that are slow. When it
//! ends the server must have given back its descriptors, and its memory must have stayed within
//! the one number, plus a tenth.

pub mod dashboard;
mod draw;
mod load;

use load::Load;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const MEMORY_BYTES: u64 = 256 << 20;

/// What is run, and where its results go.
pub struct Run {
    pub binary: PathBuf,
    /// A store in a directory rather than a cache in memory.
    pub durable: bool,
    pub seconds: u64,
    pub out: PathBuf,
}

/// A second of it.
pub struct Sample {
    second: u64,
    rss_bytes: u64,
    descriptors: u64,
    requests: u64,
    p50_us: u64,
    p99_us: u64,
}

/// A running server; killed where it is dropped before it was stopped.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Run {
    /// The load, the drawing, the verdict.
    pub fn run(&self) -> Result<(), String> {
        fs::create_dir_all(&self.out).map_err(|e| format!("{}: {e}", self.out.display()))?;
        let (mut server, port) = self.start()?;
        let pid = server.0.id();
        let at_first = sockets(pid);
        let load = Load {
            port,
            stop: AtomicBool::new(false),
            latencies_us: Mutex::default(),
            errors: Mutex::default(),
        };
        let samples = std::thread::scope(|scope| {
            scope.spawn(|| load.run());
            let samples = sample(pid, &load, self.seconds);
            load.stop.store(true, Relaxed);
            samples
        });
        let given_back = wait_until(|| sockets(pid) <= at_first);
        let at_last = sockets(pid);
        let ended = stop(&mut server);
        let title = format!(
            "silica serve {}: mixed load for {} s",
            if self.durable { "PATH --memory 256MiB" } else { "--cache 256MiB" },
            self.seconds
        );
        let name = if self.durable { "soak-store" } else { "soak" };
        let write = |extension: &str, text: String| {
            let path = self.out.join(name).with_extension(extension);
            fs::write(&path, text).map_err(|e| format!("{}: {e}", path.display()))
        };
        write("csv", draw::table(&samples))?;
        write("svg", draw::drawing(&title, &samples, MEMORY_BYTES))?;
        println!("{}", summary(&samples));
        let mut errors = load.errors.into_inner().expect("no client panics");
        let most = samples.iter().map(|s| s.rss_bytes).max().unwrap_or_default();
        if most > MEMORY_BYTES + MEMORY_BYTES / 10 {
            errors.push(format!("{most} bytes were resident, {MEMORY_BYTES} set"));
        }
        if !given_back {
            errors.push(format!("{at_last} sockets are open afterwards, {at_first} before"));
        }
        if !ended {
            errors.push("the server did not end well when it was told to".into());
        }
        if errors.is_empty() { Ok(()) } else { Err(errors.join("\n")) }
    }

    fn start(&self) -> Result<(Serving, u16), String> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let port = free.map_err(|e| format!("a free port: {e}"))?.port();
        let mut command = Command::new(&self.binary);
        command.args(["serve", "--listen", &format!("127.0.0.1:{port}")]);
        let memory = format!("{}MiB", MEMORY_BYTES >> 20);
        if self.durable {
            let path = self.out.join("soak-data");
            let _ = fs::remove_dir_all(&path);
            command.arg(path).args(["--memory", &memory]);
        } else {
            command.args(["--cache", &memory]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().map_err(|e| format!("{}: {e}", self.binary.display()))?;
        let server = Serving(child);
        match wait_until(|| TcpStream::connect(("127.0.0.1", port)).is_ok()) {
            true => {
                // Until that connection's descriptor is back.
                std::thread::sleep(Duration::from_millis(500));
                Ok((server, port))
            }
            false => Err("the server does not listen".into()),
        }
    }
}

fn sample(pid: u32, load: &Load, seconds: u64) -> Vec<Sample> {
    let start = Instant::now();
    let mut samples = Vec::new();
    for second in 1..=seconds {
        let due = start + Duration::from_secs(second);
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let mut times = std::mem::take(&mut *load.latencies_us.lock().expect("no client panics"));
        times.sort_unstable();
        let quantile = |of: usize| times.get(times.len() * of / 100).map_or(0, |us| (*us).into());
        samples.push(Sample {
            second,
            rss_bytes: rss_bytes(pid),
            descriptors: descriptors(pid),
            requests: times.len() as u64,
            p50_us: quantile(50),
            p99_us: quantile(99),
        });
    }
    samples
}

fn summary(samples: &[Sample]) -> String {
    let most = |of: fn(&Sample) -> u64| samples.iter().map(of).max().unwrap_or_default();
    let middle = |of: fn(&Sample) -> u64| {
        let mut all: Vec<u64> = samples.iter().map(of).collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied().unwrap_or_default()
    };
    format!(
        "{} s: at most {} MiB resident and {} descriptors; of a second p50 {} us and p99 {} us in \
         the middle, p99 at most {} us",
        samples.len(),
        most(|s| s.rss_bytes) >> 20,
        most(|s| s.descriptors),
        middle(|s| s.p50_us),
        middle(|s| s.p99_us),
        most(|s| s.p99_us),
    )
}

/// Waits for ten seconds at most.
fn wait_until(is: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !is() {
        if start.elapsed() > Duration::from_secs(10) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    true
}

fn stop(server: &mut Serving) -> bool {
    let pid = server.0.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &pid]).status();
    let start = Instant::now();
    while sent.is_ok() && start.elapsed() < Duration::from_secs(20) {
        if let Ok(Some(status)) = server.0.try_wait() {
            return status.success();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    false
}

fn descriptors(pid: u32) -> u64 {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |list| list.count() as u64)
}

/// Descriptors without files and rings of reads: a store has more of them when it has worked.
fn sockets(pid: u32) -> u64 {
    let list = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let targets = list.filter_map(|entry| fs::read_link(entry.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count() as u64
}

fn rss_bytes(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}

/// Where cargo puts the program.
pub fn binary(target: &Path, profile: &str) -> PathBuf {
    target.join(profile).join("silica")
}
