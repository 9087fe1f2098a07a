//! The `silica` binary.
#![forbid(unsafe_code)]
#![allow(unreachable_pub)] // Nothing outside a binary reaches in.

fn main() {}
