//! A page in memory: its bytes, and where its cells are, once it was searched a few times.
//!
//! A step that changes one object sixteen times searches the same few pages each time. The first
//! searches of a page go from cell to cell; a later one notes where the cells begin, and from then
//! on keys are found by bisection and ranks by a look at the counts. Changes of single cells keep
//! the notes, all others drop them.
//!
//! Invariant: notes, if there are any, are those of the bytes.

use crate::page::{
    Cell, Spot, cell, child_of_key, child_of_rank, damaged, element_len, find_key, find_rank,
    order, skip_child, skip_element, take_varint, write_element,
};
use silica_base::{Result, varint_len, write_varint};
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

/// Bytes of a page from which on its cells are worth a note.
const INDEXED_BYTES_MIN: usize = 64;

/// Bytes of a cell, about, for which room is made.
const CELL_BYTES_USUAL: usize = 12;
/// Searches of a page before its cells are noted: that costs as much as one search or two.
const SEARCHES_MIN: u8 = 2;

/// Where the cells of a page begin.
#[derive(Debug, Clone, Default)]
struct Index {
    starts: Vec<u32>,
    /// Elements below each child; empty for a leaf.
    counts: Vec<u64>,
}

/// A page: its bytes, which it derefs to, and what is known of them.
#[derive(Debug, Default)]
pub struct Page {
    bytes: Vec<u8>,
    index: OnceLock<Index>,
    /// Searches so far, as long as nothing is noted.
    searches: AtomicU8,
}

impl Clone for Page {
    fn clone(&self) -> Self {
        let searches = AtomicU8::new(self.searches.load(Relaxed));
        Page { bytes: self.bytes.clone(), index: self.index.clone(), searches }
    }
}

impl PartialEq for Page {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Page {}

impl From<Vec<u8>> for Page {
    fn from(bytes: Vec<u8>) -> Self {
        Page { bytes, ..Page::default() }
    }
}

impl From<Page> for Vec<u8> {
    fn from(page: Page) -> Self {
        page.bytes
    }
}

impl Deref for Page {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A child that was found.
pub(crate) struct Child {
    pub(crate) cell: Cell,
    /// Elements before it in the page.
    pub(crate) before: u64,
    /// Children before it, if that is known.
    nth: usize,
}

impl Page {
    /// The bytes, for a change of more than one cell.
    pub(crate) fn edit(&mut self) -> &mut Vec<u8> {
        self.index = OnceLock::new();
        &mut self.bytes
    }

    /// Becomes `bytes`, in the memory that it has, or in new one with `room` bytes more.
    pub(crate) fn fill(&mut self, bytes: &[u8], room: usize) {
        let own = self.edit();
        own.clear();
        if own.capacity() < bytes.len() {
            own.reserve(bytes.len() + room);
        }
        own.extend_from_slice(bytes);
        self.searches = AtomicU8::new(0);
    }

    /// Bytes of memory beside the page itself, without its notes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Where the cells begin, once that is worth it; `None` of a page that is small, was seldom
    /// searched, or is damaged.
    fn index(&self, height: u8) -> Option<&Index> {
        if let Some(index) = self.index.get() {
            return Some(index);
        }
        let searches = self.searches.load(Relaxed);
        if searches < SEARCHES_MIN || self.bytes.len() < INDEXED_BYTES_MIN {
            // Others may count at the same time: it is about the costs alone.
            self.searches.store(searches.saturating_add(1), Relaxed);
            return None;
        }
        let index = self.read_index(height).ok()?;
        Some(self.index.get_or_init(|| index))
    }

    #[inline(never)]
    fn read_index(&self, height: u8) -> Result<Index> {
        let cells = self.bytes.len() / CELL_BYTES_USUAL;
        let counts = Vec::with_capacity(if height == 0 { 0 } else { cells });
        let (mut at, mut index) = (0, Index { starts: Vec::with_capacity(cells), counts });
        while at < self.bytes.len() {
            index.starts.push(u32::try_from(at).map_err(|_| damaged("it is too long"))?);
            if height == 0 {
                skip_element(&self.bytes, &mut at)?;
            } else {
                index.counts.push(skip_child(&self.bytes, &mut at)?.0);
            }
        }
        Ok(index)
    }

