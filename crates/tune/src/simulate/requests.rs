//! The keys of a simulation: every key once, then keys by Zipf's law.

use silica_base::{Prng, Result};

use super::config;
use crate::model::SKEW_MAX;

/// Seeded requests over the keys `0 .. keys`.
///
/// Popular keys are scattered: the `i`th most popular key is at a place that a seeded permutation
/// gives it.
#[derive(Debug)]
pub struct Requests {
    keys: u32,
    prng: Prng,
    ranks: Option<Zipf>,
    places: Permutation,
    order: Permutation,
}

/// The most keys of a simulation: 4 GiB of them.
const KEYS_MAX: u64 = 1 << 30;

impl Requests {
    /// Requests for `keys` keys, the `i`th most popular of them in proportion to `1 / i^skew`.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](silica_base::ErrorKind::Config) for no keys, more than 2^30, or a skew
    /// outside `0 ..= 2`.
    pub fn zipf(keys: u64, skew: f64, seed: u64) -> Result<Self> {
        if !(1..=KEYS_MAX).contains(&keys) {
            return Err(config(format!("a simulation has 1 to {KEYS_MAX} keys, not {keys}")));
        }
        if !(0.0..=SKEW_MAX).contains(&skew) {
            return Err(config(format!("a skew is between 0 and {SKEW_MAX}, not {skew}")));
        }
        let keys = keys as u32;
        let mut prng = Prng::new(seed);
        Ok(Requests {
            keys,
            ranks: (skew > 0.0).then(|| Zipf::new(keys, skew)),
            places: Permutation::new(keys, &mut prng),
            order: Permutation::new(keys, &mut prng),
            prng,
        })
    }

    /// Number of keys.
    pub fn keys(&self) -> u32 {
        self.keys
    }

    /// The `i`th key of an order that has every key once; `i` is below the number of keys.
    pub fn once(&self, i: u32) -> u32 {
        self.order.at(i)
    }

    /// The key of the next request.
    #[inline]
    pub fn draw(&mut self) -> u32 {
        match &self.ranks {
            None => self.prng.below(u64::from(self.keys)) as u32,
            Some(zipf) => {
                let rank = zipf.rank(&mut self.prng);
                self.places.at(rank)
            }
        }
    }
}

/// Ranks that are alike enough to be drawn as if they were the same.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// Lowest rank, from 1.
    first: u32,
    ranks: u32,
    /// The weight of the last rank over that of the first: below it nothing has to be computed.
    sure: f64,
    /// Where the alias method goes elsewhere, in parts of 2^64, and where to.
    stays: u64,
    alias: u32,
}

/// Zipf's law, exactly, for any skew: a segment of ranks by the alias method, a rank in it evenly,
/// and a rejection by how much less likely it is than the segment's first. Some 40 segments for
/// each factor of 10 of the keys stay in the nearest cache.
#[derive(Debug)]
struct Zipf {
    skew: f64,
    segments: Vec<Segment>,
}

/// A segment is as long as this part of its first rank, and at least one rank.
const SEGMENT_PART: u32 = 16;

impl Zipf {
    fn new(keys: u32, skew: f64) -> Self {
        let mut segments = Vec::new();
        let mut weights = Vec::new();
        let mut first = 1;
        while first <= keys {
            let ranks = (first / SEGMENT_PART).max(1).min(keys - first + 1);
            let weight = f64::from(first).powf(-skew);
            let sure = (f64::from(first + ranks - 1) / f64::from(first)).powf(-skew);
            segments.push(Segment { first, ranks, sure, stays: u64::MAX, alias: 0 });
            weights.push(weight * f64::from(ranks));
            first += ranks;
        }
        alias(&mut segments, &mut weights);
        Zipf { skew, segments }
    }

    /// A rank from 0 on; 0 is the most popular.
    #[inline]
    fn rank(&self, prng: &mut Prng) -> u32 {
        loop {
            let (column, part) = split(prng.next_u64(), self.segments.len() as u64);
            let mut segment = &self.segments[column as usize];
            if part > segment.stays {
                segment = &self.segments[segment.alias as usize];
            }
            let (inside, part) = split(prng.next_u64(), u64::from(segment.ranks));
            let rank = segment.first + inside as u32;
            let height = part as f64 / 2f64.powi(64);
            if height <= segment.sure
                || height <= (f64::from(rank) / f64::from(segment.first)).powf(-self.skew)
            {
                return rank - 1;
            }
        }
    }
}

