//! The one workload generator: keys from their index, and values from their key. Everything
//! follows from a seed, so that two runs ask and answer the same.

use silica_base::Prng;

/// Fewer bytes could not tell all indexes apart.
pub const KEY_BYTES_MIN: usize = 8;
/// Values from this size on carry a version, so that overwrites change them.
const VERSIONED_BYTES_MIN: usize = 16;
/// Indexes from here on are never written.
const MISSING_FROM: u64 = 1 << 63;

const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
const FIRST: u64 = 0xBF58_476D_1CE4_E5B9;
const SECOND: u64 = 0x94D0_49BB_1331_11EB;

/// Mixes an index to 64 bits; different indexes give different results.
#[inline]
pub(crate) fn mix(index: u64) -> u64 {
    let mut z = index.wrapping_add(GOLDEN);
    z = (z ^ (z >> 30)).wrapping_mul(FIRST);
    z = (z ^ (z >> 27)).wrapping_mul(SECOND);
    z ^ (z >> 31)
}

/// The number whose product with `odd` is 1, by Newton's iteration.
const fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut round = 0;
    while round < 6 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        round += 1;
    }
    inverse
}

/// The index that [`mix`] turned into `mixed`.
#[inline]
pub(crate) fn unmix(mixed: u64) -> u64 {
    const FIRST_INVERSE: u64 = inverse(FIRST);
    const SECOND_INVERSE: u64 = inverse(SECOND);
    let mut z = mixed ^ (mixed >> 31) ^ (mixed >> 62);
    z = z.wrapping_mul(SECOND_INVERSE);
    z = (z ^ (z >> 27) ^ (z >> 54)).wrapping_mul(FIRST_INVERSE);
    z = z ^ (z >> 30) ^ (z >> 60);
    z.wrapping_sub(GOLDEN)
}

/// Where the bytes of a key come from, and so how keys lie in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// A hash of the index: the keys are spread evenly over all byte strings.
    Hashed,
    /// The index itself, so that keys in the order of their indexes are in order.
    Ordered,
    /// Four regions of the key space, a quarter of all indexes each, one after the other: with
    /// exponential, normal, uniform and reversed exponential density.
    Regions,
}

/// Bytes of a position in the key space in front of a key of [`Layout::Regions`].
const POSITION_BYTES: usize = 4;

impl Layout {
    /// Fewer bytes could not tell all indexes apart.
    pub fn key_bytes_min(self) -> usize {
        match self {
            Layout::Hashed | Layout::Ordered => KEY_BYTES_MIN,
            Layout::Regions => POSITION_BYTES + KEY_BYTES_MIN,
        }
    }

    /// Appends the key number `index` of `keys`, of `key_bytes` bytes.
    #[inline]
    pub(crate) fn append_key(self, key_bytes: usize, index: u64, keys: u64, out: &mut Vec<u8>) {
        let end = out.len() + key_bytes;
        match self {
            Layout::Hashed => out.extend_from_slice(&mix(index).to_le_bytes()),
            Layout::Ordered => out.extend_from_slice(&index.to_be_bytes()),
            Layout::Regions => {
                out.extend_from_slice(&region_position(index, keys).to_be_bytes());
                out.extend_from_slice(&mix(index).to_le_bytes());
            }
        }
        append_random(index, end, out);
    }

    /// The index of a key that [`Layout::append_key`] may have made.
    pub(crate) fn index_of(self, key: &[u8]) -> Option<u64> {
        let at = if self == Layout::Regions { POSITION_BYTES } else { 0 };
        let bytes = key.get(at..at + KEY_BYTES_MIN)?.try_into().expect("8 bytes");
        Some(match self {
            Layout::Ordered => u64::from_be_bytes(bytes),
            Layout::Hashed | Layout::Regions => unmix(u64::from_le_bytes(bytes)),
        })
    }
}

