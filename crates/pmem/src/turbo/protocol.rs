//! How readers and writers of a bucket meet.
//!
//! **Writers** of a shard take turns: they hold its lock. **Readers** write nothing and lock
//! nothing. A bucket is read under its commit word, which a writer replaces with another sequence
//! number each time.
//!
//! - Writer: [`write_slot`] begins with a release fence, then stores a slot that the commit word
//!   does not name (release); [`publish`] stores the commit word that names it (release).
//! - Reader: loads the commit word (acquire), reads what it names (relaxed), and believes it if
//!   [`is_unchanged`]: an acquire fence, then the commit word again (relaxed).
//!
//! A reader that has read a word of a slot which was stored after a later commit word finds that
//! later word: the writer's fence lies between both stores, the reader's between both loads. So
//! what it believes is what its commit word named.
//!
//! **A miss is checked as a hit is.** A reader that finds nothing may have looked at a slot after
//! its key had moved to another slot of the bucket and another key had taken the place. Without the
//! check it would miss a key that is there all the time (the paper's search does not check it;
//! crates/pmem/tests/turbo_model.rs shows both).
//!
//! **What a full bucket hides.** A search ends at a full bucket if no bit in memory says that keys
//! like its own lie beyond (`passed`). A writer sets the bits of all buckets on the way
//! ([`mark_passed`]) before it publishes the key; a reader looks at them before it checks the
//! commit word again.
//!
//! **Resizing.** The old buckets do not change any more once the new ones are written. The
//! descriptor is stored (release) after them and loaded (acquire) before them. The old ones are
//! freed by epochs: a reader is pinned before it loads the descriptor, until it has what it wants.

use super::sync::{AtomicU16, Ordering, fence};

/// Words of a region, as this protocol uses them.
pub(super) trait Words {
    /// The word at `at`, and what its writer did before.
    fn load(&self, at: u64) -> u64;
    /// The word at `at`, in no order.
    fn word(&self, at: u64) -> u64;
    /// Stores a word after everything that this thread did before.
    fn store(&self, at: u64, value: u64);
}

/// True if nothing that `seen` named was replaced before it was read. `seen` is the commit word at
/// `bucket`, loaded before.
#[inline(always)]
pub(super) fn is_unchanged(words: &impl Words, bucket: u64, seen: u64) -> bool {
    fence(Ordering::Acquire);
    words.word(bucket) == seen
}

/// Stores a slot that the bucket's commit word does not name. Only for the holder of the lock.
#[inline(always)]
pub(super) fn write_slot(words: &impl Words, at: u64, slot: [u64; 2]) {
    fence(Ordering::Release);
    words.store(at, slot[0]);
    words.store(at + 8, slot[1]);
}

/// Stores a commit word. Only for the holder of the lock.
#[inline(always)]
pub(super) fn publish(words: &impl Words, bucket: u64, commit: u64) {
    words.store(bucket, commit);
}

/// Sets a bit of what has passed a bucket. Only for the holder of the lock, before [`publish`]
/// makes the key visible.
#[inline(always)]
pub(super) fn mark_passed(bits: &AtomicU16, bit: u16) {
    let before = bits.load(Ordering::Relaxed);
    if before & bit == 0 {
        bits.store(before | bit, Ordering::Relaxed);
    }
}
