//! The users' keys that a step has asked for, and what they hold.

use crate::overlay::Owned;
use silica::engine::{EntryRef, Expected, GetSink, OpKind};
use silica_base::HashSeed;
use silica_types::{Kind, Object, is_marked, pages_of};
use std::cell::Cell;
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
    pub(super) key: Vec<u8>,
    /// What the engine had, if it had anything.
    seen: Owned,
    is_seen: bool,
    pub(super) value: Value,
    /// An object of before, in whose memory another one is decoded.
    pub(super) spare: Option<Box<Object>>,
    pub(super) is_changed: bool,
    /// Something was changed that a WATCH is about.
    pub(super) is_told: bool,
}

impl Slot {
    /// One of which nothing is known.
    fn new() -> Self {
        let seen = Owned { value: Vec::new(), expires_unix_ms: 0, user_bits: 0 };
        Slot {
            key: Vec::new(),
            seen,
            is_seen: false,
            value: Value::Nothing,
            spare: None,
            is_changed: false,
            is_told: false,
        }
    }

    /// What the engine had.
    pub(super) fn seen(&self) -> Option<&Owned> {
        self.is_seen.then_some(&self.seen)
    }

    /// The object of `kind` whose key has this value.
    fn decoded(
        spare: &mut Option<Box<Object>>,
        kind: Kind,
        value: &[u8],
    ) -> silica::engine::Result<Box<Object>> {
        let mut object = spare.take().unwrap_or_else(|| Box::new(Object::new(kind)));
        object.decode_again(kind, value)?;
        Ok(object)
    }

    /// Takes the object of `kind` out of its bytes: nothing is left then; `None` if they are none.
    pub(super) fn take_decoded(
        &mut self,
        kind: Kind,
    ) -> silica::engine::Result<Option<(Box<Object>, u64)>> {
        let entry = match &self.value {
            Value::Seen if self.is_seen => &self.seen,
            Value::Bytes(entry) => entry,
            _ => return Ok(None),
        };
        if Kind::of_user_bits(entry.user_bits) != Some(kind) {
            return Ok(None);
        }
        let object = Self::decoded(&mut self.spare, kind, &entry.value)?;
        let expires = entry.expires_unix_ms;
        self.value = Value::Nothing;
        Ok(Some((object, expires)))
    }

    /// Forgets what it is about, and keeps its memory if that is little.
    fn clear(&mut self) {
        if let Value::Object(object, _) = std::mem::replace(&mut self.value, Value::Nothing) {
            self.spare = Some(object);
        }
        self.spare.take_if(|object| object.held_bytes() > SPARE_BYTES_MAX);
        for bytes in [&mut self.key, &mut self.seen.value] {
            match bytes.capacity() > SPARE_BYTES_MAX {
                true => *bytes = Vec::new(),
                false => bytes.clear(),
            }
        }
        (self.is_seen, self.is_changed, self.is_told) = (false, false, false);
    }

    /// The entry that the key has, if that is no object in memory.
    pub(super) fn bytes(&self) -> Option<&Owned> {
        match &self.value {
            Value::Nothing | Value::Object(..) => None,
            Value::Seen => self.seen(),
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
        self.value = if self.is_seen { Value::Seen } else { Value::Nothing };
    }

    /// What is compared when the step is written.
    pub(super) fn expected(&self) -> Expected<'_> {
        Expected { key: &self.key, entry: self.seen().map(Owned::entry) }
    }

    /// What is written of a key that was changed; `encoded` is its object's value, if it has one.
    pub(super) fn op<'o>(&'o self, encoded: &'o [u8]) -> Option<OpKind<'o>> {
        match &self.value {
            Value::Object(object, expires_unix_ms) => Some(OpKind::Put(EntryRef {
                value: encoded,
                expires_unix_ms: *expires_unix_ms,
                user_bits: object.user_bits(),
            })),
            Value::Nothing => Some(OpKind::Delete),
            Value::Seen => None,
            Value::Bytes(entry) => Some(OpKind::Put(entry.entry())),
        }
    }

