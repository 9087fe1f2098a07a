//! TurboHash.

mod conformance;
mod support;
