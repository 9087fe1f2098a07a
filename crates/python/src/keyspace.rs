//! Keyspaces as mappings.

use crate::batch::Batch;
use crate::cell::Cell;
use crate::convert::{batch_of, entries_of, keys_of, missing, seconds, value, value_or};
use crate::error::call;
use crate::input::{expiry, input, range, time_to_live};
use crate::snapshot::Snapshot;
use crate::transaction::Transaction;
use crate::walk::{Shape, Walk};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use silica::{EntryRef, Update, WriteBatch};
use std::sync::Arc;

#[pyclass(module = "silica", subclass, frozen)]
pub(crate) struct Keyspace {
    pub(crate) cell: Arc<Cell>,
}

#[pymethods]
impl Keyspace {
    #[getter]
    fn name(&self) -> &str {
        self.cell.name()
    }

    #[getter]
    fn engine(&self, py: Python<'_>) -> PyResult<String> {
        let name = |k: &silica::Keyspace| Ok(k.engine().descriptor().name.to_string());
        call(py, || self.cell.with(name))
    }

    fn __repr__(&self) -> String {
        format!("<silica.Keyspace '{}'>", self.cell.name())
    }

    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let found = self.look_up(py, &input(key)?)?;
        Ok(match found {
            Some(found) => found.into_any(),
            None => default.unwrap_or_else(|| py.None().into_bound(py)),
        })
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        self.look_up(py, &input(key)?)?.ok_or_else(|| missing(key))
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = input(key)?;
        call(py, || self.cell.with(|k| k.get_with(&*key, |entry| entry.is_some())))
    }

    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        let keys = keys_of(keys)?;
        let found = call(py, || self.cell.with(|k| k.get_many(&keys)))?;
        Ok(found.into_iter().map(|found| value(py, found)).collect())
    }

    #[pyo3(signature = (key, value, *, ttl=None, durability=None))]
    fn put(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: Option<f64>,
        durability: Option<&str>,
    ) -> PyResult<()> {
        let (key, value) = (input(key)?, input(value)?);
        let expires_unix_ms = expiry(ttl)?;
        let asked = crate::input::durability(durability)?;
        call(py, || {
            let mut batch = WriteBatch::new();
            batch.put_entry(&key, EntryRef { expires_unix_ms, ..EntryRef::new(&value) });
            self.cell.with(|k| k.write_with(&batch, asked.unwrap_or_else(|| k.durability())))
        })
    }

    fn __setitem__(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (key, value) = (input(key)?, input(value)?);
        call(py, || self.cell.with(|k| k.put(&*key, &*value)))
    }

    #[pyo3(signature = (entries, *, ttl=None, durability=None))]
    fn put_many(
        &self,
        py: Python<'_>,
        entries: &Bound<'_, PyAny>,
        ttl: Option<f64>,
        durability: Option<&str>,
    ) -> PyResult<()> {
        let entries = entries_of(entries)?;
        let expires_unix_ms = expiry(ttl)?;
        let asked = crate::input::durability(durability)?;
        call(py, || {
            let batch = batch_of(&entries, expires_unix_ms);
            self.cell.with(|k| k.write_with(&batch, asked.unwrap_or_else(|| k.durability())))
        })
    }

    #[pyo3(signature = (key, *, durability=None))]
    fn delete(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        durability: Option<&str>,
    ) -> PyResult<()> {
        let key = input(key)?;
        let asked = crate::input::durability(durability)?;
        call(py, || {
            let mut batch = WriteBatch::new();
            batch.delete(&key);
            self.cell.with(|k| k.write_with(&batch, asked.unwrap_or_else(|| k.durability())))
        })
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        match self.take(py, key)? {
            Some(_) => Ok(()),
            None => Err(missing(key)),
        }
    }

    #[pyo3(signature = (key, *default))]
    fn pop<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Vec<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match (self.take(py, key)?, default.into_iter().next()) {
            (None, None) => Err(missing(key)),
            (found, default) => Ok(value_or(py, found, default)),
        }
    }

    fn setdefault<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let (key, default) = (input(key)?, input(default)?);
        let held = call(py, || {
            let mut held = None;
            let decide = |entry: Option<EntryRef<'_>>| {
                held = entry.map(|entry| entry.value.to_vec());
                if held.is_some() { Update::Keep } else { Update::put(default.to_vec()) }
            };
            self.cell.with(|k| k.update(&*key, decide))?;
            Ok(held)
        })?;
        Ok(PyBytes::new(py, held.as_deref().unwrap_or(&default)))
    }

    #[pyo3(signature = (start=None, stop=None))]
    fn delete_range(
        &self,
        py: Python<'_>,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let range = range(start, stop, None)?;
        call(py, || self.cell.with(|k| k.delete_range(range)))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.count(py, true)? as usize)
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        call(py, || self.cell.with(|k| k.iter().next().transpose())).map(|first| first.is_some())
    }

    #[pyo3(signature = (exact=false))]
    fn count(&self, py: Python<'_>, exact: bool) -> PyResult<u64> {
        call(py, || self.cell.with(|k| Ok(k.count(exact)?.estimate)))
    }

    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || self.cell.with(silica::Keyspace::clear))
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || self.cell.with(silica::Keyspace::sync))
    }

    fn verify(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || self.cell.with(silica::Keyspace::verify))
    }

    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let metrics = call(py, || self.cell.with(silica::Keyspace::metrics))?;
        let dict = PyDict::new(py);
        metrics.0.iter().try_for_each(|(name, value)| dict.set_item(name, value))?;
        Ok(dict)
    }

    fn inspect(&self, py: Python<'_>) -> PyResult<String> {
        call(py, || self.cell.with(silica::Keyspace::inspect))
    }

    fn ttl(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<f64> {
        let bytes = input(key)?;
        let found = call(py, || self.cell.with(|k| k.ttl(&*bytes)))?;
        found.map(seconds).ok_or_else(|| missing(key))
    }

    fn expire(&self, py: Python<'_>, key: &Bound<'_, PyAny>, ttl: f64) -> PyResult<bool> {
        let (key, ttl) = (input(key)?, time_to_live(ttl)?);
        call(py, || self.cell.with(|k| k.expire(&*key, ttl)))
    }

    fn persist(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = input(key)?;
        call(py, || self.cell.with(|k| k.persist(&*key)))
    }

    fn __iter__(&self, py: Python<'_>) -> PyResult<Walk> {
        self.walk(py, Shape::Keys)
    }

    fn _walk(&self, py: Python<'_>, shape: &str) -> PyResult<Walk> {
        self.walk(py, Shape::of(shape)?)
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
        let range = range(start, stop, prefix)?;
        let shape = if keys { Shape::Keys } else { Shape::Items };
        let snapshot = call(py, || self.cell.with(silica::Keyspace::snapshot))?;
        call(py, || Walk::of_snapshot(&snapshot, &range, reverse, shape))
    }

    fn snapshot(&self, py: Python<'_>) -> PyResult<Snapshot> {
        call(py, || self.cell.with(silica::Keyspace::snapshot)).map(Snapshot::new)
    }

    #[pyo3(signature = (*, exclusive=false, wait=None))]
    fn transaction(
        &self,
        py: Python<'_>,
        exclusive: bool,
        wait: Option<f64>,
    ) -> PyResult<Transaction> {
        Transaction::begin(py, &self.cell, exclusive, wait)
    }

    #[pyo3(signature = (*, durability=None))]
    fn batch(&self, durability: Option<&str>) -> PyResult<Batch> {
        Ok(Batch::new(Arc::clone(&self.cell), crate::input::durability(durability)?))
    }
}

impl Keyspace {
    /// The value of `key`. One in memory is fetched with the interpreter's lock: that takes less
    /// than to hand the lock over and back.
    fn look_up<'py>(&self, py: Python<'py>, key: &[u8]) -> PyResult<Option<Bound<'py, PyBytes>>> {
        if let Some(found) = self.cell.at_hand(key, |value| PyBytes::new(py, value)) {
            return Ok(found);
        }
        Ok(value(py, call(py, || self.cell.with(|k| k.get(key)))?))
    }

    /// Removes `key` in one step, and returns the value that it had.
    fn take(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u8>>> {
        let key = input(key)?;
        call(py, || {
            let mut held = None;
            let decide = |entry: Option<EntryRef<'_>>| {
                held = entry.map(|entry| entry.value.to_vec());
                if held.is_some() { Update::Delete } else { Update::Keep }
            };
            self.cell.with(|k| k.update(&*key, decide))?;
            Ok(held)
        })
    }

    fn walk(&self, py: Python<'_>, shape: Shape) -> PyResult<Walk> {
        call(py, || self.cell.with(|k| Walk::of_keyspace(k, shape)))
    }
}
