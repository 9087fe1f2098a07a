//! SCAN's cursors where keys are in order: numbers that stand for the last key that was visited.
//!
//! A table knows the keys of the numbers given last. A number itself has the first bytes of its
//! key: when the table does not know it any more, or the server has been started anew, the scan
//! goes on at the first key that begins so. Then some keys are visited again, and none is missed.
//! The rest of a number is a hash of database and key under a seed of this process, so a number
//! from elsewhere meets a known one only by a chance of one to 2^38 for each of these.

use crate::budget::{Budget, SMALL_BYTES, Share};
use silica_base::HashSeed;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, PoisonError};

/// Keys that are known at most, and their bytes; all take an eighth of the clients' memory at most.
const KEYS_MAX: usize = 16 << 10;
const BYTES_MAX: usize = 4 << 20;
/// Memory of a known number beside its key.
const CURSOR_BYTES: usize = 96;
/// Set in all numbers, so that none is 0, which is the start.
const MARK: u64 = 1 << 62;
/// Bits of the hash.
const HASH_BITS: u32 = 38;
/// First bytes of the key in a number.
const PREFIX_BYTES: usize = 3;

/// The cursors that were given to clients.
pub(crate) struct Cursors {
    seed: HashSeed,
    known: Mutex<Known>,
    /// What is counted for those that are known: all but a little, so that scans go on when the
    /// clients' memory is full.
    share: Share,
    /// Memory of all of them at most.
    held_bytes_max: usize,
}

/// Numbers and the keys that they stand for.
#[derive(Default)]
pub(crate) struct Known {
    keys: BTreeMap<u64, Vec<u8>>,
    /// The numbers, the oldest first.
    order: VecDeque<u64>,
    bytes: usize,
}

impl Cursors {
    /// None yet; `random` makes numbers of other processes unlike, and `budget` counts what is
    /// kept.
    pub(crate) fn new(random: [u64; 2], budget: &Arc<Budget>) -> Self {
        let mut seed = [0; 16];
        seed[..8].copy_from_slice(&random[0].to_le_bytes());
        seed[8..].copy_from_slice(&random[1].to_le_bytes());
        Cursors {
            seed: HashSeed(seed),
            known: Mutex::default(),
            share: Share::new(budget),
            held_bytes_max: budget.max() / 8,
        }
    }

    /// The number of the keys of database `db` after `key`.
    pub(crate) fn after(&self, db: usize, key: &[u8]) -> u64 {
        let mut prefix = [0; 4];
        let len = key.len().min(PREFIX_BYTES);
        prefix[1..=len].copy_from_slice(&key[..len]);
        let hash = self.seed.hash(&[&(db as u64).to_le_bytes(), key].concat()).0 as u64;
        let hash = hash & ((1 << HASH_BITS) - 1);
        let number = MARK | u64::from(u32::from_be_bytes(prefix)) << HASH_BITS | hash;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.add(number, key);
        known.settle(&self.share, self.held_bytes_max);
        number
    }

    /// Where the scan of `number` goes on: behind a key, or at one.
    pub(crate) fn lower(&self, number: u64) -> Bound<Vec<u8>> {
        if number & MARK == 0 {
            return Bound::Unbounded;
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = known.keys.get(&number) {
            return Bound::Excluded(key.clone());
        }
        let prefix = ((number & !MARK) >> HASH_BITS) as u32;
        let prefix = &prefix.to_be_bytes()[1..];
        // A shorter key comes before the same with zeros.
        let end = prefix.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        Bound::Included(prefix[..end].to_vec())
    }
}

impl Known {
    /// The key that `number` stands for, if it is not forgotten.
    pub(crate) fn get(&self, number: u64) -> Option<&[u8]> {
        self.keys.get(&number).map(Vec::as_slice)
    }

