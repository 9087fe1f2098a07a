//! Silica for Python: the extension module `silica._silica`.
//!
//! The package around it, with its type stubs, stands in `python/silica`; `docs/python.md` is the
//! manual. PyO3 wraps the interpreter, as most extensions in Rust do.
//!
//! Invariants:
//!
//! 1. No call into an engine that may wait holds the interpreter's lock, and no code that holds an
//!    engine's lock asks for the interpreter's: so neither waits for the other. Gets of what is in
//!    memory do not wait, and keep it.
//! 2. An engine sees bytes that nobody can change: those of `bytes` and `str` where they are, and
//!    a copy of every other buffer.
//! 3. After `close` no keyspace of the store is held here, so that its directory can be opened
//!    again in this process.
#![allow(missing_docs)] // The stubs in python/silica document what Python sees.

mod batch;
mod cache;
mod cell;
mod convert;
mod error;
mod input;
mod keyspace;
mod module;
mod snapshot;
mod store;
mod transaction;
mod walk;
