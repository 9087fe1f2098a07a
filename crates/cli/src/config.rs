//! The options of a server from three places: a file, the environment, the command line. What comes
//! later in this order wins.
//!
//! All three have the options that `silica serve --help` lists, under their names: `client-memory =
//! "32MiB"` in the file, `SILICA_CLIENT_MEMORY=32MiB` in the environment. They become words of the
//! command line, which the one parser reads: so they mean the same and are refused for the same
//! reasons everywhere.

use crate::args::{Cli, Command, ConfigCommand};
use crate::options_file::{OptionsFile, name_of};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, CommandFactory, FromArgMatches};
use log::{info, warn};
use silica::{Error, ErrorKind, Result};
use silica_console::Output;
use silica_server::StopHandle;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The option that names the file, and what variables of the environment begin with.
const FILE: &str = "config";
const PREFIX: &str = "SILICA_";

/// Where an option's value is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    File,
    Environment,
    CommandLine,
    Default,
}

impl Source {
    fn name(self) -> &'static str {
        match self {
            Source::File => "file",
            Source::Environment => "environment",
            Source::CommandLine => "command line",
            Source::Default => "default",
        }
    }
}

/// What `silica serve` was told in all.
struct Told {
    matches: ArgMatches,
    /// Options that are not from the command line.
    from: Vec<(String, Source)>,
    file: Option<OptionsFile>,
}

/// The options of `serve`, its own and those of all commands.
fn options() -> Vec<Arg> {
    let mut command = Cli::command();
    command.build();
    let serve = command.find_subcommand("serve").expect("it is a command");
    let is_option =
        |arg: &&Arg| !["help", "version", FILE, "json"].contains(&arg.get_id().as_str());
    serve.get_arguments().filter(is_option).cloned().collect()
}

/// True for an option that stands alone.
fn is_flag(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

/// The words that give an option these values.
fn words_of(arg: &Arg, values: &[String]) -> Vec<OsString> {
    let long = arg.get_long().map(|long| format!("--{long}"));
    let word = |value: &String| match &long {
        None => value.into(),
        Some(long) => OsString::from(format!("{long}={value}")),
    };
    match (is_flag(arg), long.as_deref()) {
        (true, Some(long)) if values == ["true"] => vec![long.into()],
        (true, _) => Vec::new(),
        (false, _) => values.iter().map(word).collect(),
    }
}

fn is_given(matches: &ArgMatches, id: &str) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}

/// Where the words of `serve` end: before a `--`, behind which only names of files stand.
fn with_words(words: &[OsString], more: Vec<OsString>) -> Vec<OsString> {
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let (first, last) = words.split_at(end);
    first.iter().cloned().chain(more).chain(last.iter().cloned()).collect()
}

/// Puts what file and environment say of `serve` beside `words`, which begin with the program's
/// name. `None` if they are of another command, or wrong by themselves.
fn told(
    words: &[OsString],
    variable: impl Fn(&str) -> Option<OsString>,
) -> Result<Option<std::result::Result<Told, clap::Error>>> {
    // What is required may be in the file.
    let Ok(alone) = Cli::command().ignore_errors(true).try_get_matches_from(words) else {
        return Ok(None);
    };
    let Some(("serve", serve)) = alone.subcommand() else { return Ok(None) };
    let options = options();
    let named = serve.get_one::<PathBuf>(FILE).cloned();
    let named = named.or_else(|| variable(&format!("{PREFIX}CONFIG")).map(PathBuf::from));
    let file = named.map(|path| OptionsFile::read(&path)).transpose()?;
    if let Some(file) = &file {
        file.check(&options)?;
    }
    let (mut more, mut from) = (Vec::new(), Vec::new());
    for arg in &options {
        let id = arg.get_id().as_str();
        if is_given(serve, id) {
            continue;
        }
        let name = name_of(arg);
        let variable = variable(&variable_of(&name));
        let (values, source) = match (variable, &file) {
            (Some(text), _) => (vec![text.to_string_lossy().into_owned()], Source::Environment),
            (None, Some(file)) => match file.values(&name) {
                Some(values) => (values, Source::File),
                None => continue,
            },
            (None, None) => continue,
        };
        more.extend(words_of(arg, &values));
        from.push((id.to_string(), source));
    }
    let all = with_words(words, more);
    Ok(Some(Cli::command().try_get_matches_from(all).map(|matches| Told { matches, from, file })))
}

/// The variable of the environment for an option.
fn variable_of(name: &str) -> String {
    format!("{PREFIX}{}", name.to_ascii_uppercase().replace('-', "_"))
}

