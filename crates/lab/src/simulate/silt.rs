//! SILT: a log store, hash stores, and one sorted store.

use silica_base::{Error, ErrorKind, Result};

use super::keyset::{Fields, KeySet};
use super::{ItemUnits, Simulator, whole};
use crate::model::{Silt, Stage};

/// SILT: a log store whose table is full is written as a hash store of as many slots; so many hash
/// stores are merged into the sorted store. Only which keys are where is kept.
#[derive(Debug)]
pub struct SiltSimulator {
    /// Slots of a table.
    slots: u64,
    /// Distinct keys that fill a table.
    full: usize,
    hash_stores: u64,
    converted: u64,
    /// How many distinct keys the log store has.
    filled: usize,
    /// Keys of the log store.
    fresh: KeySet,
    /// Keys of the hash stores and the sorted store.
    there: KeySet,
    /// How items lie in the sorted store, where they are not all alike.
    sorted: Option<Fields>,
    written: [u64; 2],
}

impl SiltSimulator {
    /// An empty store for `keys` keys with the parameters of the model.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for parameters that [`Silt::checked`] refuses, and sizes that are not
    /// 1 to 2^32 - 1.
    pub fn new(parameters: Silt, keys: u32) -> Result<Self> {
        let Silt { table, occupancy, hash_stores } = parameters.checked(f64::from(keys))?;
        if hash_stores.fract() != 0.0 {
            let text =
                format!("a simulation merges a whole number of hash stores, not {hash_stores}");
            return Err(Error::new(ErrorKind::Config, text));
        }
        Ok(SiltSimulator {
            slots: whole("the table's size", table)? as u64,
            full: whole("a full table", table * occupancy)?,
            hash_stores: whole("the number of hash stores", hash_stores)? as u64,
            converted: 0,
            filled: 0,
            fresh: KeySet::default(),
            there: KeySet::default(),
            sorted: None,
            written: [0; 2],
        })
    }

    /// For items of different size, in an empty store. A slot that is empty is as large as the
    /// others of its table on average.
    #[must_use]
    pub fn with_items(mut self, items: &ItemUnits) -> Self {
        self.fresh = KeySet::of(items.fields());
        self.there = KeySet::of(items.fields());
        self.sorted = Some(items.last());
        self
    }

    /// Writes the log store as a hash store, and merges when there are enough of them.
    fn convert(&mut self) {
        self.written[0] += match self.sorted {
            None => self.slots,
            Some(_) => self.fresh.count() as u64 * self.slots / self.full as u64,
        };
        self.fresh.drain_all(&mut self.there);
        self.filled = 0;
        self.converted += 1;
        if self.converted == self.hash_stores {
            self.converted = 0;
            self.drop_tombstones();
            self.written[1] += self.there.count() as u64;
        }
    }

    /// What the sorted store is merged without.
    fn drop_tombstones(&mut self) {
        let Some(fields) = self.sorted else { return };
        let mut sorted = KeySet::of(fields);
        self.there.drain_all(&mut sorted);
        sorted.drain_all(&mut self.there);
    }
}

impl Simulator for SiltSimulator {
    fn put(&mut self, keys: &[u32]) {
        for &key in keys {
            if self.fresh.insert(key) {
                self.filled += 1;
                if self.filled == self.full {
                    self.convert();
                }
            }
        }
    }

    fn written(&self) -> Vec<(Stage, u64)> {
        vec![(Stage::HashStores, self.written[0]), (Stage::SortedStore, self.written[1])]
    }
}
