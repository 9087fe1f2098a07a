//! The measuring instrument: stores of ours, stores of other people and the limits of the machine
//! on the same work, in one run.
//!
//! A [`Peer`] opens a store as a [`silica_bench::Target`], which the one driver of `silica-bench`
//! drives with the one workload generator. Other people's engines are known here and nowhere else.
//! Peers that are C libraries or servers are found when a run starts; one that is not installed is
//! reported as missing, with the package that has it.

pub mod limits;
mod peer;
mod peers;
pub mod results;

pub use peer::{Class, Peer, Setting, Setup};
pub use peers::{all, find};
