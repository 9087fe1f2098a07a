//! What begins with a dot: commands of the shell, named as SQLite's are.

use super::import::{dump, import};
use super::shell::Shell;
use super::{Mode, failed};
use clap::ValueEnum;
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use silica::engine::similar;
use silica::{Error, ErrorKind, Result};
use silica_console::Output;
use silica_sql::sql::{Sql, Value};
use std::path::Path;

const HELP: &[(&str, &str)] = &[
    (".backup FILE", "write the database into a new file in SQLite's format"),
    (".databases", "list the attached databases"),
    (".dump [TABLE]", "write the statements that make the database, or one table"),
    (".headers on|off", "write the columns' names above the rows"),
    (".help", "list these"),
    (".import FILE TABLE", "read comma-separated values; a table that is missing is made"),
    (".indexes [TABLE]", "list the indexes"),
    (".mode MODE", "box, list, csv, tabs, line, json"),
    (".quit", "leave"),
    (".read FILE", "run a script"),
    (".schema [TABLE]", "write the statements that make the tables"),
    (".tables [PATTERN]", "list the tables"),
    (".timer on|off", "write how long each statement takes"),
];

const LIST: &str = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') \
                    AND name NOT LIKE 'sqlite_%' AND name LIKE ? ORDER BY name";
const INDEXES: &str = "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name LIKE ? \
                       ORDER BY name";
const SCHEMA: &str = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND tbl_name LIKE ? \
                      AND name NOT LIKE 'sqlite_%' ORDER BY rowid";
const DATABASES: &str = "SELECT name || ': ' || file FROM pragma_database_list";

/// The commands.
pub(super) struct Dots;

fn misused(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Config, message)
}

fn is_on(word: Option<&&str>) -> Result<bool> {
    match word {
        Some(&"on") => Ok(true),
        Some(&"off") => Ok(false),
        _ => Err(misused("say on or off")),
    }
}

impl Dots {
    /// Does what `line` says; false where it says to leave.
    pub(super) fn run(shell: &mut Shell, line: &str, output: &mut Output) -> Result<bool> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (&name, words) = words.split_first().expect("a dot");
        let pattern = || words.first().map_or("%".into(), |word| word.replace('*', "%"));
        match name {
            ".backup" => {
                let file = words.first().ok_or_else(|| misused(".backup needs a FILE"))?;
                let into = shell.sql.execute("VACUUM INTO ?", &[Value::from(*file)]);
                into.map_err(failed)?;
            }
            ".databases" => Self::list(shell, DATABASES, None, output)?,
            ".dump" => dump(&mut shell.sql, &pattern(), output)?,
            ".headers" => shell.has_headers = is_on(words.first())?,
            ".help" => {
                for (command, what) in HELP {
                    output.line(format!("{command:20} {what}"))?;
                }
            }
            ".import" => match words {
                [file, table] => import(&mut shell.sql, Path::new(file), table, output)?,
                _ => return Err(misused(".import needs a FILE and a TABLE")),
            },
            ".indexes" => Self::list(shell, INDEXES, Some(pattern()), output)?,
            ".mode" => {
                let mode = words.first().and_then(|word| Mode::from_str(word, true).ok());
                shell.mode = mode.ok_or_else(|| {
                    misused(".mode needs one of box, list, csv, tabs, line, json")
                })?;
            }
            ".quit" | ".exit" => return Ok(false),
            ".read" => {
                let file = words.first().ok_or_else(|| misused(".read needs a FILE"))?;
                let script = std::fs::read_to_string(file);
                let script = script.map_err(|e| Error::io(format!("reading {file}"), e))?;
                shell.take_script(&script, output)?;
            }
            ".schema" => {
                for row in shell.sql.query(SCHEMA, &[pattern().into()]).map_err(failed)? {
                    output.line(format!("{};", row[0]))?;
                }
            }
            ".tables" => Self::list(shell, LIST, Some(pattern()), output)?,
            ".timer" => shell.has_timer = is_on(words.first())?,
            _ => {
                let names = HELP.iter().filter_map(|(command, _)| command.split(' ').next());
                let meant = similar(name, names)
                    .map_or(String::new(), |other| format!(" (did you mean '{other}'?)"));
                return Err(misused(format!("no command '{name}'{meant}; .help lists them")));
            }
        }
        Ok(true)
    }

    fn list(
        shell: &mut Shell,
        query: &str,
        pattern: Option<String>,
        output: &mut Output,
    ) -> Result<()> {
        let parameters: Vec<Value> = pattern.into_iter().map(Value::from).collect();
        for row in shell.sql.query(query, &parameters).map_err(failed)? {
            output.line(row[0].to_string())?;
        }
        Ok(())
    }
}

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
        words.extend(HELP.iter().filter_map(|(c, _)| c.split(' ').next()).map(str::to_string));
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
