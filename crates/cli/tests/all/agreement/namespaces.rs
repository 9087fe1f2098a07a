//! Members on networks of their own, which are cut by the system: what a proxy cannot do to a
//! connection (packets that vanish, and no word of it) befalls it here.

use crate::support::{Client, Reply, arg, scratch, silica};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
/// Of this process; names of networks are the system's.
const BRIDGE: &str = "sagree";

fn ip(line: &str) -> bool {
    let output = Command::new("ip").args(line.split(' ')).stdin(Stdio::null()).output();
    output.is_ok_and(|output| output.status.success())
}

/// Three networks with an address each, on one bridge; they go when this is dropped.
struct Networks {
    members: Vec<Option<Child>>,
    dir: PathBuf,
}

impl Networks {
    /// `None` if this system makes none.
    fn make() -> Option<Networks> {
        let networks = Networks { members: Vec::new(), dir: scratch("agreement-namespaces") };
        networks.remove();
        let mut lines = vec![
            format!("link add {BRIDGE} type bridge"),
            format!("addr add 10.213.77.254/24 dev {BRIDGE}"),
            format!("link set {BRIDGE} up"),
        ];
        for n in 0..3 {
            lines.extend([
                format!("netns add {BRIDGE}{n}"),
                format!("link add {BRIDGE}v{n} type veth peer name e0 netns {BRIDGE}{n}"),
                format!("link set {BRIDGE}v{n} master {BRIDGE}"),
                format!("link set {BRIDGE}v{n} up"),
                format!("-n {BRIDGE}{n} addr add 10.213.77.{}/24 dev e0", n + 1),
                format!("-n {BRIDGE}{n} link set e0 up"),
                format!("-n {BRIDGE}{n} link set lo up"),
            ]);
        }
        match lines.iter().find(|line| !ip(line)) {
            None => Some(networks),
            Some(line) => {
                println!("skipped: this system makes no networks (ip {line})");
                None
            }
        }
    }

    fn remove(&self) {
        for n in 0..3 {
            ip(&format!("link del {BRIDGE}v{n}"));
            ip(&format!("netns del {BRIDGE}{n}"));
        }
        ip(&format!("link del {BRIDGE}"));
    }

    fn spawn(&mut self) {
        let all = "10.213.77.1:8000,10.213.77.2:8000,10.213.77.3:8000";
        for n in 0..3 {
            let dir = self.dir.join(n.to_string());
            let address = format!("10.213.77.{}", n + 1);
            let inner = silica(&["--memory", "128MiB", "serve", arg(&dir)]);
            let mut command = Command::new("ip");
            command.args(["netns", "exec", &format!("{BRIDGE}{n}")]).arg(inner.get_program());
            command.args(inner.get_args()).args(["--listen", &format!("{address}:7000")]);
            command.args(["--password", "secret", "--loops", "1", "--replicated-by", all]);
            command.args(["--member", &format!("{address}:8000")]);
            let log = std::fs::File::create(dir.with_extension("log")).expect("a log");
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
            self.members.push(Some(command.spawn().expect("ip starts")));
        }
    }

    fn client(&self, n: usize) -> Option<Client> {
        let address = format!("10.213.77.{}:7000", n + 1).parse().expect("an address");
        let mut client = Client::connect_to(address, Duration::from_secs(1)).ok()?;
        client.limit(Duration::from_secs(1));
        client.ask(&[b"AUTH", b"secret"]).ok()?;
        Some(client)
    }

    /// A member, but `gone`, that takes a write; and how long that took.
    fn leader(&self, gone: Option<usize>) -> (usize, Duration) {
        let begun = Instant::now();
        while begun.elapsed() < LIMIT {
            for n in (0..3).filter(|n| Some(*n) != gone) {
                let Some(mut client) = self.client(n) else { continue };
                if let Ok(Reply::Status(_)) = client.ask(&[b"SET", b"leader", b"x"]) {
                    return (n, begun.elapsed());
                }
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let log = std::fs::read_to_string(self.dir.join("0.log")).unwrap_or_default();
        panic!("nobody leads; {log}");
    }
}

impl Drop for Networks {
    fn drop(&mut self) {
        for member in self.members.iter_mut().flatten() {
            let _ = member.kill();
            let _ = member.wait();
        }
        self.remove();
    }
}

#[test]
fn a_leader_whose_packets_vanish_is_replaced_and_comes_back() {
    let Some(mut networks) = Networks::make() else { return };
    networks.spawn();
    let (leader, _) = networks.leader(None);
    let mut client = networks.client(leader).expect("a connection");
    for n in 0..100 {
        let key = format!("k{n}");
        let reply = client.ask(&[b"SET", key.as_bytes(), b"1"]).expect("a reply");
        assert_eq!(reply, Reply::Status("OK".into()));
    }
    assert!(ip(&format!("-n {BRIDGE}{leader} link set e0 down")));
    let (next, took) = networks.leader(Some(leader));
    assert_ne!(next, leader);
    let mut client = networks.client(next).expect("a connection");
    assert_eq!(client.ask(&[b"GET", b"k99"]).expect("a reply"), Reply::Bytes(Some(b"1".into())));
    assert_eq!(client.ask(&[b"INCR", b"k99"]).expect("a reply"), Reply::Number(2));
    assert!(ip(&format!("-n {BRIDGE}{leader} link set e0 up")));
    let begun = Instant::now();
    loop {
        let client = networks.client(leader);
        match client.and_then(|mut client| client.ask(&[b"GET", b"k99"]).ok()) {
            Some(Reply::Error(text)) if text.starts_with("MOVED") => break,
            Some(Reply::Bytes(Some(value))) => assert_eq!(value, b"2", "an old value"),
            _ => {}
        }
        assert!(begun.elapsed() < LIMIT, "the old leader does not come back");
        std::thread::sleep(Duration::from_millis(50));
    }
    println!("replaced after {took:?}");
    lossy(&networks);
}

/// With a twentieth of all packets lost, the group goes on; where the system loses none on demand,
/// that is said.
fn lossy(networks: &Networks) {
    let loses = |n: usize| {
        let mut command = Command::new("tc");
        command.args(["-n", &format!("{BRIDGE}{n}"), "qdisc", "add", "dev", "e0", "root"]);
        command.args(["netem", "loss", "5%"]).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if !(0..3).all(loses) {
        println!("skipped: this system's network loses no packets on demand (netem)");
        return;
    }
    let (leader, _) = networks.leader(None);
    let mut done = 0;
    for n in 0..200 {
        let Some(mut client) = networks.client(leader) else { continue };
        let key = format!("l{n}");
        let answer = client.ask(&[b"SET", key.as_bytes(), b"1"]);
        done += i32::from(matches!(answer, Ok(Reply::Status(_))));
    }
    assert!(done > 50, "only {done} of 200 writes were answered");
}
