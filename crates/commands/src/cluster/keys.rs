//! The keys of slots, for who moves slots.
//!
//! No index of slots is kept: it would cost memory for each key of every database, for something
//! that is asked for once in months. Instead the first question about a slot walks over all keys
//! once, and notes those of the slot and of the slots behind it, as many as fit into a budget:
//! tools move slots in ascending order, so one walk serves many slots. From then on whoever writes
//! a key of these slots notes it here, before the write takes effect, so what is noted has every
//! key that is there. Keys that are gone are dropped when they are met. What nobody asks about for
//! a while is forgotten.

use super::slots::{SLOTS, slot_of};
use crate::resp::Keyspace;
use crate::resp::whole::each_key;
use crate::watch::{Watchers, WrittenKeys};
use silica::engine::{EntryRef, GetSink, Result};
use silica_types::is_inner;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Slots that one walk notes at most.
const SLOTS_NOTED: u16 = 2048;
/// Bytes of names after which the last slots of a walk are dropped again.
const NOTED_BYTES_MAX: usize = 64 << 20;
/// Memory of a name beside its bytes.
const NAME_BYTES: usize = 48;
/// Milliseconds without a question after which everything is forgotten.
const KEPT_MS: u64 = 60_000;
/// Keys whose presence is asked for in one engine call.
const ASKED: usize = 256;

/// Names of one slot, in their order.
type Names = BTreeSet<Box<[u8]>>;

/// What is noted.
#[derive(Default)]
struct Noted {
    /// The slots that are complete; empty if none are.
    slots: Range<u16>,
    names: BTreeMap<u16, Names>,
    bytes: usize,
    /// When somebody has asked for the last time, in monotonic milliseconds.
    asked_ms: u64,
}

impl Noted {
    fn add(&mut self, key: &[u8]) {
        let slot = slot_of(key);
        if self.slots.contains(&slot) && self.names.entry(slot).or_default().insert(key.into()) {
            self.bytes += key.len() + NAME_BYTES;
        }
        // At least the slot that was asked for stays.
        while self.bytes > NOTED_BYTES_MAX && self.slots.len() > 1 {
            self.slots.end -= 1;
            let dropped = self.names.remove(&self.slots.end).unwrap_or_default();
            self.bytes -= dropped.iter().map(|name| name.len() + NAME_BYTES).sum::<usize>();
        }
    }
}

/// The keys of some slots of database 0.
#[derive(Default)]
pub(crate) struct SlotKeys {
    /// Writers have to note their keys.
    is_active: AtomicBool,
    noted: Mutex<Noted>,
    /// Held during a walk.
    walking: Mutex<()>,
}

impl WrittenKeys for SlotKeys {
    fn is_active(&self) -> bool {
        self.is_active.load(Ordering::SeqCst)
    }

    fn note(&self, keys: &mut dyn Iterator<Item = &[u8]>) {
        let mut noted = self.noted();
        keys.filter(|key| !is_inner(key)).for_each(|key| noted.add(key));
    }
}

impl SlotKeys {
    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets everything if nobody has asked for long.
    pub(crate) fn forget_old(&self, now_ms: u64) {
        if !self.is_active.load(Ordering::Relaxed) {
            return;
        }
        let Ok(_walking) = self.walking.try_lock() else { return };
        let mut noted = self.noted();
        if now_ms > noted.asked_ms + KEPT_MS {
            self.is_active.store(false, Ordering::SeqCst);
            *noted = Noted::default();
        }
    }

    /// Up to `max` keys of `slot` that are there, while no walk has to be made anew.
    pub(crate) fn list(
        &self,
        keys: &Keyspace<'_>,
        watchers: &Watchers,
        slot: u16,
        max: usize,
    ) -> Result<Vec<Box<[u8]>>> {
        let walking = self.walking.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = {
            let mut noted = self.noted();
            noted.asked_ms = keys.service.monotonic_ms();
            noted.slots.contains(&slot)
        };
        if !is_known && let Err(error) = self.walk(keys, watchers, slot) {
            self.is_active.store(false, Ordering::SeqCst);
            *self.noted() = Noted::default();
            return Err(error);
        }
        drop(walking);
        self.present(keys, watchers, slot, max)
    }

