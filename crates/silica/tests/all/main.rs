//! Tests that need no process of their own: one binary, and a module for each.

mod auto;
mod cache;
mod drop_keyspace;
mod engines;
mod expiry;
mod full_disk;
mod golden;
mod kept;
mod killed;
mod limits;
mod memory;
mod metrics;
mod migrate;
mod migrate_refused;
mod migrate_resumed;
mod open_files;
mod quiet;
mod read_only;
mod region;
mod settings;
mod silt;
mod sketch;
mod small_disk;
mod store;
mod upkeep;
mod wip;
