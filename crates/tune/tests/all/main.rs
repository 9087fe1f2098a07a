//! Tests that need no process of their own: one binary, and a module for each.

mod dida;
mod golden;
mod moving;
mod optimiser;
mod paper;
mod simulators;
