//! What begins with a dot: commands of the shell, named as SQLite's are.

use super::dump::dump;
use super::import::{Import, import};
use super::plan::Shown;
use super::shell::{Shell, open_backup};
use super::sink::Target;
use super::{Mode, failed, words};
use clap::ValueEnum;
use silica::engine::similar;
use silica::{Error, ErrorKind, Result};
use silica_console::Output;
use silica_sql::sql::Value;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const HELP: &[(&str, &str)] = &[
    (".backup FILE", "copy the database into a file, a new one in SQLite's format"),
    (".bail on|off", "end a script at the first error, as at first"),
    (".cd DIRECTORY", "go to a directory"),
    (".changes on|off", "write how many rows each statement has changed"),
    (".databases", "list the attached databases"),
    (".dump [TABLE]", "write the statements that make the database, or one table"),
    (".echo on|off", "write statements before their results"),
    (".eqp on|off|full", "write the plan before a statement's rows; full: its program, too"),
    (".exit", "leave"),
    (".headers on|off", "write the columns' names above the rows"),
    (".help", "list these"),
    (".import [--csv|--tabs] [--skip N] FILE TABLE", "read a file; a missing table is made"),
    (".indexes [TABLE]", "list the indexes"),
    (".lint fkey-indexes", "write indexes that foreign keys lack"),
    (".mode MODE [TABLE]", "how rows are shown; the table is that of insert"),
    (".nullvalue TEXT", "what NULL is shown as"),
    (".once FILE", "write what comes next to a file"),
    (".open FILE", "turn to another database"),
    (".output [FILE]", "write results to a file; without one to standard output again"),
    (".parameter set|unset|list|clear", "values of parameters, such as `.parameter set :id 7`"),
    (".print TEXT", "write a text"),
    (".quit", "leave"),
    (".read FILE", "run a script"),
    (".restore FILE", "make the database what the file holds"),
    (".save FILE", "as .backup"),
    (".schema [TABLE]", "write the statements that make the tables"),
    (".separator COLUMN [ROW]", "what stands between columns, and behind rows"),
    (".shell COMMAND", "run a command of the system"),
    (".show", "list the settings"),
    (".stats on|off", "write what each statement took"),
    (".tables [PATTERN]", "list the tables"),
    (".timeout MS", "how long a statement waits for another writer"),
    (".timer on|off", "write how long each statement takes"),
    (".version", "write the versions of Silica and of its SQLite"),
    (".width N...", "widths of columns; 0: as wide as their cells, negative: cells at the right"),
];

/// Characters of a column at most: a row is padded to them.
const WIDTH_MAX: u64 = 10_000;

/// Other names that people know.
const ALIASES: &[(&str, &str)] = &[(".indices", ".indexes"), (".system", ".shell")];

const LIST: &str = "type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' \
                    AND name LIKE ?1 ORDER BY name";
const INDEXES: &str = "type = 'index' AND tbl_name LIKE ?1 ORDER BY name";
const SCHEMA: &str = "sql IS NOT NULL AND tbl_name LIKE ?1 \
                      AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid";

/// What stands in a schema before the name of what is made.
const MAKES: [&str; 6] = [
    "CREATE TABLE ",
    "CREATE VIEW ",
    "CREATE TRIGGER ",
    "CREATE INDEX ",
    "CREATE UNIQUE INDEX ",
    "CREATE VIRTUAL TABLE ",
];

/// The commands.
pub(super) struct Dots;

fn misused(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Config, message)
}

/// The names of all commands.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    HELP.iter().filter_map(|(command, _)| command.split(' ').next())
}

/// The command that `word` is, or begins: the first one by the alphabet, as in SQLite's shell.
fn meant(word: &str) -> Option<&'static str> {
    if word.len() < 2 {
        return None;
    }
    let alias = ALIASES.iter().find(|(alias, _)| *alias == word).map(|(_, name)| *name);
    let exact = names().find(|name| *name == word);
    let begun = || names().find(|name| name.starts_with(word));
    let alias_begun =
        || ALIASES.iter().find(|(alias, _)| alias.starts_with(word)).map(|(_, name)| *name);
    alias.or(exact).or_else(begun).or_else(alias_begun)
}

fn is_on(word: Option<&str>) -> Result<bool> {
    match word {
        Some("on" | "yes" | "true" | "1") => Ok(true),
        Some("off" | "no" | "false" | "0") => Ok(false),
        _ => Err(misused("say on or off")),
    }
}

