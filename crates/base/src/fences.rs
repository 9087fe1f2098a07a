//! A pair of fences of which the light one costs nothing.
//!
//! Two threads that each store, then fence, then load what the other one stores cannot both miss
//! the other's store. If one of them does so a million times more often, its fence can be light: it
//! keeps the compiler from changing the order, and the heavy fence of the rare one asks the system
//! to let every running thread of the process pass a fence of the processor (Linux: `membarrier`,
//! private and expedited; a few microseconds). A thread that is between its store and its load has
//! its store seen then; one that is before its store will see what was stored before the heavy
//! fence.
//!
//! Where the system has no such call, both are fences of the processor.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

static IS_LIGHT: AtomicBool = AtomicBool::new(false);

/// To be called before the fences are used for something: when that is made.
pub(crate) fn prepare_fences() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| IS_LIGHT.store(register(), Ordering::Relaxed));
}

/// The fence of those who pass it often.
#[inline(always)]
pub(crate) fn light_fence() {
    // Relaxed: it changed before the thing was made that the fence is for.
    if IS_LIGHT.load(Ordering::Relaxed) {
        compiler_fence(Ordering::SeqCst);
    } else {
        fence(Ordering::SeqCst);
    }
}

/// The fence of those who pass it seldom.
pub(crate) fn heavy_fence() {
    fence(Ordering::SeqCst);
    if IS_LIGHT.load(Ordering::Relaxed) {
        system_fence();
        fence(Ordering::SeqCst);
    }
}

#[cfg(target_os = "linux")]
fn register() -> bool {
    use rustix::thread::{MembarrierCommand, membarrier};
    // Asked for at once, too: a system that knows the one call might refuse the other.
    membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
        && membarrier(MembarrierCommand::PrivateExpedited).is_ok()
}

#[cfg(target_os = "linux")]
fn system_fence() {
    use rustix::thread::{MembarrierCommand, membarrier};
    membarrier(MembarrierCommand::PrivateExpedited).expect("it was allowed when it was registered");
}

#[cfg(not(target_os = "linux"))]
fn register() -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
fn system_fence() {}
