//! Snapshots.

use crate::convert::{keys_of, missing, value, value_or};
use crate::error::call;
use crate::input::{input, range};
use crate::walk::{Shape, Walk};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use silica::KeyRange;
use std::sync::{Mutex, PoisonError};

#[pyclass(module = "silica", frozen)]
pub(crate) struct Snapshot {
    inner: Mutex<Option<silica::Snapshot>>,
}

impl Snapshot {
    pub(crate) fn new(inner: silica::Snapshot) -> Self {
        Snapshot { inner: Mutex::new(Some(inner)) }
    }

    fn open(&self) -> silica::Result<silica::Snapshot> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner).clone();
        inner.ok_or_else(|| {
            let message = "the snapshot is closed; take another";
            silica::Error::new(silica::ErrorKind::Closed, message)
        })
    }

    fn walk(&self, py: Python<'_>, shape: Shape) -> PyResult<Walk> {
        call(py, || Walk::of_snapshot(&self.open()?, &KeyRange::ALL, false, shape))
    }
}

#[pymethods]
impl Snapshot {
    #[pyo3(signature = (key, default=None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let key = input(key)?;
        let found = call(py, || self.open()?.get(&*key))?;
        Ok(value_or(py, found, default))
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = input(key)?;
        value(py, call(py, || self.open()?.get(&*bytes))?).ok_or_else(|| missing(key))
    }

    fn __contains__(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = input(key)?;
        call(py, || self.open()?.get_with(&*key, |entry| entry.is_some()))
    }

    fn get_many<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<Option<Bound<'py, PyBytes>>>> {
        let keys = keys_of(keys)?;
        let found = call(py, || self.open()?.get_many(&keys))?;
        Ok(found.into_iter().map(|found| value(py, found)).collect())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(call(py, || self.open()?.count(..))? as usize)
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
        call(py, || Walk::of_snapshot(&self.open()?, &range, reverse, shape))
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.inner.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: Vec<Bound<'_, PyAny>>) {
        self.close(py);
    }
}
