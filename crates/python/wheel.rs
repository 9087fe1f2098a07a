// Builds the wheel; `cargo xtask wheel` and the tests of this crate include this file.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The release of maturin that builds the wheel.
const MATURIN: &str = "maturin==1.16.0";

/// What a wheel is made of.
struct Parts<'a> {
    /// The directory of this crate.
    own: &'a Path,
    /// `maturin`.
    maturin: &'a Path,
    /// The command line that the wheel brings along.
    program: &'a Path,
    /// SQLite's library on Silica's storage, for `silica.sqlite`.
    sqlite: &'a Path,
    /// Cargo's profile.
    profile: &'a str,
    /// Where builds go.
    target: &'a Path,
    /// The directory for the wheel and what it is staged from.
    out: &'a Path,
}

fn failed(path: &Path, e: std::io::Error) -> String {
    format!("{}: {e}", path.display())
}

/// Puts a program into a new directory, so that what is there of another build does not matter.
fn emptied(directory: &Path) -> Result<(), String> {
    if directory.exists() {
        std::fs::remove_dir_all(directory).map_err(|e| failed(directory, e))?;
    }
    std::fs::create_dir_all(directory).map_err(|e| failed(directory, e))
}

fn copied(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::copy(from, to).map(drop).map_err(|e| failed(from, e))
}

/// Copies a program, without its symbols if the machine can take them out.
fn stripped(program: &Path, to: &Path) -> Result<(), String> {
    let mut strip = Command::new("strip");
    let done = run(strip.arg("-o").arg(to).arg(program));
    done.map(drop).or_else(|_| copied(program, to))
}

/// Builds the wheel and returns its path.
fn wheel(parts: &Parts<'_>) -> Result<PathBuf, String> {
    let stage = parts.out.join("stage");
    let (package, scripts) = (stage.join("python/silica"), stage.join("data/scripts"));
    emptied(&stage)?;
    emptied(&package)?;
    emptied(&scripts)?;
    let sources = parts.own.join("python/silica");
    for entry in std::fs::read_dir(&sources).map_err(|e| failed(&sources, e))? {
        let path = entry.map_err(|e| failed(&sources, e))?.path();
        if path.is_file() {
            copied(&path, &package.join(path.file_name().expect("a file has a name")))?;
        }
    }
    stripped(parts.program, &scripts.join("silica"))?;
    stripped(parts.sqlite, &package.join("libsqlite3.so.0"))?;
    let project = parts.own.join("pyproject.toml");
    let text = std::fs::read_to_string(&project).map_err(|e| failed(&project, e))?;
    let manifest = parts.own.join("Cargo.toml");
    let here = format!("manifest-path = \"{}\"\ndata = \"data\"", manifest.display());
    let text = text.replace("manifest-path = \"Cargo.toml\"", &here);
    let project = stage.join("pyproject.toml");
    std::fs::write(&project, text).map_err(|e| failed(&project, e))?;
    let wheels = parts.out.join("wheels");
    emptied(&wheels)?;
    let mut maturin = Command::new(parts.maturin);
    maturin.args(["build", "--quiet", "--profile", parts.profile, "--out"]).arg(&wheels);
    // In a profile for tests it would make cargo compile everything anew.
    maturin.args((parts.profile == "release").then_some("--strip"));
    maturin.current_dir(&stage).env("CARGO_TARGET_DIR", parts.target);
    let output = maturin.output().map_err(|e| failed(parts.maturin, e))?;
    if !output.status.success() {
        return Err(format!("maturin: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let made = std::fs::read_dir(&wheels).map_err(|e| failed(&wheels, e))?;
    let mut made = made.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    made.next().ok_or_else(|| "maturin made no wheel".to_string())
}

/// A virtual environment in `directory` with maturin in it; an error says why there is none.
fn environment(directory: &Path) -> Result<PathBuf, String> {
    let python = directory.join("bin/python");
    if !python.exists() {
        run(Command::new("python3").args(["-m", "venv"]).arg(directory))?;
    }
    let has = run(Command::new(&python).args(["-c", "import maturin"]));
    if has.is_err() {
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", MATURIN]))?;
    }
    Ok(python)
}

fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if output.status.success() { Ok(said) } else { Err(format!("{command:?}: {said}")) }
}
