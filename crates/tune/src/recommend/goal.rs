//! What is wanted: weights of what counts, bounds of what may be, and prices.

use std::fmt;
use std::str::FromStr;

use silica_base::Result;
use silica_engine::unknown;

use crate::lines::{config, number};

use super::Prediction;

/// What counts, and how much: each weight is an exponent, so that doubling a figure of weight 2
/// weighs as much as quadrupling one of weight 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Operations a second, as far as they are asked for.
    pub throughput: f64,
    /// Money a month.
    pub cost: f64,
    /// Years until the device is worn.
    pub life: f64,
    /// Bytes of memory.
    pub memory: f64,
    /// Bytes written to the device for each byte put.
    pub writes: f64,
    /// Device reads of a get.
    pub reads: f64,
}

impl Default for Goal {
    fn default() -> Self {
        Goal { throughput: 1.0, ..Goal::NOTHING }
    }
}

impl Goal {
    /// Nothing counts.
    pub const NOTHING: Goal =
        Goal { throughput: 0.0, cost: 0.0, life: 0.0, memory: 0.0, writes: 0.0, reads: 0.0 };

    /// The names, with their weights.
    pub fn weights(&self) -> [(&'static str, f64); 6] {
        [
            ("throughput", self.throughput),
            ("cost", self.cost),
            ("life", self.life),
            ("memory", self.memory),
            ("writes", self.writes),
            ("reads", self.reads),
        ]
    }
}

impl FromStr for Goal {
    type Err = silica_base::Error;

    /// `cost`, or `throughput=1,cost=0.5`.
    fn from_str(text: &str) -> Result<Self> {
        let mut goal = Goal::NOTHING;
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, weight) = part.split_once('=').unwrap_or((part, "1"));
            let weight = number(weight.trim()).map_err(|e| e.within(format!("goal {name}")))?;
            match name.trim() {
                "throughput" => goal.throughput = weight,
                "cost" => goal.cost = weight,
                "life" => goal.life = weight,
                "memory" => goal.memory = weight,
                "writes" => goal.writes = weight,
                "reads" => goal.reads = weight,
                other => {
                    return Err(unknown("goal", other, goal.weights().map(|(name, _)| name)));
                }
            }
        }
        if goal == Goal::NOTHING {
            return Err(config("a goal needs a weight over zero, such as throughput=1,cost=0.5"));
        }
        Ok(goal)
    }
}

/// What a recommendation must keep to. `None` does not bind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bounds {
    /// Operations a second at least.
    pub throughput_min: Option<f64>,
    /// Bytes of memory at most.
    pub memory_bytes_max: Option<f64>,
    /// Years that the device lasts at least.
    pub life_years_min: Option<f64>,
    /// Money a month at most.
    pub money_max: Option<f64>,
    /// Bytes written to the device for each byte put, at most.
    pub write_amplification_max: Option<f64>,
    /// Device reads of a get at most.
    pub reads_per_get_max: Option<f64>,
    /// Bytes on the device at most.
    pub device_bytes_max: Option<f64>,
}

/// A bound that a prediction breaks.
#[derive(Clone, Debug, PartialEq)]
pub struct Broken {
    /// The bound's name.
    pub name: &'static str,
    /// What it says.
    pub bound: f64,
    /// What was predicted.
    pub predicted: f64,
}

impl Broken {
    /// How far off it is: 0 at the bound, 1 where the figure is e times too large or too small.
    pub(super) fn distance(&self) -> f64 {
        let least = f64::MIN_POSITIVE;
        (self.predicted.max(least) / self.bound.max(least)).ln().abs().min(1e3)
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} (it comes to {})", self.name, short(self.bound), short(self.predicted))
    }
}

/// Three digits, as people write them.
fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 1e4 && v.is_finite() => format!("{value:.3e}"),
        v if v >= 100.0 => format!("{value:.0}"),
        _ => format!("{value:.2}"),
    }
}

impl Bounds {
    /// Those that `prediction` breaks.
    pub(super) fn broken_by(&self, prediction: &Prediction) -> Vec<Broken> {
        let least = [
            ("throughput >=", self.throughput_min, prediction.throughput),
            ("life_years >=", self.life_years_min, prediction.life_years),
        ];
        let most = [
            ("memory <=", self.memory_bytes_max, prediction.memory_bytes),
            ("money <=", self.money_max, prediction.money_per_month),
            ("write_amplification <=", self.write_amplification_max, prediction.written()),
            ("reads_per_get <=", self.reads_per_get_max, prediction.reads_per_get),
            ("device_bytes <=", self.device_bytes_max, prediction.device_bytes),
        ];
        let broken = |(name, bound, predicted): (&'static str, Option<f64>, f64), low: bool| {
            let bound = bound?;
            // A hair for rounding.
            let keeps =
                if low { predicted >= bound * 0.999_999 } else { predicted <= bound * 1.000_001 };
            (!keeps).then_some(Broken { name, bound, predicted })
        };
        let least = least.into_iter().filter_map(|bound| broken(bound, true));
        least.chain(most.into_iter().filter_map(|bound| broken(bound, false))).collect()
    }

    /// Refuses what is no number over zero.
    pub(super) fn check(&self) -> Result<()> {
        let all = [
            ("throughput", self.throughput_min),
            ("memory", self.memory_bytes_max),
            ("life_years", self.life_years_min),
            ("money", self.money_max),
            ("write_amplification", self.write_amplification_max),
            ("device_bytes", self.device_bytes_max),
        ];
        for (name, bound) in all {
            if bound.is_some_and(|bound| !(bound > 0.0 && bound.is_finite())) {
                return Err(config(format!("the bound of {name} must be a number over zero")));
            }
        }
        Ok(())
    }
}

/// What memory and devices cost. A month's money is what is bought over [`Prices::months`], or
/// sooner where the device is worn before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// Of a GiB of memory.
    pub memory_per_gib: f64,
    /// Of a GiB of the device.
    pub device_per_gib: f64,
    /// Months that a machine is used.
    pub months: f64,
    /// How often each byte of the device can be written, where the machine does not say what it
    /// endures (E of the paper's equation 2.8; 3000 is usual for flash of three bits a cell).
    pub erase_cycles: f64,
}

impl Default for Prices {
    fn default() -> Self {
        Prices { memory_per_gib: 4.0, device_per_gib: 0.1, months: 60.0, erase_cycles: 3000.0 }
    }
}

impl Prices {
    /// Refuses what is no price.
    pub(super) fn check(&self) -> Result<()> {
        let all = [self.memory_per_gib, self.device_per_gib];
        let positive = [self.months, self.erase_cycles];
        let fine = all.iter().all(|price| price.is_finite() && *price >= 0.0)
            && positive.iter().all(|n| n.is_finite() && *n > 0.0);
        if fine {
            return Ok(());
        }
        Err(config("prices are 0 or more; months and erase cycles are over zero"))
    }
}
