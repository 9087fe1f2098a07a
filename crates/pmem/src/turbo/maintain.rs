//! Background work: checks after an opening, expiry, shards with many deleted or few used slots,
//! space.

use super::bucket::{Commit, SLOTS, SUM, State, slot_sum};
use super::entry::Pointer;
use super::protocol::publish;
use super::shards::Buckets;
use super::store::{Sweep, Tally, Turbo};
use silica_base::{ErrorKind, Result};
use silica_device::region::Region;
use silica_engine::{Budget, Progress};
use std::sync::atomic::Ordering;

/// Looking at a shard counts as so many bytes at least.
const SHARD_BYTES_MIN: u64 = 16;

/// What a shard should be rebuilt for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Untidy {
    /// Searches go over many deleted slots.
    Deleted,
    /// It has this many buckets more than it needs, so it gets so many.
    Sparse(u64),
}

/// Whether a shard with these buckets should be rebuilt.
fn untidy(buckets: Buckets, tally: &Tally) -> Option<Untidy> {
    let slots = buckets.count * SLOTS as u64;
    let used = u64::from(tally.used);
    // Three fifths full, as after a growth by half.
    let enough = if used == 0 { 0 } else { used * 5 / (SLOTS as u64 * 3) + 1 };
    if used * 4 < slots && enough * 4 < buckets.count * 3 {
        return Some(Untidy::Sparse(enough));
    }
    // A rebuild costs as much as a dozen deletes for each slot that it frees. Searches end at empty
    // slots, so fewer deleted ones lengthen them if a quarter of those that are free are deleted:
    // all keys of a shard that was four fifths full were replaced. One of each bucket is always
    // empty.
    let deleted = u64::from(tally.deleted);
    let free = slots.saturating_sub(used + buckets.count);
    let is_long = deleted * 32 > slots && deleted * 4 > free;
    (deleted * 8 > slots || is_long).then_some(Untidy::Deleted)
}

