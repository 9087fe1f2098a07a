//! What to do with a store, whichever it is.

use crate::distribution::Distribution;
use crate::generator::{Shape, missing, version_of};
use crate::workload::{REPLAY, Workload};
use silica::{Durability, Error, ErrorKind, Result};

/// A run of one workload on some store.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What to do.
    pub workload: Workload,
    /// Keys in the store before the measured part.
    pub keys: u64,
    /// Sizes.
    pub shape: Shape,
    /// Threads that issue operations.
    pub threads: usize,
    /// What writes must survive.
    pub durability: Durability,
    /// Which keys are chosen.
    pub distribution: Distribution,
    /// Operations of the measured part, of all threads together.
    pub operations: u64,
    /// Keys in one burst of gets or one batch of puts.
    pub batch: usize,
    /// Operations a second of all threads together; 0 means as many as possible.
    pub rate: u64,
    /// Time after which the run ends although operations are left; 0 means never.
    pub seconds_max: f64,
    /// Where every random choice comes from.
    pub seed: u64,
}

impl Plan {
    /// A run of the workload `name` with its own sizes and distribution, and defaults for
    /// everything else: a million keys, one thread, as many operations as keys.
    pub fn new(name: &str) -> Result<Self> {
        let workload = *Workload::find(name)?;
        Ok(Plan {
            workload,
            keys: 1_000_000,
            shape: workload.shape,
            threads: 1,
            durability: Durability::Buffered,
            distribution: workload.distribution,
            operations: 1_000_000,
            batch: 1,
            rate: workload.rate,
            seconds_max: 0.0,
            seed: 1,
        })
    }

    /// A replay of a trace of about `operations` operations, as fast as possible.
    pub fn of_trace(operations: u64) -> Self {
        Plan {
            workload: REPLAY,
            keys: 1,
            shape: REPLAY.shape,
            threads: 1,
            durability: Durability::Buffered,
            distribution: REPLAY.distribution,
            operations,
            batch: 1,
            rate: 0,
            seconds_max: 0.0,
            seed: 1,
        }
    }

    /// Refuses what cannot run; the error names the fix.
    pub fn check(&self) -> Result<()> {
        let wrong = |message: String| Err(Error::new(ErrorKind::Config, message));
        let least = self.workload.layout.key_bytes_min();
        if self.shape.key_bytes < least {
            return wrong(format!("--key-size must be at least {least}"));
        }
        if self.keys == 0 || self.threads == 0 || self.batch == 0 {
            return wrong("--keys, --threads and --batch must be at least 1".to_string());
        }
        if self.workload.split_roles && self.threads < 2 {
            return wrong(format!("{} needs --threads 2 or more", self.workload.name));
        }
        Ok(())
    }

    /// Writes the key number `index` to `out`.
    pub fn key(&self, index: u64, out: &mut Vec<u8>) {
        out.clear();
        self.append_key(index, out);
    }

    /// True where `value` is what some version of key number `index` has.
    #[inline]
    pub fn is_value_of(&self, index: u64, value: &[u8]) -> bool {
        self.shape_of(index, version_of(value)).is_value_of(index, value)
    }

    /// The shape of one version of a value.
    #[inline]
    fn shape_of(&self, index: u64, version: u64) -> Shape {
        let value_bytes = self.workload.sizes.bytes(self.shape.value_bytes, index, version);
        Shape { value_bytes, ..self.shape }
    }

    #[inline]
    pub(crate) fn append_key(&self, index: u64, out: &mut Vec<u8>) {
        self.workload.layout.append_key(self.shape.key_bytes, index, self.keys, out);
    }

    #[inline]
    pub(crate) fn append_missing_key(&self, index: u64, out: &mut Vec<u8>) {
        self.append_key(missing(index), out);
    }

    #[inline]
    pub(crate) fn append_value(&self, index: u64, version: u64, out: &mut Vec<u8>) {
        self.shape_of(index, version).append_value(index, version, out);
    }

    /// The index of `key` where it is one of this plan's. `scratch` is used.
    pub(crate) fn index_of(&self, key: &[u8], scratch: &mut Vec<u8>) -> Option<u64> {
        let index = self.workload.layout.index_of(key)?;
        self.key(index, scratch);
        (scratch == key).then_some(index)
    }
}
