//! `silica bench figures order`: what order, snapshots, atomic batches, transactions and expiry
//! cost, each asked for alone, and how much of that any store would pay. Section 6.1.1 of Lim's
//! dissertation asks; it has no figure.

mod floor;
mod store;

use super::job::{Job, driven, rate};
use super::scratch::{Scratch, median};
use super::sheet::{Drawing, Sheet, drawing};
use floor::{Floor, Map};
use hashbrown::HashMap;
use silica::{MetricsMap, Result};
use silica_bench::memory::Process;
use silica_bench::{Plan, Target, fill};
use std::collections::BTreeMap;
use store::{Capable, Demands};

/// Keys of a full run.
const KEYS: f64 = 4e6;
const KEYS_MIN: u64 = 2000;
/// Keys of a call: enough for a batch or a transaction to be more than its only entry.
const BATCH: usize = 8;
/// Rounds of each load on each store, in turns; the median counts.
const ROUNDS: u64 = 5;
/// Seconds of a round of a full run, and the least.
const SECONDS: f64 = 1.0;
const SECONDS_MIN: f64 = 0.01;
/// Bytes that the time to live adds to an entry.
const EXPIRY_BYTES: f64 = 8.0;
/// A store on the device has memory for a part of its entries, and this at least.
const ON_DEVICE: (f64, u64) = (0.5, 8 << 20);
/// A store in memory may have so many times its entries, and this at least. One with an order may
/// have more, for a 32nd of it keeps what snapshots see.
const IN_MEMORY: (f64, u64) = (8.0, 64 << 20);
const IN_MEMORY_ORDERED: (f64, u64) = (64.0, 4 << 30);

/// Two engines with one medium: what is lost between them is the order's.
struct Family {
    name: &'static str,
    hash: &'static str,
    ordered: &'static str,
    /// Its stores lie in memory that outlives the process, where there is some.
    in_memory: bool,
}

const FAMILIES: [Family; 2] = [
    Family { name: "on the device", hash: "silt", ordered: "wip", in_memory: false },
    Family { name: "in memory", hash: "turbo", ordered: "sptree", in_memory: true },
];

/// A step of the ladder: a capability alone, on the hash table or on the ordered engine.
struct Rung {
    name: &'static str,
    ordered: bool,
    demands: Demands,
    /// The rung that it is compared with.
    base: usize,
}

const NONE: Demands = Demands { atomic: false, snapshot: false, transaction: false, expiry: false };

/// Rungs 0 and 3 are those without anything else.
const RUNGS: [Rung; 9] = [
    Rung { name: "hash", ordered: false, demands: NONE, base: 0 },
    Rung {
        name: "hash, atomic batches",
        ordered: false,
        demands: Demands { atomic: true, ..NONE },
        base: 0,
    },
    Rung {
        name: "hash, expiry",
        ordered: false,
        demands: Demands { expiry: true, ..NONE },
        base: 0,
    },
    Rung { name: "ordered", ordered: true, demands: NONE, base: 0 },
    Rung {
        name: "ordered, a snapshot held",
        ordered: true,
        demands: Demands { snapshot: true, ..NONE },
        base: 3,
    },
    Rung {
        name: "ordered, atomic batches",
        ordered: true,
        demands: Demands { atomic: true, ..NONE },
        base: 3,
    },
    Rung {
        name: "ordered, transactions",
        ordered: true,
        demands: Demands { transaction: true, ..NONE },
        base: 3,
    },
    Rung {
        name: "ordered, expiry",
        ordered: true,
        demands: Demands { expiry: true, ..NONE },
        base: 3,
    },
    Rung {
        name: "ordered, everything",
        ordered: true,
        demands: Demands { atomic: true, snapshot: true, transaction: true, expiry: true },
        base: 3,
    },
];
const ORDERED: usize = 3;

/// Loads, by the driver's name of the workload; the last one is for stores with an order.
const LOADS: [(&str, &str); 4] =
    [("gets", "read"), ("puts", "overwrite"), ("half", "mixed"), ("scans", "seekrandom")];
const GETS: usize = 0;
const PUTS: usize = 1;
const HALF: usize = 2;
const SCANS: usize = 3;

const DRAWINGS: [Drawing; 4] = [
    ladder("order-gets", "gets: operations/s", "Gets by capability"),
    ladder("order-puts", "puts: operations/s", "Puts by capability"),
    ladder("order-latency", "puts: us, 99 %", "A call of eight puts, 99 %"),
    ladder("order-written", "bytes written", "Bytes written for each byte put"),
];

const fn ladder(file: &'static str, metric: &'static str, title: &'static str) -> Drawing {
    let y = if matches!(metric.as_bytes(), [.., b's']) { "operations a second" } else { "" };
    Drawing { file, metric, ..drawing("ladder", title, "step of the ladder", y) }
}

