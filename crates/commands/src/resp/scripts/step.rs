//! An engine in front of a database: what it reads it remembers, what is written stays in it until
//! it is committed.

use crate::budget::out_of_memory;
use crate::engine_calls::atomic;
use crate::overlay::Owned;
use crate::watch::{is_untold, untold};
use silica::engine::{
    Atomic, Budget, Descriptor, Durability, Engine, EntryRef, Error, ErrorKind, GetSink,
    MetricVisitor, Op, OpKind, Progress, Result, Update, WriteBatch,
};
use silica_types::is_inner;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Memory of a key beside its bytes and its values.
const KEY_BYTES: usize = 160;

/// Whether entries are still good for somebody who has read them: keys in their order, and what
/// they hold.
pub(crate) type Holds<'h> = dyn FnMut(&[&[u8]], &[Option<EntryRef<'_>>]) -> bool + 'h;

/// What is known of one key.
#[derive(Debug, Default)]
struct Slot {
    /// What the database held when it was read; `None` if it was not read.
    seen: Option<Option<Owned>>,
    /// What was written; `None` if nothing was.
    written: Option<Option<Owned>>,
    /// Something was written that a WATCH is about.
    is_told: bool,
}

impl Slot {
    fn live(&self, now_ms: u64) -> Option<EntryRef<'_>> {
        let entry = self.written.as_ref().or(self.seen.as_ref())?.as_ref()?.entry();
        (entry.expires_unix_ms == 0 || entry.expires_unix_ms > now_ms).then_some(entry)
    }

    /// What becomes of the key.
    fn update(&self) -> Update {
        match &self.written {
            None => Update::Keep,
            Some(None) => Update::Delete,
            Some(Some(Owned { value, expires_unix_ms, user_bits })) => Update::Put {
                value: value.clone(),
                expires_unix_ms: *expires_unix_ms,
                user_bits: *user_bits,
            },
        }
    }
}

#[derive(Default)]
struct Slots {
    by_key: BTreeMap<Box<[u8]>, Slot>,
    held_bytes: usize,
    has_written: bool,
}

impl Slots {
    fn write(&mut self, key: &[u8], update: Update) {
        let written = match update {
            Update::Keep => return,
            Update::Delete => None,
            Update::Put { value, expires_unix_ms, user_bits } => {
                Some(Owned { value, expires_unix_ms, user_bits })
            }
        };
        let bytes_of = |entry: &Option<Owned>| entry.as_ref().map_or(0, |entry| entry.value.len());
        self.held_bytes += bytes_of(&written);
        self.has_written = true;
        let is_told = !is_untold(key);
        match self.by_key.get_mut(key) {
            Some(slot) => {
                slot.is_told |= is_told;
                let before = slot.written.replace(written);
                self.held_bytes -= before.as_ref().map_or(0, bytes_of);
            }
            None => {
                self.held_bytes += key.len() + KEY_BYTES;
                let slot = Slot { seen: None, written: Some(written), is_told };
                self.by_key.insert(key.into(), slot);
            }
        }
    }
}

/// Keys and entries of `base` as one step sees and changes them.
pub(crate) struct Step<'e> {
    base: &'e dyn Engine,
    descriptor: Descriptor,
    slots: Mutex<Slots>,
    now_ms: u64,
    /// Bytes that it may hold.
    bytes_max: usize,
}

impl<'e> Step<'e> {
    /// A step of `base` at a time in Unix milliseconds, which holds at most `bytes_max` bytes of
    /// keys and values.
    pub(crate) fn new(base: &'e dyn Engine, now_ms: u64, bytes_max: usize) -> Self {
        let descriptor = *base.descriptor();
        Step { base, descriptor, slots: Mutex::default(), now_ms, bytes_max }
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of keys and values that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.slots().held_bytes
    }

    /// True if anything was written.
    pub(crate) fn has_written(&self) -> bool {
        self.slots().has_written
    }

