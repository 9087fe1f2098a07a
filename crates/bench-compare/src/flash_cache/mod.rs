//! Caches that are larger than memory: each of memory and flash, or of memory alone, at the same
//! number of bytes of memory, page cache included.
//!
//! A *cell* is one cache with one setting, in a process of its own: it sets every key once, asks
//! for uniform keys, and then asks and sets, three to one. What was set and cannot be read
//! afterwards is no work done: sets count by the share of keys that are there. Caches take turns.

mod cell;
mod in_process;
mod report;

pub use cell::{CacheFigure, serve_cache_cell};
pub use report::{CacheReport, CacheRow};

use crate::machine;
use crate::performed::{self, Told};
use crate::results::Remark;
use crate::suite::Size;
use cell::{Cell, Store};
use silica::{Error, ErrorKind, Result};
use silica_bench::{Access, DeviceProbe};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// Share of the flash that entries take, with as many bytes for each as caches keep beside it.
const FILL: f64 = 0.6;
const BESIDE_BYTES: u64 = 32;
/// Bytes of a key.
const KEY_BYTES: usize = 16;

/// What each cache gets and holds.
#[derive(Debug, Clone, Copy)]
struct Setting {
    value_bytes: usize,
    flash_bytes: u64,
    memory_bytes: u64,
}

const fn setting(value_bytes: usize, flash_mib: u64, memory_mib: u64) -> Setting {
    Setting { value_bytes, flash_bytes: flash_mib * MIB, memory_bytes: memory_mib * MIB }
}

const FULL: &[Setting] =
    &[setting(256, 1024, 96), setting(256, 4096, 256), setting(1024, 4096, 96)];
const QUICK: &[Setting] = &[setting(256, 512, 96), setting(1024, 1024, 96)];
const TOY: &[Setting] = &[setting(256, 64, 96)];

impl Setting {
    fn keys(&self) -> u64 {
        let entry = (KEY_BYTES + self.value_bytes) as u64 + BESIDE_BYTES;
        (self.flash_bytes as f64 * FILL) as u64 / entry
    }

    fn name(&self) -> String {
        let Setting { value_bytes, flash_bytes, memory_bytes } = self;
        format!(
            "{value_bytes} B, {} MiB of flash, {} MiB of memory",
            flash_bytes / MIB,
            memory_bytes / MIB
        )
    }
}

/// What is compared.
#[derive(Debug, Clone)]
pub struct CacheRequest {
    /// How much is done.
    pub size: Size,
    /// Only these caches, where any are named.
    pub peers: Vec<String>,
    /// Seconds of each load after the fill.
    pub seconds: Option<f64>,
    /// Times that each cell is measured, in turns.
    pub repetitions: Option<usize>,
    /// Memory of each cache, where it is not the setting's.
    pub memory_bytes: Option<u64>,
}

/// A run.
pub struct CacheRun {
    /// What is compared.
    pub request: CacheRequest,
    /// Directory for results.
    pub out: PathBuf,
    /// Directory below which caches lie, where it is not `out`.
    pub stores: Option<PathBuf>,
    /// Program and arguments that perform a cell.
    pub child: Vec<OsString>,
}

impl CacheRequest {
    fn settings(&self) -> Vec<Setting> {
        let settings = match self.size {
            Size::Full => FULL,
            Size::Quick => QUICK,
            Size::Toy => TOY,
        };
        let memory = |setting: &Setting| self.memory_bytes.unwrap_or(setting.memory_bytes);
        let of = |setting: &Setting| Setting { memory_bytes: memory(setting), ..*setting };
        settings.iter().map(of).collect()
    }

    fn seconds(&self) -> f64 {
        let usual = match self.size {
            Size::Full => 10.0,
            Size::Quick => 3.0,
            Size::Toy => 0.1,
        };
        self.seconds.unwrap_or(usual)
    }

    fn repetitions(&self) -> usize {
        self.repetitions.unwrap_or(if self.size == Size::Full { 2 } else { 1 }).max(1)
    }

    /// Caches that take part; those that are not installed go to `missing`.
    fn stores(&self, missing: &mut Vec<Remark>) -> Result<Vec<Store>> {
        for name in &self.peers {
            if Store::all().all(|store| store.name() != name) {
                let known: Vec<_> = Store::all().map(Store::name).collect();
                let message = format!("no cache '{name}'; known are {}", known.join(", "));
                return Err(Error::new(ErrorKind::Config, message));
            }
        }
        let asked = |store: &Store| {
            self.peers.is_empty() || self.peers.iter().any(|name| name == store.name())
        };
        let mut stores = Vec::new();
        for store in Store::all().filter(asked) {
            match store.version() {
                Ok(_) => stores.push(store),
                Err(why) => missing.push(Remark {
                    suite: "cache".to_string(),
                    workload: String::new(),
                    store: store.name().to_string(),
                    text: why.to_string(),
                }),
            }
        }
        Ok(stores)
    }
}

