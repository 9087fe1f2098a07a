//! Where the shell's lines go: standard output, or a file that `.output` or `.once` names.

use silica::{Error, Result};
use silica_console::Output;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What is gathered before it is written: a result of a million rows is no million writes.
const GATHERED_BYTES_MAX: usize = 64 << 10;

/// A file that takes what is shown.
pub(super) struct Target {
    file: File,
    path: PathBuf,
    /// It takes what one command or statement shows.
    pub(super) is_once: bool,
}

impl Target {
    /// Makes the file, or empties it.
    pub(super) fn create(path: &str, is_once: bool) -> Result<Self> {
        let file = File::create(path).map_err(|e| Error::io(format!("creating {path}"), e))?;
        Ok(Target { file, path: Path::new(path).to_path_buf(), is_once })
    }
}

/// Takes lines, and writes many at once. [`Sink::finish`] writes the last ones.
pub(super) struct Sink<'s> {
    target: Option<&'s mut Target>,
    output: &'s mut Output,
    gathered: Vec<u8>,
}

impl<'s> Sink<'s> {
    pub(super) fn new(target: Option<&'s mut Target>, output: &'s mut Output) -> Self {
        Sink { target, output, gathered: Vec::new() }
    }

    /// A line.
    pub(super) fn line(&mut self, text: impl AsRef<[u8]>) -> Result<()> {
        self.gathered.extend_from_slice(text.as_ref());
        self.raw(b"\n")
    }

    /// Bytes as they are.
    pub(super) fn raw(&mut self, bytes: &[u8]) -> Result<()> {
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() < GATHERED_BYTES_MAX { Ok(()) } else { self.finish() }
    }

    /// Writes what was gathered.
    pub(super) fn finish(&mut self) -> Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let written = match &mut self.target {
            Some(Target { file, path, .. }) => {
                let failed = |e| Error::io(format!("writing {}", path.display()), e);
                file.write_all(&self.gathered).map_err(failed)
            }
            None => self.output.raw(&self.gathered),
        };
        self.gathered.clear();
        written
    }
}
