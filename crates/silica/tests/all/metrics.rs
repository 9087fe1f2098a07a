//! What engines report is listed: by their spec, or among what engines have in common.

use silica::Registry;
use silica::engine::COMMON_METRICS;
use std::collections::BTreeSet;

#[test]
fn every_engine_reports_what_its_spec_lists() {
    let directory = tempfile::tempdir().unwrap();
    let store = silica::open(directory.path()).unwrap();
    let mut own = BTreeSet::new();
    for name in ["wip", "silt", "mica"] {
        let spec = *Registry::builtin().find(name).unwrap();
        let keyspace = store.create_keyspace(name, name, &[]).unwrap();
        keyspace.put("key", "value").unwrap();
        keyspace.get("key").unwrap();
        let listed: BTreeSet<&str> =
            COMMON_METRICS.iter().chain(spec.metrics).map(|metric| metric.name).collect();
        let reported = keyspace.metrics().unwrap().0;
        assert!(reported.len() > 10, "{name}: {reported:?}");
        let unlisted: Vec<_> = reported.keys().filter(|name| !listed.contains(*name)).collect();
        assert!(unlisted.is_empty(), "{name} reports {unlisted:?}");
        for metric in spec.metrics {
            assert!(reported.contains_key(metric.name), "{name} never reports {}", metric.name);
            own.insert(metric.name);
        }
    }
    store.close().unwrap();
    let all = silica::metrics();
    let names: BTreeSet<&str> = all.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), all.len(), "a name stands twice");
    assert_eq!(names.len(), COMMON_METRICS.len() + own.len());
    assert!(names.iter().all(|n| n.chars().all(|c| c.is_ascii_lowercase() || c == '_')));
}
