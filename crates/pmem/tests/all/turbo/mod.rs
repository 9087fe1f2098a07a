//! TurboHash.

mod conformance;
mod crash;
mod refusals;
mod sim;
mod support;
