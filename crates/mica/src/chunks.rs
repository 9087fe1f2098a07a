//! How large values are put, read and removed, chunk by chunk: the rules are in `large.rs`.
//!
//! Partitions are locked one at a time, but for those that the caller holds: so whoever waits for
//! one holds no other. The owner of a partition, and whoever has locked all of them, put chunks
//! only where they hold the lock.

use crate::item::{Copied, Form, Scratch};
use crate::large::{Chunk, ChunkKey, Gone, Held, List};
use crate::limits::at_most;
use crate::mica::Mica;
use crate::partition::{Partition, Probe, bits, refused};
use crate::policy::with_policy;
use crate::protocol::Refusal;
use crate::store::Shortage;
use crate::write::value_bytes;
use silica_base::{Error, ErrorKind, Result};
use silica_engine::{Op, OpKind};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

/// A reader who was overtaken by so many puts of its key keeps the next one waiting.
const TRIES: usize = 8;
/// Chains that are searched for expired entries before a chunk is refused.
const CHAINS_WHEN_FULL: usize = 4096;

/// Of a partition that the caller has locked; dropped if a write panics.
struct Half<'p>(&'p Partition);

impl Drop for Half<'_> {
    fn drop(&mut self) {
        self.0.stop_half_way();
    }
}

/// Operations as they are stored: lists in place of large values.
pub(crate) struct Stored<'o> {
    ops: Vec<Op<'o>>,
    records: Vec<[u8; crate::large::LIST_BYTES]>,
    /// The lists that were made, and of which operation each is.
    lists: Vec<(usize, List)>,
}

