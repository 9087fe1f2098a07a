//! Transactions.

use crate::cell::Cell;
use crate::convert::{missing, value, value_or};
use crate::error::call;
use crate::input::{expiry, input, range, time_to_live};
use crate::walk::{Shape, Walk};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use silica::engine::transaction::{Savepoint, TransactionOptions, Wait};
use silica::{Durability, EntryRef, Error, ErrorKind, KeyRange};
use std::sync::{Mutex, MutexGuard, PoisonError};

struct Open {
    inner: silica::Transaction,
    usual: Durability,
    savepoints: Vec<Savepoint>,
}

#[pyclass(module = "silica", frozen)]
pub(crate) struct Transaction {
    open: Mutex<Option<Open>>,
}

fn over() -> Error {
    Error::new(ErrorKind::Closed, "the transaction is over; begin another")
}

impl Transaction {
    pub(crate) fn begin(
        py: Python<'_>,
        cell: &Cell,
        is_exclusive: bool,
        wait: Option<f64>,
    ) -> PyResult<Self> {
        let wait = match wait {
            None => Wait::Forever,
            Some(0.0) => Wait::No,
            Some(seconds) => Wait::AtMost(time_to_live(seconds)?),
        };
        let options = TransactionOptions { is_exclusive, wait };
        let open = call(py, || {
            // Not inside of the cell's lock: it may wait for another transaction.
            let keyspace = cell.with(|k| Ok(k.clone()))?;
            let inner = keyspace.transaction_with(options)?;
            Ok(Open { inner, usual: keyspace.durability(), savepoints: Vec::new() })
        })?;
        Ok(Transaction { open: Mutex::new(Some(open)) })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `work` with the transaction, without the interpreter's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Open) -> silica::Result<T> + Send,
    ) -> PyResult<T> {
        call(py, || work(self.lock().as_mut().ok_or_else(over)?))
    }

    fn mark(open: &Open, number: usize) -> silica::Result<Savepoint> {
        let message = || format!("no savepoint {number} in this transaction");
        let found = open.savepoints.get(number).copied();
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, message()))
    }

    fn walk(
        &self,
        py: Python<'_>,
        range: &KeyRange,
        reverse: bool,
        shape: Shape,
    ) -> PyResult<Walk> {
        self.with(py, |open| Ok(Walk::of_iterator(open.inner.iterator(range)?, reverse, shape)))
    }
}

#[pymethods]
impl Transaction {
    #[pyo3(signature = (key, default=None, *, for_update=false))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
        for_update: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let key = input(key)?;
        let found = self.with(py, |open| match for_update {
            true => open.inner.get_for_update(&*key),
            false => open.inner.get(&*key),
        })?;
        Ok(value_or(py, found, default))
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = input(key)?;
        let found = self.with(py, |open| open.inner.get_for_update(&*bytes))?;
        value(py, found).ok_or_else(|| missing(key))
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = input(key)?;
        self.with(py, |open| Ok(open.inner.get_for_update(&*key)?.is_some()))
    }

    #[pyo3(signature = (key, value, *, ttl=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: Option<f64>,
    ) -> PyResult<()> {
        let (key, value, expires_unix_ms) = (input(key)?, input(value)?, expiry(ttl)?);
        self.with(py, |open| {
            open.inner.put_entry(&*key, EntryRef { expires_unix_ms, ..EntryRef::new(&value) });
            Ok(())
        })
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        self.put(py, key, value, None)
    }

    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let key = input(key)?;
        self.with(py, |open| {
            open.inner.delete(&*key);
            Ok(())
        })
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        if self.__contains__(py, key)? { self.delete(py, key) } else { Err(missing(key)) }
    }

    #[pyo3(signature = (start=None, stop=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let range = range(start, stop, None)?;
        self.with(py, |open| {
            open.inner.delete_range(range);
            Ok(())
        })
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Walk> {
        self.walk(py, &KeyRange::ALL, false, Shape::Keys)
    }

    #[pyo3(signature = (start=None, stop=None, *, prefix=None, reverse=false, keys=false))]
    fn range(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
        prefix: Option<&Bound<'_, PyAny>>,
        reverse: bool,
        keys: bool,
    ) -> PyResult<Walk> {
        let shape = if keys { Shape::Keys } else { Shape::Items };
        self.walk(py, &range(start, stop, prefix)?, reverse, shape)
    }

    fn savepoint(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |open| {
            let mark = open.inner.savepoint();
            open.savepoints.push(mark);
            Ok(open.savepoints.len() - 1)
        })
    }

    fn rollback_to(&self, py: Python<'_>, savepoint: usize) -> PyResult<()> {
        self.with(py, |open| {
            let mark = Self::mark(open, savepoint)?;
            open.inner.roll_back_to(mark)
        })
    }

    fn release(&self, py: Python<'_>, savepoint: usize) -> PyResult<()> {
        self.with(py, |open| {
            let mark = Self::mark(open, savepoint)?;
            open.inner.release(mark)
        })
    }

    #[pyo3(signature = (*, durability=None))]
    fn commit(&self, py: Python<'_>, durability: Option<&str>) -> PyResult<()> {
        let asked = crate::input::durability(durability)?;
        call(py, || {
            let open = self.lock().take().ok_or_else(over)?;
            open.inner.commit_with(asked.unwrap_or(open.usual))
        })
    }

    fn rollback(&self, py: Python<'_>) {
        py.detach(|| self.lock().take());
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (kind, *_exception))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: &Bound<'_, PyAny>,
        _exception: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let is_open = py.detach(|| self.lock().is_some());
        match (kind.is_none(), is_open) {
            (true, true) => self.commit(py, None),
            // The block has committed or rolled back itself.
            (true, false) => Ok(()),
            (false, _) => {
                self.rollback(py);
                Ok(())
            }
        }
    }
}
