//! SILT: very many small entries on flash, at half a byte of memory each from 100 million on.
//!
//! Invariant: this crate does not know any other engine, opens no paths and starts no threads.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod admin;
mod atomic;
mod conversion;
mod counters;
mod elias_fano;
mod expired;
mod files;
mod freeze;
mod ground;
pub mod hash_store;
mod hasher;
mod intake;
mod journal;
mod memory;
pub mod merge;
mod merge_job;
mod metrics;
mod open;
mod options;
pub mod packed;
mod partition;
mod partitions;
mod position;
mod rank_map;
mod read;
mod reclaim;
mod repair;
mod replay;
mod scan;
mod scheduler;
mod shape;
mod silt;
mod sizes;
mod slot;
pub mod sorted_store;
mod space;
mod spec;
mod state;
mod store_stream;
mod verify;
mod write;

#[cfg(test)]
mod checkpoint_tests;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod shared_lines_tests;
#[cfg(test)]
mod test_support;

pub use hasher::Hasher;
pub use options::OPTIONS;
pub use repair::{made, repair};
pub use silt::{BATCH_BYTES_MAX, KEY_BYTES_MAX, Silt, VALUE_BYTES_MAX};
pub use spec::{ENGINE, METRICS};
