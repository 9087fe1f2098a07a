//! `silica repair` of a store whose table is damaged: the rest is there, and what is lost is said.

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use support::{arg, said, scratch, silica, silica_ok};

const RECORDS: u32 = 20_000;

fn value(n: u32) -> String {
    format!("value {n} {}", "x".repeat(40))
}

/// A store whose entries are in tables.
fn filled(dir: &Path) -> PathBuf {
    let (store, input) = (dir.join("store"), dir.join("records.tsv"));
    let lines: Vec<String> = (0..RECORDS).map(|n| format!("key {n:05}\t{}\n", value(n))).collect();
    std::fs::write(&input, lines.concat()).expect("written");
    let table = dir.join("table");
    silica_ok(&["build-table", arg(&input), "--format", "tsv", "--out", arg(&table)]);
    silica_ok(&["ingest", arg(&table), "--path", arg(&store)]);
    silica_ok(&["put", "key 00000", "newer", "--path", arg(&store)]);
    store
}

/// The store's first file whose name begins so, with its keyspace's directory.
fn file(store: &Path, begins: &str) -> PathBuf {
    let directories = std::fs::read_dir(store).expect("a directory").flatten();
    let files = directories.filter_map(|entry| std::fs::read_dir(entry.path()).ok());
    let mut paths: Vec<PathBuf> = files.flatten().flatten().map(|file| file.path()).collect();
    paths.sort();
    let is_it = |path: &&PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(begins))
    };
    paths.iter().find(is_it).expect("there is one").clone()
}

fn repair(store: &Path) -> Value {
    let text = silica_ok(&["repair", arg(store), "--json"]);
    serde_json::from_str(&text).expect("one JSON object")
}

#[test]
fn a_damaged_table_costs_its_damaged_block_and_the_report_says_so() {
    let dir = scratch("repair");
    let store = filled(&dir);
    let well = repair(&store);
    let keyspace = &well["keyspaces"][0];
    assert_eq!((&keyspace["entries"], &keyspace["aside"]), (&RECORDS.into(), &Value::Null));
    let whole = silica_ok(&["scan", "--limit", "0", "--path", arg(&store)]);

    let table = file(&store, "TABLE");
    let mut bytes = std::fs::read(&table).expect("read");
    bytes[5 * 4096 + 100] ^= 1;
    std::fs::write(&table, &bytes).expect("written");
    let damaged = silica(&["verify", "--path", arg(&store)]).output().expect("it starts");
    assert_eq!(damaged.status.code(), Some(3), "{}", said(&damaged));

    let done = repair(&store);
    let keyspace = &done["keyspaces"][0];
    let name = table.file_name().expect("a name").to_string_lossy().into_owned();
    let findings = keyspace["damage"].to_string();
    for what in [&*name, "4096 bytes at offset 20480 are lost", "with keys from 'key 0"] {
        assert!(findings.contains(what), "{what}: {findings}");
    }
    // What was there is aside, as it was.
    let aside = table.with_file_name(keyspace["aside"].as_str().expect("a directory"));
    assert_eq!(std::fs::read(aside.join(&name)).expect("read"), bytes);

    silica_ok(&["verify", "--path", arg(&store)]);
    let left = silica_ok(&["scan", "--limit", "0", "--path", arg(&store)]);
    let (whole, left): (Vec<_>, Vec<_>) = (whole.lines().collect(), left.lines().collect());
    assert!(left.iter().all(|line| whole.binary_search(line).is_ok()), "nothing is invented");
    assert!(left.contains(&"key 00000\tnewer"));
    let lost = whole.len() - left.len();
    assert!(0 < lost && lost < 100, "{lost} entries of one block");
    assert_eq!(keyspace["entries"], left.len());
    // It goes on as a store does.
    silica_ok(&["put", "k", "v", "--path", arg(&store)]);
    assert_eq!(repair(&store)["keyspaces"][0]["aside"], Value::Null);
}

#[test]
fn a_store_that_does_not_open_is_repaired_too() {
    let dir = scratch("repair-manifest");
    let store = filled(&dir);
    let manifest = file(&store, "MANIFEST");
    std::fs::write(&manifest, b"").expect("written");
    let get = || silica(&["get", "key 00007", "--path", arg(&store)]).output().expect("it starts");
    assert_eq!(get().status.code(), Some(3), "{}", said(&get()));
    let done = repair(&store);
    let findings = done["keyspaces"][0]["damage"].to_string();
    assert!(findings.contains("the manifest is lost"), "{findings}");
    assert_eq!(String::from_utf8_lossy(&get().stdout), format!("{}\n", value(7)));
    assert_eq!(silica_ok(&["count", "--exact", "--path", arg(&store)]), format!("{RECORDS}\n"));
}
