//! The conformance suite that every engine passes, a reference engine, and histories of
//! concurrent clients that are checked: for tests only.
//!
//! An engine's tests implement [`Harness`] (open, wipe) and, where the engine keeps data on a
//! device, [`DeviceHarness`] (power cuts, faults, damage) over the simulated device, and call
//! the public functions of this crate. [`FilesHarness`] is both for an engine over files. Each
//! function takes its sizes as arguments, so that quick runs and long ones use the same code, and
//! panics with the call that reproduces a failure.
//!
//! Invariant: the suite knows no engine but its reference; others come in through the harness.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

mod basics;
mod changes;
mod concurrent;
mod corruption;
mod crash;
mod differential;
mod expired_space;
mod expiry;
mod faults;
mod files;
mod forgetting;
mod full_disk;
mod harness;
pub mod histories;
mod history;
mod iteration;
mod linearizable;
mod live;
mod moments;
mod ordered;
mod published;
mod ranges;
mod record;
mod reference;
mod reference_disk;
mod session;
#[cfg(test)]
mod tests;
mod transactions;
mod workload;

pub use basics::basics;
pub use changes::{ReopenedReport, changes, changes_reopened};
pub use concurrent::{concurrent_readers, concurrent_updates};
pub use corruption::{CorruptionReport, corruption};
pub use crash::{CrashReport, crash_every_op, crash_random};
pub use differential::differential;
pub use expired_space::{ExpiredSpace, expired_room, expired_space};
pub use expiry::expiry;
pub use faults::{FaultReport, faults};
pub use files::{FilesHarness, OpenOnFiles};
pub use full_disk::{FullDiskReport, full_disk};
pub use harness::{CrashOrder, DeviceHarness, Fault, Harness, Image};
pub use iteration::{iteration, reopen};
pub use linearizable::linearizable;
pub use live::{bookings, live_transactions};
pub use moments::moments;
pub use ordered::ordered;
pub use published::published_batches;
pub use ranges::crash_ranges;
pub use reference::Reference;
pub use reference_disk::{ReferenceDisk, ReferenceHarness};
pub use transactions::transactions;
pub use workload::Workload;
