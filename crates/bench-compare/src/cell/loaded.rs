//! A server under a load of many connections, in slices.

use super::{Cell, Outcome, QUANTILES};
use crate::load::Done;
use crate::peer::Setup;
use crate::peers::Loaded;
use crate::protocol::{Message, Order, Port, SliceReport};
use silica::{Error, ErrorKind, Result};
use silica_bench::memory::Process;
use std::time::Duration;

/// Before the measured part, which begins with warm caches.
const WARM_UP: Duration = Duration::from_millis(50);
/// A cell with less time has none at all.
const SECONDS_LEAST: f64 = 0.1;
const SLICE_MAX: Duration = Duration::from_secs(5);

/// Performs `cell`, whose work is a load.
pub(super) fn perform(
    cell: &Cell,
    setup: &Setup,
    port: &mut dyn Port,
    outcome: &mut Outcome,
) -> Result<()> {
    let Some(load) = &cell.work.load else { return Ok(()) };
    let mut loaded = match Loaded::open(&cell.store, setup, load) {
        Err(e) if e.kind() == ErrorKind::Unsupported => {
            outcome.lacks = Some(e.to_string());
            return Ok(());
        }
        loaded => loaded?,
    };
    let taken = loaded.process().resident_bytes() as f64;
    outcome.push("memory_bytes_per_key", "bytes/key", taken / setup.plan.keys as f64);
    loaded.slice(WARM_UP)?;
    let process = loaded.process();
    process.reset_peak();
    port.tell(Message::Ready)?;
    let mut all = Done::default();
    let mut busy_seconds = 0.0;
    let mut p99s = Vec::new();
    while let Order::Slice(seconds) = port.hear()? {
        let before = processor_seconds(process);
        let done = loaded.slice(Duration::from_secs_f64(seconds).min(SLICE_MAX))?;
        busy_seconds += processor_seconds(process) - before;
        let (operations, seconds) = (done.operations as f64, done.seconds);
        all.add(&done);
        p99s.push(done.latencies.quantile(0.99) as f64 / 1000.0);
        // A load has no end of its own; where it has no time it ends with its first slice.
        let complete = cell.seconds < SECONDS_LEAST || all.operations > cell.work.operations * 10;
        port.tell(Message::Slice(SliceReport { operations, seconds, complete }))?;
    }
    if all.operations == 0 {
        return Err(Error::new(ErrorKind::Io, "the load did nothing"));
    }
    tell(&all, busy_seconds, outcome);
    p99s.sort_by(f64::total_cmp);
    outcome.push("p99_us_of_rounds", "us", p99s[p99s.len() / 2]);
    outcome.push("rss_bytes_max", "bytes", process.peak_bytes() as f64);
    Ok(())
}

fn tell(all: &Done, busy_seconds: f64, outcome: &mut Outcome) {
    let us = |quantile| all.latencies.quantile(quantile) as f64 / 1000.0;
    let operations = all.operations as f64;
    outcome.push("operations", "ops", operations);
    outcome.push("seconds", "s", all.seconds);
    for (metric, quantile) in [("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999)] {
        outcome.push(metric, "us", us(quantile));
    }
    outcome.push("max_us", "us", all.latencies.max() as f64 / 1000.0);
    outcome.push("server_busy", "share", busy_seconds / all.seconds);
    outcome.push("client_idle", "share", all.idle_seconds / all.seconds);
    outcome.push("misses_per_million", "1e-6", 1e6 * all.misses as f64 / operations);
    if all.sent_again > 0 {
        outcome.push("sent_again", "datagrams", all.sent_again as f64);
    }
    outcome.curve = QUANTILES.iter().map(|q| (*q, us(*q))).collect();
}

/// Time that all threads of `process` have had on processors; 0 where the kernel does not tell.
fn processor_seconds(process: Process) -> f64 {
    let tasks = std::fs::read_dir(process.file("task")).into_iter().flatten().flatten();
    let times = tasks.filter_map(|task| {
        let told = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        told.split(' ').next()?.parse::<u64>().ok()
    });
    times.sum::<u64>() as f64 / 1e9
}