/// Share of a region within which an exponential density falls to 1/e, and standard deviation of
/// the normal one, both in parts of the region. Choices of ours: the paper does not tell.
const EXPONENTIAL_SCALE: f64 = 1.0 / 8.0;
const NORMAL_DEVIATION: f64 = 1.0 / 8.0;

/// Where in the key space the key number `index` of `keys` lies.
#[inline]
fn region_position(index: u64, keys: u64) -> u32 {
    let region = ((u128::from(index) * 4 / u128::from(keys.max(1))) as u64).min(3);
    let mut prng = Prng::new(index);
    let within = match region {
        0 => exponential(&mut prng),
        1 => (0.5 + NORMAL_DEVIATION * normal(&mut prng)).clamp(0.0, 1.0),
        2 => prng.unit(),
        _ => 1.0 - exponential(&mut prng),
    };
    let quarter = 1u64 << 30;
    let within = ((within * quarter as f64) as u64).min(quarter - 1);
    (region * quarter + within) as u32
}

/// A number in `0.0..1.0` of falling density: exponential, cut at 1.
#[inline]
fn exponential(prng: &mut Prng) -> f64 {
    let share = 1.0 - (-1.0 / EXPONENTIAL_SCALE).exp();
    -EXPONENTIAL_SCALE * (1.0 - share * prng.unit()).ln()
}

/// A number of the standard normal distribution, by the method of Box and Muller.
#[inline]
pub fn normal(prng: &mut Prng) -> f64 {
    let radius = (-2.0 * (1.0 - prng.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * prng.unit()).cos()
}

/// Appends random bytes that follow from `seed` until `out` has `end`.
#[inline]
fn append_random(seed: u64, end: usize, out: &mut Vec<u8>) {
    let from = out.len();
    if from < end {
        out.resize(end, 0);
        Prng::new(seed).fill(&mut out[from..]);
    } else {
        out.truncate(end);
    }
}

/// How large values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sizes {
    /// All alike.
    Fixed,
    /// Generalized Pareto distribution with the parameters of Facebook's key-value pool ETC, cut at
    /// 16 bytes and at the shape's size.
    Pareto,
    /// Powers of two from 64 bytes up to 4 KiB, small ones more frequent by Zipf's law.
    Rows,
}

/// Scale and shape of the generalized Pareto distribution; its location is 0.
const PARETO_SCALE: f64 = 214.4766;
const PARETO_SHAPE: f64 = 0.348_238;
/// Row sizes of [`Sizes::Rows`]: 64 bytes shifted by up to this.
const ROW_SHIFT_MAX: u32 = 6;

impl Sizes {
    /// The mean size of the values of many keys, each at most `bytes_max`.
    pub fn mean_bytes(self, bytes_max: usize) -> f64 {
        const KEYS: u64 = 4096;
        let sum: usize = (0..KEYS).map(|index| self.bytes(bytes_max, index, 1)).sum();
        sum as f64 / KEYS as f64
    }

    /// The size of version `version` of the value number `index`, at most `bytes_max`. From 16
    /// bytes on it may depend on the version, which such a value carries.
    #[inline]
    pub fn bytes(self, bytes_max: usize, index: u64, version: u64) -> usize {
        if self == Sizes::Fixed || bytes_max < VERSIONED_BYTES_MIN {
            return bytes_max;
        }
        let mut prng = Prng::new(mix(index).rotate_left(32) ^ mix(version));
        let bytes = match self {
            Sizes::Fixed => bytes_max,
            Sizes::Pareto => {
                let rest = 1.0 - prng.unit();
                (PARETO_SCALE / PARETO_SHAPE * (rest.powf(-PARETO_SHAPE) - 1.0)) as usize
            }
            Sizes::Rows => 64 << row_shift(prng.unit()),
        };
        bytes.clamp(VERSIONED_BYTES_MIN, bytes_max)
    }
}

