//! WipDB: an ordered store that writes in place, in buckets of key ranges.
//!
//! Invariant: this crate does not know any other engine, opens no paths and starts no threads.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod memtable;
