//! Standard output: lines for people, or exactly one JSON object.

use serde_json::{Map, Value};
use silica::{Error, ErrorKind, Result};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// Where results go.
#[derive(Default)]
pub struct Output {
    json: bool,
    /// Writes answer, as a prompt's do.
    answers: bool,
    object: Map<String, Value>,
    missing: bool,
    /// The last byte written is no line's end.
    is_within_line: bool,
    exit_code: u8,
}

impl Output {
    /// Standard output of a command.
    pub fn new(json: bool) -> Self {
        Output { json, ..Output::default() }
    }

    /// That of a line of the prompt.
    pub fn of_prompt(json: bool) -> Self {
        Output { json, answers: true, ..Output::default() }
    }

    /// True where what is written next does not begin a line.
    pub fn is_within_line(&self) -> bool {
        self.is_within_line
    }

    /// What a write says that went well: at the prompt only, as a command's exit code tells it.
    pub fn answer(&mut self, text: impl AsRef<str>) -> Result<()> {
        if self.answers { self.line(text) } else { Ok(()) }
    }

    /// What was found for each of several keys; of one key it is the whole object.
    pub fn entries(&mut self, entries: Vec<Value>) {
        match entries.as_slice() {
            [Value::Object(only)] => self.object = only.clone(),
            _ => drop(self.object.insert("entries".into(), entries.into())),
        }
    }

    /// True where a JSON object is wanted.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// The object that `--json` prints in the end.
    pub fn object(&mut self) -> &mut Map<String, Value> {
        &mut self.object
    }

    /// A line for people; nothing with `--json`.
    pub fn line(&mut self, text: impl AsRef<str>) -> Result<()> {
        if self.json { Ok(()) } else { self.raw(&[text.as_ref().as_bytes(), b"\n"].concat()) }
    }

    /// Bytes as they are; nothing with `--json`.
    pub fn raw(&mut self, bytes: &[u8]) -> Result<()> {
        if self.json {
            return Ok(());
        }
        self.is_within_line = bytes.last().map_or(self.is_within_line, |last| *last != b'\n');
        write_out(bytes)
    }

    /// True if something asked for was not there.
    pub fn is_missing(&self) -> bool {
        self.missing
    }

    /// Remembers that something asked for was not there: exit code 1, but no error.
    pub fn missing(&mut self) {
        self.missing = true;
    }

    /// Sets the exit code of a command that did what it could.
    pub fn set_exit_code(&mut self, code: u8) {
        self.exit_code = code;
    }

    /// Prints the object, where one is wanted.
    pub fn finish(&mut self) -> Result<()> {
        if self.json {
            let text = Value::Object(std::mem::take(&mut self.object)).to_string();
            write_out(format!("{text}\n").as_bytes())?;
        }
        Ok(())
    }

    /// Reports a failure; with `--json` it is the one object.
    pub fn error(&mut self, error: &Error) {
        eprintln!("silica: {error}");
        if self.json {
            self.object.clear();
            self.object.insert("error".into(), error.to_string().into());
            self.object.insert("kind".into(), format!("{:?}", error.kind()).into());
            let _ = self.finish();
        }
    }

    /// Exit code of a command that did what it could.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.exit_code.max(u8::from(self.missing)))
    }
}

/// The reader of standard output is gone, which is no failure of ours.
pub fn pipe_closed() -> Error {
    Error::new(ErrorKind::Closed, PIPE)
}

const PIPE: &str = "standard output is closed";

/// True where nobody reads the output any more, as behind `| head`: that is no failure.
pub fn is_unread(error: &Error) -> bool {
    error.kind() == ErrorKind::Closed && error.to_string().contains(PIPE)
}

fn write_out(bytes: &[u8]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|e| match e.kind() {
        std::io::ErrorKind::BrokenPipe => Error::new(ErrorKind::Closed, PIPE),
        _ => Error::io("writing to standard output", e),
    })
}

/// True where progress can be drawn over itself.
pub fn has_terminal() -> bool {
    std::io::stderr().is_terminal()
}
