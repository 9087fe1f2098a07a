//! Reads while another thread writes (Figure 2.8 and Table 2.1 of Zhao's chapter on WipDB), with
//! and without compactions that follow the reads.

use super::course::{Point, course, slice, thinned};
use super::job::{Scheme, Stores, driven, read_us, scheme};
use super::sheet::{Drawing, Sheet, drawing};
use silica::Result;
use silica_bench::Plan;

/// Without the read-aware rule: WipDB-DRC.
const WITHOUT: Scheme = Scheme {
    name: "wip without the read-aware rule",
    peer: "silica:wip",
    set: &[("read_weight", "0")],
    priority: None,
};
const SCHEMES: [Scheme; 4] = [scheme("silica:wip"), WITHOUT, scheme("rocksdb"), scheme("leveldb")];
/// Readers, gets and writes: name, workload, and the paper's 99th percentiles in us.
const LOADS: [(&str, &str, [f64; 4]); 2] = [
    ("uniform", "wipdb-readwhilewriting", [365.0, 439.0, 765.0, 526.0]),
    ("exponential", "wipdb-readwhilewriting-exponential", [190.0, 247.0, 293.0, 249.0]),
];
const POINTS: usize = 20;

pub(super) const DRAWINGS: [Drawing; 2] = [
    Drawing {
        file: "figure-2.8a",
        metric: "uniform",
        ..drawing(
            "figure-2.8",
            "Uniform gets while 150,000 a second are put",
            "entries put",
            "gets a second",
        )
    },
    Drawing {
        file: "figure-2.8b",
        metric: "exponential",
        ..drawing(
            "figure-2.8",
            "Exponential gets while 150,000 a second are put",
            "entries put",
            "gets a second",
        )
    },
];

/// Both loads of all stores, each twice: once cut into slices for the curve, once whole for the
/// latencies.
pub(super) fn add(stores: &Stores, (keys, seed): (u64, u64), sheet: &mut Sheet) -> Result<()> {
    for scheme in stores.installed(&SCHEMES, sheet)? {
        let number = SCHEMES.iter().position(|other| other.name == scheme.name).unwrap_or(0);
        for (name, workload, papers) in LOADS {
            let plan = Plan::new(workload)?;
            let threads = std::thread::available_parallelism().map_or(2, usize::from).max(2);
            let plan = Plan { keys, operations: keys, threads, seed, ..plan };
            let (points, run) = stores.filled(&scheme, &plan, |target| {
                let rate = plan.rate.max(1) as f64;
                let points = course(&plan, target, slice(&plan, rate, POINTS as f64))?;
                target.settle()?;
                Ok((points, driven(&Plan { seed: seed + 1, ..plan.clone() }, target)?))
            })?;
            for point in thinned(&points, POINTS) {
                let Point { puts, gets_rate, .. } = point;
                let metric = format!("{puts:.0} entries, {name}: gets/s");
                sheet.add("figure-2.8", scheme.name, metric, gets_rate, None);
            }
            let seconds = run.wall_seconds.max(1e-9);
            let mut row = |metric: &str, value: f64, paper: Option<f64>| {
                sheet.add("table-2.1", scheme.name, format!("{name}: {metric}"), value, paper);
            };
            row("gets/s", run.tally.reads as f64 / seconds, None);
            row("puts/s", run.tally.puts as f64 / seconds, Some(150_000.0));
            row("get, 99 %, us", read_us(&run, 0.99), Some(papers[number]));
        }
    }
    Ok(())
}
