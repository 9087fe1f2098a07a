//! Runs on stores of ours: opens, fills, settles, drives, reports.

use crate::config::Config;
use crate::driver::{Observer, drive, fill, replay};
use crate::memory;
use crate::report::Report;
use crate::sql::{SqlOptions, SqlStore};
use crate::target::{Abilities, Session, Sink, Target};
use crate::trace::Trace;
use silica::{
    DEFAULT_KEYSPACE, Durability, Engine, EngineExt, EntryRef, Error, ErrorKind, GetSink, KeyRange,
    Keyspace, MetricsMap, Result, Silica, WriteBatch, engine::Ordered,
};
use silica_base::Prng;
use std::mem::take;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Runs `config` to its end.
pub fn run(config: &Config, observer: &mut Observer<'_>) -> Result<Report> {
    config.plan.check()?;
    let directory = Directory::of(config)?;
    if let Some(options) = config.sql {
        return run_sql(config, options, directory.path(), observer);
    }
    let mut config = config.clone();
    config.open = config.open.seed(seed_bytes(config.plan.seed));
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

/// Runs `config` on a table of a database.
fn run_sql(
    config: &Config,
    options: SqlOptions,
    directory: &Path,
    observer: &mut Observer<'_>,
) -> Result<Report> {
    let mut store = SqlStore::open(directory, options)?;
    if !config.plan.workload.is_fill() {
        match store.rows()? {
            0 => fill(&config.plan, &store, observer)?,
            rows if rows == config.plan.keys => {}
            rows => {
                let message = format!(
                    "the table has {rows} rows, not {}; use --keys {rows}, or a new --path",
                    config.plan.keys
                );
                return Err(Error::new(ErrorKind::Config, message));
            }
        }
        if config.settle {
            observer("settle", 0.0);
            store.settle()?;
        }
    }
    let mut cold = None;
    if config.cold {
        drop(store);
        cold = Some(memory::drop_page_cache());
        store = SqlStore::open(directory, options)?;
    }
    let before = store.metrics()?;
    memory::Process::This.reset_peak();
    let run = drive(&config.plan, &store, config.plan.workload.name, observer)?;
    let after = store.metrics()?;
    let report = Report::new(config, "sql", &run, &before, &after);
    Ok(Report { page_cache_dropped: cold, ..report })
}

/// Bytes of a trace's line, for the length of a progress bar.
const LINE_BYTES_ABOUT: u64 = 32;

/// Replays the trace at `path` on a store of ours; `timed` means at the trace's own times.
pub fn run_trace(
    config: &Config,
    path: &Path,
    timed: bool,
    observer: &mut Observer<'_>,
) -> Result<Report> {
    let mut config = config.clone();
    let bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    config.plan.operations = bytes / LINE_BYTES_ABOUT + 1;
    config.plan.check()?;
    let directory = Directory::of(&config)?;
    let store = config.open.clone().seed(seed_bytes(config.plan.seed)).open(directory.path())?;
    let keyspace = store.keyspace(DEFAULT_KEYSPACE)?;
    let keys = keyspace.count(false)?.high;
    let trace = Trace { path: path.to_path_buf(), timed, check: keys == 0 };
    let before = keyspace.metrics()?;
    memory::Process::This.reset_peak();
    let run = replay(&config.plan, &trace, &keyspace, observer)?;
    let after = keyspace.metrics()?;
    let mean = |bytes: u64, count: u64| (bytes as f64 / count.max(1) as f64).round() as usize;
    config.plan.shape.key_bytes = mean(run.tally.key_bytes, run.tally.operations);
    config.plan.shape.value_bytes = mean(run.tally.value_bytes, run.tally.puts);
    let engine = keyspace.engine().descriptor().name;
    let report = Report::new(&config, engine, &run, &before, &after);
    close(store, keyspace)?;
    Ok(Report { keys, distribution: "trace".to_string(), ..report })
}

/// Does `work` with a store of its own, below the directory given or in a temporary one.
pub(crate) fn with_scratch<T>(
    config: &Config,
    work: impl FnOnce(&Config) -> Result<T>,
) -> Result<T> {
    let scratch = config.path.as_ref().map(|path| path.join("figure"));
    let outcome = work(&Config { path: scratch.clone(), ..config.clone() });
    if let Some(path) = scratch {
        // The next figure starts with an empty store; one that stays would show.
        let _ = std::fs::remove_dir_all(path);
    }
    outcome
}

/// Opens and fills a store as `config` says and hands it to `work`.
pub(crate) fn with_filled_store<T>(
    config: &Config,
    observer: &mut Observer<'_>,
    work: impl FnOnce(&Keyspace) -> Result<T>,
) -> Result<T> {
    config.plan.check()?;
    let directory = Directory::of(config)?;
    let open = config.open.clone().seed(seed_bytes(config.plan.seed));
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
    // Before the fill, which may take long.
    config.plan.workload.check_abilities(keyspace.abilities())?;
    if config.plan.workload.is_fill() {
        return Ok(());
    }
    if keyspace.count(false)?.high == 0 {
        fill(&config.plan, keyspace, observer)?;
    }
    if config.settle {
        observer("settle", 0.0);
        keyspace.settle()?;
    }
    check_contents(config, keyspace)
}

/// Refuses a store that something else filled, before its answers look like lost data.
fn check_contents(config: &Config, keyspace: &Keyspace) -> Result<()> {
    let mut key = Vec::new();
    for index in [0, config.plan.keys - 1] {
        config.plan.key(index, &mut key);
        let value = keyspace.engine().get(&key)?;
        let right = value.is_some_and(|v| config.plan.is_value_of(index, &v));
        if !right {
            let message = format!(
                "the store does not hold {} keys of {} bytes with values of {} bytes; use the \
                 sizes it was filled with, or a new --path",
                config.plan.keys, config.plan.shape.key_bytes, config.plan.shape.value_bytes
            );
            return Err(Error::new(ErrorKind::Config, message));
        }
    }
    Ok(())
}

fn measure(config: &Config, keyspace: &Keyspace, observer: &mut Observer<'_>) -> Result<Report> {
    let before = keyspace.metrics()?;
    memory::Process::This.reset_peak();
    let run = drive(&config.plan, keyspace, config.plan.workload.name, observer)?;
    let after = keyspace.metrics()?;
    Ok(Report::new(config, keyspace.engine().descriptor().name, &run, &before, &after))
}

impl Target for Keyspace {
    fn abilities(&self) -> Abilities {
        let capabilities = self.engine().descriptor().capabilities;
        Abilities { scan: capabilities.ordered, delete: true, lossy: capabilities.may_evict }
    }

    fn session(&self, durability: Durability) -> Result<Box<dyn Session + '_>> {
        let engine = &**self.engine();
        let ordered = Arc::clone(self.engine()).as_ordered();
        Ok(Box::new(EngineSession { engine, ordered, durability, batch: WriteBatch::new() }))
    }

    fn settle(&self) -> Result<()> {
        Keyspace::settle(self)
    }

    fn sync(&self) -> Result<()> {
        Keyspace::sync(self)
    }

    fn metrics(&self) -> Result<MetricsMap> {
        Keyspace::metrics(self)
    }
}

