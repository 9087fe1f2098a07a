//! The long run: the same tests at the sizes of the long run, licences and advisories.

use crate::step::{Steps, cargo};
use crate::{ci, setup};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// Runs all long steps; true where none failed. With `minutes` the tests of each crate get an equal
/// share of so much time, and what has not ended by then is stopped.
pub fn run(root: &Path, minutes: Option<u64>) -> bool {
    let mut steps = Steps::new(root);
    steps.inside("tools", setup::run);
    match (setup::is_there("cargo-deny"), minutes) {
        (true, _) => licences(&mut steps),
        (false, None) => {
            let mut install = cargo(&["install", "cargo-deny", "--locked"]);
            steps.command("install cargo-deny", &mut install, HOUR);
            licences(&mut steps);
        }
        // Building it may take longer than all the tests may.
        (false, Some(_)) => {
            steps.skip("licences, sources, advisories", "cargo install cargo-deny --locked");
        }
    }
    match minutes {
        Some(minutes) => tests_within(&mut steps, root, Duration::from_secs(60 * minutes)),
        None => ci::tests(&mut steps, "soak", 48 * HOUR),
    }
    interpreted(&mut steps);
    steps.close()
}

/// The unsafe code of the memory engine in an interpreter that finds undefined behaviour, where the
/// nightly toolchain has it.
fn interpreted(steps: &mut Steps) {
    let name = "silica-mica under Miri";
    let there = cargo(&["+nightly", "miri", "--version"]).output();
    if there.is_ok_and(|output| output.status.success()) {
        let test = ["+nightly", "miri", "test", "-p", "silica-mica", "--lib", "words::"];
        steps.command(name, &mut cargo(&test), HOUR);
    } else {
        steps.skip(name, "rustup component add --toolchain nightly miri rust-src");
    }
}

fn licences(steps: &mut Steps) {
    let mut house = cargo(&["deny", "--workspace", "check", "licenses", "bans", "sources"]);
    steps.command("licences and sources", &mut house, HOUR);
    let mut advisories = cargo(&["deny", "--workspace", "check", "advisories"]);
    steps.command_unless("advisories", &mut advisories, "failed to fetch advisory database");
}

/// The tests of one crate after the other.
fn tests_within(steps: &mut Steps, root: &Path, all: Duration) {
    let crates = crates(root);
    let share = all / crates.len().max(1) as u32;
    for name in &crates {
        // Before the clock starts, and by crate: its dependencies have other features than the
        // workspace gives them together.
        let build = ["test", "-p", name, "--no-run"];
        if !steps.command(&format!("build of {name}"), &mut cargo(&build), HOUR) {
            continue;
        }
        let mut run = cargo(&["test", "-p", name, "--no-fail-fast"]);
        run.env("SILICA_TESTS", "soak");
        steps.tests_within(&format!("tests of {name}"), &mut run, share);
    }
}

/// Names of the crates that the products are made of.
fn crates(root: &Path) -> Vec<String> {
    let read = fs::read_dir(root.join("crates")).expect("the workspace has crates");
    let manifests = read.filter_map(|entry| Some(entry.ok()?.path().join("Cargo.toml")));
    let name_of = |manifest: PathBuf| {
        let text = fs::read_to_string(manifest).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("name = "))?;
        Some(line.trim_matches('"').to_string())
    };
    let mut names: Vec<String> = manifests.filter_map(name_of).collect();
    names.sort_unstable();
    names
}
