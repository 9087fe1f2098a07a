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

/// How the bits of a word are shared among keys. Plain keys have a bit each. Items of different
/// size have a field of bits each, as many of them set as they have units; then what is counted
/// is units, and an item that is put again takes the whole field.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fields {
    /// Logarithm of a field's bits.
    pub(super) shift: u32,
    /// Units of a tombstone; the highest bit of its field says that it is one.
    pub(super) tombstone: u32,
    /// Whether tombstones go where they arrive.
    pub(super) drops: bool,
}

impl Fields {
    fn width(self) -> u32 {
        1 << self.shift
    }

    /// A bit in each field, the lowest.
    fn lowest(self) -> u64 {
        u64::MAX / (u64::MAX >> (64 - self.width()))
    }

    /// All bits of the fields that have one of `bits`.
    fn taken(self, mut bits: u64) -> u64 {
        for step in 0..self.shift {
            bits |= bits >> (1 << step);
        }
        // What came from the field above lies above the lowest bit only where widths are powers.
        (bits & self.lowest()) * (u64::MAX >> (64 - self.width()))
    }

    /// The bits that are not of tombstones.
    fn without_tombstones(self, bits: u64) -> u64 {
        let marks = bits & self.lowest() << (self.width() - 1);
        bits & !self.taken(marks)
    }

    /// Units of the item that a code asks to put: its number in the field, and 1; the last number
    /// is the tombstone's.
    pub(super) fn units(self, code: u32) -> u32 {
        let number = code & (self.width() - 1);
        if self.shift > 0 && number == self.width() - 1 { self.tombstone } else { number + 1 }
    }

    /// The word of a code, the bits of its field, and those that are set in it.
    fn item(self, code: u32) -> (usize, u64, u64) {
        let (number, begin) = (code & (self.width() - 1), (code % 64) & !(self.width() - 1));
        let ones = |count: u32| u64::MAX >> (64 - count);
        let bits = match number == self.width() - 1 {
            true => ones(self.tombstone) << (self.width() - self.tombstone),
            false => ones(number + 1),
        };
        (code as usize / WIDTH, ones(self.width()) << begin, bits << begin)
    }
}

/// A set of keys; it grows with the largest.
#[derive(Clone, Debug, Default)]
pub(super) struct KeySet {
    fields: Fields,
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
    /// An empty set of items.
    pub(super) fn of(fields: Fields) -> Self {
        KeySet { fields, ..KeySet::default() }
    }

    /// How keys share a word.
    pub(super) fn fields(&self) -> Fields {
        self.fields
    }

    /// How many keys these are, or units.
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

