//! How readers and writers of a partition meet.
//!
//! **Writers** take turns: a [`Lock`] per partition, one compare-and-swap to enter (acquire), a
//! store to leave (release). Everything a partition consists of is atomic words; what only the
//! holder of the lock touches is loaded and stored relaxed.
//!
//! **Readers** write nothing. Two things may change under them:
//!
//! 1. *A bucket and the entries it points to.* The bucket's first word carries a version, odd
//!    while a writer is at work.
//!    - Writer: [`begin_write`] stores the odd version (relaxed), then a release fence; changes
//!      (relaxed); [`end_write`] stores the next even version (release).
//!    - Reader: [`begin_read`] loads the version (acquire) and goes on if it is even; reads
//!      (relaxed); [`end_read`]: an acquire fence, then the version again (relaxed). If it is the
//!      same, nothing was changed meanwhile: had a relaxed load returned something written after
//!      the release fence, the fences would make the odd version visible, too.
//! 2. *An entry that is the oldest of the log.* The log overwrites it without touching its bucket.
//!    - Writer: [`retire`] stores the new head (relaxed), then a release fence; only then new
//!      bytes (relaxed) go where entries before the head were.
//!    - Reader: after the acquire fence of [`end_read`] it loads the head (relaxed). An entry that
//!      is still not before the head was not overwritten, by the same argument.
//!
//! An entry's bytes are written before its offset enters a bucket, and that bucket's version is
//! stored with release, so a reader that finds the offset finds the bytes.

use crate::sync::{AtomicU64, Ordering, fence};

/// The bits of a bucket's first word that are its version.
const VERSION: u64 = u32::MAX as u64;

/// The word of a bucket that nobody writes, or `None` while a writer is at work.
#[inline(always)]
pub(crate) fn begin_read(word: &AtomicU64) -> Option<u64> {
    let seen = word.load(Ordering::Acquire);
    (seen & 1 == 0).then_some(seen)
}

/// True where nothing of the bucket was changed since `seen` came from [`begin_read`].
#[inline(always)]
pub(crate) fn end_read(word: &AtomicU64, seen: u64) -> bool {
    fence(Ordering::Acquire);
    word.load(Ordering::Relaxed) == seen
}

/// Turns readers of the bucket away until [`end_write`]; false where they already are. Only for
/// the one writer of the partition.
#[inline(always)]
pub(crate) fn begin_write(word: &AtomicU64) -> bool {
    let old = word.load(Ordering::Relaxed);
    if old & 1 == 1 {
        return false;
    }
    word.store(old | 1, Ordering::Relaxed);
    fence(Ordering::Release);
    true
}

/// Lets readers in again; nothing happens where they are not turned away.
#[inline(always)]
pub(crate) fn end_write(word: &AtomicU64) {
    let old = word.load(Ordering::Relaxed);
    if old & 1 == 1 {
        word.store(old & !VERSION | old.wrapping_add(1) & VERSION, Ordering::Release);
    }
}

/// Moves the log's head on, before anything is written where entries before it were.
#[inline(always)]
pub(crate) fn retire(head: &AtomicU64, to: u64) {
    head.store(to, Ordering::Relaxed);
    fence(Ordering::Release);
}

/// Lets one writer in at a time.
#[derive(Debug, Default)]
pub(crate) struct Lock(AtomicU64);

const FREE: u64 = 0;
const HELD: u64 = 1;
/// Held for long: whoever waits would wait in vain.
const OWNED: u64 = 2;
/// Held for ever: nothing is written any more.
const CLOSED: u64 = 3;
/// Whoever held it has left things half done.
const POISONED: u64 = 4;

/// Why nobody should wait for a [`Lock`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    Owned,
    Closed,
    Poisoned,
}

impl Lock {
    /// True where the caller holds the lock from now on. Where somebody else has it, nothing is
    /// written: readers who try do not take the owner's line away.
    #[inline(always)]
    pub(crate) fn try_lock(&self) -> bool {
        if self.0.load(Ordering::Relaxed) != FREE {
            return false;
        }
        let swapped = self.0.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed);
        swapped.is_ok()
    }

    /// Takes the lock for an owner, whom nobody waits for.
    pub(crate) fn try_own(&self) -> bool {
        let swapped = self.0.compare_exchange(FREE, OWNED, Ordering::Acquire, Ordering::Relaxed);
        swapped.is_ok()
    }

    /// Why it was in vain to wait for the lock a moment ago.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        match self.0.load(Ordering::Relaxed) {
            OWNED => Some(Refusal::Owned),
            CLOSED => Some(Refusal::Closed),
            POISONED => Some(Refusal::Poisoned),
            _ => None,
        }
    }

    /// Keeps everybody out for ever. Only for the holder.
    pub(crate) fn close(&self) {
        self.0.store(CLOSED, Ordering::Relaxed);
    }

    /// Only for the holder or the owner: what the lock guards is half done, and nobody comes in
    /// until somebody has mended it.
    pub(crate) fn poison(&self) {
        self.0.store(POISONED, Ordering::Release);
    }

    /// True where the caller holds the lock from now on, to mend what it guards.
    pub(crate) fn try_mend(&self) -> bool {
        let swapped = self.0.compare_exchange(POISONED, HELD, Ordering::Acquire, Ordering::Relaxed);
        swapped.is_ok()
    }

    /// Only for the holder or the owner; a lock that was poisoned stays so.
    #[inline(always)]
    pub(crate) fn unlock(&self) {
        if self.0.load(Ordering::Relaxed) != POISONED {
            self.0.store(FREE, Ordering::Release);
        }
    }
}
