//! What a comparison found, as plain data: the rows of `results.json`, the machine and settings of
//! `environment.json`, curves and samples of `details.json`. The report page is made of it.

use crate::stats::Turn;
use serde::{Deserialize, Serialize};

/// One metric of one store at one workload, over all repetitions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Name of the suite.
    pub suite: String,
    /// Name of the workload with its sizes, such as `ycsb-a-64`.
    pub workload: String,
    /// Name of the peer, or `limit:` and the name of a limit.
    pub store: String,
    /// Threads that issued operations.
    pub threads: usize,
    /// What was measured.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Median of the repetitions.
    pub median: f64,
    /// The lowest.
    pub low: f64,
    /// The highest.
    pub high: f64,
    /// How many there were.
    pub runs: usize,
}

/// A ratio of two stores' throughputs, taken within each repetition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// Name of the suite.
    pub suite: String,
    /// Name of the workload.
    pub workload: String,
    /// The metric that was divided.
    pub metric: String,
    /// The store above the line: one of ours.
    pub store: String,
    /// The store below it.
    pub peer: String,
    /// Median of the repetitions' ratios; absent where the spread hides its sign.
    pub median: Option<f64>,
    /// The lowest.
    pub low: f64,
    /// The highest.
    pub high: f64,
    /// How many there were.
    pub runs: usize,
    /// As people read it: `1.8 (1.7-2.0)` or `no difference shown (0.9-1.1)`.
    pub text: String,
}

/// One workload of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadInfo {
    /// Name of the suite.
    pub suite: String,
    /// Name of the workload with its sizes.
    pub name: String,
    /// What it does, in one line.
    pub doc: String,
    /// The paper's figure that it reproduces, where it does.
    pub paper: String,
    /// Keys in the store before the measured part.
    pub keys: u64,
    /// Operations of the measured part.
    pub operations: u64,
    /// Bytes of a key.
    pub key_bytes: u64,
    /// Bytes of a value (the mean where they vary).
    pub value_bytes: u64,
    /// Threads that issue operations.
    pub threads: usize,
    /// Memory that each store may use, page cache included.
    pub memory_bytes: u64,
    /// `buffered` or `synced`.
    pub durability: String,
    /// Name of the distribution of keys.
    pub distribution: String,
    /// Keys in one call.
    pub batch: usize,
    /// Operations a second that are issued; 0 means as many as possible.
    pub rate: u64,
    /// True where stores are reopened and the page cache is dropped before it.
    pub cold: bool,
    /// The limits (`limit:…`) that stand beside it, each with the metric that bounds it.
    pub limits: Vec<(String, String)>,
}

/// Latencies of one store at one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Name of the suite.
    pub suite: String,
    /// Name of the workload.
    pub workload: String,
    /// Name of the store.
    pub store: String,
    /// Quantile (0 to 1) and microseconds, the median over the repetitions at each quantile.
    pub points: Vec<(f64, f64)>,
}

/// Memory at one moment of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MemorySample {
    /// Since the measured part began.
    pub seconds: f64,
    /// Resident size of the process; with a server that of the server.
    pub rss_bytes: f64,
    /// Memory of indexes and filters, 0 where the store does not tell.
    pub index_bytes: f64,
    /// Keys put so far, 0 where the store does not tell.
    pub puts: f64,
}

/// Memory over time of one store at one workload, of its last repetition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// Name of the suite.
    pub suite: String,
    /// Name of the workload.
    pub workload: String,
    /// Name of the store.
    pub store: String,
    /// In the order of time.
    pub samples: Vec<MemorySample>,
}

/// What was measured in each round of one repetition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rounds {
    /// Name of the suite.
    pub suite: String,
    /// Name of the workload.
    pub workload: String,
    /// Name of the store.
    pub store: String,
    /// From 0.
    pub repetition: usize,
    /// The metric of the values.
    pub metric: String,
    /// What it did in each round; none where it had nothing to do in it.
    pub turns: Vec<Option<Turn>>,
}

/// Something that was not measured, or said while it was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Remark {
    /// Name of the suite; empty where it is about all.
    pub suite: String,
    /// Name of the workload; empty where it is about all.
    pub workload: String,
    /// Name of the store; empty where it is about all.
    pub store: String,
    /// What happened.
    pub text: String,
}

/// One setting of a store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SettingInfo {
    /// The name in the store's own interface.
    pub name: String,
    /// The value, as people write it.
    pub value: String,
    /// Why an expert would choose it.
    pub why: String,
}

/// A store that took part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoreInfo {
    /// Its name.
    pub name: String,
    /// What it is, in one line.
    pub doc: String,
    /// `embedded`, `memory`, `server` or `limit`.
    pub class: String,
    /// True for stores of ours.
    pub ours: bool,
    /// What was installed.
    pub version: String,
    /// Other than its defaults.
    pub settings: Vec<SettingInfo>,
}

/// Where it was measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Model of the processor.
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// Memory of the machine.
    pub memory_bytes: u64,
    /// Name and version of the kernel.
    pub kernel: String,
    /// Type of the file system under the stores.
    pub file_system: String,
    /// The device under it.
    pub device: String,
    /// Where the stores lay.
    pub directory: String,
    /// How the memory of stores that use the page cache was limited, or why it was not.
    pub memory_limit: String,
}

/// The contents of `environment.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Where it was measured.
    pub machine: Machine,
    /// When it began, in UTC: `2026-01-31 12:00:00`.
    pub date: String,
    /// Time that it took so far.
    pub seconds: f64,
    /// The command that repeats it.
    pub command: String,
    /// `full`, `quick` or `toy`.
    pub size: String,
    /// Repetitions that were asked for.
    pub repetitions: usize,
    /// Version of Silica.
    pub version: String,
    /// Stores that took part, limits included.
    pub stores: Vec<StoreInfo>,
    /// Stores that are not installed, with the reason.
    pub missing: Vec<Remark>,
    /// Stores that cannot do a workload, with the ability they lack.
    pub unable: Vec<Remark>,
}

/// All that a run found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The machine, versions, settings.
    pub environment: Environment,
    /// Workloads in the order of the run.
    pub workloads: Vec<WorkloadInfo>,
    /// The rows of `results.json`.
    pub rows: Vec<Row>,
    /// Ours over each peer, and each store over its limits.
    pub ratios: Vec<Ratio>,
    /// Latencies.
    pub curves: Vec<Curve>,
    /// Memory over time.
    pub timelines: Vec<Timeline>,
    /// What medians and ratios are made of.
    pub rounds: Vec<Rounds>,
    /// Measurements that failed.
    pub failures: Vec<Remark>,
    /// What was said while measuring: page cache dropped, memory limit refused.
    pub notes: Vec<Remark>,
    /// True where the run was interrupted: what was measured until then is here.
    pub interrupted: bool,
}

impl Results {
    /// The row of `metric` of `store` at `workload`.
    pub fn row(&self, suite: &str, workload: &str, store: &str, metric: &str) -> Option<&Row> {
        self.rows.iter().find(|row| {
            row.suite == suite
                && row.workload == workload
                && row.store == store
                && row.metric == metric
        })
    }
}
