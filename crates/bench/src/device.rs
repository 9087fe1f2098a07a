//! What the device itself can do, through the same code as the engines, and beside `fio` where
//! that is installed.

use serde::Serialize;
use serde_json::Value;
use silica::{Error, ErrorKind, Names, Result, SCRATCH_BLOCK_BYTES, Scratch};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const CHUNK_BYTES: usize = 4096;
const STREAM_BYTES: usize = SCRATCH_BLOCK_BYTES as usize;
const DEPTHS: [usize; 3] = [1, 8, 32];
const FILE: &str = "bench-data";
const SYNC_FILE: &str = "bench-sync";

/// Random reads with a number of them in flight.
#[derive(Debug, Clone, Serialize)]
pub struct RandomReads {
    /// Reads in flight, all the time.
    pub depth: usize,
    /// 4 KiB reads per second.
    pub reads_per_second: f64,
    /// What fio reads with this depth from the same file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fio_reads_per_second: Option<f64>,
}

/// Figures of a device.
#[derive(Debug, Clone, Serialize)]
pub struct DeviceReport {
    /// Random reads of 4 KiB at several depths.
    pub random_reads: Vec<RandomReads>,
    /// Bytes per second written in order, synced at the end.
    pub write_bytes_per_second: f64,
    /// Bytes per second read in order.
    pub read_bytes_per_second: f64,
    /// Writes of 4 KiB per second with a sync after each.
    pub syncs_per_second: f64,
    /// True where fio was there to compare with.
    pub fio: bool,
}

impl DeviceReport {
    /// The report as lines for people.
    pub fn text(&self) -> String {
        let mib = f64::from(1 << 20);
        let mut out = format!(
            "write in order {:.0} MiB/s, read in order {:.0} MiB/s, {:.0} syncs/s\n",
            self.write_bytes_per_second / mib,
            self.read_bytes_per_second / mib,
            self.syncs_per_second
        );
        for reads in &self.random_reads {
            out += &format!(
                "random 4 KiB reads, depth {:>2}: {:.0}/s",
                reads.depth, reads.reads_per_second
            );
            out += &match reads.fio_reads_per_second {
                Some(fio) => {
                    format!(" ({:.0} % of fio's {fio:.0})\n", 100.0 * reads.reads_per_second / fio)
                }
                None => "\n".to_string(),
            };
        }
        out
    }
}

/// Measures the device under `path` with a file of `bytes`, each figure for about `seconds`.
pub fn device(path: &Path, bytes: u64, seconds: f64) -> Result<DeviceReport> {
    if seconds <= 0.0 {
        return Err(Error::new(ErrorKind::Config, "--seconds must be more than 0"));
    }
    let period = Duration::from_secs_f64(seconds);
    let probe = DeviceProbe::new(path, bytes)?;
    let read_bytes_per_second = probe.scratch.read_in_order_once()?;
    let mut random_reads = Vec::new();
    for depth in DEPTHS {
        random_reads.push(RandomReads {
            depth,
            reads_per_second: probe.rate(Access::RandomReads, depth, period)?,
            fio_reads_per_second: probe.fio_rate(Access::RandomReads, depth, period),
        });
    }
    let fio = random_reads.iter().any(|r| r.fio_reads_per_second.is_some());
    Ok(DeviceReport {
        random_reads,
        write_bytes_per_second: probe.fill_bytes_per_second,
        read_bytes_per_second,
        syncs_per_second: probe.rate(Access::SyncedWrites, 1, period)?,
        fio,
    })
}

/// What is done with a file, by a [`DeviceProbe`] or by fio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads of 4 KiB in random order.
    RandomReads,
    /// Reads of 1 MiB in order.
    Reads,
    /// Writes of 1 MiB in order over a file that has its space, synced at the end.
    Writes,
    /// Writes of 4 KiB over a file that has its space, one after the other, a sync after each.
    SyncedWrites,
}

impl Access {
    /// Bytes of one read or write.
    pub fn bytes(self) -> usize {
        match self {
            Access::RandomReads | Access::SyncedWrites => CHUNK_BYTES,
            Access::Reads | Access::Writes => STREAM_BYTES,
        }
    }

