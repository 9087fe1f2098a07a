//! The prompt: the command line's verbs on an open store, and Redis's commands, with history and
//! completion.

mod complete;
mod redis;
mod sql;
mod words;

use crate::args::{Cli, Command};
use crate::session::Session;
use crate::{door, forgetful};
use clap::{CommandFactory, Parser, Subcommand};
use complete::{Proposals, Turned};
use redis::Redis;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};
use silica::engine::similar;
use silica::{Error, ErrorKind, Result, Silica};
use silica_console::{Global, Output};
use sql::Statements;
use std::cell::RefCell;
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use words::{split, split_as_redis};

const HISTORY_FILE: &str = ".silica_history";

/// A line of the prompt.
#[derive(Parser)]
#[command(no_binary_name = true, disable_version_flag = true, name = "")]
#[command(override_usage = "VERB [ARGUMENTS]", help_template = "{subcommands}")]
#[command(disable_help_subcommand = true)]
struct Line {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: LineCommand,
}

#[derive(Subcommand)]
enum LineCommand {
    #[command(flatten)]
    Command(Command),
    /// Turn to another keyspace, creating it where there is none.
    Use {
        /// Its name.
        keyspace: String,
    },
    /// List the keyspaces.
    Keyspaces,
    /// List the verbs, or explain one.
    Help {
        /// The verb.
        verb: Vec<String>,
    },
    /// Leave the prompt.
    #[command(alias = "exit")]
    Quit,
}

/// Runs the prompt until it is left.
pub(crate) fn run(global: &Global, all: &mut Output) -> Result<()> {
    if all.is_json() {
        let message = "--json needs a command, such as `silica get KEY --json`";
        return Err(Error::new(ErrorKind::Config, message));
    }
    // The keyspace is there from the start.
    let session = Session::open(global, true)?;
    session.keyspace().iter().for_each(|keyspace| forgetful::warn(keyspace));
    let store = session.store.share();
    drop(session);
    let interactive = std::io::stdin().is_terminal();
    if interactive {
        println!("silica {} on {}", env!("CARGO_PKG_VERSION"), store.path().display());
        println!(
            "Type help for the verbs, quit to leave. Redis's commands work, too, and SQL: SET k v \
             EX 30"
        );
    }
    let mut prompt = Prompt::new(global, Arc::clone(&store));
    let mut lines = Lines::new(interactive, &prompt)?;
    let outcome = prompt.take_all(&mut lines, interactive, all);
    lines.save();
    drop((lines, prompt));
    store.shut().and(outcome)
}

/// What lines are performed with.
struct Prompt {
    global: Global,
    store: Arc<Silica>,
    turned: Turned,
    /// What performs Redis's commands, once there was one.
    redis: Option<Redis>,
    /// What performs statements of SQL, once there was one.
    sql: Option<Statements>,
    verbs: Vec<String>,
}

impl Prompt {
    fn new(global: &Global, store: Arc<Silica>) -> Self {
        let at_hand = Some(Arc::clone(&store));
        let turned = Rc::new(RefCell::new(global.keyspace.clone()));
        let global = Global { at_hand, path: Some(store.path().to_path_buf()), ..global.clone() };
        let line = Line::command();
        let names = line.get_subcommands().flat_map(|command| {
            let aliases = command.get_all_aliases().map(str::to_string);
            aliases.chain([command.get_name().to_string()]).collect::<Vec<_>>()
        });
        Prompt { global, store, turned, redis: None, sql: None, verbs: names.collect() }
    }

    fn keyspace(&self) -> String {
        self.turned.borrow().clone()
    }

