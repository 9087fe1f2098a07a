//! What a server tells of itself: how many keys there are, any of them, and the figures that
//! dashboards read.

use crate::support::{Client, Probe, config, request, shared, start, start_with};
use silica::{OpenOptions, Silica};
use silica_engine::{Count, Engine, Result};
use silica_proto::Value;
use silica_server::{Databases, Mode, Server};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The lines of INFO by name.
fn info(client: &mut Client, sections: &str) -> BTreeMap<String, String> {
    let text = client.text(&format!("INFO {sections}"));
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

#[test]
fn a_large_store_is_not_walked_through_to_be_counted() {
    let estimate = Count { low: 10, estimate: 5_001, high: 10_000_000 };
    let probe = Probe { estimate: Some(estimate), ..Probe::new(true) };
    let (server, probe) = start_with(config(), probe);
    let mut client = Client::connect(&server);
    client.ask("SET a 1");
    assert_eq!(client.ask("DBSIZE"), ":5001");
    let figures = info(&mut client, "everything");
    assert_eq!(figures["db0"], "keys=5001,expires=0,avg_ttl=0");
    assert_eq!([&figures["db0_keys_low"], &figures["db0_keys_high"]], ["10", "10000000"]);
    client.text("MEMORY DOCTOR");
    client.ask("MEMORY STATS");
    assert_eq!(probe.count_calls.load(Ordering::Relaxed), 0);
    server.stop();
    // A small one is, so that the number is right.
    let estimate = Count { low: 0, estimate: 5, high: 5_000 };
    let probe = Probe { estimate: Some(estimate), ..Probe::new(true) };
    let (server, probe) = start_with(config(), probe);
    let mut client = Client::connect(&server);
    client.ask("SET a 1");
    assert_eq!(client.ask("DBSIZE"), ":1");
    assert!(probe.count_calls.load(Ordering::Relaxed) > 0);
    server.stop();
}

/// A store in a directory that goes with it.
struct Ordered {
    directory: PathBuf,
    store: Silica,
}

impl Ordered {
    fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("silica-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        let options = OpenOptions::new().engine("wip").memory_bytes(16 << 20);
        let store = options.open(&directory).expect("a store");
        Ordered { directory, store }
    }
}

impl Drop for Ordered {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Databases for Ordered {
    fn open(&self, _: u32) -> Result<Arc<dyn Engine>> {
        Ok(Arc::clone(self.store.keyspace("default")?.engine()))
    }
}

const KEYS: usize = 30_000;
const PARTS: usize = 10;

/// Asks for many random keys; how many were different, and how many come from each part of all.
fn random_keys(client: &mut Client, asks: usize) -> (usize, Vec<usize>) {
    client.send(&request(&[b"RANDOMKEY"]).repeat(asks));
    let (mut seen, mut parts) = (BTreeSet::new(), vec![0; PARTS]);
    for reply in client.replies(asks) {
        let Value::Bulk(key) = reply else { panic!("{reply:?}") };
        let number: usize = String::from_utf8_lossy(&key)[4..].parse().expect("a number");
        seen.insert(number);
        parts[number * PARTS / KEYS] += 1;
    }
    (seen.len(), parts)
}

#[test]
fn random_keys_come_from_everywhere() {
    let source = Arc::new(Ordered::new("random"));
    let server = Server::start(shared(), Arc::clone(&source) as Arc<dyn Databases>).unwrap();
    let mut client = Client::connect(&server);
    assert_eq!(client.ask("RANDOMKEY"), "nil");
    let value = vec![b'v'; 100];
    // Keys whose numbers begin alike, as they do in most stores, put in another order.
    let put = |client: &mut Client, from: usize, to: usize| {
        for first in (from..to).step_by(1000) {
            let keys: Vec<String> =
                (first..first + 1000).map(|n| format!("key:{:08}", n * 7919 % KEYS)).collect();
            let pairs = keys.iter().flat_map(|key| [key.as_bytes(), &value]);
            let args: Vec<&[u8]> = [&b"MSET"[..]].into_iter().chain(pairs).collect();
            assert_eq!(client.call(&args), Value::Simple("OK".into()));
        }
    };
    let check = |client: &mut Client, what: &str| {
        let (different, parts) = random_keys(client, 1000);
        assert!(different > 900, "{what}: {different} different keys");
        assert!(parts.iter().all(|n| (50..200).contains(n)), "{what}: {parts:?}");
    };
    put(&mut client, 0, KEYS);
    check(&mut client, "new entries");
    let keyspace = source.store.keyspace("default").unwrap();
    keyspace.compact_range(..).unwrap();
    check(&mut client, "tables");
    put(&mut client, 0, KEYS / 2);
    check(&mut client, "tables and new entries");
    // Its estimate is near, and within its bounds.
    let Value::Integer(size) = client.call(&[b"DBSIZE"]) else { panic!("a number") };
    assert!((KEYS as i64 * 8 / 10..KEYS as i64 * 12 / 10).contains(&size), "{size}");
    let figures = info(&mut client, "silica");
    let bound = |name: &str| figures[name].parse::<i64>().unwrap();
    assert!((bound("db0_keys_low")..=bound("db0_keys_high")).contains(&(KEYS as i64)));
    server.stop();
}

#[test]
fn expiring_keys_are_estimated() {
    for ordered in [false, true] {
        let probe = Probe { ordered, ..Probe::new(false) };
        let config = silica_server::Config { mode: Mode::Crcw, ..config() };
        let (server, _) = start_with(config, probe);
        let mut client = Client::connect(&server);
        client.ask("SET a 1 EX 100");
        client.ask("SET b 1");
        let line = info(&mut client, "keyspace")["db0"].clone();
        let ttl = line.strip_prefix("keys=2,expires=1,avg_ttl=").expect("one of two");
        assert!((90_000..=100_000).contains(&ttl.parse::<u64>().unwrap()), "{line}");
        for n in 0..400 {
            let life = if n % 4 == 0 { "" } else { " EX 100" };
            client.ask(&format!("SET key:{n} 1{life}"));
        }
        let line = info(&mut client, "keyspace")["db0"].clone();
        let expires = line.split(['=', ',']).nth(3).unwrap().parse::<u64>().unwrap();
        assert!((150..=402).contains(&expires), "three of four: {line}");
        server.stop();
    }
}

#[test]
fn dashboards_find_what_they_read() {
    let server = start();
    let mut client = Client::connect(&server);
    client.ask("SET a 1");
    client.ask("GET a");
    client.ask("NONE");
    client.ask("INCRBY a x");
    client.ask("SET b x");
    client.ask("INCR b");
    client.ask("AUTH nobody wrong");
    client.ask("EXEC");
    let figures = info(&mut client, "everything");
    let number = |name: &str| -> f64 {
        let text = figures.get(name).unwrap_or_else(|| panic!("no {name}"));
        text.parse().unwrap_or_else(|_| panic!("{name}:{text}"))
    };
    let (used, resident) = (number("used_memory"), number("used_memory_rss"));
    assert!(0.0 < used && used < resident && resident < number("total_system_memory"));
    let ratio = number("mem_fragmentation_ratio");
    assert!((ratio - resident / used).abs() < 0.01, "{ratio}");
    for name in ["used_memory", "used_memory_rss", "used_memory_peak", "maxmemory"] {
        let human = &figures[&format!("{name}_human")];
        assert!(human.ends_with(['B', 'K', 'M', 'G']), "{name}: {human}");
    }
    assert_eq!(figures["tcp_port"], server.local_addr().port().to_string());
    assert_eq!([&figures["role"], &figures["connected_slaves"]], ["master", "0"]);
    assert_eq!(number("master_repl_offset"), 0.0);
    assert_eq!([number("expired_keys"), number("evicted_keys")], [0.0, 0.0]);
    assert!(number("rdb_changes_since_last_save") >= 2.0);
    assert!(number("rdb_last_save_time") > 1.7e9 && number("uptime_in_seconds") >= 0.0);
    assert_eq!(figures["errorstat_ERR"], "count=4");
    assert_eq!(figures["errorstat_WRONGPASS"], "count=1");
    assert_eq!(number("total_error_replies"), 5.0);
    let run_id = &figures["run_id"];
    assert!(run_id.len() == 40 && run_id.bytes().all(|b| b.is_ascii_hexdigit()), "{run_id}");
    assert!(figures["os"].starts_with("Linux "), "{}", figures["os"]);
    let other = start();
    assert_ne!(info(&mut Client::connect(&other), "server")["run_id"], *run_id);
    other.stop();
    // Requests are counted over the last seconds.
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        client.send(&request(&[b"PING"]).repeat(1000));
        client.replies(1000);
        let figures = info(&mut client, "stats");
        let rate: u64 = figures["instantaneous_ops_per_sec"].parse().unwrap();
        if rate > 100 {
            assert!(figures["instantaneous_input_kbps"].parse::<f64>().unwrap() > 0.0);
            break;
        }
        assert!(Instant::now() < deadline, "{rate} a second");
    }
    assert_eq!(client.ask("CONFIG RESETSTAT"), "OK");
    assert!(!info(&mut client, "errorstats").contains_key("errorstat_ERR"));
    server.stop();
}
