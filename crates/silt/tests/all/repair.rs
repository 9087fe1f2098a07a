//! Repairs: what is intact stays, what is lost is said, and nothing is written over.

use silica_base::{HashSeed, Prng};
use silica_device::sim::{SimDevice, SimOptions};
use silica_device::{Device, DeviceFile, Mode};
use silica_engine::{
    Budget, Durability, Engine, EngineExt, Environment, Loss, OptionValues, Repaired,
};
use silica_silt::{Silt, repair};
use silica_testkit::Image;
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Limits at which a few thousand entries fill stores of every kind.
fn options() -> OptionValues {
    let mut options = OptionValues::default();
    let limits = [
        ("memory_bytes", 1 << 20),
        ("log_bytes_max", 32 << 10),
        ("segment_bytes", 8 << 10),
        ("partitions", 2),
        ("inline_value_bytes_max", 100),
        ("value_log_segment_bytes", 16 << 10),
    ];
    for (name, value) in limits {
        options.set(name, value);
    }
    options
}

fn environment() -> Environment {
    Environment::new(HashSeed([5; 16]))
}

fn open(device: &SimDevice) -> Silt<SimDevice> {
    Silt::open(device.clone(), &options(), &environment()).expect("it opens")
}

/// A store whose entries are in the log, in hash stores, in sorted stores and in the value log.
fn filled() -> (SimDevice, Model) {
    let device = SimDevice::new(1, SimOptions::default());
    let silt = open(&device);
    let (mut model, mut prng) = (Model::new(), Prng::new(4));
    for n in 0..4000u64 {
        let key = prng.below(2000).to_be_bytes().to_vec();
        if prng.one_in(8) {
            silt.delete(&key, Durability::Buffered).expect("a delete");
            model.remove(&key);
        } else {
            let value = n.to_le_bytes().repeat(if prng.one_in(10) { 20 } else { 5 });
            silt.put(&key, &value, Durability::Buffered).expect("a put");
            model.insert(key, value);
        }
        if n % 100 == 0 {
            while silt.maintain(Budget::of(1 << 20)).expect("maintenance").more {}
        }
    }
    drop(silt);
    (device, model)
}

fn image(device: &SimDevice) -> Image {
    let names = device.list().expect("names");
    names.iter().map(|name| (name.clone(), device.peek(name).expect("a file"))).collect()
}

/// A device with the files of `image`, but with another content of `name`, or without it.
fn with(image: &Image, name: &str, bytes: Option<&[u8]>) -> SimDevice {
    let device = SimDevice::new(2, SimOptions::default());
    for (each, usual) in image {
        let bytes = if each == name { bytes } else { Some(&usual[..]) };
        let Some(bytes) = bytes else { continue };
        let file = device.create(each, Mode::Buffered).expect("created");
        file.write_at(0, bytes).expect("written");
        file.sync().expect("synced");
    }
    device.sync_dir().expect("synced");
    device
}

fn repaired(device: &SimDevice) -> Repaired {
    repair(device.clone(), &options(), &environment()).expect("a repair")
}

/// What is there after a repair: how many entries are as they were, how many are older or came
/// back, how many are not there. Nothing that was never written may be.
fn compare(device: &SimDevice, model: &Model) -> (u64, u64, u64) {
    let silt = open(device);
    silt.verify().expect("every invariant");
    let (mut same, mut older, mut lost) = (0, 0, 0);
    for key in (0..2000u64).map(|n| n.to_be_bytes().to_vec()) {
        let found = silt.get(&key).expect("a get");
        match (found, model.get(&key)) {
            (found, wanted) if found.as_ref() == wanted => same += u64::from(wanted.is_some()),
            (None, _) => lost += 1,
            (Some(other), _) => {
                let n = u64::from_le_bytes(other[..8].try_into().expect("8 bytes"));
                assert!(n < 4000 && other == n.to_le_bytes().repeat(other.len() / 8), "invented");
                older += 1;
            }
        }
    }
    silt.put(b"more", b"1", Durability::Synced).expect("it goes on");
    (same, older, lost)
}

