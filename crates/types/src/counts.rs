//! How many elements lie in each part of an order whose elements are entries of an engine.
//!
//! An engine finds an entry by its key and goes on from there, but does not tell its rank. So
//! whoever serves an object keeps one number for each few dozen neighbours, in memory: a rank
//! is a sum of these and a walk over some neighbours. Counts are made by a walk over all elements,
//! and then follow each change.
//!
//! They also know between which keys all elements are. Where elements go at an end again and again,
//! as from a queue, an engine has many deletions there that it has to pass by: whoever begins a
//! walk at that end begins it behind them.
//!
//! A copy shares what has not changed since: copies are cheap.

use std::sync::Arc;

/// Elements of a range when it is made.
pub(crate) const RANGE: u64 = 32;
/// Elements above which a range is cut into several when somebody walks through it.
pub(crate) const RANGE_MAX: u64 = 2 * RANGE;
/// Ranges of a block at most.
const RANGES_MAX: usize = 128;
/// Memory of a range beside the bytes of its key.
const RANGE_BYTES: usize = 48;

/// Neighbours.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Range {
    /// No element of it has a lesser key.
    first: Arc<[u8]>,
    count: u64,
}

/// The sum of some ranges, and these.
type Block = (u64, Arc<Vec<Range>>);

/// Counts of one order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ranges one behind the other, in blocks with their sums. No block is empty.
    blocks: Arc<Vec<Block>>,
    /// All elements have lesser keys, if it is known.
    end: Option<Arc<[u8]>>,
    key_bytes: usize,
    ranges: usize,
}

/// A range as somebody finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// Elements before it.
    pub(crate) before: u64,
    pub(crate) count: u64,
    /// No element of it has a lesser key.
    pub(crate) first: Vec<u8>,
    /// All elements of it have lesser keys; `None` if that is not known of the last range.
    pub(crate) end: Option<Vec<u8>>,
}

impl Counts {
    /// Counts of elements whose keys come one behind the other.
    pub(crate) fn push(&mut self, key: &[u8]) {
        let blocks = Arc::make_mut(&mut self.blocks);
        let last = blocks.last_mut();
        let full = last
            .as_ref()
            .is_none_or(|(_, ranges)| ranges.last().is_none_or(|range| range.count >= RANGE));
        let first: Arc<[u8]> = key.into();
        self.key_bytes += if full { first.len() } else { 0 };
        self.ranges += usize::from(full);
        match last {
            Some((sum, ranges)) if !full => {
                *sum += 1;
                if let Some(range) = Arc::make_mut(ranges).last_mut() {
                    range.count += 1;
                }
            }
            Some((sum, ranges)) if ranges.len() < RANGES_MAX => {
                *sum += 1;
                Arc::make_mut(ranges).push(Range { first, count: 1 });
            }
            _ => blocks.push((1, Arc::new(vec![Range { first, count: 1 }]))),
        }
    }

    /// All elements.
    pub fn len(&self) -> u64 {
        self.blocks.iter().map(|(sum, _)| sum).sum()
    }

    /// True if there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory, about.
    pub fn held_bytes(&self) -> usize {
        self.key_bytes + self.ranges * RANGE_BYTES + self.blocks.len() * 32
    }

    /// The places of the range that `key` belongs to.
    fn places(&self, key: &[u8]) -> Option<(usize, usize)> {
        let starts = |range: &Range| *range.first <= *key;
        let block = self.blocks.partition_point(|(_, ranges)| ranges.first().is_some_and(starts));
        let block = block.saturating_sub(1);
        let (_, ranges) = self.blocks.get(block)?;
        Some((block, ranges.partition_point(starts).saturating_sub(1)))
    }

    fn found(&self, block: usize, at: usize) -> Found {
        let (before, ranges) = (&self.blocks[..block], &self.blocks[block].1);
        let before = before.iter().map(|(sum, _)| sum).sum::<u64>();
        let next = ranges.get(at + 1).or_else(|| self.blocks.get(block + 1)?.1.first());
        Found {
            before: before + ranges[..at].iter().map(|range| range.count).sum::<u64>(),
            count: ranges[at].count,
            first: ranges[at].first.to_vec(),
            end: next.map(|next| &next.first).or(self.end.as_ref()).map(|end| end.to_vec()),
        }
    }

    /// The range that `key` belongs to; `None` if there is none at all.
    pub(crate) fn of_key(&self, key: &[u8]) -> Option<Found> {
        self.places(key).map(|(block, at)| self.found(block, at))
    }

    /// The range of the element with `rank` others before it; `None` if there are not so many.
    pub(crate) fn of_rank(&self, rank: u64) -> Option<Found> {
        let mut left = rank;
        for (block, (sum, ranges)) in self.blocks.iter().enumerate() {
            if left >= *sum {
                left -= sum;
                continue;
            }
            for (at, range) in ranges.iter().enumerate() {
                if left < range.count {
                    return Some(self.found(block, at));
                }
                left -= range.count;
            }
        }
        None
    }

    /// An element with `key` has come.
    pub(crate) fn add(&mut self, key: &[u8]) {
        if self.end.as_ref().is_some_and(|end| key >= &**end) {
            self.end = None;
        }
        let Some((block, at)) = self.places(key) else { return self.push(key) };
        let (sum, ranges) = &mut Arc::make_mut(&mut self.blocks)[block];
        *sum += 1;
        let range = &mut Arc::make_mut(ranges)[at];
        range.count += 1;
        if *key < *range.first {
            self.key_bytes = self.key_bytes - range.first.len() + key.len();
            range.first = key.into();
        }
    }

