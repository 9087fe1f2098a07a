//! One measurement: one store, one workload, one repetition. It happens in the process that calls
//! [`measure`], which the runner makes a fresh one, so that memory and I/O counters are its own.

mod loaded;

use crate::budget::WARM_UP;
use crate::cgroup;
use crate::foreseen;
use crate::limits::{self, LimitSetup, Probe};
use crate::peer::{Class, Peer, Setup};
use crate::peers;
use crate::protocol::{Message, Order, Port, SliceReport};
use crate::results::{MemorySample, SettingInfo};
use crate::schedule::{ALLOWANCE_BYTES, PROGRAM_BYTES};
use crate::usage::{self, Bytes};
use crate::work::Work;
use serde::{Deserialize, Serialize};
use silica::{Error, MetricsMap, Result};
use silica_bench::memory::Process;
use silica_bench::{Pace, Plan, Run, Slice, Target, drive, drive_slices, fill};
use std::mem::take;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Job {
    /// Fills the directory and leaves it for other cells.
    Prepare,
    /// Drives the workload in slices. The store is the one in the directory, or a copy that is made
    /// of `base` first; without either it is filled first.
    Drive {
        /// A filled directory to copy.
        base: Option<PathBuf>,
    },
    /// Measures all figures of a limit.
    Limit {
        /// Bytes of the file or table.
        bytes: u64,
    },
    /// Measures one figure of a limit in slices.
    Probe {
        /// Bytes of the file.
        bytes: u64,
        /// The figure.
        metric: String,
    },
}

/// One measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Name of the suite.
    pub suite: String,
    /// Name of the workload with its sizes.
    pub name: String,
    /// Name of the peer, or `limit:` and the name of a limit.
    pub store: String,
    /// What is measured.
    pub job: Job,
    /// What to do with the store.
    pub work: Work,
    /// Memory that the store may use, page cache included.
    pub memory_bytes: u64,
    /// Options of a store of ours.
    #[serde(default)]
    pub set: Vec<(String, String)>,
    /// A store of ours has what the page cache of others may take.
    #[serde(default)]
    pub resident: bool,
    /// Forget the pages of its files, and warm nothing up.
    pub cold: bool,
    /// Number of the repetition, from 0.
    pub repetition: usize,
    /// The store's directory.
    pub directory: PathBuf,
    /// Operations before the measured part, whose answers must agree between all stores.
    pub check_operations: u64,
    /// Time for the measured part, with all its slices; 0 means until its operations are done.
    pub seconds: f64,
    /// A memory group's file of processes, to be entered before the store is opened.
    pub door: Option<PathBuf>,
}

/// One figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What was measured.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// The figure.
    pub value: f64,
}

/// What a measurement found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// All figures.
    pub figures: Vec<Figure>,
    /// Quantile and microseconds.
    pub curve: Vec<(f64, f64)>,
    /// Memory over time.
    pub samples: Vec<MemorySample>,
    /// Fingerprints of questions and answers by the part of the run; stores must agree on those
    /// that they share. Empty for caches and where threads have different roles.
    pub hashes: Vec<(String, String)>,
    /// The store's version.
    pub version: String,
    /// The store's settings, other than its defaults.
    pub settings: Vec<SettingInfo>,
    /// What a reader must know: page cache dropped, memory limit refused.
    pub notes: Vec<String>,
    /// Why the store cannot do this workload; nothing was measured then.
    pub lacks: Option<String>,
}

impl Outcome {
    /// Adds a figure.
    pub(crate) fn push(&mut self, metric: &str, unit: &str, value: f64) {
        self.figures.push(Figure { metric: metric.into(), unit: unit.into(), value });
    }

    /// The value of `metric`.
    pub fn figure(&self, metric: &str) -> Option<f64> {
        self.figures.iter().find(|f| f.metric == metric).map(|f| f.value)
    }
}

/// Quantiles of a latency curve.
const QUANTILES: [f64; 16] =
    [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999, 1.0];
