//! What the words of a bucket mean: docs/formats/turbo.md. Nothing here touches a region.

use silica_base::match_bytes;

/// Bytes of a bucket, the unit in which persistent memory is written inside.
pub(super) const BUCKET_BYTES: u64 = 256;
/// Words of a bucket.
pub(super) const BUCKET_WORDS: usize = 32;
/// Slots of a bucket; one of them stays free for updates.
pub(super) const SLOTS: usize = 14;
/// Slots that inserts fill: what load factors are shares of, as in the paper.
pub(super) const FILLED_SLOTS: usize = SLOTS - 1;
/// Where the tags begin: two words, of which the second has six.
pub(super) const TAGS: u64 = 8;
/// Where the sum lies.
pub(super) const SUM: u64 = 24;
/// Where the slots begin.
const FIRST_SLOT: u64 = 32;
/// Bytes of a slot.
const SLOT_BYTES: u64 = 16;
/// A bit for each slot.
const ALL: u64 = (1 << SLOTS) - 1;
const SEQUENCE_SHIFT: u32 = 28;
const SEQUENCE: u64 = ((1 << 20) - 1) << SEQUENCE_SHIFT;
const CHECK_SHIFT: u32 = 48;
const STATES: u64 = (1 << SEQUENCE_SHIFT) - 1;
/// Odd numbers without a pattern: the fractional parts of square roots of primes.
const MIX: [u64; 4] =
    [0x6A09_E667_F3BC_C909, 0xBB67_AE85_84CA_A73B, 0x3C6E_F372_FE94_F82B, 0xA54F_F53A_5F1D_36F1];

/// Where a slot lies in its bucket.
#[inline]
pub(super) fn slot_at(slot: usize) -> u64 {
    FIRST_SLOT + slot as u64 * SLOT_BYTES
}

/// How an entry lies in its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Key and value.
    Inline,
    /// Hash of the key, and a pointer to the entry.
    Beside,
}

/// What a slot holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Empty,
    Deleted,
    Used(Kind),
}

/// A commit word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Commit(pub(super) u64);

impl Commit {
    /// Slots in use, a bit each.
    #[inline(always)]
    pub(super) fn used(self) -> u64 {
        (self.0 ^ self.0 >> SLOTS) & ALL
    }

    /// Empty slots.
    #[inline(always)]
    pub(super) fn empty(self) -> u64 {
        !(self.0 | self.0 >> SLOTS) & ALL
    }

    /// Deleted slots.
    #[inline(always)]
    pub(super) fn deleted(self) -> u64 {
        self.0 & self.0 >> SLOTS & ALL
    }

    /// Slots whose entries lie beside.
    #[inline(always)]
    pub(super) fn beside(self) -> u64 {
        !self.0 & self.0 >> SLOTS & ALL
    }

    /// True if searches end here.
    #[inline(always)]
    pub(super) fn is_path_end(self) -> bool {
        let empty = self.empty();
        empty & empty.wrapping_sub(1) != 0
    }

    /// How a slot in use holds its entry.
    #[inline(always)]
    pub(super) fn kind(self, slot: usize) -> Kind {
        if self.0 >> slot & 1 == 1 { Kind::Inline } else { Kind::Beside }
    }

    /// What a slot holds.
    pub(super) fn state(self, slot: usize) -> State {
        match (self.0 >> slot & 1, self.0 >> (slot + SLOTS) & 1) {
            (0, 0) => State::Empty,
            (1, 1) => State::Deleted,
            _ => State::Used(self.kind(slot)),
        }
    }

    /// The word with another state of a slot. It has to be sealed.
    #[inline]
    #[must_use]
    pub(super) fn with(self, slot: usize, state: State) -> Commit {
        let bits = match state {
            State::Empty => 0,
            State::Used(Kind::Inline) => 1,
            State::Used(Kind::Beside) => 1 << SLOTS,
            State::Deleted => 1 | 1 << SLOTS,
        };
        Commit(self.0 & !((1 | 1 << SLOTS) << slot) | bits << slot)
    }

    /// The word with the next sequence number and the check for `sum`.
    #[inline]
    #[must_use]
    pub(super) fn sealed(self, sum: u64) -> Commit {
        let next = self.0.wrapping_add(1 << SEQUENCE_SHIFT) & SEQUENCE;
        let low = self.0 & STATES | next;
        Commit(low | check(low, sum) << CHECK_SHIFT)
    }

    /// True if the word has the check for `sum`.
    #[inline]
    pub(super) fn is_sound(self, sum: u64) -> bool {
        self.0 >> CHECK_SHIFT == check(self.0 & (STATES | SEQUENCE), sum)
    }
}

#[inline]
fn check(low: u64, sum: u64) -> u64 {
    mixed(sum ^ low.wrapping_mul(MIX[3])) >> CHECK_SHIFT
}

/// Scrambles a word, one to one.
#[inline]
pub(super) fn mixed(mut word: u64) -> u64 {
    word = (word ^ word >> 32).wrapping_mul(MIX[0]);
    word = (word ^ word >> 29).wrapping_mul(MIX[1]);
    word ^ word >> 32
}

