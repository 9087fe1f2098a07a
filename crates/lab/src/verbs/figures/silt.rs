//! `silica bench figures silt`: chapter 2 of Lim's dissertation, sections 6.1 and 6.3 of the paper.

use super::job::{Job, Stores, driven, rate, read_us, scheme};
use super::sheet::{Drawing, Sheet, drawing};
use silica::Result;
use silica_bench::figures;
use silica_bench::{Config, Plan};
use silica_console::{Output, config, observer};

/// Keys of a full run; the paper has 100 million.
const KEYS: f64 = 16e6;
const KEYS_MIN: u64 = 4000;
/// Keys of entries of 1 KiB, of the others: they take eight times the bytes.
const LARGE_SHARE: u64 = 8;
/// Seconds of each rate that is tried.
const TRIAL_SECONDS: f64 = 4.0;
/// At small scales a trial need not be longer than this for each thousand keys.
const TRIAL_SECONDS_PER_KEY: f64 = 1e-5;
/// Memory of each store of the mixes.
const MEMORY_BYTES: u64 = 64 << 20;
/// Memory numbers of the index by number of keys.
const MEMORIES: [u64; 2] = [64 << 20, 256 << 20];

const DRAWINGS: [Drawing; 1] = [Drawing {
    x_powers: true,
    metric: "bytes of index",
    ..drawing("index-by-keys", "Bytes of index by keys", "keys", "bytes a key")
}];

/// Everything that the paper's evaluation has.
pub(super) fn sheet(job: &Job<'_>, output: &Output) -> Result<Sheet> {
    let config = plain(job)?;
    let mut sheet = Sheet { drawings: DRAWINGS.to_vec(), ..Sheet::default() };
    let mut observer = observer(output);
    let (rows, files) = figures::draw(&config, job.out, &mut observer)?;
    sheet.rows.extend(rows);
    sheet.files.extend(files);
    sheet.rows.extend(figures::table_7(&config, &mut observer)?);
    let seconds = (config.plan.keys as f64 * TRIAL_SECONDS_PER_KEY).clamp(0.2, TRIAL_SECONDS);
    sheet.rows.extend(figures::sustained_rate(&config, seconds, &mut observer)?);
    sheet.rows.extend(figures::index_under_skew(&config, &mut observer)?);
    sheet.rows.extend(figures::index_by_keys(&config, &MEMORIES, &mut observer)?);
    mixes(job, config.plan.keys, &mut sheet)?;
    Ok(sheet)
}

/// Small entries (16 + 100 bytes) in as many keys as were asked for.
fn plain(job: &Job<'_>) -> Result<Config> {
    let mut plain = match job.run {
        Some(run) => config(job.global, "timeline", run)?,
        None => Config::new("timeline")?,
    };
    plain.open = job.global.open_options().engine("silt");
    plain.path = Some(job.scratch());
    if job.run.is_none() {
        plain.plan.keys = job.keys(KEYS, KEYS_MIN);
        plain.plan.operations = plain.plan.keys;
    }
    Ok(plain)
}

/// 50 % puts of 64 bytes and 10 % puts of 1 KiB, beside the paper's 72,000 and 44,000 requests a
/// second on its flash drive.
fn mixes(job: &Job<'_>, keys: u64, sheet: &mut Sheet) -> Result<()> {
    let stores = Stores::new(job, MEMORY_BYTES);
    let schemes = ["silica:silt", "silica:wip", "rocksdb", "leveldb"].map(scheme);
    let schemes = stores.installed(&schemes, sheet)?;
    let loads = [
        ("silt-50-50", "50/50 of 64 B", keys, 72_000.0),
        ("silt-10-90", "10/90 of 1 KiB", (keys / LARGE_SHARE).max(KEYS_MIN / 4), 44_000.0),
    ];
    for (workload, name, keys, paper) in loads {
        let plan = Plan { keys, operations: keys, seed: job.seed(), ..Plan::new(workload)? };
        for scheme in &schemes {
            let run = stores.filled(scheme, &plan, |target| driven(&plan, target))?;
            let paper = (scheme.name == "silica:silt").then_some(paper);
            sheet.add("section-6.1", scheme.name, format!("{name}: requests/s"), rate(&run), paper);
            let us = read_us(&run, 0.99);
            sheet.add("section-6.1", scheme.name, format!("{name}: get, 99 %, us"), us, None);
        }
    }
    Ok(())
}
