//! Statements from the command line, a script or a person.

use super::dots::Dots;
use super::plan::{self, Shown};
use super::show::{Style, json_of, show};
use super::sink::{Sink, Target};
use super::words::is_blank;
use super::{Mode, SqlArgs, StorageArg, failed};
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};
use serde_json::json;
use silica::{Error, ErrorKind, Result, Silica};
use silica_console::{Global, Output, is_unread, signals};
use silica_sql::sql::{Answers, Sql, Value, is_complete};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const HISTORY_FILE: &str = ".silica_sql_history";
/// How long a statement waits for another writer, unless `.timeout` says so.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Exit code of a script that went on past an error.
const SOME_FAILED: u8 = 2;

/// How databases are opened.
#[derive(Clone, Copy)]
pub(super) struct Opening {
    memory: Option<u64>,
    storage: StorageArg,
    pub(super) read_only: bool,
}

/// A database, and how its rows are shown.
pub(crate) struct Shell {
    pub(super) sql: Sql,
    pub(super) opening: Opening,
    pub(super) style: Style,
    pub(super) has_timer: bool,
    /// What is written of plans before rows.
    pub(super) plans: Shown,
    /// What a statement took is written behind it.
    pub(super) shows_work: bool,
    /// Statements and commands are written before their results.
    pub(super) echoes: bool,
    /// What a statement has changed is written behind it.
    pub(super) shows_changes: bool,
    /// A script goes on past a statement that fails.
    pub(super) goes_on: bool,
    /// Values of parameters, by their names.
    pub(super) parameters: BTreeMap<String, Value>,
    /// Where results go instead of standard output.
    pub(super) target: Option<Target>,
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
) -> Result<bool> {
    let statements = args.statements.as_ref().or(args.script.as_ref());
    let interactive = std::io::stdin().is_terminal() && statements.is_none();
    if interactive && output.is_json() {
        let message = "--json needs statements: -c SQL, or a script on standard input";
        return Err(Error::new(ErrorKind::Config, message));
    }
    let shows_boxes = std::io::stdout().is_terminal();
    let mode = args.mode.unwrap_or(if shows_boxes { Mode::Box } else { Mode::List });
    let headers = (matches!(args.mode, Some(Mode::Csv)) || shows_boxes).then_some(true);
    let opening =
        Opening { memory: global.memory, storage: args.storage, read_only: args.read_only };
    let sql = open(database, opening)?;
    let mut shell = Shell::new(sql, opening, Style::new(mode, headers))?;
    let done = match statements {
        Some(statements) => shell.take_script(&mut statements.as_bytes(), None, output),
        None if interactive => shell.prompt(database, output),
        None => {
            let mut script = BufReader::new(std::io::stdin());
            shell.take_script(&mut script, Some("the script"), output)
        }
    };
    if output.is_json() {
        let results = std::mem::take(&mut shell.results);
        output.object().insert("results".into(), results.into());
    }
    done
}

/// Opens a database, and looks whether it is one.
pub(super) fn open(database: &Path, opening: Opening) -> Result<Sql> {
    let is_plain = database.as_os_str() == ":memory:"
        || database.to_string_lossy().starts_with("file:")
        || database.exists();
    if database.is_dir() {
        let message =
            format!("{} is a directory; a database is named by its file", database.display());
        return Err(Error::new(ErrorKind::NotFound, message));
    }
    let opened = if opening.read_only {
        Sql::open_read_only(uri(database, opening.memory, None))
    } else if is_plain {
        Sql::open(uri(database, opening.memory, None))
    } else {
        let storage = match opening.storage {
            StorageArg::Silica => "silica",
            StorageArg::Sqlite => "sqlite",
        };
        Sql::open(uri(database, opening.memory, Some(storage)))
    };
    let mut sql = opened.map_err(|error| {
        let why = error.message.clone();
        Error::new(failed(error).kind(), format!("opening {}: {why}", database.display()))
    })?;
    // Opening reads nothing; what is wrong with a file shows here.
    sql.query("SELECT count(*) FROM sqlite_schema", &[]).map_err(failed)?;
    Ok(sql)
}

