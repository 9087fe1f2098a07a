use super::*;
use silica_base::{HashSeed, Prng, test_size};
use silica_parts::frame::Frame;
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Entries one after the other, as in the log.
#[derive(Default)]
struct Written {
    bytes: Vec<u8>,
}

impl Written {
    fn push(&mut self, key: &[u8], value: &[u8]) -> u64 {
        // Nothing is at the beginning of a log.
        self.bytes.resize(self.bytes.len().max(64).next_multiple_of(8), 0);
        let at = self.bytes.len() as u64 / 8;
        Frame::put(key, value).encode(&mut self.bytes);
        at
    }
}

impl Entries for Written {
    fn entry(&self, position: u64) -> Frame<'_> {
        Frame::decode(&self.bytes[8 * position as usize..]).expect("an entry").0
    }
}

const SEED: HashSeed = HashSeed([9; 16]);

fn key(prng: &mut Prng) -> Vec<u8> {
    let n = prng.below(500);
    match n % 3 {
        0 => n.to_be_bytes().to_vec(),
        1 => format!("a long key that differs late {n}").into_bytes(),
        _ => vec![0; n as usize % 20],
    }
}

/// All versions: position by key and position.
type Model = BTreeMap<(Vec<u8>, Reverse<u64>), u64>;

fn newest(model: &Model, key: &[u8], before: u64) -> Option<u64> {
    let from = (key.to_vec(), Reverse(before.checked_sub(1)?));
    let (found, position) = model.range(from..).next()?;
    (found.0 == key).then_some(*position)
}

/// Inserts and has the memtable grow, unless it is large.
fn insert(
    memtable: &mut Memtable,
    key: &[u8],
    position: u64,
    written: &Written,
) -> Result<Inserted, Full> {
    loop {
        match memtable.insert(SEED.low(key), key, position, 0, written) {
            Err(Full) if !memtable.is_large() => memtable.grow(SEED, written)?,
            inserted => return inserted,
        }
    }
}

#[test]
fn threads_that_insert_out_of_order_leave_the_newest_version() {
    const THREADS: usize = 4;
    let mut written = Written::default();
    let keys: Vec<[u8; 8]> = (0..200u64).map(u64::to_be_bytes).collect();
    for round in 0..test_size(20, 60, 500) {
        // Each key once for each thread, in an order of the thread's own.
        let mut prng = Prng::new(round);
        let mut turns: Vec<Vec<(usize, u64)>> = vec![Vec::new(); THREADS];
        for (at, key) in keys.iter().enumerate() {
            turns.iter_mut().for_each(|turn| turn.push((at, written.push(key, b""))));
        }
        turns.iter_mut().for_each(|turn| turn.sort_by_cached_key(|_| prng.next_u64()));
        let (directory, written) = (Directory::new(128), &written);
        let counts: Vec<[usize; 3]> = std::thread::scope(|scope| {
            let directory = &directory;
            let insert = |turn: &Vec<(usize, u64)>| {
                let mut counts = [0; 3];
                for (at, position) in turn {
                    let (key, hash) = (&keys[*at], SEED.low(&keys[*at]));
                    let inserted = directory.insert(hash, key, *position, 0, written);
                    counts[match inserted.expect("there is room") {
                        Inserted::Added => 0,
                        Inserted::Replaced(old) => usize::from(old < *position),
                        Inserted::Overtaken => 2,
                    }] += 1;
                    let found = directory.find(hash, key, u64::MAX, written).expect("there");
                    assert!(found.position >= *position);
                }
                counts
            };
            let threads: Vec<_> =
                turns.iter().map(|turn| scope.spawn(move || insert(turn))).collect();
            threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
        });
        let sum = |what: usize| counts.iter().map(|one| one[what]).sum::<usize>();
        assert_eq!(directory.len(), sum(0), "what was added has a slot");
        assert_eq!(sum(0) + sum(1) + sum(2), THREADS * keys.len());
        for (at, key) in keys.iter().enumerate() {
            let newest = turns.iter().flatten().filter(|(of, _)| *of == at).map(|(_, p)| *p).max();
            let found = directory.find(SEED.low(key), key, u64::MAX, written);
            assert_eq!(found.map(|found| found.position), newest, "round {round}");
        }
    }
}

