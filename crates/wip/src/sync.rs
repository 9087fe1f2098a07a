//! What the gate of writers is built on; its model has its own in this place.

pub(crate) use silica_base::thread_number;
pub(crate) use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

/// Places where threads count themselves.
pub(crate) const PLACES: usize = 16;

/// Turns that are waited for at once: a write takes less than a microsecond.
const TURNS_AT_ONCE: u32 = 64;

/// Waits a moment; for longer ones lets others run, who may be the ones that are waited for.
#[inline]
pub(crate) fn pause(turns: &mut u32) {
    *turns += 1;
    if *turns < TURNS_AT_ONCE {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}
