//! Items of different size by their key's popularity, and deletes.

use silica_base::{Error, ErrorKind, Result};

use super::Deletes;
use super::popularity::ranks;
use super::range::positive;

/// What writes write: a share of them deletes, and items have a size that depends on how popular
/// their key is.
///
/// Sizes are in items of the mean size of all keys' items, so only the ratio of the two matters.
/// Between the most and the least popular key an item's size is a power of the key's rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Items {
    deletes: Deletes,
    hot: f64,
    cold: f64,
}

/// The most that the sizes of two items differ by.
const RATIO_MAX: f64 = 1e9;

impl Items {
    /// Items of one size, which are not deleted.
    pub fn alike() -> Self {
        Items { deletes: Deletes::NONE, hot: 1.0, cold: 1.0 }
    }

    /// These items with deletes.
    #[must_use]
    pub fn with_deletes(self, deletes: Deletes) -> Self {
        Items { deletes, ..self }
    }

    /// These items with an item of `hot` bytes for the most popular key, and one of `cold` bytes
    /// for the least popular one.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for sizes that are not over zero, or more than 10^9 times apart.
    pub fn with_bytes(self, hot: f64, cold: f64) -> Result<Self> {
        positive("the size of the most popular item", hot)?;
        positive("the size of the least popular item", cold)?;
        if hot / cold > RATIO_MAX || cold / hot > RATIO_MAX {
            let text =
                format!("items differ by a factor of {RATIO_MAX:e} at most, not {hot}:{cold}");
            return Err(Error::new(ErrorKind::Config, text));
        }
        Ok(Items { hot, cold, ..self })
    }

    /// Whether nothing is deleted and no item is larger than another.
    pub fn is_plain(&self) -> bool {
        !self.are_ranked() && self.deletes() == 0.0
    }

    /// Share of the writes that delete.
    pub fn deletes(&self) -> f64 {
        self.deletes.share()
    }

    /// Size of a tombstone, in items of mean size.
    pub fn tombstone(&self) -> f64 {
        self.deletes.tombstone()
    }

    /// Whether an item's size depends on its key.
    pub fn are_ranked(&self) -> bool {
        self.hot != self.cold
    }

    /// The sizes of `keys` keys.
    pub fn of(&self, keys: f64) -> ItemSizes {
        if keys <= 1.0 || !self.are_ranked() {
            return ItemSizes { power: 0.0, mean: 1.0 };
        }
        let power = (self.cold / self.hot).ln() / keys.ln();
        let sum: f64 = ranks(keys).iter().map(|(rank, count)| rank.powf(power) * count).sum();
        ItemSizes { power, mean: sum / keys }
    }
}

/// The sizes of the items of all keys, by rank.
#[derive(Clone, Copy, Debug)]
pub struct ItemSizes {
    power: f64,
    mean: f64,
}

impl ItemSizes {
    /// Of the key of a rank, from 1.
    pub fn at(&self, rank: f64) -> f64 {
        rank.powf(self.power) / self.mean
    }
}
