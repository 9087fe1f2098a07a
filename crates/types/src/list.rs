//! Lists: values by their position.

use crate::object::Object;
use crate::pages::Pages;
use crate::tree::{Direction, TreeMut};
use silica_base::Result;
use std::ops::Range;

/// An object that is a list, and its pages.
pub struct List<'l> {
    object: &'l mut Object,
    pages: &'l mut dyn Pages,
}

impl<'l> List<'l> {
    /// `object` as a list.
    pub fn of(object: &'l mut Object, pages: &'l mut dyn Pages) -> Self {
        List { object, pages }
    }

    fn tree(&mut self) -> TreeMut<'_> {
        self.object.tree(0, self.pages)
    }

    /// Number of values.
    pub fn len(&self) -> u64 {
        self.object.len(0)
    }

    /// True if there is no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The place that `index` means, which counts from the end if it is negative.
    pub fn place(&self, index: i64) -> Option<u64> {
        let len = self.len() as i64;
        let place = if index < 0 { index.checked_add(len)? } else { index };
        (0..len).contains(&place).then_some(place as u64)
    }

    /// The places from `start` to `end`, both included, each counted from the end if it is
    /// negative.
    pub fn places(&self, start: i64, end: i64) -> Range<u64> {
        let len = self.len() as i64;
        let place = |index: i64| if index < 0 { index.saturating_add(len) } else { index };
        let (start, end) = (place(start).max(0), place(end).min(len - 1));
        if start > end { 0..0 } else { start as u64..end as u64 + 1 }
    }

    /// The value at `place`.
    ///
    /// # Errors
    /// Those of the pages, here and below.
    pub fn at(&mut self, place: u64) -> Result<Option<Vec<u8>>> {
        Ok(self.tree().at(place)?.map(|(_, value)| value))
    }

    /// Adds `value` before the first one, or after the last one.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn push(&mut self, at_front: bool, value: &[u8]) -> Result<()> {
        let place = if at_front { 0 } else { self.len() };
        self.insert(place, value)
    }

    /// Inserts `value` so that it stands at `place`.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn insert(&mut self, place: u64, value: &[u8]) -> Result<()> {
        self.tree().insert_at(place, b"", value)
    }

    /// Removes the first or last value.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn pop(&mut self, at_front: bool) -> Result<Option<Vec<u8>>> {
        let place = if at_front { 0 } else { self.len().saturating_sub(1) };
        Ok(self.tree().remove_at(place)?.map(|(_, value)| value))
    }

    /// Replaces the value at `place`; false if there is none.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn set(&mut self, place: u64, value: &[u8]) -> Result<bool> {
        self.tree().set_at(place, value)
    }

    /// Removes the values at `places`.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn remove(&mut self, places: Range<u64>) -> Result<u64> {
        self.tree().remove_ranks(places)
    }

    /// Calls `each` with the values from `place` on, until it returns false.
    ///
    /// # Errors
    /// Those of the pages.
    pub fn scan(
        &mut self,
        place: u64,
        direction: Direction,
        each: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<()> {
        self.tree().scan(place, direction, &mut |_, value| each(value))
    }

    /// What OBJECT ENCODING says.
    pub fn encoding(object: &Object) -> &'static str {
        if object.is_flat(0) && object.len(0) <= 128 { "listpack" } else { "quicklist" }
    }
}