/// The rank by Zipf's law (exponent 0.99) among the row sizes that `unit` falls to.
fn row_shift(unit: f64) -> u32 {
    // Shares of the ranks before each: sums of `i^-0.99` over the sum of all seven.
    const ENDS: [f64; ROW_SHIFT_MAX as usize] =
        [0.382_76, 0.575_48, 0.704_48, 0.801_50, 0.879_30, 0.944_24];
    ENDS.iter().filter(|end| unit >= **end).count() as u32
}

/// Makes keys and values of fixed sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of each key, at least [`KEY_BYTES_MIN`].
    pub key_bytes: usize,
    /// Bytes of each value; of the largest where a workload's values differ in size.
    pub value_bytes: usize,
}

impl Shape {
    /// Writes the key number `index` to `out`.
    #[inline]
    pub fn key(&self, index: u64, out: &mut Vec<u8>) {
        out.clear();
        Layout::Hashed.append_key(self.key_bytes, index, 0, out);
    }

    /// Writes a key that no workload ever puts to `out`.
    #[inline]
    pub fn missing_key(&self, index: u64, out: &mut Vec<u8>) {
        self.key(missing(index), out);
    }

    /// Writes the value that version `version` of key number `index` has to `out`.
    #[inline]
    pub fn value(&self, index: u64, version: u64, out: &mut Vec<u8>) {
        out.clear();
        self.append_value(index, version, out);
    }

    /// Appends the value that version `version` of key number `index` has.
    #[inline]
    pub(crate) fn append_value(&self, index: u64, version: u64, out: &mut Vec<u8>) {
        let end = out.len() + self.value_bytes;
        if self.value_bytes < VERSIONED_BYTES_MIN {
            return append_random(!index, end, out);
        }
        out.extend_from_slice(&mix(!index).to_le_bytes());
        out.extend_from_slice(&version.to_le_bytes());
        append_random(!index ^ mix(version), end, out);
    }

    /// True where `value` is what some version of key number `index` has.
    #[inline]
    pub fn is_value_of(&self, index: u64, value: &[u8]) -> bool {
        if value.len() != self.value_bytes {
            return false;
        }
        if self.value_bytes < VERSIONED_BYTES_MIN {
            return Prng::new(!index).would_fill(value);
        }
        let (head, rest) = value.split_at(VERSIONED_BYTES_MIN);
        head[..8] == mix(!index).to_le_bytes()
            && Prng::new(!index ^ mix(version_of(value))).would_fill(rest)
    }
}

/// The version that a value carries; 0 where it is too small for one.
#[inline]
pub(crate) fn version_of(value: &[u8]) -> u64 {
    match value.get(8..16) {
        Some(bytes) => u64::from_le_bytes(bytes.try_into().expect("8 bytes")),
        None => 0,
    }
}

