//! The atomics of the protocol; a model checker's twins take their place in its tests.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Waits of so many turns stay on the processor.
const SPINS: u32 = 64;

/// Waiting for another thread, a turn at a time.
#[derive(Debug, Default)]
pub(crate) struct Backoff(u32);

impl Backoff {
    #[cold]
    pub(crate) fn pause(&mut self) {
        self.0 += 1;
        if self.0 < SPINS {
            std::hint::spin_loop();
        } else {
            std::thread::yield_now();
        }
    }
}
