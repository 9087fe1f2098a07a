//! The one workload generator: keys from their index, values from their key, and indexes from a
//! distribution. Everything follows from a seed, so that two runs ask and answer the same.

use silica_base::Prng;

/// Fewer bytes could not tell all indexes apart.
pub const KEY_BYTES_MIN: usize = 8;
/// Values from this size on carry a version, so that overwrites change them.
const VERSIONED_BYTES_MIN: usize = 16;
/// Indexes from here on are never written.
const MISSING_FROM: u64 = 1 << 63;

/// Mixes an index to 64 bits; different indexes give different results.
#[inline]
pub(crate) fn mix(index: u64) -> u64 {
    let mut z = index.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Makes keys and values of fixed sizes.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Bytes of each key, at least [`KEY_BYTES_MIN`].
    pub key_bytes: usize,
    /// Bytes of each value.
    pub value_bytes: usize,
}

impl Shape {
    /// Writes the key number `index` to `out`.
    #[inline]
    pub fn key(&self, index: u64, out: &mut Vec<u8>) {
        out.clear();
        out.resize(self.key_bytes, 0);
        out[..8].copy_from_slice(&mix(index).to_le_bytes());
        if self.key_bytes > 8 {
            Prng::new(index).fill(&mut out[8..]);
        }
    }

    /// Writes a key that no workload ever puts to `out`.
    #[inline]
    pub fn missing_key(&self, index: u64, out: &mut Vec<u8>) {
        self.key(index | MISSING_FROM, out);
    }

    /// Writes the value that version `version` of key number `index` has to `out`.
    #[inline]
    pub fn value(&self, index: u64, version: u64, out: &mut Vec<u8>) {
        out.clear();
        out.resize(self.value_bytes, 0);
        if self.value_bytes < VERSIONED_BYTES_MIN {
            Prng::new(!index).fill(out);
            return;
        }
        out[..8].copy_from_slice(&mix(!index).to_le_bytes());
        out[8..16].copy_from_slice(&version.to_le_bytes());
        Prng::new(!index ^ mix(version)).fill(&mut out[16..]);
    }

    /// True where `value` is what some version of key number `index` has. `scratch` is used.
    #[inline]
    pub fn is_value_of(&self, index: u64, value: &[u8], scratch: &mut Vec<u8>) -> bool {
        let version = match value.get(8..16) {
            Some(bytes) if value.len() >= VERSIONED_BYTES_MIN => {
                u64::from_le_bytes(bytes.try_into().expect("8 bytes"))
            }
            _ => 0,
        };
        self.value(index, version, scratch);
        scratch == value
    }
}

/// Which keys are asked for how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// All alike.
    Uniform,
    /// Zipf's law with exponent 0.99, the popular keys scattered (YCSB's scrambled zipfian).
    Zipfian,
    /// Zipf's law over age: the youngest keys are the popular ones.
    Latest,
}

impl Distribution {
    /// Reads `uniform`, `zipfian` or `latest`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "uniform" => Some(Distribution::Uniform),
            "zipfian" => Some(Distribution::Zipfian),
            "latest" => Some(Distribution::Latest),
            _ => None,
        }
    }

    /// The word that [`Distribution::parse`] reads.
    pub fn name(self) -> &'static str {
        match self {
            Distribution::Uniform => "uniform",
            Distribution::Zipfian => "zipfian",
            Distribution::Latest => "latest",
        }
    }
}

const ZIPF_EXPONENT: f64 = 0.99;
/// Terms of the zeta sum that are added one by one; an integral stands for the rest.
const ZETA_TERMS: u64 = 1 << 20;

/// Ranks by Zipf's law, by the method of Gray et al. that YCSB uses.
#[derive(Debug, Clone)]
struct Zipf {
    items: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
    half_power: f64,
}

impl Zipf {
    fn new(items: u64) -> Self {
        let theta = ZIPF_EXPONENT;
        let zeta = zeta(items);
        let n = items as f64;
        let eta = (1.0 - (2.0 / n).powf(1.0 - theta)) / (1.0 - zeta_exact(2) / zeta);
        Zipf { items: n, zeta, alpha: 1.0 / (1.0 - theta), eta, half_power: 0.5f64.powf(theta) }
    }

    /// A rank below the number of items; 0 is the most popular.
    #[inline]
    fn rank(&self, prng: &mut Prng) -> u64 {
        let u = prng.unit();
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0;
        }
        if uz < 1.0 + self.half_power {
            return 1.min(self.items as u64 - 1);
        }
        let rank = self.items * (self.eta * u - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.items as u64 - 1)
    }
}

