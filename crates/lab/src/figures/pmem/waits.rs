//! What calls wait for: lines of the medium that they read one after the other, and fences (figures
//! 3.5, 3.10, 3.11 and 4.7). The paper draws times, nearly all of which are these waits; a
//! simulated medium has no time, so its counts are shown: mean, 99th percentile and most.

use super::bench::{Bench, Size, Waits};
use super::{Setup, row, tree, turbo};
use crate::figures::Row;
use silica_base::{Prng, Result};
use silica_device::sim::SimRegion;
use silica_pmem::turbo::Turbo;

/// Calls that are measured of each kind.
const CALLS: u64 = 20_000;
/// Keys that no table has begin here.
const ABSENT: u64 = 1 << 40;

fn add(rows: &mut Vec<Row>, figure: &'static str, scheme: &str, what: &str, waits: &Waits) {
    for (kind, value) in [
        ("mean", waits.mean()),
        ("99th percentile", waits.percentile(99)),
        ("most", waits.percentile(100)),
    ] {
        rows.push(row(figure, scheme, format!("lines read by {what}, {kind}"), value, None));
    }
    if waits.fences > 0.0 {
        rows.push(row(figure, scheme, format!("fences of {what}, mean"), waits.fences, None));
    }
}

/// Reads and inserts of a table that was filled.
pub(super) fn figure_3_5(setup: &Setup) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (scheme, size) in turbo::SCHEMES {
        let bench = turbo::bench(setup, size, turbo::shards(setup))?;
        let calls = CALLS.min(setup.keys / 4);
        (0..setup.keys).try_for_each(|n| bench.put(n, 0))?;
        let mut prng = Prng::new(setup.seed);
        let hits = bench.waits(calls, |_| bench.get(prng.below(setup.keys)).map(drop))?;
        let misses = bench.waits(calls, |n| bench.get(ABSENT + n).map(drop))?;
        let inserts = bench.waits(calls, |n| bench.put(setup.keys + n, 0))?;
        for (what, waits) in
            [("a positive read", hits), ("a negative read", misses), ("an insert", inserts)]
        {
            add(&mut rows, "figure-3.5", scheme, what, &waits);
        }
    }
    Ok(rows)
}

/// Negative reads of a full table; after all its keys were deleted and as many others put; after
/// the clean-up.
pub(super) fn figure_3_10(setup: &Setup) -> Result<Vec<Row>> {
    let (scheme, mut rows) = ("TURBO16", Vec::new());
    let bench = turbo::bench(setup, Size(8, 8), 1)?;
    let keys = turbo::fill(&bench, setup.keys)?;
    let mut measure = |bench: &Bench<Turbo<SimRegion>>, when: &str| -> Result<()> {
        let misses = bench.waits(CALLS, |n| bench.get(ABSENT + n).map(drop))?;
        add(&mut rows, "figure-3.10", scheme, &format!("a negative read {when}"), &misses);
        Ok(())
    };
    measure(&bench, "of new keys")?;
    (0..keys).try_for_each(|n| bench.delete(n))?;
    (keys..2 * keys).try_for_each(|n| bench.put(n, 0))?;
    measure(&bench, "after deletes and as many puts")?;
    bench.maintain()?;
    measure(&bench, "after clean-up")?;
    Ok(rows)
}

/// Lines that the growth of a shard writes, by its size: as many as it has afterwards, one after
/// the other.
pub(super) fn figure_3_11(setup: &Setup) -> Result<Vec<Row>> {
    let (scheme, mut rows) = ("TURBO16", Vec::new());
    let bench = turbo::bench(setup, Size(8, 8), 1)?;
    let (mut resizes, mut before) = (0.0, bench.counts());
    for n in 0..setup.keys.min(80_000) {
        bench.put(n, 0)?;
        let (now, counts) = (bench.metric("resizes"), bench.counts());
        if now > resizes {
            let buckets = bench.metric("buckets");
            let lines = (counts.xplines_written - before.xplines_written) as f64;
            let metric = format!("lines written when a shard grows to {buckets:.0} buckets");
            rows.push(row("figure-3.11", scheme, metric, lines, None));
            let metric = format!("lines written for each of {buckets:.0} buckets");
            rows.push(row("figure-3.11", scheme, metric, lines / buckets, None));
            resizes = now;
        }
        before = counts;
    }
    Ok(rows)
}

/// Reads and inserts of a tree that was filled, with and without write buffers.
pub(super) fn figure_4_7(setup: &Setup) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (scheme, options) in tree::SCHEMES {
        let bench = tree::bench(options, setup.seed)?;
        let calls = CALLS.min(setup.keys / 4);
        (0..setup.keys).try_for_each(|n| bench.put(n, 0))?;
        let mut prng = Prng::new(setup.seed);
        let hits = bench.waits(calls, |_| bench.get(prng.below(setup.keys)).map(drop))?;
        let misses = bench.waits(calls, |n| bench.get(ABSENT + n).map(drop))?;
        let inserts = bench.waits(calls, |n| bench.put(setup.keys + n, 0))?;
        for (what, waits) in
            [("a positive read", hits), ("a negative read", misses), ("an insert", inserts)]
        {
            add(&mut rows, "figure-4.7", scheme, what, &waits);
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(rows: &[Row], scheme: &str, metric: &str) -> f64 {
        let is_it = |row: &&Row| row.scheme == scheme && row.metric == metric;
        rows.iter().find(is_it).unwrap_or_else(|| panic!("{scheme}: {metric}")).value
    }

    #[test]
    fn a_growth_writes_each_bucket_once_and_a_buffered_insert_waits_for_less() {
        let setup = Setup { keys: 20_000, growths: 2, seed: 1 };
        let grown = figure_3_11(&setup).unwrap();
        let each: Vec<f64> = grown
            .iter()
            .filter(|row| row.metric.contains("for each of"))
            .map(|row| row.value)
            .collect();
        assert!(each.len() > 5 && each.iter().skip(3).all(|lines| (0.8..1.3).contains(lines)));
        let rows = figure_4_7(&setup).unwrap();
        let fences = |scheme| value(&rows, scheme, "fences of an insert, mean");
        assert!(fences("sptree-B") < 0.7 * fences("sptree"));
    }
}
