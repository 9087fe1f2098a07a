//! `silica build-table` of records and `silica ingest`, as somebody types them.

use crate::support::{arg, said, scratch, silica, silica_ok};
use serde_json::Value;
use std::path::Path;
use std::process::Output;

fn json(output: &str) -> Value {
    serde_json::from_str(output).expect("one JSON object")
}

/// Refused with this exit code, and an error that has all of `says` in it.
#[track_caller]
fn refused(output: &Output, code: i32, says: &[&str]) {
    let text = said(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    says.iter().for_each(|what| assert!(text.contains(what), "{what}: {text}"));
}

fn ingest(store: &Path, files: &[&Path]) -> Output {
    let mut command = silica(&["ingest", "--path", arg(store)]);
    command.args(files).output().expect("the binary starts")
}

#[test]
fn tables_of_records_in_any_order_are_ingested_over_what_is_there() {
    let dir = scratch("ingest");
    let (store, input) = (dir.join("store"), dir.join("records.tsv"));
    silica_ok(&["put", "key 00007", "old", "--path", arg(&store)]);
    silica_ok(&["put", "other", "stays", "--path", arg(&store)]);
    // In no order, and each key twice: the later line counts.
    let line = |n: u32, round: u32| format!("key {:05}\t{round} {n}\n", n * 7919 % 20_000);
    let lines: String =
        (0..40_000).map(|n| line(n % 20_000, n / 20_000)).collect::<Vec<_>>().concat();
    std::fs::write(&input, lines).expect("written");
    let table = dir.join("table");
    let build = |extra: &[&str]| {
        let fixed = ["build-table", "--format", "tsv", "--json", "--out", arg(&table)];
        json(&silica_ok(&[&fixed[..], &[arg(&input)], extra].concat()))
    };
    let made = build(&["--memory", "300KiB", "--file-bytes", "100KiB"]);
    assert_eq!((&made["records"], &made["entries"]), (&40_000.into(), &20_000.into()));
    let files: Vec<&Path> =
        made["files"].as_array().unwrap().iter().map(|f| Path::new(f.as_str().unwrap())).collect();
    assert!(files.len() > 2 && files[0] == table, "{made}");
    assert!(!dir.join("table.spill").exists());

    let done = ingest(&store, &files);
    assert!(done.status.success(), "{}", said(&done));
    let get = |key: &str| silica_ok(&["get", key, "--path", arg(&store)]);
    assert_eq!(get("key 07919"), "1 1\n");
    assert_eq!((get("other"), get("key 00007")), ("stays\n".into(), "1 3753\n".into()));
    silica_ok(&["verify", "--path", arg(&store)]);
    let count = silica_ok(&["count", "--exact", "--path", arg(&store)]);
    assert_eq!(count, "20001\n");
    // The files are as they were, and go into another store as well.
    let (other, keyspace) = (dir.join("other"), ["--keyspace", "some"]);
    let args: Vec<&str> = files.iter().map(|file| arg(file)).collect();
    let line = [&["ingest", "--json", "--path", arg(&other)], &keyspace[..], &args].concat();
    assert_eq!(json(&silica_ok(&line))["entries"], 20_000);
    let line = [&["count", "--exact", "--path", arg(&other)], &keyspace[..]].concat();
    assert_eq!(silica_ok(&line), "20000\n");

    // Entries in order make the same files.
    let sorted: String = {
        let text = std::fs::read_to_string(&input).expect("read");
        let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
        lines.sort_unstable();
        lines.concat()
    };
    std::fs::write(&input, sorted).expect("written");
    let again = build(&["--file-bytes", "100KiB"]);
    assert_eq!((&again["entries"], &again["files"]), (&20_000.into(), &made["files"]));
    assert_eq!(again["file_bytes"], made["file_bytes"]);
}

#[test]
fn what_cannot_be_ingested_is_named_and_nothing_changes() {
    let dir = scratch("ingest-refused");
    let (store, input, table) = (dir.join("store"), dir.join("in"), dir.join("table"));
    silica_ok(&["put", "k", "v", "--path", arg(&store)]);
    std::fs::write(&input, "a\t1\nb\t2\n").expect("written");
    silica_ok(&["build-table", arg(&input), "--format", "tsv", "--out", arg(&table)]);
    let bytes = std::fs::read(&table).expect("read");
    let bad = dir.join("bad");
    std::fs::write(&bad, &bytes[..bytes.len() - 4096]).expect("written");
    let advice = "silica build-table";
    refused(&ingest(&store, &[&bad]), 3, &[arg(&bad), "at byte", advice]);
    let mut flipped = bytes;
    flipped[20] ^= 4;
    std::fs::write(&bad, &flipped).expect("written");
    refused(&ingest(&store, &[&table, &bad]), 3, &[arg(&bad), "byte 0", advice]);
    refused(&ingest(&store, &[&input]), 3, &[arg(&input), advice]);
    refused(&ingest(&store, &[&table, &table]), 2, &["overlap", arg(&table)]);
    refused(&ingest(&store, &[&dir.join("none")]), 1, &[arg(&dir.join("none"))]);
    let silt = ["--keyspace", "hashed", "--path", arg(&store)];
    silica_ok(&[&["keyspace", "create", "hashed", "--engine", "silt"], &silt[2..]].concat());
    let line = [&["ingest", arg(&table)], &silt[..]].concat();
    refused(&silica(&line).output().expect("it starts"), 2, &["keeps no order", "wip"]);
    assert_eq!(silica_ok(&["count", "--exact", "--path", arg(&store)]), "1\n");
    let left = |name: &std::ffi::OsString| name.to_string_lossy().starts_with("INGEST");
    for entry in std::fs::read_dir(&store).expect("a directory").flatten() {
        if !entry.path().is_dir() {
            continue;
        }
        let names = std::fs::read_dir(entry.path()).expect("a directory").flatten();
        assert!(!names.map(|file| file.file_name()).any(|name| left(&name)));
    }
    // What is wrong with the records is said with its place, and makes no file.
    std::fs::write(&input, "a\t1\nno tab\n").expect("written");
    let out = dir.join("out");
    let line = ["build-table", arg(&input), "--format", "tsv", "--out", arg(&out)];
    let output = silica(&line).output().expect("it starts");
    refused(&output, 2, &["byte 4", "record 2", "no TAB"]);
    assert!(!out.exists() && !dir.join("out.spill").exists());
}
