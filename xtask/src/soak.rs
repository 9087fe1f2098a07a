//! The long run: the same tests at the sizes of the long run, licences and advisories.

use crate::serving::{Run, binary};
use crate::step::{Steps, cargo};
use crate::{ci, dax, setup, step, zoned};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);

/// How long a server is under load.
const SERVER_SECONDS: u64 = 600;

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
    let out = steps.target().join("xtask");
    for durable in [false, true] {
        server_for(&mut steps, SERVER_SECONDS, durable, &out);
    }
    install_pjdfstest(&mut steps);
    match minutes {
        Some(minutes) => tests_within(&mut steps, root, Duration::from_secs(60 * minutes)),
        None => ci::tests(&mut steps, "soak", 48 * HOUR),
    }
    dax::step(&mut steps);
    zoned::step(&mut steps);
    interpreted(&mut steps);
    sanitized(&mut steps);
    steps.close()
}

/// The suite of POSIX calls for the tests of mounts, which skip what is not installed.
fn install_pjdfstest(steps: &mut Steps) {
    if setup::is_there("pjdfstest") {
        return;
    }
    let name = "install pjdfstest";
    // It is linked with the library of access control lists.
    setup::install(&["libacl1-dev"]);
    let mut install = cargo(&["install", "pjdfstest@0.2.2", "--locked"]);
    steps.command_unless(name, &mut install, "failed to download");
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

/// SQLite and our functions in front of its b-tree, as the C compiler instruments them: SQL's tests
/// on AddressSanitizer, with its search for leaks, and UndefinedBehaviorSanitizer.
fn sanitized(steps: &mut Steps) {
    let mut test = cargo(&["test", "-p", "silica-sql", "--test", "all"]);
    test.env("SILICA_SQLITE_SANITIZE", "address,undefined");
    // Their libraries come behind those of Rust.
    test.env("ASAN_OPTIONS", "verify_asan_link_order=0");
    test.env("CARGO_TARGET_DIR", steps.target().join("sanitize"));
    steps.command("SQL under AddressSanitizer and UBSan", &mut test, HOUR);
}

/// A server under mixed load, in the release build.
fn server_for(steps: &mut Steps, seconds: u64, durable: bool, out: &Path) {
    let build = ["build", "--release", "-p", "silica-cli"];
    if steps.command("build of the server", &mut cargo(&build), HOUR) {
        let binary = binary(steps.target(), "release");
        let run = Run { binary, durable, seconds, out: out.to_path_buf() };
        let kind = if durable { "store" } else { "cache" };
        steps.inside(&format!("a {kind} under mixed load for {seconds} s"), || run.run());
    }
}

/// The mixed load alone, with the words of the command line.
pub fn server(root: &Path, seconds: &str, rest: &[&str]) -> Result<(), String> {
    let seconds = seconds.parse().map_err(|_| format!("{seconds} is no number of seconds"))?;
    let after = |word: &str| {
        let at = rest.iter().position(|other| *other == word)?;
        rest.get(at + 1).map(PathBuf::from)
    };
    let target = step::target(root);
    let given = after("--binary");
    if given.is_none() {
        let mut build = cargo(&["build", "--release", "-p", "silica-cli"]);
        let built = build.current_dir(root).status().map_err(|e| e.to_string())?;
        if !built.success() {
            return Err("the server does not build".into());
        }
    }
    let binary = given.unwrap_or_else(|| binary(&target, "release"));
    let out = after("--out").unwrap_or_else(|| target.join("xtask"));
    Run { binary, durable: rest.contains(&"--durable"), seconds, out }.run()
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
