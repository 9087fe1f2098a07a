//! A cache meets requests.

use silica_base::Result;

use super::super::cache::{Cache, CacheCounts};
use super::operations::{ITEM_OVERHEAD_BYTES, Operation, Operations};
use super::scheme::Scheme;
use super::shape::FlashShape;

/// Operations between two calls of a progress bar.
const CHUNK: u64 = 1 << 16;

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Operations before the count begins.
    pub settle: u64,
    /// Operations that are counted.
    pub requests: u64,
    /// A get that misses is followed by a put: the cache is filled from a store behind it. A put of
    /// a trace that follows such a miss is that put, and not done twice.
    pub fills: bool,
    /// Requests a second on the whole drive, if they come at a rate.
    pub rate: Option<f64>,
}

/// What was counted of a scheme, at the share of the drive that was simulated.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// The scheme.
    pub scheme: Scheme,
    /// Counts of the cache.
    pub counts: CacheCounts,
    /// Operations that were counted.
    pub operations: u64,
    /// Bytes of keys and values that were put.
    pub user_bytes: u64,
    /// Bytes written to flash, by the cache and by the drive below it.
    pub flash_bytes: u64,
    /// Share of the flash's bytes that were written before the count began; 1 and more is a cache
    /// that was full.
    pub filled: f64,
    /// Erases of each block since the begin.
    pub block_erases: Vec<u32>,
    /// Bytes of flash that each operation wrote, by the drive's bytes: drive writes an operation.
    pub drive_writes: f64,
    /// Operations a day, if they come at a rate.
    pub operations_a_day: Option<f64>,
}

impl Counted {
    /// Bytes written to flash for each byte that was put; 0 if none was.
    pub fn write_amplification(&self) -> f64 {
        self.flash_bytes as f64 / self.user_bytes.max(1) as f64
    }

    /// How often the whole drive is written in a day; `None` without a rate.
    pub fn drive_writes_per_day(&self) -> Option<f64> {
        self.operations_a_day.map(|operations| self.drive_writes * operations)
    }

    /// Years until blocks that bear `endurance` erases are worn, if all are erased as often as the
    /// mean of them; `None` without a rate, and if nothing was written. [`Counted::erases`] says
    /// how far blocks are apart.
    pub fn years(&self, endurance: u32) -> Option<f64> {
        let writes = self.drive_writes_per_day().filter(|writes| *writes > 0.0)?;
        Some(f64::from(endurance) / writes / 365.25)
    }

    /// Least, mean and most erases of a block.
    pub fn erases(&self) -> (u32, f64, u32) {
        let all = || self.block_erases.iter().copied();
        let mean = all().map(f64::from).sum::<f64>() / self.block_erases.len().max(1) as f64;
        (all().min().unwrap_or(0), mean, all().max().unwrap_or(0))
    }
}

/// Runs a scheme: every key is put once, then operations settle the cache, then they are counted.
/// `progress` hears of operations done and of all.
///
/// # Errors
/// Those of [`Scheme::cache`].
pub fn run_cache(
    scheme: Scheme,
    shape: &FlashShape,
    operations: &Operations,
    plan: &Plan,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Counted> {
    let interval_ns = plan.rate.map(|rate| 1e9 / rate);
    let cache = scheme.cache(shape, operations.keys(), interval_ns)?;
    let is_recorded = operations.recorded_count().is_some();
    let filled = vec![false; if is_recorded { operations.keys() as usize } else { 0 }];
    let mut runner = Runner { cache, fills: plan.fills, filled, user_bytes: 0 };
    operations.preload().into_iter().for_each(|operation| runner.perform(operation));
    let mut operations = operations.clone();
    let all = plan.settle + plan.requests;
    let mut done = 0;
    let mut perform = |runner: &mut Runner, count: u64| {
        let end = done + count;
        while done < end {
            let Some(operation) = operations.next() else { break };
            runner.perform(operation);
            done += 1;
            if done.is_multiple_of(CHUNK) || done == all {
                progress(done, all);
            }
        }
        count - (end - done)
    };
    perform(&mut runner, plan.settle);
    let (before, bytes_before) = (runner.cache.counts(), runner.user_bytes);
    let counted = perform(&mut runner, plan.requests);
    let counts = runner.cache.counts().since(&before);
    let flash_bytes = |counts: &CacheCounts| {
        counts.written * shape.block_bytes() + counts.page_copies * u64::from(shape.page_bytes)
    };
    let drive_writes = flash_bytes(&counts) as f64 / counted.max(1) as f64 * shape.scale;
    Ok(Counted {
        scheme,
        operations: counted,
        user_bytes: runner.user_bytes - bytes_before,
        flash_bytes: flash_bytes(&counts),
        filled: flash_bytes(&before) as f64 / shape.bytes() as f64,
        block_erases: runner.cache.block_erases(),
        // Of the whole drive each operation writes as much as here, and it is so much larger.
        drive_writes: drive_writes / shape.bytes() as f64,
        operations_a_day: plan.rate.map(|rate| rate * 86_400.0),
        counts,
    })
}

struct Runner {
    cache: Box<dyn Cache>,
    fills: bool,
    /// Keys of a trace that a miss put, and whose put in the trace is still to come.
    filled: Vec<bool>,
    user_bytes: u64,
}

impl Runner {
    fn perform(&mut self, operation: Operation) {
        match operation {
            Operation::Get(key, bytes) => {
                let is_there = self.cache.get(key);
                if !is_there && self.fills && bytes > 0 {
                    self.put(key, bytes);
                    self.mark(key, true);
                }
            }
            Operation::Put(key, bytes) => {
                if !self.mark(key, false) {
                    self.put(key, bytes);
                }
            }
            Operation::Delete(key) => {
                self.mark(key, false);
                self.cache.delete(key);
            }
        }
    }

    fn put(&mut self, key: u32, bytes: u32) {
        self.user_bytes += u64::from(bytes - ITEM_OVERHEAD_BYTES);
        self.cache.set(key, bytes);
    }

    /// Notes whether a miss filled a key of a trace; what was noted before.
    fn mark(&mut self, key: u32, is_filled: bool) -> bool {
        self.filled.get_mut(key as usize).is_some_and(|mark| std::mem::replace(mark, is_filled))
    }
}
