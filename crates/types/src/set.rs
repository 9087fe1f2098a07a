//! Sets: members, in the order of their bytes.

use crate::cursor::Cursor;
use crate::object::Object;
use crate::pages::Pages;
use crate::tree::{Direction, TreeMut};
use silica_base::{Prng, Result};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Members that a set of integers may have for OBJECT ENCODING to call it an intset, as Redis does.
const INTSET_LEN_MAX: u64 = 512;
/// Mark of a set that is no intset, or was none once.
const NO_INTSET: u8 = 1;

/// An object that is a set, and its pages.
pub struct Set<'s> {
    object: &'s mut Object,
    pages: &'s mut dyn Pages,
}

impl<'s> Set<'s> {
    /// `object` as a set.
    pub fn of(object: &'s mut Object, pages: &'s mut dyn Pages) -> Self {
        Set { object, pages }
    }

    fn tree(&mut self) -> TreeMut<'_> {
        self.object.tree(0, self.pages)
    }

    /// Number of members.
    pub fn len(&self) -> u64 {
        self.object.len(0)
    }

    /// True if there is no member.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if `member` is in it.
    ///
    /// # Errors
    /// Those of the pages, here and below.
    pub fn contains(&mut self, member: &[u8]) -> Result<bool> {
        self.tree().contains(member)
    }

    /// Adds `member`; false if it is there already.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn add(&mut self, member: &[u8]) -> Result<bool> {
        let is_new = self.tree().put(member, b"")?.is_none();
        let is_marked = self.object.marks & NO_INTSET != 0;
        if !is_marked && (self.len() > INTSET_LEN_MAX || !is_integer(member)) {
            self.object.marks |= NO_INTSET;
        }
        Ok(is_new)
    }

    /// Removes `member`; false if it is not there.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn remove(&mut self, member: &[u8]) -> Result<bool> {
        Ok(self.tree().remove(member)?.is_some())
    }

    /// The member with `rank` others before it.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn at(&mut self, rank: u64) -> Result<Option<Vec<u8>>> {
        Ok(self.tree().at(rank)?.map(|(member, _)| member))
    }

    /// Calls `each` with the members, until it returns false.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn scan(&mut self, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<()> {
        self.tree().scan(0, Direction::Forward, &mut |member, _| each(member))
    }

    /// Removes `count` members by chance, or all if there are no more, and returns them.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn pop(&mut self, count: u64, prng: &mut Prng) -> Result<Vec<Vec<u8>>> {
        let mut popped = Vec::new();
        if count >= self.len() {
            self.scan(&mut |member| {
                popped.push(member.to_vec());
                true
            })?;
            let all = 0..self.len();
            self.tree().remove_ranks(all)?;
            return Ok(popped);
        }
        for _ in 0..count {
            let rank = prng.below(self.len());
            popped.extend(self.tree().remove_at(rank)?.map(|(member, _)| member));
        }
        Ok(popped)
    }

    /// What OBJECT ENCODING says.
    pub fn encoding(object: &Object) -> &'static str {
        if object.marks & NO_INTSET != 0 { "hashtable" } else { "intset" }
    }
}

/// True if `member` is a number of 64 bits as an intset has it: no plus sign, no leading zeros.
fn is_integer(member: &[u8]) -> bool {
    if member.len() > 20 {
        return false;
    }
    let text = std::str::from_utf8(member).ok();
    let number = text.and_then(|text| text.parse::<i64>().ok());
    number.is_some_and(|number| number.to_string().as_bytes() == member)
}

/// Calls `each` with the members that are in all of `sets`, in their order, until it returns false.
///
/// The smallest set is gone through, and places are looked for in the others: at most so many as it
/// has members, and fewer if these lie close together.
///
/// # Errors
/// Those of the pages.
pub fn intersect(
    sets: &mut [&mut Object],
    pages: &mut dyn Pages,
    each: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<()> {
    let mut order: Vec<usize> = (0..sets.len()).collect();
    silica_base::compact_sort_by_key(&mut order, |at| sets[*at].len(0));
    let mut cursors = vec![Cursor::default(); sets.len()];
    let Some((&first, others)) = order.split_first() else { return Ok(()) };
    let mut wanted = cursors[first].start(&mut sets[first].tree(0, pages))?;
    while let Some(member) = wanted {
        let mut behind = None;
        for at in others {
            let found = cursors[*at].seek(&mut sets[*at].tree(0, pages), &member)?;
            match found {
                Some(found) if found == member => {}
                None => return Ok(()),
                later => {
                    behind = later;
                    break;
                }
            }
        }
        let mut tree = sets[first].tree(0, pages);
        wanted = match behind {
            Some(later) => cursors[first].seek(&mut tree, &later)?,
            None if !each(&member) => return Ok(()),
            None => cursors[first].next(&mut tree)?,
        };
    }
    Ok(())
}

/// Calls `each` with the members that are in any of `sets`, in their order, until it returns false.
///
/// # Errors
/// Those of the pages.
pub fn unite(
    sets: &mut [&mut Object],
    pages: &mut dyn Pages,
    each: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<()> {
    let mut cursors = vec![Cursor::default(); sets.len()];
    let mut next = BinaryHeap::new();
    for (at, cursor) in cursors.iter_mut().enumerate() {
        let member = cursor.start(&mut sets[at].tree(0, pages))?;
        next.extend(member.map(|member| Reverse((member, at))));
    }
    let mut last: Option<Vec<u8>> = None;
    while let Some(Reverse((member, at))) = next.pop() {
        if last.as_ref() != Some(&member) && !each(&member) {
            return Ok(());
        }
        let later = cursors[at].next(&mut sets[at].tree(0, pages))?;
        next.extend(later.map(|later| Reverse((later, at))));
        last = Some(member);
    }
    Ok(())
}

/// Calls `each` with the members of the first of `sets` that are in no other, in their order, until
/// it returns false.
///
/// # Errors
/// Those of the pages.
pub fn subtract(
    sets: &mut [&mut Object],
    pages: &mut dyn Pages,
    each: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<()> {
    let Some((first, others)) = sets.split_first_mut() else { return Ok(()) };
    let mut cursors = vec![Cursor::default(); others.len()];
    let mut cursor = Cursor::default();
    let mut next = cursor.start(&mut first.tree(0, pages))?;
    while let Some(member) = next {
        let mut is_elsewhere = false;
        for (other, cursor) in others.iter_mut().zip(&mut cursors) {
            let found = cursor.seek(&mut other.tree(0, pages), &member)?;
            is_elsewhere = found.is_some_and(|found| found == member);
            if is_elsewhere {
                break;
            }
        }
        if !is_elsewhere && !each(&member) {
            return Ok(());
        }
        next = cursor.next(&mut first.tree(0, pages))?;
    }
    Ok(())
}
