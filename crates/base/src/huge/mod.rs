//! Memory for tables, in the processor's 2 MiB pages where there is much of it.
//!
//! A random access to a large table misses not only the caches but also the translation of its
//! address: with 4 KiB pages a processor translates about 10 MiB without walking page tables, with
//! 2 MiB pages some GiB. So [`HugeVec`] takes its memory
//!
//! - from the heap where it is small (below 64 KiB);
//! - from a mapping of its own where it is 2 MiB or more. The whole 2 MiB pages in it are huge,
//!   the rest at its end is plain pages, so nothing is held beyond what was asked for;
//! - and in between from the process's pool (`pool.rs`), where tables share mappings and pages.
//!
//! **What is resident.** Memory is held from its first use on, a page at a time: a fresh `HugeVec`
//! costs address space only, and the first write to a huge page holds 2 MiB. The pool's first
//! 8 MiB are plain pages, so a process with few tables does not pay for pages that it does not
//! fill; beyond that the pool holds at most the rest of the pages that tables in use lie in.
//! A dropped `HugeVec` gives back every page that nothing else lies in, except that the pool keeps
//! up to 2 MiB for those that come next.
//!
//! **Reserved pages.** [`HugeVec::reserved`] takes its whole 2 MiB pages out of those that the
//! system has reserved (`/proc/sys/vm/nr_hugepages`), where enough are left. They are there for
//! certain, are never split, and are held from the beginning to the end.
//!
//! Huge pages are asked for, not demanded: where the kernel has none (`madvise` fails, or there is
//! no free 2 MiB frame) the same memory consists of plain pages.

mod kept;
mod mapping;
mod pieces;
mod pool;

pub use kept::KeptBytes;
pub use mapping::HUGE_PAGE_BYTES;
use mapping::Mapping;
use pool::Pool;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// From this size on memory comes from the pool rather than from the heap.
const POOLED_BYTES_MIN: usize = 64 << 10;
/// Every `HugeVec` that has elements starts at a cache line.
const LINE_BYTES: usize = 64;

/// Huge pages are not asked for.
static ONLY_PLAIN: AtomicBool = AtomicBool::new(false);

/// From now on this process asks for no huge pages: to measure what they are good for.
pub fn use_plain_pages() {
    ONLY_PLAIN.store(true, Ordering::Relaxed);
}

static POOL: Mutex<Pool> = Mutex::new(Pool::new());

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().expect("no panic while held")
}

/// Types for which memory full of zeroes is a value.
///
/// # Safety
///
/// All bytes zero must be a valid value of the type, its alignment at most 64, and it must not need
/// to be dropped.
pub unsafe trait Zeroable {}

macro_rules! zeroable {
    ($($number:ty),*) => {
        $(
            // SAFETY: zero is a number, and numbers, aligned to 16 bytes at most, are not dropped.
            unsafe impl Zeroable for $number {}
        )*
    };
}

zeroable!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, AtomicU32, AtomicU64);

// SAFETY: an array is its elements one after the other, with their alignment.
unsafe impl<T: Zeroable, const N: usize> Zeroable for [T; N] {}

/// A fixed number of elements, all zero at first, in huge pages where they are many.
///
/// Dereferences to a slice, which starts at a cache line unless it is empty.
pub struct HugeVec<T: Zeroable> {
    start: NonNull<T>,
    len: usize,
    home: Home,
}

/// Where the memory came from and returns to.
enum Home {
    Heap,
    Pool,
    /// Unmapped when dropped.
    Own(Mapping),
}

// SAFETY: the vector owns its memory exclusively, like a Vec<T>.
unsafe impl<T: Zeroable + Send> Send for HugeVec<T> {}
// SAFETY: shared access is read-only, like a Vec<T>.
unsafe impl<T: Zeroable + Sync> Sync for HugeVec<T> {}

fn layout<T>(len: usize) -> Layout {
    let layout = Layout::array::<T>(len).and_then(|layout| layout.align_to(LINE_BYTES));
    layout.expect("the size fits an allocation")
}

impl<T: Zeroable> HugeVec<T> {
    /// `len` elements, all zero, whose whole huge pages are among those that the system has
    /// reserved; where these are too few the same as [`HugeVec::zeroed`].
    pub fn reserved(len: usize) -> Self {
        let bytes = layout::<T>(len).size();
        let mapping = if bytes < HUGE_PAGE_BYTES { None } else { Mapping::reserved(bytes) };
        match mapping {
            Some(mapping) => {
                HugeVec { start: mapping.start().cast(), len, home: Home::Own(mapping) }
            }
            None => Self::zeroed(len),
        }
    }

