//! Three unmodified processes of Redis Sentinel over a primary and two replicas of ours: the
//! primary dies, hangs or is cut off; a replica takes its place, and it comes back as a replica.

use super::proxy::Proxy;
use super::*;
use crate::support::{arg, scratch};
use silica_base::test_size;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The name under which Sentinel knows the servers.
const NAME: &str = "main";
/// Milliseconds of silence after which Sentinel takes a server for dead.
const DOWN_AFTER_MS: u32 = 400;
/// Writes after which the writer waits for both replicas.
const BETWEEN_WAITS: u64 = 50;

/// What happens to the primary.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// SIGKILL.
    Killed,
    /// SIGSTOP.
    Stopped,
    /// Nobody reaches it, and it reaches nobody by its address.
    CutOff,
}

const FAULTS: [Fault; 3] = [Fault::Killed, Fault::Stopped, Fault::CutOff];

fn has_sentinel() -> bool {
    let is_there = Command::new("redis-sentinel").arg("--version").output().is_ok();
    if !is_there {
        println!("skipped: redis-sentinel is not there (Debian: apt-get install redis-sentinel)");
    }
    is_there
}

/// A server behind its proxy, whose port is its address for everybody.
struct Node {
    path: PathBuf,
    port: u16,
    proxy: Proxy,
    server: Option<Server>,
}

impl Node {
    fn start(path: PathBuf) -> Node {
        let server = Server::start(&path, &["--loops", "1"]);
        let port = server.port;
        let node = Node { path, port, proxy: Proxy::start(port), server: Some(server) };
        node.announce();
        node
    }

    /// The server says that it is where its proxy is.
    fn announce(&self) {
        let line = format!("CONFIG SET replica-announce-port {}", self.proxy.port);
        ask(&mut self.client(), &line);
    }

    /// A connection past the proxy.
    fn client(&self) -> Client {
        Client::connect(self.port).expect("the server accepts")
    }

    fn signal(&self, name: &str) {
        let pid = self.server.as_ref().expect("it runs").pid().to_string();
        let sent = Command::new("kill").args([name, &pid]).status().expect("kill runs");
        assert!(sent.success(), "{name}");
    }

    fn suffer(&mut self, fault: Fault) {
        match fault {
            Fault::Killed => self.server.take().expect("it runs").kill(),
            Fault::Stopped => self.signal("-STOP"),
            Fault::CutOff => self.proxy.cut(),
        }
    }

    fn come_back(&mut self, fault: Fault) {
        match fault {
            Fault::Killed => {
                let listen = format!("127.0.0.1:{}", self.port);
                self.server = Some(Server::start_at(&self.path, &listen, &["--loops", "1"]));
                self.announce();
            }
            Fault::Stopped => self.signal("-CONT"),
            Fault::CutOff => self.proxy.mend(),
        }
    }

    /// True if it follows the server at `port`.
    fn follows(&self, port: u16) -> bool {
        // Sentinel ends all connections when it changes a role.
        let asked = Client::connect(self.port).and_then(|mut c| c.ask(&[b"INFO", b"replication"]));
        let Ok(Reply::Bytes(Some(text))) = asked else { return false };
        let text = String::from_utf8_lossy(&text).into_owned();
        text.contains(&format!("master_port:{port}\r\n")) && text.contains("link_status:up")
    }
}

/// Processes of Sentinel, killed when dropped.
struct Sentinels(Vec<(Child, u16)>);