fn zeta_exact(items: u64) -> f64 {
    (1..=items).map(|i| (i as f64).powf(-ZIPF_EXPONENT)).sum()
}

/// Sum of `i^-0.99` up to `items`: exact for the first terms, Euler and Maclaurin's formula for
/// the others (its error here is below 1e-12).
fn zeta(items: u64) -> f64 {
    if items <= ZETA_TERMS {
        return zeta_exact(items);
    }
    let (m, n, theta) = (ZETA_TERMS as f64, items as f64, ZIPF_EXPONENT);
    let integral = (n.powf(1.0 - theta) - m.powf(1.0 - theta)) / (1.0 - theta);
    zeta_exact(ZETA_TERMS) + integral + (n.powf(-theta) - m.powf(-theta)) / 2.0
}

/// Draws indexes of existing keys.
#[derive(Debug, Clone)]
pub(crate) struct Chooser {
    distribution: Distribution,
    keys: u64,
    zipf: Option<Zipf>,
}

impl Chooser {
    /// Draws among the first `keys` keys (at least one).
    pub(crate) fn new(distribution: Distribution, keys: u64) -> Self {
        let keys = keys.max(1);
        let zipf = (distribution != Distribution::Uniform).then(|| Zipf::new(keys));
        Chooser { distribution, keys, zipf }
    }

    /// The next index. `youngest` counts the keys that were inserted after the first `keys`; it
    /// matters to `latest` only, whose result may be `keys + youngest - 1` at most.
    #[inline]
    pub(crate) fn draw(&self, prng: &mut Prng, youngest: u64) -> u64 {
        match (&self.zipf, self.distribution) {
            (Some(zipf), Distribution::Zipfian) => mix(zipf.rank(prng)) % self.keys,
            (Some(zipf), Distribution::Latest) => self.keys + youngest - 1 - zipf.rank(prng),
            _ => prng.below(self.keys),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_differ_and_values_verify() {
        let shape = Shape { key_bytes: 20, value_bytes: 100 };
        let (mut key, mut value, mut scratch) = (Vec::new(), Vec::new(), Vec::new());
        let mut seen = BTreeSet::new();
        for index in 0..1000 {
            shape.key(index, &mut key);
            assert!(seen.insert(key.clone()), "key {index} is new");
            shape.missing_key(index, &mut key);
            assert!(seen.insert(key.clone()), "missing key {index} is new");
            shape.value(index, 3, &mut value);
            assert!(shape.is_value_of(index, &value, &mut scratch));
            assert!(!shape.is_value_of(index + 1, &value, &mut scratch));
            value[50] ^= 1;
            assert!(!shape.is_value_of(index, &value, &mut scratch));
        }
        let tiny = Shape { key_bytes: 8, value_bytes: 3 };
        tiny.value(7, 1, &mut value);
        assert!(tiny.is_value_of(7, &value, &mut scratch));
        assert!(!tiny.is_value_of(7, &value[..2], &mut scratch));
    }

    #[test]
    fn zeta_of_many_items_matches_the_plain_sum() {
        let items = 3 * ZETA_TERMS + 17;
        assert!((zeta(items) - zeta_exact(items)).abs() < 1e-9);
    }

    #[test]
    fn zipf_gives_the_first_rank_its_share() {
        let (items, draws) = (10_000, 200_000);
        let zipf = Zipf::new(items);
        let mut prng = Prng::new(1);
        let mut first = 0u32;
        for _ in 0..draws {
            let rank = zipf.rank(&mut prng);
            assert!(rank < items);
            first += u32::from(rank == 0);
        }
        let expected = f64::from(draws) / zeta_exact(items);
        assert!((f64::from(first) - expected).abs() < expected * 0.05, "{first} of {expected}");
    }

    #[test]
    fn choosers_stay_in_range_and_latest_prefers_the_young() {
        let mut prng = Prng::new(5);
        for distribution in [Distribution::Uniform, Distribution::Zipfian, Distribution::Latest] {
            assert_eq!(Distribution::parse(distribution.name()), Some(distribution));
            let chooser = Chooser::new(distribution, 1000);
            let draws: Vec<u64> = (0..10_000).map(|_| chooser.draw(&mut prng, 50)).collect();
            let end = if distribution == Distribution::Latest { 1050 } else { 1000 };
            assert!(draws.iter().all(|d| *d < end));
            if distribution == Distribution::Latest {
                let young = draws.iter().filter(|d| **d >= 1000).count();
                assert!(young > 4000, "{young} of 10000 are among the youngest 50");
            }
        }
    }
}
