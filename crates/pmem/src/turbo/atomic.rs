//! Atomic read-modify-write: the shards of the keys stay locked from reading to writing. Readers go
//! on.

use super::batch::{Bond, Locked};
use super::read::Scratch;
use super::store::Turbo;
use super::write::check_limits;
use silica_base::{ErrorKind, Result};
use silica_device::region::Region;
use silica_engine::{Atomic, Durability, EntryRef, Op, OpKind, Update};
use std::ops::Range;

/// Updates that a burst makes at once.
const UPDATES_MAX: usize = 32;

/// An entry that was copied, by where in the bytes its value is.
type Slot = Option<(Range<usize>, u64, u32)>;

impl<R: Region> Turbo<R> {
    fn hashes(&self, keys: &[&[u8]]) -> Vec<u64> {
        let mut hashes = vec![0; keys.len()];
        self.seed.low_many(keys, &mut hashes);
        hashes
    }

    /// True if an entry has expired meanwhile that decided something: readers see that it is gone.
    fn is_over(&self, scratch: &Scratch) -> bool {
        scratch.expires_unix_ms != 0 && scratch.expires_unix_ms <= self.clock.unix_ms()
    }

    /// The entry that an update leaves to the next one of its key in the same burst.
    fn left<'u>(&self, update: &'u Update, scratch: &mut Scratch) -> Option<EntryRef<'u>> {
        let Some(OpKind::Put(entry)) = update.kind() else { return None };
        (!self.has_expired(entry.expires_unix_ms, &mut scratch.now_ms)).then_some(entry)
    }

    /// Decides updates of the first keys, whose shards are locked. An update over a limit ends
    /// them.
    fn decide_many(
        &self,
        keys: &[&[u8]],
        hashes: &[u64],
        decide: &mut dyn FnMut(usize, Option<EntryRef<'_>>) -> Update,
    ) -> Result<Vec<Update>> {
        loop {
            let mut scratch = Scratch::default();
            let mut updates: Vec<Update> = Vec::with_capacity(keys.len());
            for (index, (key, hash)) in keys.iter().zip(hashes).enumerate() {
                let is_same = |i: &usize| keys[*i] == *key && updates[*i] != Update::Keep;
                let update = match (0..index).rev().find(is_same) {
                    Some(earlier) => {
                        let left = self.left(&updates[earlier], &mut scratch);
                        decide(index, left)
                    }
                    None => self.current(key, *hash, &mut scratch, |entry| decide(index, entry))?,
                };
                match check_limits(op_of(key, &update).as_slice()) {
                    Ok(()) => updates.push(update),
                    Err(error) if index == 0 => return Err(error),
                    // Its error is not the others'.
                    Err(_) => break,
                }
            }
            if !self.is_over(&scratch) {
                return Ok(updates);
            }
        }
    }

    /// Writes updates of keys whose shards are locked.
    fn apply_updates(
        &self,
        keys: &[&[u8]],
        hashes: &[u64],
        updates: &[Update],
        locked: &mut Locked<'_>,
    ) -> Result<()> {
        let (mut ops, mut of_ops) = (Vec::new(), Vec::new());
        for ((key, hash), update) in keys.iter().zip(hashes).zip(updates) {
            if let Some(op) = op_of(key, update) {
                ops.push(op);
                of_ops.push(*hash);
            }
        }
        if ops.is_empty() {
            return Ok(());
        }
        self.write_all_locked(&ops, &of_ops, locked, Bond::Together)
    }
}

fn op_of<'o>(key: &'o [u8], update: &'o Update) -> Option<Op<'o>> {
    update.kind().map(|kind| Op { key, kind })
}

impl<R: Region> Atomic for Turbo<R> {
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
        self.check_writable(durability)?;
        let keys = &keys[..keys.len().min(UPDATES_MAX)];
        let hashes = self.hashes(keys);
        let mut locked = self.lock_all_of(&hashes)?;
        let mut updates = self.decide_many(keys, &hashes, decide)?;
        loop {
            let many = updates.len();
            let applied = self.apply_updates(&keys[..many], &hashes, &updates, &mut locked);
            match applied {
                Ok(()) => return Ok(many),
                Err(error) if many <= 1 || error.kind() != ErrorKind::Full => {
                    return Err(error);
                }
                Err(_) => updates.truncate(many / 2),
            }
        }
    }

    fn update_all(
        &self,
        keys: &[&[u8]],
        durability: Durability,
        decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
    ) -> Result<()> {
        self.check_writable(durability)?;
        let hashes = self.hashes(keys);
        let mut locked = self.lock_all_of(&hashes)?;
        let (mut bytes, mut slots) = (Vec::new(), Vec::new());
        let updates = loop {
            let mut scratch = Scratch::default();
            bytes.clear();
            slots.clear();
            for (key, hash) in keys.iter().zip(&hashes) {
                let slot: Slot = self.current(key, *hash, &mut scratch, |entry| {
                    let entry = entry?;
                    let start = bytes.len();
                    bytes.extend_from_slice(entry.value);
                    Some((start..bytes.len(), entry.expires_unix_ms, entry.user_bits))
                })?;
                slots.push(slot);
            }
            let entry = |slot: &Slot| {
                let (range, expires_unix_ms, user_bits) = slot.clone()?;
                Some(EntryRef { value: &bytes[range], expires_unix_ms, user_bits })
            };
            let entries: Vec<Option<EntryRef<'_>>> = slots.iter().map(entry).collect();
            let updates = decide(&entries);
            if !self.is_over(&scratch) {
                break updates;
            }
        };
        let ops: Vec<Op<'_>> =
            keys.iter().zip(&updates).filter_map(|(key, update)| op_of(key, update)).collect();
        check_limits(&ops)?;
        self.apply_updates(keys, &hashes, &updates, &mut locked)
    }
}
