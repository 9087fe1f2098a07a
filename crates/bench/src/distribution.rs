//! Which keys are asked for: indexes drawn from a distribution, each in constant time and without
//! an allocation.

use crate::generator::{mix, normal};
use silica_base::{Prng, Zipf};
use std::borrow::Cow;

/// Which keys are asked for how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// All alike.
    Uniform,
    /// Zipf's law, the popular keys scattered (YCSB's scrambled zipfian).
    Zipfian {
        /// The exponent in thousandths.
        skew: u16,
    },
    /// Zipf's law over age, exponent 0.99: the youngest keys are the popular ones.
    Latest,
    /// Exponential over age, as in YCSB: 95 % of all draws are among the youngest 85.71 %.
    Exponential,
    /// Normal around a key that moves once through all keys during a run.
    MovingNormal,
    /// A share of the keys, scattered, has a share of the draws, both in thousandths; within both
    /// sets all keys are alike.
    HotSet {
        /// The hot keys.
        keys: u16,
        /// The draws among them.
        draws: u16,
    },
    /// One key after the other, from the first to the last and around again; each thread begins
    /// at its part.
    Sequential,
}

/// A tenth of the keys has nine tenths of the draws.
const HOT_SET: Distribution = Distribution::HotSet { keys: 100, draws: 900 };
const HOT_SET_NAME: &str = "hot-set";
const ZIPFIAN_NAME: &str = "zipfian";
/// YCSB's exponent, and the largest one, in thousandths.
const ZIPF_SKEW: u16 = 990;
const ZIPF_SKEW_MAX: u16 = 2000;

impl Distribution {
    /// YCSB's, exponent 0.99.
    pub const ZIPFIAN: Distribution = Distribution::Zipfian { skew: ZIPF_SKEW };

    /// Every one, with its own parameters.
    pub const ALL: [Distribution; 7] = [
        Distribution::Uniform,
        Distribution::ZIPFIAN,
        Distribution::Latest,
        Distribution::Exponential,
        Distribution::MovingNormal,
        HOT_SET,
        Distribution::Sequential,
    ];

