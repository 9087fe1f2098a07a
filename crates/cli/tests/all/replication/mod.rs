//! Silica as a replica: of redis-server, of a primary that is made of a script, and of itself.

mod chain;
mod cut;
mod encrypted;
mod entries;
mod failover;
mod file;
mod follow;
mod full;
mod killed;
mod late;
mod load;
mod proxy;
mod records;
mod restarted;
mod sentinel;

use crate::support::{Client, Reply, Server};
use silica_base::Prng;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long anything may take that happens in the end.
const LIMIT: Duration = Duration::from_secs(60);
/// Databases that writers use.
const DATABASES: usize = 2;

/// True if redis-server is installed; says that the test is skipped if not.
fn has_redis() -> bool {
    let is_there = Command::new("redis-server").arg("--version").output().is_ok();
    if !is_there {
        println!("skipped: redis-server is not installed (Debian: apt-get install redis-server)");
    }
    is_there
}

/// Waits until `is_so`; `what` says for what.
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LIMIT, "waiting for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the log of the server at `path` has `text`.
fn wait_for_log(path: &Path, text: &str) {
    let log = path.with_extension("log");
    wait_for(&format!("'{text}' in {}", log.display()), || {
        std::fs::read_to_string(&log).unwrap_or_default().contains(text)
    });
}

/// The reply to a line of words, which must be no error.
fn ask(client: &mut Client, line: &str) -> Reply {
    let reply = try_ask(client, line);
    assert!(!matches!(reply, Reply::Error(_)), "{line}: {reply:?}");
    reply
}

fn try_ask(client: &mut Client, line: &str) -> Reply {
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    client.ask(&words).unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// Lets `replica` follow the server at `port`.
fn follow(replica: &mut Client, port: u16) {
    ask(replica, &format!("REPLICAOF 127.0.0.1 {port}"));
}

/// A field of INFO.
fn info(client: &mut Client, section: &str, field: &str) -> String {
    let Reply::Bytes(Some(text)) = ask(client, &format!("INFO {section}")) else { panic!("INFO") };
    let text = String::from_utf8(text).expect("INFO is text");
    let found = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    found.unwrap_or_else(|| panic!("INFO {section} has no {field}: {text}")).trim().to_string()
}

/// Waits until `replica` has what `primary` has written before the call.
fn catch_up(primary: &mut Client, replica: &mut Client) {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let mark = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    // In the last database, whose part of a group is written last.
    for client in [&mut *primary, &mut *replica] {
        ask(client, "SELECT 9");
    }
    ask(primary, &format!("SET caught-up {mark}"));
    wait_for("the replica", || {
        try_ask(replica, "GET caught-up") == Reply::Bytes(Some(mark.to_string().into_bytes()))
    });
    for client in [primary, replica] {
        ask(client, "SELECT 0");
    }
}

/// The elements of a reply, as text that can be compared.
fn flat(reply: Reply) -> Vec<String> {
    match reply {
        Reply::Many(list) => list.into_iter().flat_map(flat).collect(),
        Reply::Bytes(Some(bytes)) => vec![String::from_utf8_lossy(&bytes).into_owned()],
        other => vec![format!("{other:?}")],
    }
}

/// What a server holds: of each key its type, its expiry and its value.
fn contents(client: &mut Client) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for db in 0..DATABASES {
        ask(client, &format!("SELECT {db}"));
        for key in flat(ask(client, "KEYS *")) {
            let Reply::Status(kind) = ask(client, &format!("TYPE {key}")) else { panic!("TYPE") };
            let pairs = |reply| {
                let list = flat(reply);
                let mut pairs: Vec<String> = list.chunks(2).map(|p| p.join("=")).collect();
                pairs.sort();
                pairs
            };
            let value = match &kind[..] {
                "string" => flat(ask(client, &format!("GET {key}"))),
                "list" => flat(ask(client, &format!("LRANGE {key} 0 -1"))),
                "set" => {
                    let mut members = flat(ask(client, &format!("SMEMBERS {key}")));
                    members.sort();
                    members
                }
                "hash" => pairs(ask(client, &format!("HGETALL {key}"))),
                "zset" => pairs(ask(client, &format!("ZRANGE {key} 0 -1 WITHSCORES"))),
                "stream" => {
                    let mut entries = flat(ask(client, &format!("XRANGE {key} - +")));
                    if key.ends_with("grouped") {
                        entries.extend(flat(ask(client, &format!("XPENDING {key} g"))));
                    }
                    entries
                }
                // It has expired meanwhile.
                "none" => continue,
                other => panic!("{key} is a {other}"),
            };
            let expires = flat(ask(client, &format!("PEXPIRETIME {key}"))).concat();
            all.insert(format!("{db}/{key}"), format!("{kind} {expires} {}", value.join(" ")));
        }
    }
    ask(client, "SELECT 0");
    all
}

