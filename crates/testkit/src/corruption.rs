//! Damaged files: found or harmless, never believed.

use super::differential::caught;
use super::harness::{CrashOrder, DeviceHarness, Image};
use super::history::{History, Observed};
use super::session::{Comparer, Model, Outcome, Session, effect, ensure};
use super::workload::{Change, Keys, Mix, Step, Steps};
use silica_base::Prng;
use silica_engine::{Budget, Engine};

const BLOCK: usize = 4096;
const SECTOR: usize = 512;
/// Bytes amid so many zeroes are flipped more rarely: preallocated space looks like that.
const ZEROES: usize = 64;
const SCAN_CALLS_MAX: usize = 100_000;

/// What became of damaged stores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CorruptionReport {
    /// Damaged stores tried.
    pub images: u64,
    /// Stores that refused to open.
    pub found_by_open: u64,
    /// Stores in which a get failed.
    pub found_by_get: u64,
    /// Stores in which no get, but a scan failed.
    pub found_by_scan: u64,
    /// Stores in which only verification failed.
    pub found_by_verify: u64,
    /// Stores that answered everything rightly.
    pub harmless: u64,
    /// Stores that were in a former state, where the harness allows it.
    pub rolled_back: u64,
}

/// Builds a small store with `steps` steps, closes it and damages its files in one place at a
/// time: flips a bit of every `stride`-th byte, cuts the file at every `stride`-th length,
/// zeroes, swaps and misdirects blocks, takes older versions of files and removes files. Checks
/// that a damaged store reports an error or answers rightly.
///
/// # Panics
///
/// Where a damaged store panics, returns a wrong or invented entry, or silently misses one.
pub fn corruption<H: DeviceHarness>(
    harness: &mut H,
    seed: u64,
    steps: usize,
    stride: usize,
) -> CorruptionReport {
    let mut report = CorruptionReport::default();
    let built = caught(|| Built::new(harness, seed, steps))
        .unwrap_or_else(|stop| panic!("corruption(harness, {seed}, {steps}, {stride}): {stop}"));
    let mut image = built.image.clone();
    for (name, bytes) in &built.image {
        for damage in damages(name, bytes, &built, seed, stride) {
            match damage.apply(bytes, built.older.get(name)) {
                Some(damaged) => image.insert(name.clone(), damaged),
                None => image.remove(name),
            };
            report.images += 1;
            harness.restore(&image);
            let exempt = harness.tail_may_vanish(name);
            if let Err(stop) = caught(|| judge(harness, &built, exempt, &mut report)) {
                panic!(
                    "corruption(harness, {seed}, {steps}, {stride}) fails with {damage:?} in \
                     {name} of {} bytes: {stop}",
                    bytes.len()
                );
            }
        }
        image.insert(name.clone(), bytes.clone());
    }
    report
}

/// A store to damage and what is in it.
struct Built {
    image: Image,
    older: Image,
    keys: Keys,
    model: Model,
    writes: Vec<Vec<Change>>,
}

impl Built {
    fn new<H: DeviceHarness>(harness: &mut H, seed: u64, steps: usize) -> Outcome<Self> {
        let workload = harness.workload();
        let mut session = Session::fresh(harness, workload.crash_keys)?;
        let mut writes = Vec::new();
        let mut older = Image::new();
        let script = Steps::new(seed, workload, workload.crash_keys, Mix::CRASH);
        let script = script.filter(|s| !matches!(s, Step::Clear | Step::Reopen | Step::Kill));
        for (index, step) in script.take(steps).enumerate() {
            if index == steps / 2 {
                session.step(&Step::Sync)?;
                older = session.harness.image();
            }
            session.step(&step)?;
            writes.extend(effect(&step, session.keys.count()).map(|w| w.0));
        }
        session.step(&Step::Sync)?;
        session.check_all()?;
        session.close();
        let (keys, model) = (Keys::new(&workload, workload.crash_keys), session.model.clone());
        Ok(Built { image: session.harness.image(), older, keys, model, writes })
    }

