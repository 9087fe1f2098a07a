//! Buffers that direct I/O accepts: start and capacity are multiples of a block.

use memmap2::{MmapMut, MmapOptions};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::num::NonZeroUsize;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Bytes of a device block as far as Silica is concerned: alignment of direct I/O.
pub const BLOCK_BYTES: usize = 4096;

/// Buffers from this size on are mappings of their own. The allocator seldom finds a hole for
/// large aligned blocks among those it was given back, and keeps what it got from the system; a
/// mapping goes back whole.
const MAPPED_BYTES: usize = 128 << 10;

/// The address of a buffer without memory.
const ALIGNED: NonZeroUsize = NonZeroUsize::new(BLOCK_BYTES).expect("it is not 0");

/// A byte buffer whose address and capacity are multiples of [`BLOCK_BYTES`].
///
/// Dereferences to its `len()` first bytes; all bytes are always initialised.
pub struct AlignedBuf {
    start: NonNull<u8>,
    len: usize,
    capacity: usize,
    /// What `start` points to where the buffer is large; otherwise that is allocated.
    mapping: Option<MmapMut>,
}

// SAFETY: the buffer owns its allocation exclusively, like a Vec<u8>.
unsafe impl Send for AlignedBuf {}
// SAFETY: shared access is read-only, like a Vec<u8>.
unsafe impl Sync for AlignedBuf {}

fn layout(capacity: usize) -> Layout {
    Layout::from_size_align(capacity, BLOCK_BYTES).expect("capacity fits an allocation")
}

impl AlignedBuf {
    /// A zeroed buffer of `len` bytes; one of none takes no memory.
    pub fn zeroed(len: usize) -> Self {
        let capacity = len.next_multiple_of(BLOCK_BYTES);
        if capacity == 0 {
            let start = NonNull::without_provenance(ALIGNED);
            return AlignedBuf { start, len, capacity, mapping: None };
        }
        if capacity >= MAPPED_BYTES {
            return Self::mapped(len, capacity);
        }
        // SAFETY: the layout's size is at least one block, so it is not zero.
        let raw = unsafe { alloc_zeroed(layout(capacity)) };
        let start = NonNull::new(raw).unwrap_or_else(|| handle_alloc_error(layout(capacity)));
        AlignedBuf { start, len, capacity, mapping: None }
    }

    fn mapped(len: usize, capacity: usize) -> Self {
        // A mapping starts at a page and is zeroed.
        let mapping = MmapOptions::new().len(capacity).map_anon();
        let mut mapping = mapping.unwrap_or_else(|_| handle_alloc_error(layout(capacity)));
        let start = NonNull::from(&mut mapping[..]).cast();
        AlignedBuf { start, len, capacity, mapping: Some(mapping) }
    }

    /// Bytes that fit without a new allocation.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Sets the length, growing (with zeroes) where the capacity does not suffice; bytes up to
    /// the smaller of both lengths stay.
    pub fn resize(&mut self, len: usize) {
        if len > self.capacity {
            let mut bigger = AlignedBuf::zeroed(len.max(2 * self.capacity));
            bigger[..self.len].copy_from_slice(self);
            *self = bigger;
        }
        self.len = len;
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` owns `capacity >= len` initialised bytes for as long as `self` lives;
        // where these are none, it is not null and aligned.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if self.mapping.is_none() && self.capacity > 0 {
            // SAFETY: allocated in `zeroed` with this very layout.
            unsafe { dealloc(self.start.as_ptr(), layout(self.capacity)) }
        }
    }
}

impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBuf({} of {} bytes)", self.len, self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_and_capacity_are_aligned() {
        for len in [0, 1, 4096, 4097, 100_000, 128 << 10, 3_000_001] {
            let buf = AlignedBuf::zeroed(len);
            assert_eq!(buf.as_ptr() as usize % BLOCK_BYTES, 0);
            assert_eq!(buf.capacity() % BLOCK_BYTES, 0);
            assert!(buf.iter().all(|b| *b == 0) && buf.len() == len);
        }
    }

    #[test]
    fn growing_keeps_the_bytes() {
        let mut buf = AlignedBuf::zeroed(3);
        buf.copy_from_slice(b"abc");
        buf.resize(10_000);
        assert_eq!(&buf[..4], b"abc\0");
        buf.resize(1_000_000);
        assert_eq!(&buf[..4], b"abc\0");
        assert!(buf[4..].iter().all(|b| *b == 0));
        buf[999_999] = 7;
        buf.resize(2_000_000);
        assert_eq!((&buf[..3], buf[999_999], buf[1_999_999]), (&b"abc"[..], 7, 0));
    }
}
