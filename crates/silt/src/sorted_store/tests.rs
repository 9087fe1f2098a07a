use super::*;
use crate::merge::{EntryStream, MergeStream};
use crate::packed::{CHUNK_BYTES, Layout, READ_AHEAD_BYTES};
use crate::test_support::{SEEDED, Sizes, WEAK, damages, device, frames, other_keys};
use silica_device::sim::{SimDevice, SimFile};
use silica_parts::ect::EctParams;

const ID: u64 = 6;

type Sorted = Vec<(KeyHash, Vec<u8>, Vec<u8>)>;

fn sort(frames: Vec<(Vec<u8>, Vec<u8>)>, hasher: Hasher) -> Sorted {
    let mut all: Vec<_> = frames.into_iter().map(|(k, f)| (hasher.hash(&k), k, f)).collect();
    all.sort();
    all
}

fn options(entries: &Sorted, index_kind: IndexKind, filter_bits: u32) -> SortedStoreOptions {
    let bytes: usize = entries.iter().map(|e| e.2.len()).sum();
    let max = entries.iter().map(|e| e.2.len()).max().unwrap_or(0);
    let mean = bytes / entries.len().max(1);
    SortedStoreOptions {
        partition_bits: 0,
        params: EctParams::default(),
        index_kind,
        filter_bits,
        layout: Layout::choose(mean as u64, max as u64),
        entries_expected: entries.len() as u64,
        bytes_expected: bytes as u64,
    }
}

fn build(
    device: &SimDevice,
    name: &str,
    entries: &Sorted,
    hasher: Hasher,
    options: SortedStoreOptions,
) -> Result<SortedStore<SimFile>> {
    let mut builder = SortedStoreBuilder::new(device, name, ID, hasher, options)?;
    for (hash, _, frame) in entries {
        builder.push(*hash, frame)?;
    }
    builder.finish()
}

fn shapes() -> Vec<(Sorted, Hasher)> {
    vec![
        (sort(frames(0, Sizes::Equal(9), 1), SEEDED), SEEDED),
        (sort(frames(1, Sizes::Equal(0), 1), SEEDED), SEEDED),
        (sort(frames(6000, Sizes::Mixed(100), 2), SEEDED), SEEDED),
        (sort(frames(6000, Sizes::Equal(50), 3), SEEDED), SEEDED),
        (sort(frames(500, Sizes::Equal(1024), 4), SEEDED), SEEDED),
        (sort(frames(60, Sizes::Equal(9000), 4), SEEDED), SEEDED),
        (sort(frames(500, Sizes::Mixed(4000), 4), SEEDED), SEEDED),
        (sort(frames(500, Sizes::Wild, 5), SEEDED), SEEDED),
        // Eight positions, each of many keys over many chunks.
        (sort(frames(700, Sizes::Mixed(300), 6), WEAK), WEAK),
        (sort(frames(300, Sizes::Equal(1024), 6), WEAK), WEAK),
        (sort(frames(200, Sizes::Wild, 6), WEAK), WEAK),
    ]
}

fn encoded(frame: Frame<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    frame.encode(&mut out);
    out
}

fn collect(stream: &mut dyn EntryStream) -> Result<Sorted> {
    let mut all = Vec::new();
    while stream.advance()? {
        all.push((stream.hash(), stream.key().to_vec(), stream.frame_bytes().to_vec()));
    }
    assert!(!stream.advance()?, "the end stays the end");
    Ok(all)
}

fn check_lookups(store: &SortedStore<SimFile>, entries: &Sorted, hasher: Hasher) -> Result<()> {
    let mut buf = AlignedBuf::zeroed(0);
    for (hash, key, frame) in entries {
        let found = store.lookup(*hash, key, &mut buf)?;
        assert_eq!(found.map(encoded).as_ref(), Some(frame), "{:?}", store.index_kind());
    }
    for key in other_keys(200) {
        assert_eq!(store.lookup(hasher.hash(&key), &key, &mut buf)?, None);
    }
    Ok(())
}

#[test]
fn every_key_is_found_with_every_index_and_none() -> Result<()> {
    for (entries, hasher) in shapes() {
        for kind in [IndexKind::Sparse, IndexKind::Dense, IndexKind::Auto] {
            let device = device();
            let options = options(&entries, kind, 5);
            let built = build(&device, "s", &entries, hasher, options)?;
            built.verify()?;
            check_lookups(&built, &entries, hasher)?;
            let opened = SortedStore::open(&device, "s", ID, hasher)?;
            assert!(!opened.is_index_loaded() && opened.index_bytes() == 0);
            check_lookups(&opened, &entries, hasher)?;
            opened.load_index()?;
            assert_eq!(opened.index_kind(), built.index_kind());
            check_lookups(&opened, &entries, hasher)?;
            opened.verify()?;
        }
    }
    Ok(())
}

