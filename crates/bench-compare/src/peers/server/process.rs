//! A server as a child process that never outlives us.

use super::pin::Pinning;
use ::silica::{Error, ErrorKind, Result};
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use rustix::thread::sched_setaffinity;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the server writes to its outputs.
const LOG: &str = "server.log";
const START_MAX: Duration = Duration::from_secs(20);
const START_PAUSE: Duration = Duration::from_millis(2);

/// Where a server listens.
#[derive(Debug)]
pub(super) enum Address {
    Tcp(SocketAddr),
    /// The directory, kept open, and the name in it: paths of sockets must be short.
    Unix(File, &'static str),
    Udp {
        udp: SocketAddr,
        tcp: SocketAddr,
    },
}

/// A running server, killed when this is dropped, and by the system when this process dies.
pub(super) struct Process {
    name: &'static str,
    pid: u32,
    log: PathBuf,
    /// Its end tells the keeper to kill the server.
    stop: Option<Sender<()>>,
    keeper: Option<JoinHandle<()>>,
}

/// Starts the child, tells its number, and kills it when `stop` ends.
fn keep(mut command: Command, started: &Sender<io::Result<u32>>, stop: &Receiver<()>) {
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(e) => {
            let _ = started.send(Err(e));
            return;
        }
    };
    let _ = started.send(Ok(child.id()));
    let _ = stop.recv();
    let _ = child.kill();
    let _ = child.wait();
}

impl Process {
    /// Starts `command` in `directory`, on the core that `pinning` gives it.
    pub(super) fn start(
        name: &'static str,
        mut command: Command,
        directory: &Path,
        pinning: Pinning,
    ) -> Result<Self> {
        let failed = |e| Error::io(format!("starting {name}"), e);
        let log = directory.join(LOG);
        let output = File::create(&log).map_err(failed)?;
        let errors = output.try_clone().map_err(failed)?;
        command.current_dir(directory).stdin(Stdio::null()).stdout(output).stderr(errors);
        let cores = pinning.server();
        let parent = getpid();
        let before = move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            if getppid() != Some(parent) {
                return Err(io::Error::from(io::ErrorKind::BrokenPipe));
            }
            if let Some(cores) = &cores {
                // Where it may not, it runs where we do.
                let _ = sched_setaffinity(None, cores);
            }
            Ok(())
        };
        // SAFETY: between fork and exec, the closure makes system calls and allocates nothing.
        unsafe { command.pre_exec(before) };
        let ((started_in, started), (stop, stopped)) = (channel(), channel());
        // The system kills the server when the thread that started it ends, so that must live as
        // long as we want the server to.
        let keeper = std::thread::Builder::new()
            .name("server-keeper".to_string())
            .spawn(move || keep(command, &started_in, &stopped))
            .map_err(failed)?;
        let pid = started.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()));
        let process = |pid| Process { name, pid, log, stop: Some(stop), keeper: Some(keeper) };
        pid.map(process).map_err(failed)
    }

    pub(super) fn pid(&self) -> u32 {
        self.pid
    }

    /// An error where the server is dead, with the last that it said.
    pub(super) fn check(&self) -> Result<()> {
        if is_alive(self.pid) {
            return Ok(());
        }
        let said = self.said();
        let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("nothing");
        let message = format!("{} died; it said last: {last}", self.name);
        Err(Error::new(ErrorKind::Closed, message))
    }

    /// What the server wrote to its outputs.
    pub(super) fn said(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Calls `attempt` until it gives something, or the server dies or takes too long.
    pub(super) fn wait_for<T>(&self, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        let started = Instant::now();
        loop {
            let failed = match attempt() {
                Ok(done) => {
                    // Somebody else's answer must not pass for the server's.
                    return self.check().map(|()| done);
                }
                Err(e) => e,
            };
            self.check()?;
            if started.elapsed() > START_MAX {
                return Err(failed);
            }
            std::thread::sleep(START_PAUSE);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

/// True while the process `pid` runs; one that waits to be reaped does not.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map_or("Z", |(_, rest)| rest);
    !state.starts_with(['Z', 'X'])
}

/// A port that was free a moment ago.
pub(super) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let address = listener.and_then(|listener| listener.local_addr());
    Ok(address.map_err(|e| Error::io("looking for a free port", e))?.port())
}

pub(super) fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// The address of the socket `name` in `directory`.
pub(super) fn socket_in(directory: &Path, name: &'static str) -> Result<Address> {
    let opened = File::open(directory);
    let opening = |e| Error::io(format!("opening {}", directory.display()), e);
    Ok(Address::Unix(opened.map_err(opening)?, name))
}

/// What `program` says when it is called with `argument`; where it is not installed, the error
/// names `package`.
pub(super) fn ask_version(program: &str, argument: &str, package: &str) -> Result<String> {
    let output = Command::new(program).arg(argument).stdin(Stdio::null()).output();
    match output {
        Ok(output) => Ok(String::from_utf8_lossy(&output.stdout).trim().to_string()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            let message = format!("{program} is not installed: apt-get install {package}");
            Err(Error::new(ErrorKind::NotFound, message))
        }
        Err(e) => Err(Error::io(format!("running {program}"), e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(script: &str, directory: &Path) -> Result<Process> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::start("test server", command, directory, Pinning::of_machine())
    }

    #[test]
    fn a_process_lives_until_it_is_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let process = start("exec sleep 1000", directory.path()).unwrap();
        let pid = process.pid();
        process.check().unwrap();
        drop(process);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn a_panic_leaves_no_process() {
        let directory = tempfile::tempdir().unwrap();
        let pid = std::sync::atomic::AtomicU32::new(0);
        let outcome = std::panic::catch_unwind(|| {
            let process = start("exec sleep 1000", directory.path()).unwrap();
            pid.store(process.pid(), std::sync::atomic::Ordering::Relaxed);
            panic!("meant to");
        });
        assert!(outcome.is_err());
        assert!(!is_alive(pid.into_inner()));
    }

    #[test]
    fn a_process_outlives_the_thread_that_opened_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let process = std::thread::scope(|scope| {
            scope.spawn(|| start("exec sleep 1000", path).unwrap()).join().unwrap()
        });
        std::thread::sleep(Duration::from_millis(20));
        process.check().unwrap();
    }

    #[test]
    fn what_a_dead_server_said_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let process = start("echo no room >&2; exit 1", directory.path()).unwrap();
        let never = || Err::<(), _>(Error::new(ErrorKind::Io, "not yet"));
        let told = process.wait_for(never).unwrap_err().to_string();
        assert!(told.contains("no room"), "{told}");
    }

    #[test]
    fn a_missing_program_names_its_package() {
        let told = ask_version("no-such-program", "-V", "nobody-has-it").unwrap_err().to_string();
        assert!(told.contains("apt-get install nobody-has-it"), "{told}");
    }
}
