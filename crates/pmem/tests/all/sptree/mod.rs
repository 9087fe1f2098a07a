//! SPTree on simulated regions.

mod conformance;
mod crash;
mod harness;
mod threads;
