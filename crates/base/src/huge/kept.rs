//! Memory for pieces of a few KiB that are written once, kept for a while and read by many, like a
//! cache's blocks.
//!
//! An allocator puts such pieces among everything else and keeps what it got from the system, where
//! it finds no use for the holes that they leave. Here pieces of one size share mappings
//! (**slabs**) in huge pages, so that reading one of many needs no walk through page tables.
//!
//! Counters of owners lie apart from the bytes and close together: they stay in the processor's
//! caches, where each piece's own would cost the way to memory.
//!
//! 1. A piece belongs to as many [`KeptBytes`] as its counter says. The first one wrote it before
//!    the others were made of it, and nobody writes it again; the last one gives it back. Or it is
//!    in one of its class's lists of free pieces, or it was never used.
//! 2. Slabs and counters stay where they are for as long as the process lives.
//! 3. Free pieces that hold memory ([`Pieces::held`]) are few: those beyond that are given back to
//!    the system one by one, wherever they lie. What is kept is addresses, as many as the most
//!    pieces of a size ever took.

use super::mapping::{HUGE_PAGE_BYTES, Mapping};
use crate::AlignedBuf;
use std::alloc::{Layout, handle_alloc_error};
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard};

/// Sizes of pieces are multiples of it.
const GRAIN_BYTES: usize = 4096;
/// Sizes of pieces. Larger ones have mappings of their own.
const CLASSES: usize = 31;
/// Fewer bytes come from the heap.
const PIECE_BYTES_MIN: usize = GRAIN_BYTES / 2;
const SLAB_BYTES: usize = HUGE_PAGE_BYTES;
/// Slabs of a size that are plain pages: of a huge one that is filled by half the other half is
/// held, too.
const PLAIN_SLABS: usize = 8;
/// Free pieces hold at most so many bytes, or one of so many that are in use.
const HELD_BYTES_MAX: usize = 1 << 20;
const HELD_PART_MAX: usize = 32;
/// Whether pages are as small as the system can take back.
const GIVES_BACK: bool = cfg!(all(target_os = "linux", target_arch = "x86_64"));

static PIECES: Mutex<Pieces> = Mutex::new(Pieces::new());

fn pieces() -> MutexGuard<'static, Pieces> {
    PIECES.lock().expect("no panic while held")
}

/// Where a piece is.
#[derive(Debug, Clone, Copy)]
struct Place {
    slab: u32,
    piece: u16,
    class: u8,
}

/// Memory for pieces of one size.
struct Slab {
    mapping: Mapping,
    /// Owners of each piece.
    owners: Box<[AtomicU32]>,
}

/// Pieces of one size.
struct Class {
    slabs: Vec<Slab>,
    /// Pieces of the last slab that were used.
    used: usize,
    /// Free pieces that hold memory, as (slab, piece).
    held: Vec<(u32, u16)>,
    /// Free pieces that do not.
    gone: Vec<(u32, u16)>,
}

/// All pieces of the process.
struct Pieces {
    classes: [Class; CLASSES],
    /// Bytes of pieces that are in use, and of free ones that hold memory.
    in_use: usize,
    held: usize,
}

impl Place {
    fn bytes(self) -> usize {
        (usize::from(self.class) + 1) * GRAIN_BYTES
    }
}

impl Class {
    const NEW: Class = Class { slabs: Vec::new(), used: 0, held: Vec::new(), gone: Vec::new() };
}

impl Pieces {
    const fn new() -> Self {
        Pieces { classes: [Class::NEW; CLASSES], in_use: 0, held: 0 }
    }

    /// The memory of a piece, and its counter.
    fn of(&self, place: Place) -> (NonNull<u8>, &AtomicU32) {
        let slab = &self.classes[usize::from(place.class)].slabs[place.slab as usize];
        let offset = usize::from(place.piece) * place.bytes();
        debug_assert!(offset + place.bytes() <= slab.mapping.bytes());
        // SAFETY: a slab's pieces lie in its mapping.
        let start = unsafe { slab.mapping.start().add(offset) };
        (start, &slab.owners[usize::from(place.piece)])
    }

    /// A piece that nobody has, or `None` where the system has no more memory.
    fn take(&mut self, class: usize) -> Option<Place> {
        let of = &mut self.classes[class];
        let bytes = (class + 1) * GRAIN_BYTES;
        let (slab, piece) = if let Some(place) = of.held.pop() {
            self.held -= bytes;
            place
        } else if let Some(place) = of.gone.pop() {
            place
        } else {
            if of.slabs.is_empty() || (of.used + 1) * bytes > SLAB_BYTES {
                let is_huge = of.slabs.len() >= PLAIN_SLABS;
                let mapping = Mapping::new(SLAB_BYTES, if is_huge { SLAB_BYTES } else { 0 })?;
                let owners = (0..SLAB_BYTES / bytes).map(|_| AtomicU32::new(0)).collect();
                of.slabs.push(Slab { mapping, owners });
                of.used = 0;
            }
            of.used += 1;
            (of.slabs.len() as u32 - 1, of.used as u16 - 1)
        };
        self.in_use += bytes;
        Some(Place { slab, piece, class: class as u8 })
    }

    /// Adds a free piece that holds memory.
    fn hold(&mut self, place: Place) {
        self.classes[usize::from(place.class)].held.push((place.slab, place.piece));
        self.held += place.bytes();
    }

    /// Takes back a piece that nothing refers to any more.
    fn give_back(&mut self, place: Place) {
        self.in_use -= place.bytes();
        self.hold(place);
        let held_max = HELD_BYTES_MAX.max(self.in_use / HELD_PART_MAX);
        // One more than came: with fewer pieces in use fewer are held.
        for _ in 0..2 {
            if GIVES_BACK && self.held > held_max {
                self.discard(place.class);
            }
        }
    }

    /// Gives the memory of a free piece back to the system.
    fn discard(&mut self, class: u8) {
        let Some((slab, piece)) = self.classes[usize::from(class)].held.pop() else { return };
        let place = Place { slab, piece, class };
        let (start, of) =
            (usize::from(piece) * place.bytes(), &mut self.classes[usize::from(class)]);
        self.held -= place.bytes();
        // SAFETY: the range is a piece of the slab, whole pages, and nothing refers to it, as it
        // was in a list of free ones. Where the system refuses, it is as good as before.
        unsafe { of.slabs[slab as usize].mapping.try_discard(start..start + place.bytes()) };
        of.gone.push((slab, piece));
    }
}

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
        // SAFETY: the piece has room for `len` bytes, and nothing else refers to it (invariant 1).
        unsafe { start.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        KeptBytes { start, len, home: Home::Piece(place, owners) }
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
        // long as it lives, and are not written again (invariant 1).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len as usize) }
    }
}

impl Clone for KeptBytes {
    #[inline]
    fn clone(&self) -> Self {
        if let Home::Piece(_, owners) = &self.home {
            // SAFETY: counters stay where they are (invariant 2).
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
        // SAFETY: counters stay where they are (invariant 2).
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

#[cfg(test)]
mod tests;
