//! The engine's parts, and who may touch what.
//!
//! Invariants:
//!
//! 1. A shard's buckets and its descriptor in the region are written by the holder of its lock.
//! 2. The descriptor in memory names what the one in the region names, once that is durable.
//! 3. Nothing of a shard is believed or changed before it was checked ([`UNCHECKED`]).
//! 4. An object that readers may see is freed through [`Limbo`]; readers are pinned.

use super::bucket::{Commit, Kind, SUM, TAGS, match_tags, slot_at};
use super::entry::{Loaded, Pointer, Reader};
use super::limbo::Limbo;
use super::passed::Passed;
use super::protocol::{Words, is_unchanged};
use super::shards::{Buckets, Division, UNCHECKED};
use crate::space::Space;
use silica_base::{Clock, Error, ErrorKind, HashSeed, Result, Striped};
use silica_device::region::Region;
use silica_engine::{Descriptor, Durability};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Longest key.
pub const KEY_BYTES_MAX: usize = (1 << 16) - 1;
/// Longest value.
pub const VALUE_BYTES_MAX: usize = 512 << 20;
/// Bytes of one batch.
pub(super) const BATCH_BYTES_MAX: usize = 256 << 20;

/// TurboHash in a region.
pub struct Turbo<R: Region> {
    pub(super) descriptor: Descriptor,
    pub(super) space: Space<R>,
    /// Where the table of shards lies in the region; changed with all shards locked.
    pub(super) table: AtomicU64,
    pub(super) division: Division,
    /// Where each shard's buckets are.
    pub(super) shards: Box<[AtomicU64]>,
    pub(super) locks: Box<[Mutex<Tally>]>,
    /// Which keys lie beyond full buckets; right for shards that are checked.
    pub(super) passed: Passed,
    /// Shards that were not checked since the opening.
    pub(super) unchecked: AtomicUsize,
    /// Entries of shards that were not looked at, if `is_counted`: a clean close has counted them.
    pub(super) uncounted: AtomicU64,
    pub(super) is_counted: bool,
    /// The region was settled when it was opened: what does not match is damage.
    pub(super) was_settled: bool,
    pub(super) seed: HashSeed,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) limbo: Limbo,
    pub(super) counts: Striped<Counts>,
    pub(super) rebuilds: Rebuilds,
    pub(super) sweep: Mutex<Sweep>,
    /// No entry that a sweep has not met expires before.
    pub(super) soonest_ms: AtomicU64,
    pub(super) is_closed: AtomicBool,
    /// A fence failed: what is durable is unknown, and sums may be ahead of commit words.
    pub(super) is_poisoned: AtomicBool,
    /// Something was freed since space was last given back.
    pub(super) may_trim: AtomicBool,
    /// Entries were removed since shards were last looked over.
    pub(super) may_tidy: AtomicBool,
    pub(super) memory_bytes: AtomicU64,
}

/// Slots of a shard; guarded by its lock.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) used: u32,
    pub(super) deleted: u32,
}

/// Where background work goes on.
#[derive(Debug, Default)]
pub(super) struct Sweep {
    pub(super) next_shard: usize,
    /// The shard with which looking for shards to be rebuilt goes on.
    pub(super) next_untidy: usize,
    /// The earliest expiry that this pass has met and left.
    pub(super) soonest_ms: u64,
}

/// Calls, by what they did.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) gets: AtomicU64,
    pub(super) hits: AtomicU64,
    pub(super) puts: AtomicU64,
    pub(super) deletes: AtomicU64,
    pub(super) user_bytes: AtomicU64,
    pub(super) expired: AtomicU64,
}

/// What rebuilding shards took.
#[derive(Debug, Default)]
pub(super) struct Rebuilds {
    pub(super) resizes: AtomicU64,
    pub(super) cleanups: AtomicU64,
    pub(super) ns: AtomicU64,
    pub(super) ns_max: AtomicU64,
}

/// A key that is looked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe<'k> {
    pub(super) key: &'k [u8],
    pub(super) hash: u64,
    /// The key as a slot has it, if it has 8 bytes.
    pub(super) word: Option<u64>,
}

impl<'k> Probe<'k> {
    #[inline(always)]
    pub(super) fn new(key: &'k [u8], hash: u64) -> Probe<'k> {
        let word = <[u8; 8]>::try_from(key).ok().map(u64::from_le_bytes);
        Probe { key, hash, word }
    }

    #[inline(always)]
    pub(super) fn tag(&self) -> u8 {
        self.hash as u8
    }

    /// True if a slot of this kind, with this first word, may have the key: surely if it is inline.
    #[inline(always)]
    pub(super) fn may_be(&self, kind: Kind, word: u64) -> bool {
        match kind {
            Kind::Inline => self.word == Some(word),
            Kind::Beside => self.hash == word,
        }
    }
}

/// A key that was found: the second word of its slot.
#[derive(Debug, Clone, Copy)]
pub(super) enum Hit {
    /// The value.
    Inline(u64),
    Beside(Pointer),
}

/// A region as the protocol sees it.
pub(super) struct RegionWords<'r, R>(pub(super) &'r R);

