//! Caches on flash in slabs, without contents: DIDACache over the flash itself ([`Dida`]), and
//! Fatcache over a conventional drive ([`Fatcache`]), under the papers' workload
//! ([`CacheRequests`]). Items have sizes; time is virtual.
//!
//! Both keep items in slabs as large as an erase block. A SET goes to a slab in memory, which is
//! written when it is full. Updates and removals leave holes in slabs on flash, until a slab is
//! reclaimed: its valid items are copied to slabs in memory, or dropped with it.

mod dida;
mod fatcache;
mod items;
mod requests;
mod reserve;

pub use dida::{Dida, DidaFlash, DidaOptions, Reclaim, WearLevelling};
pub use fatcache::{Fatcache, FatcacheDesign, Mapping, Victims};
pub use items::Packing;
pub use requests::{CacheRequests, ITEM_BYTES_MAX, ITEM_OVERHEAD_BYTES};
pub use reserve::Reserve;

use std::collections::VecDeque;

use silica_base::Histogram;

/// A cache that counts.
pub trait Cache {
    /// Puts an item of so many bytes, its key and overhead included.
    fn set(&mut self, key: u32, bytes: u32);
    /// Looks for a key; true if it is there.
    fn get(&mut self, key: u32) -> bool;
    /// Removes a key, if it is there.
    fn delete(&mut self, key: u32);
    /// Erases of each block since the cache was made.
    fn block_erases(&self) -> Vec<u32>;
    /// What was done so far.
    fn counts(&self) -> CacheCounts;
    /// Virtual time from one request to the next if none waits, in nanoseconds.
    fn set_interval_ns(&mut self, interval_ns: u64);
    /// Virtual time, in nanoseconds.
    fn now_ns(&self) -> u64;
    /// How long SETs took, in nanoseconds.
    fn set_latency(&self) -> &Histogram;
}

/// What a cache did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// SETs.
    pub sets: u64,
    /// Bytes of their items.
    pub set_bytes: u64,
    /// GETs.
    pub gets: u64,
    /// GETs that found their key.
    pub hits: u64,
    /// Bytes of valid items that were copied when their slab was reclaimed.
    pub copied_bytes: u64,
    /// Valid items that were dropped with their slab.
    pub dropped: u64,
    /// Slabs written.
    pub written: u64,
    /// Slabs reclaimed.
    pub reclaimed: u64,
    /// Flash pages that a drive below copied.
    pub page_copies: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Bytes copied and blocks erased to level wear; they are part of the others.
    pub wear_copied_bytes: u64,
    /// Blocks erased to level wear.
    pub wear_erases: u64,
}

impl CacheCounts {
    /// What was done since `before`.
    pub fn since(&self, before: &CacheCounts) -> CacheCounts {
        CacheCounts {
            sets: self.sets - before.sets,
            set_bytes: self.set_bytes - before.set_bytes,
            gets: self.gets - before.gets,
            hits: self.hits - before.hits,
            copied_bytes: self.copied_bytes - before.copied_bytes,
            dropped: self.dropped - before.dropped,
            written: self.written - before.written,
            reclaimed: self.reclaimed - before.reclaimed,
            page_copies: self.page_copies - before.page_copies,
            erases: self.erases - before.erases,
            wear_copied_bytes: self.wear_copied_bytes - before.wear_copied_bytes,
            wear_erases: self.wear_erases - before.wear_erases,
        }
    }

    /// Share of the GETs that found their key; 0 if there were none.
    pub fn hit_ratio(&self) -> f64 {
        self.hits as f64 / self.gets.max(1) as f64
    }
}

/// Times of a cache that no device has, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheTimes {
    /// The processor stores an item in memory and enters it into the hash table: the shortest SET,
    /// and each copy.
    pub store_ns: u64,
    /// From one request to the next.
    pub interval_ns: u64,
}

/// Slabs in memory that are full and being written. A SET waits if there are too many.
#[derive(Debug)]
struct Drain {
    ends_ns: VecDeque<u64>,
    /// With 0 the SET that fills a slab waits for its write.
    room: usize,
}

impl Drain {
    fn new(room: usize) -> Self {
        Drain { ends_ns: VecDeque::new(), room }
    }

    /// A slab is being written until `end_ns`; when the SET that filled it may go on.
    fn add(&mut self, now_ns: u64, end_ns: u64) -> u64 {
        self.ends_ns.push_back(end_ns);
        let mut until_ns = now_ns;
        while self.ends_ns.front().is_some_and(|end_ns| *end_ns <= until_ns)
            || self.ends_ns.len() > self.room
        {
            until_ns = until_ns.max(self.ends_ns.pop_front().expect("a slab is being written"));
        }
        until_ns
    }
}
