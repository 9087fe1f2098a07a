//! `silica sql`: a shell on an SQL database, and unmodified programs on SQLite's library with our
//! storage below.

mod complete;
mod dots;
mod dump;
mod functions;
mod import;
mod library;
mod lint;
mod plan;
mod regexp;
mod shell;
mod show;
mod sink;
mod words;

pub(crate) use shell::Shell;

use clap::{Args, Subcommand, ValueEnum};
use silica::{Error, ErrorKind, Result};
use silica_console::{Global, Output};
use silica_sql::sql::SqlError;
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct SqlArgs {
    #[command(subcommand)]
    command: Option<SqlCommand>,
    /// The database: one of ours, a file of SQLite's, or :memory:. It is made if it is not there.
    #[arg(required = true)]
    database: Option<PathBuf>,
    /// Statements to run instead of a prompt, as with -c.
    #[arg(value_name = "SQL", conflicts_with = "statements")]
    script: Option<String>,
    /// Run these statements instead of a prompt.
    #[arg(short = 'c', long = "command", value_name = "SQL")]
    statements: Option<String>,
    /// How rows are shown; at a terminal box, else list.
    #[arg(long, value_enum)]
    mode: Option<Mode>,
    /// Open it for reading only.
    #[arg(long)]
    read_only: bool,
    /// What a new database is.
    #[arg(long, value_enum, default_value = "silica")]
    storage: StorageArg,
}

#[derive(Subcommand)]
enum SqlCommand {
    /// Start a program with this SQLite library instead of the system's: `silica sql run -- CMD`.
    Run {
        /// The program and its arguments.
        #[arg(required = true, last = true)]
        command: Vec<OsString>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StorageArg {
    /// A marker file and a directory, on the ordered engine.
    Silica,
    /// One file in SQLite's own format.
    Sqlite,
}

/// How rows are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// A table with lines around it.
    Box,
    /// Columns with | between them.
    List,
    /// Comma-separated values (RFC 4180).
    Csv,
    /// Columns with tabs between them.
    Tabs,
    /// A line for each column.
    Line,
    /// An array of objects.
    Json,
    /// A table with lines of ASCII around it.
    Table,
    /// A table of Markdown.
    Markdown,
    /// Columns of equal width.
    Column,
    /// INSERT statements.
    Insert,
    /// Literals of SQL with commas between them.
    Quote,
}

/// Does what `silica sql` says.
pub(crate) fn run(global: &Global, args: &SqlArgs, output: &mut Output) -> Result<()> {
    if let Some(SqlCommand::Run { command }) = &args.command {
        return Err(library::become_program(command));
    }
    let database = args.database.as_ref().expect("clap asks for it");
    shell::run(global, args, database, output).map(|_| ())
}

/// An error of SQL as one of the command line.
fn failed(error: SqlError) -> Error {
    let kind = match error.code & 0xff {
        5 | 6 => ErrorKind::Busy,
        8 => ErrorKind::ReadOnly,
        9 => ErrorKind::Closed,
        11 | 26 => ErrorKind::Corruption,
        13 => ErrorKind::Full,
        14 => ErrorKind::NotFound,
        _ => ErrorKind::Config,
    };
    Error::new(kind, error.message)
}
