//! Silica for Python: the extension module `silica._silica`.
//!
//! The package around it, with its type stubs, stands in `python/silica`; `docs/python.md` is the
//! manual. PyO3 wraps the interpreter, as most extensions in Rust do.
//!
//! Invariants:
//!
//! 1. No call into an engine holds the interpreter's lock, and no code that holds an engine's lock
//!    asks for the interpreter's: so neither waits for the other.
//! 2. An engine sees bytes that nobody can change: those of `bytes` and `str` where they are, and
//!    a copy of every other buffer.
//! 3. After `close` no keyspace of the store is held here, so that its directory can be opened
//!    again in this process.
#![allow(missing_docs)] // The stubs in python/silica document what Python sees.

mod batch;
mod cache;
mod cell;
mod error;
mod input;
mod keyspace;
mod snapshot;
mod store;
mod transaction;
mod walk;

use pyo3::prelude::*;

// Built for a free-threaded interpreter it turns the lock on: nothing tests it without.
#[pymodule(gil_used = true)]
mod _silica {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::batch::Batch;
    #[pymodule_export]
    use super::cache::Cache;
    #[pymodule_export]
    use super::keyspace::Keyspace;
    #[pymodule_export]
    use super::snapshot::Snapshot;
    #[pymodule_export]
    use super::store::{Store, open, restore};
    #[pymodule_export]
    use super::transaction::Transaction;
    #[pymodule_export]
    use super::walk::Walk;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        super::error::add(module)
    }
}