/// Opens the file of a backup: a new one is in SQLite's format.
pub(super) fn open_backup(file: &Path, read_only: bool) -> Result<Sql> {
    open(file, Opening { memory: None, storage: StorageArg::Sqlite, read_only })
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
    fn new(sql: Sql, opening: Opening, style: Style) -> Result<Self> {
        let mut shell = Shell {
            sql,
            opening,
            style,
            has_timer: false,
            plans: Shown::Nothing,
            shows_work: false,
            echoes: false,
            shows_changes: false,
            goes_on: false,
            parameters: BTreeMap::new(),
            target: None,
            interrupted: signals::interruption()?,
            results: Vec::new(),
        };
        shell.settle()?;
        Ok(shell)
    }

    /// Tells a connection that was just opened what this shell wants of it.
    fn settle(&mut self) -> Result<()> {
        self.sql.set_busy_timeout(BUSY_TIMEOUT);
        self.sql.set_interruption(Arc::clone(&self.interrupted));
        super::functions::add(&mut self.sql)
    }

    /// A shell on the database in the keyspace `name` of a store.
    pub(crate) fn in_store(store: &Arc<Silica>, name: &str) -> Result<Self> {
        let shows_boxes = std::io::stdout().is_terminal();
        let mode = if shows_boxes { Mode::Box } else { Mode::List };
        let sql = Sql::in_store(store, name).map_err(failed)?;
        let opening = Opening { memory: None, storage: StorageArg::Silica, read_only: false };
        Shell::new(sql, opening, Style::new(mode, shows_boxes.then_some(true)))
    }

    /// Runs statements that somebody has typed, until Ctrl-C.
    pub(crate) fn run(&mut self, text: &str, output: &mut Output) -> Result<()> {
        self.interrupted.store(false, Ordering::Relaxed);
        self.statements(text, output).map_err(|(error, _)| error)
    }

    /// Turns to another database.
    pub(super) fn turn_to(&mut self, database: &Path, opening: Opening) -> Result<()> {
        // A process has a database once: the one that is left may be the one that comes.
        self.sql = Sql::open(":memory:").map_err(failed)?;
        self.sql = open(database, opening)?;
        self.opening = opening;
        self.settle()
    }

    /// Runs the lines and statements of a script as they come: whoever writes them may wait for
    /// the rows of one before the next. The first that fails ends it, unless `.bail off` was said.
    /// An error names `script` and the line.
    pub(super) fn take_script(
        &mut self,
        script: &mut dyn BufRead,
        name: Option<&str>,
        output: &mut Output,
    ) -> Result<bool> {
        let mut pending = String::new();
        let (mut number, mut begun) = (0, 1);
        loop {
            let mut line = String::new();
            let read = script.read_line(&mut line);
            let what = || format!("reading line {} of {}", number + 1, name.unwrap_or("-c"));
            let is_over = read.map_err(|e| Error::io(what(), e))? == 0;
            number += 1;
            let is_command = line.trim_start().starts_with('.') && is_blank(&pending);
            let done = if is_command {
                begun = number;
                pending.clear();
                self.command(line.trim(), output).map_err(|error| (error, 0))
            } else {
                if pending.is_empty() {
                    begun = number;
                }
                pending.push_str(&line);
                // Only what ends a statement is worth a look at all of a long one.
                let may_end = is_over || line.contains(';') && is_complete(&pending);
                match may_end {
                    true => self.statements(&std::mem::take(&mut pending), output).map(|()| true),
                    false => Ok(true),
                }
            };
            match done {
                Ok(true) if is_over => return Ok(true),
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err((error, lines)) => {
                    let at = name.map(|name| format!("line {} of {name}", begun + lines));
                    let error = at.into_iter().fold(error, Error::within);
                    if !self.goes_on || is_unread(&error) || self.is_interrupted() {
                        return Err(error);
                    }
                    output.error(&error);
                    output.set_exit_code(SOME_FAILED);
                    if is_over {
                        return Ok(true);
                    }
                }
            }
        }
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Runs a line that begins with a dot; false if it says to leave.
    fn command(&mut self, line: &str, output: &mut Output) -> Result<bool> {
        if self.echoes {
            self.sink(output).line(line)?;
        }
        let is_once = self.target.as_ref().is_some_and(|target| target.is_once);
        let done = Dots::run(self, line, output);
        if is_once && self.target.as_ref().is_some_and(|target| target.is_once) {
            self.target = None;
        }
        done
    }

    /// Where results go.
    pub(super) fn sink<'s>(&'s mut self, output: &'s mut Output) -> Sink<'s> {
        Sink::new(self.target.as_mut(), output)
    }

    /// Runs statements and shows their rows. With an error comes how many lines of the text were
    /// before the statement that failed.
    fn statements(&mut self, text: &str, output: &mut Output) -> Result<(), (Error, usize)> {
        let mut rest = text;
        while !is_blank(rest) {
            let start = text.len() - rest.len();
            let start = start + (rest.len() - rest.trim_start().len());
            let lines = text[..start].matches('\n').count();
            let used = self.statement(rest, output).map_err(|error| (error, lines))?;
            rest = &rest[used..];
        }
        if self.target.as_ref().is_some_and(|target| target.is_once) {
            self.target = None;
        }
        Ok(())
    }

    /// Runs the first statement of `text`, and returns how many bytes that was.
    fn statement(&mut self, text: &str, output: &mut Output) -> Result<usize> {
        let begun = Instant::now();
        let (statement, used) = self.sql.prepare_first(text).map_err(failed)?;
        let Some(mut statement) = statement else { return Ok(used) };
        for at in 1..=statement.parameters() {
            let named = statement.parameter_name(at).and_then(|name| self.parameters.get(&name));
            if let Some(value) = named {
                statement.bind_one(at, value.as_ref()).map_err(failed)?;
            }
        }
        if output.is_json() {
            let columns = statement.columns();
            let mut rows = Vec::new();
            while statement.step().map_err(failed)? {
                rows.push(statement.row().iter().map(json_of).collect::<Vec<_>>());
            }
            let is_read_only = statement.is_read_only();
            drop(statement);
            let changes = if is_read_only { 0 } else { self.sql.changes() };
            self.results.push(json!({ "columns": columns, "rows": rows, "changes": changes }));
            return Ok(used);
        }
        let mut sink = Sink::new(self.target.as_mut(), output);
        if self.echoes {
            sink.line(text[..used].trim())?;
        }
        if self.plans != Shown::Nothing && statement.answers() == Answers::Data {
            plan::explain(&self.sql, &text[..used], self.plans, &mut sink)?;
        }
        show(&mut statement, &self.style, &mut sink)?;
        let work = statement.work();
        drop(statement);
        if self.shows_work {
            plan::show_work(work, &mut sink)?;
        }
        if self.shows_changes {
            let (changes, total) = (self.sql.changes(), self.sql.total_changes());
            sink.line(format!("changes: {changes}   total_changes: {total}"))?;
        }
        if self.has_timer {
            sink.line(format!("{:.3} ms", begun.elapsed().as_secs_f64() * 1e3))?;
        }
        sink.finish()?;
        Ok(used)
    }

    fn prompt(&mut self, database: &Path, output: &mut Output) -> Result<bool> {
        println!("silica {} on {}", env!("CARGO_PKG_VERSION"), database.display());
        println!("SQL ends with ; and .help lists the other commands.");
        let failed = |e: ReadlineError| Error::io("the terminal", std::io::Error::other(e));
        let config = Config::builder().auto_add_history(true).build();
        let mut editor: Editor<super::complete::Words, FileHistory> =
            Editor::with_config(config).map_err(failed)?;
        editor.set_helper(Some(super::complete::Words::new(&mut self.sql)));
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
            match self.typed(&mut pending, &line, output) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => output.error(&error),
            }
        }
        if let Some(path) = &history {
            let _ = editor.save_history(path);
        }
        Ok(true)
    }

    /// Takes a line of the prompt behind what is pending; false if it says to leave.
    fn typed(&mut self, pending: &mut String, line: &str, output: &mut Output) -> Result<bool> {
        if is_blank(pending) && line.trim_start().starts_with('.') {
            pending.clear();
            return self.command(line.trim(), output);
        }
        pending.push_str(line);
        pending.push('\n');
        if is_blank(pending) {
            pending.clear();
        }
        if is_complete(pending) {
            let statements = std::mem::take(pending);
            self.statements(&statements, output).map_err(|(error, _)| error)?;
        }
        Ok(true)
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
