//! `silica tune`, `silica why` and engine auto, as a user or a script meets them.

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

fn silica(arguments: &[&str], path: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_silica"));
    command.args(arguments).arg("--path").arg(path).env_remove("RUST_LOG").output().unwrap()
}

#[track_caller]
fn json(arguments: &[&str], path: &Path) -> Value {
    let output = silica(&[arguments, &["--json"]].concat(), path);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {error}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_description_gets_an_engine_with_reasons_and_apply_moves_to_it() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    let engine = |path: &Path| json(&["keyspace", "list"], path)["keyspaces"][0]["engine"].clone();
    for i in 0..20 {
        json(&["put", &format!("key {i}"), "value", "--durability", "buffered"], &store);
    }
    assert_eq!(engine(&store), "wip");
    // Of a store that nobody described the order stays.
    let kept = json(&["tune"], &store);
    assert_eq!(kept["best"]["engine"], "wip");
    assert!(kept["excluded"]["silt"].as_str().unwrap().contains("order"));
    assert!(kept["notes"].to_string().contains("silica probe"), "{}", kept["notes"]);
    let latest = json(&["tune", "--describe", "keys=1M gets=95 inserts=5 latest=0.9"], &store);
    let text = latest["workload"].as_str().unwrap();
    assert!(text.contains("access = latest 0.9\n"), "{text}");
    let words = ["--describe", "keys=1M puts=1 uniform"];
    let found = json(&[&["tune", "--apply"], &words[..]].concat(), &store);
    assert_eq!(found["best"]["engine"], "silt", "{found}");
    assert!(found["runner_up"]["lost_by"].as_str().unwrap().contains("against"));
    assert!(found["best"]["written"]["merge"].as_f64().unwrap() > 0.0);
    assert_eq!(engine(&store), "silt");
    assert_eq!(json(&["get", "key 7"], &store)["value"], "value");
    assert_eq!(json(&["verify"], &store)["ok"], true);
}

#[test]
fn a_cache_with_flash_of_a_size_is_told_what_flash_would_do() {
    let directory = tempfile::tempdir().unwrap();
    // Words alone: there is no store.
    let asked = |words: &str, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_silica"));
        command.args(["tune", "--describe", words]).args(more).env_remove("RUST_LOG");
        String::from_utf8(command.current_dir(&directory).output().unwrap().stdout).unwrap()
    };
    let json = |words: &str| -> Value {
        serde_json::from_str(&asked(words, &["--json"])).expect("an object")
    };
    let words = "keys=50M value=300 gets=90 puts=10 zipf=0.9 memory=1GiB rate=5000 cache";
    assert_eq!(json(words)["flash_cache"], Value::Null);
    let with_flash = format!("{words} flash=8GiB");
    let found = &json(&with_flash)["flash_cache"];
    assert_eq!(found["is_better"], true, "{found}");
    let number = |name: &str| found[name].as_f64().unwrap();
    assert!(number("hit_ratio") > number("hit_ratio_in_memory") + 0.1, "{found}");
    assert!(number("life_years") > 0.0 && number("write_amplification") > 1.0, "{found}");
    let text = asked(&with_flash, &[]);
    assert!(text.contains("serve --cache SIZE --flash DIR --flash-size 8589934592"), "{text}");
}

#[test]
fn a_probe_is_kept_shown_and_used() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let nothing = silica(&["probe", "--show"], path);
    let error = String::from_utf8_lossy(&nothing.stderr).into_owned();
    assert!(!nothing.status.success() && error.contains("nothing was probed"), "{error}");
    let small = ["probe", "--size", "2MiB", "--seconds", "0.1", "--endurance", "600TB"];
    let small = [&small[..], &["--memory", "2MiB"]].concat();
    let probed = json(&small, path);
    assert_eq!(probed["device"]["endurance_bytes"], 600e12);
    assert!(probed["device"]["reads"]["32"].as_f64().unwrap() > 1.0);
    for engine in ["wip", "silt", "mica"] {
        assert!(probed["processor_ns"][engine]["put"].as_f64().unwrap() >= 10.0, "{probed}");
    }
    let names: Vec<_> = std::fs::read_dir(path).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["PROBE"]);
    assert_eq!(json(&["probe", "--show"], path), probed);
    let people = silica(&["probe", "--show"], path);
    let shown = String::from_utf8_lossy(&people.stdout).into_owned();
    assert!(shown.contains("engine wip") && shown.contains("random reads"), "{shown}");
    // What was probed is what the models are asked with, and no store's obstacle.
    json(&["put", "key", "value"], path);
    let notes = json(&["tune"], path)["notes"].to_string();
    assert!(!notes.contains("silica probe"), "{notes}");
    let wrong = silica(&["probe", "--seconds", "0"], path);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("seconds"));
    std::fs::write(path.join("PROBE"), "nothing of the kind").unwrap();
    let damaged = silica(&["probe", "--show"], path);
    let error = String::from_utf8_lossy(&damaged.stderr).into_owned();
    assert!(!damaged.status.success() && error.contains("PROBE"), "{error}");
}

