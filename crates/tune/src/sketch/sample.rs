//! All requests for some keys: how often each is asked for, and how far apart its requests lie.
//!
//! Keys are chosen by their hash (Waldspurger and others' SHARDS): a key whose hash is below a
//! threshold is in, and every request for it is seen. Where there are too many keys the threshold
//! falls, so memory is fixed; each distance stands for as many as one key stands for keys.

use silica_base::Prng;
use std::collections::BTreeMap;

/// Keys, at most; more halve the threshold.
pub(super) const KEYS_MAX: usize = 8192;
/// Places in the order of last requests, before they are numbered anew.
const PLACES: usize = 4 * KEYS_MAX;
/// Requests that are kept however old they are: fewer say too little of a skew.
const REQUESTS_KEPT: u64 = 1 << 17;
/// A count of so many is halved by a coin for each request; a larger one hardly differs from half.
const COINS_MAX: u32 = 4096;
/// Distances are kept in so many buckets for each doubling.
const PER_DOUBLING: f64 = 4.0;
pub(super) const DISTANCES: usize = 4 * 51;

/// How a request bears on its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// The entry is looked at.
    Read,
    /// The entry is written, whether it was there or not.
    Write,
}

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// Requests, the first one with them.
    pub(super) count: u32,
    /// Place of the last one.
    pub(super) place: u32,
    /// The first one was a write, which may have made the key.
    pub(super) written_first: bool,
}

/// The sample.
#[derive(Clone, Debug)]
pub struct Sample {
    pub(super) threshold: u64,
    pub(super) seen: BTreeMap<u64, Seen>,
    /// Keys whose last request is at a place, as a Fenwick tree.
    tree: Vec<u32>,
    next_place: u32,
    /// Weight of reads by distance, and of those of keys that were not seen before.
    pub(super) distances: Vec<f64>,
    pub(super) first_reads: f64,
    /// Reads of all keys while the sample looked.
    pub(super) reads: u64,
}

impl Default for Sample {
    fn default() -> Self {
        Sample {
            threshold: u64::MAX,
            seen: BTreeMap::new(),
            tree: vec![0; PLACES + 1],
            next_place: 0,
            distances: vec![0.0; DISTANCES],
            first_reads: 0.0,
            reads: 0,
        }
    }
}

impl Sample {
    /// Requests for keys whose hash is at or above this are not in the sample.
    pub fn threshold(&self) -> u64 {
        self.threshold
    }

    /// Keys that each key of the sample stands for.
    pub fn keys_per_key(&self) -> f64 {
        2f64.powi(64) / (self.threshold as f64 + 1.0)
    }

    /// So many reads of keys that are not in the sample.
    pub fn pass(&mut self, reads: u64) {
        self.reads = self.reads.saturating_add(reads);
    }

    /// A request for the key with this hash (of 64 good bits). True where it is in the sample.
    pub fn request(&mut self, hash: u64, touch: Touch) -> bool {
        self.pass(u64::from(touch == Touch::Read));
        if hash >= self.threshold {
            return false;
        }
        if self.next_place as usize == PLACES {
            self.renumber();
        }
        let (place, weight) = (self.next_place, self.keys_per_key());
        self.next_place += 1;
        match self.seen.get_mut(&hash) {
            Some(seen) => {
                seen.count = seen.count.saturating_add(1);
                let before = std::mem::replace(&mut seen.place, place);
                let behind = self.seen.len() as u32 - self.up_to(before);
                self.add(before, u32::MAX);
                if touch == Touch::Read {
                    self.distances[distance_bucket(f64::from(behind) * weight)] += weight;
                }
            }
            None => {
                let written_first = touch == Touch::Write;
                self.seen.insert(hash, Seen { count: 1, place, written_first });
                if touch == Touch::Read {
                    self.first_reads += weight;
                }
            }
        }
        self.add(place, 1);
        if self.seen.len() > KEYS_MAX {
            self.shrink();
        }
        true
    }

