//! What every verb of the laboratory does as `silica` does it: names in usage lines, errors as
//! JSON, an output that nobody reads.

use serde_json::Value;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

const UNIQUE: [&str; 7] = ["model", "unique", "--keys", "1000", "--requests", "10", "--zipf=0.9"];

fn lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_silica-lab"));
    command.args(arguments).env_remove("RUST_LOG");
    command
}

#[test]
fn usage_names_the_program_that_was_called() {
    let usage = |name: &str| {
        let output = lab(&["model", "unique", "--help"]).arg0(name).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(
        usage("/usr/bin/silica").contains("Usage: silica model unique "),
        "{}",
        usage("silica")
    );
    assert!(usage("silica-lab").contains("Usage: silica-lab model unique "));
}

#[test]
fn a_failure_is_one_object_and_has_its_exit_code() {
    let refused = ["--json", "simulate", "cola", "--keys", "0", "--wal", "1", "--growth", "2"];
    let output = lab(&[&refused[..], &["--levels", "1"]].concat()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(object["error"].as_str().unwrap().contains("--keys"), "{object}");
    assert_eq!(object["kind"], "Config");
}

#[test]
fn options_of_every_command_are_taken_before_and_behind_the_verb() {
    let plain = lab(&UNIQUE).output().unwrap().stdout;
    assert!(plain.starts_with(b"unique "), "{}", String::from_utf8_lossy(&plain));
    let json = lab(&UNIQUE).arg("--json").output().unwrap().stdout;
    assert!(json.starts_with(b"{\"unique\":"), "{}", String::from_utf8_lossy(&json));
    let before = lab(&["--memory", "64MiB", "--json"]).args(UNIQUE).output().unwrap().stdout;
    assert_eq!(before, json);
}

#[test]
fn a_reader_that_leaves_ends_a_command_quietly() {
    for closes_errors in [false, true] {
        let mut command = lab(&UNIQUE);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        if closes_errors {
            drop(child.stderr.take());
        }
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}
