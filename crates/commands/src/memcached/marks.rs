//! What the meta commands note about entries: that they are stale, and that a client was told to
//! make them anew.
//!
//! Entries have no room for it, so it is kept beside them, in memory and bounded. A mark is bound
//! to the value it was set on: whoever writes another value, over whatever protocol, has
//! removed the mark. Where there is no room for a stale mark the entry is removed instead.

use super::unique::UNIQUE_MAX;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Marks at the same time.
const MARKS_MAX: usize = 100_000;
/// Memory of one, its key included.
const MARK_BYTES: usize = 400;

/// What is noted about an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    /// The unique that value and flags alone make.
    base: u64,
    /// Changes the unique; 0 changes nothing.
    generation: u64,
    stale: bool,
    /// A client was told to make the entry anew.
    told: bool,
}

/// What a client is told about an entry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) won: bool,
    pub(super) stale: bool,
    /// Another client was told before.
    pub(super) told: bool,
}

#[derive(Debug, Default)]
struct Inner {
    marks: BTreeMap<Vec<u8>, Mark>,
    generations: u64,
}

/// The marks of all entries.
#[derive(Debug)]
pub(crate) struct Marks {
    /// Marks at most.
    max: usize,
    inner: Mutex<Inner>,
    /// So that where there are none, as mostly, nobody takes the lock.
    count: AtomicUsize,
}

impl Default for Marks {
    fn default() -> Self {
        Marks { max: MARKS_MAX, inner: Mutex::default(), count: AtomicUsize::new(0) }
    }
}

impl Marks {
    /// As many as a sixteenth of `bytes` bytes holds.
    pub(crate) fn within(bytes: usize) -> Self {
        Marks { max: (bytes / 16 / MARK_BYTES).min(MARKS_MAX), ..Marks::default() }
    }

    /// Runs `change` on the marks and counts them.
    fn with<T>(&self, change: impl FnOnce(&mut Inner) -> T) -> T {
        let mut inner: MutexGuard<'_, Inner> =
            self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut inner);
        self.count.store(inner.marks.len(), Ordering::Release);
        result
    }

    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// True where one more can be noted.
    pub(super) fn has_room(&self) -> bool {
        self.count.load(Ordering::Acquire) < self.max
    }

    /// The unique of the entry of `key`, of which value and flags make `base`.
    pub(super) fn unique(&self, key: &[u8], base: u64) -> u64 {
        if self.is_empty() {
            return base;
        }
        let mark = self.with(|inner| inner.marks.get(key).copied());
        mark.filter(|mark| mark.base == base).map_or(base, |mark| {
            // Multiplying by an odd number keeps different generations different.
            let mixed = base ^ mark.generation.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            (mixed & UNIQUE_MAX).max(1)
        })
    }

    /// Forgets what was noted about `key`, which is written or gone.
    pub(super) fn clear(&self, key: &[u8]) {
        if !self.is_empty() {
            self.with(|inner| inner.marks.remove(key));
        }
    }

    /// Notes that the entry is stale; it gets a unique of its own.
    pub(super) fn invalidate(&self, key: &[u8], base: u64) {
        self.with(|inner| {
            inner.generations += 1;
            let generation = inner.generations;
            let mark = Mark { base, generation, stale: true, told: false };
            inner.marks.insert(key.to_vec(), mark);
        });
    }

    /// Notes that a client makes the entry that was just created.
    pub(super) fn create(&self, key: &[u8], base: u64) {
        self.with(|inner| {
            if inner.marks.len() < self.max || inner.marks.contains_key(key) {
                let mark = Mark { base, generation: 0, stale: false, told: true };
                inner.marks.insert(key.to_vec(), mark);
            }
        });
    }

    /// What a client is told that sees the entry; it wins where it is the first to see it stale, or
    /// the first with `wants` set.
    pub(super) fn visit(&self, key: &[u8], base: u64, wants: bool) -> Seen {
        if self.is_empty() && !wants {
            return Seen::default();
        }
        self.with(|inner| {
            let Inner { marks, generations: _ } = inner;
            let known = marks.get(key).copied().filter(|mark| mark.base == base);
            let fresh = Mark { base, generation: 0, stale: false, told: false };
            let mark = known.unwrap_or(fresh);
            let won = !mark.told && (mark.stale || wants);
            if won && (marks.len() < self.max || marks.contains_key(key)) {
                marks.insert(key.to_vec(), Mark { told: true, ..mark });
            } else if known.is_none() {
                marks.remove(key);
            }
            Seen { won, stale: mark.stale, told: mark.told }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_wins_until_the_value_changes() {
        let marks = Marks::default();
        let seen = |won, stale, told| Seen { won, stale, told };
        assert_eq!(marks.visit(b"k", 1, false), seen(false, false, false));
        assert_eq!(marks.visit(b"k", 1, true), seen(true, false, false));
        assert_eq!(marks.visit(b"k", 1, true), seen(false, false, true));
        assert_eq!(marks.unique(b"k", 1), 1);
        marks.invalidate(b"k", 1);
        let stale_unique = marks.unique(b"k", 1);
        assert_ne!(stale_unique, 1);
        assert_eq!(marks.visit(b"k", 1, false), seen(true, true, false));
        assert_eq!(marks.visit(b"k", 1, false), seen(false, true, true));
        marks.invalidate(b"k", 1);
        assert_ne!(marks.unique(b"k", 1), stale_unique);
        // Another value, whoever wrote it.
        assert_eq!(marks.unique(b"k", 2), 2);
        assert_eq!(marks.visit(b"k", 2, false), seen(false, false, false));
        assert!(marks.is_empty());
    }

    #[test]
    fn marks_are_bounded() {
        let marks = Marks::default();
        for n in 0..MARKS_MAX as u32 {
            assert!(marks.has_room());
            marks.invalidate(&n.to_le_bytes(), 1);
        }
        assert!(!marks.has_room());
        marks.create(b"another", 1);
        assert!(marks.visit(b"another", 1, true).won, "a win that cannot be noted is one");
        assert!(marks.visit(b"another", 1, true).won);
        marks.clear(&7u32.to_le_bytes());
        assert!(marks.has_room());
    }
}