impl Drop for Sentinels {
    fn drop(&mut self) {
        for (child, _) in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Sentinels {
    /// Starts three that watch the primary at `port`, and waits until they know all others.
    fn start(dir: &Path, port: u16) -> Sentinels {
        let sentinels = Sentinels((0..3).map(|nth| start_sentinel(dir, nth, port)).collect());
        for (_, own) in &sentinels.0 {
            wait_for("a sentinel", || Client::connect(*own).is_ok());
            let mut client = Client::connect(*own).expect("it accepts");
            // Only how often they look; what they do is as it is always.
            let often = "SENTINEL DEBUG publish-period 300 info-period 500 ask-period 200 \
                         ping-period 200 min-link-reconnect-period 500";
            ask(&mut client, often);
        }
        sentinels.wait_until_whole();
        sentinels
    }

    /// Each knows two others and two replicas, which are well.
    fn wait_until_whole(&self) {
        for (_, port) in &self.0 {
            let mut client = Client::connect(*port).expect("it accepts");
            wait_for("sentinels that know each other", || {
                let told = flat(ask(&mut client, &format!("SENTINEL MASTER {NAME}")));
                let has = |pair: [&str; 2]| told.windows(2).any(|two| two == pair);
                has(["num-other-sentinels", "2"])
                    && has(["num-slaves", "2"])
                    && has(["flags", "master"])
            });
            wait_for("replicas that are well", || {
                let Reply::Many(all) = ask(&mut client, &format!("SENTINEL REPLICAS {NAME}"))
                else {
                    panic!("no replicas");
                };
                let is_well = |replica: Reply| {
                    let told = flat(replica);
                    let has = |pair: [&str; 2]| told.windows(2).any(|two| two == pair);
                    has(["flags", "slave"]) && has(["master-link-status", "ok"])
                };
                all.into_iter().all(is_well)
            });
        }
    }

    /// Where the primary is, as the first of them says.
    fn primary(&self) -> u16 {
        let mut client = Client::connect(self.0[0].1).expect("it accepts");
        let told = flat(ask(&mut client, &format!("SENTINEL GET-MASTER-ADDR-BY-NAME {NAME}")));
        told[1].parse().expect("a port")
    }
}

fn start_sentinel(dir: &Path, nth: usize, primary: u16) -> (Child, u16) {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let port = free.local_addr().expect("a bound socket has an address").port();
    drop(free);
    let file = dir.join(format!("sentinel-{nth}.conf"));
    let text = format!(
        "port {port}\nbind 127.0.0.1\ndir {}\nsentinel monitor {NAME} 127.0.0.1 {primary} 2\n\
         sentinel down-after-milliseconds {NAME} {DOWN_AFTER_MS}\n\
         sentinel failover-timeout {NAME} 3000\n",
        dir.display()
    );
    std::fs::write(&file, text).expect("the directory can be written");
    let log = std::fs::File::create(file.with_extension("log")).expect("the log can be made");
    let mut command = Command::new("redis-sentinel");
    command.arg(arg(&file)).stdin(Stdio::null()).stdout(log);
    (command.spawn().expect("it starts"), port)
}

/// What a client has written to a primary, one write after the other, until that failed.
struct Written {
    /// Writes that were acknowledged: those of this number and below.
    acknowledged: u64,
    /// Writes that both replicas have said to have.
    replicated: u64,
}

fn key(round: u64, nth: u64) -> String {
    format!("write:{round}:{nth:08}")
}

/// Writes to the primary at `port` until it fails, which the test sees to.
fn write_until_it_fails(port: u16, round: u64, is_under_way: &AtomicBool) -> Written {
    let mut client = Client::connect(port).expect("the primary accepts");
    client.limit(Duration::from_millis(500));
    let mut written = Written { acknowledged: 0, replicated: 0 };
    loop {
        let next = written.acknowledged + 1;
        match client.ask(&[b"SET", key(round, next).as_bytes(), b"v"]) {
            Ok(Reply::Status(_)) => written.acknowledged = next,
            Ok(Reply::Error(_)) | Err(_) => return written,
            Ok(other) => panic!("SET answered {other:?}"),
        }
        if next.is_multiple_of(BETWEEN_WAITS) {
            match client.ask(&[b"WAIT", b"2", b"300"]) {
                Ok(Reply::Number(2)) => written.replicated = next,
                Ok(_) => {}
                Err(_) => return written,
            }
            is_under_way.store(true, Relaxed);
        }
    }
}

/// Servers and what watches over them.
struct Group {
    nodes: Vec<Node>,
    sentinels: Sentinels,
}

impl Group {
    fn start(dir: &Path) -> Group {
        let nodes: Vec<Node> =
            (0..3).map(|nth| Node::start(dir.join(format!("node-{nth}")))).collect();
        let of = nodes[0].proxy.port;
        for node in &nodes[1..] {
            follow(&mut node.client(), of);
            wait_for("the link", || node.follows(of));
        }
        Group { sentinels: Sentinels::start(dir, of), nodes }
    }

    fn of_port(&self, port: u16) -> usize {
        self.nodes.iter().position(|node| node.proxy.port == port).expect("one of ours")
    }

    /// `fault` happens to the primary while a client writes.
    fn fail_over(&mut self, round: u64, fault: Fault) {
        let port = self.sentinels.primary();
        let old = self.of_port(port);
        let is_under_way = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_under_way);
        let writer = std::thread::spawn(move || write_until_it_fails(port, round, &seen));
        wait_for("writes", || is_under_way.load(Relaxed));
        let began = Instant::now();
        self.nodes[old].suffer(fault);
        let written = writer.join().expect("the writer is well");
        let new = self.promoted(port, round);
        let took = began.elapsed();
        let port = self.nodes[new].proxy.port;
        let has = self.must_have_all_but_the_last(new, round, &written);
        println!(
            "{fault:?}: {} ms; {} writes acknowledged, {} of them on both replicas, {has} kept",
            took.as_millis(),
            written.acknowledged,
            written.replicated
        );
        let other = (0..3).find(|nth| ![old, new].contains(nth)).expect("three");
        wait_for("the other replica", || self.nodes[other].follows(port));
        if fault == Fault::Stopped {
            // It does not know yet that it was replaced, and takes a write that is lost.
            self.nodes[old].come_back(fault);
            let _ = self.nodes[old].client().ask(&[b"SET", b"of-the-old-primary", b"1"]);
        } else {
            self.nodes[old].come_back(fault);
        }
        wait_for("the old primary", || self.nodes[old].follows(port));
        let mut primary = self.nodes[new].client();
        for nth in [old, other] {
            let context = format!("{fault:?}, node {nth}");
            must_be_equal(&mut primary, &mut self.nodes[nth].client(), &context);
        }
        self.sentinels.wait_until_whole();
    }

    /// The node that takes writes in the place of the one at `old`.
    fn promoted(&self, old: u16, round: u64) -> usize {
        let mut new = None;
        wait_for("a new primary", || {
            let port = self.sentinels.primary();
            if port == old {
                return false;
            }
            let nth = self.of_port(port);
            let first = format!("first:{round}");
            let set = self.nodes[nth].client().ask(&[b"SET", first.as_bytes(), b"1"]);
            new = matches!(set, Ok(Reply::Status(_))).then_some(nth);
            new.is_some()
        });
        new.expect("it was found")
    }

    /// Node `nth` has the first writes of a client without a gap, and all that a replica had; how
    /// many it has.
    fn must_have_all_but_the_last(&self, nth: usize, round: u64, written: &Written) -> u64 {
        let mut client = self.nodes[nth].client();
        let mut is_there =
            |n| ask(&mut client, &format!("EXISTS {}", key(round, n))) == Reply::Number(1);
        // The write that failed may have reached a replica all the same.
        let all: Vec<bool> = (1..=written.acknowledged + 1).map(&mut is_there).collect();
        let has = all.iter().take_while(|is| **is).count() as u64;
        assert!(!all[has as usize..].contains(&true), "a gap behind write {has}");
        let least = written.replicated;
        assert!(has >= least, "{has} writes are there, and both replicas had {least}");
        has
    }
}

/// go-redis and Jedis find the new primary by themselves, and write there.
#[test]
fn clients_of_sentinel_go_on_at_the_new_primary() {
    let programs = crate::cluster::clients::Programs::built();
    if !has_sentinel() || !has_redis() {
        return;
    }
    let dir = scratch("replication-sentinel-clients");
    let mut group = Group::start(&dir);
    let (_, port) = group.sentinels.0[0];
    let mut running = programs.start(&["go", "sentinel"], &dir, port, &[NAME]);
    running.wait_until("");
    let old = group.sentinels.primary();
    let nth = group.of_port(old);
    group.nodes[nth].suffer(Fault::Killed);
    group.promoted(old, 0);
    running.wait_until(".again");
    running.end();
}

#[test]
fn sentinel_replaces_a_primary_that_dies_hangs_or_is_cut_off() {
    if !has_sentinel() || !has_redis() {
        return;
    }
    let dir = scratch("replication-sentinel");
    let mut group = Group::start(&dir);
    for round in 0..test_size(1, 1, 60) {
        group.fail_over(round, FAULTS[round as usize % FAULTS.len()]);
    }
}
