//! Clients that people use, unmodified, against the real binary: as a cache and as a durable
//! store. (Those that need no compiler are in the tests of `silica-server`.)

use crate::support::{Server, arg, said, scratch};
use redis::{Commands, ErrorKind, RedisResult, ServerErrorKind};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Lets `work` loose on a cache and on a durable store.
pub(crate) fn on_both(name: &str, work: impl Fn(&Server)) {
    let dir = scratch(name);
    let cache = Server::start_cache(&dir.join("cache"), "64MiB", &[]);
    work(&cache);
    cache.stop();
    let store = Server::start(&dir.join("store"), &[]);
    work(&store);
    store.stop();
}

/// Runs a client that says it is content; what it needs was looked for before.
pub(crate) fn must_be_content(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("the client starts");
    let good = output.status.success() && output.stdout.ends_with(b"content\n");
    assert!(good, "{command:?}: {}", said(&output));
}

/// False (and a printed reason) where a test's program or file is missing.
pub(crate) fn is_there(what: &str, package: &str) -> bool {
    let found = Path::new(what).exists() || Command::new(what).arg("-h").output().is_ok();
    if !found {
        println!("skipped: {what} is missing (Debian: apt-get install {package})");
    }
    found
}

pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients.d").join(name)
}

/// Where Debian's packages have libraries for Go.
const GO_PATH: &str = "/usr/share/gocode";

#[test]
fn go_clients() {
    let library = |name: &str| format!("{GO_PATH}/src/github.com/{name}");
    if !is_there("go", "golang-go")
        || !is_there(&library("gomodule/redigo"), "golang-github-gomodule-redigo-dev")
        || !is_there(&library("bradfitz/gomemcache"), "golang-github-bradfitz-gomemcache-dev")
    {
        return;
    }
    let program = scratch("go-client").join("clients");
    let mut build = Command::new("go");
    build.args(["build", "-o", arg(&program), arg(&source("clients.go"))]);
    build.envs([("GO111MODULE", "off"), ("GOPATH", GO_PATH), ("CGO_ENABLED", "0")]);
    if std::env::var_os("HOME").is_none() && std::env::var_os("GOCACHE").is_none() {
        build.env("GOCACHE", program.with_extension("cache"));
    }
    let built = build.output().expect("go runs");
    assert!(built.status.success(), "{}", said(&built));
    on_both("go-servers", |server| {
        must_be_content(Command::new(&program).arg(server.port.to_string()));
    });
}

#[test]
fn java_client() {
    const LIBRARY: &str = "/usr/share/java/spymemcached.jar";
    if !is_there("javac", "default-jdk-headless") || !is_there(LIBRARY, "libspymemcached-java") {
        return;
    }
    let classes = scratch("java-client");
    let mut build = Command::new("javac");
    build.args(["-cp", LIBRARY, "-d", arg(&classes), arg(&source("Clients.java"))]);
    let built = build.output().expect("javac runs");
    assert!(built.status.success(), "{}", said(&built));
    let path = format!("{LIBRARY}:{}", classes.display());
    on_both("java-servers", |server| {
        let port = server.port.to_string();
        must_be_content(Command::new("java").args(["-Xmx128m", "-cp", &path, "Clients", &port]));
    });
}

#[test]
fn rust_client() {
    on_both("rust-servers", |server| {
        for protocol in ["resp2", "resp3"] {
            let url = format!("redis://127.0.0.1:{}/?protocol={protocol}", server.port);
            let client = redis::Client::open(url).expect("a valid address");
            let mut connection = client.get_connection().expect("a connection");
            redis::cmd("FLUSHALL").exec(&mut connection).expect("FLUSHALL");
            work_of_rust(&client, &mut connection).expect(protocol);
        }
    });
}

/// Metrics that dashboards ask the exporter for; what some of them are after [`WORK`].
const SCRAPED: &[(&str, Option<f64>)] = &[
    ("redis_up", Some(1.0)),
    ("redis_exporter_last_scrape_error{err=\"\"}", Some(0.0)),
    ("redis_db_keys{db=\"db0\"}", Some(3.0)),
    ("redis_keyspace_hits_total", Some(2.0)),
    ("redis_keyspace_misses_total", Some(1.0)),
    ("redis_connected_clients", None),
    ("redis_commands_processed_total", None),
    ("redis_memory_used_bytes", None),
    ("redis_memory_used_rss_bytes", None),
    ("redis_memory_used_peak_bytes", None),
    ("redis_memory_max_bytes", None),
    ("redis_config_maxclients", None),
    ("redis_cpu_user_seconds_total", None),
    ("redis_net_input_bytes_total", None),
    ("redis_uptime_in_seconds", None),
];

