//! Sorted sets: members with scores, in the order of their scores and then of their members.
//!
//! Tree 0 has the elements in their order; its keys are a score in eight bytes that sort as the
//! numbers do, and the member. Tree 1 finds the score of a member.
//!
//! Invariants:
//! 1. Tree 1 is empty as long as tree 0 lies in the value of the object's key as a whole: a member
//!    is found by a look at all of them, and its bytes are there once. Otherwise both trees have
//!    the same elements.
//! 2. No score is NaN, and none is the negative zero.
//!
//! A tree gets pages above a limit that its pages tell, and is whole again at half of it or less:
//! an object at the limit does not fill and empty tree 1 again and again.

use crate::counts::Counts;
use crate::entries::LEAD_BYTES;
use crate::object::Object;
use crate::page::{damaged, key_that_ends};
use crate::pages::Pages;
use crate::tree::{Direction, FEW_MAX, TreeMut};
use silica_base::Result;
use std::ops::Range;

/// Members that a sorted set may have for OBJECT ENCODING to call it a listpack, as Redis does.
const LISTPACK_LEN_MAX: u64 = 128;
/// Bytes of a member in such a one.
const LISTPACK_BYTES_MAX: usize = 64;
/// Mark of a sorted set that is, or was, larger.
const LARGE: u8 = 1;
/// Mark of a sorted set that has, or had, a member too long for the key of an entry.
const NO_ENTRIES: u8 = 1 << 5;
/// Elements above which an object keeps its form, as another one takes memory for all of them.
const CONVERTED_MAX: u64 = 1 << 16;
/// Elements that are entries stay such as long as there are this part of those that it takes to
/// become some.
const ENTRIES_KEPT: u64 = 4;
/// Bytes of a score.
const SCORE_BYTES: usize = 8;
/// Members that leave tree 1 at a time when a range is removed.
const REMOVED_AT_ONCE: u64 = 1024;

/// The order of the elements: by tree 0.
const ORDERED: usize = 0;
/// Members with their scores: tree 1.
const MEMBERS: usize = 1;

