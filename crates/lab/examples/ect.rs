//! Measures the trie indexes and prints the tables of `docs/benchmarks/ect.md`.
//!
//! `cargo run --release -p silica-lab --example ect [KEYS]`

use ph::{GetSize, fmph, phast};
use silica_base::Prng;
use silica_parts::ect::{DenseBuilder, DenseIndex, EctParams, SparseBuilder, SparseIndex};
use std::hint::black_box;
use std::time::Instant;

const LOOKUPS: usize = 2_000_000;
/// Lookups timed together: short enough that most batches are not interrupted.
const BATCH: usize = 1000;
const BUILDS: usize = 3;

/// What was measured of one index.
struct Figures {
    bits_per_key: f64,
    lookup_ns: f64,
    build_keys_per_second: f64,
}

impl Figures {
    fn print(&self, name: &str) {
        let millions = self.build_keys_per_second / 1e6;
        println!("| {name} | {:.3} | {:.0} | {millions:.1} |", self.bits_per_key, self.lookup_ns);
    }
}

/// The keys in order, and a random selection of them in random order.
struct Input {
    keys: Vec<u64>,
    wanted: Vec<u64>,
}

impl Input {
    fn new(count: usize) -> Self {
        let mut prng = Prng::new(1);
        let mut keys: Vec<u64> = (0..count).map(|_| prng.next_u64()).collect();
        keys.sort_unstable();
        let any = |_| keys[prng.below(count as u64) as usize];
        Input { wanted: (0..LOOKUPS).map(any).collect(), keys }
    }

    /// Builds several times and takes the fastest; looks up in batches and takes the median.
    fn measure<T>(
        &self,
        build: impl Fn(&[u64]) -> T,
        bytes: impl Fn(&T) -> usize,
        find: impl Fn(&T, u64) -> u64,
    ) -> Figures {
        let timed = |_| {
            let start = Instant::now();
            (build(&self.keys), start.elapsed().as_secs_f64())
        };
        let builds: Vec<_> = (0..BUILDS).map(timed).collect();
        let fastest = builds.iter().map(|(_, seconds)| *seconds).fold(f64::INFINITY, f64::min);
        let index = &builds[0].0;
        let batch = |keys: &[u64]| {
            let start = Instant::now();
            for &key in keys {
                black_box(find(index, key));
            }
            start.elapsed().as_nanos() as f64 / keys.len() as f64
        };
        let mut batches: Vec<f64> = self.wanted.chunks_exact(BATCH).map(batch).collect();
        batches.sort_by(f64::total_cmp);
        let count = self.keys.len() as f64;
        Figures {
            bits_per_key: bytes(index) as f64 * 8.0 / count,
            lookup_ns: batches[batches.len() / 2],
            build_keys_per_second: count / fastest,
        }
    }

    fn dense(&self, group: u32, hmax: u32) -> Figures {
        let build = |keys: &[u64]| {
            let mut builder = DenseBuilder::new(EctParams { group, hmax }, keys.len() as u64);
            keys.iter().for_each(|&key| builder.push(key));
            builder.finish()
        };
        self.measure(build, DenseIndex::bytes, DenseIndex::rank)
    }

    fn sparse(&self, per_chunk: usize) -> Figures {
        let build = |keys: &[u64]| {
            let chunks = keys.len().div_ceil(per_chunk) as u64;
            let mut builder = SparseBuilder::new(EctParams::default(), chunks);
            for first in (per_chunk..keys.len()).step_by(per_chunk) {
                builder.push_boundary(keys[first - 1], keys[first]);
            }
            builder.finish()
        };
        self.measure(build, SparseIndex::bytes, SparseIndex::chunk)
    }
}

fn header(title: &str, first: &str) {
    println!("\n{title}\n\n| {first} | bits per key | lookup, ns | build, M keys/s |");
    println!("|---|---|---|---|");
}

