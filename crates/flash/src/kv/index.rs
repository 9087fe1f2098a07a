//! Where items lie: 12 bytes for each, by a tag of the key's hash.

/// Where an item lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    /// Number of the block, or [`BUFFER`].
    pub(super) block: u32,
    /// Byte of the block where the item begins.
    pub(super) offset: u32,
}

/// The "block" of items that are not written yet.
pub(super) const BUFFER: u32 = u32::MAX - 1;
const EMPTY: u32 = u32::MAX;

#[derive(Clone, Copy)]
struct Slot {
    tag: u32,
    block: u32,
    offset: u32,
}

const FREE: Slot = Slot { tag: 0, block: EMPTY, offset: 0 };

/// An open-addressing table with linear probing. Several items may share a tag: the caller
/// compares keys.
pub(super) struct Index {
    slots: Vec<Slot>,
    len: usize,
}

impl Index {
    pub(super) fn new() -> Self {
        Index { slots: vec![FREE; 16], len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }

    fn tag(hash: u64) -> u32 {
        (hash >> 32) as u32
    }

    fn home(&self, tag: u32) -> usize {
        let mixed = u64::from(tag).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (mixed >> 32) as usize & (self.slots.len() - 1)
    }

    /// Spots of items that have the tag of `hash`.
    pub(super) fn candidates(&self, hash: u64) -> impl Iterator<Item = Spot> {
        let tag = Self::tag(hash);
        let mask = self.slots.len() - 1;
        let home = self.home(tag);
        (0..self.slots.len())
            .map(move |i| self.slots[(home + i) & mask])
            .take_while(|slot| slot.block != EMPTY)
            .filter(move |slot| slot.tag == tag)
            .map(|slot| Spot { block: slot.block, offset: slot.offset })
    }

    fn find(&self, hash: u64, spot: Spot) -> Option<usize> {
        let tag = Self::tag(hash);
        let mask = self.slots.len() - 1;
        let home = self.home(tag);
        (0..self.slots.len())
            .map(|i| (home + i) & mask)
            .take_while(|at| self.slots[*at].block != EMPTY)
            .find(|at| {
                let slot = self.slots[*at];
                slot.tag == tag && slot.block == spot.block && slot.offset == spot.offset
            })
    }

    pub(super) fn insert(&mut self, hash: u64, spot: Spot) {
        // A quarter stays empty, so that probes end soon.
        if (self.len + 1) * 4 > self.slots.len() * 3 {
            self.grow();
        }
        self.place(Slot { tag: Self::tag(hash), block: spot.block, offset: spot.offset });
        self.len += 1;
    }

    fn place(&mut self, slot: Slot) {
        let mask = self.slots.len() - 1;
        let mut at = self.home(slot.tag);
        while self.slots[at].block != EMPTY {
            at = (at + 1) & mask;
        }
        self.slots[at] = slot;
    }

    fn grow(&mut self) {
        let doubled = vec![FREE; self.slots.len() * 2];
        let old = std::mem::replace(&mut self.slots, doubled);
        old.into_iter().filter(|slot| slot.block != EMPTY).for_each(|slot| self.place(slot));
    }

    /// Moves an item; false if it was not there.
    pub(super) fn move_to(&mut self, hash: u64, from: Spot, to: Spot) -> bool {
        let Some(at) = self.find(hash, from) else { return false };
        (self.slots[at].block, self.slots[at].offset) = (to.block, to.offset);
        true
    }

    /// Removes an item; false if it was not there.
    pub(super) fn remove(&mut self, hash: u64, spot: Spot) -> bool {
        let Some(at) = self.find(hash, spot) else { return false };
        self.remove_at(at);
        true
    }

    fn remove_at(&mut self, mut hole: usize) {
        let mask = self.slots.len() - 1;
        self.len -= 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot.block == EMPTY {
                break;
            }
            // A slot may move back if its home does not lie behind the hole.
            let behind_home = at.wrapping_sub(self.home(slot.tag)) & mask;
            let behind_hole = at.wrapping_sub(hole) & mask;
            if behind_home >= behind_hole {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = FREE;
    }

    /// Removes all items of a block, by a look at every slot.
    pub(super) fn remove_block(&mut self, block: u32) -> usize {
        let before = self.len;
        let mut at = 0;
        while at < self.slots.len() {
            match self.slots[at].block == block {
                true => self.remove_at(at),
                false => at += 1,
            }
        }
        before - self.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::{Prng, test_size};
    use std::collections::BTreeSet;

    #[test]
    fn items_are_where_a_set_of_them_has_them() {
        for seed in 0..test_size(30, 300, 3_000) {
            let mut prng = Prng::new(seed);
            let mut index = Index::new();
            let mut model: BTreeSet<(u64, u32, u32)> = BTreeSet::new();
            // Few tags, so that probes are long and go around the end.
            let hash = |prng: &mut Prng| (prng.below(40) << 32) | 7;
            for _ in 0..600 {
                let (of, block) = (hash(&mut prng), prng.below(4) as u32);
                let spot = Spot { block, offset: prng.below(30) as u32 };
                let entry = (of, spot.block, spot.offset);
                match prng.below(8) {
                    0..4 if model.insert(entry) => index.insert(of, spot),
                    4..6 => assert_eq!(index.remove(of, spot), model.remove(&entry)),
                    6 => {
                        let to = Spot { block: 9, offset: spot.offset };
                        if model.remove(&entry) && model.insert((of, 9, spot.offset)) {
                            assert!(index.move_to(of, spot, to));
                        } else if !model.contains(&entry) {
                            index.remove(of, spot);
                        }
                    }
                    7 if prng.one_in(20) => {
                        let count = model.iter().filter(|entry| entry.1 == block).count();
                        assert_eq!(index.remove_block(block), count, "seed {seed}");
                        model.retain(|entry| entry.1 != block);
                    }
                    _ => {}
                }
                assert_eq!(index.len(), model.len(), "seed {seed}");
                let found: BTreeSet<_> =
                    index.candidates(of).map(|spot| (of, spot.block, spot.offset)).collect();
                let expected: BTreeSet<_> =
                    model.iter().filter(|entry| entry.0 == of).copied().collect();
                assert_eq!(found, expected, "seed {seed}");
            }
        }
    }
}
