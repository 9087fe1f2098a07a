//! Which values a power cut took.

use super::log::ValueLog;
use super::segment::{self, Pointer};
use crate::frame::Frame;
use crate::wal;
use silica_base::{ErrorKind, Result};
use silica_device::{Device, DeviceFile, Mode};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Bytes that are written at once.
const PIECE_BYTES: usize = 1 << 20;

/// Bytes of segments that nothing says are durable.
pub(super) type Found = BTreeMap<u32, Range<u64>>;

impl<D: Device> ValueLog<D> {
    /// Looks whether the log holds records whose values a power cut took: the sequence number of
    /// the first. Values are synced before the records that point at them, so only records that
    /// nothing says were durable need a look; such a record ends the log like a torn one.
    /// `is_wanted` says whether recovery wants the frame at a position of the log. The values that
    /// are there are durable then.
    pub fn find_lost(
        &self,
        list: &[Arc<wal::Segment<D::Log>>],
        durable_end: u64,
        is_wanted: &dyn Fn(&Frame<'_>, u64) -> bool,
    ) -> Result<Option<u64>> {
        if self.segments().is_empty() {
            return Ok(None);
        }
        let mut synced_through = 0;
        wal::for_each_record(list, &mut |_, record| {
            synced_through = synced_through.max(record.header.synced_through);
            Ok(true)
        })?;
        let mut seen = Found::new();
        let mut lost = None;
        wal::for_each_record(list, &mut |at, record| {
            let sequence = record.header.sequence;
            if sequence > synced_through && at >= durable_end {
                for (offset, frame) in wal::frames(record.payload).flatten() {
                    let is_pointer = frame.is_pointer() && is_wanted(&frame, at + offset as u64);
                    if is_pointer && !self.is_there(&frame, &mut seen)? {
                        lost = Some(sequence);
                        break;
                    }
                }
            }
            Ok(lost.is_none())
        })?;
        self.make_durable(&seen)?;
        Ok(lost)
    }

    /// True where the value that `frame` points at checks. It goes into `seen`.
    fn is_there(&self, frame: &Frame<'_>, seen: &mut Found) -> Result<bool> {
        let pointer = Pointer::of(frame)?;
        // A segment that is gone was reclaimed: everything up to then was durable.
        match self.read(&pointer, frame.key) {
            Ok(_) => {
                let end = pointer.offset + u64::from(pointer.length);
                let range = seen.entry(pointer.segment).or_insert(pointer.offset..end);
                range.start = range.start.min(pointer.offset);
                range.end = range.end.max(end);
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::Corruption => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Makes what recovery found durable. It is written again before the sync, for the reason
    /// that log segments are (`Segment::make_durable` there).
    fn make_durable(&self, found: &Found) -> Result<()> {
        let mut buf = Vec::new();
        for (number, range) in found {
            let name = segment::name(*number);
            if self.segment(*number).is_none() {
                continue;
            }
            let file = self.device.open(&name, Mode::Buffered)?;
            let mut at = range.start;
            while at < range.end {
                buf.resize(PIECE_BYTES.min((range.end - at) as usize), 0);
                let filled = file.read_at(at, &mut buf)?;
                if filled == 0 {
                    break;
                }
                file.write_at(at, &buf[..filled])?;
                at += filled as u64;
            }
            file.sync().map_err(|e| e.within(name))?;
        }
        Ok(())
    }
}