fn perfect_hashes(input: &Input) {
    input
        .measure(
            |keys| fmph::Function::from_slice_with_conf(keys, fmph::BuildConf::mt(false)),
            |f| f.size_bytes(),
            |f, key| f.get_or_panic(&key),
        )
        .print("ph 0.11, FMPH");
    let go = || fmph::GOBuildConf::with_mt(fmph::GOConf::default(), false);
    input
        .measure(
            |keys| fmph::GOFunction::from_slice_with_conf(keys, go()),
            |f| f.size_bytes(),
            |f, key| f.get_or_panic(&key),
        )
        .print("ph 0.11, FMPHGO");
    input
        .measure(phast::Function::from_slice_st, |f| f.size_bytes(), |f, key| f.get(&key) as u64)
        .print("ph 0.11, PHast");
}

/// Expected bits per key of one trie of `keys` uniform keys whose splits cost `split(size, odds)`;
/// `odds` are those of each left, both one-sided cases first.
fn expected(keys: usize, split: impl Fn(usize, &[f64]) -> f64) -> f64 {
    let mut bits = vec![0.0; keys + 1];
    let mut row = vec![1.0];
    for size in 1..=keys {
        let mut next = vec![0.5; size + 1];
        (1..size).for_each(|left| next[left] = (row[left - 1] + row[left]) / 2.0);
        (next[0], next[size]) = (row[0] / 2.0, row[0] / 2.0);
        row = next;
        if size == 1 {
            continue;
        }
        let mut odds = row[..size].to_vec();
        odds[0] *= 2.0;
        let parts: f64 = (1..size).map(|left| row[left] * (bits[left] + bits[size - left])).sum();
        bits[size] = (split(size, &odds) + parts) / (1.0 - odds[0]);
    }
    bits[keys] / keys as f64
}

fn entropy(odds: &[f64]) -> f64 {
    odds.iter().filter(|&&p| p > 0.0).map(|p| -p * p.log2()).sum()
}

/// Mean word length of the Huffman code: the sum of all inner weights.
fn huffman(odds: &[f64]) -> f64 {
    let mut weights = odds.to_vec();
    let mut mean = 0.0;
    while weights.len() > 1 {
        weights.sort_by(|a, b| b.total_cmp(a));
        let pair = weights.pop().unwrap_or(0.0) + weights.pop().unwrap_or(0.0);
        mean += pair;
        weights.push(pair);
    }
    mean
}

/// Mean length of the Elias-gamma code of the deviation from an even split.
fn elias_gamma(size: usize, odds: &[f64]) -> f64 {
    let word = |left: usize| {
        let deviation = left as i64 - (size / 2) as i64;
        let folded = (deviation << 1 ^ deviation >> 63) as u64;
        f64::from(2 * (folded + 1).ilog2() + 1)
    };
    odds.iter().enumerate().map(|(left, p)| p * word(left)).sum()
}

fn main() {
    let count = std::env::args().nth(1).map_or(10_000_000, |arg| arg.parse().expect("KEYS"));
    let input = Input::new(count);
    println!("{count} keys");
    header("Ours and minimal perfect hashing", "index");
    input.dense(256, 64).print("dense trie, g = 256, hmax = 64");
    perfect_hashes(&input);
    header("Sparse: keys per chunk", "keys per chunk");
    for per_chunk in [4, 8, 16, 63] {
        input.sparse(per_chunk).print(&per_chunk.to_string());
    }
    header("Figure 3.10: virtual buckets, hmax = 64", "g");
    for group in [8, 16, 32, 64, 128, 256, 512, 1024] {
        input.dense(group, 64).print(&group.to_string());
    }
    header("Figure 3.11: Huffman codes up to hmax, g = 256", "hmax");
    for hmax in [2, 4, 8, 16, 32, 64, 128] {
        input.dense(256, hmax).print(&hmax.to_string());
    }
    println!("\nFigure 3.3: expected bits per key of one trie of 256 keys\n");
    println!("entropy {:.3}", expected(256, |_, odds| entropy(odds)));
    let paper = |size: usize, odds: &[f64]| {
        if size <= 64 { huffman(odds) } else { elias_gamma(size, odds) }
    };
    println!("Huffman up to 64, Elias-gamma beyond (the paper's) {:.3}", expected(256, paper));
    println!("Huffman for all {:.3}", expected(256, |_, odds| huffman(odds)));
}
