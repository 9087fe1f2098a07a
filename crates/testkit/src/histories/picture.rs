//! A piece of history for people.

use super::operation::{Answer, Call, Memory, Operation};
use std::fmt;

/// Operations on one key that have no order which explains all of their answers. Prints itself
/// as a picture: time goes to the right, each line is a call from its beginning to its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unexplained {
    /// The operations.
    pub operations: Vec<Operation>,
    memory: Memory,
}

/// How far to the right a stamp is from the one before it.
const COLUMNS: usize = 3;

/// How much of a value is shown.
const VALUE_BYTES: usize = 12;

impl Unexplained {
    pub(super) fn new(mut operations: Vec<Operation>, memory: Memory) -> Self {
        operations.sort_by_key(|operation| operation.begin);
        Unexplained { operations, memory }
    }

    fn bar(&self, of: &Operation, stamps: &[u64]) -> String {
        let column = |stamp| COLUMNS * stamps.partition_point(|other| *other < stamp);
        let (from, width) = (column(of.begin), COLUMNS * stamps.len());
        if of.answer == Answer::Unknown {
            return format!("{:from$}[{:-<rest$}?", "", "", rest = width - from - 2);
        }
        let to = column(of.end);
        format!("{:from$}[{:-<rest$}]", "", "", rest = to - from - 1)
    }
}

impl std::error::Error for Unexplained {}

impl fmt::Display for Unexplained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.operations.first().map_or(&b""[..], |operation| &operation.key);
        write!(f, "no order of these calls of key \"{}\"", key.escape_ascii())?;
        match self.memory {
            Memory::Keeps => writeln!(f, " explains every answer (it is missing at first):")?,
            Memory::Forgets => writeln!(
                f,
                " explains every answer, even if it is forgotten in between (it is missing at \
                 first):"
            )?,
        }
        let stamp = |operation: &Operation| match operation.answer {
            Answer::Unknown => vec![operation.begin],
            _ => vec![operation.begin, operation.end],
        };
        let mut stamps: Vec<u64> = self.operations.iter().flat_map(stamp).collect();
        stamps.sort_unstable();
        stamps.dedup();
        let width = COLUMNS * stamps.len();
        for operation in &self.operations {
            let bar = self.bar(operation, &stamps);
            writeln!(f, "  thread {:<2} {bar:width$} {}", operation.thread, says(operation))?;
        }
        Ok(())
    }
}

fn says(operation: &Operation) -> String {
    let call = match &operation.call {
        Call::Get => "get".into(),
        Call::Put(value) => format!("put {}", text(value)),
        Call::Delete => "delete".into(),
        Call::Replace(new) => format!("replace by {}", state(new)),
        Call::Swap { expected, new } => format!("swap {} for {}", state(expected), state(new)),
        Call::Add(by) => format!("add {by}"),
        Call::Watch => "watch and get".into(),
        Call::Commit(new) => format!("commit {}", state(new)),
    };
    match &operation.answer {
        Answer::Done => call,
        Answer::Was(was) => format!("{call} -> {}", state(was)),
        Answer::Did(did) => format!("{call} -> {}", if *did { "yes" } else { "no" }),
        Answer::Sum(sum) => format!("{call} -> {sum}"),
        Answer::Refused => format!("{call} -> refused"),
        Answer::Unknown => format!("{call} -> no answer"),
    }
}

fn state(value: &Option<Vec<u8>>) -> String {
    value.as_deref().map_or("nothing".into(), text)
}

fn text(value: &[u8]) -> String {
    let shown = value[..value.len().min(VALUE_BYTES)].escape_ascii();
    match value.len() {
        ..=VALUE_BYTES => format!("\"{shown}\""),
        len => format!("\"{shown}...\" ({len} bytes)"),
    }
}
