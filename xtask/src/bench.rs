//! Every benchmark at toy size: it runs, prints its fields, and answers the same twice.

use crate::step::{Steps, cargo, run_logged};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);
const BUILD_LIMIT: Duration = Duration::from_secs(1200);

/// Workloads over a whole store, whose object has [`FIELDS`].
const WORKLOADS: &[&str] = &[
    "fill",
    "overwrite",
    "read",
    "read-missing",
    "mixed",
    "ycsb-a",
    "ycsb-b",
    "ycsb-c",
    "ycsb-d",
    "ycsb-f",
    "fillrandom",
    "silt-10-90",
    "silt-50-50",
    "mica-tiny-50",
    "mica-small-95",
    "mica-large-50",
    "wipdb-regions",
    "turbohash-insert",
    "turbohash-positive",
    "turbohash-negative",
    "turbohash-update",
    "turbohash-delete",
    "facebook-get",
    "facebook-set",
    "sqlitekv-update-heavy",
    "sqlitekv-read-latest",
];

/// Workloads whose own sizes are what they are about.
const OWN_SIZES: &[&str] = &["silt-", "mica-", "turbohash-", "facebook-", "sqlitekv-"];

const FIELDS: &[&str] = &[
    "throughput_ops",
    "p50_us",
    "p99_us",
    "device_reads_per_get",
    "write_amplification",
    "space_amplification",
    "index_bytes_per_key",
    "rss_bytes_max",
    "result_hash",
];

/// Benchmarks of one mechanism, with their arguments and fields.
const MECHANISMS: &[(&str, &[&str], &[&str])] = &[
    (
        "ect",
        &["--keys", "20000", "--group", "256", "--hmax", "64"],
        &["bits_per_key", "lookup_ns", "build_keys_per_second"],
    ),
    ("generator", &["--operations", "20000"], &["rows", "driver_percent_at_10m"]),
    ("list", &[], &["workloads"]),
    ("cuckoo", &["--keys", "100000"], &["occupancy", "inserts_per_second", "lookups_per_second"]),
];

/// Runs all of them with the binary that the tests were built with, but for those of
/// [`run_alone`].
pub fn run(steps: &mut Steps) {
    let binary = steps.target().join("debug/silica");
    let scratch = steps.target().join("xtask");
    for workload in WORKLOADS {
        steps.inside(&format!("benchmark {workload}"), || {
            twice(&binary, &scratch, workload, "silt")
        });
    }
    steps.inside("benchmark of a table under SQL", || {
        twice(&binary, &scratch, "sqlitekv-update-heavy", "sql")
    });
    steps.inside("figures of SQLiteKV", || sqlitekv(&binary, &scratch));
    steps.inside("figures of DIDACache", || didacache(&binary, &scratch));
    steps.inside("figures of the graph engine", || graph(&binary, &scratch));
    steps.inside("figures of TurboHash and SPTree", || pmem(&binary, &scratch));
    steps.inside("benchmark replay", || replay(&binary, &scratch));
    let (root, target) = (steps.root().to_path_buf(), steps.target().to_path_buf());
    steps.inside("build of examples", || build_examples(&root, &scratch));
    steps.inside("short programs", || short_programs(&root, &target, &scratch));
    let mut overhead = Command::new(target.join("debug/examples/overhead"));
    steps.command("the way through C at toy size", overhead.arg("1000"), LIMIT);
    steps.inside("simulators", || simulators(&target, &scratch));
    steps.inside("modes of mica by cores", || modes(&target, &scratch));
    steps.inside("benchmark models", || models(&binary, &scratch));
    steps.inside("benchmark models, swept and drawn", || swept(&binary, &scratch));
    steps.inside("benchmark level sizes", || chosen_levels(&binary, &scratch));
    for (name, arguments, fields) in MECHANISMS {
        steps.inside(&format!("benchmark {name}"), || {
            let mut command = bench(&binary, name);
            command.args(*arguments);
            object(&mut command, &scratch, fields).map(drop)
        });
    }
}

/// Runs what loses datagrams if others keep the processors busy.
pub fn run_alone(steps: &mut Steps) {
    let binary = steps.target().join("debug/silica");
    let scratch = steps.target().join("xtask");
    steps.inside("benchmark datagrams", || datagrams(&binary, &scratch));
}

/// With everything that the workspace was built with, so that nothing is built anew for them.
fn build_examples(root: &Path, scratch: &Path) -> Result<(), String> {
    let mut build = cargo(&["build", "--workspace", "--quiet"]);
    let of_crates = ["experiments", "simulator_speed", "modes", "overhead"];
    for name in of_crates.map(String::from).into_iter().chain(names_of_programs(root)?) {
        build.args(["--example", &name]);
    }
    let outcome = run_logged(&mut build, &scratch.join("bench.log"), BUILD_LIMIT);
    if outcome.good { Ok(()) } else { Err(outcome.output) }
}