/// Everything that is drawn.
pub(super) fn sheet(job: &Job<'_>) -> Result<Sheet> {
    let mut sheet = Sheet { drawings: DRAWINGS.to_vec(), ..Sheet::default() };
    let keys = job.keys(KEYS, KEYS_MIN);
    let seconds = (SECONDS * job.scale.sqrt()).max(SECONDS_MIN);
    let plan = Plan {
        keys,
        batch: BATCH,
        operations: u64::MAX >> 1,
        seconds_max: seconds,
        seed: job.seed(),
        ..Plan::new("mixed")?
    };
    if !job.begins("the two maps", &mut sheet)? {
        return Ok(sheet);
    }
    let least = floor(&plan, &mut sheet)?;
    for family in FAMILIES {
        if !job.begins(&format!("stores {}", family.name), &mut sheet)? {
            return Ok(sheet);
        }
        let scratch = Scratch::new(job, family.in_memory)?;
        if family.in_memory && !scratch.is_in_memory() {
            sheet.remark("no memory that outlives the process: its stores are mapped files");
        }
        let steps = climb(&family, &plan, &scratch)?;
        rows(&family, &steps, &mut sheet);
        losses(&family, &steps, &least, &plan, &mut sheet);
    }
    Ok(sheet)
}

/// What a store did under all loads.
#[derive(Default)]
struct Step {
    /// By load: operations a second of each round, and the quantiles of its calls in microseconds.
    rounds: [Vec<[f64; 3]>; LOADS.len()],
    written: f64,
    disk: f64,
    index: f64,
    memory: f64,
}

impl Step {
    /// Nanoseconds of an operation of a load; 0 if the store does not do it.
    fn nanos(&self, load: usize) -> f64 {
        let rate = self.median(load, 0);
        if rate > 0.0 { 1e9 / rate } else { 0.0 }
    }

    /// What an operation takes longer than on `base`, as a share of that: the median of the rounds,
    /// each beside the other store's round, for the machine changes between rounds.
    fn lost(&self, base: &Step, load: usize) -> f64 {
        let pairs = self.rounds[load].iter().zip(&base.rounds[load]);
        median(pairs.map(|(ours, others)| others[0] / ours[0].max(1e-9) - 1.0))
    }

    fn median(&self, load: usize, figure: usize) -> f64 {
        median(self.rounds[load].iter().map(|round| round[figure]))
    }
}

/// One round of one load.
fn round(plan: &Plan, load: usize, seed: u64, target: &dyn Target) -> Result<[f64; 3]> {
    let loaded = Plan::new(LOADS[load].1)?;
    let batch = if load == SCANS { 1 } else { plan.batch };
    let shape = plan.shape;
    let plan = Plan { workload: loaded.workload, shape, batch, seed, ..plan.clone() };
    let run = driven(&plan, target)?;
    let us = |quantile| run.tally.latencies.quantile(quantile) as f64 / 1000.0;
    Ok([rate(&run), us(0.5), us(0.99)])
}

/// Fills the stores of all rungs and measures them in turns.
fn climb(family: &Family, plan: &Plan, scratch: &Scratch) -> Result<Vec<Step>> {
    let entry_bytes = (plan.shape.key_bytes + plan.shape.value_bytes) as f64;
    let mut stores = Vec::new();
    let mut steps: Vec<Step> = Vec::new();
    for rung in &RUNGS {
        let engine = if rung.ordered { family.ordered } else { family.hash };
        let (times, least) = match (family.in_memory, rung.ordered) {
            (false, _) => ON_DEVICE,
            (true, false) => IN_MEMORY,
            (true, true) => IN_MEMORY_ORDERED,
        };
        let memory = ((plan.keys as f64 * entry_bytes * times) as u64).max(least);
        let before = Process::This.anonymous_bytes();
        let store = Capable::open(&scratch.next(), engine, memory, rung.demands)?;
        fill(plan, &store, &mut |_, _| {})?;
        store.keyspace.settle()?;
        let taken = Process::This.anonymous_bytes().saturating_sub(before);
        steps.push(Step { memory: taken as f64 / plan.keys as f64, ..Step::default() });
        stores.push(store);
    }
    let begun: Vec<_> = stores.iter().map(Target::metrics).collect::<Result<_>>()?;
    for number in 0..ROUNDS {
        for load in 0..LOADS.len() {
            for ((store, rung), step) in stores.iter().zip(&RUNGS).zip(&mut steps) {
                if load == SCANS && !rung.ordered {
                    continue;
                }
                step.rounds[load].push(round(plan, load, plan.seed + number, store)?);
                // What is left to do would take from the turns of others.
                store.keyspace.settle()?;
            }
        }
    }
    for ((store, begun), step) in stores.iter().zip(&begun).zip(&mut steps) {
        let now = Target::metrics(store)?;
        step.written = written(begun, &now);
        step.index = now.get("index_bytes") / plan.keys as f64;
        step.disk = now.get("disk_bytes") / plan.keys as f64;
    }
    Ok(steps)
}

