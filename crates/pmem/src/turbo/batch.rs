//! Writes of several operations, which share their fences.
//!
//! Operations are sorted by the hash of their keys, so that shards are locked in their order and
//! the buckets of one are met one after the other; of those of one key only the last counts. All
//! slots are written and flushed before the first commit word is stored. Then
//!
//! - *together*: the commit words change by a redo, all or none after a crash;
//! - *each*: they are stored one after the other, and fenced together.

use super::bucket::{Commit, SUM};
use super::plan::{Content, Plan, Step, View};
use super::protocol::publish;
use super::shards::is_full;
use super::store::{Probe, Tally, Turbo};
use crate::space::Change;
use silica_base::{ErrorKind, Result};
use silica_device::region::Region;
use silica_engine::Op;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering;

/// How the operations of a batch hang together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bond {
    /// All or none, after a crash too.
    Together,
    /// Each by itself.
    Each,
}

/// The last operation of a key.
struct Item<'o> {
    op: &'o Op<'o>,
    hash: u64,
    shard: usize,
}

/// Shards that are the caller's to write, in their order.
pub(super) struct Locked<'t> {
    shards: Vec<usize>,
    tallies: Vec<MutexGuard<'t, Tally>>,
}

impl Locked<'_> {
    fn tally(&mut self, shard: usize) -> &mut Tally {
        let place = self.shards.binary_search(&shard).expect("a shard that was locked");
        &mut self.tallies[place]
    }
}

/// A bucket that changes.
struct Pending {
    bucket: u64,
    commit: Commit,
    sum: u64,
}

/// What a batch changes; nothing of it is visible yet.
#[derive(Default)]
struct Planned {
    /// Of one shard in the order of offsets.
    pending: Vec<Pending>,
    /// Where those of the current shard begin.
    shard_begin: usize,
    shard_counts: usize,
    tags: Vec<(u64, usize, u8)>,
    replaced: Vec<Change>,
    freed: Vec<u64>,
    /// How many more slots are used, and deleted, by shard.
    counts: Vec<(usize, i32, i32)>,
    /// Items from the first on that are visible already.
    visible: usize,
}

/// How long the lists of a plan are.
#[derive(Clone, Copy)]
struct Mark([usize; 5]);

/// What is planned of the current shard.
struct Together<'p>(&'p [Pending]);
struct Each<'p>(&'p [Pending]);

fn find(pending: &[Pending], bucket: u64) -> Option<(Commit, u64)> {
    let place = pending.binary_search_by_key(&bucket, |p| p.bucket).ok()?;
    Some((pending[place].commit, pending[place].sum))
}

impl View for Together<'_> {
    fn planned(&self, bucket: u64) -> Option<(Commit, u64)> {
        find(self.0, bucket)
    }

    const MAY_REPLACE: bool = true;
}

impl View for Each<'_> {
    fn planned(&self, bucket: u64) -> Option<(Commit, u64)> {
        find(self.0, bucket)
    }

    const MAY_REPLACE: bool = false;
}

impl Planned {
    fn with_capacity(items: usize) -> Planned {
        Planned {
            pending: Vec::with_capacity(items),
            tags: Vec::with_capacity(items),
            counts: Vec::with_capacity(items),
            ..Planned::default()
        }
    }

    fn begin_shard(&mut self) -> Mark {
        self.shard_begin = self.pending.len();
        self.shard_counts = self.counts.len();
        let lists = [self.tags.len(), self.replaced.len(), self.freed.len(), self.counts.len()];
        Mark([self.shard_begin, lists[0], lists[1], lists[2], lists[3]])
    }

    /// Forgets what was planned since `mark`.
    fn go_back(&mut self, Mark([pending, tags, replaced, freed, counts]): Mark) {
        self.pending.truncate(pending);
        self.tags.truncate(tags);
        self.replaced.truncate(replaced);
        self.freed.truncate(freed);
        self.counts.truncate(counts);
    }

    fn of_shard(&self) -> &[Pending] {
        &self.pending[self.shard_begin..]
    }

    /// How many more entries the current shard has by what is planned.
    fn shard_used(&self) -> i32 {
        self.counts[self.shard_counts..].iter().map(|(_, used, _)| used).sum()
    }

