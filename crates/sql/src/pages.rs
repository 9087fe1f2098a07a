//! Pages: entries of a tree that lie side by side, copied, for statements that come back to the
//! same places again and again, as joins and subqueries do. A search in a page takes a tenth of the
//! instructions of one in the engine.
//!
//! 1. Pages are of the one moment that a transaction reads, so nothing changes what they say. A
//!    transaction that writes has none, and they all go when the transaction ends.
//! 2. A page has all entries of its tree from where it begins and before where it ends.
//! 3. Pages of a tree do not overlap.
//! 4. A search earns credit, hit or not, and a page costs some for each entry: so making pages in
//!    vain costs no more than the searches that earned it.

use crate::failure::Result;
use crate::layout::{PREFIX_BYTES, rowid_of};
use crate::long_keys::{Entries, LONG_KEY_BYTES, is_long};
use silica::engine::EntryBurst;
use std::rc::Rc;

/// Entries and bytes of a page at most; the last entry may lead beyond.
const ENTRIES_MAX: usize = 16;
const PAGE_BYTES_MAX: usize = 4 << 10;
/// Larger ones are not kept: a record of them has nearly all.
const KEPT_BYTES_MAX: usize = 16 << 10;
/// Bytes that a page takes beside its entries, about.
const PAGE_BYTES: usize = 256;

/// Searches of a transaction before it has pages at all: most statements make fewer.
const SEARCHES_MIN: u32 = 128;
/// Credit that a tree begins with: some dozens of searches make no page.
const CREDIT_MIN: i64 = -32;
const CREDIT_MAX: i64 = 512;
/// Credit that a search earns while pages are come back to. Copying an entry costs one. A search in
/// the engine takes some four times the instructions of that (`docs/benchmarks/sql-reads.md`).
const EARNED: i64 = 5;
/// While they are hardly come back to, in a tree that fits into the pages' memory, and in others.
const EARNED_IN_SMALL: i64 = 2;
const EARNED_IN_LARGE: i64 = 1;
/// Copied entries after which it is told whether they are come back to, and after which what was
/// before counts half.
const COPIED_MIN: i64 = 64;
const COPIED_MAX: i64 = 256;
/// Searches in a large tree that make no pages after some were in vain: so many at first, and twice
/// as many each time.
const PAUSE_MIN: u32 = 256;
const PAUSE_MAX: u32 = 8192;

/// An entry that a cursor has come to, as C reads it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct SilicaEntry {
    pub(crate) rowid: i64,
    pub(crate) record: *const u8,
    pub(crate) size: u32,
}

/// See the module's documentation.
pub(crate) struct Page {
    from: Box<[u8]>,
    /// The first key that it says nothing of; `None` at the end of the tree.
    to: Option<Box<[u8]>>,
    /// Keys and records, one entry after the other.
    bytes: Box<[u8]>,
    /// As C reads them: they point into `bytes`.
    shown: Box<[SilicaEntry]>,
    /// Where each entry starts in `bytes`.
    starts: Box<[u32]>,
    is_of_rows: bool,
}

impl Page {
    /// Reads a page of a tree from `from` on, through `burst`; `None` if its entries are not for a
    /// page. `before` is where the next page begins.
    ///
    /// # Errors
    /// Those of the iterator.
    fn read(
        iterator: &mut Entries,
        burst: &mut EntryBurst,
        (from, before): (&[u8], Option<&[u8]>),
        is_of_rows: bool,
    ) -> Result<Option<Page>> {
        burst.begin(ENTRIES_MAX, PAGE_BYTES_MAX);
        let mut is_there = iterator.seek(from)?;
        if is_there {
            burst.push(iterator.key(), iterator.record());
            is_there = iterator.next_many(burst)?;
        }
        if burst.key_bytes_max() > LONG_KEY_BYTES {
            return Ok(None);
        }
        let mut to = is_there.then(|| [burst.key(burst.len() - 1), &[0]].concat());
        if let Some(before) = before
            && to.as_ref().is_none_or(|to| **to > *before)
        {
            let kept = (0..burst.len()).rposition(|at| burst.key(at) < before);
            burst.truncate(kept.map_or(0, |at| at + 1));
            to = Some(before.to_vec());
        }
        let bytes = burst.iter().map(|(key, record)| key.len() + record.len()).sum();
        if bytes > KEPT_BYTES_MAX {
            return Ok(None);
        }
        Ok(Some(Page::copy(burst, bytes, (from, to), is_of_rows)))
    }

