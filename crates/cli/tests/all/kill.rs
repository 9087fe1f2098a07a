//! Promise 3: an acknowledged synced write outlives the death of the process, nothing is
//! invented, the store always opens.
//!
//! Reaches the process layer: SIGKILL loses what the process held, not what the kernel or the
//! drive hold. Power cuts are the simulated device's part.

use crate::support::{Client, Reply, Server, arg, encode, read_all, scratch, silica_ok};
use silica_base::{Prng, test_size};
use std::collections::VecDeque;
use std::path::Path;
use std::time::{Duration, Instant};

const CONNECTIONS: u64 = 3;
const KEYS_PER_CONNECTION: u64 = 300;
/// Writes sent before the first of them is acknowledged.
const PIPELINE: usize = 16;
const VALUE_BYTES_MAX: u64 = 900;
/// Stores that are written and killed side by side: one as it comes, and others so small that kills
/// fall into flushes, compactions, splits, conversions, merges, new segments and the collection of
/// values.
const STORES: [&[&str]; 5] = [
    &[],
    &[
        "--set=memtable_bytes_max=64KiB",
        "--set=log_bytes_max=256KiB",
        "--set=segment_bytes=64KiB",
        "--set=runs_max=4",
        "--set=bucket_bytes_max=128KiB",
        "--set=split_buckets=3",
        "--set=inline_value_bytes_max=500",
        "--set=value_log_segment_bytes=64KiB",
    ],
    &[
        "--engine=silt",
        "--set=partitions=2",
        "--set=log_store_blocks=1",
        "--set=log_store_block_buckets_log2=4",
        "--set=segment_bytes=64KiB",
        "--set=log_bytes_max=256KiB",
        "--set=inline_value_bytes_max=500",
        "--set=value_log_segment_bytes=64KiB",
    ],
    &["--engine=turbo", "--memory=64MiB"],
    &["--engine=sptree", "--memory=64MiB"],
];

/// What is known of one key: the states it may be in, oldest first. The first is acknowledged;
/// those after it were sent and not acknowledged. 0 is absent, other numbers name a value.
struct Key {
    name: Vec<u8>,
    states: VecDeque<u64>,
}

/// The keys that one connection writes; no two connections share one.
struct Owned {
    keys: Vec<Key>,
    prng: Prng,
    next: u64,
}

impl Owned {
    fn new(store: u64, connection: u64, seed: u64) -> Self {
        let name = |i| format!("s{store}:c{connection}:k{i}").into_bytes();
        let key = |i| Key { name: name(i), states: VecDeque::from([0]) };
        let keys = (0..KEYS_PER_CONNECTION).map(key).collect();
        Owned { keys, prng: Prng::new(seed ^ (store << 32) ^ connection), next: 1 }
    }

    /// Checks every key against its states, which then shrink to what was found.
    fn check(&mut self, client: &mut Client, context: &str) {
        let names: Vec<_> = self.keys.iter().map(|k| k.name.clone()).collect();
        for (key, found) in self.keys.iter_mut().zip(read_all(client, &names)) {
            let possible = |state: &u64| found == value(&key.name, *state);
            let Some(state) = key.states.iter().copied().find(possible) else {
                let name = String::from_utf8_lossy(&key.name);
                let found = found.map(|v| String::from_utf8_lossy(&v[..v.len().min(80)]).into());
                let found: String = found.unwrap_or("nothing".into());
                panic!("{context}: {name} is {found}, allowed are {:?}", key.states);
            };
            key.states = VecDeque::from([state]);
        }
    }

    /// Writes until the connection breaks; the number of acknowledged writes.
    fn write(&mut self, client: &mut Client) -> u64 {
        let mut acknowledged = 0;
        loop {
            let mut commands = Vec::new();
            let sent: Vec<usize> = (0..PIPELINE).map(|_| self.send_one(&mut commands)).collect();
            // A failed send may have delivered a part, so all of it stays possible.
            if client.send(&commands).is_err() {
                return acknowledged;
            }
            for key in sent {
                match client.reply() {
                    Ok(Reply::Status(_) | Reply::Number(_)) => {}
                    Ok(other) => panic!("a write was answered with {other:?}"),
                    Err(_) => return acknowledged,
                }
                self.keys[key].states.pop_front();
                acknowledged += 1;
            }
        }
    }

