//! What this machine can do: measured once, kept beside the data (docs/formats/probe.md).

mod engines;
mod memory;
mod scratch;

pub(crate) use engines::DIRECTORY as ENGINES;
pub use scratch::{Names, SCRATCH_BLOCK_BYTES, Scratch};

use crate::Registry;
use crate::sealed::Kind;
use silica_base::Format;
use silica_device::region::RegionClass;
use silica_engine::{Error, ErrorKind, Result};
use silica_tune::recommend::BURST;
use silica_tune::{Device as DeviceFigures, Machine, Memory, Survival};
use std::path::Path;
use std::time::{Duration, Instant};

/// The file, in the store's directory.
pub(crate) const FILE: &str = "PROBE";
const KIND: Kind = Kind(FORMAT);
/// A text, whose lines that an older version lacks have their defaults.
const FORMAT: Format = Format {
    name: "probe",
    magic: b"SILPROBE",
    version_bytes: 4,
    version: 4,
    steps: &[|_| (), |_| (), |_| ()],
};

const DEPTHS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
const BLOCKS: [usize; 4] = [4 << 10, 16 << 10, 64 << 10, 1 << 20];
/// Reads in flight, and writers, where blocks follow one another.
const STREAMS: usize = 4;
const WAITERS: [usize; 2] = [1, 16];
/// Figures that take their part of the time.
const FIGURES: usize = DEPTHS.len() + 2 * BLOCKS.len() + WAITERS.len() + 2;
/// No figure means anything in less.
const SECONDS_MIN: f64 = 0.01;
/// A read takes at least a call of the system.
const READ_NANOSECONDS_MIN: f64 = 500.0;

/// How to probe.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeOptions {
    /// Bytes of the scratch file, at least 1 MiB. One that a device's cache holds shows the cache.
    pub file_bytes: u64,
    /// Bytes of memory to read from; more than the processor's caches.
    pub memory_bytes: u64,
    /// Seconds of all figures together; filling the file and the memory comes on top, and what
    /// engines are asked, which is as much again at most.
    pub seconds: f64,
    /// Bytes that the device's maker says may be written in its life.
    pub endurance_bytes: Option<u64>,
}

impl Default for ProbeOptions {
    fn default() -> Self {
        let bytes = 256 << 20;
        ProbeOptions {
            file_bytes: bytes,
            memory_bytes: bytes,
            seconds: 10.0,
            endurance_bytes: None,
        }
    }
}

/// Measures the device below the directory `path`, through the code that engines read and write
/// with, this machine's memory and cores, and the processor time of the engines' operations. The
/// scratch file has no name while it is used; the engines have a directory `PROBE.engines`, which
/// the next probe removes where a process died. `progress` hears what is measured and which share
/// of the work is done.
///
/// # Errors
/// `NotFound` where there is no such directory, `Full` where the scratch file does not fit,
/// `Config` for options that measure nothing, and what the operating system refuses.
pub fn probe(
    path: impl AsRef<Path>,
    options: &ProbeOptions,
    mut progress: impl FnMut(&str, f64),
) -> Result<Machine> {
    let path = path.as_ref();
    check(path, options)?;
    let period = Duration::from_secs_f64((options.seconds / FIGURES as f64).max(SECONDS_MIN));
    let registry = Registry::builtin();
    let steps = FIGURES + 2 + engines::count(&registry);
    let mut done = 0;
    let mut next = |what: String| {
        progress(&what, done as f64 / steps as f64);
        done += 1;
    };
    next("filling the scratch file".into());
    let capacity_bytes = silica_device::capacity_bytes(path)?;
    let scratch = Scratch::new(path, "silica-probe", options.file_bytes, Names::Gone)?;
    let mut device = DeviceFigures {
        capacity_bytes,
        endurance_bytes: options.endurance_bytes.map(|bytes| bytes as f64),
        reads: Vec::new(),
        read_bandwidth: Vec::new(),
        write_bandwidth: Vec::new(),
        syncs: Vec::new(),
    };
    let mut read_ns = Vec::new();
    for depth in DEPTHS {
        next(format!("random reads of 4 KiB, {depth} in flight"));
        let (rate, ns) = reads(&scratch, depth, period)?;
        device.reads.push((depth as f64, rate));
        read_ns.push(ns);
    }
    for block in BLOCKS {
        next(format!("reads in order, {} KiB each", block >> 10));
        let rate = scratch.reads_in_order(block, STREAMS, period)?;
        device.read_bandwidth.push((block as f64, rate * block as f64));
    }
    for block in BLOCKS {
        next(format!("writes in order, {} KiB each", block >> 10));
        let rate = scratch.writes_in_order(block, STREAMS, period)?;
        device.write_bandwidth.push((block as f64, rate * block as f64));
    }
    for waiters in WAITERS {
        next(format!("syncs, {waiters} waiting"));
        device.syncs.push((waiters as f64, scratch.synced_appends(waiters, period)?));
    }
    drop(scratch);
    next("filling memory".into());
    let memory = memory::Buffer::new(options.memory_bytes);
    next("dependent reads of memory".into());
    let dependent_reads = memory.dependent_reads(period);
    next("copying memory".into());
    let copy_bytes = memory.copied(period);
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let memory = Memory { bytes: memory::available_bytes()?, dependent_reads, copy_bytes };
    let in_burst = DEPTHS.iter().position(|depth| *depth == BURST).unwrap_or(0);
    let read = (read_ns[0], read_ns[in_burst].min(read_ns[0]));
    let large = *BLOCKS.last().expect("some blocks") as f64;
    let rates = [device.read_bytes_per_second(large), device.write_bytes_per_second(large)];
    let byte_moved = rates.iter().map(|rate| 1.0 / rate.max(1.0)).sum();
    let before = engines::Before { read, byte_moved };
    let processor = engines::measure(path, &registry, options.seconds, &before, next)?;
    let survival = survival_in(path)?;
    let machine = Machine { cores, memory, device, survival, processor };
    machine.validate().map_err(|e| e.within("what was measured makes no sense"))?;
    Ok(machine)
}