#[test]
fn a_store_that_is_well_stays_as_it_is() {
    let (device, model) = filled();
    let before = image(&device);
    for kind in ["HASH", "LOG", "SORTED", "VALUE"] {
        assert!(before.keys().any(|name| name.starts_with(kind)), "{kind}: {:?}", before.keys());
    }
    let done = repaired(&device);
    assert_eq!(done, Repaired { entries: model.len() as u64, ..Repaired::default() });
    assert_eq!(compare(&device, &model), (model.len() as u64, 0, 0));
}

#[test]
fn damage_anywhere_costs_what_it_hit_and_the_report_bounds_it() {
    let (device, model) = filled();
    let image = image(&device);
    for (name, bytes) in &image {
        for share in [0, 3, 5, 7, 9] {
            let at = (bytes.len() - 1) * share / 9;
            let mut other = bytes.clone();
            other[at] ^= 0x10;
            let device = with(&image, name, Some(&other));
            check(&device, &model, name, Some(&other));
        }
    }
}

#[test]
fn a_missing_file_is_reported() {
    let (device, model) = filled();
    let image = image(&device);
    for name in image.keys() {
        let device = with(&image, name, None);
        let done = check(&device, &model, name, None);
        assert!(done.aside.is_some(), "without {name}: {done:?}");
    }
}

/// Repairs and checks that the report is true.
fn check(device: &SimDevice, model: &Model, name: &str, kept: Option<&[u8]>) -> Repaired {
    let done = repaired(device);
    let (same, older, lost) = compare(device, model);
    assert!(same > model.len() as u64 / 8, "{name}: {same} left, {done:?}");
    let Some(aside) = &done.aside else {
        assert_eq!((older, lost), (0, 0), "{name}: nothing was found");
        return done;
    };
    assert!(!done.findings.is_empty(), "{name}: {done:?}");
    assert!(older == 0 || done.may_be_older, "{name}: {older} are older, {done:?}");
    match done.lost {
        Loss::Nothing => assert_eq!(lost, 0, "{name}: {done:?}"),
        Loss::AtMost(bound) => assert!(lost <= bound, "{name}: {lost}, {done:?}"),
        Loss::Unknown => {}
    }
    // What was there is there as it was.
    let aside = device.subdirectory(aside).expect("a directory");
    match kept {
        Some(bytes) => assert_eq!(aside.peek(name).expect("the damaged file"), bytes, "{name}"),
        None => assert!(!aside.list().expect("names").contains(&name.to_string())),
    }
    let again = repaired(device);
    assert!(again.findings.is_empty() && again.aside.is_none(), "{name}: {again:?}");
    done
}

/// A power cut at any point of a repair leaves the old store, or the new one, or what the next
/// repair makes whole.
#[test]
fn a_repair_that_is_cut_short_can_be_begun_again() {
    let (device, model) = filled();
    let image = image(&device);
    let name = image.keys().find(|name| name.starts_with("SORTED")).expect("one").clone();
    let mut other = image[&name].clone();
    other[100] ^= 0x10;
    let device = with(&image, &name, Some(&other));
    let before = device.op_count();
    repaired(&device);
    let ops = device.op_count() - before;
    let (same, older, lost) = compare(&device, &model);
    let stride = silica_base::test_size(97, 31, 1) as usize;
    // Building the new store touches nothing that was there: the moves are at the end.
    for cut in (0..ops).step_by(stride).chain(ops.saturating_sub(120)..ops) {
        let mut device = with(&image, &name, Some(&other));
        device.cut_at_op(device.op_count() + cut + 1);
        let _ = repair(device.clone(), &options(), &environment());
        device.power_cut();
        device = device.reopen();
        device.cut_at_op(u64::MAX);
        repaired(&device);
        assert_eq!(compare(&device, &model), (same, older, lost), "cut at {cut} of {ops}");
    }
}