/// What the place of a bucket adds to its sum.
#[inline]
pub(super) fn place_sum(store: u64, bucket: u64) -> u64 {
    mixed(store ^ bucket.wrapping_mul(MIX[2]))
}

/// What a slot in use adds to its bucket's sum.
#[inline]
pub(super) fn slot_sum(slot: usize, kind: Kind, words: [u64; 2]) -> u64 {
    let number = 2 * slot as u32 + u32::from(kind == Kind::Beside);
    let place = MIX[2].wrapping_mul(2 * u64::from(number) + 1);
    let product = u128::from(words[0] ^ place) * u128::from(words[1] ^ MIX[3]);
    // The turned words count even if one factor is 0.
    let turned = words[0].rotate_left(number) ^ words[1].rotate_left(number + 32);
    product as u64 ^ (product >> 64) as u64 ^ turned
}

/// A bit for each slot that has the tag.
#[inline(always)]
pub(super) fn match_tags(tags: [u64; 2], tag: u8) -> u64 {
    u64::from(match_bytes(tags, tag)) & ALL
}

/// The word of tags that has the one of `slot`, and that word with it.
#[inline]
pub(super) fn with_tag(word: u64, slot: usize, tag: u8) -> u64 {
    let shift = 8 * (slot as u32 % 8);
    word & !(0xFF << shift) | u64::from(tag) << shift
}

/// Where the word of tags of a slot lies in its bucket.
#[inline]
pub(super) fn tag_word_at(slot: usize) -> u64 {
    TAGS + 8 * (slot as u64 / 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::Prng;

    #[test]
    fn states_of_all_slots_are_told_apart() {
        let mut prng = Prng::new(1);
        for _ in 0..2000 {
            let all = [
                State::Empty,
                State::Deleted,
                State::Used(Kind::Inline),
                State::Used(Kind::Beside),
            ];
            let states: [State; SLOTS] = std::array::from_fn(|_| all[prng.below(4) as usize]);
            let mut commit = Commit(prng.next_u64());
            for (slot, state) in states.iter().enumerate() {
                commit = commit.with(slot, *state);
            }
            commit = commit.sealed(7);
            let count = |of: State| states.iter().filter(|state| **state == of).count() as u32;
            for (slot, state) in states.iter().enumerate() {
                assert_eq!(commit.state(slot), *state);
                let bit = |mask: u64| mask >> slot & 1 == 1;
                assert_eq!(bit(commit.used()), matches!(state, State::Used(_)));
                assert_eq!(bit(commit.empty()), *state == State::Empty);
                assert_eq!(bit(commit.deleted()), *state == State::Deleted);
                assert_eq!(bit(commit.beside()), *state == State::Used(Kind::Beside));
            }
            assert_eq!(commit.is_path_end(), count(State::Empty) >= 2);
        }
    }

    #[test]
    fn a_seal_covers_every_bit_and_the_sum() {
        let commit = Commit(0x0AB_CDEF).sealed(99);
        assert!(commit.is_sound(99));
        assert_ne!(commit.sealed(99).0 & SEQUENCE, commit.0 & SEQUENCE);
        for bit in 0..64 {
            assert!(!Commit(commit.0 ^ 1 << bit).is_sound(99), "bit {bit} of the word");
            assert!(!commit.is_sound(99 ^ 1 << bit), "bit {bit} of the sum");
        }
        let last = Commit(SEQUENCE).sealed(1);
        assert_eq!(last.0 & SEQUENCE, 0, "the sequence number starts anew");
    }

    #[test]
    fn every_bit_of_a_slot_changes_the_sum() {
        let mut prng = Prng::new(2);
        for slot in 0..SLOTS {
            let words = [prng.next_u64(), prng.next_u64()];
            let sum = slot_sum(slot, Kind::Inline, words);
            assert_ne!(sum, slot_sum(slot, Kind::Beside, words));
            assert_ne!(sum, slot_sum((slot + 1) % SLOTS, Kind::Inline, words));
            for bit in 0..64 {
                assert_ne!(sum, slot_sum(slot, Kind::Inline, [words[0] ^ 1 << bit, words[1]]));
                assert_ne!(sum, slot_sum(slot, Kind::Inline, [words[0], words[1] ^ 1 << bit]));
            }
        }
    }

    #[test]
    fn the_slots_with_a_tag_are_found() {
        let mut prng = Prng::new(3);
        for _ in 0..20_000 {
            let mut few = || [0, 1, 0x7F, 0x80, 0xFF][prng.below(5) as usize];
            let tags: [u8; 16] = std::array::from_fn(|_| few());
            let tag = few();
            let words = [0, 1].map(|n| u64::from_le_bytes(tags.as_chunks::<8>().0[n]));
            let expected = (0..SLOTS).filter(|slot| tags[*slot] == tag);
            let expected = expected.fold(0, |mask, slot| mask | 1 << slot);
            assert_eq!(match_tags(words, tag), expected, "{tags:?} {tag}");
            let slot = prng.below(SLOTS as u64) as usize;
            let mut changed = words;
            changed[slot / 8] = with_tag(words[slot / 8], slot, 0x55);
            assert_eq!(match_tags(changed, 0x55), 1 << slot);
        }
    }
}
