//! Every decoder of the crate on input that nobody meant well: mutations of valid encodings, half
//! of them with their checksums made right again. Nothing may panic, hang or take memory out of
//! proportion, whatever is done with what was accepted.

use crate::Silt;
use crate::elias_fano::{EliasFano, EliasFanoBuilder};
use crate::hash_store::{HashStore, HashStoreBuilder};
use crate::merge::EntryStream;
use crate::packed::{CHUNK_BYTES, Layout, READ_AHEAD_BYTES};
use crate::rank_map::{RankMap, RankMapBuilder};
use crate::sorted_store::{IndexKind, SortedStore, SortedStoreBuilder, SortedStoreOptions};
use crate::state::{Edit, MAKER, PartitionState, StoreState};
use crate::test_support::{SEEDED, Sizes, device, frames};
use silica_base::{
    AlignedBuf, Checksum, CountingAllocator, Error, HashSeed, KeyHash, Prng, Result, hammer,
    mutated, test_size,
};
use silica_device::sim::SimDevice;
use silica_device::{Device, DeviceFile, Mode};
use silica_engine::{Budget, Durability, Engine, EngineExt, Environment, OptionValues, Scan};
use silica_parts::cuckoo::{CuckooTable, Geometry};
use silica_parts::ect::EctParams;
use silica_parts::frame::{Frame, Header, TOMBSTONE};
use silica_parts::framing::{self, RecordHeader};
use silica_parts::manifest::{self, Manifest};
use silica_parts::value_log::{self, Pointer, Walk};
use silica_parts::wal::{self, Segment};
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const STORE: u64 = 0x0123_4567_89AB_CDEF;
const ID: u64 = 0x5117;
/// What lookups and scans take whatever they read: buffers and the simulated device.
const OVERHEAD_BYTES: usize = 4 << 20;

fn inputs() -> u64 {
    test_size(2_000, 100_000, 100_000_000)
}

/// Runs the hammer, and asks for some of both kinds: otherwise it missed what it was made for.
fn check(
    overhead_bytes: usize,
    corpus: &[Vec<u8>],
    reseal: impl Fn(&mut Vec<u8>),
    decode: impl FnMut(&[u8]) -> bool,
) {
    let (accepted, refused) = hammer(inputs(), overhead_bytes, corpus, reseal, decode);
    println!("{accepted} inputs accepted, {refused} refused");
    assert!(accepted + refused == 1 || (accepted > 5 && refused > 5), "{accepted}, {refused}");
}

fn set_u32(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(field) = bytes.get_mut(at..at + 4) {
        field.copy_from_slice(&value.to_le_bytes());
    }
}

/// Puts `bytes` into the file `name` of a device of their own.
fn with_file(name: &str, bytes: &[u8]) -> SimDevice {
    let device = device();
    let file = device.create(name, Mode::Buffered).expect("creates");
    file.write_at(0, bytes).expect("writes");
    device
}

#[test]
fn entry_frames() {
    let frames = [
        Frame::put(b"", b""),
        Frame::put(b"some key", &[7; 200]),
        Frame::tombstone(b"gone"),
        Frame { expires_unix_ms: 1 << 41, user_bits: 3, ..Frame::put(&[9; 130], b"value") },
        Frame { flags: silica_parts::frame::POINTER, ..Frame::put(b"large", &[1; 20]) },
    ];
    let corpus = frames.map(|frame| {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        bytes
    });
    check(
        1 << 10,
        &corpus,
        |_| (),
        |bytes| {
            let header = Header::decode(bytes);
            let Some((frame, len)) = Frame::decode(bytes) else { return false };
            assert_eq!(header.map(|h| h.frame_len()), Some(len));
            assert!(len <= bytes.len());
            let mut again = Vec::new();
            frame.encode(&mut again);
            assert_eq!(again.len(), frame.encoded_len());
            let (back, _) = Frame::decode(&again).expect("just encoded");
            // Zero meta needs no flag, so an encoder drops what a stranger set.
            assert_eq!((back.key, back.value), (frame.key, frame.value));
            assert_eq!(back.flags & TOMBSTONE, frame.flags & TOMBSTONE);
            assert_eq!(back.user_bits, frame.user_bits);
            assert_eq!(back.expires_unix_ms, frame.expires_unix_ms);
            true
        },
    );
}

