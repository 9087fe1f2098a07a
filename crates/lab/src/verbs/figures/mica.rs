//! `silica bench figures mica`: chapter 5 of Lim's dissertation, in this process and over the
//! kernel's sockets instead of network cards of its own.

use super::job::{Job, Scheme, Stores, driven, rate, scheme};
use super::mica_owners;
use super::sheet::{Drawing, Sheet, drawing};
use silica::Result;
use silica_bench::{Distribution, Plan, Shape, Target, Workload, fill};
use silica_bench_compare::{Class, Setup, find, thread_counts};

/// Tiny keys of a full run; the paper has 192 million.
const KEYS: f64 = 16e6;
const KEYS_MIN: u64 = 2000;
/// Keys a call: what a burst of packets brings a server of the paper.
const BURST: usize = 32;
/// A run ends with its time, or with so many operations for each key.
const SECONDS: f64 = 1.0;
const OPERATIONS_OF_KEY: u64 = 4;
/// Memory: so many times the live bytes, so much for a key, and as much at least.
const MEMORY_FACTOR: u64 = 4;
const MEMORY_BESIDE: u64 = 128;
const MEMORY_FLOOR: u64 = 64 << 20;

/// Datasets: name, bytes of key and value, and keys for 192 of the tiny ones.
const DATASETS: [(&str, usize, usize, u64); 3] =
    [("tiny", 8, 8, 192), ("small", 16, 64, 128), ("large", 128, 1024, 8)];
const SKEWS: [(&str, Distribution); 2] =
    [("uniform", Distribution::Uniform), ("skewed", Distribution::ZIPFIAN)];
const GETS: [u8; 2] = [50, 95];
const TABLES: [&str; 7] =
    ["silica:mica", "silica:mica-store", "hashbrown", "dashmap", "scc", "papaya", "quick_cache"];
const SERVERS: [&str; 5] =
    ["silica:cache", "silica:datagram", "redis:tcp", "memcached:tcp", "memcached:udp"];
/// Of the peak, the rates at which latency is measured.
const LOADS: [f64; 4] = [0.25, 0.5, 0.75, 0.9];

const DRAWINGS: [Drawing; 4] = [
    Drawing {
        metric: "50 % gets",
        ..drawing(
            "figure-5.14",
            "Tiny, skewed, 50 % gets, by threads",
            "threads",
            "operations a second",
        )
    },
    Drawing {
        file: "figure-5.14-95",
        metric: "95 % gets",
        ..drawing(
            "figure-5.14",
            "Tiny, skewed, 95 % gets, by threads",
            "threads",
            "operations a second",
        )
    },
    Drawing {
        metric: "mean",
        ..drawing("figure-5.13", "Latency by rate, tiny, 50 % gets", "requests a second", "us")
    },
    Drawing {
        file: "figure-5.13-95",
        metric: "95 %",
        ..drawing("figure-5.13", "Latency by rate, 95 % of requests", "requests a second", "us")
    },
];

/// Everything that is drawn of the chapter.
pub(super) fn sheet(job: &Job<'_>) -> Result<Sheet> {
    let mut sheet = Sheet { drawings: DRAWINGS.to_vec(), ..Sheet::default() };
    let keys = job.keys(KEYS, KEYS_MIN);
    let matrix = Matrix { stores: Stores::new(job, MEMORY_FLOOR), keys, seed: job.seed() };
    let schemes = TABLES.iter().chain(&SERVERS).map(|name| scheme(name)).collect::<Vec<_>>();
    for scheme in matrix.stores.installed(&schemes, &mut sheet)? {
        for dataset in DATASETS {
            let what = format!("figures 5.10 and 5.12: {}, {}", scheme.name, dataset.0);
            if !job.begins(&what, &mut sheet)? {
                return Ok(sheet);
            }
            matrix.dataset(&scheme, dataset, &mut sheet)?;
        }
    }
    if !job.begins("figure 5.13: latency by rate", &mut sheet)? {
        return Ok(sheet);
    }
    matrix.latency(&mut sheet)?;
    if !job.begins("figure 5.14: threads", &mut sheet)? {
        return Ok(sheet);
    }
    matrix.by_threads(&mut sheet)?;
    if !job.begins("table 5.2: partitions of their own", &mut sheet)? {
        return Ok(sheet);
    }
    mica_owners::table_5_2(keys, job.seed(), &mut sheet)?;
    sheet.remark(
        "figure 5.15: the number of network ports is not varied; requests go over the kernel's \
         sockets on one machine",
    );
    Ok(sheet)
}

