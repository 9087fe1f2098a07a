//! Tests of the flash cache, on simulated flash and files.

mod conformance;
mod damage;
mod levels;
mod placement;
mod recovery;
mod support;
mod wear;
