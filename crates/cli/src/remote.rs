//! Administering a store through the server that serves it: `--addr`.

use crate::args::Verb;
use crate::resp::{Reply, Resp, database_of, password};
use crate::text::object_of;
use clap::Args;
use serde_json::{Map, Value};
use silica::{Error, ErrorKind, Result};
use silica_console::{Global, Output, has_terminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Between two questions how far a job is.
const LOOK: Duration = Duration::from_millis(100);

/// Which server to ask, if one.
#[derive(Args, Clone, Default)]
pub(crate) struct RemoteArgs {
    /// Ask the server that serves the store, at HOST:PORT or the path of its unix socket; its
    /// database is the one of --keyspace.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) addr: Option<String>,
    /// File whose first line is that server's password.
    #[arg(long, value_name = "FILE", requires = "addr")]
    pub(crate) password_file: Option<PathBuf>,
    /// User to log in as, if not the default one.
    #[arg(long, value_name = "NAME", requires = "password_file")]
    pub(crate) user: Option<String>,
}

impl RemoteArgs {
    /// A connection to the server, if one is to be asked.
    pub(crate) fn connect(&self, global: &Global) -> Result<Option<Remote>> {
        let Some(address) = &self.addr else { return Ok(None) };
        if global.path.is_some() {
            let message = "--path opens a store, --addr asks the server that has it open; give \
                           one of them";
            return Err(Error::new(ErrorKind::Config, message));
        }
        let password = password(self.password_file.as_deref())?;
        let resp = Resp::connect_as(address, self.user.as_deref(), password.as_deref())?;
        Ok(Some(Remote { resp }))
    }
}

/// A server that administers its store for us.
pub(crate) struct Remote {
    resp: Resp,
}

impl Remote {
    /// The reply to a command: the text of a line, or the bytes of a string.
    pub(crate) fn ask(&mut self, words: &[&str]) -> Result<Vec<u8>> {
        self.resp.ask(words)
    }

    fn text(&mut self, words: &[&str]) -> Result<String> {
        Ok(String::from_utf8_lossy(&self.ask(words)?).into_owned())
    }

    /// What DUMP answers for `key`.
    pub(crate) fn dump(&mut self, key: &[u8]) -> Result<Vec<u8>> {
        self.resp.ask_bytes(&[b"DUMP", key])
    }

    /// About how many entries `database` has.
    pub(crate) fn count(&mut self, database: &str) -> Result<u64> {
        self.ask(&["SELECT", database])?;
        Ok(self.counts(&["SILICA.COUNT"])?[1])
    }

    /// At least, about and at most so many.
    fn counts(&mut self, words: &[&str]) -> Result<[u64; 3]> {
        let counts = match self.resp.reply(words)? {
            Reply::Array(parts) => parts
                .iter()
                .map(|part| match part {
                    Reply::Text(digits) => std::str::from_utf8(digits).ok()?.parse().ok(),
                    Reply::Array(_) => None,
                })
                .collect::<Option<Vec<u64>>>()
                .and_then(|counts| counts.try_into().ok()),
            Reply::Text(_) => None,
        };
        counts.ok_or_else(|| Error::new(ErrorKind::Io, "the server does not count"))
    }

    /// Begins a job and waits for its end; what was done, in words. A connection that is lost, or
    /// Ctrl-C, leaves it running.
    fn job(&mut self, words: &[&str]) -> Result<String> {
        let kind = words[0];
        self.ask(&[&["SILICA.JOB"], words].concat())?;
        let mut shown = String::new();
        loop {
            let state = self.text(&["SILICA.JOB", "STATE", kind])?;
            let (word, rest) = state.split_once(' ').unwrap_or((&state, ""));
            match word {
                "running" => {
                    if has_terminal() && rest != shown {
                        shown = rest.to_string();
                        eprint!("\r\x1b[K{kind}: {shown}");
                    }
                    std::thread::sleep(LOOK);
                    continue;
                }
                _ if has_terminal() && !shown.is_empty() => eprint!("\r\x1b[K"),
                _ => {}
            }
            return match word {
                "done" => Ok(rest.to_string()),
                _ => Err(Error::new(ErrorKind::Io, format!("{kind} on the server {state}"))),
            };
        }
    }
}

/// Does through a server what `verb` says; false where it is not to be asked of one.
pub(crate) fn run(global: &Global, verb: &Verb, output: &mut Output) -> Result<bool> {
    let Some(mut server) = verb.remote().map_or(Ok(None), |args| args.connect(global))? else {
        return Ok(false);
    };
    let database = database_of(&global.keyspace)?;
    server.ask(&["SELECT", &database])?;
    match verb {
        Verb::Count { exact, .. } => {
            let words: &[&str] =
                if *exact { &["SILICA.COUNT", "EXACT"] } else { &["SILICA.COUNT"] };
            let [low, estimate, high] = server.counts(words)?;
            crate::verbs::show_count(silica::Count { low, estimate, high }, output)?;
        }
        Verb::Stats { .. } => stats(&mut server, global, output)?,
        Verb::Inspect { svg, .. } => inspect(&mut server, svg.as_deref(), output)?,
        Verb::Verify { .. } => job(&mut server, &["verify"], output)?,
        Verb::Compact { .. } => job(&mut server, &["compact"], output)?,
        Verb::Backup { target, from, update, .. } => {
            let (target, from) = (absolute(target)?, from.as_deref().map(absolute).transpose()?);
            let mut words = vec!["backup", &target];
            from.iter().for_each(|from| words.extend(["FROM", from]));
            words.extend(update.then_some("UPDATE"));
            job(&mut server, &words, output)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// The server's working directory may be another one.
fn absolute(path: &Path) -> Result<String> {
    let failed = |e| Error::io(format!("reading the working directory for {}", path.display()), e);
    let absolute = std::path::absolute(path).map_err(failed)?;
    absolute.into_os_string().into_string().map_err(|path| {
        let message = format!("{} is no UTF-8; give another path", path.display());
        Error::new(ErrorKind::Config, message)
    })
}

fn job(server: &mut Remote, words: &[&str], output: &mut Output) -> Result<()> {
    let done = server.job(words)?;
    output.line(&done)?;
    output.object().insert("ok".into(), true.into());
    output.object().insert("done".into(), done.into());
    Ok(())
}

fn stats(server: &mut Remote, global: &Global, output: &mut Output) -> Result<()> {
    let text = server.text(&["SILICA.STATS"])?;
    let number =
        |(name, value): (&str, &str)| Some((name.to_string(), value.parse::<f64>().ok()?.into()));
    let values = text.lines().filter_map(|line| line.split_once(' '));
    let values = object_of(values.filter_map(number));
    let engine = text.lines().find_map(|line| line.strip_prefix("engine ")).unwrap_or_default();
    output.line(format!("keyspace '{}', engine {engine}", global.keyspace))?;
    for metric in silica::metrics() {
        if let Some(value) = values.get(metric.name).and_then(Value::as_f64) {
            let value = crate::verbs::number(value);
            output.line(format!("{:<36} {value:>16}  {}", metric.name, metric.doc))?;
        }
    }
    let object = output.object();
    object.insert("keyspace".into(), global.keyspace.as_str().into());
    object.insert("engine".into(), engine.into());
    object.insert("metrics".into(), values.into());
    Ok(())
}

fn inspect(server: &mut Remote, svg: Option<&Path>, output: &mut Output) -> Result<()> {
    if svg.is_some() {
        let message = "--svg needs the store itself; leave it out, or stop the server";
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    let text = server.text(&["SILICA.INSPECT"])?;
    output.raw(text.as_bytes())?;
    let mut databases = Map::new();
    let (mut name, mut fields) = (String::new(), Map::new());
    for line in text.lines().chain([""]) {
        match line.trim_start().split_once(": ") {
            Some((field, value)) if line.starts_with(' ') => {
                fields.insert(field.into(), value.into());
            }
            _ if line.starts_with(' ') => {}
            _ => {
                let done = std::mem::take(&mut fields);
                let last = std::mem::replace(&mut name, line.replace("database ", ""));
                if !last.is_empty() {
                    databases.insert(last, done.into());
                }
            }
        }
    }
    output.object().insert("databases".into(), databases.into());
    Ok(())
}
