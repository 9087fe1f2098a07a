//! What a cache on flash would do: by shares of a drive, for words and for traces.

use serde_json::Value;
use silica::device::blocks::Geometry;
use silica::device::sim::FlashProfile;
use silica_lab::simulate::flash::{Counted, FlashDrive, Operations, Plan, Scheme, run_cache};
use silica_tune::Workload;
use silica_tune::recommend::describe;
use silica_tune::trace::TraceReader;
use std::process::{Command, Output};

/// 64 MiB: 4 channels of 16 blocks of 1 MiB.
fn drive() -> FlashDrive {
    let geometry: Geometry = "4x4x4x64x16KiB".parse().unwrap();
    FlashDrive { geometry, timing: FlashProfile::find("paper").unwrap().timing, bytes: None }
}

fn workload(words: &str) -> Workload {
    describe(words).unwrap().0
}

fn plan(requests: u64) -> Plan {
    Plan { settle: requests, requests, fills: true, rate: Some(1e4) }
}

/// `requests` operations on the whole drive, less on a share of it.
fn run(scheme: Scheme, words: &str, scale: f64, requests: u64) -> Counted {
    let workload = workload(words);
    let shape = drive().shape(scale, 400).unwrap();
    let requests = (requests as f64 * shape.scale) as u64;
    let operations = Operations::drawn(&workload, shape.scale, 2 * requests, 1).unwrap();
    run_cache(scheme, &shape, &operations, &plan(requests), &mut |_, _| {}).unwrap()
}

/// A trace without its header.
fn read(lines: &str) -> silica::Result<(Operations, f64)> {
    let text = format!("silica-trace 1\n{lines}");
    Operations::recorded(&mut TraceReader::new(text.as_bytes(), "t").unwrap(), None)
}

#[test]
fn a_cache_with_room_for_all_finds_all() {
    for (_, scheme) in Scheme::ALL {
        let found = run(scheme, "keys=60k value=300 gets=100 uniform", 1.0, 60_000);
        assert_eq!(found.counts.hit_ratio(), 1.0, "{}", scheme.name());
        assert_eq!((found.user_bytes, found.flash_bytes), (0, 0));
        assert_eq!((found.years(3000), found.drive_writes_per_day()), (None, Some(0.0)));
    }
}

/// Uniform gets hit with the share of the keys that flash has room for: all but what is kept free.
#[test]
fn a_full_cache_finds_what_it_has_room_for() {
    let found = run(Scheme::DidaLocality, "keys=400k value=300 gets=100 uniform", 1.0, 400_000);
    let room = 64.0 * f64::from(1 << 20) / 340.0 / 400_000.0;
    let ratio = found.counts.hit_ratio() / room;
    assert!((0.93..1.03).contains(&ratio), "{ratio}");
    // All that is written is what missed, and what it has as header.
    let amplification = found.write_amplification();
    assert!((1.05..1.12).contains(&amplification), "{amplification}");
    let per_day = found.drive_writes_per_day().unwrap();
    let bytes = found.flash_bytes as f64 / found.operations as f64 * 1e4 * 86_400.0;
    assert!((per_day / (bytes / 64.0 / f64::from(1 << 20)) - 1.0).abs() < 1e-9, "{per_day}");
    let years = found.years(3000).unwrap() * per_day * 365.25;
    assert!((years / 3000.0 - 1.0).abs() < 1e-9, "{years}");
}

#[test]
fn a_share_of_the_drive_does_what_the_whole_does() {
    for scheme in [Scheme::Dida, Scheme::Fatcache] {
        let words = "keys=1M value=300 gets=80 puts=20 zipf=0.99";
        let whole = run(scheme, words, 1.0, 500_000);
        let share = run(scheme, words, 0.2, 500_000);
        let hits = share.counts.hit_ratio() - whole.counts.hit_ratio();
        assert!(hits.abs() < 0.015, "{}: {hits}", scheme.name());
        let writes = share.drive_writes / whole.drive_writes;
        assert!((writes - 1.0).abs() < 0.06, "{}: {writes}", scheme.name());
    }
}

#[test]
fn inserts_and_latest_ask_for_what_is_new() {
    let latest =
        run(Scheme::Dida, "keys=800k value=300 gets=90 inserts=10 latest=0.99", 1.0, 200_000);
    let uniform = run(Scheme::Dida, "keys=800k value=300 gets=90 inserts=10 uniform", 1.0, 200_000);
    let (latest, uniform) = (latest.counts.hit_ratio(), uniform.counts.hit_ratio());
    assert!(latest > 0.75 && latest > uniform + 0.3, "{latest} {uniform}");
}

