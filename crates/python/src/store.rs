//! Stores.

use crate::cell::Owner;
use crate::error::{call, raise};
use crate::keyspace::Keyspace;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use silica::{BackupKind, BackupReport, DEFAULT_KEYSPACE, OpenOptions};
use std::path::PathBuf;
use std::sync::Arc;

/// An open store, which is its keyspace `default` as well.
#[pyclass(module = "silica", extends = Keyspace, frozen)]
pub(crate) struct Store {
    path: PathBuf,
    owner: Arc<Owner>,
}

/// Options as pairs of text.
pub(crate) fn pairs(options: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<(String, String)>> {
    let Some(options) = options else { return Ok(Vec::new()) };
    let pair = |(name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let text = match value.cast::<PyBool>() {
            Ok(value) => value.is_true().to_string(),
            Err(_) => value.str()?.to_string(),
        };
        Ok((name.extract::<String>()?, text))
    };
    options.iter().map(pair).collect()
}

/// Options for an opening.
pub(crate) fn options_of(pairs: &[(String, String)]) -> silica::Result<OpenOptions> {
    let start = OpenOptions::new();
    pairs.iter().try_fold(start, |options, (name, text)| options.setting(name, text))
}

#[pyfunction]
#[pyo3(signature = (path, **options))]
pub(crate) fn open(
    py: Python<'_>,
    path: PathBuf,
    options: Option<&Bound<'_, PyDict>>,
) -> PyResult<Py<Store>> {
    let options = pairs(options)?;
    let store = call(py, || options_of(&options)?.open(&path))?;
    let owner = Owner::new(store);
    let base = Keyspace { cell: owner.cell(DEFAULT_KEYSPACE, None) };
    Py::new(py, PyClassInitializer::from(base).add_subclass(Store { path, owner }))
}

#[pyfunction]
pub(crate) fn restore(py: Python<'_>, backup: PathBuf, path: PathBuf) -> PyResult<()> {
    call(py, || silica::restore(backup, path, OpenOptions::new())).map(drop)
}

fn report<'py>(py: Python<'py>, report: BackupReport) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("keyspaces", report.keyspaces)?;
    dict.set_item("files_linked", report.files_linked)?;
    dict.set_item("files_shared", report.files_shared)?;
    dict.set_item("files_written", report.files_written)?;
    dict.set_item("bytes_written", report.bytes_written)?;
    dict.set_item("empty", report.empty)?;
    Ok(dict)
}

#[pymethods]
impl Store {
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    #[getter]
    fn closed(&self, py: Python<'_>) -> bool {
        py.detach(|| self.owner.is_closed())
    }

    fn __repr__(&self) -> String {
        format!("<silica.Store '{}'>", self.path.display())
    }

    fn keyspace(&self, py: Python<'_>, name: &str) -> PyResult<Keyspace> {
        let cell = call(py, || {
            self.owner.with(|store| Ok(self.owner.cell(name, Some(store.keyspace(name)?))))
        })?;
        Ok(Keyspace { cell })
    }

    #[pyo3(signature = (name, engine, **options))]
    fn create_keyspace(
        &self,
        py: Python<'_>,
        name: &str,
        engine: &str,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Keyspace> {
        let options = pairs(options)?;
        let cell = call(py, || {
            let options: Vec<_> = options.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            self.owner.with(|store| {
                let keyspace = store.create_keyspace(name, engine, &options)?;
                Ok(self.owner.cell(name, Some(keyspace)))
            })
        })?;
        Ok(Keyspace { cell })
    }

    fn drop_keyspace(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        call(py, || self.owner.with(|store| store.drop_keyspace(name)))
    }

    fn keyspaces<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for info in call(py, || self.owner.with(silica::Silica::keyspaces))? {
            dict.set_item(info.name, info.engine)?;
        }
        Ok(dict)
    }

    #[pyo3(signature = (path, *, previous=None))]
    fn backup<'py>(
        &self,
        py: Python<'py>,
        path: PathBuf,
        previous: Option<PathBuf>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let made = call(py, || {
            let kind = previous.as_deref().map_or(BackupKind::New, BackupKind::Since);
            self.owner.with(|store| store.backup_with(&path, kind, &mut |_| Ok(())))
        })?;
        report(py, made)
    }

    fn update_backup<'py>(&self, py: Python<'py>, path: PathBuf) -> PyResult<Bound<'py, PyDict>> {
        let made = call(py, || self.owner.with(|store| store.update_backup(&path)))?;
        report(py, made)
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || self.owner.with(silica::Silica::sync))
    }

    fn verify(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || self.owner.with(silica::Silica::verify))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.owner.close()).map_err(raise)
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: Vec<Bound<'_, PyAny>>) -> PyResult<()> {
        self.close(py)
    }
}
