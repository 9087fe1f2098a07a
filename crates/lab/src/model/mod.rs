//! Analytic models of multi-stage log-structured stores.
//!
//! [`Popularity`] says how often each key is written, in a compressed form; [`Primitives`] turn
//! numbers of requests into numbers of distinct keys and back (Lim's dissertation, section 4.2);
//! each design's model is a short function over them. Sizes are in entries and amplifications in
//! entries written per entry put, unless a name says bytes.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod amplification;
mod buckets;
mod dida;
mod drive;
mod followed;
mod leveldb;
mod levelled;
mod refined;
mod silt;
mod silt_design;
mod slabs;
mod stages;
mod tables;
mod universal;

pub use amplification::{Stage, WriteAmplification};
pub use dida::{DidaCache, DidaCost};
pub use drive::{
    fifo_amplification, greedy_amplification, hot_cold_amplification, separated_amplification,
};
pub use leveldb::LevelDb;
pub use levelled::{LazyLevelled, Pick, RocksLevelled, WipDb, wip_bound};
pub use refined::RefinedLevelDb;
pub use silica_tune::model::{
    Deletes, Distinct, Drifting, Group, ItemBytes, ItemSizes, Items, Latest, Popularity,
    Primitives, SKEW_MAX, Writes, positive,
};
pub use silt::Silt;
pub use silt_design::{SiltDesign, life_seconds};
pub use slabs::Slabs;
pub use stages::{Cola, Samt};
pub use tables::{LevelledTables, Rules};
pub use universal::{Universal, UniversalCost};
