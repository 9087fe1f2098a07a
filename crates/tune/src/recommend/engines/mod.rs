//! What each engine costs at each setting: device bytes and reads, memory, and processor time.

mod mica;
mod pmem;
mod silt;
mod wip;

use silica_engine::{OptionSpec, OptionValues};

use super::processor::{Calibration, Nanoseconds};
use super::work::Work;
use crate::Survival;

/// An engine that may be chosen, with the options table that its search space comes from.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// The name that it is registered under.
    pub engine: &'static str,
    /// Its options.
    pub options: &'static [OptionSpec],
}

/// Options of one engine as a model reads them.
#[derive(Clone, Copy)]
pub struct Settings<'s> {
    pub(super) options: &'s [OptionSpec],
    pub(super) values: &'s OptionValues,
    /// Bytes of memory that the keyspace has.
    pub(super) memory_bytes: f64,
}

impl Settings<'_> {
    /// The value of `name`, or its default; 0 where the table lacks it.
    pub(super) fn value(&self, name: &str) -> f64 {
        let known = self.options.iter().any(|spec| spec.name == name);
        if known { self.values.value(self.options, name) as f64 } else { 0.0 }
    }

    /// The value of `name`, where it is given.
    pub(super) fn given(&self, name: &str) -> Option<f64> {
        self.values.given(name).map(|value| value as f64)
    }
}

/// What an engine can do; its descriptor says the same once it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Entries survive the process.
    pub durable: bool,
    /// Keys have an order.
    pub ordered: bool,
    /// Bytes of the largest value.
    pub value_bytes_max: u64,
}

/// What an engine can do that keeps its keys in order, and no other can.
const OF_ORDER: [&str; 3] = ["ranges", "snapshots", "transactions"];
/// What an engine can do that does not only keep its entries in memory.
const OF_DEVICE: &str = "entries after the process has ended";

impl Offer {
    /// What `other` can do and this engine cannot, in words.
    pub fn lacks_of(&self, other: &Offer) -> Vec<&'static str> {
        let order = OF_ORDER.into_iter().filter(|_| other.ordered && !self.ordered);
        let device = [OF_DEVICE].into_iter().filter(|_| other.durable && !self.durable);
        order.chain(device).collect()
    }

    /// What this engine or `other` can do.
    pub(super) fn or(self, other: Offer) -> Offer {
        Offer {
            durable: self.durable || other.durable,
            ordered: self.ordered || other.ordered,
            value_bytes_max: self.value_bytes_max.max(other.value_bytes_max),
        }
    }
}

/// What one setting of an engine costs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cost {
    /// Bytes written to the device for each byte of entries put, by what they are written for.
    pub written: Vec<(&'static str, f64)>,
    /// Device reads of 4 KiB for a get of a key that is there.
    pub reads_per_hit: f64,
    /// Device reads of 4 KiB for a get of a key that is not there.
    pub reads_per_miss: f64,
    /// Device reads of 4 KiB for a scan.
    pub reads_per_scan: f64,
    /// Memory of indexes and filters for each key.
    pub index_bytes_per_key: f64,
    /// Bytes of memory without which it does not keep to the number.
    pub memory_bytes_min: f64,
    /// Bytes on the device.
    pub device_bytes: f64,
    /// Bytes on the device for each live byte.
    pub space_amplification: f64,
    /// Share of the entries that do not fit and go.
    pub lost: f64,
    /// Processor time of an operation.
    pub processor: Nanoseconds,
    /// Bytes that persistent memory reads and writes inside, in its own lines.
    pub media: Media,
    /// Jobs of the background for each entry put: flushes, compactions, conversions, merges.
    pub jobs: f64,
}

/// Bytes that an operation makes persistent memory read or write inside.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Media {
    /// Written by the put of a new key, its share of growth included.
    pub insert: f64,
    /// Written by the put of a key that is there.
    pub overwrite: f64,
    /// Read by a get of a key that is there.
    pub hit: f64,
    /// Read by a get of a key that is not there.
    pub miss: f64,
}

impl Cost {
    /// The sum of what is written.
    pub fn write_amplification(&self) -> f64 {
        self.written.iter().map(|(_, amount)| amount).sum()
    }
}

/// A dimension of the search: an option and the values that are tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The option's name.
    pub option: &'static str,
    /// The values, besides the default.
    pub values: Vec<u64>,
}

/// The model of one engine.
pub trait Model: Sync {
    /// The engine's name.
    fn engine(&self) -> &'static str;
    /// What it can do.
    fn offer(&self) -> Offer;
    /// Why it is no choice for `work` in a directory of which so much survives, if it is none.
    fn refuses(&self, _work: &Work<'_>, _survival: Survival) -> Option<String> {
        None
    }
    /// Options that the model depends on, with values worth trying.
    fn axes(&self, work: &Work<'_>, may_evict: bool) -> Vec<Axis>;
    /// What `settings` cost.
    fn cost(&self, work: &Work<'_>, settings: Settings<'_>, calibration: &Calibration) -> Cost;
}

/// The models that there are.
pub(super) const MODELS: [&dyn Model; 5] =
    [&wip::Wip, &silt::Silt, &mica::Mica, &pmem::Turbo, &pmem::SpTree];

/// The model of `engine`.
pub fn model_of(engine: &str) -> Option<&'static dyn Model> {
    MODELS.into_iter().find(|model| model.engine() == engine)
}

fn axis(option: &'static str, values: &[u64]) -> Axis {
    Axis { option, values: values.to_vec() }
}

/// Bytes written to a value log for each byte put there, and its bytes for each live one:
/// segments are emptied once `dead` of them is dead, and lie between nothing and that.
fn value_log(overwrites: f64, dead_percent: f64) -> (f64, f64) {
    let dead = (dead_percent / 100.0).clamp(0.01, 1.0);
    let copied = overwrites * (1.0 - dead) / dead;
    (1.0 + copied, 1.0 + overwrites * dead / (2.0 - dead))
}
