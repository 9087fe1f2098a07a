//! Entries and damage for the tests of stores.

use crate::Hasher;
use silica_base::{HashSeed, KeyHash, Prng};
use silica_device::sim::{SimDevice, SimOptions};
use silica_parts::frame::Frame;

pub(crate) const SEEDED: Hasher = Hasher::Seeded(HashSeed([7; 16]));
/// All keys of the same first byte have one hash; of the same low three bits, one position.
pub(crate) const WEAK: Hasher = Hasher::Function(weak);

fn weak(key: &[u8]) -> KeyHash {
    let first = u64::from(key.first().copied().unwrap_or(0));
    let high = (first % 8).wrapping_mul(0x2000_0000_0000_0000);
    KeyHash((u128::from(high) << 64) | u128::from(first.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
}

/// Keys, and sizes of values.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Sizes {
    /// Equal sizes throughout.
    Equal(usize),
    /// Small ones of all sizes below.
    Mixed(usize),
    /// Mostly small, now and then several chunks.
    Wild,
}

pub(crate) fn device() -> SimDevice {
    SimDevice::new(1, SimOptions::default())
}

/// `count` different keys with their encoded frames.
pub(crate) fn frames(count: usize, sizes: Sizes, seed: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut prng = Prng::new(seed);
    (0..count)
        .map(|i| {
            let mut key = prng.next_u64().to_be_bytes().to_vec();
            key[4..].copy_from_slice(&(i as u32).to_le_bytes());
            let value_bytes = match sizes {
                Sizes::Equal(bytes) => bytes,
                Sizes::Mixed(max) => prng.below(max as u64) as usize,
                Sizes::Wild if prng.one_in(12) => prng.below(30_000) as usize,
                Sizes::Wild => prng.below(300) as usize,
            };
            if matches!(sizes, Sizes::Wild) && prng.one_in(20) {
                key.resize(8 + prng.below(9000) as usize, 0x5A);
            }
            let mut value = vec![0; value_bytes];
            prng.fill(&mut value);
            let mut frame = Vec::new();
            Frame::put(&key, &value).encode(&mut frame);
            (key, frame)
        })
        .collect()
}

/// Keys that [`frames`] does not make.
pub(crate) fn other_keys(count: usize) -> impl Iterator<Item = Vec<u8>> {
    (0..count).map(|i| format!("no such key {i}").into_bytes())
}

/// Runs `check` on a copy of the device for each kind of damage to the file `name`: every byte
/// changed, the file cut, chunks swapped and zeroed. `check` says whether the damage was found;
/// the damages that were not are returned.
pub(crate) fn damages(
    device: &SimDevice,
    name: &str,
    step: usize,
    check: impl Fn(&SimDevice) -> bool,
) -> Vec<String> {
    let bytes = device.peek(name).expect("the file exists");
    let mut missed = Vec::new();
    let mut note = |found: bool, what: String| {
        if !found {
            missed.push(what);
        }
    };
    for at in (0..bytes.len()).step_by(step) {
        device.poke(name, at as u64, &[bytes[at] ^ (1 << (at % 8))]);
        note(check(device), format!("byte {at}"));
        device.poke(name, at as u64, &bytes[at..=at]);
    }
    let chunks = bytes.len() / 4096;
    for a in 0..chunks {
        for b in 0..a {
            device.swap_blocks(name, 4096, a, b);
            note(check(device), format!("chunks {a} and {b} swapped"));
            device.swap_blocks(name, 4096, a, b);
        }
        device.zero_block(name, 4096, a);
        note(check(device), format!("chunk {a} zeroed"));
        device.poke(name, 4096 * a as u64, &bytes[4096 * a..4096 * (a + 1)]);
    }
    for len in (0..bytes.len()).step_by(512) {
        let cut = device.fork(1);
        cut.cut_file(name, len as u64);
        note(check(&cut), format!("cut to {len}"));
    }
    missed
}
