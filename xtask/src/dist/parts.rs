//! Files that are made, copied, and packed.

use super::run;
use std::path::{Path, PathBuf};
use std::process::Command;

pub fn failed(path: &Path, e: std::io::Error) -> String {
    format!("{}: {e}", path.display())
}

/// An empty directory, whatever was there.
pub fn emptied(directory: &Path) -> Result<(), String> {
    if directory.exists() {
        std::fs::remove_dir_all(directory).map_err(|e| failed(directory, e))?;
    }
    std::fs::create_dir_all(directory).map_err(|e| failed(directory, e))
}

/// What is in a directory, sorted.
pub fn entries(directory: &Path) -> Result<Vec<PathBuf>, String> {
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let all = std::fs::read_dir(directory).map_err(|e| failed(directory, e))?;
    let mut all: Vec<PathBuf> = all.filter_map(|entry| Some(entry.ok()?.path())).collect();
    all.sort();
    Ok(all)
}

fn in_directory(path: &Path) -> Result<(), String> {
    let parent = path.parent().unwrap_or(Path::new("/"));
    std::fs::create_dir_all(parent).map_err(|e| failed(parent, e))
}

/// Copies a file, its permissions too, into a directory that is made where it is missing.
pub fn copied(from: &Path, to: &Path) -> Result<(), String> {
    in_directory(to)?;
    std::fs::copy(from, to).map(drop).map_err(|e| failed(from, e))
}

/// Writes a file into a directory that is made where it is missing.
pub fn written(path: &Path, bytes: &[u8]) -> Result<(), String> {
    in_directory(path)?;
    std::fs::write(path, bytes).map_err(|e| failed(path, e))
}

/// Compresses a file, without its time and name, and takes it away.
pub fn zipped(path: &Path) -> Result<(), String> {
    run(Command::new("gzip").args(["-9", "--no-name", "--force"]).arg(path)).map(drop)
}
