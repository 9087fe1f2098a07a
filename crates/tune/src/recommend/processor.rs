//! Processor time of each engine's operations: the one table of constants that are measured, not
//! derived.
//!
//! A probe measures them where the store is ([`Machine::processor`](crate::Machine::processor),
//! `silica probe`): with the store in memory, on one thread, by the time that the thread had a
//! core. `crates/silica/src/probe/engines.rs` says how. Entries have 16 + 100 bytes; what a put
//! takes more for larger ones is measured with 16 + 1000, and half of the time of writing an entry
//! again goes with its bytes.
//!
//! Where nobody has probed they are those of one core of a virtual EPYC of the fourth generation,
//! measured before there was that probe, by `silica bench WORKLOAD --engine ENGINE --keys 500000
//! --memory 1G` (all in memory), the reciprocal of `throughput_ops`:
//!
//! - `hit`, `hit_in_burst`: `read`, and with `--batch 32`, less `device_reads_per_get` reads.
//! - `miss`, `miss_in_burst`, and `run` of `wip`: by that probe, on one core of a virtual EPYC.
//!   `run` is what filters of a run cost that lie beside the others': a
//!   range that is compared, and three lines that were asked for with all of theirs. It is the
//!   middle of five probes, which say 0 to 8 ns (docs/benchmarks/models.md, "Misses").
//! - `put`, `put_in_burst`: `overwrite`, and with `--batch 32`.
//! - `rewrite`: `overwrite --keys 2000000 --operations 3000000 --memory 32M`: time on the processor
//!   less that of the puts, for each entry that was written again.
//! - `seek`, `next`: `seekrandom`, 34 us for a seek and 50 entries.
//! - `read`, `read_in_burst`: `read --keys 2000000 --memory 32M`: time on the processor, user and
//!   system, for each device read.
//! - `run` of `silt`, `put_byte`: not measured; the first is about the time of one filter.

use std::fmt;
use std::str::FromStr;

use silica_base::Result;

use crate::lines::{config, number};

/// Bytes of key and value of the entries that are measured.
pub const ENTRY_BYTES: f64 = 116.0;
/// Keys of the bursts that are measured.
pub const BURST: usize = 32;

/// With so many times more entries than were measured every read of memory misses the caches.
const DOUBLINGS_MAX: f64 = 4.0;

/// Nanoseconds of processor time, where nothing else is said.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Nanoseconds {
    /// A get that finds its key in memory.
    pub hit: f64,
    /// A get that finds its key in memory, if 32 are asked for together.
    pub hit_in_burst: f64,
    /// A get of a key that is not there.
    pub miss: f64,
    /// A get of a key that is not there, if 32 are asked for together.
    pub miss_in_burst: f64,
    /// A put, until it returns.
    pub put: f64,
    /// A put, if 32 come together.
    pub put_in_burst: f64,
    /// What each further byte of a put's entry takes more.
    pub put_byte: f64,
    /// Writing an entry again in the background: conversion, flush, merge, compaction.
    pub rewrite: f64,
    /// What each further byte of such an entry takes more.
    pub rewrite_byte: f64,
    /// Finding the first entry of a scan in one run.
    pub seek: f64,
    /// Each entry of a scan.
    pub next: f64,
    /// A read of the device that is waited for alone.
    pub read: f64,
    /// One of 32 that are in flight together.
    pub read_in_burst: f64,
    /// A further run or hash store that a get looks at: its filter.
    pub run: f64,
    /// What a put of a key that lies in memory takes more than one of a key that does not: what is
    /// there is found, read and replaced.
    pub put_again: f64,
    /// Entries that lay in memory where that was measured; 0 where nobody looked.
    pub put_among: f64,
    /// What a put takes more each time that there are twice as many: what it reads of memory is
    /// in the processor's caches less often.
    pub put_doubling: f64,
    /// Time, not of the processor, that a job of the background waits for the device besides what
    /// the bandwidth makes of its bytes: files are made, synced, named and removed.
    pub job_wait: f64,
}