    /// `len` elements, all zero.
    pub fn zeroed(len: usize) -> Self {
        let layout = layout::<T>(len);
        let (start, home) = match layout.size() {
            0 => (NonNull::<T>::dangling().cast(), Home::Heap),
            bytes if bytes < POOLED_BYTES_MIN => {
                // SAFETY: the size is not zero.
                let start = NonNull::new(unsafe { alloc_zeroed(layout) });
                (start.unwrap_or_else(|| handle_alloc_error(layout)), Home::Heap)
            }
            bytes if bytes < HUGE_PAGE_BYTES => {
                let start = pool().take(bytes);
                (start.unwrap_or_else(|| handle_alloc_error(layout)), Home::Pool)
            }
            bytes => {
                let mapping = Mapping::new(bytes, bytes / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES);
                let mapping = mapping.unwrap_or_else(|| handle_alloc_error(layout));
                (mapping.start(), Home::Own(mapping))
            }
        };
        HugeVec { start: start.cast(), len, home }
    }

    /// Gives the whole huge pages in `range`, in elements, back to the system, where they lie in a
    /// mapping of their own; false where the system does not take them, and of reserved pages,
    /// which stay held. They read as zeroes then,
    /// and are held again once something is written to them.
    ///
    /// # Safety
    ///
    /// Nobody has a reference to an element in `range`, except to an atomic: those who read it
    /// meanwhile see what was there, or zero.
    pub unsafe fn give_back(&self, range: Range<usize>) -> bool {
        assert!(range.start <= range.end && range.end <= self.len, "a range of elements");
        let Home::Own(mapping) = &self.home else { return true };
        let start = (range.start * size_of::<T>()).next_multiple_of(HUGE_PAGE_BYTES);
        let end = range.end * size_of::<T>() / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES;
        // SAFETY: whole pages of the mapping, and the caller's promise.
        start >= end || unsafe { mapping.try_discard(start..end) }
    }

    /// Bytes that lie in pages that the system has reserved: all whole huge pages, or none.
    pub fn reserved_bytes(&self) -> usize {
        match &self.home {
            Home::Own(mapping) => mapping.reserved_bytes(),
            Home::Heap | Home::Pool => 0,
        }
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        size_of::<T>() * self.len
    }
}

impl<T: Zeroable> Deref for HugeVec<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `start` owns `len` elements, aligned and initialised (zero is a value of a
        // `Zeroable`), for as long as `self` lives.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Zeroable> DerefMut for HugeVec<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T: Zeroable> Drop for HugeVec<T> {
    fn drop(&mut self) {
        let bytes = self.bytes();
        match self.home {
            Home::Heap if bytes == 0 => {}
            // SAFETY: allocated in `zeroed` with this very layout.
            Home::Heap => unsafe { dealloc(self.start.as_ptr().cast(), layout::<T>(self.len)) },
            // SAFETY: taken in `zeroed` with this very size, and nobody uses it any more.
            Home::Pool => unsafe { pool().give_back(self.start.cast(), bytes) },
            Home::Own(_) => {}
        }
    }
}

impl<T: Zeroable> std::fmt::Debug for HugeVec<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HugeVec({} elements of {} bytes)", self.len, size_of::<T>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_starts_zeroed_at_a_line_and_is_writable_to_its_end() {
        assert_eq!((HugeVec::<u64>::zeroed(0).len(), HugeVec::<[u64; 0]>::zeroed(3).len()), (0, 3));
        for len in [1, 1000, 8191, 8192, 98_304, 262_143, 262_144, 300_000, 3 << 20] {
            for _ in 0..2 {
                let mut words = HugeVec::<u64>::zeroed(len);
                assert!(words.iter().all(|w| *w == 0) && words.len() == len, "{words:?}");
                assert_eq!((words.as_ptr() as usize % LINE_BYTES, words.bytes()), (0, 8 * len));
                words.fill(u64::MAX);
            }
        }
    }

    #[test]
    fn vectors_do_not_share_memory() {
        let mut vectors: Vec<_> = (0..100).map(|_| HugeVec::<[u32; 3]>::zeroed(30_000)).collect();
        for (i, vector) in vectors.iter_mut().enumerate() {
            vector.fill([i as u32; 3]);
        }
        for (i, vector) in vectors.iter().enumerate() {
            assert!(vector.iter().all(|v| *v == [i as u32; 3]), "vector {i}");
        }
    }
}
