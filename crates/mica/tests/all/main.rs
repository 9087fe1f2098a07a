//! Tests that need no process of their own: one binary, and a module for each.

mod conformance;
mod databases;
mod expiry;
mod golden;
mod histories;
mod image;
mod memory;
mod panics;
mod shards;
mod store;
mod support;
