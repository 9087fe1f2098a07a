//! A check of an object: every page is there, and the trees keep their invariants.

use crate::cursor::Cursor;
use crate::hash::{split, time_key};
use crate::object::{Kind, Object};
use crate::page::{cell, damaged, starts};
use crate::pages::{FLAT_BYTES_MAX, PageId, Pages};
use crate::parts::CHILDREN_MIN;
use crate::tree::{Direction, PAGE_BYTES_MAX, ROOT_BYTES_MAX, Tree};
use silica_base::Result;
use std::collections::BTreeSet;

/// A node with fewer children may have more bytes than a page, as their keys may be long.
const LARGE_CHILDREN_MIN: usize = 2 * CHILDREN_MIN;

/// What a sound object has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Its pages, in the order of their numbers. The page 0, which has the name of its key, is none
    /// of them.
    pub pages: Vec<PageId>,
    /// Elements of all trees.
    pub elements: u64,
}

/// Reads all of `object` and compares it with what must hold: counts, orders and sizes of its
/// trees, that each page is there and named once, and what one tree says of another.
///
/// # Errors
/// Tells the first thing that is wrong; those of the pages.
pub fn check(object: &Object, pages: &mut dyn Pages) -> Result<Checked> {
    if object.is_of_entries() {
        return check_entries(object, pages);
    }
    let mut walk = Walk { object, pages, seen: BTreeSet::new() };
    let mut elements = 0;
    for tree in object.trees() {
        walk.tree(tree)?;
        elements += tree.len();
    }
    let id = object.id().unwrap_or(0);
    let page = |number| PageId { object: id, number };
    let named = walk.seen.into_iter().map(page).collect();
    match object.kind() {
        Kind::Hash => check_times(object, pages)?,
        Kind::Zset => check_members(object, pages)?,
        Kind::Stream => crate::stream::check(object, pages)?,
        _ => {}
    }
    Ok(Checked { pages: named, elements })
}

/// Both trees of a sorted set whose elements are entries have the same elements, as many as they
/// say.
fn check_entries(object: &Object, pages: &mut dyn Pages) -> Result<Checked> {
    let mut object = object.clone();
    if object.kind() != Kind::Zset || object.id().is_none() {
        return Err(damaged("its elements cannot be entries"));
    }
    let (mut from, mut count) = (Vec::new(), 0);
    loop {
        let some = object.tree(0, pages).entries_from(&mut from)?;
        if some.is_empty() {
            break;
        }
        count += some.len() as u64;
        for (key, _) in some {
            let cut = key.split_at_checked(8);
            let (score, member) = cut.ok_or_else(|| damaged("an element has no score"))?;
            if object.tree(1, pages).get(member)?.as_deref() != Some(score) {
                return Err(damaged("a member has two scores"));
            }
        }
    }
    let (mut from, mut members) = (Vec::new(), 0);
    loop {
        match object.tree(1, pages).entries_from(&mut from)?.len() {
            0 => break,
            some => members += some as u64,
        }
    }
    if [object.len(0), object.len(1)] != [count, members] || count != members {
        let said = object.len(0);
        return Err(damaged(&format!("it says {said} elements and has {count} and {members}")));
    }
    Ok(Checked { pages: Vec::new(), elements: count + members })
}

/// Every field with a time is among the times, and nothing else is.
fn check_times(object: &Object, pages: &mut dyn Pages) -> Result<()> {
    let mut object = object.clone();
    let (mut count, mut wrong) = (0i64, None);
    object.tree(0, pages).scan(0, Direction::Forward, &mut |_, stored| {
        match split(stored) {
            Ok((expires, _)) => count += i64::from(expires != 0),
            Err(error) => wrong = Some(error),
        }
        wrong.is_none()
    })?;
    if let Some(error) = wrong {
        return Err(error);
    }
    let damaged = || damaged("its times are not those of its fields");
    if !object.has_second_tree() {
        return if count == 0 { Ok(()) } else { Err(damaged()) };
    }
    let mut cursor = Cursor::default();
    let mut next = cursor.start(&mut object.tree(1, pages))?;
    while let Some(key) = next {
        let field = key.get(8..).ok_or_else(damaged)?;
        let stored = object.tree(0, pages).get(field)?.ok_or_else(damaged)?;
        if time_key(split(&stored)?.0, field) != key {
            return Err(damaged());
        }
        count -= 1;
        next = cursor.next(&mut object.tree(1, pages))?;
    }
    if count == 0 { Ok(()) } else { Err(damaged()) }
}

