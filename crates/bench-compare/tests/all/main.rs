//! Tests that need no process of their own: one binary, and a module for each.

mod agree;
mod embedded;
mod memory;
mod servers;