#[test]
fn the_kind_of_index_follows_the_sizes() -> Result<()> {
    let kinds = [
        (Sizes::Equal(50), IndexKind::Sparse),
        (Sizes::Equal(1024), IndexKind::Dense),
        (Sizes::Equal(9000), IndexKind::Dense),
        (Sizes::Mixed(4000), IndexKind::Sparse),
    ];
    for (sizes, kind) in kinds {
        let entries = sort(frames(100, sizes, 3), SEEDED);
        let options = options(&entries, IndexKind::Auto, 0);
        let store = build(&device(), "s", &entries, SEEDED, options)?;
        assert_eq!(store.index_kind(), Some(kind), "{sizes:?}");
    }
    Ok(())
}

#[test]
fn a_hit_or_a_miss_takes_one_read() -> Result<()> {
    for sizes in [Sizes::Mixed(100), Sizes::Equal(1024), Sizes::Equal(40), Sizes::Mixed(1500)] {
        let entries = sort(frames(5000, sizes, 9), SEEDED);
        for filter_bits in [0, 6] {
            let device = device();
            let options = options(&entries, IndexKind::Auto, filter_bits);
            let store = build(&device, "s", &entries, SEEDED, options)?;
            let mut buf = AlignedBuf::zeroed(0);
            let before = device.counters().snapshot().reads;
            for (hash, key, _) in &entries {
                assert!(store.lookup(*hash, key, &mut buf)?.is_some());
            }
            let hits = device.counters().snapshot().reads;
            for key in other_keys(5000) {
                assert!(store.lookup(SEEDED.hash(&key), &key, &mut buf)?.is_none());
            }
            let misses = device.counters().snapshot().reads - hits;
            let reads_per_hit = (hits - before) as f64 / entries.len() as f64;
            assert!(reads_per_hit < 1.003, "{reads_per_hit} {sizes:?}");
            let most = if filter_bits == 0 { 5010 } else { 200 };
            assert!(misses < most, "{misses} reads for 5000 keys that are not there");
        }
    }
    Ok(())
}

#[test]
fn without_an_index_a_lookup_takes_few_reads() -> Result<()> {
    let entries = sort(frames(60_000, Sizes::Mixed(100), 9), SEEDED);
    let device = device();
    let store = build(&device, "s", &entries, SEEDED, options(&entries, IndexKind::Sparse, 0))?;
    store.drop_index();
    let mut buf = AlignedBuf::zeroed(0);
    let before = device.counters().snapshot().reads;
    let asked = entries.iter().step_by(101);
    let count = asked.len() as f64;
    for (hash, key, _) in asked {
        assert!(store.lookup(*hash, key, &mut buf)?.is_some());
    }
    let reads = (device.counters().snapshot().reads - before) as f64 / count;
    assert!(reads < 2.5, "{reads} reads per lookup in {} chunks", store.footer().data_chunks);
    Ok(())
}

#[test]
fn the_stream_starts_anywhere() -> Result<()> {
    for (entries, hasher) in shapes() {
        let device = device();
        let store = build(&device, "s", &entries, hasher, options(&entries, IndexKind::Auto, 0))?;
        let step = (entries.len() / 40).max(1);
        let mut starts: Vec<KeyHash> = entries.iter().step_by(step).map(|e| e.0).collect();
        starts.extend((0..20).map(|i| KeyHash(i << 124 | 0xABC)));
        starts.extend([KeyHash(0), KeyHash(u128::MAX)]);
        for start in starts {
            let got = collect(&mut store.stream(start, 4 * CHUNK_BYTES)?)?;
            let from = entries.partition_point(|e| e.0 < start);
            assert_eq!(got, entries[from..], "from {start:?}");
        }
    }
    Ok(())
}

#[test]
fn an_index_is_rebuilt_as_another_kind_from_the_same_file() -> Result<()> {
    let entries = sort(frames(3000, Sizes::Equal(50), 3), SEEDED);
    let device = device();
    let options = options(&entries, IndexKind::Dense, 0);
    let store = build(&device, "s", &entries, SEEDED, options)?;
    let written = device.counters().snapshot().bytes_written;
    let dense_bytes = store.index_bytes();
    for kind in [IndexKind::Sparse, IndexKind::Dense] {
        let mut rebuild = store.rebuild_index(kind, options);
        let mut steps = 1;
        while !rebuild.step(&store, 10_000)? {
            steps += 1;
        }
        assert!(steps > 10, "work is done in steps");
        assert!(rebuild.step(&store, 1).is_err(), "over is over");
        assert_eq!(store.index_kind(), Some(kind));
        assert_eq!(store.index_bytes() < dense_bytes, kind == IndexKind::Sparse);
        check_lookups(&store, &entries, SEEDED)?;
        store.verify()?;
    }
    assert_eq!(device.counters().snapshot().bytes_written, written);
    Ok(())
}

