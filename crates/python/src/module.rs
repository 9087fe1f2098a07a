//! The module that Python imports.

use pyo3::prelude::*;

// Built for a free-threaded interpreter it turns the lock on: nothing tests it without.
#[pymodule(gil_used = true)]
mod _silica {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::batch::Batch;
    #[pymodule_export]
    use crate::cache::Cache;
    #[pymodule_export]
    use crate::keyspace::Keyspace;
    #[pymodule_export]
    use crate::snapshot::Snapshot;
    #[pymodule_export]
    use crate::store::{Store, open, restore};
    #[pymodule_export]
    use crate::transaction::Transaction;
    #[pymodule_export]
    use crate::walk::Walk;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        crate::error::add(module)
    }
}
