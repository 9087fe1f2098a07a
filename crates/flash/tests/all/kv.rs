//! The key-value level against a model: through evictions, reopenings, power cuts and bad blocks.

use super::*;
use silica_base::{ErrorKind, HashSeed, Prng, Result, test_size};
use silica_device::sim::{FlashFaultKind, FlashRates};
use silica_flash::functions::{FunctionOptions, Functions};
use silica_flash::kv::{KeyValues, KvOptions};
use std::collections::BTreeMap;

const SMALL: Geometry =
    Geometry { channels: 2, luns: 1, blocks: 5, pages: 4, page_bytes: 512, spare_bytes: 0 };
const OPTIONS: KvOptions = KvOptions { store: 5, seed: HashSeed([9; 16]) };

fn open(flash: &SimFlash) -> Result<KeyValues<SimFlash>> {
    let functions = Functions::open(flash.clone(), FunctionOptions::default())?;
    KeyValues::open(functions, OPTIONS)
}

fn value(id: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Prng::new(id).fill(&mut bytes);
    bytes
}

fn get(items: &KeyValues<SimFlash>, key: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut out = vec![1];
    Ok(items.get(key, &mut out)?.then_some(out))
}

#[test]
fn items_of_all_sizes_come_back_and_replace_each_other() {
    let flash = SimFlash::new(1, SimFlashOptions::flash(SMALL));
    let mut items = open(&flash).unwrap();
    let max = items.item_bytes_max();
    assert_eq!(max, 4 * 512 - 56 - 16 - 12);
    let sizes = [0, 1, 400, 511, 512, 513, 1_000, max - 2];
    for (id, size) in (0..).zip(sizes) {
        items.put(&[id as u8, 7], &value(id, size)).unwrap();
        for (id, size) in (0..=id).zip(sizes) {
            assert_eq!(get(&items, &[id as u8, 7]).unwrap(), Some(value(id, size)));
        }
    }
    let too_large = items.put(b"ab", &value(1, max - 1)).unwrap_err();
    assert_eq!(too_large.kind(), ErrorKind::TooLarge);
    assert!(too_large.to_string().contains(&max.to_string()), "{too_large}");
    items.put(&[3, 7], b"new").unwrap();
    assert!(items.delete(&[2, 7]).unwrap() && !items.delete(&[2, 7]).unwrap());
    items.put(b"", b"of the empty key").unwrap();
    items.flush().unwrap();
    let items = open(&flash.reopen()).unwrap();
    assert_eq!(get(&items, &[3, 7]).unwrap().unwrap(), b"new");
    assert_eq!(get(&items, &[2, 7]).unwrap(), None);
    assert_eq!(get(&items, b"").unwrap().unwrap(), b"of the empty key");
    assert_eq!(get(&items, &[7, 7]).unwrap(), Some(value(7, max - 2)));
    assert_eq!(items.statistics().items, 8);
}

#[test]
fn a_full_store_asks_for_an_eviction() {
    let flash = SimFlash::new(1, SimFlashOptions::flash(SMALL));
    let mut items = open(&flash).unwrap();
    let mut put = 0u64;
    let full = loop {
        match items.put(&put.to_le_bytes(), &value(put, 400)) {
            Ok(()) => put += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), ErrorKind::Full);
    assert!(full.to_string().contains("evict a block"), "{full}");
    assert_eq!(put, 8 * 4 + 4, "eight of ten blocks, and what is in memory");
    let blocks: Vec<_> = items.blocks().collect();
    assert!(blocks.len() == 8 && blocks.iter().all(|b| b.items == 4 && b.bytes == 4 * 420));
    let evicted = items.evict(blocks[0].block).unwrap();
    assert_eq!((evicted.items, evicted.bytes), (4, 4 * 420));
    assert_eq!(items.evict(blocks[0].block).unwrap_err().kind(), ErrorKind::NotFound);
    for id in 0..put {
        let expected = (id >= 4).then(|| value(id, 400));
        assert_eq!(get(&items, &id.to_le_bytes()).unwrap(), expected);
    }
    items.put(b"more", b"").unwrap();
    let put = items.statistics();
    assert_eq!((put.segments, put.pages_written, put.tombstones_of_evictions), (8, 32, 0));
    assert_eq!(put.index_bytes, 64 * 12);
}

#[test]
fn another_store_is_refused() {
    let flash = SimFlash::new(1, SimFlashOptions::flash(SMALL));
    let mut items = open(&flash).unwrap();
    items.put(b"a", b"b").unwrap();
    items.flush().unwrap();
    let functions = Functions::open(flash.reopen(), FunctionOptions::default()).unwrap();
    let refused = KeyValues::open(functions, KvOptions { store: 6, ..OPTIONS }).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::Config);
    assert!(refused.to_string().contains("erase it"), "{refused}");
    let flash = SimFlash::new(1, SimFlashOptions::flash(SMALL));
    append(&flash, BlockAddress::default(), 3).unwrap();
    assert_eq!(open(&flash).err().unwrap().kind(), ErrorKind::Config);
}

