//! The power fails at every operation of the device while objects of all types change. What is
//! found afterwards is what was there after one of the steps, none before the last acknowledged one
//! if they are synced; every object is sound; and the script goes on from there.

mod script;

use super::engine_pages::check_all;
use super::stream::timeless;
use crate::support::{Client, request, shared, show};
use script::{KEYS, Step, field};
use silica_base::{HashSeed, Prng, test_size};
use silica_device::sim::{SimDevice, SimOptions};
use silica_engine::{Budget, Durability, Engine, Environment, OptionValues, Result};
use silica_proto::Value;
use silica_server::{Config, Databases, Server};
use silica_wip::Wip;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Fields whose times are compared.
const FIELDS: u64 = 90;

/// Limits at which a script flushes and compacts.
fn open(device: &SimDevice) -> Result<Arc<dyn Engine>> {
    let mut options = OptionValues::default();
    for (name, value) in [
        ("memory_bytes", 256 << 10),
        ("memtable_bytes_max", 24 << 10),
        ("log_bytes_max", 96 << 10),
        ("segment_bytes", 24 << 10),
        ("runs_max", 4),
        ("bucket_bytes_max", 64 << 10),
        ("split_buckets", 3),
    ] {
        options.set(name, value);
    }
    let environment = Environment::new(HashSeed([1; 16]));
    Ok(Arc::new(Wip::open(device.clone(), &options, &environment)?))
}

/// Database 0 on an engine, and no others.
struct One(Arc<dyn Engine>);

impl Databases for One {
    fn open(&self, _: u32) -> Result<Arc<dyn Engine>> {
        Ok(Arc::clone(&self.0))
    }

    fn listed(&self) -> Vec<u32> {
        vec![0]
    }
}

/// A server on what a device has.
struct Served {
    engine: Arc<dyn Engine>,
    server: Server,
    client: Client,
}

impl Served {
    /// Sorted sets of more than `paged` elements have these as entries, if it is not 0.
    fn start(engine: Arc<dyn Engine>, (durability, paged): (Durability, u64)) -> Self {
        let config = Config { loops: 1, io_workers: 2, databases: 1, durability, ..shared() };
        let databases = Arc::new(One(Arc::clone(&engine)));
        let server = Server::start(config, databases as Arc<dyn Databases>).expect("a server");
        let mut client = Client::connect(&server);
        client.ask(&format!("CONFIG SET zset-max-paged-entries {paged}"));
        Served { engine, server, client }
    }

    fn ask(&mut self, requests: &[Vec<String>]) -> Vec<Value> {
        let bytes = |words: &Vec<String>| {
            let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
            request(&words)
        };
        self.client.send(&requests.iter().flat_map(bytes).collect::<Vec<u8>>());
        self.client.replies(requests.len())
    }

    /// Runs a step; false if it was refused.
    fn step(&mut self, step: &Step) -> bool {
        self.ask(step).last().is_some_and(|reply| !has_error(reply))
    }

    /// What a thread does beside requests, after step `nth`. Whether it fails is of no interest.
    fn maintain(&self, nth: usize) {
        if nth.is_multiple_of(3) {
            let _ = self.engine.maintain(Budget::of(64 << 10));
        }
    }

    /// All that the keys hold, as text.
    fn state(&mut self) -> String {
        let line = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
        let types = self.ask(&KEYS.map(|key| line(&["TYPE", key])));
        let mut asked = Vec::new();
        for (key, kind) in KEYS.iter().zip(&types) {
            asked.push(line(&["PEXPIRETIME", key]));
            match show(kind).as_str() {
                "hash" => {
                    asked.push(line(&["HGETALL", key]));
                    let mut times = line(&["HPEXPIRETIME", key, "FIELDS", &FIELDS.to_string()]);
                    times.extend((0..FIELDS).map(field));
                    asked.push(times);
                }
                "list" => asked.push(line(&["LRANGE", key, "0", "-1"])),
                "set" => asked.push(line(&["SMEMBERS", key])),
                "zset" => asked.push(line(&["ZRANGE", key, "0", "-1", "WITHSCORES"])),
                "stream" => asked.push(line(&["XINFO", "STREAM", key, "FULL", "COUNT", "0"])),
                "string" => asked.push(line(&["GET", key])),
                "none" => {}
                other => panic!("{key}: {other}"),
            }
        }
        let found = self.ask(&asked).into_iter();
        let found = found.map(|value| match value {
            Value::Array(_) | Value::Map(_) => show(&without_times_of_reading(value)),
            other => show(&other),
        });
        asked.iter().zip(found).map(|(words, value)| format!("{words:?} {value}\n")).collect()
    }

    fn stop(self) -> Arc<dyn Engine> {
        drop(self.client);
        self.server.stop();
        self.engine
    }
}

/// Streams tell when they were read; times of fields are compared.
fn without_times_of_reading(value: Value) -> Value {
    match &value {
        Value::Array(items) if items.iter().all(|item| matches!(item, Value::Integer(_))) => value,
        _ => timeless(value),
    }
}

/// True if a reply, or one that is part of it, is an error.
fn has_error(reply: &Value) -> bool {
    match reply {
        Value::Error(_) => true,
        Value::Array(parts) => parts.iter().any(has_error),
        _ => false,
    }
}

