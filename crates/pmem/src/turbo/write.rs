//! Writes of one operation.

use super::bucket::{BUCKET_BYTES, Kind, SUM, slot_at, tag_word_at, with_tag};
use super::entry::{self, Pointer};
use super::plan::{Content, Plan, Step, Unplanned};
use super::protocol::{publish, write_slot};
use super::shards::{Buckets, is_full};
use super::store::{BATCH_BYTES_MAX, KEY_BYTES_MAX, Probe, Tally, Turbo, VALUE_BYTES_MAX};
use silica_base::{Error, ErrorKind, Result};
use silica_device::region::{LINE_BYTES, Region};
use silica_engine::{EntryRef, Op, OpKind};
use std::sync::atomic::Ordering;

/// Where the words behind the commit word end that a commit stores, too.
const HEAD_BYTES: u64 = 32;

/// Refuses operations that are over a limit.
pub(super) fn check_limits(ops: &[Op<'_>]) -> Result<()> {
    let mut sum = 0;
    for op in ops {
        at_most(op.key.len(), KEY_BYTES_MAX, "key")?;
        sum += op.key.len();
        if let OpKind::Put(entry) = op.kind {
            at_most(entry.value.len(), VALUE_BYTES_MAX, "value")?;
            sum += if entry.value.len() < 1 << 20 { entry.value.len() } else { 0 };
        }
    }
    at_most(sum, BATCH_BYTES_MAX, "batch")
}

#[inline]
pub(super) fn at_most(bytes: usize, max: usize, what: &str) -> Result<()> {
    if bytes <= max {
        return Ok(());
    }
    let message = format!("a {what} of {bytes} bytes is over the limit of {max} of engine 'turbo'");
    Err(Error::new(ErrorKind::TooLarge, message))
}

impl<R: Region> Turbo<R> {
    /// Writes one operation.
    pub(super) fn write_one(&self, op: &Op<'_>) -> Result<()> {
        let probe = Probe::new(op.key, self.seed.low(op.key));
        let shard = self.division.shard(probe.hash);
        self.prefetch_whole(shard, probe.hash);
        let mut tally = self.lock_to_write(shard)?;
        let content = self.content(&probe, op)?;
        let written = self.write_locked(shard, &mut tally, &probe, content);
        if written.as_ref().is_err_and(|error| error.kind() == ErrorKind::Full) {
            self.take_back(content.as_slice());
        }
        drop(tally);
        written?;
        self.count(std::slice::from_ref(op));
        Ok(())
    }

    fn write_locked(
        &self,
        shard: usize,
        tally: &mut Tally,
        probe: &Probe<'_>,
        content: Option<Content>,
    ) -> Result<()> {
        loop {
            let buckets = self.buckets(shard).expect("checked by the lock");
            match self.plan(&Unplanned, buckets, probe, content)? {
                Plan::Step(step) if step.used > 0 && is_full(buckets, tally.used) => {
                    self.grow(shard, tally)?;
                }
                Plan::Step(step) => {
                    self.mark_passed(buckets, probe.hash, step.passed);
                    return self.apply(&step, tally, probe.tag());
                }
                Plan::Nothing => return Ok(()),
                Plan::NoRoom => self.grow(shard, tally)?,
            }
        }
    }

    /// Asks for all lines of a key's home: which of them are needed, the first one says. A hint:
    /// the buckets may be others meanwhile.
    #[inline]
    fn prefetch_whole(&self, shard: usize, hash: u64) {
        let buckets = Buckets::of(self.shards[shard].load(Ordering::Relaxed));
        let at = buckets.at(self.division.home(hash, buckets.count));
        for line in (at..at + BUCKET_BYTES).step_by(LINE_BYTES as usize) {
            self.region().prefetch(line);
        }
    }

    /// What a slot is to hold for an operation. An entry that lies beside is written and flushed,
    /// not fenced.
    pub(super) fn content(&self, probe: &Probe<'_>, op: &Op<'_>) -> Result<Option<Content>> {
        let OpKind::Put(entry) = op.kind else { return Ok(None) };
        if let (Some(key), Some(value)) = (probe.word, <[u8; 8]>::try_from(entry.value).ok())
            && entry.expires_unix_ms == 0
            && entry.user_bits == 0
        {
            return Ok(Some((Kind::Inline, [key, u64::from_le_bytes(value)])));
        }
        let pointer = self.write_beside(op.key, &entry)?;
        self.note_expiry(entry.expires_unix_ms);
        Ok(Some((Kind::Beside, [probe.hash, pointer.0])))
    }

    #[inline(never)]
    fn write_beside(&self, key: &[u8], entry: &EntryRef<'_>) -> Result<Pointer> {
        let offset = self.allocate(entry::bytes_of(key, entry))?;
        Ok(entry::write(self.region(), self.space.store(), offset, key, entry))
    }

    /// An object; what waits to be freed is freed if it is needed for that.
    pub(super) fn allocate(&self, bytes: u64) -> Result<u64> {
        let allocated = self.space.allocate(bytes);
        match &allocated {
            Err(error) if error.kind() == ErrorKind::Full && !self.limbo.is_empty() => {
                self.limbo.collect(&self.space);
                self.or_poison(self.space.allocate(bytes))
            }
            _ => self.or_poison(allocated),
        }
    }

    /// Frees entries that no slot ever named.
    pub(super) fn take_back(&self, contents: &[Content]) {
        for (kind, words) in contents {
            if *kind == Kind::Beside {
                self.space.free(Pointer(words[1]).offset());
            }
        }
    }

    /// Makes one step, and makes it durable: two lines and two fences.
    fn apply(&self, step: &Step, tally: &mut Tally, tag: u8) -> Result<()> {
        let region = self.region();
        if let Some((slot, words)) = step.written {
            self.store_slot(step.bucket, slot, words);
            self.fence()?;
            self.store_tag(step.bucket, slot, tag);
        }
        region.store(step.bucket + SUM, step.sum);
        publish(&self.words(), step.bucket, step.commit.0);
        region.flush(step.bucket, HEAD_BYTES);
        tally.add(step);
        if step.used < 0 {
            self.may_tidy.store(true, Ordering::Relaxed);
        }
        self.fence()?;
        if let Some(pointer) = step.freed {
            self.retire(&[pointer.offset()], 0);
        }
        Ok(())
    }

    /// Stores a slot that no commit word names, and flushes it.
    #[inline(always)]
    pub(super) fn store_slot(&self, bucket: u64, slot: usize, words: [u64; 2]) {
        let at = bucket + slot_at(slot);
        write_slot(&self.words(), at, words);
        self.region().flush(at, 16);
    }

    #[inline(always)]
    pub(super) fn store_tag(&self, bucket: u64, slot: usize, tag: u8) {
        let at = bucket + tag_word_at(slot);
        self.region().store(at, with_tag(self.region().word(at), slot, tag));
    }

    /// Notes in the first `passed` buckets from a key's home on that its search goes on there. Only
    /// for the holder of the shard's lock, before the key is visible.
    #[inline]
    pub(super) fn mark_passed(&self, buckets: Buckets, hash: u64, passed: u64) {
        if passed == 0 {
            return;
        }
        let mut number = self.division.home(hash, buckets.count);
        for _ in 0..passed {
            self.passed.mark(buckets.at(number), hash);
            number = buckets.after(number);
        }
    }

    /// Objects that no durable word names any more.
    pub(super) fn retire(&self, offsets: &[u64], bytes: u64) {
        if !offsets.is_empty() {
            self.may_trim.store(true, Ordering::Relaxed);
            self.limbo.retire(&self.space, offsets, bytes);
        }
    }

    /// Counts operations that were applied.
    pub(super) fn count(&self, ops: &[Op<'_>]) {
        let (mut puts, mut bytes) = (0, 0);
        for op in ops {
            if let OpKind::Put(entry) = op.kind {
                puts += 1;
                bytes += (op.key.len() + entry.value.len()) as u64;
            }
        }
        let mine = self.counts.mine();
        mine.add(|counts| &counts.puts, puts);
        mine.add(|counts| &counts.deletes, ops.len() as u64 - puts);
        mine.add(|counts| &counts.user_bytes, bytes);
    }
}

impl Tally {
    /// Counts a step.
    #[inline]
    pub(super) fn add(&mut self, step: &Step) {
        self.used = self.used.wrapping_add_signed(step.used);
        self.deleted = self.deleted.wrapping_add_signed(step.deleted);
    }
}
