//! Commands on objects answer as redis-server does: random requests, one by one, pipelined and in
//! transactions, on engines of several kinds.

mod engine_pages;
mod engines;
mod entries;
mod evicted;
mod generic;
mod geo;
mod halved;
mod hash;
mod hyperloglog;
mod killed;
mod list;
mod many;
mod moved;
mod power;
mod scan;
mod set;
mod sort;
mod stream;
mod switched;
mod told;
mod waiting;
mod work;
mod zset;

use crate::redis::Redis;
use crate::support::{Client, config, show};
use silica::OpenOptions;
use silica_base::{Prng, test_size};
use silica_proto::Value;
use silica_server::{Databases, Server};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How an answer is compared.
pub(crate) enum Compare {
    /// As it is.
    Exactly,
    /// Its elements have no order.
    Unordered,
    /// Its pairs have no order: field and value, one behind the other.
    Pairs,
    /// A cursor, and elements or pairs without an order.
    Scan,
    /// Only whether it is an error, nothing, a value, or how many elements it has.
    Shape,
    /// After something was taken out of it.
    Without(fn(Value) -> Value),
}

/// Random requests of a type.
pub(crate) struct Requests {
    /// Templates; words K, L and M stand for keys, F for a field or member, V for a value, N for a
    /// small number, S for a score, and others for themselves.
    pub(crate) templates: &'static [&'static str],
    /// How the answers of a command are compared.
    pub(crate) compare: fn(&str) -> Compare,
}

const FIELDS: u64 = 40;

/// A word that `word` of a template stands for.
pub(crate) fn meant(word: &str, random: &mut Prng) -> String {
    match word {
        "K" | "L" | "M" => ["a", "b", "c", "d{x}"][random.below(4) as usize].to_string(),
        "F" => match random.below(20) {
            0 => "f".repeat(70) + &random.below(3).to_string(),
            1..4 => random.below(FIELDS).to_string(),
            _ => format!("f{}", random.below(FIELDS)),
        },
        "V" => match random.below(20) {
            0 => "v".repeat(random.below(1500) as usize),
            1..6 => (random.below(2000) as i64 - 1000).to_string(),
            _ => format!("v{}", random.below(1000)),
        },
        "N" => (random.below(9) as i64 - 3).to_string(),
        // An end of a range behind its bracket.
        "(S" | "(F" | "[F" => format!("{}{}", &word[..1], meant(&word[1..], random)),
        // Keys with elements in their names, and fields of hashes.
        "w:F" | "w:N" | "h:N" => format!("{}{}", &word[..2], meant(&word[2..], random)),
        "h:*->F" => format!("h:*->{}", meant("F", random)),
        // Degrees east and north, and a distance.
        "X" => format!("{}.{:03}", random.below(360) as i64 - 180, random.below(1000)),
        "Y" => format!("{}.{:03}", random.below(170) as i64 - 84, random.below(1000)),
        "D" => (1u64 << random.below(16)).to_string(),
        // One of many members.
        "G" => format!("member:{}", random.below(700)),
        "S" => match random.below(12) {
            0 => "inf".into(),
            1 => "-inf".into(),
            2..5 => format!("{}.5", random.below(10)),
            _ => (random.below(20) as i64 - 5).to_string(),
        },
        "A" | "I" | "J" | "U" | "C" => stream::meant(word, random),
        word => word.to_string(),
    }
}

/// `value` so that two of them compare equal if they mean the same.
fn canonical(value: Value, compare: &Compare) -> String {
    let items = |value: &Value| match value {
        Value::Array(items) | Value::Set(items) => Some(items.clone()),
        Value::Map(pairs) => Some(pairs.iter().flat_map(|(k, v)| [k.clone(), v.clone()]).collect()),
        _ => None,
    };
    match (compare, items(&value)) {
        (Compare::Shape, None) if matches!(value, Value::Bulk(_)) => "a string".into(),
        (Compare::Without(strip), _) => show(&strip(value)),
        (Compare::Exactly, _) | (_, None) => show(&value),
        (Compare::Unordered, Some(items)) => {
            let mut shown: Vec<String> = items.iter().map(show).collect();
            shown.sort();
            shown.join(" ")
        }
        (Compare::Pairs, Some(items)) => {
            let pairs: BTreeMap<String, String> = items
                .chunks(2)
                .map(|pair| (show(&pair[0]), pair.get(1).map(show).unwrap_or_default()))
                .collect();
            format!("{pairs:?}")
        }
        (Compare::Scan, Some(items)) => {
            let elements = items.get(1).cloned().unwrap_or(Value::Null);
            let cursor = items.first().map(show);
            format!("{cursor:?} {}", canonical(elements, &Compare::Unordered))
        }
        (Compare::Shape, Some(items)) => items.len().to_string(),
    }
}

