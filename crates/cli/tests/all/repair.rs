//! `silica repair` of a store whose table is damaged: the rest is there, and what is lost is said.

use crate::support::{arg, said, scratch, silica, silica_ok};
use serde_json::Value;
use std::path::{Path, PathBuf};

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

/// The report of a repair, whose exit status has to be `status`: 6 where something was damaged.
fn repair(store: &Path, status: i32) -> Value {
    let output = silica(&["repair", arg(store), "--json"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(status), "{}", said(&output));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

#[test]
fn a_damaged_table_costs_its_damaged_block_and_the_report_says_so() {
    let dir = scratch("repair");
    let store = filled(&dir);
    let well = repair(&store, 0);
    let keyspace = &well["keyspaces"][0];
    assert_eq!((&keyspace["entries"], &keyspace["aside"]), (&RECORDS.into(), &Value::Null));
    let whole = silica_ok(&["scan", "--limit", "0", "--path", arg(&store)]);

    let table = file(&store, "TABLE");
    let mut bytes = std::fs::read(&table).expect("read");
    bytes[5 * 4096 + 100] ^= 1;
    std::fs::write(&table, &bytes).expect("written");
    let damaged = silica(&["verify", "--path", arg(&store)]).output().expect("it starts");
    assert_eq!(damaged.status.code(), Some(3), "{}", said(&damaged));

    let done = repair(&store, 6);
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
    assert_eq!(keyspace["lost_at_most"], lost, "the report says how many");
    assert_eq!(keyspace["may_be_older"], true);
    // It goes on as a store does.
    silica_ok(&["put", "k", "v", "--path", arg(&store)]);
    assert_eq!(repair(&store, 0)["keyspaces"][0]["aside"], Value::Null);
}

#[test]
fn a_store_that_does_not_open_is_repaired_too() {
    let dir = scratch("repair-manifest");
    let store = filled(&dir);
    let manifest = file(&store, "MANIFEST");
    std::fs::write(&manifest, b"").expect("written");
    let get = || silica(&["get", "key 00007", "--path", arg(&store)]).output().expect("it starts");
    assert_eq!(get().status.code(), Some(3), "{}", said(&get()));
    let done = repair(&store, 6);
    let findings = done["keyspaces"][0]["damage"].to_string();
    assert!(findings.contains("the manifest is lost"), "{findings}");
    assert_eq!(String::from_utf8_lossy(&get().stdout), format!("{}\n", value(7)));
    assert_eq!(silica_ok(&["count", "--exact", "--path", arg(&store)]), format!("{RECORDS}\n"));
}

/// What `silica get` of a key prints, or that it fails.
fn get(store: &Path, key: &str) -> Option<String> {
    let output = silica(&["get", key, "--path", arg(store)]).output().expect("it starts");
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim_end().to_string())
}

/// A file or a directory that is not there is damage: it never passes for an empty one.
#[test]
fn a_missing_file_is_reported_and_makes_no_intact_store() {
    for what in ["keyspace-0", "CURRENT", "MANIFEST", "TABLE"] {
        let dir = scratch(&format!("repair-missing-{what}"));
        let store = filled(&dir);
        if what == "keyspace-0" {
            std::fs::remove_dir_all(store.join(what)).expect("removed");
        } else {
            std::fs::remove_file(file(&store, what)).expect("removed");
        }
        let opened = silica(&["count", "--path", arg(&store)]).output().expect("it starts");
        assert!(!opened.status.success(), "without {what}: {}", said(&opened));
        let done = repair(&store, 6);
        let keyspace = &done["keyspaces"][0];
        assert!(keyspace["damage"].to_string().contains(what), "{what}: {done}");
        let is_lost = what == "keyspace-0" || what == "TABLE";
        assert_eq!(keyspace["lost_at_most"].is_null(), is_lost, "{what}: {done}");
        assert_eq!(get(&store, "key 00007"), (!is_lost).then(|| value(7)), "{what}");
        silica_ok(&["verify", "--path", arg(&store)]);
        assert_eq!(repair(&store, 0)["keyspaces"][0]["damage"], Value::Array(Vec::new()));
    }
}

#[test]
fn the_list_of_keyspaces_comes_back_from_its_copy_or_from_the_directories() {
    for (lost, name) in [(&["silica"][..], "a name"), (&["silica", "silica.copy"], "keyspace-1")] {
        for damages in [false, true] {
            let dir = scratch(&format!("repair-catalog-{}-{damages}", lost.len()));
            let store = filled(&dir);
            let silt = ["put", "k", "v", "--keyspace", "a name", "--engine", "silt", "--path"];
            silica_ok(&[&silt[..], &[arg(&store)]].concat());
            for name in lost {
                let file = store.join(name);
                if damages {
                    let mut bytes = std::fs::read(&file).expect("read");
                    bytes[20] ^= 1;
                    std::fs::write(&file, bytes).expect("written");
                } else {
                    std::fs::remove_file(&file).expect("removed");
                }
            }
            let opened = silica(&["count", "--path", arg(&store)]).output().expect("it starts");
            assert!(!opened.status.success(), "{lost:?}: {}", said(&opened));
            let done = repair(&store, 6);
            assert!(done["damage"].to_string().contains("listed again"), "{lost:?}: {done}");
            assert_eq!(get(&store, "key 00007"), Some(value(7)), "{lost:?}");
            let there = silica_ok(&["get", "k", "--keyspace", name, "--path", arg(&store)]);
            assert_eq!(there, "v\n", "{lost:?}: {done}");
            assert_eq!(repair(&store, 0)["damage"], Value::Array(Vec::new()));
        }
    }
}

/// A manifest of one engine may well decode as one of another, so it says whose it is.
#[test]
fn a_keyspace_without_a_table_is_listed_again_with_its_engine() {
    for engine in ["wip", "silt"] {
        let dir = scratch(&format!("repair-engine-{engine}"));
        let store = dir.join("store");
        silica_ok(&["put", "a", "b", "--engine", engine, "--path", arg(&store)]);
        silica_ok(&["del", "a", "--path", arg(&store)]);
        for name in ["silica", "silica.copy"] {
            std::fs::remove_file(store.join(name)).expect("removed");
        }
        let done = repair(&store, 6);
        assert_eq!(done["keyspaces"][0]["engine"], engine, "{done}");
    }
}