impl<'o> Stored<'o> {
    /// Calls `apply` with the operations, and the places of keys, of which `probes` are.
    pub(crate) fn with<T>(
        &self,
        probes: &[Probe],
        apply: impl FnOnce(&[Op<'_>], &[Probe]) -> T,
    ) -> T {
        let (mut ops, mut probes) = (self.ops.clone(), probes.to_vec());
        for ((at, _), record) in self.lists.iter().zip(&self.records) {
            if let OpKind::Put(entry) = &mut ops[*at].kind {
                entry.value = record;
            }
            probes[*at].form = Form::List;
        }
        apply(&ops, &probes)
    }
}

impl Mica {
    /// True of a value that is put as a list of chunks.
    #[inline]
    pub(crate) fn is_large(&self, value_bytes: usize) -> bool {
        value_bytes > self.whole_bytes_max
    }

    /// Bytes of a value as far as a batch counts them.
    #[inline]
    pub(crate) fn batch_bytes(&self, value_bytes: usize) -> usize {
        if self.is_large(value_bytes) { 0 } else { value_bytes }
    }

    /// Applies operations, large values among them, to partitions of which the caller holds the
    /// locks as `held` says, and all others that their chunks need.
    pub(crate) fn apply_held(&self, ops: &[Op<'_>], probes: &[Probe], held: Held) -> Result<()> {
        if !ops.iter().any(|op| self.is_large(value_bytes(op))) {
            return self.apply_locked(ops, probes);
        }
        let stored = self.put_chunks(ops, held)?;
        let applied = stored.with(probes, |ops, probes| self.apply_locked(ops, probes));
        self.end_put(&stored, &applied, held);
        applied
    }

    /// Applies operations, large values among them, for a caller who holds no lock. Only the lists
    /// are written as one step.
    #[cold]
    pub(crate) fn apply_large(&self, ops: &[Op<'_>], probes: &[Probe]) -> Result<()> {
        let stored = self.put_chunks(ops, Held::NONE)?;
        let mask = probes.iter().fold(0, |mask, probe| mask | 1 << probe.partition);
        let applied = self
            .lock(mask)
            .and_then(|_locked| stored.with(probes, |ops, probes| self.apply_locked(ops, probes)));
        self.end_put(&stored, &applied, Held::NONE);
        self.tidy_remains(self.all(), Held::NONE);
        applied
    }

    /// Ends a put of large values, whose lists were written or not.
    fn end_put(&self, stored: &Stored<'_>, applied: &Result<()>, held: Held) {
        match applied {
            Ok(()) => self.settle(stored, held),
            Err(_) => self.drop_chunks(stored, held),
        }
    }

    /// Calls `work` as the only writer of partition `number`.
    fn alone<T>(&self, number: usize, held: Held, work: impl FnOnce(&Partition) -> T) -> Result<T> {
        self.try_alone(number, held, work).map_err(|why| refused(number, why))
    }

    fn try_alone<T>(
        &self,
        number: usize,
        held: Held,
        work: impl FnOnce(&Partition) -> T,
    ) -> Result<T, Refusal> {
        let partition = &self.partitions[number];
        if held.has(number) {
            let half = Half(partition);
            let done = work(partition);
            std::mem::forget(half);
            return Ok(done);
        }
        partition.lock()?;
        let done = partition.guarded(work);
        partition.unlock();
        Ok(done)
    }

    /// The partition of what is so far from the key with this hash.
    fn partition_at(&self, home: u64, distance: usize) -> usize {
        (self.partition_of(home) + distance) & (self.partitions.len() - 1)
    }

    /// Where in partition `number` the chunk with this key is.
    fn chunk_probe(&self, number: usize, key: &ChunkKey) -> Probe {
        let probe = self.partitions[number].probe(number as u32, self.seed.low(key));
        Probe { form: Form::Chunk, ..probe }
    }

    /// Calls `each` with the chunks of a list, partition by partition, as the only writer of it.
    /// The error is of the first partition that was refused; the others are visited all the same.
    fn each_chunk(
        &self,
        list: &List,
        held: Held,
        mut each: impl FnMut(&Partition, &Probe, &ChunkKey),
    ) -> Result<(), Refusal> {
        let partitions = if list.is_spread { self.partitions.len() } else { 1 };
        let mut result = Ok(());
        for distance in 0..partitions.min(list.chunks()) {
            let number = self.partition_at(list.home, distance);
            let visited = self.try_alone(number, held, |partition| {
                for n in (distance..list.chunks()).step_by(partitions) {
                    let key = list.key(n);
                    each(partition, &self.chunk_probe(number, &key), &key);
                }
            });
            result = result.and(visited);
        }
        result
    }

    /// Puts the chunks of all large values among `ops`; what is stored in their place.
    ///
    /// # Errors
    /// Those of the engine's writes; no chunk is there then.
    pub(crate) fn put_chunks<'o>(&self, ops: &[Op<'o>], held: Held) -> Result<Stored<'o>> {
        let mut stored = Stored { ops: ops.to_vec(), records: Vec::new(), lists: Vec::new() };
        for (at, op) in ops.iter().enumerate() {
            let OpKind::Put(entry) = op.kind else { continue };
            if !self.is_large(entry.value.len()) {
                continue;
            }
            match self.put_list(op.key, entry.value, held) {
                Ok(list) => {
                    stored.records.push(list.encode());
                    stored.lists.push((at, list));
                }
                Err(error) => {
                    self.drop_chunks(&stored, held);
                    return Err(error);
                }
            }
        }
        Ok(stored)
    }

    /// Puts the chunks of one value, or none.
    fn put_list(&self, key: &[u8], value: &[u8], held: Held) -> Result<List> {
        let is_spread = !held.is_owner && self.partitions.len() > 1;
        if !is_spread {
            self.check_owned(value.len())?;
        }
        let list = List {
            id: self.lists.fetch_add(1, Relaxed),
            home: self.seed.low(key),
            bytes: value.len(),
            chunk_bytes: self.layout.chunk_bytes(),
            is_spread,
        };
        for n in 0..list.chunks() {
            let (key, part) = (list.key(n), &value[list.range(n)]);
            if let Err(error) = self.put_chunk(list.home, &key, part, held) {
                let _ = self.drop_list(&list, held);
                return Err(self.explain_owners(error));
            }
            // What it has evicted should not be moved on for nothing.
            self.tidy_remains(1 << self.partition_at(list.home, list.distance(n)), held);
        }
        Ok(list)
    }

    /// Refuses a value that the owner of a partition cannot have there.
    fn check_owned(&self, bytes: usize) -> Result<()> {
        let max = self.layout.owned_bytes_max();
        at_most(bytes, max, "value").map_err(|error| {
            let message = "a value lies in the owner's partition alone; mode crcw takes more";
            error.within(message)
        })
    }

    /// Says what to do if a chunk belongs into a partition that somebody owns.
    fn explain_owners(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::Locked {
            return error;
        }
        let max = self.layout.owned_bytes_max();
        error.within(format!(
            "a value of more than {max} bytes lies in all partitions, which mode crcw allows for"
        ))
    }

    /// Puts one chunk of the key with this hash.
    pub(crate) fn put_chunk(
        &self,
        home: u64,
        key: &ChunkKey,
        value: &[u8],
        held: Held,
    ) -> Result<()> {
        let number = self.partition_at(home, Chunk::of(key).distance);
        let probe = self.chunk_probe(number, key);
        let put = |partition: &Partition| {
            if self.is_store {
                let stored = partition.store_chunk(&probe, key, value);
                // What has expired may be in the way.
                return match stored.is_err() && self.sweep_some(1 << number, CHAINS_WHEN_FULL) {
                    true => partition.store_chunk(&probe, key, value),
                    false => stored,
                };
            }
            with_policy!(self.policy, policy => {
                partition.put_chunk(&probe, key, value, &self.rules(policy));
            });
            Ok::<(), Shortage>(())
        };
        self.alone(number, held, put)?.map_err(|shortage| self.full(shortage))
    }

    /// Lets the chunks age as other entries do, now that their lists are written; removes the lists
    /// that have lost one meanwhile.
    pub(crate) fn settle(&self, stored: &Stored<'_>, held: Held) {
        if self.is_store {
            return;
        }
        for (_, list) in &stored.lists {
            if !self.settle_list(list, held) {
                self.bury(Gone::Chunk { id: list.id, home: list.home }, held);
            }
        }
    }

    /// False if a chunk is not there.
    fn settle_list(&self, list: &List, held: Held) -> bool {
        let mut is_whole = true;
        let visited = self.each_chunk(list, held, |partition, probe, key| {
            match partition.find_chunk(probe, key) {
                Some(offset) => partition.log().set_uses(offset, 0),
                None => is_whole = false,
            }
        });
        is_whole && visited.is_ok()
    }

    /// Removes the chunks of lists that were not written.
    pub(crate) fn drop_chunks(&self, stored: &Stored<'_>, held: Held) {
        for (_, list) in &stored.lists {
            let _ = self.drop_list(list, held);
        }
    }

    /// Removes what is there of the chunks of a list.
    fn drop_list(&self, list: &List, held: Held) -> Result<(), Refusal> {
        self.each_chunk(list, held, |partition, probe, key| {
            partition.drop_chunk(probe, key);
            if self.is_store {
                partition.drop_spares();
            }
        })
    }

    /// Removes what is left of large values of which the partitions in `mask` have lost a part. The
    /// caller holds no lock but those of `held`.
    #[inline]
    pub(crate) fn tidy_remains(&self, mask: u64, held: Held) {
        for number in bits(mask) {
            if !self.partitions[number].remains().is_empty() {
                self.tidy_remains_of(number, held);
            }
        }
    }

    #[cold]
    fn tidy_remains_of(&self, number: usize, held: Held) {
        // Under the lock: a batch that is taken back has not lost anything.
        let taken = self.try_alone(number, held, |partition| partition.remains().take());
        for gone in taken.unwrap_or_default() {
            if !self.bury(gone, held) && self.is_store {
                // Nothing else would ever remove it.
                self.partitions[number].remains().push(gone);
            }
        }
    }

    /// Removes what is left of a value; false if the owner of a partition is in the way.
    fn bury(&self, gone: Gone, held: Held) -> bool {
        let list = match gone {
            Gone::List(list) => list,
            Gone::Chunk { id, home } => {
                let number = self.partition_of(home);
                let probe = self.partitions[number].probe(number as u32, home);
                let now_ms = self.clock.unix_ms();
                let removed = self.try_alone(number, held, |partition| {
                    // The list is among the remains then, beside others.
                    let is_there = partition.remove_torn(&probe, id, now_ms);
                    if is_there { partition.remains().take() } else { Vec::new() }
                });
                let Ok(others) = removed else { return false };
                let mut is_done = true;
                for gone in others {
                    is_done &= self.bury(gone, held);
                }
                return is_done;
            }
        };
        self.drop_list(&list, held) != Err(Refusal::Owned)
    }

    /// Reads the value of a list into `scratch`; calls `used` with each chunk that was read. False
    /// if one is not there.
    pub(crate) fn gather(
        &self,
        list: &List,
        scratch: &mut Scratch,
        used: &mut dyn FnMut(&Partition, &Probe, &ChunkKey, u64),
    ) -> bool {
        let out = scratch.room(list.bytes);
        for n in 0..list.chunks() {
            let key = list.key(n);
            let number = self.partition_at(list.home, list.distance(n));
            let partition = &self.partitions[number];
            let sought = partition.seek(self.seed.low(&key));
            let Some(offset) = partition.get_chunk(&sought, &key, &mut out[list.range(n)]) else {
                return false;
            };
            used(partition, &self.chunk_probe(number, &key), &key, offset);
        }
        true
    }

    /// Reads the large value of `key`, whose list was copied into `scratch` just now, or what is
    /// there instead meanwhile. Notes it among the partition's remains if a chunk is gone.
    pub(crate) fn read_list(
        &self,
        (number, key): (usize, &[u8]),
        copied: Copied,
        scratch: &mut Scratch,
        reading: &mut Reading<'_>,
    ) -> Option<Copied> {
        let mut copied = copied;
        let partition = &self.partitions[number];
        let sought = partition.seek(self.seed.low(key));
        let mut _locked = None;
        for tries in 0.. {
            if copied.form == Form::Whole {
                return Some(copied);
            }
            let list = List::decode(scratch.entry(copied).value)?;
            if !(reading.wants)(list.bytes) {
                return None;
            }
            if self.gather(&list, scratch, reading.used) {
                return Some(Copied { value_bytes: list.bytes, form: Form::Whole, ..copied });
            }
            let (again, _) = partition.get_anew(&sought, key, scratch)?;
            let now = List::decode(scratch.entry(again).value).filter(|_| again.form == Form::List);
            if now.is_some_and(|now| now.id == list.id) {
                partition.remains().push(Gone::Chunk { id: list.id, home: list.home });
                return None;
            }
            copied = again;
            if tries == TRIES && !reading.held.has(number) {
                // Nobody overwrites it then. Where an owner has it, there is nothing to wait for.
                _locked = self.lock(1 << number).ok();
                copied = partition.get_anew(&sought, key, scratch)?.0;
            }
        }
        None
    }
}

/// What an image of another layout has of large values.
impl Mica {
    /// False of a list of which this cache cannot have the value.
    pub(crate) fn takes_list(&self, record: &[u8]) -> bool {
        let Some(list) = List::decode(record) else { return false };
        let is_spread = list.is_spread || self.partitions.len() == 1;
        let max = match is_spread {
            true => self.descriptor.limits.value_bytes_max,
            false => self.layout.owned_bytes_max(),
        };
        list.bytes <= max && list.chunk_bytes <= self.layout.chunk_bytes()
    }

