//! The keys of a simulation: every key once, then keys by Zipf's law.

use silica_base::{Prng, Result, Zipf};

use super::config;
use super::items::ItemUnits;
use crate::model::{Items, SKEW_MAX};

/// Seeded requests over the keys `0 .. keys`.
///
/// Popular keys are scattered: the `i`th most popular key is at a place that a seeded permutation
/// gives it. With items of their own, what is drawn are codes of items, which a simulator
/// understands that was told of them.
#[derive(Debug)]
pub struct Requests {
    keys: u32,
    prng: Prng,
    ranks: Option<Zipf>,
    places: Permutation,
    order: Permutation,
    kind: Kind,
    items: Option<ItemUnits>,
}

/// 2^32 by the golden section: multiples of it lie as evenly as may be.
const SCATTERS: u32 = 0x9E37_79B1;

/// How ranks become keys.
#[derive(Debug)]
enum Kind {
    /// A rank has its key for ever.
    Fixed,
    /// Ranks are dealt anew every so many requests.
    Drifting { epoch: u64, left: u64 },
    /// The newest key has the first rank; a share of the requests inserts. Ranks, and keys that
    /// there are.
    Latest { inserts: f64, there: u32, most: u32 },
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
            ranks: (skew > 0.0).then(|| Zipf::new(keys.into(), skew)),
            places: Permutation::new(keys, &mut prng),
            order: Permutation::new(keys, &mut prng),
            prng,
            kind: Kind::Fixed,
            items: None,
        })
    }

    /// Requests of which a share of `inserts` are for new keys, and the others for the `i`th newest
    /// key in proportion to `1 / i^skew`; the first `keys` keys are put once, the oldest first.
    /// `count` requests at most are drawn after that.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](silica_base::ErrorKind::Config) for what [`Requests::zipf`] refuses, a
    /// share outside `0 ..= 1`, and more keys in the end than it takes.
    pub fn latest(keys: u64, skew: f64, inserts: f64, count: u64, seed: u64) -> Result<Self> {
        let mut requests = Requests::zipf(keys, skew, seed)?;
        if !(0.0..=1.0).contains(&inserts) {
            return Err(config(format!("the share of inserts is from 0 to 1, not {inserts}")));
        }
        // Six standard deviations, and some.
        let expected = inserts * count as f64;
        let most = keys as f64 + expected + 6.0 * expected.sqrt() + 10.0;
        if most > KEYS_MAX as f64 {
            let text = format!("a simulation ends with up to {KEYS_MAX} keys, not {most:.0}");
            return Err(config(format!("{text}: give fewer requests or fewer inserts")));
        }
        let (there, most) = (requests.keys, most as u32);
        requests.places = Permutation::new(most, &mut requests.prng);
        requests.kind = Kind::Latest { inserts, there, most };
        Ok(requests)
    }

    /// With ranks that are dealt anew to the keys every `epoch` requests.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](silica_base::ErrorKind::Config) for an epoch under 1, and for keys of
    /// which the newest are the popular ones.
    pub fn with_drift(mut self, epoch: f64) -> Result<Self> {
        if !(1.0..=1e18).contains(&epoch) {
            return Err(config(format!("an epoch is 1 to 1e18 requests, not {epoch}")));
        }
        if !matches!(self.kind, Kind::Fixed) {
            return Err(config("what is latest drifts by itself: leave out the epoch"));
        }
        let epoch = epoch.round() as u64;
        self.kind = Kind::Drifting { epoch, left: epoch };
        Ok(self)
    }

    /// With deletes, and items of different size by the rank of their key.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](silica_base::ErrorKind::Config) where there are more units than
    /// simulators count, and for keys whose ranks change.
    pub fn with_items(mut self, items: Items) -> Result<Self> {
        if !matches!(self.kind, Kind::Fixed) && items.are_ranked() {
            return Err(config(
                "sizes that go by popularity need keys that stay as popular: give items one size, \
                 or leave out the drift",
            ));
        }
        if matches!(self.kind, Kind::Latest { .. }) {
            return Err(config(
                "keys of which the latest are popular are neither deleted nor sized",
            ));
        }
        self.items = Some(ItemUnits::new(items, self.keys)?);
        Ok(self)
    }

    /// The items that are put, where they are not all alike.
    pub fn items(&self) -> Option<&ItemUnits> {
        self.items.as_ref()
    }

    /// Units that a put of what was drawn has; plain keys are a unit.
    pub(super) fn units(&self, drawn: u32) -> u64 {
        self.items.as_ref().map_or(1, |items| u64::from(items.fields().units(drawn)))
    }

    /// Number of keys.
    pub fn keys(&self) -> u32 {
        self.keys
    }

    /// The `i`th key of an order that has every key once; `i` is below the number of keys.
    pub fn once(&self, i: u32) -> u32 {
        if let Kind::Latest { .. } = self.kind {
            return self.places.at(i);
        }
        match &self.items {
            None => self.order.at(i),
            Some(items) => {
                let rank = self.order.at(i);
                let key = self.places.at(rank);
                // The share of deletes is that of the newest writes of all keys from the begin on.
                let chance = f64::from(i.wrapping_mul(SCATTERS)) / 2f64.powi(32);
                match chance < items.deletes() {
                    true => items.tombstone(key),
                    false => items.put(key, rank),
                }
            }
        }
    }

    /// The key of the next request.
    #[inline]
    pub fn draw(&mut self) -> u32 {
        if !matches!(self.kind, Kind::Fixed) || self.items.is_some() {
            return self.draw_other();
        }
        match &self.ranks {
            None => self.prng.below(u64::from(self.keys)) as u32,
            Some(zipf) => {
                let rank = zipf.rank(&mut self.prng);
                self.places.at(rank as u32)
            }
        }
    }

    fn rank(&mut self) -> u32 {
        match &self.ranks {
            None => self.prng.below(u64::from(self.keys)) as u32,
            Some(zipf) => zipf.rank(&mut self.prng) as u32,
        }
    }

    fn draw_other(&mut self) -> u32 {
        if let Kind::Latest { inserts, there, most } = self.kind {
            if self.prng.unit() < inserts && there < most {
                self.kind = Kind::Latest { inserts, there: there + 1, most };
                return self.places.at(there);
            }
            let rank = self.rank();
            return self.places.at(there - 1 - rank);
        }
        if let Kind::Drifting { epoch, left } = &mut self.kind {
            if *left == 0 {
                *left = *epoch;
                self.places = Permutation::new(self.keys, &mut self.prng);
            }
            *left -= 1;
        }
        let rank = self.rank();
        let key = self.places.at(rank);
        match &self.items {
            None => key,
            Some(items) if self.prng.unit() < items.deletes() => items.tombstone(key),
            Some(items) => items.put(key, rank),
        }
    }
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
}