    /// True if `key` was written, and whoever watches it is told.
    pub(crate) fn has_told_key(&self, key: &[u8]) -> bool {
        self.slots().by_key.get(key).is_some_and(|slot| slot.written.is_some() && slot.is_told)
    }

    /// The slots, with what the database holds of `keys` in them.
    fn fetched(&self, keys: &[&[u8]]) -> Result<MutexGuard<'_, Slots>> {
        let mut slots = self.slots();
        let is_unknown = |key: &&&[u8]| !slots.by_key.contains_key(**key);
        let mut unknown: Vec<&[u8]> = keys.iter().filter(is_unknown).copied().collect();
        if unknown.is_empty() {
            return Ok(slots);
        }
        unknown.sort_unstable();
        unknown.dedup();
        let room = self.bytes_max.saturating_sub(slots.held_bytes);
        let mut sink = Seen { entries: vec![None; unknown.len()], room, needed: 0 };
        self.base.get_many(&unknown, &mut sink)?;
        if sink.needed > room {
            return Err(self.refusal(sink.needed));
        }
        for (key, seen) in unknown.into_iter().zip(sink.entries) {
            slots.held_bytes += KEY_BYTES + key.len();
            slots.held_bytes += seen.as_ref().map_or(0, |entry| entry.value.len());
            slots.by_key.insert(key.into(), Slot { seen: Some(seen), ..Slot::default() });
        }
        Ok(slots)
    }

    fn refusal(&self, bytes: usize) -> Error {
        out_of_memory(format!(
            "a script or transaction may hold {} bytes of keys and values, and this needs {bytes} \
             more; ask for less at once, or raise --client-memory",
            self.bytes_max
        ))
    }

    fn refuse_full(&self, slots: &Slots) -> Result<()> {
        match slots.held_bytes > self.bytes_max {
            true => Err(self.refusal(slots.held_bytes - self.bytes_max)),
            false => Ok(()),
        }
    }

    /// Applies what was written, pages of objects before the entries that refer to them, if
    /// everything that was read still holds, and so does `holds` for `others`, keys that somebody
    /// else has read. Returns the keys that were written, or `None`
    /// if something has changed.
    pub(crate) fn commit(
        self,
        others: &[&[u8]],
        holds: &mut Holds<'_>,
    ) -> Result<Option<Vec<Box<[u8]>>>> {
        let base = self.base;
        let Slots { mut by_key, has_written, .. } =
            self.slots.into_inner().unwrap_or_else(PoisonError::into_inner);
        // One read is a step by itself.
        if !has_written && by_key.len() <= 1 && others.is_empty() {
            return Ok(Some(Vec::new()));
        }
        for key in others {
            by_key.entry((*key).into()).or_default();
        }
        let keys: Vec<&[u8]> = by_key.keys().map(|key| &**key).collect();
        let slots: Vec<&Slot> = by_key.values().collect();
        let mut is_good = false;
        let mut judge = |entries: &[Option<EntryRef<'_>>]| {
            let is_same = |(slot, entry): (&&Slot, &Option<EntryRef<'_>>)| {
                slot.seen.as_ref().is_none_or(|seen| seen.as_ref().map(Owned::entry) == *entry)
            };
            is_good = slots.iter().zip(entries).all(is_same) && holds(&keys, entries);
            is_good
        };
        let quiet = by_key.iter().filter(|(_, slot)| slot.written.is_some() && !slot.is_told);
        untold(quiet.map(|(key, _)| &**key), || match keys[..] {
            [key] => atomic(base)?.update(key, Durability::Buffered, &mut |entry| {
                if judge(&[entry]) { slots[0].update() } else { Update::Keep }
            }),
            _ => {
                let mut order: Vec<usize> = (0..keys.len()).collect();
                silica_base::compact_sort_by_key(&mut order, |at| !is_inner(keys[*at]));
                let ordered: Vec<&[u8]> = order.iter().map(|at| keys[*at]).collect();
                atomic(base)?.update_all(&ordered, Durability::Buffered, &mut |entries| {
                    let mut sorted = vec![None; entries.len()];
                    order.iter().zip(entries).for_each(|(at, entry)| sorted[*at] = *entry);
                    match judge(&sorted) {
                        true => order.iter().map(|at| slots[*at].update()).collect(),
                        false => vec![Update::Keep; slots.len()],
                    }
                })
            }
        })?;
        let written = by_key.into_iter().filter(|(_, slot)| slot.written.is_some());
        Ok(is_good.then(|| written.map(|(key, _)| key).collect()))
    }
}