    /// Puts a chunk of another layout, if it is none of a list that is not taken.
    pub(crate) fn put_chunk_again(&self, key: &[u8], value: &[u8]) -> Result<()> {
        let Ok(key) = <&ChunkKey>::try_from(key) else { return Ok(()) };
        if value.len() > self.layout.chunk_bytes() {
            return Ok(());
        }
        self.put_chunk(Chunk::of(key).home, key, value, Held::NONE)
    }

    /// Settles all lists, and removes the chunks that have none.
    pub(crate) fn settle_all(&self) -> Result<()> {
        let (mut lists, mut chunks) = (Vec::new(), Vec::new());
        for partition in self.partitions.iter() {
            partition.visit(&mut |key, form, entry| match form {
                Form::List => lists.extend(List::decode(entry.value)),
                Form::Chunk => chunks.extend(ChunkKey::try_from(key)),
                Form::Whole => {}
            })?;
        }
        let is_torn = |list: &List| !self.is_store && !self.settle_list(list, Held::NONE);
        let torn: Vec<List> = lists.iter().filter(|list| is_torn(list)).copied().collect();
        for list in torn {
            self.bury(Gone::Chunk { id: list.id, home: list.home }, Held::NONE);
        }
        let ids: BTreeSet<u64> = lists.iter().map(|list| list.id).collect();
        for key in chunks.iter().filter(|key| !ids.contains(&Chunk::of(key).id)) {
            let Chunk { home, distance, .. } = Chunk::of(key);
            let number = self.partition_at(home, distance);
            self.alone(number, Held::NONE, |partition| {
                partition.drop_chunk(&self.chunk_probe(number, key), key);
            })?;
        }
        self.tidy_remains(self.all(), Held::NONE);
        Ok(())
    }
}

/// How a large value is read.
pub(crate) struct Reading<'r> {
    /// The locks of the reader.
    pub(crate) held: Held,
    /// Whether a value of so many bytes is wanted.
    pub(crate) wants: &'r mut dyn FnMut(usize) -> bool,
    /// Gets each chunk that was read, and its offset. It waits for no lock.
    pub(crate) used: &'r mut dyn FnMut(&Partition, &Probe, &ChunkKey, u64),
}
