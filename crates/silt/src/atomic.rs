//! Atomic read-modify-write without holding a lock across I/O: read, decide, write if the newest
//! versions of the keys are still those that were read.
//!
//! A burst of updates is one burst of reads and one log record. Of several updates of a key only
//! what the last one leaves is written: nobody could ever see what was between.

use crate::silt::Silt;
use crate::write::Condition;
use silica_base::{Error, ErrorKind, KeyHash, Result};
use silica_device::Device;
use silica_engine::{Atomic, Durability, EntryRef, GetSink, Op, OpKind, Update, WriteBatch};

/// Keys of one burst.
const KEYS_MAX: usize = 1024;
/// Bytes of values read, and of keys and values written, after which a burst ends.
const BYTES_MAX: usize = 4 << 20;
/// Bytes of values that an update of several keys as one step may have to read.
const WHOLE_BYTES_MAX: usize = 1 << 30;

/// The entry of a key, as far as there was room for it.
#[derive(Clone, Copy)]
enum Slot {
    Missing,
    Found { start: usize, len: usize, expires_unix_ms: u64, user_bits: u32 },
    Deferred,
}

/// The entries of a burst's keys, kept.
struct Answers {
    bytes: Vec<u8>,
    slots: Vec<Slot>,
    room: usize,
}

impl GetSink for Answers {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        let (start, len) = (self.bytes.len(), entry.value.len());
        let EntryRef { expires_unix_ms, user_bits, .. } = entry;
        // The first one always fits: otherwise nothing would ever go on.
        self.slots[index] = if start > 0 && start + len > self.room {
            Slot::Deferred
        } else {
            self.bytes.extend_from_slice(entry.value);
            Slot::Found { start, len, expires_unix_ms, user_bits }
        };
    }
}

impl Answers {
    /// The entry of key `index`, if there is one; `None` where there was no room for it.
    fn get(&self, index: usize) -> Option<Option<EntryRef<'_>>> {
        match self.slots[index] {
            Slot::Missing => Some(None),
            Slot::Deferred => None,
            Slot::Found { start, len, expires_unix_ms, user_bits } => {
                let value = &self.bytes[start..start + len];
                Some(Some(EntryRef { value, expires_unix_ms, user_bits }))
            }
        }
    }
}

/// Keys that were read in order to be updated.
struct Burst<'k> {
    /// The different keys in the order in which they come first, and what must still hold when
    /// they are written.
    conditions: Vec<Condition<'k>>,
    /// The place of each key among the different ones.
    places: Vec<usize>,
    answers: Answers,
}

/// What becomes of a burst's keys.
struct Decisions {
    updates: Vec<Update>,
    /// For each different key the last update that changes it.
    last: Vec<Option<usize>>,
    bytes: usize,
}

impl Decisions {
    fn new(burst: &Burst<'_>) -> Self {
        let last = vec![None; burst.conditions.len()];
        Decisions { updates: Vec::with_capacity(burst.places.len()), last, bytes: 0 }
    }

    fn push(&mut self, place: usize, update: Update) {
        if update != Update::Keep {
            self.last[place] = Some(self.updates.len());
        }
        self.updates.push(update);
    }

    /// One operation for each key that changes.
    fn batch<'a>(&'a self, burst: &Burst<'a>) -> WriteBatch<'a> {
        let mut batch = WriteBatch::new();
        for (condition, last) in burst.conditions.iter().zip(&self.last) {
            if let Some(kind) = last.and_then(|at| self.updates[at].kind()) {
                batch.push(Op { key: condition.key, kind });
            }
        }
        batch
    }
}

