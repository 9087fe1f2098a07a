//! SILT: a log store, hash stores, and one sorted store that has every key.

use silica_base::{Error, ErrorKind, Result};

use super::{Distinct, Primitives, Stage, WriteAmplification, Writes, positive};

/// SILT's parameters, in entries (Lim's dissertation, section 4.5).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Silt {
    /// Slots of a log store's and a hash store's table.
    pub table: f64,
    /// Share of the slots that are filled when the table is converted.
    pub occupancy: f64,
    /// Hash stores that are merged into the sorted store at once.
    pub hash_stores: f64,
}

impl Silt {
    /// Checked parameters for stores of `keys` keys.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for an occupancy outside `0 ..= 1`, a table that never fills with so
    /// few keys, and numbers that are not over zero.
    pub fn checked(self, keys: f64) -> Result<Self> {
        positive("the table's size", self.table)?;
        positive("the number of hash stores", self.hash_stores)?;
        let refuse = |text: String| Err(Error::new(ErrorKind::Config, text));
        if !(self.occupancy > 0.0 && self.occupancy <= 1.0) {
            return refuse(format!("an occupancy is in 0 to 1, not {}", self.occupancy));
        }
        if self.table * self.occupancy >= keys {
            return refuse(format!(
                "{keys} keys never fill a table of {} slots to {}: make the table smaller",
                self.table, self.occupancy
            ));
        }
        Ok(self)
    }

    /// Algorithm 5.
    pub fn write_amplification(&self, keys: &Primitives) -> WriteAmplification {
        self.of(keys)
    }

    /// The cost of writes with deletes, items of different size, or a popularity that moves.
    /// Tombstones take a slot, and end in the sorted store; a slot that is empty is as large as the
    /// others of its table on average.
    pub fn cost(&self, writes: &Writes) -> WriteAmplification {
        self.of(writes)
    }

    fn of(&self, keys: &impl Distinct) -> WriteAmplification {
        let mut cost = WriteAmplification::logged();
        let full = self.table * self.occupancy;
        let interval = keys.keys_inverse(full);
        let slots = self.table * (keys.unique(interval) / full);
        cost.add(Stage::HashStores, slots / (interval * keys.put()));
        let sorted = keys.live() / (interval * self.hash_stores * keys.put());
        cost.add(Stage::SortedStore, sorted);
        cost
    }
}
