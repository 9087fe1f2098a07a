//! Figures and tables of papers, drawn from simulators.
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod didacache;
pub mod ect;
pub mod graph;
pub mod lfs;
pub mod pmem;

pub use silica_bench::figures::Row;
