//! A leaf in the region (section 4.4.1, bottom layer): how it is read.
//!
//! Whoever reads without the node's lock checks the node's version afterwards: until then what was
//! read may be of two moments, and [`Torn`] need not mean damage.

use super::entry::{Header, Torn};
use super::layout::{
    BITMAP, ENTRIES, Form, HEAD_SUM, INLINE_KEY_BYTES, LEAF_ALIGNMENT, LEAF_BYTES, LOW_AT,
    LOW_HEAD, NEXT, OFFSET_BITS, ORDER, PLAIN, SEQUENCE, SLOT_BYTES, SLOTS, SUM, Slot, TAGS, head,
    head_sum, mark_of, order_word, sum_of, unchecked,
};
use super::tags::match_tags;
use crate::space::Space;
use silica_base::Checksum;
use silica_device::region::Region;

/// Bits of the length of a leaf's lowest key in its word.
const LOW_LEN_BITS: u32 = 17;

/// The leaf at `at`.
pub(crate) struct Leaf<'s, R> {
    pub(crate) space: &'s Space<R>,
    pub(crate) at: u64,
}

impl<R> Clone for Leaf<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Leaf<'_, R> {}

/// What a value comes with.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Meta {
    pub(crate) expires_unix_ms: u64,
    pub(crate) user_bits: u32,
}

/// A value that was read, or its length if it is larger than what was allowed.
pub(crate) enum Value {
    /// Behind so many bytes of what was appended.
    Read(Meta, usize),
    Large(usize),
}

/// Slots of a leaf in the order of their keys.
pub(crate) struct Ordered {
    slots: [u8; SLOTS],
    len: usize,
}

impl Ordered {
    pub(crate) fn slots(&self) -> &[u8] {
        &self.slots[..self.len]
    }
}

/// The set bits of a bitmap, lowest first.
pub(crate) fn bits(mut bitmap: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = bitmap.trailing_zeros();
        bitmap &= bitmap.wrapping_sub(1);
        (at < 64).then_some(at as usize)
    })
}

impl<'s, R: Region> Leaf<'s, R> {
    pub(crate) fn new(space: &'s Space<R>, at: u64) -> Self {
        Leaf { space, at }
    }