/// What the keys hold after each step, and the operations of the device that all of them take.
fn model(steps: &[Step], kind: (Durability, u64), is_strict: bool) -> (Vec<String>, u64) {
    let device = SimDevice::new(1, SimOptions::default());
    let mut served = Served::start(open(&device).expect("opened"), kind);
    let mut states = vec![served.state()];
    for (nth, step) in steps.iter().enumerate() {
        for reply in served.ask(step) {
            assert!(!is_strict || !has_error(&reply), "{step:?}: {}", show(&reply));
        }
        served.maintain(nth);
        states.push(served.state());
        let checked = catch_unwind(AssertUnwindSafe(|| check_all(&served.engine)));
        assert!(checked.is_ok(), "after {step:?}");
    }
    check_all(&served.stop());
    (states, device.op_count())
}

/// How a script is cut.
struct Cut {
    /// At which operation of the device.
    op: u64,
    seed: u64,
    durability: Durability,
    /// Elements above which those of sorted sets are entries.
    paged: u64,
    options: SimOptions,
}

/// Runs a script until the power fails. How many steps are certain to be there afterwards, and how
/// many may be.
fn run_until_cut(
    device: &SimDevice,
    steps: &[Step],
    (durability, paged): (Durability, u64),
) -> (usize, usize) {
    let Ok(engine) = open(device) else { return (0, 0) };
    let (mut sure, mut sent) = (0, 0);
    let mut served = Served::start(engine, (durability, paged));
    for (nth, step) in steps.iter().enumerate() {
        sent = nth + 1;
        // An error may be the command's own.
        let is_acknowledged = served.step(step) || !device.is_cut();
        if is_acknowledged && durability == Durability::Synced {
            sure = sent;
        }
        served.maintain(nth);
        // A store to which nothing was written has nothing to sync, whatever its device says.
        let is_to_sync = is_acknowledged && durability == Durability::Buffered && nth % 7 == 6;
        if is_to_sync && served.engine.sync().is_ok() {
            sure = sent;
        }
        if device.is_cut() {
            break;
        }
    }
    served.stop();
    (sure, sent)
}

/// Cuts the power during a script whose `states` are known, looks at what is left, and goes on.
/// True if the power failed before the script was over.
fn cut(steps: &[Step], states: &[String], cut: &Cut) -> bool {
    let device = SimDevice::new(cut.seed, cut.options);
    device.cut_at_op(cut.op);
    let kind = (cut.durability, cut.paged);
    let (sure, sent) = run_until_cut(&device, steps, kind);
    let was_cut = device.is_cut();
    device.power_cut();
    let device = cut_while_opening(device.reopen(), cut.seed);
    let mut served = Served::start(open(&device).expect("opened again"), kind);
    let found = served.state();
    check_all(&served.engine);
    let at = (sure..=sent).find(|at| states[*at] == found).unwrap_or_else(|| {
        let elsewhere = states.iter().position(|state| *state == found);
        let Cut { op, seed, .. } = cut;
        panic!("cut at {op}, seed {seed}: {elsewhere:?} is none of {sure}..={sent}\n{found}")
    });
    for (nth, step) in steps.iter().enumerate().skip(at) {
        served.step(step);
        served.maintain(nth);
    }
    assert_eq!(served.state(), states[steps.len()], "cut at {}, then from {at}", cut.op);
    check_all(&served.stop());
    was_cut
}

/// The power fails while the store is opened, too, once in a while.
fn cut_while_opening(mut device: SimDevice, seed: u64) -> SimDevice {
    let mut random = Prng::new(seed);
    while random.one_in(4) {
        device.cut_at_op(device.op_count() + random.below(20));
        drop(open(&device));
        device.power_cut();
        device = device.reopen();
    }
    device.cut_at_op(u64::MAX);
    device
}

/// Of operations 0 to `count`, each `step`th is cut.
fn cut_everywhere(durability: Durability, paged: u64, step: u64) {
    let steps = script::fixed();
    let (states, count) = model(&steps, (durability, paged), true);
    let cuts = (0..count).step_by(step as usize);
    let options = SimOptions::default();
    let did = |op| cut(&steps, &states, &Cut { op, seed: op, durability, paged, options });
    let struck = cuts.clone().filter(|op| did(*op)).count();
    // The server's own clock may add an operation or leave one out, near the end: so does what
    // removes elements of objects that are gone.
    let late = if paged > 0 { 10 + cuts.clone().count() / 10 } else { 10 };
    assert!(struck + late >= cuts.count(), "{struck} of {count} cuts");
}

#[test]
fn acknowledged_steps_outlive_a_power_cut_at_every_operation() {
    cut_everywhere(Durability::Synced, 0, test_size(5, 1, 1));
}

#[test]
fn what_a_power_cut_leaves_of_buffered_steps_is_a_prefix() {
    cut_everywhere(Durability::Buffered, 0, test_size(3, 1, 1));
}

#[test]
fn elements_that_are_entries_outlive_a_power_cut_at_every_operation() {
    cut_everywhere(Durability::Synced, 25, test_size(5, 1, 1));
    cut_everywhere(Durability::Buffered, 25, test_size(6, 1, 1));
}

#[test]
fn random_scripts_outlive_power_cuts() {
    let mut random = Prng::new(11);
    for round in 0..test_size(4, 8, 5_000) {
        let steps = script::random(60, &mut random);
        let durability = [Durability::Synced, Durability::Buffered][round as usize % 2];
        let paged = [0, 10][round as usize / 2 % 2];
        let (states, count) = model(&steps, (durability, paged), false);
        for _ in 0..3 {
            let options = SimOptions { garble: random.one_in(2), names_in_order: false };
            let (op, seed) = (random.below(count), random.next_u64());
            cut(&steps, &states, &Cut { op, seed, durability, paged, options });
        }
    }
}
