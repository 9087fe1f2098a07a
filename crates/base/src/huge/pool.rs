//! Mappings that tables share.
//!
//! A table of a log store has 768 KiB: a mapping for each would be no huge page. So tables take
//! ranges of shared mappings, one beside the other and across the borders of pages.
//!
//! 1. All free bytes are zero: [`Pool::take`] hands ranges out as they are.
//! 2. A page that is wholly free holds no memory: it was never used or it was given back. Only a
//!    few **warm** ones do, so that tables which come and go do not wait for the system's pages:
//!    each first use of one is a fault or two.
//! 3. Free ranges of a mapping neither overlap nor touch; a mapping that is wholly free is
//!    unmapped.
//!
//! The lowest range that fits is taken, so free pages gather at the end. Which mapping grows is
//! of no consequence for resident memory: pages that nothing lies in hold none.

use super::mapping::{HUGE_PAGE_BYTES, Mapping, PLAIN_PAGE_BYTES_MAX};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::ptr::NonNull;

/// The first mapping, of plain pages: so little is translated well enough without huge ones, and
/// of a huge page that is filled by half the other half is resident, too.
const FIRST_MAPPING_BYTES: usize = 8 << 20;
/// All further mappings, of huge pages. A multiple of the usual tables' sizes, so that no end is
/// left over.
const MAPPING_BYTES: usize = 96 << 20;
/// Bytes of warm pages at most.
const WARM_BYTES_MAX: usize = 2 << 20;
/// Ranges start at and consist of so many bytes: a plain page, so that none is shared in vain.
const GRAIN_BYTES: usize = 4096;

/// Shared mappings and what is free in them.
pub(super) struct Pool {
    shared: Vec<Shared>,
}

/// A mapping that tables share.
struct Shared {
    mapping: Mapping,
    /// Bytes of its pages, of which free ones are given back.
    page_bytes: usize,
    /// Starts and lengths.
    free: BTreeMap<usize, usize>,
    /// Starts of free pages that hold memory.
    warm: BTreeSet<usize>,
}

impl Pool {
    pub(super) const fn new() -> Self {
        Pool { shared: Vec::new() }
    }

    /// Zeroed memory of at most [`HUGE_PAGE_BYTES`], or `None` where the system has no more.
    pub(super) fn take(&mut self, bytes: usize) -> Option<NonNull<u8>> {
        debug_assert!((1..=HUGE_PAGE_BYTES).contains(&bytes));
        if let Some(start) = self.shared.iter_mut().find_map(|shared| shared.take(bytes)) {
            return Some(start);
        }
        let mut shared = if self.shared.is_empty() {
            Shared::new(FIRST_MAPPING_BYTES, PLAIN_PAGE_BYTES_MAX)?
        } else {
            Shared::new(MAPPING_BYTES, HUGE_PAGE_BYTES)?
        };
        let start = shared.take(bytes);
        self.shared.push(shared);
        start
    }

    /// Takes memory back.
    ///
    /// # Safety
    ///
    /// `start` comes from [`Pool::take`] of this pool with the same `bytes`, was not given back
    /// since, and nothing refers to it any more.
    pub(super) unsafe fn give_back(&mut self, start: NonNull<u8>, bytes: usize) {
        let owner = self.shared.iter().position(|shared| shared.offset_of(start).is_some());
        let owner = owner.expect("memory returns to the pool that it came from");
        let warm: usize = self.shared.iter().map(Shared::warm_bytes).sum();
        let shared = &mut self.shared[owner];
        let offset = shared.offset_of(start).expect("it lies here");
        // SAFETY: the caller's promise.
        unsafe {
            let range = offset..offset + bytes.next_multiple_of(GRAIN_BYTES);
            shared.give_back(range, WARM_BYTES_MAX.saturating_sub(warm));
        }
        if shared.is_free() {
            self.shared.remove(owner);
        }
    }
}

impl Shared {
    fn new(bytes: usize, page_bytes: usize) -> Option<Self> {
        let huge_bytes = if page_bytes == HUGE_PAGE_BYTES { bytes } else { 0 };
        let mapping = Mapping::new(bytes, huge_bytes)?;
        Some(Shared {
            mapping,
            page_bytes,
            free: BTreeMap::from([(0, bytes)]),
            warm: BTreeSet::new(),
        })
    }

    fn is_free(&self) -> bool {
        self.free.get(&0) == Some(&self.mapping.bytes())
    }

    fn warm_bytes(&self) -> usize {
        self.warm.len() * self.page_bytes
    }

    /// Where `start` lies in this mapping.
    fn offset_of(&self, start: NonNull<u8>) -> Option<usize> {
        let offset = (start.as_ptr() as usize).checked_sub(self.mapping.start().as_ptr() as usize);
        offset.filter(|offset| *offset < self.mapping.bytes())
    }

    fn take(&mut self, bytes: usize) -> Option<NonNull<u8>> {
        let bytes = bytes.next_multiple_of(GRAIN_BYTES);
        let (&start, &len) = self.free.iter().find(|(_, len)| **len >= bytes)?;
        self.free.remove(&start);
        if len > bytes {
            self.free.insert(start + bytes, len - bytes);
        }
        let page = start / self.page_bytes * self.page_bytes;
        while let Some(page) = self.warm.range(page..start + bytes).next().copied() {
            self.warm.remove(&page);
        }
        // SAFETY: free ranges lie in the mapping.
        Some(unsafe { self.mapping.start().add(start) })
    }

    /// Up to `warm` bytes more stay warm.
    ///
    /// # Safety
    ///
    /// `range` was taken, and nothing refers to it any more.
    unsafe fn give_back(&mut self, range: Range<usize>, warm: usize) {
        let free = self.join(range.clone());
        // The pages that `range` lies in, as far as nothing else lies in them.
        let page = self.page_bytes;
        let start = (range.start / page * page).max(free.start.next_multiple_of(page));
        let end = range.end.next_multiple_of(page).min(free.end / page * page);
        // The lowest stay, since they are taken first.
        let cold = (start + warm / page * page).min(end);
        self.warm.extend((start..cold).step_by(page));
        // SAFETY: `range` belonged to the caller, who promises that nothing refers to it; the
        // rest of the pages up to `free`, which holds them, is free.
        unsafe {
            if cold < end {
                self.mapping.discard(cold..end);
                self.mapping.clear(range.start..cold.max(range.start));
                self.mapping.clear(end.min(range.end)..range.end);
            } else {
                self.mapping.clear(range);
            }
        }
    }

    /// Adds `range` to the free ones; the whole free range around it.
    fn join(&mut self, range: Range<usize>) -> Range<usize> {
        let before = self.free.range(..range.start).next_back().map(|(start, len)| (*start, *len));
        let start = match before {
            Some((start, len)) if start + len == range.start => start,
            _ => range.start,
        };
        let end = range.end + self.free.remove(&range.end).unwrap_or(0);
        self.free.insert(start, end - start);
        start..end
    }
}

#[cfg(test)]
mod tests;
