//! Atomic read-modify-write: the partitions of the keys stay locked from reading to writing.
//!
//! Readers go on until the writing begins.

use crate::chunks::Reading;
use crate::item::{Copied, Form, Scratch};
use crate::large::Held;
use crate::limits::at_most;
use crate::mica::Mica;
use crate::partition::Probe;
use crate::write::value_bytes;
use silica_base::Result;
use silica_engine::{Atomic, Copies, Durability, EntryRef, Expected, Op, OpKind, Update};

/// Updates that a burst makes at once.
const UPDATES_MAX: usize = 32;
/// Keys that are hashed together.
const HASHED_AT_ONCE: usize = 8;
/// Expected keys, from the one after the last that was written, among which the next one that is
/// written is looked for: those between are only read.
const SAME_AHEAD: usize = 4;

/// The time of a burst of updates, once an entry was seen that expires, and when the first of those
/// does; 0 if none was seen.
#[derive(Default)]
struct Moment {
    now_ms: Option<u64>,
    expires_unix_ms: u64,
}

impl Moment {
    fn note(&mut self, expires_unix_ms: u64) {
        let is_first = self.expires_unix_ms == 0 || expires_unix_ms < self.expires_unix_ms;
        if expires_unix_ms != 0 && is_first {
            self.expires_unix_ms = expires_unix_ms;
        }
    }
}

/// An entry that was copied, by where in the bytes its value is.
type Slot = Option<(std::ops::Range<usize>, u64, u32)>;

impl Mica {
    fn probes(&self, keys: &[&[u8]]) -> (Vec<Probe>, u64) {
        let probes: Vec<Probe> = keys.iter().map(|key| self.probe(key)).collect();
        probes.iter().for_each(|p| self.partition(p).prefetch_bucket(p));
        let mask = probes.iter().fold(0, |mask, p| mask | 1 << p.partition);
        (probes, mask)
    }

