//! Benchmarks of Silica: one workload generator, one driver, one report, one chart style.
//!
//! Every run is seeded and checks every answer, so that a run proves more than its speed.
#![forbid(unsafe_code)]

mod config;
mod driver;
mod generator;
pub mod memory;
mod report;
mod worker;
mod workload;

pub use config::Config;
pub use driver::{Observer, run};
pub use generator::{Distribution, KEY_BYTES_MIN, Shape};
pub use report::{Report, Sample};
pub use workload::{WORKLOADS, Workload};