impl Step<'_> {
    /// Applies what was written as one batch, pages of objects before the entries that refer to
    /// them. For who has been alone with the database since the
    /// step began, so that nobody can have changed what it has read.
    pub(crate) fn commit_alone(self) -> Result<()> {
        let slots = self.slots.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut batch = WriteBatch::new();
        for is_page in [true, false] {
            for (key, slot) in slots.by_key.iter().filter(|(key, _)| is_inner(key) == is_page) {
                match &slot.written {
                    None => continue,
                    Some(None) => batch.delete(key),
                    Some(Some(entry)) => batch.put_entry(key, entry.entry()),
                };
            }
        }
        let written = slots.by_key.iter().filter(|(_, slot)| slot.written.is_some());
        let quiet = written.filter(|(_, slot)| !slot.is_told).map(|(key, _)| &**key);
        untold(quiet, || match batch.is_empty() {
            true => Ok(()),
            false => self.base.write(&batch, Durability::Buffered),
        })
    }
}

/// Copies entries, as far as there is room.
struct Seen {
    entries: Vec<Option<Owned>>,
    room: usize,
    needed: usize,
}

impl GetSink for Seen {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        self.needed += entry.value.len();
        if self.needed <= self.room {
            self.entries[index] = Some(Owned::of(entry));
        }
    }

    fn wants(&mut self, _: usize, bytes: usize) -> bool {
        let fits = self.needed + bytes <= self.room;
        if !fits {
            self.needed += bytes;
        }
        fits
    }
}

