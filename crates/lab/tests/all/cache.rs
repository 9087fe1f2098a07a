//! Caches on flash without contents: DIDACache and Fatcache, and the papers' tables at toy size.

use silica_base::Prng;
use silica_lab::figures::didacache;
use silica_lab::simulate::cache::{
    Cache, CacheTimes, Dida, DidaFlash, DidaOptions, Fatcache, FatcacheDesign, Mapping, Packing,
    Reclaim, Reserve, Victims, WearLevelling,
};

const KEYS: u32 = 20_000;
const BYTES: u32 = 300;
const TIMES: CacheTimes = CacheTimes { store_ns: 1000, interval_ns: 1000 };

/// 48 slabs of 512 KiB, which have room for four times as many items as there are keys.
fn flash() -> DidaFlash {
    DidaFlash {
        channels: 4,
        luns: 2,
        blocks: 48,
        block_bytes: 512 << 10,
        write_ns: 10_000_000,
        read_ns: 100_000,
        erase_ns: 5_000_000,
    }
}

fn dida(reclaim: Reclaim, reserve: Reserve, wear: Option<WearLevelling>) -> Dida {
    let options = DidaOptions {
        reclaim,
        reserve,
        between: 0.15,
        packing: Packing::Packed,
        wear,
        buffer_slabs: 4,
        times: TIMES,
    };
    Dida::new(KEYS, flash(), options).unwrap()
}

fn fatcache(victims: Victims, buffer_slabs: usize, slabs: u32) -> Fatcache {
    let mapping = Mapping::Blocks { write_ns: 10_000_000, erase_ns: 5_000_000 };
    let design = FatcacheDesign {
        slabs,
        slab_bytes: 512 << 10,
        pages: 32,
        victims,
        packing: Packing::Packed,
        mapping,
        buffer_slabs,
        read_ns: 100_000,
        times: TIMES,
    };
    Fatcache::new(KEYS, design).unwrap()
}

/// Puts all keys once and then random ones.
fn put(cache: &mut dyn Cache, count: u32) {
    let mut prng = Prng::new(5);
    (0..KEYS).for_each(|key| cache.set(key, BYTES));
    (0..count).for_each(|_| cache.set(prng.below(KEYS.into()) as u32, BYTES));
}

fn keys_there(cache: &mut dyn Cache) -> u32 {
    (0..KEYS).filter(|key| cache.get(*key)).count() as u32
}

#[test]
fn a_cache_that_copies_keeps_every_key_and_one_that_drops_does_not() {
    let fixed = Reserve::Static(0.2);
    let mut all: Vec<(bool, Box<dyn Cache>)> = vec![
        (true, Box::new(dida(Reclaim::Space, fixed, None))),
        (true, Box::new(fatcache(Victims::Greedy, 4, 30))),
        (true, Box::new(fatcache(Victims::Fifo, 4, 30))),
        (false, Box::new(dida(Reclaim::Locality, fixed, None))),
        (false, Box::new(fatcache(Victims::Kick, 4, 20))),
        (false, Box::new(fatcache(Victims::Oldest, 4, 20))),
    ];
    for (is_kept, cache) in &mut all {
        put(&mut **cache, 20 * KEYS);
        let counts = cache.counts();
        assert_eq!(counts.copied_bytes > 0, *is_kept, "{counts:?}");
        assert_eq!(counts.dropped == 0, *is_kept, "{counts:?}");
        assert_eq!(keys_there(&mut **cache) == KEYS, *is_kept, "{counts:?}");
        // All that was put or copied is in slabs that were written, or in the open one.
        let items = (512 << 10) / BYTES;
        let written = counts.written as f64 * f64::from(items * BYTES);
        let put = (counts.set_bytes + counts.copied_bytes) as f64;
        assert!(written <= put && written > 0.99 * put - 1e6, "{counts:?}");
        assert!(counts.reclaimed == counts.erases && counts.written > counts.erases);
    }
}

#[test]
fn between_the_watermarks_slabs_are_cleaned_and_below_them_dropped() {
    // SETs fill a slab in 1.7 ms.
    let run = |clean_ns: u64| {
        let mut cache = dida(Reclaim::Both { clean_ns }, Reserve::Static(0.1), None);
        put(&mut cache, 20 * KEYS);
        assert!(cache.free_share() >= 0.1, "{}", cache.free_share());
        assert_eq!(cache.reserved_share(), 5.0 / 48.0);
        cache.counts()
    };
    let (quick, slow, never) = (run(600_000), run(3_500_000), run(u64::MAX));
    assert!(quick.dropped == 0 && quick.copied_bytes > 0, "{quick:?}");
    assert!(slow.dropped > 0 && slow.copied_bytes > 0, "{slow:?}");
    assert!(never.dropped > slow.dropped && never.copied_bytes == 0, "{never:?}");
}

#[test]
fn slabs_that_are_read_outlive_older_and_younger_ones() {
    let mut cache = dida(Reclaim::Locality, Reserve::Static(0.2), None);
    // Twice as many bytes as there is flash.
    for key in 0..KEYS {
        cache.set(key, 8 * BYTES);
        if key > 500 && key % 20 == 0 {
            assert!((200..300).all(|read| cache.get(read)), "at {key}");
        }
    }
    let unread = (1000..5000).filter(|key| cache.get(*key)).count();
    assert_eq!(unread, 0);
}