#[test]
fn directories_find_the_newest_version_that_a_snapshot_sees() {
    for seed in 0..test_size(5, 30, 1000) {
        let mut prng = Prng::new(seed);
        let (mut written, mut model) = (Written::default(), Model::new());
        let mut directory = Directory::new(1);
        let mut snapshot = 0;
        'full: for n in 0..4000u64 {
            let key = key(&mut prng);
            let position = written.push(&key, &n.to_le_bytes());
            let hash = SEED.low(&key);
            loop {
                match directory.insert(hash, &key, position, snapshot, &written) {
                    Ok(Inserted::Replaced(old)) => {
                        assert!(old >= snapshot, "a snapshot still needs {old}");
                        let old = (key.clone(), Reverse(old));
                        assert!(model.remove(&old).is_some(), "{old:?} was there");
                        break;
                    }
                    Ok(Inserted::Added) => break,
                    Ok(Inserted::Overtaken) => unreachable!("positions ascend"),
                    Err(Full) => match directory.grown(|key| SEED.low(key), &written) {
                        Some(larger) => directory = larger,
                        None => {
                            let has_key = |(found, _): &(Vec<u8>, _)| *found == key;
                            let versions = model.keys().filter(|at| has_key(at)).count();
                            assert!(versions >= 8, "{versions} versions of a key are too many");
                            break 'full;
                        }
                    },
                }
            }
            model.insert((key, Reverse(position)), position);
            if prng.one_in(300) {
                snapshot = position + 1;
            }
        }
        assert_eq!(directory.len(), model.len());
        for _ in 0..2000 {
            let key = key(&mut prng);
            let before = [u64::MAX, snapshot, prng.below(40_000)][prng.below(3) as usize];
            let found = directory.find(SEED.low(&key), &key, before, &written);
            assert_eq!(found.map(|found| found.position), newest(&model, &key, before));
        }
        let all = sorted(directory.positions(), &written);
        assert_eq!(all, model.into_values().collect::<Vec<_>>());
    }
}

#[test]
fn directories_grow_when_they_are_nearly_full() {
    let (mut written, mut prng) = (Written::default(), Prng::new(1));
    for lines in [64, 1024, 16384] {
        let directory = Directory::new(lines);
        loop {
            let key = prng.next_u64().to_be_bytes();
            let position = written.push(&key, b"");
            if directory.insert(SEED.low(&key), &key, position, 0, &written).is_err() {
                break;
            }
        }
        let percent = directory.len() * 100 / (8 * lines);
        assert!(percent >= 70, "{percent} % of {lines} lines");
    }
}

#[test]
fn lists_are_in_order_and_find_what_a_snapshot_sees() {
    for seed in 0..test_size(5, 30, 1000) {
        let mut prng = Prng::new(seed);
        let (mut written, mut model) = (Written::default(), Model::new());
        let list = SkipList::new(3000);
        for n in 0..3000u64 {
            let key = key(&mut prng);
            let position = written.push(&key, &n.to_le_bytes());
            if list.insert(&key, position, &written).is_err() {
                assert!(n > 2900, "full at {n}");
                break;
            }
            model.insert((key, Reverse(position)), position);
        }
        assert_eq!(list.len(), model.len());
        let all: Vec<u64> = model.values().copied().collect();
        let walked = std::iter::successors(list.first(), |node| list.after(*node));
        assert!(walked.map(|node| list.position(node)).eq(all.iter().copied()));
        assert_eq!(list.last().map(|node| list.position(node)), all.last().copied());
        for _ in 0..2000 {
            let key = key(&mut prng);
            let before = [u64::MAX, prng.below(40_000)][prng.below(2) as usize];
            let found = list.find(&key, before, &written);
            assert_eq!(found.map(|found| found.position), newest(&model, &key, before));
            let at = (key.clone(), Reverse(before));
            let after = model.range(at.clone()..).next().map(|(_, position)| *position);
            let seek = list.seek(&key, before, &written).map(|node| list.position(node));
            assert_eq!(seek, after);
            let last = model.range(..at).next_back().map(|(_, position)| *position);
            let back = list.seek_before(&key, before, &written).map(|node| list.position(node));
            assert_eq!(back, last);
        }
    }
}

