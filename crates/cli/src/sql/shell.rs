//! Statements from the command line, a script or a person.

use super::dots::Dots;
use super::show::{json_of, show};
use super::{Mode, SqlArgs, StorageArg, failed};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};
use serde_json::json;
use silica::{Error, ErrorKind, Result, Silica};
use silica_console::{Global, Output, signals};
use silica_sql::sql::{Sql, is_complete};
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const HISTORY_FILE: &str = ".silica_sql_history";
/// How long a statement waits for another writer.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// A database, and how its rows are shown.
pub(crate) struct Shell {
    pub(super) sql: Sql,
    pub(super) mode: Mode,
    pub(super) has_headers: bool,
    pub(super) has_timer: bool,
    /// Set by Ctrl-C.
    interrupted: Arc<AtomicBool>,
    /// What `--json` prints of each statement.
    results: Vec<serde_json::Value>,
}

/// Runs `silica sql DATABASE`.
pub(super) fn run(
    global: &Global,
    args: &SqlArgs,
    database: &Path,
    output: &mut Output,
) -> Result<()> {
    let interactive = std::io::stdin().is_terminal() && args.statements.is_none();
    if interactive && output.is_json() {
        let message = "--json needs statements: -c SQL, or a script on standard input";
        return Err(Error::new(ErrorKind::Config, message));
    }
    let shows_boxes = std::io::stdout().is_terminal();
    let mut shell = Shell {
        sql: open(global, args, database)?,
        mode: args.mode.unwrap_or(if shows_boxes { Mode::Box } else { Mode::List }),
        has_headers: matches!(args.mode, Some(Mode::Csv)) || shows_boxes,
        has_timer: false,
        interrupted: signals::interruption()?,
        results: Vec::new(),
    };
    shell.sql.set_busy_timeout(BUSY_TIMEOUT);
    shell.sql.set_interruption(Arc::clone(&shell.interrupted));
    let done = match &args.statements {
        Some(statements) => shell.take_script(statements, output),
        None if interactive => shell.prompt(database, output),
        None => {
            let mut script = String::new();
            let read = std::io::stdin().read_to_string(&mut script);
            read.map_err(|e| Error::io("reading the script from standard input", e))?;
            shell.take_script(&script, output)
        }
    };
    if output.is_json() {
        let results = std::mem::take(&mut shell.results);
        output.object().insert("results".into(), results.into());
    }
    done
}

fn open(global: &Global, args: &SqlArgs, database: &Path) -> Result<Sql> {
    let is_plain = database.as_os_str() == ":memory:"
        || database.to_string_lossy().starts_with("file:")
        || database.exists();
    let opened = if args.read_only {
        Sql::open_read_only(uri(database, global.memory, None))
    } else if is_plain {
        Sql::open(uri(database, global.memory, None))
    } else {
        let storage = match args.storage {
            StorageArg::Silica => "silica",
            StorageArg::Sqlite => "sqlite",
        };
        Sql::open(uri(database, global.memory, Some(storage)))
    };
    let mut sql = opened.map_err(|error| {
        let why = error.message.clone();
        Error::new(failed(error).kind(), format!("opening {}: {why}", database.display()))
    })?;
    // Opening reads nothing; what is wrong with a file shows here.
    sql.query("SELECT count(*) FROM sqlite_schema", &[]).map_err(failed)?;
    Ok(sql)
}

/// The path as a URI with the storage and the memory number, if one was given.
fn uri(database: &Path, memory: Option<u64>, storage: Option<&str>) -> PathBuf {
    let text = database.to_string_lossy();
    let mut parameters = Vec::new();
    parameters.extend(storage.map(|storage| format!("storage={storage}")));
    parameters.extend(memory.map(|memory| format!("memory_bytes={memory}")));
    if parameters.is_empty() || text == ":memory:" || text.starts_with("file:") {
        return database.to_path_buf();
    }
    let mut uri = String::from("file:");
    for character in text.chars() {
        match character {
            '?' | '#' | '%' => uri.push_str(&format!("%{:02x}", character as u32)),
            _ => uri.push(character),
        }
    }
    PathBuf::from(format!("{uri}?{}", parameters.join("&")))
}

