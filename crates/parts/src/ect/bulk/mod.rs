//! Sorting any number of hashed keys into hash order, and indexing them, in bounded memory.
//!
//! Records have a fixed size and start with their 128-bit key hash, little-endian; they are
//! sorted by it, equal ones by the bytes behind it, so that the outcome depends on the records
//! alone. What exceeds the memory is spilled to a device as sorted runs and merged. Sorting,
//! spilling and merging beforehand use as many cores as the caller's executor has; this module
//! starts no threads.
//!
//! 1. Memory for records and buffers together stays at `memory_bytes`, except that a merge never
//!    takes less than two buffers of a block.
//! 2. Every block of a run has a checksum, kept in memory: a run that comes back different is an
//!    error, never a wrong order.
//! 3. Runs are removed when the sorter or its output is dropped; a sorter begins by removing those
//!    that a process left behind.
//!
//! ```
//! use silica_device::sim::{SimDevice, SimOptions};
//! use silica_parts::ect::{EctParams, bulk};
//!
//! let device = SimDevice::new(1, SimOptions::default());
//! let on_this_thread = |jobs: bulk::Jobs<'_>| jobs.into_iter().for_each(|job| job());
//! let options = bulk::Options { memory_bytes: 1 << 20, ..Default::default() };
//! let mut sorter = bulk::Sorter::<16, _>::new(&device, options, &on_this_thread)?;
//! for key in [7u128 << 90, 5 << 100, 1 << 127] {
//!     sorter.push(&key.to_le_bytes(), &mut |_| ())?;
//! }
//! let index = bulk::dense(&mut sorter.finish(&mut |_| ())?, EctParams::default(), &mut |_| ())?;
//! assert_eq!(index.rank(1 << 63), 2);
//! # Ok::<(), silica_base::Error>(())
//! ```

mod merge;
mod run;

use self::merge::{Merge, Source};
use self::run::{Run, RunShape, RunWriter};
use super::{DenseBuilder, DenseIndex, EctParams};
use silica_base::{BLOCK_BYTES, Error, ErrorKind, Result};
use silica_device::Device;
use std::cmp::Ordering;

/// Work that may run in any order and at the same time.
pub type Jobs<'j> = Vec<Box<dyn FnOnce() + Send + 'j>>;

/// Runs all jobs given to it and returns when they are done.
pub type Executor<'e> = &'e dyn for<'j> Fn(Jobs<'j>);

/// Called now and then with what was reached.
pub type Watch<'w> = &'w mut dyn FnMut(Progress);

/// What a bulk build is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Taking records, sorting and spilling them.
    Sorting,
    /// Merging runs into fewer.
    Merging,
    /// Handing out records in order.
    Output,
}

/// How far a bulk build is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is being done.
    pub phase: Phase,
    /// Records through with it.
    pub done: u64,
    /// Records that go through it; while sorting, those pushed so far.
    pub total: u64,
}

/// How a bulk build works.
#[derive(Debug, Clone)]
pub struct Options {
    /// Memory for records and buffers.
    pub memory_bytes: usize,
    /// Jobs handed to the executor at a time: its cores.
    pub workers: usize,
    /// Start of the names of spilled runs, which nothing else on the device may have.
    pub prefix: String,
}

impl Default for Options {
    fn default() -> Self {
        Options { memory_bytes: 256 << 20, workers: 1, prefix: "sort-run-".to_owned() }
    }
}

/// Largest block in which runs are written and read.
const RUN_BLOCK_BYTES_MAX: usize = 256 << 10;
/// Blocks that the memory should hold, so that merges have many inputs.
const BLOCKS_MIN: usize = 32;
/// Records between calls of a watch while records are handed out.
const OUTPUT_STEP: u64 = 1 << 16;

/// The key of a record.
#[inline]
pub fn key<const RECORD: usize>(record: &[u8; RECORD]) -> u128 {
    const { assert!(RECORD >= 16, "a record starts with a 16-byte key") };
    record.first_chunk::<16>().map_or(0, |key| u128::from_le_bytes(*key))
}

