//! Tests that need no process of their own: one binary, and a module for each.

mod concurrent;
mod crash;
mod directories;
mod hostile;
mod keyspaces;
mod long_keys;
mod memory;
mod model;
mod objects;
mod pages;
mod same;
mod spill;
mod sql;
mod statements;
mod threads;
mod tpch;
