//! What a newcomer meets: mistyped names, sizes, pipes that close, signals, and help.

use crate::support::{arg, said, scratch, silica, silica_ok};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn refused(args: &[&str], words: &[&str]) -> Output {
    let output = silica(args).output().unwrap();
    assert!(!output.status.success(), "{args:?}: {}", said(&output));
    let error = text(&output.stderr);
    assert!(!error.contains("panicked") && !error.contains("backtrace"), "{args:?}: {error}");
    for word in words {
        assert!(error.contains(word), "{args:?}: '{word}' is missing in: {error}");
    }
    output
}

#[test]
fn memory_out_of_range_is_refused_with_the_range() {
    let directory = scratch("sizes");
    let store = directory.join("store");
    let path = arg(&store);
    let range = ["64KiB to 16TiB"];
    for size in ["1KiB", "900TiB", "0"] {
        for args in [
            vec!["put", "a", "b", "--path", path, "--memory", size],
            vec!["put", "a", "b", "--path", path, "--engine", "mica", "--memory", size],
            vec!["put", "a", "b", "--path", path, "--keyspace-memory", &format!("default={size}")],
            vec!["load", "-", "--path", path, "--memory", size],
            vec!["serve", path, "--listen", "127.0.0.1:0", "--memory", size],
            vec!["serve", "--cache", size, "--listen", "127.0.0.1:0"],
            vec!["tune", "--describe", "keys=1k", "--memory", size],
        ] {
            refused(&args, &range);
        }
        refused(
            &["put", "a", "b", "--path", path, "--set", &format!("memory_bytes={size}")],
            &["65536 to 17592186044416"],
        );
    }
    // Memory that the engine takes at once, and the machine has not.
    let all = ["put", "a", "b", "--path", path, "--engine", "mica", "--memory", "15TiB"];
    let all = [&all[..], &["--forget-at-exit"]].concat();
    refused(&all, &["engine mica takes all of its memory", "of this machine"]);
    refused(&["put", "a", "b", "--path", path, "--background-threads", "100000"], &["0 to 1024"]);
    assert!(!store.exists(), "nothing was made");
}

#[test]
fn names_that_are_nearly_right_are_proposed() {
    let directory = scratch("meant");
    let store = directory.join("store");
    let path = arg(&store);
    for (args, meant) in [
        (vec!["put", "a", "b", "--path", path, "--set", "blok_bytes=4096"], "'block_bytes'"),
        (vec!["put", "a", "b", "--path", path, "--set", "filter_bit=9"], "'filter_bits'"),
        (vec!["keyspace", "create", "k", "--path", path, "--set", "run_max=9"], "'runs_max'"),
        (
            vec!["put", "a", "b", "--path", path, "--engine", "auto", "--set", "partition=4"],
            "'partitions'",
        ),
        (vec!["serve", path, "--database", "1=mica,evicton=lru"], "'eviction'"),
        (vec!["put", "a", "b", "--path", path, "--engine", "sitl"], "'silt'"),
        (vec!["put", "a", "b", "--path", path, "--memry", "1G"], "'--memory'"),
        (vec!["bench", "overwrit", "--path", path], "'overwrite'"),
        (vec!["tune", "--describe", "get=90"], "'gets'"),
        (vec!["tune", "--describe", "keys=1k", "--goal", "througput"], "'throughput'"),
        (vec!["tune", "--describe", "keys=1k", "--bound", "live_years=4"], "'life_years'"),
    ] {
        refused(&args, &[meant]);
    }
    for (words, why) in [
        ("key=100M", "the number of keys is keys="),
        ("gets=120 puts=30", "come to 150 %"),
        ("gets=101", "come to 101 %"),
    ] {
        refused(&["tune", "--describe", words], &[why]);
        refused(&["put", "a", "b", "--path", path, "--describe", words], &[why]);
    }
    assert!(!store.exists(), "nothing was made");
}

#[test]
fn a_command_that_fails_leaves_no_store() {
    let directory = scratch("left");
    std::fs::write(directory.join("no-tab"), "nothing of the kind\n").unwrap();
    std::fs::write(directory.join("no-table"), "nothing of the kind\n").unwrap();
    let bad = directory.join("no-tab");
    let table = directory.join("no-table");
    let empty = directory.join("empty");
    std::fs::create_dir(&empty).unwrap();
    let inner = directory.join("a/b/store");
    let store = directory.join("store");
    for path in [arg(&store), arg(&inner), arg(&empty)] {
        for args in [
            vec!["get", "x", "--path", path],
            vec!["scan", "--path", path],
            vec!["verify", "--path", path],
            vec!["keyspace", "list", "--path", path],
            vec!["put", "k\\q", "v", "--path", path],
            vec!["put", "a", "b", "--path", path, "--set", "speed=9"],
            vec!["put", "a", "b", "--path", path, "--engine", "rocks"],
            vec!["put", "a", "b", "--path", path, "--engine", "auto", "--describe", "value=900G"],
            vec!["put", "a", "b", "--path", path, "--keyspace", ""],
            vec!["put", &"k".repeat(70_000), "b", "--path", path],
            vec!["load", "/no/such/file", "--path", path],
            vec!["load", arg(&bad), "--path", path],
            vec!["ingest", "/no/such/file", "--path", path],
            vec!["ingest", arg(&table), "--path", path],
            vec!["keyspace", "create", "k", "--engine", "rocks", "--path", path],
            vec!["keyspace", "drop", "k", "--path", path],
            vec!["serve", path, "--listen", "nonsense"],
            vec!["serve", path, "--listen", "127.0.0.1:0", "--acl-file", "/no/such/file"],
            vec!["serve", path, "--listen", "127.0.0.1:0", "--tls-cert", "/no", "--tls-key", "/no"],
            vec!["restore", "/no/such/backup", "--path", path],
        ] {
            refused(&args, &[]);
            let left = |path: &Path| std::fs::read_dir(path).map_or(0, Iterator::count);
            assert_eq!(left(Path::new(path)), 0, "{args:?} leaves something");
            assert_eq!(Path::new(path).exists(), path == arg(&empty), "{args:?}");
            assert!(!directory.join("a").exists(), "{args:?} leaves a directory");
        }
    }
    // What was put before stays, and so does what a load has brought before it failed.
    silica_ok(&["put", "k", "v", "--path", arg(&store)]);
    refused(&["load", arg(&bad), "--path", arg(&store)], &["no TAB"]);
    assert_eq!(silica_ok(&["get", "k", "--path", arg(&store)]), "v\n");
    let lines = directory.join("lines");
    std::fs::write(&lines, "k\tv\nno tab\n").unwrap();
    refused(&["load", arg(&lines), "--path", arg(&inner)], &["record 2"]);
    assert_eq!(silica_ok(&["get", "k", "--path", arg(&inner)]), "v\n");
}

