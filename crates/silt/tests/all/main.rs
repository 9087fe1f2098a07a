//! Tests that need no process of their own: one binary, and a module for each.

mod collisions;
mod conformance;
mod golden;
mod lifetimes;
mod log_segments;
mod memory;
mod repair;
mod smoke;
mod stores;
mod values;
