//! DIDACache: a cache on flash that drives the flash itself (papers: 003…, chapter 2).
//!
//! Entries are packed into **slabs** in memory, each of which is written to a block of flash as a
//! whole. The index maps a key straight to slab and byte, so nothing below it maps again. The cache
//! itself decides which blocks are worth copying and which are dropped, and how much space is kept
//! free for that.
//!
//! Where a get reads the flash: `read.rs`. Where a put goes: `write.rs`, then `append.rs`. What is
//! collected: `collect.rs`. What comes back after a restart, and why nothing else does:
//! `recovery.rs`, and docs/formats/flash-cache.md.
//!
//! Promise: values may vanish. They are never wrong, never another key's, and never back after a
//! delete or an overwrite that was acknowledged.
//!
//! Invariant: this crate does not know any other engine, opens no paths and starts no threads.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod admin;
mod append;
mod atomic;
mod cache;
mod checkpoint;
mod collect;
mod drain;
mod flash;
mod index;
mod item;
mod journal;
mod layout;
mod metrics;
mod options;
mod provision;
mod read;
mod recovery;
mod report;
mod scan;
mod slab;
mod slabs;
mod streams;
mod write;

pub use cache::{Dida, KEY_BYTES_MAX, Startup, VALUE_BYTES_MAX};
pub use flash::{Flash, FunctionFlash, PageRead, PolicyFlash, RawFlash, Shape};
pub use metrics::METRICS;
pub use options::OPTIONS;
