//! Puts and deletes: a put goes to a slab in memory, then the index names it there. Neither reads
//! flash: whatever the bucket has under the key's tag is replaced. That is the key itself, or, as
//! rarely as two tags are equal, a stranger, which vanishes.

use crate::cache::Dida;
use crate::flash::Flash;
use crate::item::Item;
use crate::journal::Record;
use crate::layout::{BUCKET_SLOTS, Place};
use crate::streams::{NoRoom, SHORT_MS, Stream};
use silica_base::{Error, ErrorKind, Result};
use silica_device::Device;
use silica_engine::{EntryRef, Op, OpKind};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// An operation with the hash of its key.
#[derive(Clone, Copy)]
pub(crate) struct Hashed<'a> {
    pub(crate) hash: u64,
    pub(crate) op: Op<'a>,
}

/// What happens to a slot of the index.
struct Change {
    at: usize,
    slot: u64,
    /// What the slot named before.
    old: Option<Place>,
    /// The old one is another key's, which had to go for want of slots.
    is_eviction: bool,
}

impl<F: Flash, D: Device> Dida<F, D> {
    /// Applies operations as one.
    pub(crate) fn apply(&self, ops: &[Op<'_>]) -> Result<()> {
        self.check_ops(ops)?;
        let hashed: Vec<Hashed<'_>> =
            ops.iter().map(|op| Hashed { hash: self.seed.low(op.key), op: *op }).collect();
        let buckets = || hashed.iter().map(|h| self.layout.bucket(h.hash));
        let mut rooms = 0;
        loop {
            let guards = self.index.lock_many(buckets());
            if self.apply_locked(&hashed)? {
                break;
            }
            drop(guards);
            rooms = (rooms + 1).min(self.rooms_max());
            self.make_room(rooms)?;
        }
        self.journal.settle()
    }

    /// Places in memory that a batch can wait for.
    pub(crate) fn rooms_max(&self) -> usize {
        self.layout.memory_slabs as usize - 3
    }

    pub(crate) fn check_ops(&self, ops: &[Op<'_>]) -> Result<()> {
        self.check_open()?;
        Op::refuse_ranges(ops, "dida")?;
        let mut bytes = 0;
        for op in ops {
            let value = op.value_over(0).map_or(0, <[u8]>::len);
            self.check(op.key.len(), value)?;
            bytes += op.key.len() + value;
        }
        let most = self.descriptor.limits.batch_bytes_max;
        if bytes > most && ops.len() > 1 {
            let message = format!(
                "a batch of {bytes} bytes is over the flash cache's limit of {most}; write it in \
                 pieces, or give the cache more memory_slabs"
            );
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        Ok(())
    }

    /// Applies operations for who holds the locks of their buckets; false if there is no room in
    /// memory, and nothing has happened.
    pub(crate) fn apply_locked(&self, hashed: &[Hashed<'_>]) -> Result<bool> {
        // Of several operations that share a slot, the last counts.
        let key = |h: &Hashed<'_>| (self.layout.bucket(h.hash), self.layout.tag(h.hash));
        let last: BTreeMap<(usize, u64), usize> = match hashed {
            [_] => BTreeMap::new(),
            _ => hashed.iter().enumerate().map(|(at, h)| (key(h), at)).collect(),
        };
        let is_last = |at: usize| hashed.len() == 1 || last[&key(&hashed[at])] == at;
        let mut placed: Vec<(usize, Option<Place>)> = Vec::with_capacity(hashed.len());
        for (at, Hashed { hash, op }) in hashed.iter().enumerate() {
            if !is_last(at) {
                continue;
            }
            let place = match op.kind {
                OpKind::Put(entry) => {
                    let item = Item { key: op.key, entry };
                    match self.append(self.stream_of(&entry), *hash, &item) {
                        Ok(Ok(place)) => Some(place),
                        Ok(Err(NoRoom)) => {
                            self.take_back(&placed);
                            return self.record(&[]).map(|()| false);
                        }
                        Err(error) => {
                            self.take_back(&placed);
                            return Err(error);
                        }
                    }
                }
                _ => None,
            };
            placed.push((at, place));
        }
        let changes = self.changes(hashed, &placed);
        let dead = changes.iter().filter_map(|change| change.old.map(|old| self.dead(old)));
        let records: Vec<Record> = dead.collect();
        if let Err(error) = self.record(&records) {
            self.take_back(&placed);
            return Err(error);
        }
        for change in &changes {
            self.index.store(change.at, change.slot);
            if let Some(old) = change.old {
                self.bury(old);
            }
            if change.is_eviction {
                self.counts.evicted_from_index.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.count(hashed);
        Ok(true)
    }

    fn stream_of(&self, entry: &EntryRef<'_>) -> Stream {
        match entry.expires_unix_ms {
            0 => Stream::New,
            at if at <= self.clock.unix_ms() + SHORT_MS => Stream::Short,
            _ => Stream::New,
        }
    }

    /// Items that were appended are not to be named after all, not by a recovery either.
    fn take_back(&self, placed: &[(usize, Option<Place>)]) {
        let places = || placed.iter().filter_map(|(_, place)| *place);
        self.journal.owe(places().map(|place| self.dead(place)));
        places().for_each(|place| self.bury(place));
    }

    /// What the operations change in the index.
    fn changes(&self, hashed: &[Hashed<'_>], placed: &[(usize, Option<Place>)]) -> Vec<Change> {
        let mut changes: Vec<Change> = Vec::with_capacity(placed.len());
        // First those that have a slot, so that no other operation of the batch takes it.
        let mut fresh = Vec::new();
        for (at, place) in placed {
            let Hashed { hash, op } = hashed[*at];
            let item = |entry| Item { key: op.key, entry };
            let bytes = match op.kind {
                OpKind::Put(entry) => item(entry).bytes(),
                _ => 0,
            };
            let slot = place.map_or(0, |place| self.layout.slot(hash, place, bytes));
            match self.index.find(&self.layout, hash) {
                Some(found) => {
                    let old = Some(self.layout.place_of(found.slot));
                    changes.push(Change { at: found.at, slot, old, is_eviction: false });
                }
                None if slot != 0 => fresh.push((self.layout.bucket(hash), slot)),
                None => {}
            }
        }
        for (bucket, slot) in fresh {
            let change = self.slot_for(bucket, slot, &changes);
            changes.push(change);
        }
        changes
    }

    /// A slot of a bucket for a key that has none: an empty one, or that of the entry whose slab
    /// was used longest ago, which would be the next to go anyway.
    fn slot_for(&self, bucket: usize, slot: u64, changes: &[Change]) -> Change {
        let is_taken = |at: usize| changes.iter().any(|change| change.at == at);
        let slots = bucket * BUCKET_SLOTS..(bucket + 1) * BUCKET_SLOTS;
        let empty = slots.clone().find(|at| self.index.load(*at) == 0 && !is_taken(*at));
        if let Some(at) = empty {
            return Change { at, slot, old: None, is_eviction: false };
        }
        let used = |at: &usize| {
            let place = self.layout.place_of(self.index.load(*at));
            let slab = self.slabs.get(place.slab);
            (slab.used(), slab.sequence.load(Ordering::Relaxed))
        };
        let coldest = slots.clone().filter(|at| !is_taken(*at)).min_by_key(used);
        match coldest {
            Some(at) => {
                let old = Some(self.layout.place_of(self.index.load(at)));
                Change { at, slot, old, is_eviction: true }
            }
            // All slots are those of earlier operations of the batch: the first one's entry goes.
            None => self.instead_of(slots, slot, changes),
        }
    }

    fn instead_of(&self, slots: std::ops::Range<usize>, slot: u64, changes: &[Change]) -> Change {
        let earlier = changes.iter().rfind(|change| slots.contains(&change.at) && change.slot != 0);
        let earlier = earlier.or_else(|| changes.iter().find(|change| slots.contains(&change.at)));
        let earlier = earlier.expect("all slots of the bucket are taken");
        let old = (earlier.slot != 0).then(|| self.layout.place_of(earlier.slot));
        Change { at: earlier.at, slot, old, is_eviction: old.is_some() }
    }

    fn count(&self, hashed: &[Hashed<'_>]) {
        let mut bytes = 0;
        let mut puts = 0;
        for Hashed { op, .. } in hashed {
            if let OpKind::Put(entry) = op.kind {
                puts += 1;
                bytes += op.key.len() + entry.value.len();
            }
        }
        let counts = &self.counts;
        counts.puts.fetch_add(puts, Ordering::Relaxed);
        counts.deletes.fetch_add(hashed.len() as u64 - puts, Ordering::Relaxed);
        counts.user_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