impl Shell {
    /// A shell on the database in the keyspace `name` of a store.
    pub(crate) fn in_store(store: &Arc<Silica>, name: &str) -> Result<Self> {
        let shows_boxes = std::io::stdout().is_terminal();
        let mut shell = Shell {
            sql: Sql::in_store(store, name).map_err(failed)?,
            mode: if shows_boxes { Mode::Box } else { Mode::List },
            has_headers: shows_boxes,
            has_timer: false,
            interrupted: signals::interruption()?,
            results: Vec::new(),
        };
        shell.sql.set_busy_timeout(BUSY_TIMEOUT);
        shell.sql.set_interruption(Arc::clone(&shell.interrupted));
        Ok(shell)
    }

    /// Runs statements that somebody has typed, until Ctrl-C.
    pub(crate) fn run(&mut self, text: &str, output: &mut Output) -> Result<()> {
        self.interrupted.store(false, Ordering::Relaxed);
        self.statements(text, output)
    }

    /// Runs the lines and statements of a script; the first that fails ends it.
    pub(super) fn take_script(&mut self, script: &str, output: &mut Output) -> Result<()> {
        let mut pending = String::new();
        for line in script.lines() {
            if pending.trim().is_empty() && line.trim_start().starts_with('.') {
                if !Dots::run(self, line.trim(), output)? {
                    return Ok(());
                }
                continue;
            }
            pending.push_str(line);
            pending.push('\n');
            if is_complete(&pending) {
                self.statements(&pending, output)?;
                pending.clear();
            }
        }
        self.statements(&pending, output)
    }

    /// Runs statements and shows their rows.
    pub(super) fn statements(&mut self, mut text: &str, output: &mut Output) -> Result<()> {
        while !text.trim().is_empty() {
            let start = Instant::now();
            let (statement, used) = self.sql.prepare_first(text).map_err(failed)?;
            if let Some(mut statement) = statement {
                if output.is_json() {
                    let columns = statement.columns();
                    let mut rows = Vec::new();
                    while statement.step().map_err(failed)? {
                        rows.push(statement.row().iter().map(json_of).collect::<Vec<_>>());
                    }
                    let is_read_only = statement.is_read_only();
                    drop(statement);
                    let changes = if is_read_only { 0 } else { self.sql.changes() };
                    let result = json!({ "columns": columns, "rows": rows, "changes": changes });
                    self.results.push(result);
                } else {
                    show(&mut statement, self.mode, self.has_headers, output)?;
                }
            }
            if self.has_timer {
                output.line(format!("{:.3} ms", start.elapsed().as_secs_f64() * 1e3))?;
            }
            text = &text[used..];
        }
        Ok(())
    }

    fn prompt(&mut self, database: &Path, output: &mut Output) -> Result<()> {
        println!("silica {} on {}", env!("CARGO_PKG_VERSION"), database.display());
        println!("SQL ends with ; and .help lists the other commands.");
        let failed = |e: ReadlineError| Error::io("the terminal", std::io::Error::other(e));
        let config = Config::builder().auto_add_history(true).build();
        let mut editor: Editor<super::dots::Words, FileHistory> =
            Editor::with_config(config).map_err(failed)?;
        editor.set_helper(Some(super::dots::Words::new(&mut self.sql)));
        let history = std::env::home_dir().map(|home| home.join(HISTORY_FILE));
        if let Some(path) = &history {
            let _ = editor.load_history(path);
        }
        let mut pending = String::new();
        loop {
            let sign = if pending.is_empty() { "sql> " } else { "...> " };
            let line = match editor.readline(sign) {
                Ok(line) => line,
                Err(ReadlineError::Interrupted) => {
                    pending.clear();
                    continue;
                }
                Err(ReadlineError::Eof) => break,
                Err(e) => return Err(failed(e)),
            };
            self.interrupted.store(false, Ordering::Relaxed);
            let mut done = Ok(true);
            if pending.is_empty() && line.trim_start().starts_with('.') {
                done = Dots::run(self, line.trim(), output);
            } else {
                pending.push_str(&line);
                pending.push('\n');
                if is_complete(&pending) {
                    done = self.statements(&std::mem::take(&mut pending), output).map(|()| true);
                }
            }
            match done {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => output.error(&error),
            }
        }
        if let Some(path) = &history {
            let _ = editor.save_history(path);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_becomes_a_uri_where_something_is_to_be_said() {
        let plain = Path::new("a b.db");
        assert_eq!(uri(plain, None, None), plain);
        let odd = uri(Path::new("a?b%.db"), None, Some("sqlite"));
        assert_eq!(odd, Path::new("file:a%3fb%25.db?storage=sqlite"));
        let memory = Path::new(":memory:");
        assert_eq!(uri(memory, Some(1 << 20), Some("silica")), memory);
    }
}
