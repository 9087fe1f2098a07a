//! What is written over time: how many items so many requests come to.

use silica_base::{Error, ErrorKind, Result};

use super::curve::Curve;
use super::quadrature::{self, Point};
use super::range::positive;
use super::{Drifting, Items, Latest, Popularity, Primitives};

/// Writes of keys by their popularity, with all that changes what is left of them: deletes, items
/// of different size, ranks that are dealt anew, or keys of which the latest are the popular ones.
///
/// Sizes are in items of the mean size of all keys' items; a tombstone counts with its own size.
/// Designs that take these say so; all take [`Primitives`].
#[derive(Debug)]
pub struct Writes {
    keys: Source,
    /// Items by the size of each, where sizes differ.
    sized: Option<Primitives>,
    /// Size of a key's newest write otherwise.
    scale: f64,
    put: f64,
    live: f64,
}

/// Where distinct keys come from.
#[derive(Debug)]
enum Source {
    Fixed(Primitives),
    Moving(Moving),
}

impl Writes {
    /// Writes by Zipf's law of `skew` over `keys` keys; with an `epoch`, ranks are dealt anew every
    /// so many requests.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for what [`Popularity::zipf`] refuses, an epoch that is not over zero,
    /// and one with sizes that go by popularity: a key's size would change with its rank.
    pub fn zipf(keys: u64, skew: f64, items: &Items, epoch: Option<f64>) -> Result<Self> {
        let popularity = Popularity::zipf(keys, skew)?;
        if items.are_ranked() && epoch.is_some() {
            let text = "sizes that go by popularity need keys that stay as popular: give items one \
                        size, or leave out the drift";
            return Err(Error::new(ErrorKind::Config, text));
        }
        let (kept, tombstone) = (1.0 - items.deletes(), items.deletes() * items.tombstone());
        let sizes = items.of(popularity.keys());
        let live = kept * popularity.keys();
        let scale = kept + tombstone;
        let ranked = items.are_ranked() && skew > 0.0 && keys > 1;
        let sized = ranked.then(|| {
            let first = popularity.groups()[0].probability;
            // Points keep a rank's probability, so it has the rank that this is of.
            let rank = |probability: f64| (first / probability).powf(1.0 / skew);
            popularity.weighed(|group| kept * sizes.at(rank(group.probability)) + tombstone)
        });
        // A write of each group, by how often it comes.
        let put = sized.as_ref().map_or(scale, |sized| sized.sum(|group| group.probability));
        if put <= 0.0 {
            let text = "deletes that take no space are all that is written: give tombstones a \
                        size, or let fewer writes delete";
            return Err(Error::new(ErrorKind::Config, text));
        }
        let primitives = Primitives::new(popularity);
        let keys = match epoch {
            None => Source::Fixed(primitives),
            Some(epoch) => Source::Moving(Moving::drifting(primitives, epoch)?),
        };
        Ok(Writes { keys, sized: sized.map(Primitives::new), scale, put, live })
    }

    /// Writes that insert, or are for one of the latest keys.
    pub fn latest(latest: Latest) -> Self {
        let live = latest.keys();
        let keys = Source::Moving(Moving::latest(latest));
        Writes { keys, sized: None, scale: 1.0, put: 1.0, live }
    }

    /// Size of a write on average.
    pub fn put(&self) -> f64 {
        self.put
    }

    /// What the last stage has, where every key is and tombstones end.
    pub fn live(&self) -> f64 {
        self.live
    }

    /// Expected size of a table of `requests` writes.
    pub fn unique(&self, requests: f64) -> f64 {
        match &self.sized {
            Some(sized) => sized.unique(requests),
            None => self.scale * self.keys.unique(requests),
        }
    }

    /// Writes after which a table is expected to be so large; infinite for more than there is.
    pub fn unique_inverse(&self, size: f64) -> f64 {
        match &self.sized {
            Some(sized) => sized.unique_inverse(size),
            None => self.keys.unique_inverse(size / self.scale),
        }
    }

    /// Writes between two compactions of a key in a level that is so large (section 4.3.3).
    pub fn d_interval(&self, size: f64) -> f64 {
        match &self.sized {
            Some(sized) => sized.d_interval(size),
            None => self.keys.d_interval(size / self.scale),
        }
    }

    /// Writes after which so many distinct keys are expected, whatever their size.
    pub fn keys_inverse(&self, keys: f64) -> f64 {
        self.keys.unique_inverse(keys)
    }
}

/// What models of designs ask of writes, which may be plain ([`Primitives`]) or not ([`Writes`]).
pub trait Distinct {
    /// Size of a write on average, in items of mean size.
    fn put(&self) -> f64;
    /// What the last stage has.
    fn live(&self) -> f64;
    /// Expected size of a table of `requests` writes.
    fn unique(&self, requests: f64) -> f64;
    /// Writes after which a table is expected to be so large; infinite for more than there is.
    fn unique_inverse(&self, size: f64) -> f64;
    /// Writes between two compactions of a key in a level of this size (section 4.3.3).
    fn d_interval(&self, size: f64) -> f64;
    /// Writes after which so many distinct keys are expected, whatever their size.
    fn keys_inverse(&self, keys: f64) -> f64;
}

