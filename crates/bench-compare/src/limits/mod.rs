//! Limits: what the device, the memory and the sockets of this machine allow, whichever store
//! uses them. A limit is measured as a store named `limit:…` beside the stores it bounds.

mod cores;
mod device;
mod echo;
mod flush;
mod lines;
mod system;
mod table;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};
use silica::engine::unknown;
use silica::{Error, ErrorKind, Result};
use std::path::PathBuf;
use std::time::Duration;

/// What every store that is a limit has before its name.
pub const LIMIT_PREFIX: &str = "limit:";

/// How much time and space a limit may take.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LimitSetup {
    /// An empty directory on the device that is compared; removed by the caller.
    pub directory: PathBuf,
    /// Bytes of the file, or of the table in memory, that is worked on.
    pub bytes: u64,
    /// Time for each figure.
    pub seconds: f64,
    /// Threads of the workload that stands beside it. Limits of the processor and its memory are
    /// measured with as many; a device is shared by all, and an echo has one client.
    pub threads: usize,
}

/// One figure of a limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// What was measured, such as `reads_depth_8`; the unit is not part of it.
    pub metric: String,
    /// Its unit, such as `1/s`, `bytes/s` or `ns`.
    pub unit: String,
    /// The figure.
    pub value: f64,
}

impl Reading {
    /// A figure.
    pub fn new(metric: impl Into<String>, unit: impl Into<String>, value: f64) -> Self {
        Reading { metric: metric.into(), unit: unit.into(), value }
    }
}

/// Something that no store can pass.
pub trait Limit: Sync {
    /// The name without the prefix `limit:`, such as `device-reads`.
    fn name(&self) -> &'static str;
    /// What it is, in one line.
    fn doc(&self) -> &'static str;
    /// What it is measured with: the version of a tool, or an own probe. Where it cannot be
    /// measured on this machine, the error says why and what would help.
    fn version(&self) -> Result<String> {
        Ok(env!("CARGO_PKG_VERSION").to_string())
    }
    /// How many figures are measured, one after the other, each for as long as the setup says.
    fn figures(&self) -> usize;
    /// Measures it.
    fn measure(&self, setup: &LimitSetup) -> Result<Vec<Reading>>;
    /// True where [`Limit::probe`] measures the figure `metric`: what changes from one second to
    /// the next must be measured in turns with the stores.
    fn has_probe(&self, _metric: &str) -> bool {
        false
    }
    /// Begins to measure one figure in slices.
    fn probe(&'static self, _setup: &LimitSetup, metric: &str) -> Result<Box<dyn Probe>> {
        let message = format!("limit {} does not measure {metric} in slices", self.name());
        Err(Error::new(ErrorKind::Unsupported, message))
    }
}

/// One figure of a limit that is measured in slices.
pub trait Probe {
    /// Measures for `time`: the figure, in its unit.
    fn slice(&mut self, time: Duration) -> Result<f64>;
}

/// All limits; a new one gets a row here.
pub fn all() -> Vec<&'static dyn Limit> {
    vec![
        &device::READS,
        &device::STREAMS,
        &device::SYNCS,
        &lines::MemoryLines,
        &lines::MemoryStreams,
        &flush::MemoryFlush,
        &system::Syscalls,
        &echo::UDP,
        &echo::UDP_BATCH,
        &echo::UDP_GSO,
        &echo::Answers,
        &echo::TCP,
        &echo::TCP_URING,
        &echo::TCP_URING_32,
        &echo::UNIX,
    ]
}

/// The kernel's name and version.
fn kernel() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
    release.map_or("an unknown kernel".into(), |release| format!("Linux {}", release.trim()))
}

/// The limit `name`, with or without its prefix; the error lists those there are.
pub fn find(name: &str) -> Result<&'static dyn Limit> {
    let plain = name.strip_prefix(LIMIT_PREFIX).unwrap_or(name);
    let limits = all();
    let found = limits.iter().find(|limit| limit.name() == plain).copied();
    found.ok_or_else(|| unknown("limit", name, limits.iter().map(|limit| limit.name())))
}
