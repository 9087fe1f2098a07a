//! What to do with a store, whichever it is.

use crate::generator::{Distribution, KEY_BYTES_MIN, Shape};
use crate::workload::Workload;
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
    /// A run of the workload `name` with defaults for everything else: a million keys of 16
    /// bytes with values of 100, one thread, as many operations as keys.
    pub fn new(name: &str) -> Result<Self> {
        let workload = *Workload::find(name)?;
        Ok(Plan {
            workload,
            keys: 1_000_000,
            shape: Shape { key_bytes: 16, value_bytes: 100 },
            threads: 1,
            durability: Durability::Buffered,
            distribution: workload.distribution,
            operations: 1_000_000,
            batch: 1,
            rate: 0,
            seconds_max: 0.0,
            seed: 1,
        })
    }

    /// Refuses what cannot run; the error names the fix.
    pub fn check(&self) -> Result<()> {
        let wrong = |message: String| Err(Error::new(ErrorKind::Config, message));
        if self.shape.key_bytes < KEY_BYTES_MIN {
            return wrong(format!("--key-size must be at least {KEY_BYTES_MIN}"));
        }
        if self.keys == 0 || self.threads == 0 || self.batch == 0 {
            return wrong("--keys, --threads and --batch must be at least 1".to_string());
        }
        if self.workload.split_roles && self.threads < 2 {
            return wrong(format!("{} needs --threads 2 or more", self.workload.name));
        }
        Ok(())
    }
}
