//! Where things lie in a leaf and in the root, and how they are checked: docs/formats/sptree.md.

use silica_engine::EntryRef;

/// Bytes of a leaf: five XPLines.
pub(crate) const LEAF_BYTES: u64 = 1280;
/// Leaves lie at multiples of this.
pub(crate) const LEAF_ALIGNMENT: u64 = 256;
/// Slots of a leaf.
pub(crate) const SLOTS: usize = 64;
/// Entries of a leaf at most: an update needs a free slot.
pub(crate) const ENTRIES_MAX: usize = SLOTS - 1;

/// Offsets in a leaf.
pub(crate) const BITMAP: u64 = 0;
pub(crate) const SUM: u64 = 8;
pub(crate) const PLAIN: u64 = 16;
pub(crate) const NEXT: u64 = 24;
pub(crate) const LOW_HEAD: u64 = 32;
pub(crate) const LOW_AT: u64 = 40;
pub(crate) const HEAD_SUM: u64 = 48;
pub(crate) const ORDER: u64 = 56;
pub(crate) const TAGS: u64 = 64;
pub(crate) const SEQUENCE: u64 = 128;
pub(crate) const ENTRIES: u64 = 192;
pub(crate) const SLOT_BYTES: u64 = 16;

/// Bits of an offset in a region.
pub(crate) const OFFSET_BITS: u32 = 48;
pub(crate) const OFFSET_MASK: u64 = (1 << OFFSET_BITS) - 1;

/// Longest key that a slot has room for.
pub(crate) const INLINE_KEY_BYTES: usize = 8;
/// Longest value of a short slot.
const SHORT_VALUE_BYTES: usize = 6;
/// Set in the top byte of the body of a short slot.
const IS_SHORT: u8 = 0x80;

/// The first eight bytes of a key, as a number that compares as they do.
#[inline(always)]
pub(crate) fn head(key: &[u8]) -> u64 {
    if let Some(first) = key.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    let mut bytes = [0; 8];
    bytes[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(bytes)
}

/// What a slot holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Eight bytes of key and eight of value.
    Plain,
    /// A key and a value that are shorter.
    Short { key_len: usize, value_len: usize },
    /// An entry beside the leaf, at this offset.
    Beside(u64),
}

/// A slot: the first bytes of the key, and the value or where the entry lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) head: u64,
    pub(crate) body: u64,
    pub(crate) tag: u8,
    pub(crate) is_plain: bool,
}

impl Slot {
    /// The slot of an entry that needs no room beside the leaf.
    #[inline]
    pub(crate) fn inline(key: &[u8], entry: &EntryRef<'_>, tag: u8) -> Option<Slot> {
        let value = entry.value;
        if key.len() > INLINE_KEY_BYTES || entry.expires_unix_ms != 0 || entry.user_bits != 0 {
            return None;
        }
        let head = head(key);
        if let (8, Ok(value)) = (key.len(), value.try_into()) {
            return Some(Slot { head, body: u64::from_le_bytes(value), tag, is_plain: true });
        }
        if value.len() > SHORT_VALUE_BYTES {
            return None;
        }
        let mut body = [0; 8];
        body[..value.len()].copy_from_slice(value);
        (body[6], body[7]) = (value.len() as u8, IS_SHORT | key.len() as u8);
        Some(Slot { head, body: u64::from_le_bytes(body), tag, is_plain: false })
    }

    /// The slot of an entry that lies at `offset`, whose key has this hash.
    pub(crate) fn beside(key: &[u8], offset: u64, hash: u64) -> Slot {
        let body = offset | second_tag(hash) << OFFSET_BITS;
        Slot { head: head(key), body, tag: tag_of(hash), is_plain: false }
    }

    /// True if a key with this hash may be the slot's.
    pub(crate) fn fits(&self, hash: u64) -> bool {
        let has_second = self.beside_at().is_none() || self.body >> OFFSET_BITS == second_tag(hash);
        self.tag == tag_of(hash) && has_second
    }

    /// `None` if it is damaged, or read while it changed.
    #[inline(always)]
    pub(crate) fn form(&self) -> Option<Form> {
        if self.is_plain {
            return Some(Form::Plain);
        }
        let [.., value_len, kind] = self.body.to_le_bytes();
        let (key_len, value_len) = (usize::from(kind & !IS_SHORT), usize::from(value_len));
        match kind & IS_SHORT {
            0 if kind == 0 => Some(Form::Beside(self.body & OFFSET_MASK)),
            0 => None,
            _ if key_len > INLINE_KEY_BYTES || value_len > SHORT_VALUE_BYTES => None,
            _ => Some(Form::Short { key_len, value_len }),
        }
    }

    /// Where the entry lies, if it is beside the leaf.
    pub(crate) fn beside_at(&self) -> Option<u64> {
        match self.form() {
            Some(Form::Beside(offset)) => Some(offset),
            _ => None,
        }
    }

    /// What the slot adds to its leaf's sum if it is slot `at` of the leaf at `leaf`.
    #[inline]
    pub(crate) fn sum(&self, store: u64, leaf: u64, at: usize) -> u32 {
        let place = leaf << 8 | (at as u64) << 2 | u64::from(self.is_plain);
        let mut mixed = mix(store ^ place, self.head);
        mixed = mix(mixed, self.body);
        fold(mix(mixed, u64::from(self.tag) | 0x5350 << 8))
    }
}

