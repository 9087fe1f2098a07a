//! The papers' requests to a cache.

use silica_base::{Prng, Result};
use silica_bench::{Sizes, normal};

use super::super::config;

/// Bytes of an item besides its value: key and header. With them a SET has 375 bytes on average, as
/// 80 million SETs have about 30 GB (Shen's dissertation, section 2.5.4).
pub const ITEM_OVERHEAD_BYTES: u32 = 48;
/// Bytes of a value at most, where its distribution is cut: the largest object of section 2.5.4.
pub const ITEM_BYTES_MAX: u32 = 4096;

/// Seeded requests over the keys `0 .. keys`: which key is asked for follows a normal distribution
/// over the keys' ranks, whose mean moves; sizes of values follow a generalised Pareto distribution
/// (location 0, scale 214.4766, shape 0.348238), cut at 4 KiB (Shen's dissertation, section 2.5.3).
///
/// The dissertation names neither the width nor how the mean moves. Here it moves by `drift` ranks
/// with each request, and the last rank's neighbour is the first one.
#[derive(Clone, Debug)]
pub struct CacheRequests {
    keys: u32,
    width: f64,
    drift: f64,
    mean: f64,
    prng: Prng,
}

impl CacheRequests {
    /// Requests with a standard deviation of `width` keys, whose mean moves by `drift` keys a
    /// request.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](silica_base::ErrorKind::Config) for no keys or 2^32 and more, and for
    /// a width or drift that is negative or no number.
    pub fn new(keys: u64, width: f64, drift: f64, seed: u64) -> Result<Self> {
        let Ok(keys) = u32::try_from(keys) else {
            return Err(config(format!("a cache has fewer than 2^32 keys, not {keys}")));
        };
        let is_wrong = |value: f64| !value.is_finite() || value < 0.0;
        if keys == 0 || is_wrong(width) || is_wrong(drift) {
            return Err(config(format!(
                "requests have at least 1 key, a width and a drift of 0 or more keys, not {keys}, \
                 {width} and {drift}"
            )));
        }
        Ok(CacheRequests { keys, width, drift, mean: 0.0, prng: Prng::new(seed) })
    }

    /// Number of keys.
    pub fn keys(&self) -> u32 {
        self.keys
    }

    /// The key of the next request.
    #[inline]
    pub fn draw(&mut self) -> u32 {
        let keys = f64::from(self.keys);
        let rank = (self.mean + self.width * normal(&mut self.prng)).rem_euclid(keys);
        self.mean = (self.mean + self.drift) % keys;
        // The remainder may round up to the number of keys itself.
        (rank as u32).min(self.keys - 1)
    }

    /// True for a share of the requests.
    #[inline]
    pub fn is_one_of(&mut self, share: f64) -> bool {
        self.prng.unit() < share
    }

    /// Bytes of a key's item, which stay the same.
    #[inline]
    pub fn item_bytes(key: u32) -> u32 {
        let value = Sizes::Pareto.bytes(ITEM_BYTES_MAX as usize, u64::from(key), 1) as u32;
        value + ITEM_OVERHEAD_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_normal_around_a_mean_that_moves() {
        let (keys, width, drift) = (1_000_000, 10_000.0, 0.5);
        let mut requests = CacheRequests::new(keys, width, drift, 3).unwrap();
        let count = 200_000;
        let (mut sum, mut squares) = (0.0, 0.0);
        for i in 0..count {
            let away = f64::from(requests.draw()) - drift * f64::from(i);
            // Ranks below 0 are the last ones.
            let away = if away > keys as f64 / 2.0 { away - keys as f64 } else { away };
            sum += away;
            squares += away * away;
        }
        let (mean, deviation) = (sum / f64::from(count), (squares / f64::from(count)).sqrt());
        assert!(mean.abs() < 100.0 && (deviation / width - 1.0).abs() < 0.01, "{mean} {deviation}");
    }

    #[test]
    fn items_have_the_papers_mean_size() {
        let count = 100_000;
        let sum: u64 = (0..count).map(|key| u64::from(CacheRequests::item_bytes(key))).sum();
        let mean = sum as f64 / f64::from(count);
        assert!((mean / 375.0 - 1.0).abs() < 0.04, "{mean}");
    }

    #[test]
    fn what_are_no_requests_has_an_error_that_helps() {
        for (keys, width, drift) in [
            (0, 1.0, 0.0),
            (1 << 32, 1.0, 0.0),
            (9, -1.0, 0.0),
            (9, 1.0, f64::NAN),
            (9, f64::INFINITY, 0.0),
        ] {
            let error = CacheRequests::new(keys, width, drift, 1).unwrap_err().to_string();
            assert!(error.contains("keys"), "{error}");
        }
        let mut one = CacheRequests::new(1, 0.0, 0.0, 1).unwrap();
        assert_eq!(one.draw(), 0);
    }
}
