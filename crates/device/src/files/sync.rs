//! Atomics that the publish protocol is built on, and how it waits.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Moments that are waited for at once: what is waited for are copies of some hundred bytes.
const AT_ONCE: u64 = 256;

/// Waits as many moments as appends come `before`; in the long run lets others run, who may be the
/// one that is waited for.
#[inline]
pub(crate) fn pause(waited: &mut u64, before: u64) {
    *waited += before;
    if *waited < AT_ONCE {
        (0..before).for_each(|_| std::hint::spin_loop());
    } else {
        std::thread::yield_now();
    }
}
