//! How often each key is written, compressed.

use silica_base::{Error, ErrorKind, Result};

use super::quadrature;

/// Keys of (nearly) the same popularity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    /// Probability that a request is for one given key of the group.
    pub probability: f64,
    /// How many keys these are; not always whole.
    pub keys: f64,
    /// Rate at which a key of the group stays unseen: `-ln(1 - probability)`.
    pub rate: f64,
}

/// The probability of every key, as groups of keys.
///
/// Lim's dissertation, section 4.2.2: requests are independent, and keys close to each other are
/// not alike in popularity. A Zipf popularity is kept as the points of a quadrature over the ranks
/// (16 for each doubling of the rank), so 10^12 keys take twice the room of 10^6; sums over keys of
/// smooth functions of their probability are right to [`Popularity::error`].
#[derive(Clone, Debug, PartialEq)]
pub struct Popularity {
    keys: f64,
    groups: Vec<Group>,
    error: f64,
}

/// Points for each doubling of the rank, and the error they leave.
const POINTS: usize = 16;
const QUADRATURE_ERROR: f64 = 1e-10;

/// The largest skew that the quadrature's points are dense enough for.
pub const SKEW_MAX: f64 = 2.0;

/// Keys that fit the numbers a model computes with.
const KEYS_MAX: u64 = 1 << 50;

impl Popularity {
    /// Every key alike.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for no keys at all, or more than 2^50.
    pub fn uniform(keys: u64) -> Result<Self> {
        let count = checked(keys)?;
        Self::from_groups(vec![(1.0 / count, count)], 0.0)
    }

    /// The `i`th most popular of `keys` keys in proportion to `1 / i^skew`.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for no keys, more than 2^50, or a skew outside `0 ..= 2`.
    pub fn zipf(keys: u64, skew: f64) -> Result<Self> {
        let count = checked(keys)?;
        if !(0.0..=SKEW_MAX).contains(&skew) {
            return Err(config(format!("a skew is between 0 and {SKEW_MAX}, not {skew}")));
        }
        if skew == 0.0 {
            return Self::uniform(keys);
        }
        let groups = ranks(count).into_iter().map(|(rank, keys)| (rank.powf(-skew), keys));
        Self::from_groups(groups.collect(), QUADRATURE_ERROR)
    }

    /// A share `hot_keys` of the keys gets a share `hot_requests` of the requests; within both
    /// parts keys are alike.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for shares that are not inside `0 .. 1`, or no keys.
    pub fn hot_set(keys: u64, hot_keys: f64, hot_requests: f64) -> Result<Self> {
        let count = checked(keys)?;
        for (name, share) in [("keys", hot_keys), ("requests", hot_requests)] {
            if !(share > 0.0 && share < 1.0) {
                let text = format!("the hot share of {name} is between 0 and 1, not {share}");
                return Err(config(text));
            }
        }
        let hot = (count * hot_keys).max(1.0).min(count);
        let cold = count - hot;
        if cold < 1.0 {
            return Self::uniform(keys);
        }
        let groups = vec![(hot_requests / hot, hot), ((1.0 - hot_requests) / cold, cold)];
        Self::from_groups(groups, 0.0)
    }

    /// From how often each key was seen. Counts closer than 1 in 1000 share a group, with their
    /// mean.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] where no count is over zero.
    pub fn empirical(counts: impl IntoIterator<Item = u64>) -> Result<Self> {
        let mut counts: Vec<u64> = counts.into_iter().filter(|&c| c > 0).collect();
        checked(counts.len() as u64)?;
        counts.sort_unstable();
        counts.reverse();
        let mut groups: Vec<(f64, f64)> = Vec::new();
        let mut highest = f64::INFINITY;
        for count in counts {
            let count = count as f64;
            match groups.last_mut() {
                Some((sum, keys)) if count >= highest * (1.0 - GROUPED) => {
                    *sum += count;
                    *keys += 1.0;
                }
                _ => {
                    highest = count;
                    groups.push((count, 1.0));
                }
            }
        }
        let mean = groups.into_iter().map(|(sum, keys)| (sum / keys, keys)).collect();
        // The second-order term of a sum over equal probabilities instead of different ones:
        // keys * variance * max(x^2 e^-x) / 2.
        Self::from_groups(mean, GROUPED * GROUPED / 12.0 * 0.28)
    }

    /// From groups of keys: how many keys, and the share of the requests that they get together,
    /// of which only the proportions matter.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] where there is no group, or a number is not over zero and finite.
    pub fn weighted(groups: &[(f64, f64)]) -> Result<Self> {
        let good = |&(keys, share): &(f64, f64)| {
            keys > 0.0 && keys <= KEYS_MAX as f64 && share > 0.0 && share.is_finite()
        };
        if groups.is_empty() || !groups.iter().all(good) {
            let text = "a popularity needs at least one group, each of keys and a share over zero";
            return Err(config(text));
        }
        Self::from_groups(groups.iter().map(|&(keys, share)| (share / keys, keys)).collect(), 0.0)
    }

    /// From relative popularities and numbers of keys.
    fn from_groups(groups: Vec<(f64, f64)>, error: f64) -> Result<Self> {
        let keys: f64 = groups.iter().map(|&(_, keys)| keys).sum();
        let total: f64 = groups.iter().map(|&(weight, keys)| weight * keys).sum();
        let groups = groups.into_iter().map(|(weight, keys)| {
            let probability = (weight / total).min(1.0);
            Group { probability, keys, rate: -(-probability).ln_1p() }
        });
        Ok(Popularity { keys: keys.round(), groups: groups.collect(), error })
    }

    /// How many keys there are.
    pub fn keys(&self) -> f64 {
        self.keys
    }

    /// The groups, the most popular first where there is an order.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Bound of the error of a sum over keys, relative to the number of keys.
    pub fn error(&self) -> f64 {
        self.error
    }

    /// This popularity with keys that count for as much as `weight` says, each as often asked for.
    pub(super) fn weighed(&self, weight: impl Fn(&Group) -> f64) -> Popularity {
        let weighed = |group: &Group| Group { keys: group.keys * weight(group), ..*group };
        let groups: Vec<Group> = self.groups.iter().map(weighed).collect();
        let keys = groups.iter().map(|group| group.keys).sum();
        Popularity { keys, groups, error: self.error }
    }

    /// Sum of `f` over the keys.
    pub fn sum(&self, f: impl Fn(&Group) -> f64) -> f64 {
        self.groups.iter().map(|group| group.keys * f(group)).sum()
    }
}

/// Counts that differ by less are one group.
const GROUPED: f64 = 1e-3;

/// Ranks from 1 to `count`, some of them for all: how many each stands for. 16 for each doubling.
pub(super) fn ranks(count: f64) -> Vec<(f64, f64)> {
    let mut all = Vec::new();
    let mut first = 1.0;
    while first <= count {
        let ranks = first.min(count - first + 1.0);
        let centre = first + 0.5 * (ranks - 1.0);
        for point in quadrature::points(ranks, POINTS) {
            all.push((centre + point.at * 0.5 * ranks, ranks * point.weight));
        }
        first += ranks;
    }
    all
}

pub(super) fn checked(keys: u64) -> Result<f64> {
    match keys {
        0 => Err(config("there is no popularity of no keys: give at least 1")),
        1..=KEYS_MAX => Ok(keys as f64),
        _ => Err(config(format!("models count up to {KEYS_MAX} keys, not {keys}"))),
    }
}

fn config(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Config, text)
}
