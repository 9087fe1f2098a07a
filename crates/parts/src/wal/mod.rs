//! The write-ahead log: one sequence of checksummed records in mapped segments. Format:
//! docs/formats/log.md.
//!
//! Invariants:
//!
//! 1. A batch is one record; a record lies in one segment. So a batch is there whole or not.
//! 2. Logical positions only grow. Segment `n + 1` starts where segment `n`'s capacity ends.
//! 3. A segment is in the manifest before its first record is appended, and its header is durable
//!    before that. So a segment without a valid header is damage, never a torn creation.
//! 4. `end` is published after the record's bytes, and before any index points at them.
//! 5. Nothing is appended to a segment found at open: a torn tail stays cut for ever, and the
//!    next segment, which is not made ahead, says with its first sequence number where it was cut.
//! 6. After a failed sync no append and no sync succeeds until the store is opened again.
//! 7. A segment is removed only after everything in it is elsewhere, and the manifest says so. The
//!    segment that follows it then tells by itself with which sequence number it begins.
//!    Its file may then become a later one's: numbers are given once, and a record's checksum is
//!    bound to the number, so that nothing old passes for new.
//! 8. The change to a segment that was made ahead waits for nothing. The records before it need not
//!    be durable, so what follows a lost tail there is not replayed: the sequence has a gap.
//! 9. Records may be appended to one segment together ([`Wal::append_beside_others`]). A record's
//!    place is its turn: its sequence number is that of the segment's first record and how many are
//!    before it, and `end` passes it only after all of these. So what is acknowledged has no gap
//!    before it, whoever was killed. Only who has the appender begins another segment.

mod between;
mod group;
mod log;
mod recovery;
mod salvage;
mod segment;
mod spares;
mod sync;
mod upkeep;

pub use log::{Appender, POSITION_BYTES, Segments, Wal};
pub use recovery::{Recovered, cut_of, for_each_record, open_segments, replay};
pub use salvage::{Salvaged, salvage};
pub use segment::{
    HEADER_BYTES, MAGIC, RECORD_ROOM_BYTES, Segment, SegmentList, bytes_needed, frames, name,
    number_of,
};
pub use spares::{SPARES_MAX, is_spare, spare_name};
pub use upkeep::Waits;

#[cfg(test)]
mod tests;
