//! Deletes, items of different size, ranks that are dealt anew, and keys of which the latest are
//! the popular ones: models beside simulators.

use silica_lab::model::{Deletes, Items, Latest, LevelDb, Silt, WipDb, WriteAmplification, Writes};
use silica_lab::simulate::{
    LevelDbSimulator, Requests, SiltSimulator, Simulator, WipDbSimulator, run_settled,
};

const KEYS: u64 = 100_000;

/// What is written, to a model and to a simulator.
struct Kind {
    name: &'static str,
    items: Items,
    epoch: Option<f64>,
}

fn kinds() -> Vec<Kind> {
    let alike = Items::alike();
    let deletes = |share, size| Deletes::new(share, size).unwrap();
    let ranked = |hot, cold| alike.with_bytes(hot, cold).unwrap();
    let kind = |name, items, epoch| Kind { name, items, epoch };
    vec![
        kind("deletes", alike.with_deletes(deletes(0.3, 1.0)), None),
        kind("small tombstones", alike.with_deletes(deletes(0.5, 0.125)), None),
        kind("popular and small", ranked(4.0, 60.0), None),
        kind("popular and large", ranked(60.0, 20.0), None),
        kind("both", ranked(4.0, 60.0).with_deletes(deletes(0.2, 0.1)), None),
        kind("drift", alike, Some(20_000.0)),
        kind("slow drift", alike, Some(300_000.0)),
        kind("drift and deletes", alike.with_deletes(deletes(0.3, 1.0)), Some(50_000.0)),
    ]
}

impl Kind {
    fn writes(&self, skew: f64) -> Writes {
        Writes::zipf(KEYS, skew, &self.items, self.epoch).unwrap()
    }

    fn requests(&self, skew: f64) -> Requests {
        let mut requests = Requests::zipf(KEYS, skew, 1).unwrap();
        if let Some(epoch) = self.epoch {
            requests = requests.with_drift(epoch).unwrap();
        }
        match self.items == Items::alike() {
            true => requests,
            false => requests.with_items(self.items).unwrap(),
        }
    }
}

fn counted(simulator: &mut dyn Simulator, requests: &mut Requests) -> WriteAmplification {
    run_settled(simulator, requests, 6 * KEYS, 12 * KEYS, &mut |_, _| ()).unwrap()
}

/// Every kind with two skews; the model within a share of the simulator's total.
fn compare(
    within: f64,
    of: impl Fn(&Kind, &mut Requests, &Writes) -> (WriteAmplification, WriteAmplification),
) {
    let mut wrong = Vec::new();
    for kind in kinds() {
        for skew in [0.5, 0.99] {
            let (model, found) = of(&kind, &mut kind.requests(skew), &kind.writes(skew));
            let away = model.total() / found.total() - 1.0;
            println!("{} {skew}: {:+.1} %", kind.name, 100.0 * away);
            if away.is_nan() || away.abs() >= within {
                wrong.push(format!("{} {skew}: {away} {model:?} is not {found:?}", kind.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn leveldb() -> LevelDb {
    let levels = vec![2000.0, 20_000.0, KEYS as f64];
    LevelDb { log: 200.0, level0_tables: 4.0, levels }
}

fn leveldb_simulator(requests: &Requests) -> LevelDbSimulator {
    let simulator = LevelDbSimulator::new(&leveldb()).unwrap().with_tables_of(100.0).unwrap();
    match requests.items() {
        Some(items) => simulator.with_items(items),
        None => simulator,
    }
}

#[test]
fn leveldb_is_as_predicted() {
    compare(0.04, |_, requests, writes| {
        let found = counted(&mut leveldb_simulator(requests), requests);
        (leveldb().cost(writes), found)
    });
}

#[test]
fn silt_is_as_predicted() {
    let model = Silt { table: 1000.0, occupancy: 0.9, hash_stores: 10.0 };
    compare(0.02, |_, requests, writes| {
        let mut simulator = SiltSimulator::new(model, KEYS as u32).unwrap();
        if let Some(items) = requests.items() {
            simulator = simulator.with_items(items);
        }
        (model.cost(writes), counted(&mut simulator, requests))
    });
}

#[test]
fn wipdb_is_as_predicted() {
    let (memtable, log_window, runs_max, buckets) = (5000.0, 1e9, 32, 50.0);
    let (space, log, table) = (1.3, 1.0, 1.0);
    let model = WipDb { memtable, log_window, runs_max, buckets, space, log, table };
    compare(0.03, |_, requests, writes| {
        let mut simulator = WipDbSimulator::new(model, KEYS as u32, 50).unwrap();
        if let Some(items) = requests.items() {
            simulator = simulator.with_items(items);
        }
        (model.cost(writes).unwrap(), counted(&mut simulator, requests))
    });
}

/// The keys are those at the middle of what is counted.
#[test]
fn stores_of_latest_keys_are_as_predicted() {
    let mut wrong = Vec::new();
    for (skew, inserts) in [(0.99, 0.05), (0.99, 0.3), (0.5, 0.1), (1.2, 0.05)] {
        let count = 18 * KEYS;
        let first = (KEYS as f64 - inserts * 12.0 * KEYS as f64 / 10.0).max(1.0) as u64;
        let (settle, count) = (6 * count / 180, 12 * count / 180);
        let requests = || Requests::latest(first, skew, inserts, settle + count, 1).unwrap();
        let there = first as f64 + inserts * (settle as f64 + 0.5 * count as f64);
        let latest = Latest::new(there as u64, skew, inserts).unwrap();
        let writes = Writes::latest(latest);
        let levels = vec![2000.0, 20_000.0, there];
        let design = LevelDb { log: 200.0, level0_tables: 4.0, levels };
        let mut simulator = LevelDbSimulator::new(&design).unwrap().with_tables_of(100.0).unwrap();
        let run = |simulator: &mut dyn Simulator| {
            run_settled(simulator, &mut requests(), settle, count, &mut |_, _| ()).unwrap()
        };
        let silt = Silt { table: 1000.0, occupancy: 0.9, hash_stores: 10.0 };
        for (model, found, within) in [
            (design.cost(&writes), run(&mut simulator), 0.04),
            (silt.cost(&writes), run(&mut SiltSimulator::new(silt, first as u32).unwrap()), 0.03),
        ] {
            let away = model.total() / found.total() - 1.0;
            println!("{skew} {inserts}: {:+.1} %", 100.0 * away);
            if away.is_nan() || away.abs() >= within {
                wrong.push(format!("{skew} {inserts}: {away} {model:?} is not {found:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