/// The programs in `examples`, each a file.
fn names_of_programs(root: &Path) -> Result<Vec<String>, String> {
    let directory = root.join("examples");
    let all = std::fs::read_dir(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    let paths = all.filter_map(|entry| Some(entry.ok()?.path()));
    let programs = paths.filter(|path| path.extension().is_some_and(|kind| kind == "rs"));
    let name = |path: &PathBuf| Some(path.file_stem()?.to_string_lossy().into_owned());
    let mut names: Vec<String> = programs.filter_map(|path| name(&path)).collect();
    names.sort();
    Ok(names)
}

/// Each of them checks what it shows, and says something.
fn short_programs(root: &Path, target: &Path, scratch: &Path) -> Result<(), String> {
    let names = names_of_programs(root)?;
    if names.len() < 10 {
        return Err(format!("examples has {} programs", names.len()));
    }
    for name in names {
        let mut command = Command::new(target.join("debug/examples").join(&name));
        let outcome = run_logged(&mut command, &scratch.join("bench.log"), LIMIT);
        if !outcome.good || outcome.output.is_empty() {
            return Err(format!("{name}: {}", outcome.output));
        }
    }
    Ok(())
}

/// Each simulator runs, and the next table to be compacted is best the largest one.
fn simulators(target: &Path, scratch: &Path) -> Result<(), String> {
    let run = |name: &str, keys: &str| {
        let mut command = Command::new("nice");
        command.args(["-n", "10"]).arg(target.join("debug/examples").join(name)).arg(keys);
        let outcome = run_logged(&mut command, &scratch.join("bench.log"), LIMIT);
        if outcome.good { Ok(outcome.output) } else { Err(outcome.output) }
    };
    let speeds = run("simulator_speed", "1e4")?;
    let rows = speeds.lines().filter(|line| line.ends_with(" M requests/s")).count();
    if rows != 18 {
        return Err(format!("{rows} of 18 speeds of simulators:\n{speeds}"));
    }
    let found = run("experiments", "1e4")?;
    let by_table = found.lines().skip_while(|line| !line.starts_with("next table")).skip(1);
    let saved: Vec<&str> = by_table.filter_map(|line| line.split_whitespace().nth(3)).collect();
    match saved.len() == 4 && saved.iter().all(|part| part.starts_with('-')) {
        true => Ok(()),
        false => Err(format!("the largest table saves {saved:?}:\n{found}")),
    }
}

/// Each mode has a rate with one worker and with three, and a line in each of four drawings.
fn modes(target: &Path, scratch: &Path) -> Result<(), String> {
    let svg = scratch.join("modes.svg");
    let _ = std::fs::remove_file(&svg);
    let mut command = Command::new("nice");
    command.args(["-n", "10"]).arg(target.join("debug/examples/modes"));
    command.args(["--workers", "1,3", "--entries", "5000", "--milliseconds", "5"]);
    command.args(["--rounds", "1", "--svg"]).arg(&svg);
    let outcome = run_logged(&mut command, &scratch.join("bench.log"), LIMIT);
    let rates = outcome.output.lines().filter(|line| line.ends_with(" M/s")).count();
    let drawn = std::fs::read_to_string(&svg).unwrap_or_default();
    match (outcome.good, rates, drawn.matches("CRCW").count()) {
        (true, 40, 4) => Ok(()),
        (_, rates, drawn) => {
            Err(format!("{rates} of 40 rates, {drawn} of 4 drawings:\n{}", outcome.output))
        }
    }
}

/// Wrong replies make it fail by itself; here each figure and each drawing must be there, and at
/// the lowest rate nothing may be lost.
fn datagrams(binary: &Path, scratch: &Path) -> Result<(), String> {
    let out = scratch.join("datagrams");
    let _ = std::fs::remove_dir_all(&out);
    let mut command = bench(binary, "datagrams");
    command.args(["--keys", "1000", "--seconds", "0.05", "--out"]).arg(&out);
    let found =
        object(&mut command, scratch, &["peak_ops", "rate_ops", "rates", "skews", "files"])?;
    let count = |name: &str| found[name].as_array().map_or(0, Vec::len);
    let files = found["files"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let empty: Vec<&str> =
        files.filter(|file| std::fs::metadata(file).map_or(0, |file| file.len()) == 0).collect();
    match (count("rates"), count("skews"), count("files"), &empty[..]) {
        (1.., 6, 3, []) if found["rates"][0]["loss_percent"] == 0.0 => Ok(()),
        _ => Err(format!("figures or drawings are missing, or datagrams lost: {found}")),
    }
}

/// The percentage that a toy's prediction may be off by: few tables, few rounds.
const TOY_ERROR_PERCENT: f64 = 60.0;

/// Both stores of ours, with the figure redrawn. At this size others' background work falls behind.
fn models(binary: &Path, scratch: &Path) -> Result<(), String> {
    let out = scratch.join("models");
    let _ = std::fs::remove_dir_all(&out);
    let mut command = bench(binary, "models");
    command.args(["--toy", "--engines", "silt,wip", "--out"]).arg(&out);
    let found = object(&mut command, scratch, &["rows", "svg"])?;
    let rows: Vec<&Value> = found["rows"].as_array().into_iter().flatten().collect();
    let is_near = |row: &&Value| {
        let percent = row["error_percent"].as_f64();
        percent.is_some_and(|percent| percent.abs() < TOY_ERROR_PERCENT)
    };
    let of = |name: &str| rows.iter().filter(|row| row["engine"] == name).count();
    let svg = std::fs::read_to_string(out.join("models.svg")).unwrap_or_default();
    if of("silt") < 4 || of("wip") < 4 || svg.matches("<circle").count() != rows.len() {
        return Err(format!("settings or dots are missing: {found}"));
    }
    match rows.iter().find(|row| !is_near(row)) {
        Some(row) => Err(format!("a prediction is far off: {row}")),
        None => Ok(()),
    }
}

/// Thirteen figures, of two schemes at seven sizes and what they compare to, each drawn.
fn sqlitekv(binary: &Path, scratch: &Path) -> Result<(), String> {
    let out = scratch.join("sqlitekv");
    let _ = std::fs::remove_dir_all(&out);
    let mut command = bench(binary, "figures");
    command.args(["sqlitekv", "--keys", "60", "--operations", "60", "--out"]).arg(&out);
    let found = object(&mut command, scratch, &["rows", "files"])?;
    let rows: Vec<&Value> = found["rows"].as_array().into_iter().flatten().collect();
    let has_value = |row: &&Value| row["value"].as_f64().is_some_and(|value| value > 0.0);
    let files = found["files"].as_array().into_iter().flatten();
    let drawn = files.filter_map(|file| std::fs::read_to_string(file.as_str()?).ok());
    let lines = drawn.filter(|svg| svg.matches("<polyline").count() >= 2).count();
    let text = std::fs::read_to_string(out.join("results.json")).unwrap_or_default();
    let written: Value = serde_json::from_str(&text).unwrap_or_default();
    let is_written = written["rows"] == found["rows"];
    match (rows.len(), rows.iter().all(has_value), lines, is_written) {
        (195, true, 13, true) => Ok(()),
        (count, _, lines, _) => Err(format!("{count} rows and {lines} drawings: {found}")),
    }
}

/// Seven tables and figures from simulators, two of them drawn, and their rows in a file.
fn didacache(binary: &Path, scratch: &Path) -> Result<(), String> {
    let out = scratch.join("didacache");
    let _ = std::fs::remove_dir_all(&out);
    let mut command = bench(binary, "figures");
    command.args(["didacache", "--scale", "0.001", "--out"]).arg(&out);
    let found = object(&mut command, scratch, &["rows", "files"])?;
    let text = std::fs::read_to_string(out.join("results.json")).unwrap_or_default();
    let written: Value = serde_json::from_str(&text).unwrap_or_default();
    let rows: Vec<&Value> = found["rows"].as_array().into_iter().flatten().collect();
    let has_value = |row: &&Value| row["value"].as_f64().is_some_and(|value| value >= 0.0);
    let has = |figure: &str| rows.iter().any(|row| row["figure"] == figure);
    let figures = ["table-2.1", "table-2.2", "table-2.3", "table-2.5", "table-3.1"];
    let is_all = figures.iter().chain(&["figure-2.11", "figure-2.12"]).all(|figure| has(figure));
    let drawn = ["figure-2.11.svg", "figure-2.12.svg"].map(|file| {
        let svg = std::fs::read_to_string(out.join(file)).unwrap_or_default();
        svg.matches("<polyline").count() >= 2
    });
    let is_whole = is_all && rows.iter().all(has_value) && drawn == [true; 2];
    match is_whole && written["rows"] == found["rows"] {
        true => Ok(()),
        false => Err(format!("rows or drawings of DIDACache are missing: {found}")),
    }
}

/// Figures of engines on simulated persistent memory, and their rows in a file.
fn pmem(binary: &Path, scratch: &Path) -> Result<(), String> {
    let out = scratch.join("pmem");
    let _ = std::fs::remove_dir_all(&out);
    let mut command = bench(binary, "figures");
    command.args(["pmem", "--scale", "0.004", "--out"]).arg(&out);
    let found = object(&mut command, scratch, &["rows", "files"])?;
    let text = std::fs::read_to_string(out.join("results.json")).unwrap_or_default();
    let written: Value = serde_json::from_str(&text).unwrap_or_default();
    let rows: Vec<&Value> = found["rows"].as_array().into_iter().flatten().collect();
    let has_value = |row: &&Value| row["value"].as_f64().is_some_and(|value| value >= 0.0);
    let has = |figure: &&str| rows.iter().any(|row| row["figure"] == **figure);
    let figures = ["figure-3.1", "figure-3.4", "figure-3.8", "figure-3.9", "figure-4.6"];
    let is_whole = figures.iter().all(has) && rows.iter().all(has_value);
    match is_whole && written["rows"] == found["rows"] {
        true => Ok(()),
        false => Err(format!("rows of TurboHash and SPTree are missing: {found}")),
    }
}

/// PageRank on emulated flash, a flash image and files, and its rows in a file.
fn graph(binary: &Path, scratch: &Path) -> Result<(), String> {
    let out = scratch.join("graph");
    let _ = std::fs::remove_dir_all(&out);
    let mut command = bench(binary, "figures");
    command.args(["graph", "--scale", "0.002", "--out"]).arg(&out);
    let found = object(&mut command, scratch, &["rows", "files"])?;
    let text = std::fs::read_to_string(out.join("results.json")).unwrap_or_default();
    let written: Value = serde_json::from_str(&text).unwrap_or_default();
    let rows: Vec<&Value> = found["rows"].as_array().into_iter().flatten().collect();
    let has_value = |row: &&Value| row["value"].as_f64().is_some_and(|value| value >= 0.0);
    let compared = rows.iter().filter(|row| row["paper"].is_f64()).count();
    match compared >= 6 && rows.iter().all(has_value) && written["rows"] == found["rows"] {
        true => Ok(()),
        false => Err(format!("rows of the graph engine are missing: {found}")),
    }
}

/// Settings of a sweep, which are laid over the models' lines.
fn swept(binary: &Path, scratch: &Path) -> Result<(), String> {
    let out = scratch.join("models-swept");
    let _ = std::fs::remove_dir_all(&out);
    let mut command = bench(binary, "models");
    command.args(["--sweep", "--toy", "--rounds", "1", "--engines", "silt,leveldb"]);
    command.arg("--out").arg(&out);
    let found = object(&mut command, scratch, &["rows", "svg"])?;
    if found["rows"].as_array().map_or(0, Vec::len) != 12 {
        return Err(format!("12 settings are swept: {found}"));
    }
    let mut command = Command::new("nice");
    command.args(["-n", "10"]).arg(binary).args(["model", "plot", "--json", "--simulate", "0"]);
    command.arg("--measured").arg(out.join("models.json")).arg("--out").arg(&out);
    let drawn = object(&mut command, scratch, &["files", "errors_measured"])?;
    let figures =
        [("writes-by-skew", 4), ("writes-by-keys", 4), ("writes-by-buffer", 4), ("silt-memory", 6)];
    for (figure, dots) in figures {
        let svg = std::fs::read_to_string(out.join(format!("{figure}.svg"))).unwrap_or_default();
        let found = &drawn["errors_measured"][figure];
        let is_near = |end: &str| {
            found[end].as_f64().is_some_and(|error| error.abs() < TOY_ERROR_PERCENT / 100.0)
        };
        let is_all = found["dots"] == dots && svg.matches("<circle").count() == dots;
        if !is_all || !is_near("lowest") || !is_near("highest") {
            return Err(format!("{figure} has not {dots} dots near its lines: {drawn}"));
        }
    }
    Ok(())
}

/// RocksDB has the level sizes that it is given: with optimised ones it writes less.
fn chosen_levels(binary: &Path, scratch: &Path) -> Result<(), String> {
    let out = scratch.join("models-levels");
    let _ = std::fs::remove_dir_all(&out);
    let mut command = bench(binary, "models");
    command.args(["--level-sizes", "--keys", "20480", "--rounds", "1"]);
    command.args(["--distributions", "uniform", "--out"]).arg(&out);
    let found = object(&mut command, scratch, &["rows", "svg"])?;
    let written = |optimised: bool| -> f64 {
        let rows = found["rows"].as_array().into_iter().flatten();
        let of = rows.filter(|row| row["levels_optimised"] == optimised);
        of.filter_map(|row| row["measured"].as_f64()).sum()
    };
    let svg = std::fs::read_to_string(out.join("level-sizes.svg")).unwrap_or_default();
    let (tenfold, optimised) = (written(false), written(true));
    match optimised > 0.0 && optimised < tenfold && svg.matches("<circle").count() == 4 {
        true => Ok(()),
        false => Err(format!("tenfold {tenfold}, optimised {optimised}: {found}")),
    }
}

const TRACE: &str = "silica-trace 1\n0 put k 500\n5 get k\n5 get l\n9 delete k\n9 get k\n";

fn replay(binary: &Path, scratch: &Path) -> Result<(), String> {
    let (trace, path) = (scratch.join("bench.trace"), scratch.join("bench"));
    std::fs::write(&trace, TRACE).map_err(|e| format!("writing {}: {e}", trace.display()))?;
    let _ = std::fs::remove_dir_all(&path);
    let mut command = bench(binary, "replay");
    command.arg(&trace).args(["--engine", "silt", "--timed", "--path"]).arg(&path);
    let found = object(&mut command, scratch, FIELDS);
    let _ = std::fs::remove_dir_all(&path);
    match found?["hits"].as_u64() {
        Some(1) => Ok(()),
        hits => Err(format!("{hits:?} of its three gets found something, not 1")),
    }
}

fn bench(binary: &Path, name: &str) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "10"]).arg(binary).args(["bench", name, "--json"]);
    command
}

