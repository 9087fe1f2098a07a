//! A tree whose elements are entries of an engine in order, each under a key of its own.
//!
//! A change of an element is a change of its entry. Ranks come from [`Counts`], which whoever
//! serves the object keeps in memory; if nobody does, they are made by a walk over all elements.

use crate::counts::{Counts, Found, RANGE, RANGE_MAX};
use crate::page::damaged;
use crate::pages::{ELEMENT_MARK as MARK, PREFIX};
use crate::tree::{Direction, ENTRIES, Element, TreeMut};
use silica_base::Result;
use std::ops::Range;

/// Elements that are copied at a time.
const COPIED_AT_ONCE: usize = 512;
/// Bytes of an element's key before its key in the tree.
pub(crate) const LEAD_BYTES: usize = PREFIX.len() + 8 + 1;

/// The beginning of the keys of the elements of tree `nth` of the object `id`.
fn lead(id: u64, nth: usize) -> [u8; LEAD_BYTES] {
    let mut lead = [0; LEAD_BYTES];
    lead[..4].copy_from_slice(&PREFIX);
    lead[4..12].copy_from_slice(&id.to_be_bytes());
    lead[12] = MARK | nth as u8;
    lead
}

/// The object, the tree and the key of an element whose entry has this key; `None` if it is none.
pub fn element_of_entry(key: &[u8]) -> Option<(u64, usize, &[u8])> {
    let (lead, rest) = key.split_first_chunk::<LEAD_BYTES>()?;
    let is_element = lead[..4] == PREFIX && lead[12] & MARK != 0;
    let id = u64::from_be_bytes(lead[4..12].try_into().ok()?);
    is_element.then_some((id, usize::from(lead[12] & !MARK), rest))
}

/// The object whose page or element has this key; `None` of a user's key.
pub fn owner_of_entry(key: &[u8]) -> Option<u64> {
    let (lead, _) = key.split_first_chunk::<LEAD_BYTES>()?;
    (lead[..4] == PREFIX).then(|| u64::from_be_bytes(lead[4..12].try_into().expect("8 bytes")))
}

/// The keys between which all elements of the object `id` are: none is less than the first, and
/// all are less than the second.
pub fn entries_of_object(id: u64) -> (Vec<u8>, Vec<u8>) {
    (lead(id, 0).to_vec(), lead(id, usize::from(!MARK)).to_vec())
}

/// The key of an element's entry as it is for the object `id`.
pub fn entry_for(key: &[u8], id: u64) -> Vec<u8> {
    let mut key = key.to_vec();
    key[PREFIX.len()..PREFIX.len() + 8].copy_from_slice(&id.to_be_bytes());
    key
}

