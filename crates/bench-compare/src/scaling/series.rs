//! One store with one number of threads, in a process of its own.

use crate::load::Sets;
use crate::peer::{Class, Peer, Setup};
use crate::peers::{self, Scaled};
use crate::performed;
use crate::work::Work;
use serde::{Deserialize, Serialize};
use silica::{Durability, Error, ErrorKind, Result};
use silica_bench::{Plan, Target, drive};
use std::path::PathBuf;
use std::time::Duration;

/// One workload.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    /// The name in the results.
    pub(super) name: &'static str,
    /// The driver's workload.
    workload: &'static str,
    /// Keys of one call.
    batch: usize,
    /// Writes survive a power cut.
    synced: bool,
    /// What a load on a server sets.
    sets: Sets,
}

const LINE: Line = Line { name: "", workload: "", batch: 1, synced: false, sets: Sets::None };

/// In the order of the run, which begins with an empty store.
const EMBEDDED: &[Line] = &[
    Line { name: "put", workload: "fill", ..LINE },
    Line { name: "get", workload: "read", ..LINE },
    Line { name: "mixed", workload: "ycsb-a", ..LINE },
    Line { name: "overwrite", workload: "overwrite", ..LINE },
    Line { name: "synced-put", workload: "overwrite", synced: true, ..LINE },
];
const MEMORY: &[Line] = &[
    Line { name: "put", workload: "fill", ..LINE },
    Line { name: "get", workload: "read", ..LINE },
    Line { name: "95-burst-1", workload: "mica-small-95", ..LINE },
    Line { name: "95-burst-4", workload: "mica-small-95", batch: 4, ..LINE },
    Line { name: "95-burst-16", workload: "mica-small-95", batch: 16, ..LINE },
    Line { name: "overwrite", workload: "overwrite", ..LINE },
];
const SERVER: &[Line] = &[
    Line { name: "server-get", workload: "read", ..LINE },
    Line { name: "server-set", workload: "overwrite", sets: Sets::All, ..LINE },
    Line {
        name: "server-synced-set",
        workload: "overwrite",
        synced: true,
        sets: Sets::All,
        ..LINE
    },
];

/// Bytes of key and value.
const EMBEDDED_SHAPE: (usize, usize) = (16, 100);
const MEMORY_SHAPE: (usize, usize) = (16, 64);
/// Memory of a table or a server: so many times its live bytes, so much for a key, and as much at
/// least.
const MEMORY_FACTOR: u64 = 4;
const MEMORY_BESIDE: u64 = 128;
const MEMORY_FLOOR: u64 = 64 << 20;
/// Before gets, each key is asked for once, in bursts, but for no longer than so many seconds.
const WARM_UP_BURST: usize = 64;
const WARM_UP_SECONDS_MAX: f64 = 3.0;
/// A run ends with its time, or with so many operations for each key where it has none.
const OPERATIONS_MAX: u64 = 1 << 40;
const OPERATIONS_OF_KEY: u64 = 2;
/// Of the keys, so many synced operations where there is no time.
const SYNCED_SHARE: u64 = 20;

/// The workloads of stores of `class`.
pub(super) fn lines(class: Class) -> impl Iterator<Item = &'static Line> {
    match class {
        Class::Embedded | Class::Sql => EMBEDDED,
        Class::Memory => MEMORY,
        Class::Server => SERVER,
    }
    .iter()
}

/// What a process is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Series {
    /// Name of the peer.
    pub(super) store: String,
    /// Threads that issue operations, or threads of a server.
    pub(super) threads: usize,
    /// Threads that load a server.
    pub(super) clients: usize,
    pub(super) keys: u64,
    pub(super) seconds: f64,
    /// Memory of a store on a device.
    pub(super) memory_bytes: u64,
    /// Options of a store of ours.
    pub(super) set: Vec<(String, String)>,
    /// Where the store lies; made by the series.
    pub(super) directory: PathBuf,
    /// Names of workloads.
    pub(super) workloads: Vec<String>,
}

/// What one workload gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Figure {
    pub(super) workload: String,
    /// Operations a second, or why there are none.
    pub(super) rate: std::result::Result<f64, String>,
}

/// Reads a series from standard input, performs it and tells each figure as it comes: the body of
/// the hidden command `silica-lab bench scaling-series`.
pub fn serve_series() -> Result<()> {
    let series: Series = performed::read_work("series")?;
    series.perform(&mut |figure| performed::tell(&figure))
}

type Tell<'a> = dyn FnMut(Figure) -> Result<()> + 'a;

impl Series {
    /// Performs all workloads in their order; each figure goes to `tell`.
    pub(super) fn perform(&self, tell: &mut Tell<'_>) -> Result<()> {
        let peer = peers::find(&self.store)?;
        std::fs::create_dir_all(&self.directory)
            .map_err(|e| Error::io(format!("creating {}", self.directory.display()), e))?;
        match peer.class() {
            Class::Server => self.perform_server(tell),
            _ => self.perform_store(peer, tell),
        }
    }

    fn is_wanted(&self, line: &Line) -> bool {
        self.workloads.iter().any(|name| name == line.name)
    }

