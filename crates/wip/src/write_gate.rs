//! Who writes beside others, and who has the store's writes to itself.
//!
//! 1. Who is let in beside others ([`WriteGate::enter`]) has counted itself before it looks whether
//!    the gate is closed; who closes it ([`WriteGate::lock`]) has closed it before it looks at the
//!    counts. So one of the two sees the other, and whoever has the gate to itself finds nobody in.
//! 2. What those did who were in before, whoever closes the gate sees; what was done while it was
//!    closed, those see who are let in afterwards.
//! 3. A thread counts itself in a place that few others use, so nobody who enters waits for a line
//!    that all write.
//!
//! Orderings: for 1 each of the two stores and then loads the other's word, which only sequential
//! consistency keeps in order: all four accesses have it. For 2 leaving and opening are releases,
//! and the loads of 1 are acquires, too. `tests/write_gate_model.rs` tries every interleaving.

use super::sync::PLACES;
use super::sync::{
    AtomicU64, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, pause, thread_number,
};
use std::ops::{Deref, DerefMut};

/// Looks at a place for one at which nobody is in, before the gate is closed for it.
const LOOKS_MAX: u32 = 1_000;

/// On lines of its own: processors fetch lines in pairs.
#[repr(align(128))]
struct Place {
    /// Threads that are in.
    inside: AtomicUsize,
    /// What [`Entered::owe`] and [`Entered::keep`] count, by a load and a store: what is lost where
    /// two threads share the place is little, and decides about speed alone.
    owed: AtomicU64,
    kept: AtomicU64,
}

/// See the module's documentation. `T` belongs to who has the gate to itself.
pub(crate) struct WriteGate<T> {
    places: [Place; PLACES],
    /// Threads that want the gate for themselves, or have it.
    closing: AtomicUsize,
    own: Mutex<T>,
    /// Odd while who has the gate to itself makes a batch visible, one key after the other.
    publishing: AtomicU64,
    /// Somebody may wait for something else in it.
    changed: Condvar,
}

/// One who is in beside others.
pub(crate) struct Entered<'g> {
    place: &'g Place,
}

/// Who has the gate to itself makes a batch visible.
pub(crate) struct Publishing<'g>(&'g AtomicU64);

/// The gate is closed for all others.
pub(crate) struct Locked<'g, T> {
    gate: &'g WriteGate<T>,
    own: MutexGuard<'g, T>,
}

impl<T> WriteGate<T> {
    pub(crate) fn new(own: T) -> Self {
        let place = |_| Place {
            inside: AtomicUsize::new(0),
            owed: AtomicU64::new(0),
            kept: AtomicU64::new(0),
        };
        WriteGate {
            places: std::array::from_fn(place),
            closing: AtomicUsize::new(0),
            own: Mutex::new(own),
            publishing: AtomicU64::new(0),
            changed: Condvar::new(),
        }
    }

    /// Enters beside others; `None` where somebody has, or waits to have, the gate to itself.
    #[inline]
    pub(crate) fn enter(&self) -> Option<Entered<'_>> {
        let place = &self.places[thread_number() % PLACES];
        place.inside.fetch_add(1, Ordering::SeqCst);
        // From here on it is left when this goes.
        let entered = Entered { place };
        (self.closing.load(Ordering::SeqCst) == 0).then_some(entered)
    }

    /// Waits until nobody else is in, and keeps all others out.
    pub(crate) fn lock(&self) -> Locked<'_, T> {
        self.lock_when(|_| true)
    }

    /// Waits until `is_free` says so, which is asked again after each [`WriteGate::notify`], and
    /// nobody else is in, and keeps all others out.
    pub(crate) fn lock_when(&self, is_free: impl Fn(&T) -> bool) -> Locked<'_, T> {
        self.close();
        let mut own = self.own.lock().expect("no panic while held");
        while !is_free(&own) {
            own = self.changed.wait(own).expect("no panic while held");
        }
        let mut turns = 0;
        for place in &self.places {
            while place.inside.load(Ordering::SeqCst) > 0 {
                pause(&mut turns);
            }
        }
        Locked { gate: self, own }
    }

    /// Waits for those who have the gate to themselves now.
    pub(crate) fn wait(&self) {
        drop(self.own.lock().expect("no panic while held"));
    }

    /// Wakes those who wait for something in it.
    pub(crate) fn notify(&self) {
        self.changed.notify_all();
    }

    /// For who has the gate to itself: readers may see a part of a batch until what this returns
    /// is dropped.
    pub(crate) fn publish(&self) -> Publishing<'_> {
        self.publishing.fetch_add(1, Ordering::SeqCst);
        Publishing(&self.publishing)
    }

    /// Waits until all is visible of each batch of which a part may be: those who are in beside
    /// others have left, and who has the gate to itself is done with the batch. What was seen of
    /// a batch was written after its writer had counted itself, so this finds the count.
    pub(crate) fn settle(&self) {
        let (seen, mut turns) = (self.publishing.load(Ordering::SeqCst), 0);
        while seen % 2 == 1 && self.publishing.load(Ordering::SeqCst) == seen {
            pause(&mut turns);
        }
        for place in &self.places {
            let mut looks = 0;
            while place.inside.load(Ordering::SeqCst) > 0 {
                looks += 1;
                if looks > LOOKS_MAX {
                    // Others come and go, so that nobody may ever be seen to have left.
                    return drop(self.lock());
                }
                pause(&mut turns);
            }
        }
    }

    /// Lets nobody enter until [`WriteGate::open`].
    pub(crate) fn close(&self) {
        self.closing.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes a [`WriteGate::close`] back.
    pub(crate) fn open(&self) {
        self.closing.fetch_sub(1, Ordering::Release);
    }
}

impl Entered<'_> {
    /// Counts `bytes` that threads of this place owe maintenance; all of them, if that is as many
    /// as `due`, and then nothing is left.
    #[inline]
    pub(crate) fn owe(&self, bytes: u64, due: u64) -> u64 {
        count_up(&self.place.owed, bytes, due)
    }

    /// Counts `bytes` that threads of this place have written; all of them, if that is as many as
    /// `due`, and then nothing is left.
    #[inline]
    pub(crate) fn keep(&self, bytes: u64, due: u64) -> u64 {
        count_up(&self.place.kept, bytes, due)
    }
}

#[inline]
fn count_up(counter: &AtomicU64, bytes: u64, due: u64) -> u64 {
    let count = counter.load(Ordering::Relaxed) + bytes;
    let is_due = count >= due;
    counter.store(if is_due { 0 } else { count }, Ordering::Relaxed);
    if is_due { count } else { 0 }
}

impl Drop for Publishing<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

impl Drop for Entered<'_> {
    #[inline]
    fn drop(&mut self) {
        self.place.inside.fetch_sub(1, Ordering::Release);
    }
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.own
    }
}

impl<T> DerefMut for Locked<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.own
    }
}

impl<T> Drop for Locked<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.gate.open();
    }
}