    fn file(self) -> &'static str {
        if self == Access::SyncedWrites { SYNC_FILE } else { FILE }
    }

    /// How fio is told, and the part of its report that counts.
    fn of_fio(self) -> (&'static [&'static str], &'static str) {
        match self {
            Access::RandomReads => (&["--rw=randread", "--norandommap", "--readonly"], "read"),
            Access::Reads => (&["--rw=read", "--readonly"], "read"),
            Access::Writes => (&["--rw=write", "--end_fsync=1"], "write"),
            Access::SyncedWrites => (&["--rw=write", "--fdatasync=1"], "write"),
        }
    }
}

/// A scratch file on a device, and fio beside it; removed when the probe is dropped.
pub struct DeviceProbe {
    scratch: Scratch,
    /// Bytes per second at which the new file was filled in order, by one writer.
    pub fill_bytes_per_second: f64,
}

impl DeviceProbe {
    /// Fills a file of `bytes` (at least 1 MiB) in a new directory under `path`.
    pub fn new(path: &Path, bytes: u64) -> Result<Self> {
        if bytes < SCRATCH_BLOCK_BYTES {
            return Err(Error::new(ErrorKind::Config, "--size must be at least 1MiB"));
        }
        // fio opens them by their names.
        let scratch = Scratch::new(path, "silica-bench-device", bytes, Names::Kept)?;
        let fill_bytes_per_second = scratch.fill_bytes_per_second();
        Ok(DeviceProbe { scratch, fill_bytes_per_second })
    }

    /// Where its files are.
    pub fn directory(&self) -> &Path {
        self.scratch.directory()
    }

    /// Reads or writes per second, measured for `period` with `depth` of them in flight.
    pub fn rate(&self, access: Access, depth: usize, period: Duration) -> Result<f64> {
        match access {
            Access::RandomReads => self.scratch.random_reads(depth, period),
            Access::Reads => self.scratch.reads_in_order(access.bytes(), depth, period),
            Access::Writes => self.scratch.writes_in_order(access.bytes(), depth, period),
            Access::SyncedWrites => self.scratch.synced_writes(period),
        }
    }

    /// Operations a second by fio; `None` if it is not installed or refuses.
    pub fn fio_rate(&self, access: Access, depth: usize, period: Duration) -> Option<f64> {
        let (arguments, part) = access.of_fio();
        let bytes =
            if access == Access::SyncedWrites { SCRATCH_BLOCK_BYTES } else { self.scratch.bytes() };
        let output = Command::new("fio")
            .args(["--name=silica", "--direct=1", "--ioengine=io_uring", "--time_based"])
            .arg("--output-format=json")
            .args(arguments)
            .arg(format!("--filename={}", self.directory().join(access.file()).display()))
            .arg(format!("--bs={}", access.bytes()))
            .arg(format!("--size={bytes}"))
            .arg(format!("--iodepth={depth}"))
            .arg(format!("--runtime={}ms", period.as_millis().max(1)))
            .output()
            .ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        // Warnings may stand before the object.
        let object: Value = serde_json::from_str(&text[text.find('{')?..]).ok()?;
        object["jobs"][0][part]["iops"].as_f64().filter(|iops| *iops > 0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_file_gives_every_figure() {
        let report = device(&std::env::temp_dir(), 2 << 20, 0.05).unwrap();
        assert_eq!(report.random_reads.len(), DEPTHS.len());
        assert!(report.random_reads.iter().all(|r| r.reads_per_second > 0.0));
        assert!(report.write_bytes_per_second > 0.0 && report.syncs_per_second > 0.0);
        assert!(report.text().contains("depth 32"));
    }

    #[test]
    fn every_access_has_a_rate_and_the_directory_goes_with_the_probe() {
        let place = std::env::temp_dir().join(format!("silica-probe-{}", std::process::id()));
        let probe = DeviceProbe::new(&place, 2 << 20).unwrap();
        for access in [Access::RandomReads, Access::Reads, Access::Writes, Access::SyncedWrites] {
            let rate = probe.rate(access, 2, Duration::from_millis(10)).unwrap();
            assert!(rate > 0.0, "{access:?}");
        }
        let directory = probe.directory().to_path_buf();
        assert!(directory.join(FILE).exists());
        drop(probe);
        assert!(!directory.exists());
        std::fs::remove_dir(&place).unwrap();
    }
}
