//! Bursts of gets, whose keys go through three stages.
//!
//! 1. Hash the key and ask for its bucket.
//! 2. The bucket has arrived: ask for the entry that the first slot with the key's tag names.
//! 3. The entry has arrived: compare, copy, answer. Where entries are long, only their first lines
//!    have: the others are asked for a few keys before their turn.
//!
//! Keys go in groups of [`GROUP`], as many as are hashed together, and a group is up to four
//! steps ahead of its next stage. So up to 32 keys go through a stage before the next one begins,
//! about as many lines as a core can wait for (`prefetch_burst`). Of more keys, some are answered
//! while the entries of later ones are on their way, and the buckets of still later ones.

use crate::chunks::Reading;
use crate::item::{Copied, Form, Scratch};
use crate::large::Held;
use crate::mica::Mica;
use crate::partition::{Hint, Partition, Probe, Sought};
use crate::policy::{Policy, with_policy};
use silica_base::Result;
use silica_engine::{EntryRef, GetSink};

/// Keys that go through a stage together: as many as are hashed at once.
const GROUP: usize = 8;
/// Groups that are asked for before the first of them goes on.
const GROUPS: usize = 4;
/// Bytes of a value from which on an entry is long.
const LONG: usize = 24;
/// How many keys before its turn the lines of a long entry are asked for.
const AHEAD: usize = 6;

/// A key on its way through the stages.
#[derive(Clone, Copy)]
struct Lookup<'m> {
    partition: &'m Partition,
    sought: Sought<'m>,
    hint: Hint,
}

impl Lookup<'_> {
    /// Asks for the other lines of the entry, whose first line has arrived by now.
    #[inline(always)]
    fn prefetch_rest(&self) {
        self.partition.log().prefetch_rest(self.hint.offset());
    }
}