    /// Where `key` is in a leaf, or belongs.
    pub(crate) fn find_key(&self, key: &[u8]) -> Result<Spot> {
        let Some(index) = self.index(0) else { return find_key(&self.bytes, key) };
        let (mut low, mut high) = (0, index.starts.len());
        while low < high {
            let middle = low.midpoint(high);
            let mut at = index.starts[middle] as usize;
            let (start, end) = skip_element(&self.bytes, &mut at)?;
            match order(&self.bytes[start..end], key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => {
                    let at = index.starts[middle] as usize;
                    return Ok(Spot { at, rank: middle as u64, is_found: true });
                }
            }
        }
        let at = index.starts.get(low).map_or(self.bytes.len(), |at| *at as usize);
        Ok(Spot { at, rank: low as u64, is_found: false })
    }

    /// The element of `rank` in a leaf, or the leaf's end.
    pub(crate) fn find_rank(&self, rank: u64) -> Result<Spot> {
        let Some(index) = self.index(0) else { return find_rank(&self.bytes, rank) };
        let cells = index.starts.len();
        Ok(match usize::try_from(rank).ok().and_then(|rank| index.starts.get(rank)) {
            Some(at) => Spot { at: *at as usize, rank, is_found: true },
            None => Spot { at: self.bytes.len(), rank: cells as u64, is_found: false },
        })
    }

    /// The child under which `key` is, or belongs. How many elements come before it is told only
    /// if that `counts`.
    pub(crate) fn child_of_key(&self, height: u8, key: &[u8], counts: bool) -> Result<Child> {
        let Some(index) = self.index(height) else {
            let (cell, before, nth) = child_of_key(&self.bytes, height, key)?;
            return Ok(Child { cell, before, nth });
        };
        // The key of the first child says nothing.
        let (mut low, mut high) = (1, index.starts.len());
        while low < high {
            let middle = low.midpoint(high);
            let mut at = index.starts[middle] as usize;
            let (_, (start, end)) = skip_child(&self.bytes, &mut at)?;
            match order(&self.bytes[start..end], key) {
                std::cmp::Ordering::Greater => high = middle,
                _ => low = middle + 1,
            }
        }
        let nth = low - 1;
        let before = if counts { index.counts[..nth].iter().sum() } else { 0 };
        Ok(Child { cell: index.cell(&self.bytes, height, nth)?, before, nth })
    }

    /// The child with the element of `rank` of the `len` elements below the page, or, with
    /// `is_insert`, where one of that rank belongs.
    pub(crate) fn child_of_rank(
        &self,
        height: u8,
        (rank, len): (u64, u64),
        is_insert: bool,
    ) -> Result<Child> {
        let Some(index) = self.index(height) else {
            let (cell, before, nth) = child_of_rank(&self.bytes, height, rank, is_insert)?;
            return Ok(Child { cell, before, nth });
        };
        let last = index.counts.len().saturating_sub(1);
        let (mut nth, mut before) = (0, 0);
        if rank <= len / 2 {
            let is_before = |end: u64| if is_insert { end < rank } else { end <= rank };
            while nth < last && is_before(before + index.counts[nth]) {
                before += index.counts[nth];
                nth += 1;
            }
        } else {
            let wrong = || damaged("a count is wrong");
            let is_behind = |start: u64| if is_insert { start >= rank } else { start > rank };
            nth = last;
            before = len.checked_sub(index.counts[nth]).ok_or_else(wrong)?;
            while nth > 0 && is_behind(before) {
                nth -= 1;
                before = before.checked_sub(index.counts[nth]).ok_or_else(wrong)?;
            }
        }
        Ok(Child { cell: index.cell(&self.bytes, height, nth)?, before, nth })
    }