    /// Calls `see` with the entry of `key`, whose partition is locked.
    ///
    /// # Errors
    /// Fails if a large value is to be put together for which the thread has no memory.
    fn current<T>(
        &self,
        probe: &Probe,
        key: &[u8],
        (scratch, moment): (&mut Scratch, &mut Moment),
        see: impl FnOnce(Option<EntryRef<'_>>) -> T,
    ) -> Result<T> {
        let copied = self.partition(probe).read(probe, key, scratch);
        let copied = copied.filter(|copied| !self.has_expired(copied, &mut moment.now_ms));
        let Some(Copied { form: Form::List | Form::Chunk, .. }) = copied else {
            moment.note(copied.as_ref().map_or(0, |copied| copied.expires_unix_ms));
            return Ok(see(copied.map(|copied| scratch.entry(copied))));
        };
        let mut copies = Copies::default();
        let list = copied.expect("it was looked at");
        let copied = self.current_list(probe, key, list, (scratch, &mut copies))?;
        moment.note(copied.as_ref().map_or(0, |copied| copied.expires_unix_ms));
        let seen = see(copied.map(|copied| scratch.entry(copied)));
        scratch.trim();
        Ok(seen)
    }

    /// The large value of `key`, whose partition is locked, so that nobody overwrites it.
    #[cold]
    fn current_list(
        &self,
        probe: &Probe,
        key: &[u8],
        copied: Copied,
        (scratch, copies): (&mut Scratch, &mut Copies),
    ) -> Result<Option<Copied>> {
        let mut claimed = Ok(());
        let mut reading = Reading {
            held: Held::locked(1 << probe.partition),
            wants: &mut |bytes| {
                copies.clear();
                claimed = copies.claim(bytes);
                claimed.is_ok()
            },
            used: &mut |_, _, _, _| {},
        };
        let read = self.read_list((probe.partition as usize, key), copied, scratch, &mut reading);
        claimed.map(|()| read)
    }

    /// True if chunks would have to be put under more locks than the caller holds.
    fn needs_all(&self, updates: &[Update], held: Held) -> bool {
        let is_large = |update: &Update| match update {
            Update::Put { value, .. } => self.is_large(value.len()),
            Update::Keep | Update::Delete => false,
        };
        !held.is_owner && held.mask != self.all() && updates.iter().any(is_large)
    }

    /// Writes the updates of `keys`, whose partitions are locked and which are within the limits.
    fn apply_updates(
        &self,
        keys: &[&[u8]],
        probes: &[Probe],
        updates: &[Update],
        held: Held,
    ) -> Result<()> {
        let (mut ops, mut places) = (Vec::new(), Vec::new());
        for ((key, probe), update) in keys.iter().zip(probes).zip(updates) {
            if let Some(kind) = update.kind() {
                ops.push(Op { key, kind });
                places.push(*probe);
            }
        }
        self.apply_held(&ops, &places, held)
    }

    /// Writes the updates that fit, from the first on; returns how many.
    fn apply_first(
        &self,
        keys: &[&[u8]],
        probes: &[Probe],
        updates: &[Update],
        held: Held,
    ) -> Result<usize> {
        let Err(error) = self.apply_updates(keys, probes, updates, held) else {
            return Ok(updates.len());
        };
        if updates.len() == 1 {
            return Err(error);
        }
        for (at, key) in keys[..updates.len()].iter().enumerate() {
            match self.apply_updates(&[key], &probes[at..=at], &updates[at..=at], held) {
                Err(error) if at == 0 => return Err(error),
                Err(_) => return Ok(at),
                Ok(()) => {}
            }
        }
        Ok(updates.len())
    }

    /// Updates the first of `keys`, whose partitions are locked or owned; returns how many. `None`
    /// if one is large: then the caller has to lock all partitions.
    pub(crate) fn update_locked(
        &self,
        keys: &[&[u8]],
        probes: &[Probe],
        decide: &mut dyn FnMut(usize, Option<EntryRef<'_>>) -> Update,
        held: Held,
    ) -> Result<Option<usize>> {
        let keys = &keys[..keys.len().min(UPDATES_MAX)];
        let probes = &probes[..keys.len()];
        for probe in probes {
            let partition = self.partition(probe);
            partition.prefetch_tagged(probe.bucket as usize, probe.tag);
        }
        let mut scratch = Scratch::new();
        let mut updates: Vec<Update> = Vec::with_capacity(keys.len());
        loop {
            let mut moment = Moment::default();
            for (index, (key, probe)) in keys.iter().zip(probes).enumerate() {
                let is_same = |i: &usize| {
                    probes[*i].tag == probe.tag && keys[*i] == *key && updates[*i] != Update::Keep
                };
                let update = match (0..index).rev().find(is_same) {
                    Some(earlier) => {
                        let left = self.left(&updates[earlier], &mut moment);
                        decide(index, left)
                    }
                    None => {
                        let seen = (&mut scratch, &mut moment);
                        match self.current(probe, key, seen, |current| decide(index, current)) {
                            Err(error) if index == 0 => return Err(error),
                            Err(_) => break,
                            Ok(update) => update,
                        }
                    }
                };
                match self.check_update(key, &update) {
                    Ok(_) => updates.push(update),
                    Err(error) if index == 0 => return Err(error),
                    // Its error is not the others'.
                    Err(_) => break,
                }
            }
            if !self.is_over(&moment) {
                if self.needs_all(&updates, held) {
                    return Ok(None);
                }
                return self.apply_first(keys, probes, &updates, held).map(Some);
            }
            updates.clear();
        }
    }

    /// True if an entry has expired meanwhile that decided something: readers see that it is gone.
    fn is_over(&self, moment: &Moment) -> bool {
        moment.expires_unix_ms != 0 && moment.expires_unix_ms <= self.clock.unix_ms()
    }

    fn check_update(&self, key: &[u8], update: &Update) -> Result<usize> {
        let Some(kind) = update.kind() else { return Ok(0) };
        let value = value_bytes(&Op { key, kind });
        self.check(key.len(), value)?;
        Ok(key.len() + self.batch_bytes(value))
    }

    /// The entry that an update leaves to the next one of its key in the same burst.
    fn left<'u>(&self, update: &'u Update, moment: &mut Moment) -> Option<EntryRef<'u>> {
        let Some(OpKind::Put(entry)) = update.kind() else { return None };
        let expires = entry.expires_unix_ms;
        let now_ms = || self.clock.unix_ms();
        let lives = expires == 0 || expires > *moment.now_ms.get_or_insert_with(now_ms);
        lives.then_some(entry)
    }
}

