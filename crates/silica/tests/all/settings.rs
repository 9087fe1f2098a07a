//! Settings as text.

use silica::{Durability, ErrorKind, OpenOptions};

fn with(pairs: &[(&str, &str)]) -> silica::Result<OpenOptions> {
    let start = OpenOptions::new();
    pairs.iter().try_fold(start, |options, (name, text)| options.setting(name, text))
}

#[test]
fn they_are_those_of_the_methods() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let pairs = [
        ("memory_bytes", "8MiB"),
        ("engine", "silt"),
        ("durability", "buffered"),
        ("background_threads", "0"),
        ("background_bytes_per_second", "1MiB"),
        ("create", "yes"),
        ("partitions", "16"),
    ];
    let store = with(&pairs).unwrap().open(&path).unwrap();
    let keyspace = store.keyspace("k").unwrap();
    let metrics = keyspace.metrics().unwrap();
    assert_eq!(metrics.get("partitions"), 16.0);
    assert_eq!(metrics.get("memory_budget_bytes"), f64::from(8 << 20));
    assert_eq!(keyspace.durability(), Durability::Buffered);
    drop(keyspace);
    store.close().unwrap();
    let store = with(&[("read_only", "on")]).unwrap().open(&path).unwrap();
    let refused = store.keyspace("k").unwrap().put("a", "b").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ReadOnly);
    let missing = with(&[("create", "off")]).unwrap().open(directory.path().join("none"));
    assert_eq!(missing.err().unwrap().kind(), ErrorKind::NotFound);
}

#[test]
fn bad_ones_name_the_fix() {
    for (name, text, want) in [
        ("memory_bytes", "much", "such as 64MiB"),
        ("durability", "maybe", "buffered or synced"),
        ("read_only", "2", "true or false"),
        ("background_threads", "-1", "0 to 1024"),
    ] {
        let error = with(&[(name, text)]).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains(want), "{error}");
    }
    let directory = tempfile::tempdir().unwrap();
    let strange = with(&[("filter_bitz", "1")]).unwrap().open(directory.path());
    let error = strange.err().unwrap();
    assert!(error.to_string().contains("did you mean 'filter_bits'?"), "{error}");
}

#[test]
fn every_name_is_known_to_the_method() {
    for name in OpenOptions::SETTINGS {
        // None of them goes to the engines, which would refuse it at the opening.
        let taken = ["1", "on", "buffered", "64KiB"]
            .iter()
            .find_map(|text| OpenOptions::new().setting(name, text).ok());
        let opened = taken.expect("one of the values fits").open("/dev/null/none");
        let error = opened.err().expect("no directory can be there").to_string();
        assert!(!error.contains("no option"), "{name}: {error}");
    }
}
