//! The one driver: opens, fills, settles, runs the threads, samples the metrics, reports.

use crate::config::Config;
use crate::generator::Chooser;
use crate::memory;
use crate::report::{Report, Sample};
use crate::worker::{Role, Shared, Tally, Worker};
use crate::workload::Workload;
use silica::{DEFAULT_KEYSPACE, EngineExt, Error, ErrorKind, Keyspace, MetricsMap, Result, Silica};
use silica_base::Prng;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time between two samples of the metrics; doubled when there are too many.
const SAMPLE_PERIOD: Duration = Duration::from_millis(20);
/// More samples than a chart has pixels are of no use.
const SAMPLES_MAX: usize = 2000;
/// Keys in one batch of the fill that precedes a measured part.
const FILL_BATCH: usize = 64;

/// Told what the driver is doing: the phase and the share of it that is done.
pub type Observer<'a> = dyn FnMut(&str, f64) + 'a;

/// Runs `config` to its end.
pub fn run(config: &Config, observer: &mut Observer<'_>) -> Result<Report> {
    config.check()?;
    let directory = Directory::of(config)?;
    let mut config = config.clone();
    config.open = config.open.seed(seed_bytes(config.seed));
    let mut store = config.open.clone().open(directory.path())?;
    let mut keyspace = store.keyspace(DEFAULT_KEYSPACE)?;
    prepare(&config, &keyspace, observer)?;
    let mut cold = None;
    if config.cold {
        drop(keyspace);
        store.close()?;
        cold = Some(memory::drop_page_cache());
        store = config.open.clone().open(directory.path())?;
        keyspace = store.keyspace(DEFAULT_KEYSPACE)?;
    }
    let report = measure(&config, &keyspace, observer)?;
    close(store, keyspace)?;
    Ok(Report { page_cache_dropped: cold, ..report })
}

/// Opens and fills a store as `config` says and hands it to `work`.
pub(crate) fn with_filled_store<T>(
    config: &Config,
    observer: &mut Observer<'_>,
    work: impl FnOnce(&Keyspace) -> Result<T>,
) -> Result<T> {
    config.check()?;
    let directory = Directory::of(config)?;
    let open = config.open.clone().seed(seed_bytes(config.seed));
    let store = open.open(directory.path())?;
    let keyspace = store.keyspace(DEFAULT_KEYSPACE)?;
    prepare(config, &keyspace, observer)?;
    let outcome = work(&keyspace)?;
    close(store, keyspace)?;
    Ok(outcome)
}

fn close(store: Silica, keyspace: Keyspace) -> Result<()> {
    drop(keyspace);
    store.close()
}

fn seed_bytes(seed: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    Prng::new(seed).fill(&mut bytes);
    bytes
}

/// Fills an empty store where the workload wants a full one.
fn prepare(config: &Config, keyspace: &Keyspace, observer: &mut Observer<'_>) -> Result<()> {
    if config.workload.is_fill() {
        return Ok(());
    }
    if keyspace.count(false)?.high == 0 {
        let fill = Config {
            workload: *Workload::find("fill")?,
            operations: config.keys,
            batch: FILL_BATCH,
            rate: 0,
            durability: silica::Durability::Buffered,
            ..config.clone()
        };
        drive(&fill, keyspace, "fill", observer)?;
        keyspace.sync()?;
    }
    if config.settle {
        observer("settle", 0.0);
        keyspace.settle()?;
    }
    check_contents(config, keyspace)
}