impl Distinct for Writes {
    fn put(&self) -> f64 {
        self.put
    }
    fn live(&self) -> f64 {
        self.live
    }
    fn unique(&self, requests: f64) -> f64 {
        self.unique(requests)
    }
    fn unique_inverse(&self, size: f64) -> f64 {
        self.unique_inverse(size)
    }
    fn d_interval(&self, size: f64) -> f64 {
        self.d_interval(size)
    }
    fn keys_inverse(&self, keys: f64) -> f64 {
        self.keys_inverse(keys)
    }
}

impl Distinct for Primitives {
    fn put(&self) -> f64 {
        1.0
    }
    fn live(&self) -> f64 {
        self.keys()
    }
    fn unique(&self, requests: f64) -> f64 {
        self.unique(requests)
    }
    fn unique_inverse(&self, size: f64) -> f64 {
        self.unique_inverse(size)
    }
    fn d_interval(&self, size: f64) -> f64 {
        self.d_interval(size)
    }
    fn keys_inverse(&self, keys: f64) -> f64 {
        self.unique_inverse(keys)
    }
}

impl Source {
    fn unique(&self, requests: f64) -> f64 {
        match self {
            Source::Fixed(keys) => keys.unique(requests),
            Source::Moving(keys) => keys.unique(requests),
        }
    }

    fn unique_inverse(&self, unique: f64) -> f64 {
        match self {
            Source::Fixed(keys) => keys.unique_inverse(unique),
            Source::Moving(keys) => keys.unique_inverse(unique),
        }
    }

    fn d_interval(&self, size: f64) -> f64 {
        match self {
            Source::Fixed(keys) => keys.d_interval(size),
            Source::Moving(keys) => keys.d_interval(size),
        }
    }
}

/// Distinct keys where popularity moves, by curves over the logarithm of requests. Requests begin
/// at any time.
#[derive(Debug)]
struct Moving {
    course: Course,
    /// `ln` of the distinct keys, and of what a level has that is compacted round and round.
    unique: Curve,
    filled: Curve,
    points: Vec<Point>,
}

#[derive(Debug)]
enum Course {
    Drifting { keys: Primitives, epoch: f64 },
    Latest(Latest),
}

/// The grid of requests, as logarithms; below it each request names a key of its own.
const LOW: f64 = -2.0;
const HIGH: f64 = 48.0;
/// Points of an integral, and as good as infinitely many that they stand for.
const POINTS: usize = 24;
const MANY: f64 = 1e12;

impl Moving {
    fn new(course: Course) -> Self {
        let points = quadrature::points(MANY, POINTS);
        Moving { course, unique: Curve::new(LOW, HIGH), filled: Curve::new(LOW, HIGH), points }
    }

    fn drifting(keys: Primitives, epoch: f64) -> Result<Self> {
        positive("an epoch's requests", epoch)?;
        Ok(Self::new(Course::Drifting { keys, epoch }))
    }

    fn latest(latest: Latest) -> Self {
        Self::new(Course::Latest(latest))
    }

    /// All keys that there can be.
    fn most(&self) -> f64 {
        match &self.course {
            Course::Drifting { keys, .. } => keys.keys(),
            Course::Latest(_) => f64::INFINITY,
        }
    }

    fn unique(&self, requests: f64) -> f64 {
        let x = requests.ln();
        if requests <= 0.0 {
            return 0.0;
        }
        match self.unique.has(x) {
            true => self.unique.at(x, &|x| self.unique_sum(x.exp()).ln()).exp(),
            false => self.unique_sum(requests),
        }
    }

    fn unique_inverse(&self, unique: f64) -> f64 {
        if unique <= 0.0 {
            return 0.0;
        }
        // Of what is left within rounding no inverse says anything.
        if unique >= self.most() * (1.0 - 1e-12) {
            return f64::INFINITY;
        }
        self.unique.inverse(unique.ln(), &|x| self.unique_sum(x.exp()).ln()).exp()
    }

    fn d_interval(&self, size: f64) -> f64 {
        if size <= 0.0 {
            return 0.0;
        }
        if size >= (self.most() - 1.0) * (1.0 - 1e-12) {
            return f64::INFINITY;
        }
        self.filled.inverse(size.ln(), &|x| self.filled_sum(x.exp()).ln()).exp()
    }

    /// Lemma 4.5 as an integral over all distances, more of its points where few requests are.
    fn filled_sum(&self, interval: f64) -> f64 {
        self.mean(|x| self.unique(interval * x * x) * 2.0 * x)
    }

    fn unique_sum(&self, requests: f64) -> f64 {
        match &self.course {
            Course::Latest(latest) => latest.unique(requests),
            Course::Drifting { keys, epoch } => {
                let drifting = Drifting::new(keys, *epoch).expect("an epoch that was checked");
                // Begun at any time of an epoch; the integral has an edge where the last request
                // comes to lie in another epoch.
                let edge = 1.0 - (requests / epoch).fract();
                let of = |from: f64, to: f64| {
                    // Points are dense at both ends, where the share of unseen keys bends.
                    let at = |x: f64| from + (to - from) * x * x * (3.0 - 2.0 * x);
                    let slope = |x: f64| (to - from) * 6.0 * x * (1.0 - x);
                    self.mean(|x| slope(x) * drifting.unique_from(epoch * at(x), requests))
                };
                of(0.0, edge) + of(edge, 1.0)
            }
        }
    }

    /// The integral over 0 to 1.
    fn mean(&self, f: impl Fn(f64) -> f64) -> f64 {
        self.points.iter().map(|point| point.weight * f(0.5 * (1.0 + point.at))).sum()
    }
}

#[cfg(test)]
#[path = "writes_tests.rs"]
mod tests;
