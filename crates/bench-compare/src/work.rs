//! A plan as data: what a cell does with a store, in a form that crosses to another process.

use crate::load::Load;
use serde::{Deserialize, Serialize};
use silica::{Durability, Error, ErrorKind, Result};
use silica_bench::{Distribution, Plan, Shape, Sizes, Workload};

/// What to do with a store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Work {
    /// Name of the driver's workload.
    pub workload: String,
    /// Keys in the store before the measured part.
    pub keys: u64,
    /// Operations of the measured part, at most.
    pub operations: u64,
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value, the largest where they vary.
    pub value_bytes: usize,
    /// Threads that issue operations.
    pub threads: usize,
    /// True where writes must survive a power cut.
    pub synced: bool,
    /// Name of the distribution of keys.
    pub distribution: String,
    /// Keys in one call.
    pub batch: usize,
    /// Operations a second; 0 means as many as possible.
    pub rate: u64,
    /// Where every random choice comes from.
    pub seed: u64,
    /// Many connections of one client instead of the workload.
    #[serde(default)]
    pub load: Option<Load>,
}

impl Work {
    /// The work as the driver takes it.
    pub fn plan(&self) -> Result<Plan> {
        let distribution = Distribution::parse(&self.distribution).ok_or_else(|| {
            let message = format!("no distribution '{}'", self.distribution);
            Error::new(ErrorKind::Config, message)
        })?;
        let plan = Plan {
            keys: self.keys,
            operations: self.operations,
            shape: Shape { key_bytes: self.key_bytes, value_bytes: self.value_bytes },
            threads: self.threads,
            durability: if self.synced { Durability::Synced } else { Durability::Buffered },
            distribution,
            batch: self.batch,
            rate: self.rate,
            seed: self.seed,
            ..Plan::new(&self.workload)?
        };
        plan.check()?;
        Ok(plan)
    }

    /// Bytes of the keys and values that are there before the measured part.
    pub fn live_bytes(&self) -> u64 {
        (self.keys as f64 * self.entry_bytes()) as u64
    }

    /// Mean bytes of a key and its value.
    pub fn entry_bytes(&self) -> f64 {
        let sizes = Workload::find(&self.workload).map_or(Sizes::Fixed, |w| w.sizes);
        self.key_bytes as f64 + sizes.mean_bytes(self.value_bytes)
    }
}
