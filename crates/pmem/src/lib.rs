//! Engines for persistent memory, in a region of mapped bytes (`silica_device::region`): with their
//! data in place they are open again in milliseconds.
//!
//! - [`space`]: the region as both engines use it: what it begins with, an allocator without leaks,
//!   changes of several words at once.
//! - [`turbo`]: TurboHash, a hash table.
//! - [`sptree`]: SPTree, a tree in the order of keys.
//!
//! Where there is no persistent memory, a region on tmpfs or hugetlbfs outlives the process, and
//! the class of the region says so. Memory that readers may still look at is freed by epochs
//! (`crossbeam-epoch`, which most lock-free structures in Rust stand on).
//!
//! Invariant: this crate does not know any other engine, opens no paths and starts no threads.
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod repair;
mod saved;
pub mod space;
mod spec;
pub mod sptree;
pub mod turbo;

pub use repair::{made_sptree, made_turbo, repair_sptree, repair_turbo};
pub use spec::{SPTREE, TURBO};
