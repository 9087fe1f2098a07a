//! Processor time of each engine's operations: the one table of constants that are measured, not
//! derived.
//!
//! Each is of one core of a virtual EPYC of the fourth generation, with entries of 16 + 100 bytes,
//! by `silica bench WORKLOAD --engine ENGINE --keys 500000 --memory 1G` (all in memory), the
//! reciprocal of `throughput_ops`:
//!
//! - `hit`, `hit_in_burst`: `read`, and with `--batch 32`, less `device_reads_per_get` reads.
//! - `miss`, `miss_in_burst`: `read-missing`, and with `--batch 32`.
//! - `put`, `put_in_burst`: `overwrite`, and with `--batch 32`.
//! - `rewrite`: `overwrite --keys 2000000 --operations 3000000 --memory 32M`: time on the processor
//!   less that of the puts, for each entry that was written again.
//! - `seek`, `next`: `seekrandom`, 34 us for a seek and 50 entries.
//! - `read`, `read_in_burst`: `read --keys 2000000 --memory 32M`: time on the processor, user and
//!   system, for each device read.
//! - `run`: not measured; about the time of one filter that is asked.
//!
//! Other machines are faster or slower, all engines alike mostly; a choice depends on proportions.

/// Nanoseconds of processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Nanoseconds {
    /// A get that finds its key in memory.
    pub hit: f64,
    /// The same, where 32 are asked for together.
    pub hit_in_burst: f64,
    /// A get of a key that is not there.
    pub miss: f64,
    /// The same, where 32 are asked for together.
    pub miss_in_burst: f64,
    /// A put, until it returns.
    pub put: f64,
    /// The same, where 32 come together.
    pub put_in_burst: f64,
    /// Writing an entry again in the background: conversion, flush, merge, compaction.
    pub rewrite: f64,
    /// Finding the first entry of a scan in one run.
    pub seek: f64,
    /// Each entry of a scan.
    pub next: f64,
    /// A read of the device that is waited for alone.
    pub read: f64,
    /// One of 32 that are in flight together.
    pub read_in_burst: f64,
    /// A further run or hash store that a get looks at.
    pub run: f64,
}

impl Nanoseconds {
    /// With what a get takes for looking at `runs` runs instead of one.
    pub(super) fn with_runs(self, runs: f64) -> Self {
        let more = self.run * (runs - 1.0).max(0.0);
        Nanoseconds {
            hit: self.hit + 0.5 * more,
            hit_in_burst: self.hit_in_burst + 0.5 * more,
            miss: self.miss + more,
            miss_in_burst: self.miss_in_burst + more,
            seek: self.seek * runs.max(1.0),
            ..self
        }
    }
}

/// Keys of the bursts that were measured.
const BURST: f64 = 32.0;

/// Between the time of one alone and of one in a burst of 32: what a call costs once is shared by
/// all of its keys.
pub(super) fn in_burst(alone: f64, burst: f64, keys: f64) -> f64 {
    let once = (alone - burst) / (1.0 - 1.0 / BURST);
    (alone - once) + once / keys.clamp(1.0, BURST)
}

/// The constants of every engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// Of the ordered engine.
    pub wip: Nanoseconds,
    /// Of SILT.
    pub silt: Nanoseconds,
    /// Of MICA.
    pub mica: Nanoseconds,
}

impl Default for Calibration {
    fn default() -> Self {
        Calibration {
            wip: Nanoseconds {
                hit: 4000.0,
                hit_in_burst: 2300.0,
                miss: 860.0,
                miss_in_burst: 600.0,
                put: 960.0,
                put_in_burst: 700.0,
                rewrite: 1250.0,
                seek: 8000.0,
                next: 510.0,
                read: 28_000.0,
                read_in_burst: 7000.0,
                run: 60.0,
            },
            silt: Nanoseconds {
                hit: 2000.0,
                hit_in_burst: 1000.0,
                miss: 620.0,
                miss_in_burst: 400.0,
                put: 630.0,
                put_in_burst: 350.0,
                rewrite: 270.0,
                seek: 0.0,
                next: 0.0,
                read: 28_000.0,
                read_in_burst: 7000.0,
                run: 30.0,
            },
            mica: Nanoseconds {
                hit: 490.0,
                hit_in_burst: 88.0,
                miss: 330.0,
                miss_in_burst: 80.0,
                put: 600.0,
                put_in_burst: 170.0,
                ..Nanoseconds::default()
            },
        }
    }
}