/// A server of a database of `engine`, and the directory that it is in.
pub(crate) fn start_engine(engine: &str) -> (Server, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let memory = [("memory_bytes", "32MiB")];
    let options = OpenOptions::new().memory_bytes(128 << 20);
    let options = match engine {
        "wip" => options,
        other => options.declare("default", other, &memory),
    };
    let store = Arc::new(options.open(directory.path().join("store")).expect("a store"));
    let server = Server::start(config(), store as Arc<dyn Databases>).expect("a server");
    (server, directory)
}

/// Sends `lines` at once.
fn send_all(client: &mut Client, lines: &[String]) {
    let text: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    client.send(text.as_bytes());
}

/// Sends `lines` at once and returns the answers.
fn ask_all(client: &mut Client, lines: &[String]) -> Vec<Value> {
    send_all(client, lines);
    client.replies(lines.len())
}

/// Runs random requests on redis-server and on us and compares what they answer.
pub(crate) fn differ(requests: &Requests) {
    let Some(redis) = Redis::start() else {
        println!("skipped: redis-server is not installed (Debian: apt-get install redis-server)");
        return;
    };
    for (seed, engine) in [(1, "wip"), (2, "mica"), (3, "wip")] {
        let (server, _directory) = start_engine(engine);
        let mut random = Prng::new(seed);
        let mut clients = [Client::connect(&server), redis.connect()];
        if seed == 3 {
            // Elements of sorted sets that are not quite small are entries of their own.
            assert_eq!(clients[0].ask("CONFIG SET zset-max-paged-entries 30"), "OK");
            clients.iter_mut().for_each(|client| drop(client.ask("HELLO 3")));
        }
        clients.iter_mut().for_each(|client| drop(client.ask("FLUSHALL")));
        let mut log: Vec<String> = Vec::new();
        for _ in 0..test_size(700, 3000, 300_000) {
            let mut lines = Vec::new();
            let depth = if random.one_in(3) { 40 } else { 4 };
            for _ in 0..=random.below(depth) {
                let at = random.below(requests.templates.len() as u64) as usize;
                let words = requests.templates[at].split(' ');
                let words: Vec<String> = words.map(|word| meant(word, &mut random)).collect();
                lines.push(words.join(" "));
            }
            if random.below(6) == 0 {
                lines.insert(0, "MULTI".into());
                lines.push("EXEC".into());
            }
            if random.below(40) == 0 {
                lines = vec![format!("DEL {}", meant("K", &mut random))];
            }
            // Both work at the same time.
            clients.iter_mut().for_each(|client| send_all(client, &lines));
            let [ours, theirs] = [(0, engine), (1, "redis-server")].map(|(at, name)| {
                let reply = |_| clients[at].reply();
                let replies: Option<Vec<Value>> = lines.iter().map(reply).collect();
                replies.unwrap_or_else(|| panic!("{name} closes the connection: {lines:#?}"))
            });
            for ((line, ours), theirs) in lines.iter().zip(ours).zip(theirs) {
                log.push(line.clone());
                let (ours, theirs) = match line == "EXEC" {
                    false => {
                        let compare = (requests.compare)(line);
                        (canonical(ours, &compare), canonical(theirs, &compare))
                    }
                    true => {
                        let each = |value: Value| {
                            let Value::Array(answers) = value else { return show(&value) };
                            let shown = answers.into_iter().zip(&lines[1..]);
                            let shown = shown.map(|(v, l)| canonical(v, &(requests.compare)(l)));
                            shown.collect::<Vec<_>>().join("; ")
                        };
                        (each(ours), each(theirs))
                    }
                };
                let last = &log[log.len().saturating_sub(50)..];
                assert_eq!(ours, theirs, "{engine}, seed {seed}: {line}\nafter {last:#?}");
            }
        }
        server.stop();
    }
}
