//! What the instrument itself costs: drawing operations, and driving a store that does nothing.

use crate::distribution::{Chooser, Distribution};
use crate::driver::{drive, fill};
use crate::generator::Layout;
use crate::plan::Plan;
use crate::target::{Abilities, Session, Sink, Target};
use crate::window::{Drawer, Turn, Window, operations_max};
use serde::Serialize;
use silica::{Durability, Error, ErrorKind, MetricsMap, Result};
use silica_base::Prng;
use std::hint::black_box;
use std::time::Instant;

/// Nanoseconds of an operation at the speed that the instrument must be able to measure, 10
/// million a second.
const OPERATION_NS: f64 = 100.0;
/// Keys of the tiny set: enough for distributions to differ.
const KEYS: u64 = 1 << 20;
/// Operations of a round: short enough that other processes leave some rounds alone. The least
/// of all rounds is reported, for what others take is not the instrument's.
const ROUND_OPERATIONS: u64 = 50_000;

/// Costs of one operation on entries of 8 + 8 bytes, all in nanoseconds.
#[derive(Debug, Clone, Serialize)]
pub struct OverheadRow {
    /// The workload.
    pub workload: String,
    /// The distribution.
    pub distribution: String,
    /// Drawing it: kind, key, and value where it is put.
    pub draw_ns: f64,
    /// Drawing it and checking the answer: what a thread spends beside the measured time.
    pub apart_ns: f64,
    /// What a run on a store that does nothing measures.
    pub measured_ns: f64,
    /// What that store's calls take by themselves.
    pub call_ns: f64,
    /// The difference: what the driver adds to the measured time.
    pub driver_ns: f64,
    /// The driver's share of the measured time where an operation takes 100 ns.
    pub driver_percent_at_10m: f64,
}

/// What the instrument itself costs.
#[derive(Debug, Clone, Serialize)]
pub struct OverheadReport {
    /// Operations of each measurement.
    pub operations: u64,
    /// For each workload and distribution.
    pub rows: Vec<OverheadRow>,
    /// The largest driver's share of the measured time where an operation takes 100 ns.
    pub driver_percent_at_10m: f64,
}

impl OverheadReport {
    /// The report as lines for people.
    pub fn text(&self) -> String {
        let mut out = String::from("nanoseconds of an operation on entries of 8 + 8 bytes\n");
        for row in &self.rows {
            out += &format!(
                "{:14} {:8} draw {:5.1}, draw and check {:5.1}, measured {:5.1}, the call {:5.1}, \
                 the driver {:5.1} ({:.1} % at 10 M/s)\n",
                row.workload,
                row.distribution,
                row.draw_ns,
                row.apart_ns,
                row.measured_ns,
                row.call_ns,
                row.driver_ns,
                row.driver_percent_at_10m
            );
        }
        out
    }
}

/// Measures with `operations` operations each.
pub fn overhead(operations: u64) -> Result<OverheadReport> {
    if operations == 0 {
        return Err(Error::new(ErrorKind::Config, "--operations must be at least 1"));
    }
    let mut rows = Vec::new();
    for workload in ["turbohash-positive", "turbohash-update", "mica-tiny-50"] {
        for distribution in [Distribution::Uniform, Distribution::ZIPFIAN] {
            let plan = Plan { distribution, keys: KEYS, operations, ..Plan::new(workload)? };
            rows.push(row(&plan)?);
        }
    }
    let largest = rows.iter().map(|row| row.driver_percent_at_10m).fold(0.0, f64::max);
    Ok(OverheadReport { operations, rows, driver_percent_at_10m: largest })
}

fn row(plan: &Plan) -> Result<OverheadRow> {
    let rounds = plan.operations.div_ceil(ROUND_OPERATIONS);
    let plan = &Plan { operations: plan.operations.min(ROUND_OPERATIONS), ..plan.clone() };
    fill(&Plan { keys: 1, ..plan.clone() }, &Nothing, &mut |_, _| {})?;
    let per_operation = |seconds: f64| seconds * 1e9 / plan.operations as f64;
    let draw_ns = least(rounds, || Ok(per_operation(draw(plan))))?;
    let call_ns = least(rounds, || Ok(per_operation(call(plan)?)))?;
    let mut apart_ns = f64::MAX;
    let measured_ns = least(rounds, || {
        let run = drive(plan, &Nothing, "", &mut |_, _| {})?;
        apart_ns = apart_ns.min(per_operation(run.wall_seconds - run.seconds));
        Ok(per_operation(run.seconds))
    })?;
    let driver_ns = (measured_ns - call_ns).max(0.0);
    Ok(OverheadRow {
        workload: plan.workload.name.to_string(),
        distribution: plan.distribution.name().to_string(),
        draw_ns,
        apart_ns,
        measured_ns,
        call_ns,
        driver_ns,
        driver_percent_at_10m: 100.0 * driver_ns / OPERATION_NS,
    })
}