#[test]
fn bounds_and_words_that_cannot_be_are_refused_with_reasons() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    json(&["put", "a", "b"], &store);
    for (arguments, part) in [
        (&["tune", "--bound", "write_amplification=1"][..], "loosen"),
        (&["tune", "--bound", "colour=1"], "known are throughput"),
        (&["tune", "--goal", "speed"], "known are throughput"),
        (&["tune", "--describe", "keys=many"], "keys=many"),
        (&["tune", "--describe", "latest=0.99 gets=1"], "latest needs inserts"),
        (&["tune", "--describe", "latest=-1 inserts=1"], "'latest=-1'"),
        (&["tune", "--describe", "latest=0.99 zipf=0.99 inserts=1"], "both say"),
        (&["tune", "--memory-price=-1"], "price"),
        (&["why", "nothing"], "no keyspace or directory 'nothing'"),
        (&["why", "127.0.0.1:1"], "--admin"),
        (&["put", "a", "b", "--engine", "auto", "--describe", "x"], "describes nothing"),
    ] {
        let output = silica(arguments, &store);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(part), "{arguments:?}: {error}");
    }
}

#[test]
fn a_trace_is_a_workload() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("trace");
    let mut text = String::from("silica-trace 1\n");
    for i in 0..600 {
        let key = i % 100;
        let line = if i < 100 { format!("put {key} 64") } else { format!("get {key}") };
        text.push_str(&format!("{i} {line}\n"));
    }
    std::fs::write(&file, &text).unwrap();
    let name = file.to_str().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_silica"))
        .args(["tune", "--trace", name, "--json"])
        .current_dir(directory.path())
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let workload = found["workload"].as_str().unwrap();
    for line in
        ["keys = 100\n", "mix.inserts = 100\n", "mix.get_hits = 500\n", "value_bytes = 64:1"]
    {
        assert!(workload.contains(line), "{line}: {workload}");
    }
    std::fs::write(&file, "silica-trace 1\n").unwrap();
    let empty = silica(&["tune", "--trace", name], directory.path());
    assert!(String::from_utf8_lossy(&empty.stderr).contains("no operation"));
}

#[test]
fn why_shows_prediction_beside_what_the_store_has() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().join("store");
    json(&["bench", "fill", "--keys", "20000", "--engine", "silt"], &store);
    let told = json(&["why", "--describe", "uniform"], &store);
    assert_eq!(told["engine"], "silt");
    let figures = told["figures"].as_array().unwrap();
    let memory = figures.iter().find(|f| f["name"] == "index bytes per key").unwrap();
    assert!(memory["predicted"].as_f64().unwrap() > 0.0);
    assert!(memory["measured"].as_f64().unwrap() > 0.0);
    let changes = told["what_if"].as_array().unwrap();
    assert!(changes.iter().any(|change| change["option"] == "merge_ratio_percent"));
}

#[test]
fn a_get_tells_where_it_spends_its_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let file = path.join("in.tsv");
    let lines: String = (0..20_000).map(|i| format!("key {i:05}\t{}\n", "v".repeat(100))).collect();
    std::fs::write(&file, lines).unwrap();
    // With this little memory silt has no index to search by, and one read does all of it.
    let stages: [(&str, &[&str]); 2] = [
        ("wip", &["memory", "filter", "index", "device", "search"]),
        ("silt", &["memory", "device"]),
    ];
    for (engine, stages) in stages {
        let store = path.join(engine);
        let file = file.to_str().unwrap();
        json(&["load", file, "--engine", engine, "--memory", "2MiB"], &store);
        let told = json(&["why", "--get", "key 00007", "--memory", "2MiB"], &store);
        assert_eq!(
            (&told["engine"], &told["value_bytes"]),
            (&engine.into(), &100.into()),
            "{told}"
        );
        let first = &told["first"];
        let all = first["nanoseconds"].as_u64().unwrap();
        for stage in stages {
            let nanoseconds = first["stages"][*stage]["nanoseconds"].as_u64();
            assert!(nanoseconds.is_some_and(|n| n > 0 && n < all), "{engine} {stage}: {told}");
        }
        let absent = silica(&["why", "--get", "nobody", "--memory", "2MiB"], &store);
        let text = String::from_utf8_lossy(&absent.stdout).into_owned();
        assert_eq!(absent.status.code(), Some(1), "{text}");
        // Which stages a key comes to that is not there depends on its hash; the first is the same.
        assert!(text.contains("not there") && text.contains(stages[0]), "{text}");
    }
}
