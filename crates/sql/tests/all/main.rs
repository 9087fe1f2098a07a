//! Tests that need no process of their own: one binary, and a module for each.

mod crash;
mod directories;
mod hostile;
mod keyspaces;
mod memory;
mod model;
mod same;
mod sql;
mod statements;
mod threads;