fn log_file_id() -> u64 {
    STORE ^ 3u64.rotate_left(32) ^ u64::from_le_bytes(wal::MAGIC)
}

/// A segment number 3 with records of `payloads`.
fn log_segment(payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = vec![0; wal::HEADER_BYTES];
    bytes[..8].copy_from_slice(&wal::MAGIC);
    bytes[8] = 1;
    for (i, field) in [3u64, 1 << 16, 0, 40].iter().enumerate() {
        bytes[16 + 8 * i..24 + 8 * i].copy_from_slice(&field.to_le_bytes());
    }
    for (i, payload) in payloads.iter().enumerate() {
        let header = RecordHeader { kind: 1, sequence: 40 + i as u64, synced_through: 39 };
        let head = framing::encode_header(log_file_id(), bytes.len() as u64, &header, payload);
        bytes.extend_from_slice(&head);
        bytes.extend_from_slice(payload);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    bytes.resize((bytes.len() + 100).next_multiple_of(512), 0);
    reseal_log(&mut bytes);
    bytes
}

/// Capacity and checksum of the header, and the checksums of records.
fn reseal_log(bytes: &mut [u8]) {
    let len = bytes.len() as u64;
    if let Some(capacity) = bytes.get_mut(32..40) {
        capacity.copy_from_slice(&len.to_le_bytes());
    }
    if bytes.len() >= wal::HEADER_BYTES {
        let sum = Checksum::at(log_file_id(), 0).update(&bytes[..56]).finish();
        set_u32(bytes, 56, sum);
    }
    let mut at = wal::HEADER_BYTES;
    while let Some(header) = bytes.get(at..at + framing::HEADER_BYTES) {
        let len = u32::from_le_bytes(header[4..8].try_into().expect("four bytes")) as usize;
        let end = at.saturating_add(framing::HEADER_BYTES).saturating_add(len);
        let Some(covered) = bytes.get(at + 4..end).filter(|covered| covered[4..12] != [0; 8])
        else {
            return;
        };
        let sum = Checksum::at(log_file_id(), at as u64).update(covered).finish();
        set_u32(bytes, at, sum);
        at = end.next_multiple_of(8);
    }
}

#[test]
fn log_segments() {
    let payload = |count, seed| {
        let mut out: Vec<u8> = Vec::new();
        for (_, frame) in frames(count, Sizes::Mixed(60), seed) {
            out.resize(out.len().next_multiple_of(8), 0);
            out.extend_from_slice(&frame);
        }
        out
    };
    let corpus = [
        log_segment(&[payload(1, 1), payload(5, 2), Vec::new(), payload(2, 3)]),
        log_segment(&[payload(20, 4)]),
        log_segment(&[]),
    ];
    let mut entries = 0;
    check(
        64 << 10,
        &corpus,
        |b| reseal_log(b),
        |bytes| {
            let device = with_file(&wal::name(3), bytes);
            let Ok(segment) = Segment::open(&device, STORE, 3) else { return false };
            let read = segment.read_records(None, &mut |_, payload| {
                for frame in wal::frames(payload) {
                    let here =
                        frame.is_none_or(|(at, f)| at + f.encoded_len() <= payload.len() + 16);
                    assert!(here, "frames lie in their payload");
                    entries += 1;
                }
                Ok(())
            });
            read.is_ok_and(|read| read.end <= segment.end().max(segment.start + 64))
        },
    );
    assert!(entries > 0);
}

fn states() -> Vec<StoreState> {
    let mut state = StoreState::new(77, HashSeed([5; 16]), 1);
    let partition = PartitionState { floor: 4096, hash_stores: vec![9, 8], sorted_store: Some(3) };
    for edit in edits(partition) {
        state.apply(&edit);
    }
    vec![
        StoreState::new(1, HashSeed([0; 16]), 0),
        state,
        StoreState::new(u64::MAX, HashSeed([9; 16]), 5),
    ]
}

fn edits(partition: PartitionState) -> Vec<Edit> {
    vec![
        Edit::LogSegment(4),
        Edit::LogSegment(1 << 40),
        Edit::ReleaseLog(5),
        Edit::ValueSegment(2),
        Edit::ValueDead(vec![(2, 9), (6, 300), (77, u64::MAX)]),
        Edit::ReleaseValueSegment(2),
        Edit::Partition(1, partition),
        Edit::DurableEnd(900),
        Edit::Clear(u64::MAX),
    ]
}

#[test]
fn states_and_edits() {
    let corpus: Vec<Vec<u8>> = states().iter().map(StoreState::encode).collect();
    check(
        16 << 10,
        &corpus,
        |_| (),
        |bytes| {
            let Ok(state) = StoreState::decode(bytes) else { return false };
            assert_eq!(StoreState::decode(&state.encode()).expect("just encoded"), state);
            true
        },
    );
    let corpus: Vec<Vec<u8>> = edits(PartitionState {
        floor: 1 << 33,
        hash_stores: vec![1, 2, 300],
        sorted_store: Some(77),
    })
    .iter()
    .map(Edit::encode)
    .collect();
    let mut state = states().remove(1);
    check(
        16 << 10,
        &corpus,
        |_| (),
        |bytes| {
            let Ok(edit) = Edit::decode(bytes) else { return false };
            assert_eq!(Edit::decode(&edit.encode()).expect("just encoded"), edit);
            if state.log_segments.len() + state.values.segments.len() > 100 {
                state = states().remove(1);
            }
            state.apply(&edit);
            true
        },
    );
}

fn reseal_chunks(bytes: &mut [u8]) {
    for (number, chunk) in bytes.chunks_exact_mut(CHUNK_BYTES).enumerate() {
        let sum = Checksum::at(ID, number as u64).update(&chunk[..CHUNK_BYTES - 4]).finish();
        set_u32(chunk, CHUNK_BYTES - 4, sum);
    }
}

fn hash_store(sizes: Sizes, layout: Layout, seed: u64) -> Vec<u8> {
    let entries = frames(60, sizes, seed);
    let geometry = Geometry::new(0, 2, 4, 12).expect("a geometry");
    let mut table = CuckooTable::new(geometry, 1);
    for (i, (key, _)) in entries.iter().enumerate() {
        table.insert(SEEDED.hash(key), i as u32).expect("half full");
    }
    let device = device();
    let builder = HashStoreBuilder::new(&device, "file", ID, layout, SEEDED);
    let mut builder = builder.expect("creates");
    let frame = |i: u32| entries[i as usize].1.as_slice();
    while !builder.step(&table, frame, |_| (), 1 << 20).expect("writes") {}
    builder.finish(&table).expect("finishes");
    device.peek("file").expect("there")
}

fn sorted_store(sizes: Sizes, layout: Layout, kind: IndexKind, seed: u64) -> Vec<u8> {
    let mut entries = frames(60, sizes, seed);
    entries.sort_by_key(|(key, _)| SEEDED.hash(key));
    let options = SortedStoreOptions {
        partition_bits: 0,
        params: EctParams { group: 16, hmax: 8 },
        index_kind: kind,
        filter_bits: if seed == 2 { 6 } else { 0 },
        layout,
        entries_expected: 60,
        bytes_expected: 60 * 100,
    };
    let device = device();
    let builder = SortedStoreBuilder::new(&device, "file", ID, SEEDED, options);
    let mut builder = builder.expect("creates");
    for (key, frame) in &entries {
        builder.push(SEEDED.hash(key), frame).expect("writes");
    }
    builder.finish().expect("finishes");
    device.peek("file").expect("there")
}

const SHAPES: [(Sizes, Layout); 4] = [
    (Sizes::Equal(100), Layout::Aligned),
    (Sizes::Mixed(300), Layout::Aligned),
    (Sizes::Equal(1500), Layout::Straddling),
    (Sizes::Wild, Layout::Straddling),
];

/// Runs a stream to its end or first error.
fn drain<S: EntryStream>(stream: Result<S>, entries_max: usize) -> Result<()> {
    let mut stream = stream?;
    for _ in 0..=entries_max {
        if !stream.advance()? {
            return Ok(());
        }
        assert!(stream.frame_bytes().len() >= stream.key().len() + 3);
    }
    Err(Error::corruption("file", 0, "more entries than bytes"))
}

#[test]
fn hash_stores() {
    let corpus: Vec<Vec<u8>> =
        (1..).zip(SHAPES).map(|(seed, (sizes, layout))| hash_store(sizes, layout, seed)).collect();
    let keys: Vec<Vec<Vec<u8>>> = (1..)
        .zip(SHAPES)
        .map(|(seed, (sizes, _))| frames(60, sizes, seed).into_iter().map(|f| f.0).collect())
        .collect();
    let mut prng = Prng::new(1);
    check(
        OVERHEAD_BYTES,
        &corpus,
        |b| reseal_chunks(b),
        |bytes| {
            let device = with_file("file", bytes);
            let Ok(store) = HashStore::open(&device, "file", ID, SEEDED) else { return false };
            let mut buf = AlignedBuf::zeroed(0);
            let lookups = |prng: &mut Prng, buf: &mut AlignedBuf| {
                for keys in &keys {
                    let key = &keys[prng.below(60) as usize];
                    if let Ok(Some(frame)) = store.lookup(SEEDED.hash(key), key, buf) {
                        assert_eq!(frame.key, key.as_slice());
                    }
                }
            };
            lookups(&mut prng, &mut buf);
            let verified = store.verify();
            if store.load_index().is_ok() {
                lookups(&mut prng, &mut buf);
            }
            let start = KeyHash(u128::from(prng.next_u64()) << 64);
            let drained = drain(store.stream(KeyHash(0), READ_AHEAD_BYTES), bytes.len());
            let _ = drain(store.stream(start, CHUNK_BYTES), bytes.len());
            // What verification passes, a stream reads.
            assert!(verified.is_err() || drained.is_ok());
            drained.is_ok()
        },
    );
}

#[test]
fn sorted_stores() {
    let kinds = [IndexKind::Dense, IndexKind::Sparse, IndexKind::Dense, IndexKind::Sparse];
    let corpus: Vec<Vec<u8>> = (1..)
        .zip(SHAPES.into_iter().zip(kinds))
        .map(|(seed, ((sizes, layout), kind))| sorted_store(sizes, layout, kind, seed))
        .collect();
    let keys: Vec<Vec<u8>> =
        (1..).zip(SHAPES).flat_map(|(seed, s)| frames(60, s.0, seed)).map(|f| f.0).collect();
    let mut prng = Prng::new(2);
    check(
        OVERHEAD_BYTES,
        &corpus,
        |b| reseal_chunks(b),
        |bytes| {
            let device = with_file("file", bytes);
            let Ok(store) = SortedStore::open(&device, "file", ID, SEEDED) else { return false };
            let mut buf = AlignedBuf::zeroed(0);
            let mut lookup = |prng: &mut Prng| {
                let key = &keys[prng.below(keys.len() as u64) as usize];
                if let Ok(Some(frame)) = store.lookup(SEEDED.hash(key), key, &mut buf) {
                    assert_eq!(frame.key, key.as_slice());
                }
            };
            (0..4).for_each(|_| lookup(&mut prng));
            let verified = store.verify();
            if store.load_index().is_ok() {
                (0..4).for_each(|_| lookup(&mut prng));
            }
            let start = KeyHash(u128::from(prng.next_u64()) << 64);
            let drained = drain(store.stream(KeyHash(0), READ_AHEAD_BYTES), bytes.len());
            let _ = drain(store.stream(start, CHUNK_BYTES), bytes.len());
            assert!(verified.is_err() || drained.is_ok());
            drained.is_ok()
        },
    );
}

#[test]
fn lists_and_rank_maps() {
    let list = |count: u64, universe: u64, low_bits| {
        let mut prng = Prng::new(count);
        let mut values: Vec<u64> = (0..count).map(|_| prng.below(universe)).collect();
        values.sort_unstable();
        let mut builder = EliasFanoBuilder::new(low_bits);
        values.iter().for_each(|v| builder.push(*v));
        let mut bytes = Vec::new();
        builder.finish().encode(&mut bytes);
        bytes
    };
    let corpus =
        [list(1, 5, 0), list(0, 1, 3), list(700, 9000, 4), list(90, 1 << 40, 33), list(60, 3, 0)];
    let mut prng = Prng::new(3);
    check(
        64 << 10,
        &corpus,
        |_| (),
        |bytes| {
            let Ok(list) = EliasFano::decode(bytes) else { return false };
            for shift in [0, 20, 40, 54, 62] {
                assert!(list.count_up_to(prng.next_u64() >> shift).0 <= list.len());
            }
            let mut again = Vec::new();
            list.encode(&mut again);
            assert_eq!(EliasFano::decode(&again).expect("just encoded"), list);
            true
        },
    );
    let mut ranks = RankMapBuilder::default();
    (0..900).for_each(|rank| ranks.push(rank, rank / 17 + rank / 100));
    let mut bytes = Vec::new();
    ranks.finish().encode(&mut bytes);
    check(
        64 << 10,
        &[bytes],
        |_| (),
        |bytes| {
            let Ok(ranks) = RankMap::decode(bytes) else { return false };
            for rank in [0, 1, 77, u64::from(u32::MAX), prng.next_u64()] {
                assert!(ranks.chunk(rank) < ranks.chunks().max(1));
            }
            true
        },
    );
}

fn value_file_id() -> u64 {
    STORE ^ 5u64.rotate_left(32) ^ u64::from_le_bytes(value_log::MAGIC)
}

fn value_log_segment(values: &[usize]) -> (Vec<u8>, Vec<(Vec<u8>, Pointer)>) {
    let mut bytes = vec![0; value_log::HEADER_BYTES];
    bytes[..8].copy_from_slice(&value_log::MAGIC);
    (bytes[8], bytes[16]) = (1, 5);
    let mut pointers = Vec::new();
    for (i, len) in values.iter().enumerate() {
        let (key, value) = (format!("key {i}").into_bytes(), vec![i as u8; *len]);
        let offset = bytes.len() as u64;
        let head = value_log::encode_record_header(value_file_id(), offset, &key, &value);
        let length = (head.len() + key.len() + value.len()) as u32;
        let checksum = value_log::checksum_in(&head);
        for part in [&head[..], &key, &value] {
            bytes.extend_from_slice(part);
        }
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        pointers.push((key, Pointer { segment: 5, offset, length, checksum }));
    }
    reseal_values(&mut bytes);
    (bytes, pointers)
}

/// The checksums of the header and of the lengths of records.
fn reseal_values(bytes: &mut [u8]) {
    if bytes.len() >= value_log::HEADER_BYTES {
        let sum = Checksum::at(value_file_id(), 0).update(&bytes[..56]).finish();
        set_u32(bytes, 56, sum);
    }
    let mut at = value_log::HEADER_BYTES;
    while let Some(header) = bytes.get(at..at + value_log::RECORD_HEADER_BYTES) {
        let len = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("4 bytes"));
        let next = value_log::record_bytes(len(8) as usize, len(12) as usize);
        let sum = Checksum::at(!value_file_id(), at as u64).update(&header[8..16]).finish();
        set_u32(bytes, at + 4, sum);
        at += next as usize;
    }
}

