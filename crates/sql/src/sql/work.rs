//! What a statement is, and what it has done so far.

use super::{Statement, sys};
use std::ffi::c_int;

/// What a statement answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// Rows of data, or none.
    Data,
    /// The program that SQLite's machine would run: the statement began with EXPLAIN.
    Program,
    /// The plan, by EXPLAIN QUERY PLAN: each row is a node, with its number, its parent's and a
    /// text.
    Plan,
}

/// What a statement has done since it was prepared; numbers of SQLite's own
/// (`sqlite3_stmt_status`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Steps forward in a table that was walked from its beginning.
    pub full_scan_steps: u64,
    /// Sorts of rows.
    pub sorts: u64,
    /// Rows put into indexes that were made for this statement alone.
    pub automatic_index_rows: u64,
    /// Instructions of SQLite's machine.
    pub machine_steps: u64,
    /// Bytes that the prepared statement takes.
    pub memory_bytes: u64,
}

impl Statement<'_> {
    /// What it answers.
    pub fn answers(&self) -> Answers {
        // SAFETY: a statement of an open connection.
        match unsafe { sys::stmt_isexplain(self.raw()) } {
            1 => Answers::Program,
            2 => Answers::Plan,
            _ => Answers::Data,
        }
    }

    /// What it has done so far.
    pub fn work(&self) -> Work {
        let number = |what: c_int| {
            // SAFETY: a statement of an open connection; SQLite answers for any number of a
            // counter.
            unsafe { sys::stmt_status(self.raw(), what, 0) as u64 }
        };
        Work {
            full_scan_steps: number(sys::FULL_SCAN_STEPS),
            sorts: number(sys::SORTS),
            automatic_index_rows: number(sys::AUTOMATIC_INDEX_ROWS),
            machine_steps: number(sys::MACHINE_STEPS),
            memory_bytes: number(sys::STATEMENT_BYTES),
        }
    }
}