    /// Reads a [`Distribution::name`]; `hot-set:0.2/0.8` has shares of keys and draws of its own,
    /// `zipfian:0.6` an exponent, over 0 and up to 2.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(found) = Self::ALL.into_iter().find(|known| known.name() == text) {
            return Some(found);
        }
        let thousandths = |number: &str, most: u16| {
            let number = (number.parse::<f64>().ok()? * 1000.0).round();
            (0.0..=f64::from(most)).contains(&number).then_some(number as u16)
        };
        let (name, parameters) = text.split_once(':')?;
        match name {
            ZIPFIAN_NAME => {
                let skew = thousandths(parameters, ZIPF_SKEW_MAX)?;
                (skew > 0).then_some(Distribution::Zipfian { skew })
            }
            HOT_SET_NAME => {
                let (keys, draws) = parameters.split_once('/')?;
                let (keys, draws) = (thousandths(keys, 1000)?, thousandths(draws, 1000)?);
                (keys > 0).then_some(Distribution::HotSet { keys, draws })
            }
            _ => None,
        }
    }

    /// The exponent of Zipf's law over keys, 0 where all are alike; nothing for other laws.
    pub fn skew(self) -> Option<f64> {
        match self {
            Distribution::Uniform => Some(0.0),
            Distribution::Zipfian { skew } => Some(f64::from(skew) / 1000.0),
            _ => None,
        }
    }

    /// The word that [`Distribution::parse`] reads.
    pub fn name(self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Distribution::Uniform => "uniform",
            Distribution::ZIPFIAN => ZIPFIAN_NAME,
            Distribution::Zipfian { skew } => {
                return Cow::Owned(format!("{ZIPFIAN_NAME}:{}", f64::from(skew) / 1000.0));
            }
            Distribution::Latest => "latest",
            Distribution::Exponential => "exponential",
            Distribution::MovingNormal => "moving-normal",
            Distribution::Sequential => "sequential",
            HOT_SET => HOT_SET_NAME,
            Distribution::HotSet { keys, draws } => {
                let share = |thousandths: u16| f64::from(thousandths) / 1000.0;
                return Cow::Owned(format!("{HOT_SET_NAME}:{}/{}", share(keys), share(draws)));
            }
        })
    }

    /// What it is, in one line.
    pub fn doc(self) -> &'static str {
        match self {
            Distribution::Uniform => "all keys alike",
            Distribution::Zipfian { .. } => {
                "Zipf's law with exponent 0.99, popular keys scattered; zipfian:S for others"
            }
            Distribution::Latest => "Zipf's law over age, young keys are popular",
            Distribution::Exponential => {
                "exponential over age, 95 % of draws among the youngest 85.71 %"
            }
            Distribution::MovingNormal => "normal around a key that moves once through all keys",
            Distribution::HotSet { .. } => {
                "a tenth of the keys has nine tenths of the draws; hot-set:KEYS/DRAWS for others"
            }
            Distribution::Sequential => "one key after the other",
        }
    }

    /// The share of all draws that each of `keys` keys has, by its index; nothing where that
    /// changes with time or has no formula here. Ranks of Zipf's law are scattered by a hash, so
    /// that some are the same key, and one key in 2.7 is never drawn, as with YCSB.
    pub fn shares(self, keys: u64) -> Option<Vec<f64>> {
        let keys = keys.max(1);
        let mut shares = vec![0.0; keys as usize];
        match self {
            Distribution::Uniform => shares.fill(1.0 / keys as f64),
            Distribution::Zipfian { skew } => {
                let skew = f64::from(skew) / 1000.0;
                let weight = |rank: u64| (rank as f64).powf(-skew);
                let all: f64 = (1..=keys).rev().map(weight).sum();
                for rank in 0..keys {
                    shares[(mix(rank) % keys) as usize] += weight(rank + 1) / all;
                }
            }
            _ => return None,
        }
        Some(shares)
    }

    /// The tool or the paper that it comes from.
    pub fn source(self) -> &'static str {
        match self {
            Distribution::Uniform
            | Distribution::Zipfian { .. }
            | Distribution::Latest
            | Distribution::Exponential => "YCSB",
            Distribution::MovingNormal => "DIDACache, dissertation 2.5.3",
            Distribution::HotSet { .. } => "YCSB (hotspot, there with 0.2/0.8)",
            Distribution::Sequential => "SQLiteKV, dissertation Figure 4.11(b)",
        }
    }
}

/// The share of draws, and the share of the youngest keys among which they are (YCSB's default).
const EXPONENTIAL_DRAWS: f64 = 0.95;
const EXPONENTIAL_KEYS: f64 = 0.857_142_857_1;
/// Standard deviation of the moving normal distribution in parts of all keys: a choice of ours.
const NORMAL_DEVIATION: f64 = 1.0 / 64.0;

/// What a draw depends on beside chance.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Moment {
    /// Keys that were inserted after the first ones; they matter to distributions over age.
    pub(crate) younger: u64,
    /// Operations of the run so far, and all of them.
    pub(crate) issued: u64,
    pub(crate) operations: u64,
    /// Where the thread begins that goes from key to key.
    pub(crate) first: u64,
}

/// Draws indexes of existing keys.
#[derive(Debug, Clone)]
pub(crate) struct Chooser {
    distribution: Distribution,
    keys: u64,
    zipf: Option<Zipf>,
    hot: Option<Hot>,
}

/// The keys of a hot set: the places that follow from the first numbers by a step that meets every
/// key once.
#[derive(Debug, Clone, Copy)]
struct Hot {
    keys: u64,
    draws: u64,
    step: u64,
}

impl Hot {
    fn new(thousandths: u16, draws: u16, keys: u64) -> Self {
        let hot = (u128::from(keys) * u128::from(thousandths) / 1000) as u64;
        // Near the golden section, so that neighbours lie far apart.
        let mut step = (keys as f64 * 0.618_033_988_75) as u64 | 1;
        while gcd(step, keys) != 1 {
            step += 1;
        }
        Hot { keys: hot.clamp(1, keys), draws: u64::from(draws), step }
    }

