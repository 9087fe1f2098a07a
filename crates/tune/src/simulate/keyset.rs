//! Sets of keys as bits.
//!
//! A level of a simulated store is such a set, and its tables are ranges of it. Merging a table
//! into the next level is an `or` of words, dense or sparse: what is empty is known a word, a block
//! of 64 words and 64 blocks at a time, and what a block has is counted as it comes.

/// Keys of a block.
const BLOCK_BITS: u32 = 12;
/// Words of a block, and bits of a word.
const WIDTH: usize = 64;

/// What is known of a block.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    /// Its words that have a key.
    live: u64,
    /// Its keys.
    count: u32,
}

/// A set of keys; it grows with the largest.
#[derive(Clone, Debug, Default)]
pub(super) struct KeySet {
    words: Vec<u64>,
    blocks: Vec<Block>,
    /// The blocks that have a key.
    live: Vec<u64>,
    count: usize,
}

/// The bits of a word from `low` to `high`, as numbers of keys of the whole set.
fn inside(word: usize, low: u32, high: u32) -> u64 {
    let (first, last) = (low as usize / WIDTH, high as usize / WIDTH);
    let mut mask = u64::MAX;
    if word == first {
        mask &= u64::MAX << (low % 64);
    }
    if word == last {
        mask &= u64::MAX >> (63 - high % 64);
    }
    mask
}

/// The words of a block that have keys from `low` to `high`, as bits.
fn words_inside(block: usize, low: u32, high: u32) -> u64 {
    let begin = block * WIDTH;
    let first = (low as usize / WIDTH).saturating_sub(begin).min(WIDTH - 1);
    let last = (high as usize / WIDTH - begin).min(WIDTH - 1);
    u64::MAX << first & u64::MAX >> (WIDTH - 1 - last)
}

/// Whether a block lies within `low` to `high`.
fn whole(block: usize, low: u32, high: u32) -> bool {
    let begin = (block as u64) << BLOCK_BITS;
    u64::from(low) <= begin && begin + (1 << BLOCK_BITS) - 1 <= u64::from(high)
}

/// The places of the bits that are set, from low to high.
fn ones(mut bits: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
        bits &= bits - 1;
        Some(at)
    })
}