/// Refuses a store that something else filled, before its answers look like lost data.
fn check_contents(config: &Config, keyspace: &Keyspace) -> Result<()> {
    let (mut key, mut scratch) = (Vec::new(), Vec::new());
    for index in [0, config.keys - 1] {
        config.shape.key(index, &mut key);
        let value = keyspace.engine().get(&key)?;
        let right = value.is_some_and(|v| config.shape.is_value_of(index, &v, &mut scratch));
        if !right {
            let message = format!(
                "the store does not hold {} keys of {} bytes with values of {} bytes; use the \
                 sizes it was filled with, or a new --path",
                config.keys, config.shape.key_bytes, config.shape.value_bytes
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
    }
    Ok(())
}

fn measure(config: &Config, keyspace: &Keyspace, observer: &mut Observer<'_>) -> Result<Report> {
    let before = keyspace.metrics()?;
    memory::reset_peak();
    let run = drive(config, keyspace, config.workload.name, observer)?;
    if run.tally.wrong > 0 {
        let message = format!(
            "{} of {} reads gave a wrong answer; the engine or the device is broken",
            run.tally.wrong, run.tally.reads
        );
        return Err(Error::new(ErrorKind::Corruption, message));
    }
    let after = keyspace.metrics()?;
    Ok(Report::new(config, keyspace, &run, &before, &after))
}

/// One run of threads.
pub(crate) struct Run {
    pub(crate) tally: Tally,
    pub(crate) seconds: f64,
    pub(crate) samples: Vec<Sample>,
}

fn roles(config: &Config) -> Vec<Role> {
    if config.workload.split_roles {
        let mut roles = vec![Role::ReadUntilStopped; config.threads];
        roles[0] = Role::Insert(config.operations);
        return roles;
    }
    let threads = config.threads as u64;
    let part = |t| config.operations / threads + u64::from(t < config.operations % threads);
    (0..threads).map(|t| Role::Mix(part(t))).collect()
}

fn drive(
    config: &Config,
    keyspace: &Keyspace,
    phase: &str,
    observer: &mut Observer<'_>,
) -> Result<Run> {
    let chooser = Chooser::new(config.distribution, config.keys);
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let puts_before = keyspace.metrics()?.get("puts") as u64;
    let shared = Shared {
        config,
        engine: &**keyspace.engine(),
        chooser: &chooser,
        done: &done,
        stop: &stop,
        version: puts_before,
    };
    let started = Instant::now();
    let (tallies, seconds, samples) = std::thread::scope(|scope| {
        let threads: Vec<_> = roles(config)
            .into_iter()
            .enumerate()
            .map(|(t, role)| {
                let worker = Worker::new(&shared, t as u64, role);
                scope.spawn(move || worker.run())
            })
            .collect();
        let samples =
            watch(config, keyspace, started, &mut |share| observer(phase, share), &done, &|| {
                threads.iter().all(|t| t.is_finished())
            });
        let seconds = started.elapsed().as_secs_f64();
        let tallies: Vec<_> = threads.into_iter().map(|t| t.join()).collect();
        (tallies, seconds, samples)
    });
    let mut all = Tally::default();
    for tally in tallies {
        let panicked = |_| Error::new(ErrorKind::Io, "a benchmark thread panicked");
        all.add(&tally.map_err(panicked)??);
    }
    Ok(Run { tally: all, seconds, samples })
}

/// Samples the metrics and tells the observer until `finished`.
fn watch(
    config: &Config,
    keyspace: &Keyspace,
    started: Instant,
    observer: &mut dyn FnMut(f64),
    done: &AtomicU64,
    finished: &dyn Fn() -> bool,
) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut period = SAMPLE_PERIOD;
    let mut next = Duration::ZERO;
    while !finished() {
        let now = started.elapsed();
        if now >= next {
            next = now + period;
            observer(done.load(Ordering::Relaxed) as f64 / config.operations.max(1) as f64);
            if let Ok(metrics) = keyspace.metrics() {
                samples.push(Sample::new(now.as_secs_f64(), &metrics));
            }
            if samples.len() > SAMPLES_MAX {
                let mut keep = false;
                samples.retain(|_| {
                    keep = !keep;
                    keep
                });
                period *= 2;
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    if let Ok(metrics) = keyspace.metrics() {
        samples.push(Sample::new(started.elapsed().as_secs_f64(), &metrics));
    }
    samples
}

/// Difference of a counter.
pub(crate) fn delta(before: &MetricsMap, after: &MetricsMap, name: &str) -> f64 {
    after.get(name) - before.get(name)
}

/// The directory of a run: the one given, or a temporary one that is removed at the end.
struct Directory {
    path: PathBuf,
    temporary: bool,
}

impl Directory {
    fn of(config: &Config) -> Result<Self> {
        if let Some(path) = &config.path {
            return Ok(Directory { path: path.clone(), temporary: false });
        }
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("silica-bench-{}-{number}", std::process::id());
        let here = std::env::current_dir()
            .map_err(|e| Error::io("finding the current directory for a temporary store", e))?;
        Ok(Directory { path: here.join(name), temporary: true })
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.temporary {
            // Nothing depends on it any more; a directory that stays is only untidy.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