/// Mixes a word into a sum. For a given sum, different words give different results.
#[inline(always)]
fn mix(sum: u64, word: u64) -> u64 {
    let mixed = (sum ^ word).wrapping_mul(0x9FB2_1C65_1E98_DF25);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    mixed ^ mixed >> 29
}

#[inline(always)]
fn fold(sum: u64) -> u32 {
    (sum ^ sum >> 32) as u32
}

/// The check of a word of which `low` are the lower 48 bits, for the word at `offset`.
pub(crate) fn checked(store: u64, offset: u64, low: u64) -> u64 {
    let sum = mix(mix(store, offset), low);
    low | u64::from(fold(sum) as u16) << OFFSET_BITS
}

/// The lower 48 bits of a word of [`checked`]; `None` if it is damaged.
pub(crate) fn unchecked(store: u64, offset: u64, word: u64) -> Option<u64> {
    let low = word & OFFSET_MASK;
    (checked(store, offset, low) == word).then_some(low)
}

/// What a leaf's mark adds to its sum, so that a damaged mark is found with the sum.
fn mark_sum(store: u64, leaf: u64, mark: u32) -> u32 {
    if mark == 0 { 0 } else { fold(mix(mix(store, leaf), u64::from(mark))) }
}

/// The word of a leaf's sum and its mark.
#[inline]
pub(crate) fn sum_word(store: u64, leaf: u64, sum: u32, mark: u32) -> u64 {
    u64::from(sum ^ mark_sum(store, leaf, mark)) | u64::from(mark) << 32
}

/// The sum in a word of [`sum_word`].
#[inline]
pub(crate) fn sum_of(store: u64, leaf: u64, word: u64) -> u32 {
    word as u32 ^ mark_sum(store, leaf, mark_of(word))
}

/// The mark in a word of [`sum_word`].
#[inline]
pub(crate) fn mark_of(word: u64) -> u32 {
    (word >> 32) as u32
}

/// The check of a record of the log: of its words, where it lies, and its segment's lap.
pub(crate) fn record_sum(store: u64, lap: u64, at: u64, words: [u64; 4]) -> u32 {
    fold(words.into_iter().fold(mix(mix(store, lap), at), mix))
}

/// The check of what of a leaf's header never changes.
pub(crate) fn head_sum(store: u64, leaf: u64, low_head: u64, low_at: u64) -> u64 {
    mix(mix(mix(store, leaf), low_head), low_at)
}

/// The word that says for which entries a leaf's sequence array holds: slots in use, and their sum.
pub(crate) fn order_word(bitmap: u64, sum: u32, sequence: &[u64; 8]) -> u64 {
    sequence.iter().fold(mix(bitmap, u64::from(sum)), |mixed, word| mix(mixed, *word))
}

/// A byte of the hash that neither tag nor filter has.
fn second_tag(hash: u64) -> u64 {
    hash >> OFFSET_BITS & 0xFF
}

/// The tag of a key with this hash.
#[inline(always)]
pub(crate) fn tag_of(hash: u64) -> u8 {
    (hash >> 56) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_entries_are_inline_and_told_apart() {
        let value = |len: usize| vec![7; len];
        for key_len in 0..10 {
            for value_len in 0..10 {
                let (key, value) = (vec![b'k'; key_len], value(value_len));
                let slot = Slot::inline(&key, &EntryRef::new(&value), 9);
                let is_plain = key_len == 8 && value_len == 8;
                assert_eq!(slot.is_some(), is_plain || (key_len <= 8 && value_len <= 6));
                let Some(slot) = slot else { continue };
                let form = slot.form().unwrap();
                let short = Form::Short { key_len, value_len };
                assert_eq!(form, if is_plain { Form::Plain } else { short });
            }
        }
        let meta = EntryRef { value: b"v", expires_unix_ms: 1, user_bits: 0 };
        assert_eq!(Slot::inline(b"k", &meta, 0), None);
        assert_eq!(Slot::beside(b"key", 4096, 1 << 50).beside_at(), Some(4096));
        assert_eq!(Slot { body: 1 << 57, ..Slot::beside(b"", 0, 0) }.form(), None);
    }

    #[test]
    fn a_changed_bit_changes_a_sum() {
        let slot = Slot { head: 5, body: 6, tag: 7, is_plain: true };
        let sum = slot.sum(1, 4096, 3);
        for bit in 0..64 {
            assert_ne!(Slot { head: 5 ^ 1 << bit, ..slot }.sum(1, 4096, 3), sum);
            assert_ne!(Slot { body: 6 ^ 1 << bit, ..slot }.sum(1, 4096, 3), sum);
            let word = checked(1, 64, 4096);
            assert_eq!(unchecked(1, 64, word), Some(4096));
            assert_eq!(unchecked(1, 64, word ^ 1 << bit), None, "bit {bit}");
        }
        for other in [(2, 4096, 3), (1, 8192, 3), (1, 4096, 4)] {
            assert_ne!(slot.sum(other.0, other.1, other.2), sum);
        }
    }

    #[test]
    fn heads_compare_as_keys_do() {
        let keys: [&[u8]; 6] = [b"", b"a", b"ab", b"abcdefgh", b"b", b"\xff"];
        assert!(keys.is_sorted_by_key(|key| head(key)));
        assert_eq!(head(b"abcdefghi"), head(b"abcdefgh"));
    }
}
