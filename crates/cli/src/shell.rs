//! What a shell and `man` want to know of the command line, made from the one list of options.

use crate::args::Cli;
use clap::CommandFactory;
use clap_complete::Shell;
use silica::{Error, Result};
use silica_console::Output;
use std::path::Path;

/// Prints the completions for `shell`.
pub(crate) fn completions(shell: Shell, output: &mut Output) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "silica", &mut text);
    output.object().insert("shell".into(), shell.to_string().into());
    output.object().insert("text".into(), String::from_utf8_lossy(&text).into());
    output.raw(&text)
}

/// Writes a page for every command into `directory`: `silica.1`, `silica-serve.1`, …
pub(crate) fn man(directory: &Path, output: &mut Output) -> Result<()> {
    let failed = |e| Error::io(format!("writing man pages to {}", directory.display()), e);
    std::fs::create_dir_all(directory).map_err(failed)?;
    clap_mangen::generate_to(Cli::command(), directory).map_err(failed)?;
    output.object().insert("directory".into(), directory.display().to_string().into());
    output.line(format!("a page for every command is in {}", directory.display()))
}