    /// True if the key's object already had pages called `id` when it was read.
    pub(super) fn had_pages(&self, id: u64) -> bool {
        self.seen().is_some_and(|seen| {
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

/// Slots whose memory a thread keeps for its next step, and bytes of a key, a value or an object
/// in one: so a thread keeps a quarter of a MiB at most.
const SPARES_MAX: usize = 64;
const SPARE_BYTES_MAX: usize = 1024;
/// Places of a table that is kept: as many as those slots need.
const TABLE_SPARE_MAX: usize = 4 * SPARES_MAX;

/// What slots and their table are in.
#[derive(Default)]
struct Memory {
    all: Vec<Slot>,
    table: Vec<u32>,
}

thread_local! {
    /// The memory of the last step of this thread: its slots are clear.
    static SPARE: Cell<Memory> = const { Cell::new(Memory { all: Vec::new(), table: Vec::new() }) };
}

/// Keys in the order in which they were asked for, to be found by a hash.
///
/// A step takes over the memory of its thread's last one: a burst of requests for small objects
/// asks the allocator for nothing then.
#[derive(Debug)]
pub(super) struct Slots {
    /// Those up to `len`, and behind them some that are free.
    all: Vec<Slot>,
    len: usize,
    /// By hash: places in `all`, each one more than it is; 0 if there is none. Its length is a
    /// power of two, and at least twice `len`, or 0 if they are few.
    table: Vec<u32>,
    /// The place after the one that was found last: commands ask for keys in the order in which
    /// these were fetched.
    next: Cell<usize>,
}

impl Drop for Slots {
    fn drop(&mut self) {
        let mut memory =
            Memory { all: std::mem::take(&mut self.all), table: std::mem::take(&mut self.table) };
        memory.all.truncate(SPARES_MAX);
        memory.all.iter_mut().take(self.len).for_each(Slot::clear);
        memory.table.clear();
        memory.table.shrink_to(TABLE_SPARE_MAX);
        // A thread that ends keeps nothing.
        let _ = SPARE.try_with(|spare| spare.set(memory));
    }
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
    /// None yet, in the memory of the thread's last step.
    pub(super) fn new() -> Self {
        let Memory { all, table } = SPARE.try_with(Cell::take).unwrap_or_default();
        Slots { all, len: 0, table, next: Cell::new(0) }
    }

    pub(super) fn all(&self) -> &[Slot] {
        &self.all[..self.len]
    }

    pub(super) fn at(&mut self, place: usize) -> &mut Slot {
        &mut self.all[..self.len][place]
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The place of `key`.
    pub(super) fn find(&self, key: &[u8]) -> Option<usize> {
        // The key that was found last, or the one behind it, is asked for most often.
        let (next, is_key) = (self.next.get(), |slot: &&Slot| *slot.key == *key);
        let all = self.all();
        let found = if all.get(next).filter(is_key).is_some() {
            Some(next)
        } else if all.get(next.wrapping_sub(1)).filter(is_key).is_some() {
            return Some(next - 1);
        } else if self.table.is_empty() {
            all.iter().position(|slot| *slot.key == *key)
        } else {
            self.probe(key, seed().low(key)).ok()
        };
        self.next.set(found.map_or(next, |place| place + 1));
        found
    }

    /// The place of `key`, which has this hash, or where in the table it belongs.
    fn probe(&self, key: &[u8], hash: u64) -> Result<usize, usize> {
        let mask = self.table.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            match self.table[at] as usize {
                0 => return Err(at),
                place if *self.all[place - 1].key == *key => return Ok(place - 1),
                _ => at = (at + 1) & mask,
            }
        }
    }

    /// Makes room for `keys` more keys.
    pub(super) fn reserve(&mut self, keys: usize) {
        let len = self.len + keys;
        self.all.reserve(len.saturating_sub(self.all.len()));
        if len > FEW && 2 * len > self.table.len() {
            self.fill(len);
        }
    }

    /// The place of `key`; a new one, of which nothing is known, if it is not there yet. True if it
    /// is new.
    pub(super) fn find_or_add(&mut self, key: &[u8]) -> (usize, bool) {
        let len = self.len;
        // Many requests are for the key of the one before.
        if self.all().last().is_some_and(|slot| *slot.key == *key) {
            return (len - 1, false);
        }
        if self.table.is_empty() && len < FEW {
            let found = self.all().iter().position(|slot| *slot.key == *key);
            if found.is_none() {
                self.push(key);
            }
            return (found.unwrap_or(len), found.is_none());
        }
        if 2 * (len + 1) > self.table.len() {
            self.fill(2 * len);
        }
        match self.probe(key, seed().low(key)) {
            Ok(place) => (place, false),
            Err(at) => {
                self.push(key);
                self.table[at] = self.len as u32;
                (len, true)
            }
        }
    }

    fn push(&mut self, key: &[u8]) {
        if self.len == self.all.len() {
            self.all.push(Slot::new());
        }
        self.all[self.len].key.extend_from_slice(key);
        self.len += 1;
    }

    /// Forgets all keys from place `len` on.
    pub(super) fn truncate(&mut self, len: usize) {
        self.all[len..self.len].iter_mut().for_each(Slot::clear);
        self.len = len;
        self.table.clear();
        if len > FEW {
            self.fill(len);
        }
    }

    /// Makes a table for `len` keys, with those that there are.
    fn fill(&mut self, len: usize) {
        self.table.clear();
        self.table.resize((2 * len.max(FEW)).next_power_of_two(), 0);
        let mask = self.table.len() - 1;
        for (place, slot) in self.all[..self.len].iter().enumerate() {
            let mut at = seed().low(&slot.key) as usize & mask;
            while self.table[at] != 0 {
                at = (at + 1) & mask;
            }
            self.table[at] = place as u32 + 1;
        }
    }

    /// Takes over the entries of the keys from place `first` on; those that have expired are
    /// compared later, and are not there.
    pub(super) fn reader(&mut self, first: usize, now_ms: u64) -> Reader<'_> {
        Reader { slots: &mut self.all[first..self.len], now_ms }
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
        let seen = &mut slot.seen;
        seen.value.clear();
        seen.value.extend_from_slice(entry.value);
        (seen.expires_unix_ms, seen.user_bits) = (entry.expires_unix_ms, entry.user_bits);
        slot.is_seen = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_whether_they_are_few_or_many() {
        let mut slots = Slots::new();
        for number in 0..1_000u32 {
            let key = number.to_le_bytes();
            assert_eq!(slots.find(&key), None);
            assert_eq!(slots.find_or_add(&key), (number as usize, true));
            assert_eq!(slots.find(&key), Some(number as usize));
            assert_eq!(slots.find_or_add(&key), (number as usize, false));
            assert_eq!(slots.find(&(number / 2).to_le_bytes()), Some(number as usize / 2));
        }
        slots.truncate(3);
        assert_eq!((slots.len(), slots.find(&3u32.to_le_bytes())), (3, None));
        assert_eq!(slots.find(&2u32.to_le_bytes()), Some(2));
    }

    /// Fills slots as a step does, with values of so many bytes, and decodes their objects.
    fn step(keys: u32, bytes: usize) {
        let mut slots = Slots::new();
        let mut object = Object::new(Kind::Hash);
        let mut pages = silica_types::MemoryPages::default();
        let mut hash = silica_types::Hash::of(&mut object, &mut pages);
        hash.put(b"field", &vec![7; bytes]).unwrap();
        let (value, user_bits) = (object.encode(), Kind::Hash.user_bits());
        for number in 0..keys {
            let key = [&[b'k'; 30][..], &number.to_le_bytes()].concat();
            assert_eq!(slots.find_or_add(&key), (number as usize, true));
        }
        let mut reader = slots.reader(0, 0);
        // Nothing is known of the last key.
        for index in 0..keys as usize - 1 {
            let entry = EntryRef { value: &value, expires_unix_ms: 0, user_bits };
            reader.found(index, entry);
        }
        let last = slots.at(keys as usize - 1);
        assert_eq!((last.seen(), last.kind(), last.is_changed), (None, None, false));
        for index in 0..keys as usize - 1 {
            let slot = slots.at(index);
            let (decoded, _) = slot.take_decoded(Kind::Hash).unwrap().unwrap();
            assert_eq!(*decoded, object);
            assert!(matches!(slot.take_decoded(Kind::Hash), Ok(None)));
            (slot.value, slot.is_changed, slot.is_told) = (Value::Object(decoded, 9), true, true);
        }
    }

    #[test]
    fn a_step_finds_nothing_of_the_one_before_and_little_memory_is_kept() {
        for (keys, bytes) in [(1, 3), (300, 20), (2, 900), (40, 50_000), (500, 1)] {
            step(keys, bytes);
            step(keys, 1);
        }
        let memory = SPARE.take();
        let held = |slot: &Slot| {
            let object = slot.spare.as_ref().map_or(0, |object| object.held_bytes());
            slot.key.capacity() + slot.seen.value.capacity() + object
        };
        let sum: usize = memory.all.iter().map(held).sum();
        assert!(memory.all.len() <= SPARES_MAX && sum <= SPARES_MAX * 3 * SPARE_BYTES_MAX, "{sum}");
        assert!(memory.table.capacity() <= TABLE_SPARE_MAX);
    }
}
