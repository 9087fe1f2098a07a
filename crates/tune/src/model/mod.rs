//! Analytic models of multi-stage log-structured stores.
//!
//! [`Popularity`] says how often each key is written, in a compressed form; [`Primitives`] turn
//! numbers of requests into numbers of distinct keys and back (Lim's dissertation, section 4.2);
//! each design's model is a short function over them. Sizes are in entries and amplifications in
//! entries written per entry put, unless a name says bytes.

mod amplification;
mod buckets;
mod curve;
mod dida;
mod extended;
mod followed;
mod items;
mod latest;
mod leveldb;
mod levelled;
mod popularity;
mod primitives;
mod quadrature;
mod refined;
mod silt;
mod silt_design;
mod slabs;
mod stages;
mod tables;
mod universal;
mod writes;

pub use amplification::{Stage, WriteAmplification};
pub use dida::{DidaCache, DidaCost};
pub use extended::{Deletes, Drifting, ItemBytes};
pub use items::Items;
pub(crate) use latest::Course;
pub use latest::Latest;
pub use leveldb::LevelDb;
pub use levelled::{LazyLevelled, Pick, RocksLevelled, WipDb, wip_bound};
pub use popularity::{Group, Popularity, SKEW_MAX};
pub use primitives::Primitives;
pub use refined::RefinedLevelDb;
pub use silt::Silt;
pub use silt_design::{SiltDesign, life_seconds};
pub use slabs::Slabs;
pub use stages::{Cola, Samt};
pub use tables::{LevelledTables, Rules};
pub use universal::{Universal, UniversalCost};
pub use writes::Writes;
