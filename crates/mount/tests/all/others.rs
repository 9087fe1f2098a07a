//! Programs of others on a mount. Where one is not installed its test skips, in words.

use super::Mount;
use silica_base::test_size;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a program; `None`, and words, if it is not installed. Returns what it printed.
pub(super) fn run(name: &str, arguments: &[&str], directory: &Path) -> Option<String> {
    run_with(name, arguments, directory, "")
}

/// Runs a program that reads `input`; `None`, and words, if it is not installed.
pub(super) fn run_with(
    name: &str,
    arguments: &[&str],
    directory: &Path,
    input: &str,
) -> Option<String> {
    let mut command = Command::new(name);
    command.args(arguments).current_dir(directory).stdin(Stdio::piped());
    let started = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = match started {
        Ok(child) => child,
        Err(error) => {
            eprintln!("skipped: {name} cannot be started: {error}");
            return None;
        }
    };
    // Inputs are short, and who ends without reading them has its reasons in its exit code.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name} {arguments:?}: {said}{errors}");
    Some(said)
}

#[test]
fn fio_verifies_what_it_wrote() {
    let Some(mount) = Mount::new(256) else { return };
    let size = format!("--size={}m", test_size(8, 16, 40));
    let arguments = [
        "--name=verify",
        "--rw=randrw",
        "--bsrange=1k-128k",
        "--numjobs=2",
        "--verify=crc32c",
        "--verify_fatal=1",
        "--do_verify=1",
        "--fsync=32",
        "--fallocate=none",
        &size,
    ];
    let _ = run("fio", &arguments, &mount.path());
    mount.end();
}

#[test]
fn git_finds_a_clone_of_this_repository_whole() {
    let Some(mount) = Mount::new(512) else { return };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let source = source.to_str().unwrap();
    let at = mount.path();
    // A shallow clone goes by the protocol, so all objects are written anew.
    let from = format!("file://{source}");
    let clone = ["clone", "--quiet", "--depth", "1", &from, "clone"];
    let safe = ["-c", "safe.directory=*"];
    let cloned = run("git", &[&safe[..], &clone[..]].concat(), &at);
    if cloned.is_some() {
        let clone = at.join("clone");
        run("git", &["fsck", "--full", "--strict"], &clone);
        assert_eq!(run("git", &["status", "--porcelain"], &clone).as_deref(), Some(""));
    }
    mount.end();
}

#[test]
fn a_tree_of_sources_comes_out_of_tar_as_it_went_in() {
    let Some(mount) = Mount::new(128) else { return };
    let (at, source) = (mount.path(), Path::new(env!("CARGO_MANIFEST_DIR")));
    let packed = run("tar", &["cf", at.join("tar").to_str().unwrap(), "."], source);
    if packed.is_some() {
        std::fs::create_dir(at.join("out")).unwrap();
        run("tar", &["xf", "../tar"], &at.join("out"));
        run("diff", &["-r", source.to_str().unwrap(), "out"], &at);
    }
    mount.end();
}
