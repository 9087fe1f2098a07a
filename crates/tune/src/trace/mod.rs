//! Traces of operations, one a line: docs/formats/trace.md.

mod reader;
mod tally;
mod writer;

pub use reader::TraceReader;
pub use writer::TraceWriter;

use std::time::Duration;

/// The first line.
const HEADER: &str = "silica-trace 1";
/// Before N in the comment of a trace that holds the operations on one key in N.
const ONE_KEY_IN: &str = "# one key in ";
/// Bytes of a line, at most.
const LINE_BYTES_MAX: usize = 1 << 20;
/// Bytes of a value, at most.
const VALUE_BYTES_MAX: u64 = 1 << 30;

/// What a line asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceKind {
    /// The value of a key.
    Get,
    /// To map the key to a value of so many bytes.
    Put {
        /// Bytes of the value.
        value_bytes: usize,
    },
    /// To remove a key.
    Delete,
    /// Entries in the order of the keys, the first at or behind the key.
    Scan {
        /// How many.
        entries: usize,
    },
}

/// One line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event<'a> {
    /// Since the trace began.
    pub time: Duration,
    /// What is asked for.
    pub kind: TraceKind,
    /// The key, never empty.
    pub key: &'a [u8],
}

#[cfg(test)]
mod tests;
