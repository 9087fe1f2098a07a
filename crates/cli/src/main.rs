//! The `silica` binary.
#![forbid(unsafe_code)]

fn main() {}
