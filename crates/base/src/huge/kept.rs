//! Memory for pieces of a few KiB that are written once, kept for a while and read by many, like a
//! cache's blocks.
//!
//! An allocator puts such pieces among everything else and keeps what it got from the system, where
//! it finds no use for the holes that they leave. Here pieces of one size share mappings
//! (**slabs**, `pieces.rs`) in huge pages, so that reading one of many needs no walk through page
//! tables.
//!
//! Counters of owners lie apart from the bytes and close together: they stay in the processor's
//! caches, where each piece's own would cost the way to memory.
//!
//! A piece belongs to as many [`KeptBytes`] as its counter says. The first one wrote it before the
//! others were made of it, and nobody writes it again; the last one gives it back.
//!
//! Orderings:
//!
//! * A clone counts itself with a relaxed add: who clones is an owner, so the counter is not zero,
//!   and how the clone gets to another thread hands over the bytes, too.
//! * An owner that goes takes itself off with release, after the last time that it read the bytes.
//!   Who finds that it was the last one fences with acquire, so all reads of all owners are done
//!   before the piece is free.
//! * From giving back to the next taking the lock of the pieces is what orders; so the taker may
//!   set the counter with a relaxed store, and write.
//!
//! `tests/kept_model.rs` checks them.

use super::pieces::{CLASSES, GRAIN_BYTES, Place, pieces};
use crate::AlignedBuf;
use crate::sync::{AtomicU32, Ordering, fence};
use std::alloc::{Layout, handle_alloc_error};
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

/// Fewer bytes come from the heap.
const PIECE_BYTES_MIN: usize = GRAIN_BYTES / 2;

/// Bytes that are never changed, in memory that they share with others of their size. Clones are
/// the same bytes.
///
/// Dereferences to the bytes.
pub struct KeptBytes {
    start: NonNull<u8>,
    len: u32,
    home: Home,
}

/// Where the memory is.
#[derive(Clone)]
enum Home {
    Heap(#[expect(dead_code, reason = "it owns the bytes")] Arc<Box<[u8]>>),
    Own(#[expect(dead_code, reason = "it owns the bytes")] Arc<AlignedBuf>),
    /// The place, and its counter.
    Piece(Place, NonNull<AtomicU32>),
}

// SAFETY: nobody writes to the bytes after they were made, owners are counted atomically, and the
// last one gives a piece back under a lock.
unsafe impl Send for KeptBytes {}
// SAFETY: as above.
unsafe impl Sync for KeptBytes {}

impl KeptBytes {
    /// A copy of `bytes`.
    ///
    /// # Panics
    /// Where there are 4 GiB or more.
    pub fn new(bytes: &[u8]) -> Self {
        let len = u32::try_from(bytes.len()).expect("less than 4 GiB");
        if bytes.len() < PIECE_BYTES_MIN {
            let copy: Box<[u8]> = Box::from(bytes);
            return KeptBytes {
                start: NonNull::from(&copy[..]).cast(),
                len,
                home: Home::Heap(Arc::new(copy)),
            };
        }
        let class = bytes.len().div_ceil(GRAIN_BYTES) - 1;
        if class >= CLASSES {
            let mut copy = AlignedBuf::zeroed(bytes.len());
            copy.copy_from_slice(bytes);
            let start = NonNull::from(&copy[..]).cast();
            return KeptBytes { start, len, home: Home::Own(Arc::new(copy)) };
        }
        let taken = {
            let mut pieces = pieces();
            pieces.take(class).map(|place| {
                let (start, owners) = pieces.of(place);
                owners.store(1, Ordering::Relaxed);
                (place, start, NonNull::from(owners))
            })
        };
        let Some((place, start, owners)) = taken else {
            handle_alloc_error(Layout::for_value(bytes))
        };
        // SAFETY: the piece has room for `len` bytes, and nothing else refers to it (see the top).
        unsafe { start.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        KeptBytes { start, len, home: Home::Piece(place, owners) }
    }

    /// Says that somebody who might keep `before` bytes of memory may keep `now` from here on.
    /// Memory of bytes that are gone stays for others, as long as it is within what all may keep.
    pub fn set_room(before: usize, now: usize) {
        pieces().set_room(before, now);
    }

    /// Bytes of memory that so many bytes take.
    pub fn memory_bytes(len: usize) -> usize {
        if len < PIECE_BYTES_MIN { len } else { len.next_multiple_of(GRAIN_BYTES) }
    }
}

impl Deref for KeptBytes {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` points to `len` bytes that were written in `new`, belong to `self` for as
        // long as it lives, and are not written again (see the top).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len as usize) }
    }
}

impl Clone for KeptBytes {
    #[inline]
    fn clone(&self) -> Self {
        if let Home::Piece(_, owners) = &self.home {
            // SAFETY: counters stay where they are (`pieces.rs`).
            let before = unsafe { owners.as_ref() }.fetch_add(1, Ordering::Relaxed);
            // Only clones that are forgotten can be so many.
            if before > u32::MAX / 2 {
                std::process::abort();
            }
        }
        KeptBytes { start: self.start, len: self.len, home: self.home.clone() }
    }
}

impl Drop for KeptBytes {
    #[inline]
    fn drop(&mut self) {
        let Home::Piece(place, owners) = self.home else { return };
        // SAFETY: counters stay where they are (`pieces.rs`).
        if unsafe { owners.as_ref() }.fetch_sub(1, Ordering::Release) == 1 {
            // What other owners read, they read before.
            fence(Ordering::Acquire);
            pieces().give_back(place);
        }
    }
}

impl std::fmt::Debug for KeptBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KeptBytes({})", self.len)
    }
}