    fn plan(&self, line: &Line, class: Class) -> Result<Plan> {
        let (key_bytes, value_bytes) = match class {
            Class::Embedded | Class::Sql => EMBEDDED_SHAPE,
            Class::Memory | Class::Server => MEMORY_SHAPE,
        };
        let is_fill = line.workload == "fill";
        let work = Work {
            workload: line.workload.to_string(),
            keys: self.keys,
            operations: match self.seconds > 0.0 {
                _ if is_fill => self.keys,
                true => OPERATIONS_MAX,
                // Each waits for the device.
                false if line.synced => self.keys / SYNCED_SHARE + 1,
                false => OPERATIONS_OF_KEY * self.keys,
            },
            key_bytes,
            value_bytes,
            threads: if class == Class::Server { 1 } else { self.threads },
            synced: line.synced,
            distribution: Plan::new(line.workload)?.distribution.name().to_string(),
            batch: line.batch,
            rate: 0,
            seed: 1,
            load: None,
        };
        let seconds_max = if is_fill { 0.0 } else { self.seconds };
        Ok(Plan { seconds_max, ..work.plan()? })
    }

    fn setup(&self, plan: Plan, class: Class) -> Setup {
        let live = self.keys * (plan.shape.key_bytes + plan.shape.value_bytes) as u64;
        let memory_bytes = match class {
            Class::Embedded | Class::Sql => self.memory_bytes,
            Class::Memory | Class::Server => {
                live * MEMORY_FACTOR + self.keys * MEMORY_BESIDE + MEMORY_FLOOR
            }
        };
        Setup {
            directory: self.directory.clone(),
            memory_bytes,
            level_bytes: Vec::new(),
            compaction_priority: None,
            server_threads: (class == Class::Server).then_some(self.threads),
            set: self.set.clone(),
            plan,
        }
    }

    fn perform_store(&self, peer: &dyn Peer, tell: &mut Tell<'_>) -> Result<()> {
        let class = peer.class();
        let mut lines = lines(class);
        let fill = lines.next().expect("a store is filled first");
        let plan = self.plan(fill, class)?;
        let setup = self.setup(plan.clone(), class);
        peer.check_room(&setup)?;
        let target = peer.open(&setup)?;
        let filled = drive(&plan, &*target, fill.name, &mut |_, _| {})?;
        if self.is_wanted(fill) {
            let rate = Ok(filled.tally.operations as f64 / filled.seconds);
            tell(Figure { workload: fill.name.to_string(), rate })?;
        }
        target.sync()?;
        for line in lines.filter(|line| self.is_wanted(line)) {
            let rate = self.measure(line, class, &*target).map_err(|e| e.to_string());
            tell(Figure { workload: line.name.to_string(), rate })?;
        }
        Ok(())
    }

    /// Operations a second of one workload on a filled store.
    fn measure(&self, line: &Line, class: Class, target: &dyn Target) -> Result<f64> {
        target.settle()?;
        let plan = self.plan(line, class)?;
        if line.workload == "read" && class == Class::Embedded {
            let warm = Plan {
                batch: WARM_UP_BURST,
                operations: self.keys,
                seconds_max: WARM_UP_SECONDS_MAX,
                ..plan.clone()
            };
            drive(&warm, target, "warm-up", &mut |_, _| {})?;
        }
        let run = drive(&plan, target, line.name, &mut |_, _| {})?;
        Ok(run.tally.operations as f64 / run.seconds)
    }

    /// Servers are told at their start whether writes are synced.
    fn perform_server(&self, tell: &mut Tell<'_>) -> Result<()> {
        for synced in [false, true] {
            let wanted = |line: &&Line| line.synced == synced && self.is_wanted(line);
            let mut server = None;
            for line in lines(Class::Server).filter(wanted) {
                let rate = self.measure_server(line, &mut server).map_err(|e| e.to_string());
                tell(Figure { workload: line.name.to_string(), rate })?;
            }
        }
        Ok(())
    }

    fn measure_server(&self, line: &Line, server: &mut Option<Scaled>) -> Result<f64> {
        let class = Class::Server;
        let server = match server {
            Some(server) => server,
            None => {
                let durability =
                    if line.synced { Durability::Synced } else { Durability::Buffered };
                let plan = Plan { durability, ..self.plan(line, class)? };
                let setup = self.setup(plan, class);
                let _ = std::fs::remove_dir_all(&setup.directory);
                std::fs::create_dir_all(&setup.directory)
                    .map_err(|e| Error::io(format!("creating {}", setup.directory.display()), e))?;
                server.insert(Scaled::open(&self.store, &setup)?)
            }
        };
        if line.synced && !server.has_synced_writes() {
            let message = "it has no synced writes".to_string();
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let time = Duration::from_secs_f64(self.seconds);
        let done = server.measure(self.clients, line.sets, time)?;
        Ok(done.operations as f64 / done.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_tells_a_figure_of_each_workload() {
        for (store, count) in [("silica:wip", EMBEDDED.len()), ("papaya", MEMORY.len())] {
            let directory = tempfile::tempdir().unwrap();
            let class = peers::find(store).unwrap().class();
            let series = Series {
                store: store.to_string(),
                threads: 2,
                clients: 1,
                keys: 500,
                seconds: 0.0,
                memory_bytes: 64 << 20,
                set: Vec::new(),
                directory: directory.path().join("store"),
                workloads: lines(class).map(|line| line.name.to_string()).collect(),
            };
            let mut told = Vec::new();
            series
                .perform(&mut |figure| {
                    told.push(figure);
                    Ok(())
                })
                .unwrap();
            assert_eq!(told.len(), count, "{told:?}");
            assert!(told.iter().all(|f| f.rate.as_ref().is_ok_and(|r| *r > 0.0)), "{told:?}");
        }
    }
}
