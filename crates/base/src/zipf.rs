//! Ranks by Zipf's law.

use crate::Prng;

/// Ranks that are alike enough to be drawn as if they were the same.
#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    /// Lowest rank, from 1.
    first: u64,
    ranks: u64,
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
#[derive(Clone, Debug)]
pub struct Zipf {
    skew: f64,
    columns: Vec<Column>,
}

/// A segment is as long as this part of its first rank, and at least one rank.
const SEGMENT_PART: u64 = 16;

impl Zipf {
    /// Ranks of `count` (at least one), the `i`th in proportion to `1 / i^skew`.
    pub fn new(count: u64, skew: f64) -> Self {
        let keys = count.max(1);
        let mut segments = Vec::new();
        let mut weights = Vec::new();
        let mut first = 1;
        while first <= keys {
            let ranks = (first / SEGMENT_PART).max(1).min(keys - first + 1);
            segments.push(Segment { first, ranks, slope: skew / first as f64 });
            weights.push((first as f64).powf(-skew) * ranks as f64);
            first += ranks;
        }
        Zipf { skew, columns: columns(&segments, weights) }
    }

    /// A rank below the count; 0 is the most popular.
    #[inline]
    pub fn rank(&self, prng: &mut Prng) -> u64 {
        loop {
            let (column, part) = split(prng.next_u64(), self.columns.len() as u64);
            let column = &self.columns[column as usize];
            // An index, not a branch: nothing could predict it.
            let segment = &column.segments[usize::from(part > column.stays)];
            let (inside, part) = split(prng.next_u64(), segment.ranks);
            let height = part as f64 * (1.0 / 18_446_744_073_709_551_616.0);
            // (1 + x)^-s is no less than 1 - s x; there the power need not be computed.
            if height <= 1.0 - segment.slope * inside as f64 || self.holds(segment, inside, height)
            {
                return segment.first + inside - 1;
            }
        }
    }

    /// Whether a rank's weight, in parts of its segment's first, is at least `height`.
    #[cold]
    fn holds(&self, segment: &Segment, inside: u64, height: f64) -> bool {
        height <= (1.0 + inside as f64 / segment.first as f64).powf(-self.skew)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_follow_the_law_by_chi_squared() {
        const DRAWS: u32 = 1 << 20;
        for (keys, skew) in [(1u64, 0.5), (7, 2.0), (500, 0.99), (500, 0.3), (2000, 1.4)] {
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
            let freedom = (keys - 1) as f64;
            assert!(squared <= freedom + 5.0 * (2.0 * freedom).sqrt(), "{keys} {skew}: {squared}");
        }
    }
}
