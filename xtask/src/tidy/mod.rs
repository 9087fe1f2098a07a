//! The rules of this repository that no other tool checks.

mod edges;
mod pages;
mod sizes;
mod words;

use std::fmt;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A committed text file.
#[derive(Debug, Clone)]
pub struct Source {
    /// Path from the workspace's root.
    pub path: String,
    /// What it holds.
    pub text: String,
}

impl Source {
    fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    fn is_page(&self) -> bool {
        self.path.ends_with(".md")
    }

    /// Lines with their numbers, counted from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(i, line)| (i + 1, line))
    }

    /// A broken rule in line `line`.
    fn problem(&self, line: usize, what: impl Into<String>) -> Problem {
        Problem { path: self.path.clone(), line, what: what.into() }
    }
}

/// A broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    path: String,
    line: usize,
    what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Checks every rule; the error lists all that are broken.
pub fn run(root: &Path) -> Result<(), String> {
    let sources = sources(root)?;
    let mut problems = Vec::new();
    problems.extend(edges::check(&metadata(root)?));
    problems.extend(edges::check_attributes(&sources));
    problems.extend(sizes::check(&sources));
    problems.extend(words::check(&sources));
    problems.extend(pages::check(&sources));
    if problems.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    Err(format!("{}\n{} rules broken", lines.join("\n"), lines.len()))
}

/// Files that are committed or would be: git knows what is ignored.
fn sources(root: &Path) -> Result<Vec<Source>, String> {
    let args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = output(Command::new("git").args(args).current_dir(root))?;
    let mut sources = Vec::new();
    for path in output.split('\0').filter(|p| !p.is_empty()) {
        // A file that git lists and the disk lacks is being removed. A binary one has no text,
        // but links may name it.
        let Ok(bytes) = fs::read(root.join(path)) else { continue };
        let text = String::from_utf8(bytes).unwrap_or_default();
        sources.push(Source { path: path.to_string(), text });
    }
    Ok(sources)
}

fn metadata(root: &Path) -> Result<serde_json::Value, String> {
    let args = ["metadata", "--format-version", "1", "--no-deps", "--offline"];
    let text = output(Command::new("cargo").args(args).current_dir(root))?;
    serde_json::from_str(&text).map_err(|e| format!("cargo metadata: {e}"))
}

fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| format!("{name}: {e}"))?;
    if !output.status.success() {
        return Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
fn sample(path: &str, text: &str) -> Source {
    Source { path: path.to_string(), text: text.to_string() }
}
