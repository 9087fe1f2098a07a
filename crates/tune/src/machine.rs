//! What a machine can do, as a probe measured it or a user describes it.

use std::fmt;
use std::str::FromStr;

use silica_base::Result;

use crate::lines::{self, Lines};
use crate::recommend::Calibration;

const TITLE: &str = "silica machine 1";

/// A machine: cores, memory and the device below a store.
///
/// `Display` and `FromStr` are its text form (docs/formats/probe.md); names that a text leaves out
/// have the values of `Default`, a small NVMe machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Threads that run at the same time.
    pub cores: u32,
    /// The memory.
    pub memory: Memory,
    /// The device.
    pub device: Device,
    /// What bytes that are mapped from the store's directory survive.
    pub survival: Survival,
    /// Processor time of engines' operations.
    pub processor: Calibration,
}

/// What bytes survive that are mapped from a directory and stored to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Survival {
    /// Nothing but the process for certain: the kernel writes them to a disk whenever it likes.
    #[default]
    Disk,
    /// The process, and no power cut: they are in memory.
    Process,
    /// A power cut: they are in persistent memory.
    Power,
}

/// `disk`, `process` or `power`.
impl fmt::Display for Survival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Survival::Disk => "disk",
            Survival::Process => "process",
            Survival::Power => "power",
        })
    }
}

impl FromStr for Survival {
    type Err = silica_base::Error;

    fn from_str(text: &str) -> Result<Self> {
        let all = [Survival::Disk, Survival::Process, Survival::Power];
        let found = all.into_iter().find(|survival| survival.to_string() == text);
        found
            .ok_or_else(|| lines::config(format!("survival is disk, process or power, not {text}")))
    }
}

/// Memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Memory {
    /// Bytes that a store could have.
    pub bytes: u64,
    /// Random reads of a line a second on one core, each dependent on the one before: the
    /// reciprocal of the latency.
    pub dependent_reads: f64,
    /// Bytes that one core copies a second.
    pub copy_bytes: f64,
}

/// A device and the file system on it. Curves are points that rise in x.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Bytes of the file system.
    pub capacity_bytes: u64,
    /// Bytes that may be written in its life; `None` where nobody knows.
    pub endurance_bytes: Option<f64>,
    /// Random reads of 4 KiB a second, by how many are in flight.
    pub reads: Vec<(f64, f64)>,
    /// Bytes read a second in blocks of so many bytes, at the best depth.
    pub read_bandwidth: Vec<(f64, f64)>,
    /// Bytes written a second in blocks of so many bytes, in sequence.
    pub write_bandwidth: Vec<(f64, f64)>,
    /// Syncs a second (each of a small append), by how many wait at the same time.
    pub syncs: Vec<(f64, f64)>,
}

impl Default for Machine {
    fn default() -> Self {
        Machine {
            cores: 2,
            memory: Memory::default(),
            device: Device::default(),
            survival: Survival::default(),
            processor: Calibration::default(),
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Memory { bytes: 4 << 30, dependent_reads: 1e7, copy_bytes: 8e9 }
    }
}

impl Default for Device {
    fn default() -> Self {
        let depths = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
        let reads = depths.map(|d: f64| (d, (10_000.0 * d).min(250_000.0))).to_vec();
        Device {
            capacity_bytes: 256 << 30,
            endurance_bytes: None,
            reads,
            read_bandwidth: vec![(4096.0, 1e9), (65_536.0, 2e9), (1_048_576.0, 2e9)],
            write_bandwidth: vec![(4096.0, 4e8), (65_536.0, 1e9), (1_048_576.0, 1e9)],
            syncs: vec![(1.0, 2000.0), (16.0, 16_000.0)],
        }
    }
}

impl Device {
    /// Random reads of 4 KiB a second with `depth` in flight.
    pub fn read_iops(&self, depth: f64) -> f64 {
        lines::between(&self.reads, depth).unwrap_or(0.0)
    }

    /// The most random reads of 4 KiB a second.
    pub fn read_iops_max(&self) -> f64 {
        highest(&self.reads)
    }

    /// Bytes read a second in blocks of `block_bytes`.
    pub fn read_bytes_per_second(&self, block_bytes: f64) -> f64 {
        lines::between(&self.read_bandwidth, block_bytes).unwrap_or(0.0)
    }

    /// Bytes written a second in blocks of `block_bytes`.
    pub fn write_bytes_per_second(&self, block_bytes: f64) -> f64 {
        lines::between(&self.write_bandwidth, block_bytes).unwrap_or(0.0)
    }