#[test]
fn memtables_of_both_kinds_grow_and_become_lists() {
    for seed in 0..test_size(5, 30, 1000) {
        let mut prng = Prng::new(seed);
        let (mut written, mut model) = (Written::default(), Model::new());
        let mut memtable = if seed % 2 == 0 { Memtable::new_hash() } else { Memtable::new_list() };
        for n in 0..3000u64 {
            let key = key(&mut prng);
            let position = written.push(&key, &n.to_le_bytes());
            match insert(&mut memtable, &key, position, &written).expect("there is room") {
                Inserted::Replaced(old) => drop(model.remove(&(key.clone(), Reverse(old)))),
                Inserted::Added => (),
                Inserted::Overtaken => unreachable!("positions ascend"),
            }
            model.insert((key, Reverse(position)), position);
            if n == 1500 && prng.one_in(2) {
                memtable = Memtable::list_of(&memtable.in_order(&written), &written);
            }
        }
        let all: Vec<u64> = model.values().copied().collect();
        assert_eq!(memtable.in_order(&written), all);
        for most in [1, 64, 5000] {
            let some = memtable.some_positions(most);
            let distinct: BTreeSet<u64> = some.iter().copied().collect();
            assert!(distinct.len() == some.len() && distinct.iter().all(|at| all.contains(at)));
            let is_about = some.len() >= most / 4 && some.len() <= 8 * most + 8;
            assert!(if most > all.len() { some.len() == all.len() } else { is_about });
        }
        for _ in 0..500 {
            let key = key(&mut prng);
            let before = [u64::MAX, prng.below(40_000)][prng.below(2) as usize];
            let found = memtable.find(SEED.low(&key), &key, before, &written);
            assert_eq!(found.map(|found| found.position), newest(&model, &key, before));
        }
    }
}

#[test]
fn readers_find_what_was_there_before_they_looked() {
    let (mut written, mut prng) = (Written::default(), Prng::new(2));
    let keys: Vec<[u8; 8]> = (0..2000).map(|_| prng.next_u64().to_be_bytes()).collect();
    let positions: Vec<u64> = keys.iter().map(|key| written.push(key, key)).collect();
    let (directory, list) = (Directory::new(512), SkipList::new(keys.len() * 2));
    let done = std::sync::atomic::AtomicUsize::new(0);
    let order = std::sync::atomic::Ordering::SeqCst;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (at, key) in keys.iter().enumerate() {
                let position = positions[at];
                let inserted = directory.insert(SEED.low(key), key, position, 0, &written);
                assert_eq!(inserted, Ok(Inserted::Added));
                list.insert(key, position, &written).expect("there is room");
                done.store(at + 1, order);
            }
        });
        let mut prng = Prng::new(3);
        while done.load(order) < keys.len() {
            let there = done.load(order);
            if there == 0 {
                continue;
            }
            let key = &keys[prng.below(there as u64) as usize];
            let found = directory.find(SEED.low(key), key, u64::MAX, &written);
            assert_eq!(found.expect("it was there").entry.value, key);
            let found = list.find(key, u64::MAX, &written);
            assert_eq!(found.expect("it was there").entry.value, key);
        }
    });
}

/// Entries; another one is put into the list when they were looked at often enough.
struct Interrupted<'l> {
    written: &'l Written,
    list: &'l SkipList,
    /// Looks that are left before that.
    calls: std::cell::Cell<usize>,
    key: &'l [u8],
    position: u64,
}

impl Entries for Interrupted<'_> {
    fn entry(&self, position: u64) -> Frame<'_> {
        self.calls.set(self.calls.get().wrapping_sub(1));
        if self.calls.get() == 0 {
            self.list.insert(self.key, self.position, self.written).expect("there is room");
        }
        self.written.entry(position)
    }
}

