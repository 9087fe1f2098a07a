//! Keys that are inserted all the time, of which the latest are the popular ones.

use silica_base::{Error, ErrorKind, Result};

use super::popularity::{SKEW_MAX, checked, ranks};
use super::quadrature::{self, Point};

/// A popularity over recency: a share of the requests inserts a new key, the others are for the
/// `k`th newest one in proportion to `1 / k^skew` (YCSB's `latest`).
///
/// A key grows old by the inserts that come: in requests with `m` of them one of rank `j` goes
/// through the ranks `j .. j + m`. How long it stays at each follows from where `m` points at
/// random places divide a line, so what it is asked for has a mean and a variance, which are sums
/// of the ranks' shares and of their squares; a gamma distribution stands for the rest, and `m` is
/// its mean. Sums are kept as the points of a quadrature, and as tables of 16 places for each
/// e-fold.
///
/// The number of distinct keys is right to 2 % of itself, and to 1 % from 100 requests on, and a
/// memory's share of hits to 0.01 from 100 entries on, 0.02 from 10: by simulation for skews up to
/// 1.5 and shares of inserts from 0.001 (`latest_tests.rs`).
#[derive(Clone, Debug)]
pub struct Latest {
    keys: f64,
    skew: f64,
    inserts: f64,
    /// Sum of all weights.
    all: f64,
    ranks: Vec<(f64, f64)>,
    /// Sums of the shares up to a rank, and of their squares.
    sums: [Sums; 2],
}

/// What came in a time: inserts, and requests of one kind for keys that are there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    pub(crate) inserts: f64,
    pub(crate) others: f64,
}

/// What [`Latest::behind`] finds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Behind {
    /// Keys that were named.
    pub(crate) keys: f64,
    /// Share of the gets that come so far, and of those among them that are for such a key.
    pub(crate) share: f64,
    pub(crate) seen: f64,
}

/// Ranks that are kept one by one.
const HEAD: usize = 64;
/// Places of the table for each e-fold.
const DENSITY: f64 = 16.0;
/// Points of an integral between two of them.
const POINTS: usize = 6;
/// A share that is as good as all.
const MOST: f64 = 1.0 - 1e-12;
/// As good as infinitely many.
const MANY: f64 = 1e12;

impl Latest {
    /// A popularity of `keys` keys, more of which come with a share of `inserts` of the requests.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for no keys, more than 2^50, a skew outside `0 ..= 2`, or a share that
    /// is not over 0 and at most 1.
    pub fn new(keys: u64, skew: f64, inserts: f64) -> Result<Self> {
        let refuse = |text: String| Err(Error::new(ErrorKind::Config, text));
        let keys = checked(keys)?;
        if !(0.0..=SKEW_MAX).contains(&skew) {
            return refuse(format!("a skew is between 0 and {SKEW_MAX}, not {skew}"));
        }
        if !(inserts > 0.0 && inserts <= 1.0) {
            return refuse(format!(
                "what is latest moves by inserts, a share over 0 and up to 1, not {inserts}; \
                 without any it is a Zipf popularity"
            ));
        }
        let ranks = ranks(keys);
        let all: f64 = ranks.iter().map(|(rank, count)| rank.powf(-skew) * count).sum();
        let points = quadrature::points(MANY, POINTS);
        let of =
            |power: i32| Sums::new(keys, &points, |rank: f64| (rank.powf(-skew) / all).powi(power));
        let sums = [of(1), of(2)];
        Ok(Latest { keys, skew, inserts, all, ranks, sums })
    }

    /// How many keys there are at the time that is looked at.
    pub fn keys(&self) -> f64 {
        self.keys
    }

    /// Share of the requests that insert.
    pub fn inserts(&self) -> f64 {
        self.inserts
    }

    /// Probability that a request that does not insert is for the key of a rank.
    fn share(&self, rank: f64) -> f64 {
        rank.powf(-self.skew) / self.all
    }

    /// Expected number of distinct keys in `requests` requests, those inserted among them.
    pub fn unique(&self, requests: f64) -> f64 {
        if requests < 1.0 {
            return requests.max(0.0) * if requests > 0.0 { self.unique(1.0) } else { 0.0 };
        }
        // Inserts that come before the last of the requests.
        let aged = self.inserts * (requests - 1.0);
        let asked = (1.0 - self.inserts) * requests;
        let seen = |rank: f64| -(-self.asked(rank, rank + aged, asked)).exp_m1();
        let old: f64 = self.ranks.iter().map(|(rank, count)| count * seen(*rank)).sum();
        (self.inserts * requests + old).min(requests)
    }

    /// Share of the requests that do not insert for a key that one of the last `requests` requests
    /// named: what a least-recently-used memory answers that has as many keys as are
    /// [distinct](Self::unique) in these.
    pub fn hits(&self, requests: f64) -> f64 {
        if requests <= 0.0 {
            return 0.0;
        }
        let asked = (1.0 - self.inserts) * requests;
        let younger = (self.inserts * requests).min(self.keys);
        // All that were inserted since, and of the older ones those that were asked for.
        let rest = (self.keys - younger).floor();
        let mut found = self.share_of_newest(younger);
        if rest >= 1.0 {
            found += ranks(rest).iter().fold(0.0, |sum, (behind, count)| {
                let rank = behind + younger;
                let seen = -(-self.asked(*behind, rank, asked)).exp_m1();
                sum + count * self.share(rank) * seen
            });
        }
        found.min(1.0)
    }

