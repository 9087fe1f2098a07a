//! Pages that are made from the code: docs/config.md and docs/metrics.md.

use crate::step::{cargo, target};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The page and the argument that the generator prints it for.
const PAGES: &[(&str, &str)] = &[("docs/config.md", "config"), ("docs/metrics.md", "metrics")];

/// Writes the pages, or with `check` fails where one is not what the code says.
pub fn run(root: &Path, check: bool) -> Result<(), String> {
    let generator = build(root)?;
    let mut stale = Vec::new();
    for (page, argument) in PAGES {
        let fresh = generate(&generator, argument)?;
        let path = root.join(page);
        if fs::read_to_string(&path).unwrap_or_default() == fresh {
            continue;
        }
        if check {
            stale.push(*page);
        } else {
            fs::create_dir_all(path.parent().expect("pages lie in a directory"))
                .and_then(|()| fs::write(&path, fresh))
                .map_err(|e| format!("{page}: {e}"))?;
            println!("wrote {page}");
        }
    }
    if stale.is_empty() {
        Ok(())
    } else {
        Err(format!("{}: not current; run `cargo xtask docs` and commit", stale.join(", ")))
    }
}

/// Builds the generator with the features that tests of the workspace have: CI has it already.
fn build(root: &Path) -> Result<PathBuf, String> {
    let args = ["build", "--workspace", "--example", "reference", "--quiet"];
    let output = cargo(&args).current_dir(root).output().map_err(|e| format!("cargo: {e}"))?;
    if output.status.success() {
        Ok(target(root).join("debug/examples/reference"))
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

fn generate(generator: &Path, argument: &str) -> Result<String, String> {
    let failed = |why: String| format!("{} {argument}: {why}", generator.display());
    let output = Command::new(generator).arg(argument).output();
    let output = output.map_err(|e| failed(e.to_string()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()))
    }
}
