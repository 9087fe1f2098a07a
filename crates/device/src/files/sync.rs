//! Atomics that the publish protocol is built on, and how it waits.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Turns that are waited for at once: what is waited for is a copy of some hundred bytes.
const TURNS_AT_ONCE: u32 = 64;

/// Waits a moment; for longer ones lets others run, who may be the one that is waited for.
#[inline]
pub(crate) fn pause(turns: &mut u32) {
    *turns += 1;
    if *turns < TURNS_AT_ONCE {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}
