//! The allocator and changes of several words, with power cuts.

use crate::support::Fixed;
use silica_base::{ErrorKind, Prng, test_size};
use silica_device::region::{Region, RegionClass};
use silica_device::sim::SimRegion;
use silica_pmem::space::{Change, Kind, Opened, ROOT, Settings, Space};
use std::collections::BTreeMap;

const SETTINGS: Settings =
    Settings { kind: Kind::Turbo, store: 9, limit_bytes: 64 << 20, salvage: false };

fn open(place: &Fixed) -> Opened<SimRegion> {
    Space::open_on(place, "test", &SETTINGS).expect("it opens")
}

#[test]
fn objects_are_apart_and_are_used_again() {
    let space = open(&Fixed::new(4 << 20)).space;
    let mut prng = Prng::new(1);
    let mut objects: BTreeMap<u64, u64> = BTreeMap::new();
    for _ in 0..20_000 {
        if objects.len() < 400 && prng.one_in(2) {
            let bytes = 1 + match prng.below(10) {
                0 => prng.below(100_000),
                1..4 => prng.below(5000),
                _ => prng.below(200),
            };
            let Ok(offset) = space.allocate(bytes) else { continue };
            let before = objects.range(..=offset).next_back().map_or(0, |(at, len)| at + len);
            assert!(before <= offset, "{offset} lies in another one");
            let after = objects.range(offset..).next().map_or(u64::MAX, |(at, _)| *at);
            let fit = Space::<SimRegion>::fit(bytes);
            assert!(fit >= bytes && offset + fit <= after);
            assert_eq!(space.object_bytes(offset).unwrap(), fit);
            objects.insert(offset, fit);
        } else if let Some(offset) = objects.keys().nth(prng.below(400) as usize).copied() {
            objects.remove(&offset);
            space.free(offset);
        }
        assert_eq!(space.live_bytes(), objects.values().sum::<u64>());
    }
    objects.keys().for_each(|offset| space.free(*offset));
    assert_eq!(space.live_bytes(), 0);
    assert!(space.allocate(3 << 20).is_ok(), "free pages become one run again");
}

