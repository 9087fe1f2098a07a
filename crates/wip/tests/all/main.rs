//! Tests that need no process of their own: one binary, and a module for each.

mod background;
mod conformance;
mod fresh;
mod ingest;
mod lifetimes;
mod memory;
mod prototype;
mod reopened;
mod repair;
mod resident;
mod small;
mod tables_that_go;
mod values;
mod whole_store;