    fn copy(
        burst: &EntryBurst,
        bytes: usize,
        (from, to): (&[u8], Option<Vec<u8>>),
        is_of_rows: bool,
    ) -> Page {
        let mut copied = Vec::with_capacity(bytes);
        let mut starts = Vec::with_capacity(burst.len());
        for (key, record) in burst.iter() {
            starts.push(copied.len() as u32);
            copied.extend_from_slice(key);
            copied.extend_from_slice(record);
        }
        let bytes = copied.into_boxed_slice();
        let shown = burst.iter().zip(&starts).map(|((key, record), start)| SilicaEntry {
            rowid: if is_of_rows { rowid_of(key).unwrap_or_default() } else { 0 },
            record: bytes[*start as usize + key.len()..].as_ptr(),
            size: record.len() as u32,
        });
        let (shown, starts) = (shown.collect(), starts.into_boxed_slice());
        let to = to.map(Vec::into_boxed_slice);
        Page { from: from.into(), to, bytes, shown, starts, is_of_rows }
    }

    /// Bytes of memory, about.
    fn memory_bytes(&self) -> usize {
        PAGE_BYTES + 2 * self.from.len() + self.bytes.len() + 28 * self.shown.len()
    }

    /// Its entries for C.
    pub(crate) fn shown(&self) -> &[SilicaEntry] {
        &self.shown
    }

    /// Where it ends, if that is not the end of the tree.
    pub(crate) fn to(&self) -> Option<&[u8]> {
        self.to.as_deref()
    }

    /// Key and record of entry `at`.
    pub(crate) fn entry(&self, at: usize) -> (&[u8], &[u8]) {
        let end = self.starts.get(at + 1).map_or(self.bytes.len(), |end| *end as usize);
        let entry = &self.bytes[self.starts[at] as usize..end];
        entry.split_at(entry.len() - self.shown[at].size as usize)
    }

    /// The first entry that is not below `key`, and whether it is `key`.
    pub(crate) fn place_of(&self, key: &[u8]) -> (usize, bool) {
        if self.is_of_rows
            && let Some(rowid) = rowid_of(key)
        {
            let at = self.shown.partition_point(|entry| entry.rowid < rowid);
            return (at, self.shown.get(at).is_some_and(|entry| entry.rowid == rowid));
        }
        let (mut low, mut high) = (0, self.shown.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.entry(middle).0 < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        (low, low < self.shown.len() && self.entry(low).0 == key)
    }

    fn has(&self, key: &[u8]) -> bool {
        self.to.as_ref().is_none_or(|to| *key < **to)
    }
}

/// The pages of one tree.
struct Tree {
    root: u32,
    /// In order, each with what its first key begins with behind the tree's prefix.
    pages: Vec<(u64, Rc<Page>)>,
    bytes: usize,
    is_small: bool,
    credit: i64,
    earned: i64,
    /// Searches for which no page is looked for, and how many the next time.
    paused: u32,
    pause: u32,
    /// Entries that were copied, and searches that a page answered, since that was looked at.
    copied: i64,
    hits: i64,
}

/// What a key begins with behind its tree's prefix.
fn head(key: &[u8]) -> u64 {
    let rest = key.get(PREFIX_BYTES..).unwrap_or_default();
    match rest.first_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..rest.len()].copy_from_slice(rest);
            u64::from_be_bytes(bytes)
        }
    }
}

impl Tree {
    /// The pages that begin at `key` or before.
    fn before(&self, key: &[u8]) -> usize {
        let head = head(key);
        self.pages.partition_point(|(of, page)| *of < head || *of == head && *page.from <= *key)
    }

    fn find(&mut self, key: &[u8]) -> Known {
        if self.paused > 0 {
            self.paused -= 1;
            return Known::Nothing;
        }
        self.credit = (self.credit + self.earned).min(CREDIT_MAX);
        let before = self.before(key).checked_sub(1);
        match before.map(|at| &self.pages[at].1).filter(|page| page.has(key)) {
            Some(page) => {
                self.hits += 1;
                if EARNED * self.hits >= self.copied {
                    self.earned = EARNED;
                }
                Known::Page(Rc::clone(page))
            }
            None if self.credit >= 0 && !is_long(key) => Known::Worth,
            None => Known::Nothing,
        }
    }