/// Half of the keys are never put again: their blocks stay, unless wear is levelled.
#[test]
fn levelled_wear_lies_close_together() {
    let spread = |wear: Option<WearLevelling>| {
        let mut cache = dida(Reclaim::Space, Reserve::Static(0.2), wear);
        let mut prng = Prng::new(3);
        (0..KEYS).for_each(|key| cache.set(key, 2 * BYTES));
        for _ in 0..40 * KEYS {
            cache.set(prng.below(u64::from(KEYS / 2)) as u32 + KEYS / 2, BYTES);
        }
        let erases = cache.erases();
        let (least, most) = (*erases.iter().min().unwrap(), *erases.iter().max().unwrap());
        (least, most - least, cache.counts().wear_erases)
    };
    let (least, without, none) = spread(None);
    assert!(least == 0 && without > 12 && none == 0, "{least} {without}");
    let (least, with, levelled) = spread(Some(WearLevelling { rounds: 2.0 }));
    assert!(least > 0 && 4 * with <= 3 * without && levelled > 0, "{least} {with} {levelled}");
}

#[test]
fn sets_wait_only_if_memory_has_no_room_for_more_slabs() {
    let worst = |buffer_slabs: usize| {
        let mut cache = fatcache(Victims::Oldest, buffer_slabs, 20);
        put(&mut cache, 10 * KEYS);
        cache.set_latency().max()
    };
    // A slab is filled in 1.7 ms and written in 10, or erased and written in 15.
    let (waits, buffered) = (worst(0), worst(3));
    assert!((14_900_000..15_200_000).contains(&waits), "{waits}");
    assert!(buffered < waits, "{buffered}");
    let mut slow = fatcache(Victims::Oldest, 1, 20);
    slow.set_interval_ns(20_000);
    put(&mut slow, 10 * KEYS);
    assert_eq!(slow.set_latency().max(), 1000, "writes are done before the next slab is full");
    assert!(slow.now_ns() >= 11 * u64::from(KEYS) * 20_000);
}

#[test]
fn what_no_cache_is_has_an_error_that_helps() {
    let none = DidaFlash { blocks: 7, ..flash() };
    let options = DidaOptions {
        reclaim: Reclaim::Space,
        reserve: Reserve::Static(0.1),
        between: 0.1,
        packing: Packing::Slots(1.25),
        wear: None,
        buffer_slabs: 0,
        times: TIMES,
    };
    assert!(Dida::new(9, none, options).unwrap_err().to_string().contains("2 blocks"));
    for scale in [0.0, -1.0, 1.1, f64::NAN] {
        let error = didacache::rows(scale, 1, &mut |_, _| ()).unwrap_err().to_string();
        assert!(error.contains("scale"), "{error}");
    }
}

/// Table 2.1 in a hundredth of its size: the schemes' order by erases, and their shares.
#[test]
fn erases_of_six_schemes_have_the_papers_order() {
    let setup = didacache::Setup::new(0.01, 1).unwrap();
    let rows = didacache::table_2_1(&setup).unwrap();
    let of = |scheme: &str, metric: &str| {
        let mut found = rows.iter().filter(|row| row.scheme == scheme && row.metric == metric);
        found.next().unwrap()
    };
    // At this size Fatcache-Greedy, whose drive copies more than a large one, may have the most.
    assert!(of("Fatcache-Greedy", "erases").value > 1.1 * of("DIDACache-Space", "erases").value);
    let order =
        ["Fatcache-FIFO", "DIDACache-Space", "Fatcache-Kick", "DIDACache", "DIDACache-Locality"];
    let shares = order.map(|scheme| of(scheme, "erases, share of the most"));
    assert!(shares.is_sorted_by(|one, next| one.value > next.value), "{shares:?}");
    for row in shares {
        let away = row.value / row.paper.unwrap() - 1.0;
        // At full blocks all are within 10 %.
        assert!(away.abs() < 0.15, "{row:?}");
    }
    let pages = |scheme: &str| of(scheme, "flash pages copied, GB").value;
    assert!(pages("Fatcache-FIFO") < 0.1 && pages("Fatcache-Greedy") > pages("Fatcache-Kick"));
    let items = |scheme: &str| of(scheme, "items copied, GB").value;
    assert!(items("Fatcache-FIFO") > 1.5 * items("DIDACache-Space"));
    assert!(items("DIDACache-Locality") == 0.0 && items("Fatcache-Kick") == 0.0);
}

/// Table 2.2 in a sixtieth of its size: what nobody reads is dropped to level wear, which costs no
/// erases.
#[test]
fn levelled_wear_lies_as_close_as_in_the_paper_and_costs_nothing() {
    let setup = didacache::Setup::new(0.0156, 1).unwrap();
    let rows = didacache::table_2_2(&setup).unwrap();
    let of = |scheme: &str, metric: &str| {
        let mut found = rows.iter().filter(|row| row.scheme == scheme && row.metric == metric);
        found.next().unwrap().value
    };
    for (with, without) in
        [("with wear levelling", "without"), ("space-based, with", "space-based, without")]
    {
        let (spread, all) = ("erases, most less least", "erases of all kinds");
        assert!(of(with, "erases by levelling") > 0.0, "{rows:?}");
        assert!(of(with, spread) <= 6.0 && of(without, spread) >= 14.0, "{rows:?}");
        assert!(of(with, all) <= of(without, all), "{rows:?}");
    }
}