    /// Notes the keys of `slot` and of slots behind it.
    fn walk(&self, keys: &Keyspace<'_>, watchers: &Watchers, slot: u16) -> Result<()> {
        let end = SLOTS.min(slot.saturating_add(SLOTS_NOTED));
        let asked_ms = keys.service.monotonic_ms();
        *self.noted() = Noted { slots: slot..end, asked_ms, ..Noted::default() };
        self.is_active.store(true, Ordering::SeqCst);
        // Who has begun to write before that may not have seen it: the walk sees what they wrote.
        watchers.wait_for_writes();
        each_key(keys, &mut |key| {
            if (slot..end).contains(&slot_of(key)) {
                self.noted().add(key);
            }
        })
    }

    /// The first `max` noted keys of `slot` that are there. Those that are gone are dropped.
    fn present(
        &self,
        keys: &Keyspace<'_>,
        watchers: &Watchers,
        slot: u16,
        max: usize,
    ) -> Result<Vec<Box<[u8]>>> {
        let mut found = Vec::new();
        let mut from: Option<Box<[u8]>> = None;
        while found.len() < max {
            let some: Vec<Box<[u8]>> = {
                let noted = self.noted();
                let Some(names) = noted.names.get(&slot) else { break };
                let lower = match &from {
                    None => std::ops::Bound::Unbounded,
                    Some(last) => std::ops::Bound::Excluded(last.clone()),
                };
                let range = names.range::<Box<[u8]>, _>((lower, std::ops::Bound::Unbounded));
                range.take(ASKED.min(max - found.len())).cloned().collect()
            };
            let Some(last) = some.last() else { break };
            from = Some(last.clone());
            let is_there = are_there(keys, &names_of(&some))?;
            let (there, gone): (Vec<_>, Vec<_>) =
                some.into_iter().zip(is_there).partition(|(_, is_there)| *is_there);
            found.extend(there.into_iter().map(|(key, _)| key));
            self.drop_gone(keys, watchers, gone.into_iter().map(|(key, _)| key).collect())?;
        }
        Ok(found)
    }

    /// Drops keys of a slot that were gone, unless somebody writes them just now.
    fn drop_gone(
        &self,
        keys: &Keyspace<'_>,
        watchers: &Watchers,
        gone: Vec<Box<[u8]>>,
    ) -> Result<()> {
        if gone.is_empty() {
            return Ok(());
        }
        {
            let mut noted = self.noted();
            for key in &gone {
                let names = noted.names.get_mut(&slot_of(key));
                if names.is_some_and(|names| names.remove(key)) {
                    noted.bytes -= key.len() + NAME_BYTES;
                }
            }
        }
        // A writer notes before it writes: what it has noted may just have been dropped.
        watchers.wait_for_writes();
        let is_there = are_there(keys, &names_of(&gone))?;
        let mut noted = self.noted();
        gone.iter().zip(is_there).filter(|(_, is_there)| *is_there).for_each(|(key, _)| {
            noted.add(key);
        });
        Ok(())
    }
}

fn names_of(keys: &[Box<[u8]>]) -> Vec<&[u8]> {
    keys.iter().map(|key| &**key).collect()
}

/// Notes which keys are found.
struct There(Vec<bool>);

impl GetSink for There {
    fn found(&mut self, index: usize, _: EntryRef<'_>) {
        self.0[index] = true;
    }

    fn wants(&mut self, index: usize, _: usize) -> bool {
        self.0[index] = true;
        false
    }
}

/// Which of `names` are there.
pub(crate) fn are_there(keys: &Keyspace<'_>, names: &[&[u8]]) -> Result<Vec<bool>> {
    let mut there = There(vec![false; names.len()]);
    keys.engine.get_many(names, &mut there)?;
    Ok(there.0)
}
