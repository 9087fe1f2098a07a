//! What collection costs: Tables 2.1 and 3.1.

use super::setup::{BLOCK_NS, ERASE_NS, EVICT_NS, RESERVE, Setup, Workload, preload, put_counted};
use super::{Row, row};
use crate::simulate::cache::{Cache, Fatcache, Mapping, Reclaim, Reserve, Victims};
use silica_base::Result;

/// Bytes of flash.
const FLASH_BYTES: f64 = 30e9;
/// Bytes put before anything is counted. The papers name 25 GB; with them erases would lag behind
/// what is written, as part of the flash would still be empty. In Table 2.1 they do not: 3,679
/// blocks are 30.9 GB, as much as the SETs have.
const PRELOAD_BYTES: f64 = 1.25 * FLASH_BYTES;
/// SETs that are counted in Table 2.1, and in Table 3.1.
const SETS: f64 = 80e6;
const SETS_PRISM: f64 = 140e6;

/// A scheme, and what the paper has: gigabytes of items copied, of pages copied, erases.
struct Scheme {
    name: &'static str,
    cache: Box<dyn Cache>,
    paper: (f64, Option<f64>, f64),
}

/// Runs schemes: the flash is filled, so that whatever is written from there on is erased before;
/// then SETs are counted.
fn measured(
    setup: &Setup,
    figure: &'static str,
    schemes: Vec<Scheme>,
    sets: f64,
) -> Result<Vec<Row>> {
    // The mean moves over the same keys, however many SETs there are.
    let drift = setup.collection.drift * SETS / sets;
    let workload = Workload { drift, ..setup.collection };
    let keys = setup.keys(&workload) as u32;
    let mut rows = Vec::new();
    let mut erases = Vec::new();
    for Scheme { name, mut cache, paper } in schemes {
        preload(setup, &mut *cache, keys, PRELOAD_BYTES);
        let mut requests = setup.requests(&workload)?;
        let found = put_counted(setup, &mut *cache, &mut requests, sets);
        let (items, pages, blocks) = paper;
        let copied = setup.gigabytes(found.copied_bytes);
        rows.push(row(figure, name, "items copied, GB", copied, items));
        let copied = setup.gigabytes(found.page_copies * super::setup::PAGE_BYTES);
        rows.push(row(figure, name, "flash pages copied, GB", copied, pages));
        // Free slabs that a scheme uses up while it is counted are erases that it owes.
        let erased = if pages.is_none() { found.written } else { found.erases };
        rows.push(row(figure, name, "erases", setup.full_blocks(erased), blocks));
        erases.push((name, erased as f64, blocks));
    }
    // All by the scheme with most erases in the paper.
    let most = erases.iter().max_by(|a, b| a.2.total_cmp(&b.2)).map_or((1.0, 1.0), |m| (m.1, m.2));
    rows.extend(erases.into_iter().map(|(name, found, paper)| {
        row(figure, name, "erases, share of the most", found / most.0, paper / most.1)
    }));
    Ok(rows)
}

/// Copies and erases of six schemes on 30 GB of flash (Table 2.1).
///
/// # Errors
/// Those of the simulators, for sizes that are too small.
pub fn table_2_1(setup: &Setup) -> Result<Vec<Row>> {
    let keys = setup.keys(&setup.collection) as u32;
    let fixed = Reserve::Static(RESERVE);
    let dida = |reclaim, reserve| setup.dida(keys, FLASH_BYTES, reclaim, reserve, None);
    let both = Reclaim::Both { clean_ns: setup.collection.clean_ns };
    let queueing = Reserve::Queueing { evict_ns: EVICT_NS };
    let fatcache = |victims| setup.fatcache(keys, FLASH_BYTES, victims, true);
    let schemes = vec![
        Scheme {
            name: "DIDACache-Space",
            cache: Box::new(dida(Reclaim::Space, fixed)?),
            paper: (7.48, None, 4231.0),
        },
        Scheme {
            name: "DIDACache-Locality",
            cache: Box::new(dida(Reclaim::Locality, fixed)?),
            paper: (0.0, None, 3679.0),
        },
        Scheme {
            name: "DIDACache",
            cache: Box::new(dida(both, queueing)?),
            paper: (2.05, None, 3829.0),
        },
        Scheme {
            name: "Fatcache-Greedy",
            cache: Box::new(fatcache(Victims::Greedy)?),
            paper: (7.48, Some(5.73), 5024.0),
        },
        Scheme {
            name: "Fatcache-Kick",
            cache: Box::new(fatcache(Victims::Kick)?),
            paper: (0.0, Some(3.86), 4122.0),
        },
        Scheme {
            name: "Fatcache-FIFO",
            cache: Box::new(fatcache(Victims::Fifo)?),
            paper: (15.35, Some(0.0), 5316.0),
        },
    ];
    measured(setup, "table-2.1", schemes, SETS)
}

/// Copies and erases of Fatcache on a conventional drive, on mapped blocks, and of DIDACache, which
/// the raw and the function level of Prism-SSD come close to.
pub(super) fn table_3_1(setup: &Setup) -> Result<Vec<Row>> {
    let keys = setup.keys(&setup.collection) as u32;
    let slabs = setup.drive(FLASH_BYTES).logical / setup.pages;
    let (write_ns, erase_ns) = (BLOCK_NS, ERASE_NS);
    let policy =
        setup.fatcache_design(slabs, Victims::Greedy, Mapping::Blocks { write_ns, erase_ns });
    let both = Reclaim::Both { clean_ns: setup.collection.clean_ns };
    let queueing = Reserve::Queueing { evict_ns: EVICT_NS };
    let schemes = vec![
        Scheme {
            name: "Fatcache-Original",
            cache: Box::new(setup.fatcache(keys, FLASH_BYTES, Victims::Greedy, true)?),
            paper: (13.27, Some(7.15), 8540.0),
        },
        Scheme {
            name: "Fatcache-Policy",
            cache: Box::new(Fatcache::new(keys, policy)?),
            paper: (13.27, Some(0.0), 7620.0),
        },
        Scheme {
            name: "DIDACache",
            cache: Box::new(setup.dida(keys, FLASH_BYTES, both, queueing, None)?),
            paper: (3.45, None, 5985.0),
        },
    ];
    measured(setup, "table-3.1", schemes, SETS_PRISM)
}