/// Both trees of a sorted set have the same elements, or the second one has none.
fn check_members(object: &Object, pages: &mut dyn Pages) -> Result<()> {
    let mut object = object.clone();
    let wanted = if object.is_flat(0) { 0 } else { object.len(0) };
    if object.len(1) != wanted {
        return Err(damaged("its two orders have not as many members"));
    }
    let mut cursor = Cursor::default();
    let mut next = cursor.start(&mut object.tree(0, pages))?;
    while let Some(key) = next {
        let cut = key.split_at_checked(8);
        let (score, member) = cut.ok_or_else(|| damaged("an element has no score"))?;
        if wanted > 0 && object.tree(1, pages).get(member)?.as_deref() != Some(score) {
            return Err(damaged("a member has two scores"));
        }
        next = cursor.next(&mut object.tree(0, pages))?;
    }
    Ok(())
}

/// Bounds of the keys below a page: none is less than the first, and all are less than the second.
#[derive(Clone, Copy, Default)]
struct Bounds<'b> {
    least: Option<&'b [u8]>,
    end: Option<&'b [u8]>,
}

impl Bounds<'_> {
    fn hold(&self, key: &[u8]) -> bool {
        self.least.is_none_or(|least| least <= key) && self.end.is_none_or(|end| key < end)
    }
}

/// What a check has seen so far.
struct Walk<'w> {
    object: &'w Object,
    pages: &'w mut dyn Pages,
    seen: BTreeSet<u64>,
}

impl Walk<'_> {
    fn tree(&mut self, tree: &Tree) -> Result<()> {
        let max = if tree.height() == 0 { FLAT_BYTES_MAX } else { ROOT_BYTES_MAX };
        if tree.len() > 1 && tree.root().len() > max {
            return Err(damaged("a root is too large"));
        }
        if tree.height() > 0 && tree.root().is_empty() {
            return Err(damaged("a root above pages is empty"));
        }
        let count = self.below(tree.root(), tree.height(), Bounds::default())?;
        if count != tree.len() {
            let text = format!("it says {} elements and has {count}", tree.len());
            return Err(damaged(&text));
        }
        Ok(())
    }

    /// Checks what is below a page; returns the number of elements.
    fn below(&mut self, bytes: &[u8], height: u8, bounds: Bounds<'_>) -> Result<u64> {
        if height == 0 { self.leaf(bytes, bounds) } else { self.node(bytes, height, bounds) }
    }

    fn leaf(&self, bytes: &[u8], bounds: Bounds<'_>) -> Result<u64> {
        let (mut at, mut count, mut last) = (0, 0, None);
        while at < bytes.len() {
            let cell = cell(bytes, 0, at)?;
            let key = &bytes[cell.key];
            let is_ordered = match self.object.kind() {
                Kind::List => key.is_empty(),
                _ => last.is_none_or(|last| last < key) && bounds.hold(key),
            };
            if !is_ordered {
                return Err(damaged("its elements are not in order"));
            }
            (at, count, last) = (cell.range.end, count + 1, Some(key));
        }
        Ok(count)
    }

    fn node(&mut self, bytes: &[u8], height: u8, bounds: Bounds<'_>) -> Result<u64> {
        let mut children = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let child = cell(bytes, height, at)?;
            at = child.range.end;
            children.push(child);
        }
        let mut all = 0;
        let is_list = self.object.kind() == Kind::List;
        for (nth, child) in children.iter().enumerate() {
            let mut inner = bounds;
            if !is_list {
                inner.least = if nth == 0 { bounds.least } else { Some(&bytes[child.key.clone()]) };
                let next = children.get(nth + 1).map(|next| &bytes[next.key.clone()]);
                inner.end = next.or(bounds.end);
            }
            let count = self.page(child.page, height - 1, inner)?;
            if count != child.count {
                let text = format!("page {} has {count} elements, not {}", child.page, child.count);
                return Err(damaged(&text));
            }
            all += count;
        }
        Ok(all)
    }

    fn page(&mut self, number: u64, height: u8, bounds: Bounds<'_>) -> Result<u64> {
        if number == 0 || number >= self.object.pages_end() || !self.seen.insert(number) {
            return Err(damaged(&format!("page {number} is named twice, or was never made")));
        }
        let id = self.object.id().ok_or_else(|| damaged("it has pages and no name for them"))?;
        let bytes = self.pages.get(PageId { object: id, number })?;
        let cells = starts(&bytes, height)?.len();
        let may_be_large = cells == 1 || height > 0 && cells < LARGE_CHILDREN_MIN;
        if cells == 0 || bytes.len() > PAGE_BYTES_MAX && !may_be_large {
            let text = format!("page {number} has {cells} cells and {} bytes", bytes.len());
            return Err(damaged(&text));
        }
        self.below(&bytes, height, bounds)
    }
}
