//! The door to the laboratory: verbs of `silica-lab` that are asked of `silica`. A script stands
//! in for that program.

use crate::support::{arg, said, scratch};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Says what it was asked, and for which server, and ends with a code of its own.
const ECHO: &str = r#"#!/bin/sh
for word in "$@"; do printf '<%s>\n' "$word"; done
echo "server $SILICA_SERVER"
echo "a warning" >&2
exit 7
"#;

/// Waits for a signal, for 20 s. A shell cannot trap SIGINT if its parent ignores that, as jobs in
/// the background do.
const WAITING: &str = r#"#!/bin/sh
trap 'echo interrupted; exit 9' TERM
echo "process $$"
n=0
while [ $n -lt 400 ]; do sleep 0.05; n=$((n + 1)); done
"#;

/// A directory with this program, and `script` as the laboratory beside it.
fn installed(name: &str, script: Option<&str>) -> PathBuf {
    let directory = scratch(name);
    std::fs::hard_link(env!("CARGO_BIN_EXE_silica"), directory.join("silica")).expect("a link");
    if let Some(script) = script {
        write(&directory.join("silica-lab"), script);
    }
    directory
}

fn write(file: &Path, script: &str) {
    std::fs::write(file, script).expect("a file");
    std::fs::set_permissions(file, PermissionsExt::from_mode(0o755)).expect("a mode");
}

/// `silica ARGS`, as it is installed there. No laboratory is on PATH.
fn silica(directory: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(directory.join("silica"));
    command.args(args).stdin(Stdio::null()).env("PATH", "/bin:/usr/bin");
    command.env_remove("SILICA_SERVER").current_dir(directory);
    command
}

#[track_caller]
fn asked(output: &Output, code: i32) -> Vec<String> {
    assert_eq!(output.status.code(), Some(code), "{}", said(output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let words = text.split("<").skip(1).filter_map(|word| word.split_once(">\n"));
    words.map(|(word, _)| word.to_string()).collect()
}

#[test]
fn arguments_output_and_exit_code_come_through() {
    let directory = installed("door", Some(ECHO));
    let lines: &[&[&str]] = &[
        &["bench", "compare", "flash", "--toy", "--json", "--out", "a b\nc"],
        &["bench", "compare", "--json", "--toy", "all"],
        &["bench", "datagrams", "--out", "d"],
        &["bench", "models", "--help"],
        &["bench", "figures", "--keys", "10", "--path", "p"],
        &["model", "unique", "--keys", "-5", "--requests", "10"],
        &["model"],
        &["model", "help", "unique"],
        &["simulate", "-h"],
        &["--json", "--memory", "64MiB", "simulate", "cola", "--keys", "5"],
        &["flash", "simulate", "--profile", "tlc", "--describe", "keys=5 gets=100"],
        &["flash", "simulate", "--help"],
        &["help", "flash", "simulate"],
        &["help", "model", "unique"],
        &["help", "bench", "compare"],
    ];
    for line in lines {
        let output = silica(&directory, line).output().unwrap();
        assert_eq!(asked(&output, 7), *line);
        assert_eq!(output.stderr, b"a warning\n");
        let server = format!("server {}\n", directory.join("silica").display());
        assert!(output.stdout.ends_with(server.as_bytes()), "{}", said(&output));
    }
    let mut named = silica(&directory, &["bench", "compare", "server"]);
    let output = named.env("SILICA_SERVER", "another").output().unwrap();
    assert!(output.stdout.ends_with(b"server another\n"), "{}", said(&output));
    // Nothing is left of a store that the command would have opened.
    assert!(!directory.join("silica-data").exists());
}

#[test]
fn a_signal_reaches_the_laboratory() {
    let directory = installed("door-signal", Some(WAITING));
    let mut command = silica(&directory, &["bench", "compare", "flash"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The process has become the laboratory.
    assert_eq!(lines.next().unwrap().unwrap(), format!("process {}", child.id()));
    let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    assert_eq!(lines.next().unwrap().unwrap(), "interrupted");
    assert_eq!(child.wait().unwrap().code(), Some(9));
}

#[test]
fn a_laboratory_on_path_is_found() {
    let directory = installed("door-path", None);
    let tools = directory.join("tools");
    std::fs::create_dir(&tools).unwrap();
    write(&tools.join("silica-lab"), ECHO);
    let mut command = silica(&directory, &["model", "unique"]);
    let output = command.env("PATH", format!("{}:/bin", arg(&tools))).output().unwrap();
    assert_eq!(asked(&output, 7), ["model", "unique"]);
}

#[test]
fn without_a_laboratory_the_error_says_how_to_get_it() {
    let directory = installed("door-closed", None);
    for line in [&["model", "unique"][..], &["bench", "compare", "all"], &["simulate", "--help"]] {
        let output = silica(&directory, line).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(output.stdout.is_empty(), "{}", said(&output));
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains("cargo build --release -p silica-lab"), "{error}");
        assert!(error.contains(arg(&directory)), "{error}");
    }
    let json = silica(&directory, &["--json", "model"]).output().unwrap();
    let object: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(object["kind"], "Unsupported");
    // Help of this program needs no other.
    for line in [&["help", "model"][..], &["help", "bench", "compare"], &["--help"]] {
        let output = silica(&directory, line).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
    }
}

#[test]
fn help_lists_the_verbs_of_the_laboratory() {
    let directory = installed("door-help", None);
    let help = |line: &[&str]| {
        let output = silica(&directory, line).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let has = |text: &str, verb: &str| {
        text.lines()
            .filter_map(|line| line.trim_start().split_once(' '))
            .any(|(name, line)| name == verb && line.trim().len() > 20)
    };
    let all = help(&["--help"]);
    assert!(has(&all, "model") && has(&all, "simulate") && has(&all, "bench"), "{all}");
    let bench = help(&["bench", "--help"]);
    for verb in ["compare", "datagrams", "models", "figures"] {
        assert!(has(&bench, verb), "{verb}: {bench}");
    }
}

#[test]
fn a_prompt_waits_for_the_laboratory_and_goes_on() {
    let directory = installed("door-prompt", Some(&ECHO.replace("exit 7", "exit 0")));
    let typed = |lines: &str| {
        let mut child = silica(&directory, &["--path", "store"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let output = typed("put a 1\nmodel unique --keys 5 --json\nget a\nhelp bench compare\n");
    let words = asked(&output, 0);
    let said_first = ["--keyspace", "default", "--path", "store"];
    let model = [&said_first[..], &["model", "unique", "--keys", "5", "--json"]].concat();
    let help = [&said_first[..], &["help", "bench", "compare"]].concat();
    assert_eq!(words, [model, help].concat());
    assert!(said(&output).contains("\n1\n<--keyspace>"), "{}", said(&output));
    // A failure ends a script of lines with its code, as that of a verb does.
    write(&directory.join("silica-lab"), "#!/bin/sh\nexit 4\n");
    let output = typed("model unique\nget a\n");
    assert_eq!(output.status.code(), Some(4), "{}", said(&output));
    assert!(output.stdout.is_empty(), "{}", said(&output));
}
