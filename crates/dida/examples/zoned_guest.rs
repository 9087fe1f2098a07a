//! A cache on a drive with zones that is killed again and again, alone or with its machine.
//!
//! `zoned_guest DEVICE DIR SECONDS` opens the cache, checks every key against what was
//! acknowledged before, prints `WHOLE` with how much it found, and goes on with puts and deletes
//! for so long. What a step does follows from its number alone, so a later run knows what earlier
//! ones did; which steps these were is in `DIR/runs`.
//!
//! Values may vanish. They are never wrong, never another key's, and never back after a delete or
//! an overwrite that was acknowledged.

use silica_base::{Error, ErrorKind, HashSeed, Prng, Result};
use silica_device::blocks::{FlashImageOptions, KernelZones, ZonedFlash};
use silica_device::{DeviceOptions, FileDevice};
use silica_dida::{Dida, RawFlash, Startup};
use silica_engine::{Budget, Durability, Engine, EngineExt, Environment, OptionValues, WriteBatch};
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

const KEYS: u64 = 4000;
const MEMORY_BYTES: u64 = 24 << 20;
/// The number of the last step is kept after so many: more often would take all the time.
const KEPT_EACH: u64 = 64;

type Cache = Dida<RawFlash<ZonedFlash<KernelZones>>, FileDevice>;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [device, dir, seconds] => run(device.as_ref(), dir.as_ref(), seconds),
        _ => Err(Error::new(ErrorKind::Config, "use: zoned_guest DEVICE DIR SECONDS")),
    };
    if let Err(error) = done {
        println!("CRASH FAILED {error}");
        std::process::exit(1);
    }
}

/// What step `number` does: a put of a key with this value, or a delete.
fn step(number: u64) -> (u64, Option<Vec<u8>>) {
    let mut prng = Prng::new(number);
    let key = prng.below(KEYS);
    let bytes = 200 + prng.below(3000) as usize;
    let value = (!prng.one_in(8)).then(|| {
        let mut value = format!("{key}:{number}:").into_bytes();
        value.resize(bytes, b'x');
        value
    });
    (key, value)
}

fn name_of(key: u64) -> Vec<u8> {
    format!("key {key}").into_bytes()
}

fn open(device: &Path, dir: &Path, is_new: bool) -> Result<Cache> {
    let options = FlashImageOptions { id: 3, endurance: None };
    let flash = match is_new {
        true => ZonedFlash::create(device, None, options)?,
        false => ZonedFlash::open(device)?,
    };
    let files = FileDevice::open(&dir.join("files"), DeviceOptions::default())?;
    let environment = Environment::new(HashSeed([7; 16]));
    let mut values = OptionValues::default();
    values.set("memory_bytes", MEMORY_BYTES).set("memory_slabs", 6).set("after_power_loss", 1);
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_err(|e| Error::io("reading the number of this boot", e))?;
    let startup = Startup { boot: HashSeed([0; 16]).low(boot.trim().as_bytes()) };
    Dida::open(RawFlash::new(flash)?, files, &values, &environment, startup)
}

/// The steps of each run that were acknowledged.
struct Runs {
    file: File,
    ranges: Vec<RangeInclusive<u64>>,
}

impl Runs {
    fn open(path: &Path) -> Result<Self> {
        let opened = File::options().read(true).write(true).create(true).truncate(false).open(path);
        let file = opened.map_err(kept)?;
        let bytes = std::fs::read(path).map_err(kept)?;
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        let range = |bytes: &[u8]| word(&bytes[..8])..=word(&bytes[8..]);
        let ranges = bytes.chunks_exact(16).map(range).collect();
        Ok(Runs { file, ranges })
    }

    /// The first step of a new run: behind all that an earlier one may have begun.
    fn begin(&self) -> u64 {
        self.ranges.last().map_or(1, |range| range.end() + 2 * KEPT_EACH)
    }

    fn keep(&self, first: u64, last: u64) -> Result<()> {
        let bytes = [first.to_le_bytes(), last.to_le_bytes()].concat();
        let written = self.file.write_all_at(&bytes, 16 * self.ranges.len() as u64);
        written.and_then(|()| self.file.sync_data()).map_err(kept)
    }
}

fn kept(error: std::io::Error) -> Error {
    Error::io("keeping what was acknowledged", error)
}

/// Checks every key against the steps that were acknowledged; others may have been begun. Returns
/// how many keys were found.
fn check(cache: &Cache, runs: &Runs) -> Result<u64> {
    let steps = runs.ranges.iter().cloned().flatten();
    let last: BTreeMap<u64, u64> = steps.map(|number| (step(number).0, number)).collect();
    let mut found = 0;
    for key in 0..KEYS {
        let Some(value) = cache.get(&name_of(key))? else { continue };
        found += 1;
        let text = String::from_utf8_lossy(&value[..value.len().min(40)]).into_owned();
        let number = text.split(':').nth(1).and_then(|number| number.parse().ok()).unwrap_or(0);
        let oldest = last.get(&key).copied().unwrap_or(0);
        if step(number) != (key, Some(value)) || number < oldest {
            let message =
                format!("key {key} is back or wrong: {text}; step {oldest} was acknowledged");
            return Err(Error::new(ErrorKind::Corruption, message));
        }
    }
    Ok(found)
}

fn run(device: &Path, dir: &Path, seconds: &str) -> Result<()> {
    let seconds = seconds.parse().map_err(|_| {
        Error::new(ErrorKind::Config, format!("{seconds:?} is no number of seconds"))
    })?;
    let runs = Runs::open(&dir.join("runs"))?;
    let cache = open(device, dir, runs.ranges.is_empty())?;
    let found = check(&cache, &runs)?;
    let acknowledged: u64 = runs.ranges.iter().map(|range| range.end() - range.start() + 1).sum();
    println!("CRASH WHOLE {found} keys after {acknowledged} steps");
    let first = runs.begin();
    let end = Instant::now() + Duration::from_secs(seconds);
    for number in (first..).take_while(|_| Instant::now() < end) {
        let (key, value) = step(number);
        let name = name_of(key);
        let mut batch = WriteBatch::new();
        match &value {
            Some(value) => batch.put(&name, value),
            None => batch.delete(&name),
        };
        cache.write(&batch, Durability::Buffered)?;
        while cache.maintain(Budget::of(1 << 20))?.more {}
        if number.is_multiple_of(KEPT_EACH) {
            runs.keep(first, number)?;
        }
    }
    println!("CRASH END");
    Ok(())
}
