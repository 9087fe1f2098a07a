//! What writes one record after the other, and records themselves.

use silica_parts::frame::Frame;
use silica_parts::wal::{Appender, RECORD_ROOM_BYTES};

/// A record that is kept for the next one is not longer.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// What a batch becomes before it is in the log; the memory is used again.
#[derive(Default)]
pub(crate) struct Record {
    /// Room for the record's header, then its frames.
    pub(crate) bytes: Vec<u8>,
    /// Where in the payload the frame of each operation is.
    pub(crate) frames: Vec<usize>,
    /// Of each operation the place of its bucket and the hash of its key.
    pub(crate) places: Vec<(usize, u64)>,
}

impl Record {
    pub(crate) const NOTHING: Record =
        Record { bytes: Vec::new(), frames: Vec::new(), places: Vec::new() };

    /// Has a record of these frames.
    pub(crate) fn fill<'f>(&mut self, frames: impl Iterator<Item = Frame<'f>>) {
        self.bytes.clear();
        self.bytes.resize(RECORD_ROOM_BYTES, 0);
        self.frames.clear();
        for frame in frames {
            self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
            let start = self.bytes.len();
            frame.encode(&mut self.bytes);
            self.frames.push(start - RECORD_ROOM_BYTES);
        }
    }

    /// The record for the next batch, unless it takes much memory.
    pub(crate) fn kept(self) -> Record {
        if self.bytes.capacity() > KEPT_BYTES_MAX { Record::NOTHING } else { self }
    }
}

/// What the one who has the store's writes to itself works with.
pub(crate) struct Writer<L> {
    pub(crate) appender: Appender<L>,
    /// The record in hand.
    pub(crate) record: Record,
    /// Bytes of records since the last look at the backlog.
    pub(crate) debt_bytes: u64,
    /// Nobody writes for the moment.
    pub(crate) is_held: bool,
}

impl<L> Writer<L> {
    pub(crate) fn new(appender: Appender<L>) -> Self {
        Writer { appender, record: Record::NOTHING, debt_bytes: 0, is_held: false }
    }
}

/// A frame that was appended to the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewEntry<'k> {
    pub(crate) frame: Frame<'k>,
    pub(crate) position: u64,
    /// Of its key.
    pub(crate) hash: u64,
}
