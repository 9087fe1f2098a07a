//! Moving the live values out of a segment.

use super::segment::{Segment, Walk, WalkedRecord};
use silica_base::Result;
use silica_device::DeviceFile;
use std::sync::Arc;

/// Bytes of a segment that one step looks at.
const STEP_BYTES: u64 = 1 << 20;
/// What a look at a dead record counts for: it costs a read as well.
const LOOK_BYTES: u64 = 4096;

/// A segment whose live values are being moved, in steps.
pub struct Reclaim<F> {
    walk: Walk<F>,
}

impl<F: DeviceFile> Reclaim<F> {
    /// Bytes that a step counts for at least.
    pub const STEP_BYTES: u64 = STEP_BYTES;

    /// Begins with a segment's first record.
    pub fn new(segment: Arc<Segment<F>>) -> Result<Self> {
        Ok(Reclaim { walk: Walk::new(segment)? })
    }

    /// The segment.
    pub fn segment(&self) -> &Arc<Segment<F>> {
        self.walk.segment()
    }

    /// Bytes that belonged to no record.
    pub fn skipped_bytes(&self) -> u64 {
        self.walk.skipped
    }

    /// Shows the next records to `move_if_live`, which writes a value anew where an entry points
    /// at it and then says true. What that cost, and true at the segment's end.
    pub fn step(
        &mut self,
        mut move_if_live: impl FnMut(&Arc<Segment<F>>, &WalkedRecord) -> Result<bool>,
    ) -> Result<(u64, bool)> {
        let mut bytes = 0;
        while bytes < STEP_BYTES {
            let Some(record) = self.walk.next_record()? else {
                return Ok((bytes.max(1), true));
            };
            bytes += LOOK_BYTES;
            if move_if_live(self.walk.segment(), &record)? {
                bytes += u64::from(record.pointer.length);
            }
        }
        Ok((bytes, false))
    }
}
