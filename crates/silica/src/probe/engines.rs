//! Processor time of engines' operations: each engine in a directory of its own, with everything
//! it has in memory, on this thread alone. What counts is the time that the thread had a core, so
//! a machine that is busy with other work measures nearly the same.

use crate::{EngineSpec, Registry};
use silica_base::{HashSeed, Prng};
use silica_device::{DeviceOptions, FileDevice};
use silica_engine::MEMORY_OPTION;
use silica_engine::{
    Budget, Durability, Engine, EntryRef, Environment, Error, GetSink, KeyRange, MetricsMap,
    OptionValues, Result, WriteBatch,
};
use silica_tune::recommend::{BURST, Calibration, ENTRY_BYTES, Nanoseconds};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The directory of the engines, in the one that is probed. A process that dies leaves it; the
/// next probe removes it.
pub(crate) const DIRECTORY: &str = "PROBE.engines";

/// Keys of each engine for each second that the whole probe takes, and how many at most.
const KEYS_A_SECOND: f64 = 20_000.0;
const KEYS_MIN: f64 = 2000.0;
const KEYS_MAX: f64 = 200_000.0;
const KEY_BYTES: usize = 16;
const LARGE_VALUE_BYTES: usize = 1000;
/// One key in so many gets a large value.
const LARGE_EVERY: u64 = 10;
const MEMORY_BYTES: u64 = 256 << 20;
/// Bytes that wait for the background at most, of those of all entries.
const WAITING_PART: f64 = 1.0 / 3.0;
/// Bytes of memory for each byte of entries, where the log's part of the memory is what waits.
const MEMORY_OF_LOGGED: f64 = 1.4;
const MEMORY_MIN: u64 = 4 << 20;
/// Bytes of entries that are put before the background has its turn: few enough that writers never
/// wait for it, or help it.
const TURN_PUT_BYTES: f64 = 2_320_000.0;
const TURN_BYTES: u64 = 16 << 20;
/// Entries of a scan.
const SCAN: usize = 50;
/// With fewer entries written again nobody knows what one costs.
const REWRITTEN_MIN: f64 = 1000.0;
/// No operation takes less.
const NANOSECONDS_MIN: f64 = 10.0;

/// Metrics of what is written again.
const REWRITTEN: [&str; 4] = [
    "flush_bytes_written",
    "compaction_bytes_written",
    "conversion_bytes_written",
    "merge_bytes_written",
];

/// Metrics of jobs of the background.
const JOBS: [&str; 4] = ["flushes", "compactions", "conversions", "merges"];
/// What a put takes among few and among many entries is measured with a part of the keys, and with
/// more than a processor's caches hold.
const FEW_PART: u64 = 4;
const MANY_TIMES: u64 = 4;
const MANY_MEMORY_BYTES: u64 = 512 << 20;
/// What a run takes that a get looks at is measured with few and with many runs of a bucket.
const RUNS: [u64; 2] = [2, 16];
/// A difference of two figures takes the least of this many measurements of each.
const REPEATS: u32 = 5;
/// Options that let runs be, where an engine has them.
const LET_RUNS_BE: [(&str, &str); 3] =
    [("runs_max", "64"), ("read_weight", "0"), ("space_amplification_percent_max", "10000")];

/// Time that this thread had a core; where the system does not tell, time.
pub(super) struct Processor {
    started: Instant,
}

/// Time that this thread wanted no core, in seconds since an earlier moment: it waited for a
/// device, or another thread.
struct Waiting {
    started: Instant,
    had: f64,
}

impl Processor {
    pub(super) fn start() -> Self {
        Processor { started: Instant::now() }
    }

    pub(super) fn seconds(&self) -> f64 {
        let told = scheduled().map(|(had, _)| had).filter(|ns| *ns > 0);
        told.map_or_else(|| self.started.elapsed(), Duration::from_nanos).as_secs_f64()
    }
}

/// Nanoseconds that this thread had a core, and that it wanted one and had none.
fn scheduled() -> Option<(u64, u64)> {
    // What is told is as old as the last time that the scheduler looked at this thread, up to some
    // milliseconds, unless the thread gives way.
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut numbers = text.split_whitespace().map_while(|number| number.parse::<u64>().ok());
    Some((numbers.next()?, numbers.next()?))
}

