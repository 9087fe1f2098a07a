//! Replaying traces of operations: docs/formats/trace.md.

mod part;

pub(crate) use part::{TracePart, index_of};
pub use silica::tune::trace::{Event, TraceKind, TraceReader, TraceWriter};

use std::path::PathBuf;

/// How to replay a trace.
#[derive(Debug, Clone)]
pub struct Trace {
    /// The file.
    pub path: PathBuf,
    /// At the trace's own times instead of as fast as possible.
    pub timed: bool,
    /// The store was empty, so that values that are read must be those that were put.
    pub check: bool,
}