struct Matrix {
    stores: Stores,
    keys: u64,
    seed: u64,
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl Matrix {
    fn plan(&self, key_bytes: usize, value_bytes: usize, keys: u64, gets: u8) -> Result<Plan> {
        let workload = Workload::find("mixed")?;
        let workload = Workload { reads: gets, updates: 100 - gets, ..*workload };
        Ok(Plan {
            workload,
            keys,
            shape: Shape { key_bytes, value_bytes },
            operations: OPERATIONS_OF_KEY * keys,
            seconds_max: SECONDS,
            batch: BURST,
            seed: self.seed,
            ..Plan::new("mixed")?
        })
    }

    fn setup(&self, scheme: &Scheme, plan: &Plan) -> Setup {
        let entry = (plan.shape.key_bytes + plan.shape.value_bytes) as u64;
        let memory = (MEMORY_FACTOR * entry + MEMORY_BESIDE) * plan.keys;
        let memory_bytes = memory.max(MEMORY_FLOOR);
        Setup { memory_bytes, ..self.stores.setup(scheme, plan) }
    }

    /// Figure 5.10 over sockets, 5.12 in this process: one dataset of one store, with both
    /// popularities and both shares of gets.
    fn dataset(
        &self,
        scheme: &Scheme,
        (name, key_bytes, value_bytes, parts): (&str, usize, usize, u64),
        sheet: &mut Sheet,
    ) -> Result<()> {
        let is_server = find(scheme.peer)?.class() == Class::Server;
        let figure = if is_server { "figure-5.10" } else { "figure-5.12" };
        let threads = if is_server { 1 } else { cores() };
        let keys = (self.keys * parts / 192).max(KEYS_MIN / 4);
        let plan = Plan { threads, ..self.plan(key_bytes, value_bytes, keys, 50)? };
        let setup = self.setup(scheme, &plan);
        self.stores.with(scheme, &setup, |target| {
            fill(&plan, target, &mut |_, _| {})?;
            target.settle()?;
            for (skew, distribution) in SKEWS {
                for gets in GETS {
                    let mixed = self.plan(key_bytes, value_bytes, keys, gets)?;
                    let run = driven(&Plan { threads, distribution, ..mixed }, target)?;
                    let metric = format!("{name}, {skew}, {gets} % gets: operations/s");
                    let paper = paper_5_10(scheme.name, name, skew, gets);
                    sheet.add(figure, scheme.name, metric, rate(&run), paper);
                }
            }
            Ok(())
        })
    }

    /// Figure 5.13: latency of single requests by the rate at which they come.
    fn latency(&self, sheet: &mut Sheet) -> Result<()> {
        let schemes = ["silica:datagram", "memcached:udp", "memcached:tcp"].map(scheme);
        for scheme in self.stores.installed(&schemes, sheet)? {
            let plan = Plan { batch: 1, ..self.plan(8, 8, self.keys, 50)? };
            let setup = self.setup(&scheme, &plan);
            self.stores.with(&scheme, &setup, |target| {
                fill(&plan, target, &mut |_, _| {})?;
                at_rates(&plan, target, scheme.name, sheet)
            })?;
        }
        Ok(())
    }

    /// Figure 5.14: tiny, skewed, by threads that ask.
    fn by_threads(&self, sheet: &mut Sheet) -> Result<()> {
        let schemes = TABLES.map(scheme);
        for scheme in self.stores.installed(&schemes, sheet)? {
            let most = Plan { threads: cores(), ..self.plan(8, 8, self.keys, 50)? };
            self.stores.with(&scheme, &self.setup(&scheme, &most), |target| {
                fill(&most, target, &mut |_, _| {})?;
                for gets in GETS {
                    let mixed = self.plan(8, 8, self.keys, gets)?;
                    for threads in thread_counts(cores()) {
                        let distribution = Distribution::ZIPFIAN;
                        let plan = Plan { threads, distribution, ..mixed.clone() };
                        let run = driven(&plan, target)?;
                        let metric = format!("{threads} threads, {gets} % gets: operations/s");
                        sheet.add("figure-5.14", scheme.name, metric, rate(&run), None);
                    }
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}

fn at_rates(plan: &Plan, target: &dyn Target, name: &str, sheet: &mut Sheet) -> Result<()> {
    let peak = rate(&driven(plan, target)?);
    for load in LOADS {
        let asked = (peak * load) as u64;
        let run = driven(&Plan { rate: asked.max(1), ..plan.clone() }, target)?;
        let us = |ns: f64| ns / 1000.0;
        let times = &run.tally.latencies;
        let at = |what: &str| format!("{asked} requests/s: us, {what}");
        // The paper's MICA takes 24 to 52 us.
        sheet.add("figure-5.13", name, at("mean"), us(times.mean()), None);
        sheet.add("figure-5.13", name, at("5 %"), us(times.quantile(0.05) as f64), None);
        sheet.add("figure-5.13", name, at("95 %"), us(times.quantile(0.95) as f64), None);
    }
    Ok(())
}

/// The paper's lowest numbers of MICA, from the text of 5.4.2: 16 cores, eight network ports.
fn paper_5_10(scheme: &str, dataset: &str, skew: &str, gets: u8) -> Option<f64> {
    let operations = match (scheme, dataset, skew, gets) {
        ("silica:cache", "tiny", "uniform", _) => 75.5e6,
        ("silica:cache", "tiny", "skewed", _) => 65.6e6,
        ("silica:cache", "large", _, 50) => 12.6e6,
        ("silica:cache", "large", _, _) => 8.6e6,
        _ => return None,
    };
    Some(operations)
}