impl KeySet {
    /// How many keys these are.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    fn grow(&mut self, blocks: usize) {
        if blocks > self.blocks.len() {
            self.blocks.resize(blocks, Block::default());
            self.words.resize(blocks * WIDTH, 0);
            self.live.resize(blocks.div_ceil(WIDTH), 0);
        }
    }

    /// Puts a key in; false where it was there.
    #[inline]
    pub(super) fn insert(&mut self, key: u32) -> bool {
        let word = key as usize / WIDTH;
        let block = word / WIDTH;
        if block >= self.blocks.len() {
            self.grow(block + 1);
        }
        let bit = 1 << (key % 64);
        let before = self.words[word];
        if before & bit != 0 {
            return false;
        }
        self.words[word] = before | bit;
        let known = &mut self.blocks[block];
        if known.count == 0 {
            self.live[block / WIDTH] |= 1 << (block % WIDTH);
        }
        known.live |= 1 << (word % WIDTH);
        known.count += 1;
        self.count += 1;
        true
    }

    /// The first block from `from` on that has a key.
    fn block_from(&self, from: usize) -> Option<usize> {
        let mut at = from / WIDTH;
        let mut bits = self.live.get(at)? & u64::MAX << (from % WIDTH);
        while bits == 0 {
            at += 1;
            bits = *self.live.get(at)?;
        }
        Some(at * WIDTH + bits.trailing_zeros() as usize)
    }

    /// The last block up to `to` that has a key.
    fn block_until(&self, to: usize) -> Option<usize> {
        let to = to.min(self.blocks.len().checked_sub(1)?);
        let mut at = to / WIDTH;
        let mut bits = self.live[at] & u64::MAX >> (WIDTH - 1 - to % WIDTH);
        while bits == 0 {
            at = at.checked_sub(1)?;
            bits = self.live[at];
        }
        Some(at * WIDTH + WIDTH - 1 - bits.leading_zeros() as usize)
    }

    /// The blocks that have a key and overlap `low` to `high`.
    fn blocks(&self, low: u32, high: u32) -> impl Iterator<Item = usize> + '_ {
        let last = high as usize >> BLOCK_BITS;
        let first = self.block_from(low as usize >> BLOCK_BITS);
        std::iter::successors(first, |block| self.block_from(block + 1))
            .take_while(move |block| *block <= last)
    }

    /// The words of a block that have keys from `low` to `high`: their number and those keys.
    fn bits(&self, block: usize, low: u32, high: u32) -> impl Iterator<Item = (usize, u64)> + '_ {
        let live = self.blocks[block].live & words_inside(block, low, high);
        ones(live).map(move |at| {
            let word = block * WIDTH + at;
            (word, self.words[word] & inside(word, low, high))
        })
    }

    /// How many keys there are from `low` to `high`.
    pub(super) fn count_of(&self, low: u32, high: u32) -> usize {
        let of = |block| match whole(block, low, high) {
            true => self.blocks[block].count as usize,
            false => self.bits(block, low, high).map(|(_, bits)| bits.count_ones() as usize).sum(),
        };
        self.blocks(low, high).map(of).sum()
    }

    /// The first key from `low` on.
    pub(super) fn first_from(&self, low: u32) -> Option<u32> {
        self.reach(low, u32::MAX, 1).map(|(key, _)| key)
    }

    /// The last key up to `high`.
    pub(super) fn last_until(&self, high: u32) -> Option<u32> {
        let mut block = self.block_until(high as usize >> BLOCK_BITS)?;
        loop {
            let low = (block << BLOCK_BITS) as u32;
            let found = self.bits(block, low, high).filter(|(_, bits)| *bits != 0).last();
            if let Some((word, bits)) = found {
                return Some((word * WIDTH + WIDTH - 1) as u32 - bits.leading_zeros());
            }
            block = self.block_until(block.checked_sub(1)?)?;
        }
    }

    /// The last of the first `most` keys from `low` to `high`, and how many these are.
    pub(super) fn reach(&self, low: u32, high: u32, most: usize) -> Option<(u32, usize)> {
        let mut taken = 0;
        for block in self.blocks(low, high) {
            let all = whole(block, low, high);
            if all && taken + self.blocks[block].count as usize <= most {
                taken += self.blocks[block].count as usize;
                if taken == most {
                    let end = ((block << BLOCK_BITS) + (1 << BLOCK_BITS) - 1) as u32;
                    return self.last_until(end).map(|key| (key, taken));
                }
                continue;
            }
            for (word, bits) in self.bits(block, low, high) {
                let count = bits.count_ones() as usize;
                if taken + count >= most {
                    let at = ones(bits).nth(most - taken - 1)?;
                    return Some(((word * WIDTH + at) as u32, most));
                }
                taken += count;
            }
        }
        if taken == 0 {
            return None;
        }
        self.last_until(high).map(|key| (key, taken))
    }

    /// Moves the keys from `low` to `high` into `to`.
    pub(super) fn drain(&mut self, low: u32, high: u32, to: &mut KeySet) {
        to.grow(self.blocks.len());
        let last = high as usize >> BLOCK_BITS;
        let mut next = self.block_from(low as usize >> BLOCK_BITS);
        while let Some(block) = next.filter(|block| *block <= last) {
            if whole(block, low, high) {
                self.drain_block(block, to);
            } else {
                self.drain_part(block, low, high, to);
            }
            next = self.block_from(block + 1);
        }
    }

    /// Moves all keys into `to`.
    pub(super) fn drain_all(&mut self, to: &mut KeySet) {
        self.drain(0, u32::MAX, to);
    }

    fn drain_block(&mut self, block: usize, to: &mut KeySet) {
        let known = std::mem::take(&mut self.blocks[block]);
        self.live[block / WIDTH] &= !(1 << (block % WIDTH));
        self.count -= known.count as usize;
        let begin = block * WIDTH;
        let from = &mut self.words[begin..begin + WIDTH];
        let there = &mut to.words[begin..begin + WIDTH];
        let mut fresh = 0;
        for at in ones(known.live) {
            let bits = std::mem::take(&mut from[at]);
            fresh += (bits & !there[at]).count_ones();
            there[at] |= bits;
        }
        to.add(block, known.live, fresh);
    }

    fn drain_part(&mut self, block: usize, low: u32, high: u32, to: &mut KeySet) {
        let live = self.blocks[block].live & words_inside(block, low, high);
        let (mut moved, mut fresh, mut touched) = (0, 0, 0);
        for at in ones(live) {
            let word = block * WIDTH + at;
            let bits = self.words[word] & inside(word, low, high);
            if bits == 0 {
                continue;
            }
            touched |= 1 << at;
            self.words[word] ^= bits;
            if self.words[word] == 0 {
                self.blocks[block].live ^= 1 << at;
            }
            moved += bits.count_ones();
            fresh += (bits & !to.words[word]).count_ones();
            to.words[word] |= bits;
        }
        self.blocks[block].count -= moved;
        if self.blocks[block].count == 0 {
            self.live[block / WIDTH] &= !(1 << (block % WIDTH));
        }
        self.count -= moved as usize;
        if touched != 0 {
            to.add(block, touched, fresh);
        }
    }

    /// Notes keys that came into a block.
    fn add(&mut self, block: usize, live: u64, fresh: u32) {
        self.blocks[block].live |= live;
        self.blocks[block].count += fresh;
        self.live[block / WIDTH] |= 1 << (block % WIDTH);
        self.count += fresh as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::Prng;
    use std::collections::BTreeSet;

    fn agree(set: &KeySet, model: &BTreeSet<u32>, prng: &mut Prng, keys: u64) {
        assert_eq!(set.count(), model.len());
        for _ in 0..50 {
            let (a, b) = (prng.below(keys) as u32, prng.below(keys) as u32);
            let (low, high) = (a.min(b), a.max(b));
            assert_eq!(set.count_of(low, high), model.range(low..=high).count());
            assert_eq!(set.first_from(low), model.range(low..).next().copied());
            assert_eq!(set.last_until(high), model.range(..=high).next_back().copied());
            let most = 1 + prng.below(1000) as usize;
            let taken: Vec<u32> = model.range(low..=high).take(most).copied().collect();
            assert_eq!(set.reach(low, high, most), taken.last().map(|last| (*last, taken.len())));
        }
    }

    #[test]
    fn sets_of_bits_are_sets() {
        let mut prng = Prng::new(9);
        for keys in [1, 64, 4096, 70_000, 400_000] {
            for inserts in [1, 40, 3000, 60_000] {
                let mut sets = [KeySet::default(), KeySet::default()];
                let mut models = [BTreeSet::new(), BTreeSet::new()];
                for round in 0..4 {
                    for _ in 0..inserts {
                        let key = prng.below(keys) as u32;
                        assert_eq!(sets[0].insert(key), models[0].insert(key));
                    }
                    agree(&sets[0], &models[0], &mut prng, keys);
                    let (a, b) = (prng.below(keys) as u32, prng.below(keys) as u32);
                    let (low, high) = (a.min(b), if round == 3 { u32::MAX } else { a.max(b) });
                    let [from, to] = &mut sets;
                    from.drain(low, high, to);
                    let [left, right] = &mut models;
                    right.extend(left.extract_if(low..=high, |_| true));
                    agree(&sets[0], &models[0], &mut prng, keys);
                    agree(&sets[1], &models[1], &mut prng, keys);
                }
            }
        }
    }
}