    /// True where `observed` is a state in which the store once was.
    fn is_former_state(&self, observed: &Observed) -> bool {
        let mut history = History::new(vec![None; self.model.len()], CrashOrder::Whole);
        self.writes.iter().for_each(|changes| history.attempted(changes.clone()));
        history.settle(observed).is_ok()
    }
}

/// One change of one file.
#[derive(Debug, Clone, Copy)]
enum Damage {
    Flip { at: usize, mask: u8 },
    Truncate { len: usize },
    Zero { at: usize, len: usize },
    Swap { a: usize, b: usize },
    Misdirect { from: usize, to: usize },
    Older,
    Remove,
}

impl Damage {
    /// The damaged file, or `None` where it is gone.
    fn apply(self, bytes: &[u8], older: Option<&Vec<u8>>) -> Option<Vec<u8>> {
        let mut out = bytes.to_vec();
        let block = |n: usize| n * BLOCK..((n + 1) * BLOCK).min(bytes.len());
        match self {
            Damage::Flip { at, mask } => out[at] ^= mask,
            Damage::Truncate { len } => out.truncate(len),
            Damage::Zero { at, len } => {
                let end = (at + len).min(out.len());
                out[at..end].fill(0);
            }
            Damage::Swap { a, b } => {
                out[block(a)].copy_from_slice(&bytes[block(b)]);
                out[block(b)].copy_from_slice(&bytes[block(a)]);
            }
            Damage::Misdirect { from, to } => out[block(to)].copy_from_slice(&bytes[block(from)]),
            Damage::Older => out = older?.clone(),
            Damage::Remove => return None,
        }
        Some(out)
    }
}

fn damages(name: &str, bytes: &[u8], built: &Built, seed: u64, stride: usize) -> Vec<Damage> {
    let mut prng = Prng::new(seed ^ bytes.len() as u64);
    let len = bytes.len();
    let mut out = vec![Damage::Remove];
    if built.older.get(name).is_some_and(|older| older != bytes) {
        out.push(Damage::Older);
    }
    // A start other than 0 lets different seeds reach different bytes.
    let first = prng.below(stride as u64) as usize;
    let mut at = first;
    while at < len {
        let around = &bytes[at.saturating_sub(ZEROES)..(at + ZEROES).min(len)];
        let is_zero = around.iter().all(|byte| *byte == 0);
        let mask = if prng.one_in(4) { 0xFF } else { 1 << prng.below(8) };
        out.push(Damage::Flip { at, mask });
        out.push(Damage::Truncate { len: at });
        at += if is_zero { stride * ZEROES } else { stride };
    }
    for size in [SECTOR, BLOCK] {
        let starts = (0..len).step_by(size);
        let holds_something = |at: &usize| bytes[*at..(at + size).min(len)].iter().any(|b| *b != 0);
        out.extend(starts.filter(holds_something).map(|at| Damage::Zero { at, len: size }));
    }
    let blocks = len / BLOCK;
    for a in 0..blocks {
        for b in [a + 1, prng.below(blocks as u64) as usize] {
            let differ = b < blocks && bytes[a * BLOCK..][..BLOCK] != bytes[b * BLOCK..][..BLOCK];
            if differ {
                out.push(Damage::Swap { a, b });
                out.push(Damage::Misdirect { from: a, to: b });
            }
        }
    }
    out
}

