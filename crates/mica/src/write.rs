//! Batches of writes.
//!
//! A batch locks the partitions of its keys, turns readers of their buckets away, writes, and lets
//! readers in again: nobody sees a part of what a batch does to a key, and writers see all of a
//! batch or nothing. In store mode a batch that does not fit is taken back before anybody sees it.

use crate::family::SPACES_MAX;
use crate::fits::BLOCK_WORDS_MIN;
use crate::item::{Form, words_needed};
use crate::large::Held;
use crate::limits::at_most;
use crate::mica::Mica;
use crate::partition::{Partition, Probe, bits};
use crate::policy::{Policy, with_policy};
use crate::store::Shortage;
use crate::undo::Undo;
use silica_base::{Error, ErrorKind, Result};
use silica_engine::{Op, OpKind};
use std::convert::Infallible;

/// Operations whose buckets and entries are on their way at the same time.
const WINDOW: usize = 32;
/// Pages that a batch gives back to the system at most.
const PAGES_IN_PASSING: usize = 8;
/// Chains that are searched for expired entries before a batch is refused.
const CHAINS_WHEN_FULL: usize = 4096;

impl Mica {
    /// Applies `ops`, which have `bytes_max` bytes at most.
    pub(crate) fn apply(&self, ops: &[Op<'_>], bytes_max: usize) -> Result<()> {
        let (mut bytes, mut has_large) = (0, false);
        Op::refuse_ranges(ops, "mica")?;
        for op in ops {
            let value = value_bytes(op);
            self.check(op.key.len(), value)?;
            bytes += op.key.len() + self.batch_bytes(value);
            has_large |= self.is_large(value);
        }
        at_most(bytes, bytes_max, "batch")?;
        if has_large {
            let mut probes = vec![Probe::default(); ops.len()];
            self.probe_all(ops, &mut probes);
            return self.apply_large(ops, &probes);
        }
        if let [op] = ops {
            return self.apply_one(op);
        }
        if ops.len() <= WINDOW {
            let mut probes = [Probe::default(); WINDOW];
            self.apply_checked(ops, &mut probes[..ops.len()])
        } else {
            self.apply_checked(ops, &mut vec![Probe::default(); ops.len()])
        }
    }

    /// Applies a batch of one operation, the most common one.
    fn apply_one(&self, op: &Op<'_>) -> Result<()> {
        let probe = self.probe(op.key);
        self.partition(&probe).prefetch_bucket(&probe);
        let mask = 1 << probe.partition;
        let locked = self.lock(mask)?;
        self.apply_locked(std::slice::from_ref(op), &[probe])?;
        drop(locked);
        self.tidy_remains(mask, Held::NONE);
        Ok(())
    }

    fn apply_checked(&self, ops: &[Op<'_>], probes: &mut [Probe]) -> Result<()> {
        self.probe_all(ops, probes);
        let mask = probes.iter().fold(0, |mask, probe| mask | 1 << probe.partition);
        probes.iter().take(WINDOW).for_each(|p| self.partition(p).prefetch_bucket(p));
        let locked = self.lock(mask)?;
        self.apply_locked(ops, probes)?;
        drop(locked);
        self.tidy_remains(mask, Held::NONE);
        Ok(())
    }

    /// Puts entries that are stored as they are, lists among them.
    pub(crate) fn apply_formed(
        &self,
        ops: &[Op<'_>],
        forms: impl Iterator<Item = Form>,
    ) -> Result<()> {
        let mut probes = vec![Probe::default(); ops.len()];
        self.probe_all(ops, &mut probes);
        probes.iter_mut().zip(forms).for_each(|(probe, form)| probe.form = form);
        let mask = probes.iter().fold(0, |mask, probe| mask | 1 << probe.partition);
        let _locked = self.lock(mask)?;
        self.apply_locked(ops, &probes)
    }

    /// Where the keys of operations belong.
    fn probe_all(&self, ops: &[Op<'_>], probes: &mut [Probe]) {
        for (ops, probes) in ops.chunks(WINDOW).zip(probes.chunks_mut(WINDOW)) {
            self.probe_many(ops, probes);
        }
    }

    /// Where the keys of up to [`WINDOW`] operations belong.
    fn probe_many(&self, ops: &[Op<'_>], probes: &mut [Probe]) {
        let (mut keys, mut hashes): ([&[u8]; WINDOW], _) = ([&[]; WINDOW], [0; WINDOW]);
        keys.iter_mut().zip(ops).for_each(|(key, op)| *key = op.key);
        self.seed.low_many(&keys[..ops.len()], &mut hashes);
        for (probe, hash) in probes.iter_mut().zip(hashes) {
            let number = self.partition_of(hash);
            *probe = self.partitions[number].probe(number as u32, hash);
        }
    }

    /// Applies operations to partitions that the caller has locked or owns: all, or none where
    /// they do not fit in a store.
    pub(crate) fn apply_locked(&self, ops: &[Op<'_>], probes: &[Probe]) -> Result<()> {
        let guard = Guard { mica: self, probes };
        let result = self.apply_unguarded(ops, probes);
        std::mem::forget(guard);
        result
    }

    #[inline(always)]
    fn apply_unguarded(&self, ops: &[Op<'_>], probes: &[Probe]) -> Result<()> {
        if self.is_store {
            return self.store_locked(ops, probes);
        }
        with_policy!(self.policy, policy => self.cache_locked(ops, probes, policy));
        Ok(())
    }

    /// Applies operations in cache mode, under the locks of their partitions.
    fn cache_locked<P: Policy>(&self, ops: &[Op<'_>], probes: &[Probe], policy: P) {
        let rules = self.rules(policy);
        let apply = |partition: &Partition, op: &Op<'_>, probe: &Probe| {
            match &op.kind {
                OpKind::Put(entry) => partition.put(probe, op.key, entry, &rules),
                OpKind::Delete => partition.delete(probe, op.key),
                OpKind::DeleteRange(_) => unreachable!("batches with ranges are refused"),
            }
            Ok::<(), Infallible>(())
        };
        let Ok(()) = self.in_windows(ops, probes, apply);
        probes.iter().for_each(|p| self.partition(p).end(p.bucket));
    }

    /// Turns readers of all buckets away, so that nobody sees a part of a batch, and applies the
    /// operations, some of whose lines are always on their way; stops at the first error.
    #[inline(always)]
    fn in_windows<'m, E>(
        &'m self,
        ops: &[Op<'_>],
        probes: &[Probe],
        mut apply: impl FnMut(&'m Partition, &Op<'_>, &Probe) -> Result<(), E>,
    ) -> Result<(), E> {
        for probe in probes.get(WINDOW..).unwrap_or_default() {
            self.partition(probe).begin(probe.bucket);
        }
        for (number, (ops, window)) in ops.chunks(WINDOW).zip(probes.chunks(WINDOW)).enumerate() {
            for probe in window {
                let partition = self.partition(probe);
                partition.begin(probe.bucket);
                partition.prefetch_tagged(probe.bucket as usize, probe.tag);
            }
            if self.is_store {
                window.iter().for_each(|probe| self.partition(probe).prefetch_chain(probe));
            }
            let after = (number + 1) * WINDOW;
            let next = probes.get(after..).unwrap_or_default().iter().take(WINDOW);
            next.for_each(|p| self.partition(p).prefetch_bucket(p));
            for (op, probe) in ops.iter().zip(window) {
                apply(self.partition(probe), op, probe)?;
            }
        }
        Ok(())
    }

    /// Applies operations in store mode, under the locks of their partitions.
    fn store_locked(&self, ops: &[Op<'_>], probes: &[Probe]) -> Result<()> {
        let mask = probes.iter().fold(0, |mask, p| mask | 1 << p.partition);
        let mut result = self.try_with_spares(ops, probes, mask);
        // What has expired may be in the way.
        if result.is_err() && self.sweep_some(mask, CHAINS_WHEN_FULL) {
            result = self.try_with_spares(ops, probes, mask);
        }
        for (op, probe) in ops.iter().zip(probes) {
            let partition = self.partition(probe);
            match op.kind {
                OpKind::Put(entry) if result.is_ok() => {
                    partition.counts.puts.add(1);
                    // The bytes of a large value are counted by chunks.
                    let value = if probe.form == Form::Whole { entry.value.len() } else { 0 };
                    partition.counts.user_bytes.add((op.key.len() + value) as u64);
                }
                OpKind::Delete if result.is_ok() => {
                    partition.counts.deletes.add(1);
                    partition.tidy_chain(probe);
                }
                _ => partition.tidy_chain(probe),
            }
        }
        probes.iter().for_each(|p| self.partition(p).end(p.bucket));
        if result.is_ok() {
            self.sweep_some(mask, 2 * ops.len());
            bits(mask).for_each(|number| self.partitions[number].drop_spares());
            let partitions = bits(mask).map(|number| &self.partitions[number]);
            for partition in partitions.filter(|p| p.store().pages().is_due(false)) {
                partition.give_back_pages(PAGES_IN_PASSING);
            }
        }
        result.map_err(|shortage| self.full(shortage))
    }

    /// Removes what has expired in so many chains of each partition in `mask`, which the caller
    /// has locked; false where nothing has for all that is known.
    pub(crate) fn sweep_some(&self, mask: u64, chains: usize) -> bool {
        let mut now = None;
        let mut now_ms = || *now.get_or_insert_with(|| self.clock.unix_ms());
        let mut has_swept = false;
        for partition in bits(mask).map(|number| &self.partitions[number]) {
            if partition.expiry().is_due(&mut now_ms) {
                partition.sweep(chains, now_ms());
                has_swept = true;
            }
        }
        has_swept
    }

    /// Applies the operations, or nothing, with as many spare buckets as there is room for.
    fn try_with_spares(&self, ops: &[Op<'_>], probes: &[Probe], mask: u64) -> Result<(), Shortage> {
        loop {
            let result = self.try_to_store(ops, probes, mask);
            if result != Err(Shortage::Slots) {
                return result;
            }
            // Not before everything is taken back: what comes out of the space would be in the way.
            let partitions = bits(mask).map(|number| &self.partitions[number]);
            let empty = partitions.filter(|p| p.index().spares_left() == 0);
            if empty.filter(|p| p.add_spares()).count() == 0 {
                return result;
            }
        }
    }

    /// Applies the operations, or nothing.
    fn try_to_store(&self, ops: &[Op<'_>], probes: &[Probe], mask: u64) -> Result<(), Shortage> {
        let words = ops.iter().map(|op| match &op.kind {
            OpKind::Put(entry) => {
                words_needed(op.key, entry).max(BLOCK_WORDS_MIN) + BLOCK_WORDS_MIN
            }
            OpKind::Delete | OpKind::DeleteRange(_) => 0,
        });
        let words = words.sum();
        let has_room = bits(mask).all(|n| self.partitions[n].has_room(ops.len(), words));
        let mut undo = Undo::new(!has_room);
        let before = if has_room { Vec::new() } else { self.spaces_of(mask) };
        let remains: Vec<_> = match has_room {
            true => Vec::new(),
            false => bits(mask).map(|n| (n, self.partitions[n].remains().len())).collect(),
        };
        let result = self.in_windows(ops, probes, |partition, op, probe| match &op.kind {
            OpKind::Put(entry) => partition.put_stored(probe, op.key, entry, &mut undo),
            OpKind::Delete => {
                partition.delete_stored(probe, op.key, &mut undo);
                Ok(())
            }
            OpKind::DeleteRange(_) => unreachable!("batches with ranges are refused"),
        });
        if result.is_err() {
            debug_assert!(!has_room, "what has room fits");
            undo.take_back();
            for (number, len) in remains {
                self.partitions[number].remains().take_back(len);
            }
            for (number, before) in &before {
                self.partitions[*number].spaces().into_iter().for_each(|spaces| spaces.set(before));
            }
        }
        result
    }

    /// How many entries each database has in the partitions in `mask`, if there are several.
    fn spaces_of(&self, mask: u64) -> Vec<(usize, [u64; SPACES_MAX])> {
        let entries = |number: usize| Some((number, self.partitions[number].spaces()?.get()));
        bits(mask).filter_map(entries).collect()
    }

    #[cold]
    pub(crate) fn full(&self, shortage: Shortage) -> Error {
        let memory = self.memory_bytes;
        let message = match shortage {
            Shortage::Words(words) => format!(
                "the store is full: no free block has the {} bytes that an entry needs; set \
                 memory_bytes to more than {memory}, or delete entries",
                8 * words
            ),
            Shortage::Slots => format!(
                "the store is full: its index has no room for another entry; set memory_bytes to \
                 more than {memory}, or delete entries"
            ),
        };
        Error::new(ErrorKind::Full, message)
    }
}

/// Of partitions that are being written; dropped where that panics.
struct Guard<'m> {
    mica: &'m Mica,
    probes: &'m [Probe],
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        let mask = self.probes.iter().fold(0, |mask, p| mask | 1 << p.partition);
        bits(mask).for_each(|number| self.mica.partitions[number].stop_half_way());
    }
}

pub(crate) fn value_bytes(op: &Op<'_>) -> usize {
    match op.kind {
        OpKind::Put(entry) => entry.value.len(),
        OpKind::Delete | OpKind::DeleteRange(_) => 0,
    }
}