/// The order of records: by key, then by the bytes behind it.
#[inline]
fn order<const RECORD: usize>(a: &[u8; RECORD], b: &[u8; RECORD]) -> Ordering {
    key(a).cmp(&key(b)).then_with(|| a[16..].cmp(&b[16..]))
}

/// Sorts records of `RECORD` bytes.
pub struct Sorter<'a, const RECORD: usize, D: Device> {
    device: &'a D,
    options: Options,
    execute: Executor<'a>,
    shape: RunShape,
    records: Vec<[u8; RECORD]>,
    records_max: usize,
    runs: Vec<Run<'a, D>>,
    runs_made: u64,
    pushed: u64,
}

impl<'a, const RECORD: usize, D: Device> Sorter<'a, RECORD, D> {
    /// A sorter that spills to `device`.
    pub fn new(device: &'a D, mut options: Options, execute: Executor<'a>) -> Result<Self> {
        options.workers = options.workers.max(1);
        let block = (options.memory_bytes / BLOCKS_MIN / options.workers)
            .clamp(RECORD, RUN_BLOCK_BYTES_MAX.max(RECORD))
            .next_multiple_of(BLOCK_BYTES);
        let for_records = options.memory_bytes.saturating_sub(block * options.workers);
        let leftover = |name: &String| name.starts_with(&options.prefix);
        for name in device.list()?.iter().filter(|name| leftover(name)) {
            device.remove(name)?;
        }
        Ok(Sorter {
            device,
            options,
            execute,
            shape: RunShape { block_bytes: block, record_bytes: RECORD },
            records: Vec::new(),
            records_max: (for_records / RECORD).max(1),
            runs: Vec::new(),
            runs_made: 0,
            pushed: 0,
        })
    }

    /// Adds a record; spills all where the memory is full.
    pub fn push(&mut self, record: &[u8; RECORD], watch: Watch<'_>) -> Result<()> {
        if self.records.len() == self.records_max {
            self.spill()?;
            watch(Progress { phase: Phase::Sorting, done: self.pushed, total: self.pushed });
        }
        if self.records.len() == self.records.capacity() {
            // Doubling would overshoot the memory at the end.
            let more = self.records.len().max(1024).min(self.records_max - self.records.len());
            self.records.reserve_exact(more);
        }
        self.records.push(*record);
        self.pushed += 1;
        Ok(())
    }

    /// Records pushed.
    pub fn len(&self) -> u64 {
        self.pushed
    }

    /// True where nothing was pushed.
    pub fn is_empty(&self) -> bool {
        self.pushed == 0
    }

    /// Sorts the records in memory, each worker its share into a run of its own.
    fn spill(&mut self) -> Result<()> {
        let share = self.records.len().div_ceil(self.options.workers).max(1);
        let names = self.names(self.options.workers);
        let (device, shape) = (self.device, self.shape);
        let jobs = self.records.chunks_mut(share).zip(names).map(|(records, name)| {
            move || {
                records.sort_unstable_by(order);
                let mut writer = RunWriter::create(device, name, shape)?;
                records.iter().try_for_each(|record| writer.push(record))?;
                writer.finish()
            }
        });
        let runs = execute_all(self.execute, jobs.collect())?;
        self.runs.extend(runs);
        self.records.clear();
        Ok(())
    }

    fn names(&mut self, count: usize) -> Vec<String> {
        let from = self.runs_made;
        self.runs_made += count as u64;
        (from..self.runs_made).map(|number| format!("{}{number:06}", self.options.prefix)).collect()
    }

