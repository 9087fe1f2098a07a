//! Clients in Go and Java: go-redis, Jedis and Lettuce over a cluster whose slots move. What they
//! are is here for the tests of Sentinel, too.

use super::*;
use crate::client_pages::{fetched, run};
use crate::programs::{go_build, go_get, maven};
use std::sync::OnceLock;

pub(crate) const GO: [&str; 1] = ["github.com/redis/go-redis/v9@v9.23.0"];
pub(crate) const JAVA: [&str; 2] =
    ["redis.clients:jedis:6.2.0", "io.lettuce:lettuce-core:7.2.3.RELEASE"];

/// The programs, built; without those that cannot be had here.
#[derive(Clone)]
pub(crate) struct Programs {
    go: Option<PathBuf>,
    /// Where Java's classes are.
    java: Option<String>,
}

impl Programs {
    /// Builds them, once for all tests.
    pub(crate) fn built() -> Programs {
        static BUILT: OnceLock<Programs> = OnceLock::new();
        let build = || Programs { go: built_in_go(), java: built_in_java() };
        BUILT.get_or_init(build).clone()
    }

    /// Lets all of `names` loose: `go` and what the Java program knows.
    pub(crate) fn start(&self, names: &[&str], dir: &Path, port: u16, words: &[&str]) -> Running {
        let stop = dir.join("stop");
        let start = |name: &&str| {
            let mut command = match (*name, &self.go, &self.java) {
                ("go", Some(program), _) => {
                    let mut command = Command::new(program);
                    command.arg(if names.contains(&"sentinel") { "sentinel" } else { "cluster" });
                    command
                }
                ("go", None, _) | (_, _, None) => return None,
                (name, _, Some(classes)) => {
                    let mut command = Command::new("java");
                    command.args(["-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", classes]);
                    command.args(["Cluster", name]);
                    command
                }
            };
            let log = std::fs::File::create(dir.join(format!("{name}.log"))).expect("a log");
            let errors = log.try_clone().expect("a second descriptor");
            command.arg(port.to_string()).arg(&stop).args(words);
            command.stdin(Stdio::null()).stdout(log).stderr(errors);
            Some((name.to_string(), command.spawn().expect("it starts")))
        };
        Running { all: names.iter().filter_map(start).collect(), dir: dir.to_path_buf() }
    }
}

/// Programs that run until they are told to stop; killed when dropped.
pub(crate) struct Running {
    all: Vec<(String, Child)>,
    dir: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        for (_, child) in &mut self.all {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Running {
    /// Waits until each has made its file with this end.
    pub(crate) fn wait_until(&mut self, end: &str) {
        let begun = Instant::now();
        for (name, child) in &mut self.all {
            let file = self.dir.join(format!("stop.{name}{end}"));
            while !file.exists() {
                let is_well = child.try_wait().expect("own child").is_none();
                let is_late = begun.elapsed() > 3 * LIMIT;
                assert!(is_well && !is_late, "{name}: {}", said_by(&self.dir, name));
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// Ends them; each must be content.
    pub(crate) fn end(mut self) {
        std::fs::write(self.dir.join("stop"), "").expect("written");
        for (name, child) in &mut self.all {
            let status = child.wait().expect("own child");
            let said = said_by(&self.dir, name);
            assert!(status.success() && said.ends_with("content\n"), "{name}: {status} {said}");
            println!("{name}: {said}");
        }
    }
}

fn said_by(dir: &Path, name: &str) -> String {
    std::fs::read_to_string(dir.join(format!("{name}.log"))).unwrap_or_default()
}

fn built_in_go() -> Option<PathBuf> {
    let place = fetched("cluster.go", |place| go_get(place, &GO))?;
    Some(go_build(&place, "cluster/cluster.go"))
}

fn built_in_java() -> Option<String> {
    let place = fetched("Cluster.java", |place| maven(place, &JAVA))?;
    let (libraries, classes) = (place.join("lib/*"), place.join("classes"));
    let mut javac = Command::new("javac");
    javac.args(["-cp", arg(&libraries), "-d", arg(&classes), arg(&source("cluster/Cluster.java"))]);
    run(&mut javac).unwrap_or_else(|said| panic!("javac: {said}"));
    Some(format!("{}:{}", arg(&libraries), arg(&classes)))
}

/// Slots that move in the test.
const MOVED: i64 = 30;

/// Tags of keys: twelve whose slots are the first ones, and three others.
fn tags(node: &Server) -> Vec<String> {
    let mut client = node.client();
    let mut slot_of = |tag: &str| match client.ask(&[b"CLUSTER", b"KEYSLOT", tag.as_bytes()]) {
        Ok(Reply::Number(slot)) => slot,
        other => panic!("no slot: {other:?}"),
    };
    let all = (0..).map(|n| format!("t{n}"));
    let near = all.filter(|tag| slot_of(tag) < MOVED).take(12);
    near.chain(["foo", "bar", "b"].map(String::from)).collect()
}

#[test]
fn the_page_lists_the_clients() {
    crate::programs::must_be_listed(GO.iter().chain(&JAVA));
}

#[test]
fn clients_in_go_and_java_stay_right_while_slots_move() {
    let programs = Programs::built();
    if !is_there("redis-cli", "redis-tools") {
        return;
    }
    let dir = scratch("cluster-clients");
    let nodes = nodes(&dir, 3);
    create(&nodes);
    settle(&nodes[0]);
    let tags = tags(&nodes[0]);
    let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
    let mut running = programs.start(&["go", "jedis", "lettuce"], &dir, nodes[0].port, &tags);
    running.wait_until("");
    let (first, second) = (id(&nodes[0]), id(&nodes[1]));
    let slots = MOVED.to_string();
    for (from, to) in [(&first, &second), (&second, &first)] {
        let at = address(&nodes[2]);
        let reshard = ["reshard", &at, "--cluster-from", from, "--cluster-to", to];
        tool(&[&reshard[..], &["--cluster-slots", &slots, "--cluster-yes"]].concat());
        settle(&nodes[0]);
    }
    let is_empty = running.all.is_empty();
    running.end();
    let sent = |node: &Server| bytes(ask(node, "INFO errorstats"));
    let sent = sent(&nodes[0]) + &sent(&nodes[1]);
    println!("{sent}");
    assert!(is_empty || sent.contains("errorstat_MOVED"), "{sent}");
}