impl<R: Region> Words for RegionWords<'_, R> {
    #[inline(always)]
    fn load(&self, at: u64) -> u64 {
        self.0.load(at)
    }

    #[inline(always)]
    fn word(&self, at: u64) -> u64 {
        self.0.word(at)
    }

    #[inline(always)]
    fn store(&self, at: u64, value: u64) {
        self.0.store(at, value);
    }
}

impl<R: Region> Turbo<R> {
    #[inline(always)]
    pub(super) fn region(&self) -> &R {
        self.space.region()
    }

    #[inline(always)]
    pub(super) fn words(&self) -> RegionWords<'_, R> {
        RegionWords(self.region())
    }

    pub(super) fn reader(&self) -> Reader<'_, R> {
        Reader { region: self.region(), store: self.space.store(), name: self.space.name() }
    }

    /// The shard's buckets, for a reader that is pinned or the holder of its lock; `None` if they
    /// were not checked.
    #[inline(always)]
    pub(super) fn buckets(&self, shard: usize) -> Option<Buckets> {
        let word = self.shards[shard].load(Ordering::Acquire);
        (word & UNCHECKED == 0).then(|| Buckets::of(word))
    }

    /// The shard's buckets once they are checked.
    #[inline(always)]
    pub(super) fn checked_buckets(&self, shard: usize) -> Result<Buckets> {
        match self.buckets(shard) {
            Some(buckets) => Ok(buckets),
            None => {
                self.lock(shard).map(|_| Buckets::of(self.shards[shard].load(Ordering::Acquire)))
            }
        }
    }

    /// Waits until the caller is the only writer of the shard, which is checked then.
    #[inline]
    pub(super) fn lock(&self, shard: usize) -> Result<MutexGuard<'_, Tally>> {
        let mut tally = self.lock_unchecked(shard);
        if self.shards[shard].load(Ordering::Relaxed) & UNCHECKED != 0 {
            self.check_shard(shard, &mut tally)?;
        }
        Ok(tally)
    }

    /// As [`Turbo::lock`], for whoever stores something.
    ///
    /// # Errors
    /// `Poisoned` if a fence failed: the holder of the lock before may have left sums of buckets
    /// that it did not come to commit.
    #[inline]
    pub(super) fn lock_to_write(&self, shard: usize) -> Result<MutexGuard<'_, Tally>> {
        let tally = self.lock(shard)?;
        self.check_not_poisoned()?;
        Ok(tally)
    }

    #[inline]
    pub(super) fn check_not_poisoned(&self) -> Result<()> {
        if !self.is_poisoned.load(Ordering::Relaxed) {
            return Ok(());
        }
        let message = "an earlier fence failed; open the store again";
        Err(Error::new(ErrorKind::Poisoned, message))
    }

    /// Waits for what was flushed; a failure is final. The caller holds the locks of what it is
    /// about.
    #[inline(always)]
    pub(super) fn fence(&self) -> Result<()> {
        self.or_poison(self.region().fence())
    }

    /// A failure of the medium is final; one for want of room is not.
    #[inline(always)]
    pub(super) fn or_poison<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && error.kind() != ErrorKind::Full
        {
            self.is_poisoned.store(true, Ordering::Relaxed);
        }
        result
    }

    /// Waits until the caller is the only writer of the shard.
    pub(super) fn lock_unchecked(&self, shard: usize) -> MutexGuard<'_, Tally> {
        // A writer that panics in a caller's closure leaves nothing half done.
        self.locks[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a write to a closed store, or one that is to survive more than the region does.
    #[inline]
    pub(super) fn check_writable(&self, durability: Durability) -> Result<()> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Closed, "the store was closed"));
        }
        self.check_not_poisoned()?;
        match durability {
            Durability::Buffered => Ok(()),
            Durability::Synced => self.check_survives(),
        }
    }

    /// Refuses to promise that a power cut is survived where it is not.
    pub(super) fn check_survives(&self) -> Result<()> {
        let class = self.region().class();
        if class.survives_power_cut() {
            return Ok(());
        }
        let message = format!(
            "what {} holds survives {class}, so engine 'turbo' cannot make a write survive a power \
             cut; write with durability 'buffered', put the store on persistent memory (a file \
             system with DAX), or use engine 'silt' or 'wip'",
            self.space.name()
        );
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    /// The slot of a key, if it is there. The caller is pinned or holds the shard's lock.
    ///
    /// A slot beside is believed if `is_key` says so; it is asked while what the pointer names
    /// cannot be freed.
    #[inline(always)]
    pub(super) fn search(
        &self,
        buckets: Buckets,
        probe: &Probe<'_>,
        is_key: &mut dyn FnMut(Pointer) -> Result<bool>,
    ) -> Result<Option<Hit>> {
        if buckets.count == 0 {
            return Ok(None);
        }
        let mut number = self.division.home(probe.hash, buckets.count);
        for _ in 0..buckets.scope() {
            let at = buckets.at(number);
            let (hit, is_end) = self.search_bucket(at, probe, is_key)?;
            if hit.is_some() || is_end {
                return Ok(hit);
            }
            number = buckets.after(number);
        }
        Ok(None)
    }

    /// As [`Turbo::search`] in one bucket, and whether searches end there.
    #[inline(always)]
    fn search_bucket(
        &self,
        at: u64,
        probe: &Probe<'_>,
        is_key: &mut dyn FnMut(Pointer) -> Result<bool>,
    ) -> Result<(Option<Hit>, bool)> {
        let (region, words) = (self.region(), self.words());
        'again: loop {
            let seen = words.load(at);
            let commit = Commit(seen);
            let tags = [region.word(at + TAGS), region.word(at + TAGS + 8)];
            let mut candidates = match_tags(tags, probe.tag()) & commit.used();
            while candidates != 0 {
                let slot = candidates.trailing_zeros() as usize;
                candidates &= candidates - 1;
                let slot_at = at + slot_at(slot);
                let [first, second] = [region.word(slot_at), region.word(slot_at + 8)];
                let kind = commit.kind(slot);
                if !probe.may_be(kind, first) {
                    continue;
                }
                if !is_unchanged(&words, at, seen) {
                    continue 'again;
                }
                let pointer = Pointer(second);
                match kind {
                    Kind::Inline => return Ok((Some(Hit::Inline(second)), true)),
                    Kind::Beside if is_key(pointer)? => {
                        return Ok((Some(Hit::Beside(pointer)), true));
                    }
                    Kind::Beside => {}
                }
            }
            let is_end = commit.is_path_end() || !self.passed.may_have(at, probe.hash);
            // A miss, too: see the protocol.
            if is_unchanged(&words, at, seen) {
                return Ok((None, is_end));
            }
        }
    }

    /// Reads the entry that `pointer` names if its key is the one that is looked for.
    pub(super) fn load_if(
        &self,
        pointer: Pointer,
        key: &[u8],
        bytes: &mut Vec<u8>,
    ) -> Result<Option<Loaded>> {
        let loaded = self.reader().load(pointer, bytes)?;
        Ok((bytes[loaded.key.clone()] == *key).then_some(loaded))
    }

    /// True if an entry's time is over. `now` is asked for at most once a burst.
    #[inline(always)]
    pub(super) fn has_expired(&self, expires_unix_ms: u64, now: &mut Option<u64>) -> bool {
        let now_ms = || self.clock.unix_ms();
        expires_unix_ms != 0 && expires_unix_ms <= *now.get_or_insert_with(now_ms)
    }

    /// An entry expires then; 0 is never.
    pub(super) fn note_expiry(&self, expires_unix_ms: u64) {
        if expires_unix_ms != 0 {
            self.soonest_ms.fetch_min(expires_unix_ms, Ordering::Relaxed);
        }
    }

    /// Both words of a slot.
    #[inline(always)]
    pub(super) fn slot_words(&self, bucket: u64, slot: usize) -> [u64; 2] {
        let at = bucket + slot_at(slot);
        [self.region().word(at), self.region().word(at + 8)]
    }

    /// The stored sum of a bucket; for the holder of the lock.
    #[inline(always)]
    pub(super) fn sum_of(&self, bucket: u64) -> u64 {
        self.region().word(bucket + SUM)
    }

    /// Bytes of memory that the store takes besides the region.
    pub(super) fn managing_bytes(&self) -> u64 {
        self.shard_bytes() + self.passed.memory_bytes() + self.space.memory_bytes()
    }

    /// Bytes of memory that the shards take.
    pub(super) fn shard_bytes(&self) -> u64 {
        let each = size_of::<AtomicU64>() + size_of::<Mutex<Tally>>();
        (self.shards.len() * each) as u64
    }
}
