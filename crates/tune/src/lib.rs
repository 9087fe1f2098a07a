//! What a store will cost before it is built: models, and choices made from them.
//!
//! [`model`] says how many distinct keys requests name, by the popularity of keys.
//!
//! [`recommend`] predicts write, read, memory and space cost of each engine from that, in
//! microseconds, and chooses engine and options by it.
//!
//! A [`Workload`] is what is asked of a store, a [`Machine`] what it runs on; a [`sketch`] makes
//! the first of what is seen of a running store, [`Workload::from_trace`] of a [`trace`].
//!
//! Invariant: this crate does no I/O, reads no clock and starts no threads; what a machine can do
//! and what a workload does come in as values.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod lines;
mod machine;
pub mod model;
pub mod recommend;
pub mod sketch;
pub mod trace;
mod workload;

pub use machine::{Device, Machine, Memory, Survival};
pub use workload::{Access, Mix, Sizes, WorkingSet, Workload};