    /// Takes lines to the end. An error ends a script, and a person goes on.
    fn take_all(&mut self, lines: &mut Lines, interactive: bool, all: &mut Output) -> Result<()> {
        while let Some(mut line) = lines.next(&format!("silica:{}> ", self.keyspace()))? {
            while self.is_sql(&line) && sql::goes_on(&line) {
                let Some(more) = lines.next("...> ")? else { break };
                line = format!("{line}\n{more}");
            }
            let mut output = Output::of_prompt(false);
            let done = self.execute(&line, &mut output);
            if output.is_missing() {
                all.missing();
            }
            if interactive && output.is_within_line() {
                // The prompt would be drawn over it.
                output.raw(b"\n")?;
            }
            match done {
                Ok(true) => {}
                Ok(false) => break,
                Err(e) if interactive => output.error(&e),
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// True for a line that is a statement of SQL.
    fn is_sql(&self, line: &str) -> bool {
        let first = line.split_whitespace().next().unwrap_or_default();
        sql::is_statement(line) && !self.verbs.iter().any(|verb| verb == first)
    }

    /// Does what a line says; false where it says to leave.
    fn execute(&mut self, line: &str, output: &mut Output) -> Result<bool> {
        let Some(first) = line.split_whitespace().next() else { return Ok(true) };
        if self.is_sql(line) {
            let statements = Statements::of(&self.store, &self.keyspace(), self.sql.take())?;
            return self.sql.insert(statements).run(line, output).map(|()| true);
        }
        let is_verb = self.verbs.iter().any(|verb| verb == first);
        if !is_verb && redis::is_command(first) {
            return self.ask_redis(line, output);
        }
        let mut words = split(line)?;
        if !is_verb {
            words[0] = words[0].to_ascii_lowercase();
            self.check_verb(&words[0])?;
        }
        let is_json = words.iter().any(|word| word == "--json");
        let parsed = match Line::try_parse_from(&words) {
            Ok(line) => line,
            Err(e) if e.use_stderr() => return Err(misread(first, &e)),
            Err(help) => {
                output.raw(help.render().to_string().as_bytes())?;
                return Ok(true);
            }
        };
        *output = Output::of_prompt(is_json);
        let told: Vec<OsString> = words.iter().map(OsString::from).collect();
        match parsed.command {
            LineCommand::Quit => return Ok(false),
            LineCommand::Help { .. } if door::explains(&told) => door::enter(&self.global, &told)?,
            LineCommand::Help { verb } => help(&verb),
            LineCommand::Use { keyspace } => self.turn_to(&keyspace)?,
            LineCommand::Keyspaces => {
                for info in self.store.keyspaces()? {
                    output.line(format!("{}\t{}", info.name, info.engine))?;
                }
            }
            LineCommand::Command(command) => {
                let global = self.global_of(parsed.global, &words);
                crate::run(Cli { global, command: Some(command), words: told }, output)?;
            }
        }
        output.finish()?;
        Ok(true)
    }

    /// Refuses what is neither a verb nor a command, and proposes what may have been meant.
    fn check_verb(&self, word: &str) -> Result<()> {
        if self.verbs.iter().any(|verb| verb == word) {
            return Ok(());
        }
        let commands = silica_server::command_names().map(|(name, _)| name);
        let known = self.verbs.iter().map(String::as_str).chain(commands);
        let meant = similar(word, known)
            .map_or(String::new(), |other| format!(" (did you mean '{other}'?)"));
        let message = format!("no verb or command '{word}'{meant}; help lists the verbs");
        Err(Error::new(ErrorKind::Config, message))
    }

    /// What a line says, and where it says nothing what the prompt was started with.
    fn global_of(&self, line: Global, words: &[String]) -> Global {
        let says_keyspace =
            words.iter().any(|word| word == "--keyspace" || word.starts_with("--keyspace="));
        let keyspace = if says_keyspace { line.keyspace } else { self.keyspace() };
        Global {
            keyspace,
            path: line.path.or_else(|| self.global.path.clone()),
            at_hand: self.global.at_hand.clone(),
            memory: line.memory.or(self.global.memory),
            ..line
        }
    }

    fn turn_to(&mut self, keyspace: &str) -> Result<()> {
        forgetful::warn(&self.store.keyspace(keyspace)?);
        *self.turned.borrow_mut() = keyspace.to_string();
        Ok(())
    }

    /// Performs a command of Redis on the keyspace.
    fn ask_redis(&mut self, line: &str, output: &mut Output) -> Result<bool> {
        let words = split_as_redis(line)?;
        let name = words[0].to_ascii_lowercase();
        match (&name[..], words.get(1)) {
            (b"quit", _) => return Ok(false),
            (b"select", Some(number)) => {
                let number = std::str::from_utf8(number).ok().and_then(|n| n.parse().ok());
                let index = number.filter(|index| *index < silica_server::DATABASES_MAX);
                let index = index.ok_or_else(|| {
                    Error::new(ErrorKind::Config, "there is no such database; `use NAME` turns")
                })?;
                self.turn_to(&silica_server::keyspace_name(index))?;
                output.line("OK")?;
                return Ok(true);
            }
            _ => {}
        }
        let turned = self.keyspace();
        let redis = match self.redis.take().filter(|redis| redis.keyspace() == turned) {
            Some(redis) => redis,
            None => {
                let keyspace = self.store.keyspace(&turned)?;
                crate::session::refuse_database(&keyspace)?;
                Redis::start(&keyspace, &self.store)?
            }
        };
        let redis = self.redis.insert(redis);
        let done = redis.run(&words, output);
        if done.as_ref().is_err_and(|e| e.kind() == ErrorKind::Io) {
            // The next command starts another one.
            self.redis = None;
        }
        done.map(|()| true)
    }
}

/// The error for a line that begins with `first` and makes no sense.
fn misread(first: &str, error: &clap::Error) -> Error {
    let mut text = error.render().to_string().trim().trim_start_matches("error: ").to_string();
    if redis::is_command(first) {
        let command = first.to_ascii_uppercase();
        text.push_str(&format!("\nRedis's command of that name is written in capitals: {command}"));
    }
    Error::new(ErrorKind::Config, text)
}

/// Lists the verbs, or explains one.
fn help(verb: &[String]) {
    let mut line = Line::command();
    let mut asked = &mut line;
    for word in verb {
        asked = match asked.find_subcommand(word).is_some() {
            true => asked.find_subcommand_mut(word).expect("it was just found"),
            false if redis::is_command(word) => {
                println!("{word} is Redis's command; the page docs/protocols/resp.md has them all");
                return;
            }
            false => {
                eprintln!("there is no verb '{word}'; help lists them all");
                return;
            }
        };
    }
    println!("{}", asked.render_long_help());
    if verb.is_empty() {
        println!(
            "Arguments with blanks go in quotes; \\xNN, \\n, \\t and \\\\ stand for bytes.\n\
             Redis's commands work as in redis-cli: SET k v EX 30, INCR n, KEYS *. Where a verb \
             has the\nname of one (get, del, scan, ttl, expire, persist), the command is written \
             in capitals.\nStatements of SQL work, too: SELECT * FROM users; the database is the \
             keyspace that the prompt\nis turned to, or the keyspace sql. SELECT 3 without a ; is \
             Redis's."
        );
    }
}

/// Where lines come from.
enum Lines {
    Editor(Box<Editor<Proposals, FileHistory>>, Option<PathBuf>),
    Plain(std::io::Lines<std::io::StdinLock<'static>>),
}

impl Lines {
    fn new(interactive: bool, prompt: &Prompt) -> Result<Self> {
        if !interactive {
            return Ok(Lines::Plain(std::io::stdin().lines()));
        }
        let config = Config::builder().completion_type(CompletionType::List).build();
        let mut editor = Editor::with_config(config).map_err(failed)?;
        editor
            .set_helper(Some(Proposals::new(Arc::clone(&prompt.store), Rc::clone(&prompt.turned))));
        let history = std::env::home_dir().map(|home| home.join(HISTORY_FILE));
        if let Some(path) = &history {
            // There is none at the first start.
            let _ = editor.load_history(path);
        }
        Ok(Lines::Editor(Box::new(editor), history))
    }

    fn next(&mut self, sign: &str) -> Result<Option<String>> {
        match self {
            Lines::Plain(lines) => {
                lines.next().transpose().map_err(|e| Error::io("reading standard input", e))
            }
            Lines::Editor(editor, _) => match editor.readline(sign) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the command line can do, a line of the prompt can name.
    #[test]
    fn every_verb_of_the_command_line_is_there() {
        let line = Line::command();
        let names: Vec<_> = line.get_subcommands().map(|c| c.get_name()).collect();
        let all = Cli::command();
        assert!(all.get_subcommands().count() > 20);
        for command in all.get_subcommands().filter(|command| command.get_name() != "help") {
            assert!(names.contains(&command.get_name()), "{}", command.get_name());
        }
        for name in ["use", "keyspaces", "help", "quit"] {
            assert!(names.contains(&name), "{name}");
        }
    }
}
