//! Lookups from end to end (Table 3.4 of the chapter on ECT): the index says where an item is, and
//! the item is read from the device, past the page cache.

use super::ect::dense;
use super::job::Job;
use super::sheet::Sheet;
use ph::fmph;
use ph::phast;
use silica::{Error, ErrorKind, Result};
use silica_base::{AlignedBuf, BLOCK_BYTES, Prng};
use silica_device::{Device, DeviceFile, DeviceOptions, FileDevice, Mode};
use silica_parts::ect::EctParams;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Bytes of an item, of which the key comes first.
const ITEM: usize = 1024;
/// Items for each key of the rest of the run: files of 1 KiB items get large.
const SHARE: usize = 4;
/// As in the paper.
const THREADS: usize = 16;
const LOOKUPS_MAX: usize = 200_000;
/// Bytes that are written at once.
const WRITE_BYTES: usize = 1 << 20;
/// The paper's queries a second.
const PAPER_ECT: f64 = 64_020.0;
const PAPER_EPH: f64 = 69_160.0;

/// Lookups through the trie and through minimal perfect hashes, whose files are in their own order.
pub(super) fn add(job: &Job<'_>, keys: &[u64], sheet: &mut Sheet) -> Result<()> {
    let keys = &keys[..keys.len().div_ceil(SHARE)];
    let directory = job.scratch();
    let device = FileDevice::open(&directory, DeviceOptions::default())?;
    let outcome = measured(&device, keys, job.seed());
    drop(device);
    let _ = std::fs::remove_dir_all(directory);
    let rates = outcome?;
    for (scheme, rate, paper) in &rates {
        sheet.add("table-3.4", *scheme, "lookups/s with device reads", *rate, *paper);
    }
    let (ect, best) = (rates[0].1, rates.iter().map(|row| row.1).fold(0.0, f64::max));
    // The paper: ECT is 7.4 % slower than EPH.
    sheet.add("table-3.4", "ECT", "of the fastest", ect / best, PAPER_ECT / PAPER_EPH);
    Ok(())
}

type Rates = Vec<(&'static str, f64, Option<f64>)>;

fn measured(device: &FileDevice, keys: &[u64], seed: u64) -> Result<Rates> {
    let trie = dense(keys, EctParams::default());
    let fmph = fmph::Function::from_slice_with_conf(keys, fmph::BuildConf::mt(false));
    let phast = phast::Function::from_slice_st(keys);
    let in_order: Vec<u64> = keys.to_vec();
    Ok(vec![
        ("ECT", rate(device, &in_order, seed, |key| trie.rank(key))?, Some(PAPER_ECT)),
        ("FMPH", permuted(device, keys, seed, |key| fmph.get_or_panic(&key))?, Some(PAPER_EPH)),
        ("PHast", permuted(device, keys, seed, |key| phast.get(&key) as u64)?, Some(PAPER_EPH)),
    ])
}

/// Lookups a second in a file in the order of a perfect hash.
fn permuted(
    device: &FileDevice,
    keys: &[u64],
    seed: u64,
    place: impl Fn(u64) -> u64 + Sync,
) -> Result<f64> {
    let mut permuted = vec![0; keys.len()];
    for &key in keys {
        permuted[place(key) as usize] = key;
    }
    rate(device, &permuted, seed, place)
}

/// Writes `keys` as items in this order, and looks random ones up where `place` says. An item that
/// is not there is an error.
fn rate(
    device: &FileDevice,
    keys: &[u64],
    seed: u64,
    place: impl Fn(u64) -> u64 + Sync,
) -> Result<f64> {
    let file = device.create("items", Mode::Direct)?;
    write(&file, keys)?;
    let wrong = AtomicU64::new(0);
    let each = LOOKUPS_MAX.min(4 * keys.len()) / THREADS;
    let started = Instant::now();
    let outcomes: Vec<Result<()>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (file, place, wrong) = (&file, &place, &wrong);
                scope.spawn(move || look_up(file, keys, (seed + thread as u64, each), place, wrong))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("lookups do not panic")).collect()
    });
    let seconds = started.elapsed().as_secs_f64();
    outcomes.into_iter().collect::<Result<()>>()?;
    drop(file);
    device.remove("items")?;
    match wrong.load(Ordering::Relaxed) {
        0 => Ok((each * THREADS) as f64 / seconds),
        wrong => {
            let text = format!("{wrong} lookups found another item");
            Err(Error::new(ErrorKind::Corruption, text))
        }
    }
}

fn write(file: &impl DeviceFile, keys: &[u64]) -> Result<()> {
    for (part, keys) in keys.chunks(WRITE_BYTES / ITEM).enumerate() {
        let mut buffer = AlignedBuf::zeroed((keys.len() * ITEM).next_multiple_of(BLOCK_BYTES));
        for (item, key) in buffer.chunks_exact_mut(ITEM).zip(keys) {
            item[..8].copy_from_slice(&key.to_le_bytes());
        }
        file.write_at((part * WRITE_BYTES) as u64, &buffer)?;
    }
    file.sync()
}

fn look_up(
    file: &impl DeviceFile,
    keys: &[u64],
    (seed, count): (u64, usize),
    place: &impl Fn(u64) -> u64,
    wrong: &AtomicU64,
) -> Result<()> {
    let (mut prng, mut block) = (Prng::new(seed), AlignedBuf::zeroed(BLOCK_BYTES));
    for _ in 0..count {
        let key = keys[prng.below(keys.len() as u64) as usize];
        let byte = place(key) * ITEM as u64;
        let begin = byte - byte % BLOCK_BYTES as u64;
        file.read_at(begin, &mut block)?;
        let item = &block[(byte - begin) as usize..];
        if item[..8] != key.to_le_bytes() {
            wrong.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}
