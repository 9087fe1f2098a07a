//! Beyond the paper: popularity that drifts, deletes, and items of unlike size.

use silica_base::{Error, ErrorKind, Result};

use super::range::positive;
use super::{Popularity, Primitives};

/// A popularity whose ranks are dealt anew to the keys every so many requests.
#[derive(Debug)]
pub struct Drifting<'p> {
    keys: &'p Primitives,
    epoch: f64,
}

/// Halvings after which a root is as exact as a double.
const HALVINGS: u32 = 200;

impl<'p> Drifting<'p> {
    /// Ranks of `keys` that are dealt anew every `epoch` requests.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for an epoch that is not over zero.
    pub fn new(keys: &'p Primitives, epoch: f64) -> Result<Self> {
        positive("an epoch's requests", epoch)?;
        Ok(Drifting { keys, epoch })
    }

    /// Share of the keys that `requests` of one epoch do not name.
    fn unseen(&self, requests: f64) -> f64 {
        1.0 - self.keys.unique(requests) / self.keys.keys()
    }

    /// Expected number of distinct keys in `requests` requests that begin with an epoch: a key is
    /// unseen where it is unseen in each epoch, and its ranks are independent.
    pub fn unique(&self, requests: f64) -> f64 {
        self.unique_from(0.0, requests)
    }

    /// Expected number of keys in `requests` requests that begin `begun` requests after an epoch
    /// did.
    pub fn unique_from(&self, begun: f64, requests: f64) -> f64 {
        let first = (self.epoch - begun % self.epoch).min(requests.max(0.0));
        let rest = (requests - first).max(0.0);
        let whole = (rest / self.epoch).floor();
        let last = rest - whole * self.epoch;
        let unseen = self.unseen(first) * self.unseen(self.epoch).powf(whole) * self.unseen(last);
        self.keys.keys() * (1.0 - unseen)
    }

    /// Requests, from an epoch's begin on, after which `unique` distinct keys are expected;
    /// infinite for all keys.
    pub fn unique_inverse(&self, unique: f64) -> f64 {
        if unique >= self.keys.keys() {
            return f64::INFINITY;
        }
        // Ranks that stay bring the fewest distinct keys.
        let (mut low, mut high) = (0.0, self.keys.unique_inverse(unique));
        for _ in 0..HALVINGS {
            let middle = 0.5 * (low + high);
            if self.unique(middle) < unique { low = middle } else { high = middle }
        }
        0.5 * (low + high)
    }

    /// Theorem 4.3 for tables whose requests are of different epochs.
    pub fn merge(&self, left: f64, right: f64) -> f64 {
        let unseen = |unique: f64| 1.0 - unique / self.keys.keys();
        self.keys.keys() * (1.0 - unseen(left) * unseen(right))
    }
}

/// A share of the writes that delete their key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Deletes {
    share: f64,
    tombstone: f64,
}

impl Deletes {
    /// Nothing is deleted; a tombstone would be as large as an item.
    pub const NONE: Deletes = Deletes { share: 0.0, tombstone: 1.0 };

    /// A share of the writes are deletes, whose tombstones are as large as `tombstone` of an item.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for a share outside `0 ..= 1`, and sizes outside it.
    pub fn new(share: f64, tombstone: f64) -> Result<Self> {
        for (what, part) in [("share of deletes", share), ("size of a tombstone", tombstone)] {
            if !(0.0..=1.0).contains(&part) {
                let text = format!("the {what} is from 0 to 1, not {part}");
                return Err(Error::new(ErrorKind::Config, text));
            }
        }
        Ok(Deletes { share, tombstone })
    }

    /// Share of the writes that delete.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Size of a tombstone, in items.
    pub fn tombstone(&self) -> f64 {
        self.tombstone
    }

    /// Tombstones in a table of `requests` writes: keys of which the last write was a delete.
    pub fn tombstones(&self, keys: &Primitives, requests: f64) -> f64 {
        self.share * keys.unique(requests)
    }

    /// Size of that table, in items.
    pub fn size(&self, keys: &Primitives, requests: f64) -> f64 {
        keys.unique(requests) * self.write()
    }

    /// Size of a write, in items.
    pub fn write(&self) -> f64 {
        1.0 - self.share * (1.0 - self.tombstone)
    }

    /// Keys that are there in the long run: those of the last level, where tombstones end.
    pub fn live(&self, keys: &Primitives) -> f64 {
        keys.keys() * (1.0 - self.share)
    }
}

/// Bytes of the items of each group of a popularity.
#[derive(Clone, Debug)]
pub struct ItemBytes<'p> {
    popularity: &'p Popularity,
    bytes: Vec<f64>,
}

impl<'p> ItemBytes<'p> {
    /// Items of `bytes(probability)` on average, by their key's probability. Sizes that do not
    /// depend on it are a constant: their mean.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] where a size is not over zero.
    pub fn new(popularity: &'p Popularity, bytes: impl Fn(f64) -> f64) -> Result<Self> {
        let bytes: Vec<f64> = popularity.groups().iter().map(|g| bytes(g.probability)).collect();
        for &size in &bytes {
            positive("an item's size", size)?;
        }
        Ok(ItemBytes { popularity, bytes })
    }

    fn sum(&self, f: impl Fn(&super::Group) -> f64) -> f64 {
        let groups = self.popularity.groups().iter().zip(&self.bytes);
        groups.map(|(group, bytes)| group.keys * bytes * f(group)).sum()
    }

    /// Bytes of a put on average.
    pub fn put(&self) -> f64 {
        self.sum(|group| group.probability)
    }

    /// Bytes of all items.
    pub fn all(&self) -> f64 {
        self.sum(|_| 1.0)
    }

    /// Theorem 4.1 in bytes: of a table of `requests` puts.
    pub fn unique(&self, requests: f64) -> f64 {
        self.sum(|group| if requests > 0.0 { -(-group.rate * requests).exp_m1() } else { 0.0 })
    }

    /// Requests after which a table is expected to have so many bytes; infinite for all of them.
    pub fn unique_inverse(&self, bytes: f64) -> f64 {
        if bytes >= self.all() {
            return f64::INFINITY;
        }
        let (mut low, mut high) = (-700.0_f64, 700.0_f64);
        for _ in 0..HALVINGS {
            let middle = 0.5 * (low + high);
            if self.unique(middle.exp()) < bytes { low = middle } else { high = middle }
        }
        (0.5 * (low + high)).exp()
    }

    /// Theorem 4.3 in bytes.
    pub fn merge(&self, left: f64, right: f64) -> f64 {
        self.unique(self.unique_inverse(left) + self.unique_inverse(right))
    }
}

#[cfg(test)]
#[path = "extended_tests.rs"]
mod tests;
