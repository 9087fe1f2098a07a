//! SPTree on simulated regions.

mod conformance;
mod harness;