    #[inline]
    fn draw(self, prng: &mut Prng, keys: u64) -> u64 {
        let cold = keys - self.keys;
        let number = match prng.below(1000) < self.draws || cold == 0 {
            true => prng.below(self.keys),
            false => self.keys + prng.below(cold),
        };
        (u128::from(number) * u128::from(self.step) % u128::from(keys)) as u64
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl Chooser {
    /// Draws among the first `keys` keys (at least one).
    pub(crate) fn new(distribution: Distribution, keys: u64) -> Self {
        let keys = keys.max(1);
        let skew = match distribution {
            Distribution::Zipfian { skew } => Some(skew),
            Distribution::Latest => Some(ZIPF_SKEW),
            _ => None,
        };
        let zipf = skew.map(|skew| Zipf::new(keys, f64::from(skew) / 1000.0));
        let hot = match distribution {
            Distribution::HotSet { keys: hot, draws } => Some(Hot::new(hot, draws, keys)),
            _ => None,
        };
        Chooser { distribution, keys, zipf, hot }
    }

    /// The next index, below `keys`; for distributions over age below `keys + younger`.
    #[inline]
    pub(crate) fn draw(&self, prng: &mut Prng, moment: Moment) -> u64 {
        match (&self.zipf, self.distribution) {
            (Some(zipf), Distribution::Zipfian { .. }) => mix(zipf.rank(prng)) % self.keys,
            (Some(zipf), _) => self.keys + moment.younger - 1 - zipf.rank(prng),
            (None, Distribution::Exponential) => {
                let all = self.keys + moment.younger;
                all - 1 - exponential_age(prng, all)
            }
            (None, Distribution::MovingNormal) => self.near_the_moving_key(prng, moment),
            (None, Distribution::Sequential) => (moment.first + moment.issued) % self.keys,
            (None, _) => match self.hot {
                Some(hot) => hot.draw(prng, self.keys),
                None => prng.below(self.keys),
            },
        }
    }

    #[inline]
    fn near_the_moving_key(&self, prng: &mut Prng, moment: Moment) -> u64 {
        let of = u128::from(moment.operations.max(1));
        let center = (u128::from(moment.issued) * u128::from(self.keys) / of) as i128;
        let away = (normal(prng) * NORMAL_DEVIATION * self.keys as f64) as i128;
        (center + away).rem_euclid(i128::from(self.keys)) as u64
    }
}

/// An age below `keys`. YCSB draws again what is too old; this is the same distribution by the
/// inverse of its sum, cut at `keys`.
#[inline]
fn exponential_age(prng: &mut Prng, keys: u64) -> u64 {
    let rate = -(1.0 - EXPONENTIAL_DRAWS).ln() / EXPONENTIAL_KEYS;
    let reached = 1.0 - (-rate).exp();
    let age = -(1.0 - reached * prng.unit()).ln() / rate;
    ((age * keys as f64) as u64).min(keys - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_the_draws() {
        let (keys, draws) = (2000, 2_000_000);
        for distribution in [
            Distribution::Uniform,
            Distribution::ZIPFIAN,
            Distribution::Zipfian { skew: 1000 },
            Distribution::Zipfian { skew: 400 },
        ] {
            let shares = distribution.shares(keys).unwrap();
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            let chooser = Chooser::new(distribution, keys);
            let mut prng = Prng::new(4);
            let mut counts = vec![0.0; keys as usize];
            for _ in 0..draws {
                counts[chooser.draw(&mut prng, Moment::default()) as usize] += 1.0;
            }
            for (share, count) in shares.iter().zip(counts) {
                let expected = share * f64::from(draws);
                assert!((count - expected).abs() <= 6.0 * expected.sqrt(), "{count} {expected}");
            }
        }
        let never = Distribution::ZIPFIAN.shares(keys).unwrap();
        let never = never.iter().filter(|share| **share == 0.0).count();
        assert!((0.34..0.40).contains(&(never as f64 / keys as f64)), "{never}");
        assert!(Distribution::Latest.shares(keys).is_none());
    }

    #[test]
    fn exponents_are_read_and_shown() {
        assert_eq!(Distribution::parse("zipfian:0.99"), Some(Distribution::ZIPFIAN));
        let other = Distribution::parse("zipfian:1.2").unwrap();
        assert_eq!((other.name().as_ref(), other.skew()), ("zipfian:1.2", Some(1.2)));
        assert_eq!(Distribution::parse(&other.name()), Some(other));
        for wrong in ["zipfian:0", "zipfian:-1", "zipfian:2.1", "zipfian:nan", "zipfian:", "zipf"] {
            assert_eq!(Distribution::parse(wrong), None, "{wrong}");
        }
    }

    fn draws(distribution: Distribution, moment: Moment) -> Vec<u64> {
        let mut prng = Prng::new(5);
        let chooser = Chooser::new(distribution, 1000);
        (0..20_000).map(|_| chooser.draw(&mut prng, moment)).collect()
    }

    #[test]
    fn choosers_stay_in_range_and_latest_prefers_the_young() {
        let moment = Moment { younger: 50, issued: 1, operations: 2, first: 0 };
        for distribution in Distribution::ALL {
            assert_eq!(Distribution::parse(&distribution.name()), Some(distribution));
            let of_age = matches!(distribution, Distribution::Latest | Distribution::Exponential);
            let end = if of_age { 1050 } else { 1000 };
            let draws = draws(distribution, moment);
            assert!(draws.iter().all(|d| *d < end), "{distribution:?}");
            if distribution == Distribution::Latest {
                let young = draws.iter().filter(|d| **d >= 1000).count();
                assert!(young > 8000, "{young} of 20000 are among the youngest 50");
            }
        }
    }

    #[test]
    fn exponential_draws_are_as_young_as_in_ycsb() {
        let draws = draws(Distribution::Exponential, Moment::default());
        let young = draws.iter().filter(|d| **d >= 143).count() as f64 / draws.len() as f64;
        // What is older than the oldest key is cut, which leaves 95 of 96.97 parts.
        let all = 1.0 - 0.05f64.powf(1.0 / EXPONENTIAL_KEYS);
        assert!((young - 0.95 / all).abs() < 0.005, "{young}");
        let younger_half = draws.iter().filter(|d| **d >= 500).count() as f64 / 20_000.0;
        let expected = (1.0 - 0.05f64.powf(0.5 / EXPONENTIAL_KEYS)) / all;
        assert!((younger_half - expected).abs() < 0.01, "{younger_half} of {expected}");
    }

    #[test]
    fn the_hot_set_has_its_keys_and_its_draws() {
        let distribution = Distribution::parse("hot-set:0.2/0.75").unwrap();
        assert_eq!(distribution, Distribution::HotSet { keys: 200, draws: 750 });
        assert_eq!(Distribution::parse(&distribution.name()), Some(distribution));
        for wrong in ["hot-set:0/1", "hot-set:0.1", "hot-set:2/0.1", "hot-set:a/b", "hot"] {
            assert_eq!(Distribution::parse(wrong), None, "{wrong}");
        }
        for keys in [1, 7, 1000, 4096] {
            let mut counts = vec![0u32; keys];
            let (chooser, mut prng) = (Chooser::new(distribution, keys as u64), Prng::new(5));
            for _ in 0..200_000 {
                counts[chooser.draw(&mut prng, Moment::default()) as usize] += 1;
            }
            counts.sort_unstable_by(|a, b| b.cmp(a));
            let hot = counts[..(keys / 5).max(1)].iter().sum::<u32>();
            let expected = if keys == 1 { 200_000.0 } else { 150_000.0 };
            assert!((f64::from(hot) - expected).abs() < 2000.0, "{hot} of {keys} keys");
            assert!(counts.iter().all(|count| *count > 0), "every key of {keys} is drawn");
        }
    }

    #[test]
    fn sequential_draws_go_around() {
        let (chooser, mut prng) = (Chooser::new(Distribution::Sequential, 10), Prng::new(1));
        let at = |issued| Moment { first: 5, issued, ..Moment::default() };
        let drawn: Vec<_> = (1..12).map(|i| chooser.draw(&mut prng, at(i))).collect();
        assert_eq!(drawn, [6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn the_normal_distribution_moves_through_all_keys() {
        for (issued, center) in [(0, 0i64), (25, 250), (50, 500), (99, 990)] {
            let moment = Moment { issued, operations: 100, ..Moment::default() };
            let away = |index: u64| {
                let away = (index as i64 - center).rem_euclid(1000);
                away.min(1000 - away)
            };
            let draws = draws(Distribution::MovingNormal, moment);
            let one = draws.iter().filter(|d| away(**d) <= 15).count() as f64 / 20_000.0;
            assert!((one - 0.683).abs() < 0.04, "{one} within a deviation of {center}");
            assert!(draws.iter().all(|d| away(*d) < 100));
        }
    }
}
