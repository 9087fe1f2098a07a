//! Repairs: what is intact stays, what is lost is said, and nothing is written over.

use crate::small;
use silica_base::{HashSeed, Prng};
use silica_device::sim::{SimDevice, SimOptions};
use silica_device::{Device, DeviceFile, Mode};
use silica_engine::{Budget, Durability, Engine, EngineExt, Environment, ErrorKind, Repaired};
use silica_testkit::Image;
use silica_wip::{Wip, repair};
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn environment() -> Environment {
    Environment::new(HashSeed([5; 16]))
}

fn open(device: &SimDevice) -> Wip<SimDevice> {
    Wip::open(device.clone(), &small::options(&[("split_buckets", 3)]), &environment())
        .expect("it opens")
}

/// A store whose entries are in the log and in tables of several buckets.
fn filled() -> (SimDevice, Model) {
    let device = SimDevice::new(1, SimOptions::default());
    let wip = open(&device);
    let (mut model, mut prng) = (Model::new(), Prng::new(4));
    for n in 0..4000u64 {
        let key = prng.below(2000).to_be_bytes().to_vec();
        if prng.one_in(8) {
            wip.delete(&key, Durability::Buffered).expect("a delete");
            model.remove(&key);
        } else {
            let value = n.to_le_bytes().repeat(5);
            wip.put(&key, &value, Durability::Buffered).expect("a put");
            model.insert(key, value);
        }
        if n % 100 == 0 {
            while wip.maintain(Budget::of(1 << 20)).expect("maintenance").more {}
        }
    }
    drop(wip);
    (device, model)
}

fn image(device: &SimDevice) -> Image {
    let names = device.list().expect("names");
    names.iter().map(|name| (name.clone(), device.peek(name).expect("a file"))).collect()
}

/// A device with the files of `image`, but with another content of `name`.
fn with(image: &Image, name: &str, bytes: &[u8]) -> SimDevice {
    let device = SimDevice::new(2, SimOptions::default());
    for (each, usual) in image {
        let file = device.create(each, Mode::Buffered).expect("created");
        file.write_at(0, if each == name { bytes } else { usual }).expect("written");
        file.sync().expect("synced");
    }
    device.sync_dir().expect("synced");
    device
}

fn repaired(device: &SimDevice) -> Repaired {
    repair(device.clone(), &small::options(&[("split_buckets", 3)]), &environment())
        .expect("a repair")
}

/// What is there after a repair: how many entries are as they were, and how many are not there.
/// Nothing else may be.
fn compare(device: &SimDevice, model: &Model) -> (usize, usize) {
    let wip = open(device);
    wip.verify().expect("every invariant");
    let (mut same, mut lost) = (0, 0);
    for (key, value) in model {
        match wip.get(key).expect("a get") {
            Some(found) if found == *value => same += 1,
            _ => lost += 1,
        }
    }
    wip.put(b"more", b"1", Durability::Synced).expect("it goes on");
    (same, lost)
}

#[test]
fn a_store_that_is_well_stays_as_it_is() {
    let (device, model) = filled();
    let done = repaired(&device);
    assert_eq!(done, Repaired { entries: model.len() as u64, ..Repaired::default() });
    assert_eq!(compare(&device, &model), (model.len(), 0));
}

#[test]
fn damage_anywhere_costs_what_it_hit_and_no_more() {
    let (device, model) = filled();
    let image = image(&device);
    for (name, bytes) in &image {
        for share in [0, 3, 5, 7, 9] {
            let at = (bytes.len() - 1) * share / 9;
            let mut other = bytes.clone();
            other[at] ^= 0x10;
            let device = with(&image, name, &other);
            let done = repaired(&device);
            let (same, lost) = compare(&device, &model);
            assert!(same > model.len() / 4, "{name} at {at}: {same} left, {done:?}");
            let Some(aside) = &done.aside else {
                assert_eq!(lost, 0, "{name} at {at}: nothing was found");
                continue;
            };
            assert!(!done.findings.is_empty() && done.entries >= same as u64, "{done:?}");
            // What was there is there as it was.
            let kept = device.subdirectory(aside).expect("a directory");
            assert_eq!(kept.peek(name).expect("the damaged file"), other, "{name} at {at}");
            let is_in_a_block = name.starts_with("TABLE") && share < 7;
            if is_in_a_block && done.findings.iter().all(|what| !what.contains("as a whole")) {
                assert!(lost < 300, "{name} at {at}: {lost} of {} lost, {done:?}", model.len());
            }
        }
    }
}

#[test]
fn without_a_manifest_tables_and_log_give_the_entries_back() {
    let (device, model) = filled();
    let image = image(&device);
    let manifest = image.keys().find(|name| name.starts_with("MANIFEST")).expect("one");
    let device = with(&image, manifest, &[]);
    let error = Wip::open(device.clone(), &small::options(&[("split_buckets", 3)]), &environment())
        .map(drop)
        .expect_err("cut");
    assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
    let done = repaired(&device);
    assert!(done.findings.iter().any(|what| what.contains("older value")), "{done:?}");
    let (same, _) = compare(&device, &model);
    assert!(same > model.len() * 9 / 10, "{same} of {}: {done:?}", model.len());
}