    #[inline(always)]
    pub(crate) fn region(&self) -> &'s R {
        self.space.region()
    }

    #[inline(always)]
    pub(crate) fn word(&self, offset: u64) -> u64 {
        self.region().word(self.at + offset)
    }

    /// A bit for each slot in use.
    #[inline(always)]
    pub(crate) fn bitmap(&self) -> u64 {
        self.word(BITMAP)
    }

    /// Asks the processor for what a search reads first.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        self.region().prefetch(self.at);
        self.region().prefetch(self.at + TAGS);
    }

    /// Asks the processor for all that is in the leaf.
    #[inline(always)]
    pub(crate) fn prefetch_whole(&self) {
        (0..LEAF_BYTES).step_by(64).for_each(|at| self.region().prefetch(self.at + at));
    }

    /// A bit for each slot whose entry has eight bytes of key and eight of value.
    #[inline(always)]
    pub(crate) fn plain(&self) -> u64 {
        self.word(PLAIN)
    }

    /// Head and body of slot `at`.
    #[inline(always)]
    pub(crate) fn pair(&self, at: usize) -> [u64; 2] {
        let offset = self.slot_at(at);
        [self.region().word(offset), self.region().word(offset + 8)]
    }

    /// Asks the processor for slot `at`.
    #[inline(always)]
    pub(crate) fn prefetch_slot(&self, at: usize) {
        self.region().prefetch(self.slot_at(at));
    }

    #[inline(always)]
    pub(crate) fn slot_at(&self, at: usize) -> u64 {
        self.at + ENTRIES + at as u64 * SLOT_BYTES
    }

    #[inline(always)]
    fn words(&self, offset: u64) -> [u64; 8] {
        std::array::from_fn(|at| self.word(offset + 8 * at as u64))
    }

    /// Slot `at`.
    #[inline(always)]
    pub(crate) fn slot(&self, at: usize) -> Slot {
        let offset = self.slot_at(at);
        let region = self.region();
        let tags = self.word(TAGS + (at as u64 & !7));
        Slot {
            head: region.word(offset),
            body: region.word(offset + 8),
            tag: (tags >> (8 * (at % 8))) as u8,
            is_plain: self.word(PLAIN) >> at & 1 == 1,
        }
    }

    /// Slots in use whose tag is `tag`.
    #[inline(always)]
    pub(crate) fn candidates(&self, tag: u8) -> u64 {
        match_tags(&self.words(TAGS), tag) & self.bitmap()
    }

    /// The slot of `key`, whose tag is `tag`.
    #[inline]
    pub(crate) fn find(&self, key: &[u8], tag: u8) -> Result<Option<(usize, Slot)>, Torn> {
        self.find_among(self.candidates(tag), key)
    }

    /// The slot of `key`, if it is one of `candidates`.
    #[inline]
    pub(crate) fn find_among(
        &self,
        candidates: u64,
        key: &[u8],
    ) -> Result<Option<(usize, Slot)>, Torn> {
        let wanted = head(key);
        for at in bits(candidates) {
            let slot = self.slot(at);
            if slot.head == wanted && self.has_key(at, &slot, key)? {
                return Ok(Some((at, slot)));
            }
        }
        Ok(None)
    }

    /// True if the slot, whose head is that of `key`, has `key`.
    #[inline(always)]
    pub(crate) fn has_key(&self, at: usize, slot: &Slot, key: &[u8]) -> Result<bool, Torn> {
        Ok(match self.form(at, slot)? {
            Form::Plain => key.len() == INLINE_KEY_BYTES,
            Form::Short { key_len, .. } => key.len() == key_len,
            Form::Beside(offset) => {
                let header = Header::read(self.region(), offset)?;
                header.has_key(self.region(), key)
            }
        })
    }

    #[inline(always)]
    pub(crate) fn form(&self, at: usize, slot: &Slot) -> Result<Form, Torn> {
        slot.form().ok_or(Torn { at: self.slot_at(at) })
    }

    /// Appends the key of a slot to `out`.
    pub(crate) fn read_key(&self, at: usize, slot: &Slot, out: &mut Vec<u8>) -> Result<(), Torn> {
        match self.form(at, slot)? {
            Form::Plain => out.extend_from_slice(&slot.head.to_be_bytes()),
            Form::Short { key_len, .. } => {
                out.extend_from_slice(&slot.head.to_be_bytes()[..key_len]);
            }
            Form::Beside(offset) => {
                Header::read(self.region(), offset)?.read_key(self.region(), out);
            }
        }
        Ok(())
    }

    /// Appends the value of a slot to `out`, unless it has more than `bytes_max` bytes.
    #[inline(always)]
    pub(crate) fn read_value(
        &self,
        at: usize,
        slot: &Slot,
        out: &mut Vec<u8>,
        bytes_max: usize,
    ) -> Result<Value, Torn> {
        let value = slot.body.to_le_bytes();
        let value = match self.form(at, slot)? {
            Form::Plain => &value[..],
            Form::Short { value_len, .. } => &value[..value_len],
            Form::Beside(offset) => {
                let header = Header::read(self.region(), offset)?;
                if header.value_len > bytes_max {
                    return Ok(Value::Large(header.value_len));
                }
                header.read_whole(self.space, out)?;
                let Header { expires_unix_ms, user_bits, key_len, .. } = header;
                return Ok(Value::Read(Meta { expires_unix_ms, user_bits }, key_len));
            }
        };
        out.extend_from_slice(value);
        Ok(Value::Read(Meta::default(), 0))
    }

    /// What a slot's value comes with.
    pub(crate) fn read_meta(&self, at: usize, slot: &Slot) -> Result<Meta, Torn> {
        let Form::Beside(offset) = self.form(at, slot)? else { return Ok(Meta::default()) };
        let Header { expires_unix_ms, user_bits, .. } = Header::read(self.region(), offset)?;
        Ok(Meta { expires_unix_ms, user_bits })
    }

    /// The sum over the slots of `bitmap`.
    pub(crate) fn sum(&self, bitmap: u64) -> u32 {
        let store = self.space.store();
        bits(bitmap).fold(0, |sum, at| sum ^ self.slot(at).sum(store, self.at, at))
    }

    /// The sum that the leaf says it has.
    #[inline(always)]
    pub(crate) fn known_sum(&self) -> u32 {
        sum_of(self.space.store(), self.at, self.word(SUM))
    }

    /// The leaf's mark: records of the log count for the leaf if they have it.
    #[inline(always)]
    pub(crate) fn mark(&self) -> u32 {
        mark_of(self.word(SUM))
    }

    /// True if `difference`, of the leaf's sum and the one it says, is what a change of one key
    /// leaves if of bitmap and sum only one survived: a slot that came or went, or one for another.
    pub(crate) fn is_explained(&self, bitmap: u64, difference: u32) -> bool {
        let store = self.space.store();
        let sums: [u32; SLOTS] = std::array::from_fn(|at| self.slot(at).sum(store, self.at, at));
        let is_one = sums.contains(&difference);
        is_one
            || bits(bitmap)
                .any(|now| bits(!bitmap).any(|then| sums[now] ^ sums[then] == difference))
    }

    /// The leaf behind this one, `None` at the end.
    pub(crate) fn next(&self) -> Result<Option<u64>, Torn> {
        let at = self.at + NEXT;
        let next = unchecked(self.space.store(), at, self.region().word(at)).ok_or(Torn { at })?;
        Ok((next != 0).then_some(next))
    }

    /// The first key that belongs here, and where it lies if it has no room in the header.
    pub(crate) fn low(&self) -> Result<(Vec<u8>, Option<u64>), Torn> {
        let (low_head, low_at) = (self.word(LOW_HEAD), self.word(LOW_AT));
        if head_sum(self.space.store(), self.at, low_head, low_at) != self.word(HEAD_SUM) {
            return Err(Torn { at: self.at + HEAD_SUM });
        }
        let len = (low_at & ((1 << LOW_LEN_BITS) - 1)) as usize;
        if len <= INLINE_KEY_BYTES {
            return Ok((low_head.to_be_bytes()[..len].to_vec(), None));
        }
        let at = (low_at >> LOW_LEN_BITS) * 16;
        if at + 8 + len as u64 > self.region().len() {
            return Err(Torn { at: self.at + LOW_AT });
        }
        let mut key = vec![0; len];
        self.region().read(at + 8, &mut key);
        if self.region().word(at) != u64::from(low_sum(self.space.store(), at, &key)) {
            return Err(Torn { at });
        }
        Ok((key, Some(at)))
    }

    /// The order of the keys of `bitmap`'s slots, and true if the leaf says it; else it is sorted.
    pub(crate) fn ordered(&self, bitmap: u64) -> Result<(Ordered, bool), Torn> {
        let sequence = self.words(SEQUENCE);
        if self.word(ORDER) == order_word(bitmap, self.known_sum(), &sequence) {
            let mut slots = [0; SLOTS];
            for (at, word) in sequence.iter().enumerate() {
                slots[8 * at..8 * at + 8].copy_from_slice(&word.to_le_bytes());
            }
            return Ok((Ordered { slots, len: bitmap.count_ones() as usize }, true));
        }
        self.sorted(bitmap).map(|ordered| (ordered, false))
    }

    /// Notes an order, for later ranges. Only for the holder of the lock. It need not survive: it
    /// holds only if its check fits.
    pub(crate) fn store_order(&self, bitmap: u64, ordered: &Ordered) {
        let region = self.region();
        let words = std::array::from_fn(|at| {
            u64::from_le_bytes(*ordered.slots[8 * at..].first_chunk().expect("eight"))
        });
        for (at, word) in words.iter().enumerate() {
            region.store(self.at + SEQUENCE + 8 * at as u64, *word);
        }
        region.store(self.at + ORDER, order_word(bitmap, self.known_sum(), &words));
    }

    /// Sorts the slots of `bitmap` by their keys.
    pub(crate) fn sorted(&self, bitmap: u64) -> Result<Ordered, Torn> {
        let mut found: [(u64, u8); SLOTS] = [(0, 0); SLOTS];
        let mut len = 0;
        for at in bits(bitmap) {
            found[len] = (self.region().word(self.slot_at(at)), at as u8);
            len += 1;
        }
        let found = &mut found[..len];
        found.sort_unstable();
        if found.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            self.sort_whole(found)?;
        }
        let mut slots = [0; SLOTS];
        for (slot, (_, at)) in slots.iter_mut().zip(found.iter()) {
            *slot = *at;
        }
        Ok(Ordered { slots, len })
    }

    #[cold]
    fn sort_whole(&self, found: &mut [(u64, u8)]) -> Result<(), Torn> {
        let (mut bytes, mut ends) = (Vec::new(), [(0, 0); SLOTS]);
        for (_, at) in found.iter() {
            let (start, at) = (bytes.len(), usize::from(*at));
            self.read_key(at, &self.slot(at), &mut bytes)?;
            ends[at] = (start, bytes.len());
        }
        let key = |at: u8| {
            let (start, end) = ends[usize::from(at)];
            &bytes[start..end]
        };
        found.sort_unstable_by(|one, other| key(one.1).cmp(key(other.1)));
        Ok(())
    }
}

/// The word before a lowest key that lies beside its leaf.
pub(crate) fn low_sum(store: u64, at: u64, key: &[u8]) -> u32 {
    Checksum::at(store, at).update(key).finish()
}

/// The words of a lowest key that lies at `at` if it is long.
pub(crate) fn low_words(low: &[u8], at: u64) -> (u64, u64) {
    let at = if low.len() > INLINE_KEY_BYTES { at / 16 } else { 0 };
    debug_assert!(at < 1 << (OFFSET_BITS - 4));
    (head(low), low.len() as u64 | at << LOW_LEN_BITS)
}

/// True if a leaf may begin at `at`.
pub(crate) fn is_possible<R: Region>(region: &R, at: u64) -> bool {
    at != 0 && at.is_multiple_of(LEAF_ALIGNMENT) && at + LEAF_BYTES <= region.len()
}