fn least(rounds: u64, mut round: impl FnMut() -> Result<f64>) -> Result<f64> {
    (0..rounds).try_fold(f64::MAX, |least, _| Ok(least.min(round()?)))
}

/// Seconds that drawing takes.
fn draw(plan: &Plan) -> f64 {
    let chooser = Chooser::new(plan.distribution, plan.keys);
    let mut drawer = drawer(plan, &chooser);
    let mut window = Window::of(plan);
    let started = Instant::now();
    let mut left = plan.operations as usize;
    while left > 0 {
        let count = left.min(operations_max(plan, 0));
        window.clear();
        drawer.draw(&mut window, count);
        black_box(&window);
        left -= count;
    }
    started.elapsed().as_secs_f64()
}

fn drawer<'a>(plan: &'a Plan, chooser: &'a Chooser) -> Drawer<'a> {
    let turn = Turn { thread: 0, threads: 1, alike: false, version: 0 };
    Drawer::new(plan, chooser, turn, plan.workload.kinds(), plan.operations)
}

/// Operations that are called over and over: too many for the processor to learn which is a put.
const CALLED: usize = 16 << 10;

/// Seconds that the calls of a run take if nobody drives them.
fn call(plan: &Plan) -> Result<f64> {
    let chooser = Chooser::new(plan.distribution, plan.keys);
    let mut window = Window::of(plan);
    drawer(plan, &chooser).draw(&mut window, CALLED);
    let entries: Vec<_> =
        window.operations.iter().map(|o| (window.key(o), window.value(o), o.kind)).collect();
    // As a run does, through what the compiler does not see through.
    let target: &dyn Target = black_box(&Nothing);
    let mut session = target.session(plan.durability)?;
    let mut sink = Ignore(0);
    let started = Instant::now();
    let mut left = plan.operations as usize;
    while left > 0 {
        let count = left.min(entries.len());
        for (key, value, kind) in &entries[..count] {
            match kind.is_get() {
                true => session.get_many(&[key], &mut sink)?,
                false => session.put_many(&[(key, value)])?,
            }
        }
        left -= count;
    }
    black_box(sink.0);
    Ok(started.elapsed().as_secs_f64())
}

struct Ignore(usize);

impl Sink for Ignore {
    fn found(&mut self, index: usize, value: &[u8]) {
        self.0 += index + value.len();
    }
}

/// A store that keeps nothing: it knows which value of 8 bytes belongs to a key.
struct Nothing;

impl Target for Nothing {
    fn abilities(&self) -> Abilities {
        Abilities::default()
    }

    fn session(&self, _: Durability) -> Result<Box<dyn Session + '_>> {
        Ok(Box::new(NothingSession))
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn metrics(&self) -> Result<MetricsMap> {
        Ok(MetricsMap::default())
    }
}

struct NothingSession;

impl Session for NothingSession {
    fn get_many(&mut self, keys: &[&[u8]], sink: &mut dyn Sink) -> Result<()> {
        for (i, key) in keys.iter().enumerate() {
            if let Some(index) = Layout::Hashed.index_of(key) {
                sink.found(i, &Prng::new(!index).next_u64().to_le_bytes());
            }
        }
        Ok(())
    }

    fn put_many(&mut self, entries: &[(&[u8], &[u8])]) -> Result<()> {
        black_box(entries);
        Ok(())
    }

    fn delete_many(&mut self, keys: &[&[u8]]) -> Result<()> {
        black_box(keys);
        Ok(())
    }

    fn scan(&mut self, _: &[u8], _: usize, _: &mut dyn FnMut(&[u8], &[u8])) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "there is nothing to scan"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_are_measured_and_answers_are_right() {
        let report = overhead(20_000).unwrap();
        assert_eq!(report.rows.len(), 6);
        for row in &report.rows {
            assert!(row.draw_ns > 0.0 && row.apart_ns > 0.0 && row.measured_ns > 0.0, "{row:?}");
        }
        assert!(report.text().contains("the driver"));
        assert!(overhead(0).is_err());
    }
}