#[test]
fn a_damaged_item_is_told_of() {
    let flash = SimFlash::new(1, SimFlashOptions::flash(SMALL));
    let mut items = open(&flash).unwrap();
    items.put(b"a", &value(1, 1_000)).unwrap();
    items.flush().unwrap();
    let block = items.blocks().next().unwrap().block;
    flash.spoil(block.page(1));
    assert_eq!(get(&items, b"a").unwrap_err().kind(), ErrorKind::Corruption);
    assert_eq!(get(&items, b"b").unwrap(), None);
    // It can be replaced.
    items.put(b"a", b"new").unwrap();
    assert_eq!(get(&items, b"a").unwrap().unwrap(), b"new");
    assert!(items.delete(b"a").unwrap());
    // The summary can be read, so an eviction finds the item.
    assert_eq!(items.evict(block).unwrap().items, 1);
    assert_eq!(get(&items, b"a").unwrap(), None);
    // A summary that cannot be read: the index is searched.
    items.put(b"a", b"1").unwrap();
    items.put(b"b", b"2").unwrap();
    items.flush().unwrap();
    let block = items.blocks().next().unwrap().block;
    flash.spoil(block.page(0));
    assert_eq!(items.evict(block).unwrap().items, 2);
    assert_eq!(items.statistics().items, 0);
}

/// By key the states that it may have: as last flushed, and each one since. True if there
/// was no block left, so that evicted items may come back by a cut and replaced ones may be gone.
#[derive(Default)]
struct Model(BTreeMap<u8, Vec<Option<(u64, usize)>>>, bool);

impl Model {
    fn states(&mut self, key: u8) -> &mut Vec<Option<(u64, usize)>> {
        self.0.entry(key).or_insert_with(|| vec![None])
    }

    fn now(&mut self, key: u8) -> Option<Vec<u8>> {
        self.states(key).last().unwrap().map(|(id, len)| value(id, len))
    }

    fn flushed(&mut self) {
        self.0.values_mut().for_each(|states| drop(states.drain(..states.len() - 1)));
    }
}

const KEYS: u8 = 14;

/// A step that evicts; what was evicted is what cannot be found any more.
fn evict(items: &mut KeyValues<SimFlash>, prng: &mut Prng, model: &mut Model) -> Result<()> {
    let blocks: Vec<_> = items.blocks().collect();
    if blocks.is_empty() {
        return Ok(());
    }
    let nth = if prng.one_in(2) { 0 } else { prng.below(blocks.len() as u64) as usize };
    match evict_nth(items, nth, model) {
        Err(error) if error.kind() == ErrorKind::Full && nth > 0 => evict_nth(items, 0, model),
        result => result,
    }
}

fn evict_nth(items: &mut KeyValues<SimFlash>, nth: usize, model: &mut Model) -> Result<()> {
    let blocks: Vec<_> = items.blocks().collect();
    let result = items.evict(blocks[nth].block);
    let mut gone = 0;
    for key in 0..KEYS {
        let found = match get(items, &[key]) {
            Ok(found) => found,
            // The power is off: both may be.
            Err(_) => {
                let states = model.states(key);
                let last = *states.last().unwrap();
                states.extend([None, last]);
                continue;
            }
        };
        if found.is_none() && model.now(key).is_some() {
            gone += 1;
            model.states(key).push(None);
        }
        assert_eq!(found, model.now(key), "key {key}");
    }
    let evicted = result?;
    assert_eq!((evicted.items, blocks[nth].items), (gone, gone));
    Ok(())
}

fn step(items: &mut KeyValues<SimFlash>, prng: &mut Prng, model: &mut Model) -> Result<()> {
    let key = prng.below(u64::from(KEYS)) as u8;
    match prng.below(20) {
        0..11 => {
            let (id, len) = (prng.next_u64(), prng.below(700) as usize);
            match items.put(&[key], &value(id, len)) {
                Ok(()) => model.states(key).push(Some((id, len))),
                Err(error) if error.kind() == ErrorKind::Full => evict(items, prng, model)?,
                Err(error) => return Err(error),
            }
        }
        11..14 => {
            let had = model.now(key).is_some();
            match items.delete(&[key]) {
                Ok(deleted) => {
                    assert_eq!(deleted, had);
                    model.states(key).push(None);
                }
                Err(error) if error.kind() == ErrorKind::Full => evict(items, prng, model)?,
                Err(error) => return Err(error),
            }
        }
        14 => evict(items, prng, model)?,
        15..17 => match items.flush() {
            Ok(()) => model.flushed(),
            Err(error) if error.kind() == ErrorKind::Full => {}
            Err(error) => return Err(error),
        },
        17 => drop(items.functions().erase_pending(2)?),
        _ => assert_eq!(get(items, &[key])?, model.now(key), "key {key}"),
    }
    Ok(())
}