fn on_or_off(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

fn modes() -> String {
    let values = Mode::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    values.map(|value| value.get_name().to_string()).collect::<Vec<_>>().join(", ")
}

impl Dots {
    /// Does what `line` says; false where it says to leave.
    pub(super) fn run(shell: &mut Shell, line: &str, output: &mut Output) -> Result<bool> {
        let given = words::split(line)?;
        let (word, given) = given.split_first().expect("a dot");
        let Some(name) = meant(word) else {
            let meant = similar(word, names())
                .map_or(String::new(), |other| format!(" (did you mean '{other}'?)"));
            return Err(misused(format!("no command '{word}'{meant}; .help lists them")));
        };
        let given: Vec<&str> = given.iter().map(String::as_str).collect();
        let first = given.first().copied();
        let needs = |what: &str| first.ok_or_else(|| misused(format!("{name} needs a {what}")));
        match name {
            ".quit" | ".exit" => return Ok(false),
            ".read" => return Self::read(shell, needs("FILE")?, output),
            ".help" => Self::help(shell, output)?,
            ".databases" => Self::databases(shell, output)?,
            ".tables" => Self::list(shell, LIST, first, output)?,
            ".indexes" => Self::list(shell, INDEXES, first, output)?,
            ".schema" => Self::schema(shell, first, output)?,
            ".dump" => Self::dump(shell, first, output)?,
            ".backup" | ".save" => Self::backup(shell, needs("FILE")?)?,
            ".restore" => {
                let from = open_backup(Path::new(needs("FILE")?), true)?;
                from.copy_into(&mut shell.sql).map_err(failed)?;
            }
            ".open" => shell.turn_to(Path::new(needs("FILE")?), shell.opening)?,
            ".import" => Self::import(shell, &given, output)?,
            ".parameter" => Self::parameter(shell, &given, output)?,
            ".lint" => Self::lint(shell, first, output)?,
            ".print" => shell_line(shell, &given.join(" "), output)?,
            ".shell" => Self::system(line)?,
            ".cd" => {
                let directory = needs("DIRECTORY")?;
                let went = std::env::set_current_dir(directory);
                went.map_err(|e| Error::io(format!("going to {directory}"), e))?;
            }
            ".version" => {
                let version = "SELECT sqlite_version() || ' ' || sqlite_source_id()";
                let of_sqlite = shell.sql.query(version, &[]).map_err(failed)?;
                let text =
                    format!("silica {}\nSQLite {}", env!("CARGO_PKG_VERSION"), of_sqlite[0][0]);
                shell_line(shell, &text, output)?;
            }
            ".output" | ".once" => {
                let file = first.filter(|file| *file != "stdout" && *file != "-");
                let is_once = name == ".once";
                // The one before is closed first, which may be the same.
                shell.target = None;
                shell.target = file.map(|file| Target::create(file, is_once)).transpose()?;
            }
            _ => Self::set(shell, name, &given, output)?,
        }
        Ok(true)
    }

    /// Settings.
    fn set(shell: &mut Shell, name: &str, given: &[&str], output: &mut Output) -> Result<()> {
        let first = given.first().copied();
        match name {
            ".bail" => shell.goes_on = !is_on(first)?,
            ".changes" => shell.shows_changes = is_on(first)?,
            ".echo" => shell.echoes = is_on(first)?,
            ".headers" => shell.style.headers = Some(is_on(first)?),
            ".timer" => shell.has_timer = is_on(first)?,
            ".stats" => shell.shows_work = is_on(first)?,
            ".eqp" => {
                shell.plans = match first {
                    Some("full") => Shown::Program,
                    word => match is_on(word) {
                        Ok(true) => Shown::Plan,
                        Ok(false) => Shown::Nothing,
                        Err(_) => return Err(misused("say on, off or full")),
                    },
                };
            }
            ".width" => {
                let widths: std::result::Result<Vec<i64>, _> =
                    given.iter().map(|word| word.parse()).collect();
                let Ok(widths) = widths else { return Err(misused(".width needs numbers")) };
                if widths.iter().any(|width| width.unsigned_abs() > WIDTH_MAX) {
                    return Err(misused(format!("a column has at most {WIDTH_MAX} characters")));
                }
                shell.style.widths = widths;
            }
            ".nullvalue" => shell.style.null = first.unwrap_or_default().to_string(),
            ".separator" => {
                let separator = first.ok_or_else(|| misused(".separator needs a text"))?;
                shell.style.separator = Some(separator.to_string());
                shell.style.row_end = given.get(1).map(|text| (*text).to_string());
            }
            ".timeout" => {
                let ms = first.and_then(|word| word.parse().ok());
                let ms = ms.ok_or_else(|| misused(".timeout needs a number of milliseconds"))?;
                shell.sql.set_busy_timeout(Duration::from_millis(ms));
            }
            ".mode" => {
                let mode = first.and_then(|word| Mode::from_str(word, true).ok());
                let needs = || misused(format!(".mode needs one of {}", modes()));
                shell.style.mode = mode.ok_or_else(needs)?;
                (shell.style.separator, shell.style.row_end) = (None, None);
                if let Some(table) = given.get(1) {
                    shell.style.table = (*table).to_string();
                }
            }
            _ => Self::show(shell, output)?,
        }
        Ok(())
    }

    fn show(shell: &mut Shell, output: &mut Output) -> Result<()> {
        let style = &shell.style;
        let mode = style.mode.to_possible_value();
        let mode = mode.map_or(String::new(), |mode| mode.get_name().to_string());
        let widths: Vec<String> = style.widths.iter().map(i64::to_string).collect();
        let eqp = match shell.plans {
            Shown::Nothing => "off",
            Shown::Plan => "on",
            Shown::Program => "full",
        };
        let settings = [
            ("bail", on_or_off(!shell.goes_on).to_string()),
            ("changes", on_or_off(shell.shows_changes).to_string()),
            ("echo", on_or_off(shell.echoes).to_string()),
            ("eqp", eqp.to_string()),
            ("headers", on_or_off(style.has_headers()).to_string()),
            ("mode", mode),
            ("nullvalue", format!("{:?}", style.null)),
            ("separator", format!("{:?} {:?}", style.separator(), style.row_end())),
            ("stats", on_or_off(shell.shows_work).to_string()),
            ("timer", on_or_off(shell.has_timer).to_string()),
            ("width", widths.join(" ")),
        ];
        let mut sink = shell.sink(output);
        for (name, value) in settings {
            sink.line(format!("{name:>10}: {value}"))?;
        }
        sink.finish()
    }

    fn help(shell: &mut Shell, output: &mut Output) -> Result<()> {
        let mut sink = shell.sink(output);
        for (command, what) in HELP {
            sink.line(format!("{command:32} {what}"))?;
        }
        sink.line(format!("{:32} {}", "Modes:", modes()))?;
        sink.finish()
    }

    fn lint(shell: &mut Shell, what: Option<&str>, output: &mut Output) -> Result<()> {
        if !what.is_some_and(|what| "fkey-indexes".starts_with(what)) {
            return Err(misused(".lint needs fkey-indexes"));
        }
        let Shell { sql, target, .. } = shell;
        let mut sink = super::sink::Sink::new(target.as_mut(), output);
        super::lint::foreign_keys(sql, &mut sink)?;
        sink.finish()
    }

    fn read(shell: &mut Shell, file: &str, output: &mut Output) -> Result<bool> {
        let opened = File::open(file).map_err(|e| Error::io(format!("reading {file}"), e))?;
        shell.take_script(&mut BufReader::new(opened), Some(file), output)
    }

    fn dump(shell: &mut Shell, table: Option<&str>, output: &mut Output) -> Result<()> {
        let Shell { sql, target, .. } = shell;
        let mut sink = super::sink::Sink::new(target.as_mut(), output);
        dump(sql, &pattern_of(table), &mut sink)?;
        sink.finish()
    }

    fn backup(shell: &mut Shell, file: &str) -> Result<()> {
        let mut to = open_backup(Path::new(file), false)?;
        shell.sql.copy_into(&mut to).map_err(failed)
    }

    fn import(shell: &mut Shell, given: &[&str], output: &mut Output) -> Result<()> {
        let needs = || misused(".import needs a FILE and a TABLE");
        let mut has_tabs = shell.style.mode == Mode::Tabs;
        let (mut skip, mut names) = (0, Vec::new());
        let mut given = given.iter().copied();
        while let Some(word) = given.next() {
            match word.strip_prefix('-').map(|word| word.trim_start_matches('-')) {
                Some("csv") => has_tabs = false,
                Some("tabs") => has_tabs = true,
                Some("skip") => {
                    let count = given.next().and_then(|count| count.parse().ok());
                    skip = count.ok_or_else(|| misused("--skip needs a number of records"))?;
                }
                Some(other) => {
                    let message =
                        format!("no option '{other}': there are --csv, --tabs and --skip N");
                    return Err(misused(message));
                }
                None => names.push(word),
            }
        }
        let [file, table] = names[..] else { return Err(needs()) };
        let asked = Import { path: Path::new(file), table, has_tabs, skip };
        let rows = import(&mut shell.sql, &asked)?;
        shell_line(shell, &format!("{rows} rows"), output)
    }

    fn parameter(shell: &mut Shell, given: &[&str], output: &mut Output) -> Result<()> {
        match given {
            ["init"] => Ok(()),
            ["clear"] => {
                shell.parameters.clear();
                Ok(())
            }
            ["unset", name] => {
                shell.parameters.remove(*name);
                Ok(())
            }
            ["set", name, value @ ..] if !value.is_empty() => {
                // An expression of SQL, or else a text.
                let value = value.join(" ");
                let computed = shell.sql.query(&format!("SELECT {value}"), &[]);
                let computed = computed.ok().and_then(|rows| rows.into_iter().flatten().next());
                let value = computed.unwrap_or(Value::Text(value));
                shell.parameters.insert((*name).to_string(), value);
                Ok(())
            }
            ["list"] => {
                let Shell { parameters, target, .. } = shell;
                let mut sink = super::sink::Sink::new(target.as_mut(), output);
                for (name, value) in parameters {
                    sink.line(format!("{name} {}", super::show::literal(value.as_ref())))?;
                }
                sink.finish()
            }
            _ => Err(misused(".parameter needs set NAME VALUE, unset NAME, list or clear")),
        }
    }

    /// Runs what stands behind the command's name.
    fn system(line: &str) -> Result<()> {
        let command = line.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim());
        if command.is_empty() {
            return Err(misused(".shell needs a COMMAND"));
        }
        let ended = Command::new("sh").args(["-c", command]).status();
        let ended = ended.map_err(|e| Error::io(format!("starting {command}"), e))?;
        match ended.success() {
            true => Ok(()),
            false => Err(misused(format!("{command}: {ended}"))),
        }
    }

    fn databases(shell: &mut Shell, output: &mut Output) -> Result<()> {
        let query = "SELECT name || ': ' || file FROM pragma_database_list";
        let lines: Vec<String> = shell
            .sql
            .query(query, &[])
            .map_err(failed)?
            .iter()
            .map(|row| row[0].to_string())
            .collect();
        shell_line(shell, &lines.join("\n"), output)
    }

    /// What `column` of the schemas of all databases says where `condition` holds, each with the
    /// name of its database; that of the main one is empty.
    fn schemas(
        shell: &mut Shell,
        column: &str,
        condition: &str,
        pattern: Option<&str>,
    ) -> Result<Vec<(String, String)>> {
        let mut found = Vec::new();
        let databases = "SELECT name FROM pragma_database_list ORDER BY seq";
        for row in shell.sql.query(databases, &[]).map_err(failed)? {
            let database = row[0].to_string();
            let of_database = super::show::quoted(&database);
            let query =
                format!("SELECT {column} FROM {of_database}.sqlite_schema WHERE {condition}");
            let database = if database == "main" { String::new() } else { database };
            let rows = shell.sql.query(&query, &[pattern_of(pattern).into()]).map_err(failed)?;
            found.extend(rows.iter().map(|row| (database.clone(), row[0].to_string())));
        }
        Ok(found)
    }

    fn list(
        shell: &mut Shell,
        condition: &str,
        pattern: Option<&str>,
        output: &mut Output,
    ) -> Result<()> {
        let found = Self::schemas(shell, "name", condition, pattern)?;
        let mut sink = shell.sink(output);
        for (database, name) in found {
            let database = if database.is_empty() { database } else { database + "." };
            sink.line(format!("{database}{name}"))?;
        }
        sink.finish()
    }

    fn schema(shell: &mut Shell, pattern: Option<&str>, output: &mut Output) -> Result<()> {
        let found = Self::schemas(shell, "sql", SCHEMA, pattern)?;
        let mut sink = shell.sink(output);
        for (database, made_by) in found {
            let makes = MAKES.iter().find(|makes| made_by.starts_with(**makes));
            match makes.filter(|_| !database.is_empty()) {
                Some(makes) => {
                    let (database, rest) =
                        (super::show::quoted(&database), &made_by[makes.len()..]);
                    sink.line(format!("{makes}{database}.{rest};"))?;
                }
                None => sink.line(format!("{made_by};"))?,
            }
        }
        sink.finish()
    }
}

/// The pattern of LIKE that `word` is; `*` stands for any letters, too.
fn pattern_of(word: Option<&str>) -> String {
    word.map_or("%".into(), |word| word.replace('*', "%"))
}

fn shell_line(shell: &mut Shell, text: &str, output: &mut Output) -> Result<()> {
    let mut sink = shell.sink(output);
    sink.line(text)?;
    sink.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_may_be_cut_short() {
        for (word, name) in [
            (".tab", ".tables"),
            (".q", ".quit"),
            (".header", ".headers"),
            (".indices", ".indexes"),
            (".sys", ".shell"),
            (".sch", ".schema"),
            (".tables", ".tables"),
        ] {
            assert_eq!(meant(word), Some(name), "{word}");
        }
        assert_eq!(meant(".tabels"), None);
        assert_eq!(meant("."), None);
    }
}