impl Waiting {
    fn start() -> Self {
        Waiting { started: Instant::now(), had: Self::with_core() }
    }

    fn with_core() -> f64 {
        // Where the system does not tell nobody is taken to have waited.
        scheduled().map_or(f64::INFINITY, |(had, wanted)| (had + wanted) as f64 / 1e9)
    }

    fn seconds(&self) -> f64 {
        let with_core = Self::with_core();
        if with_core.is_infinite() {
            return 0.0;
        }
        (self.started.elapsed().as_secs_f64() - (with_core - self.had)).max(0.0)
    }
}

/// Removes its directory, however the measurement ends.
struct Directory(PathBuf);

impl Directory {
    fn new(path: &Path) -> Self {
        let path = path.join(DIRECTORY);
        // What a process that died left would be opened, not created.
        let _ = std::fs::remove_dir_all(&path);
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What a probe measured before it measures engines.
pub(super) struct Before {
    /// Nanoseconds of the processor that a read of the device takes, alone and in a burst.
    pub(super) read: (f64, f64),
    /// Seconds that reading and writing a byte in large blocks takes.
    pub(super) byte_moved: f64,
}

/// Measures every engine of `registry` that the models know, below the directory `path`; `next`
/// hears what is measured.
pub(super) fn measure(
    path: &Path,
    registry: &Registry,
    seconds: f64,
    before: &Before,
    mut next: impl FnMut(String),
) -> Result<Calibration> {
    let mut all = Calibration::default();
    let directory = Directory::new(path);
    let keys = (seconds * KEYS_A_SECOND).clamp(KEYS_MIN, KEYS_MAX) as u64;
    for spec in registry.iter() {
        let name = spec.name;
        let Some(times) = all.of_mut(name) else { continue };
        next(format!("operations of engine {name}"));
        let within = |e: Error| e.within(format_args!("measuring engine {name}"));
        let mut lab = Lab::open(&directory.0, spec, keys, Course::Moves).map_err(within)?;
        (times.read, times.read_in_burst) = before.read;
        lab.all(times, before.byte_moved).map_err(within)?;
        let runs = lab.runs();
        drop(lab);
        let mut lab = Lab::open(&directory.0, spec, keys, Course::Still).map_err(within)?;
        lab.puts_among_many(times).map_err(within)?;
        drop(lab);
        if let Some(runs) = runs {
            let open = |runs| Lab::open(&directory.0, spec, keys, Course::Runs(runs));
            times.run = run_ns(open).map_err(within)?;
            times.of_one_run(runs);
        }
    }
    Ok(all)
}

/// Nanoseconds that a get takes for each run that it looks at: the difference between a store of
/// few runs and one of many, each in memory, measured in turns.
fn run_ns(open: impl Fn(u64) -> Result<Lab>) -> Result<f64> {
    let mut labs = [open(RUNS[0])?, open(RUNS[1])?];
    labs.iter_mut().try_for_each(Lab::fill)?;
    let mut least = [f64::INFINITY; 2];
    for _ in 0..REPEATS {
        for (lab, least) in labs.iter_mut().zip(&mut least) {
            *least = least.min(lab.get_some(lab.keys, 1, lab.keys, 0.0)?);
        }
    }
    let [few, many] = labs.each_ref().map(|lab| lab.runs().unwrap_or(1.0));
    Ok(((least[1] - least[0]) / (many - few).max(1.0)).max(0.0))
}

/// Engines that [`measure`] measures.
pub(super) fn count(registry: &Registry) -> usize {
    let mut all = Calibration::default();
    registry.iter().filter(|spec| all.of_mut(spec.name).is_some()).count()
}

/// An engine, and what is asked of it.
struct Lab {
    engine: Arc<dyn Engine>,
    keys: u64,
    prng: Prng,
    processor: Processor,
}

/// What becomes of what is put.
#[derive(Clone, Copy, PartialEq)]
enum Course {
    /// It is written again, several times.
    Moves,
    /// It stays where it was put.
    Still,
    /// It becomes so many runs of each bucket, of an engine that has buckets.
    Runs(u64),
}

impl Course {
    fn name(self) -> &'static str {
        match self {
            Course::Moves => "",
            Course::Still => ".still",
            Course::Runs(runs) if runs == RUNS[0] => ".few",
            Course::Runs(_) => ".many",
        }
    }
}

/// What writing took, in seconds of the processor.
#[derive(Default)]
struct Wrote {
    entries: f64,
    puts: f64,
    background: f64,
    rewritten_bytes: f64,
    /// Seconds that the background waited.
    waits: f64,
    jobs: f64,
}

struct Ignore;

impl GetSink for Ignore {
    fn found(&mut self, _: usize, entry: EntryRef<'_>) {
        std::hint::black_box(entry.value);
    }
}

impl Lab {
    /// A new store, which takes `course`.
    fn open(root: &Path, spec: &EngineSpec, keys: u64, course: Course) -> Result<Lab> {
        let entries = keys as f64 * ENTRY_BYTES;
        let has = |name: &str| spec.options.iter().any(|spec| spec.name == name);
        // Little memory, by an option where there is one, else of all.
        let waits_in_memtable = has("memtable_bytes_max");
        let memory = match course {
            Course::Moves if has("log_bytes_max") && !waits_in_memtable => {
                ((entries * MEMORY_OF_LOGGED) as u64).next_multiple_of(MEMORY_MIN)
            }
            Course::Still => MANY_MEMORY_BYTES,
            _ => MEMORY_BYTES,
        };
        let mut texts = vec![(MEMORY_OPTION, memory.to_string()), ("eviction", "none".to_string())];
        let waiting = match course {
            Course::Moves => entries * WAITING_PART,
            // A little less, so that the last run is full, too.
            Course::Runs(runs) => entries / (runs as f64 + 0.5),
            Course::Still => 0.0,
        };
        texts.push(("memtable_bytes_max", (waiting as u64).to_string()));
        if matches!(course, Course::Runs(_)) {
            texts.extend(LET_RUNS_BE.map(|(name, text)| (name, text.to_string())));
        }
        let pairs = texts.iter().map(|(name, text)| (*name, text.as_str()));
        let pairs = pairs.filter(|(name, _)| has(name));
        let values = OptionValues::parse(spec.options, pairs)?;
        let directory = root.join(format!("{}{}", spec.name, course.name()));
        let device = FileDevice::open(&directory, DeviceOptions::default())?;
        let environment = Environment::new(HashSeed(*b"a probe's engine"));
        let engine = (spec.open)(device, &values, &environment)?;
        Ok(Lab { engine, keys, prng: Prng::new(7), processor: Processor::start() })
    }