#[test]
fn a_trace_is_asked_as_it_was_recorded() {
    // a is put, found, deleted, missed and so put, which its next line is; b is never put.
    let lines = "0 put a 100\n10 get a\n20 delete a\n30 get a\n40 put a 100\n50 get a\n\
                 1000000 scan a 5\n2000000 get b\n";
    let (operations, seconds) = read(lines).unwrap();
    assert_eq!((operations.recorded_count(), seconds), (Some(7), 2.0));
    assert_eq!((operations.keys(), operations.item_bytes_max()), (3, 125));
    let shape = drive().shape(1.0, 125).unwrap();
    let count = |fills: bool| {
        let plan = Plan { settle: 0, requests: 100, fills, rate: None };
        let found = run_cache(Scheme::Dida, &shape, &operations, &plan, &mut |_, _| {}).unwrap();
        assert_eq!(found.operations, 7);
        (found.counts.gets, found.counts.hits, found.counts.sets)
    };
    assert_eq!(count(true), (4, 2, 3));
    assert_eq!(count(false), (4, 2, 2));
    for lines in ["", "0 scan a 5\n", "0 get a\n"] {
        let error = read(lines).unwrap_err().to_string();
        assert!(error.contains("value=BYTES"), "{lines:?}: {error}");
    }
}

#[test]
fn what_cannot_be_has_an_error_that_names_the_fix() {
    let shape = |bytes, scale, item| FlashDrive { bytes, ..drive() }.shape(scale, item);
    let refused = |error: String, words: &str| assert!(error.contains(words), "{error}");
    refused(shape(Some(8 << 20), 1.0, 1).unwrap_err().to_string(), "--flash-size 32MiB");
    refused(shape(Some(1 << 30), 1.0, 1).unwrap_err().to_string(), "--flash-size less");
    refused(shape(None, 2.0, 1).unwrap_err().to_string(), "scale");
    refused(shape(None, 1.0, 1 << 20).unwrap_err().to_string(), "do not fit");
    let drawn = |words| Operations::drawn(&workload(words), 1.0, 10, 1).unwrap_err().to_string();
    refused(drawn("gets=90 scans=10"), "leave out the scans");
    refused(drawn("keys=9G gets=100"), "--scale");
    refused(drawn("value=2MiB gets=100"), "1 MiB");
    refused("tape".parse::<Scheme>().unwrap_err().to_string(), "fatcache-kick");
    assert!(Scheme::ALL.iter().all(|(name, scheme)| scheme.name() == *name));
}

fn lab(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_silica-lab"));
    command.args(["flash", "simulate"]).args(arguments).env_remove("RUST_LOG");
    command.output().unwrap()
}

#[test]
fn the_verb_shows_a_row_for_each_scheme() {
    let words = "keys=20k value=300 gets=80 puts=20 zipf=0.9 rate=1000";
    let small = ["--geometry", "4x2x8x16x16KiB", "--endurance", "1000", "--describe", words];
    let output =
        lab(&[&small[..], &["--json", "--scheme", "dida,dida-space,fatcache-kick"]].concat());
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = object["schemes"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["scheme"].as_str().unwrap()).collect();
    assert_eq!(names, ["dida", "dida-space", "fatcache-kick"]);
    for row in rows {
        assert!(row["hit_ratio"].as_f64().unwrap() > 0.5, "{row}");
        assert!(row["write_amplification"].as_f64().unwrap() > 1.0, "{row}");
        assert!(row["years"].as_f64().unwrap() > 0.0, "{row}");
    }
    let text = String::from_utf8(lab(&small).stdout).unwrap();
    assert!(text.contains("\ndida ") && text.contains("\nfatcache "), "{text}");

    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("t");
    let lines: String = (0..4000).map(|n| format!("{n} put k{} 900\n", n % 1999)).collect();
    std::fs::write(&trace, format!("silica-trace 1\n{lines}")).unwrap();
    let output = lab(&["--trace", trace.to_str().unwrap(), "--profile", "small", "--json"]);
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["schemes"][0]["operations"], 2000, "{object}");
    assert!((object["rate"].as_f64().unwrap() / 1e6 - 1.0).abs() < 0.01, "{object}");

    let output = lab(&["--profile", "tape", "--describe", words]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&lab(&[]).stderr).contains("--trace FILE"));
}