    pub(crate) fn add(&mut self, number: u64, key: &[u8]) {
        if let Some(old) = self.keys.get_mut(&number) {
            // Two keys of one number: the first one, so that no key after it is missed.
            if key < old.as_slice() {
                self.bytes = self.bytes + key.len() - old.len();
                *old = key.to_vec();
            }
            return;
        }
        self.keys.insert(number, key.to_vec());
        self.order.push_back(number);
        self.bytes += key.len();
        while self.order.len() > KEYS_MAX || self.bytes > BYTES_MAX {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some(oldest) = self.order.pop_front() {
            self.bytes -= self.keys.remove(&oldest).map_or(0, |key| key.len());
        }
    }

    /// Brings `share` up to date. If it cannot grow, or more than `held_bytes_max` are held, the
    /// oldest numbers are forgotten.
    pub(crate) fn settle(&mut self, share: &Share, held_bytes_max: usize) {
        loop {
            let all = self.bytes + self.order.len() * CURSOR_BYTES;
            if all > held_bytes_max {
                self.forget_oldest();
                continue;
            }
            let (counted, want) = (share.bytes(), all.saturating_sub(SMALL_BYTES));
            if want <= counted {
                return share.shrink(counted - want);
            }
            if share.grow(want - counted).is_ok() {
                return;
            }
            self.forget_oldest();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_before(lower: &Bound<Vec<u8>>, key: &[u8]) -> bool {
        match lower {
            Bound::Included(lower) => lower.as_slice() <= key,
            Bound::Excluded(lower) => lower.as_slice() < key,
            Bound::Unbounded => true,
        }
    }

    #[test]
    fn a_number_stands_for_its_key_until_it_is_forgotten() {
        let cursors = Cursors::new([1, 2], &Budget::new(64 << 20));
        let number = cursors.after(0, b"user:1");
        assert_eq!(cursors.lower(number), Bound::Excluded(b"user:1".to_vec()));
        assert_eq!(cursors.after(0, b"user:1"), number);
        assert_ne!(cursors.after(1, b"user:1"), number);
        for other in 0..KEYS_MAX as u32 {
            cursors.after(0, &other.to_be_bytes());
        }
        assert_eq!(cursors.lower(number), Bound::Included(b"use".to_vec()));
        assert!(cursors.known.lock().unwrap().keys.len() <= KEYS_MAX);
        cursors.after(0, &vec![7; BYTES_MAX]);
        assert!(cursors.known.lock().unwrap().bytes <= BYTES_MAX);
    }

    #[test]
    fn numbers_count_as_memory_of_clients_and_give_way_without_it() {
        let budget = Budget::new(8 << 20);
        let cursors = Cursors::new([1, 2], &budget);
        let add = |db| (0..4000u32).map(|n| cursors.after(db, &n.to_be_bytes())).last().unwrap();
        let held = 4000 * (4 + CURSOR_BYTES);
        add(0);
        assert_eq!(budget.used(), held - SMALL_BYTES);
        let last = (1..4).map(add).last();
        assert!(last.is_some());
        assert!(budget.used() <= 1 << 20, "they take an eighth");
        drop(cursors);
        assert_eq!(budget.used(), 0);

        let other = Share::new(&budget);
        other.grow(6 << 20).expect("three quarters may be kept");
        let cursors = Cursors::new([1, 2], &budget);
        let newest = (0..4000u32).map(|n| cursors.after(0, &n.to_be_bytes())).last().unwrap();
        assert_eq!(budget.used(), 6 << 20);
        assert_eq!(cursors.lower(newest), Bound::Excluded(3999u32.to_be_bytes().to_vec()));
    }

    #[test]
    fn a_forgotten_number_misses_no_key() {
        let new = |random| Cursors::new(random, &Budget::new(64 << 20));
        let (here, elsewhere) = (new([1, 2]), new([3, 4]));
        let keys: [&[u8]; 9] =
            [b"", b"\0", b"\0\0\0", b"\0\0\x01", b"a", b"a\0", b"ab", b"abc", b"\xff\xff\xff\xff"];
        for (at, key) in keys.iter().enumerate() {
            let number = here.after(0, key);
            assert!(number > 0 && number < 1 << 63);
            let lower = elsewhere.lower(number);
            assert!(keys[at..].iter().all(|later| is_before(&lower, later)), "{key:?}: {lower:?}");
        }
        assert_eq!(elsewhere.lower(0), Bound::Unbounded);
        assert_eq!(elsewhere.lower(MARK - 1), Bound::Unbounded);
    }
}