    fn all(&mut self, times: &mut Nanoseconds, byte_moved: f64) -> Result<()> {
        self.put_all(100, 1, 0..self.keys)?;
        let alone = self.put_all(100, 1, 0..self.keys)?;
        let burst = self.put_all(100, BURST as u64, 0..self.keys)?;
        times.put = alone.put_ns();
        times.put_in_burst = burst.put_ns().min(times.put);
        let large = self.put_all(LARGE_VALUE_BYTES, 1, 0..self.keys / LARGE_EVERY)?;
        let more = LARGE_VALUE_BYTES as f64 + KEY_BYTES as f64 - ENTRY_BYTES;
        times.put_byte = ((large.put_ns() - times.put) / more).max(0.0);
        let small = [&alone, &burst];
        let background: f64 = small.iter().map(|wrote| wrote.background).sum();
        let bytes: f64 = small.iter().map(|wrote| wrote.rewritten_bytes).sum();
        if bytes / ENTRY_BYTES >= REWRITTEN_MIN {
            times.rewrite = (1e9 * background / bytes * ENTRY_BYTES).max(NANOSECONDS_MIN);
            times.rewrite_byte = 0.5 * times.rewrite / ENTRY_BYTES;
        }
        let waits: f64 = small.iter().map(|wrote| wrote.waits).sum();
        let jobs: f64 = small.iter().map(|wrote| wrote.jobs).sum();
        if jobs >= 1.0 {
            times.job_wait = 1e9 * (waits - bytes * byte_moved).max(0.0) / jobs;
        }
        // The large ones are overwritten, so that gets meet usual entries.
        self.put_all(100, BURST as u64, 0..self.keys / LARGE_EVERY)?;
        self.settle()?;
        self.gets(times)?;
        self.scans(times)
    }