    /// The element with `key` has gone.
    pub(crate) fn remove(&mut self, key: &[u8]) {
        let Some((block, at)) = self.places(key) else { return };
        let blocks = Arc::make_mut(&mut self.blocks);
        let (sum, ranges) = &mut blocks[block];
        *sum = sum.saturating_sub(1);
        let ranges = Arc::make_mut(ranges);
        let range = &mut ranges[at];
        range.count = range.count.saturating_sub(1);
        if range.count > 0 {
            if *key == *range.first {
                range.first = [key, &[0]].concat().into();
                self.key_bytes += 1;
            }
            return;
        }
        let gone = ranges.remove(at);
        (self.key_bytes, self.ranges) = (self.key_bytes - gone.first.len(), self.ranges - 1);
        // Behind it nothing is left if it was the last range of the last block.
        let is_last = ranges.len() == at && blocks.len() == block + 1;
        if blocks[block].1.is_empty() {
            blocks.remove(block);
        }
        if is_last {
            self.end = Some(gone.first);
        }
    }

    /// No element has a lesser key than `key`.
    pub(crate) fn begin(&mut self, key: &[u8]) {
        let first = self.blocks.first().and_then(|(_, ranges)| ranges.first());
        if first.is_none_or(|range| *range.first >= *key) {
            return;
        }
        if let Some((_, ranges)) = Arc::make_mut(&mut self.blocks).first_mut()
            && let Some(range) = Arc::make_mut(ranges).first_mut()
        {
            self.key_bytes = self.key_bytes - range.first.len() + key.len();
            range.first = key.into();
        }
    }

    /// Cuts the range that begins with `first` at the keys of `cuts`, each with the number of
    /// elements from it to the next one.
    pub(crate) fn cut(&mut self, first: &[u8], cuts: Vec<(Vec<u8>, u64)>) {
        let Some((block, at)) = self.places(first) else { return };
        let blocks = Arc::make_mut(&mut self.blocks);
        let ranges = Arc::make_mut(&mut blocks[block].1);
        let moved: u64 = cuts.iter().map(|(_, count)| count).sum();
        ranges[at].count = ranges[at].count.saturating_sub(moved);
        self.ranges += cuts.len();
        self.key_bytes += cuts.iter().map(|(key, _)| key.len()).sum::<usize>();
        let cuts = cuts.into_iter().map(|(key, count)| Range { first: key.into(), count });
        ranges.splice(at + 1..at + 1, cuts);
        if ranges.len() > RANGES_MAX {
            let parts: Vec<_> = ranges
                .chunks(RANGES_MAX / 2)
                .map(|part| {
                    let sum = part.iter().map(|range| range.count).sum();
                    (sum, Arc::new(part.to_vec()))
                })
                .collect();
            blocks.splice(block..=block, parts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::Prng;
    use std::collections::BTreeSet;

    /// Counts are those of `keys`, whatever their ranges are.
    fn check(counts: &Counts, keys: &BTreeSet<Vec<u8>>) {
        assert_eq!(counts.len(), keys.len() as u64);
        let (mut rank, mut key_bytes, mut ranges) = (0, 0, 0);
        while let Some(found) = counts.of_rank(rank) {
            let inside = |key: &&Vec<u8>| {
                **key >= found.first && found.end.as_ref().is_none_or(|end| *key < end)
            };
            let own: Vec<_> = keys.iter().filter(inside).collect();
            assert_eq!((found.before, found.count), (rank, own.len() as u64));
            assert_eq!(counts.of_key(own[0]), Some(found.clone()));
            assert_eq!(counts.of_key(own[own.len() - 1]), Some(found.clone()));
            rank += found.count;
            (key_bytes, ranges) = (key_bytes + found.first.len(), ranges + 1);
        }
        assert_eq!((rank, ranges), (keys.len() as u64, counts.ranges));
        assert_eq!(counts.key_bytes, key_bytes);
    }

    #[test]
    fn counts_follow_what_comes_and_goes() {
        for seed in 0..20 {
            let mut prng = Prng::new(seed);
            let (mut counts, mut keys) = (Counts::default(), BTreeSet::new());
            let key = |prng: &mut Prng| prng.below(5000).to_string().into_bytes();
            for _ in 0..seed * 300 {
                keys.insert(key(&mut prng));
            }
            keys.iter().for_each(|key| counts.push(key));
            check(&counts, &keys);
            for round in 0..3000 {
                let key = key(&mut prng);
                let before = counts.clone();
                let was = before.len();
                if prng.below(3) < if round < 1500 { 2 } else { 1 } {
                    if keys.insert(key.clone()) {
                        counts.add(&key);
                    }
                } else if keys.remove(&key) {
                    counts.remove(&key);
                }
                assert_eq!(before.len(), was, "a copy stays as it is");
                if round % 17 == 0
                    && let Some(least) = keys.first()
                {
                    counts.begin(least);
                    let first = counts.of_rank(0).map(|found| found.first);
                    assert_eq!(first.as_ref(), Some(least));
                }
                if let Some(found) = counts.of_key(&key).filter(|found| found.count > RANGE_MAX) {
                    let inside = |key: &&Vec<u8>| {
                        **key >= found.first && found.end.as_ref().is_none_or(|end| *key < end)
                    };
                    let own: Vec<_> = keys.iter().filter(inside).collect();
                    let cuts = own.chunks(RANGE as usize).skip(1);
                    let cuts = cuts.map(|part| (part[0].clone(), part.len() as u64));
                    counts.cut(&found.first, cuts.collect());
                }
                if round % 100 == 0 {
                    check(&counts, &keys);
                }
            }
            for key in std::mem::take(&mut keys) {
                counts.remove(&key);
            }
            check(&counts, &keys);
            assert_eq!(counts.held_bytes(), 0);
        }
    }
}
