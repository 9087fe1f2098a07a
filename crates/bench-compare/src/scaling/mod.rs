//! How stores grow with threads: each does the same work with 1, 2, 4 and more of them.
//!
//! A *series* is one store with one number of threads. It happens in a process of its own, which
//! fills an empty store and then does one workload after the other on it; stores take turns at each
//! number of threads. A series that fails is told with its reason, and the others go on.

mod report;
mod series;

pub use report::{ScalingReport, ScalingRow};
pub use series::serve_series;

use crate::machine;
use crate::peer::{Class, Peer};
use crate::peers;
use crate::performed;
use crate::results::Remark;
use crate::suite::Size;
use series::{Line, Series};
use silica::{Error, ErrorKind, Result};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Stores that take part unless others are named.
const STORES: &[&str] = &[
    "silica:wip",
    "silica:silt",
    "rocksdb",
    "lmdb",
    "redb",
    "silica:mica",
    "silica:mica-store",
    "hashbrown",
    "dashmap",
    "scc",
    "papaya",
    "silica:tcp",
    "silica:cache",
    "redis:tcp",
    "memcached:tcp",
];
const CLASSES: [Class; 3] = [Class::Embedded, Class::Memory, Class::Server];
const MIB: u64 = 1 << 20;

/// What is compared.
#[derive(Debug, Clone)]
pub struct ScalingRequest {
    /// How much is done.
    pub size: Size,
    /// Only these stores, where any are named.
    pub peers: Vec<String>,
    /// Only these workloads, where any are named.
    pub workloads: Vec<String>,
    /// Numbers of threads, rising.
    pub threads: Vec<usize>,
    /// Keys in each store.
    pub keys: Option<u64>,
    /// Memory of each store on a device.
    pub memory_bytes: Option<u64>,
    /// Seconds of each workload; 0 for as many operations as two for each key.
    pub seconds: Option<f64>,
    /// Threads that load a server.
    pub clients: Option<usize>,
    /// Options of stores of ours.
    pub set: Vec<(String, String)>,
}

/// A run.
pub struct ScalingRun {
    /// What is compared.
    pub request: ScalingRequest,
    /// Directory for results.
    pub out: PathBuf,
    /// Directory below which stores lie, where it is not `out`.
    pub stores: Option<PathBuf>,
    /// Program and arguments that perform a series.
    pub child: Vec<OsString>,
}

/// 1, 2, 4 and so on up to `most`, and `most` itself.
pub fn thread_counts(most: usize) -> Vec<usize> {
    let doubled = std::iter::successors(Some(1usize), |count| count.checked_mul(2));
    let mut counts: Vec<usize> = doubled.take_while(|count| *count < most).collect();
    counts.push(most.max(1));
    counts
}

impl ScalingRequest {
    fn keys(&self) -> u64 {
        let usual = match self.size {
            Size::Full => 1_000_000,
            Size::Quick => 200_000,
            Size::Toy => 1000,
        };
        self.keys.unwrap_or(usual).max(1)
    }

    fn memory_bytes(&self) -> u64 {
        let usual = match self.size {
            Size::Full => 512 * MIB,
            Size::Quick => 128 * MIB,
            Size::Toy => 64 * MIB,
        };
        self.memory_bytes.unwrap_or(usual)
    }

    fn seconds(&self) -> f64 {
        let usual = match self.size {
            Size::Full => 2.0,
            Size::Quick => 0.5,
            Size::Toy => 0.0,
        };
        self.seconds.unwrap_or(usual)
    }

    /// How long a series may take: slow stores wait for their background work, too.
    fn limit(&self) -> Duration {
        Duration::from_secs_f64(120.0 + 30.0 * self.seconds() + self.keys() as f64 / 5000.0)
    }

    /// Half of the cores, and one less, so that servers find cores beside their clients.
    fn clients(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.clients.unwrap_or((cores / 2).saturating_sub(1)).max(1)
    }

    fn is_wanted(&self, line: &Line) -> bool {
        self.workloads.is_empty() || self.workloads.iter().any(|name| name == line.name)
    }

