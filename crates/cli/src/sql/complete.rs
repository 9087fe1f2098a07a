//! Completion at the prompt.

use super::dots::names;
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use silica_sql::sql::Sql;

/// Proposes words of SQL, commands, tables and columns.
pub(super) struct Words {
    words: Vec<String>,
}

const KEYWORDS: &str = "SELECT FROM WHERE INSERT INTO VALUES UPDATE SET DELETE CREATE TABLE INDEX \
                        UNIQUE PRIMARY KEY INTEGER TEXT REAL BLOB NOT NULL DEFAULT AND OR ORDER \
                        BY GROUP HAVING LIMIT OFFSET JOIN LEFT INNER ON USING AS DISTINCT COUNT \
                        BEGIN COMMIT ROLLBACK SAVEPOINT RELEASE PRAGMA EXPLAIN QUERY PLAN WITH \
                        UNION ALL CASE WHEN THEN ELSE END BETWEEN LIKE IN EXISTS RETURNING VACUUM";

impl Words {
    /// With the names of the database's tables and columns as they are now.
    pub(super) fn new(sql: &mut Sql) -> Self {
        let mut words: Vec<String> = KEYWORDS.split_whitespace().map(str::to_string).collect();
        words.extend(names().map(str::to_string));
        let names = "SELECT name FROM sqlite_schema UNION SELECT c.name FROM sqlite_schema AS s, \
                     pragma_table_info(s.name) AS c";
        let found = sql.query(names, &[]).unwrap_or_default();
        words.extend(found.iter().map(|row| row[0].to_string()));
        Words { words }
    }
}

impl Completer for Words {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = &line[..position];
        let is_end = |c: char| !(c.is_alphanumeric() || c == '_' || c == '.');
        let begin = typed
            .rfind(is_end)
            .map_or(0, |at| at + typed[at..].chars().next().map_or(1, char::len_utf8));
        let word = typed[begin..].to_lowercase();
        let is_lower = typed[begin..].chars().all(|c| !c.is_uppercase());
        let found = self
            .words
            .iter()
            .filter(|other| !word.is_empty() && other.to_lowercase().starts_with(&word));
        let pair = |other: &String| {
            let is_keyword = KEYWORDS.split_whitespace().any(|keyword| keyword == other);
            let other =
                if is_keyword && is_lower { other.to_lowercase() } else { other.to_string() };
            Pair { display: other.clone(), replacement: format!("{other} ") }
        };
        Ok((begin, found.map(pair).collect()))
    }
}

impl Hinter for Words {
    type Hint = String;
}
impl Highlighter for Words {}
impl Validator for Words {}
impl Helper for Words {}
