//! Every decoder of the crate on input that nobody meant well: mutations of valid encodings, half
//! of them with their checksums made right again. Nothing may panic, hang or take memory out of
//! proportion, whatever is looked up in what was accepted.

use silica_base::{
    Checksum, CountingAllocator, HashSeed, Prng, Result, checksum, hammer, test_size,
};
use silica_device::sim::{SimDevice, SimOptions};
use silica_device::{Device, DeviceFile, Mode};
use silica_parts::cuckoo::{CuckooTable, Geometry, TagFilter, encoded_bucket_range, match_encoded};
use silica_parts::ect::{DenseBuilder, DenseIndex, EctParams, SparseBuilder, SparseIndex};
use silica_parts::framing::{self, End, RecordHeader, RecordReader};
use silica_parts::manifest::{self, Maker, Manifest};
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const SEED: HashSeed = HashSeed([4; 16]);
const MAKER: Maker = Maker(*b"test");

fn inputs() -> u64 {
    test_size(5_000, 100_000, 100_000_000)
}

fn set_u32(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(field) = bytes.get_mut(at..at + 4) {
        field.copy_from_slice(&value.to_le_bytes());
    }
}

/// Runs the hammer, and asks for some of both kinds: otherwise it missed what it was made for.
fn check(corpus: &[Vec<u8>], reseal: impl Fn(&mut Vec<u8>), decode: impl FnMut(&[u8]) -> bool) {
    let (accepted, refused) = hammer(inputs(), 64 << 10, corpus, reseal, decode);
    println!("{accepted} inputs accepted, {refused} refused");
    assert!(accepted + refused == 1 || (accepted > 20 && refused > 20));
}

/// Checksums of records as long as their lengths lead from one to the next.
fn reseal_records(bytes: &mut [u8], file_id: u64, start: usize) {
    let mut at = start;
    while let Some(header) = bytes.get(at..at + framing::HEADER_BYTES) {
        let len = u32::from_le_bytes(header[4..8].try_into().expect("four bytes")) as usize;
        let end = at.saturating_add(framing::HEADER_BYTES).saturating_add(len);
        let Some(covered) = bytes.get(at + 4..end) else { return };
        let sum = Checksum::at(file_id, at as u64).update(covered).finish();
        set_u32(bytes, at, sum);
        at = end.next_multiple_of(framing::ALIGN_BYTES);
    }
}

#[test]
fn records() {
    let log = |first: u64, lens: &[usize]| {
        let mut bytes = vec![0; 16];
        for (i, len) in lens.iter().enumerate() {
            let sequence = first + i as u64;
            let header = RecordHeader { kind: 1, sequence, synced_through: sequence - 1 };
            let payload = vec![sequence as u8; *len];
            let head = framing::encode_header(3, bytes.len() as u64, &header, &payload);
            bytes.extend_from_slice(&head);
            bytes.extend_from_slice(&payload);
            bytes.resize(bytes.len().next_multiple_of(framing::ALIGN_BYTES), 0);
        }
        bytes
    };
    let corpus = [log(5, &[0, 1, 7, 200]), log(5, &[40; 6]), log(5, &[1000]), log(5, &[])];
    let reseal = |bytes: &mut Vec<u8>| reseal_records(bytes, 3, 16);
    check(&corpus, reseal, |bytes| {
        let mut reader = RecordReader::new(3, bytes, 16, 5);
        let mut payloads = 0;
        while let Some(record) = reader.next_record() {
            payloads += record.payload.len();
        }
        assert!(payloads <= bytes.len() && reader.offset() <= 16.max(bytes.len()) as u64);
        reader.end() == End::Clean
    });
    // A first sequence from a damaged header.
    hammer(1000, 64 << 10, &corpus, reseal, |bytes| {
        RecordReader::new(3, bytes, 16, u64::MAX - 1).end() == End::Clean
    });
}

/// Puts `bytes` into a file of its own device.
fn file(device: &SimDevice, name: &str, bytes: &[u8]) -> Result<()> {
    device.create(name, Mode::Buffered)?.write_at(0, bytes)
}

/// Identity of a manifest's checksums, as docs/formats/manifest.md gives it.
fn manifest_id() -> u64 {
    u64::from_le_bytes(*b"SILICAMF") ^ 1
}

fn reseal_manifest(bytes: &mut [u8]) {
    if bytes.len() >= manifest::HEADER_BYTES {
        let sum = Checksum::at(manifest_id(), 0).update(&bytes[..24]).finish();
        set_u32(bytes, 24, sum);
    }
    reseal_records(bytes, manifest_id(), manifest::HEADER_BYTES);
}

#[test]
fn manifests_and_what_names_them() {
    let device = SimDevice::new(1, SimOptions::default());
    let mut sample =
        Manifest::create(Arc::new(device.clone()), MAKER, b"snapshot").expect("creates");
    for edit in [&b"one"[..], &[7; 300], b""] {
        sample.append(edit).expect("appends");
    }
    sample.close().expect("closes");
    let names = device.list().expect("lists");
    let [current, manifest] = ["CURRENT", "MANIFEST-00000001"].map(|name| {
        assert!(names.iter().any(|n| n == name), "{names:?}");
        device.peek(name).expect("there")
    });
    let open = |current: &[u8], manifest: &[u8]| {
        let device = SimDevice::new(1, SimOptions::default());
        file(&device, "CURRENT", current).expect("writes");
        file(&device, "MANIFEST-00000001", manifest).expect("writes");
        let opened = Manifest::open(Arc::new(device), MAKER);
        opened.is_ok_and(|opened| opened.is_some())
    };
    let short = manifest::files(MAKER, b"snapshot")[0].1.clone();
    check(&[manifest.clone(), short], |b| reseal_manifest(b), |bytes| open(&current, bytes));
    let reseal = |bytes: &mut Vec<u8>| {
        if bytes.len() >= 36 {
            let sum = Checksum::at(0, 0).update(&bytes[..32]).finish();
            set_u32(bytes, 32, sum);
        }
    };
    check(std::slice::from_ref(&current), reseal, |bytes| open(bytes, &manifest));
}