impl TreeMut<'_> {
    /// True if its elements are entries of their own.
    pub(crate) fn is_entries(&self) -> bool {
        self.tree.height() == ENTRIES
    }

    fn lead(&self) -> [u8; LEAD_BYTES] {
        lead(self.allocation.id, self.nth)
    }

    fn entry_key(&self, key: &[u8]) -> Vec<u8> {
        [&self.lead()[..], key].concat()
    }

    /// The value of the element with `key`.
    pub(crate) fn entry(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let key = self.entry_key(key);
        self.pages.element(&key)
    }

    /// Stores the element with `key`, which is new if it `is_new`.
    pub(crate) fn put_entry(&mut self, key: &[u8], value: &[u8], is_new: bool) {
        let full = self.entry_key(key);
        self.pages.put_element(&full, Some(value), is_new);
        if is_new {
            self.tree.grow(1);
            self.with_known_counts(|counts| counts.add(key));
        }
    }

    /// Removes the element with `key`, which is there.
    pub(crate) fn remove_entry(&mut self, key: &[u8]) {
        let full = self.entry_key(key);
        self.pages.put_element(&full, None, false);
        self.tree.grow(-1);
        self.with_known_counts(|counts| counts.remove(key));
    }

    fn with_known_counts(&mut self, change: impl FnOnce(&mut Counts)) {
        let place = (self.allocation.id, self.nth);
        if let Some(mut counts) = self.pages.take_counts(place) {
            change(&mut counts);
            self.pages.keep_counts(place, counts, true);
        }
    }

    /// Calls `each` with elements whose keys are at least `from` and below `end`, in order or
    /// against it, until it returns false.
    fn walk(
        &mut self,
        (from, end): (&[u8], Option<&[u8]>),
        direction: Direction,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let lower = self.entry_key(from);
        let upper = match end {
            Some(end) => self.entry_key(end),
            None => lead(self.allocation.id, self.nth + 1).to_vec(),
        };
        let mut each = |key: &[u8], value: &[u8]| each(&key[LEAD_BYTES..], value);
        self.pages.walk_elements((&lower, &upper), direction, &mut each)
    }

    /// The counts, and whether they were made now, as they were not known.
    fn counts(&mut self) -> Result<(Counts, bool)> {
        if let Some(counts) = self.pages.take_counts((self.allocation.id, self.nth)) {
            return Ok((counts, false));
        }
        let mut counts = Counts::default();
        self.walk((&[], None), Direction::Forward, &mut |key, _| {
            counts.push(key);
            true
        })?;
        if counts.len() != self.tree.len() {
            return Err(damaged("it has not as many elements as it says"));
        }
        Ok((counts, true))
    }

    /// A range that is no larger than it should be, for `find`, which tells where in the counts.
    fn range(&mut self, find: impl Fn(&Counts) -> Option<Found>) -> Result<Option<Found>> {
        let (mut counts, mut are_news) = self.counts()?;
        let mut found = find(&counts);
        if let Some(large) = found.as_ref().filter(|found| found.count > RANGE_MAX) {
            let (mut nth, mut cuts) = (0, Vec::<(Vec<u8>, u64)>::new());
            self.walk((&large.first, large.end.as_deref()), Direction::Forward, &mut |key, _| {
                if nth > 0 && nth % RANGE == 0 {
                    cuts.push((key.to_vec(), 0));
                }
                if let Some((_, count)) = cuts.last_mut() {
                    *count += 1;
                }
                nth += 1;
                true
            })?;
            if nth != large.count {
                return Err(damaged("its counts are not those of its elements"));
            }
            counts.cut(&large.first, cuts);
            (found, are_news) = (find(&counts), true);
        }
        self.pages.keep_counts((self.allocation.id, self.nth), counts, are_news);
        Ok(found)
    }

    /// How many keys are less than `key`, and whether it is there.
    pub(crate) fn find_entry(&mut self, key: &[u8]) -> Result<(u64, bool)> {
        let Some(found) = self.range(|counts| counts.of_key(key))? else { return Ok((0, false)) };
        let (mut rank, mut is_there) = (found.before, false);
        let end = [key, &[0]].concat();
        self.walk((&found.first, Some(&end)), Direction::Forward, &mut |own, _| {
            is_there = own == key;
            rank += u64::from(!is_there);
            true
        })?;
        Ok((rank, is_there))
    }

    /// As [`TreeMut::scan`].
    pub(crate) fn scan_entries(
        &mut self,
        rank: u64,
        direction: Direction,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        // From an end on nothing has to be counted.
        let mut left = rank;
        let (mut from, mut end) = (Vec::new(), None);
        match direction {
            Direction::Forward if rank > 0 => {
                let found = self.range(|counts| counts.of_rank(rank))?;
                let found = found.ok_or_else(|| damaged("a count is wrong"))?;
                (from, left) = (found.first, rank - found.before);
            }
            Direction::Backward if rank + 1 < self.tree.len() => {
                let found = self.range(|counts| counts.of_rank(rank))?;
                let found = found.ok_or_else(|| damaged("a count is wrong"))?;
                (end, left) = (found.end, found.before + found.count - 1 - rank);
            }
            Direction::Backward => {
                (left, end) = (0, self.known_end(|counts, last| counts.of_rank(last)?.end))
            }
            Direction::Forward => {
                let first = self.known_end(|counts, _| Some(counts.of_rank(0)?.first));
                from = first.unwrap_or_default();
            }
        }
        let mut first = None;
        self.walk((&from, end.as_deref()), direction, &mut |key, value| {
            if rank == 0 && first.is_none() {
                first = Some(key.to_vec());
            }
            if left > 0 {
                left -= 1;
                return true;
            }
            each(key, value)
        })?;
        // What is walked over next begins behind what has gone before it.
        if let Some(first) = first.filter(|first| direction == Direction::Forward && *first > from)
        {
            self.begin(&first);
        }
        Ok(())
    }

    /// No element has a lesser key than `key`: walks from there on pass nothing else by.
    pub(crate) fn begin(&mut self, key: &[u8]) {
        self.with_known_counts(|counts| counts.begin(key));
    }

    /// Puts all elements under the name `id`, too.
    pub(crate) fn copy_entries(&mut self, id: u64) -> Result<()> {
        let (mut from, lead) = (Vec::new(), lead(id, self.nth));
        loop {
            let some = self.entries_from(&mut from)?;
            if some.is_empty() {
                return Ok(());
            }
            for (key, value) in some {
                self.pages.put_element(&[&lead[..], &key].concat(), Some(&value), true);
            }
        }
    }

    /// Some elements from `from` on, which goes behind the last one; none if there is none.
    pub(crate) fn entries_from(&mut self, from: &mut Vec<u8>) -> Result<Vec<Element>> {
        let mut some: Vec<Element> = Vec::new();
        self.walk((from, None), Direction::Forward, &mut |key, value| {
            some.push((key.to_vec(), value.to_vec()));
            some.len() < COPIED_AT_ONCE
        })?;
        if let Some((last, _)) = some.last() {
            *from = [last, &[0][..]].concat();
        }
        Ok(some)
    }

    /// Removes all elements, one by one.
    pub(crate) fn clear_entries(&mut self) -> Result<()> {
        let mut keys = Vec::new();
        self.walk((&[], None), Direction::Forward, &mut |key, _| {
            keys.push(key.to_vec());
            true
        })?;
        keys.iter().for_each(|key| self.remove_entry(key));
        Ok(())
    }

    /// Calls `each` with the elements whose keys are above `last`, or all, until it returns false;
    /// only of a tree whose elements are entries.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn scan_behind(
        &mut self,
        last: Option<&[u8]>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        debug_assert!(self.is_entries(), "others are scanned by their ranks");
        let from = last.map_or_else(Vec::new, |last| [last, &[0]].concat());
        self.walk((&from, None), Direction::Forward, each)
    }

    /// What `tell` says of an end of the tree, given its last rank, if counts are known.
    fn known_end(&mut self, tell: impl FnOnce(&Counts, u64) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
        let (place, last) = ((self.allocation.id, self.nth), self.tree.len().checked_sub(1)?);
        let counts = self.pages.take_counts(place)?;
        let end = tell(&counts, last);
        self.pages.keep_counts(place, counts, false);
        end
    }

    /// The elements of some ranks, which are about to be removed: from then on it is known where
    /// others begin and end.
    pub(crate) fn entries_of(&mut self, ranks: Range<u64>) -> Result<Vec<Element>> {
        self.range(|counts| counts.of_rank(ranks.start))?;
        let mut all = Vec::new();
        let count = ranks.end.saturating_sub(ranks.start) as usize;
        if count > 0 {
            self.scan_entries(ranks.start, Direction::Forward, &mut |key, value| {
                all.push((key.to_vec(), value.to_vec()));
                all.len() < count
            })?;
        }
        match all.len() == count {
            true => Ok(all),
            false => Err(damaged("a count is wrong")),
        }
    }
}
