//! The optimistic lock (section 4.4.2): a version that is odd while a writer is at work.
//!
//! - Writer: [`try_lock`] makes the version odd (acquire), then a release fence; it changes what
//!   the lock guards (relaxed); [`unlock`] stores the next even version (release).
//! - Reader: [`begin_read`] loads the version (acquire) and goes on if it is even; it reads
//!   (relaxed); [`end_read`] is an acquire fence and the version again. If it is what it was,
//!   nothing changed meanwhile: had a relaxed load returned something stored after the writer's
//!   release fence, the fences would make the odd version visible, too.
//! - Coupling: a reader that takes a version below, and then finds the version above unchanged, has
//!   a version of what the level above named at that moment. Whoever changes what is named holds
//!   both locks, so a change shows in the version below.
//!
//! Versions only grow, so a place that is used again for something else is told from what it was.

use super::sync::{AtomicU64, Ordering, fence};

/// The last version, which is odd: what the lock guards is never used again.
const OBSOLETE: u64 = u64::MAX;

/// The version, or `None` while a writer is at work.
#[inline(always)]
pub(crate) fn begin_read(lock: &AtomicU64) -> Option<u64> {
    let seen = lock.load(Ordering::Acquire);
    (seen & 1 == 0).then_some(seen)
}

/// True if nothing has changed since [`begin_read`] returned `seen`.
#[inline(always)]
pub(crate) fn end_read(lock: &AtomicU64, seen: u64) -> bool {
    fence(Ordering::Acquire);
    lock.load(Ordering::Relaxed) == seen
}

/// Locks if the version still is `seen`.
#[inline(always)]
pub(crate) fn try_lock(lock: &AtomicU64, seen: u64) -> bool {
    let swapped = lock.compare_exchange(seen, seen | 1, Ordering::Acquire, Ordering::Relaxed);
    fence(Ordering::Release);
    swapped.is_ok()
}

/// Ends what [`try_lock`] began, with a new version. Only for the holder.
#[inline(always)]
pub(crate) fn unlock(lock: &AtomicU64) {
    let held = lock.load(Ordering::Relaxed);
    lock.store(held + 1, Ordering::Release);
}

/// Nobody gets the lock any more. Only for the holder.
pub(crate) fn retire(lock: &AtomicU64) {
    lock.store(OBSOLETE, Ordering::Release);
}

/// True if the lock was retired: waiting is in vain.
pub(crate) fn is_retired(lock: &AtomicU64) -> bool {
    lock.load(Ordering::Relaxed) == OBSOLETE
}