fn filter(blocks: u32, log2: u32, tag_bits: u32, fill_percent: u32) -> Vec<u8> {
    let geometry = Geometry::new(2, blocks, log2, tag_bits).expect("a geometry");
    let mut table = CuckooTable::new(geometry, 1);
    for key in 0..geometry.slots() * fill_percent / 100 {
        let _ = table.insert(SEED.hash(&key.to_le_bytes()), key);
    }
    let mut bytes = Vec::new();
    table.filter().encode(&mut bytes);
    bytes
}

#[test]
fn filters() {
    let corpus =
        [filter(3, 4, 15, 80), filter(1, 1, 4, 100), filter(2, 6, 16, 40), filter(1, 7, 9, 0)];
    let reseal = |bytes: &mut Vec<u8>| {
        if bytes.len() >= 32 {
            let sum = Checksum::at(0, 0).update(&bytes[..28]).update(&bytes[32..]).finish();
            set_u32(bytes, 28, sum);
        }
    };
    let mut prng = Prng::new(1);
    check(&corpus, reseal, |bytes| {
        let Ok(filter) = TagFilter::decode(bytes) else { return false };
        let geometry = *filter.geometry();
        for _ in 0..8 {
            let hash = SEED.hash(&prng.next_u64().to_le_bytes());
            let ranks = filter.candidates(hash).count();
            assert!(ranks <= 8 && filter.may_contain(hash) == (ranks > 0));
            let bucket = geometry.bucket(hash);
            let range = encoded_bucket_range(&geometry, bucket);
            let part = bytes.get(range.start as usize..range.end as usize).unwrap_or(&[]);
            assert!(match_encoded(&geometry, part, bucket, geometry.tag(hash)).count() <= 4);
        }
        let _ = filter.rank_of_bucket(prng.next_u64() as u32);
        assert!(filter.occupied_in(0..geometry.buckets()).count() <= geometry.slots() as usize);
        let _ = filter.verify();
        let mut again = Vec::new();
        filter.encode(&mut again);
        assert_eq!(TagFilter::decode(&again).expect("just encoded"), filter);
        true
    });
}

fn keys(count: u64, seed: u64, shift: u32) -> Vec<u64> {
    let mut prng = Prng::new(seed);
    let mut keys: Vec<u64> = (0..count).map(|_| prng.next_u64() >> shift).collect();
    keys.sort_unstable();
    keys
}

fn reseal_trie(bytes: &mut [u8]) {
    if let Some(at) = bytes.len().checked_sub(4) {
        let sum = checksum(&bytes[..at]);
        set_u32(bytes, at, sum);
    }
}

const SHAPES: [(u64, u32, u32, u32); 6] = [
    (3000, 0, 256, 64),
    (700, 30, 16, 2),
    (100, 63, 64, 8),
    (1, 0, 256, 64),
    (0, 0, 16, 64),
    (500, 3, 4096, 16),
];

#[test]
fn dense_tries() {
    let corpus = SHAPES.map(|(count, shift, group, hmax)| {
        let mut builder = DenseBuilder::new(EctParams { group, hmax }, count);
        keys(count, count, shift).into_iter().for_each(|key| builder.push(key));
        let mut bytes = Vec::new();
        builder.finish().encode(&mut bytes);
        bytes
    });
    let mut prng = Prng::new(2);
    check(
        &corpus,
        |b| reseal_trie(b),
        |bytes| {
            let Ok(index) = DenseIndex::decode(bytes) else { return false };
            for key in [0, u64::MAX, prng.next_u64(), prng.next_u64(), prng.next_u64() >> 40] {
                assert!(index.rank(key) < index.len().max(1));
            }
            let mut again = Vec::new();
            index.encode(&mut again);
            assert!(DenseIndex::decode(&again).is_ok_and(|other| other.len() == index.len()));
            true
        },
    );
}

#[test]
fn sparse_tries() {
    let corpus = SHAPES.map(|(count, shift, group, hmax)| {
        let mut builder = SparseBuilder::new(EctParams { group, hmax }, count);
        let keys = keys(2 * count, count, shift);
        keys.chunks(2).for_each(|pair| builder.push_boundary(pair[0], pair[1]));
        let mut bytes = Vec::new();
        builder.finish().encode(&mut bytes);
        bytes
    });
    let mut prng = Prng::new(3);
    check(
        &corpus,
        |b| reseal_trie(b),
        |bytes| {
            let Ok(index) = SparseIndex::decode(bytes) else { return false };
            for key in [0, u64::MAX, prng.next_u64(), prng.next_u64(), prng.next_u64() >> 40] {
                assert!(index.chunk(key) < index.chunks());
            }
            let mut again = Vec::new();
            index.encode(&mut again);
            assert!(
                SparseIndex::decode(&again).is_ok_and(|other| other.chunks() == index.chunks())
            );
            true
        },
    );
}
