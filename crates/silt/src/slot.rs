//! The slot of a job that one thread at a time has in hand.

use std::sync::{Mutex, MutexGuard, TryLockError};

/// Locks a job's slot; `None` where another thread has it and `wait` is not asked for.
pub(crate) fn lock_job<T>(slot: &Mutex<T>, wait: bool) -> Option<MutexGuard<'_, T>> {
    if wait {
        return Some(slot.lock().expect("no panic while held"));
    }
    match slot.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Poisoned(_)) => panic!("no panic while held"),
    }
}
