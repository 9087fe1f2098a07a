//! The comparison at toy size: every workload on every store that is installed, answers that agree,
//! and all files there. Times are not judged.

use crate::replicas;
use crate::step::{Steps, run_logged};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(600);
const FILES: [&str; 4] = ["results.json", "results.csv", "environment.json", "details.json"];
const COLUMNS: [&str; 10] =
    ["suite", "workload", "store", "threads", "metric", "unit", "median", "low", "high", "runs"];

/// Runs it with the binary that the tests were built with. Stores wait for devices and each other
/// half of the time: steps of `meanwhile`, whose times are not judged either, run beside that.
pub fn run(steps: &mut Steps, meanwhile: impl FnOnce(&mut Steps)) {
    let binary = steps.target().join("debug/silica");
    let scratch = steps.target().join("xtask");
    let out = scratch.join("compare");
    let all = || compare(&binary, &scratch, &out);
    let good = steps.beside("compare all stores", all, meanwhile);
    if good {
        for (store, why) in missing(&out) {
            steps.skip(&format!("compare {store}"), &why);
        }
    }
    steps.inside("compare stores by threads", || scaling(&binary, &scratch));
    steps.inside("compare caches of memory and flash", || caches(&binary, &scratch));
    let is_there = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let members = "compare members that agree with etcd";
    match is_there("etcd") {
        true => steps.inside(members, || agreement(&binary, &scratch)),
        false => {
            steps.skip(members, "etcd is not installed");
            true
        }
    };
    if !is_there("redis-server") {
        steps.skip("compare objects and slots with Redis", "redis-server is not installed");
        return;
    }
    steps.inside("compare objects with Redis", || types(&binary, &scratch));
    steps.inside("compare slots that move with Redis", || slots(&binary, &scratch));
    steps.inside("compare replicas with Redis", || replication(&binary));
}

/// Runs a comparison at toy size; what it wrote into `file`.
fn toy(binary: &Path, scratch: &Path, suite: &str, file: &str) -> Result<Value, String> {
    let out = scratch.join(suite);
    let _ = std::fs::remove_dir_all(&out);
    let mut command = Command::new("nice");
    command.args(["-n", "10"]).arg(binary).args(["bench", "compare", suite, "--toy"]);
    command.args(["--out", suite]).current_dir(scratch);
    let outcome = run_logged(&mut command, &scratch.join("compare.log"), LIMIT);
    if !outcome.good {
        return Err(outcome.output);
    }
    read(&out, file)
}

fn is_above_zero(value: &Value) -> bool {
    value.as_f64().is_some_and(|value| value > 0.0)
}

/// Both groups took writes.
fn agreement(binary: &Path, scratch: &Path) -> Result<(), String> {
    let found = toy(binary, scratch, "agreement", "agreement.json")?;
    let rows = list(&found["rows"]);
    let is_whole = |row: &Value| ["rate", "median_ms"].iter().all(|f| is_above_zero(&row[*f]));
    match rows.len() == 2 && rows.iter().all(is_whole) && is_above_zero(&found["ratio"][0]) {
        true => Ok(()),
        false => Err(format!("a group has no figures: {found}")),
    }
}

/// A slot of each cluster moved while clients worked, who were answered before and meanwhile.
fn slots(binary: &Path, scratch: &Path) -> Result<(), String> {
    let found = toy(binary, scratch, "slots", "slots.json")?;
    let rounds = list(&found["rounds"]);
    let is_whole = |round: &Value| {
        let parts = [&round["before"]["count"], &round["during"]["count"], &round["seconds"]];
        parts.into_iter().all(is_above_zero)
    };
    match rounds.len() == 2 && rounds.iter().all(is_whole) {
        true => Ok(()),
        false => Err(format!("a slot has not moved: {found}")),
    }
}

/// Commands, shapes of objects and settings that objects are compared in.
const RATES_OF_TYPES: usize = 10 * 2 * 3;

/// Every command on objects has a rate at each setting, and each part of the comparison its
/// figures.
fn types(binary: &Path, scratch: &Path) -> Result<(), String> {
    let found = toy(binary, scratch, "types", "types.json")?;
    let rates = list(&found["rates"]);
    let whole = |row: &&Value| ["ours", "redis", "ratio"].iter().all(|f| is_above_zero(&row[*f]));
    if rates.iter().filter(whole).count() != RATES_OF_TYPES {
        return Err(format!("not every command has its rates: {rates:?}"));
    }
    let (memory, board) = (&found["memory"], &found["board"]);
    let figures = [
        &memory[0]["ours"],
        &memory[1]["ours"],
        &found["queue"]["rate"],
        &board["ours_bytes"],
        &board["peer_bytes"],
    ];
    match figures.into_iter().all(is_above_zero) {
        true => Ok(()),
        false => Err(format!("a part has no figures: {found}")),
    }
}

