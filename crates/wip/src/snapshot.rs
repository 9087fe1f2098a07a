//! A snapshot that is held, and what is read of it.

use crate::contents::Contents;
use crate::iterator::Iter;
use crate::read::read_burst;
use crate::wip::Wip;
use silica_base::Result;
use silica_device::Device;
use silica_engine::{EntryIter, GetSink, KeyRange, Snapshot};
use silica_parts::wal::POSITION_BYTES;
use std::ops::Deref;
use std::sync::Arc;

/// The contents of a store that stays open for whoever has this.
pub(crate) struct Opened<D: Device>(pub(crate) Arc<Wip<D>>);

impl<D: Device> Deref for Opened<D> {
    type Target = Contents<D>;

    #[inline]
    fn deref(&self) -> &Contents<D> {
        self.0.contents()
    }
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
        let writer = contents.writer.lock().expect("no panic while held");
        // A repaired store has entries and no log yet: what has number 0 is seen.
        let position = (contents.log.end() / POSITION_BYTES).max(1);
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

impl<D: Device> Snapshot for Held<D, Opened<D>> {
    fn sequence(&self) -> u64 {
        self.position
    }

    fn unix_ms(&self) -> u64 {
        self.unix_ms
    }

    fn get_many(&self, keys: &[&[u8]], sink: &mut dyn GetSink) -> Result<()> {
        if self.position == 0 {
            // Nothing was ever written before.
            return Ok(());
        }
        read_burst(&self.contents, keys, (self.position, Some(self.unix_ms)), sink)
    }

    fn iterate(self: Arc<Self>, range: &KeyRange) -> Result<Box<dyn EntryIter>> {
        Ok(Box::new(Iter::new(self, range)))
    }
}
