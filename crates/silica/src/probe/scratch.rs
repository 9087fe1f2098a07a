//! A scratch file, read and written through the same code as the files of engines.

use silica_base::{AlignedBuf, Prng};
use silica_device::{
    Device, DeviceFile, DeviceOptions, FileDevice, LogFile, MappedLog, Mode, PlainFile, Read,
    ReadQueue,
};
use silica_engine::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes that a scratch file is filled in, and a multiple of which it has.
pub const SCRATCH_BLOCK_BYTES: u64 = 1 << 20;
const CHUNK_BYTES: usize = 4096;
const FILE: &str = "bench-data";
const SYNC_FILE: &str = "bench-sync";
const LOG: &str = "LOG-bench";
const LOG_BYTES: u64 = 8 << 20;
/// What a small write appends to a log.
const APPEND_BYTES: usize = 128;

/// Whether the scratch files have names while they are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// Until the scratch is dropped: others can open them.
    Kept,
    /// None from the start: whatever ends the process, nothing is left behind.
    Gone,
}

/// Files in a directory of their own, to measure a device with.
pub struct Scratch {
    directory: Directory,
    device: FileDevice,
    file: Arc<PlainFile>,
    sync_file: PlainFile,
    log: Mutex<Option<MappedLog>>,
    bytes: u64,
    /// Measurements so far: each reads other blocks, which nobody has in a cache yet.
    asked: AtomicU64,
    fill_bytes_per_second: f64,
}

struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        // The figures are what counts; a directory that stays is only untidy.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Scratch {
    /// Fills a file of `bytes` (rounded down to whole MiB, at least 1) in the new directory `name`
    /// under `path`.
    ///
    /// # Errors
    /// `Config` for less than 1 MiB, `Full` where the file does not fit, and what the operating
    /// system refuses. Nothing is left behind.
    pub fn new(path: &Path, name: &str, bytes: u64, names: Names) -> Result<Self> {
        if bytes < SCRATCH_BLOCK_BYTES {
            return Err(Error::new(ErrorKind::Config, "a scratch file has at least 1MiB"));
        }
        let directory = Directory(path.join(format!("{name}-{}", std::process::id())));
        let device = FileDevice::open(&directory.0, DeviceOptions::default())?;
        let bytes = bytes / SCRATCH_BLOCK_BYTES * SCRATCH_BLOCK_BYTES;
        let free = device.free_bytes()?;
        if bytes.saturating_add(LOG_BYTES + SCRATCH_BLOCK_BYTES) > free {
            let message = format!(
                "a scratch file of {bytes} bytes does not fit {}, which has {free} bytes free; \
                 take a smaller one, or make room",
                path.display()
            );
            return Err(Error::new(ErrorKind::Full, message));
        }
        let file = device.create(FILE, Mode::Direct)?;
        let sync_file = device.create(SYNC_FILE, Mode::Direct)?;
        let log = match names {
            Names::Kept => None,
            Names::Gone => Some(device.create_log(LOG, LOG_BYTES)?),
        };
        if names == Names::Gone {
            std::fs::remove_dir_all(&directory.0)
                .map_err(|e| Error::io(format!("removing {} again", directory.0.display()), e))?;
        }
        let fill_bytes_per_second = fill(&file, bytes)?;
        fill(&sync_file, SCRATCH_BLOCK_BYTES)?;
        Ok(Scratch {
            directory,
            device,
            file: Arc::new(file),
            sync_file,
            log: Mutex::new(log),
            bytes,
            asked: AtomicU64::new(0),
            fill_bytes_per_second,
        })
    }

    /// Where its files are, or were.
    pub fn directory(&self) -> &Path {
        &self.directory.0
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes per second at which the new file was filled in order, by one writer.
    pub fn fill_bytes_per_second(&self) -> f64 {
        self.fill_bytes_per_second
    }

    /// Random reads of 4 KiB a second, `depth` in flight.
    pub fn random_reads(&self, depth: usize, period: Duration) -> Result<f64> {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        let mut prng = Prng::new(asked << 32 | depth as u64);
        let chunks = self.bytes / CHUNK_BYTES as u64;
        self.read(CHUNK_BYTES, depth, period, || prng.below(chunks))
    }

    /// Reads of `block` bytes (a divisor of 1 MiB) in order a second, `depth` in flight.
    pub fn reads_in_order(&self, block: usize, depth: usize, period: Duration) -> Result<f64> {
        let mut blocks = (0..self.bytes / block as u64).cycle();
        self.read(block, depth, period, || blocks.next().expect("a cycle"))
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
    pub fn read_in_order_once(&self) -> Result<f64> {
        let mut buf = AlignedBuf::zeroed(SCRATCH_BLOCK_BYTES as usize);
        let started = Instant::now();
        for at in (0..self.bytes).step_by(SCRATCH_BLOCK_BYTES as usize) {
            self.file.read_at(at, &mut buf)?;
        }
        Ok(self.bytes as f64 / started.elapsed().as_secs_f64())
    }

    /// Writes of `block` bytes (a divisor of 1 MiB) in order over a file that has its space, by
    /// `writers` threads, synced at the end: writes a second.
    pub fn writes_in_order(&self, block: usize, writers: usize, period: Duration) -> Result<f64> {
        let blocks = self.bytes / block as u64;
        let done = AtomicU64::new(0);
        let started = Instant::now();
        let writer = || {
            let mut buf = AlignedBuf::zeroed(block);
            Prng::new(4).fill(&mut buf);
            loop {
                let at = done.fetch_add(1, Ordering::Relaxed) % blocks;
                self.file.write_at(at * block as u64, &buf)?;
                if started.elapsed() >= period {
                    return Ok::<(), Error>(());
                }
            }
        };
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..writers).map(|_| scope.spawn(writer)).collect();
            writers.into_iter().try_for_each(|w| w.join().expect("a writer does not panic"))
        })?;
        self.file.sync()?;
        Ok(done.into_inner() as f64 / started.elapsed().as_secs_f64())
    }

    /// Writes of 4 KiB over a file that has its space, one after the other, a sync after each.
    pub fn synced_writes(&self, period: Duration) -> Result<f64> {
        let buf = AlignedBuf::zeroed(CHUNK_BYTES);
        let started = Instant::now();
        let mut done = 0u64;
        while started.elapsed() < period || done == 0 {
            // A few chunks are written again and again: what is measured is the sync, not the
            // growth.
            let at = done * CHUNK_BYTES as u64 % SCRATCH_BLOCK_BYTES;
            self.sync_file.write_at(at, &buf)?;
            self.sync_file.sync()?;
            done += 1;
        }
        Ok(done as f64 / started.elapsed().as_secs_f64())
    }

    /// Small appends to a log a second, by `waiters` threads that each wait for a sync before the
    /// next: those that wait together share one, as in an engine's group commit.
    ///
    /// # Errors
    /// `Unsupported` where names are kept, for then there is no log; `Full` after some ten
    /// thousand appends in all.
    pub fn synced_appends(&self, waiters: usize, period: Duration) -> Result<f64> {
        let guard = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(log) = guard.as_ref() else {
            return Err(Error::new(ErrorKind::Unsupported, "this scratch has no log"));
        };
        let (done, turn) = (AtomicU64::new(0), Mutex::new(()));
        let first = log.len();
        // A fourth of what is left is for this measurement.
        let end = first + (log.capacity() - first) / 4;
        let started = Instant::now();
        let waiter = || -> Result<()> {
            let bytes = [7; APPEND_BYTES];
            loop {
                {
                    let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
                    log.append(&[&bytes])?;
                }
                log.sync()?;
                done.fetch_add(1, Ordering::Relaxed);
                if started.elapsed() >= period || log.len() >= end {
                    return Ok(());
                }
            }
        };
        std::thread::scope(|scope| {
            let waiters: Vec<_> = (0..waiters.max(1)).map(|_| scope.spawn(waiter)).collect();
            waiters.into_iter().try_for_each(|w| w.join().expect("a waiter does not panic"))
        })?;
        Ok(done.into_inner() as f64 / started.elapsed().as_secs_f64())
    }
}

/// Writes all of a new file in order; bytes per second.
fn fill<F: DeviceFile>(file: &F, bytes: u64) -> Result<f64> {
    let mut buf = AlignedBuf::zeroed(SCRATCH_BLOCK_BYTES as usize);
    Prng::new(3).fill(&mut buf);
    let started = Instant::now();
    for at in (0..bytes).step_by(SCRATCH_BLOCK_BYTES as usize) {
        file.write_at(at, &buf)?;
    }
    file.sync()?;
    Ok(bytes as f64 / started.elapsed().as_secs_f64())
}