/// Each part of the comparison of replicas runs, with a few keys.
fn replication(binary: &Path) -> Result<(), String> {
    let binary = binary.to_str().ok_or("the path of the binary is no text")?;
    let few = ["--rounds", "1", "--entries", "2000", "--requests", "2000"];
    let parts = ["sync", "lag", "cost", "--binary", binary];
    replicas::run(Path::new("."), &[&parts[..], &few].concat())
}

/// What each cache that is installed must tell.
const CACHE_FIGURES: [&str; 4] = ["sets_there", "hits", "mixed", "resident_peak_bytes"];

/// Every cache that is installed told all figures, and ours lost nothing of what has room.
fn caches(binary: &Path, scratch: &Path) -> Result<(), String> {
    let out = scratch.join("caches");
    let _ = std::fs::remove_dir_all(&out);
    let mut command = Command::new("nice");
    command.args(["-n", "10"]).arg(binary).args(["bench", "compare", "cache", "--toy"]);
    command.args(["--out", "caches"]).current_dir(scratch);
    let outcome = run_logged(&mut command, &scratch.join("compare.log"), LIMIT);
    if !outcome.good {
        return Err(outcome.output);
    }
    let found = read(&out, "caches.json")?;
    let of = |row: &Value, metric: &str| {
        let figures = list(&row["figures"]);
        figures.iter().find(|f| f["metric"] == metric).and_then(|f| f["value"].as_f64())
    };
    let rows = list(&found["rows"]);
    let is_cache = |row: &&Value| row["store"] != "limit:device-reads";
    for row in rows.iter().filter(is_cache) {
        let lacks = CACHE_FIGURES.iter().find(|metric| of(row, metric).is_none());
        if let Some(metric) = lacks {
            return Err(format!("no {metric}: {row}"));
        }
    }
    let ours = rows.iter().find(|row| row["store"] == "silica:flash-cache");
    match ours.and_then(|row| of(row, "there")) {
        Some(there) if there > 0.99 => Ok(()),
        there => Err(format!("of our cache's entries {there:?} are there")),
    }
}

/// What a store that keeps nothing on a device says of synced writes.
const NO_SYNCED_WRITES: &str = "it has no synced writes";

/// Every store that is installed has a rate for each workload of its class with one thread and
/// with two, and each class is drawn with its ideal.
fn scaling(binary: &Path, scratch: &Path) -> Result<(), String> {
    let out = scratch.join("scaling");
    let _ = std::fs::remove_dir_all(&out);
    let mut command = Command::new("nice");
    command.args(["-n", "10"]).arg(binary).args(["bench", "compare", "scaling", "--toy"]);
    command.args(["--threads-max", "2", "--out", "scaling"]).current_dir(scratch);
    let outcome = run_logged(&mut command, &scratch.join("compare.log"), LIMIT);
    if !outcome.good {
        return Err(outcome.output);
    }
    let found = read(&out, "scaling.json")?;
    let rows = list(&found["rows"]);
    let is_well = |row: &Value| {
        let is_unable = row["why"].as_str().is_some_and(|why| why.contains(NO_SYNCED_WRITES));
        is_unable || row["rate"].as_f64().is_some_and(|rate| rate > 0.0)
    };
    if let Some(row) = rows.iter().find(|row| !is_well(row)) {
        return Err(format!("no rate: {row}"));
    }
    for (class, store) in
        [("embedded", "silica:wip"), ("memory", "silica:mica"), ("server", "silica:tcp")]
    {
        let threads = [1, 2]
            .map(|count| rows.iter().any(|row| row["store"] == store && row["threads"] == count));
        let svg = std::fs::read_to_string(out.join(format!("scaling-{class}.svg")));
        let is_drawn = svg.is_ok_and(|svg| svg.contains("ideal of "));
        if threads != [true, true] || !is_drawn {
            return Err(format!("{store} was measured: {threads:?}, {class} drawn: {is_drawn}"));
        }
    }
    Ok(())
}

