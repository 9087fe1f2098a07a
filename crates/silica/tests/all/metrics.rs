//! What engines report is listed: by their spec, or among what engines have in common.

use silica::Registry;
use silica::engine::COMMON_METRICS;
use std::collections::BTreeSet;

#[test]
fn every_engine_reports_what_its_spec_lists() {
    let directory = tempfile::tempdir().unwrap();
    let store = silica::open(directory.path()).unwrap();
    let kinds: [(&str, &[(&str, &str)]); 6] = [
        ("wip", &[]),
        ("silt", &[]),
        ("mica", &[]),
        ("mica", &[("eviction", "none")]),
        ("turbo", &[]),
        ("sptree", &[]),
    ];
    let mut seen = BTreeSet::new();
    for (number, (engine, options)) in kinds.into_iter().enumerate() {
        let spec = *Registry::builtin().find(engine).unwrap();
        let keyspace = store.create_keyspace(&format!("k{number}"), engine, options).unwrap();
        keyspace.put("key", "value").unwrap();
        keyspace.get("key").unwrap();
        let listed: BTreeSet<&str> =
            COMMON_METRICS.iter().chain(spec.metrics).map(|metric| metric.name).collect();
        let reported = keyspace.metrics().unwrap().0;
        assert!(reported.len() > 10, "{engine}: {reported:?}");
        let unlisted: Vec<_> = reported.keys().filter(|name| !listed.contains(*name)).collect();
        assert!(unlisted.is_empty(), "{engine} reports {unlisted:?}");
        seen.extend(reported.into_keys());
    }
    store.close().unwrap();
    let flash = silica::FlashCacheOptions { flash_bytes: Some(64 << 20), ..Default::default() };
    let options = silica::OpenOptions::new().memory_bytes(48 << 20);
    let elsewhere = tempfile::tempdir().unwrap();
    let cache = options.open_flash_cache(elsewhere.path(), &flash).unwrap();
    let mut reported = silica::MetricsMap::default();
    cache.metrics(&mut reported);
    seen.extend(reported.0.into_keys());
    let all = silica::metrics();
    let names: BTreeSet<&str> = all.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), all.len(), "a name stands twice");
    let unseen: Vec<_> = names.difference(&seen).collect();
    assert!(unseen.is_empty(), "nobody reports {unseen:?}");
    assert!(names.iter().all(|n| n.chars().all(|c| c.is_ascii_lowercase() || c == '_')));
}
