//! Atomic updates: read without a lock, decide, and apply if nothing has changed meanwhile.

use crate::cache::Dida;
use crate::flash::Flash;
use crate::write::Hashed;
use silica_base::Result;
use silica_device::Device;
use silica_engine::{Atomic, Durability, EntryRef, Op, Update};
use std::sync::atomic::Ordering;

/// An entry as it was read, and how to tell that it is still the same.
pub(crate) struct Seen {
    /// The slot and the sequence of its slab; `None` if there was no slot.
    pub(crate) slot: Option<(u64, u64)>,
    /// The key's own entry.
    pub(crate) entry: Option<Owned>,
}

/// An entry.
pub(crate) struct Owned {
    pub(crate) value: Vec<u8>,
    pub(crate) expires_unix_ms: u64,
    pub(crate) user_bits: u32,
}

impl Owned {
    pub(crate) fn new(entry: EntryRef<'_>) -> Self {
        let EntryRef { value, expires_unix_ms, user_bits } = entry;
        Owned { value: value.to_vec(), expires_unix_ms, user_bits }
    }

    fn entry(&self) -> EntryRef<'_> {
        let Owned { value, expires_unix_ms, user_bits } = self;
        EntryRef { value, expires_unix_ms: *expires_unix_ms, user_bits: *user_bits }
    }
}

impl<F: Flash, D: Device> Dida<F, D> {
    /// True if the index has what was seen. For who holds the lock of the bucket.
    fn is_unchanged(&self, hash: u64, seen: &Seen) -> bool {
        let now = self.index.find(&self.layout, hash).map(|found| {
            let slab = self.slabs.get(self.layout.place_of(found.slot).slab);
            (found.slot, slab.sequence.load(Ordering::Relaxed))
        });
        now == seen.slot
    }

    fn update_keys(
        &self,
        keys: &[&[u8]],
        decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
    ) -> Result<()> {
        let hashes: Vec<u64> = keys.iter().map(|key| self.seed.low(key)).collect();
        loop {
            let seen: Result<Vec<Seen>> =
                keys.iter().zip(&hashes).map(|(key, hash)| self.see(key, *hash)).collect();
            let seen = seen?;
            let entries: Vec<Option<EntryRef<'_>>> =
                seen.iter().map(|seen| seen.entry.as_ref().map(Owned::entry)).collect();
            let updates = decide(&entries);
            let ops = keys.iter().zip(&hashes).zip(&updates);
            let hashed: Vec<Hashed<'_>> = ops
                .filter_map(|((key, hash), update)| {
                    let kind = update.kind()?;
                    Some(Hashed { hash: *hash, op: Op { key, kind } })
                })
                .collect();
            let ops: Vec<Op<'_>> = hashed.iter().map(|hashed| hashed.op).collect();
            self.check_ops(&ops)?;
            if self.apply_to(&hashes, &seen, &hashed)? {
                return self.journal.settle();
            }
        }
    }

    /// Applies operations if what was seen is still so; false if it is not.
    fn apply_to(&self, hashes: &[u64], seen: &[Seen], hashed: &[Hashed<'_>]) -> Result<bool> {
        let mut rooms = 0;
        loop {
            let guards = self.index.lock_many(hashes.iter().map(|h| self.layout.bucket(*h)));
            let mut all = hashes.iter().zip(seen);
            if !all.all(|(hash, seen)| self.is_unchanged(*hash, seen)) {
                return Ok(false);
            }
            if self.apply_locked(hashed)? {
                return Ok(true);
            }
            drop(guards);
            rooms = (rooms + 1).min(self.rooms_max());
            self.make_room(rooms)?;
        }
    }
}

impl<F: Flash, D: Device> Atomic for Dida<F, D> {
    fn update(
        &self,
        key: &[u8],
        _durability: Durability,
        decide: &mut dyn FnMut(Option<EntryRef<'_>>) -> Update,
    ) -> Result<()> {
        self.update_keys(&[key], &mut |entries| vec![decide(entries[0])])
    }

    fn update_all(
        &self,
        keys: &[&[u8]],
        _durability: Durability,
        decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
    ) -> Result<()> {
        self.update_keys(keys, decide)
    }
}
