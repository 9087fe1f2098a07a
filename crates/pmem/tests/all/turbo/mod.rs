//! TurboHash.

mod conformance;
mod crash;
mod sim;
mod support;
