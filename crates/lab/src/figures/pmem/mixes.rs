//! TurboHash under YCSB's mixes (figure 3.7). The paper shows throughput against CCEH's; here it is
//! media volume, of which there is none of CCEH.

use super::bench::Bench;
use super::{Setup, row, turbo};
use crate::figures::Row;
use silica_base::{Prng, Result};
use silica_device::sim::SimRegion;
use silica_pmem::turbo::Turbo;

/// Mixes by their letters: puts in a hundred operations, whether a put reads first, and whether
/// reads are of what was put last.
const MIXES: [(&str, u64, bool, bool); 5] = [
    ("A", 50, false, false),
    ("B", 5, false, false),
    ("C", 0, false, false),
    ("D", 5, false, true),
    ("F", 50, true, false),
];
/// Keys put last that workload D reads.
const LATEST: u64 = 1000;

/// Media bytes for each operation of the load and of each mix, keys chosen uniformly.
pub(super) fn figure_3_7(setup: &Setup) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (scheme, size) in turbo::SCHEMES {
        let bench = turbo::bench(setup, size, turbo::shards(setup))?;
        let mut add = |mix: &str, (written, read): (f64, f64)| {
            for (kind, value) in [("written", written), ("read", read)] {
                let metric = format!("media bytes {kind} for each operation of {mix}");
                rows.push(row("figure-3.7", scheme, metric, value, None));
            }
        };
        add("the load", bench.media(setup.keys, |n| bench.put(n, 0))?);
        let operations = setup.keys.min(100_000);
        let mut keys = setup.keys;
        for (mix, puts, modifies, latest) in MIXES {
            let mut prng = Prng::new(setup.seed);
            let volume = bench.media(operations, |_| {
                let is_put = prng.below(100) < puts;
                operate(&bench, &mut prng, &mut keys, (is_put, modifies, latest))
            })?;
            add(mix, volume);
        }
    }
    Ok(rows)
}

/// One operation: D inserts new keys, the others update.
fn operate(
    bench: &Bench<Turbo<SimRegion>>,
    prng: &mut Prng,
    keys: &mut u64,
    (is_put, modifies, latest): (bool, bool, bool),
) -> Result<()> {
    if latest {
        if is_put {
            *keys += 1;
            return bench.put(*keys - 1, 0);
        }
        return bench.get(*keys - 1 - prng.below(LATEST)).map(drop);
    }
    let key = prng.below(*keys);
    if !is_put {
        return bench.get(key).map(drop);
    }
    if modifies {
        bench.get(key)?;
    }
    bench.put(key, 1)
}