impl<D: Device> Atomic for Silt<D> {
    fn update(
        &self,
        key: &[u8],
        durability: Durability,
        decide: &mut dyn FnMut(Option<EntryRef<'_>>) -> Update,
    ) -> Result<()> {
        self.update_many(&[key], durability, &mut |_, current| decide(current)).map(|_| ())
    }

    fn update_many(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(usize, Option<EntryRef<'_>>) -> Update,
    ) -> Result<usize> {
        let mut most = keys.len().min(KEYS_MAX);
        while most > 0 {
            let done = self.try_update_many(&keys[..most], durability, decide);
            let done = self.spread_poison(done)?;
            if done > 0 {
                return Ok(done);
            }
            // Fewer keys are changed by others more rarely, and need less room.
            most = (most / 2).max(1);
        }
        Ok(0)
    }

    fn update_all(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
    ) -> Result<()> {
        while !self.spread_poison(self.try_update_all(keys, durability, decide))? {}
        Ok(())
    }
}

impl<D: Device> Silt<D> {
    /// Updates the first of `keys`; returns how many, none where another writer was faster.
    fn try_update_many(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(usize, Option<EntryRef<'_>>) -> Update,
    ) -> Result<usize> {
        let burst = self.read_for_update(keys, BYTES_MAX)?;
        let mut decisions = Decisions::new(&burst);
        for (index, &place) in burst.places.iter().enumerate() {
            if decisions.bytes >= BYTES_MAX {
                break;
            }
            let earlier = decisions.last[place].map(|at| self.entry_left(&decisions.updates[at]));
            let Some(current) = earlier.or_else(|| burst.answers.get(place)) else { break };
            let update = decide(index, current);
            let (bytes, is_too_large) = self.measure(keys[index], &update);
            if is_too_large && index > 0 {
                // Its error is not the others'.
                break;
            }
            decisions.bytes += bytes;
            decisions.push(place, update);
        }
        let is_done = self.write_decisions(&burst, &decisions, durability)?;
        Ok(if is_done { decisions.updates.len() } else { 0 })
    }

    /// Updates all of `keys`; false where another writer was faster.
    fn try_update_all(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
    ) -> Result<bool> {
        let burst = self.read_for_update(keys, WHOLE_BYTES_MAX)?;
        let entries = burst.places.iter().map(|place| burst.answers.get(*place));
        let Some(entries) = entries.collect::<Option<Vec<_>>>() else {
            let message = format!("the values of these keys are over {WHOLE_BYTES_MAX} bytes");
            return Err(Error::new(ErrorKind::TooLarge, message));
        };
        let updates = decide(&entries);
        let mut decisions = Decisions::new(&burst);
        for (place, update) in burst.places.iter().zip(updates) {
            decisions.push(*place, update);
        }
        self.write_decisions(&burst, &decisions, durability)
    }

    fn read_for_update<'k>(&self, keys: &[&'k [u8]], room: usize) -> Result<Burst<'k>> {
        let hashes = self.hash_and_prefetch(keys.iter().copied());
        let (places, firsts) = places(keys, &hashes);
        let conditions: Vec<Condition<'k>> = firsts
            .iter()
            .map(|&first| {
                let (hash, key) = (hashes[first], keys[first]);
                // Taken before the read: whatever changes the key from here on changes it.
                Condition { hash, key, expected: self.expectation(hash, key) }
            })
            .collect();
        let distinct: Vec<&[u8]> = conditions.iter().map(|c| c.key).collect();
        let slots = vec![Slot::Missing; distinct.len()];
        let mut answers = Answers { bytes: Vec::new(), slots, room };
        self.read_burst(&distinct, &mut answers)?;
        Ok(Burst { conditions, places, answers })
    }

    /// Writes what was decided, as one record; false where a key has changed since it was read.
    fn write_decisions(
        &self,
        burst: &Burst<'_>,
        decisions: &Decisions,
        durability: Durability,
    ) -> Result<bool> {
        let decided = &burst.places[..decisions.updates.len()];
        // Places are numbered as keys come, so these are the keys that were decided.
        let used = decided.iter().max().map_or(0, |place| place + 1);
        let conditions = &burst.conditions[..used];
        let batch = decisions.batch(burst);
        if batch.is_empty() {
            return Ok(used == 1 || self.all_hold(conditions));
        }
        if !self.write_if(&batch, conditions, durability)? {
            return Ok(false);
        }
        self.count_superseded(decisions, &batch);
        Ok(true)
    }

