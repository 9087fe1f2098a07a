//! Both trie indexes over keys of every shape.

use silica_base::Prng;
use silica_parts::ect::{DenseBuilder, DenseIndex, EctParams, SparseBuilder, SparseIndex};

fn dense(params: EctParams, expected: u64, keys: &[u64]) -> DenseIndex {
    let mut builder = DenseBuilder::new(params, expected);
    keys.iter().for_each(|&key| builder.push(key));
    builder.finish()
}

fn uniform(seed: u64, count: usize) -> Vec<u64> {
    let mut prng = Prng::new(seed);
    let mut keys: Vec<u64> = (0..count).map(|_| prng.next_u64()).collect();
    keys.sort_unstable();
    keys
}

fn check_dense(index: &DenseIndex, keys: &[u64]) {
    assert_eq!(index.len(), keys.len() as u64);
    let mut first = 0;
    for (rank, key) in keys.iter().enumerate() {
        if keys[first] != *key {
            first = rank;
        }
        assert_eq!(index.rank(*key), first as u64, "key {key:#x} of {}", keys.len());
    }
}

/// Keys of every awkward shape, ascending.
fn shapes(prng: &mut Prng, count: usize) -> Vec<Vec<u64>> {
    let mut all: Vec<Vec<u64>> = Vec::new();
    let mut make = |one: &mut dyn FnMut(u64) -> u64| {
        let mut keys: Vec<u64> = (0..count as u64).map(one).collect();
        keys.sort_unstable();
        all.push(keys);
    };
    make(&mut |_| prng.next_u64());
    make(&mut |_| prng.below(count as u64 / 3 + 1) << 40);
    make(&mut |_| u64::MAX);
    make(&mut |_| 0);
    make(&mut |i| i);
    make(&mut |i| u64::MAX - i / 3);
    make(&mut |i| (i % 2) * u64::MAX);
    make(&mut |_| 0x7777 << 40 | prng.below(1 << 20));
    make(&mut |i| if i % 2 == 0 { prng.next_u64() } else { 1 << 63 | prng.below(1000) });
    make(&mut |i| u64::MAX >> (i % 64));
    all
}

#[test]
fn every_key_has_its_rank_at_every_size() {
    let mut prng = Prng::new(1);
    for size in (0..1000).chain((1000..=2000).step_by(8)) {
        let keys = uniform(size, size as usize);
        let expected = [size, 0, size * 3][prng.below(3) as usize];
        check_dense(&dense(EctParams::default(), expected, &keys), &keys);
    }
}

#[test]
fn awkward_keys_have_their_rank() {
    let mut prng = Prng::new(2);
    for size in [1, 2, 3, 8, 9, 64, 65, 300, 1500] {
        for (shape, keys) in shapes(&mut prng, size).into_iter().enumerate() {
            for (group, hmax) in [(256, 64), (16, 8), (4, 2), (1000, 1000), (1, 0)] {
                println!("size {size} shape {shape} group {group} hmax {hmax}");
                let index = dense(EctParams { group, hmax }, size as u64, &keys);
                check_dense(&index, &keys);
            }
        }
    }
}

#[test]
fn dense_takes_no_more_than_the_paper() {
    let keys = uniform(3, 1_000_000);
    let index = dense(EctParams::default(), keys.len() as u64, &keys);
    let bits = index.bytes() as f64 * 8.0 / keys.len() as f64;
    println!("{bits:.4} bits per key");
    assert!(bits <= 2.51, "{bits} bits per key");
}

/// A sparse index over `keys` in chunks of the sizes that `size` gives, and each chunk's range.
fn sparse(
    params: EctParams,
    keys: &[u64],
    mut size: impl FnMut() -> usize,
) -> (SparseIndex, Vec<std::ops::Range<usize>>) {
    let mut chunks = Vec::new();
    let mut from = 0;
    while from < keys.len() {
        let to = (from + size()).min(keys.len());
        chunks.push(from..to);
        from = to;
    }
    let mut builder = SparseBuilder::new(params, chunks.len() as u64);
    for pair in chunks.windows(2) {
        builder.push_boundary(keys[pair[0].end - 1], keys[pair[1].start]);
    }
    (builder.finish(), chunks)
}

fn check_sparse(index: &SparseIndex, keys: &[u64], chunks: &[std::ops::Range<usize>]) {
    assert_eq!(index.chunks(), chunks.len().max(1) as u64);
    for (number, chunk) in chunks.iter().enumerate() {
        for rank in chunk.clone() {
            // Equal keys lead to the chunk with the first of them.
            let first = keys.partition_point(|key| *key < keys[rank]);
            let want = if first >= chunk.start {
                number
            } else {
                chunks.partition_point(|chunk| chunk.end <= first)
            };
            assert_eq!(index.chunk(keys[rank]), want as u64, "key {:#x}", keys[rank]);
        }
    }
}

#[test]
fn every_key_has_its_chunk() {
    let mut prng = Prng::new(6);
    for size in [0, 1, 2, 3, 8, 9, 64, 65, 300, 1500] {
        for keys in shapes(&mut prng, size) {
            for (group, per_chunk) in [(256, 1), (256, 4), (8, 3), (1, 1), (1000, 16)] {
                let params = EctParams { group, hmax: 64 };
                let (index, chunks) = sparse(params, &keys, || per_chunk);
                check_sparse(&index, &keys, &chunks);
                let (index, chunks) =
                    sparse(params, &keys, || 1 + prng.below(2 * per_chunk as u64) as usize);
                check_sparse(&index, &keys, &chunks);
            }
        }
    }
}

