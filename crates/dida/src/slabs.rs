//! What is known of each slab: where it is, how much of it is alive, when it was last used.
//!
//! A slab has a number while it exists. Numbers are used again; sequences are not. A number is
//! free again only after every slot that names it has left the index, so a reader that finds a
//! newer slab under it finds what was put after its get began.
//!
//! Orderings: `state` is stored with Release after the other fields, and loaded with Acquire.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Where a slab is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whereabouts {
    /// Nowhere: the number is free.
    Nowhere,
    /// In memory, in the place with this number.
    Memory(u32),
    /// On flash, in this block.
    Block(u32),
}

const IN_MEMORY: u32 = 1 << 31;
const ON_FLASH: u32 = 1 << 30;

impl Whereabouts {
    fn encode(self) -> u32 {
        match self {
            Whereabouts::Nowhere => 0,
            Whereabouts::Memory(place) => IN_MEMORY | place,
            Whereabouts::Block(block) => ON_FLASH | block,
        }
    }

    fn decode(state: u32) -> Self {
        match state {
            _ if state & IN_MEMORY != 0 => Whereabouts::Memory(state & !IN_MEMORY),
            _ if state & ON_FLASH != 0 => Whereabouts::Block(state & !ON_FLASH),
            _ => Whereabouts::Nowhere,
        }
    }
}

/// A slab.
#[derive(Default)]
pub(crate) struct Slab {
    state: AtomicU32,
    pub(crate) sequence: AtomicU64,
    /// Items that the index names.
    pub(crate) live: AtomicU32,
    /// Items in all.
    pub(crate) items: AtomicU32,
    pub(crate) items_end: AtomicU32,
    pub(crate) summary_end: AtomicU32,
    /// When an item was last read, or the slab written, in slabs written since the cache was
    /// opened.
    used: AtomicU32,
    /// Somebody collects it.
    is_claimed: AtomicBool,
}

impl Slab {
    #[inline]
    pub(crate) fn whereabouts(&self) -> Whereabouts {
        Whereabouts::decode(self.state.load(Ordering::Acquire))
    }

    pub(crate) fn set_whereabouts(&self, whereabouts: Whereabouts) {
        self.state.store(whereabouts.encode(), Ordering::Release);
    }

    /// Notes that it is used at `tick`. Writes only if that is news.
    #[inline]
    pub(crate) fn touch(&self, tick: u32) {
        if self.used.load(Ordering::Relaxed) != tick {
            self.used.store(tick, Ordering::Relaxed);
        }
    }

    pub(crate) fn used(&self) -> u32 {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn is_claimed(&self) -> bool {
        self.is_claimed.load(Ordering::Relaxed)
    }

    /// True for the one who may collect it.
    pub(crate) fn claim(&self) -> bool {
        !self.is_claimed.swap(true, Ordering::AcqRel)
    }

    /// The one who claimed it leaves it as it is.
    pub(crate) fn unclaim(&self) {
        self.is_claimed.store(false, Ordering::Release);
    }

    /// The share of its bytes that is alive, by its items: of slots only the size class is known.
    pub(crate) fn live_share(&self) -> f64 {
        let items = self.items.load(Ordering::Relaxed).max(1);
        f64::from(self.live.load(Ordering::Relaxed)) / f64::from(items)
    }

    /// Bytes of items that are alive, about.
    pub(crate) fn live_bytes(&self) -> f64 {
        self.live_share() * f64::from(self.items_end.load(Ordering::Relaxed))
    }
}

/// All slabs, by number.
pub(crate) struct Slabs {
    slabs: Box<[Slab]>,
    free: Mutex<Vec<u32>>,
}

impl Slabs {
    /// Numbers from 1 to `numbers`, all free.
    pub(crate) fn new(numbers: u32) -> Self {
        Slabs {
            slabs: (0..=numbers).map(|_| Slab::default()).collect(),
            free: Mutex::new((1..=numbers).rev().collect()),
        }
    }

    /// The slab with a number; of a number that is none, one that is nowhere.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> &Slab {
        self.slabs.get(number as usize).unwrap_or(&self.slabs[0])
    }

    /// A free number. There is one for each block and each place in memory.
    pub(crate) fn take(&self) -> Option<u32> {
        self.free.lock().expect("no panic while locked").pop()
    }

    /// Takes a given number, if it is free.
    pub(crate) fn take_number(&self, number: u32) -> bool {
        let mut free = self.free.lock().expect("no panic while locked");
        let found = free.iter().position(|other| *other == number);
        found.map(|at| free.swap_remove(at)).is_some()
    }

    /// Begins a slab under a number that was taken.
    pub(crate) fn begin(&self, number: u32, sequence: u64, tick: u32, whereabouts: Whereabouts) {
        let slab = &self.slabs[number as usize];
        slab.sequence.store(sequence, Ordering::Relaxed);
        slab.live.store(0, Ordering::Relaxed);
        slab.items.store(0, Ordering::Relaxed);
        slab.items_end.store(0, Ordering::Relaxed);
        slab.summary_end.store(0, Ordering::Relaxed);
        slab.used.store(tick, Ordering::Relaxed);
        slab.is_claimed.store(false, Ordering::Release);
        slab.set_whereabouts(whereabouts);
    }

    /// Frees a number that no slot names.
    pub(crate) fn release(&self, number: u32) {
        self.slabs[number as usize].set_whereabouts(Whereabouts::Nowhere);
        self.free.lock().expect("no panic while locked").push(number);
    }

    /// All slabs on flash: number, slab, block.
    pub(crate) fn on_flash(&self) -> impl Iterator<Item = (u32, &Slab, u32)> {
        (0..).zip(&self.slabs).filter_map(|(number, slab)| match slab.whereabouts() {
            Whereabouts::Block(block) => Some((number, slab, block)),
            _ => None,
        })
    }

    /// All slabs in memory: number, slab.
    pub(crate) fn in_memory(&self) -> impl Iterator<Item = (u32, &Slab)> {
        let is_there = |slab: &Slab| matches!(slab.whereabouts(), Whereabouts::Memory(_));
        (0..).zip(&self.slabs).filter(move |(_, slab)| is_there(slab))
    }

    /// Bytes of the table.
    pub(crate) fn bytes(&self) -> u64 {
        (self.slabs.len() * (size_of::<Slab>() + 4)) as u64
    }
}
