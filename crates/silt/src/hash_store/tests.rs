use super::*;
use crate::merge::EntryStream;
use crate::packed::{CHUNK_BYTES, Layout, READ_AHEAD_BYTES};
use crate::test_support::{SEEDED, Sizes, WEAK, damages, device, frames, other_keys};
use silica_device::sim::{SimDevice, SimFile};
use silica_parts::cuckoo::CuckooTable;

const ID: u64 = 5;

type Frames = Vec<(Vec<u8>, Vec<u8>)>;
type Sorted = Vec<(KeyHash, Vec<u8>, Vec<u8>)>;

fn layout_of(frames: &Frames) -> Layout {
    let max = frames.iter().map(|f| f.1.len()).max().unwrap_or(0) as u64;
    let sum: usize = frames.iter().map(|f| f.1.len()).sum();
    Layout::choose(sum as u64 / frames.len().max(1) as u64, max)
}

/// Builds a store of those `frames` that fit the table, which become `frames`.
fn build(
    device: &SimDevice,
    geometry: Geometry,
    frames: &mut Frames,
    hasher: Hasher,
) -> Result<HashStore<SimFile>> {
    let mut table = CuckooTable::new(geometry, 3);
    let full = frames
        .iter()
        .enumerate()
        .position(|(i, (key, _))| table.insert(hasher.hash(key), i as u32).is_err());
    frames.truncate(full.unwrap_or(frames.len()));
    let mut builder = HashStoreBuilder::new(device, "h", ID, layout_of(frames), hasher)?;
    let frame = |position: u32| frames[position as usize].1.as_slice();
    let mut steps = 0;
    while !builder.step(&table, frame, |_| (), 10_000)? {
        steps += 1;
    }
    let bytes: usize = frames.iter().map(|f| f.1.len()).sum();
    assert!(steps >= bytes / 1_000_000, "work is done in steps");
    builder.finish(&table)
}

fn shapes() -> Vec<(Frames, Geometry, Hasher)> {
    let large = Geometry::new(0, 6, 8, 12).expect("valid");
    let small = Geometry::new(0, 2, 3, 7).expect("valid");
    vec![
        (frames(0, Sizes::Equal(9), 1), small, SEEDED),
        (frames(1, Sizes::Equal(0), 1), small, SEEDED),
        (frames(60, Sizes::Mixed(40), 1), small, SEEDED),
        (frames(6000, Sizes::Mixed(100), 2), large, SEEDED),
        (frames(6000, Sizes::Equal(50), 3), large, SEEDED),
        (frames(500, Sizes::Equal(1024), 4), large, SEEDED),
        (frames(500, Sizes::Wild, 5), large, SEEDED),
        // Several keys of one hash each.
        (frames(700, Sizes::Mixed(300), 6), large, WEAK),
    ]
}

fn encoded(frame: Frame<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    frame.encode(&mut out);
    out
}

fn sorted(frames: &Frames, hasher: Hasher) -> Sorted {
    let mut all: Vec<_> =
        frames.iter().map(|(k, f)| (hasher.hash(k), k.clone(), f.clone())).collect();
    all.sort();
    all
}

fn collect(stream: &mut dyn EntryStream) -> Result<Sorted> {
    let mut all = Vec::new();
    while stream.advance()? {
        all.push((stream.hash(), stream.key().to_vec(), stream.frame_bytes().to_vec()));
    }
    assert!(!stream.advance()?, "the end stays the end");
    Ok(all)
}

#[test]
fn every_key_is_found_with_and_without_the_index() -> Result<()> {
    for (mut frames, geometry, hasher) in shapes() {
        let device = device();
        let built = build(&device, geometry, &mut frames, hasher)?;
        built.verify()?;
        let opened = HashStore::open(&device, "h", ID, hasher)?;
        assert!(!opened.is_index_loaded() && opened.index_bytes() == 0);
        let mut buf = AlignedBuf::zeroed(0);
        for store in [&built, &opened] {
            for (key, frame) in &frames {
                let found = store.lookup(hasher.hash(key), key, &mut buf)?;
                assert_eq!(found.map(encoded).as_ref(), Some(frame));
            }
            for key in other_keys(300) {
                assert_eq!(store.lookup(hasher.hash(&key), &key, &mut buf)?, None);
            }
        }
        opened.load_index()?;
        assert_eq!(opened.index_bytes(), built.index_bytes());
        opened.verify()?;
        opened.drop_index();
        opened.verify()?;
        assert!(!opened.is_index_loaded());
    }
    Ok(())
}

