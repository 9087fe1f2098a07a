//! Bursts, gets and counts beside a map, of keys as a database of SQL has them: several trees in
//! one bucket, whose keys begin alike in all sources.

use crate::Wip;
use crate::tests::small;
use silica_base::{Clock, HashSeed, ManualClock, Prng, test_size};
use silica_device::sim::{SimDevice, SimOptions};
use silica_engine::{
    Durability, Engine, EntryBurst, EntryIter, EntryRef, Environment, GetSink, KeyRange, Ordered,
    Snapshot, SnapshotExt, WriteBatch,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const TREES: u64 = 4;
const ROWS: u64 = 700;

/// What a map has: value, and when it expires or 0.
type Model = BTreeMap<Vec<u8>, (Vec<u8>, u64)>;

struct Store {
    wip: Arc<Wip<SimDevice>>,
    clock: Arc<ManualClock>,
    model: Model,
    prng: Prng,
}

fn row_key(tree: u64, row: u64) -> Vec<u8> {
    [&[0x10][..], &(tree as u32).to_be_bytes(), &(row | 1 << 63).to_be_bytes()].concat()
}

fn any_key(prng: &mut Prng) -> Vec<u8> {
    match prng.below(40) {
        0 => vec![prng.below(3) as u8],
        // Keys of which one is what others begin with.
        1 => row_key(prng.below(TREES), prng.below(ROWS))[..5 + prng.below(9) as usize].to_vec(),
        2 => {
            [row_key(prng.below(TREES), prng.below(ROWS)), vec![0; prng.below(3) as usize]].concat()
        }
        _ => row_key(prng.below(TREES), prng.below(ROWS)),
    }
}

fn any_range(prng: &mut Prng) -> KeyRange {
    match prng.below(4) {
        0 => KeyRange::ALL,
        1 => KeyRange::prefix(&row_key(prng.below(TREES), 0)[..5]),
        _ => {
            let (one, other) = (any_key(prng), any_key(prng));
            KeyRange::new(one.clone().min(other.clone()), one.max(other))
        }
    }
}

impl Store {
    fn new(seed: u64) -> Self {
        let clock = Arc::new(ManualClock::default());
        let environment = Environment { clock: clock.clone(), seed: HashSeed([1; 16]) };
        let more = [("inline_value_bytes_max", 100), ("value_log_segment_bytes", 16 << 10)];
        let device = SimDevice::new(seed, SimOptions::default());
        let wip = Wip::open(device, &small::options(&more), &environment).expect("it opens");
        Store { wip: Arc::new(wip), clock, model: Model::new(), prng: Prng::new(seed) }
    }

    /// Some writes: in a row, as an import makes them, or anywhere.
    fn write(&mut self, count: u64) {
        let in_a_row = self.prng.one_in(3).then(|| any_key(&mut self.prng));
        for n in 0..count {
            let key = match &in_a_row {
                Some(first) => [&first[..], &(n as u16).to_be_bytes()].concat(),
                None => any_key(&mut self.prng),
            };
            let mut batch = WriteBatch::new();
            if self.prng.one_in(5) {
                batch.delete(&key);
                self.model.remove(&key);
                self.wip.write(&batch, Durability::Buffered).expect("a write");
                continue;
            }
            // Some lie apart, and some expire.
            let len = if self.prng.one_in(30) { 150 } else { self.prng.below(60) };
            let value = vec![self.prng.below(256) as u8; len as usize];
            let expires = match self.prng.below(12) {
                0 => self.clock.unix_ms() + 1 + self.prng.below(4),
                _ => 0,
            };
            let entry = EntryRef { value: &value, expires_unix_ms: expires, user_bits: 0 };
            batch.put_entry(&key, entry);
            self.wip.write(&batch, Durability::Buffered).expect("a write");
            self.model.insert(key, (value, expires));
        }
    }

    fn delete_range(&mut self) {
        let (tree, row) = (self.prng.below(TREES), self.prng.below(ROWS));
        let (lower, upper) = (row_key(tree, row), row_key(tree, row + self.prng.below(30)));
        let range = KeyRange::new(lower, upper);
        self.wip.delete_range(&range, Durability::Buffered).expect("a delete");
        self.model.retain(|key, _| !range.contains(key));
    }

    fn work(&mut self) {
        for _ in 0..self.prng.below(4) {
            self.write(50);
        }
        match self.prng.below(8) {
            0 => self.delete_range(),
            1 | 2 => {
                let key = any_key(&mut self.prng);
                self.wip.flush(&self.wip.buckets().of(&key).clone()).expect("a flush");
            }
            3 => self.clock.advance_ns(1_000_000),
            4 => self.wip.compact_range(&any_range(&mut self.prng)).expect("a compaction"),
            _ => {}
        }
    }

    /// What is there now.
    fn live(&self) -> Model {
        let now = self.clock.unix_ms();
        let is_there = |expires: u64| expires == 0 || expires > now;
        self.model.iter().filter(|(_, (_, expires))| is_there(*expires)).map(owned).collect()
    }
}

fn owned((key, entry): (&Vec<u8>, &(Vec<u8>, u64))) -> (Vec<u8>, (Vec<u8>, u64)) {
    (key.clone(), entry.clone())
}

/// Walks through a range by bursts, with steps back and to elsewhere between them.
fn walk(store: &mut Store, iter: &mut dyn EntryIter, range: &KeyRange, live: &Model) {
    let within: Vec<(&Vec<u8>, &Vec<u8>)> = live
        .iter()
        .filter(|(key, _)| range.contains(key))
        .map(|(key, (value, _))| (key, value))
        .collect();
    let mut burst = EntryBurst::default();
    for _ in 0..6 {
        let sought = any_key(&mut store.prng);
        let place = within.partition_point(|(key, _)| **key < sought);
        let mut at = iter.seek(&sought).expect("a seek").then_some(place);
        assert_eq!(at, Some(place).filter(|place| *place < within.len()), "{sought:02x?}");
        while let Some(place) = at {
            assert_eq!(iter.key(), within[place].0);
            assert_eq!(iter.entry().value, within[place].1);
            if store.prng.one_in(6) {
                at = iter.prev().expect("a step").then(|| place - 1);
                assert_eq!(at.is_some(), place > 0);
                if store.prng.one_in(3) {
                    break;
                }
                continue;
            }
            if store.prng.one_in(10) {
                // It sees none of this.
                store.work();
            }
            let (count, of_keys) = (1 + store.prng.below(90) as usize, store.prng.one_in(4));
            match of_keys {
                true => burst.begin_keys(count, 1 << 20),
                false => burst.begin(count, 1 << 20),
            }
            if store.prng.one_in(3) {
                at = walk_back(iter, &mut burst, count, &within[..place], of_keys);
                continue;
            }
            let is_there = iter.next_many(&mut burst).expect("a burst");
            let wanted = &within[place + 1..within.len().min(place + 1 + count)];
            let keys: Vec<&[u8]> = burst.iter().map(|(key, _)| key).collect();
            assert!(keys.iter().eq(wanted.iter().map(|(key, _)| key)), "behind {place}");
            let values = burst.iter().map(|(_, value)| value);
            assert!(of_keys || values.eq(wanted.iter().map(|(_, value)| &value[..])));
            assert_eq!(is_there, wanted.len() == count);
            at = is_there.then_some(place + count);
        }
    }
}

/// A burst backwards; where it comes to among `before`, the entries before the one that it is at.
fn walk_back(
    iter: &mut dyn EntryIter,
    burst: &mut EntryBurst,
    count: usize,
    before: &[(&Vec<u8>, &Vec<u8>)],
    of_keys: bool,
) -> Option<usize> {
    let is_there = iter.prev_many(burst).expect("a burst");
    let wanted = &before[before.len().saturating_sub(count)..];
    let keys = burst.iter().map(|(key, _)| key);
    assert!(keys.eq(wanted.iter().rev().map(|(key, _)| &key[..])), "before {}", before.len());
    let values = burst.iter().map(|(_, value)| value);
    assert!(of_keys || values.eq(wanted.iter().rev().map(|(_, value)| &value[..])));
    assert_eq!(is_there, wanted.len() == count);
    is_there.then(|| before.len() - count)
}

#[derive(Default)]
struct Found(BTreeMap<usize, Vec<u8>>);

impl GetSink for Found {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        assert!(self.0.insert(index, entry.value.to_vec()).is_none());
    }
}

