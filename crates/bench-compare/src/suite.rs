//! Suites: which workloads at which sizes, by which kinds of stores, beside which limits.

use crate::limits;
use crate::load::{Load, Pace, Sets, Speech};
use crate::peer::Class;
use crate::work::Work;
use silica::Result;
use silica::engine::unknown;
use silica_bench::{Plan, Workload};

/// How much a run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Everything, in less than an hour.
    Full,
    /// The workloads that say most, in less than three minutes.
    Quick,
    /// Everything with a few keys: it runs, and times mean nothing.
    Toy,
}

impl Size {
    /// The word in `environment.json`.
    pub fn name(self) -> &'static str {
        match self {
            Size::Full => "full",
            Size::Quick => "quick",
            Size::Toy => "toy",
        }
    }

    /// Repetitions with fresh processes, of all rounds each, where none are asked for.
    pub fn repetitions(self) -> usize {
        match self {
            Size::Full => 2,
            Size::Quick | Size::Toy => 1,
        }
    }
}

/// One workload of a suite.
#[derive(Debug, Clone, Copy)]
pub struct Line {
    /// The name in the results.
    pub name: &'static str,
    /// The driver's workload.
    pub workload: &'static str,
    /// Bytes of key and value, where they are not the workload's own.
    pub shape: Option<(usize, usize)>,
    /// Threads that issue operations.
    pub threads: usize,
    /// Keys in one call.
    pub batch: usize,
    /// Writes survive a power cut.
    pub synced: bool,
    /// Nothing is warmed up.
    pub cold: bool,
    /// In a quick run, too.
    pub quick: bool,
    /// In a quick run of all suites, too.
    pub brief: bool,
    /// Many connections of one client instead of the workload, which is then only its like.
    pub load: Option<Load>,
    /// Limits beside it, each with the metric that bounds the throughput.
    pub limits: &'static [(&'static str, &'static str)],
}

/// A suite.
#[derive(Debug, Clone, Copy)]
pub struct Suite {
    /// The name on the command line.
    pub name: &'static str,
    /// What it is, in one line.
    pub doc: &'static str,
    /// The kind of stores; `None` where there are only limits.
    pub class: Option<Class>,
    /// In the order of the run; those of the same shape stand together.
    pub lines: &'static [Line],
}

const LINE: Line = Line {
    name: "",
    workload: "",
    shape: None,
    threads: 1,
    batch: 1,
    synced: false,
    cold: false,
    quick: false,
    brief: false,
    load: None,
    limits: &[],
};
/// Entries of about 1 KiB, as in YCSB and in SILT's evaluation.
const KIB: Line = Line { shape: Some((16, 1000)), ..LINE };
const QUICK: Line = Line { quick: true, ..KIB };
const BRIEF: Line = Line { brief: true, ..QUICK };

const fn line(workload: &'static str) -> Line {
    Line { name: workload, workload, ..LINE }
}

type Beside = &'static [(&'static str, &'static str)];
const READS: Beside = &[("device-reads", "reads_depth_1")];
const READS_32: Beside = &[("device-reads", "reads_depth_32")];
const SYNCS: Beside = &[("device-syncs", "syncs")];
const LINES: Beside = &[("memory-lines", "independent_4k")];
const LINES_32: Beside = &[("memory-lines", "batch_32_2m")];
const ECHO: Beside = &[("echo-tcp", "echoes_depth_1"), ("echo-unix", "echoes_depth_1")];
const ECHO_16: Beside = &[("echo-tcp", "echoes_depth_16"), ("echo-unix", "echoes_depth_16")];

