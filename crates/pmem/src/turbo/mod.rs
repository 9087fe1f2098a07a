//! TurboHash: a hash table for persistent memory (Dissertation 002, chapter 3).
//!
//! An update costs one write within one 256-byte XPLine, a read takes no lock and writes nothing.
//! The store lies in a region as it is used: docs/formats/turbo.md. When to take it:
//! docs/engines/turbo.md.
//!
//! - `bucket`, `shards`, `entry`: what words mean.
//! - `protocol`: how readers and writers meet.
//! - `passed`: a filter in memory of keys that lie beyond a full bucket.
//! - `store`: the parts of the engine, and how a key is searched for.
//! - `plan`, `write`, `batch`, `rebuild`: what operations change, and in which order.
//! - `read`, `scan`, `atomic`, `admin`, `engine`: what others call.
//! - `open`, `check`, `maintain`, `limbo`: openings, checks, background work, freeing.

mod admin;
mod atomic;
mod batch;
mod bucket;
mod check;
mod engine;
mod entry;
mod limbo;
mod maintain;
mod open;
mod options;
mod passed;
mod plan;
mod protocol;
mod read;
mod rebuild;
mod salvage;
mod scan;
mod shards;
mod store;
mod sync;
#[cfg(test)]
mod tests;
mod write;

pub(crate) use open::NAME;
pub(crate) use salvage::salvage;

pub use options::{METRICS, OPTIONS};
pub use store::{KEY_BYTES_MAX, Turbo, VALUE_BYTES_MAX};
