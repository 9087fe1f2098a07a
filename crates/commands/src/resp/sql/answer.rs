//! Rows as replies: an array of arrays in RESP2, of maps by column in RESP3.

use crate::budget::{Claim, SMALL_BYTES};
use silica_proto::{Reply, Version};
use silica_sql::sql::{Statement, ValueRef};
use std::collections::BTreeSet;

/// Bytes of rows that are claimed at once.
const STEP_BYTES: usize = 256 << 10;

/// Bytes of a value around its own.
const FRAME_BYTES: usize = 32;

/// The rows of a statement, as they are written.
pub(super) struct Rows<'r, 'o, 'c> {
    reply: &'r mut Reply<'o>,
    claim: &'c Claim,
    columns: Vec<String>,
    start: usize,
    count: usize,
    /// Of the claim what was there before, and what these rows have.
    others_bytes: usize,
    claimed_bytes: usize,
    bytes_max: usize,
}

/// Columns by names of their own: maps have each name once.
fn distinct(columns: Vec<String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut name = |column: String| {
        let numbered = (1..).map(|number| format!("{column}:{number}"));
        let mut names = std::iter::once(column.clone()).chain(numbered);
        names.find(|name| seen.insert(name.clone())).unwrap_or(column)
    };
    columns.into_iter().map(&mut name).collect()
}

impl<'r, 'o, 'c> Rows<'r, 'o, 'c> {
    /// No rows yet; they and what stands before them have `bytes_max` bytes at most.
    pub(super) fn begin(
        reply: &'r mut Reply<'o>,
        claim: &'c Claim,
        columns: Vec<String>,
        bytes_max: usize,
    ) -> Self {
        let columns = match reply.version() {
            Version::Resp2 => columns,
            Version::Resp3 => distinct(columns),
        };
        let start = reply.buffered();
        let (others_bytes, claimed_bytes) = (claim.bytes(), 0);
        Rows { reply, claim, columns, start, count: 0, others_bytes, claimed_bytes, bytes_max }
    }

    /// Claims memory for `bytes` more, or says why there is none.
    fn claim(&mut self, bytes: usize) -> Result<(), String> {
        let needed = self.reply.buffered() - self.start + bytes;
        if needed > self.bytes_max {
            return Err(format!(
                "ERR SQL: the rows are more than {} bytes; add LIMIT to the statement",
                self.bytes_max
            ));
        }
        // Few bytes are not claimed, as of other replies.
        if needed <= self.claimed_bytes.max(SMALL_BYTES) {
            return Ok(());
        }
        // A buffer that grows is there twice for a moment.
        let step = (needed - self.claimed_bytes).max(STEP_BYTES);
        self.claim.grow(2 * step).map_err(|text| {
            format!("{text}; SQL: add LIMIT to the statement, or ask for fewer columns")
        })?;
        self.claimed_bytes += step;
        Ok(())
    }

    /// Writes the row that `statement` is at.
    pub(super) fn add(&mut self, statement: &Statement<'_>) -> Result<(), String> {
        let bytes_of = |at: usize| match statement.value(at) {
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len() + FRAME_BYTES,
            _ => FRAME_BYTES,
        };
        let values: usize = (0..self.columns.len()).map(bytes_of).sum();
        let names: usize = self.columns.iter().map(|name| name.len() + FRAME_BYTES).sum();
        self.claim(values + names)?;
        let is_map = self.reply.version() == Version::Resp3;
        match is_map {
            true => self.reply.map(self.columns.len()),
            false => self.reply.array(self.columns.len()),
        }
        for (at, column) in self.columns.iter().enumerate() {
            if is_map {
                self.reply.bulk(column.as_bytes());
            }
            match statement.value(at) {
                ValueRef::Null => self.reply.null(),
                ValueRef::Integer(number) => self.reply.integer(number),
                ValueRef::Real(number) => self.reply.double(number),
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => self.reply.bulk(bytes),
            }
        }
        self.count += 1;
        Ok(())
    }

    /// Writes how many rows there are before them.
    pub(super) fn end(self) {
        let mut head = Vec::with_capacity(24);
        Reply::new(&mut head, self.reply.version()).array(self.count);
        let start = self.start;
        self.reply.raw().splice(start..start, head);
    }
}

impl Drop for Rows<'_, '_, '_> {
    /// What is in the reply stays claimed until that is handed over.
    fn drop(&mut self) {
        if self.claimed_bytes > 0 {
            self.claim.set(self.others_bytes + self.reply.buffered() - self.start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::distinct;

    #[test]
    fn names_of_columns_are_there_once() {
        let names = ["a", "b", "a", "a:1", "a"].map(String::from).to_vec();
        assert_eq!(distinct(names), ["a", "b", "a:1", "a:1:1", "a:2"]);
    }
}