const FLASH: &[Line] = &[
    Line { name: "fillrandom", workload: "fill", ..QUICK },
    Line { name: "readrandom", workload: "read", limits: READS, ..BRIEF },
    Line { name: "readrandom-cold", workload: "read", cold: true, limits: READS, ..KIB },
    Line { name: "readrandom-batch-32", workload: "read", batch: 32, limits: READS_32, ..QUICK },
    Line { name: "readmissing", workload: "read-missing", ..BRIEF },
    Line { name: "ycsb-a", workload: "ycsb-a", ..BRIEF },
    Line { name: "ycsb-b", workload: "ycsb-b", ..KIB },
    Line { name: "ycsb-c", workload: "ycsb-c", ..KIB },
    Line { name: "ycsb-d", workload: "ycsb-d", ..KIB },
    Line { name: "ycsb-f", workload: "ycsb-f", ..KIB },
    Line { name: "mixed", workload: "mixed", ..KIB },
    Line { name: "readwhilewriting", workload: "readwhilewriting", threads: 2, ..KIB },
    Line { name: "timeline", workload: "timeline", threads: 2, ..KIB },
    Line { name: "overwrite", workload: "overwrite", ..BRIEF },
    Line { name: "overwrite-batch-32", workload: "overwrite", batch: 32, ..KIB },
    Line { name: "overwrite-synced", workload: "overwrite", synced: true, limits: SYNCS, ..KIB },
    line("silt-10-90"),
    line("silt-50-50-large"),
    line("silt-10-90-small"),
    line("silt-50-50"),
    line("facebook-get"),
    line("facebook-set"),
    line("sqlitekv-update-heavy"),
    line("sqlitekv-read-most"),
    line("sqlitekv-read-heavy"),
    line("sqlitekv-read-latest"),
];

/// Rows that a statement of SQLite holds in SQLiteKV's evaluation.
const STATEMENT: usize = 999;

const ORDERED: &[Line] = &[
    Line { name: "dbbench-fillrandom", workload: "fillrandom", quick: true, ..LINE },
    line("overwrite"),
    Line { name: "overwrite-synced", workload: "overwrite", synced: true, ..LINE },
    Line { name: "overwrite-synced-8", workload: "overwrite", synced: true, threads: 8, ..LINE },
    Line { name: "readrandom", workload: "read", ..LINE },
    Line { name: "readrandom-cold", workload: "read", cold: true, limits: READS, ..LINE },
    Line { name: "readmissing", workload: "read-missing", ..LINE },
    Line { name: "seekrandom", workload: "seekrandom", quick: true, brief: true, ..LINE },
    Line { name: "seekrandom-cold", workload: "seekrandom", cold: true, ..LINE },
    line("ycsb-a"),
    line("ycsb-b"),
    line("ycsb-c"),
    line("ycsb-d"),
    Line { name: "ycsb-e", workload: "ycsb-e", quick: true, ..LINE },
    line("ycsb-f"),
    Line { threads: 2, quick: true, ..line("wipdb-readwhilewriting") },
    Line { threads: 2, ..line("wipdb-readwhilewriting-exponential") },
    line("wipdb-regions"),
    Line { batch: STATEMENT, ..line("sqlitekv-insert-random") },
    Line { batch: STATEMENT, ..line("sqlitekv-query-random") },
    Line { batch: STATEMENT, ..line("sqlitekv-insert-sequential") },
    Line { batch: STATEMENT, ..line("sqlitekv-query-sequential") },
    Line { batch: STATEMENT, ..line("sqlitekv-delete") },
    Line { batch: STATEMENT, ..line("sqlitekv-insert-random-sizes") },
    Line { batch: STATEMENT, ..line("sqlitekv-query-random-sizes") },
    Line { batch: STATEMENT, ..line("sqlitekv-insert-sequential-sizes") },
    Line { batch: STATEMENT, ..line("sqlitekv-query-sequential-sizes") },
];

const MEMORY: &[Line] = &[
    line("mica-tiny-50"),
    line("mica-tiny-95"),
    Line { quick: true, ..line("mica-small-50") },
    Line { quick: true, brief: true, ..line("mica-small-95") },
    Line { name: "mica-small-50-2-threads", threads: 2, quick: true, ..line("mica-small-50") },
    Line { name: "mica-small-95-2-threads", threads: 2, quick: true, ..line("mica-small-95") },
    Line { name: "mica-small-95-batch-32", batch: 32, limits: LINES_32, ..line("mica-small-95") },
    Line {
        name: "read-tiny-batch-32",
        workload: "read",
        shape: Some((8, 8)),
        batch: 32,
        quick: true,
        limits: LINES_32,
        ..LINE
    },
    line("mica-large-50"),
    line("mica-large-95"),
    Line { quick: true, ..line("turbohash-insert") },
    Line { quick: true, brief: true, limits: LINES, ..line("turbohash-positive") },
    line("turbohash-negative"),
    line("turbohash-update"),
    line("turbohash-delete"),
];

