//! Both trie indexes over keys of every shape.

use silica_base::Prng;
use silica_parts::ect::{DenseBuilder, DenseIndex, EctParams};

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
    for size in (0..600).chain((600..2000).step_by(37)).chain([2000]) {
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