/// A number below `bound`, and a second one of 64 bits that what remains of `bits` gives.
#[inline]
fn split(bits: u64, bound: u64) -> (u64, u64) {
    let wide = u128::from(bits) * u128::from(bound);
    ((wide >> 64) as u64, wide as u64)
}

/// Fills the alias table of Walker and Vose.
fn alias(segments: &mut [Segment], weights: &mut [f64]) {
    let mean = weights.iter().sum::<f64>() / weights.len() as f64;
    let (mut small, mut large): (Vec<usize>, Vec<usize>) =
        (0..weights.len()).partition(|&i| weights[i] < mean);
    while let (Some(&poor), Some(&rich)) = (small.last(), large.last()) {
        small.pop();
        segments[poor].stays = (weights[poor] / mean * 2f64.powi(64)) as u64;
        segments[poor].alias = rich as u32;
        weights[rich] -= mean - weights[poor];
        if weights[rich] < mean {
            large.pop();
            small.push(rich);
        }
    }
}

/// A seeded permutation of the numbers below `keys`: a Feistel network over as many bits as they
/// have, walked until it is back among them.
#[derive(Debug)]
struct Permutation {
    keys: u32,
    low_bits: u32,
    low: u32,
    high: u32,
    rounds: [u64; 4],
}

impl Permutation {
    fn new(keys: u32, prng: &mut Prng) -> Self {
        let bits = (32 - (keys - 1).leading_zeros()).max(2);
        let low_bits = bits / 2;
        Permutation {
            keys,
            low_bits,
            low: (1 << low_bits) - 1,
            high: (1 << (bits - low_bits)) - 1,
            rounds: std::array::from_fn(|_| prng.next_u64()),
        }
    }

    #[inline]
    fn at(&self, number: u32) -> u32 {
        let mut now = number;
        loop {
            let (mut low, mut high) = (now & self.low, now >> self.low_bits);
            for pair in self.rounds.chunks_exact(2) {
                high ^= scatter(low, pair[0]) & self.high;
                low ^= scatter(high, pair[1]) & self.low;
            }
            now = high << self.low_bits | low;
            if now < self.keys {
                return now;
            }
        }
    }
}

#[inline]
fn scatter(half: u32, seed: u64) -> u32 {
    let mixed = (u64::from(half) ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ mixed >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 40) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_comes_once() {
        for keys in [1, 2, 3, 5, 64, 1000, 4097] {
            let requests = Requests::zipf(keys, 0.0, 3).unwrap();
            let mut all: Vec<u32> = (0..keys as u32).map(|i| requests.once(i)).collect();
            assert!(keys < 64 || !all.is_sorted());
            all.sort_unstable();
            assert!(all.into_iter().eq(0..keys as u32), "{keys}");
        }
    }

    #[test]
    fn ranks_follow_the_law_by_chi_squared() {
        const DRAWS: u32 = 1 << 20;
        for (keys, skew) in [(1u32, 0.5), (7, 2.0), (500, 0.99), (500, 0.3), (2000, 1.4)] {
            let zipf = Zipf::new(keys, skew);
            let mut prng = Prng::new(11);
            let mut seen = vec![0u32; keys as usize];
            for _ in 0..DRAWS {
                seen[zipf.rank(&mut prng) as usize] += 1;
            }
            let weight = |i: usize| ((i + 1) as f64).powf(-skew);
            let all: f64 = (0..keys as usize).map(weight).sum();
            let squared: f64 = seen
                .iter()
                .enumerate()
                .map(|(i, &seen)| {
                    let expected = f64::from(DRAWS) * weight(i) / all;
                    (f64::from(seen) - expected).powi(2) / expected
                })
                .sum();
            // Five standard deviations over the mean.
            let freedom = f64::from(keys - 1);
            assert!(squared <= freedom + 5.0 * (2.0 * freedom).sqrt(), "{keys} {skew}: {squared}");
        }
    }
}