    /// Notes that a page is made.
    fn pay(&mut self) {
        self.credit -= ENTRIES_MAX as i64;
        self.copied += ENTRIES_MAX as i64;
        if EARNED * self.hits < self.copied {
            self.earned = if self.is_small { EARNED_IN_SMALL } else { EARNED_IN_LARGE };
            if !self.is_small && self.copied >= COPIED_MIN {
                (self.paused, self.pause) = (self.pause, (2 * self.pause).min(PAUSE_MAX));
                (self.copied, self.hits) = (0, 0);
            }
        }
        if self.copied > COPIED_MAX {
            (self.copied, self.hits) = (self.copied / 2, self.hits / 2);
        }
    }
}

/// What is known of a place in a tree.
pub(crate) enum Known {
    Page(Rc<Page>),
    /// No page says what is there, and one is worth its making.
    Worth,
    Nothing,
}

/// The pages of a transaction.
#[derive(Default)]
pub(crate) struct Pages {
    trees: Vec<Tree>,
    searches: u32,
    burst: EntryBurst,
    bytes: usize,
    bytes_max: usize,
}

impl Pages {
    /// So many bytes at most.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Pages { bytes_max, ..Pages::default() }
    }

    pub(crate) fn clear(&mut self) {
        self.searches = 0;
        if !self.trees.is_empty() {
            (self.trees, self.burst, self.bytes) = (Vec::new(), EntryBurst::default(), 0);
        }
    }

    /// Searches for the page that says what is at `key`. `bytes_of` tells about how many bytes a
    /// tree has.
    pub(crate) fn find(
        &mut self,
        root: u32,
        key: &[u8],
        bytes_of: impl FnOnce(u32) -> u64,
    ) -> Known {
        if self.searches < SEARCHES_MIN {
            self.searches += 1;
            return Known::Nothing;
        }
        let at = self.trees.iter().position(|tree| tree.root == root);
        let at = at.unwrap_or_else(|| {
            let is_small = bytes_of(root) <= self.bytes_max as u64 / 2;
            self.trees.push(Tree {
                root,
                pages: Vec::new(),
                bytes: 0,
                is_small,
                credit: CREDIT_MIN,
                earned: if is_small { EARNED_IN_SMALL } else { EARNED_IN_LARGE },
                paused: 0,
                pause: PAUSE_MIN,
                copied: 0,
                hits: 0,
            });
            self.trees.len() - 1
        });
        self.trees[at].find(key)
    }

    /// Makes the page that begins with `key`, of which none says what is there.
    ///
    /// # Errors
    /// Those of the iterator.
    pub(crate) fn make(
        &mut self,
        root: u32,
        key: &[u8],
        is_of_rows: bool,
        iterator: &mut Entries,
    ) -> Result<Option<Rc<Page>>> {
        let tree = self.trees.iter_mut().find(|tree| tree.root == root);
        let tree = tree.expect("it was searched in");
        let place = tree.before(key);
        let before = tree.pages.get(place).map(|(_, page)| Rc::clone(page));
        let before = before.as_ref().map(|page| &page.from[..]);
        tree.pay();
        let (burst, bounds) = (&mut self.burst, (key, before));
        let page = Page::read(iterator, burst, bounds, is_of_rows)?;
        let Some(page) = page.map(Rc::new) else { return Ok(None) };
        tree.pages.insert(place, (head(key), Rc::clone(&page)));
        tree.bytes += page.memory_bytes();
        self.bytes += page.memory_bytes();
        if self.bytes > self.bytes_max {
            self.make_room();
        }
        Ok(Some(page))
    }

    /// Drops the pages of the tree that has most: those of small ones are come back to most often.
    fn make_room(&mut self) {
        if let Some(tree) = self.trees.iter_mut().max_by_key(|tree| tree.bytes) {
            tree.pages.clear();
            self.bytes -= std::mem::take(&mut tree.bytes);
        }
    }
}
