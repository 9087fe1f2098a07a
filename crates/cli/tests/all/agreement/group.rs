//! Members as processes, with a proxy before each.

use super::proxy::{self, Links};
use crate::support::{Client, Reply, arg, scratch, silica};
use std::fs::OpenOptions;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a group may take to have a leader.
const LEADER_LIMIT: Duration = Duration::from_secs(60);

/// A member.
pub(crate) struct Member {
    pub(crate) dir: PathBuf,
    /// Where clients connect.
    pub(crate) port: u16,
    /// Where the others reach it: its proxy.
    pub(crate) address: String,
    /// Where it listens for them.
    listen: String,
    child: Option<Child>,
}

/// A group.
pub(crate) struct Group {
    pub(crate) members: Vec<Member>,
    pub(crate) links: Links,
    first: Vec<String>,
    extra: Vec<String>,
    stop: Arc<AtomicBool>,
}

fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    free.local_addr().expect("an address").port()
}

impl Group {
    /// Starts `count` members with `extra` options, and waits for a leader.
    pub(crate) fn start(name: &str, count: usize, extra: &[&str]) -> Group {
        let dir = scratch(name);
        let (links, stop) = (Links::default(), Arc::new(AtomicBool::new(false)));
        let extra = extra.iter().map(ToString::to_string).collect();
        let (members, first) = (Vec::new(), Vec::new());
        let mut group = Group { members, links, first, extra, stop };
        for number in 0..count {
            group.add(dir.join(number.to_string()));
        }
        group.first = group.members.iter().map(|member| member.address.clone()).collect();
        (0..count).for_each(|number| group.spawn(number));
        group.leader();
        group
    }

    /// Prepares another member, which is not started.
    pub(crate) fn add(&mut self, dir: PathBuf) {
        let front = TcpListener::bind("127.0.0.1:0").expect("a port for a proxy");
        let address = front.local_addr().expect("an address").to_string();
        let listen = format!("127.0.0.1:{}", free_port());
        proxy::start(front, listen.clone(), self.links.clone(), Arc::clone(&self.stop));
        self.members.push(Member { dir, port: free_port(), address, listen, child: None });
    }

    /// Starts a member.
    pub(crate) fn spawn(&mut self, number: usize) {
        let all = self.first.join(",");
        let extra = self.extra.clone();
        let member = &mut self.members[number];
        let log =
            OpenOptions::new().create(true).append(true).open(member.dir.with_extension("log"));
        let listen = format!("127.0.0.1:{}", member.port);
        let mut command = silica(&["--memory", "128MiB", "serve", arg(&member.dir)]);
        command.args(["--listen", &listen, "--loops", "2"]);
        command.args(["--replicated-by", &all, "--member", &member.address]);
        command.args(["--member-listen", &member.listen]).args(&extra);
        command.env("SILICA_LOG", "info,openraft=warn");
        command.stdout(Stdio::null()).stderr(log.expect("the log can be made"));
        member.child = Some(command.spawn().expect("the binary starts"));
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self, number: usize) {
        if let Some(mut child) = self.members[number].child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, number: usize, signal: &str) {
        let Some(child) = &self.members[number].child else { return };
        let pid = child.id().to_string();
        let _ = Command::new("kill").args([signal, &pid]).status();
    }

    /// A connection to a member.
    pub(crate) fn client(&self, number: usize) -> std::io::Result<Client> {
        Client::connect(self.members[number].port)
    }

    /// The member that leads and is ready, once there is one.
    pub(crate) fn leader(&self) -> usize {
        let start = Instant::now();
        while start.elapsed() < LEADER_LIMIT {
            let leads =
                |number: &usize| self.info(*number, "agreement_ready").as_deref() == Some("1");
            if let Some(leader) = (0..self.members.len()).find(leads) {
                return leader;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let log = |member: &Member| {
            std::fs::read_to_string(member.dir.with_extension("log")).unwrap_or_default()
        };
        let logs: Vec<String> = self.members.iter().map(log).collect();
        panic!("nobody leads:\n{}", logs.join("\n---\n"));
    }

    /// A line of a member's INFO.
    pub(crate) fn info(&self, number: usize, name: &str) -> Option<String> {
        let mut client = self.client(number).ok()?;
        client.limit(Duration::from_secs(1));
        let Ok(Reply::Bytes(Some(text))) = client.ask(&[b"INFO", b"agreement"]) else {
            return None;
        };
        let text = String::from_utf8(text).ok()?;
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::to_string))
    }

    /// Waits until `holds` does.
    pub(crate) fn wait(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        let start = Instant::now();
        while !holds(self) {
            assert!(start.elapsed() < LEADER_LIMIT, "not within a minute: {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for number in 0..self.members.len() {
            self.kill(number);
        }
    }
}
