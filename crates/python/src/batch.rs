//! Writes that happen together.

use crate::cell::Cell;
use crate::error::call;
use crate::input::{expiry, owned};
use pyo3::prelude::*;
use silica::{Durability, EntryRef, WriteBatch};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

enum Operation {
    Put { key: Vec<u8>, value: Vec<u8>, expires_unix_ms: u64 },
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Option<Vec<u8>>),
}

#[pyclass(module = "silica", frozen)]
pub(crate) struct Batch {
    cell: Arc<Cell>,
    durability: Option<Durability>,
    operations: Mutex<Vec<Operation>>,
}

impl Batch {
    pub(crate) fn new(cell: Arc<Cell>, durability: Option<Durability>) -> Self {
        Batch { cell, durability, operations: Mutex::default() }
    }

    fn operations(&self) -> MutexGuard<'_, Vec<Operation>> {
        self.operations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn borrowed(operations: &[Operation]) -> WriteBatch<'_> {
    let mut batch = WriteBatch::new();
    for operation in operations {
        match operation {
            Operation::Put { key, value, expires_unix_ms } => {
                let expires_unix_ms = *expires_unix_ms;
                batch.put_entry(key, EntryRef { expires_unix_ms, ..EntryRef::new(value) })
            }
            Operation::Delete(key) => batch.delete(key),
            Operation::DeleteRange(start, stop) => batch.delete_range(start, stop.as_deref()),
        };
    }
    batch
}

#[pymethods]
impl Batch {
    #[pyo3(signature = (key, value, *, ttl=None))]
    fn put(
        &self,
        key: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        ttl: Option<f64>,
    ) -> PyResult<()> {
        let (key, value, expires_unix_ms) = (owned(key)?, owned(value)?, expiry(ttl)?);
        self.operations().push(Operation::Put { key, value, expires_unix_ms });
        Ok(())
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        self.put(key, value, None)
    }

    fn delete(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let key = owned(key)?;
        self.operations().push(Operation::Delete(key));
        Ok(())
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        self.delete(key)
    }

    #[pyo3(signature = (start=None, stop=None))]
    fn delete_range(
        &self,
        start: Option<&Bound<'_, PyAny>>,
        stop: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let start = start.map(owned).transpose()?.unwrap_or_default();
        let stop = stop.map(owned).transpose()?;
        self.operations().push(Operation::DeleteRange(start, stop));
        Ok(())
    }

    fn __len__(&self) -> usize {
        self.operations().len()
    }

    fn clear(&self) {
        self.operations().clear();
    }

    fn write(&self, py: Python<'_>) -> PyResult<()> {
        let operations = std::mem::take(&mut *self.operations());
        call(py, || {
            let batch = borrowed(&operations);
            let asked = self.durability;
            self.cell.with(|k| k.write_with(&batch, asked.unwrap_or_else(|| k.durability())))
        })
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
        if kind.is_none() {
            return self.write(py);
        }
        self.clear();
        Ok(())
    }
}
