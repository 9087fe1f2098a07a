//! What a cache finds: Figures 2.11 and 3.4, Table 2.3.

use super::setup::{EVICT_NS, RESERVE, Setup, Workload, preload};
use super::{Row, row};
use crate::simulate::cache::{Cache, CacheCounts, CacheRequests, Reclaim, Reserve, Victims};
use silica_base::Result;

/// Requests that warm the cache up after it was filled with any keys, and those that are counted.
const WARM_UP: f64 = 200e6;
const REQUESTS: f64 = 200e6;
/// Bytes of all items.
const DATA_BYTES: f64 = Workload::HITS.data_bytes;
/// Cache sizes of Figure 2.11 in hundredths of the data, and what the ends of its curves are:
/// Fatcache's, and DIDACache's.
const SIZES: [(f64, Option<f64>, Option<f64>); 5] = [
    (0.05, Some(0.711), Some(0.765)),
    (0.06, None, None),
    (0.08, None, None),
    (0.10, None, None),
    (0.12, Some(0.873), Some(0.948)),
];

/// GETs, each followed by a SET if it finds nothing.
fn look_aside(cache: &mut dyn Cache, requests: &mut CacheRequests, count: u64) -> CacheCounts {
    let before = cache.counts();
    for _ in 0..count {
        let key = requests.draw();
        if !cache.get(key) {
            cache.set(key, CacheRequests::item_bytes(key));
        }
    }
    cache.counts().since(&before)
}

/// Hit ratios of Fatcache, which reserves a quarter of its flash, and of DIDACache, which reserves
/// what it needs (Figures 2.11 and 3.4).
///
/// # Errors
/// Those of the simulators, for sizes that are too small.
pub fn figure_2_11(setup: &Setup) -> Result<Vec<Row>> {
    const FIGURE: &str = "figure-2.11";
    let workload = setup.hits;
    let keys = setup.keys(&workload) as u32;
    let mut rows = Vec::new();
    for (size, fatcache, dida) in SIZES {
        let bytes = size * DATA_BYTES;
        let queueing = Reserve::Queueing { evict_ns: EVICT_NS };
        let both = Reclaim::Both { clean_ns: workload.clean_ns };
        let stock = setup.fatcache(keys, bytes, Victims::Oldest, true)?;
        let ours = setup.dida(keys, bytes, both, queueing, None)?;
        let caches: [(&str, Box<dyn Cache>, Option<f64>); 2] =
            [("Fatcache", Box::new(stock), fatcache), ("DIDACache", Box::new(ours), dida)];
        for (name, mut cache, paper) in caches {
            let mut requests = setup.requests(&workload)?;
            preload(setup, &mut *cache, keys, bytes);
            look_aside(&mut *cache, &mut requests, setup.count(WARM_UP));
            let found = look_aside(&mut *cache, &mut requests, setup.count(REQUESTS));
            let metric = format!("hit ratio at {:.0} % of the data", 100.0 * size);
            rows.push(row(FIGURE, name, &metric, found.hit_ratio(), paper));
        }
    }
    Ok(rows)
}

/// Time of a request that hits, and what a miss costs more, in microseconds: both follow from Table
/// 2.3's own columns, where its three rows lie on one line to 0.2 us.
const HIT_US: f64 = 49.8;
const MISS_US: f64 = 245.0;

/// Three ways to reserve flash, on a cache of 12 % of the data and requests that come quicker and
/// slower: hits, erases, and the mean time of a request.
pub(super) fn table_2_3(setup: &Setup) -> Result<Vec<Row>> {
    const FIGURE: &str = "table-2.3";
    let workload = setup.hits;
    let keys = setup.keys(&workload) as u32;
    let policies = [
        ("Static", Reserve::Static(RESERVE), [0.877, 2716.0, 79.95]),
        ("Heuristic", Reserve::Heuristic(0.05), [0.941, 2480.0, 64.24]),
        ("Queuing", Reserve::Queueing { evict_ns: EVICT_NS }, [0.948, 2288.0, 62.41]),
    ];
    let mut rows = Vec::new();
    for (name, reserve, [hits, erases, latency]) in policies {
        let both = Reclaim::Both { clean_ns: workload.clean_ns };
        let mut cache = setup.dida(keys, 0.12 * DATA_BYTES, both, reserve, None)?;
        let mut requests = setup.requests(&workload)?;
        preload(setup, &mut cache, keys, 0.12 * DATA_BYTES);
        look_aside(&mut cache, &mut requests, setup.count(WARM_UP));
        let before = cache.counts();
        let plain_ns = setup.times().interval_ns;
        // Requests come at their usual rate, at a quarter of it, at their usual rate, at half of
        // it.
        for slower in [1, 4, 1, 2] {
            cache.set_interval_ns(slower * plain_ns);
            look_aside(&mut cache, &mut requests, setup.count(REQUESTS / 4.0));
        }
        let found = cache.counts().since(&before);
        let ratio = found.hit_ratio();
        rows.push(row(FIGURE, name, "hit ratio", ratio, hits));
        rows.push(row(FIGURE, name, "erases", setup.full_blocks(found.erases), erases));
        let mean = HIT_US + MISS_US * (1.0 - ratio);
        rows.push(row(
            FIGURE,
            name,
            "mean time of a request, us, from the hit ratio",
            mean,
            latency,
        ));
    }
    Ok(rows)
}
