//! Tests that need no process of their own: one binary, and a module for each.

mod record;
mod replay;
mod runs;
mod targets;