impl Atomic for Mica {
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
        _durability: Durability,
        decide: &mut dyn FnMut(usize, Option<EntryRef<'_>>) -> Update,
    ) -> Result<usize> {
        let keys = &keys[..keys.len().min(UPDATES_MAX)];
        let (probes, mut mask) = self.probes(keys);
        loop {
            let locked = self.lock(mask)?;
            let updated = self.update_locked(keys, &probes, decide, Held::locked(mask));
            drop(locked);
            self.tidy_remains(mask, Held::NONE);
            match updated? {
                Some(updated) => return Ok(updated),
                None => mask = self.all(),
            }
        }
    }

    fn update_all(
        &self,
        keys: &[&[u8]],
        _durability: Durability,
        decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
    ) -> Result<()> {
        let (probes, mut mask) = self.probes(keys);
        loop {
            let locked = self.lock(mask)?;
            let is_done = self.update_all_locked(keys, &probes, decide, Held::locked(mask));
            drop(locked);
            self.tidy_remains(mask, Held::NONE);
            if is_done? {
                return Ok(());
            }
            mask = self.all();
        }
    }

    fn write_expecting(
        &self,
        expected: &[Expected<'_>],
        ops: &[Op<'_>],
        _durability: Durability,
    ) -> Result<bool> {
        Op::refuse_ranges(ops, "mica")?;
        let (mut bytes, mut has_large) = (0, false);
        for op in ops {
            let value = value_bytes(op);
            self.check(op.key.len(), value)?;
            bytes += op.key.len() + self.batch_bytes(value);
            has_large |= self.is_large(value);
        }
        at_most(bytes, self.descriptor.limits.batch_bytes_max, "batch")?;
        let probes = self.probes_of(expected, ops);
        probes.iter().for_each(|p| self.partition(p).prefetch_bucket(p));
        let mask = match has_large {
            true => self.all(),
            false => probes.iter().fold(0, |mask, p| mask | 1 << p.partition),
        };
        let (of_expected, of_ops) = probes.split_at(expected.len());
        let locked = self.lock(mask)?;
        if !self.holds(expected, of_expected)? {
            return Ok(false);
        }
        let applied = self.apply_held(ops, of_ops, Held::locked(mask));
        drop(locked);
        self.tidy_remains(mask, Held::NONE);
        applied.map(|()| true)
    }

    /// Readers of the buckets of a batch are turned away until all of it is written.
    fn order_epoch(&self) -> Option<u64> {
        Some(0)
    }
}

impl Mica {
    /// Where the keys of `expected` belong, and after them those of `ops`. Whoever writes a key
    /// again that is expected lends the same bytes for both: it is hashed once.
    fn probes_of(&self, expected: &[Expected<'_>], ops: &[Op<'_>]) -> Vec<Probe> {
        let mut probes = Vec::with_capacity(expected.len() + ops.len());
        for expected in expected.chunks(HASHED_AT_ONCE) {
            let (mut keys, mut hashes) = ([&[][..]; HASHED_AT_ONCE], [0; HASHED_AT_ONCE]);
            keys.iter_mut().zip(expected).for_each(|(key, expected)| *key = expected.key);
            self.seed.low_many(&keys[..expected.len()], &mut hashes);
            probes.extend(hashes[..expected.len()].iter().map(|hash| self.probe_of_hash(*hash)));
        }
        let mut next = 0;
        for op in ops {
            let ahead = expected[next..].iter().take(SAME_AHEAD);
            match ahead.take_while(|expected| !std::ptr::eq(expected.key, op.key)).count() {
                ahead if ahead < SAME_AHEAD.min(expected.len() - next) => {
                    probes.push(probes[next + ahead]);
                    next += ahead + 1;
                }
                _ => probes.push(self.probe(op.key)),
            }
        }
        probes
    }

    /// True if the keys, whose partitions are locked, have the entries that are expected.
    fn holds(&self, expected: &[Expected<'_>], probes: &[Probe]) -> Result<bool> {
        loop {
            let (mut moment, mut holds) = (Moment::default(), true);
            for (expected, probe) in expected.iter().zip(probes) {
                holds = self.holds_one(expected, probe, &mut moment)?;
                if !holds {
                    break;
                }
            }
            if !self.is_over(&moment) {
                return Ok(holds);
            }
        }
    }

    /// True if a key, whose partition is locked, has the entry that is expected: compared where it
    /// lies.
    fn holds_one(
        &self,
        expected: &Expected<'_>,
        probe: &Probe,
        moment: &mut Moment,
    ) -> Result<bool> {
        let Some(item) = self.partition(probe).find(probe, expected.key) else {
            return Ok(expected.entry.is_none());
        };
        if item.header.is_large() {
            let mut scratch = Scratch::new();
            let seen = (&mut scratch, moment);
            return self.current(probe, expected.key, seen, |current| current == expected.entry);
        }
        let expires = item.expires_unix_ms();
        if expires != 0 && expires <= *moment.now_ms.get_or_insert_with(|| self.clock.unix_ms()) {
            return Ok(expected.entry.is_none());
        }
        moment.note(expires);
        Ok(expected.entry.is_some_and(|entry| item.is_entry(&entry)))
    }

    /// Updates all of `keys`, whose partitions are locked. False if one is large: then the caller
    /// has to lock all partitions.
    fn update_all_locked(
        &self,
        keys: &[&[u8]],
        probes: &[Probe],
        decide: &mut dyn FnMut(&[Option<EntryRef<'_>>]) -> Vec<Update>,
        held: Held,
    ) -> Result<bool> {
        let (mut scratch, mut bytes, mut slots) = (Scratch::new(), Vec::new(), Vec::new());
        let mut copies = Copies::default();
        let updates = loop {
            let mut moment = Moment::default();
            bytes.clear();
            slots.clear();
            copies.clear();
            for (key, probe) in keys.iter().zip(probes) {
                let seen = (&mut scratch, &mut moment);
                let keep = |current: Option<EntryRef<'_>>| -> Result<Slot> {
                    let Some(entry) = current else { return Ok(None) };
                    if self.is_large(entry.value.len()) {
                        copies.claim(entry.value.len())?;
                        bytes.reserve_exact(entry.value.len());
                    }
                    let start = bytes.len();
                    bytes.extend_from_slice(entry.value);
                    Ok(Some((start..bytes.len(), entry.expires_unix_ms, entry.user_bits)))
                };
                slots.push(self.current(probe, key, seen, keep)??);
            }
            let entry = |slot: &Slot| {
                let (range, expires_unix_ms, user_bits) = slot.clone()?;
                Some(EntryRef { value: &bytes[range], expires_unix_ms, user_bits })
            };
            let entries: Vec<Option<EntryRef<'_>>> = slots.iter().map(entry).collect();
            let updates = decide(&entries);
            if !self.is_over(&moment) {
                break updates;
            }
        };
        let mut sum = 0;
        for (key, update) in keys.iter().zip(&updates) {
            sum += self.check_update(key, update)?;
        }
        at_most(sum, self.descriptor.limits.batch_bytes_max, "batch")?;
        if self.needs_all(&updates, held) {
            return Ok(false);
        }
        self.apply_updates(keys, probes, &updates, held).map(|()| true)
    }
}