    /// Syncs a second with `waiters` threads that wait for one each.
    pub fn sync_rate(&self, waiters: f64) -> f64 {
        lines::between(&self.syncs, waiters).unwrap_or(0.0)
    }
}

impl Machine {
    /// Refuses what no machine is.
    ///
    /// # Errors
    /// [`silica_base::ErrorKind::Config`], naming the value.
    pub fn validate(&self) -> Result<()> {
        let Machine { cores, memory, device, .. } = self;
        let counts = [
            ("cores", f64::from(*cores)),
            ("memory.bytes", memory.bytes as f64),
            ("memory.dependent_reads", memory.dependent_reads),
            ("memory.copy_bytes", memory.copy_bytes),
            ("device.capacity_bytes", device.capacity_bytes as f64),
            ("device.endurance_bytes", device.endurance_bytes.unwrap_or(1.0)),
        ];
        for (name, value) in counts {
            if !(value.is_finite() && value > 0.0) {
                return Err(lines::config(format!("{name} must be over zero, not {value}")));
            }
        }
        for (name, points) in device.curves() {
            if points.is_empty() {
                return Err(lines::config(format!("{name} needs at least one point, like 1:1000")));
            }
            lines::check_rising(name, points)?;
            if points.iter().any(|p| p.1 <= 0.0) {
                return Err(lines::config(format!("the values of {name} must be over zero")));
            }
        }
        Ok(())
    }
}

impl Device {
    fn curves(&self) -> [(&'static str, &Vec<(f64, f64)>); 4] {
        [
            ("device.reads", &self.reads),
            ("device.read_bandwidth", &self.read_bandwidth),
            ("device.write_bandwidth", &self.write_bandwidth),
            ("device.syncs", &self.syncs),
        ]
    }
}

fn highest(points: &[(f64, f64)]) -> f64 {
    points.iter().map(|p| p.1).fold(0.0, f64::max)
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{TITLE}")?;
        writeln!(f, "cores = {}", self.cores)?;
        writeln!(f, "memory.bytes = {}", self.memory.bytes)?;
        writeln!(f, "memory.dependent_reads = {}", self.memory.dependent_reads)?;
        writeln!(f, "memory.copy_bytes = {}", self.memory.copy_bytes)?;
        writeln!(f, "device.capacity_bytes = {}", self.device.capacity_bytes)?;
        let endurance = lines::show_maybe(self.device.endurance_bytes);
        writeln!(f, "device.endurance_bytes = {endurance}")?;
        for (name, points) in self.device.curves() {
            writeln!(f, "{name} = {}", lines::show_pairs(points))?;
        }
        writeln!(f, "survival = {}", self.survival)?;
        for (engine, times) in self.processor.engines() {
            writeln!(f, "processor.{engine} = {times}")?;
        }
        Ok(())
    }
}

impl FromStr for Machine {
    type Err = silica_base::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut machine = Machine::default();
        let Machine { cores, memory, device, survival, processor } = &mut machine;
        let mut lines = Lines::read(text, TITLE)?;
        lines.take("cores", cores, lines::whole)?;
        lines.take("memory.bytes", &mut memory.bytes, lines::whole)?;
        lines.take("memory.dependent_reads", &mut memory.dependent_reads, lines::number)?;
        lines.take("memory.copy_bytes", &mut memory.copy_bytes, lines::number)?;
        lines.take("device.capacity_bytes", &mut device.capacity_bytes, lines::whole)?;
        lines.take("device.endurance_bytes", &mut device.endurance_bytes, lines::maybe)?;
        lines.take("device.reads", &mut device.reads, lines::pairs)?;
        lines.take("device.read_bandwidth", &mut device.read_bandwidth, lines::pairs)?;
        lines.take("device.write_bandwidth", &mut device.write_bandwidth, lines::pairs)?;
        lines.take("device.syncs", &mut device.syncs, lines::pairs)?;
        lines.take("survival", survival, str::parse)?;
        lines.take("processor.wip", &mut processor.wip, str::parse)?;
        lines.take("processor.silt", &mut processor.silt, str::parse)?;
        lines.take("processor.mica", &mut processor.mica, str::parse)?;
        lines.take("processor.turbo", &mut processor.turbo, str::parse)?;
        lines.take("processor.sptree", &mut processor.sptree, str::parse)?;
        lines.finish()?;
        machine.validate()?;
        Ok(machine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read() {
        let mut machine = Machine::default();
        assert_eq!(machine.to_string().parse::<Machine>().unwrap(), machine);
        machine.device.endurance_bytes = Some(1.2e15);
        machine.device.reads = vec![(1.0, 1_234.567_89), (7.0, 1.0 / 3.0)];
        machine.cores = 96;
        machine.processor.silt.put = 1.0 / 3.0;
        assert_eq!(machine.to_string().parse::<Machine>().unwrap(), machine);
        assert_eq!(TITLE.parse::<Machine>().unwrap(), Machine::default());
    }

    #[test]
    fn wrong_texts_are_named() {
        for (text, why) in [
            ("", "line 1"),
            ("silica machine 2", "silica machine 1"),
            ("silica machine 1\ncores", "no '='"),
            ("silica machine 1\ncores = 0", "cores must be over zero"),
            ("silica machine 1\ncores = -2", "line 2, cores"),
            ("silica machine 1\n\ncores = 1\ncores = 2", "line 4: 'cores' comes twice"),
            ("silica machine 1\ncore = 1", "has no 'core'"),
            ("silica machine 1\nmemory.copy_bytes = NaN", "no number"),
            ("silica machine 1\nmemory.copy_bytes = inf", "no number"),
            ("silica machine 1\ndevice.reads = 1:2 3", "no pair"),
            ("silica machine 1\ndevice.reads =", "at least one point"),
            ("silica machine 1\ndevice.reads = 2:5 1:5", "rise"),
            ("silica machine 1\ndevice.reads = 1:0", "over zero"),
            ("silica machine 1\nprocessor.wip = puts:5", "no processor time 'puts'"),
            ("silica machine 1\nprocessor.wip = put:-5", "no number"),
            ("silica machine 1\nprocessor.wip = put", "no number"),
        ] {
            let error = text.parse::<Machine>().unwrap_err().to_string();
            assert!(error.contains(why), "{text:?}: {error}");
        }
    }

    #[test]
    fn curves_are_drawn_between_their_points() {
        let device = Device { reads: vec![(1.0, 100.0), (4.0, 300.0)], ..Device::default() };
        assert_eq!(device.read_iops(0.5), 100.0);
        assert_eq!(device.read_iops(2.0), 200.0);
        assert_eq!(device.read_iops(99.0), 300.0);
        assert_eq!(device.read_iops(f64::NAN), 100.0);
        assert_eq!(device.read_iops_max(), 300.0);
    }
}
