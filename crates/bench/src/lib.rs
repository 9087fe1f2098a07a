//! Benchmarks of Silica: one workload generator, one driver, one report, one chart style.
//!
//! Every run is seeded and checks every answer, so that a run proves more than its speed.
#![forbid(unsafe_code)]

mod answers;
pub mod charts;
mod config;
mod device;
mod distribution;
mod driver;
pub mod figures;
mod gate;
mod generator;
mod index;
mod laps;
pub mod memory;
mod overhead;
pub mod palette;
mod plan;
mod report;
mod sql;
pub mod sqlitekv;
mod store;
mod target;
mod trace;
mod window;
mod worker;
mod workload;

pub use config::Config;
pub use device::{Access, DeviceProbe, DeviceReport, RandomReads, device};
pub use distribution::Distribution;
pub use driver::{Observer, Run, drive, drive_slices, fill, replay};
pub use gate::{Pace, Slice};
pub use generator::{KEY_BYTES_MIN, Layout, Shape, Sizes, normal};
pub use index::{CUCKOO_SLOTS_DEFAULT, CuckooReport, EctConfig, EctReport, cuckoo, ect};
pub use overhead::{OverheadReport, OverheadRow, overhead};
pub use plan::Plan;
pub use report::{Report, Sample, json_object};
pub use sql::{SqlOptions, SqlStore};
pub use store::{run, run_trace};
pub use target::{Abilities, Session, Sink, Target, recycled};
pub use trace::{Event, Trace, TraceKind, TraceReader, TraceWriter};
pub use worker::Tally;
pub use workload::{WORKLOADS, Workload};