/// No store does so many times the operations that are compared while it warms up.
const WARM_UP_OPERATIONS: u64 = 100_000;
/// More samples than a chart has pixels are of no use.
const SAMPLES_MAX: usize = 200;
/// Performs `cell` in this process, its slices as it is told through `port`.
pub(crate) fn measure(cell: &Cell, port: &mut dyn Port) -> Result<Outcome> {
    match &cell.job {
        Job::Limit { bytes } => return measure_limit(cell, *bytes),
        Job::Probe { bytes, metric } => return probe(cell, *bytes, metric, port),
        Job::Prepare | Job::Drive { .. } => {}
    }
    let peer = peers::find(&cell.store)?;
    let setup = Setup {
        directory: cell.directory.clone(),
        memory_bytes: memory_bytes(cell, peer),
        level_bytes: Vec::new(),
        compaction_priority: None,
        server_threads: None,
        set: cell.set.clone(),
        plan: cell.work.plan()?,
    };
    let mut outcome = Outcome { version: peer.version()?, ..Outcome::default() };
    outcome.settings = settings(peer, &setup);
    if setup.memory_bytes != cell.memory_bytes {
        outcome.notes.push(format!(
            "--resident: its number is {} MiB, the memory and the allowance less {} MiB for the \
             program, which is what a store that uses the page cache has",
            setup.memory_bytes >> 20,
            PROGRAM_BYTES >> 20
        ));
    }
    prepare_directory(cell, peer, &mut outcome)?;
    if let Some(door) = &cell.door {
        cgroup::enter(door)?;
    }
    match cell.job {
        Job::Prepare => prepare(cell, peer, &setup, &mut outcome)?,
        _ if cell.work.load.is_some() => loaded::perform(cell, &setup, port, &mut outcome)?,
        _ => perform(cell, peer, &setup, port, &mut outcome)?,
    }
    Ok(outcome)
}

/// The memory number of the cell's store.
pub(crate) fn memory_bytes(cell: &Cell, peer: &dyn Peer) -> u64 {
    let has_rest = cell.resident && peer.is_ours() && peer.class().is_on_device();
    cell.memory_bytes + if has_rest { ALLOWANCE_BYTES - PROGRAM_BYTES } else { 0 }
}

fn settings(peer: &dyn Peer, setup: &Setup) -> Vec<SettingInfo> {
    let info = |s: crate::peer::Setting| SettingInfo {
        name: s.name.to_string(),
        value: s.value,
        why: s.why.to_string(),
    };
    peer.settings(setup).into_iter().map(info).collect()
}

fn measure_limit(cell: &Cell, bytes: u64) -> Result<Outcome> {
    let limit = limits::find(&cell.store)?;
    create(&cell.directory)?;
    let mut outcome = Outcome { version: limit.version()?, ..Outcome::default() };
    let setup = LimitSetup {
        directory: cell.directory.clone(),
        bytes,
        // Two cells' time for all figures, unless that is too short for one of them.
        seconds: (2.0 * cell.seconds / limit.figures() as f64).max(0.2).min(cell.seconds),
        threads: cell.work.threads,
    };
    for reading in limit.measure(&setup)? {
        outcome.push(&reading.metric, &reading.unit, reading.value);
    }
    Ok(outcome)
}

/// Slices of a limit, beside those of the stores.
fn probe(cell: &Cell, bytes: u64, metric: &str, port: &mut dyn Port) -> Result<Outcome> {
    let limit = limits::find(&cell.store)?;
    create(&cell.directory)?;
    let outcome = Outcome { version: limit.version()?, ..Outcome::default() };
    let setup = LimitSetup {
        directory: cell.directory.clone(),
        bytes,
        seconds: cell.seconds,
        threads: cell.work.threads,
    };
    let mut probe: Box<dyn Probe> = limit.probe(&setup, metric)?;
    port.tell(Message::Ready)?;
    while let Order::Slice(seconds) = port.hear()? {
        let started = Instant::now();
        let rate = probe.slice(Duration::from_secs_f64(seconds))?;
        let seconds = started.elapsed().as_secs_f64();
        let operations = rate * seconds;
        port.tell(Message::Slice(SliceReport { operations, seconds, complete: false }))?;
    }
    Ok(outcome)
}

fn create(directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory)
        .map_err(|e| Error::io(format!("creating {}", directory.display()), e))
}