impl Engine for Step<'_> {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        let slots = self.fetched(keys)?;
        for (index, key) in keys.iter().enumerate() {
            if let Some(entry) = slots.by_key.get(*key).and_then(|slot| slot.live(self.now_ms)) {
                sink.found(index, entry);
            }
        }
        Ok(())
    }

    fn write(&self, batch: &WriteBatch<'_>, _: Durability) -> Result<()> {
        batch.refuse_ranges("step")?;
        let mut slots = self.slots();
        for Op { key, kind } in batch.ops() {
            let update = match kind {
                OpKind::Delete => Update::Delete,
                OpKind::DeleteRange(_) => unreachable!("batches with ranges are refused"),
                OpKind::Put(entry) => Update::Put {
                    value: entry.value.to_vec(),
                    expires_unix_ms: entry.expires_unix_ms,
                    user_bits: entry.user_bits,
                },
            };
            slots.write(key, update);
        }
        self.refuse_full(&slots)
    }

    fn held_back(
        &self,
        (lower, upper): (&[u8], &[u8]),
        each: &mut dyn FnMut(&[u8], Option<EntryRef<'_>>),
    ) {
        if lower < upper {
            let slots = self.slots();
            let range = (Bound::Included(lower), Bound::Excluded(upper));
            for (key, slot) in slots.by_key.range::<[u8], _>(range) {
                if let Some(written) = &slot.written {
                    each(key, written.as_ref().map(Owned::entry));
                }
            }
        }
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn maintain(&self, _: Budget) -> Result<Progress> {
        Ok(Progress::default())
    }

    fn metrics(&self, _: &mut dyn MetricVisitor) {}

    fn verify(&self) -> Result<()> {
        Ok(())
    }

    fn as_atomic(&self) -> Option<&dyn Atomic> {
        self.base.as_atomic().map(|_| self as &dyn Atomic)
    }
}

impl Atomic for Step<'_> {
    fn update(
        &self,
        key: &[u8],
        _: Durability,
        decide: &mut dyn FnMut(Option<EntryRef<'_>>) -> Update,
    ) -> Result<()> {
        let mut slots = self.fetched(&[key])?;
        let update = decide(slots.by_key.get(key).and_then(|slot| slot.live(self.now_ms)));
        slots.write(key, update);
        self.refuse_full(&slots)
    }

    fn update_all(
        &self,
        keys: &[&[u8]],
        _: Durability,
        decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
    ) -> Result<()> {
        let mut slots = self.fetched(keys)?;
        let live = |key: &&[u8]| slots.by_key.get(*key).and_then(|slot| slot.live(self.now_ms));
        let entries: Vec<_> = keys.iter().map(live).collect();
        let updates = decide(&entries);
        if updates.len() != keys.len() {
            let text = "an update of several keys has another number of results than keys";
            return Err(Error::new(ErrorKind::Config, text));
        }
        for (key, update) in keys.iter().zip(updates) {
            slots.write(key, update);
        }
        self.refuse_full(&slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica::engine::EngineExt;

    fn store() -> (tempfile::TempDir, silica::Silica) {
        let directory = tempfile::tempdir().unwrap();
        let store = silica::open(directory.path()).unwrap();
        (directory, store)
    }

    fn commit(step: Step<'_>) -> Option<usize> {
        step.commit(&[], &mut |_, _| true).unwrap().map(|keys| keys.len())
    }

    #[test]
    fn a_step_sees_itself_and_changes_nothing_before_its_end() {
        let (_directory, store) = store();
        let keyspace = store.keyspace("a").unwrap();
        let engine: &dyn Engine = &**keyspace.engine();
        engine.put(b"k", b"old", Durability::Buffered).unwrap();
        let step = Step::new(engine, 1, 1 << 20);
        assert_eq!(step.get(b"k").unwrap().unwrap(), b"old");
        step.put(b"k", b"new", Durability::Buffered).unwrap();
        step.put(b"l", b"more", Durability::Buffered).unwrap();
        assert_eq!(step.get(b"k").unwrap().unwrap(), b"new");
        assert_eq!(engine.get(b"k").unwrap().unwrap(), b"old");
        assert_eq!(commit(step), Some(2));
        assert_eq!(engine.get(b"k").unwrap().unwrap(), b"new");
        assert_eq!(engine.get(b"l").unwrap().unwrap(), b"more");
    }

    #[test]
    fn a_step_fails_if_what_it_read_has_changed() {
        let (_directory, store) = store();
        let keyspace = store.keyspace("a").unwrap();
        let engine: &dyn Engine = &**keyspace.engine();
        for (read, want) in [(b"k", None), (b"l", Some(1))] {
            engine.put(b"k", b"1", Durability::Buffered).unwrap();
            let step = Step::new(engine, 1, 1 << 20);
            let _ = step.get(read).unwrap();
            step.put(b"m", b"mine", Durability::Buffered).unwrap();
            engine.put(b"k", b"2", Durability::Buffered).unwrap();
            assert_eq!(commit(step), want, "{read:?}");
        }
        // Reads alone hold together, too.
        let step = Step::new(engine, 1, 1 << 20);
        let _ = (step.get(b"k").unwrap(), step.get(b"l").unwrap());
        engine.put(b"k", b"3", Durability::Buffered).unwrap();
        assert_eq!(commit(step), None);
    }

    #[test]
    fn a_step_holds_no_more_than_it_may() {
        let (_directory, store) = store();
        let keyspace = store.keyspace("a").unwrap();
        let engine: &dyn Engine = &**keyspace.engine();
        engine.put(b"k", &[7; 5000], Durability::Buffered).unwrap();
        let step = Step::new(engine, 1, 4000);
        let refused = step.get(b"k").unwrap_err().to_string();
        assert!(refused.contains("--client-memory"), "{refused}");
        assert!(step.put(b"l", &[7; 5000], Durability::Buffered).is_err());
    }
}
