//! SPTree: media volume of each operation, with and without what is kept in memory (figures 4.2,
//! 4.3 and 4.6).

use super::bench::{Bench, Size};
use super::{Setup, row};
use crate::figures::Row;
use silica_base::{Prng, Result};
use silica_device::sim::SimRegion;
use silica_pmem::sptree::{OPTIONS, SpTree};

/// Entries of a range.
const RANGE: usize = 100;

/// Schemes by the options that they change. What an engine does not have is left out.
const SCHEMES: [(&str, &[(&str, u64)]); 3] = [
    ("sptree", &[]),
    ("sptree without filters", &[("filters", 0)]),
    ("sptree-B", &[("buffers", 100)]),
];

/// Media bytes of each operation.
pub(super) fn figure_4_6(setup: &Setup) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut inserted = Vec::new();
    for (scheme, options) in SCHEMES {
        let is_known = |(name, _): &(&str, u64)| OPTIONS.iter().any(|spec| spec.name == *name);
        if !options.iter().all(is_known) {
            continue;
        }
        let open = |place: &_, values: &_, environment: &_| {
            SpTree::<SimRegion>::open_on(place, values, environment)
        };
        let bench = Bench::new("sptree", options, Size(8, 8), setup.seed, open)?;
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
