//! Bursts of gets, in three stages over the keys of a burst.
//!
//! 1. Hash the key and ask for its bucket.
//! 2. The bucket has arrived: ask for the entry that the first slot with the key's tag names.
//! 3. The entry has arrived: compare, copy, answer. Where entries are long, only their first lines
//!    have: the others are asked for a few keys before their turn.
//!
//! A stage goes over up to [`TOGETHER`] keys before the next one begins, so that as many lines are
//! on their way.

use crate::item::Scratch;
use crate::mica::Mica;
use crate::partition::{Hint, Partition};
use crate::policy::{Policy, with_policy};
use silica_base::Result;
use silica_engine::{EntryRef, GetSink};

/// Keys that go through a stage together.
const TOGETHER: usize = 32;
/// Bytes of a value from which on an entry is long.
const LONG: usize = 24;
/// How many keys before its turn the lines of a long entry are asked for.
const AHEAD: usize = 4;
/// Keys that are hashed together.
const HASHED: usize = 8;

impl Mica {
    /// Reports the entries of `keys`; returns how many there are.
    pub(crate) fn read_burst(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> u64 {
        let partition_of = |hash| Ok(self.partition_of(hash));
        let hits = with_policy!(self.policy, policy => {
            self.read::<_, false>(policy, keys, sink, partition_of)
        });
        let hits = hits.unwrap_or_default();
        self.gets.count(keys.len() as u64, hits);
        hits
    }

    /// The same for the owner of partition `number`, to which all keys must belong.
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
        for (number, keys) in keys.chunks(TOGETHER).enumerate() {
            let mut hashes = [0; TOGETHER];
            // Buckets are asked for while later keys are hashed.
            for (keys, hashes) in keys.chunks(HASHED).zip(hashes.chunks_mut(HASHED)) {
                self.seed.low_many(keys, hashes);
                for hash in &hashes[..keys.len()] {
                    self.partitions[partition_of(*hash)?].prefetch_main(*hash);
                }
            }
            let mut hints = [Hint::default(); TOGETHER];
            for (hash, hint) in hashes[..keys.len()].iter().zip(&mut hints) {
                *hint = self.home(*hash).prefetch_item(*hash);
            }
            // A store's chains are longer than a cache's.
            if self.is_store {
                for (hash, hint) in hashes[..keys.len()].iter().zip(&mut hints) {
                    self.home(*hash).prefetch_chained(*hash, hint);
                }
            }
            let ask = |at: usize| self.home(hashes[at]).log().prefetch_rest(hints[at].offset());
            if answers.are_long {
                (0..AHEAD.min(keys.len())).for_each(ask);
            }
            for (at, (key, (hash, hint))) in keys.iter().zip(hashes.iter().zip(&hints)).enumerate()
            {
                if answers.are_long && at + AHEAD < keys.len() {
                    ask(at + AHEAD);
                }
                answers.answer(number * TOGETHER + at, key, *hash, *hint);
            }
        }
        Ok(answers.hits)
    }

    /// The partition where a key with this hash belongs.
    #[inline(always)]
    fn home(&self, hash: u64) -> &Partition {
        &self.partitions[self.partition_of(hash)]
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

impl<P: Policy, const OWNED: bool> Answers<'_, P, OWNED> {
    #[inline(always)]
    fn answer(&mut self, index: usize, key: &[u8], hash: u64, hint: Hint) {
        let partition = self.mica.home(hash);
        // The usual small entry never leaves the registers.
        let Some((value, len)) = partition.get_word::<OWNED>(hash, hint, key) else {
            return self.answer_any(index, key, hash, hint);
        };
        self.sink.found(index, EntryRef::new(&value.to_le_bytes()[..len]));
        self.hits += 1;
        if self.policy.is_due(partition.log(), hint.offset()) {
            self.renew(key, hint.offset());
        }
    }

    /// The same for entries of any kind.
    #[inline(never)]
    fn answer_any(&mut self, index: usize, key: &[u8], hash: u64, hint: Hint) {
        let partition = self.mica.home(hash);
        let scratch = self.scratch.get_or_insert_with(Scratch::new);
        let Some((copied, offset)) = partition.get::<OWNED>(hash, hint, key, scratch) else {
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
        self.are_long = copied.value_bytes > LONG;
        self.sink.found(index, scratch.entry(copied));
        self.hits += 1;
        if self.policy.is_due(partition.log(), offset) {
            self.renew(key, offset);
        }
    }

    /// Moves an entry that was used to the tail, or marks it. Where somebody writes its partition
    /// just now, this use does not count.
    #[cold]
    fn renew(&mut self, key: &[u8], offset: u64) {
        let probe = self.mica.probe(key);
        let partition = self.mica.partition(&probe);
        let scratch = self.scratch.get_or_insert_with(Scratch::new);
        let rules = self.mica.rules(self.policy);
        let mut renew = |p: &Partition| p.renew(&probe, key, offset, scratch, &rules);
        if OWNED {
            partition.guarded(renew);
        } else {
            partition.try_write(&mut renew);
        }
    }
}
