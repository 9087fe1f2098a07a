//! SILT: a log store, hash stores, and one sorted store.

use silica_base::{Error, ErrorKind, Result};

use super::{Simulator, whole};
use crate::model::{Silt, Stage};

/// SILT: a log store whose table is full is written as a hash store of as many slots; so many hash
/// stores are merged into the sorted store. Only which keys are where is kept, as sets of bits.
#[derive(Debug)]
pub struct SiltSimulator {
    /// Slots of a table.
    slots: u64,
    /// Distinct keys that fill a table.
    full: usize,
    hash_stores: u64,
    /// The log store's keys, also as bits.
    keys: Vec<u32>,
    fresh: Vec<u64>,
    converted: u64,
    /// Keys of the hash stores and the sorted store.
    there: Vec<u64>,
    count: u64,
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
        let words = vec![0; keys.div_ceil(64) as usize];
        Ok(SiltSimulator {
            slots: whole("the table's size", table)? as u64,
            full: whole("a full table", table * occupancy)?,
            hash_stores: whole("the number of hash stores", hash_stores)? as u64,
            keys: Vec::new(),
            fresh: words.clone(),
            converted: 0,
            there: words,
            count: 0,
            written: [0; 2],
        })
    }

    /// Writes the log store as a hash store, and merges when there are enough of them.
    fn convert(&mut self) {
        for key in self.keys.drain(..) {
            set(&mut self.fresh, key, false);
            self.count += u64::from(set(&mut self.there, key, true));
        }
        self.written[0] += self.slots;
        self.converted += 1;
        if self.converted == self.hash_stores {
            self.converted = 0;
            self.written[1] += self.count;
        }
    }
}

/// Sets a bit; true where it was not so before.
#[inline]
fn set(bits: &mut [u64], key: u32, to: bool) -> bool {
    let word = &mut bits[key as usize / 64];
    let before = *word >> (key % 64) & 1 == 1;
    *word ^= u64::from(before != to) << (key % 64);
    before != to
}

impl Simulator for SiltSimulator {
    fn put(&mut self, keys: &[u32]) {
        for &key in keys {
            if set(&mut self.fresh, key, true) {
                self.keys.push(key);
                if self.keys.len() == self.full {
                    self.convert();
                }
            }
        }
    }

    fn written(&self) -> Vec<(Stage, u64)> {
        vec![(Stage::HashStores, self.written[0]), (Stage::SortedStore, self.written[1])]
    }
}
