//! Whether a thread that gets messages has to be woken.
//!
//! * A sender puts the message in, executes a fence, and looks whether the owner sleeps
//!   ([`WakeFlag::notify`]).
//! * The owner says that it sleeps, executes a fence ([`WakeFlag::announce_sleep`]), and looks for
//!   messages. If there are none it sleeps; then it says that it is awake
//!   ([`WakeFlag::announce_awake`]).
//!
//! Both fences are sequentially consistent, so one of them comes first: either the owner sees the
//! message, or the sender sees that it sleeps. While nobody sleeps nothing but the fence is
//! executed: no atomic read-modify-write.

use super::sync::{AtomicU32, Ordering, fence};

/// The owner looks for messages by itself.
pub(crate) const AWAKE: u32 = 0;
/// The owner waits for its sockets and its waker.
pub(crate) const ASLEEP: u32 = 1;
/// The owner waits for messages alone.
pub(crate) const PARKED: u32 = 2;

/// How the owner waits.
#[derive(Debug)]
pub(crate) struct WakeFlag(AtomicU32);

impl WakeFlag {
    pub(crate) fn new() -> Self {
        WakeFlag(AtomicU32::new(AWAKE))
    }

    /// After a message was put in: how the owner is to be woken, or [`AWAKE`].
    pub(crate) fn notify(&self) -> u32 {
        fence(Ordering::SeqCst);
        match self.0.load(Ordering::Relaxed) {
            AWAKE => AWAKE,
            // Of several senders only one wakes it.
            _ => self.0.swap(AWAKE, Ordering::Relaxed),
        }
    }

    /// Says that the owner sleeps in this way unless it finds messages now.
    pub(crate) fn announce_sleep(&self, how: u32) {
        self.0.store(how, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Says that the owner looks for messages by itself.
    pub(crate) fn announce_awake(&self) {
        self.0.store(AWAKE, Ordering::Relaxed);
    }
}
