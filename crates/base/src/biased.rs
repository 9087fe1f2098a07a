//! A lock for what is read all the time and written now and then.
//!
//! A reader of [`std::sync::RwLock`] writes the lock's line twice, so readers on many cores wait
//! for each other. Here, while the lock is *biased*, a reader writes only a line of its own thread,
//! by plain stores. This is BRAVO (Dice and Kogan, "BRAVO – Biased Locking for Reader-Writer
//! Locks", 2019) with a row of visible readers for each thread instead of a hashed table.
//!
//! * A reader that finds the lock biased puts the lock's name (an address) into a free slot of
//!   its thread's row, and behind a light fence (`fences.rs`) finds out whether the lock is still
//!   biased (acquire). Then the value is the reader's until it empties the slot (release). Else,
//!   and if the thread has no row or no free slot, it takes the lock within.
//! * A writer takes the lock within. If it is biased, the writer ends that, and behind a heavy
//!   fence waits until no slot has the lock's name (acquire). It costs some microseconds, so a lock
//!   is biased again only after `BIASED_AFTER` reads through the lock within, by one of these
//!   readers: no writer is in then, and what the last one wrote comes before (release).
//!
//! A thread may read several such locks at a time, but not one that it reads already: as with every
//! lock that lets waiting writers go first, it might wait for itself.

use crate::rows::{BIASED_AFTER, SLOTS, rows};
use crate::striped::here;
use crate::sync::{AtomicBool, AtomicUsize, Ordering, Place, RwLock, yield_now};
use crate::sync::{ReadGuard, WriteGuard, heavy_fence, light_fence, prepare_fences};
use std::ops::{Deref, DerefMut};

/// Slots of a row that a reader looks at.
const TRIES: usize = 4;

/// A lock whose readers write no line that others write, unless somebody writes the value.
///
/// ```
/// # use silica_base::Biased;
/// let names = Biased::new(vec!["one"]);
/// assert_eq!(names.read().len(), 1);
/// names.write().push("two");
/// assert_eq!(names.read().len(), 2);
/// ```
pub struct Biased<T> {
    is_biased: AtomicBool,
    /// Reads through the lock within since the last write, roughly.
    slow_reads: AtomicUsize,
    within: RwLock<()>,
    value: Place<T>,
}

// SAFETY: readers share the value (so `T` is `Sync`), and a writer, alone, may replace it in
// another thread than the one that made it (so `T` is `Send`).
unsafe impl<T: Send + Sync> Sync for Biased<T> {}

/// The value of a [`Biased`] lock, to read.
pub struct BiasedRead<'l, T> {
    lock: &'l Biased<T>,
    held: Held<'l>,
    /// The slot is of this thread.
    here: std::marker::PhantomData<*const ()>,
}

enum Held<'l> {
    Slot(&'static AtomicUsize),
    Within { _guard: ReadGuard<'l, ()> },
}

/// The value of a [`Biased`] lock, to change.
pub struct BiasedWrite<'l, T> {
    lock: &'l Biased<T>,
    _guard: WriteGuard<'l, ()>,
}

impl<T> Biased<T> {
    /// A lock around `value`.
    pub fn new(value: T) -> Self {
        prepare_fences();
        Biased {
            is_biased: AtomicBool::new(true),
            slow_reads: AtomicUsize::new(0),
            within: RwLock::new(()),
            value: Place::new(value),
        }
    }

    /// Waits until nobody writes.
    ///
    /// # Panics
    /// If a writer has panicked.
    #[inline]
    pub fn read(&self) -> BiasedRead<'_, T> {
        let held = match self.announce() {
            Some(slot) => Held::Slot(slot),
            None => self.read_slowly(),
        };
        BiasedRead { lock: self, held, here: std::marker::PhantomData }
    }

    /// What stands in a slot for a reader of this lock; never 0. Not the address of the whole: a
    /// lock within the value could begin there, too.
    #[inline(always)]
    fn name(&self) -> usize {
        std::ptr::from_ref(&self.is_biased).addr()
    }

    #[inline(always)]
    fn announce(&self) -> Option<&'static AtomicUsize> {
        if !self.is_biased.load(Ordering::Relaxed) {
            return None;
        }
        let (number, is_shared) = here();
        if is_shared {
            return None;
        }
        let (row, name) = (&rows()[number].0, self.name());
        // Locks lie side by side: bits above those of a line tell them apart.
        let first = name >> 6 ^ name >> 10;
        let slots = (first..first + TRIES).map(|at| &row[at % SLOTS]);
        let slot = slots.into_iter().find(|slot| slot.load(Ordering::Relaxed) == 0)?;
        slot.store(name, Ordering::Relaxed);
        light_fence();
        if self.is_biased.load(Ordering::Acquire) {
            return Some(slot);
        }
        slot.store(0, Ordering::Release);
        None
    }

    #[cold]
    fn read_slowly(&self) -> Held<'_> {
        let guard = self.within.read().expect("no writer panics");
        if !self.is_biased.load(Ordering::Relaxed) {
            // Some may get lost.
            let reads = self.slow_reads.load(Ordering::Relaxed) + 1;
            self.slow_reads.store(reads, Ordering::Relaxed);
            if reads >= BIASED_AFTER {
                self.is_biased.store(true, Ordering::Release);
            }
        }
        Held::Within { _guard: guard }
    }

    /// Waits until nobody else reads or writes.
    ///
    /// # Panics
    /// If a writer has panicked.
    #[inline]
    pub fn write(&self) -> BiasedWrite<'_, T> {
        let guard = self.within.write().expect("no writer panics");
        if self.is_biased.load(Ordering::Relaxed) {
            self.end_bias();
        }
        BiasedWrite { lock: self, _guard: guard }
    }

    /// Waits for readers that went past the lock within; only for its writer.
    #[cold]
    fn end_bias(&self) {
        self.slow_reads.store(0, Ordering::Relaxed);
        self.is_biased.store(false, Ordering::Relaxed);
        heavy_fence();
        for slot in rows().iter().flat_map(|row| &row.0) {
            while slot.load(Ordering::Acquire) == self.name() {
                yield_now();
            }
        }
    }

    /// True while readers go past the lock within, and so write no line of another thread.
    pub fn is_biased(&self) -> bool {
        self.is_biased.load(Ordering::Relaxed)
    }
}

impl<T> Deref for BiasedRead<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: no writer is in while this guard lives.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T> Drop for BiasedRead<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Held::Slot(slot) = &self.held {
            slot.store(0, Ordering::Release);
        }
    }
}

impl<T> Deref for BiasedWrite<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the guard is the only one while it lives.
        self.lock.value.with(|value| unsafe { &*value })
    }
}

impl<T> DerefMut for BiasedWrite<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard is the only one while it lives, and it is borrowed mutably.
        self.lock.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> std::fmt::Debug for Biased<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Biased").field("is_biased", &self.is_biased()).finish_non_exhaustive()
    }
}
