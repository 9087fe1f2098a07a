//! SILT: a log store, hash stores, and one sorted store.

use silica_base::{Error, ErrorKind, Result};

use super::keyset::KeySet;
use super::{Simulator, whole};
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
    /// Keys of the log store.
    fresh: KeySet,
    /// Keys of the hash stores and the sorted store.
    there: KeySet,
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
            fresh: KeySet::default(),
            there: KeySet::default(),
            written: [0; 2],
        })
    }

    /// Writes the log store as a hash store, and merges when there are enough of them.
    fn convert(&mut self) {
        self.fresh.drain_all(&mut self.there);
        self.written[0] += self.slots;
        self.converted += 1;
        if self.converted == self.hash_stores {
            self.converted = 0;
            self.written[1] += self.there.count() as u64;
        }
    }
}

impl Simulator for SiltSimulator {
    fn put(&mut self, keys: &[u32]) {
        for &key in keys {
            if self.fresh.insert(key) && self.fresh.count() == self.full {
                self.convert();
            }
        }
    }

    fn written(&self) -> Vec<(Stage, u64)> {
        vec![(Stage::HashStores, self.written[0]), (Stage::SortedStore, self.written[1])]
    }
}