/// Bytes written for each byte put between two moments; 0 if the engine counts none.
fn written(before: &MetricsMap, now: &MetricsMap) -> f64 {
    let since = |name: &str| now.get(name) - before.get(name);
    let written: f64 = super::scratch::WRITTEN.iter().map(|name| since(name)).sum();
    written / since("user_bytes_written").max(1.0)
}

fn rows(family: &Family, steps: &[Step], sheet: &mut Sheet) {
    for (number, (rung, step)) in RUNGS.iter().zip(steps).enumerate() {
        let mut row = |metric: &str, value: f64| {
            let metric = format!("{} {}, {metric}", number + 1, rung.name);
            sheet.add("ladder", family.name, metric, value, None);
        };
        for (load, (name, _)) in LOADS.iter().enumerate() {
            if !step.rounds[load].is_empty() {
                row(&format!("{name}: operations/s"), step.median(load, 0));
                row(&format!("{name}: us, 50 %"), step.median(load, 1));
                row(&format!("{name}: us, 99 %"), step.median(load, 2));
            }
        }
        if step.written > 0.0 {
            row("bytes written for each byte put", step.written);
        }
        row("bytes of files a key", step.disk);
        row("bytes of index a key", step.index);
        row("bytes of memory a key after the fill", step.memory);
    }
}

/// Nanoseconds that the least order adds to an operation, by load; scans have no counterpart.
type Least = [f64; SCANS];

/// The two maps under all loads.
fn floor(plan: &Plan, sheet: &mut Sheet) -> Result<Least> {
    let hash = Floor::<HashMap<Box<[u8]>, Box<[u8]>, foldhash::fast::FixedState>>::default();
    let tree = Floor::<BTreeMap<Box<[u8]>, Box<[u8]>>>::default();
    let (mut of_hash, mut of_tree) = (Step::default(), Step::default());
    fill_floor(plan, &hash)?;
    fill_floor(plan, &tree)?;
    for number in 0..ROUNDS {
        for load in [GETS, PUTS, HALF] {
            of_hash.rounds[load].push(round(plan, load, plan.seed + number, &hash)?);
            of_tree.rounds[load].push(round(plan, load, plan.seed + number, &tree)?);
        }
    }
    let mut least = Least::default();
    for load in [GETS, PUTS, HALF] {
        let (hash, tree) = (of_hash.nanos(load), of_tree.nanos(load));
        least[load] = (tree - hash).max(0.0);
        let metric = format!("{}: ns an operation", LOADS[load].0);
        sheet.add("floor", "hash table", metric.clone(), hash, None);
        sheet.add("floor", "ordered tree", metric, tree, None);
    }
    Ok(least)
}

fn fill_floor<M: Map>(plan: &Plan, floor: &Floor<M>) -> Result<()> {
    fill(plan, floor, &mut |_, _| {})
}

/// What each rung takes longer than its base, and how much of that no design avoids.
fn losses(family: &Family, steps: &[Step], least: &Least, plan: &Plan, sheet: &mut Sheet) {
    let entry_bytes = (plan.shape.key_bytes + plan.shape.value_bytes) as f64;
    for (number, rung) in RUNGS.iter().enumerate() {
        if number == rung.base {
            continue;
        }
        for load in [GETS, PUTS, HALF] {
            let base = steps[rung.base].nanos(load);
            let lost = base * steps[number].lost(&steps[rung.base], load);
            let Demands { transaction, expiry, .. } = rung.demands;
            // The part of the operations of this load that put.
            let puts = [0.0, 1.0, 0.5][load];
            let mut semantics = if number == ORDERED { least[load] } else { 0.0 };
            if transaction {
                // A commit must know whether each key was written meanwhile.
                semantics += puts * steps[rung.base].nanos(GETS);
            }
            if expiry {
                semantics += puts * base * EXPIRY_BYTES / entry_bytes;
            }
            let unavoidable = semantics.min(lost.max(0.0));
            let percent = |nanos: f64| 100.0 * nanos / base.max(1e-9);
            let mut row = |what: &str, value: f64| {
                let metric = format!("{}, {}: {what}", rung.name, LOADS[load].0);
                sheet.add("loss", family.name, metric, value, None);
            };
            row("% more time an operation", percent(lost));
            row("% more by the semantics", percent(unavoidable));
            row("% more by our design", percent(lost - unavoidable));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rung_asks_for_one_thing_more_than_its_base() {
        for (number, rung) in RUNGS.iter().enumerate() {
            let base = &RUNGS[rung.base];
            let Demands { atomic, snapshot, transaction, expiry } = rung.demands;
            let asked = [atomic, snapshot, transaction, expiry].into_iter().filter(|one| *one);
            let more = asked.count() + usize::from(rung.ordered && !base.ordered);
            let expected = match number {
                8 => 4,
                _ => usize::from(number != rung.base),
            };
            assert_eq!(more, expected, "{}", rung.name);
            assert_eq!(base.demands, NONE, "{}", rung.name);
        }
    }
}
