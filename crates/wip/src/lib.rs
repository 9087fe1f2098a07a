//! WipDB: an ordered store that writes in place, in buckets of key ranges.
//!
//! `arc-swap` (small, kept, used widely) holds the list of buckets, which every read and write
//! looks at: it hands it out without a lock or a count that threads share.
//!
//! Invariant: this crate does not know any other engine, opens no paths and starts no threads.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod admin;
mod atomic;
mod batch_ranges;
mod bucket;
mod buckets;
mod changes;
mod compaction;
mod contents;
mod count;
mod dead;
mod deleted;
mod facts;
mod flush;
mod fresh;
mod ingest;
mod inspect;
mod iterator;
mod job;
mod job_context;
mod job_list;
mod jobs;
mod large_commit;
mod memory;
pub mod memtable;
mod merge;
mod metrics;
mod names;
mod near;
mod open;
mod options;
mod ordered;
mod overlap;
mod policy;
mod prefix;
mod ranges;
mod read;
mod read_one;
mod repair;
mod report;
mod run;
mod run_cursor;
mod run_filters;
mod scan;
mod snapshot;
mod snapshot_set;
mod sorted;
mod space;
mod spec;
mod split;
mod staged_layer;
mod staged_view;
mod staging;
mod state;
mod step;
mod sync;
mod table_files;
mod table_memory;
mod table_writer;
mod tables;
mod unwritten;
mod value_jobs;
mod values;
mod verify;
mod view;
mod whole_ranges;
mod wip;
mod write;
mod write_gate;
mod writer;

#[cfg(test)]
mod tests;

pub use options::OPTIONS;
pub use repair::{made, repair};
pub use spec::{ENGINE, METRICS};
pub use table_files::{TableFileOptions, TableFiles};
pub use wip::{BATCH_BYTES_MAX, KEY_BYTES_MAX, VALUE_BYTES_MAX, Wip};