    /// Counts the updates whose key a later one of the burst updates again.
    fn count_superseded(&self, decisions: &Decisions, batch: &WriteBatch<'_>) {
        if decisions.updates.len() == batch.len() {
            return;
        }
        let is = |update: &&Update, delete| (**update == Update::Delete) == delete;
        let changes = || decisions.updates.iter().filter(|update| **update != Update::Keep);
        let deletes_written = batch.ops().iter().filter(|op| op.kind == OpKind::Delete).count();
        let puts_written = batch.len() - deletes_written;
        let puts = changes().filter(|update| is(update, false)).count() - puts_written;
        let deletes = changes().filter(|update| is(update, true)).count() - deletes_written;
        self.metrics.count_write(puts as u64, deletes as u64, 0);
    }

    /// The entry that an update of a burst leaves to the next one of its key.
    fn entry_left<'u>(&self, update: &'u Update) -> Option<EntryRef<'u>> {
        let Some(OpKind::Put(entry)) = update.kind() else { return None };
        let expires = entry.expires_unix_ms;
        (expires == 0 || expires > self.clock.unix_ms()).then_some(entry)
    }

    /// Bytes of an update, and whether it is over a limit.
    fn measure(&self, key: &[u8], update: &Update) -> (usize, bool) {
        let limits = &self.descriptor.limits;
        let value_bytes = match update.kind() {
            Some(OpKind::Put(entry)) => entry.value.len(),
            _ => 0,
        };
        let is_too_large = key.len() > limits.key_bytes_max || value_bytes > limits.value_bytes_max;
        (key.len() + value_bytes, is_too_large && *update != Update::Keep)
    }
}

/// The place of each key among the different ones, and where each of those comes first.
fn places(keys: &[&[u8]], hashes: &[KeyHash]) -> (Vec<usize>, Vec<usize>) {
    let identity = || (0..keys.len()).collect::<Vec<usize>>();
    let mut order = identity();
    order.sort_unstable_by_key(|&i| (hashes[i], keys[i], i));
    let is_same = |pair: &[usize]| keys[pair[0]] == keys[pair[1]];
    if !order.windows(2).any(is_same) {
        return (identity(), identity());
    }
    let mut first_of = identity();
    for pair in order.windows(2) {
        if is_same(pair) {
            first_of[pair[1]] = first_of[pair[0]];
        }
    }
    let mut firsts = Vec::new();
    let mut places = Vec::with_capacity(keys.len());
    for (index, &first) in first_of.iter().enumerate() {
        // A key's first place is behind it already where it came before.
        let place = if first == index { firsts.len() } else { places[first] };
        if first == index {
            firsts.push(index);
        }
        places.push(place);
    }
    (places, firsts)
}

#[cfg(test)]
mod tests {
    use super::places;
    use silica_base::KeyHash;

    #[test]
    fn repeated_keys_share_a_place() {
        let keys: [&[u8]; 6] = [b"b", b"a", b"b", b"c", b"a", b"b"];
        let hash = |key: &&[u8]| KeyHash(u128::from(!key[0]));
        let hashes: Vec<KeyHash> = keys.iter().map(hash).collect();
        assert_eq!(places(&keys, &hashes), (vec![0, 1, 0, 2, 1, 0], vec![0, 1, 3]));
        // Equal hashes do not make keys equal.
        let same = [KeyHash(7); 6];
        assert_eq!(places(&keys, &same), (vec![0, 1, 0, 2, 1, 0], vec![0, 1, 3]));
        assert_eq!(places(&keys[1..4], &hashes[1..4]), (vec![0, 1, 2], vec![0, 1, 2]));
    }
}
