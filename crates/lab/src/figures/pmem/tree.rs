//! SPTree: media volume of each operation, with and without what is kept in memory (figures 4.2 to
//! 4.4 and 4.6), and what an opening reads (figure 4.8).
//!
//! The paper's case study adds buffering (B), out-of-place merging (O) and caching (C) to a hash
//! table, a tree and a skip list of others. Here they are switches of our own tree. Its inner nodes
//! are always in memory, so what its caching can be without is the filters.

use super::bench::{Bench, Size};
use super::{Setup, row};
use crate::figures::Row;
use silica_base::{Prng, Result};
use silica_device::sim::SimRegion;
use silica_pmem::sptree::SpTree;

/// Entries of a range.
const RANGE: usize = 100;

/// Options that a scheme changes.
pub(super) type Options = [(&'static str, u64)];

/// Schemes of the evaluation.
pub(super) const SCHEMES: [(&str, &Options); 5] = [
    ("sptree", &[]),
    ("sptree without filters", &[("filters", 0)]),
    ("sptree-B", &[("buffers", 100)]),
    ("sptree-BO", &[("buffers", 100), ("merge", 1)]),
    ("sptree-B of half of the leaves", &[("buffers", 50)]),
];

/// Schemes of the case study.
const CASES: [(&str, &Options); 5] = [
    ("tree", &[("filters", 0)]),
    ("tree-B", &[("filters", 0), ("buffers", 100)]),
    ("tree-BO", &[("filters", 0), ("buffers", 100), ("merge", 1)]),
    ("tree-BC", &[("buffers", 100)]),
    ("tree-BOC", &[("buffers", 100), ("merge", 1)]),
];

type TreeBench = Bench<SpTree<SimRegion>>;

pub(super) fn bench(options: &Options, seed: u64) -> Result<TreeBench> {
    Bench::new("sptree", options, Size(8, 8), seed, |place, values, environment| {
        SpTree::<SimRegion>::open_on(place, values, environment)
    })
}

/// Inserts and then reads with each part of the case study: figures 4.2, 4.3 and 4.4.
pub(super) fn case_study(setup: &Setup) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut plain_written = None;
    for (scheme, options) in CASES {
        let bench = bench(options, setup.seed)?;
        let keys = setup.keys;
        let (written, read) = bench.media(keys, |n| bench.put(n, 0))?;
        let counts = bench.counts();
        let plain = *plain_written.get_or_insert(written);
        let paper = if scheme == "tree-B" { 4.0 } else { f64::NAN };
        // Counting of media begins with all counts at zero.
        let each = |count: u64| count as f64 / keys as f64;
        rows.extend([
            row(
                "figure-4.2",
                scheme,
                "media bytes written by inserts",
                written * keys as f64,
                None,
            ),
            row(
                "figure-4.2",
                scheme,
                "media bytes written without buffers, divided by these",
                plain / written,
                Some(paper).filter(|paper| paper.is_finite()),
            ),
            row("figure-4.3", scheme, "media bytes written for each insert", written, None),
            row("figure-4.3", scheme, "media bytes read for each insert", read, None),
            row("figure-4.3", scheme, "fences for each insert", each(counts.fences), None),
            row(
                "figure-4.3",
                scheme,
                "lines flushed for each insert",
                each(counts.lines_flushed),
                None,
            ),
        ]);
        let some = keys.min(100_000);
        let mut prng = Prng::new(setup.seed);
        let mut add =
            |what: &str, value: f64| rows.push(row("figure-4.4", scheme, what, value, None));
        let hits = bench.media(some, |_| bench.get(prng.below(keys)).map(drop))?;
        add("media bytes read for each positive read", hits.1);
        let misses = bench.media(some, |n| bench.get(keys + n).map(drop))?;
        add("media bytes read for each negative read", misses.1);
        let leaves = bench.metric("leaves") * 1280.0;
        add("memory beside the region, of the leaves", bench.metric("index_bytes") / leaves);
    }
    Ok(rows)
}

/// What an opening reads of the region, against the number of keys. Times of this machine are on
/// the benchmark page.
pub(super) fn figure_4_8(setup: &Setup) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (scheme, options) in [("sptree", SCHEMES[0].1), ("sptree-B", SCHEMES[2].1)] {
        for part in [4, 2, 1] {
            let keys = setup.keys / part;
            let bench = bench(options, setup.seed)?;
            for n in 0..keys {
                bench.put(n, 0)?;
            }
            let (read, leaves) = (bench.opening()?, bench.metric("leaves"));
            let metric = |what: &str| format!("{what}, {keys} keys");
            rows.push(row(
                "figure-4.8",
                scheme,
                metric("media bytes read before the first answer, of the leaves"),
                read as f64 / (leaves * 1280.0),
                None,
            ));
        }
    }
    Ok(rows)
}

/// Media bytes of each operation.
pub(super) fn figure_4_6(setup: &Setup) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut inserted = Vec::new();
    for (scheme, options) in SCHEMES {
        let bench = bench(options, setup.seed)?;
        let keys = setup.keys;
        let mut prng = Prng::new(setup.seed);
        let mut add = |what: &str, (written, read): (f64, f64)| {
            for (kind, value) in [("written", written), ("read", read)] {
                let metric = format!("media bytes {kind} for each {what}");
                rows.push(row("figure-4.6", scheme, metric, value, None));
            }
            written
        };
        inserted.push((scheme, add("insert", bench.media(keys, |n| bench.put(n, 0))?)));
        let some = keys.min(100_000);
        add("positive read", bench.media(some, |_| bench.get(prng.below(keys)).map(drop))?);
        add("negative read", bench.media(some, |n| bench.get(keys + n).map(drop))?);
        let mut seen = 0;
        let read = |_| bench.range(prng.below(keys), RANGE).map(|entries| seen += entries);
        let volume = bench.media(some / 100, read)?;
        debug_assert!(seen > 0, "ranges found nothing");
        add("range of 100", volume);
        add("update", bench.media(some, |n| bench.put(n % keys, 1))?);
    }
    let of = |wanted: &str| inserted.iter().find(|(scheme, _)| *scheme == wanted).map(|(_, w)| *w);
    if let (Some(plain), Some(buffered)) = (of("sptree"), of("sptree-B")) {
        let metric = "media bytes of inserts without buffers, divided by those with";
        rows.push(row("figure-4.6", "sptree-B", metric, plain / buffered, 3.0));
    }
    Ok(rows)
}
