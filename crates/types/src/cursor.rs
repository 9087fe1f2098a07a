//! A place in a tree in the order of its keys, from which one goes on or ahead.
//!
//! Some elements behind the place are copied at once: more each time if one goes on step by step,
//! few after a leap. So a pass over neighbours reads each page about once, and a search of keys
//! that are far apart costs a descent for each.

use crate::tree::{Direction, Element, TreeMut};
use silica_base::Result;
use std::collections::VecDeque;

/// Elements that are copied after a leap, and at most.
const STEP_MIN: usize = 4;
const STEP_MAX: usize = 128;

/// A place in a tree that is not changed meanwhile.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cursor {
    /// The element of the place, and those behind it.
    ahead: VecDeque<Element>,
    /// The rank of the first element that is not copied.
    rank: u64,
    step: usize,
}

impl Cursor {
    fn load(&mut self, tree: &mut TreeMut<'_>, rank: u64, step: usize) -> Result<()> {
        self.ahead.clear();
        (self.rank, self.step) = (rank, step.clamp(STEP_MIN, STEP_MAX));
        let (ahead, step) = (&mut self.ahead, self.step);
        tree.scan(rank, Direction::Forward, &mut |key, value| {
            ahead.push_back((key.to_vec(), value.to_vec()));
            ahead.len() < step
        })?;
        self.rank += self.ahead.len() as u64;
        Ok(())
    }

    fn key(&self) -> Option<Vec<u8>> {
        self.ahead.front().map(|(key, _)| key.clone())
    }

    /// Goes to the first element and returns its key.
    ///
    /// # Errors
    /// Those of the pages, here and below.
    pub(crate) fn start(&mut self, tree: &mut TreeMut<'_>) -> Result<Option<Vec<u8>>> {
        self.load(tree, 0, 0)?;
        Ok(self.key())
    }

    /// Goes to the next element and returns its key.
    ///
    /// # Errors
    /// Those of the pages.
    pub(crate) fn next(&mut self, tree: &mut TreeMut<'_>) -> Result<Option<Vec<u8>>> {
        self.ahead.pop_front();
        if self.ahead.is_empty() {
            self.load(tree, self.rank, 2 * self.step)?;
        }
        Ok(self.key())
    }

    /// Goes ahead to the first element whose key is not less than `key` and returns its key. It
    /// never goes back.
    ///
    /// # Errors
    /// Those of the pages.
    pub(crate) fn seek(&mut self, tree: &mut TreeMut<'_>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        while self.ahead.front().is_some_and(|(ahead, _)| ahead.as_slice() < key) {
            self.ahead.pop_front();
        }
        if self.ahead.is_empty() && self.rank < tree.len() {
            let (rank, _) = tree.find(key)?;
            let is_near = rank <= self.rank + self.step as u64;
            let step = if is_near { 2 * self.step } else { STEP_MIN };
            self.load(tree, rank.max(self.rank), step)?;
        }
        Ok(self.key())
    }

    /// Goes ahead to the element of `rank` and returns it.
    ///
    /// # Errors
    /// Those of the pages.
    pub(crate) fn at(&mut self, tree: &mut TreeMut<'_>, rank: u64) -> Result<Option<&Element>> {
        let first = self.rank - self.ahead.len() as u64;
        match usize::try_from(rank.saturating_sub(first)) {
            Ok(passed) if passed < self.ahead.len() => drop(self.ahead.drain(..passed)),
            _ => {
                let is_near = rank < self.rank + self.step as u64;
                let step = if is_near { 2 * self.step } else { STEP_MIN };
                self.load(tree, rank, step)?;
            }
        }
        Ok(self.ahead.front())
    }
}
