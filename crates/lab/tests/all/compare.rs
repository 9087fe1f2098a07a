//! `silica bench compare` as scripts use it.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const WAIT_MAX: Duration = Duration::from_secs(120);

fn compare(out: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_silica-lab"));
    command.args(["bench", "compare"]).args(arguments).arg("--out").arg(out);
    command
}

fn run(arguments: &[&str]) -> Output {
    let out = tempfile::tempdir().unwrap();
    compare(out.path(), arguments).output().unwrap()
}

fn refused(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn read(out: &Path, file: &str) -> Value {
    serde_json::from_slice(&std::fs::read(out.join(file)).unwrap()).unwrap()
}

#[test]
fn unknown_names_are_refused_with_the_known() {
    let suite = refused(&["flesh"]);
    assert!(suite.contains("flash") && suite.contains("server"), "{suite}");
    let peer = refused(&["flash", "--peers", "rocksbd"]);
    assert!(peer.contains("silica:silt") && peer.contains("rocksdb"), "{peer}");
    let workload = refused(&["flash", "--workloads", "ycsb-z"]);
    assert!(workload.contains("ycsb-a"), "{workload}");
}

#[test]
fn what_does_not_fit_is_refused_with_what_would() {
    let disk = refused(&["flash", "--keys", "1000000000000", "--peers", "silica:silt"]);
    assert!(disk.contains("--keys") && disk.contains("would fit"), "{disk}");
    let memory = refused(&["flash", "--toy", "--memory", "1000000G", "--peers", "silica:silt"]);
    assert!(memory.contains("--memory"), "{memory}");
}

#[test]
fn a_toy_run_leaves_all_files() {
    let out = tempfile::tempdir().unwrap();
    let toy = ["flash", "--toy", "--json", "--peers", "silica:silt", "--repetitions", "2"];
    let output = compare(out.path(), &toy)
        .args(["--workloads", "fillrandom,readrandom,ycsb-a"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["failures"], Value::Array(Vec::new()));
    let rows = read(out.path(), "results.json");
    let speeds: Vec<_> = rows
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["metric"] == "throughput_ops")
        .map(|row| row["workload"].as_str().unwrap())
        .collect();
    assert_eq!(speeds, ["fillrandom", "readrandom", "ycsb-a"]);
    let settled = rows.as_array().unwrap().iter().find(|row| row["metric"] == "settle_seconds");
    assert_eq!(settled.unwrap()["runs"], 2, "one of each repetition");
    let environment = read(out.path(), "environment.json");
    assert_eq!(environment["size"], "toy");
    assert!(environment["machine"]["cores"].as_u64().unwrap() > 0);
    assert!(out.path().join("results.csv").exists() && out.path().join("details.json").exists());
    let left = std::fs::read_dir(out.path()).unwrap().flatten();
    let left: Vec<_> = left.filter(|entry| entry.path().is_dir()).collect();
    assert!(left.is_empty(), "stores are removed: {left:?}");
}

#[test]
fn options_of_our_stores_are_set_and_named() {
    let out = tempfile::tempdir().unwrap();
    let toy = ["flash", "--toy", "--peers", "silica:silt", "--workloads", "readrandom"];
    let set = |option: &str| compare(out.path(), &toy).args(["--set", option]).output().unwrap();
    let output = set("sorted_filter_bits=9");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let named = read(out.path(), "details.json").to_string();
    assert!(named.contains("sorted_filter_bits=9"), "{named}");
    let unknown = set("sorted_filter_bitts=9");
    let said = [unknown.stdout, unknown.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("sorted_filter_bitts"), "{said}");
}

#[test]
fn an_interrupted_run_keeps_what_was_measured() {
    let out = tempfile::tempdir().unwrap();
    let endless = ["flash", "--toy", "--peers", "silica:silt", "--repetitions", "100000"];
    let mut child = compare(out.path(), &endless)
        .args(["--workloads", "readrandom"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while !out.path().join("details.json").exists() {
        assert!(started.elapsed() < WAIT_MAX && child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(10));
    }
    let signalled = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(signalled.success());
    assert!(child.wait().unwrap().success());
    assert!(started.elapsed() < WAIT_MAX);
    let details = read(out.path(), "details.json");
    assert_eq!(details["interrupted"], true);
    assert!(!details["rows"].as_array().unwrap().is_empty());
    assert!(details["failures"].as_array().unwrap().is_empty(), "{}", details["failures"]);
}

#[test]
fn a_run_that_is_interrupted_among_rounds_keeps_them() {
    let out = tempfile::tempdir().unwrap();
    let mut child = compare(out.path(), &["flash", "--quick", "--peers", "silica:silt,redb"])
        .args(["--workloads", "readrandom", "--keys", "2000", "--repetitions", "1"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let round = |line: &std::io::Result<String>| line.as_ref().unwrap().contains(": round 4 of");
    assert!(lines.any(|line| round(&line)), "it goes round");
    let signalled = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(signalled.success());
    lines.for_each(drop);
    assert!(child.wait().unwrap().success());
    let details = read(out.path(), "details.json");
    assert_eq!(details["interrupted"], true);
    assert!(details["failures"].as_array().unwrap().is_empty(), "{}", details["failures"]);
    let rows = read(out.path(), "results.json");
    let speeds = rows.as_array().unwrap().iter().filter(|row| row["metric"] == "throughput_ops");
    let rounds: Vec<_> = speeds.map(|row| row["runs"].as_u64().unwrap()).collect();
    assert!(rounds.len() == 2 && rounds.iter().all(|n| (4..15).contains(n)), "{rounds:?}");
    let latencies = rows.as_array().unwrap().iter().filter(|row| row["metric"] == "p50_us");
    assert_eq!(latencies.count(), 2);
}
