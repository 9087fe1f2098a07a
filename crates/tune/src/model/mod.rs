//! Analytic models of multi-stage log-structured stores.
//!
//! [`Popularity`] says how often each key is written, in a compressed form; [`Primitives`] turn
//! numbers of requests into numbers of distinct keys and back (Lim's dissertation, section 4.2);
//! each design's model is a short function over them. Sizes are in entries and amplifications in
//! entries written per entry put, unless a name says bytes.

mod amplification;
mod curve;
mod leveldb;
mod popularity;
mod primitives;
mod quadrature;
mod silt;
mod stages;

pub use amplification::{Stage, WriteAmplification};
pub use leveldb::LevelDb;
pub use popularity::{Group, Popularity, SKEW_MAX};
pub use primitives::Primitives;
pub use silt::Silt;
pub use stages::{Cola, Samt};
