//! What was appended to the log lately.

use super::log::Segments;
use super::segment::{HEADER_BYTES, RECORD_ROOM_BYTES, frames};
use crate::frame::Frame;
use crate::framing;
use silica_device::LogFile;

impl<L: LogFile> Segments<L> {
    /// Calls `visit` with the frames of all records from logical position `from` on, where one
    /// record ends and the next one begins, and before `end`, all of which this process has
    /// appended, until `visit` says no. False if it did, or if some of the records are not there
    /// any more.
    pub fn frames_between(
        &self,
        from: u64,
        end: u64,
        visit: &mut dyn FnMut(&Frame<'_>) -> bool,
    ) -> bool {
        if from >= end {
            return true;
        }
        let mut segments = self.iter().filter(|segment| segment.end() > from).peekable();
        if segments.peek().is_none_or(|first| first.start > from) {
            return false;
        }
        for segment in segments.take_while(|segment| segment.start < end) {
            let len = segment.log.len().min(end - segment.start);
            let bytes = segment.log.bytes(0, len as usize);
            let mut at = (from.saturating_sub(segment.start) as usize).max(HEADER_BYTES);
            while let Some(payload) = framing::payload_at(bytes, at) {
                for (_, frame) in frames(payload).flatten() {
                    if !visit(&frame) {
                        return false;
                    }
                }
                at =
                    (at + RECORD_ROOM_BYTES + payload.len()).next_multiple_of(framing::ALIGN_BYTES);
            }
        }
        true
    }
}