/// What memcached and Redis are measured with most often.
const SMALL: Line = Line { shape: Some((16, 64)), ..LINE };

/// 32 connections, with so many requests of each under way.
const fn load(name: &'static str, speech: Speech, depth: usize) -> Line {
    let load = Some(Load { speech, connections: 32, depth, pace: Pace::Peak, sets: Sets::Few });
    Line { name, workload: "mica-small-95", load, quick: true, ..SMALL }
}

/// The smallest entries, of which each byte of a server's memory counts.
const TINY_SHAPE: Option<(usize, usize)> = Some((8, 8));

/// One request of each at a time, half as often as the server could answer.
const HALF_LOAD: Load = Load {
    speech: Speech::Resp,
    connections: 32,
    depth: 1,
    pace: Pace::HalfOfPeak,
    sets: Sets::Few,
};

/// Beside requests of one key each, the echo at that depth.
const TRAINS_1: Beside = &[("echo-tcp-uring-32", "echoes_depth_1")];
const TRAINS_16: Beside = &[("echo-tcp-uring-32", "echoes_depth_16")];
const TRAINS_64: Beside = &[("echo-tcp-uring-32", "echoes_depth_64")];

/// Entries of 8 + 8 bytes, so many requests of each datagram.
const fn datagrams(name: &'static str, requests: usize, limits: Beside) -> Line {
    let load = Some(Load::datagrams(requests));
    let shape = Some((8, 8));
    Line { name, workload: "mica-tiny-95", shape, load, quick: true, limits, ..LINE }
}

const ANSWERS_TEXT: Beside =
    &[("echo-udp-load", "text_gets"), ("echo-udp-load", "text_gets_joined")];
const ANSWERS_1: Beside = &[("echo-udp-load", "gets_by_1")];
const ANSWERS_16: Beside = &[("echo-udp-load", "gets_by_16")];

const SERVER: &[Line] = &[
    datagrams("datagram-95-5", 1, ANSWERS_1),
    datagrams("datagram-95-5-by-16", 16, ANSWERS_16),
    Line {
        name: "text-udp-95-5",
        workload: "mica-small-95",
        load: Some(Load::TEXT_DATAGRAMS),
        quick: true,
        limits: ANSWERS_TEXT,
        ..SMALL
    },
    Line { limits: TRAINS_1, ..load("resp-95-5-depth-1", Speech::Resp, 1) },
    Line { limits: TRAINS_16, ..load("resp-95-5-depth-16", Speech::Resp, 16) },
    Line { limits: TRAINS_64, ..load("resp-95-5-depth-64", Speech::Resp, 64) },
    Line { load: Some(HALF_LOAD), ..load("resp-95-5-half-load", Speech::Resp, 1) },
    Line { limits: TRAINS_16, ..load("text-95-5-depth-16", Speech::Text, 16) },
    load("text-multiget-100", Speech::TextMultiget(100), 1),
    Line { shape: TINY_SHAPE, quick: false, ..load("resp-95-5-tiny", Speech::Resp, 16) },
    Line { shape: TINY_SHAPE, quick: false, ..load("text-95-5-tiny", Speech::Text, 16) },
    Line { name: "get", workload: "read", quick: true, brief: true, limits: ECHO, ..SMALL },
    Line { name: "get-missing", workload: "read-missing", ..SMALL },
    Line {
        name: "get-batch-16",
        workload: "read",
        batch: 16,
        quick: true,
        limits: ECHO_16,
        ..SMALL
    },
    Line { name: "set", workload: "overwrite", quick: true, brief: true, ..SMALL },
    Line { name: "set-batch-16", workload: "overwrite", batch: 16, ..SMALL },
    Line { name: "get-8-clients", workload: "read", threads: 8, ..SMALL },
    Line { name: "mica-small-95", workload: "mica-small-95", ..SMALL },
];

const fn rows(name: &'static str, workload: &'static str, value_bytes: usize) -> Line {
    Line { name, workload, shape: Some((16, value_bytes)), ..LINE }
}

