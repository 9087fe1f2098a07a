//! TurboHash: media volume of each operation (figure 3.4), load factor (3.8), probe distance (3.9).

use super::bench::{Bench, Size};
use super::{Setup, row};
use crate::figures::Row;
use silica_base::{Prng, Result};
use silica_device::sim::SimRegion;
use silica_pmem::turbo::Turbo;

pub(super) const SCHEMES: [(&str, Size); 2] = [("TURBO16", Size(8, 8)), ("TURBO30", Size(15, 15))];
/// A processor's cache that holds what one search reads, and no more.
const ONE_CALL_BYTES: u64 = 4096;
/// Misses that are measured: fewer than what background work, which cleans up, comes after.
const MISSES: u64 = 4000;
/// Bytes of a line of the medium, which is one bucket.
const LINE_BYTES: f64 = 256.0;

pub(super) fn bench(setup: &Setup, size: Size, shards: u64) -> Result<Bench<Turbo<SimRegion>>> {
    let options = [("shards", shards)];
    Bench::new("turbo", &options, size, setup.seed, |place, values, environment| {
        Turbo::open_on(place.clone(), values, environment)
    })
}

/// Shards of tables that grow as often as the paper's: some 8,000 entries each.
pub(super) fn shards(setup: &Setup) -> u64 {
    (setup.keys / 8000).max(1).next_power_of_two()
}

/// Media bytes of each operation, single calls.
pub(super) fn figure_3_4(setup: &Setup) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (scheme, size) in SCHEMES {
        let bench = bench(setup, size, shards(setup))?;
        let keys = setup.keys;
        let mut prng = Prng::new(setup.seed);
        let mut add = |what: &str, (written, read): (f64, f64)| {
            for (kind, value) in [("written", written), ("read", read)] {
                let metric = format!("media bytes {kind} for each {what}");
                rows.push(row("figure-3.4", scheme, metric, value, None));
            }
        };
        add("insert", bench.media(keys, |n| bench.put(n, 0))?);
        let some = keys.min(100_000);
        add("positive read", bench.media(some, |_| bench.get(prng.below(keys)).map(drop))?);
        add("negative read", bench.media(some, |n| bench.get(keys + n).map(drop))?);
        add("update", bench.media(some, |_| bench.put(prng.below(keys), 1))?);
        add("delete", bench.media(keys, |n| bench.delete(n))?);
    }
    Ok(rows)
}

/// The load factor while a table of one shard fills: the highest and the mean, and bytes of the
/// region for each entry.
pub(super) fn figure_3_8(setup: &Setup) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (scheme, size) in SCHEMES {
        let bench = bench(setup, size, shards(setup))?;
        let (mut most, mut sum, mut samples) = (0.0_f64, 0.0, 0);
        for n in 0..setup.keys {
            bench.put(n, 0)?;
            if n % 500 == 499 {
                let load = bench.metric("load_factor");
                most = most.max(load);
                (sum, samples) = (sum + load, samples + 1);
            }
        }
        let bytes = bench.metric("buckets") * LINE_BYTES / setup.keys as f64;
        let mean = sum / f64::from(samples.max(1));
        rows.push(row("figure-3.8", scheme, "highest load factor of all shards", most, None));
        rows.push(row("figure-3.8", scheme, "mean load factor", mean, 0.6));
        rows.push(row("figure-3.8", scheme, "bytes of buckets for each entry", bytes, None));
    }
    // One shard alone shows how full it becomes before it grows.
    let setup = Setup { keys: setup.keys.min(60_000), ..*setup };
    let bench = bench(&setup, Size(8, 8), 1)?;
    let (mut before, mut resizes, mut peaks) = (0.0, 0.0, Vec::new());
    for n in 0..setup.keys {
        bench.put(n, 0)?;
        let now = bench.metric("resizes");
        if now > resizes {
            peaks.push(before);
            resizes = now;
        }
        before = bench.metric("load_factor");
    }
    let last = peaks.last().copied().unwrap_or_default();
    rows.push(row("figure-3.8", "TURBO16", "load factor before the last growth", last, 0.85));
    Ok(rows)
}

/// Fills a table of one shard until it has grown some times and is as full as the paper's; keys
/// put. A table that is fuller when it has that many keys is filled on until after its next growth.
pub(super) fn fill(bench: &Bench<Turbo<SimRegion>>, keys_max: u64) -> Result<u64> {
    let (mut keys, least) = (0, keys_max.min(40_000));
    while keys < least || !(0.8..0.81).contains(&bench.metric("load_factor")) {
        bench.put(keys, 0)?;
        keys += 1;
    }
    Ok(keys)
}

/// Buckets that a search for a missing key looks at: at a load of 0.8, after all keys were deleted
/// and as many others put, and after the deleted slots were cleaned up.
pub(super) fn figure_3_9(setup: &Setup) -> Result<Vec<Row>> {
    let scheme = "TURBO16";
    let bench = bench(setup, Size(8, 8), 1)?;
    let keys = fill(&bench, setup.keys)?;
    let misses = |bench: &Bench<Turbo<SimRegion>>| -> Result<f64> {
        let get = |n| bench.get((1 << 40) + n).map(drop);
        let (_, read) = bench.media_behind(ONE_CALL_BYTES, MISSES, get)?;
        Ok(read / LINE_BYTES)
    };
    let mut rows = Vec::new();
    let load = bench.metric("load_factor");
    let metric = format!("buckets of a miss at a load of {load:.2}");
    rows.push(row("figure-3.9", scheme, metric, misses(&bench)?, 1.34));
    for n in 0..keys {
        bench.delete(n)?;
    }
    for n in keys..2 * keys {
        bench.put(n, 0)?;
    }
    let load = bench.metric("load_factor");
    let metric = format!("buckets of a miss after deletes and as many puts, load {load:.2}");
    rows.push(row("figure-3.9", scheme, metric, misses(&bench)?, 6.13));
    bench.maintain()?;
    rows.push(row("figure-3.9", scheme, "clean-ups", bench.metric("cleanups"), None));
    let load = bench.metric("load_factor");
    let metric = format!("buckets of a miss after clean-up, load {load:.2}");
    rows.push(row("figure-3.9", scheme, metric, misses(&bench)?, 1.34));
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clean_up_makes_searches_as_short_as_those_of_new_keys() {
        let rows = figure_3_9(&Setup { keys: 6000, growths: 2, seed: 1 }).unwrap();
        let of =
            |metric: &str| rows.iter().find(|row| row.metric.contains(metric)).expect(metric).value;
        let (fresh, cleaned) = (of("at a load of 0.80"), of("after clean-up"));
        assert!(cleaned < 1.15 * fresh, "{fresh} {cleaned}");
        assert!(of("clean-ups") >= 1.0);
    }

    #[test]
    fn an_update_writes_one_line_and_a_miss_reads_little_more_than_one() {
        // The medium's own buffer, 64 lines of 256 bytes, holds few of the lines of so many keys.
        let setup = Setup { keys: 40_000, growths: 2, seed: 1 };
        let rows = figure_3_4(&setup).unwrap();
        let of = |metric: &str| {
            let is_it = |row: &&Row| row.scheme == "TURBO16" && row.metric.contains(metric);
            rows.iter().find(is_it).unwrap().value
        };
        let update = of("written for each update");
        assert!((250.0..=1.1 * 256.0).contains(&update), "{update}");
        let miss = of("read for each negative read");
        assert!(miss < 1.5 * 256.0, "{miss}");
    }
}
