//! Atomic read-modify-write without holding a lock across I/O, for engines that can tell without
//! I/O whether a key has changed: read, decide, write if the newest versions of the keys are still
//! those that were read.
//!
//! A burst of updates is one burst of reads and one log record. Of several updates of a key only
//! what the last one leaves is written: nobody could ever see what was between.

use crate::{
    Atomic, Durability, Engine, EntryRef, Expected, GetSink, Op, OpKind, Update, WriteBatch,
};
use silica_base::{Error, ErrorKind, Result};

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
    /// When it was read, in milliseconds since the Unix epoch.
    now_ms: u64,
    /// The place of each key among the different ones.
    places: Vec<usize>,
    answers: Answers,
}

impl Burst<'_> {
    /// What must hold when the first `used` of the different keys are written.
    fn conditions_of(&self, used: usize) -> Conditions<'_> {
        let expires = |slot: &Slot| match slot {
            Slot::Found { expires_unix_ms, .. } if *expires_unix_ms > 0 => Some(*expires_unix_ms),
            _ => None,
        };
        let first = self.answers.slots[..used].iter().filter_map(expires).min();
        Conditions { keys: &self.conditions[..used], expires_unix_ms: first.unwrap_or(0) }
    }
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

/// An engine that can tell without I/O whether a key has changed. It is [`Atomic`] by that.
pub trait Optimistic: Engine {
    /// The state of a key right now. A key whose state is the same has not changed meanwhile.
    fn seen(&self, key: &[u8]) -> Seen;

    /// As [`Engine::write`] where all `conditions` still hold; false where one does not.
    fn write_if(
        &self,
        batch: &WriteBatch<'_>,
        conditions: Conditions<'_>,
        durability: Durability,
    ) -> Result<bool>;

    /// [`Atomic::settle`]. What was read together is good only if it still holds after this:
    /// readers may see a batch before all of it is there.
    fn settle(&self);

    /// True where all `conditions` hold right now.
    fn all_hold(&self, conditions: Conditions<'_>) -> bool {
        let is_over = || conditions.expires_unix_ms <= self.unix_ms();
        if conditions.expires_unix_ms != 0 && is_over() {
            return false;
        }
        conditions.keys.iter().all(|condition| self.seen(condition.key) == condition.seen)
    }

    /// Asks for the memory that [`Optimistic::seen`] of these keys looks at.
    fn prefetch(&self, _keys: &[&[u8]]) {}

    /// The time, in milliseconds since the Unix epoch.
    fn unix_ms(&self) -> u64;

    /// So many puts and deletes of a burst were not written because a later one of it writes the
    /// same keys.
    fn count_superseded(&self, _puts: u64, _deletes: u64) {}

    /// An update ends with this error.
    fn note_error(&self, _error: &Error) {}

    /// True if batches become visible in the order of their operations: [`Atomic::order_epoch`].
    fn publishes_in_order(&self) -> bool {
        false
    }
}

impl<E: Optimistic> Atomic for E {
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
        update_many(self, keys, durability, decide).inspect_err(|error| self.note_error(error))
    }

    fn update_all(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
    ) -> Result<()> {
        update_all(self, keys, durability, decide).inspect_err(|error| self.note_error(error))
    }

    fn write_expecting(
        &self,
        expected: &[Expected<'_>],
        ops: &[Op<'_>],
        durability: Durability,
    ) -> Result<bool> {
        write_expecting(self, expected, ops, durability).inspect_err(|error| self.note_error(error))
    }

    fn order_epoch(&self) -> Option<u64> {
        self.publishes_in_order().then_some(0)
    }

    fn settle(&self) {
        Optimistic::settle(self);
    }
}

/// True if what was read under `conditions` was there at one moment.
fn held_together<E: Optimistic>(engine: &E, conditions: Conditions<'_>) -> bool {
    // What one key was is what it was at some moment.
    if conditions.keys.len() <= 1 {
        return true;
    }
    engine.settle();
    engine.all_hold(conditions)
}

/// A key, and the state in which it has to be.
#[derive(Debug, Clone, Copy)]
pub struct Condition<'k> {
    /// The key.
    pub key: &'k [u8],
    /// The state.
    pub seen: Seen,
}

