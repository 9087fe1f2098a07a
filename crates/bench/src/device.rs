//! What the device itself can do, through the same code as the engines, and beside `fio` where
//! that is installed.

use serde::Serialize;
use serde_json::Value;
use silica::device::{Device, DeviceFile, Mode, Read, ReadQueue};
use silica::{DeviceOptions, Error, ErrorKind, FileDevice, Result};
use silica_base::{AlignedBuf, Prng};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

const CHUNK_BYTES: usize = 4096;
const STREAM_BYTES: usize = 1 << 20;
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
    /// The same, by fio with the same depth on the same file.
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
    if bytes < STREAM_BYTES as u64 || seconds <= 0.0 {
        let message = "--size must be at least 1MiB, --seconds more than 0";
        return Err(Error::new(ErrorKind::Config, message));
    }
    let directory = path.join(format!("silica-bench-device-{}", std::process::id()));
    let outcome = measure(&directory, bytes, Duration::from_secs_f64(seconds));
    // The figures are what counts; a directory that stays is only untidy.
    let _ = std::fs::remove_dir_all(&directory);
    outcome
}

fn measure(directory: &Path, bytes: u64, period: Duration) -> Result<DeviceReport> {
    let device = FileDevice::open(directory, DeviceOptions::default())?;
    let bytes = bytes / STREAM_BYTES as u64 * STREAM_BYTES as u64;
    let write_bytes_per_second = write_in_order(&device, bytes)?;
    let file = Arc::new(device.open(FILE, Mode::Direct)?);
    let read_bytes_per_second = read_in_order(&*file, bytes)?;
    let mut random_reads = Vec::new();
    for depth in DEPTHS {
        random_reads.push(RandomReads {
            depth,
            reads_per_second: read_randomly(&device, &file, bytes, depth, period)?,
            fio_reads_per_second: fio(&directory.join(FILE), bytes, depth, period),
        });
    }
    let syncs_per_second = sync_often(&device, period)?;
    let fio = random_reads.iter().any(|r| r.fio_reads_per_second.is_some());
    Ok(DeviceReport {
        random_reads,
        write_bytes_per_second,
        read_bytes_per_second,
        syncs_per_second,
        fio,
    })
}

fn write_in_order(device: &FileDevice, bytes: u64) -> Result<f64> {
    let file = device.create(FILE, Mode::Direct)?;
    let mut buf = AlignedBuf::zeroed(STREAM_BYTES);
    Prng::new(3).fill(&mut buf);
    let started = Instant::now();
    for at in (0..bytes).step_by(STREAM_BYTES) {
        file.write_at(at, &buf)?;
    }
    file.sync()?;
    Ok(bytes as f64 / started.elapsed().as_secs_f64())
}

fn read_in_order<F: DeviceFile>(file: &F, bytes: u64) -> Result<f64> {
    let mut buf = AlignedBuf::zeroed(STREAM_BYTES);
    let started = Instant::now();
    for at in (0..bytes).step_by(STREAM_BYTES) {
        file.read_at(at, &mut buf)?;
    }
    Ok(bytes as f64 / started.elapsed().as_secs_f64())
}

fn read_randomly(
    device: &FileDevice,
    file: &Arc<<FileDevice as Device>::File>,
    bytes: u64,
    depth: usize,
    period: Duration,
) -> Result<f64> {
    let mut prng = Prng::new(depth as u64);
    let chunks = bytes / CHUNK_BYTES as u64;
    let mut draw = |buf| {
        let offset = prng.below(chunks) * CHUNK_BYTES as u64;
        Read { of: file.clone(), offset, buf }
    };
    let mut reads = device.reads(depth);
    let started = Instant::now();
    for _ in 0..depth {
        reads.push(draw(AlignedBuf::zeroed(CHUNK_BYTES)));
    }
    let mut done = 0u64;
    while started.elapsed() < period {
        let (read, filled) = reads.pop().expect("as many are under way as at the start");
        if filled? != CHUNK_BYTES {
            return Err(Error::new(ErrorKind::Io, "a read inside the file was short"));
        }
        done += 1;
        reads.push(draw(read.buf));
    }
    Ok(done as f64 / started.elapsed().as_secs_f64())
}

fn sync_often(device: &FileDevice, period: Duration) -> Result<f64> {
    let file = device.create(SYNC_FILE, Mode::Direct)?;
    let buf = AlignedBuf::zeroed(CHUNK_BYTES);
    let started = Instant::now();
    let mut done = 0u64;
    while started.elapsed() < period {
        // The same few chunks again and again: what is measured is the sync, not the growth.
        file.write_at(done % 256 * CHUNK_BYTES as u64, &buf)?;
        file.sync()?;
        done += 1;
    }
    Ok(done as f64 / started.elapsed().as_secs_f64())
}

/// Random reads per second by fio, or `None` where it is not installed or refuses.
fn fio(file: &Path, bytes: u64, depth: usize, period: Duration) -> Option<f64> {
    let output = Command::new("fio")
        .args(["--name=silica", "--rw=randread", "--bs=4k", "--direct=1", "--ioengine=io_uring"])
        .args(["--time_based", "--readonly", "--norandommap", "--output-format=json"])
        .arg(format!("--filename={}", file.display()))
        .arg(format!("--size={bytes}"))
        .arg(format!("--iodepth={depth}"))
        .arg(format!("--runtime={}ms", period.as_millis()))
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    // Warnings may stand before the object.
    let object: Value = serde_json::from_str(&text[text.find('{')?..]).ok()?;
    object["jobs"][0]["read"]["iops"].as_f64().filter(|iops| *iops > 0.0)
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
}
