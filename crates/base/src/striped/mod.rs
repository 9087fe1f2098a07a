//! Counters that many threads add to, each on lines of its own.
//!
//! A counter that all threads add to costs each of them a cache miss: the line goes from core to
//! core. Here each thread has a stripe of every [`Striped`], and a sum is asked for rarely.
//!
//! * A thread that lives has a number (`numbers.rs`) and writes the stripe of that number alone, so
//!   it adds by a load and a store (relaxed). A thread that ends gives its number back.
//! * Threads without a number (more than 63 live, or it is ending) share the last stripe and add by
//!   read-modify-write (relaxed).
//! * [`Striped::sum`] loads relaxed. It has what was added before in the order of happens-before,
//!   as one atomic counter would, and may miss what others are adding. Of two sums taken one after
//!   the other the second is never smaller.

mod numbers;

use crate::sync::AtomicU64;
use numbers::{Numbers, add_to};
use std::cell::Cell;

/// Stripes of each set of counters.
pub(crate) const STRIPES: usize = 64;
/// The stripe of threads that have none of their own.
const SHARED: u32 = STRIPES as u32 - 1;
/// This thread was not asked for its number yet.
const UNKNOWN: u32 = u32::MAX;

static NUMBERS: Numbers = Numbers::new(AtomicU64::new(0), SHARED);

thread_local! {
    static NUMBER: Cell<u32> = const { Cell::new(UNKNOWN) };
    /// Dropped when the thread ends. Not the number itself: a place that has to be dropped costs
    /// each access a branch more.
    static HELD: Held = const { Held };
}

struct Held;

impl Drop for Held {
    fn drop(&mut self) {
        // What is counted from here on is counted beside others.
        let number = NUMBER.replace(SHARED);
        if number < SHARED {
            NUMBERS.give_back(number);
        }
    }
}

/// A small number that this thread has to itself while it lives, unless there are very many: those
/// share the number 63. For places that threads are not to share.
#[inline]
pub fn thread_number() -> usize {
    number() as usize
}

/// The stripe of this thread.
#[inline]
fn number() -> u32 {
    match NUMBER.get() {
        UNKNOWN => take_number(),
        number => number,
    }
}

/// The stripe of this thread, and whether other threads write it, too. The answer holds until the
/// thread ends.
#[inline(always)]
pub(crate) fn here() -> (usize, bool) {
    let number = number();
    // The mask spares the check of a bound.
    (number as usize & (STRIPES - 1), number == SHARED)
}

#[cold]
fn take_number() -> u32 {
    // It fails while the thread ends: then nobody would give the number back.
    let number = HELD.try_with(|_| NUMBERS.take()).ok().flatten().unwrap_or(SHARED);
    NUMBER.set(number);
    number
}

/// On lines of its own: processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe<T>(T);

/// A set of counters, `T`, that threads add to without writing a line of another thread.
///
/// `T` has fields of [`std::sync::atomic::AtomicU64`], which nothing else writes. It takes 64 times
/// the bytes of `T`, rounded up to 128.
///
/// ```
/// # use silica_base::Striped;
/// # use std::sync::atomic::AtomicU64;
/// #[derive(Default)]
/// struct Counts {
///     gets: AtomicU64,
///     hits: AtomicU64,
/// }
///
/// let counts = Striped::<Counts>::default();
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| {
///             let mine = counts.mine();
///             mine.add(|counts| &counts.gets, 3);
///             mine.add(|counts| &counts.hits, 2);
///         });
///     }
/// });
/// assert_eq!((counts.sum(|c| &c.gets), counts.sum(|c| &c.hits)), (12, 8));
/// ```
#[derive(Debug)]
pub struct Striped<T>(Box<[Stripe<T>; STRIPES]>);

impl<T: Default> Default for Striped<T> {
    fn default() -> Self {
        let stripes: Vec<Stripe<T>> = (0..STRIPES).map(|_| Stripe(T::default())).collect();
        Striped(stripes.try_into().unwrap_or_else(|_| unreachable!("as many as stripes")))
    }
}

impl<T> Striped<T> {
    /// The counters of this thread, to add to some of them.
    #[inline]
    pub fn mine(&self) -> Mine<'_, T> {
        let (number, is_shared) = here();
        Mine { stripe: &self.0[number].0, is_shared, here: std::marker::PhantomData }
    }

    /// Adds `n` to the counter that `of` picks.
    #[inline]
    pub fn add(&self, of: impl Fn(&T) -> &AtomicU64, n: u64) {
        self.mine().add(of, n);
    }

    /// What all threads have added to the counter that `of` picks.
    pub fn sum(&self, of: impl Fn(&T) -> &AtomicU64) -> u64 {
        let each = self.0.iter().map(|stripe| of(&stripe.0));
        each.fold(0, |sum, counter| sum.wrapping_add(counter.load(crate::sync::Ordering::Relaxed)))
    }
}

/// The counters of this thread.
#[derive(Debug)]
pub struct Mine<'s, T> {
    stripe: &'s T,
    is_shared: bool,
    /// Another thread would write this one's stripe.
    here: std::marker::PhantomData<*const ()>,
}

impl<T> Mine<'_, T> {
    /// Adds `n` to the counter that `of` picks.
    #[inline(always)]
    pub fn add(&self, of: impl Fn(&T) -> &AtomicU64, n: u64) {
        add_to(of(self.stripe), n, self.is_shared);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Barrier, Mutex, PoisonError};

    /// Of the tests that count on numbers being left, or use them up.
    static NUMBERS: Mutex<()> = Mutex::new(());

    #[derive(Default)]
    struct Counts {
        one: AtomicU64,
        other: AtomicU64,
    }

    #[test]
    fn nothing_is_lost_with_more_threads_than_numbers() {
        let _alone = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = Striped::<Counts>::default();
        for _ in 0..3 {
            let (threads, at_once) = (STRIPES + 9, Barrier::new(STRIPES + 9));
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| {
                        counts.add(|c| &c.one, 1);
                        // All have their numbers, or none.
                        at_once.wait();
                        (0..1000).for_each(|_| counts.mine().add(|c| &c.other, 2));
                    });
                }
            });
        }
        let threads = 3 * (STRIPES as u64 + 9);
        assert_eq!(counts.sum(|c| &c.one), threads);
        assert_eq!(counts.sum(|c| &c.other), 2000 * threads);
    }

    #[test]
    fn threads_that_live_at_once_write_lines_of_their_own() {
        let _alone = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
        let (counts, at_once) = (Striped::<Counts>::default(), Barrier::new(4));
        let place = || std::ptr::from_ref(counts.mine().stripe) as usize / 128;
        let mut places: Vec<usize> = std::thread::scope(|scope| {
            let ask = || {
                let place = place();
                at_once.wait();
                place
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
            threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
        });
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 4, "two threads share lines");
    }
}