/// What bytes survive that are mapped from files of this directory.
fn survival_in(path: &Path) -> Result<Survival> {
    Ok(match silica_device::region::class_of(path)? {
        RegionClass::Lines => Survival::Power,
        RegionClass::Process => Survival::Process,
        RegionClass::Pages => Survival::Disk,
    })
}

/// Random reads a second, and nanoseconds of the processor for each.
fn reads(scratch: &Scratch, depth: usize, period: Duration) -> Result<(f64, f64)> {
    let processor = engines::Processor::start();
    let (before, started) = (processor.seconds(), Instant::now());
    let rate = scratch.random_reads(depth, period)?;
    let reads = rate * started.elapsed().as_secs_f64();
    let ns = 1e9 * (processor.seconds() - before) / reads.max(1.0);
    Ok((rate, ns.max(READ_NANOSECONDS_MIN)))
}

fn check(path: &Path, options: &ProbeOptions) -> Result<()> {
    if !path.is_dir() {
        let path = path.display();
        let message = format!("there is no directory {path} to probe; create it, or name another");
        return Err(Error::new(ErrorKind::NotFound, message));
    }
    let wrong = |message: &str| Err(Error::new(ErrorKind::Config, message));
    if !(options.seconds > 0.0 && options.seconds <= 86_400.0) {
        return wrong("seconds must be more than 0, and at most a day");
    }
    if options.memory_bytes < 1 << 20 {
        return wrong("memory to probe must be at least 1MiB");
    }
    if options.endurance_bytes == Some(0) {
        return wrong("the device's endurance must be more than 0; leave it out if unknown");
    }
    Ok(())
}

/// Keeps what was measured in the store's directory `path`, in place of what was there.
///
/// # Errors
/// `Full` or `Io`; what was there is still there.
pub fn keep_probe(path: impl AsRef<Path>, machine: &Machine) -> Result<()> {
    KIND.write(&path.as_ref().join(FILE), machine.to_string().as_bytes())
}

