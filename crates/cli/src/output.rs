//! Standard output: lines for people, or exactly one JSON object.

use serde_json::{Map, Value};
use silica::{Error, ErrorKind, Result};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// Where results go.
pub(crate) struct Output {
    json: bool,
    object: Map<String, Value>,
    missing: bool,
}

impl Output {
    pub(crate) fn new(json: bool) -> Self {
        Output { json, object: Map::new(), missing: false }
    }

    /// True where a JSON object is wanted.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// The object that `--json` prints in the end.
    pub(crate) fn object(&mut self) -> &mut Map<String, Value> {
        &mut self.object
    }

    /// A line for people; nothing with `--json`.
    pub(crate) fn line(&mut self, text: impl AsRef<str>) -> Result<()> {
        if self.json { Ok(()) } else { self.raw(&[text.as_ref().as_bytes(), b"\n"].concat()) }
    }

    /// Bytes as they are; nothing with `--json`.
    pub(crate) fn raw(&mut self, bytes: &[u8]) -> Result<()> {
        if self.json {
            return Ok(());
        }
        write_out(bytes)
    }

    /// Remembers that something asked for was not there: exit code 1, but no error.
    pub(crate) fn missing(&mut self) {
        self.missing = true;
    }

    /// Prints the object, where one is wanted.
    pub(crate) fn finish(&mut self) -> Result<()> {
        if self.json {
            let text = Value::Object(std::mem::take(&mut self.object)).to_string();
            write_out(format!("{text}\n").as_bytes())?;
        }
        Ok(())
    }

    /// Reports a failure; with `--json` it is the one object.
    pub(crate) fn error(&mut self, error: &Error) {
        if error.kind() == ErrorKind::Closed && error.to_string().contains(PIPE) {
            return;
        }
        eprintln!("silica: {error}");
        if self.json {
            self.object.clear();
            self.object.insert("error".into(), error.to_string().into());
            self.object.insert("kind".into(), format!("{:?}", error.kind()).into());
            let _ = self.finish();
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(u8::from(self.missing))
    }
}

const PIPE: &str = "standard output is closed";

fn write_out(bytes: &[u8]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(|e| match e.kind() {
        std::io::ErrorKind::BrokenPipe => Error::new(ErrorKind::Closed, PIPE),
        _ => Error::io("writing to standard output", e),
    })
}

/// True where progress can be drawn over itself.
pub(crate) fn has_terminal() -> bool {
    std::io::stderr().is_terminal()
}
