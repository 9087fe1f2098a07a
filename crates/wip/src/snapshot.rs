//! A snapshot that is held.

use crate::contents::Contents;
use silica_device::Device;
use silica_parts::wal::POSITION_BYTES;
use std::ops::Deref;

/// The position of a snapshot that is taken now, with the writer locked.
pub(crate) fn position_now<D: Device>(contents: &Contents<D>) -> u64 {
    // A repaired store has entries and no log yet: what has number 0 is seen.
    (contents.log.end() / POSITION_BYTES).max(1)
}

/// A snapshot that somebody holds.
pub(crate) struct Held<D: Device, W: Deref<Target = Contents<D>>> {
    pub(crate) contents: W,
    pub(crate) position: u64,
    /// What expires by then is not there.
    pub(crate) unix_ms: u64,
}

impl<D: Device, W: Deref<Target = Contents<D>>> Held<D, W> {
    pub(crate) fn new(contents: W) -> Self {
        let writer = contents.writer.lock();
        let position = position_now(&contents);
        let unix_ms = contents.snapshots.hold(position);
        drop(writer);
        Held { contents, position, unix_ms }
    }
}

impl<D: Device, W: Deref<Target = Contents<D>>> Drop for Held<D, W> {
    fn drop(&mut self) {
        self.contents.snapshots.release(self.position, self.unix_ms);
    }
}
