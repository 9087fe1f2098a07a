//! The rules of this repository that no other tool checks.

mod comments;
mod cycles;
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
    problems.extend(comments::check(&sources));
    problems.extend(cycles::check(&sources));
    problems.extend(sizes::check(&sources));
    problems.extend(words::check(&sources));
    problems.extend(pages::check(&sources));
    if problems.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    Err(format!("{}\n{} rules broken", lines.join("\n"), lines.len()))
}

/// Where files of others stand as they are.
const FOREIGN: &str = "crates/sqlite-source/sqlite3";

/// Files that are committed or would be, and ours.
fn sources(root: &Path) -> Result<Vec<Source>, String> {
    // The owner of a checkout may be another than the user who checks it.
    let args = ["-c", "safe.directory=*", "ls-files", "-z"];
    let which = ["--cached", "--others", "--exclude-standard"];
    let listed = output(Command::new("git").args(args).args(which).current_dir(root));
    let paths = match listed {
        Ok(listed) => listed.split('\0').map(str::to_string).collect(),
        Err(_) => walk(root)?,
    };
    let paths: Vec<String> = paths;
    let mut sources = Vec::new();
    for path in paths.into_iter().filter(|path| !path.starts_with(FOREIGN)) {
        // A file that git lists and the disk lacks is being removed. A binary one has no text,
        // but links may name it.
        let Ok(bytes) = fs::read(root.join(&path)) else { continue };
        sources.push(Source { path, text: String::from_utf8(bytes).unwrap_or_default() });
    }
    Ok(sources)
}

/// All files of a copy that git does not know.
fn walk(root: &Path) -> Result<Vec<String>, String> {
    let mut paths = Vec::new();
    let mut left = vec![String::new()];
    while let Some(dir) = left.pop() {
        let entries = fs::read_dir(root.join(&dir)).map_err(|e| format!("{dir}: {e}"))?;
        for entry in entries {
            let entry = entry.map_err(|e| format!("{dir}: {e}"))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if dir.is_empty() { name } else { format!("{dir}/{name}") };
            if [".git", "target", "silica-data"].contains(&path.as_str()) {
                continue;
            }
            let is_dir = entry.file_type().is_ok_and(|t| t.is_dir());
            if is_dir { left.push(path) } else { paths.push(path) }
        }
    }
    paths.sort();
    Ok(paths)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_without_git_has_the_same_files() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let walked = walk(root).unwrap();
        assert!(walked.contains(&"xtask/src/tidy/mod.rs".to_string()));
        assert!(sources(root).unwrap().iter().all(|s| walked.contains(&s.path)));
    }
}