/// Makes the directory what the job wants, before the memory is limited: copying a store is not
/// its work.
fn prepare_directory(cell: &Cell, peer: &dyn Peer, outcome: &mut Outcome) -> Result<()> {
    if let Job::Drive { base: Some(base) } = &cell.job {
        usage::copy(base, &cell.directory)?;
    }
    create(&cell.directory)?;
    if peer.class().is_on_device() && !is_empty(&cell.directory) {
        match usage::make_cold(&cell.directory) {
            Ok(()) => outcome.notes.push(
                "fresh process; the cached pages of the store's files were dropped (fadvise)"
                    .to_string(),
            ),
            Err(e) => outcome.notes.push(format!("the page cache was not dropped: {e}")),
        }
    }
    Ok(())
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

fn prepare(cell: &Cell, peer: &dyn Peer, setup: &Setup, outcome: &mut Outcome) -> Result<()> {
    let target = peer.open_to_fill(setup)?;
    let started = Instant::now();
    fill(&setup.plan, &*target, &mut |_, _| {})?;
    target.settle()?;
    target.sync()?;
    outcome.push("prepare_seconds", "s", started.elapsed().as_secs_f64());
    drop(target);
    outcome.push("space_bytes", "bytes", usage::space_bytes(&cell.directory) as f64);
    Ok(())
}

fn perform(
    cell: &Cell,
    peer: &dyn Peer,
    setup: &Setup,
    port: &mut dyn Port,
    outcome: &mut Outcome,
) -> Result<()> {
    if let Err(e) = peer.check_room(setup) {
        outcome.lacks = Some(e.to_string());
        return Ok(());
    }
    let plan = &setup.plan;
    let Some(target) = open_filled(cell, peer, setup, outcome)? else { return Ok(()) };
    check(cell, plan, &*target, outcome)?;
    let begun = Moment::now(&cell.directory, &*target)?;
    let process = target.process();
    process.reset_peak();
    Process::This.reset_peak();
    let mut turns = Turns::new(port, &cell.directory, process);
    let run = drive_slices(plan, &*target, &mut turns)?;
    let settle = turns.end()?;
    let (resident, in_slices) = (take(&mut turns.resident), turns.device);
    let complete = run.tally.operations >= plan.operations;
    hash(plan, &*target, &run, if complete { "all" } else { "" }, outcome);
    let rss_bytes_max = process.peak_bytes();
    let client_rss_bytes_max = Process::This.peak_bytes();
    let (settled, before) = (Instant::now(), usage::of_device(&cell.directory));
    if run.tally.puts > 0 && settle {
        target.settle()?;
        target.sync()?;
        outcome.push("settle_seconds", "s", settled.elapsed().as_secs_f64());
    }
    let after = Moment::now(&cell.directory, &*target)?;
    let device = after.device.zip(before).map(|(after, before)| in_slices + after.since(before));
    speed(&run, outcome);
    outcome.push("rss_bytes_max", "bytes", rss_bytes_max as f64);
    amplification(cell, &run, (&begun, &after), device, outcome);
    if process != Process::This {
        outcome.push("client_rss_bytes_max", "bytes", client_rss_bytes_max as f64);
        bytes_of("client", begun.client, after.client, outcome);
    }
    foreseen::push(&after.metrics, outcome);
    outcome.samples = timeline(&run, &resident);
    drop(target);
    if peer.class().is_on_device() {
        space(cell, plan, &run, outcome);
    }
    Ok(())
}

/// The store as the measured part finds it; nothing where it cannot do the workload.
fn open_filled(
    cell: &Cell,
    peer: &dyn Peer,
    setup: &Setup,
    outcome: &mut Outcome,
) -> Result<Option<Box<dyn Target>>> {
    let empty = is_empty(&cell.directory);
    let before = Process::This.resident_bytes();
    let mut target = peer.open(setup)?;
    if let Err(e) = setup.plan.workload.check_abilities(target.abilities()) {
        outcome.lacks = Some(e.to_string());
        return Ok(None);
    }
    if empty && !setup.plan.workload.is_fill() {
        fill(&setup.plan, &*target, &mut |_, _| {})?;
        target.settle()?;
        if peer.class() == Class::Memory {
            let taken = Process::This.resident_bytes().saturating_sub(before);
            let each = taken as f64 / setup.plan.keys as f64;
            outcome.push("memory_bytes_per_key", "bytes/key", each);
        }
        if cell.cold && peer.class().is_on_device() {
            drop(target);
            usage::make_cold(&cell.directory)?;
            target = peer.open(setup)?;
            outcome.notes.push("reopened; cached pages dropped (fadvise)".to_string());
        }
    }
    Ok(Some(target))
}

/// Goes on and stands still as the runner says, and counts what the device does meanwhile.
struct Turns<'a> {
    port: &'a mut dyn Port,
    directory: &'a Path,
    /// Whose memory is the store's.
    process: Process,
    ready: bool,
    /// Whether to settle in the end, once that is known.
    ended: Option<bool>,
    /// Seconds in slices, and resident bytes.
    resident: Vec<(f64, u64)>,
    /// Of the device, during slices.
    device: Bytes,
    before: Option<Bytes>,
}

impl<'a> Turns<'a> {
    fn new(port: &'a mut dyn Port, directory: &'a Path, process: Process) -> Self {
        Turns {
            port,
            directory,
            process,
            ready: false,
            ended: None,
            resident: Vec::new(),
            device: Bytes::default(),
            before: None,
        }
    }