/// What must hold for a write to happen.
#[derive(Debug, Clone, Copy)]
pub struct Conditions<'c> {
    /// No key has changed.
    pub keys: &'c [Condition<'c>],
    /// When the first of the entries that were read expires, in milliseconds since the Unix epoch:
    /// from then on others see that key as missing. 0 if none expires.
    pub expires_unix_ms: u64,
}

impl Conditions<'_> {
    /// Those of a write that happens in any case.
    pub const NONE: Conditions<'static> = Conditions { keys: &[], expires_unix_ms: 0 };

    /// True where the write happens in any case.
    #[inline]
    pub fn is_none(&self) -> bool {
        self.keys.is_empty() && self.expires_unix_ms == 0
    }
}

/// What tells one state of a key from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// Its newest version is in memory, at this position of the log.
    InMemory(u64),
    /// No version is in memory. The number changes whenever one may have left it.
    Elsewhere(u64),
}

fn update_many<E: Optimistic>(
    engine: &E,
    keys: &[&[u8]],
    durability: Durability,
    decide: &mut dyn FnMut(usize, Option<EntryRef<'_>>) -> Update,
) -> Result<usize> {
    let mut most = keys.len().min(KEYS_MAX);
    while most > 0 {
        let done = match try_update_many(engine, &keys[..most], durability, decide) {
            // One alone needs no record of the whole: a full store still takes what makes room.
            Err(error) if error.kind() == ErrorKind::Full && most > 1 => {
                most = 1;
                continue;
            }
            done => done?,
        };
        if done > 0 {
            return Ok(done);
        }
        // Fewer keys are changed by others more rarely, and need less room.
        most = (most / 2).max(1);
    }
    Ok(0)
}

fn update_all<E: Optimistic>(
    engine: &E,
    keys: &[&[u8]],
    durability: Durability,
    decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
) -> Result<()> {
    while !try_update_all(engine, keys, durability, decide)? {}
    Ok(())
}

/// Writes `ops` if what is `expected` is there, until no other writer was faster in between.
fn write_expecting<E: Optimistic>(
    engine: &E,
    expected: &[Expected<'_>],
    ops: &[Op<'_>],
    durability: Durability,
) -> Result<bool> {
    let keys: Vec<&[u8]> = expected.iter().map(|expected| expected.key).collect();
    let batch: WriteBatch<'_> = ops.iter().copied().collect();
    loop {
        let burst = read_for_update(engine, &keys, WHOLE_BYTES_MAX)?;
        for (expected, place) in expected.iter().zip(&burst.places) {
            let Some(entry) = burst.answers.get(*place) else {
                let message = format!("the values of these keys are over {WHOLE_BYTES_MAX} bytes");
                return Err(Error::new(ErrorKind::TooLarge, message));
            };
            if entry != expected.entry {
                return Ok(false);
            }
        }
        let conditions = burst.conditions_of(burst.conditions.len());
        let is_done = match batch.is_empty() {
            true => held_together(engine, conditions),
            false => engine.write_if(&batch, conditions, durability)?,
        };
        if is_done {
            return Ok(true);
        }
    }
}

/// Updates the first of `keys`; returns how many, none where another writer was faster.
fn try_update_many<E: Optimistic>(
    engine: &E,
    keys: &[&[u8]],
    durability: Durability,
    decide: &mut dyn FnMut(usize, Option<EntryRef<'_>>) -> Update,
) -> Result<usize> {
    let burst = read_for_update(engine, keys, BYTES_MAX)?;
    let mut decisions = Decisions::new(&burst);
    for (index, &place) in burst.places.iter().enumerate() {
        if decisions.bytes >= BYTES_MAX {
            break;
        }
        let left = |at: usize| entry_left(burst.now_ms, &decisions.updates[at]);
        let earlier = decisions.last[place].map(left);
        let Some(current) = earlier.or_else(|| burst.answers.get(place)) else { break };
        let update = decide(index, current);
        let (bytes, is_too_large) = measure(engine, keys[index], &update);
        if is_too_large && index > 0 {
            // Its error is not the others'.
            break;
        }
        decisions.bytes += bytes;
        decisions.push(place, update);
    }
    let is_done = write_decisions(engine, &burst, &decisions, durability)?;
    Ok(if is_done { decisions.updates.len() } else { 0 })
}

/// Updates all of `keys`; false where another writer was faster.
fn try_update_all<E: Optimistic>(
    engine: &E,
    keys: &[&[u8]],
    durability: Durability,
    decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
) -> Result<bool> {
    let burst = read_for_update(engine, keys, WHOLE_BYTES_MAX)?;
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
    write_decisions(engine, &burst, &decisions, durability)
}

fn read_for_update<'k, E: Optimistic>(
    engine: &E,
    keys: &[&'k [u8]],
    room: usize,
) -> Result<Burst<'k>> {
    engine.prefetch(keys);
    let (places, firsts) = places(keys);
    let conditions: Vec<Condition<'k>> = firsts
        .iter()
        .map(|&first| {
            let key = keys[first];
            // Taken before the read: whatever changes the key from here on changes it.
            Condition { key, seen: engine.seen(key) }
        })
        .collect();
    let distinct: Vec<&[u8]> = conditions.iter().map(|c| c.key).collect();
    let slots = vec![Slot::Missing; distinct.len()];
    let now_ms = engine.unix_ms();
    let mut answers = Answers { bytes: Vec::new(), slots, room };
    engine.get_many(&distinct, &mut answers)?;
    Ok(Burst { conditions, now_ms, places, answers })
}

/// Writes what was decided, as one record; false where a key has changed since it was read.
fn write_decisions<E: Optimistic>(
    engine: &E,
    burst: &Burst<'_>,
    decisions: &Decisions,
    durability: Durability,
) -> Result<bool> {
    let decided = &burst.places[..decisions.updates.len()];
    // Places are numbered as keys come, so these are the keys that were decided.
    let used = decided.iter().max().map_or(0, |place| place + 1);
    let conditions = burst.conditions_of(used);
    let batch = decisions.batch(burst);
    if batch.is_empty() {
        return Ok(held_together(engine, conditions));
    }
    if !engine.write_if(&batch, conditions, durability)? {
        return Ok(false);
    }
    count_superseded(engine, decisions, &batch);
    Ok(true)
}

/// Counts the updates whose key a later one of the burst updates again.
fn count_superseded<E: Optimistic>(engine: &E, decisions: &Decisions, batch: &WriteBatch<'_>) {
    if decisions.updates.len() == batch.len() {
        return;
    }
    let is = |update: &&Update, delete| (**update == Update::Delete) == delete;
    let changes = || decisions.updates.iter().filter(|update| **update != Update::Keep);
    let deletes_written = batch.ops().iter().filter(|op| op.kind.is_delete()).count();
    let puts_written = batch.len() - deletes_written;
    let puts = changes().filter(|update| is(update, false)).count() - puts_written;
    let deletes = changes().filter(|update| is(update, true)).count() - deletes_written;
    engine.count_superseded(puts as u64, deletes as u64);
}

/// The entry that an update of a burst leaves to the next one of its key.
fn entry_left(now_ms: u64, update: &Update) -> Option<EntryRef<'_>> {
    let Some(OpKind::Put(entry)) = update.kind() else { return None };
    let expires = entry.expires_unix_ms;
    (expires == 0 || expires > now_ms).then_some(entry)
}

/// Bytes of an update, and whether it is over a limit.
fn measure<E: Optimistic>(engine: &E, key: &[u8], update: &Update) -> (usize, bool) {
    let limits = &engine.descriptor().limits;
    let value_bytes = match update.kind() {
        Some(OpKind::Put(entry)) => entry.value.len(),
        _ => 0,
    };
    let is_too_large = key.len() > limits.key_bytes_max || value_bytes > limits.value_bytes_max;
    (key.len() + value_bytes, is_too_large && *update != Update::Keep)
}

/// The place of each key among the different ones, and where each of those comes first.
fn places(keys: &[&[u8]]) -> (Vec<usize>, Vec<usize>) {
    let identity = || (0..keys.len()).collect::<Vec<usize>>();
    let mut order = identity();
    order.sort_unstable_by_key(|&i| (keys[i], i));
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

    #[test]
    fn repeated_keys_share_a_place() {
        let keys: [&[u8]; 6] = [b"b", b"a", b"b", b"c", b"a", b"b"];
        assert_eq!(places(&keys), (vec![0, 1, 0, 2, 1, 0], vec![0, 1, 3]));
        assert_eq!(places(&keys[1..4]), (vec![0, 1, 2], vec![0, 1, 2]));
    }
}
