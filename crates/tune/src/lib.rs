//! What a store will cost before it is built: models, their judges, and choices made from them.
//!
//! [`model`] predicts write, read, memory and space cost from a key popularity and an engine's
//! parameters, in microseconds.
//!
//! [`recommend`] chooses engine and options by what the models predict.
//!
//! [`optimise`] finds the parameters of the lowest cost.
//!
//! [`simulate`] runs designs in memory and counts what they write: the judge of the models.
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
pub mod optimise;
pub mod recommend;
pub mod simulate;
pub mod sketch;
pub mod trace;
mod workload;

pub use machine::{Device, Machine, Memory};
pub use workload::{Access, Mix, Sizes, WorkingSet, Workload};