#[test]
fn a_reader_that_leaves_ends_a_command_quietly() {
    let directory = scratch("pipes");
    let (store, lines) = (directory.join("store"), directory.join("lines"));
    let value = "x".repeat(1000);
    let records: String = (0..2000).map(|n| format!("key{n}\t{value}\n")).collect();
    std::fs::write(&lines, records).unwrap();
    silica_ok(&["load", arg(&lines), "--path", arg(&store)]);
    let all: Vec<String> = (0..2000).map(|n| format!("key{n}")).collect();
    let mut get = vec!["get"];
    get.extend(all.iter().map(String::as_str));
    let long: &[&[&str]] =
        &[&["scan", "--limit", "0"], &["scan", "--limit", "0", "--json"], &get, &["scan", "--hex"]];
    let short: &[&[&str]] = &[
        &["get", "key1"],
        &["get", "key1", "--raw"],
        &["get", "missing"],
        &["put", "a", "b", "--json"],
        &["del", "a", "--json"],
        &["ttl", "key1"],
        &["count"],
        &["stats"],
        &["verify"],
        &["inspect"],
        &["keyspace", "list"],
        &["why"],
        &["tune"],
        &["tune", "--describe", "keys=1k"],
        &["bench", "list"],
        &["help"],
        &["help", "put"],
        &["--version"],
    ];
    for args in long.iter().chain(short) {
        for closes_errors in [false, true] {
            let mut command = silica(args);
            if args[0] != "help" {
                command.args(["--path", arg(&store)]);
            }
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let mut stdout = child.stdout.take().unwrap();
            if long.contains(args) {
                let mut first = [0];
                stdout.read_exact(&mut first).unwrap();
            }
            drop(stdout);
            let errors = child.stderr.take().filter(|_| !closes_errors);
            let mut said = String::new();
            if let Some(mut errors) = errors {
                errors.read_to_string(&mut said).unwrap();
            }
            let code = child.wait().unwrap().code();
            let expected = if args.contains(&"missing") { Some(1) } else { Some(0) };
            assert_eq!(code, expected, "{args:?}: {said}");
            let quiet = said.is_empty() || args.contains(&"missing");
            assert!(quiet, "{args:?}: {said}");
        }
    }
}

#[test]
fn a_prompt_and_a_server_nobody_reads_go_on() {
    let directory = scratch("unread");
    let store = directory.join("store");
    let mut child = silica(&["--path", arg(&store)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    drop(child.stderr.take());
    // The command has no reader for its answer and may end, but not in a panic.
    let _ = child.stdin.take().unwrap().write_all(b"put a b\nhelp\nget none\nGET a\n");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn two_signals_at_once_stop_a_server_gracefully() {
    let directory = scratch("signals");
    for second in ["-INT", "-TERM"] {
        let store = directory.join(second);
        let mut child = silica(&["serve", arg(&store), "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("serving"), "{line}");
        let pid = child.id().to_string();
        // The shell's own kill, so that nothing lies between both.
        let both = format!("kill -TERM {pid}; kill {second} {pid}; kill -INT {pid}");
        assert!(Command::new("sh").args(["-c", &both]).stderr(Stdio::null()).status().is_ok());
        assert_eq!(child.wait().unwrap().code(), Some(0), "{second}");
    }
}

#[test]
fn options_of_every_command_stand_at_the_end_of_help() {
    for args in
        [&["help", "put"][..], &["help", "serve"], &["help", "keyspace", "create"], &["--help"]]
    {
        let help = silica_ok(args);
        let (own, global) =
            help.split_once("Options of every command:").unwrap_or_else(|| panic!("{help}"));
        for flag in ["--path", "--memory", "--engine", "--set", "--json", "--background-rate"] {
            let line = format!("{flag} ");
            assert!(global.contains(flag), "{args:?}: {flag}");
            assert!(!own.lines().any(|l| l.trim_start().starts_with(&line)), "{args:?}: {flag}");
        }
        assert!(!global.contains("--ttl") && !global.contains("--listen"), "{args:?}");
    }
}