    /// The next order; the first is waited for after telling that all is ready.
    fn order(&mut self) -> Result<Order> {
        if !self.ready {
            self.port.tell(Message::Ready)?;
            self.ready = true;
        }
        self.port.hear()
    }

    /// Waits for the end where everything was done before; true where to settle.
    fn end(&mut self) -> Result<bool> {
        loop {
            match self.ended {
                Some(settle) => return Ok(settle),
                None => match self.order()? {
                    Order::End { settle } => self.ended = Some(settle),
                    Order::Slice(_) => {
                        let nothing = SliceReport { complete: true, ..SliceReport::default() };
                        self.port.tell(Message::Slice(nothing))?;
                    }
                },
            }
        }
    }
}

impl Pace for Turns<'_> {
    fn next(&mut self) -> Result<Option<Duration>> {
        Ok(match self.order()? {
            Order::Slice(seconds) => {
                self.before = usage::of_device(self.directory);
                Some(Duration::from_secs_f64(seconds))
            }
            Order::End { settle } => {
                self.ended = Some(settle);
                None
            }
        })
    }

    fn done(&mut self, slice: &Slice) -> Result<()> {
        if let (Some(before), Some(after)) = (self.before, usage::of_device(self.directory)) {
            self.device = self.device + after.since(before);
        }
        self.port.tell(Message::Slice(SliceReport {
            operations: slice.operations as f64,
            seconds: slice.seconds,
            complete: slice.complete,
        }))
    }

    fn sample(&mut self, seconds: f64) {
        self.resident.push((seconds, self.process.resident_bytes()));
    }
}

/// Runs a fixed number of operations before the measured part: since every store does the same,
/// their answers must agree. The same work goes on until the time of the warm-up is over, so that
/// a fast store's caches are as warm as they get.
fn check(cell: &Cell, plan: &Plan, target: &dyn Target, outcome: &mut Outcome) -> Result<()> {
    let workload = &plan.workload;
    // What is deleted before cannot be deleted in the measured part.
    let once = workload.is_fill() || workload.deletes > 0;
    if cell.cold || once || cell.check_operations == 0 {
        return Ok(());
    }
    // Another seed, so that the measured part asks for other keys.
    let seed = plan.seed ^ 0x5EED;
    let plan = Plan {
        operations: cell.check_operations,
        rate: 0,
        // A store that is very slow is warm enough, and its answers are compared at toy size.
        seconds_max: WARM_UP * cell.seconds,
        seed,
        ..plan.clone()
    };
    let run = drive(&plan, target, "check", &mut |_, _| {})?;
    let complete = run.tally.operations >= plan.operations;
    hash(&plan, target, &run, if complete { "warm-up" } else { "" }, outcome);
    // What is inserted here would not be new in the measured part.
    let left = plan.seconds_max - run.wall_seconds;
    if left > 0.0 && workload.inserts == 0 {
        let operations = plan.operations.saturating_mul(WARM_UP_OPERATIONS);
        let plan = Plan { operations, seconds_max: left, seed: seed ^ 0xA17, ..plan };
        drive(&plan, target, "warm up", &mut |_, _| {})?;
    }
    Ok(())
}

fn hash(plan: &Plan, target: &dyn Target, run: &Run, part: &str, outcome: &mut Outcome) {
    // Which keys a cache still has, and how much threads of different roles did, differs.
    if part.is_empty() || target.abilities().lossy || plan.workload.split_roles {
        return;
    }
    let hash = format!("{:016x}", run.tally.result_hash());
    outcome.hashes.push((part.to_string(), hash));
}

/// The store's own counters beside the resident size, thinned out.
fn timeline(run: &Run, resident: &[(f64, u64)]) -> Vec<MemorySample> {
    let step = resident.len().div_ceil(SAMPLES_MAX).max(1);
    let mut own = run.samples.iter().peekable();
    let mut last = None;
    let mut samples = Vec::new();
    for (seconds, rss_bytes) in resident.iter().step_by(step) {
        while let Some(sample) = own.next_if(|sample| sample.seconds <= *seconds) {
            last = Some(sample);
        }
        samples.push(MemorySample {
            seconds: *seconds,
            rss_bytes: *rss_bytes as f64,
            index_bytes: last.map_or(0.0, |s| s.index_bytes),
            puts: last.map_or(0.0, |s| s.puts),
        });
    }
    samples
}

/// Counters at one moment.
struct Moment {
    /// Of the process that keeps the data, and of this one, which asks.
    process: Option<Bytes>,
    client: Option<Bytes>,
    device: Option<Bytes>,
    metrics: MetricsMap,
}

