//! Whether a thread that gets letters has to be woken.
//!
//! * Who posts: puts the letter in, a fence, looks whether the owner sleeps ([`Bell::ring`]).
//! * Who owns: says that it sleeps, a fence ([`Bell::doze`]), looks for letters, sleeps where there
//!   are none, and says that it is awake ([`Bell::rise`]).
//!
//! Both fences are sequentially consistent, so one of them comes first: either the owner sees the
//! letter, or who posts sees that it sleeps. While nobody sleeps nothing but the fence is executed:
//! no atomic read-modify-write.

use super::sync::{AtomicU32, Ordering, fence};

/// It looks for letters by itself.
pub(crate) const AWAKE: u32 = 0;
/// It waits for its sockets and its waker.
pub(crate) const ASLEEP: u32 = 1;
/// It waits for letters alone.
pub(crate) const PARKED: u32 = 2;

#[derive(Debug)]
pub(crate) struct Bell(AtomicU32);

impl Bell {
    pub(crate) fn new() -> Self {
        Bell(AtomicU32::new(AWAKE))
    }

    /// After a letter was put in: how the owner is to be woken, or [`AWAKE`].
    pub(crate) fn ring(&self) -> u32 {
        fence(Ordering::SeqCst);
        match self.0.load(Ordering::Relaxed) {
            AWAKE => AWAKE,
            // Of several who post only one wakes it.
            _ => self.0.swap(AWAKE, Ordering::Relaxed),
        }
    }

    /// Says that the owner sleeps in this way unless it finds letters now.
    pub(crate) fn doze(&self, how: u32) {
        self.0.store(how, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Says that the owner looks for letters by itself.
    pub(crate) fn rise(&self) {
        self.0.store(AWAKE, Ordering::Relaxed);
    }
}