    /// The cell before the one at `end`.
    pub(crate) fn cell_before(&self, height: u8, end: usize) -> Result<Option<Cell>> {
        if let Some(index) = self.index.get() {
            let nth = index.starts.partition_point(|start| (*start as usize) < end);
            return nth.checked_sub(1).map(|nth| index.cell(&self.bytes, height, nth)).transpose();
        }
        let (mut at, mut before) = (0, None);
        while at < end {
            before = Some(at);
            skip_child(&self.bytes, &mut at)?;
        }
        before.map(|at| cell(&self.bytes, height, at)).transpose()
    }

    /// Makes the cell of `child` say that `count` elements are below it.
    pub(crate) fn set_count(&mut self, child: &Child, count: u64) -> Result<()> {
        let mut at = child.cell.range.start;
        take_varint(&self.bytes, &mut at)?;
        let mut end = at;
        take_varint(&self.bytes, &mut end)?;
        let (old_len, new_len) = (end - at, varint_len(count));
        if old_len == new_len {
            write_number(&mut self.bytes[at..end], count);
        } else {
            let mut number = Vec::with_capacity(new_len);
            write_varint(&mut number, count);
            self.bytes.splice(at..end, number);
        }
        if let Some(index) = self.index.get_mut() {
            index.counts[child.nth] = count;
            index.move_starts(child.nth + 1, old_len, new_len);
        }
        Ok(())
    }

    /// Puts an element where the old one of these bytes was, or, if these are none, before the one
    /// at their place: room is made once, and the element is written into it.
    pub(crate) fn put_element(&mut self, spot: Spot, old: Range<usize>, key: &[u8], value: &[u8]) {
        let (behind, new_len) = (self.bytes.len() - old.end, element_len(key, value));
        if new_len > old.len() {
            self.bytes.resize(self.bytes.len() + new_len - old.len(), 0);
        }
        self.bytes.copy_within(old.end..old.end + behind, old.start + new_len);
        self.bytes.truncate(old.start + new_len + behind);
        write_element(&mut self.bytes[old.start..old.start + new_len], key, value);
        if let Some(index) = self.index.get_mut() {
            if old.is_empty() {
                index.starts.insert(spot.rank as usize, spot.at as u32);
            }
            index.move_starts(spot.rank as usize + 1, old.len(), new_len);
        }
    }

    /// Removes the element at `spot`, which has these bytes.
    pub(crate) fn remove_element(&mut self, spot: Spot, old: Range<usize>) {
        let len = old.len();
        self.bytes.drain(old);
        if let Some(index) = self.index.get_mut() {
            index.starts.remove(spot.rank as usize);
            index.move_starts(spot.rank as usize, len, 0);
        }
    }
}

impl Index {
    fn cell(&self, bytes: &[u8], height: u8, nth: usize) -> Result<Cell> {
        let at = self.starts.get(nth).ok_or_else(|| damaged("a node is empty"))?;
        cell(bytes, height, *at as usize)
    }

    /// What begins from cell `nth` on has moved, as `old_len` bytes before it are `new_len` now.
    fn move_starts(&mut self, nth: usize, old_len: usize, new_len: usize) {
        let by = (new_len as u32).wrapping_sub(old_len as u32);
        if by != 0 {
            self.starts[nth..].iter_mut().for_each(|start| *start = start.wrapping_add(by));
        }
    }
}

/// Writes a varint into exactly as many bytes as it takes.
fn write_number(out: &mut [u8], mut value: u64) {
    let last = out.len() - 1;
    for byte in &mut out[..last] {
        *byte = value as u8 | 0x80;
        value >>= 7;
    }
    out[last] = value as u8;
}

/// A page that is changed once something is known to change.
pub(crate) trait Changing {
    fn read(&self) -> &Page;
    fn write(&mut self) -> &mut Page;
}

impl Changing for Page {
    fn read(&self) -> &Page {
        self
    }

    fn write(&mut self) -> &mut Page {
        self
    }
}

impl Changing for Arc<Page> {
    fn read(&self) -> &Page {
        self
    }

    fn write(&mut self) -> &mut Page {
        Arc::make_mut(self)
    }
}
