//! The boundary between engines and everything above them.
//!
//! An [`Engine`] is synchronous, dyn-safe and batch-first; what not every engine can do is a
//! capability view (`as_scan`, `as_atomic`, …). Engines are passive: they own no threads, read no
//! clock, open no paths; devices, clocks and seeds come in as arguments.
//!
//! Invariant: this crate knows no engine, no device and no protocol.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod batch;
mod burst;
mod changes;
mod copies;
mod engine;
mod environment;
mod ext;
mod histories;
mod intent;
mod layer;
mod metric;
pub mod optimistic;
mod options;
mod ordered;
pub mod part;
mod shared;
mod spec;
mod stages;
mod staging;
pub mod transaction;
mod views;

pub use batch::{EntryRef, Op, OpKind, WriteBatch};
pub use burst::EntryBurst;
pub use changes::{ChangePoint, ChangeRing, Changes};
pub use copies::{Copies, CopyRoom, limit_copies};
pub use engine::{Budget, Capabilities, Descriptor, Durability, Engine, GetSink, Limits, Progress};
pub use environment::Environment;
pub use ext::{EngineExt, SnapshotExt};
pub use histories::{HISTORIES_MAX, Histories, HistoryLink};
pub use intent::{Intent, IterateOptions};
pub use layer::Layer;
pub use metric::{COMMON_METRICS, Metric, MetricKind, MetricVisitor, MetricsMap};
pub use options::{
    MEMORY_OPTION, OptionKind, OptionSpec, OptionValues, parse_size, similar, unknown,
};
pub use ordered::{
    EntryIter, INGESTED, Ingested, KeyRange, Near, Ordered, RangeSize, Reads, Snapshot, SortedFile,
    keys_of_ranges,
};
pub use shared::{OwnEntries, scan_own};
pub use silica_base::{Error, ErrorKind, Result};
pub use spec::{
    EngineSpec, Ingest, Medium, Open, Repair, SortedFiles, SortedFilesMade, SortedFilesOptions,
};
pub use stages::{Stage, StageTime, StageTimes, StageWatch, Stages, Unwatched};
pub use staging::{StagedWrite, Staging};
pub use views::{
    Admin, Atomic, Checkpoint, Count, Expected, Loss, Repaired, Scan, Shard, Sharded, Update,
};