#[test]
fn mixed_chunks_of_many_keys() {
    let mut prng = Prng::new(7);
    let keys = uniform(8, 200_000);
    let (index, chunks) = sparse(EctParams::default(), &keys, || match prng.below(3) {
        0 => 1,
        1 => 3,
        _ => 60,
    });
    check_sparse(&index, &keys, &chunks);
}

#[test]
fn sparse_takes_no_more_than_promised() {
    let keys = uniform(9, 1_000_000);
    for (per_chunk, promised) in [(4, 1.40), (8, 0.78), (16, 0.42)] {
        let (index, _) = sparse(EctParams::default(), &keys, || per_chunk);
        let bits = index.bytes() as f64 * 8.0 / keys.len() as f64;
        println!("{per_chunk} per chunk: {bits:.4} bits per key");
        assert!(bits <= promised, "{bits} bits per key with {per_chunk} per chunk");
    }
}

fn encoded_dense(index: &DenseIndex) -> Vec<u8> {
    let mut bytes = Vec::new();
    index.encode(&mut bytes);
    bytes
}

fn encoded_sparse(index: &SparseIndex) -> Vec<u8> {
    let mut bytes = Vec::new();
    index.encode(&mut bytes);
    bytes
}

#[test]
fn encoded_indexes_come_back() {
    let mut prng = Prng::new(10);
    for size in [0, 1, 7, 256, 3000] {
        for keys in shapes(&mut prng, size) {
            let params = EctParams { group: 64, hmax: 32 };
            let bytes = encoded_dense(&dense(params, size as u64, &keys));
            let copy = DenseIndex::decode(&bytes).expect("intact");
            check_dense(&copy, &keys);
            assert_eq!(encoded_dense(&copy), bytes);
            let (index, chunks) = sparse(params, &keys, || 5);
            let bytes = encoded_sparse(&index);
            let copy = SparseIndex::decode(&bytes).expect("intact");
            check_sparse(&copy, &keys, &chunks);
            assert_eq!(encoded_sparse(&copy), bytes);
        }
    }
}

#[test]
fn damage_is_found() {
    let keys = uniform(11, 500);
    let dense = encoded_dense(&dense(EctParams::default(), 500, &keys));
    let sparse = encoded_sparse(&sparse(EctParams::default(), &keys, || 4).0);
    for (bytes, other) in [(&dense, &sparse), (&sparse, &dense)] {
        let found = |bytes: &[u8]| {
            DenseIndex::decode(bytes).is_err() && SparseIndex::decode(bytes).is_err()
        };
        for at in 0..bytes.len() {
            let mut copy = bytes.clone();
            copy[at] ^= 1 << (at % 8);
            assert!(found(&copy), "byte {at} of {}", bytes.len());
            assert!(found(&bytes[..at]), "cut at {at}");
        }
        let mut long = bytes.clone();
        long.push(0);
        assert!(found(&long));
        assert_eq!(DenseIndex::decode(bytes).is_ok(), DenseIndex::decode(other).is_err());
    }
}

#[test]
fn an_unknown_version_is_named() {
    let mut bytes = encoded_dense(&dense(EctParams::default(), 0, &[]));
    bytes[4] = 9;
    let error = DenseIndex::decode(&bytes).expect_err("version 9");
    assert_eq!(error.kind(), silica_base::ErrorKind::Unsupported);
}

/// Damage that the checksum does not show, as if it had happened before encoding.
#[test]
fn lookups_in_forged_indexes_end() {
    let mut prng = Prng::new(12);
    let keys = uniform(13, 3000);
    let dense = encoded_dense(&dense(EctParams { group: 256, hmax: 16 }, 3000, &keys));
    let sparse = encoded_sparse(&sparse(EctParams::default(), &keys, || 4).0);
    let mut decoded = 0;
    for bytes in [&dense, &sparse] {
        for case in 0..6000 {
            let mut copy = bytes.clone();
            copy.truncate(copy.len() - 4);
            let range = if case % 2 == 0 { 60.min(copy.len()) } else { copy.len() };
            for _ in 0..1 + case % 7 {
                let at = 5 + prng.below(range as u64 - 5) as usize;
                copy[at] = [prng.next_u64() as u8, 0, 0xFF][case % 3];
            }
            let sum = silica_base::checksum(&copy);
            copy.extend_from_slice(&sum.to_le_bytes());
            if let Ok(index) = DenseIndex::decode(&copy) {
                let rank = index.rank(prng.next_u64());
                assert!(rank < index.len().max(1));
                decoded += 1;
            }
            if let Ok(index) = SparseIndex::decode(&copy) {
                let chunk = index.chunk(prng.next_u64());
                assert!(chunk < index.chunks());
                decoded += 1;
            }
        }
    }
    assert!(decoded > 1000, "only {decoded} forgeries were decoded");
}

/// Encoded indexes of version 1 stay readable: these sums change only with a new version.
#[test]
fn encoded_bytes_do_not_change() {
    let keys = uniform(14, 20_000);
    let sum = |bytes: Vec<u8>| (bytes.len(), silica_base::checksum(&bytes[..bytes.len() - 4]));
    let dense = |hmax| encoded_dense(&dense(EctParams { group: 256, hmax }, 20_000, &keys));
    let sparse = |n| encoded_sparse(&sparse(EctParams::default(), &keys, || n).0);
    let sums = [dense(64), dense(128), dense(5), sparse(4), sparse(63)].map(sum);
    assert_eq!(
        sums,
        [
            (6060, 3464606965),
            (6056, 282669871),
            (6209, 3342641795),
            (3520, 3157039079),
            (363, 1953040037),
        ]
    );
}