fn compare(binary: &Path, scratch: &Path, out: &Path) -> Result<(), String> {
    let _ = std::fs::remove_dir_all(out);
    let mut command = Command::new("nice");
    command.args(["-n", "10"]).arg(binary).args(["bench", "compare", "all", "--toy", "--out"]);
    // As people write it; servers have a working directory of their own.
    command.arg("compare").current_dir(scratch);
    let outcome = run_logged(&mut command, &scratch.join("compare.log"), LIMIT);
    // Stores that disagree make the run itself fail.
    if !outcome.good {
        return Err(outcome.output);
    }
    for file in FILES {
        if std::fs::metadata(out.join(file)).map_or(0, |metadata| metadata.len()) == 0 {
            return Err(format!("{file} is missing or empty"));
        }
    }
    judge(&read(out, "results.json")?, &read(out, "details.json")?)
}

fn read(out: &Path, file: &str) -> Result<Value, String> {
    let text = std::fs::read_to_string(out.join(file)).map_err(|e| format!("{file}: {e}"))?;
    serde_json::from_str(&text).map_err(|e| format!("{file}: {e}"))
}

/// Stores that are not installed, with the reason.
fn missing(out: &Path) -> Vec<(String, String)> {
    let environment = read(out, "environment.json").unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_string();
    let stores = environment["missing"].as_array().cloned().unwrap_or_default();
    stores.iter().map(|remark| (text(&remark["store"]), text(&remark["text"]))).collect()
}

/// Every store has a throughput for every workload of its suite, unless it lacks what that takes;
/// every row has all columns; nothing failed.
fn judge(rows: &Value, details: &Value) -> Result<(), String> {
    let rows = rows.as_array().ok_or("results.json is no list")?;
    if let Some(row) = rows.iter().find(|row| COLUMNS.iter().any(|name| row[*name].is_null())) {
        return Err(format!("a row lacks a column: {row}"));
    }
    let failures = details["failures"].as_array().map_or(&[][..], Vec::as_slice);
    if !failures.is_empty() {
        return Err(format!("measurements failed: {failures:?}"));
    }
    let has = |workload: &Value, store: &Value| {
        rows.iter().any(|row| {
            row["suite"] == workload["suite"]
                && row["workload"] == workload["name"]
                && row["store"] == *store
                && row["metric"] == "throughput_ops"
        })
    };
    let unable = |workload: &Value, store: &Value| {
        list(&details["environment"]["unable"])
            .iter()
            .any(|remark| remark["workload"] == workload["name"] && remark["store"] == *store)
    };
    for workload in list(&details["workloads"]) {
        for store in list(&details["environment"]["stores"]) {
            let same_suite =
                |row: &&Value| row["suite"] == workload["suite"] && row["store"] == store["name"];
            let takes_part = store["class"] != "limit" && rows.iter().any(|row| same_suite(&row));
            if takes_part && !has(workload, &store["name"]) && !unable(workload, &store["name"]) {
                let (name, store) = (&workload["name"], &store["name"]);
                return Err(format!("no throughput of {store} at {name}"));
            }
        }
    }
    match rows.iter().any(|row| row["store"] == "silica:silt") {
        true => Ok(()),
        false => Err("no row of a store of ours".to_string()),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(store: &str, workload: &str) -> Value {
        json!({
            "suite": "flash", "workload": workload, "store": store, "threads": 1,
            "metric": "throughput_ops", "unit": "ops/s", "median": 1.0, "low": 1.0, "high": 1.0,
            "runs": 1,
        })
    }

    fn details() -> Value {
        json!({
            "workloads": [{"suite": "flash", "name": "read"}, {"suite": "flash", "name": "scan"}],
            "environment": {
                "stores": [{"name": "silica:silt"}, {"name": "lmdb"}],
                "unable": [{"workload": "scan", "store": "silica:silt"}],
            },
            "failures": [],
        })
    }

    #[test]
    fn a_store_without_a_row_is_found() {
        let mut rows = vec![row("silica:silt", "read"), row("lmdb", "read"), row("lmdb", "scan")];
        assert_eq!(judge(&json!(rows), &details()), Ok(()));
        rows.pop();
        let why = judge(&json!(rows), &details()).unwrap_err();
        assert!(why.contains("lmdb") && why.contains("scan"), "{why}");
    }

    #[test]
    fn failures_and_short_rows_are_found() {
        let rows = json!([row("silica:silt", "read"), row("silica:silt", "scan")]);
        let mut failed = details();
        failed["failures"] = json!([{"store": "lmdb"}]);
        assert!(judge(&rows, &failed).unwrap_err().contains("failed"));
        let short = json!([{"suite": "flash"}]);
        assert!(judge(&short, &details()).unwrap_err().contains("column"));
    }
}
