//! Iterators: entries are fetched some at a time without the interpreter's lock.

use crate::error::call;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use silica::engine::{Intent, IterateOptions};
use silica::{Iter, KeyRange, Keyspace, RangeIterator, Result, Snapshot};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Entries of the first fetch. Each later one takes twice as many, up to the most.
const FIRST_ENTRIES: usize = 8;
const ENTRIES_MAX: usize = 1024;
/// A fetch ends when it has so many bytes.
const BYTES_MAX: usize = 1 << 20;

/// What an iterator hands out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Keys,
    Values,
    Items,
}

impl Shape {
    pub(crate) fn of(word: &str) -> PyResult<Self> {
        match word {
            "keys" => Ok(Shape::Keys),
            "values" => Ok(Shape::Values),
            "items" => Ok(Shape::Items),
            _ => Err(PyValueError::new_err("use keys, values or items")),
        }
    }
}

enum Source {
    Ordered { at: RangeIterator, reverse: bool, has_begun: bool },
    Hashed(Box<Iter>),
}

struct State {
    source: Source,
    fetched: VecDeque<(Vec<u8>, Vec<u8>)>,
    entries: usize,
    is_over: bool,
}

/// What `range`, `items` and so on return.
#[pyclass(module = "silica", frozen)]
pub(crate) struct Walk {
    state: Mutex<State>,
    shape: Shape,
}

impl Walk {
    fn new(source: Source, shape: Shape) -> Self {
        let fetched = VecDeque::new();
        let state = State { source, fetched, entries: FIRST_ENTRIES, is_over: false };
        Walk { state: Mutex::new(state), shape }
    }

    /// Goes through all of a keyspace, in order if its engine keeps one.
    pub(crate) fn of_keyspace(keyspace: &Keyspace, shape: Shape) -> Result<Self> {
        if keyspace.engine().descriptor().capabilities.ordered {
            return Self::of_snapshot(&keyspace.snapshot()?, &KeyRange::ALL, false, shape);
        }
        Ok(Self::new(Source::Hashed(Box::new(keyspace.iter())), shape))
    }

    /// Goes through a range of a snapshot.
    pub(crate) fn of_snapshot(
        snapshot: &Snapshot,
        range: &KeyRange,
        reverse: bool,
        shape: Shape,
    ) -> Result<Self> {
        let options =
            IterateOptions { is_of_keys: shape == Shape::Keys, intent: Intent::default() };
        Ok(Self::of_iterator(snapshot.iterator_with(range, options)?, reverse, shape))
    }

    /// Goes where an iterator can go.
    pub(crate) fn of_iterator(at: RangeIterator, reverse: bool, shape: Shape) -> Self {
        Self::new(Source::Ordered { at, reverse, has_begun: false }, shape)
    }
}

impl State {
    fn step(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        match &mut self.source {
            Source::Hashed(iter) => iter.next().transpose(),
            Source::Ordered { at, reverse, has_begun } => {
                let is_there = match (std::mem::replace(has_begun, true), *reverse) {
                    (false, false) => at.seek_to_first()?,
                    (false, true) => at.seek_to_last()?,
                    (true, false) => at.next()?,
                    (true, true) => at.prev()?,
                };
                if !is_there {
                    return Ok(None);
                }
                let owned = |bytes: Option<&[u8]>| bytes.unwrap_or_default().to_vec();
                Ok(Some((owned(at.key()), owned(at.value()))))
            }
        }
    }

    fn fetch(&mut self) -> Result<()> {
        let mut bytes = 0;
        while self.fetched.len() < self.entries && bytes < BYTES_MAX {
            let Some((key, value)) = self.step()? else {
                self.is_over = true;
                break;
            };
            bytes += key.len() + value.len();
            self.fetched.push_back((key, value));
        }
        self.entries = (self.entries * 2).min(ENTRIES_MAX);
        Ok(())
    }

    fn next(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        if self.fetched.is_empty() && !self.is_over {
            self.fetch().inspect_err(|_| self.is_over = true)?;
        }
        Ok(self.fetched.pop_front())
    }
}

#[pymethods]
impl Walk {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        // Nobody who holds this lock waits for the interpreter's.
        let at_hand = self.state.try_lock().ok().and_then(|mut state| state.fetched.pop_front());
        let next = match at_hand {
            Some(entry) => Some(entry),
            None => call(py, || self.state.lock().unwrap_or_else(PoisonError::into_inner).next())?,
        };
        let Some((key, value)) = next else { return Ok(None) };
        let bytes = |bytes: &[u8]| PyBytes::new(py, bytes);
        Ok(Some(match self.shape {
            Shape::Keys => bytes(&key).into_any(),
            Shape::Values => bytes(&value).into_any(),
            Shape::Items => (bytes(&key), bytes(&value)).into_pyobject(py)?.into_any(),
        }))
    }
}
