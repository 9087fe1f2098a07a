//! A tree of elements, in the order of their keys or in the one in which they were put: a B+tree
//! that counts, with its root in the value of the object's key.
//!
//! Every node knows how many elements are below each of its children, so an element is found by its
//! key and by its place, both in as many pages as the tree has levels. A small tree is its root
//! alone and has no pages.
//!
//! Invariants:
//! 1. Every page has at least one cell. A leaf with more than one has at most [`PAGE_BYTES_MAX`]
//!    bytes, and so has a node with more than seven: long keys do not make nodes of one child.
//! 2. The count of a child is the number of elements below it.
//! 3. No element below a child has a key less than the child's, except below the first child of a
//!    node, and all below the child before it have a lesser one. Keys of a tree in the order of
//!    positions are empty.

use crate::indexed::{Changing, Child, Page};
use crate::page::{Cell, Spot, cell, damaged, starts, take_bytes, take_varint, write_child};
pub use crate::pages::Direction;
use crate::pages::{Allocation, PageId, Pages};
use crate::parts::split;
use silica_base::{Result, write_varint};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a page with more than one cell.
pub const PAGE_BYTES_MAX: usize = 1024;
/// Bytes of a root above pages: it is written with every change of the object.
pub(crate) const ROOT_BYTES_MAX: usize = 256;
/// A page with fewer bytes is joined with one beside it, if both fill at most three quarters.
const PAGE_BYTES_MIN: usize = PAGE_BYTES_MAX / 4;
const JOINED_BYTES_MAX: usize = PAGE_BYTES_MAX / 4 * 3;

/// Bytes for which a root has room when it was read: for an element more.
const ROOM: usize = 64;
/// Elements that are removed one by one: more of them are cut out, for which nodes are written
/// anew.
pub(crate) const FEW_MAX: u64 = 8;

/// A key and its value.
pub type Element = (Vec<u8>, Vec<u8>);

/// The height of a tree whose elements are entries.
pub(crate) const ENTRIES: u8 = u8::MAX;

/// The root of a tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Tree {
    root: Page,
    height: u8,
    count: u64,
}

impl Tree {
    pub(crate) fn len(&self) -> u64 {
        self.count
    }

    pub(crate) fn height(&self) -> u8 {
        self.height
    }

    pub(crate) fn root(&self) -> &[u8] {
        &self.root
    }

    /// One whose elements are entries has no root, not even an empty one: what knows none of these
    /// fails to read it, where an empty node would look like a tree without elements.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(self.height);
        write_varint(out, self.count);
        if self.height == ENTRIES {
            return;
        }
        write_varint(out, self.root.len() as u64);
        out.extend_from_slice(&self.root);
    }

    /// Becomes the tree at `*at`, in the memory that it has, and moves behind it.
    pub(crate) fn decode_again(&mut self, bytes: &[u8], at: &mut usize) -> Result<()> {
        self.height = *bytes.get(*at).ok_or_else(|| damaged("a tree is cut short"))?;
        *at += 1;
        self.count = take_varint(bytes, at)?;
        let len = if self.height == ENTRIES { 0 } else { take_varint(bytes, at)? };
        self.root.fill(&bytes[take_bytes(bytes, at, len)?], ROOM);
        Ok(())
    }

    pub(crate) fn reset(&mut self) {
        (self.height, self.count) = (0, 0);
        self.root.fill(&[], 0);
    }

    /// Becomes one whose elements are entries, without any yet.
    pub(crate) fn become_entries(&mut self) {
        self.reset();
        self.height = ENTRIES;
    }

    /// Notes that there are so many elements more.
    pub(crate) fn grow(&mut self, added: i64) {
        self.count = self.count.saturating_add_signed(added);
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.root.held_bytes()
    }
}

/// What is done to one element.
#[derive(Clone, Copy)]
enum Op<'o> {
    /// Stores the value of a key.
    Put(&'o [u8], &'o [u8]),
    Remove(&'o [u8]),
    /// Inserts an element so that so many come before it.
    Insert(u64, &'o [u8], &'o [u8]),
    /// Sets the value of the element of a rank.
    Set(u64, &'o [u8]),
    RemoveAt(u64),
}

/// What a change has done below a page.
struct Done {
    /// The value that was there, and its key if only its rank was known.
    old: Option<Element>,
    /// How many elements there are more.
    added: i64,
    /// Where the page was changed.
    at: usize,
    /// The bytes of the page itself have changed.
    is_changed: bool,
}

/// A tree and its pages.
pub struct TreeMut<'t> {
    pub(crate) tree: &'t mut Tree,
    pub(crate) allocation: &'t mut Allocation,
    pub(crate) pages: &'t mut dyn Pages,
    /// Which of the object's trees it is.
    pub(crate) nth: usize,
}

