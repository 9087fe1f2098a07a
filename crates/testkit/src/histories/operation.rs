//! What was called and what was answered.

use super::check::explain;
use super::picture::Unexplained;
use super::shorten::shorten;
use super::step::Steps;
use std::collections::BTreeSet;

/// What a thread asks of a key. Values are better different for every write: the more an answer
/// says of what it saw, the more a check finds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// Reads it.
    Get,
    /// Stores this value.
    Put(Vec<u8>),
    /// Removes it.
    Delete,
    /// Stores this value (or removes the key) and tells what was there, in one step.
    Replace(Option<Vec<u8>>),
    /// Does so where the key is what is expected, and tells whether it was.
    Swap {
        /// The value, or none for a missing key.
        expected: Option<Vec<u8>>,
        /// What it becomes.
        new: Option<Vec<u8>>,
    },
    /// Adds to a decimal number and tells the sum; a missing key counts as 0.
    Add(i64),
    /// Begins to watch it, and then reads it.
    Watch,
    /// Stores this value (or removes the key) if nobody has written the key since the same thread
    /// began to watch it, be it with the value that was there; tells whether it did.
    Commit(Option<Vec<u8>>),
}

/// What was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It was done, and nothing is told of what was there before.
    Done,
    /// It was done, and this was there before.
    Was(Option<Vec<u8>>),
    /// Whether a swap took place, or a delete found something.
    Did(bool),
    /// What a number has become.
    Sum(i64),
    /// An error that says that nothing was done.
    Refused,
    /// None, or an error that does not say whether it was done.
    Unknown,
}

/// A call and its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Who called.
    pub thread: u64,
    /// Of which key.
    pub key: Vec<u8>,
    /// What was asked.
    pub call: Call,
    /// What was answered.
    pub answer: Answer,
    /// Stamp from before the call.
    pub begin: u64,
    /// Stamp from after the answer. That of a call without an answer does not matter.
    pub end: u64,
}

/// What a store may do to its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// An entry is there until a call changes it.
    Keeps,
    /// An entry may be gone at any time, as in a cache.
    Forgets,
}

/// Everything that was called and answered, in any order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// The operations.
    pub operations: Vec<Operation>,
}

impl History {
    /// Searches, for each key, an order of its operations that explains all answers, beginning
    /// with the key missing.
    ///
    /// # Errors
    ///
    /// The shortest piece found that has no such order.
    pub fn check(&self, memory: Memory) -> Result<(), Unexplained> {
        let keys: BTreeSet<&[u8]> = self.operations.iter().map(|o| o.key.as_slice()).collect();
        for key in keys {
            let part: Vec<&Operation> = self.operations.iter().filter(|o| o.key == key).collect();
            let steps = Steps::new(&part, memory);
            if explain(&steps).is_err() {
                let piece = shorten(steps);
                let operations: Vec<Operation> = piece.iter().map(|n| part[*n].clone()).collect();
                return Err(Unexplained::new(operations, memory));
            }
        }
        Ok(())
    }
}
