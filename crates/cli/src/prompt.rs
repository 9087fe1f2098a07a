//! The prompt: the verbs on an open store, with history and completion.

use crate::args::{Global, Verb};
use crate::output::Output;
use crate::session::Session;
use crate::verbs;
use clap::{CommandFactory, Parser, Subcommand};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{Context, Editor, Helper};
use silica::{Error, ErrorKind, Result};
use std::io::IsTerminal;
use std::path::PathBuf;

const HISTORY_FILE: &str = ".silica_history";

/// A line of the prompt.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true, disable_version_flag = true)]
#[command(override_usage = "VERB [ARGUMENTS]", help_template = "{subcommands}")]
struct Line {
    #[command(subcommand)]
    command: LineCommand,
}

#[derive(Subcommand)]
enum LineCommand {
    #[command(flatten)]
    Verb(Verb),
    /// Turn to another keyspace, creating it where there is none.
    Use {
        /// Its name.
        keyspace: String,
    },
    /// List the keyspaces.
    Keyspaces,
    /// Leave the prompt.
    #[command(alias = "exit")]
    Quit,
}

/// Runs the prompt until it is left.
pub(crate) fn run(global: &Global, output: &mut Output) -> Result<()> {
    if output.is_json() {
        let message = "--json needs a command, such as `silica get KEY --json`";
        return Err(Error::new(ErrorKind::Config, message));
    }
    let mut session = Session::open(global, true)?;
    let interactive = std::io::stdin().is_terminal();
    if interactive {
        println!("silica {} on {}", env!("CARGO_PKG_VERSION"), session.store.path().display());
        println!("Type help for the verbs, quit to leave.");
    }
    let mut lines = Lines::new(interactive)?;
    while let Some(line) = lines.next()? {
        match execute(&line, &mut session, output) {
            Ok(true) => {}
            Ok(false) => break,
            Err(e) => {
                eprintln!("{e}");
                if !interactive {
                    session.close()?;
                    return Err(e);
                }
            }
        }
    }
    lines.save();
    session.close()
}

/// Does what a line says; false where it says to leave.
fn execute(line: &str, session: &mut Session, output: &mut Output) -> Result<bool> {
    let words = split(line)?;
    if words.is_empty() {
        return Ok(true);
    }
    if words[0] == "help" && words.len() == 1 {
        let help = Line::command().render_long_help();
        println!(
            "{help}\nArguments with blanks go in quotes; \\xNN, \\n, \\t and \\\\ stand for bytes."
        );
        return Ok(true);
    }
    let line = match Line::try_parse_from(&words) {
        Ok(line) => line,
        Err(e) => {
            // Clap's text is the whole message, help on demand included.
            let _ = e.print();
            return Ok(true);
        }
    };
    match line.command {
        LineCommand::Quit => return Ok(false),
        LineCommand::Use { keyspace } => session.select(&keyspace, true)?,
        LineCommand::Keyspaces => {
            for info in session.store.keyspaces()? {
                output.line(format!("{}\t{}", info.name, info.engine))?;
            }
        }
        LineCommand::Verb(verb) => verbs::run(&verb, session, output)?,
    }
    Ok(true)
}

/// Splits at blanks; single or double quotes keep them together. Backslashes are left for the
/// verbs.
fn split(line: &str) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match quote {
            Some(q) if c == q => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    match quote {
        None => Ok(words),
        Some(q) => Err(Error::new(ErrorKind::Config, format!("a quote {q} is not closed"))),
    }
}

/// Where lines come from.
enum Lines {
    Editor(Box<Editor<Verbs, FileHistory>>, Option<PathBuf>),
    Plain(std::io::Lines<std::io::StdinLock<'static>>),
}

impl Lines {
    fn new(interactive: bool) -> Result<Self> {
        if !interactive {
            return Ok(Lines::Plain(std::io::stdin().lines()));
        }
        let mut editor = Editor::new().map_err(failed)?;
        editor.set_helper(Some(Verbs::new()));
        let history = std::env::home_dir().map(|home| home.join(HISTORY_FILE));
        if let Some(path) = &history {
            // There is none at the first start.
            let _ = editor.load_history(path);
        }
        Ok(Lines::Editor(Box::new(editor), history))
    }

    fn next(&mut self) -> Result<Option<String>> {
        match self {
            Lines::Plain(lines) => {
                lines.next().transpose().map_err(|e| Error::io("reading standard input", e))
            }
            Lines::Editor(editor, _) => match editor.readline("silica> ") {
                Ok(line) => {
                    let _ = editor.add_history_entry(&line);
                    Ok(Some(line))
                }
                Err(ReadlineError::Eof | ReadlineError::Interrupted) => Ok(None),
                Err(e) => Err(failed(e)),
            },
        }
    }

    fn save(&mut self) {
        if let Lines::Editor(editor, Some(path)) = self
            && let Err(e) = editor.save_history(path)
        {
            eprintln!("silica: cannot save the history in {}: {e}", path.display());
        }
    }
}

fn failed(e: ReadlineError) -> Error {
    Error::io("reading the terminal", std::io::Error::other(e))
}

/// Completes the first word.
struct Verbs(Vec<String>);

impl Verbs {
    fn new() -> Self {
        let mut names: Vec<String> =
            Line::command().get_subcommands().map(|c| c.get_name().to_string()).collect();
        names.push("help".to_string());
        names.sort();
        Verbs(names)
    }
}

impl Completer for Verbs {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = &line[..position];
        if typed.contains(char::is_whitespace) {
            return Ok((position, Vec::new()));
        }
        let fitting = self.0.iter().filter(|n| n.starts_with(typed)).map(|n| format!("{n} "));
        Ok((0, fitting.collect()))
    }
}

impl Hinter for Verbs {
    type Hint = String;
}
impl Highlighter for Verbs {}
impl Validator for Verbs {}
impl Helper for Verbs {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_keep_blanks_together() {
        let words = split(r#"put "a b" 'c "d"' e\n '' "#).unwrap();
        assert_eq!(words, ["put", "a b", "c \"d\"", "e\\n", ""]);
        assert!(split("get 'a").unwrap_err().to_string().contains("not closed"));
    }

    #[test]
    fn the_verbs_are_those_of_the_command_line() {
        let names = Verbs::new().0;
        for name in ["get", "put", "del", "scan", "stats", "verify", "backup", "use", "help"] {
            assert!(names.iter().any(|n| n == name), "{name}");
        }
    }
}