impl<R: Region> Turbo<R> {
    /// A bounded piece of background work.
    pub(super) fn do_some(&self, budget: Budget) -> Result<Progress> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Ok(Progress::default());
        }
        self.check_not_poisoned()?;
        let max = budget.bytes.max(1);
        let mut progress = Progress::default();
        if self.unchecked.load(Ordering::Acquire) > 0 {
            progress.bytes += self.check_some(max)?;
        }
        if let Ok(mut sweep) = self.sweep.try_lock() {
            self.expire_some(&mut sweep, max, &mut progress)?;
            self.tidy_some(&mut sweep, max, &mut progress)?;
        }
        let is_all_free = self.limbo.collect(&self.space);
        if budget.is_idle && self.may_trim.load(Ordering::Relaxed) {
            if is_all_free {
                self.may_trim.store(false, Ordering::Relaxed);
                self.or_poison(self.space.trim())?;
            } else {
                // A reader that began before was still there. It is through in a moment, and
                // nobody else would come back to give the file's end away.
                progress.more = true;
            }
        }
        progress.more |= self.unchecked.load(Ordering::Acquire) > 0;
        Ok(progress)
    }

    /// Goes on with removing what has expired, once something has.
    fn expire_some(&self, sweep: &mut Sweep, max: u64, progress: &mut Progress) -> Result<()> {
        let now_ms = self.clock.unix_ms();
        if sweep.next_shard == 0 {
            if self.soonest_ms.load(Ordering::Relaxed) > now_ms {
                return Ok(());
            }
            // What this pass leaves, and what is put meanwhile, says when the next one is due.
            self.soonest_ms.store(u64::MAX, Ordering::Relaxed);
            sweep.soonest_ms = u64::MAX;
        }
        while sweep.next_shard < self.shards.len() {
            if progress.bytes >= max {
                progress.more = true;
                return Ok(());
            }
            let shard = sweep.next_shard;
            let mut tally = self.lock_to_write(shard)?;
            let buckets = self.checked_buckets_locked(shard);
            for number in 0..buckets.count {
                self.expire_bucket(buckets.at(number), now_ms, &mut tally, sweep)?;
            }
            progress.bytes += buckets.bytes().max(SHARD_BYTES_MIN);
            sweep.next_shard += 1;
        }
        sweep.next_shard = 0;
        self.note_expiry(if sweep.soonest_ms == u64::MAX { 0 } else { sweep.soonest_ms });
        Ok(())
    }

    /// Removes what has expired of a bucket whose shard is locked.
    fn expire_bucket(
        &self,
        at: u64,
        now_ms: u64,
        tally: &mut Tally,
        sweep: &mut Sweep,
    ) -> Result<()> {
        let mut commit = Commit(self.region().word(at));
        let (mut sum, mut expired) = (self.sum_of(at), Vec::new());
        let state = if commit.is_path_end() { State::Empty } else { State::Deleted };
        let beside = commit.beside();
        for slot in (0..SLOTS).filter(|slot| beside >> slot & 1 == 1) {
            let words = self.slot_words(at, slot);
            let pointer = Pointer(words[1]);
            if !pointer.expires() {
                continue;
            }
            let expires = self.reader().header(pointer)?.expires_unix_ms;
            if expires > now_ms {
                sweep.soonest_ms = sweep.soonest_ms.min(expires);
                continue;
            }
            sum ^= slot_sum(slot, commit.kind(slot), words);
            commit = commit.with(slot, state);
            expired.push(pointer.offset());
        }
        if expired.is_empty() {
            return Ok(());
        }
        self.region().store(at + SUM, sum);
        publish(&self.words(), at, commit.sealed(sum).0);
        self.region().flush(at, SUM + 8);
        tally.used -= expired.len() as u32;
        tally.deleted += if state == State::Deleted { expired.len() as u32 } else { 0 };
        self.fence()?;
        self.counts.add(|counts| &counts.expired, expired.len() as u64);
        self.may_tidy.store(true, Ordering::Relaxed);
        self.retire(&expired, 0);
        Ok(())
    }

    /// Goes on with looking for shards to be rebuilt.
    fn tidy_some(&self, sweep: &mut Sweep, max: u64, progress: &mut Progress) -> Result<()> {
        if sweep.next_untidy == 0 && !self.may_tidy.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        while sweep.next_untidy < self.shards.len() {
            if progress.bytes >= max {
                progress.more = true;
                return Ok(());
            }
            progress.bytes += self.tidy_shard(sweep.next_untidy)?.max(SHARD_BYTES_MIN);
            sweep.next_untidy += 1;
        }
        sweep.next_untidy = 0;
        Ok(())
    }

    /// Rebuilds a shard if it should be; bytes of it.
    fn tidy_shard(&self, shard: usize) -> Result<u64> {
        let mut tally = self.lock_to_write(shard)?;
        let buckets = self.checked_buckets_locked(shard);
        let (count, counter) = match untidy(buckets, &tally) {
            None => return Ok(0),
            Some(Untidy::Deleted) => (buckets.count, &self.rebuilds.cleanups),
            Some(Untidy::Sparse(count)) => (count, &self.rebuilds.resizes),
        };
        match self.rebuild(shard, &mut tally, count) {
            Ok(()) => counter.fetch_add(1, Ordering::Relaxed),
            // Searches stay long, and nothing is lost.
            Err(error) if error.kind() == ErrorKind::Full => 0,
            Err(error) => return Err(error),
        };
        Ok(buckets.bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_rebuilt_for_deleted_slots_and_for_few_entries() {
        let of =
            |count, used, deleted| untidy(Buckets { start: 0, count }, &Tally { used, deleted });
        assert_eq!(of(100, 800, 0), None);
        assert_eq!(of(100, 800, 176), Some(Untidy::Deleted));
        assert_eq!((of(100, 800, 120), of(100, 1100, 43)), (None, None));
        assert_eq!(of(100, 1040, 73), Some(Untidy::Deleted), "all keys were replaced");
        assert_eq!(of(100, 300, 0), Some(Untidy::Sparse(36)));
        assert_eq!(of(1, 1, 0), None, "one bucket is the least");
        assert_eq!(of(1, 0, 0), Some(Untidy::Sparse(0)));
        assert_eq!(of(0, 0, 0), None);
    }
}