#[test]
fn value_log_segments_and_pointers() {
    let (many, pointers) = value_log_segment(&[5000, 1, 300, 0, 9000]);
    let corpus = [many, value_log_segment(&[20]).0, value_log_segment(&[]).0];
    let mut prng = Prng::new(4);
    check(
        OVERHEAD_BYTES,
        &corpus,
        |b| reseal_values(b),
        |bytes| {
            let device = with_file(&value_log::name(5), bytes);
            let Ok(segment) = value_log::Segment::open(&device, STORE, 5) else { return false };
            let segment = Arc::new(segment);
            let (key, mut pointer) = pointers[prng.below(5) as usize].clone();
            if let Ok(value) = segment.read(&pointer, &key) {
                assert_eq!(value.len() + key.len() + 16, pointer.length as usize);
            }
            pointer.offset = prng.next_u64() >> prng.below(64);
            pointer.length = prng.next_u64() as u32 >> prng.below(32);
            assert!(
                segment.read(&pointer, &key).is_err() || pointer.offset == pointers[0].1.offset
            );
            let mut walk = Walk::new(segment.clone()).expect("walks");
            let mut records = 0;
            while let Ok(Some(record)) = walk.next_record() {
                let _ = segment.read(&record.pointer, &record.key);
                records += 1;
            }
            assert!(records <= bytes.len() / value_log::RECORD_HEADER_BYTES);
            true
        },
    );
}