/// One thread's use of an engine.
struct EngineSession<'a> {
    engine: &'a dyn Engine,
    ordered: Option<Arc<dyn Ordered>>,
    durability: Durability,
    /// Empty between two calls; kept for its allocation.
    batch: WriteBatch<'static>,
}

impl EngineSession<'_> {
    fn write<'b>(&mut self, fill: impl FnOnce(&mut WriteBatch<'b>)) -> Result<()> {
        let mut batch = take(&mut self.batch).recycled();
        fill(&mut batch);
        let outcome = self.engine.write(&batch, self.durability);
        self.batch = batch.recycled();
        outcome
    }
}

/// Hands on what an engine reports.
struct Forward<'a>(&'a mut dyn Sink);

impl GetSink for Forward<'_> {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        self.0.found(index, entry.value);
    }
}

impl Session for EngineSession<'_> {
    fn get_many(&mut self, keys: &[&[u8]], sink: &mut dyn Sink) -> Result<()> {
        self.engine.get_many(keys, &mut Forward(sink))
    }

    fn put_many(&mut self, entries: &[(&[u8], &[u8])]) -> Result<()> {
        self.write(|batch| {
            for (key, value) in entries {
                batch.put(key, value);
            }
        })
    }

    fn delete_many(&mut self, keys: &[&[u8]]) -> Result<()> {
        self.write(|batch| {
            for key in keys {
                batch.delete(key);
            }
        })
    }

    fn scan(
        &mut self,
        from: &[u8],
        count: usize,
        entry: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        let Some(ordered) = &self.ordered else {
            let name = self.engine.descriptor().name;
            let message = format!("{name} does not keep the keys in order");
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        let snapshot = Arc::clone(ordered).snapshot()?;
        let mut iterator = snapshot.iterate(&KeyRange::ALL)?;
        let mut is_there = iterator.seek(from)?;
        for left in (0..count).rev() {
            if !is_there {
                break;
            }
            entry(iterator.key(), iterator.entry().value);
            is_there = left > 0 && iterator.next()?;
        }
        Ok(())
    }
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