/// What was kept in the store's directory `path`; `None` where nothing was.
///
/// # Errors
/// `Corruption` where the file is damaged, `Unsupported` where a newer program wrote it, `Io`.
pub fn kept_probe(path: impl AsRef<Path>) -> Result<Option<Machine>> {
    let path = path.as_ref().join(FILE);
    let Some(body) = KIND.read(&path)? else { return Ok(None) };
    let damaged = |e: &dyn std::fmt::Display| Error::corruption(path.display(), 16, e);
    let text = str::from_utf8(&body).map_err(|e| damaged(&e))?;
    text.parse().map(Some).map_err(|e: Error| damaged(&e))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> ProbeOptions {
        let bytes = 2 << 20;
        ProbeOptions { file_bytes: bytes, memory_bytes: bytes, seconds: 0.1, endurance_bytes: None }
    }

    #[test]
    fn a_probe_measures_everything_and_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let mut shares = Vec::new();
        let options = ProbeOptions { endurance_bytes: Some(1 << 40), ..small() };
        let machine = probe(directory.path(), &options, |_, share| {
            shares.push(share);
            let names = std::fs::read_dir(directory.path()).unwrap();
            let names = names.map(|entry| entry.unwrap().file_name());
            assert!(names.into_iter().all(|name| name == ENGINES), "no other file has a name");
        })
        .unwrap();
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        let engines = machine.processor.engines();
        assert_eq!(shares.len(), FIGURES + 2 + engines.len());
        assert!(shares.is_sorted() && shares.iter().all(|s| (0.0..1.0).contains(s)));
        assert_eq!(machine.device.reads.len(), DEPTHS.len());
        assert_eq!(machine.device.syncs.len(), WAITERS.len());
        assert_eq!(machine.device.endurance_bytes, Some((1u64 << 40) as f64));
        assert!(machine.memory.dependent_reads > 1e5 && machine.memory.copy_bytes > 1e7);
        let reference = silica_tune::recommend::Calibration::default();
        assert_ne!(machine.processor.wip.put, reference.wip.put);
        assert_ne!(machine.processor.silt.hit, reference.silt.hit);
        assert_ne!(machine.processor.mica.miss, reference.mica.miss);
        assert_ne!(machine.processor.turbo.put, reference.turbo.put);
        assert_ne!(machine.processor.sptree.put, reference.sptree.put);
        assert_ne!(machine.processor.wip.seek, reference.wip.seek);
        assert_ne!(machine.processor.wip.run, reference.wip.run);
        // It has no runs.
        assert_eq!(machine.processor.mica.run, reference.mica.run);
        keep_probe(directory.path(), &machine).unwrap();
        assert_eq!(kept_probe(directory.path()).unwrap(), Some(machine));
    }

    #[test]
    fn what_an_engine_of_a_probe_left_goes_and_is_no_foreign_file() {
        let directory = tempfile::tempdir().unwrap();
        let left = directory.path().join(ENGINES).join("wip");
        std::fs::create_dir_all(&left).unwrap();
        std::fs::write(left.join("LOG"), "half").unwrap();
        let machine = probe(directory.path(), &small(), |_, _| {}).unwrap();
        assert!(!left.exists());
        std::fs::create_dir_all(&left).unwrap();
        keep_probe(directory.path(), &machine).unwrap();
        crate::open(directory.path()).unwrap().close().unwrap();
    }

    #[test]
    fn a_file_of_version_1_has_the_reference_machines_times() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        let old = Kind(Format { version: 1, steps: &[], ..FORMAT });
        old.write(&path, b"silica machine 1\ncores = 3\n").unwrap();
        let machine = kept_probe(directory.path()).unwrap().unwrap();
        assert_eq!(machine, Machine { cores: 3, ..Machine::default() });
    }

    #[test]
    fn what_cannot_be_probed_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let of = |path: &Path, options: &ProbeOptions| probe(path, options, |_, _| {}).unwrap_err();
        let missing = directory.path().join("none");
        assert_eq!(of(&missing, &small()).kind(), ErrorKind::NotFound);
        assert!(!missing.exists());
        for options in [
            ProbeOptions { seconds: 0.0, ..small() },
            ProbeOptions { seconds: f64::NAN, ..small() },
            ProbeOptions { file_bytes: 1, ..small() },
            ProbeOptions { memory_bytes: 0, ..small() },
            ProbeOptions { endurance_bytes: Some(0), ..small() },
        ] {
            assert_eq!(of(directory.path(), &options).kind(), ErrorKind::Config, "{options:?}");
        }
        let large = ProbeOptions { file_bytes: 1 << 60, ..small() };
        let error = of(directory.path(), &large);
        assert_eq!(error.kind(), ErrorKind::Full, "{error}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_damaged_file_is_told() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(kept_probe(directory.path()).unwrap(), None);
        keep_probe(directory.path(), &Machine::default()).unwrap();
        let path = directory.path().join(FILE);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[40] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(kept_probe(directory.path()).unwrap_err().kind(), ErrorKind::Corruption);
        KIND.write(&path, b"silica machine 1\ncores = 0\n").unwrap();
        let error = kept_probe(directory.path()).unwrap_err().to_string();
        assert!(error.contains("cores must be over zero"), "{error}");
    }
}
