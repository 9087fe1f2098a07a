//! What a step has changed is written, if the engine still holds what was read.

use super::overlaid::ELEMENT_BYTES_USUAL;
use super::slots::Slot;
use super::{Objects, Value};
use crate::engine_calls::atomic;
use crate::watch::untold;
use silica::engine::{Durability, EntryRef, Expected, GetSink, Op, OpKind, Result, Update};
use silica_types::{is_marked, pages_of};
use std::ops::Range;

impl Objects<'_> {
    /// Removes the object of which the engine, a cache, has evicted a page: nothing is left of it.
    /// Its key; `None` if no page is missing, or somebody has changed the object meanwhile.
    pub(crate) fn forget_evicted(&self) -> Result<Option<Box<[u8]>>> {
        let engine = self.pages.engine;
        let lost = self.pages.lost.filter(|_| engine.descriptor().capabilities.may_evict);
        let Some(page) = lost else { return Ok(None) };
        for slot in self.slots.all() {
            let Some(seen) = slot.seen().filter(|seen| is_marked(seen.user_bits)) else {
                continue;
            };
            let key = &slot.key;
            if pages_of(&seen.value).is_none_or(|(own, _)| own != page.object) {
                continue;
            }
            let mut is_gone = false;
            // Both at once: a page may come a moment after the entry that tells of it.
            let both: [&[u8]; 2] = [key, &page.key()];
            atomic(engine)?.update_all(&both, Durability::Buffered, &mut |entries| {
                is_gone = entries[0] == Some(seen.entry()) && entries[1].is_none();
                vec![if is_gone { Update::Delete } else { Update::Keep }, Update::Keep]
            })?;
            return Ok(is_gone.then(|| Box::from(&key[..])));
        }
        Ok(None)
    }

    /// Writes what was changed, if all that was read together still holds; false if it does not,
    /// or a migration has ended meanwhile.
    ///
    /// Pages come before the entries that refer to them, so a reader of an entry finds its pages if
    /// the engine publishes in order; then an object whose entry is what it was, once all writes
    /// that may have been seen in part are done, has the pages that were read. Else whoever reads
    /// an entry may see the one that a write has just left, and after it a page that the same write
    /// is about to replace: then pages are compared, too.
    pub(crate) fn commit(&mut self) -> Result<bool> {
        let slots = self.slots.all();
        if !slots.iter().any(|slot| slot.is_changed) && !self.is_linked {
            return Ok(true);
        }
        let states = self.counted();
        let written = self.write();
        if !matches!(written, Ok(true)) {
            states.into_iter().for_each(|state| self.service.known_counts.forget(state));
        }
        written
    }

    /// Tells what is known of the ranks of sorted sets, of those that were changed before they are
    /// written: whoever finds one so finds its counts. The states of these.
    fn counted(&self) -> Vec<(u64, u64)> {
        let mut states = Vec::new();
        for slot in self.slots.all() {
            let Value::Object(object, _) = &slot.value else { continue };
            if !(slot.is_changed || self.pages.elements.has_news) {
                continue;
            }
            let Some(state) = object.state() else { continue };
            let counts = self.pages.elements.of_object(state.0);
            if !counts.is_empty() {
                self.service.known_counts.put(state, counts);
                states.push(state);
            }
        }
        states
    }

    fn write(&self) -> Result<bool> {
        if !self.pages.is_of_one_order() {
            return Ok(false);
        }
        let (engine, slots) = (self.pages.engine, self.slots.all());
        let is_changed = slots.iter().any(|slot| slot.is_changed);
        let is_in_order = self.pages.is_in_order();
        let mut expected: Vec<Expected<'_>> = slots.iter().map(Slot::expected).collect();
        // A key that was asked for twice is one entry, too. An engine that expects one entry waits
        // for nobody, and so not for a write that was seen in part.
        let is_each_for_itself = !self.is_of_several || expected.len() == 1;
        if !is_changed && is_each_for_itself && is_in_order {
            return self.still_holds(&expected);
        }
        if !is_in_order {
            let seen = self.pages.slots().filter_map(|page| Some((page.key(), page.seen()?)));
            expected.extend(seen.map(|(key, seen)| Expected { key, entry: Some(seen) }));
        }
        // What was seen of an object and an element more, about, is what is written of it.
        let usual = |slot: &Slot| slot.seen().map_or(0, |seen| seen.value.len());
        let changed = slots.iter().filter(|slot| slot.is_changed);
        let room: usize = changed.map(|slot| usual(slot) + ELEMENT_BYTES_USUAL).sum();
        let mut encoded = Vec::with_capacity(room);
        let values: Vec<Range<usize>> =
            slots.iter().map(|slot| slot.encode(&mut encoded)).collect();
        let pages = self.pages.slots().filter_map(|page| {
            let kind = match page.written()? {
                Some(bytes) => OpKind::Put(EntryRef::new(bytes)),
                None => OpKind::Delete,
            };
            Some(Op { key: page.key(), kind })
        });
        let elements = self.pages.elements.written().map(|(key, value)| {
            let kind = value.map_or(OpKind::Delete, |value| OpKind::Put(EntryRef::new(value)));
            Op { key, kind }
        });
        let keys = slots.iter().zip(values).filter(|(slot, _)| slot.is_changed);
        let keys = keys.filter_map(|(slot, value)| {
            Some(Op { key: &slot.key, kind: slot.op(&encoded[value])? })
        });
        let mut ops: Vec<Op<'_>> = Vec::with_capacity(self.pages.slots().len() + slots.len());
        ops.extend(pages.chain(elements).chain(keys));
        let quiet = slots.iter().filter(|slot| slot.is_changed && !slot.is_told);
        let write = || atomic(engine)?.write_expecting(&expected, &ops, Durability::Buffered);
        untold(quiet.map(|slot| &*slot.key), write)
    }

    /// True if all that was read still holds, so that an error which it led to is one of the store
    /// and not of a moment between two writes.
    pub(crate) fn is_current(&self) -> Result<bool> {
        if !self.pages.is_of_one_order() {
            return Ok(false);
        }
        let lost = self.pages.lost.map(|page| page.key());
        let mut expected: Vec<Expected<'_>> = self.slots.all().iter().map(Slot::expected).collect();
        let seen = self.pages.slots().filter_map(|page| Some((page.key(), page.seen()?)));
        expected.extend(seen.map(|(key, seen)| Expected { key, entry: Some(seen) }));
        expected.extend(lost.iter().map(|key| Expected { key, entry: None }));
        let atomic = atomic(self.pages.engine)?;
        atomic.settle();
        atomic.write_expecting(&expected, &[], Durability::Buffered)
    }

    /// True if keys still have these entries, each of which is looked at for itself.
    fn still_holds(&self, expected: &[Expected<'_>]) -> Result<bool> {
        // What was read may be a part of what a write was about to leave.
        atomic(self.pages.engine)?.settle();
        let keys: Vec<&[u8]> = expected.iter().map(|expected| expected.key).collect();
        let mut sink = Compared { expected, found: 0, holds: true };
        self.pages.engine.get_many(&keys, &mut sink)?;
        let there = expected.iter().filter(|expected| expected.entry.is_some()).count();
        Ok(sink.holds && sink.found == there)
    }
}

impl Slot {
    /// Appends the value of an object that was changed to `encoded`; where it is.
    fn encode(&self, encoded: &mut Vec<u8>) -> Range<usize> {
        let start = encoded.len();
        if let Value::Object(object, _) = &self.value
            && self.is_changed
        {
            object.encode_into(encoded);
        }
        start..encoded.len()
    }
}

/// Compares entries with those that are expected.
struct Compared<'c> {
    expected: &'c [Expected<'c>],
    found: usize,
    holds: bool,
}

impl GetSink for Compared<'_> {
    fn found(&mut self, index: usize, entry: EntryRef<'_>) {
        self.found += 1;
        self.holds &= self.expected[index].entry == Some(entry);
    }
}