#[test]
fn a_full_region_says_so_and_nothing_is_lost() {
    let space = open(&Fixed::new(1 << 20)).space;
    space.set_limit(1 << 20);
    let mut taken = Vec::new();
    let error = loop {
        match space.allocate(1000) {
            Ok(offset) => taken.push(offset),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Full);
    assert!(error.to_string().contains("raise memory_bytes"), "{error}");
    assert!(taken.len() > 900, "{}", taken.len());
    space.free(taken[3]);
    assert_eq!(space.allocate(1000).unwrap(), taken[3]);
}

/// A list in the region: the root names the first of its objects, each the next.
struct List {
    space: Space<SimRegion>,
}

impl List {
    fn push(&self, value: u64, bytes: u64) -> Result<(), silica_base::Error> {
        let region = self.space.region();
        let at = self.space.allocate(bytes.max(16))?;
        region.store(at, value);
        region.store(at + 8, region.load(ROOT));
        region.flush(at, 16);
        region.fence()?;
        region.store(ROOT, at);
        region.flush(ROOT, 8);
        region.fence()
    }

    /// Two of the list are swapped, in one go.
    fn swap(&self, one: u64, other: u64) -> Result<(), silica_base::Error> {
        let region = self.space.region();
        let changes = [(one, other), (other, one)]
            .map(|(to, from)| Change { offset: to, new: region.load(from) });
        self.space.commit(&changes)
    }

    fn pop(&self) -> Result<(), silica_base::Error> {
        let region = self.space.region();
        let at = region.load(ROOT);
        region.store(ROOT, region.load(at + 8));
        region.flush(ROOT, 8);
        region.fence()?;
        self.space.free(at);
        Ok(())
    }

    fn all(&self) -> Vec<(u64, u64)> {
        let region = self.space.region();
        let mut at = region.load(ROOT);
        let mut all = Vec::new();
        while at != 0 {
            all.push((at, region.load(at)));
            at = region.load(at + 8);
        }
        all
    }
}

/// One step that the list may take: the values that it is to have then, and how it went.
fn step(list: &List, prng: &mut Prng, next: u64) -> (Vec<u64>, Result<(), silica_base::Error>) {
    let all = list.all();
    let mut values: Vec<u64> = all.iter().map(|(_, value)| *value).collect();
    let last = all.len().wrapping_sub(1);
    let done = match prng.below(5) {
        2 if all.len() > 1 => {
            values.swap(0, last);
            list.swap(all[0].0, all[last].0)
        }
        3 if all.len() > 6 => {
            values.remove(0);
            list.pop()
        }
        _ => {
            values.insert(0, next);
            list.push(next, if prng.one_in(2) { prng.below(9000) } else { prng.below(100) })
        }
    };
    (values, done)
}

#[test]
fn a_power_cut_leaves_one_state_or_the_next() {
    let rounds = test_size(300, 2000, 100_000);
    let mut prng = Prng::new(7);
    for round in 0..rounds {
        let mut place = Fixed::new(1 << 20);
        place.seed = round;
        let list = List { space: open(&place).space };
        let steps = prng.below(40);
        for n in 0..steps {
            step(&list, &mut prng, n).1.unwrap();
        }
        let before: Vec<u64> = list.all().into_iter().map(|(_, value)| value).collect();
        let cut_after = 1 + prng.below(30);
        let now = place.region().op_count();
        place.region().cut_at_op(now + cut_after);
        let mut allowed = vec![before];
        let mut n = steps;
        while !place.region().is_cut() {
            let (after, done) = step(&list, &mut prng, n);
            n += 1;
            if done.is_ok() && !place.region().is_cut() {
                allowed.clear();
            }
            allowed.push(after);
            assert!(done.is_ok() || place.region().is_cut(), "round {round}");
        }
        place.lose_power();
        let list = List { space: open(&place).space };
        let all = list.all();
        let values: Vec<u64> = all.iter().map(|(_, value)| *value).collect();
        assert!(allowed.contains(&values), "round {round}: {values:?} is none of {allowed:?}");
        let offsets: Vec<u64> = all.iter().map(|(at, _)| *at).collect();
        list.space.mark(&offsets).unwrap();
        list.space.marks_done().unwrap();
        let bytes = offsets.iter().map(|at| list.space.object_bytes(*at).unwrap()).sum::<u64>();
        assert_eq!(list.space.live_bytes(), bytes, "nothing leaks");
        for _ in 0..50 {
            let new = list.space.allocate(64).unwrap();
            assert!(!offsets.contains(&new));
        }
    }
}

#[test]
fn what_was_not_reached_is_free_and_is_not_handed_out_before() {
    let mut place = Fixed::new(1 << 20);
    let space = open(&place).space;
    let kept: Vec<u64> = (0..100).map(|_| space.allocate(64).unwrap()).collect();
    let lost: Vec<u64> = (0..100).map(|_| space.allocate(4000).unwrap()).collect();
    place.lose_power();
    let space = open(&place).space;
    assert!(space.is_marking());
    let new = space.allocate(64).unwrap();
    assert!(!kept.contains(&new));
    space.free(kept[0]);
    space.mark(&kept[1..]).unwrap();
    assert_eq!(space.mark(&kept[5..6]).unwrap_err().kind(), ErrorKind::Corruption);
    assert_eq!(space.mark(&[lost[0] + 8]).unwrap_err().kind(), ErrorKind::Corruption);
    space.marks_done().unwrap();
    assert_eq!(space.live_bytes(), 100 * 64);
    assert!((0..200).all(|_| !kept[1..].contains(&space.allocate(64).unwrap())));
}

#[test]
fn many_words_change_at_once_wherever_their_record_lies() {
    for count in [2, 100, 169, 170, 1000] {
        let mut old_seen = 0;
        let mut new_seen = 0;
        for cut in 1..test_size(400, 400, 400) {
            let mut place = Fixed::new(1 << 20);
            place.seed = cut;
            let space = open(&place).space;
            let at = space.allocate(8 * count).unwrap();
            let region = space.region();
            (0..count).for_each(|n| region.store(at + 8 * n, 1));
            region.flush(at, 8 * count);
            region.fence().unwrap();
            let changes: Vec<Change> =
                (0..count).map(|n| Change { offset: at + 8 * n, new: 2 }).collect();
            // The record alone takes so many stores.
            let step = (count / 50).max(1);
            place.region().cut_at_op(region.op_count() + cut * step);
            let done = space.commit(&changes).is_ok() && !place.region().is_cut();
            place.lose_power();
            let space = open(&place).space;
            let values: Vec<u64> = (0..count).map(|n| space.region().load(at + 8 * n)).collect();
            assert!(values.iter().all(|v| *v == values[0]), "{count}, cut {cut}: {values:?}");
            assert!(!done || values[0] == 2);
            old_seen += u64::from(values[0] == 1);
            new_seen += u64::from(values[0] == 2);
        }
        assert!(old_seen > 0 && new_seen > 0, "{count}: {old_seen} old, {new_seen} new");
    }
}

#[test]
fn a_region_that_cannot_be_trusted_is_refused() {
    for class in [RegionClass::Pages, RegionClass::Process] {
        let mut place = Fixed::new(1 << 20);
        place.class = class;
        let space = open(&place).space;
        drop(space);
        drop(open(&place));
        place.boot += 1;
        let refused = |place: &Fixed| Space::open_on(place, "test", &SETTINGS).err();
        let error = refused(&place).expect("it was in use");
        assert!(error.to_string().contains("cannot be trusted"), "{error}");
        let salvage = Settings { salvage: true, ..SETTINGS };
        let opened = Space::open_on(&place, "test", &salvage).unwrap();
        assert!(opened.is_doubtful);
        opened.space.settle().unwrap();
        place.boot += 1;
        assert!(open(&place).was_settled);
    }
}

#[test]
fn regions_of_others_and_damaged_ones_are_refused() {
    let place = Fixed::new(1 << 20);
    open(&place).space.settle().unwrap();
    let settings = Settings { kind: Kind::SpTree, ..SETTINGS };
    let error = Space::open_on(&place, "test", &settings).err().unwrap();
    assert!(error.to_string().contains("belongs to engine turbo"), "{error}");
    let refused = |at: u64, bytes: &[u8]| {
        let other = place.with(place.region().fork(1));
        other.region().poke(at, bytes);
        Space::open_on(&other, "test", &SETTINGS).err().map(|error| error.kind())
    };
    assert_eq!(refused(4, &[2, 0]), Some(ErrorKind::Unsupported), "a newer version");
    assert_eq!(refused(0, b"else"), Some(ErrorKind::Corruption));
    assert_eq!(refused(9, &[1]), Some(ErrorKind::Corruption), "the store's number");
    assert_eq!(refused(64, &[0]), Some(ErrorKind::Corruption), "the state");
    assert_eq!(refused(128, &[7]), Some(ErrorKind::Corruption), "the extents");
    assert_eq!(refused(512, &[0xFF; 8]), Some(ErrorKind::Corruption), "an extent");
    assert_eq!(refused(0, &[0; 8]), None, "one that was not made to the end is made anew");
}