/// Opens the damaged store and reads everything in it.
fn judge<H: DeviceHarness>(
    harness: &mut H,
    built: &Built,
    exempt: bool,
    report: &mut CorruptionReport,
) -> Outcome {
    let Ok(engine) = harness.open() else {
        report.found_by_open += 1;
        return Ok(());
    };
    if exempt
        && let Ok(observed) = Observed::read(&engine, &built.keys)
        && !is_state(&observed, built)
        && built.is_former_state(&observed)
    {
        report.rolled_back += 1;
        return Ok(());
    }
    let gets = read_gets(&engine, built)?;
    let scan = read_scan(&engine, built)?;
    let verified = engine.verify().is_ok();
    if let Some(key) = gets.missing.or(scan.missing) {
        ensure(!verified || gets.failed || scan.failed, || {
            format!("key {key} is silently missing")
        })?;
    }
    ensure(!verified || !(gets.failed || scan.failed), || {
        "reads report damage that verification does not find".into()
    })?;
    match (gets.failed, scan.failed, verified) {
        (true, ..) => report.found_by_get += 1,
        (_, true, _) => report.found_by_scan += 1,
        (.., false) => report.found_by_verify += 1,
        _ => report.harmless += 1,
    }
    // Background work must not launder damage into intact files.
    for _ in 0..8 {
        if engine.maintain(Budget::of(1 << 16)).is_err() {
            break;
        }
    }
    read_gets(&engine, built)?;
    drop(engine);
    Ok(())
}

fn is_state(observed: &Observed, built: &Built) -> bool {
    let mut history = History::new(built.model.clone(), CrashOrder::Whole);
    history.settle(observed).is_ok()
}

/// How reading went; entries that were read are right.
#[derive(Default)]
struct Reading {
    failed: bool,
    missing: Option<u32>,
}

/// Gets every key, in one burst and where that fails one by one.
fn read_gets(engine: &impl Engine, built: &Built) -> Outcome<Reading> {
    let mut reading = Reading::default();
    let all: Vec<u32> = (0..built.keys.count()).collect();
    reading.get(engine, built, &all)?;
    if reading.failed {
        all.iter().try_for_each(|key| reading.get(engine, built, &[*key]))?;
    }
    Ok(reading)
}

struct Burst<'a> {
    comparer: Comparer<'a>,
    built: &'a Built,
    ids: &'a [u32],
    seen: Vec<bool>,
}

impl silica_engine::GetSink for Burst<'_> {
    fn found(&mut self, index: usize, entry: silica_engine::EntryRef<'_>) {
        self.seen[index] = true;
        self.comparer.visit(self.built.keys.bytes(self.ids[index]), &entry);
    }
}

impl Reading {
    fn get(&mut self, engine: &impl Engine, built: &Built, ids: &[u32]) -> Outcome {
        let burst: Vec<&[u8]> = ids.iter().map(|id| built.keys.bytes(*id)).collect();
        let comparer = Comparer::new(&built.keys, &built.model);
        let mut sink = Burst { comparer, built, ids, seen: vec![false; ids.len()] };
        if engine.get_many(&burst, &mut sink).is_err() {
            self.failed = true;
        } else {
            let is_missing =
                |(id, seen): &(&u32, &bool)| !**seen && built.model[**id as usize].is_some();
            let missing = ids.iter().zip(&sink.seen).find(is_missing).map(|(id, _)| *id);
            self.missing = self.missing.or(missing);
        }
        sink.comparer.done()
    }
}

fn read_scan(engine: &impl Engine, built: &Built) -> Outcome<Reading> {
    let mut reading = Reading::default();
    let Some(scan) = engine.as_scan() else { return Ok(reading) };
    let mut seen = vec![false; built.model.len()];
    let mut cursor = Some(0);
    let mut calls = 0;
    while let Some(from) = cursor {
        let mut comparer = Comparer::new(&built.keys, &built.model);
        let result = scan.scan(from, 16, &mut |key, entry| {
            if let Some(id) = comparer.visit(key, &entry) {
                seen[id as usize] = true;
            }
        });
        comparer.done()?;
        let Ok(next) = result else {
            reading.failed = true;
            return Ok(reading);
        };
        cursor = next;
        calls += 1;
        ensure(calls < SCAN_CALLS_MAX, || "a scan does not end".into())?;
    }
    let missing = |id: &usize| !seen[*id] && built.model[*id].is_some();
    reading.missing = (0..seen.len()).find(missing).map(|id| id as u32);
    Ok(reading)
}