    fn add(&mut self, shard: usize, step: &Step, tag: u8) {
        let Step { bucket, commit, sum, .. } = *step;
        match self.of_shard().binary_search_by_key(&bucket, |p| p.bucket) {
            Ok(place) => {
                let pending = &mut self.pending[self.shard_begin + place];
                (pending.commit, pending.sum) = (commit, sum);
            }
            Err(place) => {
                let pending = Pending { bucket, commit, sum };
                self.pending.insert(self.shard_begin + place, pending);
            }
        }
        if let Some((slot, _)) = step.written {
            self.tags.push((bucket, slot, tag));
        }
        self.replaced.extend(step.replaced.map(|(offset, new)| Change { offset, new }));
        self.freed.extend(step.freed.map(|pointer| pointer.offset()));
        self.counts.push((shard, step.used, step.deleted));
    }
}

impl<R: Region> Turbo<R> {
    /// Writes `ops` as `bond` says.
    pub(super) fn write_batch(&self, ops: &[Op<'_>], bond: Bond) -> Result<()> {
        let keys: Vec<&[u8]> = ops.iter().map(|op| op.key).collect();
        let mut hashes = vec![0; keys.len()];
        self.seed.low_many(&keys, &mut hashes);
        self.prefetch_to_write(&keys, &hashes);
        let mut locked = self.lock_all_of(&hashes)?;
        self.write_all_locked(ops, &hashes, &mut locked, bond)
    }

    /// Locks the shards of all `hashes`, in their order, so that two writers never wait for each
    /// other.
    pub(super) fn lock_all_of(&self, hashes: &[u64]) -> Result<Locked<'_>> {
        let mut shards: Vec<usize> = hashes.iter().map(|hash| self.division.shard(*hash)).collect();
        shards.sort_unstable();
        shards.dedup();
        let tallies =
            shards.iter().map(|shard| self.lock_to_write(*shard)).collect::<Result<_>>()?;
        Ok(Locked { shards, tallies })
    }