/// A score as a number that sorts as scores do.
fn number_of(score: f64) -> u64 {
    // The sum with zero makes one of both zeros.
    let bits = (score + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// The score of a number.
fn score_of(number: u64) -> f64 {
    f64::from_bits(if number >> 63 == 1 { number & !(1 << 63) } else { !number })
}

/// Reads a score from its eight bytes.
fn read_score(bytes: &[u8]) -> Result<f64> {
    let bytes = bytes.try_into().map_err(|_| damaged("a score is cut short"))?;
    Ok(score_of(u64::from_be_bytes(bytes)))
}

/// The key of an element in tree 0.
fn key_of(score: f64, member: &[u8]) -> Vec<u8> {
    [&number_of(score).to_be_bytes()[..], member].concat()
}

/// The member and the score of a key of tree 0.
fn element_of(key: &[u8]) -> Result<(&[u8], f64)> {
    let (score, member) =
        key.split_at_checked(SCORE_BYTES).ok_or_else(|| damaged("an element has no score"))?;
    Ok((member, read_score(score)?))
}

/// Scores from one to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreRange {
    /// The least one.
    pub min: f64,
    /// The least one itself does not belong to it.
    pub is_above_min: bool,
    /// The greatest one.
    pub max: f64,
    /// The greatest one itself does not belong to it.
    pub is_below_max: bool,
}

/// An end of a range of members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LexEnd<'m> {
    /// Before all members.
    First,
    /// Behind all members.
    Last,
    /// A member that belongs to it.
    Included(&'m [u8]),
    /// A member that does not.
    Excluded(&'m [u8]),
}

/// An object that is a sorted set, and its pages.
pub struct Zset<'z> {
    object: &'z mut Object,
    pages: &'z mut dyn Pages,
}

impl<'z> Zset<'z> {
    /// `object` as a sorted set.
    pub fn of(object: &'z mut Object, pages: &'z mut dyn Pages) -> Self {
        Zset { object, pages }
    }

    fn tree(&mut self, nth: usize) -> TreeMut<'_> {
        self.object.tree(nth, self.pages)
    }

    /// Number of members.
    pub fn len(&self) -> u64 {
        self.object.len(ORDERED)
    }

    /// True if there is no member.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if all elements lie in the value of the object's key.
    pub fn is_flat(&self) -> bool {
        self.object.is_flat(ORDERED)
    }

    /// The score of `member`. A small sorted set is searched, a large one reads a page for each of
    /// its tree's levels.
    ///
    /// # Errors
    /// Those of the pages, here and below.
    pub fn score(&mut self, member: &[u8]) -> Result<Option<f64>> {
        if !self.is_flat() {
            return self.tree(MEMBERS).get(member)?.map(|bytes| read_score(&bytes)).transpose();
        }
        let root = self.object.trees()[ORDERED].root();
        let key = key_that_ends(root, SCORE_BYTES, member)?;
        key.map(|key| read_score(&key[..SCORE_BYTES])).transpose()
    }

    /// Gives `member` a score, and returns the one that it had.
    ///
    /// # Errors
    /// Those of the pages.
    ///
    /// # Panics
    /// If the score is NaN.
    pub fn put(&mut self, member: &[u8], score: f64) -> Result<Option<f64>> {
        if self.is_flat() {
            let old = self.score(member)?;
            self.put_over(member, old, score)?;
            return Ok(old);
        }
        assert!(!score.is_nan(), "a score is a number");
        if self.object.is_of_entries() {
            let old = self.score(member)?;
            self.put_over(member, old, score)?;
            return Ok(old);
        }
        let bytes = number_of(score).to_be_bytes();
        let old = self.tree(MEMBERS).put(member, &bytes)?;
        let old = old.map(|bytes| read_score(&bytes)).transpose()?;
        if old == Some(score) {
            return Ok(old);
        }
        if let Some(old) = old {
            self.tree(ORDERED).remove(&key_of(old, member))?;
        }
        self.tree(ORDERED).put(&key_of(score, member), b"")?;
        if self.is_flat() {
            self.tree(MEMBERS).clear()?;
        }
        self.note_size(member);
        Ok(old)
    }

    /// Notes that it is large, if it is with `member`.
    fn note_size(&mut self, member: &[u8]) {
        if member.len() > LISTPACK_BYTES_MAX || self.len() > LISTPACK_LEN_MAX {
            self.object.marks |= LARGE;
        }
    }

    /// Gives `member` a score, whose score is `old` until then.
    ///
    /// # Errors
    /// Those of the pages.
    ///
    /// # Panics
    /// If the score is NaN.
    pub fn put_over(&mut self, member: &[u8], old: Option<f64>, score: f64) -> Result<()> {
        assert!(!score.is_nan(), "a score is a number");
        if old == Some(score) {
            return Ok(());
        }
        if self.object.is_of_entries() && !self.entries_hold(member) {
            self.object.marks |= NO_ENTRIES;
            self.become_pages()?;
        }
        if self.object.is_of_entries() {
            self.put_entries(member, old, score);
            self.note_size(member);
            return Ok(());
        }
        if let Some(old) = old {
            self.tree(ORDERED).remove(&key_of(old, member))?;
        }
        self.tree(ORDERED).put(&key_of(score, member), b"")?;
        let bytes = number_of(score).to_be_bytes();
        match (self.is_flat(), self.object.len(MEMBERS)) {
            (true, 0) => {}
            (true, _) => self.tree(MEMBERS).clear()?,
            (false, 0) => self.fill_members()?,
            (false, _) => drop(self.tree(MEMBERS).put(member, &bytes)?),
        }
        self.note_size(member);
        Ok(())
    }

    /// As [`Zset::put_over`], of one whose elements are entries.
    fn put_entries(&mut self, member: &[u8], old: Option<f64>, score: f64) {
        let mut ordered = self.tree(ORDERED);
        if let Some(old) = old {
            ordered.remove_entry(&key_of(old, member));
        }
        ordered.put_entry(&key_of(score, member), b"", true);
        let bytes = number_of(score).to_be_bytes();
        self.tree(MEMBERS).put_entry(member, &bytes, old.is_none());
    }

    /// True if an entry may have `member` and a score in its key.
    fn entries_hold(&self, member: &[u8]) -> bool {
        LEAD_BYTES + SCORE_BYTES + member.len() <= self.pages.entry_key_bytes_max()
    }

    /// Makes entries of its elements, or pages again, if that suits their number: to be called when
    /// a change of it is complete. One at the limit does not go to and fro.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn settle(&mut self) -> Result<()> {
        if self.is_flat() || self.is_empty() {
            return Ok(());
        }
        let (above, len) = (self.pages.entries_above(), self.len());
        if self.object.is_of_entries() {
            let is_small = above.is_none_or(|above| len < above / ENTRIES_KEPT);
            let stays = self.pages.keeps_entries() && !(is_small && len <= CONVERTED_MAX);
            return if stays { Ok(()) } else { self.become_pages() };
        }
        let may = self.object.marks & NO_ENTRIES == 0 && len <= CONVERTED_MAX;
        if may && above.is_some_and(|above| len > above) { self.become_entries() } else { Ok(()) }
    }

    /// Makes entries of its elements, unless one has too long a member.
    fn become_entries(&mut self) -> Result<()> {
        let all = self.some(0, usize::MAX)?;
        if !all.iter().all(|(member, _)| self.entries_hold(member)) {
            self.object.marks |= NO_ENTRIES;
            return Ok(());
        }
        self.tree(ORDERED).clear()?;
        self.tree(MEMBERS).clear()?;
        self.object.set_entries(true);
        let mut counts = Counts::default();
        for (member, score) in &all {
            self.put_entries(member, None, *score);
            counts.push(&key_of(*score, member));
        }
        let tree = (self.object.allocation.id, ORDERED);
        self.pages.keep_counts(tree, counts, true);
        Ok(())
    }

    /// Makes pages of its elements, which are entries.
    fn become_pages(&mut self) -> Result<()> {
        let all = self.some(0, usize::MAX)?;
        for (member, score) in &all {
            self.tree(ORDERED).remove_entry(&key_of(*score, member));
            self.tree(MEMBERS).remove_entry(member);
        }
        self.object.set_entries(false);
        for (member, score) in &all {
            let bytes = number_of(*score).to_be_bytes();
            self.tree(ORDERED).put(&key_of(*score, member), b"")?;
            if !self.is_flat() {
                match self.object.len(MEMBERS) {
                    0 => self.fill_members()?,
                    _ => drop(self.tree(MEMBERS).put(member, &bytes)?),
                }
            }
        }
        Ok(())
    }

    /// Fills tree 1 from the elements of tree 0, which has just got pages.
    fn fill_members(&mut self) -> Result<()> {
        let mut all = Vec::new();
        self.tree(ORDERED).scan(0, Direction::Forward, &mut |key, _| {
            all.push(key.to_vec());
            true
        })?;
        let element = |key: &Vec<u8>| key.split_at_checked(SCORE_BYTES).is_some();
        if !all.iter().all(element) {
            return Err(damaged("an element has no score"));
        }
        all.sort_unstable_by(|a, b| a[SCORE_BYTES..].cmp(&b[SCORE_BYTES..]));
        for key in all {
            let (score, member) = key.split_at(SCORE_BYTES);
            self.tree(MEMBERS).put(member, score)?;
        }
        Ok(())
    }

    /// Removes `member`, and returns its score.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn remove(&mut self, member: &[u8]) -> Result<Option<f64>> {
        let Some(score) = self.score(member)? else { return Ok(None) };
        if self.object.is_of_entries() {
            self.tree(ORDERED).remove_entry(&key_of(score, member));
            self.tree(MEMBERS).remove_entry(member);
            return Ok(Some(score));
        }
        self.tree(ORDERED).remove(&key_of(score, member))?;
        self.remove_members(std::iter::once(member))?;
        Ok(Some(score))
    }

    /// Removes from tree 1 what is no longer in tree 0.
    fn remove_members<'m>(&mut self, mut gone: impl Iterator<Item = &'m [u8]>) -> Result<()> {
        if self.is_flat() {
            return self.tree(MEMBERS).clear();
        }
        gone.try_for_each(|member| self.tree(MEMBERS).remove(member).map(drop))
    }

    /// How many elements come before `member`.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn rank(&mut self, member: &[u8]) -> Result<Option<u64>> {
        let Some(score) = self.score(member)? else { return Ok(None) };
        let (rank, _) = self.tree(ORDERED).find(&key_of(score, member))?;
        Ok(Some(rank))
    }

    /// The member with `rank` elements before it, and its score.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn at(&mut self, rank: u64) -> Result<Option<(Vec<u8>, f64)>> {
        let Some((mut key, _)) = self.tree(ORDERED).at(rank)? else { return Ok(None) };
        let (_, score) = element_of(&key)?;
        Ok(Some((key.split_off(SCORE_BYTES), score)))
    }

    /// Calls `each` with the members from `rank` on, and their scores, until it returns false.
    /// Backwards the ranks descend.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn scan(
        &mut self,
        rank: u64,
        direction: Direction,
        each: &mut dyn FnMut(&[u8], f64) -> bool,
    ) -> Result<()> {
        let mut result = Ok(());
        self.tree(ORDERED).scan(rank, direction, &mut |key, _| match element_of(key) {
            Ok((member, score)) => each(member, score),
            Err(error) => {
                result = Err(error);
                false
            }
        })?;
        result
    }

    /// Up to `len` elements from `rank` on.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn some(&mut self, rank: u64, len: usize) -> Result<Vec<(Vec<u8>, f64)>> {
        let mut all = Vec::with_capacity(len.min(self.len() as usize));
        if len > 0 {
            self.scan(rank, Direction::Forward, &mut |member, score| {
                all.push((member.to_vec(), score));
                all.len() < len
            })?;
        }
        Ok(all)
    }

    /// Removes the elements whose ranks are in `ranks`, and returns how many these are.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn remove_ranks(&mut self, ranks: Range<u64>) -> Result<u64> {
        let end = ranks.end.min(self.len());
        let all = end.saturating_sub(ranks.start);
        if self.object.is_of_entries() {
            return self.remove_entries(ranks.start, all);
        }
        if all == self.len() {
            self.tree(ORDERED).clear()?;
            self.tree(MEMBERS).clear()?;
            return Ok(all);
        }
        if all <= FEW_MAX {
            for _ in 0..all {
                let gone = self.tree(ORDERED).remove_at(ranks.start)?;
                let (key, _) = gone.ok_or_else(|| damaged("a count is wrong"))?;
                self.remove_members(std::iter::once(element_of(&key)?.0))?;
            }
            return Ok(all);
        }
        let mut left = all;
        while left > 0 {
            let now = left.min(REMOVED_AT_ONCE);
            let gone = match self.is_flat() {
                true => Vec::new(),
                false => self.some(ranks.start, now as usize)?,
            };
            self.tree(ORDERED).remove_ranks(ranks.start..ranks.start + now)?;
            self.remove_members(gone.iter().map(|(member, _)| &member[..]))?;
            left -= now;
        }
        Ok(all)
    }

    /// As [`Zset::remove_ranks`], of one whose elements are entries.
    fn remove_entries(&mut self, start: u64, all: u64) -> Result<u64> {
        if all == self.len() {
            self.object.leave();
            return Ok(all);
        }
        let (mut left, mut behind) = (all, Vec::new());
        while left > 0 {
            let now = left.min(REMOVED_AT_ONCE);
            for (key, _) in self.tree(ORDERED).entries_of(start..start + now)? {
                self.tree(ORDERED).remove_entry(&key);
                self.tree(MEMBERS).remove_entry(element_of(&key)?.0);
                behind = [&key[..], &[0]].concat();
            }
            if start == 0 {
                self.tree(ORDERED).begin(&behind);
            }
            left -= now;
        }
        Ok(all)
    }

    /// The elements of `ranks`, which are there and few: to be given to [`Zset::remove_listed`].
    ///
    /// # Errors
    /// Those of the pages.
    pub fn list(&mut self, ranks: Range<u64>) -> Result<Vec<(Vec<u8>, f64)>> {
        let count = (ranks.end - ranks.start) as usize;
        if !self.object.is_of_entries() {
            return self.some(ranks.start, count);
        }
        let entries = self.tree(ORDERED).entries_of(ranks)?.into_iter();
        let element = |(mut key, _): (Vec<u8>, Vec<u8>)| {
            let (_, score) = element_of(&key)?;
            Ok((key.split_off(SCORE_BYTES), score))
        };
        entries.map(element).collect()
    }

    /// Removes the elements from `start` on that [`Zset::list`] has told. What is entries is not
    /// walked over once more.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn remove_listed(&mut self, start: u64, listed: &[(Vec<u8>, f64)]) -> Result<()> {
        let count = listed.len() as u64;
        if !self.object.is_of_entries() || count == self.len() {
            return self.remove_ranks(start..start + count).map(drop);
        }
        for (member, score) in listed {
            self.tree(ORDERED).remove_entry(&key_of(*score, member));
            self.tree(MEMBERS).remove_entry(member);
        }
        if let Some((member, score)) = listed.last().filter(|_| start == 0) {
            let behind = [&key_of(*score, member)[..], &[0]].concat();
            self.tree(ORDERED).begin(&behind);
        }
        Ok(())
    }

    /// The ranks of the elements with scores in `range`: two reads of a page for each level.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn ranks_of_scores(&mut self, range: &ScoreRange) -> Result<Range<u64>> {
        let from = self.rank_of_score(range.min, range.is_above_min)?;
        let to = self.rank_of_score(range.max, !range.is_below_max)?;
        Ok(from..to.max(from))
    }

    /// How many elements have a score below `score`, or at most `score`.
    fn rank_of_score(&mut self, score: f64, with_equal: bool) -> Result<u64> {
        let number = number_of(score) + u64::from(with_equal);
        self.tree(ORDERED).find(&number.to_be_bytes()).map(|(rank, _)| rank)
    }

    /// The ranks of the members from `min` to `max`, if all members have one score; Redis, too,
    /// says nothing of others. Members with other scores than the first one count as behind all.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn ranks_of_members(&mut self, min: LexEnd<'_>, max: LexEnd<'_>) -> Result<Range<u64>> {
        let Some((_, score)) = self.at(0)? else { return Ok(0..0) };
        let from = self.rank_of_end(score, min, false)?;
        let to = self.rank_of_end(score, max, true)?;
        Ok(from..to.max(from))
    }

    /// How many elements come before `end` of a range, its last one or its first one.
    fn rank_of_end(&mut self, score: f64, end: LexEnd<'_>, is_last: bool) -> Result<u64> {
        let (member, is_included) = match end {
            LexEnd::First => return Ok(0),
            LexEnd::Last => return Ok(self.len()),
            LexEnd::Included(member) => (member, true),
            LexEnd::Excluded(member) => (member, false),
        };
        let (rank, is_found) = self.tree(ORDERED).find(&key_of(score, member))?;
        Ok(rank + u64::from(is_found && is_last == is_included))
    }

    /// The member and the score of an element of tree `nth`, where somebody goes over a tree.
    ///
    /// # Errors
    /// Fails if it is none.
    pub fn element<'e>(nth: usize, key: &'e [u8], value: &[u8]) -> Result<(&'e [u8], f64)> {
        match nth {
            ORDERED => element_of(key),
            _ => Ok((key, read_score(value)?)),
        }
    }

    /// What OBJECT ENCODING says.
    pub fn encoding(object: &Object) -> &'static str {
        if object.marks & LARGE != 0 { "skiplist" } else { "listpack" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_sort_as_scores_do() {
        let ordered = [
            f64::NEG_INFINITY,
            f64::MIN,
            -1.5,
            -1.0,
            -f64::MIN_POSITIVE,
            -5e-324,
            0.0,
            5e-324,
            f64::MIN_POSITIVE,
            1.0,
            1.5,
            f64::MAX,
            f64::INFINITY,
        ];
        assert!(ordered.windows(2).all(|pair| number_of(pair[0]) < number_of(pair[1])));
        assert!(ordered.iter().all(|score| score_of(number_of(*score)) == *score));
        assert_eq!(number_of(-0.0), number_of(0.0));
        assert!(number_of(f64::INFINITY) < u64::MAX);
    }
}