const WORK: &[&[&[u8]]] = &[
    &[b"MSET", b"a", b"1", b"b", b"2", b"c", b"3"],
    &[b"GET", b"a"],
    &[b"GET", b"b"],
    &[b"GET", b"nowhere"],
];

/// Debian's exporter for Prometheus reads everything without an error.
#[test]
fn redis_exporter() {
    const PROGRAM: &str = "/usr/bin/prometheus-redis-exporter";
    if !is_there(PROGRAM, "prometheus-redis-exporter") {
        return;
    }
    on_both("exporter-servers", |server| {
        let mut client = server.client();
        WORK.iter().for_each(|words| drop(client.ask(words).expect("a reply")));
        let free = std::net::TcpListener::bind("127.0.0.1:0").and_then(|s| s.local_addr());
        let address = free.expect("a free port");
        let mut exporter = Command::new(PROGRAM)
            .args(["-redis.addr", &format!("redis://127.0.0.1:{}", server.port)])
            .args(["-web.listen-address", &address.to_string()])
            .stderr(Stdio::null())
            .spawn()
            .expect("the exporter starts");
        let page = scrape(address);
        exporter.kill().and_then(|()| exporter.wait()).expect("own child");
        let page = page.expect("the exporter answers");
        for (name, wanted) in SCRAPED {
            let found = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            let found: Option<f64> = found.and_then(|value| value.parse().ok());
            let found = found.unwrap_or_else(|| panic!("no {name} in {page}"));
            let is_right = wanted.is_none_or(|wanted| found == wanted);
            assert!(is_right, "{name}: {found}");
        }
    });
}

/// What the exporter tells, once it listens.
fn scrape(address: SocketAddr) -> Option<String> {
    for _ in 0..500 {
        if let Ok(mut socket) = TcpStream::connect(address) {
            socket.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").ok()?;
            let mut page = String::new();
            socket.read_to_string(&mut page).ok()?;
            return Some(page);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    None
}

fn binary(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 7) as u8).collect()
}

fn work_of_rust(client: &redis::Client, connection: &mut redis::Connection) -> RedisResult<()> {
    for n in 0..1000 {
        let () = connection.set(format!("key{n}"), binary(n))?;
        let value: Vec<u8> = connection.get(format!("key{n}"))?;
        assert_eq!(value, binary(n));
    }
    let mut pipeline = redis::pipe();
    for n in 0..3000_i64 {
        pipeline.set(format!("n{n}"), n).ignore().incr(format!("n{n}"), 1);
    }
    let sums: Vec<i64> = pipeline.query(connection)?;
    assert!(sums.into_iter().eq(1..=3000));
    let all: Vec<Option<i64>> = connection.mget(&["n5", "nowhere", "n7"])?;
    assert_eq!(all, [Some(6), None, Some(8)]);
    let swapped: (String, i64) =
        redis::pipe().atomic().getset("n5", "text").append("n5", "!").query(connection)?;
    assert_eq!(swapped, ("6".to_string(), 5));
    let set: bool = connection.set_nx("n5", 1)?;
    assert!(!set);
    let () = connection.pset_ex("short", "x", 30)?;
    let () = connection.set_ex("long", "x", 1000)?;
    let left: i64 = connection.ttl("long")?;
    assert!((990..=1000).contains(&left), "{left}");
    std::thread::sleep(Duration::from_millis(40));
    let there: (bool, bool) = (connection.exists("short")?, connection.exists("long")?);
    assert_eq!(there, (false, true));
    let error = connection.incr::<_, _, i64>("n5", 1).expect_err("no number");
    assert_eq!(error.kind(), ErrorKind::Server(ServerErrorKind::ResponseError), "{error}");
    assert!(error.to_string().contains("value is not an integer"), "{error}");
    let keys: usize = connection.scan_match::<_, String>("key*")?.count();
    assert_eq!(keys, 1000);
    let removed: i64 = connection.del(&["n1", "n2", "nowhere"])?;
    assert_eq!(removed, 2);
    // Several connections add to one key.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut connection = client.get_connection().expect("a connection");
                for _ in 0..250 {
                    let _: i64 = connection.incr("together", 1).expect("a number");
                }
            });
        }
    });
    let sum: i64 = connection.get("together")?;
    assert_eq!(sum, 1000);
    Ok(())
}
