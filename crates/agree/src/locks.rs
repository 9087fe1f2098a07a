//! Locks of keys: who changes a key holds its lock from the read of the old value to the moment
//! at which the new one is applied.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

const STRIPES: usize = 1024;

/// A lock for each of many classes of keys.
pub(crate) struct Locks(Vec<Mutex<()>>);

/// Held locks.
pub(crate) type Held<'l> = Vec<MutexGuard<'l, ()>>;

impl Default for Locks {
    fn default() -> Self {
        Locks((0..STRIPES).map(|_| Mutex::default()).collect())
    }
}

impl Locks {
    /// Takes the locks of `keys`, in one order for all callers, so that none waits for another in
    /// a ring.
    pub(crate) fn hold<'k>(&self, keys: impl IntoIterator<Item = &'k [u8]>) -> Held<'_> {
        let stripes: BTreeSet<usize> = keys.into_iter().map(stripe).collect();
        stripes.into_iter().map(|at| lock(&self.0[at])).collect()
    }

    /// Takes all locks.
    pub(crate) fn hold_all(&self) -> Held<'_> {
        self.0.iter().map(lock).collect()
    }
}

fn lock(mutex: &Mutex<()>) -> MutexGuard<'_, ()> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// FNV-1a: an attacker gains nothing but that two keys wait for each other.
fn stripe(key: &[u8]) -> usize {
    let hash = key.iter().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    (hash >> 32) as usize % STRIPES
}
