//! Objects on every engine that a store may have: all types, small and large, as on the default
//! engine.

use super::told::CHANGES;
use super::{Compare, ask_all, canonical, meant};
use crate::support::{Client, config, show};
use silica::{Durability, OpenOptions, Registry};
use silica_base::{Prng, test_size};
use silica_proto::Value;
use silica_server::{Config, Databases, Server};
use std::sync::Arc;

/// A server of a database of `engine`, whose writes survive the process, and its directory.
fn start(engine: &str) -> (Server, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let options = OpenOptions::new().memory_bytes(128 << 20).declare(
        "default",
        engine,
        &[("memory_bytes", "48MiB")],
    );
    let store = Arc::new(options.open(directory.path().join("store")).expect("a store"));
    let config = Config { durability: Durability::Buffered, ..config() };
    let server = Server::start(config, store as Arc<dyn Databases>).expect("a server");
    (server, directory)
}

/// Requests that look at what is there.
const LOOKS: &[&str] = &[
    "HGETALL K",
    "LRANGE L 0 -1",
    "SMEMBERS M",
    "ZRANGE K 0 -1 WITHSCORES",
    "XLEN K",
    "TYPE K",
    "OBJECT ENCODING K",
    "DBSIZE",
];

/// Lists of 3,000 values and hashes of 3,000 fields: they have pages, are changed, copied, renamed,
/// and go.
fn large(client: &mut Client) -> Vec<Value> {
    let mut lines = Vec::new();
    for n in 0..30 {
        let all: String = (0..100).map(|m| format!(" {n:03}{m:03} value:{n}:{m}")).collect();
        lines.push(format!("HSET large:h{all}"));
        lines.push(format!("RPUSH large:l{all}"));
        lines.push(format!("SADD large:s{all}"));
    }
    let rest = [
        "HLEN large:h",
        "LLEN large:l",
        "LRANGE large:l 2000 2010",
        "LINSERT large:l BEFORE value:20:5 new",
        "SISMEMBER large:s value:7:7",
        "HGET large:h 012034",
        "COPY large:h large:copy",
        "RENAME large:l large:renamed",
        "HDEL large:copy 000001 000002",
        "LTRIM large:renamed 10 -3000",
        "LLEN large:renamed",
        "HLEN large:copy",
        "DEL large:h large:s",
        "HLEN large:h",
        "HGET large:copy 029099",
    ];
    lines.extend(rest.map(String::from));
    ask_all(client, &lines)
}

#[test]
fn every_engine_has_objects_of_all_types() {
    let registry = Registry::builtin();
    // The default engine is compared with redis-server elsewhere.
    let (model, _model_directory) = start("wip");
    let mut wanted = Client::connect(&model);
    let large_wanted = large(&mut wanted);
    let mut tried = 0;
    for spec in registry.iter().filter(|spec| spec.name != "wip") {
        let (server, _directory) = start(spec.name);
        let mut client = Client::connect(&server);
        for (nth, (ours, model)) in large(&mut client).iter().zip(&large_wanted).enumerate() {
            assert_eq!(show(ours), show(model), "{}: large, {nth}", spec.name);
        }
        let mut random = Prng::new(3);
        for one in [&mut client, &mut wanted] {
            assert_eq!(one.ask("FLUSHALL"), "OK");
        }
        let all: Vec<&str> = [CHANGES, LOOKS].concat();
        for _ in 0..test_size(60, 200, 5_000) {
            let line = |random: &mut Prng| {
                let template = all[random.below(all.len() as u64) as usize];
                let template =
                    template.replace("XADD K *", "XADD K 5-*").replace("* F V", "5-* F V");
                let words = template.split(' ').map(|word| meant(word, random));
                words.collect::<Vec<_>>().join(" ")
            };
            let lines: Vec<String> = (0..20).map(|_| line(&mut random)).collect();
            let answers = [&mut client, &mut wanted].map(|one| ask_all(one, &lines));
            for ((line, ours), model) in lines.iter().zip(&answers[0]).zip(&answers[1]) {
                let compare = match line.starts_with("SPOP") {
                    true => Compare::Unordered,
                    false => Compare::Exactly,
                };
                let [ours, model] = [ours, model].map(|value| canonical(value.clone(), &compare));
                assert_eq!(ours, model, "{}: {line} in {lines:#?}", spec.name);
            }
        }
        tried += 1;
        server.stop();
    }
    assert!(tried >= 4, "{tried} engines");
    model.stop();
}