    /// As [`Turbo::write_batch`], with all shards of the keys locked.
    pub(super) fn write_all_locked(
        &self,
        ops: &[Op<'_>],
        hashes: &[u64],
        locked: &mut Locked<'_>,
        bond: Bond,
    ) -> Result<()> {
        let items = self.sorted(ops, hashes);
        let mut contents: Vec<Option<Content>> = Vec::with_capacity(items.len());
        let mut planned = Planned::with_capacity(items.len());
        let written = self.prepare(&items, &mut contents).and_then(|()| {
            self.plan_all(&items, &contents, locked, bond, &mut planned)?;
            self.make_visible(&planned, locked, bond)
        });
        if let Err(error) = &written {
            // After a failed fence it is unknown what a durable word names.
            if error.kind() == ErrorKind::Full {
                let unused = contents.into_iter().skip(planned.visible).flatten();
                unused.for_each(|content| self.take_back(&[content]));
            }
        }
        written?;
        self.count(ops);
        Ok(())
    }

    /// The last operation of each key, in the order of hashes.
    fn sorted<'o>(&self, ops: &'o [Op<'o>], hashes: &[u64]) -> Vec<Item<'o>> {
        let mut order: Vec<(u64, usize)> = hashes.iter().copied().zip(0..).collect();
        order.sort_unstable();
        let is_last = |place: usize| {
            let (hash, number) = order[place];
            let later = order[place + 1..].iter().take_while(|(other, _)| *other == hash);
            later.clone().all(|(_, other)| ops[*other].key != ops[number].key)
        };
        let item = |place: usize| {
            let (hash, number) = order[place];
            Item { op: &ops[number], hash, shard: self.division.shard(hash) }
        };
        (0..order.len()).filter(|place| is_last(*place)).map(item).collect()
    }

    /// Writes all entries that lie beside.
    fn prepare(&self, items: &[Item<'_>], contents: &mut Vec<Option<Content>>) -> Result<()> {
        for item in items {
            contents.push(self.content(&Probe::new(item.op.key, item.hash), item.op)?);
        }
        Ok(())
    }

    /// Plans all items, and writes and flushes their slots. A shard without room grows first, which
    /// is a change by itself, and is planned anew.
    fn plan_all(
        &self,
        items: &[Item<'_>],
        contents: &[Option<Content>],
        locked: &mut Locked<'_>,
        bond: Bond,
        planned: &mut Planned,
    ) -> Result<()> {
        let mut first = 0;
        while first < items.len() {
            let shard = items[first].shard;
            let len = items[first..].iter().take_while(|item| item.shard == shard).count();
            let mark = planned.begin_shard();
            let mut place = first;
            while place < first + len {
                let used = locked.tally(shard).used.wrapping_add_signed(planned.shard_used());
                if self.plan_item(&items[place], contents[place], used, bond, planned)? {
                    place += 1;
                } else if bond == Bond::Each && !planned.pending.is_empty() {
                    self.make_visible(planned, locked, bond)?;
                    *planned = Planned { visible: place, ..Planned::default() };
                } else {
                    self.grow(shard, locked.tally(shard))?;
                    if bond == Bond::Together {
                        planned.go_back(mark);
                        place = first;
                    }
                }
            }
            first += len;
        }
        Ok(())
    }

    /// Plans one item of a shard that has `used` entries; false if there is no room for it.
    fn plan_item(
        &self,
        item: &Item<'_>,
        content: Option<Content>,
        used: u32,
        bond: Bond,
        planned: &mut Planned,
    ) -> Result<bool> {
        let probe = Probe::new(item.op.key, item.hash);
        let buckets = self.buckets(item.shard).expect("checked by the lock");
        let plan = match bond {
            Bond::Together => self.plan(&Together(planned.of_shard()), buckets, &probe, content)?,
            Bond::Each => self.plan(&Each(planned.of_shard()), buckets, &probe, content)?,
        };
        match plan {
            Plan::Step(step) if step.used > 0 && is_full(buckets, used) => Ok(false),
            Plan::Step(step) => {
                if let Some((slot, words)) = step.written {
                    self.store_slot(step.bucket, slot, words);
                    self.mark_passed(buckets, probe.hash, step.passed);
                }
                planned.add(item.shard, &step, probe.tag());
                Ok(true)
            }
            Plan::Nothing => Ok(true),
            Plan::NoRoom => Ok(false),
        }
    }

    /// Stores the commit words, durably.
    fn make_visible(&self, planned: &Planned, locked: &mut Locked<'_>, bond: Bond) -> Result<()> {
        let region = self.region();
        // Readers look at a tag only if its slot is in use, and at no sum.
        for (bucket, slot, tag) in &planned.tags {
            self.store_tag(*bucket, *slot, *tag);
        }
        for pending in &planned.pending {
            region.store(pending.bucket + SUM, pending.sum);
        }
        let made = match bond {
            Bond::Together => self.commit_together(planned),
            Bond::Each => self.commit_each(planned),
        };
        if let Err(error) = &made
            && error.kind() == ErrorKind::Full
        {
            for pending in &planned.pending {
                region.store(pending.bucket + SUM, self.computed_sum(pending.bucket));
            }
        }
        made?;
        for (shard, used, deleted) in &planned.counts {
            let tally = locked.tally(*shard);
            tally.used = tally.used.wrapping_add_signed(*used);
            tally.deleted = tally.deleted.wrapping_add_signed(*deleted);
        }
        if planned.counts.iter().any(|(_, used, _)| *used < 0) {
            self.may_tidy.store(true, Ordering::Relaxed);
        }
        self.retire(&planned.freed, 0);
        Ok(())
    }

    fn commit_together(&self, planned: &Planned) -> Result<()> {
        let commit = |p: &Pending| Change { offset: p.bucket, new: p.commit.0 };
        let mut changes: Vec<Change> = planned.pending.iter().map(commit).collect();
        changes.extend_from_slice(&planned.replaced);
        self.or_poison(self.space.commit(&changes))
    }

    fn commit_each(&self, planned: &Planned) -> Result<()> {
        let region = self.region();
        self.fence()?;
        for pending in &planned.pending {
            publish(&self.words(), pending.bucket, pending.commit.0);
        }
        for pending in &planned.pending {
            region.flush(pending.bucket, 32);
        }
        self.fence()
    }

    /// Asks for the lines that writing these keys will look at.
    fn prefetch_to_write(&self, keys: &[&[u8]], hashes: &[u64]) {
        let _pinned = crossbeam_epoch::pin();
        for hash in hashes {
            if let Some((at, _)) = self.home_of(*hash) {
                self.region().prefetch(at);
            }
        }
        for (key, hash) in keys.iter().zip(hashes) {
            if let Some((_, buckets)) = self.home_of(*hash) {
                self.prefetch_slots(buckets, &Probe::new(key, *hash));
            }
        }
    }
}
