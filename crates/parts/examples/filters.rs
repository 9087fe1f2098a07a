//! Filters for tables, at equal bits: how many keys that are not there pass, and what making and
//! asking cost.
//!
//! `cargo run --release -p silica-parts --example filters [KEYS]`
//!
//! Beside the filter that tables have: a Bloom filter whose bits of a key lie in one cache line,
//! one whose bits lie anywhere, and a ribbon filter of 128 bits (Dillinger and Walzer, 2021), each
//! as simple as it can be without losing its properties.
#![allow(clippy::disallowed_methods)] // A benchmark reads its arguments and the clock.

use silica_base::Prng;
use silica_parts::FuseFilter;
use std::time::Instant;

/// A filter that is compared.
trait Filter {
    fn may_contain(&self, hash: u64) -> bool;
    fn bits(&self) -> f64;
}

impl Filter for FuseFilter {
    fn may_contain(&self, hash: u64) -> bool {
        FuseFilter::may_contain(self, hash)
    }

    fn bits(&self) -> f64 {
        8.0 * self.bytes() as f64
    }
}

/// Where in `0..below` a hash falls.
fn scaled(hash: u64, below: usize) -> usize {
    ((u128::from(hash) * below as u128) >> 64) as usize
}

/// A Bloom filter; with `lines`, of whole lines of 512 bits.
struct Bloom {
    words: Vec<u64>,
    probes: u32,
    lines: bool,
}

impl Bloom {
    fn new(hashes: &[u64], bits_per_key: f64, lines: bool) -> Self {
        let bits = (hashes.len() as f64 * bits_per_key) as usize;
        let probes = (bits_per_key * 2f64.ln()).round() as u32 - u32::from(lines);
        let mut bloom = Bloom { words: vec![0; bits.div_ceil(512) * 8], probes, lines };
        for hash in hashes {
            for (word, bit) in bloom.places(*hash).collect::<Vec<_>>() {
                bloom.words[word] |= 1 << bit;
            }
        }
        bloom
    }

    fn places(&self, hash: u64) -> impl Iterator<Item = (usize, u32)> {
        let line = scaled(hash, self.words.len() / 8) * 8;
        let (bits, lines) = (self.words.len() * 64, self.lines);
        let mut at = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let step = hash.rotate_left(32) | 1;
        (0..self.probes).map(move |_| {
            at = at.wrapping_add(step).wrapping_mul(0xD6E8_FEB8_6659_FD93);
            let bit = if lines { (at >> 55) as usize } else { scaled(at, bits) };
            (if lines { line + bit / 64 } else { bit / 64 }, bit as u32 % 64)
        })
    }
}

impl Filter for Bloom {
    fn may_contain(&self, hash: u64) -> bool {
        self.places(hash).all(|(word, bit)| self.words[word] >> bit & 1 == 1)
    }

    fn bits(&self) -> f64 {
        64.0 * self.words.len() as f64
    }
}

/// A ribbon filter: one equation of 128 coefficients a key, solved from the back.
struct Ribbon {
    /// `bits` words of 128 bits for every 128 slots.
    words: Vec<u128>,
    starts: usize,
    bits: usize,
    seed: u64,
}

struct Equation {
    start: usize,
    coefficients: u128,
    result: u64,
}

impl Ribbon {
    const OVERHEAD: f64 = 1.05;

    fn new(hashes: &[u64], bits: usize) -> Self {
        let slots = (hashes.len() as f64 * Self::OVERHEAD) as usize + 128;
        let slots = slots.next_multiple_of(128);
        let mut ribbon = Ribbon { words: Vec::new(), starts: slots - 127, bits, seed: 0 };
        loop {
            if let Some(rows) = ribbon.band(hashes, slots) {
                ribbon.solve(&rows);
                return ribbon;
            }
            ribbon.seed += 1;
        }
    }

