//! When what hashes to a place was written last: numbers of commits.
//!
//! One thread at a time stamps, before the commit of that number can be seen. A stamp is stored
//! with `Release`, and the number of commits behind it, by whoever commits; a reader loads the
//! number of commits first and stamps behind it with `Acquire`. So at moment `m` it sees all stamps
//! up to `m`, and perhaps later ones.

use super::sync::{AtomicU64, Ordering};

/// See the module's documentation.
pub(crate) struct Stamps(Box<[AtomicU64]>);

impl Stamps {
    /// So many places, none of which was ever written.
    pub(crate) fn new(count: usize) -> Self {
        Stamps((0..count).map(|_| AtomicU64::new(0)).collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// What is at `place` is about to be written by commit `number`.
    pub(crate) fn set(&self, place: usize, number: u64) {
        self.0[place].store(number, Ordering::Release);
    }

    /// True if what was read of `place` at one moment is what is read at the other, so far as is
    /// known: `bound` is the lesser of the two.
    pub(crate) fn holds(&self, place: usize, bound: u64) -> bool {
        self.0.get(place).is_some_and(|stamp| stamp.load(Ordering::Acquire) <= bound)
    }
}