    fn key(index: u64) -> [u8; KEY_BYTES] {
        let mut key = [0; KEY_BYTES];
        // Odd, so no two are alike; the order of keys is not that of their numbers.
        key[..8].copy_from_slice(&index.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
        key[8..].copy_from_slice(&index.to_be_bytes());
        key
    }

    /// What a put takes more where its key lies in memory, and where there are twice as many
    /// entries: random keys are put again, of few and of many.
    fn puts_among_many(&mut self, times: &mut Nanoseconds) -> Result<()> {
        let few = (self.keys / FEW_PART).max(1);
        self.put_random(few, few)?;
        let among_few = self.put_random(few, few)?;
        let many = self.keys * MANY_TIMES;
        // In any order: what lies together in memory was not put together.
        self.put_random(many, many)?;
        let among_many = self.put_random(many, few)?;
        times.put_again = (among_few - times.put).max(0.0);
        times.put_among = few as f64;
        let doublings = ((MANY_TIMES * FEW_PART) as f64).log2();
        times.put_doubling = ((among_many - among_few) / doublings).max(0.0);
        Ok(())
    }

    /// Nanoseconds of each of `puts` puts of random keys, of the first `keys`.
    fn put_random(&mut self, keys: u64, puts: u64) -> Result<f64> {
        let value = [5; 100];
        let before = self.processor.seconds();
        for _ in 0..puts {
            let key = Self::key(self.prng.below(keys));
            let mut writes = WriteBatch::new();
            writes.put(&key, &value);
            self.engine.write(&writes, Durability::Buffered)?;
        }
        Ok(1e9 * (self.processor.seconds() - before) / puts as f64)
    }

    /// Runs of a bucket, of an engine that has them.
    fn runs(&self) -> Option<f64> {
        let runs = self.sum(&["runs"]) / self.sum(&["buckets"]);
        runs.is_finite().then_some(runs)
    }

    /// Puts every key, and brings every block into the cache.
    fn fill(&mut self) -> Result<()> {
        self.put_all(100, BURST as u64, 0..self.keys)?;
        self.get_some(self.keys, BURST, 0, 0.0).map(drop)
    }

    /// The sum of the metrics `names`.
    fn sum(&self, names: &[&str]) -> f64 {
        let mut metrics = MetricsMap::default();
        self.engine.metrics(&mut metrics);
        names.iter().map(|name| metrics.get(name)).sum()
    }

    fn settle(&self) -> Result<()> {
        while self.engine.maintain(Budget::of(TURN_BYTES))?.more {}
        Ok(())
    }

    /// Puts every key of `keys` once, `batch` in one call, with the background in turns.
    fn put_all(
        &mut self,
        value_bytes: usize,
        batch: u64,
        keys: std::ops::Range<u64>,
    ) -> Result<Wrote> {
        let value = vec![5; value_bytes];
        let mut wrote = Wrote { entries: (keys.end - keys.start) as f64, ..Wrote::default() };
        let (rewritten, jobs) = (self.sum(&REWRITTEN), self.sum(&JOBS));
        let turn = (TURN_PUT_BYTES / (KEY_BYTES + value_bytes) as f64) as u64;
        let turn = turn.min(keys.end - keys.start).max(1);
        let mut next = keys.start;
        while next < keys.end {
            let before = self.processor.seconds();
            let end = (next + turn).min(keys.end);
            while next < end {
                let many = batch.min(end - next);
                let those: Vec<_> = (next..next + many).map(Self::key).collect();
                let mut writes = WriteBatch::new();
                for key in &those {
                    writes.put(key, &value);
                }
                self.engine.write(&writes, Durability::Buffered)?;
                next += many;
            }
            let between = self.processor.seconds();
            let waiting = Waiting::start();
            self.settle()?;
            wrote.puts += between - before;
            wrote.background += self.processor.seconds() - between;
            wrote.waits += waiting.seconds();
        }
        wrote.rewritten_bytes = self.sum(&REWRITTEN) - rewritten;
        wrote.jobs = self.sum(&JOBS) - jobs;
        Ok(wrote)
    }

    fn gets(&mut self, times: &mut Nanoseconds) -> Result<()> {
        // Brings every block into the cache.
        self.get_some(self.keys, BURST, 0, times.read_in_burst)?;
        let gets = self.keys / 2;
        let absent = self.keys;
        times.hit = self.get_some(gets, 1, 0, times.read)?;
        times.hit_in_burst = self.get_some(gets, BURST, 0, times.read_in_burst)?.min(times.hit);
        times.miss = self.get_some(gets, 1, absent, times.read)?;
        let miss = self.get_some(gets, BURST, absent, times.read_in_burst)?;
        times.miss_in_burst = miss.min(times.miss);
        Ok(())
    }

    /// Nanoseconds of a get of a random key from number `first` on, the reads of the device left
    /// out, which take `read` of them.
    fn get_some(&mut self, gets: u64, batch: usize, first: u64, read: f64) -> Result<f64> {
        let reads = |engine: &dyn Engine| {
            let mut metrics = MetricsMap::default();
            engine.metrics(&mut metrics);
            metrics.get("get_device_reads")
        };
        let calls = (gets / batch as u64).max(1);
        // Drawing keys is no part of a get.
        let before = self.processor.seconds();
        for _ in 0..calls {
            self.draw_keys(batch, first, |_, keys| {
                std::hint::black_box(keys);
                Ok(())
            })?;
        }
        let drawing = self.processor.seconds() - before;
        let (reads_before, before) = (reads(&*self.engine), self.processor.seconds());
        for _ in 0..calls {
            self.draw_keys(batch, first, |engine, keys| engine.get_many(keys, &mut Ignore))?;
        }
        let took = 1e9 * (self.processor.seconds() - before - drawing).max(0.0);
        let of_reads = read * (reads(&*self.engine) - reads_before);
        // What is left of a small difference of large numbers is at least a part of them.
        let rest = (took - of_reads).max(took / 8.0);
        Ok((rest / (calls * batch as u64) as f64).max(NANOSECONDS_MIN))
    }

    /// Passes on `batch` random keys from number `first` on.
    fn draw_keys(
        &mut self,
        batch: usize,
        first: u64,
        pass: impl FnOnce(&dyn Engine, &[&[u8]]) -> Result<()>,
    ) -> Result<()> {
        let keys: Vec<_> =
            (0..batch).map(|_| Self::key(first + self.prng.below(self.keys))).collect();
        let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
        pass(&*self.engine, &keys)
    }

    fn scans(&mut self, times: &mut Nanoseconds) -> Result<()> {
        let Some(ordered) = Arc::clone(&self.engine).as_ordered() else { return Ok(()) };
        let scans = (self.keys / SCAN as u64).max(1);
        let mut of = |entries: usize| -> Result<f64> {
            let before = self.processor.seconds();
            for _ in 0..scans {
                let from = Self::key(self.prng.below(self.keys));
                let snapshot = Arc::clone(&ordered).snapshot()?;
                let mut iterator = snapshot.iterate(&KeyRange::ALL)?;
                let mut is_there = iterator.seek(&from)?;
                for _ in 1..entries {
                    is_there = is_there && iterator.next()?;
                }
                std::hint::black_box(is_there);
            }
            Ok(1e9 * (self.processor.seconds() - before) / scans as f64)
        };
        // The first time brings what it needs into the cache.
        of(SCAN)?;
        let (short, long) = (of(1)?, of(SCAN)?);
        times.seek = short.max(NANOSECONDS_MIN);
        times.next = ((long - short) / (SCAN - 1) as f64).max(NANOSECONDS_MIN);
        Ok(())
    }
}

impl Wrote {
    fn put_ns(&self) -> f64 {
        (1e9 * self.puts / self.entries.max(1.0)).max(NANOSECONDS_MIN)
    }
}
