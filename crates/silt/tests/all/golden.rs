//! Files written by each version of the formats still open and hold what they held.
//!
//! `SILICA_GOLDEN=write cargo test -p silica-silt --test all golden::` writes the files of the
//! present version; do that once, when a version is new.

use silica_base::{AlignedBuf, HashSeed, Result};
use silica_device::sim::{SimDevice, SimOptions};
use silica_device::{Device, DeviceFile, Mode};
use silica_parts::cuckoo::{CuckooTable, Geometry};
use silica_parts::ect::EctParams;
use silica_parts::expiry::Expiries;
use silica_parts::frame::Frame;
use silica_silt::Hasher;
use silica_silt::hash_store::{HashStore, HashStoreBuilder};
use silica_silt::packed::Layout;
use silica_silt::sorted_store::{IndexKind, SortedStore, SortedStoreBuilder, SortedStoreOptions};

const HASHER: Hasher = Hasher::Seeded(HashSeed([9; 16]));
const ID: u64 = 0x5117;
/// The present version.
const VERSION: u32 = 2;

/// Keys and frames: values of many sizes, a tombstone, and one entry larger than a chunk.
fn entries() -> Vec<(Vec<u8>, Vec<u8>)> {
    (0..48u32)
        .map(|i| {
            let key = format!("golden-{i}").into_bytes();
            let value = vec![b'a' + (i % 26) as u8; if i == 20 { 5000 } else { i as usize * 3 }];
            let frame = match i {
                7 => Frame::tombstone(&key),
                8 => Frame { expires_unix_ms: 1 << 42, user_bits: 77, ..Frame::put(&key, &value) },
                _ => Frame::put(&key, &value),
            };
            let mut bytes = Vec::new();
            frame.encode(&mut bytes);
            (key, bytes)
        })
        .collect()
}

fn equal_entries() -> Vec<(Vec<u8>, Vec<u8>)> {
    (0..9u32)
        .map(|i| {
            let key = format!("equal-{i}").into_bytes();
            let mut bytes = Vec::new();
            Frame::put(&key, &[b'0' + i as u8; 1500]).encode(&mut bytes);
            (key, bytes)
        })
        .collect()
}

fn write_hash_store(device: &SimDevice) -> Result<()> {
    let entries = entries();
    let mut table = CuckooTable::new(Geometry::new(0, 2, 4, 15)?, 1);
    for (i, (key, _)) in entries.iter().enumerate() {
        table.insert(HASHER.hash(key), i as u32).expect("half full at most");
    }
    let mut builder = HashStoreBuilder::new(device, "file", ID, Layout::Straddling, HASHER)?;
    while !builder.step(&table, |i| entries[i as usize].1.as_slice(), |_| {}, u64::MAX)? {}
    builder.finish(&table).map(drop)
}

fn write_sorted_store(
    device: &SimDevice,
    mut entries: Vec<(Vec<u8>, Vec<u8>)>,
    index_kind: IndexKind,
) -> Result<()> {
    entries.sort_by_key(|(key, _)| HASHER.hash(key));
    let options = SortedStoreOptions {
        partition_bits: 0,
        params: EctParams::default(),
        index_kind,
        filter_bits: 6,
        layout: Layout::Aligned,
        entries_expected: entries.len() as u64,
        bytes_expected: entries.iter().map(|e| e.1.len() as u64).sum(),
    };
    let mut builder = SortedStoreBuilder::new(device, "file", ID, HASHER, options)?;
    for (key, frame) in &entries {
        builder.push(HASHER.hash(key), frame)?;
    }
    builder.finish().map(drop)
}

/// Writes the file of a golden.
type Write<'w> = &'w dyn Fn(&SimDevice) -> Result<()>;

/// A device with the golden file `name`, which `write` makes where that is asked for: for files of
/// older versions there is none.
fn golden(name: &str, write: Option<Write<'_>>) -> Result<SimDevice> {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    let is_asked = std::env::var("SILICA_GOLDEN").is_ok_and(|what| what == "write");
    if let Some(write) = write.filter(|_| is_asked) {
        let device = SimDevice::new(1, SimOptions::default());
        write(&device)?;
        std::fs::write(&path, device.peek("file").expect("just written")).expect("writable");
    }
    let bytes = std::fs::read(&path).expect("golden files are in the repository");
    let device = SimDevice::new(1, SimOptions::default());
    device.create("file", Mode::Buffered)?.write_at(0, &bytes)?;
    Ok(device)
}

fn encoded(frame: Option<Frame<'_>>) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    frame?.encode(&mut out);
    Some(out)
}

/// Expiries of the file of a version: the first one did not say when entries expire.
fn check_expiries(version: u32, expiries: &Expiries, count: u64) {
    let expected = if version == 1 { 0 } else { count };
    assert_eq!(expiries.entries(), expected, "version {version}");
    assert_eq!(expiries.bytes_over((1 << 42) - 1), 0.0);
    assert_eq!(expiries.bytes_over(1 << 42) > 0.0, expected > 0);
}

#[test]
fn hash_store_version_1() -> Result<()> {
    check_hash_store(1, golden("hash-store-1.bin", None)?)
}

#[test]
fn hash_store_version_2() -> Result<()> {
    check_hash_store(2, golden("hash-store-2.bin", Some(&write_hash_store))?)
}

fn check_hash_store(version: u32, device: SimDevice) -> Result<()> {
    let store = HashStore::open(&device, "file", ID, HASHER)?;
    check_expiries(version, &store.footer().expiries, 1);
    store.verify()?;
    assert_eq!((store.footer().entries, store.footer().tombstones), (48, 1));
    let mut buf = AlignedBuf::zeroed(0);
    for (key, frame) in entries() {
        let found = store.lookup(HASHER.hash(&key), &key, &mut buf)?;
        assert_eq!(encoded(found), Some(frame));
    }
    Ok(())
}

#[test]
fn sorted_store_version_1() -> Result<()> {
    check_sorted_stores(1)
}

#[test]
fn sorted_store_version_2() -> Result<()> {
    check_sorted_stores(2)
}

fn check_sorted_stores(version: u32) -> Result<()> {
    for (name, entries, kind, expiring) in [
        ("sparse", entries(), IndexKind::Sparse, 1),
        ("dense", equal_entries(), IndexKind::Dense, 0),
    ] {
        let write = |device: &SimDevice| write_sorted_store(device, entries.clone(), kind);
        let write: Option<Write<'_>> = if version == VERSION { Some(&write) } else { None };
        let device = golden(&format!("sorted-store-{name}-{version}.bin"), write)?;
        let store = SortedStore::open(&device, "file", ID, HASHER)?;
        check_expiries(version, &store.footer().expiries, expiring);
        store.verify()?;
        store.load_index()?;
        assert_eq!(store.index_kind(), Some(kind));
        let mut buf = AlignedBuf::zeroed(0);
        for (key, frame) in entries {
            let found = store.lookup(HASHER.hash(&key), &key, &mut buf)?;
            assert_eq!(encoded(found), Some(frame));
        }
    }
    Ok(())
}