    /// Puts a key in, or the item of a code; false where it was there.
    #[inline]
    pub(super) fn insert(&mut self, key: u32) -> bool {
        if self.fields.shift > 0 {
            return self.insert_item(key);
        }
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

    fn insert_item(&mut self, code: u32) -> bool {
        let (word, field, bits) = self.fields.item(code);
        self.grow(word / WIDTH + 1);
        let was_there = self.words[word] & field != 0;
        self.replace(word, field, bits);
        !was_there
    }

    /// Sets the bits of whole fields of a word.
    fn replace(&mut self, word: usize, fields: u64, bits: u64) {
        let bits = if self.fields.drops { self.fields.without_tombstones(bits) } else { bits };
        let before = self.words[word];
        let after = before & !fields | bits;
        self.words[word] = after;
        let (less, more) = (before.count_ones(), after.count_ones());
        self.count = self.count + more as usize - less as usize;
        let (block, at) = (word / WIDTH, word % WIDTH);
        let known = &mut self.blocks[block];
        known.count = known.count + more - less;
        known.live = known.live & !(1 << at) | u64::from(after != 0) << at;
        let (of, at) = (block / WIDTH, block % WIDTH);
        self.live[of] = self.live[of] & !(1 << at) | u64::from(known.count != 0) << at;
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
        self.reach_bits(low, u32::MAX, 1).map(|(key, _)| key & !(self.fields.width() - 1))
    }

    /// The last key up to `high`; of items the end of its field.
    pub(super) fn last_until(&self, high: u32) -> Option<u32> {
        self.last_bit_until(high).map(|key| key | (self.fields.width() - 1))
    }

    fn last_bit_until(&self, high: u32) -> Option<u32> {
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

    /// The last of the first `most` keys from `low` to `high`, and how many these are; an item is
    /// whole, so it may be a little more.
    pub(super) fn reach(&self, low: u32, high: u32, most: usize) -> Option<(u32, usize)> {
        let (last, count) = self.reach_bits(low, high, most)?;
        let end = last | (self.fields.width() - 1);
        let more = if last < end { self.count_of(last + 1, end) } else { 0 };
        Some((end, count + more))
    }

    fn reach_bits(&self, low: u32, high: u32, most: usize) -> Option<(u32, usize)> {
        let mut taken = 0;
        for block in self.blocks(low, high) {
            let all = whole(block, low, high);
            if all && taken + self.blocks[block].count as usize <= most {
                taken += self.blocks[block].count as usize;
                if taken == most {
                    let end = ((block << BLOCK_BITS) + (1 << BLOCK_BITS) - 1) as u32;
                    return self.last_bit_until(end).map(|key| (key, taken));
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
        self.last_bit_until(high).map(|key| (key, taken))
    }

    /// Moves the keys from `low` to `high` into `to`.
    pub(super) fn drain(&mut self, low: u32, high: u32, to: &mut KeySet) {
        to.grow(self.blocks.len());
        let last = high as usize >> BLOCK_BITS;
        let mut next = self.block_from(low as usize >> BLOCK_BITS);
        while let Some(block) = next.filter(|block| *block <= last) {
            if self.fields.shift > 0 {
                self.drain_items(block, low, high, to);
            } else if whole(block, low, high) {
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

    /// Items that arrive are newer than those that are there.
    fn drain_items(&mut self, block: usize, low: u32, high: u32, to: &mut KeySet) {
        for at in ones(self.blocks[block].live & words_inside(block, low, high)) {
            let word = block * WIDTH + at;
            let bits = self.words[word] & inside(word, low, high);
            let fields = self.fields.taken(bits);
            self.replace(word, fields, 0);
            to.replace(word, fields, bits);
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

    /// Items and tombstones against a map, newest over oldest.
    #[test]
    fn sets_of_items_are_maps() {
        use std::collections::BTreeMap;
        let mut prng = Prng::new(4);
        for (shift, tombstone) in [(1, 1), (3, 2), (6, 1), (6, 40)] {
            let fields = Fields { shift, tombstone, drops: false };
            let last = Fields { drops: true, ..fields };
            let mut sets = [KeySet::of(fields), KeySet::of(fields), KeySet::of(last)];
            let mut maps: [BTreeMap<u32, u32>; 3] = Default::default();
            for round in 0..60 {
                for _ in 0..prng.below(400) {
                    let key = prng.below(3000) as u32;
                    let number = prng.below(u64::from(fields.width())) as u32;
                    let code = key << shift | number;
                    assert_eq!(sets[0].insert(code), maps[0].insert(key, code).is_none());
                }
                let from = usize::from(round % 3 == 0);
                let (a, b) = (prng.below(3000) as u32, prng.below(3000) as u32);
                let (low, high) = (a.min(b), a.max(b));
                let [first, second] = sets.get_disjoint_mut([from, from + 1]).unwrap();
                first.drain(low << shift, (high << shift) + fields.width() - 1, second);
                let moved: Vec<_> = maps[from].extract_if(low..=high, |_, _| true).collect();
                maps[from + 1].extend(moved);
                let is_tombstone = |code: u32| code % fields.width() == fields.width() - 1;
                maps[2].retain(|_, code| !is_tombstone(*code));
                for (set, map) in sets.iter().zip(&maps) {
                    let units = |map: &BTreeMap<u32, u32>, low: u32, high: u32| -> usize {
                        map.range(low..=high).map(|(_, code)| fields.units(*code) as usize).sum()
                    };
                    assert_eq!(set.count(), units(map, 0, u32::MAX), "{shift}");
                    let end = (high << shift) + fields.width() - 1;
                    assert_eq!(set.count_of(low << shift, end), units(map, low, high));
                    let key = map.range(low..).next().map(|(key, _)| key << shift);
                    assert_eq!(set.first_from(low << shift), key);
                    let Some((reached, count)) = set.reach(low << shift, end, 50) else { continue };
                    let reached = reached >> shift;
                    assert_eq!(count, units(map, low, reached));
                    assert!(count >= 50 || units(map, low, high) == count);
                    assert!(reached == low || units(map, low, reached - 1) < 50);
                }
            }
            assert!(maps.iter().all(|map| map.len() > 100), "{shift}");
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
