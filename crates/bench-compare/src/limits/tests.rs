use super::*;

/// Every limit is measured, or says in one line why it cannot be, and what would help.
#[test]
fn every_limit_gives_positive_figures() {
    // Less than fio needs.
    let seconds = 0.05;
    for limit in all() {
        if let Err(absent) = limit.version() {
            assert!(absent.kind() == ErrorKind::Unsupported, "{}: {absent}", limit.name());
            assert!(absent.to_string().len() > 40, "{}: {absent}", limit.name());
            eprintln!("{} is not on this machine: {absent}", limit.name());
            continue;
        }
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().to_path_buf();
        let setup = LimitSetup { directory, bytes: 4 << 20, seconds, threads: 1 };
        let readings = limit.measure(&setup).unwrap_or_else(|e| panic!("{}: {e}", limit.name()));
        assert!(!readings.is_empty(), "{}", limit.name());
        for Reading { metric, unit, value } in &readings {
            eprintln!("{}{} {metric} {value:.1} {unit}", LIMIT_PREFIX, limit.name());
            let is_share = unit == "%";
            assert!(value.is_finite() && (is_share || *value > 0.0), "{metric}: {value}");
        }
        // Those of the device are measured twice where there is time for fio.
        let rates = readings.iter().filter(|r| r.unit.ends_with("/s")).count();
        let is_device = limit.name().starts_with("device");
        assert_eq!(limit.figures(), rates * if is_device { 2 } else { 1 }, "{}", limit.name());
        let mut metrics: Vec<_> = readings.iter().map(|reading| &reading.metric).collect();
        metrics.sort();
        metrics.dedup();
        assert_eq!(metrics.len(), readings.len(), "{}: a metric twice", limit.name());
        assert_eq!(std::fs::read_dir(&setup.directory).unwrap().count(), 0, "{}", limit.name());
    }
}

#[test]
fn limits_are_found_by_name_with_and_without_the_prefix() {
    for limit in all() {
        assert_eq!(find(limit.name()).unwrap().name(), limit.name());
        assert_eq!(find(&format!("limit:{}", limit.name())).unwrap().name(), limit.name());
        assert!(!limit.doc().is_empty());
    }
    let text = find("light").err().unwrap().to_string();
    assert!(text.contains("device-reads") && text.contains("echo-unix"), "{text}");
}

/// Two threads get more lines out of memory than the chain of one does.
#[test]
fn threads_are_counted_together() {
    let directory = std::env::temp_dir();
    let setup = LimitSetup { directory, bytes: 1 << 20, seconds: 0.01, threads: 2 };
    let readings = find("memory-lines").unwrap().measure(&setup).unwrap();
    let value = |name: &str| readings.iter().find(|r| r.metric == name).unwrap().value;
    let (latency, chain) = (value("latency_4k"), value("chain_4k"));
    assert!((latency * chain / 2e9 - 1.0).abs() < 1e-6, "{latency} {chain}");
}

/// What stands beside a workload that is measured in rounds goes round with it.
#[test]
fn limits_beside_workloads_are_measured_in_slices() {
    let slice = Duration::from_millis(20);
    for suite in crate::suite::SUITES {
        for (name, metric) in suite.lines.iter().flat_map(|line| line.limits) {
            let limit = find(name).unwrap();
            if limit.version().is_err() {
                continue;
            }
            assert!(limit.has_probe(metric), "{name} {metric}");
            let directory = tempfile::tempdir().unwrap();
            let directory = directory.path().to_path_buf();
            let setup = LimitSetup { directory, bytes: 1 << 20, seconds: 0.1, threads: 1 };
            let mut probe = limit.probe(&setup, metric).unwrap();
            assert!(probe.slice(slice).unwrap() > 0.0, "{name} {metric}");
            assert!(!limit.has_probe("nonsense") && limit.probe(&setup, "nonsense").is_err());
        }
    }
}