    /// Merges runs until one merge can take them all.
    fn merge_down(&mut self, watch: Watch<'_>) -> Result<()> {
        let buffers = self.options.memory_bytes / self.shape.block_bytes;
        while self.runs.len() > buffers.max(2) {
            let total = self.runs.iter().map(Run::records).sum();
            // One buffer of each worker is for its output.
            let inputs = (buffers / self.options.workers).saturating_sub(1).max(2);
            let workers = self.options.workers.min(self.runs.len() / 2).max(1);
            let mut groups = Vec::new();
            for name in self.names(workers) {
                let group: Vec<_> = self.runs.drain(..inputs.min(self.runs.len())).collect();
                groups.push((group, name));
            }
            let (device, shape) = (self.device, self.shape);
            let jobs = groups.into_iter().map(|(group, name)| {
                move || {
                    let mut merge = Merge::<RECORD, D>::of_runs(group)?;
                    let mut writer = RunWriter::create(device, name, shape)?;
                    while let Some(record) = merge.next()? {
                        writer.push(&record)?;
                    }
                    writer.finish()
                }
            });
            let merged = execute_all(self.execute, jobs.collect())?;
            let done = merged.iter().map(Run::records).sum();
            self.runs.extend(merged);
            watch(Progress { phase: Phase::Merging, done, total });
        }
        Ok(())
    }

    /// All records in order.
    pub fn finish(mut self, watch: Watch<'_>) -> Result<Sorted<'a, RECORD, D>> {
        let total = self.pushed;
        let merge = if self.runs.is_empty() {
            let share = self.records.len().div_ceil(self.options.workers).max(1);
            let jobs = self.records.chunks_mut(share).map(|records| {
                move || {
                    records.sort_unstable_by(order);
                    Ok(())
                }
            });
            execute_all(self.execute, jobs.collect())?;
            Merge::new(Source::slices(self.records, share))?
        } else {
            self.spill()?;
            self.records = Vec::new();
            self.merge_down(watch)?;
            Merge::of_runs(self.runs)?
        };
        Ok(Sorted { merge, total, done: 0 })
    }
}

/// Runs `jobs`, each of which gives a result; the first error of any.
fn execute_all<T: Send, F>(execute: Executor<'_>, jobs: Vec<F>) -> Result<Vec<T>>
where
    F: FnOnce() -> Result<T> + Send,
{
    let mut results: Vec<Option<Result<T>>> = jobs.iter().map(|_| None).collect();
    let boxed = jobs.into_iter().zip(&mut results).map(|(job, slot)| {
        let run = move || *slot = Some(job());
        Box::new(run) as Box<dyn FnOnce() + Send + '_>
    });
    execute(boxed.collect());
    let missed = || Err(Error::new(ErrorKind::Config, "the executor did not run every job"));
    results.into_iter().map(|result| result.unwrap_or_else(missed)).collect()
}

/// All records in order, once.
pub struct Sorted<'a, const RECORD: usize, D: Device> {
    merge: Merge<'a, RECORD, D>,
    total: u64,
    done: u64,
}

impl<const RECORD: usize, D: Device> Sorted<'_, RECORD, D> {
    /// Records in all.
    pub fn len(&self) -> u64 {
        self.total
    }

    /// True where there are none.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Hands the rest of the records to `take`, in order.
    pub fn for_each(
        &mut self,
        watch: Watch<'_>,
        mut take: impl FnMut(&[u8; RECORD]) -> Result<()>,
    ) -> Result<()> {
        while let Some(record) = self.merge.next()? {
            take(&record)?;
            self.done += 1;
            if self.done.is_multiple_of(OUTPUT_STEP) || self.done == self.total {
                watch(Progress { phase: Phase::Output, done: self.done, total: self.total });
            }
        }
        Ok(())
    }
}

/// The dense index of all records by the upper half of their keys.
pub fn dense<const RECORD: usize, D: Device>(
    sorted: &mut Sorted<'_, RECORD, D>,
    params: EctParams,
    watch: Watch<'_>,
) -> Result<DenseIndex> {
    let mut builder = DenseBuilder::new(params, sorted.len());
    sorted.for_each(watch, |record| {
        builder.push((key(record) >> 64) as u64);
        Ok(())
    })?;
    Ok(builder.finish())
}
