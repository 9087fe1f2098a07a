//! Iteration in the order of the buckets.
//!
//! A cursor is a place among all hashes, so it stays valid if the number of buckets changes. An
//! entry stays in its bucket for as long as it is there.

use crate::cache::Dida;
use crate::flash::Flash;
use crate::index::Found;
use crate::item::{self, Item};
use crate::slabs::Whereabouts;
use silica_base::{AlignedBuf, Result};
use silica_device::{Device, LogFile};
use silica_engine::{EntryRef, Scan};

/// Cursors are the higher bits of a hash.
const CURSOR_BITS: u32 = 62;
/// Times that an item is read before it counts as gone.
const ATTEMPTS: u32 = 4;

impl<F: Flash, D: Device> Dida<F, D> {
    /// The cursor of a bucket: the first hash in it, rounded up.
    fn cursor_at(&self, bucket: u64) -> u64 {
        let first = (u128::from(bucket) << 64).div_ceil(u128::from(self.layout.buckets));
        (first.div_ceil(1 << (64 - CURSOR_BITS))) as u64
    }

    fn bucket_at(&self, cursor: u64) -> Option<u64> {
        let hash = cursor.checked_mul(1 << (64 - CURSOR_BITS))?;
        Some(self.layout.bucket(hash) as u64)
    }

    /// Calls `visit` with the item that a slot names; false if it is gone, damaged or expired.
    pub(crate) fn with_item(
        &self,
        mut found: Found,
        visit: &mut dyn FnMut(&[u8], EntryRef<'_>),
    ) -> Result<bool> {
        for _ in 0..ATTEMPTS {
            let place = self.layout.place_of(found.slot);
            let slab = self.slabs.get(place.slab);
            let sequence = slab.sequence.load(std::sync::atomic::Ordering::Relaxed);
            let mut pages = AlignedBuf::zeroed(0);
            let log;
            let bytes = match slab.whereabouts() {
                Whereabouts::Memory(number) => match self.streams.resident(number, place.slab) {
                    Some(resident) => {
                        log = resident;
                        let len = log.len().saturating_sub(u64::from(place.offset)) as usize;
                        log.bytes(u64::from(place.offset), len)
                    }
                    None => &[],
                },
                Whereabouts::Block(block) => {
                    let (first, count) = self.layout.pages_of_slot(found.slot);
                    let page = self.layout.shape.page_bytes as usize;
                    pages.resize(count as usize * page);
                    match self.flash.read(block, first, &mut pages) {
                        Ok(()) => &pages[place.offset as usize % page..],
                        Err(_) => &[],
                    }
                }
                Whereabouts::Nowhere => &[],
            };
            if let Some((Item { key, entry }, _)) =
                item::decode(bytes, self.seal(sequence), place.offset)
            {
                let expires = entry.expires_unix_ms;
                let is_there = expires == 0 || expires > self.clock.unix_ms();
                if is_there {
                    visit(key, entry);
                }
                return Ok(is_there);
            }
            found.slot = self.index.load(found.at);
            if found.slot == 0 {
                return Ok(false);
            }
        }
        Ok(false)
    }
}

impl<F: Flash, D: Device> Scan for Dida<F, D> {
    fn scan(
        &self,
        cursor: u64,
        limit: usize,
        visit: &mut dyn FnMut(&[u8], EntryRef<'_>),
    ) -> Result<Option<u64>> {
        let Some(first) = self.bucket_at(cursor) else { return Ok(None) };
        let mut visited = 0;
        for bucket in first..self.layout.buckets {
            let slots: Vec<Found> = self.index.bucket(bucket as usize).collect();
            for found in slots {
                visited += usize::from(self.with_item(found, visit)?);
            }
            if visited >= limit && bucket + 1 < self.layout.buckets {
                return Ok(Some(self.cursor_at(bucket + 1)));
            }
        }
        Ok(None)
    }

    fn cursor_of(&self, key: &[u8]) -> u64 {
        let bucket = self.layout.bucket(self.seed.low(key)) as u64;
        self.cursor_at(bucket + 1) - 1
    }
}