#[test]
fn partitions_index_the_bits_behind_their_own() -> Result<()> {
    let device = device();
    let mut entries = sort(frames(20_000, Sizes::Mixed(60), 3), SEEDED);
    entries.retain(|e| e.0.high() >> 61 == 5);
    let options =
        SortedStoreOptions { partition_bits: 3, ..options(&entries, IndexKind::Sparse, 4) };
    let store = build(&device, "s", &entries, SEEDED, options)?;
    check_lookups(&store, &entries, SEEDED)?;
    store.verify()?;
    store.drop_index();
    check_lookups(&store, &entries, SEEDED)?;
    let from = entries.len() / 2;
    let got = collect(&mut store.stream(entries[from].0, READ_AHEAD_BYTES)?)?;
    assert_eq!(got, entries[from..]);
    Ok(())
}

#[test]
fn entries_out_of_order_are_refused() -> Result<()> {
    let mut entries = sort(frames(10, Sizes::Equal(5), 3), SEEDED);
    entries.swap(3, 4);
    let options = options(&entries, IndexKind::Sparse, 0);
    assert!(build(&device(), "s", &entries, SEEDED, options).is_err());
    Ok(())
}

#[test]
fn sorted_stores_merge_into_one() -> Result<()> {
    let device = device();
    let all = sort(frames(4000, Sizes::Mixed(200), 3), SEEDED);
    let halves: [Sorted; 2] =
        [0, 1].map(|n| all.iter().filter(|e| e.1[0] % 3 != n).cloned().collect());
    let mut streams = Vec::new();
    for (name, half) in ["a", "b"].into_iter().zip(&halves) {
        let options = options(half, IndexKind::Auto, 0);
        let store = build(&device, name, half, SEEDED, options)?;
        streams.push(store.stream(KeyHash(0), READ_AHEAD_BYTES)?);
    }
    let mut merged = MergeStream::new(streams);
    let options = options(&all, IndexKind::Auto, 0);
    let mut builder = SortedStoreBuilder::new(&device, "s", ID, SEEDED, options)?;
    while merged.advance()? {
        builder.push(merged.hash(), merged.frame_bytes())?;
    }
    assert_eq!(merged.dropped() as usize, halves[0].len() + halves[1].len() - all.len());
    check_lookups(&builder.finish()?, &all, SEEDED)
}

/// Every operation ends in an error or the right answer; true where the damage was found.
fn check(device: &SimDevice, entries: &Sorted, hasher: Hasher) -> bool {
    let Ok(store) = SortedStore::open(device, "s", ID, hasher) else { return true };
    let mut found = store.verify().is_err();
    let mut buf = AlignedBuf::zeroed(0);
    for loaded in [false, true] {
        if loaded && store.load_index().is_err() {
            return true;
        }
        for (hash, key, frame) in entries {
            match store.lookup(*hash, key, &mut buf) {
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
        Ok(all) => assert_eq!(&all, entries),
        Err(_) => found = true,
    }
    found
}

#[test]
fn all_damage_is_found_and_no_wrong_entry_is_given() -> Result<()> {
    for (sizes, kind) in
        [(Sizes::Mixed(500), IndexKind::Sparse), (Sizes::Equal(3000), IndexKind::Dense)]
    {
        let device = device();
        let entries = sort(frames(8, sizes, 2), SEEDED);
        build(&device, "s", &entries, SEEDED, options(&entries, kind, 4))?;
        assert!(!check(&device, &entries, SEEDED), "no damage, no error");
        let missed = damages(&device, "s", 13, |d| check(d, &entries, SEEDED));
        assert_eq!(missed, Vec::<String>::new());
    }
    Ok(())
}

#[test]
fn entries_of_several_partitions_are_refused() {
    for kind in [IndexKind::Sparse, IndexKind::Dense] {
        let all = sort(frames(600, Sizes::Equal(50), 8), SEEDED);
        let options = options(&all, kind, 8);
        build(&device(), "whole", &all, SEEDED, options).expect("one partition");
        let halves = SortedStoreOptions { partition_bits: 1, ..options };
        let error = build(&device(), "halves", &all, SEEDED, halves).err().expect("two of them");
        assert_eq!(error.kind(), silica_base::ErrorKind::Corruption, "{error}");
    }
}