/// The fingerprint depends on questions and answers only, so two runs that differ in what does
/// not change answers must agree.
fn twice(binary: &Path, scratch: &Path, workload: &str, engine: &str) -> Result<(), String> {
    let mut hashes = Vec::new();
    for durability in ["buffered", "synced"] {
        let path = scratch.join("bench");
        let _ = std::fs::remove_dir_all(&path);
        let mut command = bench(binary, workload);
        command.args(["--engine", engine, "--keys", "3000", "--threads", "1"]);
        command.args(["--durability", durability]);
        if !OWN_SIZES.iter().any(|own| workload.starts_with(own)) {
            command.args(["--key-size", "16", "--value-size", "100"]);
        }
        let found = object(command.arg("--path").arg(&path), scratch, FIELDS);
        let _ = std::fs::remove_dir_all(&path);
        hashes.push(found?["result_hash"].to_string());
    }
    match &hashes[..] {
        [first, second] if first == second => Ok(()),
        _ => Err(format!("the same questions were answered differently: {hashes:?}")),
    }
}

/// The one object that `command` prints, which must have `fields`.
fn object(command: &mut Command, scratch: &Path, fields: &[&str]) -> Result<Value, String> {
    let log = PathBuf::from(scratch).join("bench.log");
    let outcome = run_logged(command, &log, LIMIT);
    if !outcome.good {
        return Err(outcome.output);
    }
    parse(&outcome.output, fields)
}

