//! SILT: billions of small entries on flash with well under a byte of memory each.
//!
//! Invariant: this crate does not know any other engine, opens no paths and starts no threads.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod entry;
pub mod hash_store;
mod hasher;
pub mod merge;
pub mod packed;
mod rank_map;
pub mod sorted_store;

#[cfg(test)]
mod test_support;

pub use hasher::Hasher;
