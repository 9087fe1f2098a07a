//! Pieces of memory of a few sizes, out of mappings that those of one size share.
//!
//! 1. A piece has owners, as its counter says ([`super::KeptBytes`]); or it is in one of its
//!    class's lists of free pieces; or it was never used.
//! 2. Slabs and counters stay where they are for as long as the process lives.
//! 3. Free pieces that hold memory ([`Pieces::held`]) are few, or within the room that their users
//!    were promised ([`Pieces::room`]): those beyond that are given back to the system one by one,
//!    wherever they lie. What is kept is addresses, as many as the most pieces of a size ever took.
//!    Giving a page back interrupts all processors, and having it again is a fault: so a cache that
//!    loses some blocks and soon has others instead keeps their memory.
//!
//! Everything but the counters is behind one lock.

use super::mapping::{HUGE_PAGE_BYTES, Mapping};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::sync::{Mutex, MutexGuard};

/// Sizes of pieces are multiples of it.
pub(super) const GRAIN_BYTES: usize = 4096;
/// Sizes of pieces. Larger ones have mappings of their own.
pub(super) const CLASSES: usize = 31;
const SLAB_BYTES: usize = HUGE_PAGE_BYTES;
/// Slabs of a size that are plain pages: of a huge one that is filled by half the other half is
/// held, too.
const PLAIN_SLABS: usize = 8;
/// Free pieces hold at most so many bytes, or one of so many that are in use.
const HELD_BYTES_MAX: usize = 1 << 20;
const HELD_PART_MAX: usize = 32;
/// Pieces that are given back at once, at most: others wait for the lock meanwhile.
const DISCARDED_MAX: usize = 64;
/// Whether pages are as small as the system can take back.
const GIVES_BACK: bool = cfg!(all(target_os = "linux", target_arch = "x86_64"));

static PIECES: Mutex<Pieces> = Mutex::new(Pieces::new());

/// Locks them.
pub(super) fn pieces() -> MutexGuard<'static, Pieces> {
    PIECES.lock().expect("no panic while held")
}

/// Where a piece is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
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
pub(super) struct Pieces {
    classes: [Class; CLASSES],
    /// Bytes of pieces that are in use, and of free ones that hold memory.
    in_use: usize,
    held: usize,
    /// Bytes that those who use pieces may have in use; less than none for a moment, where changes
    /// come in another order than they were decided.
    room: i64,
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
        Pieces { classes: [Class::NEW; CLASSES], in_use: 0, held: 0, room: 0 }
    }

    /// The memory of a piece, and its counter.
    pub(super) fn of(&self, place: Place) -> (NonNull<u8>, &AtomicU32) {
        let slab = &self.classes[usize::from(place.class)].slabs[place.slab as usize];
        let offset = usize::from(place.piece) * place.bytes();
        debug_assert!(offset + place.bytes() <= slab.mapping.bytes());
        // SAFETY: a slab's pieces lie in its mapping.
        let start = unsafe { slab.mapping.start().add(offset) };
        (start, &slab.owners[usize::from(place.piece)])
    }

    /// A piece that nobody has, or `None` where the system has no more memory.
    pub(super) fn take(&mut self, class: usize) -> Option<Place> {
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
        // Memory of another size may have to go for it.
        self.trim(class);
        Some(Place { slab, piece, class: class as u8 })
    }

    /// Users that might have `before` bytes in use may have `now`.
    pub(super) fn set_room(&mut self, before: usize, now: usize) {
        self.room += now as i64 - before as i64;
        self.trim(0);
    }

    /// Gives memory of free pieces back where they hold too much, those of `class` first.
    fn trim(&mut self, class: usize) {
        let held_max = HELD_BYTES_MAX
            .max(self.in_use / HELD_PART_MAX)
            .max((self.room.max(0) as usize).saturating_sub(self.in_use));
        if !GIVES_BACK || self.held <= held_max {
            return;
        }
        // Some more, so that those that lie side by side go together.
        let (held_least, mut left) = (held_max - held_max / 8, DISCARDED_MAX);
        for class in (class..CLASSES).chain(0..class) {
            while self.held > held_least && left > 0 {
                match self.discard(class as u8, left) {
                    0 => break,
                    count => left -= count,
                }
            }
        }
    }

    /// Adds a free piece that holds memory.
    fn hold(&mut self, place: Place) {
        self.classes[usize::from(place.class)].held.push((place.slab, place.piece));
        self.held += place.bytes();
    }

    /// Takes back a piece that nothing refers to any more.
    pub(super) fn give_back(&mut self, place: Place) {
        self.in_use -= place.bytes();
        self.hold(place);
        self.trim(usize::from(place.class));
    }

    /// Gives the memory of a free piece back to the system, and that of up to `most` in all that
    /// lie beside it; how many there were.
    fn discard(&mut self, class: u8, most: usize) -> usize {
        let of = &mut self.classes[usize::from(class)];
        let Some((slab, piece)) = of.held.pop() else { return 0 };
        of.gone.push((slab, piece));
        let (mut first, mut last) = (piece, piece);
        while usize::from(last - first) + 1 < most
            && let Some(&(_, piece)) = of.held.last().filter(|(other, _)| *other == slab)
            && (piece + 1 == first || piece == last + 1)
        {
            of.held.pop();
            of.gone.push((slab, piece));
            (first, last) = (first.min(piece), last.max(piece));
        }
        let (count, bytes) = (usize::from(last - first) + 1, Place { slab, piece, class }.bytes());
        self.held -= count * bytes;
        let range = usize::from(first) * bytes..(usize::from(last) + 1) * bytes;
        // SAFETY: the range is pieces of the slab, whole pages, and nothing refers to them, as they
        // were in a list of free ones. Where the system refuses, it is as good as before.
        unsafe { of.slabs[slab as usize].mapping.try_discard(range) };
        count
    }
}

#[cfg(test)]
mod tests;