impl Moment {
    fn now(directory: &Path, target: &dyn Target) -> Result<Self> {
        Ok(Moment {
            process: usage::of_process(target.process()),
            client: usage::of_process(Process::This),
            device: usage::of_device(directory),
            metrics: target.metrics()?,
        })
    }
}

fn speed(run: &Run, outcome: &mut Outcome) {
    let tally = &run.tally;
    let us = |quantile| tally.latencies.quantile(quantile) as f64 / 1000.0;
    outcome.push("operations", "ops", tally.operations as f64);
    outcome.push("seconds", "s", run.seconds);
    outcome.push("wall_seconds", "s", run.wall_seconds);
    for (metric, quantile) in [("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999)] {
        outcome.push(metric, "us", us(quantile));
    }
    outcome.push("max_us", "us", tally.latencies.max() as f64 / 1000.0);
    if tally.reads > 0 && tally.puts > 0 {
        let reads = &tally.read_latencies;
        outcome.push("read_p50_us", "us", reads.quantile(0.5) as f64 / 1000.0);
        outcome.push("read_p99_us", "us", reads.quantile(0.99) as f64 / 1000.0);
        outcome.push("reads_per_second", "ops/s", tally.reads as f64 / run.seconds);
        outcome.push("puts_per_second", "ops/s", tally.puts as f64 / run.seconds);
    }
    outcome.curve = QUANTILES.iter().map(|q| (*q, us(*q))).collect();
}

/// Figures of what the process that `whose` names read and wrote, as far as the kernel tells.
fn bytes_of(
    whose: &str,
    before: Option<Bytes>,
    after: Option<Bytes>,
    outcome: &mut Outcome,
) -> Option<Bytes> {
    let bytes = after?.since(before?);
    outcome.push(&format!("{whose}_read_bytes"), "bytes", bytes.read as f64);
    outcome.push(&format!("{whose}_write_bytes"), "bytes", bytes.written as f64);
    Some(bytes)
}

fn amplification(
    cell: &Cell,
    run: &Run,
    (before, after): (&Moment, &Moment),
    device: Option<Bytes>,
    outcome: &mut Outcome,
) {
    let process = bytes_of("process", before.process, after.process, outcome);
    let put = run.tally.puts as f64 * cell.work.entry_bytes();
    if let Some(device) = device {
        outcome.push("device_read_bytes", "bytes", device.read as f64);
        outcome.push("device_write_bytes", "bytes", device.written as f64);
        // Others in this machine write more than a server whose data is in memory.
        let is_embedded = peers::find(&cell.store).is_ok_and(|p| p.class().is_on_device());
        if put > 0.0 && is_embedded {
            outcome.push("write_amplification", "bytes/byte", device.written as f64 / put);
        }
    }
    if let Some(process) = process.filter(|_| put > 0.0) {
        let written = process.written as f64 / put;
        outcome.push("process_write_amplification", "bytes/byte", written);
    }
    if let Some(process) = process.filter(|_| run.tally.reads > 0) {
        let each = process.read as f64 / run.tally.reads as f64;
        outcome.push("process_read_bytes_per_get", "bytes/get", each);
    }
    let delta = |name| after.metrics.get(name) - before.metrics.get(name);
    if after.metrics.0.contains_key("get_device_reads") && delta("gets") > 0.0 {
        outcome.push("reads_per_get", "reads/get", delta("get_device_reads") / delta("gets"));
    }
    let (index, entries) = (after.metrics.get("index_bytes"), cell.work.keys.max(1) as f64);
    if index > 0.0 {
        let entries = match after.metrics.get("entries_estimate") {
            known if known > 0.0 => known,
            _ => entries,
        };
        outcome.push("index_bytes_per_key", "bytes/key", index / entries);
    }
}

fn space(cell: &Cell, plan: &Plan, run: &Run, outcome: &mut Outcome) {
    let bytes = usage::space_bytes(&cell.directory) as f64;
    outcome.push("space_bytes", "bytes", bytes);
    let each = cell.work.entry_bytes();
    let workload = &plan.workload;
    let keys = match workload.is_fill() {
        true => run.tally.puts as f64,
        false => plan.keys as f64 + inserted(plan, run),
    };
    if keys > 0.0 && workload.deletes == 0 {
        outcome.push("space_amplification", "bytes/byte", bytes / (keys * each));
    }
}

/// Keys that the run added, by the workload's shares.
fn inserted(plan: &Plan, run: &Run) -> f64 {
    let workload = &plan.workload;
    if workload.split_roles {
        return run.tally.puts as f64;
    }
    run.tally.operations as f64 * f64::from(workload.inserts) / 100.0
}