const SQL: &[Line] = &[
    Line { quick: true, ..rows("insert-random-64", "sqlitekv-insert-random", 64) },
    rows("insert-random-1k", "sqlitekv-insert-random", 1024),
    rows("insert-random-4k", "sqlitekv-insert-random", 4096),
    Line { quick: true, ..rows("insert-sequential-64", "sqlitekv-insert-sequential", 64) },
    rows("insert-sequential-1k", "sqlitekv-insert-sequential", 1024),
    Line { synced: true, batch: 999, ..rows("insert-synced-by-999", "sqlitekv-insert-random", 64) },
    Line { synced: true, quick: true, ..rows("update-synced", "overwrite", 64) },
    Line { synced: true, threads: 8, ..rows("update-synced-8-threads", "overwrite", 64) },
    Line { quick: true, ..rows("query-random-64", "sqlitekv-query-random", 64) },
    Line { threads: 8, ..rows("query-random-8-threads", "sqlitekv-query-random", 64) },
    rows("query-random-1k", "sqlitekv-query-random", 1024),
    rows("query-random-4k", "sqlitekv-query-random", 4096),
    rows("delete-64", "sqlitekv-delete", 64),
    Line { quick: true, ..line("sqlitekv-update-heavy") },
    line("sqlitekv-read-most"),
    line("sqlitekv-read-heavy"),
    line("sqlitekv-read-latest"),
    Line { quick: true, ..rows("scan", "ycsb-e", 64) },
];

/// Every suite; `all` stands for all of them.
pub const SUITES: &[Suite] = &[
    Suite { name: "limits", doc: "what device, memory and sockets allow", class: None, lines: &[] },
    Suite {
        name: "flash",
        doc: "point operations on stores that keep their data on a device",
        class: Some(Class::Embedded),
        lines: FLASH,
    },
    Suite {
        name: "ordered",
        doc: "scans and mixed work on stores that keep the order of keys",
        class: Some(Class::Embedded),
        lines: ORDERED,
    },
    Suite {
        name: "sql",
        doc: "a table under SQL, on our storage and on SQLite's",
        class: Some(Class::Sql),
        lines: SQL,
    },
    Suite {
        name: "memory",
        doc: "tables and caches in this process's memory",
        class: Some(Class::Memory),
        lines: MEMORY,
    },
    Suite {
        name: "server",
        doc: "servers in processes of their own, over sockets",
        class: Some(Class::Server),
        lines: SERVER,
    },
];

/// Suites with a way of their own, each its function of this crate. `all` has none of them.
pub const OWN_WAYS: [&str; 5] = ["scaling", "cache", "types", "agreement", "slots"];

/// The suites that `name` stands for; the error lists those there are.
pub(crate) fn find(name: &str) -> Result<Vec<&'static Suite>> {
    if name == "all" {
        return Ok(SUITES.iter().collect());
    }
    let known = SUITES.iter().map(|suite| suite.name).chain(["all"]).chain(OWN_WAYS);
    let found = SUITES.iter().find(|suite| suite.name == name);
    Ok(vec![found.ok_or_else(|| unknown("suite", name, known))?])
}

/// Sizes of a run, before anybody changes them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sizes {
    /// Live bytes of a store on a device, at most.
    pub data_bytes: u64,
    /// Keys, at most.
    pub keys_max: u64,
    /// Memory of a store on a device; others have as much as they need.
    pub memory_bytes: u64,
    /// Operations of the measured part per key.
    pub operations_per_key: u64,
    /// Operations whose answers are compared, before the measured part.
    pub check_operations: u64,
}

/// Of the operations of other workloads, synced ones do one in so many.
const SYNCED_SHARE: u64 = 20;
const SYNCED_OPERATIONS_MIN: u64 = 20;
const MIB: u64 = 1 << 20;

impl Size {
    /// The sizes for stores of `class`.
    pub fn sizes(self, class: Class) -> Sizes {
        match self {
            Size::Full => Sizes {
                data_bytes: 512 * MIB,
                keys_max: if class == Class::Server { 500_000 } else { 2_000_000 },
                memory_bytes: 128 * MIB,
                operations_per_key: 100,
                check_operations: 20_000,
            },
            Size::Quick => Sizes {
                data_bytes: 128 * MIB,
                keys_max: if class == Class::Server { 100_000 } else { 500_000 },
                memory_bytes: 32 * MIB,
                operations_per_key: 100,
                check_operations: 2000,
            },
            Size::Toy => Sizes {
                data_bytes: MIB / 4,
                keys_max: 1000,
                memory_bytes: 64 * MIB,
                operations_per_key: 2,
                check_operations: 300,
            },
        }
    }
}

