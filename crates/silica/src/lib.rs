//! Silica: a key-value store in a directory.
//!
//! A store holds named **keyspaces**; each belongs to one engine, chosen when it is created. The
//! store owns what engines must not: paths, threads, the clock and the split of memory.
//!
//! Invariant: this crate knows engines only through its [`Registry`]; no call outside
//! `registry.rs` names one.
#![forbid(unsafe_code)]

mod backup;
mod catalog;
mod keyspace;
mod options;
#[cfg(doctest)]
mod readme;
mod registry;
mod scheduler;
mod store;

pub use backup::{BackupReport, restore};
pub use keyspace::{Iter, Keyspace};
pub use options::{DEFAULT_ENGINE, DEFAULT_MEMORY_BYTES, OpenOptions};
pub use registry::{Build, Registration, Registry};
pub use silica_device::{self as device, DeviceOptions, FileDevice, IoChoice};
pub use silica_engine as engine;
pub use silica_engine::{
    Budget, Count, Durability, Engine, EngineExt, EntryRef, Environment, Error, ErrorKind, GetSink,
    METRICS, MetricKind, MetricsMap, OptionKind, OptionSpec, OptionValues, Result, Update,
    WriteBatch, parse_size,
};
pub use store::{DEFAULT_KEYSPACE, KeyspaceInfo, Silica, open};