    /// Adds to the number at `place`, modulo 2^32.
    fn add(&mut self, place: u32, number: u32) {
        let mut at = place as usize + 1;
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add(number);
            at += at & at.wrapping_neg();
        }
    }

    /// Keys whose last request is at `place` or before.
    fn up_to(&self, place: u32) -> u32 {
        let (mut at, mut sum) = (place as usize + 1, 0u32);
        while at > 0 {
            sum = sum.wrapping_add(self.tree[at]);
            at &= at - 1;
        }
        sum
    }

    /// Halves the keys.
    fn shrink(&mut self) {
        if let Some(median) = self.seen.keys().nth(KEYS_MAX / 2).copied() {
            self.threshold = median;
            for seen in self.seen.split_off(&median).into_values() {
                self.add(seen.place, u32::MAX);
            }
        }
    }

    /// Takes off the writes that keys were first seen by where those have made them, and forgets
    /// which they were. Keys that nobody asked for since go: all that stay were asked for.
    pub(super) fn settle(&mut self, are_made: bool) {
        for seen in self.seen.values_mut() {
            seen.count -= u32::from(seen.written_first && are_made);
            seen.written_first = false;
        }
        self.drop_unasked();
    }

    /// Halves the requests, where there are many. Each stays or goes by itself, so that counts
    /// that were Poisson numbers still are; a key without one goes.
    pub(super) fn halve(&mut self) {
        let requests: u64 = self.seen.values().map(|seen| u64::from(seen.count)).sum();
        if requests < REQUESTS_KEPT {
            return;
        }
        for (hash, seen) in &mut self.seen {
            seen.count = half(seen.count, &mut Prng::new(hash ^ requests));
        }
        self.drop_unasked();
        self.distances.iter_mut().for_each(|weight| *weight /= 2.0);
        self.first_reads /= 2.0;
        self.reads /= 2;
    }

    fn drop_unasked(&mut self) {
        self.seen.retain(|_, seen| seen.count > 0);
        self.renumber();
    }

    /// Hashes in the order of their last requests.
    pub(super) fn in_order(&self) -> Vec<u64> {
        let mut order: Vec<_> = self.seen.iter().map(|(hash, seen)| (seen.place, *hash)).collect();
        order.sort_unstable();
        order.into_iter().map(|(_, hash)| hash).collect()
    }

    /// Gives the last requests the first places, in their order.
    pub(super) fn renumber(&mut self) {
        let order = self.in_order();
        self.tree.fill(0);
        self.next_place = order.len() as u32;
        for (place, hash) in (0u32..).zip(order) {
            if let Some(seen) = self.seen.get_mut(&hash) {
                seen.place = place;
            }
            self.add(place, 1);
        }
    }

    /// The share of reads that miss a least-recently-used cache, by the entries that it holds.
    pub fn miss_ratios(&self) -> Vec<(f64, f64)> {
        let seen = self.distances.iter().sum::<f64>() + self.first_reads;
        if seen <= 0.0 {
            return Vec::new();
        }
        // A sample that lacks a very popular key, or has one, is corrected by it: such a key is
        // never far away ("SHARDS-adj").
        let total = self.reads as f64;
        let near = self.distances[0] + total - seen;
        let total = if near > 0.0 { total } else { seen - self.distances[0] };
        let miss = |hits: f64| ((total - hits) / total).clamp(0.0, 1.0);
        let mut hits = near.max(0.0);
        let mut points = vec![(1.0, miss(hits))];
        for (bucket, weight) in self.distances.iter().enumerate().skip(1) {
            if *weight <= 0.0 {
                continue;
            }
            let edge = |bucket: usize| 2f64.powf(bucket as f64 / PER_DOUBLING);
            if points.last().is_some_and(|last| last.0 < edge(bucket) * 0.999) {
                points.push((edge(bucket), miss(hits)));
            }
            hits += weight;
            points.push((edge(bucket + 1), miss(hits)));
        }
        points
    }
}

/// How many of `count` coins show heads.
fn half(count: u32, prng: &mut Prng) -> u32 {
    if count > COINS_MAX {
        return count / 2;
    }
    let coins = |at: u32| prng.next_u64() >> (u64::BITS - (count - at).min(u64::BITS));
    (0..count).step_by(64).map(coins).map(u64::count_ones).sum()
}