    fn check(&self) -> Result<()> {
        let wrong = |message| Err(Error::new(ErrorKind::Config, message));
        for name in &self.peers {
            peers::find(name)?;
        }
        let known = || CLASSES.into_iter().flat_map(series::lines);
        for name in &self.workloads {
            if !known().any(|line| line.name == name) {
                let names: Vec<_> = known().map(|line| line.name).collect();
                return wrong(format!("no workload '{name}'; known are {}", names.join(", ")));
            }
        }
        let are_there = self.threads.iter().all(|count| (1..=1024).contains(count));
        match are_there && !self.threads.is_empty() && self.seconds() >= 0.0 {
            true => Ok(()),
            false => wrong("1 to 1024 threads and 0 seconds or more are needed".to_string()),
        }
    }

    /// Stores of `class` that take part; those that are not installed go to `missing`.
    fn stores(&self, class: Class, missing: &mut Vec<Remark>) -> Vec<&'static dyn Peer> {
        let asked: Vec<&str> = match self.peers.is_empty() {
            true => STORES.to_vec(),
            false => self.peers.iter().map(String::as_str).collect(),
        };
        let named = asked.into_iter().filter_map(|name| peers::find(name).ok());
        let mut stores = Vec::new();
        for peer in named.filter(|peer| peer.class() == class) {
            match peer.version() {
                Ok(_) => stores.push(peer),
                Err(why) => missing.push(Remark {
                    suite: "scaling".to_string(),
                    workload: String::new(),
                    store: peer.name().to_string(),
                    text: why.to_string(),
                }),
            }
        }
        stores
    }
}

/// Told of each series: how many are done, of how many, and which comes next.
pub type ScalingProgress<'a> = dyn FnMut(usize, usize, &str) + 'a;

/// Performs `run`; an interruption ends it with what was measured.
pub fn scaling(
    run: &ScalingRun,
    interrupted: &AtomicBool,
    progress: &mut ScalingProgress<'_>,
) -> Result<ScalingReport> {
    let request = &run.request;
    request.check()?;
    let base = run.stores.as_ref().unwrap_or(&run.out);
    let directory = base.join(format!("scaling-{}", std::process::id()));
    for made in [&run.out, &directory] {
        std::fs::create_dir_all(made)
            .map_err(|e| Error::io(format!("creating {}", made.display()), e))?;
    }
    // Series have a working directory of their own.
    let directory = directory
        .canonicalize()
        .map_err(|e| Error::io(format!("looking at {}", directory.display()), e))?;
    let mut report = ScalingReport {
        machine: machine::describe(&directory),
        date: machine::date(),
        threads: request.threads.clone(),
        keys: request.keys(),
        memory_bytes: request.memory_bytes(),
        clients: request.clients(),
        rows: Vec::new(),
        missing: Vec::new(),
        files: Vec::new(),
    };
    let mut all = Vec::new();
    for class in CLASSES {
        if series::lines(class).any(|line| request.is_wanted(line)) {
            let stores = request.stores(class, &mut report.missing);
            let turns = request.threads.iter().flat_map(|threads| {
                stores.iter().map(move |store| (class, store.name(), *threads))
            });
            all.extend(turns.collect::<Vec<_>>());
        }
    }
    let count = all.len();
    for (done, (class, store, threads)) in all.into_iter().enumerate() {
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
        progress(done, count, &format!("{store}, threads: {threads}"));
        let series = Series {
            store: store.to_string(),
            threads,
            clients: report.clients,
            keys: report.keys,
            seconds: request.seconds(),
            memory_bytes: report.memory_bytes,
            set: request.set.clone(),
            directory: directory.join("store"),
            workloads: series::lines(class)
                .filter(|line| request.is_wanted(line))
                .map(|line| line.name.to_string())
                .collect(),
        };
        let _ = std::fs::remove_dir_all(&series.directory);
        report.add(
            class,
            &series,
            performed::perform(&run.child, &series, request.limit(), interrupted),
        );
    }
    let _ = std::fs::remove_dir_all(&directory);
    report.write(&run.out)?;
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_double_up_to_the_most() {
        assert_eq!(thread_counts(16), [1, 2, 4, 8, 16]);
        assert_eq!(thread_counts(6), [1, 2, 4, 6]);
        assert_eq!((thread_counts(1), thread_counts(0)), (vec![1], vec![1]));
    }

    #[test]
    fn every_store_that_takes_part_is_known() {
        for name in STORES {
            let peer = peers::find(name).unwrap();
            assert!(series::lines(peer.class()).count() > 2, "{name}");
        }
    }
}
