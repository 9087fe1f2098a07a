//! The system is told how long each file will stay: logs, young tables, the oldest tables.

use crate::small;
use silica_base::{HashSeed, Prng};
use silica_device::sim::{SimDevice, SimOptions};
use silica_device::{Device, Lifetime};
use silica_engine::{Budget, Durability, Engine, EngineExt, Environment, MetricsMap};
use silica_wip::Wip;
use std::collections::BTreeSet;

const VALUES_APART: [(&str, u64); 2] =
    [("inline_value_bytes_max", 200), ("value_log_segment_bytes", 64 << 10)];

fn open(device: &SimDevice) -> Wip<SimDevice> {
    let environment = Environment::new(HashSeed([3; 16]));
    Wip::open(device.clone(), &small::options(&VALUES_APART), &environment).expect("it opens")
}

/// Fills a store. Returns the lifetimes of the files whose names begin so, seen on the way.
fn seen(device: &SimDevice, wip: &Wip<SimDevice>, prefix: &str) -> BTreeSet<Option<Lifetime>> {
    let mut prng = Prng::new(9);
    let mut seen = BTreeSet::new();
    for step in 0..6000_u64 {
        let key = prng.below(3000).to_be_bytes();
        let value = vec![step as u8; if prng.one_in(20) { 300 } else { 60 }];
        wip.put(&key, &value, Durability::Buffered).expect("a put");
        if step.is_multiple_of(100) {
            while wip.maintain(Budget::of(1 << 20)).expect("maintenance").more {}
            let names = device.list().expect("names");
            let names = names.iter().filter(|name| name.starts_with(prefix));
            seen.extend(names.map(|name| device.lifetime_of(name)));
        }
    }
    seen
}

fn metrics(wip: &Wip<SimDevice>) -> [f64; 4] {
    let mut map = MetricsMap::default();
    wip.metrics(&mut map);
    [
        "write_lifetimes",
        "short_lived_bytes_written",
        "medium_lived_bytes_written",
        "long_lived_bytes_written",
    ]
    .map(|name| map.get(name))
}

#[test]
fn logs_young_tables_and_the_oldest_ones_have_a_lifetime_each() {
    for (prefix, expected) in [
        ("LOG-", vec![Some(Lifetime::Short)]),
        ("TABLE-", vec![Some(Lifetime::Medium), Some(Lifetime::Long)]),
        ("VALUE-", vec![Some(Lifetime::Long)]),
        ("MANIFEST-", vec![None]),
    ] {
        let device = SimDevice::new(1, SimOptions::default());
        let wip = open(&device);
        assert_eq!(seen(&device, &wip, prefix), BTreeSet::from_iter(expected), "{prefix}");
        let [lifetimes, short, medium, long] = metrics(&wip);
        assert_eq!(lifetimes, 3.0);
        assert!(short > 0.0 && medium > 0.0 && long > 0.0, "{short} {medium} {long}");
        let counted = device.counters().snapshot();
        // The rest is the manifest's and the like.
        let rest = counted.bytes_written as f64 - short - medium - long;
        assert!(rest > 0.0 && rest < 0.2 * counted.bytes_written as f64, "{rest} {counted:?}");
    }
}

#[test]
fn a_system_that_does_not_listen_gets_the_same_files() {
    let written = [true, false].map(|listens| {
        let device = SimDevice::new(1, SimOptions::default());
        if !listens {
            device.refuse_lifetimes();
        }
        let wip = open(&device);
        let is_told = seen(&device, &wip, "TABLE-").contains(&Some(Lifetime::Long));
        assert_eq!(is_told, listens);
        assert_eq!(metrics(&wip)[0] > 0.0, listens);
        assert_eq!(metrics(&wip)[3] > 0.0, listens);
        let names = device.list().expect("names");
        let files = names.iter().map(|name| (name.clone(), device.peek(name)));
        (files.collect::<Vec<_>>(), device.counters().snapshot().bytes_written)
    });
    assert!(written[0] == written[1]);
}