fn parse(output: &str, fields: &[&str]) -> Result<Value, String> {
    // Warnings may come before it on standard error.
    let start = output.find('{').ok_or(format!("no object in: {output}"))?;
    let mut values = serde_json::Deserializer::from_str(&output[start..]).into_iter::<Value>();
    let object = match values.next() {
        Some(Ok(object)) => object,
        _ => return Err(format!("no object in: {output}")),
    };
    let missing: Vec<_> = fields.iter().filter(|field| object[**field].is_null()).collect();
    if missing.is_empty() { Ok(object) } else { Err(format!("lacks {missing:?}: {object}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All examples are built into one directory: of two with one name the later one stays there.
    #[test]
    fn short_programs_have_names_that_no_crate_uses() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let programs = names_of_programs(root).unwrap();
        assert!(programs.len() >= 10);
        for package in std::fs::read_dir(root.join("crates")).unwrap() {
            for name in &programs {
                let examples = package.as_ref().unwrap().path().join("examples");
                let other = [format!("{name}.rs"), name.clone()].map(|name| examples.join(name));
                assert!(!other.iter().any(|path| path.exists()), "{}", other[0].display());
            }
        }
    }

    #[test]
    fn objects_are_found_and_checked() {
        let output = "a warning\n{\"a\": 1, \"b\": {\"c\": 2}}\n";
        assert_eq!(parse(output, &["a", "b"]).unwrap()["b"]["c"], 2);
        assert!(parse(output, &["a", "d"]).unwrap_err().contains("lacks [\"d\"]"));
        assert!(parse("nothing", &[]).is_err());
    }
}
