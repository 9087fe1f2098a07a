//! Wear: blocks whose entries nobody changes are erased, too.

use crate::support::{DidaHarness, delete, geometry, get, maintain, metric, put};
use silica_base::Prng;
use silica_device::blocks::FlashDevice;

/// Entries that are put once, and entries that are put again and again. Flash has room for about
/// 3,000.
const COLD: u64 = 700;
/// With the hot ones they are more than half of flash.
const COLD_OF_FULL: u64 = 1500;
const HOT: u64 = 700;
/// Puts of hot entries: each block is erased ten times on average.
const PUTS: u64 = 30_000;

/// What a load cost in erases, and the least and most erases of a block.
#[derive(Debug)]
struct Wear {
    erases: f64,
    least: u64,
    most: u64,
    /// Cold entries that are there in the end.
    kept: usize,
}

impl Wear {
    fn spread(&self) -> u64 {
        self.most - self.least
    }
}

/// Puts `cold` and the hot entries, then the hot ones at random; if `are_read` the cold ones are
/// read meanwhile.
fn worn(seed: u64, wear_period: u64, cold: u64, are_read: bool) -> Wear {
    let harness = DidaHarness::new(geometry(24)).set("wear_period", wear_period);
    let cache = harness.open_cache().unwrap();
    let name = |kind: &str, number: u64| format!("{kind} {number}").into_bytes();
    let store = |name: &[u8]| {
        put(&cache, name, &[5; 200]);
        maintain(&cache);
    };
    (0..cold).for_each(|number| store(&name("cold", number)));
    let mut prng = Prng::new(seed);
    for number in 0..PUTS {
        store(&name("hot", prng.below(HOT)));
        if are_read {
            get(&cache, &name("cold", number % cold));
        }
    }
    let blocks = harness.flash.geometry().all_blocks();
    let erases: Vec<u64> = blocks.map(|block| harness.flash.block(block).unwrap().erases).collect();
    Wear {
        erases: metric(&cache, "flash_erases"),
        least: *erases.iter().min().unwrap(),
        most: *erases.iter().max().unwrap(),
        kept: (0..cold).filter(|number| get(&cache, &name("cold", *number)).is_some()).count(),
    }
}

/// Nobody asks for the cold entries, and flash is rather full: they go, and levelling saves erases.
#[test]
fn wear_under_entries_that_nobody_reads_is_levelled_for_nothing() {
    for seed in [1, 2] {
        let worn = |wear_period| worn(seed, wear_period, COLD_OF_FULL, false);
        let (without, with) = (worn(0), worn(2));
        assert!(without.least == 0 && without.spread() >= 12, "{without:?}");
        assert!(with.spread() * 2 <= without.spread(), "{without:?} {with:?}");
        assert!(with.erases <= without.erases, "{without:?} {with:?}");
    }
}

/// Nobody asks for the cold entries, but there is room for them: they stay.
#[test]
fn wear_is_levelled_without_loss_while_half_of_flash_is_not_alive() {
    for seed in [1, 2] {
        let (without, with) = (worn(seed, 0, COLD, false), worn(seed, 2, COLD, false));
        assert!(with.spread() + 3 <= without.spread(), "{without:?} {with:?}");
        assert!(with.erases <= 1.04 * without.erases, "{without:?} {with:?}");
        assert_eq!((without.kept, with.kept), (COLD as usize, COLD as usize));
    }
}

/// The cold entries are read, so they are copied: once, to blocks that are worn already.
#[test]
fn wear_under_entries_that_are_read_is_levelled_by_few_copies() {
    for seed in [1, 2] {
        let (without, with) = (worn(seed, 0, COLD, true), worn(seed, 2, COLD, true));
        assert!(without.least == 0 && without.spread() >= 12, "{without:?}");
        assert!(with.least >= 3 && with.spread() + 3 <= without.spread(), "{without:?} {with:?}");
        assert!(with.erases <= 1.04 * without.erases, "{without:?} {with:?}");
        assert_eq!((without.kept, with.kept), (COLD as usize, COLD as usize));
    }
}

/// Writers are faster than background work, of which there is none here: they make room by copying
/// what is alive, as long as that is less than half of flash.
#[test]
fn writers_lose_nothing_while_most_of_flash_is_dead() {
    let harness = DidaHarness::new(geometry(24));
    let cache = harness.open_cache().unwrap();
    let name = |kind: &str, number: u64| format!("{kind} {number}").into_bytes();
    (0..COLD).for_each(|number| put(&cache, &name("cold", number), &[5; 200]));
    for number in 0..PUTS {
        put(&cache, &name("hot", number), &[6; 200]);
        if number >= HOT {
            delete(&cache, &name("hot", number - HOT));
        }
    }
    let kept = (0..COLD).filter(|number| get(&cache, &name("cold", *number)).is_some()).count();
    assert_eq!((kept, metric(&cache, "evictions")), (COLD as usize, 0.0));
    let kept = (PUTS - HOT..PUTS).filter(|n| get(&cache, &name("hot", *n)).is_some()).count();
    assert_eq!(kept, HOT as usize);
}
