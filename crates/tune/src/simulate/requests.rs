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
#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    /// Lowest rank, from 1.
    first: u32,
    ranks: u32,
    /// How much of the first rank's weight each further rank loses at most.
    slope: f64,
}

/// A column of the alias method.
#[derive(Clone, Copy, Debug)]
struct Column {
    /// Up to where the column's own segment is taken, in parts of 2^64.
    stays: u64,
    /// The own segment, and the other one.
    segments: [Segment; 2],
}

/// Zipf's law, exactly, for any skew: a segment of ranks by the alias method, a rank in it evenly,
/// and a rejection by how much less likely it is than the segment's first. Some 40 segments for
/// each factor of 10 of the keys stay in the nearest cache.
#[derive(Debug)]
struct Zipf {
    skew: f64,
    columns: Vec<Column>,
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
            segments.push(Segment { first, ranks, slope: skew / f64::from(first) });
            weights.push(f64::from(first).powf(-skew) * f64::from(ranks));
            first += ranks;
        }
        Zipf { skew, columns: columns(&segments, weights) }
    }

    /// A rank from 0 on; 0 is the most popular.
    #[inline]
    fn rank(&self, prng: &mut Prng) -> u32 {
        loop {
            let (column, part) = split(prng.next_u64(), self.columns.len() as u64);
            let column = &self.columns[column as usize];
            // An index, not a branch: nothing could predict it.
            let segment = &column.segments[usize::from(part > column.stays)];
            let (inside, part) = split(prng.next_u64(), u64::from(segment.ranks));
            let height = part as f64 * (1.0 / 18_446_744_073_709_551_616.0);
            // (1 + x)^-s is no less than 1 - s x; there the power need not be computed.
            if height <= 1.0 - segment.slope * inside as f64 || self.holds(segment, inside, height)
            {
                return segment.first + inside as u32 - 1;
            }
        }
    }

    /// Whether a rank's weight, in parts of its segment's first, is at least `height`.
    #[cold]
    fn holds(&self, segment: &Segment, inside: u64, height: f64) -> bool {
        height <= (1.0 + inside as f64 / f64::from(segment.first)).powf(-self.skew)
    }
}

/// A number below `bound`, and a second one of 64 bits that what remains of `bits` gives.
#[inline]
fn split(bits: u64, bound: u64) -> (u64, u64) {
    let wide = u128::from(bits) * u128::from(bound);
    ((wide >> 64) as u64, wide as u64)
}

/// The alias table of Walker and Vose.
fn columns(segments: &[Segment], mut weights: Vec<f64>) -> Vec<Column> {
    let own = |&segment: &Segment| Column { stays: u64::MAX, segments: [segment; 2] };
    let mut columns: Vec<Column> = segments.iter().map(own).collect();
    let mean = weights.iter().sum::<f64>() / weights.len() as f64;
    let (mut small, mut large): (Vec<usize>, Vec<usize>) =
        (0..weights.len()).partition(|&i| weights[i] < mean);
    while let (Some(&poor), Some(&rich)) = (small.last(), large.last()) {
        small.pop();
        columns[poor].stays = (weights[poor] / mean * 2f64.powi(64)) as u64;
        columns[poor].segments[1] = segments[rich];
        weights[rich] -= mean - weights[poor];
        if weights[rich] < mean {
            large.pop();
            small.push(rich);
        }
    }
    columns
}

/// A seeded permutation of the numbers below `keys`: a Feistel network over rows and columns of a
/// square that is hardly larger, walked until it is back among them. Its tables of random moves
/// have four times the square's side, so they stay in a near cache.
#[derive(Debug)]
struct Permutation {
    keys: u32,
    columns: u32,
    rows: u32,
    /// How far a number moves down in each column and right in each row, twice.
    moves: [(Vec<u16>, Vec<u16>); 2],
}

impl Permutation {
    fn new(keys: u32, prng: &mut Prng) -> Self {
        let columns = f64::from(keys).sqrt().ceil() as u32;
        let rows = keys.div_ceil(columns);
        let mut moves = |count: u32, below: u32| -> Vec<u16> {
            (0..count).map(|_| prng.below(u64::from(below)) as u16).collect()
        };
        let moves = std::array::from_fn(|_| (moves(columns, rows), moves(rows, columns)));
        Permutation { keys, columns, rows, moves }
    }

    #[inline]
    fn at(&self, number: u32) -> u32 {
        let mut now = number;
        loop {
            let (mut row, mut column) = (now / self.columns, now % self.columns);
            for (down, right) in &self.moves {
                row = turned(row + u32::from(down[column as usize]), self.rows);
                column = turned(column + u32::from(right[row as usize]), self.columns);
            }
            now = row * self.columns + column;
            if now < self.keys {
                return now;
            }
        }
    }
}

/// A number below twice `bound`, less `bound` where it is not below that.
#[inline]
fn turned(number: u32, bound: u32) -> u32 {
    if number >= bound { number - bound } else { number }
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
