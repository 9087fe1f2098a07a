//! A ring from one thread to another.
//!
//! The sender alone writes `put`, the receiver alone `taken`; each is on lines of its own. No call
//! waits, takes a lock or makes an atomic read-modify-write.
//!
//! * The sender stores `put` with release after it has filled a place, and the receiver loads it
//!   with acquire: what is counted is there to be taken.
//! * The receiver stores `taken` with release after it has emptied a place, and the sender loads it
//!   with acquire: what is counted is free to be filled again.
//! * Each keeps its own count at hand, and never loads it.
//!
//! Counts only grow; a place is a count modulo the number of places, a power of two, so that this
//! holds when counts begin anew.

use crate::sync::{Arc, AtomicUsize, Ordering, Place};

/// On lines of its own: processors fetch lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Count(AtomicUsize);

impl Count {
    fn new() -> Self {
        Count(AtomicUsize::new(0))
    }
}

#[derive(Debug)]
struct Shared<T> {
    places: Box<[Place<Option<T>>]>,
    put: Count,
    taken: Count,
}

// SAFETY: a place is used by one thread at a time, as the counts say: by the sender while it is
// free, by the receiver while it is filled. So values only move from thread to thread.
unsafe impl<T: Send> Sync for Shared<T> {}

/// The end of a ring that fills it.
#[derive(Debug)]
pub struct RingSender<T> {
    shared: Arc<Shared<T>>,
    put: usize,
}

/// The end of a ring that empties it.
#[derive(Debug)]
pub struct RingReceiver<T> {
    shared: Arc<Shared<T>>,
    taken: usize,
}

/// Both ends of a ring with `places` places, rounded up to a power of two.
pub fn ring<T: Send>(places: usize) -> (RingSender<T>, RingReceiver<T>) {
    let places = (0..places.next_power_of_two()).map(|_| Place::new(None)).collect();
    let shared = Arc::new(Shared { places, put: Count::new(), taken: Count::new() });
    (RingSender { shared: Arc::clone(&shared), put: 0 }, RingReceiver { shared, taken: 0 })
}

impl<T: Send> RingSender<T> {
    /// Puts `value` in; gives it back where all places are filled.
    #[inline]
    pub fn push(&mut self, value: T) -> Option<T> {
        let shared = &*self.shared;
        let taken = shared.taken.0.load(Ordering::Acquire);
        if self.put.wrapping_sub(taken) == shared.places.len() {
            return Some(value);
        }
        shared.places[self.put % shared.places.len()].with_mut(|place| {
            // SAFETY: the place is free (see the top): the receiver looks at it only after `put`
            // has counted it, and the sender is unique and borrowed.
            unsafe { *place = Some(value) }
        });
        self.put = self.put.wrapping_add(1);
        shared.put.0.store(self.put, Ordering::Release);
        None
    }
}

impl<T: Send> RingReceiver<T> {
    /// True where nothing is to be taken just now.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.shared.put.0.load(Ordering::Acquire) == self.taken
    }

    /// Takes the oldest value out.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let shared = &*self.shared;
        let value = shared.places[self.taken % shared.places.len()].with_mut(|place| {
            // SAFETY: the place is filled (see the top): the sender looks at it again only after
            // `taken` has counted it, and the receiver is unique and borrowed.
            unsafe { (*place).take() }
        });
        self.taken = self.taken.wrapping_add(1);
        shared.taken.0.store(self.taken, Ordering::Release);
        value
    }
}