/// Gets one by one and together.
fn get(prng: &mut Prng, snapshot: &dyn Snapshot, live: &Model) {
    let keys: Vec<Vec<u8>> = (0..40).map(|_| any_key(prng)).collect();
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let mut found = Found::default();
    snapshot.get_many(&keys, &mut found).expect("gets");
    for (index, key) in keys.iter().enumerate() {
        let wanted = live.get(*key).map(|(value, _)| value);
        assert_eq!(found.0.get(&index), wanted, "{key:02x?}");
        let one = snapshot.get_with(key, |entry| entry.map(|entry| entry.value.to_vec()));
        assert_eq!(one.expect("a get").as_ref(), wanted, "{key:02x?} alone");
    }
}

#[test]
fn trees_beside_one_another_are_read_as_a_map_has_them() {
    for seed in 0..test_size(8, 20, 2000) {
        let mut store = Store::new(seed);
        store.write(400);
        for _ in 0..12 {
            store.work();
            let live = store.live();
            let snapshot = Arc::clone(&store.wip).snapshot().expect("a snapshot");
            for _ in 0..2 {
                let range = any_range(&mut store.prng);
                let mut iter = Arc::clone(&snapshot).iterate(&range).expect("an iterator");
                walk(&mut store, &mut *iter, &range, &live);
                let within = live.keys().filter(|key| range.contains(key)).count() as u64;
                assert_eq!(Arc::clone(&snapshot).count(&range).expect("a count"), within);
                get(&mut store.prng, &*snapshot, &live);
            }
        }
    }
}
