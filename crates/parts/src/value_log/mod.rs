//! The value log: large values, in append-only segment files apart from the entries that point at
//! them. Format: docs/formats/value-log.md.
//!
//! Invariants:
//!
//! 1. A segment's header and name are durable and its number is in the manifest before its first
//!    record. So a named segment without a valid header is damage, never a torn creation. Numbers
//!    are never used again.
//! 2. A record is written before the log record that points at it is appended, and synced before
//!    that one is ([`ValueLog::sync`] runs first in every group commit).
//! 3. Written bytes never change, and nothing is appended to a segment found at open.
//! 4. A segment is reclaimed only when it takes no more records, all of it is durable, and no
//!    write that stored a value there is still under way (no [`Pin`] is held).
//! 5. A segment is removed only after the entries that pointed at its live values point elsewhere,
//!    durably, and the manifest no longer names it. Where readers of the past may still follow an
//!    old pointer, the engine waits for them before that.
//! 6. After a failed sync every further append and sync fails until the store is opened again.
//! 7. How many bytes of a segment are garbage only decides which segment is reclaimed next: what a
//!    record is worth is asked of the engine, so a number that is wrong costs space or time and
//!    nothing else.
//!
//! A segment that takes appends is written and read through the page cache (values have any
//! length, and a put must not wait for the device). Once it is full and synced it is opened anew
//! for direct reads, so that cold values do not push other data out of memory.

mod garbage;
mod log;
mod reclaim;
mod record_read;
mod recovery;
mod segment;
mod state;

pub use garbage::Garbage;
pub use log::{Kept, Pin, SegmentOf, Stored, ValueLog};
pub use reclaim::Reclaim;
pub use record_read::RecordRead;
pub use segment::{
    HEADER_BYTES, MAGIC, POINTER_BYTES, Pointer, RECORD_HEADER_BYTES, Segment, Walk, WalkedRecord,
    checksum_in, encode_record_header, name, number_of, record_bytes,
};
pub use state::State;