/// Told of each cell: how many are done, of how many, and which comes next.
pub type CacheProgress<'a> = dyn FnMut(usize, usize, &str) + 'a;

/// Performs `run`; an interruption ends it with what was measured.
pub fn caches(
    run: &CacheRun,
    interrupted: &AtomicBool,
    progress: &mut CacheProgress<'_>,
) -> Result<CacheReport> {
    let request = &run.request;
    let mut missing = Vec::new();
    let stores = request.stores(&mut missing)?;
    let directory = own_directory(run)?;
    let mut report = CacheReport {
        machine: machine::describe(&directory),
        date: machine::date(),
        rows: Vec::new(),
        missing,
        files: Vec::new(),
    };
    let settings = request.settings();
    let count = settings.len() * stores.len() * request.repetitions();
    let mut done = 0;
    for setting in &settings {
        report.reads_of_device(&setting.name(), device_reads(&directory, setting, request)?);
        for _ in 0..request.repetitions() {
            for store in &stores {
                if interrupted.load(Ordering::Relaxed) {
                    break;
                }
                progress(done, count, &format!("{}, {}", store.name(), setting.name()));
                let told = perform(run, *store, setting, &directory, interrupted);
                report.add(&setting.name(), store.name(), told);
                done += 1;
            }
        }
    }
    let _ = std::fs::remove_dir_all(&directory);
    report.write(&run.out)?;
    Ok(report)
}

fn own_directory(run: &CacheRun) -> Result<PathBuf> {
    let base = run.stores.as_ref().unwrap_or(&run.out);
    let directory = base.join(format!("caches-{}", std::process::id()));
    for made in [&run.out, &directory] {
        std::fs::create_dir_all(made)
            .map_err(|e| Error::io(format!("creating {}", made.display()), e))?;
    }
    // Servers have a working directory of their own.
    directory
        .canonicalize()
        .map_err(|e| Error::io(format!("looking at {}", directory.display()), e))
}

/// Direct reads of 4 KiB a second, with as many under way as the load has.
fn device_reads(directory: &Path, setting: &Setting, request: &CacheRequest) -> Result<f64> {
    let probe = DeviceProbe::new(directory, setting.flash_bytes.min(1024 * MIB))?;
    let period = Duration::from_secs_f64(request.seconds().clamp(0.05, 3.0));
    probe.rate(Access::RandomReads, crate::peers::UNDER_WAY, period)
}

/// One cell. A cache that needs more memory than it gets dies of it: it is measured again without
/// a limit, and its peak says what it took.
fn perform(
    run: &CacheRun,
    store: Store,
    setting: &Setting,
    directory: &Path,
    interrupted: &AtomicBool,
) -> Told<CacheFigure> {
    let request = &run.request;
    let mut outcome = (Vec::new(), None);
    for limited in [true, false] {
        let place = directory.join("cache");
        let _ = std::fs::remove_dir_all(&place);
        if let Err(e) = std::fs::create_dir_all(&place) {
            return (Vec::new(), Some(format!("creating {}: {e}", place.display())));
        }
        let cell = Cell {
            store,
            keys: setting.keys(),
            value_bytes: setting.value_bytes,
            flash_bytes: setting.flash_bytes,
            memory_bytes: setting.memory_bytes,
            seconds: request.seconds(),
            limited,
            directory: place.clone(),
        };
        let limit = Duration::from_secs_f64(120.0 + 6.0 * cell.seconds + cell.keys as f64 / 2000.0);
        outcome = performed::perform(&run.child, &cell, limit, interrupted);
        let _ = std::fs::remove_dir_all(&place);
        if outcome.1.is_none() || interrupted.load(Ordering::Relaxed) {
            break;
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_fit_the_flash_and_not_the_memory() {
        for setting in FULL.iter().chain(QUICK) {
            let bytes = setting.keys() * (KEY_BYTES + setting.value_bytes) as u64;
            assert!(bytes < setting.flash_bytes * 6 / 10, "{}", setting.name());
            assert!(bytes > 2 * setting.memory_bytes, "{}", setting.name());
        }
    }

    #[test]
    fn a_cache_that_is_not_known_is_refused_with_those_that_are() {
        let request = CacheRequest {
            size: Size::Toy,
            peers: vec!["varnish".to_string()],
            seconds: None,
            repetitions: None,
            memory_bytes: None,
        };
        let told = request.stores(&mut Vec::new()).err().unwrap().to_string();
        assert!(told.contains("varnish") && told.contains("memcached:extstore"), "{told}");
    }
}
