//! Devices that are full, and that fail, below programs on the shared library, and connections that
//! are in each other's way.

use crate::{library, python};
use std::path::{Path, PathBuf};
use std::process::Command;

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all").join(name)
}

/// Runs a command that is to say `words`.
fn passes(command: &mut Command, words: &str) {
    let output = command.output().expect("it starts");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success() && said.contains(words), "{said}");
}

#[test]
fn a_full_disk_refuses_whole_transactions_and_deletes_make_room() {
    let Some(python) = python() else {
        println!("left out: there is no Python");
        return;
    };
    let scratch = tempfile::tempdir().expect("a directory");
    let mount = "mount -t tmpfs -o size=24m none \"$1\"";
    let in_namespace = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", script, "sh"]);
        command.arg(scratch.path()).arg(python).arg(source("full_disk.py")).arg(library());
        command
    };
    if !in_namespace(mount).output().is_ok_and(|output| output.status.success()) {
        println!("left out: no file system can be mounted here");
        return;
    }
    let script = format!("{mount} && exec env LD_PRELOAD=\"$4\" \"$2\" \"$3\" \"$1\"");
    passes(&mut in_namespace(&script), "full disk: passed");
}

#[test]
fn connections_to_one_database_see_what_they_see_on_sqlites_storage() {
    let Some(python) = python() else {
        println!("left out: there is no Python");
        return;
    };
    let scratch = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(python);
    command.arg(source("connections.py")).arg(scratch.path()).env("LD_PRELOAD", library());
    passes(&mut command, "connections: passed");
}

#[test]
fn a_sync_that_fails_is_said_and_nothing_is_taken_until_the_next_opening() {
    let Some(python) = python() else {
        println!("left out: there is no Python");
        return;
    };
    let scratch = tempfile::tempdir().expect("a directory");
    let failing = scratch.path().join("failing_sync.so");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"]).arg(&failing).arg(source("failing_sync.c")).arg("-ldl");
    assert!(cc.status().expect("a C compiler").success());
    let mut command = Command::new(python);
    command.arg(source("failing_sync.py")).arg(scratch.path());
    command.env("FAILING_SYNC", scratch.path().join("switch"));
    let preload = format!("{} {}", failing.display(), library().display());
    passes(command.env("LD_PRELOAD", preload), "failing sync: passed");
}
