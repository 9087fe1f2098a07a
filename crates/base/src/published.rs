//! A value that all threads read and that is seldom replaced.
//!
//! A reader writes only a line of its own thread, by plain stores, and whoever replaces the value
//! waits until no reader is left that saw the old one. An `Arc` under a lock, or counted in an
//! atomic place, costs each reader two lines that all readers write; and a read-modify-write, even
//! of a line of the thread's own, keeps a processor from beginning the next call's loads.
//!
//! There are two slots; `now` says which one has the value. Each thread counts, for each slot, the
//! reads that it has begun and not ended, on a line of its own (`striped`).
//!
//! * A reader loads `now`, counts itself at that slot, and loads `now` once more (acquire) behind a
//!   light fence (`fences.rs`). If it is the same, the slot is the reader's until it has counted
//!   itself out (release); else it counts itself out and tries again.
//! * A writer, one at a time, fills the other slot, stores `now` (release), and behind a heavy
//!   fence waits until each count of the old slot was 0 (acquire). Then the old value is its own.
//!
//! Both write, then fence, then load what the other wrote, so one of the two sees the other: a
//! reader that the writer did not see finds that `now` has changed. A reader that finds `now` as it
//! was, although it changed twice, has loaded it from the store that came after the slot was filled
//! (acquire). Readers of the new value count at the new slot, so they keep no writer waiting.

use crate::striped::{STRIPES, here};
use crate::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, Place};
use crate::sync::{heavy_fence, light_fence, prepare_fences};

/// Reads under way in each slot, of one thread or of all that have no stripe of their own.
#[derive(Debug)]
#[repr(align(128))]
struct Counts([AtomicU64; 2]);

/// A value that readers share and that is replaced as a whole.
///
/// ```
/// # use silica_base::Published;
/// let names = Published::new(vec!["one"]);
/// assert_eq!(names.read(|names| names.len()), 1);
/// let old = names.replace(vec!["one", "two"], std::thread::yield_now);
/// assert_eq!((old.len(), names.read(Vec::len)), (1, 2));
/// ```
#[derive(Debug)]
pub struct Published<T> {
    slots: [Place<Option<T>>; 2],
    now: AtomicUsize,
    counts: Box<[Counts; STRIPES]>,
    /// Held by the one writer.
    turn: Mutex<()>,
}

// SAFETY: many threads read a slot at a time (so `T` is `Sync`), and a writer takes the value out
// of it in its own thread (so `T` is `Send`) when no reader is left.
unsafe impl<T: Send + Sync> Sync for Published<T> {}

/// A read under way; dropped also if it panics.
struct Reading<'p> {
    count: &'p AtomicU64,
    is_shared: bool,
}

impl<'p> Reading<'p> {
    #[inline(always)]
    fn begin(count: &'p AtomicU64, is_shared: bool) -> Self {
        if is_shared {
            count.fetch_add(1, Ordering::Relaxed);
        } else {
            // Reads may be nested, so it is a number.
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        light_fence();
        Reading { count, is_shared }
    }
}

impl Drop for Reading<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.is_shared {
            self.count.fetch_sub(1, Ordering::Release);
        } else {
            self.count.store(self.count.load(Ordering::Relaxed) - 1, Ordering::Release);
        }
    }
}

impl<T> Published<T> {
    /// Publishes `value`.
    pub fn new(value: T) -> Self {
        let count = || AtomicU64::new(0);
        prepare_fences();
        Published {
            slots: [Place::new(Some(value)), Place::new(None)],
            now: AtomicUsize::new(0),
            counts: Box::new(std::array::from_fn(|_| Counts([count(), count()]))),
            turn: Mutex::new(()),
        }
    }

    /// Calls `read` with the value of now, which stays until it returns. It may read again, and
    /// must not replace the value: it would wait for itself.
    #[inline]
    pub fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        let (number, is_shared) = here();
        let counts = &self.counts[number].0;
        loop {
            let slot = self.now.load(Ordering::Relaxed) & 1;
            let _reading = Reading::begin(&counts[slot], is_shared);
            if self.now.load(Ordering::Acquire) == slot {
                // SAFETY: the slot has a value, written before `now` named it, and no writer takes
                // it while this read is counted.
                return self.slots[slot].with(|value| unsafe {
                    read((*value).as_ref().expect("the slot that is named has a value"))
                });
            }
        }
    }

    /// Publishes `value` and returns the one before, which no reader sees any more. While some
    /// still do, `pause` is called again and again.
    pub fn replace(&self, value: T, mut pause: impl FnMut()) -> T {
        let _turn = self.turn.lock().expect("no writer panics but in its pause");
        let old = self.now.load(Ordering::Relaxed) & 1;
        let new = 1 - old;
        // SAFETY: the last writer has waited until no reader of the slot was left, and those that
        // count themselves there since do not look at it, as `now` names the other one.
        self.slots[new].with_mut(|slot| unsafe { *slot = Some(value) });
        self.now.store(new, Ordering::Release);
        heavy_fence();
        for counts in self.counts.iter() {
            while counts.0[old].load(Ordering::Acquire) != 0 {
                pause();
            }
        }
        // SAFETY: as above, for the slot that has the old value.
        let taken = self.slots[old].with_mut(|slot| unsafe { (*slot).take() });
        taken.expect("the slot that was named has a value")
    }
}
