//! Statements of SQL at the prompt, on the database in the store that it has open.
//!
//! The database is the keyspace that the prompt is turned to, if that is one, else the keyspace
//! `sql`. A line that begins as a statement and is neither a verb nor Redis's is one; `SELECT 3` is
//! Redis's, and `SELECT 3;` is not.

use crate::sql::Shell;
use silica::{Result, Silica};
use silica_console::Output;
use silica_sql::KEYSPACE;
use silica_sql::sql::is_complete;
use std::sync::Arc;

/// What statements begin with.
const WORDS: [&str; 24] = [
    "alter",
    "analyze",
    "begin",
    "commit",
    "create",
    "delete",
    "detach",
    "attach",
    "drop",
    "end",
    "explain",
    "insert",
    "pragma",
    "reindex",
    "release",
    "replace",
    "rollback",
    "savepoint",
    "select",
    "update",
    "vacuum",
    "values",
    "values(",
    "with",
];

/// True for a line that is a statement if no verb has its first word.
pub(super) fn is_statement(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let Some(first) = words.next() else { return false };
    let first = first.trim_end_matches(';').to_ascii_lowercase();
    if !WORDS.contains(&first.as_str()) {
        return false;
    }
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    // Redis's: SELECT of a database.
    !(first == "select" && words.next().is_none_or(is_number) && words.next().is_none())
}

/// True if a statement goes on in the next line: something is open in it, or it is a trigger
/// without its end.
pub(super) fn goes_on(text: &str) -> bool {
    let mut open = 0_usize;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skip = |end: &str, from: usize| rest[from..].find(end).map(|at| from + at + end.len());
        let next = match first {
            '(' => {
                open += 1;
                Some(1)
            }
            ')' => {
                open = open.saturating_sub(1);
                Some(1)
            }
            '\'' => skip("'", 1),
            '"' => skip("\"", 1),
            '`' => skip("`", 1),
            '[' => skip("]", 1),
            '-' if rest.starts_with("--") => Some(skip("\n", 2).unwrap_or(rest.len())),
            '/' if rest.starts_with("/*") => skip("*/", 2),
            other => Some(other.len_utf8()),
        };
        let Some(next) = next else { return true };
        rest = &rest[next..];
    }
    let words: Vec<_> = text.split_whitespace().take(3).map(str::to_ascii_lowercase).collect();
    let is_trigger = words.first().is_some_and(|word| word == "create")
        && words.iter().any(|word| word == "trigger");
    open > 0 || (is_trigger && !is_complete(text))
}

/// A connection, which stays open between lines.
pub(super) struct Statements {
    keyspace: String,
    shell: Shell,
}

/// The keyspace whose database statements are for, if the prompt is turned to `turned`.
fn database_of(store: &Silica, turned: &str) -> Result<String> {
    let keyspace = store.existing(turned)?;
    let is_one = keyspace.map(|keyspace| silica_sql::is_database(&**keyspace.engine()));
    Ok(if is_one.transpose()?.unwrap_or(false) { turned } else { KEYSPACE }.to_string())
}

impl Statements {
    /// The connection to the database that is meant now: `open`, or another one.
    pub(super) fn of(store: &Arc<Silica>, turned: &str, open: Option<Self>) -> Result<Self> {
        let keyspace = database_of(store, turned)?;
        if let Some(open) = open.filter(|open| open.keyspace == keyspace) {
            return Ok(open);
        }
        let shell = Shell::in_store(store, &keyspace)?;
        Ok(Statements { keyspace, shell })
    }

    /// Runs the statements of a text and shows their rows.
    pub(super) fn run(&mut self, text: &str, output: &mut Output) -> Result<()> {
        self.shell.run(text, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_told_from_redis_and_verbs() {
        for line in
            ["SELECT * FROM t", "select 1;", "SELECT 1 + 1", "with x as (select 1) select 1"]
        {
            assert!(is_statement(line), "{line}");
        }
        for line in ["SELECT 3", "select", "GET k", "", "set a b", "selects 1"] {
            assert!(!is_statement(line), "{line}");
        }
        assert!(is_statement("commit;") && is_statement("BEGIN"));
    }

    #[test]
    fn what_is_open_goes_on() {
        for text in ["CREATE TABLE t (", "SELECT 'a", "SELECT /* a", "SELECT \"a", "SELECT ((1)"] {
            assert!(goes_on(text), "{text}");
        }
        for text in ["SELECT 1", "SELECT 'a''('", "SELECT 1 -- (", "SELECT ')' || '('"] {
            assert!(!goes_on(text), "{text}");
        }
        let trigger = "CREATE TRIGGER x AFTER INSERT ON t BEGIN DELETE FROM u;";
        assert!(goes_on(trigger) && !goes_on(&format!("{trigger} END;")));
    }
}