    /// What is asked of a memory behind the keys that were written last: those that were named by
    /// one of the last gets, and not by what came for the first memory.
    pub(crate) fn behind(&self, written: Course, got: Course) -> Behind {
        let younger = written.inserts.min(self.keys);
        let mut found = Behind::default();
        for (behind, count) in ranks((self.keys - younger).floor()) {
            let rank = behind + younger;
            let passed = (-self.asked(behind, rank, written.others)).exp();
            // A key that was inserted meanwhile has seen the last part of the gets.
            let part = (rank / got.inserts.max(f64::MIN_POSITIVE)).min(1.0);
            let from = (rank - got.inserts).max(1.0);
            let seen = -(-self.asked(from, rank, part * got.others)).exp_m1();
            found.keys += count * passed * seen;
            found.share += count * passed * self.share(rank);
            found.seen += count * passed * self.share(rank) * seen;
        }
        found
    }

    /// `-ln` of the probability that a key that goes from one rank to another is not among so many
    /// requests that do not insert.
    fn asked(&self, from: f64, to: f64, requests: f64) -> f64 {
        let over = to - from + 1.0;
        let [sum, squares] = &self.sums;
        let mean = |sums: &Sums| sums.between(from - 0.5, to + 0.5) / over;
        let share = mean(sum).min(MOST);
        let spread = (mean(squares) - share * share).max(0.0) / (over + 1.0);
        // Of a mean and a variance in proportion to it and to its square.
        let mean = -requests * (-share).ln_1p();
        let scale = requests * spread / share.max(f64::MIN_POSITIVE);
        if scale < 1e-9 { mean } else { mean * scale.ln_1p() / scale }
    }

    /// Share of the requests that do not insert for the `count` newest keys.
    fn share_of_newest(&self, count: f64) -> f64 {
        let whole = count.floor();
        let sum = |keys: f64| -> f64 {
            ranks(keys).iter().map(|(rank, count)| count * self.share(*rank)).sum()
        };
        let newest = if whole >= 1.0 { sum(whole) } else { 0.0 };
        newest + (count - whole) * self.share(whole + 1.0)
    }
}

/// Sums of a falling function of ranks.
#[derive(Clone, Debug)]
struct Sums {
    keys: f64,
    /// Over the first ranks one by one, and over ranks up to the places of a table.
    head: Vec<f64>,
    tail: Vec<f64>,
    /// How fast the sum rises at these, for each place.
    slopes: Vec<f64>,
}

impl Sums {
    fn new(keys: f64, points: &[Point], f: impl Fn(f64) -> f64) -> Self {
        let mut sum = 0.0;
        let mut sums = Sums { keys, head: vec![sum], tail: Vec::new(), slopes: Vec::new() };
        for rank in 1..=HEAD.min(keys as usize) {
            sum += f(rank as f64);
            sums.head.push(sum);
        }
        let mut place = sums.edge();
        loop {
            sums.tail.push(sum);
            sums.slopes.push(f(place) * place / DENSITY);
            if place >= keys + 0.5 {
                return sums;
            }
            let next = place * (1.0 / DENSITY).exp();
            let half = 0.5 * (next - place);
            let at = |point: &Point| 2.0 * half * point.weight * f(place + half * (1.0 + point.at));
            sum += points.iter().map(at).sum::<f64>();
            place = next;
        }
    }

    /// Where the table begins: half a rank behind the last one of the head.
    fn edge(&self) -> f64 {
        (self.head.len() - 1) as f64 + 0.5
    }

    /// The sum up to a place; ranks lie half a rank around their number.
    fn until(&self, place: f64) -> f64 {
        let place = place.clamp(0.5, self.keys + 0.5);
        let edge = self.edge();
        if place <= edge {
            let whole = (place - 0.5).floor() as usize;
            let more = place - 0.5 - whole as f64;
            let next = self.head.get(whole + 1).map_or(0.0, |next| next - self.head[whole]);
            return self.head[whole] + more * next;
        }
        // A cubic by the values and the slopes at both ends.
        let position = (place / edge).ln() * DENSITY;
        let cell = (position.floor() as usize).min(self.tail.len() - 2);
        let x = position - cell as f64;
        let (low, high) = (self.tail[cell], self.tail[cell + 1]);
        let (rises, then) = (self.slopes[cell], self.slopes[cell + 1]);
        let y = 1.0 - x;
        let ends = low * y * y * (1.0 + 2.0 * x) + high * x * x * (1.0 + 2.0 * y);
        ends + x * y * (rises * y - then * x)
    }

    fn between(&self, from: f64, to: f64) -> f64 {
        (self.until(to) - self.until(from)).max(0.0)
    }
}

#[cfg(test)]
#[path = "latest_tests.rs"]
mod tests;