/// The second stage.
#[inline(always)]
fn look_up(lookups: &mut [Lookup<'_>]) {
    for lookup in lookups {
        lookup.hint = lookup.partition.prefetch_item(&lookup.sought);
    }
}

/// Asks for the items of keys whose tags are in no main bucket.
#[inline(always)]
fn look_further(lookups: &mut [Lookup<'_>]) {
    for lookup in lookups {
        lookup.partition.prefetch_chained(lookup.sought.tag(), &mut lookup.hint);
    }
}

impl Mica {
    /// The first stage.
    #[inline(always)]
    fn ask<'m>(
        &'m self,
        keys: &[&[u8]],
        lookups: &mut [Lookup<'m>; GROUP],
        partition_of: impl Fn(u64) -> Result<usize>,
    ) -> Result<()> {
        let mut hashes = [0; GROUP];
        self.seed.low_many(keys, &mut hashes);
        for (lookup, hash) in lookups.iter_mut().zip(&hashes[..keys.len()]) {
            let partition = &self.partitions[partition_of(*hash)?];
            *lookup = Lookup { partition, sought: partition.seek(*hash), hint: lookup.hint };
        }
        Ok(())
    }

    /// Reports the entries of `keys`; returns how many there are.
    pub(crate) fn read_burst(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> u64 {
        let partition_of = |hash| Ok(self.partition_of(hash));
        let hits = with_policy!(self.policy, policy => {
            self.read::<_, false>(policy, keys, sink, partition_of)
        });
        let hits = hits.unwrap_or_default();
        let mine = self.gets.mine();
        mine.add(|gets| &gets.gets, keys.len() as u64);
        mine.add(|gets| &gets.hits, hits);
        hits
    }

    /// Reads a burst for the owner of partition `number`, to which all keys must belong.
    pub(crate) fn read_owned(
        &self,
        number: usize,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
    ) -> Result<()> {
        let is_here = |hash| self.probe_in(number, hash).map(|_| number);
        let hits = with_policy!(self.policy, policy => {
            self.read::<_, true>(policy, keys, sink, is_here)
        })?;
        let counts = &self.partitions[number].counts;
        counts.gets_owned.add(keys.len() as u64);
        counts.hits_owned.add(hits);
        Ok(())
    }

    /// Reports the entries of `keys`; returns how many there are.
    #[inline(always)]
    fn read<P: Policy, const OWNED: bool>(
        &self,
        policy: P,
        keys: &[&[u8]],
        sink: &mut dyn GetSink,
        partition_of: impl Fn(u64) -> Result<usize>,
    ) -> Result<u64> {
        let mut answers = Answers::<P, OWNED> {
            mica: self,
            policy,
            sink,
            scratch: None,
            are_long: false,
            hits: 0,
            now: None,
        };
        if let [key] = keys {
            answers.answer_one(key, partition_of)?;
            return Ok(answers.hits);
        }
        let first = &self.partitions[0];
        let nobody = Lookup { partition: first, sought: first.nothing(), hint: Hint::default() };
        let group = [nobody; GROUP];
        // Few keys should not pay for the lookups of many.
        match keys.len().div_ceil(GROUP) {
            0 | 1 => answers.answer_few(keys, &mut [group], partition_of)?,
            2 => answers.answer_all(keys, &mut [group; 2], partition_of)?,
            ..=GROUPS => answers.answer_all(keys, &mut [group; GROUPS], partition_of)?,
            _ => answers.answer_all(keys, &mut [group; 2 * GROUPS], partition_of)?,
        }
        Ok(answers.hits)
    }

    /// Removes an expired entry of a store, unless somebody writes its partition just now.
    #[cold]
    fn reclaim(&self, key: &[u8], now_ms: u64) {
        let probe = self.probe(key);
        self.partition(&probe).try_write(|partition| partition.reclaim(&probe, key, now_ms));
    }
}

/// The last stage of a burst.
struct Answers<'a, P, const OWNED: bool> {
    mica: &'a Mica,
    policy: P,
    sink: &'a mut dyn GetSink,
    /// For entries that are not small and plain.
    scratch: Option<Scratch>,
    /// The last entry had more lines than are asked for before its length is known.
    are_long: bool,
    hits: u64,
    /// The time, once it was asked for.
    now: Option<u64>,
}

impl<'a, P: Policy, const OWNED: bool> Answers<'a, P, OWNED> {
    /// Takes the only key of a burst through the stages.
    #[inline(always)]
    fn answer_one(
        &mut self,
        key: &[u8],
        partition_of: impl Fn(u64) -> Result<usize>,
    ) -> Result<()> {
        // Not by the kernel for many: it takes as long for one as for eight.
        let hash = self.mica.seed.low(key);
        let partition = &self.mica.partitions[partition_of(hash)?];
        let sought = partition.seek(hash);
        let mut hint = partition.prefetch_item(&sought);
        if self.mica.is_store {
            partition.prefetch_chained(sought.tag(), &mut hint);
        }
        self.answer(0, key, &Lookup { partition, sought, hint });
        Ok(())
    }

    /// Takes `keys` of one group through the stages.
    #[inline(always)]
    fn answer_few(
        &mut self,
        keys: &[&[u8]],
        ring: &mut [[Lookup<'a>; GROUP]; 1],
        partition_of: impl Fn(u64) -> Result<usize>,
    ) -> Result<()> {
        self.mica.ask(keys, &mut ring[0], partition_of)?;
        look_up(&mut ring[0][..keys.len()]);
        if self.mica.is_store {
            look_further(&mut ring[0][..keys.len()]);
        }
        self.answer_group(keys, ring, 0);
        Ok(())
    }

    /// The last stage of a group.
    #[inline(always)]
    fn answer_group(&mut self, keys: &[&[u8]], ring: &[[Lookup<'a>; GROUP]], group: usize) {
        let (first, mask) = (group * GROUP, ring.len() - 1);
        for (at, (key, lookup)) in keys[first..].iter().zip(&ring[group & mask]).enumerate() {
            let later = first + at + AHEAD;
            if self.are_long && later < keys.len() {
                ring[(later / GROUP) & mask][later % GROUP].prefetch_rest();
            }
            self.answer(first + at, key, lookup);
        }
    }

    /// Takes `keys` through the stages. `ring` has lookups for all of them, or goes round.
    #[inline(never)]
    fn answer_all(
        &mut self,
        keys: &[&[u8]],
        ring: &mut [[Lookup<'a>; GROUP]],
        partition_of: impl Fn(u64) -> Result<usize>,
    ) -> Result<()> {
        let (mica, groups, mask) = (self.mica, keys.len().div_ceil(GROUP), ring.len() - 1);
        let keys_of = |group: usize| &keys[group * GROUP..keys.len().min((group + 1) * GROUP)];
        // A store's chains are longer than a cache's, and have a stage of their own.
        let stages = if mica.is_store { 3 } else { 2 };
        // Steps from a stage to the next.
        let ahead = if groups > ring.len() { ring.len() / stages } else { groups.min(GROUPS) };
        for step in 0..groups + stages * ahead {
            let group_in = |stage| step.checked_sub(stage * ahead).filter(|group| *group < groups);
            if let Some(group) = group_in(1) {
                look_up(&mut ring[group & mask][..keys_of(group).len()]);
            }
            if let Some(group) = group_in(2).filter(|_| mica.is_store) {
                look_further(&mut ring[group & mask][..keys_of(group).len()]);
            }
            if let Some(group) = group_in(stages) {
                self.answer_group(keys, ring, group);
            }
            if step < groups {
                mica.ask(keys_of(step), &mut ring[step & mask], &partition_of)?;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn answer(&mut self, index: usize, key: &[u8], lookup: &Lookup<'_>) {
        let Lookup { partition, sought, hint } = lookup;
        // The usual small entry never leaves the registers.
        let Some((value, len)) = partition.get_word::<OWNED>(sought, *hint, key) else {
            return self.answer_any(index, key, lookup);
        };
        self.sink.found(index, EntryRef::new(&value.to_le_bytes()[..len]));
        self.hits += 1;
        if self.policy.is_due(partition.log(), hint.offset()) {
            self.renew(key, hint.offset());
        }
    }

    /// Answers a key whose entry may be of any kind.
    #[inline(never)]
    fn answer_any(&mut self, index: usize, key: &[u8], lookup: &Lookup<'_>) {
        let Lookup { partition, sought, hint } = lookup;
        let scratch = self.scratch.get_or_insert_with(Scratch::new);
        let Some((copied, offset)) = partition.get::<OWNED>(sought, *hint, key, scratch) else {
            return;
        };
        if self.mica.has_expired(&copied, &mut self.now) {
            // An owner's hints are believed without a look at versions, so its gets leave this to
            // its writes.
            if !OWNED && self.mica.is_store {
                self.mica.reclaim(key, self.now.unwrap_or_default());
            }
            return;
        }
        if copied.form != Form::Whole {
            return self.answer_list(index, key, copied, offset);
        }
        self.are_long = copied.value_bytes > LONG;
        self.sink.found(index, scratch.entry(copied));
        self.hits += 1;
        if self.policy.is_due(partition.log(), offset) {
            self.renew(key, offset);
        }
    }

    /// Answers a key whose value is large, of which the scratch has the list.
    #[cold]
    fn answer_list(&mut self, index: usize, key: &[u8], copied: Copied, offset: u64) {
        let (mica, policy) = (self.mica, self.policy);
        let number = mica.probe(key).partition as usize;
        let held = if OWNED { Held::owned(number) } else { Held::NONE };
        let mut scratch = self.scratch.take().unwrap_or_else(Scratch::new);
        let mut moving = Scratch::new();
        let sink = &mut *self.sink;
        let mut reading = Reading {
            held,
            wants: &mut |bytes| sink.wants(index, bytes),
            used: &mut |partition, probe, key, offset| {
                if policy.is_due(partition.log(), offset) {
                    let place = (partition, probe, offset);
                    renew_at::<P, OWNED>(mica, policy, place, key, &mut moving);
                }
            },
        };
        let read = mica.read_list((number, key), copied, &mut scratch, &mut reading);
        if let Some(copied) = read.filter(|copied| !mica.has_expired(copied, &mut self.now)) {
            self.sink.found(index, scratch.entry(copied));
            self.hits += 1;
            scratch.trim();
        }
        self.scratch = Some(scratch);
        if self.policy.is_due(mica.partitions[number].log(), offset) {
            self.renew(key, offset);
        }
        // What moving its chunks has evicted, or a part of it that is not there.
        mica.tidy_remains(if P::USES_MAX == 0 { mica.all() } else { 1 << number }, held);
    }

    /// Moves an entry that was used to the tail, or marks it. Where somebody writes its partition
    /// just now, this use does not count.
    #[cold]
    fn renew(&mut self, key: &[u8], offset: u64) {
        let probe = self.mica.probe(key);
        let partition = self.mica.partition(&probe);
        let scratch = self.scratch.get_or_insert_with(Scratch::new);
        let place = (partition, &probe, offset);
        renew_at::<P, OWNED>(self.mica, self.policy, place, key, scratch);
        let number = probe.partition as usize;
        let held = if OWNED { Held::owned(number) } else { Held::NONE };
        self.mica.tidy_remains(1 << number, held);
    }
}

/// Moves the entry of `key` at an offset to the tail, or marks it, unless somebody writes its
/// partition just now.
fn renew_at<P: Policy, const OWNED: bool>(
    mica: &Mica,
    policy: P,
    (partition, probe, offset): (&Partition, &Probe, u64),
    key: &[u8],
    scratch: &mut Scratch,
) {
    let rules = mica.rules(policy);
    let mut renew = |p: &Partition| p.renew(probe, key, offset, scratch, &rules);
    if OWNED {
        partition.guarded(renew);
    } else {
        partition.try_write(&mut renew);
    }
}