/// The index of a key that no workload ever puts.
#[inline]
pub(crate) fn missing(index: u64) -> u64 {
    index | MISSING_FROM
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_differ_and_values_verify() {
        let shape = Shape { key_bytes: 20, value_bytes: 100 };
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let mut seen = BTreeSet::new();
        for index in 0..1000 {
            shape.key(index, &mut key);
            assert!(seen.insert(key.clone()), "key {index} is new");
            shape.missing_key(index, &mut key);
            assert!(seen.insert(key.clone()), "missing key {index} is new");
            shape.value(index, 3, &mut value);
            assert!(shape.is_value_of(index, &value));
            assert!(!shape.is_value_of(index + 1, &value));
            value[50] ^= 1;
            assert!(!shape.is_value_of(index, &value));
        }
        let tiny = Shape { key_bytes: 8, value_bytes: 3 };
        tiny.value(7, 1, &mut value);
        assert!(tiny.is_value_of(7, &value));
        assert!(!tiny.is_value_of(7, &value[..2]));
    }

    #[test]
    fn keys_tell_their_index_in_every_layout() {
        let mut key = Vec::new();
        for layout in [Layout::Hashed, Layout::Ordered, Layout::Regions] {
            let mut seen = BTreeSet::new();
            for index in (0..1000).chain([u64::MAX, missing(3)]) {
                for bytes in [layout.key_bytes_min(), 16, 33] {
                    key.clear();
                    layout.append_key(bytes, index, 1000, &mut key);
                    assert_eq!((key.len(), layout.index_of(&key)), (bytes, Some(index)));
                }
                assert!(seen.insert(key.clone()));
            }
            assert_eq!(layout.index_of(&key[..7]), None);
        }
        key.clear();
        Layout::Ordered.append_key(8, 258, 9, &mut key);
        assert_eq!(key, [0, 0, 0, 0, 0, 0, 1, 2]);
    }

    /// Keys of `index` in each sixtieth of the key space.
    fn density(indexes: std::ops::Range<u64>, keys: u64) -> [u32; 60] {
        let mut counts = [0; 60];
        for index in indexes {
            let sixtieth = (u64::from(region_position(index, keys)) * 60) >> 32;
            counts[sixtieth as usize] += 1;
        }
        counts
    }

    #[test]
    fn regions_have_their_densities_one_after_the_other() {
        let keys = 40_000;
        let quarter = |n: u64| density(n * keys / 4..(n + 1) * keys / 4, keys);
        for n in 0..4 {
            let counts = quarter(n);
            let inside: u32 = counts[n as usize * 15..(n as usize + 1) * 15].iter().sum();
            assert_eq!(inside, 10_000, "all of quarter {n} are in their region");
        }
        let (first, second, third, fourth) = (quarter(0), quarter(1), quarter(2), quarter(3));
        // A sixtieth is a fifteenth of a region: e^(8/15) times the next one.
        assert!(first[0] > 3500 && first[0] > first[1] + 1000 && first[14] < 20, "{first:?}");
        assert!(second[22] > 1900 && second[15] < 30 && second[29] < 30, "{second:?}");
        assert!(third[30..45].iter().all(|n| (550..800).contains(n)), "{third:?}");
        assert!(fourth[59] > 3500 && fourth[45] < 20, "{fourth:?}");
    }

    #[test]
    fn value_sizes_follow_their_distribution_and_stay_checkable() {
        let draws = 100_000;
        let sizes: Vec<_> = (0..draws).map(|i| Sizes::Pareto.bytes(16 << 10, i, 7)).collect();
        let share =
            |bytes: usize| sizes.iter().filter(|s| **s > bytes).count() as f64 / draws as f64;
        for bytes in [32, 100, 400, 2000] {
            let expected =
                (1.0 + PARETO_SHAPE * bytes as f64 / PARETO_SCALE).powf(-1.0 / PARETO_SHAPE);
            assert!((share(bytes) - expected).abs() < 0.006, "{bytes}: {}", share(bytes));
        }
        let mean = sizes.iter().sum::<usize>() as f64 / draws as f64;
        let expected = PARETO_SCALE / (1.0 - PARETO_SHAPE);
        assert!((mean - expected).abs() < 0.05 * expected, "{mean} of {expected}");
        assert_ne!(Sizes::Pareto.bytes(4096, 1, 1), Sizes::Pareto.bytes(4096, 1, 2));
        assert_eq!(Sizes::Pareto.bytes(8, 1, 1), 8);
        let rows: Vec<_> = (0..draws).map(|i| Sizes::Rows.bytes(4096, i, 1)).collect();
        let of = |bytes| rows.iter().filter(|r| **r == bytes).count() as f64 / draws as f64;
        let all: f64 = (1..=7).map(|i| f64::from(i).powf(-0.99)).sum();
        for rank in 0..7 {
            let expected = f64::from(rank + 1).powf(-0.99) / all;
            assert!((of(64 << rank) - expected).abs() < 0.006, "{rank}: {}", of(64 << rank));
        }
    }
}
