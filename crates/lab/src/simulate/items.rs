//! Items of different size, and deletes, in a simulation.

use silica_base::Result;

use super::config;
use super::keyset::Fields;
use crate::model::Items;

/// Bits of the widest field, and the units of the largest item in it.
const WIDTH: u32 = 64;
const UNITS_MAX: f64 = 63.0;
/// What a key of 32 bits can number.
const CODES: u64 = 1 << 32;

/// Items in units, as a simulator counts them: the largest has 63, or all have one.
#[derive(Clone, Debug)]
pub struct ItemUnits {
    model: Items,
    fields: Fields,
    /// Units of an item that is as large as the mean over all keys.
    mean: f64,
    /// Units of the item of each rank up to an end.
    steps: Vec<(u32, u32)>,
}

impl ItemUnits {
    /// Units for items of `keys` keys.
    ///
    /// # Errors
    /// [`ErrorKind::Config`](silica_base::ErrorKind::Config) for keys that have no number in 32
    /// bits beside their units.
    pub(super) fn new(model: Items, keys: u32) -> Result<Self> {
        let alike = !model.are_ranked() && model.tombstone() == 1.0;
        let shift = if alike { 1 } else { WIDTH.ilog2() };
        if u64::from(keys) << shift > CODES {
            let most = CODES >> shift;
            let text = format!("items of different size are simulated for up to {most} keys");
            return Err(config(format!("{text}, not {keys}: give --keys a smaller number")));
        }
        let sizes = model.of(f64::from(keys));
        let (hot, cold) = (sizes.at(1.0), sizes.at(f64::from(keys)));
        let largest = hot.max(cold).max(model.tombstone());
        let unit = if alike { 1.0 } else { largest / UNITS_MAX };
        let mut steps: Vec<(u32, u32)> = Vec::new();
        let mut all = 0.0;
        for rank in 1..=keys {
            let units = (sizes.at(f64::from(rank)) / unit).round().clamp(1.0, UNITS_MAX) as u32;
            all += f64::from(units);
            match steps.last_mut() {
                Some((end, last)) if *last == units => *end = rank,
                _ => steps.push((rank, units)),
            }
        }
        let mean = all / f64::from(keys);
        let tombstone = (model.tombstone() * mean).round().clamp(1.0, UNITS_MAX) as u32;
        Ok(ItemUnits { model, fields: Fields { shift, tombstone, drops: false }, mean, steps })
    }

    pub(super) fn fields(&self) -> Fields {
        self.fields
    }

    /// The fields where tombstones end.
    pub(super) fn last(&self) -> Fields {
        Fields { drops: true, ..self.fields }
    }

    /// Units of an item of mean size: sizes of a design are in these.
    pub(super) fn mean(&self) -> f64 {
        self.mean
    }

    pub(super) fn deletes(&self) -> f64 {
        self.model.deletes()
    }

    /// The code that puts the item of the key of a rank, from 0.
    pub(super) fn put(&self, key: u32, rank: u32) -> u32 {
        let step = self.steps.partition_point(|(end, _)| *end < rank + 1);
        key << self.fields.shift | (self.steps[step].1 - 1)
    }

    /// The code that deletes it.
    pub(super) fn tombstone(&self, key: u32) -> u32 {
        key << self.fields.shift | ((1 << self.fields.shift) - 1)
    }
}
