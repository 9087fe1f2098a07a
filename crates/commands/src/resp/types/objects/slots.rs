//! The users' keys that a step has asked for, and what they hold.

use crate::overlay::Owned;
use silica::engine::{EntryRef, Expected, GetSink, OpKind};
use silica_base::HashSeed;
use silica_types::{Kind, Object, is_marked, pages_of};
use std::sync::OnceLock;

/// What a user's key holds.
#[derive(Debug, Clone)]
pub(in super::super) enum Value {
    Nothing,
    /// What the engine had: a string, or an object that nobody has opened.
    Seen,
    /// The bytes of a string, or of an object that nobody has opened.
    Bytes(Owned),
    /// An object that was decoded.
    Object(Box<Object>, u64),
}

/// A user's key.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) key: Box<[u8]>,
    /// What the engine had.
    pub(super) seen: Option<Owned>,
    pub(super) value: Value,
    pub(super) is_changed: bool,
    /// Something was changed that a WATCH is about.
    pub(super) is_told: bool,
}

impl Slot {
    /// The entry that the key has, if that is no object in memory.
    pub(super) fn bytes(&self) -> Option<&Owned> {
        match &self.value {
            Value::Nothing | Value::Object(..) => None,
            Value::Seen => self.seen.as_ref(),
            Value::Bytes(entry) => Some(entry),
        }
    }

    /// When it expires, in Unix milliseconds; 0 for never.
    pub(super) fn expires_unix_ms(&self) -> u64 {
        match &self.value {
            Value::Object(_, expires) => *expires,
            _ => self.bytes().map_or(0, |entry| entry.expires_unix_ms),
        }
    }

    /// What is there again if the command that took it is refused.
    pub(super) fn put_back(&mut self) {
        self.value = if self.seen.is_some() { Value::Seen } else { Value::Nothing };
    }

    /// What is compared when the step is written.
    pub(super) fn expected(&self) -> Expected<'_> {
        Expected { key: &self.key, entry: self.seen.as_ref().map(Owned::entry) }
    }

    /// What is written of a key that was changed; `encoded` is its object's value, if it has one.
    pub(super) fn op<'o>(&'o self, encoded: &'o [u8]) -> Option<OpKind<'o>> {
        match &self.value {
            Value::Object(object, expires_unix_ms) => Some(OpKind::Put(EntryRef {
                value: encoded,
                expires_unix_ms: *expires_unix_ms,
                user_bits: object.kind().user_bits(),
            })),
            Value::Nothing => Some(OpKind::Delete),
            Value::Seen => None,
            Value::Bytes(entry) => Some(OpKind::Put(entry.entry())),
        }
    }

    /// True if the key's object already had pages called `id` when it was read.
    pub(super) fn had_pages(&self, id: u64) -> bool {
        self.seen.as_ref().is_some_and(|seen| {
            is_marked(seen.user_bits) && pages_of(&seen.value).is_some_and(|(own, _)| own == id)
        })
    }

    /// The type of what the key holds; `None` if that is a string or nothing.
    pub(super) fn kind(&self) -> Option<Kind> {
        match &self.value {
            Value::Object(object, _) => Some(object.kind()),
            _ => self.bytes().and_then(|entry| Kind::of_user_bits(entry.user_bits)),
        }
    }
}

/// Keys in the order in which they were asked for, to be found by a hash.
#[derive(Debug, Default)]
pub(super) struct Slots {
    all: Vec<Slot>,
    /// By hash: places in `all`, each one more than it is; 0 if there is none. Its length is a
    /// power of two, and at least twice that of `all`.
    table: Vec<u32>,
}

/// The seed by which keys are found: whoever does not know it cannot make keys that collide.
fn seed() -> &'static HashSeed {
    static SEED: OnceLock<HashSeed> = OnceLock::new();
    SEED.get_or_init(|| {
        let mut seed = [0; 16];
        // Without random numbers keys may collide, and are found all the same.
        let _ = getrandom::fill(&mut seed);
        HashSeed(seed)
    })
}

/// Keys up to which all are looked at.
const FEW: usize = 4;

impl Slots {
    pub(super) fn all(&self) -> &[Slot] {
        &self.all
    }

    pub(super) fn at(&mut self, place: usize) -> &mut Slot {
        &mut self.all[place]
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The place of `key`.
    pub(super) fn find(&self, key: &[u8]) -> Option<usize> {
        if self.table.is_empty() {
            return self.all.iter().position(|slot| *slot.key == *key);
        }
        self.probe(key).ok()
    }

    /// The place of `key`, or where in the table it belongs.
    fn probe(&self, key: &[u8]) -> Result<usize, usize> {
        let mask = self.table.len() - 1;
        let mut at = seed().low(key) as usize & mask;
        loop {
            match self.table[at] as usize {
                0 => return Err(at),
                place if *self.all[place - 1].key == *key => return Ok(place - 1),
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// Adds a key that is not there yet, of which nothing is known.
    pub(super) fn add(&mut self, key: &[u8]) {
        let slot = Slot {
            key: key.into(),
            seen: None,
            value: Value::Nothing,
            is_changed: false,
            is_told: false,
        };
        self.all.push(slot);
        if self.all.len() > FEW && 2 * self.all.len() > self.table.len() {
            self.fill();
        } else if !self.table.is_empty() {
            self.note(self.all.len());
        }
    }

    /// Forgets all keys from place `len` on.
    pub(super) fn truncate(&mut self, len: usize) {
        self.all.truncate(len);
        self.table.clear();
        if len > FEW {
            self.fill();
        }
    }

    fn fill(&mut self) {
        let len = (4 * self.all.len()).next_power_of_two();
        self.table.clear();
        self.table.resize(len, 0);
        (1..=self.all.len()).for_each(|place| self.note(place));
    }

    fn note(&mut self, place: usize) {
        let mask = self.table.len() - 1;
        let mut at = seed().low(&self.all[place - 1].key) as usize & mask;
        while self.table[at] != 0 {
            at = (at + 1) & mask;
        }
        self.table[at] = place as u32;
    }

    /// Takes over the entries of the keys from place `first` on; those that have expired are
    /// compared later, and are not there.
    pub(super) fn reader(&mut self, first: usize, now_ms: u64) -> Reader<'_> {
        Reader { slots: &mut self.all[first..], now_ms }
    }
}

/// Copies entries of keys.
pub(super) struct Reader<'s> {
    slots: &'s mut [Slot],
    now_ms: u64,
}

impl GetSink for Reader<'_> {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        let slot = &mut self.slots[index];
        let is_live = entry.expires_unix_ms == 0 || entry.expires_unix_ms > self.now_ms;
        slot.value = if is_live { Value::Seen } else { Value::Nothing };
        slot.seen = Some(Owned::of(entry));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_whether_they_are_few_or_many() {
        let mut slots = Slots::default();
        for number in 0..1_000u32 {
            let key = number.to_le_bytes();
            assert_eq!(slots.find(&key), None);
            slots.add(&key);
            assert_eq!(slots.find(&key), Some(number as usize));
            assert_eq!(slots.find(&(number / 2).to_le_bytes()), Some(number as usize / 2));
        }
        slots.truncate(3);
        assert_eq!((slots.len(), slots.find(&3u32.to_le_bytes())), (3, None));
        assert_eq!(slots.find(&2u32.to_le_bytes()), Some(2));
    }
}
