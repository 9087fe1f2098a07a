//! Tests that see the laboratory from outside: one binary, and a module for each subject.

mod cache;
mod compare;
mod console;
mod dida;
mod drive;
mod figures;
mod flash;
mod flash_engine;
mod golden;
mod graph;
mod model;
mod moving;
mod optimiser;
mod paper;
mod pmem;
mod simulators;
