//! Caches in memory.

use crate::convert::{batch_of, entries_of, keys_of, missing, seconds, value, value_or};
use crate::error::call;
use crate::input::{expiry, input, time_to_live};
use crate::store::{options_of, pairs};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use silica::{EntryRef, Update, WriteBatch};

#[pyclass(module = "silica", frozen)]
pub(crate) struct Cache {
    inner: silica::Cache,
}

#[pymethods]
impl Cache {
    #[new]
    #[pyo3(signature = (memory_bytes, **options))]
    fn new(
        py: Python<'_>,
        memory_bytes: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let mut options = pairs(options)?;
        options.push(("memory_bytes".to_string(), memory_bytes.str()?.to_string()));
        let inner = call(py, || silica::Cache::open(options_of(&options)?))?;
        Ok(Cache { inner })
    }

    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let key = input(key)?;
        let found = call(py, || self.inner.get(&*key))?;
        Ok(value_or(py, found, default))
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = input(key)?;
        value(py, call(py, || self.inner.get(&*bytes))?).ok_or_else(|| missing(key))
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = input(key)?;
        call(py, || self.inner.get_with(&*key, |entry| entry.is_some()))
    }

    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        let keys = keys_of(keys)?;
        let found = call(py, || self.inner.get_many(&keys))?;
        Ok(found.into_iter().map(|found| value(py, found)).collect())
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
        call(py, || {
            let mut batch = WriteBatch::new();
            batch.put_entry(&key, EntryRef { expires_unix_ms, ..EntryRef::new(&value) });
            self.inner.write(&batch)
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

    #[pyo3(signature = (entries, *, ttl=None))]
    fn put_many(
        &self,
        py: Python<'_>,
        entries: &Bound<'_, PyAny>,
        ttl: Option<f64>,
    ) -> PyResult<()> {
        let (entries, expires_unix_ms) = (entries_of(entries)?, expiry(ttl)?);
        call(py, || self.inner.write(&batch_of(&entries, expires_unix_ms)))
    }

    fn delete(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let key = input(key)?;
        call(py, || self.inner.delete(&*key))
    }

    fn __delitem__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes = input(key)?;
        let was_there = call(py, || {
            let mut was_there = false;
            self.inner.update(&*bytes, |entry| {
                was_there = entry.is_some();
                if was_there { Update::Delete } else { Update::Keep }
            })?;
            Ok(was_there)
        })?;
        if was_there { Ok(()) } else { Err(missing(key)) }
    }

    fn ttl(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<f64> {
        let bytes = input(key)?;
        call(py, || self.inner.ttl(&*bytes))?.map(seconds).ok_or_else(|| missing(key))
    }

    fn expire(&self, py: Python<'_>, key: &Bound<'_, PyAny>, ttl: f64) -> PyResult<bool> {
        let (key, ttl) = (input(key)?, time_to_live(ttl)?);
        call(py, || self.inner.expire(&*key, ttl))
    }

    fn persist(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = input(key)?;
        call(py, || self.inner.persist(&*key))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(call(py, || self.inner.count(true))?.estimate as usize)
    }

    fn __bool__(&self) -> bool {
        true
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let keys = call(py, || self.inner.keys())?;
        let keys: Vec<_> = keys.iter().map(|key| PyBytes::new(py, key)).collect();
        Ok(keys.into_pyobject(py)?.try_iter()?.into_any())
    }

    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || self.inner.clear())
    }

    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let metrics = py.detach(|| self.inner.metrics());
        let dict = PyDict::new(py);
        metrics.0.iter().try_for_each(|(name, value)| dict.set_item(name, value))?;
        Ok(dict)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || self.inner.clone().close())
    }
}
