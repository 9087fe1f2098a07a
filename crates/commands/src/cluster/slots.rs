//! Hash slots: which slot a key is in, and sets of slots.

/// Slots of a cluster.
pub(crate) const SLOTS: u16 = 16384;
const WORDS: usize = SLOTS as usize / 64;

/// CRC16 of XMODEM: polynomial 1021 (hexadecimal), start 0, no reflection.
const TABLE: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| (crc << 8) ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

/// The slot of `key`: of the part between the first `{` and the next `}`, if that is not empty.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

/// A set of slots.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SlotSet(Box<[u64; WORDS]>);

impl Default for SlotSet {
    fn default() -> Self {
        SlotSet(Box::new([0; WORDS]))
    }
}

impl std::fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text())
    }
}

impl SlotSet {
    pub(crate) fn contains(&self, slot: u16) -> bool {
        self.0[usize::from(slot) / 64] >> (slot % 64) & 1 == 1
    }

    pub(crate) fn insert(&mut self, slot: u16) {
        self.0[usize::from(slot) / 64] |= 1 << (slot % 64);
    }

    pub(crate) fn remove(&mut self, slot: u16) {
        self.0[usize::from(slot) / 64] &= !(1 << (slot % 64));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The slots in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().enumerate().flat_map(|(at, word)| ones(at, *word))
    }

    /// The slots that are not in `other`.
    pub(crate) fn without(&self, other: &SlotSet) -> SlotSet {
        let mut rest = self.clone();
        rest.0.iter_mut().zip(other.0.iter()).for_each(|(word, other)| *word &= !other);
        rest
    }

    /// The first slot that is in `other`, too.
    pub(crate) fn first_shared(&self, other: &SlotSet) -> Option<u16> {
        let shared = self.0.iter().zip(other.0.iter()).map(|(word, other)| word & other);
        let (at, word) = shared.enumerate().find(|(_, word)| *word != 0)?;
        ones(at, word).next()
    }

    /// The first slot from `from` on that is in the set if `is_in`, else that is not.
    fn next(&self, from: u16, is_in: bool) -> Option<u16> {
        let mut at = usize::from(from) / 64;
        let mut mask = u64::MAX << (from % 64);
        while at < WORDS {
            let word = (if is_in { self.0[at] } else { !self.0[at] }) & mask;
            if word != 0 {
                return ones(at, word).next();
            }
            (at, mask) = (at + 1, u64::MAX);
        }
        None
    }

    /// First and last slot of each run of neighbours, in their order.
    pub(crate) fn ranges(&self) -> Vec<(u16, u16)> {
        let mut ranges = Vec::new();
        let mut from = 0;
        while let Some(first) = self.next(from, true) {
            let end = self.next(first, false).unwrap_or(SLOTS);
            ranges.push((first, end - 1));
            from = end;
        }
        ranges
    }

    /// The ranges as text, `0-99,200`; `-` if there are none.
    pub(crate) fn text(&self) -> String {
        let ranges = self.ranges();
        if ranges.is_empty() {
            return "-".into();
        }
        ranges.into_iter().map(range_text).collect::<Vec<_>>().join(",")
    }

    /// Adds a range as [`SlotSet::text`] writes it.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub(crate) fn add_range(&mut self, text: &str) -> Result<(), String> {
        let slot = |text: &str| {
            let number = text.parse::<u16>().ok().filter(|slot| *slot < SLOTS);
            number.ok_or_else(|| format!("'{text}' is no slot; slots are 0 to {}", SLOTS - 1))
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = (slot(first)?, slot(last)?);
        if first > last {
            return Err(format!("the range {text} ends before it begins"));
        }
        for slot in first..=last {
            if self.contains(slot) {
                return Err(format!("slot {slot} is named twice"));
            }
            self.insert(slot);
        }
        Ok(())
    }
}

/// The slots of word number `at` of a set.
fn ones(at: usize, mut word: u64) -> impl Iterator<Item = u16> {
    std::iter::from_fn(move || {
        let bit = word.trailing_zeros();
        word &= word.wrapping_sub(1);
        (bit < 64).then(|| (at * 64) as u16 + bit as u16)
    })
}

/// A range as CLUSTER NODES shows it.
pub(crate) fn range_text((first, last): (u16, u16)) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::Prng;
    use std::collections::BTreeSet;

    #[test]
    fn slots_are_those_of_redis() {
        assert_eq!(crc16(b"123456789"), 0x31C3);
        assert_eq!(slot_of(b"foo"), 12182);
        assert_eq!(slot_of(b"{user1000}.following"), slot_of(b"{user1000}.followers"));
        assert_eq!(slot_of(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot_of(b"foo{{bar}}zap"), crc16(b"{bar") % SLOTS);
        assert_eq!(slot_of(b""), 0);
    }

    #[test]
    fn a_set_is_what_was_put_into_it() {
        let mut random = Prng::new(40);
        for round in 0..40_u64 {
            let (mut set, mut other) = (SlotSet::default(), SlotSet::default());
            let (mut model, mut of_other) = (BTreeSet::new(), BTreeSet::new());
            for _ in 0..round {
                let first = random.below(u64::from(SLOTS)) as u16;
                let end = first.saturating_add(random.below(300) as u16).min(SLOTS);
                let is_in = random.below(3) > 0;
                for slot in first..end {
                    if is_in {
                        set.insert(slot);
                        model.insert(slot);
                    } else {
                        set.remove(slot);
                        model.remove(&slot);
                    }
                    if slot % 7 == 0 {
                        other.insert(slot);
                        of_other.insert(slot);
                    }
                }
            }
            assert!(set.iter().eq(model.iter().copied()));
            assert_eq!((set.len(), set.is_empty()), (model.len(), model.is_empty()));
            assert_eq!(set.first_shared(&other), model.intersection(&of_other).next().copied());
            assert!(set.without(&other).iter().eq(model.difference(&of_other).copied()));
            let mut ranges: Vec<(u16, u16)> = Vec::new();
            for slot in model {
                match ranges.last_mut() {
                    Some((_, last)) if *last + 1 == slot => *last = slot,
                    _ => ranges.push((slot, slot)),
                }
            }
            assert_eq!(set.ranges(), ranges);
        }
    }

    #[test]
    fn ranges_are_read_as_they_are_written() {
        let mut set = SlotSet::default();
        for range in ["0-2", "5", "16383"] {
            set.add_range(range).unwrap();
        }
        assert_eq!(set.text(), "0-2,5,16383");
        assert_eq!((set.iter().count(), set.contains(3)), (5, false));
        for wrong in ["16384", "-1", "3-2", "x", "", "1-5", "0-99999"] {
            assert!(set.clone().add_range(wrong).is_err(), "{wrong}");
        }
    }
}
