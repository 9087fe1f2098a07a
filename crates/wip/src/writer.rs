//! What writes one record after the other.

use silica_parts::frame::Frame;
use silica_parts::wal::{Appender, RECORD_ROOM_BYTES};

/// What the one writer at a time works with.
pub(crate) struct Writer<L> {
    pub(crate) appender: Appender<L>,
    /// The record in hand: room for its header, then its frames.
    pub(crate) record: Vec<u8>,
    /// Where in the payload the frame of each operation is.
    pub(crate) frames: Vec<usize>,
    /// Bytes of records since the last look at the backlog.
    pub(crate) debt_bytes: u64,
    /// Nobody writes for the moment.
    pub(crate) is_held: bool,
}

impl<L> Writer<L> {
    pub(crate) fn new(appender: Appender<L>) -> Self {
        let (record, frames) = (Vec::new(), Vec::new());
        Writer { appender, record, frames, debt_bytes: 0, is_held: false }
    }

    /// Has a record of these frames in hand.
    pub(crate) fn fill<'f>(&mut self, frames: impl Iterator<Item = Frame<'f>>) {
        self.record.clear();
        self.record.resize(RECORD_ROOM_BYTES, 0);
        self.frames.clear();
        for frame in frames {
            self.record.resize(self.record.len().next_multiple_of(8), 0);
            let start = self.record.len();
            frame.encode(&mut self.record);
            self.frames.push(start - RECORD_ROOM_BYTES);
        }
    }
}

/// A frame that was appended to the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewEntry<'k> {
    pub(crate) frame: Frame<'k>,
    pub(crate) position: u64,
}