impl Nanoseconds {
    /// Its fields, by their names.
    pub fn fields(&mut self) -> [(&'static str, &mut f64); 18] {
        [
            ("hit", &mut self.hit),
            ("hit_in_burst", &mut self.hit_in_burst),
            ("miss", &mut self.miss),
            ("miss_in_burst", &mut self.miss_in_burst),
            ("put", &mut self.put),
            ("put_in_burst", &mut self.put_in_burst),
            ("put_byte", &mut self.put_byte),
            ("rewrite", &mut self.rewrite),
            ("rewrite_byte", &mut self.rewrite_byte),
            ("seek", &mut self.seek),
            ("next", &mut self.next),
            ("read", &mut self.read),
            ("read_in_burst", &mut self.read_in_burst),
            ("run", &mut self.run),
            ("put_again", &mut self.put_again),
            ("put_among", &mut self.put_among),
            ("put_doubling", &mut self.put_doubling),
            ("job_wait", &mut self.job_wait),
        ]
    }

    /// Takes off what looking at `runs` runs took, of gets that were measured so: what is left is
    /// that of one run, as [`Nanoseconds`] are given.
    pub fn of_one_run(&mut self, runs: f64) {
        let more = self.run * (runs - 1.0).max(0.0);
        // No more than half: what differs by little is measured with some noise.
        let less = |time: f64, more: f64| (time - more).max(0.5 * time);
        self.hit = less(self.hit, 0.5 * more);
        self.hit_in_burst = less(self.hit_in_burst, 0.5 * more);
        self.miss = less(self.miss, more);
        self.miss_in_burst = less(self.miss_in_burst, more);
    }

    /// What a put of an entry of `bytes` takes, in bursts of `keys`.
    pub(super) fn put_of(&self, bytes: f64, keys: f64) -> f64 {
        let usual = in_burst(self.put, self.put_in_burst, keys);
        usual + self.put_byte * (bytes - ENTRY_BYTES).max(-ENTRY_BYTES / 2.0)
    }

    /// What writing an entry of `bytes` again takes.
    pub(super) fn rewrite_of(&self, bytes: f64) -> f64 {
        self.rewrite + self.rewrite_byte * (bytes - ENTRY_BYTES).max(-ENTRY_BYTES / 2.0)
    }

    /// With what a put takes among `entries` that lie in memory, the put's own with a chance of
    /// `again`.
    pub(super) fn among(self, entries: f64, again: f64) -> Self {
        if self.put_among < 1.0 {
            return self;
        }
        // Fewer than were measured save nothing that is known.
        let doublings = (entries / self.put_among).max(1.0).log2().min(DOUBLINGS_MAX);
        let more = again * self.put_again + self.put_doubling * doublings;
        Nanoseconds { put: self.put + more, put_in_burst: self.put_in_burst + more, ..self }
    }

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

/// Between the time of one alone and of one in a burst of 32: what a call costs once is shared by
/// all of its keys.
pub(super) fn in_burst(alone: f64, burst: f64, keys: f64) -> f64 {
    let most = BURST as f64;
    let once = (alone - burst) / (1.0 - 1.0 / most);
    (alone - once) + once / keys.clamp(1.0, most)
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
    /// Of TurboHash.
    pub turbo: Nanoseconds,
    /// Of SPTree.
    pub sptree: Nanoseconds,
}

impl Calibration {
    /// The engines, with their constants.
    pub fn engines(&self) -> [(&'static str, Nanoseconds); 5] {
        [
            ("wip", self.wip),
            ("silt", self.silt),
            ("mica", self.mica),
            ("turbo", self.turbo),
            ("sptree", self.sptree),
        ]
    }

    /// The constants of `engine`, where it has some.
    pub fn of_mut(&mut self, engine: &str) -> Option<&mut Nanoseconds> {
        match engine {
            "wip" => Some(&mut self.wip),
            "silt" => Some(&mut self.silt),
            "mica" => Some(&mut self.mica),
            "turbo" => Some(&mut self.turbo),
            "sptree" => Some(&mut self.sptree),
            _ => None,
        }
    }
}

/// `hit:400 put:900`, every field.
impl fmt::Display for Nanoseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut space = "";
        for (name, value) in { *self }.fields() {
            write!(f, "{space}{name}:{value}")?;
            space = " ";
        }
        Ok(())
    }
}

/// Fields that the text leaves out are 0.
impl FromStr for Nanoseconds {
    type Err = silica_base::Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut all = Nanoseconds::default();
        for pair in text.split_whitespace() {
            let (name, value) = pair.split_once(':').unwrap_or((pair, ""));
            let value = number(value)?;
            let mut fields = all.fields().into_iter();
            let Some((_, field)) = fields.find(|(known, _)| *known == name) else {
                return Err(config(format!("an engine has no processor time '{name}'")));
            };
            *field = value;
        }
        Ok(all)
    }
}

impl Default for Calibration {
    fn default() -> Self {
        Calibration {
            wip: Nanoseconds {
                hit: 4000.0,
                hit_in_burst: 2300.0,
                miss: 190.0,
                miss_in_burst: 82.0,
                put: 960.0,
                put_in_burst: 700.0,
                put_byte: 0.5,
                rewrite: 1250.0,
                rewrite_byte: 1250.0 / 2.0 / ENTRY_BYTES,
                seek: 8000.0,
                next: 510.0,
                read: 28_000.0,
                read_in_burst: 7000.0,
                run: 4.5,
                put_again: 200.0,
                put_among: 50_000.0,
                put_doubling: 25.0,
                job_wait: 0.0,
            },
            silt: Nanoseconds {
                hit: 2000.0,
                hit_in_burst: 1000.0,
                miss: 440.0,
                miss_in_burst: 350.0,
                put: 630.0,
                put_in_burst: 350.0,
                put_byte: 0.5,
                rewrite: 270.0,
                rewrite_byte: 270.0 / 2.0 / ENTRY_BYTES,
                seek: 0.0,
                next: 0.0,
                read: 28_000.0,
                read_in_burst: 7000.0,
                run: 30.0,
                put_again: 0.0,
                put_among: 50_000.0,
                put_doubling: 45.0,
                job_wait: 1.8e6,
            },
            mica: Nanoseconds {
                hit: 490.0,
                hit_in_burst: 88.0,
                miss: 210.0,
                miss_in_burst: 35.0,
                put: 600.0,
                put_in_burst: 170.0,
                put_byte: 0.1,
                ..Nanoseconds::default()
            },
            turbo: turbo(),
            sptree: sptree(),
        }
    }
}

fn turbo() -> Nanoseconds {
    Nanoseconds {
        hit: 250.0,
        hit_in_burst: 60.0,
        miss: 200.0,
        miss_in_burst: 45.0,
        put: 500.0,
        put_in_burst: 200.0,
        put_byte: 0.2,
        ..Nanoseconds::default()
    }
}

fn sptree() -> Nanoseconds {
    Nanoseconds {
        hit: 500.0,
        hit_in_burst: 250.0,
        miss: 250.0,
        miss_in_burst: 120.0,
        put: 900.0,
        put_in_burst: 600.0,
        put_byte: 0.2,
        seek: 1200.0,
        next: 30.0,
        ..Nanoseconds::default()
    }
}