/// The bucket of the distance to a key behind which lie `keys` others.
fn distance_bucket(keys: f64) -> usize {
    ((keys + 1.0).log2() * PER_DOUBLING).clamp(0.0, DISTANCES as f64 - 1.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::Prng;

    fn hash(key: u64) -> u64 {
        Prng::new(key).next_u64()
    }

    #[test]
    fn distances_are_those_of_a_list() {
        let (mut sample, mut list, mut prng) = (Sample::default(), Vec::new(), Prng::new(1));
        let mut expected = vec![0.0; DISTANCES];
        for _ in 0..100_000 {
            let among = 1 + prng.below(300);
            let key = prng.below(among);
            if let Some(at) = list.iter().position(|k| *k == key) {
                list.remove(at);
                expected[distance_bucket(at as f64)] += 1.0;
            }
            list.insert(0, key);
            assert!(sample.request(hash(key), Touch::Read));
        }
        assert_eq!(sample.first_reads, list.len() as f64);
        let counted: f64 = sample.distances.iter().sum();
        assert_eq!(counted, expected.iter().sum::<f64>());
        for (found, expected) in sample.distances.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
    }

    #[test]
    fn many_keys_leave_a_sample_of_fixed_size_that_stands_for_all() {
        let mut sample = Sample::default();
        for round in 0..3 {
            for key in 0..200_000 {
                sample.request(hash(key), Touch::Read);
            }
            let keys = sample.seen.len() as f64 * sample.keys_per_key();
            assert!((keys / 200_000.0 - 1.0).abs() < 0.05, "round {round}: {keys}");
        }
        assert!(sample.seen.len() <= KEYS_MAX);
        assert!(sample.seen.values().all(|seen| seen.count == 3));
        // Round and round: a cache that does not hold all keys holds none in time.
        let points = sample.miss_ratios();
        let miss = |entries: f64| crate::lines::between(&points, entries).unwrap();
        assert!(miss(100_000.0) > 0.99, "{}", miss(100_000.0));
        assert!(miss(300_000.0) < 0.5, "{}", miss(300_000.0));
    }

    #[test]
    fn halving_leaves_the_distribution_of_counts_and_the_curve() {
        let mut sample = Sample::default();
        for _ in 0..40 {
            (0..5000).for_each(|key| assert!(sample.request(hash(key), Touch::Read)));
        }
        let before = sample.miss_ratios();
        sample.halve();
        // Of 40 coins 20 show heads, with a variance of 10.
        let counts = || sample.seen.values().map(|seen| f64::from(seen.count));
        let mean = counts().sum::<f64>() / 5000.0;
        let variance = counts().map(|count| (count - mean).powi(2)).sum::<f64>() / 5000.0;
        assert!((mean - 20.0).abs() < 0.2 && (variance - 10.0).abs() < 0.8, "{mean}, {variance}");
        for (before, after) in before.iter().zip(sample.miss_ratios()) {
            assert!((before.0, before.1 - after.1) == (after.0, 0.0), "{before:?}, {after:?}");
        }
        let requests: f64 = counts().sum();
        assert!(requests < REQUESTS_KEPT as f64);
        sample.halve();
        assert_eq!(sample.seen.values().map(|seen| f64::from(seen.count)).sum::<f64>(), requests);
        // The order of last requests is kept, so distances go on.
        let far = sample.distances[distance_bucket(4999.0)];
        sample.request(hash(0), Touch::Read);
        assert_eq!(sample.distances[distance_bucket(4999.0)], far + 1.0);
        assert_eq!([0, 1, 63, 64, 65].map(|n| half(n, &mut Prng::new(1)) <= n), [true; 5]);
        assert_eq!(half(1 << 20, &mut Prng::new(1)), 1 << 19);
    }

    #[test]
    fn writes_are_no_reads() {
        let mut sample = Sample::default();
        for key in 0..10 {
            sample.request(hash(key), Touch::Write);
        }
        assert!(sample.miss_ratios().is_empty());
        sample.request(hash(3), Touch::Read);
        assert_eq!(sample.first_reads, 0.0);
        assert_eq!(sample.distances.iter().sum::<f64>(), 1.0);
    }
}