    fn equation(&self, hash: u64) -> Equation {
        let mixed = (hash ^ self.seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let low = mixed.wrapping_mul(0xA076_1D64_78BD_642F);
        let high = (mixed ^ mixed >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        Equation {
            start: scaled(mixed, self.starts),
            coefficients: (u128::from(high) << 64 | u128::from(low)) | 1,
            result: (high >> 9 ^ low >> 40) & ((1 << self.bits) - 1),
        }
    }

    fn band(&self, hashes: &[u64], slots: usize) -> Option<Vec<(u128, u64)>> {
        let mut rows = vec![(0u128, 0u64); slots];
        for hash in hashes {
            let Equation { mut start, mut coefficients, mut result } = self.equation(*hash);
            loop {
                let row = &mut rows[start];
                if row.0 == 0 {
                    *row = (coefficients, result);
                    break;
                }
                coefficients ^= row.0;
                result ^= row.1;
                if coefficients == 0 {
                    if result != 0 {
                        return None;
                    }
                    break;
                }
                let skipped = coefficients.trailing_zeros();
                start += skipped as usize;
                coefficients >>= skipped;
            }
        }
        Some(rows)
    }

    fn solve(&mut self, rows: &[(u128, u64)]) {
        self.words = vec![0; rows.len() / 128 * self.bits];
        // The solution of the next 128 slots, one word a bit.
        let mut window = vec![0u128; self.bits];
        for (slot, (coefficients, result)) in rows.iter().enumerate().rev() {
            for (bit, window) in window.iter_mut().enumerate() {
                *window <<= 1;
                let parity = (*window & coefficients).count_ones() as u64 & 1;
                *window |= u128::from(parity ^ result >> bit & 1);
                if slot % 128 == 0 {
                    self.words[slot / 128 * self.bits + bit] = *window;
                }
            }
        }
    }
}

impl Filter for Ribbon {
    fn may_contain(&self, hash: u64) -> bool {
        let Equation { start, coefficients, result } = self.equation(hash);
        let (block, shift) = (start / 128, start as u32 % 128);
        (0..self.bits).all(|bit| {
            let here = self.words[block * self.bits + bit] >> shift;
            let next = self.words.get((block + 1) * self.bits + bit).copied().unwrap_or(0);
            let window = here | next.checked_shl(128 - shift).unwrap_or(0);
            u64::from((window & coefficients).count_ones() & 1) == result >> bit & 1
        })
    }

    fn bits(&self) -> f64 {
        128.0 * self.words.len() as f64
    }
}

/// Nanoseconds a key that `run` takes.
fn time<T>(keys: usize, run: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let result = run();
    (start.elapsed().as_nanos() as f64 / keys as f64, result)
}

fn report<F: Filter>(name: &str, hashes: &[u64], others: &[u64], make: impl Fn() -> F) {
    let (made, filter) = (0..3)
        .map(|_| time(hashes.len(), &make))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .expect("three rounds");
    let asked = |hashes: &[u64]| {
        let ask = || hashes.iter().filter(|hash| filter.may_contain(**hash)).count();
        let rounds = (0..3).map(|_| time(hashes.len(), ask));
        rounds.min_by(|a, b| a.0.total_cmp(&b.0)).expect("three rounds")
    };
    let (hit, hits) = asked(hashes);
    assert_eq!(hits, hashes.len(), "{name} passes its keys");
    let (miss, passed) = asked(others);
    println!(
        "| {name} | {:.2} | {:.3} | {made:.0} | {hit:.0} | {miss:.0} |",
        filter.bits() / hashes.len() as f64,
        100.0 * passed as f64 / others.len() as f64,
    );
}

fn main() {
    let keys = std::env::args().nth(1).map_or(500_000, |keys| keys.parse().expect("a number"));
    let mut prng = Prng::new(1);
    let hashes: Vec<u64> = (0..keys).map(|_| prng.next_u64()).collect();
    let others: Vec<u64> = (0..2_000_000).map(|_| prng.next_u64()).collect();
    println!("| filter of {keys} keys | bits a key | passed % | made ns | hit ns | miss ns |");
    println!("|---|---|---|---|---|---|");
    for bits in [6, 8, 10, 12] {
        let fuse = FuseFilter::new(&mut hashes.clone(), bits);
        let bits_per_key = Filter::bits(&fuse) / keys as f64;
        report(&format!("fuse, {bits}"), &hashes, &others, || {
            FuseFilter::new(&mut hashes.clone(), bits)
        });
        let ribbon = (bits_per_key / Ribbon::OVERHEAD).round() as usize;
        report("ribbon", &hashes, &others, || Ribbon::new(&hashes, ribbon));
        report("Bloom", &hashes, &others, || Bloom::new(&hashes, bits_per_key, false));
        report("Bloom, in a line", &hashes, &others, || Bloom::new(&hashes, bits_per_key, true));
    }
}