#[test]
fn a_hit_takes_one_read_and_a_miss_almost_none() -> Result<()> {
    let device = device();
    let geometry = Geometry::new(0, 6, 8, 15).expect("valid");
    for sizes in [Sizes::Mixed(100), Sizes::Equal(1024), Sizes::Mixed(1500)] {
        let mut frames = frames(5000, sizes, 9);
        let store = build(&device, geometry, &mut frames, SEEDED)?;
        device.remove("h")?;
        let mut buf = AlignedBuf::zeroed(0);
        let before = device.counters().snapshot().reads;
        for (key, _) in &frames {
            assert!(store.lookup(SEEDED.hash(key), key, &mut buf)?.is_some());
        }
        let hits = device.counters().snapshot().reads;
        for key in other_keys(5000) {
            assert!(store.lookup(SEEDED.hash(&key), &key, &mut buf)?.is_none());
        }
        let misses = device.counters().snapshot().reads - hits;
        let reads_per_hit = (hits - before) as f64 / frames.len() as f64;
        assert!(reads_per_hit < 1.003, "{reads_per_hit}");
        assert!(misses < 20, "{misses} reads for 5000 keys that are not there");
    }
    Ok(())
}

#[test]
fn without_the_index_a_miss_takes_one_read_and_a_hit_two_more_than_with_it() -> Result<()> {
    let device = device();
    let geometry = Geometry::new(0, 6, 8, 15).expect("valid");
    let mut frames = frames(5000, Sizes::Mixed(100), 9);
    let store = build(&device, geometry, &mut frames, SEEDED)?;
    store.drop_index();
    let mut buf = AlignedBuf::zeroed(0);
    let before = device.counters().snapshot().reads;
    for (key, _) in &frames {
        assert!(store.lookup(SEEDED.hash(key), key, &mut buf)?.is_some());
    }
    let hits = device.counters().snapshot().reads;
    for key in other_keys(5000) {
        assert!(store.lookup(SEEDED.hash(&key), &key, &mut buf)?.is_none());
    }
    let misses = device.counters().snapshot().reads - hits;
    let per_hit = (hits - before) as f64 / frames.len() as f64;
    assert!((3.0..3.01).contains(&per_hit) && misses < 5050, "{per_hit} {misses}");
    Ok(())
}

#[test]
fn the_stream_is_in_hash_order_from_any_start() -> Result<()> {
    for (mut frames, geometry, hasher) in shapes() {
        let device = device();
        let store = build(&device, geometry, &mut frames, hasher)?;
        let expected = sorted(&frames, hasher);
        let all = collect(&mut store.stream(KeyHash(0), 2 * CHUNK_BYTES)?)?;
        assert_eq!(all, expected);
        let step = (expected.len() / 40).max(1);
        let mut starts: Vec<KeyHash> = expected.iter().step_by(step).map(|e| e.0).collect();
        starts.extend((0..20).map(|i| KeyHash(i << 124 | 0xABC)));
        starts.push(KeyHash(u128::MAX));
        for loaded in [true, false] {
            for start in &starts {
                let got = collect(&mut store.stream(*start, READ_AHEAD_BYTES)?)?;
                let from = expected.partition_point(|e| e.0 < *start);
                assert_eq!(got, expected[from..], "from {start:?}, loaded {loaded}");
            }
            store.drop_index();
        }
    }
    Ok(())
}

/// Every operation ends in an error or the right answer; true where the damage was found.
fn check(device: &SimDevice, frames: &Frames, hasher: Hasher) -> bool {
    let Ok(store) = HashStore::open(device, "h", ID, hasher) else { return true };
    let mut found = store.verify().is_err();
    let mut buf = AlignedBuf::zeroed(0);
    for loaded in [false, true] {
        if loaded && store.load_index().is_err() {
            return true;
        }
        for (key, frame) in frames {
            match store.lookup(hasher.hash(key), key, &mut buf) {
                Ok(value) => assert_eq!(value.map(encoded).as_ref(), Some(frame)),
                Err(_) => found = true,
            }
        }
        for key in other_keys(5) {
            if let Ok(value) = store.lookup(hasher.hash(&key), &key, &mut buf) {
                assert_eq!(value, None);
            }
        }
    }
    match store.stream(KeyHash(0), CHUNK_BYTES).and_then(|mut stream| collect(&mut stream)) {
        Ok(all) => assert_eq!(all, sorted(frames, hasher)),
        Err(_) => found = true,
    }
    found
}

#[test]
fn all_damage_is_found_and_no_wrong_entry_is_given() -> Result<()> {
    let geometry = Geometry::new(0, 2, 3, 7).expect("valid");
    for sizes in [Sizes::Mixed(500), Sizes::Equal(3000)] {
        let device = device();
        let mut frames = frames(8, sizes, 2);
        build(&device, geometry, &mut frames, SEEDED)?;
        assert!(!check(&device, &frames, SEEDED), "no damage, no error");
        let missed = damages(&device, "h", 13, |d| check(d, &frames, SEEDED));
        assert_eq!(missed, Vec::<String>::new());
    }
    Ok(())
}

#[test]
fn a_sorted_store_is_not_opened_as_a_hash_store() -> Result<()> {
    let device = device();
    build(&device, Geometry::new(0, 2, 3, 7)?, &mut frames(8, Sizes::Equal(9), 2), SEEDED)?;
    assert!(crate::sorted_store::SortedStore::open(&device, "h", ID, SEEDED).is_err());
    assert!(HashStore::open(&device, "h", ID + 1, SEEDED).is_err());
    Ok(())
}
