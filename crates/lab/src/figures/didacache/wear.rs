//! Wear: Table 2.2 and Figures 2.19 to 2.22.

use super::setup::{EVICT_NS, RESERVE, Setup, preload};
use super::{Row, row};
use crate::simulate::cache::{Cache, CacheRequests, Reclaim, Reserve, WearLevelling};
use silica_base::Result;

/// Bytes of flash, of the preload, and of the SETs after it (section 2.5.4: 480 million requests,
/// about 240 GB, half of them SETs). The items here are smaller, so there are more of them.
const FLASH_BYTES: f64 = 15e9;
const PRELOAD_BYTES: f64 = 10e9;
const SET_BYTES: f64 = 120e9;
/// Erases of all blocks, by blocks, after which wear is levelled.
const ROUNDS: f64 = 2.0;
/// Erases by levelling in the paper.
const LEVELLED_ERASES: f64 = 1323.0;

/// A run: its name, how slabs are reclaimed, whether wear is levelled, and what the paper has:
/// copies and erases of collection, least and most erases of a block.
struct Run {
    name: &'static str,
    reclaim: Reclaim,
    reserve: Reserve,
    is_levelled: bool,
    paper: Option<[f64; 4]>,
}

/// What levelling costs, and how far erases of blocks lie apart with and without it. Space-based
/// eviction alone leaves blocks with cold items alone, so there levelling has most to do.
pub fn table_2_2(setup: &Setup) -> Result<Vec<Row>> {
    let both = Reclaim::Both { clean_ns: setup.collection.clean_ns };
    let queueing = Reserve::Queueing { evict_ns: EVICT_NS };
    let fixed = Reserve::Static(RESERVE);
    let run = |name, reclaim, reserve, is_levelled, paper| {
        of(setup, &Run { name, reclaim, reserve, is_levelled, paper })
    };
    let levelled = Some([13.48, 16542.0, 6.0, 11.0]);
    let plain = Some([15.57, 17285.0, 0.0, 17.0]);
    let mut rows = run("with wear levelling", both, queueing, true, levelled)?;
    rows.extend(run("without", both, queueing, false, plain)?);
    rows.extend(run("space-based, with", Reclaim::Space, fixed, true, None)?);
    rows.extend(run("space-based, without", Reclaim::Space, fixed, false, None)?);
    Ok(rows)
}

fn of(setup: &Setup, run: &Run) -> Result<Vec<Row>> {
    const FIGURE: &str = "table-2.2";
    let Run { name, reclaim, reserve, is_levelled, paper } = *run;
    let wear = is_levelled.then_some(WearLevelling { rounds: ROUNDS });
    let workload = setup.wear;
    let keys = setup.keys(&workload) as u32;
    let mut cache = setup.dida(keys, FLASH_BYTES, reclaim, reserve, wear)?;
    preload(setup, &mut cache, keys, PRELOAD_BYTES);
    let before = cache.counts();
    let mut requests = setup.requests(&workload)?;
    while setup.gigabytes(cache.counts().set_bytes - before.set_bytes) < SET_BYTES / 1e9 {
        let key = requests.draw();
        match requests.is_one_of(0.5) {
            true => cache.set(key, CacheRequests::item_bytes(key)),
            false => drop(cache.get(key)),
        }
    }
    let found = cache.counts().since(&before);
    let erases = cache.erases();
    let (least, most) = (erases.iter().min().copied(), erases.iter().max().copied());
    let (least, most) = (f64::from(least.unwrap_or(0)), f64::from(most.unwrap_or(0)));
    let mean = erases.iter().copied().map(f64::from).sum::<f64>() / erases.len() as f64;
    let plain = found.copied_bytes - found.wear_copied_bytes;
    let blocks = setup.full_blocks(found.erases - found.wear_erases);
    let of = |at: usize| paper.map(|paper| paper[at]);
    let spread = paper.map(|paper| paper[3] - paper[2]);
    let all = paper.map(|paper| paper[1] + if is_levelled { LEVELLED_ERASES } else { 0.0 });
    let mut rows = vec![
        row(FIGURE, name, "copied by collection, GB", setup.gigabytes(plain), of(0)),
        row(FIGURE, name, "erases by collection", blocks, of(1)),
        row(FIGURE, name, "erases of all kinds", setup.full_blocks(found.erases), all),
        row(FIGURE, name, "mean erases of a block", mean, None),
        row(FIGURE, name, "least erases of a block", least, of(2)),
        row(FIGURE, name, "most erases of a block", most, of(3)),
        row(FIGURE, name, "erases, most less least", most - least, spread),
    ];
    if is_levelled {
        let copied = setup.gigabytes(found.wear_copied_bytes);
        let erases = setup.full_blocks(found.wear_erases);
        let of = |value: f64| paper.map(|_| value);
        rows.push(row(FIGURE, name, "copied by levelling, GB", copied, of(6.34)));
        rows.push(row(FIGURE, name, "erases by levelling", erases, of(LEVELLED_ERASES)));
    }
    Ok(rows)
}