impl Line {
    fn found(&self) -> &'static Workload {
        Workload::find(self.workload).expect("a test looks every one of them up")
    }

    /// True where it starts with an empty store.
    pub(crate) fn starts_empty(&self) -> bool {
        self.found().is_fill()
    }

    /// True where both start with the same contents.
    pub(crate) fn filled_like(&self, other: &Line) -> bool {
        let contents = |line: &Line| {
            let workload = line.found();
            let shape = (workload.shape.key_bytes, workload.shape.value_bytes);
            (line.shape.unwrap_or(shape), workload.sizes, workload.layout)
        };
        contents(self) == contents(other)
    }

    /// What a cell does: `keys` where they are given, else as many as the sizes allow.
    pub(crate) fn work(&self, sizes: &Sizes, keys: Option<u64>) -> Result<Work> {
        let plan = Plan::new(self.workload)?;
        let shape = (plan.shape.key_bytes, plan.shape.value_bytes);
        let (key_bytes, value_bytes) = self.shape.unwrap_or(shape);
        let entry_bytes = key_bytes as f64 + plan.workload.sizes.mean_bytes(value_bytes);
        let fitting = (sizes.data_bytes as f64 / entry_bytes) as u64;
        let keys = keys.unwrap_or(fitting.clamp(100, sizes.keys_max));
        // Keys are put or deleted once; everything else goes on until its time is over.
        let once = plan.workload.is_fill() || plan.workload.deletes > 0;
        let operations = match self.synced {
            _ if once => keys,
            // Each waits for the device.
            true => (keys * sizes.operations_per_key / SYNCED_SHARE).max(SYNCED_OPERATIONS_MIN),
            false => keys * sizes.operations_per_key,
        };
        Ok(Work {
            workload: plan.workload.name.to_string(),
            keys,
            operations,
            key_bytes,
            value_bytes,
            threads: self.threads,
            synced: self.synced,
            distribution: match self.load {
                Some(_) => "uniform".to_string(),
                None => plan.distribution.name().to_string(),
            },
            batch: self.batch,
            rate: plan.rate,
            seed: 1,
            load: self.load,
        })
    }

    /// The limits beside it that exist.
    pub(crate) fn limits(&self) -> Vec<(String, String)> {
        let known = self.limits.iter().filter(|(name, _)| limits::find(name).is_ok());
        known.map(|(name, metric)| (format!("limit:{name}"), (*metric).to_string())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_bench::WORKLOADS;

    #[test]
    fn every_line_has_work_at_every_size_and_a_name_of_its_own() {
        for suite in SUITES {
            let mut names = Vec::new();
            for line in suite.lines {
                assert!(!names.contains(&line.name), "{} twice in {}", line.name, suite.name);
                names.push(line.name);
                for size in [Size::Full, Size::Quick, Size::Toy] {
                    let sizes = size.sizes(suite.class.unwrap());
                    let work = line.work(&sizes, None).unwrap();
                    work.plan().unwrap();
                    assert!(work.keys >= 100 && work.operations >= 20, "{work:?}");
                }
                assert_eq!(line.limits().len(), line.limits.len(), "{}", line.name);
            }
        }
    }

    #[test]
    fn every_workload_is_in_a_suite() {
        for workload in WORKLOADS {
            let mut lines = SUITES.iter().flat_map(|suite| suite.lines);
            assert!(lines.any(|line| line.workload == workload.name), "{}", workload.name);
        }
    }

    #[test]
    fn unknown_suites_name_the_known() {
        let error = find("flesh").unwrap_err().to_string();
        assert!(error.contains("flash") && error.contains("all"), "{error}");
        assert!(OWN_WAYS.iter().all(|name| error.contains(name)), "{error}");
        assert_eq!(find("all").unwrap().len(), SUITES.len());
    }
}
