//! The tuner's models of TurboHash and SPTree, held against the engines on simulated memory.

use silica_base::test_size;
use silica_engine::OptionValues;
use silica_lab::figures::{Row, pmem};
use silica_tune::recommend::{Candidate, Media, Needs, Question, predict};
use silica_tune::{Machine, Sizes, Workload};

const CANDIDATES: [Candidate; 2] = [
    Candidate { engine: "turbo", options: silica_pmem::turbo::OPTIONS },
    Candidate { engine: "sptree", options: silica_pmem::sptree::OPTIONS },
];

fn predicted(engine: &str, bytes: f64, options: &[(&str, u64)]) -> Media {
    let mut workload = Workload { keys: 1_000_000, ..Workload::default() };
    workload.key_bytes = Sizes::constant(bytes);
    workload.value_bytes = Sizes::constant(bytes);
    workload.memory_bytes = 1 << 30;
    let machine = Machine::default();
    let needs = Needs::of(&workload);
    let question = Question::new(&workload, &machine, needs, &CANDIDATES);
    let mut values = OptionValues::default();
    for (name, value) in options {
        values.set(name, *value);
    }
    predict(&question, engine, &values).expect("a prediction").cost.media
}

fn measured(rows: &[Row], scheme: &str, metric: &str) -> f64 {
    let is_it = |row: &&Row| row.scheme == scheme && row.metric.ends_with(metric);
    rows.iter().find(is_it).unwrap_or_else(|| panic!("{scheme}: {metric}")).value
}

/// Within a twentieth, and a few bytes where nearly nothing is read.
fn assert_near(what: &str, predicted: f64, measured: f64) {
    let apart = (predicted - measured).abs();
    assert!(
        apart <= 0.05 * measured + 4.0,
        "{what}: {predicted:.1} bytes of the medium predicted, {measured:.1} found"
    );
}

#[test]
fn media_volume_is_as_predicted() {
    let scale = test_size(50, 50, 1000) as f64 / 1000.0;
    let rows = pmem::rows(pmem::Of::Both, scale, 1, &mut |_, _| ()).expect("simulated");
    type Case = (&'static str, &'static str, f64, &'static [(&'static str, u64)]);
    let cases: [Case; 6] = [
        ("turbo", "TURBO16", 8.0, &[]),
        ("turbo", "TURBO30", 15.0, &[]),
        ("sptree", "sptree", 8.0, &[]),
        ("sptree", "sptree-B", 8.0, &[("buffers", 100)]),
        ("sptree", "sptree-BO", 8.0, &[("buffers", 100), ("merge", 1)]),
        ("sptree", "sptree-B of half of the leaves", 8.0, &[("buffers", 50)]),
    ];
    for (engine, scheme, bytes, options) in cases {
        let media = predicted(engine, bytes, options);
        for (metric, value) in [
            ("written for each insert", media.insert),
            ("written for each update", media.overwrite),
            ("read for each positive read", media.hit),
            ("read for each negative read", media.miss),
        ] {
            assert_near(&format!("{scheme}, {metric}"), value, measured(&rows, scheme, metric));
        }
    }
    // The paper's tree writes a third with buffers, its case study's a quarter.
    let plain = measured(&rows, "sptree", "written for each insert");
    let buffered = measured(&rows, "sptree-B", "written for each insert");
    assert!(plain / buffered >= 3.0, "{plain:.0} bytes an insert, {buffered:.0} with buffers");
}