impl TreeMut<'_> {
    /// Elements of it.
    pub fn len(&self) -> u64 {
        self.tree.count
    }

    /// True if it has none.
    pub fn is_empty(&self) -> bool {
        self.tree.count == 0
    }

    fn page(&self, number: u64) -> PageId {
        PageId { object: self.allocation.id, number }
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// Those of the pages, here and below.
    pub fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.look_at(key, |value| Ok(value.map(<[u8]>::to_vec)))
    }

    /// What `tell` says of the value of `key`, where it lies.
    pub(crate) fn look_at<T>(
        &mut self,
        key: &[u8],
        tell: impl FnOnce(Option<&[u8]>) -> Result<T>,
    ) -> Result<T> {
        if self.is_entries() {
            return tell(self.entry(key)?.as_deref());
        }
        let of_spot = |bytes: &Page, spot: Spot| match spot.is_found {
            true => tell(Some(&bytes[cell(bytes, 0, spot.at)?.value])),
            false => tell(None),
        };
        self.at_key(key, false, of_spot).map(|(_, told)| told)
    }

    /// True if `key` is there.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn contains(&mut self, key: &[u8]) -> Result<bool> {
        if self.is_entries() {
            return Ok(self.entry(key)?.is_some());
        }
        self.at_key(key, false, |_, spot| Ok(spot.is_found)).map(|(_, is_found)| is_found)
    }

    /// How many keys are less than `key`, and whether it is there.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn find(&mut self, key: &[u8]) -> Result<(u64, bool)> {
        if self.is_entries() {
            return self.find_entry(key);
        }
        let (before, spot) = self.at_key(key, true, |_, spot| Ok(spot))?;
        Ok((before + spot.rank, spot.is_found))
    }

    /// What `tell` says of the leaf that `key` belongs to, and the elements before that leaf, if it
    /// `counts` them.
    fn at_key<T>(
        &mut self,
        key: &[u8],
        counts: bool,
        tell: impl FnOnce(&Page, Spot) -> Result<T>,
    ) -> Result<(u64, T)> {
        let root = &self.tree.root;
        if self.tree.height == 0 {
            return Ok((0, tell(root, root.find_key(key)?)?));
        }
        let mut child = root.child_of_key(self.tree.height, key, counts)?;
        let mut before = child.before;
        for height in (1..self.tree.height).rev() {
            let page = self.page(child.cell.page);
            child = self.pages.get(page)?.child_of_key(height, key, counts)?;
            before += child.before;
        }
        let page = self.page(child.cell.page);
        let leaf = self.pages.get(page)?;
        Ok((before, tell(&leaf, leaf.find_key(key)?)?))
    }

    /// The element with `rank` others before it.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn at(&mut self, rank: u64) -> Result<Option<Element>> {
        let mut found = None;
        if rank < self.tree.count {
            self.scan(rank, Direction::Forward, &mut |key, value| {
                found = Some((key.to_vec(), value.to_vec()));
                false
            })?;
        }
        Ok(found)
    }

    /// Stores `value` at `key` and returns the value that it had.
    ///
    /// # Errors
    /// Those of the pages. The tree is of no use then, here and below.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        if self.is_entries() {
            let old = self.entry(key)?;
            self.put_entry(key, value, old.is_none());
            return Ok(old);
        }
        Ok(self.change(Op::Put(key, value))?.old.map(|(_, value)| value))
    }

    /// Removes `key` and returns its value.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn remove(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if self.is_entries() {
            let old = self.entry(key)?;
            if old.is_some() {
                self.remove_entry(key);
            }
            return Ok(old);
        }
        Ok(self.change(Op::Remove(key))?.old.map(|(_, value)| value))
    }

    /// Inserts an element with `rank` others before it, or at the end. It is the caller's to keep
    /// keys in order.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn insert_at(&mut self, rank: u64, key: &[u8], value: &[u8]) -> Result<()> {
        let rank = rank.min(self.tree.count);
        self.change(Op::Insert(rank, key, value)).map(|_| ())
    }

    /// Sets the value of the element with `rank` others before it; false if there is none.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn set_at(&mut self, rank: u64, value: &[u8]) -> Result<bool> {
        if rank >= self.tree.count {
            return Ok(false);
        }
        self.change(Op::Set(rank, value)).map(|_| true)
    }

    /// Removes the element with `rank` others before it, and returns it.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn remove_at(&mut self, rank: u64) -> Result<Option<Element>> {
        if rank >= self.tree.count {
            return Ok(None);
        }
        Ok(self.change(Op::RemoveAt(rank))?.old)
    }

    /// Removes the elements whose ranks are in `ranks`. Leaves of which nothing stays are not read.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn remove_ranks(&mut self, ranks: Range<u64>) -> Result<u64> {
        let end = ranks.end.min(self.tree.count);
        if ranks.start >= end {
            return Ok(0);
        }
        if end - ranks.start <= FEW_MAX {
            (ranks.start..end).try_for_each(|_| self.remove_at(ranks.start).map(drop))?;
            return Ok(end - ranks.start);
        }
        if self.is_entries() {
            return Err(damaged("elements that are entries are not removed by their ranks"));
        }
        let mut root = std::mem::take(&mut self.tree.root);
        self.cut(&mut root, self.tree.height, ranks.start..end)?;
        self.tree.root = root;
        self.tree.count -= end - ranks.start;
        self.lower()?;
        Ok(end - ranks.start)
    }

    /// Removes every element.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn clear(&mut self) -> Result<()> {
        if self.is_entries() {
            return self.clear_entries();
        }
        let mut all = Vec::new();
        self.page_ids(&mut all)?;
        all.into_iter().for_each(|page| self.pages.remove(page));
        *self.tree = Tree::default();
        Ok(())
    }

    /// Appends the names of all its pages to `all`.
    pub(crate) fn page_ids(&mut self, all: &mut Vec<PageId>) -> Result<()> {
        let root = self.tree.root.to_vec();
        self.ids_below(&root, self.tree.height, all)
    }

    fn ids_below(&mut self, bytes: &[u8], height: u8, all: &mut Vec<PageId>) -> Result<()> {
        if height == 0 || height == ENTRIES {
            return Ok(());
        }
        for at in starts(bytes, height)? {
            let id = self.page(cell(bytes, height, at)?.page);
            all.push(id);
            if height > 1 {
                let below = self.pages.get(id)?;
                self.ids_below(&below, height - 1, all)?;
            }
        }
        Ok(())
    }

    /// Calls `each` with the elements from `rank` on, until it returns false. Backwards the element
    /// with `rank` others *before* it comes first, too.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn scan(
        &mut self,
        rank: u64,
        direction: Direction,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        if self.tree.count == 0 || (rank >= self.tree.count && direction == Direction::Forward) {
            return Ok(());
        }
        let rank = rank.min(self.tree.count - 1);
        if self.is_entries() {
            return self.scan_entries(rank, direction, each);
        }
        let root = std::mem::take(&mut self.tree.root);
        let len = self.tree.count;
        let result = self.scan_below(&root, self.tree.height, (rank, len), direction, each);
        self.tree.root = root;
        result.map(|_| ())
    }

    /// Goes over the `len` elements below a page from the one of a rank on, backwards if `rank` is
    /// not below the number of elements from the last one; false if `each` wants no more.
    fn scan_below(
        &mut self,
        page: &Page,
        height: u8,
        (rank, len): (u64, u64),
        direction: Direction,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<bool> {
        let (mut at, mut before) = (0, 0);
        if direction == Direction::Forward {
            if rank > 0 && height == 0 {
                (at, before) = (page.find_rank(rank)?.at, rank);
            } else if rank > 0 {
                let child = page.child_of_rank(height, (rank, len), false)?;
                (at, before) = (child.cell.range.start, child.before);
            }
            while at < page.len() {
                let cell = cell(page, height, at)?;
                let below = rank.saturating_sub(before);
                (at, before) = (cell.range.end, before + cell.count);
                if !self.scan_cell(page, height, (cell, below), direction, each)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let mut cells = Vec::new();
        while at < page.len() && before <= rank {
            let cell = cell(page, height, at)?;
            let start = before;
            (at, before) = (cell.range.end, before + cell.count);
            cells.push((cell, rank - start));
        }
        for from in cells.into_iter().rev() {
            if !self.scan_cell(page, height, from, direction, each)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Goes over an element, or what is below a child from the element of a rank on.
    fn scan_cell(
        &mut self,
        bytes: &[u8],
        height: u8,
        (cell, rank): (Cell, u64),
        direction: Direction,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<bool> {
        if height == 0 {
            return Ok(each(&bytes[cell.key], &bytes[cell.value]));
        }
        let page = self.page(cell.page);
        let below = self.pages.get(page)?;
        self.scan_below(&below, height - 1, (rank, cell.count), direction, each)
    }

    /// Changes one element, and then the root's shape.
    fn change(&mut self, op: Op<'_>) -> Result<Done> {
        if self.is_entries() {
            return Err(damaged("elements that are entries are not changed by their ranks"));
        }
        let mut root = std::mem::take(&mut self.tree.root);
        let done = self.change_in(&mut root, self.tree.height, self.tree.count, op)?;
        self.tree.root = root;
        self.tree.count = self.tree.count.saturating_add_signed(done.added);
        if done.added < 0 {
            self.lower()?;
        }
        self.raise(done.at)?;
        Ok(done)
    }

    /// Changes one of the `len` elements below a page.
    fn change_in<P: Changing>(
        &mut self,
        page: &mut P,
        height: u8,
        len: u64,
        op: Op<'_>,
    ) -> Result<Done> {
        if height == 0 {
            return change_leaf(page, op);
        }
        let (child, op) = child_of(page.read(), height, len, op)?;
        let id = self.page(child.cell.page);
        let mut below = self.pages.take(id)?;
        let done = self.change_in(&mut below, height - 1, child.cell.count, op)?;
        let is_changed = self.settle(page, height, &child, (below, &done))?;
        Ok(Done { at: child.cell.range.start, is_changed, ..done })
    }

    /// Puts a child's page back after a change, in several parts if it is large, and makes the
    /// child's cell in `page` say so; false if that says so already.
    fn settle<P: Changing>(
        &mut self,
        page: &mut P,
        height: u8,
        child: &Child,
        (below, done): (Arc<Page>, &Done),
    ) -> Result<bool> {
        let (cell, id) = (&child.cell, self.page(child.cell.page));
        if !done.is_changed {
            self.pages.put_back(id, below);
            return Ok(false);
        }
        let count = cell.count.saturating_add_signed(done.added);
        let len = below.len();
        if len == 0 || len > PAGE_BYTES_MAX {
            self.replace_child(page.write().edit(), height, cell, (below, count, done.at))?;
        } else {
            self.pages.put(id, below);
            if count == cell.count {
                return Ok(false);
            }
            page.write().set_count(child, count)?;
        }
        if done.added < 0 && !(PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&len) {
            self.join(page.write(), height, cell.range.start)?;
        }
        Ok(true)
    }

    /// Puts the page of a child, which has `count` elements below it and was changed at `at`, in
    /// several parts, or takes it away if it is empty.
    fn replace_child(
        &mut self,
        bytes: &mut Vec<u8>,
        height: u8,
        child: &Cell,
        (below, count, at): (Arc<Page>, u64, usize),
    ) -> Result<()> {
        if below.is_empty() {
            self.pages.remove(self.page(child.page));
            bytes.drain(child.range.clone());
            return Ok(());
        }
        let key = bytes[child.key.clone()].to_vec();
        let mut cells = Vec::with_capacity(child.range.len() + 1);
        let parts = split(&below, height - 1, PAGE_BYTES_MAX, at)?;
        if parts.len() == 1 {
            write_child(&mut cells, child.page, count, &key);
            self.pages.put(self.page(child.page), below);
        } else {
            for (nth, part) in parts.into_iter().enumerate() {
                let number = if nth == 0 { child.page } else { self.new_page()? };
                let key = if nth == 0 { &key } else { &part.key };
                write_child(&mut cells, number, part.count, key);
                self.put_bytes(number, below[part.range].to_vec());
            }
        }
        bytes.splice(child.range.clone(), cells);
        Ok(())
    }

    fn put_bytes(&mut self, number: u64, bytes: Vec<u8>) {
        self.pages.put(self.page(number), Arc::new(bytes.into()));
    }

    /// The number of a page that is not there yet.
    fn new_page(&mut self) -> Result<u64> {
        if self.allocation.id == 0 {
            self.allocation.id = self.pages.new_id()?;
            self.allocation.next = 1;
        }
        self.allocation.next += 1;
        Ok(self.allocation.next - 1)
    }

    /// Joins the child at `at` with one beside it, if both are small.
    fn join(&mut self, page: &mut Page, height: u8, at: usize) -> Result<()> {
        let bytes = &**page;
        if at >= bytes.len() {
            return Ok(());
        }
        let child = cell(bytes, height, at)?;
        let size = self.pages.get(self.page(child.page))?.len();
        if size >= PAGE_BYTES_MIN {
            return Ok(());
        }
        let right = (child.range.end < bytes.len()).then_some(child.range.end);
        let right = right.map(|at| cell(bytes, height, at)).transpose()?;
        let pairs = [
            right.map(|right| (child.clone(), right)),
            page.cell_before(height, at)?.map(|left| (left, child.clone())),
        ];
        for (left, right) in pairs.into_iter().flatten() {
            let sizes = [left.page, right.page].map(|page| self.page(page));
            // The key of the right one goes into its first child's cell, if it has children.
            let key_bytes = if height > 1 { right.key.len() } else { 0 };
            let sum = self.pages.get(sizes[0])?.len() + self.pages.get(sizes[1])?.len() + key_bytes;
            if sum <= JOINED_BYTES_MAX {
                return self.join_pair(page.edit(), height, (&left, &right));
            }
        }
        Ok(())
    }

    /// Joins two children beside one another.
    fn join_pair(
        &mut self,
        bytes: &mut Vec<u8>,
        height: u8,
        (left, right): (&Cell, &Cell),
    ) -> Result<()> {
        let mut joined = self.pages.take(self.page(left.page))?.to_vec();
        let tail = self.pages.take(self.page(right.page))?;
        let mut rest = &tail[..];
        if height > 1 && !tail.is_empty() {
            // The first child of the right one is not the first any more: its key counts now.
            let first = cell(&tail, height - 1, 0)?;
            let key = &bytes[right.key.clone()];
            write_child(&mut joined, first.page, first.count, key);
            rest = &tail[first.range.end..];
        }
        joined.extend_from_slice(rest);
        self.put_bytes(left.page, joined);
        self.pages.remove(self.page(right.page));
        let mut cells = Vec::new();
        let key = &bytes[left.key.clone()];
        write_child(&mut cells, left.page, left.count + right.count, key);
        bytes.splice(left.range.start..right.range.end, cells);
        Ok(())
    }

    /// Bytes of a root at `height` that has more than one element.
    fn root_bytes_max(&self, height: u8) -> usize {
        if height == 0 { self.pages.flat_bytes_max() } else { ROOT_BYTES_MAX }
    }

    /// Lets the only child of the root be the root, as long as it is small enough.
    fn lower(&mut self) -> Result<()> {
        while self.tree.height > 0 {
            if self.tree.root.is_empty() {
                self.tree.height = 0;
                return Ok(());
            }
            let only = cell(&self.tree.root, self.tree.height, 0)?;
            let max = self.root_bytes_max(self.tree.height - 1);
            let page = self.page(only.page);
            if only.range.end < self.tree.root.len() || self.pages.get(page)?.len() > max / 2 {
                return Ok(());
            }
            self.tree.root = Arc::unwrap_or_clone(self.pages.take(page)?);
            self.pages.remove(page);
            self.tree.height -= 1;
        }
        Ok(())
    }

    /// Moves what the root has, changed at `at`, into pages below it as long as it is large.
    fn raise(&mut self, mut at: usize) -> Result<()> {
        loop {
            let max = self.root_bytes_max(self.tree.height);
            if self.tree.root.len() <= max || self.tree.count < 2 {
                return Ok(());
            }
            let parts = split(&self.tree.root, self.tree.height, PAGE_BYTES_MAX, at)?;
            let old = std::mem::take(&mut self.tree.root);
            for (nth, part) in parts.into_iter().enumerate() {
                let number = self.new_page()?;
                // Nobody asks for the key of a first child, which may be longer than a root.
                let key = if nth == 0 { &[][..] } else { &part.key };
                write_child(self.tree.root.edit(), number, part.count, key);
                self.put_bytes(number, old[part.range].to_vec());
            }
            self.tree.height += 1;
            at = usize::MAX;
            if self.tree.root.len() <= ROOT_BYTES_MAX {
                return Ok(());
            }
        }
    }

    /// Removes the elements of `ranks` below a page.
    fn cut(&mut self, page: &mut Page, height: u8, ranks: Range<u64>) -> Result<()> {
        if height == 0 {
            let first = page.find_rank(ranks.start)?.at;
            let last = page.find_rank(ranks.end)?.at;
            page.edit().drain(first..last);
            return Ok(());
        }
        let bytes = &**page;
        let (mut kept, mut before) = (Vec::with_capacity(bytes.len()), 0);
        let mut edges = Vec::new();
        for at in starts(bytes, height)? {
            let child = cell(bytes, height, at)?;
            let end = before + child.count;
            let inside = ranks.start.max(before)..ranks.end.min(end);
            if inside.start >= inside.end {
                kept.extend_from_slice(&bytes[child.range.clone()]);
            } else if inside == (before..end) {
                self.remove_below(&child, height)?;
            } else {
                let mut below = self.pages.take(self.page(child.page))?;
                self.cut(
                    Arc::make_mut(&mut below),
                    height - 1,
                    inside.start - before..inside.end - before,
                )?;
                edges.push(kept.len());
                let count = child.count - (inside.end - inside.start);
                write_child(&mut kept, child.page, count, &bytes[child.key.clone()]);
                self.pages.put(self.page(child.page), below);
            }
            before = end;
        }
        *page = kept.into();
        // From the right, so that the places of those on the left stay.
        edges.into_iter().rev().try_for_each(|at| self.join(page, height, at))
    }

    /// Removes a child's page, and all below it.
    fn remove_below(&mut self, child: &Cell, height: u8) -> Result<()> {
        let mut all = vec![self.page(child.page)];
        if height > 1 {
            let below = self.pages.get(all[0])?;
            self.ids_below(&below, height - 1, &mut all)?;
        }
        all.into_iter().for_each(|page| self.pages.remove(page));
        Ok(())
    }
}

/// The child of a node of `len` elements below which `op` is done, and what it is there.
fn child_of<'o>(page: &Page, height: u8, len: u64, op: Op<'o>) -> Result<(Child, Op<'o>)> {
    let child = match op {
        Op::Put(key, _) | Op::Remove(key) => page.child_of_key(height, key, false)?,
        Op::Insert(rank, ..) => page.child_of_rank(height, (rank, len), true)?,
        Op::Set(rank, _) | Op::RemoveAt(rank) => page.child_of_rank(height, (rank, len), false)?,
    };
    let before = child.before;
    let op = match op {
        Op::Insert(rank, key, value) => Op::Insert(rank - before, key, value),
        Op::Set(rank, value) => Op::Set(rank - before, value),
        Op::RemoveAt(rank) => Op::RemoveAt(rank - before),
        by_key => by_key,
    };
    Ok((child, op))
}

/// Changes one element of a leaf.
fn change_leaf<P: Changing>(leaf: &mut P, op: Op<'_>) -> Result<Done> {
    let bytes = leaf.read();
    let spot = match op {
        Op::Put(key, _) | Op::Remove(key) => bytes.find_key(key)?,
        Op::Insert(rank, ..) | Op::Set(rank, _) | Op::RemoveAt(rank) => bytes.find_rank(rank)?,
    };
    let is_insert = matches!(op, Op::Insert(..));
    let old = (spot.is_found && !is_insert).then(|| cell(bytes, 0, spot.at)).transpose()?;
    let range = old.as_ref().map_or(spot.at..spot.at, |cell| cell.range.clone());
    let taken = |cell: &Cell| {
        let key = if matches!(op, Op::RemoveAt(_)) { &bytes[cell.key.clone()] } else { &[] };
        (key.to_vec(), bytes[cell.value.clone()].to_vec())
    };
    let (element, was_there) = (old.as_ref().map(taken), old.is_some());
    let has = |value: &[u8]| element.as_ref().is_some_and(|(_, old)| old == value);
    let done = |added, is_changed| Done { old: None, added, at: spot.at, is_changed };
    let done = match (op, old) {
        (Op::Put(_, value) | Op::Set(_, value), Some(_)) if has(value) => done(0, false),
        (Op::Put(key, value) | Op::Insert(_, key, value), _) => {
            leaf.write().put_element(spot, range, key, value);
            done(i64::from(!was_there), true)
        }
        (Op::Set(_, value), Some(cell)) => {
            let key = bytes[cell.key].to_vec();
            leaf.write().put_element(spot, range, &key, value);
            done(0, true)
        }
        (Op::Remove(_) | Op::RemoveAt(_), Some(_)) => {
            leaf.write().remove_element(spot, range);
            done(-1, true)
        }
        (Op::Remove(_), None) => done(0, false),
        (Op::Set(..) | Op::RemoveAt(_), None) => return Err(damaged("a count is wrong")),
    };
    Ok(Done { old: element, ..done })
}