/// Compares a store that was opened with what it may have; that is what it has from here on.
fn check(items: &KeyValues<SimFlash>, model: &mut Model, what: &str) -> Result<()> {
    let model_is_unsafe = model.1;
    for key in 0..KEYS {
        let found = match get(items, &[key]) {
            Err(error) if error.kind() == ErrorKind::Corruption && model_is_unsafe => continue,
            result => result?,
        };
        let states = model.states(key);
        if items.statistics().evicted_at_opening > 0 || model_is_unsafe {
            states.push(None);
        }
        let of = |state: &Option<(u64, usize)>| state.map(|(id, len)| value(id, len));
        let at = states.iter().rposition(|state| of(state) == found);
        let at = at.unwrap_or_else(|| {
            let found = found.as_ref().map(Vec::len);
            panic!("{what}: key {key} is {found:?} bytes, may be {states:?}")
        });
        *states = vec![states[at]];
    }
    Ok(())
}

fn options_of(seed: u64) -> SimFlashOptions {
    match seed % 3 {
        0 => SimFlashOptions::flash(SMALL),
        1 => SimFlashOptions::zones(SMALL),
        _ => SimFlashOptions { capacity_pages: Some(3), ..SimFlashOptions::zones(SMALL) },
    }
}

#[test]
fn what_was_flushed_survives_cuts_and_nothing_old_comes_back() {
    let (mut safe, mut runs) = (0, 0);
    for seed in 0..test_size(150, 1_500, 50_000) {
        let mut flash = SimFlash::new(seed, options_of(seed));
        let mut prng = Prng::new(seed);
        let mut model = Model::default();
        for round in 0..6 {
            let what = format!("seed {seed}, round {round}");
            flash.cut_at_op(flash.op_count() + 1 + prng.below(60));
            let mut run = || -> Result<()> {
                let mut items = open(&flash)?;
                check(&items, &mut model, &what)?;
                loop {
                    let result = step(&mut items, &mut prng, &mut model);
                    model.1 |= items.statistics().evicted_unsafely > 0;
                    result?;
                }
            };
            let error = run().unwrap_err();
            assert!(flash.is_cut(), "{what}: {error}");
            flash = flash.reopen();
        }
        flash.cut_at_op(u64::MAX);
        let what = format!("seed {seed}");
        let items = open(&flash).unwrap_or_else(|error| panic!("{what}: {error}"));
        check(&items, &mut model, &what).unwrap_or_else(|error| panic!("{what}: {error}"));
        (safe, runs) = (safe + u64::from(!model.1), runs + 1);
    }
    assert!(safe * 10 > runs * 9, "{safe} of {runs} runs always had a block left");
}

#[test]
fn blocks_that_turn_bad_take_no_item_with_them() {
    let mut bad = 0;
    for seed in 0..test_size(80, 800, 20_000) {
        let rates = FlashRates { program_failed: 200, erase_failed: 60, ..FlashRates::default() };
        let flash = SimFlash::new(seed, SimFlashOptions { rates, ..options_of(seed) });
        let mut prng = Prng::new(seed);
        let mut model = Model::default();
        let mut items = open(&flash).unwrap();
        for _ in 0..200 {
            if step(&mut items, &mut prng, &mut model).is_err() {
                break; // Too few blocks are left.
            }
        }
        for key in 0..KEYS {
            assert_eq!(get(&items, &[key]).unwrap(), model.now(key), "seed {seed}");
        }
        bad += flash.counters().total().failures;
        if items.flush().is_ok() {
            model.flushed();
            check(&open(&flash.reopen()).unwrap(), &mut model, &format!("seed {seed}")).unwrap();
        }
    }
    assert!(bad > 40, "{bad} failures");
}

#[test]
fn refused_operations_change_nothing() {
    for nth in 1..12 {
        let flash = SimFlash::new(nth, SimFlashOptions::flash(SMALL));
        let mut items = open(&flash).unwrap();
        flash.fail_at(FlashFaultKind::Io, nth);
        let mut refused = 0;
        for id in 0..30 {
            while let Err(error) = items.put(&[id], &value(u64::from(id), 300)) {
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                refused += 1;
            }
        }
        assert_eq!(refused, 1);
        for id in 0..30 {
            assert_eq!(get(&items, &[id]).unwrap(), Some(value(u64::from(id), 300)), "{nth}");
        }
    }
}