#[test]
fn a_search_finds_its_key_where_others_are_put_in_front_meanwhile() {
    let mut interrupted_at_most = 0;
    // Keys that come before the one that is there, or a newer version of it.
    for (there, new) in [(b"key 5", b"key 3"), (b"key 5", b"key 5")] {
        let mut calls = 1;
        loop {
            let (mut written, list) = (Written::default(), SkipList::new(10));
            let [there_at, new_at] = [there, new].map(|key| written.push(key, b""));
            list.insert(there, there_at, &written).expect("there is room");
            let interrupted = Interrupted {
                written: &written,
                list: &list,
                calls: calls.into(),
                key: new,
                position: new_at,
            };
            let found = list.find(there, new_at, &interrupted);
            assert_eq!(found.map(|found| found.position), Some(there_at), "call {calls}");
            if list.len() == 1 {
                break;
            }
            calls += 1;
        }
        interrupted_at_most = interrupted_at_most.max(calls);
    }
    assert!(interrupted_at_most > 2, "the search looks at the key on each level");
}

#[test]
fn a_put_into_a_large_directory_does_not_wait_for_it_to_grow() {
    let mut written = Written::default();
    let mut memtable = Memtable::new_hash();
    let is_full = (0..100_000u64).any(|n| {
        let at = written.push(&n.to_be_bytes(), b"");
        insert(&mut memtable, &n.to_be_bytes(), at, &written).is_err()
    });
    assert!(is_full, "of {} bytes", memtable.bytes());
    let Memtable::Hash(directory) = &memtable else { unreachable!("it has no order") };
    assert!(directory.next().bytes() > directory.bytes(), "the next one has more room");
}

#[test]
fn an_order_knows_how_many_keys_are_before_any() {
    for (seed, prefix) in [(1, ""), (2, "prefix"), (3, "a prefix longer than a head")] {
        let (mut prng, mut written) = (Prng::new(seed), Written::default());
        // Many share a head, and some a key.
        let any = |prng: &mut Prng| {
            let middle = ["", "same head", "t"][prng.below(3) as usize];
            format!("{prefix}{middle}{}", prng.below(300)).into_bytes()
        };
        for count in [0, 1, 2, 15, 16, 17, 500] {
            let mut keys: Vec<_> = (0..count).map(|_| any(&mut prng)).collect();
            let positions = keys.iter().map(|key| written.push(key, b"")).collect();
            let ordered = Ordered::new(sorted(positions, &written), &written);
            keys.sort();
            assert_eq!(ordered.positions().len(), count);
            let others = ["", "a", "a prefix", "pre", "prefiy", "prefix", "z"];
            let others = others.map(|key| key.as_bytes().to_vec());
            for key in others.into_iter().chain((0..1000).map(|_| any(&mut prng))) {
                let before = keys.partition_point(|other| *other < key);
                let text = key.escape_ascii();
                assert_eq!(ordered.before(&key, &written), before, "'{text}' of {count}");
            }
        }
    }
}

/// Entries, and how often one was read.
struct Counted<'w> {
    written: &'w Written,
    reads: Cell<usize>,
}

impl Entries for Counted<'_> {
    fn entry(&self, position: u64) -> Frame<'_> {
        self.reads.set(self.reads.get() + 1);
        self.written.entry(position)
    }
}

#[test]
fn keys_of_several_tables_are_sorted_without_comparing_them_two_by_two() {
    let (mut written, mut prng) = (Written::default(), Prng::new(5));
    // As SQL has them: a table's number, then a row's.
    let key = |prng: &mut Prng| {
        let (table, row) = (prng.below(5) as u32, prng.below(1 << 20));
        [&[16][..], &table.to_be_bytes(), &(row | 1 << 63).to_be_bytes()].concat()
    };
    let mut model = BTreeMap::new();
    for _ in 0..4000 {
        let key = key(&mut prng);
        let position = written.push(&key, b"");
        model.insert((key, Reverse(position)), position);
    }
    let counted = Counted { written: &written, reads: Cell::new(0) };
    let order = sorted(model.values().copied().collect(), &counted);
    assert_eq!(order, model.into_values().collect::<Vec<_>>());
    // Twice for each eight bytes that tell; comparing takes more than 40.
    assert!(counted.reads.get() < 10 * order.len(), "{} reads", counted.reads.get());
}
