//! Instructions of the calls in `crates/cli/examples/calls.rs`, counted by callgrind.

use crate::step::{cargo, target};
use std::path::{Path, PathBuf};
use std::process::Command;

const EXAMPLE: &str = "crates/cli/examples/calls.rs";
/// Calls of the shorter of two runs; the other makes twice as many.
const CALLS: u64 = 300;
/// A call may take this much more than it did, in percent.
const GROWTH_PERCENT_MAX: f64 = 1.0;

/// Prints the instructions of each call, and with `against` beside those of that revision; fails
/// if one grew by over 1 %.
pub fn run(root: &Path, against: Option<&str>) -> Result<(), String> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Err("valgrind is missing: install the package valgrind".to_string());
    }
    let before = against.map(|revision| build_revision(root, revision)).transpose()?;
    let now = build(root, &target(root))?;
    let names = output(Command::new(&now).arg("list"))?.0;
    println!("{:24} {:>12} {:>12} {:>8}", "instructions of a call", "before", "now", "");
    let mut grown = Vec::new();
    for name in names.lines() {
        let after = instructions(&now, name)?;
        let Some(before) = &before else {
            println!("{name:24} {:>12} {after:>12.0}", "");
            continue;
        };
        let before = instructions(before, name)?;
        let percent = 100.0 * (after / before - 1.0);
        println!("{name:24} {before:>12.0} {after:>12.0} {percent:>+6.1} %");
        if percent > GROWTH_PERCENT_MAX {
            grown.push(name.to_string());
        }
    }
    match grown.is_empty() {
        true => Ok(()),
        false => Err(format!("more than {GROWTH_PERCENT_MAX} % longer: {}", grown.join(", "))),
    }
}

/// Instructions of one call: the difference of two runs, so that what comes before and behind the
/// calls does not count.
fn instructions(binary: &Path, name: &str) -> Result<f64, String> {
    let collected = |calls: u64| {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
        valgrind.arg(binary).args([name, &calls.to_string()]);
        let (_, errors) = output(&mut valgrind)?;
        let line = errors.lines().find_map(|line| line.split_once("Collected : "));
        let count = line.and_then(|(_, count)| count.trim().parse::<u64>().ok());
        count.ok_or_else(|| format!("callgrind did not say what it counted of {name}: {errors}"))
    };
    let (short, long) = (collected(CALLS)?, collected(2 * CALLS)?);
    Ok(long.saturating_sub(short) as f64 / CALLS as f64)
}

fn build(root: &Path, target: &Path) -> Result<PathBuf, String> {
    let args = ["build", "--release", "--package", "silica-cli", "--example", "calls", "--quiet"];
    output(cargo(&args).current_dir(root).env("CARGO_TARGET_DIR", target))?;
    Ok(target.join("release/examples/calls"))
}

/// Builds the calls as they are now over the libraries as they were in `revision`.
fn build_revision(root: &Path, revision: &str) -> Result<PathBuf, String> {
    let scratch = target(root).join("xtask");
    let tree = scratch.join("calls-against");
    let git = |args: &[&str]| output(Command::new("git").arg("-C").arg(root).args(args));
    let path = tree.to_str().ok_or("the target directory is not UTF-8")?;
    // What an interrupted run left.
    let _ = git(&["worktree", "remove", "--force", path]);
    git(&["worktree", "add", "--detach", path, revision])?;
    let example = tree.join(EXAMPLE);
    let copied = std::fs::create_dir_all(example.parent().expect("the example has a directory"))
        .and_then(|()| std::fs::copy(root.join(EXAMPLE), &example));
    let built = copied
        .map_err(|e| format!("{EXAMPLE}: {e}"))
        .and_then(|_| build(&tree, &scratch.join("calls-against-target")));
    git(&["worktree", "remove", "--force", path])?;
    built
}

/// Standard output and standard error of a command that must succeed.
fn output(command: &mut Command) -> Result<(String, String), String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.success() {
        true => Ok((text(&output.stdout), text(&output.stderr))),
        false => Err(format!("{command:?}: {}", text(&output.stderr))),
    }
}