/// Opens, reads, writes and checks whole stores whose manifest says something else than it did.
#[test]
fn stores_with_a_mutated_state() {
    let source = device();
    let mut options = OptionValues::default();
    for (name, value) in [
        ("partitions", 2),
        ("memory_bytes", 1 << 20),
        ("log_store_blocks", 1),
        ("log_store_block_buckets_log2", 3),
        ("segment_bytes", 8 << 10),
        ("log_bytes_max", 16 << 10),
        ("inline_value_bytes_max", 300),
        ("value_log_segment_bytes", 8 << 10),
    ] {
        options.set(name, value);
    }
    let environment = Environment::new(HashSeed([7; 16]));
    let open = |device: &SimDevice| Silt::open(device.clone(), &options, &environment);
    let store = open(&source).expect("opens");
    for (key, frame) in frames(400, Sizes::Mixed(400), 9) {
        let value = Frame::decode(&frame).expect("a frame").0.value;
        store.put(&key, value, Durability::Buffered).expect("puts");
        store.maintain(Budget::of(1 << 10)).expect("maintains");
    }
    drop(store);
    // An open removes what its manifest does not name, so it is given a copy.
    let opened = Manifest::open(Arc::new(source.fork(1)), MAKER).expect("opens").expect("there");
    let mut state = StoreState::decode(&opened.snapshot).expect("a state");
    for edit in &opened.edits {
        state.apply(&Edit::decode(edit).expect("an edit"));
    }
    let names = source.list().expect("lists");
    for name in names.iter().filter(|n| n.starts_with("MANIFEST-") || *n == "CURRENT") {
        source.remove(name).expect("removes");
    }
    let corpus = [state.encode()];
    let (mut opened, mut whole) = (0, 0);
    for number in 0..inputs() / 20 {
        let mut prng = Prng::new(number);
        let snapshot = if number == 0 { corpus[0].clone() } else { mutated(&mut prng, &corpus) };
        let device = source.fork(number);
        for (name, bytes) in manifest::files(MAKER, &snapshot) {
            let file = device.create(&name, Mode::Buffered).expect("creates");
            file.write_at(0, &bytes).expect("writes");
        }
        let Ok(store) = open(&device) else { continue };
        opened += 1;
        whole += u64::from(store.verify().is_ok());
        let _ = store.get(b"key");
        let _ = store.scan(0, 1000, &mut |_, _| ());
        let _ = store.put(b"key", &[7; 500], Durability::Synced);
        let _ = store.maintain(Budget::of(1 << 14));
    }
    println!("{opened} opened, {whole} whole");
    assert!(opened >= 1 && whole >= 1, "at least the one that was not changed");
}
