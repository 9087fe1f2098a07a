//! What the device itself can do, through the same code as the engines, and beside `fio` where
//! that is installed.

use serde::Serialize;
use serde_json::Value;
use silica::device::{Device, DeviceFile, Mode, Read, ReadQueue};
use silica::{DeviceOptions, Error, ErrorKind, FileDevice, Result};
use silica_base::{AlignedBuf, Prng};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const CHUNK_BYTES: usize = 4096;
const STREAM_BYTES: usize = 1 << 20;
const DEPTHS: [usize; 3] = [1, 8, 32];
const FILE: &str = "bench-data";
const SYNC_FILE: &str = "bench-sync";
const SYNC_FILE_BYTES: u64 = STREAM_BYTES as u64;

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
    if seconds <= 0.0 {
        return Err(Error::new(ErrorKind::Config, "--seconds must be more than 0"));
    }
    let period = Duration::from_secs_f64(seconds);
    let probe = DeviceProbe::new(path, bytes)?;
    let read_bytes_per_second = probe.read_in_order_once()?;
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

/// Files on a device, read and written through the same code as those of the engines; removed
/// when the probe is dropped.
pub struct DeviceProbe {
    directory: Directory,
    device: FileDevice,
    file: Arc<<FileDevice as Device>::File>,
    sync_file: <FileDevice as Device>::File,
    bytes: u64,
    /// Measurements so far: each reads other blocks, which nobody has in a cache yet.
    asked: AtomicU64,
    /// Bytes per second at which the new file was filled in order, by one writer.
    pub fill_bytes_per_second: f64,
}

struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        // The figures are what counts; a directory that stays is only untidy.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl DeviceProbe {
    /// Fills a file of `bytes` (at least 1 MiB) in a new directory under `path`.
    pub fn new(path: &Path, bytes: u64) -> Result<Self> {
        if bytes < STREAM_BYTES as u64 {
            return Err(Error::new(ErrorKind::Config, "--size must be at least 1MiB"));
        }
        let name = format!("silica-bench-device-{}", std::process::id());
        let directory = Directory(path.join(name));
        let device = FileDevice::open(&directory.0, DeviceOptions::default())?;
        let bytes = bytes / STREAM_BYTES as u64 * STREAM_BYTES as u64;
        let file = device.create(FILE, Mode::Direct)?;
        let fill_bytes_per_second = fill(&file, bytes)?;
        let sync_file = device.create(SYNC_FILE, Mode::Direct)?;
        fill(&sync_file, SYNC_FILE_BYTES)?;
        let file = Arc::new(file);
        let asked = AtomicU64::new(0);
        Ok(DeviceProbe { directory, device, file, sync_file, bytes, asked, fill_bytes_per_second })
    }

    /// Where its files are.
    pub fn directory(&self) -> &Path {
        &self.directory.0
    }

    /// Reads or writes per second, measured for `period` with `depth` of them in flight.
    pub fn rate(&self, access: Access, depth: usize, period: Duration) -> Result<f64> {
        match access {
            Access::RandomReads => {
                let asked = self.asked.fetch_add(1, Ordering::Relaxed);
                let mut prng = Prng::new(asked << 32 | depth as u64);
                let chunks = self.bytes / CHUNK_BYTES as u64;
                self.read(CHUNK_BYTES, depth, period, || prng.below(chunks))
            }
            Access::Reads => {
                let mut blocks = (0..self.bytes / STREAM_BYTES as u64).cycle();
                self.read(STREAM_BYTES, depth, period, || blocks.next().expect("a cycle"))
            }
            Access::Writes => self.write(depth, period),
            Access::SyncedWrites => self.sync_often(period),
        }
    }

    /// The same by fio, or `None` where it is not installed or refuses.
    pub fn fio_rate(&self, access: Access, depth: usize, period: Duration) -> Option<f64> {
        let (arguments, part) = access.of_fio();
        let bytes = if access == Access::SyncedWrites { SYNC_FILE_BYTES } else { self.bytes };
        let output = Command::new("fio")
            .args(["--name=silica", "--direct=1", "--ioengine=io_uring", "--time_based"])
            .arg("--output-format=json")
            .args(arguments)
            .arg(format!("--filename={}", self.directory.0.join(access.file()).display()))
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

    /// Keeps `depth` reads of `len` bytes in flight; `next` draws which block is read.
    fn read(
        &self,
        len: usize,
        depth: usize,
        period: Duration,
        mut next: impl FnMut() -> u64,
    ) -> Result<f64> {
        let mut draw = |buf| Read { of: self.file.clone(), offset: next() * len as u64, buf };
        let mut reads = self.device.reads(depth);
        let started = Instant::now();
        for _ in 0..depth {
            reads.push(draw(AlignedBuf::zeroed(len)));
        }
        let mut done = 0u64;
        while started.elapsed() < period || done == 0 {
            let (read, filled) = reads.pop().expect("as many are under way as at the start");
            if filled? != len {
                return Err(Error::new(ErrorKind::Io, "a read inside the file was short"));
            }
            done += 1;
            reads.push(draw(read.buf));
        }
        Ok(done as f64 / started.elapsed().as_secs_f64())
    }

    /// One reader that waits for each MiB, once through the file: bytes per second.
    fn read_in_order_once(&self) -> Result<f64> {
        let mut buf = AlignedBuf::zeroed(STREAM_BYTES);
        let started = Instant::now();
        for at in (0..self.bytes).step_by(STREAM_BYTES) {
            self.file.read_at(at, &mut buf)?;
        }
        Ok(self.bytes as f64 / started.elapsed().as_secs_f64())
    }

    /// As many writers as writes are to be in flight.
    fn write(&self, depth: usize, period: Duration) -> Result<f64> {
        let blocks = self.bytes / STREAM_BYTES as u64;
        let done = AtomicU64::new(0);
        let started = Instant::now();
        let writer = || {
            let mut buf = AlignedBuf::zeroed(STREAM_BYTES);
            Prng::new(4).fill(&mut buf);
            loop {
                let block = done.fetch_add(1, Ordering::Relaxed) % blocks;
                self.file.write_at(block * STREAM_BYTES as u64, &buf)?;
                if started.elapsed() >= period {
                    return Ok::<(), Error>(());
                }
            }
        };
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..depth).map(|_| scope.spawn(writer)).collect();
            writers.into_iter().try_for_each(|w| w.join().expect("a writer does not panic"))
        })?;
        self.file.sync()?;
        Ok(done.into_inner() as f64 / started.elapsed().as_secs_f64())
    }

    fn sync_often(&self, period: Duration) -> Result<f64> {
        let buf = AlignedBuf::zeroed(CHUNK_BYTES);
        let started = Instant::now();
        let mut done = 0u64;
        while started.elapsed() < period || done == 0 {
            // The same few chunks again and again: what is measured is the sync, not the growth.
            let at = done * CHUNK_BYTES as u64 % SYNC_FILE_BYTES;
            self.sync_file.write_at(at, &buf)?;
            self.sync_file.sync()?;
            done += 1;
        }
        Ok(done as f64 / started.elapsed().as_secs_f64())
    }
}

/// Writes all of a new file in order; bytes per second.
fn fill<F: DeviceFile>(file: &F, bytes: u64) -> Result<f64> {
    let mut buf = AlignedBuf::zeroed(STREAM_BYTES);
    Prng::new(3).fill(&mut buf);
    let started = Instant::now();
    for at in (0..bytes).step_by(STREAM_BYTES) {
        file.write_at(at, &buf)?;
    }
    file.sync()?;
    Ok(bytes as f64 / started.elapsed().as_secs_f64())
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