    fn send_one(&mut self, commands: &mut Vec<u8>) -> usize {
        let index = self.prng.below(KEYS_PER_CONNECTION) as usize;
        let key = &mut self.keys[index];
        if self.prng.below(8) == 0 {
            encode(commands, &[b"DEL", &key.name]);
            key.states.push_back(0);
        } else {
            let bytes = value(&key.name, self.next).expect("numbers above 0 are values");
            encode(commands, &[b"SET", &key.name, &bytes]);
            key.states.push_back(self.next);
            self.next += 1;
        }
        index
    }
}

/// The value number `state` of `key`, of a length that follows from the number.
fn value(key: &[u8], state: u64) -> Option<Vec<u8>> {
    if state == 0 {
        return None;
    }
    let mut value = key.to_vec();
    value.extend(format!("={state};").bytes());
    let length = Prng::new(state).below(VALUE_BYTES_MAX) as usize;
    value.resize(value.len().max(length), b'.');
    Some(value)
}

/// Kills and recovers one store `cycles` times; the number of acknowledged writes.
fn torture(store: u64, cycles: u64, seed: u64) -> u64 {
    let path = scratch(&format!("kill-{store}")).join("data");
    let options = STORES[store as usize];
    let mut prng = Prng::new(seed ^ store);
    let mut owned: Vec<_> = (0..CONNECTIONS).map(|c| Owned::new(store, c, seed)).collect();
    let mut acknowledged = 0;
    for cycle in 0..cycles {
        let context = format!("store {store}, cycle {cycle} (SILICA_SEED={seed})");
        if prng.below(8) == 0 {
            // Recovery itself is interrupted.
            let server = Server::spawn(&path, options);
            std::thread::sleep(Duration::from_micros(prng.below(30_000)));
            server.kill();
        }
        let server = Server::start(&path, options);
        let mut client = server.client();
        owned.iter_mut().for_each(|keys| keys.check(&mut client, &context));
        let delay = Duration::from_micros(5_000 + prng.below(60_000));
        acknowledged += write_and_kill(server, &mut owned, delay);
        if cycle % 50 == 49 {
            silica_ok(&["verify", "--path", arg(&path)]);
        }
    }
    let server = Server::start(&path, options);
    let mut client = server.client();
    owned.iter_mut().for_each(|keys| keys.check(&mut client, "at the end"));
    drop(client);
    server.stop();
    silica_ok(&["verify", "--path", arg(&path)]);
    let stats = silica_ok(&["stats", "--path", arg(&path), "--json"]);
    let stats: serde_json::Value = serde_json::from_str(&stats).expect("stats are one object");
    let metric = |name: &str| stats["metrics"][name].as_f64().unwrap_or(0.0);
    let merged = metric("sorted_store_entries") + metric("runs") + metric("region_bytes");
    assert!(options.is_empty() || merged > 0.0, "the small store has no tables, and no region");
    remove(&path);
    acknowledged
}

fn write_and_kill(server: Server, owned: &mut [Owned], delay: Duration) -> u64 {
    std::thread::scope(|scope| {
        let write = |keys: &mut Owned, mut client: Client| keys.write(&mut client);
        let writers: Vec<_> = owned
            .iter_mut()
            .map(|keys| (keys, server.client()))
            .map(|(keys, client)| scope.spawn(move || write(keys, client)))
            .collect();
        std::thread::sleep(delay);
        server.kill();
        writers
            .into_iter()
            .map(|w| w.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .sum()
    })
}

fn remove(path: &Path) {
    let dir = path.parent().expect("stores lie in a scratch directory");
    let _ = std::fs::remove_dir_all(dir);
}

pub(crate) fn seed() -> u64 {
    let now = || std::time::UNIX_EPOCH.elapsed().map_or(1, |t| t.as_nanos() as u64);
    std::env::var("SILICA_SEED").map_or_else(|_| now(), |s| s.parse().expect("a number"))
}

#[test]
fn acknowledged_writes_outlive_the_process() {
    let (cycles, seed) = (test_size(24, 500, 10_000), seed());
    let start = Instant::now();
    let acknowledged: u64 = std::thread::scope(|scope| {
        let share = cycles.div_ceil(STORES.len() as u64);
        let run = |store| scope.spawn(move || torture(store, share, seed));
        let stores: Vec<_> = (0..STORES.len() as u64).map(run).collect();
        stores
            .into_iter()
            .map(|s| s.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .sum()
    });
    println!("{cycles} kills, {acknowledged} acknowledged writes, {:?}", start.elapsed());
    assert!(acknowledged > cycles, "the writers hardly wrote: {acknowledged}");
}