/// Compares what two servers hold.
fn must_be_equal(primary: &mut Client, replica: &mut Client, context: &str) {
    catch_up(primary, replica);
    let (want, have) = (contents(primary), contents(replica));
    for (key, value) in &want {
        let other = have.get(key);
        assert_eq!(Some(value), other, "{context}: {key}");
    }
    let more: Vec<_> = have.keys().filter(|key| !want.contains_key(*key)).collect();
    assert!(more.is_empty(), "{context}: the replica has more: {more:?}");
}

/// Requests whose result depends on how often they are applied, and on their order.
const TEMPLATES: &[&str] = &[
    "INCR n:K",
    "INCRBYFLOAT x:K 0.5",
    "APPEND s:K V",
    "SET s:K V",
    "SETRANGE s:K 3 V",
    "SET e:K V PX 90000000",
    "EXPIRE s:K 100000",
    "PERSIST s:K",
    "DEL s:K",
    "GETDEL e:K",
    "LPUSH l:K V V",
    "RPUSH l:K V",
    "LPOP l:K",
    "LTRIM l:K 0 60",
    "RPOPLPUSH l:K l:L",
    "SADD set:K V V",
    "SPOP set:K",
    "SREM set:K V",
    "SUNIONSTORE set:K set:L set:M",
    "HSET h:K F V",
    "HINCRBY h:K count 1",
    "HDEL h:K F",
    "ZADD z:K 1.5 V",
    "ZINCRBY z:K 2 V",
    "ZPOPMIN z:K",
    "ZRANGESTORE z:K z:L 0 20",
    "XADD t:K * f V",
    "XTRIM t:K MAXLEN 40",
    "RENAME l:K l:L",
    "COPY h:K h:L REPLACE",
    "MOVE s:K 1",
    "SETBIT b:K 77 1",
    "PFADD p:K V",
];

/// A random request.
fn request(random: &mut Prng) -> String {
    let template = TEMPLATES[random.below(TEMPLATES.len() as u64) as usize];
    let mut line = String::new();
    for (nth, word) in template.split(' ').enumerate() {
        line += if nth > 0 { " " } else { "" };
        line += &match word {
            "V" if random.below(40) == 0 => "v".repeat(random.below(3000) as usize + 1),
            "V" => format!("v{}", random.below(300)),
            "F" => format!("f{}", random.below(100)),
            word => match word.split_once(':') {
                Some((kind, "K" | "L" | "M")) => format!("{kind}:{}", random.below(6)),
                _ => word.to_string(),
            },
        };
    }
    line
}

/// Sends `count` random requests, some of them in transactions and in another database. Errors are
/// fine: nothing is done by them.
fn write(client: &mut Client, random: &mut Prng, count: usize) {
    write_in(client, random, count, DATABASES);
}

/// As [`write`], in so many databases.
fn write_in(client: &mut Client, random: &mut Prng, count: usize, databases: usize) {
    let mut lines = Vec::new();
    while lines.len() < count {
        match random.below(12) {
            0 => {
                lines.push("MULTI".to_string());
                (0..=random.below(5)).for_each(|_| lines.push(request(random)));
                lines.push("EXEC".to_string());
            }
            1 => lines.push(format!("SELECT {}", random.below(databases as u64))),
            _ => lines.push(request(random)),
        }
        if databases == 1 {
            lines.retain(|line| !line.starts_with("MOVE"));
        }
    }
    lines.push("SELECT 0".into());
    let text: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    client.send(text.as_bytes()).expect("the server reads");
    for line in &lines {
        client.reply().unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}

/// A consumer group with entries that are not acknowledged.
fn make_group(client: &mut Client) {
    for line in [
        "XADD grouped 5-1 f v",
        "XADD grouped 6-1 f w",
        "XGROUP CREATE grouped g 0",
        "XREADGROUP GROUP g c COUNT 1 STREAMS grouped >",
    ] {
        ask(client, line);
    }
}

/// Starts a replica in `path` of the server at `port`.
fn start_replica(path: &Path, port: u16, extra: &[&str]) -> Server {
    let of = format!("127.0.0.1:{port}");
    Server::start(path, &[&["--replica-of", &of, "--loops", "2"], extra].concat())
}
