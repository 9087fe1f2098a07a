//! The conformance suite: with flash for everything nothing is forgotten, with little flash nothing
//! is forgotten that is not counted.

use crate::support::{DidaHarness, geometry, metric, put, seed};
use silica_base::test_size;
use silica_testkit::{self as testkit, Harness, Workload};

/// Flash for everything that a test writes.
fn large() -> DidaHarness {
    DidaHarness::new(geometry(400)).set("memory_bytes", 2 << 20)
}

/// So little flash that slabs are dropped and emptied all the time.
fn tiny() -> DidaHarness {
    DidaHarness::new(geometry(4)).with(|w| {
        w.keys = 600;
        w.value_bytes_max = 300;
    })
}

#[test]
fn basics() {
    testkit::basics(&mut large());
}

#[test]
fn differential_with_flash_enough() {
    let operations = test_size(5_000, 20_000, 50_000);
    testkit::differential(&mut large(), seed(1), operations);
}

#[test]
fn differential_with_little_flash() {
    let operations = test_size(3_000, 50_000, 5_000_000);
    for over_provisioning in 0..3 {
        let harness = tiny().set("over_provisioning", over_provisioning);
        testkit::differential(&mut { harness }, seed(10 + over_provisioning), operations);
    }
    for collection in 1..3 {
        let harness = tiny().set("collection", collection);
        testkit::differential(&mut { harness }, seed(20 + collection), operations);
    }
    let few_slots = tiny().set("memory_bytes", 64 << 10);
    testkit::differential(&mut { few_slots }, seed(30), operations);
}

#[test]
fn iteration() {
    testkit::iteration(&mut large(), seed(1), 1000);
    testkit::iteration(&mut tiny(), seed(2), 60);
}

#[test]
fn reopen() {
    testkit::reopen(&mut large(), seed(1), test_size(4, 20, 200));
}

#[test]
fn concurrent_readers() {
    let writes = test_size(3_000, 30_000, 5_000_000);
    let equal = |w: &mut Workload| w.value_bytes_max = 1;
    testkit::concurrent_readers(&mut tiny().with(equal), seed(1), 2, writes);
    testkit::concurrent_readers(&mut large(), seed(2), 2, test_size(3_000, 20_000, 50_000));
}

#[test]
fn concurrent_updates() {
    testkit::concurrent_updates(&mut large(), seed(1), 3, test_size(1_000, 10_000, 100_000));
}

#[test]
fn batches_amid_readers() {
    testkit::published_batches(&mut large(), seed(1), 2, test_size(50, 200, 10_000));
}

#[test]
fn linearizable() {
    testkit::linearizable(&mut large(), seed(1), test_size(200, 5_000, 50_000));
    testkit::linearizable(&mut tiny(), seed(2), test_size(200, 5_000, 50_000));
}

#[test]
fn expiry() {
    let mut harness = large();
    let clock = harness.clock.clone();
    testkit::expiry(&mut harness, &clock);
}

/// The tests above mean something only if things are evicted for every cause.
#[test]
fn little_flash_evicts_for_every_cause() {
    let mut harness = tiny().set("memory_bytes", 72 << 10);
    let cache = harness.open().expect("a cache");
    for n in 0..20_000_u32 {
        let key = if n % 2 == 0 { n % 100 } else { n };
        put(&cache, &key.to_le_bytes(), &vec![0; n as usize % 60]);
        if n % 500 == 0 {
            crate::support::maintain(&cache);
        }
    }
    let of = |name| metric(&cache, name);
    let (with_slabs, from_index) = (of("evictions_with_slabs"), of("evictions_from_index"));
    assert!(with_slabs > 100.0 && from_index > 20.0, "{with_slabs} {from_index}");
    let (dropped, emptied) = (of("slabs_dropped"), of("slabs_emptied"));
    assert!(dropped > 10.0 && emptied > 0.0, "{dropped} {emptied}");
}
