//! Tests that need no process of their own: one binary, and a module for each.

mod blocks;
mod conformance;
mod file;
mod machine;
mod region;
mod sim;
