//! Reading what is left of a log that may be damaged; nothing is changed.

use super::recovery::cut_of;
use super::segment::{self, Segment, SegmentList};
use crate::frame::Frame;
use silica_base::{ErrorKind, Result};
use silica_device::{Device, LogFile};
use std::sync::Arc;

/// What was read of a log.
pub struct Salvaged<L> {
    /// The segments that could be opened, oldest first.
    pub segments: SegmentList<L>,
    /// What is wrong, in words.
    pub findings: Vec<String>,
    /// Bytes that may have held records which cannot be read.
    pub lost_bytes: u64,
    /// A segment is not there: nobody knows how much it held.
    pub lost_unknown: bool,
}

/// Reads the segments `numbers` of a log, oldest first, and calls `visit` with the logical position
/// and the frame of every entry that checks.
///
/// # Errors
/// Those of the device. Damage is a finding.
pub fn salvage<D: Device>(
    device: &D,
    store_id: u64,
    numbers: &[u64],
    visit: &mut dyn FnMut(u64, &Frame<'_>),
) -> Result<Salvaged<D::Log>> {
    let mut found =
        Salvaged { segments: Vec::new(), findings: Vec::new(), lost_bytes: 0, lost_unknown: false };
    for number in numbers {
        match Segment::open(device, store_id, *number) {
            Ok(segment) => {
                // Where nothing says where it begins it holds nothing that can be read.
                let before = found.segments.last().map(|before| &**before);
                if let Err(error) = segment.salvage_behind(before) {
                    found.findings.push(error.to_string());
                    found.lost_bytes += segment.capacity;
                }
                found.segments.push(Arc::new(segment));
            }
            Err(error) if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::NotFound) => {
                let name = segment::name(*number);
                match device.open_log(&name) {
                    Ok(log) => found.lost_bytes += log.len(),
                    Err(_) => found.lost_unknown = true,
                }
                found.findings.push(format!("{name} is lost as a whole: {error}"));
            }
            Err(error) => return Err(error),
        }
    }
    for (index, segment) in found.segments.iter().enumerate() {
        let cut = cut_of(&found.segments, index, None);
        let mut end = segment.start;
        let read = segment.read_records(cut, &mut |at, payload| {
            end = at + payload.len() as u64;
            for (offset, frame) in super::frames(payload).flatten() {
                visit(at + offset as u64, &frame);
            }
            Ok(())
        });
        if let Err(error) = read {
            found.findings.push(format!("what follows in it is lost: {error}"));
            found.lost_bytes += segment.end().saturating_sub(end);
        }
    }
    Ok(found)
}