fn environment(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// The command line `words`, with what file and environment add to that of a server.
pub(crate) fn parse(words: &[OsString]) -> Result<Cli> {
    let told = match told(words, environment)? {
        None => return Ok(parse_or_exit(words)),
        Some(Ok(told)) => told,
        Some(Err(error)) => error.exit(),
    };
    let mut cli = Cli::from_arg_matches(&told.matches).unwrap_or_else(|error| error.exit());
    if let Some(Command::Serve(args)) = &mut cli.command {
        args.file = told.file;
    }
    Ok(cli)
}

/// Reads the file again, and lets `server` have its settings; what else has changed waits for the
/// next start.
pub(crate) fn reload(file: &OptionsFile, server: &StopHandle) {
    let path = file.path().display();
    let read = OptionsFile::read(file.path()).and_then(|now| {
        now.check(&options())?;
        server.configure(&now.settings())?;
        Ok(now)
    });
    match read {
        Ok(now) => {
            info!("read the settings in {path} again");
            let differing = now.differing(file);
            if !differing.is_empty() {
                warn!(
                    "of {path} these options hold from the next start on: {}",
                    differing.join(", ")
                );
            }
        }
        Err(error) => warn!("the settings stay as they were: {error}"),
    }
}

fn parse_or_exit(words: &[OsString]) -> Cli {
    let matches = Cli::command().get_matches_from(words);
    Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
}

/// `silica config check FILE` and `silica config show ...`.
pub(crate) fn run(command: &ConfigCommand, output: &mut Output) -> Result<()> {
    match command {
        ConfigCommand::Check { file } => check(file, output),
        ConfigCommand::Show { words } => show(words, output),
    }
}

/// The words of a server with these arguments.
fn serve_words(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    ["silica", "serve"].map(OsString::from).into_iter().chain(arguments).collect()
}

fn refused(error: &clap::Error) -> Error {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    Error::new(ErrorKind::Config, text.lines().next().unwrap_or_default())
}

fn check(path: &Path, output: &mut Output) -> Result<()> {
    let words = serve_words([OsString::from("--config"), path.into()]);
    // The environment of whoever checks is not that of the server.
    let told = told(&words, |_| None)?.expect("it is a server's");
    let told = told.map_err(|error| refused(&error).within(path.display()))?;
    Cli::from_arg_matches(&told.matches).map_err(|error| refused(&error).within(path.display()))?;
    let settings = told.file.as_ref().map_or(0, |file| file.settings().len());
    let options = told.from.len();
    output.object().insert("options".into(), options.into());
    output.object().insert("settings".into(), settings.into());
    output.line(format!("{} is well: {options} options, {settings} settings", path.display()))
}

/// What an option is, as text.
fn shown(matches: &ArgMatches, arg: &Arg) -> Vec<String> {
    let id = arg.get_id().as_str();
    if is_flag(arg) {
        return vec![matches.get_flag(id).to_string()];
    }
    let values = matches.get_raw(id).into_iter().flatten();
    values.map(|value: &OsStr| value.to_string_lossy().into_owned()).collect()
}

fn show(arguments: &[OsString], output: &mut Output) -> Result<()> {
    let words = serve_words(arguments.iter().cloned());
    let told = told(&words, environment)?.expect("it is a server's");
    let told = told.map_err(|error| refused(&error))?;
    let (_, serve) = told.matches.subcommand().expect("it is a server's");
    for arg in options() {
        let id = arg.get_id().as_str();
        let source = match told.from.iter().find(|(name, _)| name == id) {
            Some((_, source)) => *source,
            None if is_given(serve, id) => Source::CommandLine,
            None => Source::Default,
        };
        let values = match name_of(&arg).as_str() {
            "password" if source != Source::Default => vec!["(hidden)".to_string()],
            _ => shown(serve, &arg),
        };
        let text = values.join(" ");
        show_one(&name_of(&arg), source, &text, output)?;
    }
    for (name, value) in told.file.iter().flat_map(OptionsFile::settings) {
        show_one(&format!("settings.{name}"), Source::File, &value, output)?;
    }
    Ok(())
}

fn show_one(name: &str, source: Source, value: &str, output: &mut Output) -> Result<()> {
    let source = source.name();
    let entry = serde_json::json!({ "value": value, "source": source });
    output.object().insert(name.into(), entry);
    output.line(format!("{name:<22} {source:<14} {value}").trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str, arguments: &[&str], environment: &[(&str, &str)]) -> ArgMatches {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("silica.toml");
        std::fs::write(&path, text).expect("written");
        let file = [OsString::from("--config"), path.into()];
        let words = serve_words(file.into_iter().chain(arguments.iter().map(OsString::from)));
        let variable = |name: &str| {
            environment.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
        };
        let told = told(&words, variable).expect("the file is well").expect("a server's");
        let told = told.unwrap_or_else(|error| panic!("{error}"));
        told.matches.subcommand().expect("serve").1.clone()
    }

    fn text(matches: &ArgMatches, id: &str) -> String {
        let all = matches.get_raw(id).into_iter().flatten();
        all.map(|value| value.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_comes_later_wins() {
        let file = "listen = '127.0.0.1:1'\nloops = 3\nunix = '/a'\n";
        let environment = [("SILICA_LOOPS", "2"), ("SILICA_UNIX", "/b")];
        let all = values(file, &["--unix", "/c"], &environment);
        let shown = ["listen", "loops", "unix"].map(|id| text(&all, id));
        assert_eq!(shown, ["127.0.0.1:1", "2", "/c"]);
    }

    #[test]
    fn everything_that_a_command_line_says_a_file_can_say() {
        let file = "directory = 'store'\nread-only = true\nforget-at-exit = false\n\
                    database = ['1=mica', '2=silt']\nkeyspace-memory = 'a=64MiB'\n\
                    [set]\nfilter_bits = 8\ncompression = 'lz4'\n[settings]\ntimeout = 5\n";
        let all = values(file, &[], &[]);
        assert_eq!(text(&all, "directory"), "store");
        assert!(all.get_flag("read_only") && !all.get_flag("forget_at_exit"));
        assert_eq!(text(&all, "database"), "1=mica 2=silt");
        assert_eq!(text(&all, "set"), "filter_bits=8 compression=lz4");
    }

    #[test]
    fn every_option_has_a_name_and_a_variable_of_its_own() {
        let mut names: Vec<String> = options().iter().map(name_of).collect();
        assert!(names.len() > 30, "{names:?}");
        names.sort();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
        assert_eq!(variable_of("client-memory"), "SILICA_CLIENT_MEMORY");
    }
}
