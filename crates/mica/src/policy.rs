//! Which entries a full cache keeps.
//!
//! A circular log evicts its oldest entry, so a policy can do two things: give an entry another
//! place at the tail, and choose the log that a new entry goes to. What it lets go stays all the
//! same while at most half of the main log is live (`cache.rs`).

use crate::item;
use crate::log::{Log, Which};
use crate::options::Eviction;

/// Which entries give way; every call is resolved at compile time.
pub(crate) trait Policy: Copy {
    /// Uses of an entry are counted in it, so far. Where they are not counted, a use that is noted
    /// moves the entry to the tail.
    const USES_MAX: u64 = 0;
    /// There is a small log.
    const HAS_SMALL: bool = false;

    /// True where a use of the entry at `offset` is to be noted.
    fn is_due(self, log: &Log, offset: u64) -> bool;

    /// What becomes of an entry that would be evicted next from a log: it stays in the main one,
    /// with so many of its uses, or it goes.
    #[inline(always)]
    fn keeps(self, _which: Which, _uses: u64) -> Option<u64> {
        None
    }

    /// The log for a new entry of `words` words. `is_ghost` says whether it was evicted from the
    /// small one not long ago.
    #[inline(always)]
    fn log_for(self, _log: &Log, _words: usize, _is_ghost: impl FnOnce() -> bool) -> Which {
        Which::Main
    }
}

/// The oldest goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fifo;

impl Policy for Fifo {
    #[inline(always)]
    fn is_due(self, _log: &Log, _offset: u64) -> bool {
        false
    }
}

/// The least recently used goes: each use moves.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lru;

impl Policy for Lru {
    #[inline(always)]
    fn is_due(self, log: &Log, offset: u64) -> bool {
        log.is_older(offset, 0)
    }
}

/// Uses of old entries move them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ApproximateLru {
    old: u64,
}

impl Policy for ApproximateLru {
    #[inline(always)]
    fn is_due(self, log: &Log, offset: u64) -> bool {
        log.is_filled() && log.is_older(offset, self.old)
    }
}

/// The oldest that was not used since it was appended goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SecondChance {
    old: u64,
}

impl Policy for SecondChance {
    const USES_MAX: u64 = 1;

    #[inline(always)]
    fn is_due(self, log: &Log, offset: u64) -> bool {
        log.is_filled() && log.is_older(offset, self.old) && log.uses(offset) < Self::USES_MAX
    }

    #[inline(always)]
    fn keeps(self, _which: Which, uses: u64) -> Option<u64> {
        uses.checked_sub(1)
    }
}

/// S3-FIFO: once the main log is full, new entries go through a small one, from which only those
/// go on to the main one that were used more than once. What was evicted from the small log and
/// is put again goes to the main one at once. There an entry stays for as many rounds as it was
/// used.
#[derive(Debug, Clone, Copy)]
pub(crate) struct S3Fifo {
    old: u64,
}

impl S3Fifo {
    /// Parts in a hundred of all words that are the small log.
    const SMALL_PERCENT: usize = 10;
    /// Uses of an entry of the small log after which it stays.
    const USES_TO_STAY: u64 = 2;
    /// An entry of the small log takes at most this part of it.
    const SMALL_PER_ENTRY: u64 = 8;
}

impl Policy for S3Fifo {
    const USES_MAX: u64 = item::USES_MAX;
    const HAS_SMALL: bool = true;

    #[inline(always)]
    fn is_due(self, log: &Log, offset: u64) -> bool {
        log.is_filled()
            && (log.which(offset) == Which::Small || log.is_older(offset, self.old))
            && log.uses(offset) < Self::USES_MAX
    }

    #[inline(always)]
    fn keeps(self, which: Which, uses: u64) -> Option<u64> {
        match which {
            Which::Small => (uses >= Self::USES_TO_STAY).then_some(0),
            Which::Main => uses.checked_sub(1),
        }
    }

    #[inline]
    fn log_for(self, log: &Log, words: usize, is_ghost: impl FnOnce() -> bool) -> Which {
        let fits_small = words as u64 * Self::SMALL_PER_ENTRY <= log.len(Which::Small);
        if fits_small && log.is_full(words) && !is_ghost() { Which::Small } else { Which::Main }
    }
}

/// The policy that the options name.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AnyPolicy {
    Fifo(Fifo),
    Lru(Lru),
    ApproximateLru(ApproximateLru),
    SecondChance(SecondChance),
    S3Fifo(S3Fifo),
}

/// Runs `$body` with the policy itself: once for a burst, so that no key asks which it is.
macro_rules! with_policy {
    ($any:expr, $policy:ident => $body:expr) => {
        match $any {
            $crate::policy::AnyPolicy::Fifo($policy) => $body,
            $crate::policy::AnyPolicy::Lru($policy) => $body,
            $crate::policy::AnyPolicy::ApproximateLru($policy) => $body,
            $crate::policy::AnyPolicy::SecondChance($policy) => $body,
            $crate::policy::AnyPolicy::S3Fifo($policy) => $body,
        }
    };
}
pub(crate) use with_policy;

impl AnyPolicy {
    /// The policy for logs of `words` words in all.
    pub(crate) fn new(eviction: Eviction, words: usize) -> Self {
        let main = (words - Self::small_words(eviction, words)) as u64;
        match eviction {
            Eviction::Fifo | Eviction::None => AnyPolicy::Fifo(Fifo),
            Eviction::Lru => AnyPolicy::Lru(Lru),
            Eviction::ApproximateLru => AnyPolicy::ApproximateLru(ApproximateLru { old: main / 2 }),
            // The youngest are at the tail anyway; their uses need not be noted.
            Eviction::SecondChance => AnyPolicy::SecondChance(SecondChance { old: main / 8 }),
            Eviction::S3Fifo => AnyPolicy::S3Fifo(S3Fifo { old: main / 8 }),
        }
    }

    /// Words of the small log, of `words` in all.
    pub(crate) fn small_words(eviction: Eviction, words: usize) -> usize {
        if eviction == Eviction::S3Fifo { words * S3Fifo::SMALL_PERCENT / 100 } else { 0 }
    }
}
