//! R-MAT graphs with Graph500's parameters.

use silica_base::{Error, ErrorKind, Prng, Result};

/// Shares of the four quadrants of the adjacency matrix (Graph500 specification, 3.2).
const SHARES: [f64; 4] = [0.57, 0.19, 0.19, 0.05];
/// Scales that ids have room for.
const SCALE_MAX: u32 = 32;

/// Draws edges of an R-MAT graph of 2^scale vertices. Ids are permuted, so the most connected
/// vertices are not neighbours.
#[derive(Debug, Clone)]
pub struct Rmat {
    prng: Prng,
    scale: u32,
    /// Odd numbers and shifts of a permutation of the ids.
    factors: [u64; 2],
}

impl Rmat {
    /// A graph that depends on nothing but `scale` and `seed`.
    ///
    /// # Errors
    /// `Config` for a scale of 0 or more than 32.
    pub fn new(scale: u32, seed: u64) -> Result<Self> {
        if !(1..=SCALE_MAX).contains(&scale) {
            let message = format!("the scale {scale} is not among 1..={SCALE_MAX}");
            return Err(Error::new(ErrorKind::Config, message));
        }
        let mut prng = Prng::new(seed);
        let factors = [prng.next_u64() | 1, prng.next_u64() | 1];
        Ok(Rmat { prng, scale, factors })
    }

    /// The next edge: source and target.
    pub fn edge(&mut self) -> (u32, u32) {
        let (mut source, mut target) = (0u64, 0u64);
        for _ in 0..self.scale {
            let at = self.prng.unit();
            let quadrant = match at {
                _ if at < SHARES[0] => 0,
                _ if at < SHARES[0] + SHARES[1] => 1,
                _ if at < SHARES[0] + SHARES[1] + SHARES[2] => 2,
                _ => 3,
            };
            source = source << 1 | quadrant >> 1;
            target = target << 1 | quadrant & 1;
        }
        (self.permuted(source), self.permuted(target))
    }

    /// Products with odd numbers and shifts to the right permute numbers of `scale` bits.
    fn permuted(&self, id: u64) -> u32 {
        let mask = (1u64 << self.scale) - 1;
        let half = self.scale.div_ceil(2);
        let id = self.factors.iter().fold(id, |id, factor| {
            let id = id.wrapping_mul(*factor) & mask;
            id ^ id >> half
        });
        id as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_permuted() {
        let rmat = Rmat::new(10, 7).unwrap();
        let mut ids: Vec<u32> = (0..1024).map(|id| rmat.permuted(id)).collect();
        ids.sort_unstable();
        assert!(ids.iter().copied().eq(0..1024));
    }

    #[test]
    fn degrees_are_skewed_as_the_shares_say() {
        let mut rmat = Rmat::new(12, 1).unwrap();
        let mut leaving = vec![0u32; 4096];
        for _ in 0..65_536 {
            leaving[rmat.edge().0 as usize] += 1;
        }
        leaving.sort_unstable();
        // The first vertex leaves an edge with a probability of 0.76 to the twelfth: 2,432 of them.
        let most = leaving[4095];
        assert!((2_200..2_700).contains(&most), "{most}");
        assert!(Rmat::new(0, 1).is_err() && Rmat::new(33, 1).is_err());
    }
}
