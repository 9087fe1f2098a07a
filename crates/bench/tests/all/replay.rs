//! Traces on stores: answers, order, times, errors.

use silica::{
    Engine, EngineSpec, Environment, FileDevice, OpenOptions, OptionValues, Registry, Result,
};
use silica_bench::{Config, Event, Plan, Report, TraceKind, TraceWriter, run_trace};
use silica_testkit::Reference;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

fn build(_: FileDevice, _: &OptionValues, _: &Environment) -> Result<Arc<dyn Engine>> {
    Ok(Arc::new(Reference::new()))
}

/// A directory that goes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("silica-replay-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn trace(&self, text: &str) -> PathBuf {
        let path = self.0.join("trace");
        std::fs::write(&path, text).unwrap();
        path
    }

    fn config(&self, threads: usize, batch: usize) -> Config {
        let reference = EngineSpec::new("reference", "", &[], build);
        Config {
            plan: Plan { threads, batch, ..Plan::of_trace(0) },
            path: Some(self.0.join(format!("store-{threads}-{batch}"))),
            cold: false,
            settle: false,
            sql: None,
            open: OpenOptions::new()
                .engine("reference")
                .registry(Registry::empty().with(reference)),
        }
    }

    fn run(&self, threads: usize, batch: usize, trace: &Path, timed: bool) -> Result<Report> {
        run_trace(&self.config(threads, batch), trace, timed, &mut |_, _| {})
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Puts and gets of keys that repeat, so that the order on a key matters.
fn many(operations: u64) -> String {
    let mut writer = TraceWriter::new(Vec::new()).unwrap();
    for i in 0..operations {
        let key = format!("key {}", i * 7 % 100);
        let kind = match i % 3 {
            0 => TraceKind::Put { value_bytes: (i * 31 % 300) as usize },
            _ if i % 50 == 49 => TraceKind::Delete,
            _ => TraceKind::Get,
        };
        let time = Duration::from_micros(i);
        writer.record(&Event { time, kind, key: key.as_bytes() }).unwrap();
    }
    String::from_utf8(writer.finish().unwrap()).unwrap()
}

#[test]
fn a_replay_answers_alike_whatever_its_threads_and_batches() {
    let scratch = Scratch::new("alike");
    let trace = scratch.trace(&many(20_000));
    let mut hits = Vec::new();
    for (threads, batch) in [(1, 1), (1, 16), (3, 1), (2, 8)] {
        let report = scratch.run(threads, batch, &trace, false).unwrap();
        assert_eq!((report.operations, report.workload.as_str()), (20_000, "replay"));
        assert_eq!(report.puts, 6667);
        assert!(report.deletes > 100 && report.key_bytes == 6, "{report:?}");
        assert!((140..160).contains(&report.value_bytes), "{}", report.value_bytes);
        hits.push((report.hits, report.result_hash));
    }
    assert!(hits[0].0 > 10_000);
    assert!(hits.iter().all(|h| h.0 == hits[0].0), "{hits:?}");
    // Values say which thread put them in which turn, so only batches leave the fingerprint.
    assert_eq!(hits[0].1, hits[1].1);
}

#[test]
fn times_are_kept_and_what_is_late_is_done_late() {
    let scratch = Scratch::new("timed");
    let lines: String =
        (0..200).map(|i| format!("{} put k{i} 10\n", if i < 100 { 0 } else { 300_000 })).collect();
    let trace = scratch.trace(&format!("silica-trace 1\n{lines}"));
    let timed = scratch.run(1, 1, &trace, true).unwrap();
    assert_eq!(timed.operations, 200);
    assert!(timed.wall_seconds >= 0.3, "{}", timed.wall_seconds);
    assert_eq!(scratch.run(2, 1, &trace, true).unwrap().operations, 200);
    // A busy machine may hold one of them up.
    let fast = |_| scratch.run(1, 2, &trace, false).unwrap().wall_seconds < 0.3;
    assert!((0..10).any(fast));
}

#[test]
fn errors_name_the_line_and_what_is_missing() {
    let scratch = Scratch::new("errors");
    let garbled = scratch.trace("silica-trace 1\n1 put k 5\n2 git k\n");
    let error = scratch.run(1, 1, &garbled, false).unwrap_err().to_string();
    assert!(error.contains("line 3"), "{error}");
    let scan = scratch.trace("silica-trace 1\n1 scan k 5\n");
    assert_eq!(scratch.run(1, 1, &scan, false).unwrap().operations, 1);
    let mut hashed = scratch.config(1, 1);
    (hashed.open, hashed.path) = (OpenOptions::new().engine("silt"), Some(scratch.0.join("silt")));
    let error = run_trace(&hashed, &scan, false, &mut |_, _| {}).unwrap_err().to_string();
    assert!(error.contains("line 2: this store does not scan"), "{error}");
    let missing = scratch.run(1, 1, Path::new("/no/such.trace"), false).unwrap_err().to_string();
    assert!(missing.contains("/no/such.trace"), "{missing}");
    let twice = "silica-trace 1\n1 put k 5\n2 get k\n3 get l\n";
    let report = scratch.run(1, 1, &scratch.trace(twice), false).unwrap();
    assert_eq!((report.reads, report.hits), (2, 1));
}
