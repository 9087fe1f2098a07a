//! Hash stores and sorted stores from outside the crate: on the real device, on one that says no,
//! and through power cuts.

use silica_base::{AlignedBuf, HashSeed, KeyHash, Result};
use silica_device::sim::{FaultKind, SimDevice, SimOptions};
use silica_device::{Device, DeviceOptions, FileDevice};
use silica_parts::cuckoo::{CuckooTable, Geometry};
use silica_parts::ect::EctParams;
use silica_parts::frame::Frame;
use silica_silt::Hasher;
use silica_silt::hash_store::{HashStore, HashStoreBuilder};
use silica_silt::merge::{EntryStream, MergeStream};
use silica_silt::packed::{Layout, READ_AHEAD_BYTES};
use silica_silt::sorted_store::{IndexKind, SortedStore, SortedStoreBuilder, SortedStoreOptions};

const HASHER: Hasher = Hasher::Seeded(HashSeed([3; 16]));
const KEYS: u32 = 900;

/// Values of all sizes; those of `age` 1 replace every third of `age` 0.
fn frame(key: u32, age: u8) -> Vec<u8> {
    let mut out = Vec::new();
    let value = vec![age; (key as usize * 37) % 1500];
    Frame::put(&key.to_le_bytes(), &value).encode(&mut out);
    out
}

fn hash_store<D: Device>(
    device: &D,
    name: &str,
    keys: &[u32],
    age: u8,
) -> Result<HashStore<D::File>> {
    let mut table = CuckooTable::new(Geometry::new(0, 4, 7, 12)?, 1);
    let frames: Vec<Vec<u8>> = keys.iter().map(|k| frame(*k, age)).collect();
    for (i, key) in keys.iter().enumerate() {
        table.insert(HASHER.hash(&key.to_le_bytes()), i as u32).expect("half full at most");
    }
    let layout = Layout::choose(750, 1500);
    let mut builder = HashStoreBuilder::new(device, name, u64::from(age) + 1, layout, HASHER)?;
    while !builder.step(&table, |i| frames[i as usize].as_slice(), |_| (), 100_000)? {}
    builder.finish(&table)
}

/// Two hash stores, merged into a sorted store.
fn build_all<D: Device>(device: &D) -> Result<SortedStore<D::File>> {
    let all: Vec<u32> = (0..KEYS).collect();
    let newer: Vec<u32> = (0..KEYS).step_by(3).collect();
    let old = hash_store(device, "old", &all, 0)?;
    let new = hash_store(device, "new", &newer, 1)?;
    let streams =
        vec![new.stream(KeyHash(0), READ_AHEAD_BYTES)?, old.stream(KeyHash(0), READ_AHEAD_BYTES)?];
    let mut merged = MergeStream::new(streams);
    let options = SortedStoreOptions {
        partition_bits: 0,
        params: EctParams::default(),
        index_kind: IndexKind::Auto,
        filter_bits: 6,
        layout: Layout::choose(750, 1500),
        entries_expected: u64::from(KEYS),
        bytes_expected: u64::from(KEYS) * 750,
    };
    let mut builder = SortedStoreBuilder::new(device, "sorted", 9, HASHER, options)?;
    while merged.advance()? {
        builder.push(merged.hash(), merged.frame_bytes())?;
    }
    let store = builder.finish()?;
    device.sync_dir()?;
    Ok(store)
}

/// Reads every key; an error, or the right entries.
fn check<D: Device>(store: &SortedStore<D::File>) -> Result<()> {
    let mut buf = AlignedBuf::zeroed(0);
    for key in 0..2 * KEYS {
        let bytes = key.to_le_bytes();
        let found = store.lookup(HASHER.hash(&bytes), &bytes, &mut buf)?;
        let expected = (key < KEYS).then(|| frame(key, u8::from(key % 3 == 0)));
        let expected = expected.as_deref().map(|f| Frame::decode(f).expect("encoded").0.value);
        assert_eq!(found.map(|f| f.value), expected, "key {key}");
    }
    Ok(())
}

fn reopened<D: Device>(device: &D) -> Result<SortedStore<D::File>> {
    let store = SortedStore::open(device, "sorted", 9, HASHER)?;
    check::<D>(&store)?;
    store.load_index()?;
    check::<D>(&store)?;
    store.verify()?;
    Ok(store)
}

#[test]
fn stores_work_on_real_files() -> Result<()> {
    let path = std::env::temp_dir().join(format!("silt-stores-{}", std::process::id()));
    let device = FileDevice::open(&path, DeviceOptions::default())?;
    check::<FileDevice>(&build_all(&device)?)?;
    reopened(&device)?;
    HashStore::open(&device, "old", 1, HASHER)?.verify()?;
    drop(device);
    std::fs::remove_dir_all(path).expect("the directory is ours");
    Ok(())
}

#[test]
fn every_refusal_is_an_error_and_a_second_try_succeeds() {
    let kinds = [FaultKind::Eio, FaultKind::Enospc, FaultKind::ShortWrite, FaultKind::FailedSync];
    for kind in kinds.into_iter().chain([FaultKind::ReadEio]) {
        let mut refused = 0;
        for nth in 1.. {
            let device = SimDevice::new(nth, SimOptions::default());
            device.fail_at(kind, nth);
            let result = build_all(&device).and_then(|store| check::<SimDevice>(&store));
            device.clear_faults();
            if result.is_ok() {
                break;
            }
            refused += 1;
            // A sync that failed is final for its directory too; the stores are built elsewhere.
            let device = if kind == FaultKind::FailedSync {
                SimDevice::new(nth, SimOptions::default())
            } else {
                for name in device.list().expect("no more faults") {
                    device.remove(&name).expect("no more faults");
                }
                device
            };
            // Reads fail late as well as early; not each needs a second try.
            if nth < 10 {
                check::<SimDevice>(&build_all(&device).expect("no fault")).expect("no fault");
            }
            if refused == 60 {
                break;
            }
        }
        assert!(refused >= 3, "{kind:?} struck {refused} times");
    }
}

#[test]
fn a_power_cut_leaves_a_whole_store_or_none_that_opens_wrongly() -> Result<()> {
    let device = SimDevice::new(1, SimOptions { garble: true, names_in_order: false });
    build_all(&device)?;
    let ops = device.op_count();
    for seed in 0..150 {
        let device = SimDevice::new(seed, SimOptions { garble: true, names_in_order: false });
        let cut_at = if seed < ops { seed + 1 } else { ops };
        if seed < ops {
            device.cut_at_op(cut_at);
            assert!(build_all(&device).is_err(), "cut at {cut_at} of {ops}");
        } else {
            build_all(&device)?;
            device.power_cut();
        }
        let device = device.reopen();
        let opened = reopened(&device);
        if seed >= ops {
            opened?;
        }
    }
    Ok(())
}
