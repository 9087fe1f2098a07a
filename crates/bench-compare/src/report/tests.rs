//! The page of a small run has what people look for.

use super::*;
use crate::results::{Curve, Machine, MemorySample, Ratio, SettingInfo, Timeline};

fn row(store: &str, metric: &str, median: f64) -> Row {
    Row {
        suite: "flash".into(),
        workload: "readrandom".into(),
        store: store.into(),
        threads: 1,
        metric: metric.into(),
        unit: "1/s".into(),
        median,
        low: median * 0.9,
        high: median * 1.1,
        runs: 3,
    }
}

fn store(name: &str, ours: bool) -> StoreInfo {
    let why = "half for writes & half for <reads>";
    let setting = SettingInfo { name: "cache".into(), value: "64".into(), why: why.into() };
    StoreInfo {
        name: name.into(),
        doc: "a store".into(),
        class: "embedded".into(),
        ours,
        version: "7.8.3".into(),
        settings: vec![setting],
    }
}

fn results() -> Results {
    let mut results = Results::default();
    results.environment.machine = Machine { cpu: "a processor".into(), ..Machine::default() };
    results.environment.stores = vec![store("silica:silt", true), store("rocksdb", false)];
    results.environment.missing.push(Remark {
        suite: String::new(),
        workload: String::new(),
        store: "leveldb".into(),
        text: "install libleveldb1d".into(),
    });
    results.workloads.push(WorkloadInfo {
        suite: "flash".into(),
        name: "readrandom".into(),
        doc: "gets existing keys".into(),
        paper: "SILT, Figure 9".into(),
        keys: 1000,
        operations: 2000,
        key_bytes: 16,
        value_bytes: 100,
        threads: 1,
        memory_bytes: 64 << 20,
        durability: "buffered".into(),
        distribution: "uniform".into(),
        batch: 1,
        rate: 0,
        cold: true,
        limits: vec![("limit:device-reads".into(), "depth_1".into())],
    });
    results.rows = vec![
        row("silica:silt", THROUGHPUT, 17_000.0),
        row("rocksdb", THROUGHPUT, 9_000.0),
        row("limit:device-reads", "depth_1", 19_000.0),
        row("silica:silt", "write_amplification", 5.4),
        row("silica:silt", "write_amplification_predicted", 5.6),
    ];
    results.ratios.push(Ratio {
        suite: "flash".into(),
        workload: "readrandom".into(),
        metric: THROUGHPUT.into(),
        store: "silica:silt".into(),
        peer: "rocksdb".into(),
        median: Some(1.9),
        low: 1.8,
        high: 2.0,
        runs: 3,
        text: "1.9 (1.8-2.0)".into(),
    });
    let place = |store: &str| ("flash".to_string(), "readrandom".to_string(), store.to_string());
    let (suite, workload, store) = place("silica:silt");
    let points = vec![(0.5, 50.0), (0.99, 90.0), (0.999, 400.0)];
    results.curves.push(Curve { suite, workload, store, points });
    let (suite, workload, store) = place("rocksdb");
    let sample =
        |seconds, rss_bytes| MemorySample { seconds, rss_bytes, index_bytes: 0.0, puts: 0.0 };
    let samples = vec![sample(0.0, 1e6), sample(1.0, 2e6)];
    results.timelines.push(Timeline { suite, workload, store, samples });
    results
}

#[test]
fn a_page_shows_ratios_charts_limits_and_what_is_missing() {
    let page = page(&results()).unwrap();
    assert_eq!(page.matches("<svg").count(), 4, "bars, latencies, memory, predictions");
    for words in [
        "<span class=\"ahead\">1.9<br><small>1.8-2.0</small></span>",
        "SILT, Figure 9",
        "limit:device-reads depth_1",
        "install libleveldb1d",
        "half for writes &amp; half for &lt;reads&gt;",
        "readrandom predicted",
        "a processor",
    ] {
        assert!(page.contains(words), "{words}");
    }
    // Axes have titles, and a store its own colour.
    for word in ["operations a second", "quantile", "microseconds", "seconds", "MiB", "#E69F00"] {
        assert!(page.contains(word), "{word}");
    }
    for foreign in ["http://", "https://", "<script"] {
        let own = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!own.contains(foreign), "{foreign}: the page must stand alone");
    }
}

#[test]
fn a_ratio_without_a_sign_is_neither_ahead_nor_behind() {
    let mut results = results();
    results.ratios[0].median = None;
    results.ratios[0].text = "no difference shown (0.9-1.1)".into();
    let page = page(&results).unwrap();
    assert!(page.contains("<span class=\"open\">no difference<br><small>0.9-1.1</small>"));
    assert!(!page.contains("class=\"ahead\""));
}

#[test]
fn an_empty_interrupted_run_gives_a_page_that_says_so() {
    let page = page(&Results { interrupted: true, ..Results::default() }).unwrap();
    assert!(page.contains("interrupted") && page.ends_with("</body></html>\n"));
}
