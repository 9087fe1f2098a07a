//! MICA: a cache in memory that answers bursts of gets at two cache lines a key.
//!
//! Keys are hashed to **partitions**. Each has a circular log of entries, which overwrites its
//! oldest ones, and an index of buckets of one cache line. Readers write nothing that others
//! read; writers of a partition take turns. How they meet is in `protocol.rs`, with the memory
//! orderings, and a model checker runs it.
//!
//! In **store mode** nothing is evicted: entries are in blocks of one space per partition, which
//! are split and joined (`fits.rs`), and a batch that does not fit is taken back (`undo.rs`).
//!
//! Invariant: this crate does not know any other engine, opens no paths and starts no threads.
//! Unsafe code is in `words.rs` only.
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod admin;
mod again;
mod atomic;
mod cache;
mod chunks;
mod databases;
mod expiry;
mod family;
mod fits;
mod image;
mod index;
mod item;
mod large;
mod layout;
mod limits;
mod log;
mod metrics;
mod mica;
mod open;
mod options;
mod pages;
mod partition;
mod policy;
mod protocol;
mod read;
mod scan;
mod shard;
mod spaces;
mod spec;
mod store;
mod sync;
mod undo;
mod view;
mod words;
mod write;

#[cfg(test)]
mod large_image_tests;
#[cfg(test)]
mod large_tests;
#[cfg(test)]
mod tests;

pub use databases::{DATABASES_MAX, MicaDatabases};
pub use limits::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
pub use mica::Mica;
pub use options::OPTIONS;
pub use spec::{ENGINE, METRICS};
