//! What is done for the log beside appends, so that writers need not wait where a segment ends.

use super::Wal;
use silica_base::Result;
use silica_device::Device;
use std::sync::TryLockError;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of buffered writes that background work leaves unsynced.
const SYNC_BEHIND_BYTES: u64 = 4 << 20;
/// What is left unsynced where the last segment is nearly full and the next one is not there, and
/// room that is left then: to background work, and to a writer where that is busy.
const SYNC_AT_END_BYTES: u64 = 256 << 10;
const ROOM_AT_END_BYTES: u64 = 4 << 20;
const WRITERS_SYNC_AT_END_BYTES: u64 = 512 << 10;
const WRITERS_ROOM_AT_END_BYTES: u64 = 1 << 20;

/// What writers had to wait for at a segment's end.
#[derive(Debug, Default)]
pub struct Waits {
    /// Syncs of the last segment by a writer that came near its end.
    pub syncs: AtomicU64,
    /// Segments that a writer made, since there was no next one.
    pub segments: AtomicU64,
}

impl<D: Device> Wal<D> {
    /// True where an append that does not fit into the last segment goes on in one that is there,
    /// or that somebody is making just now. Waits for nothing.
    pub fn is_next_ready(&self) -> bool {
        match self.ahead.try_lock() {
            Ok(ahead) => ahead.made.is_some(),
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Poisoned(_)) => panic!("no panic while held"),
        }
    }

    /// For background work, now and then: with `may_make` has the next segment made before a writer
    /// needs it ([`Wal::prepare`] with `register`), and not too much left to sync. True where a
    /// segment was made.
    pub fn attend(
        &self,
        may_make: bool,
        sync: &dyn Fn() -> Result<()>,
        register: &dyn Fn(u64) -> Result<()>,
    ) -> Result<bool> {
        let is_made = may_make && self.prepare(register)?;
        // Without the next one the last one is synced before that takes over, by a writer.
        let is_at_end = self.room_bytes() < ROOM_AT_END_BYTES && !self.is_next_ready();
        let behind = if is_at_end { SYNC_AT_END_BYTES } else { SYNC_BEHIND_BYTES };
        if self.unsynced_bytes() > behind {
            sync()?;
        }
        Ok(is_made)
    }

    /// Syncs for a writer that does not hold the appender, where the last segment is about to end,
    /// the next one is not there and background work has not come to it: a part of what it would
    /// wait for then.
    pub fn sync_before_end(&self, sync: &dyn Fn() -> Result<()>) -> Result<()> {
        let is_near = self.room_bytes() < WRITERS_ROOM_AT_END_BYTES;
        if !is_near || self.is_next_ready() || self.unsynced_bytes() <= WRITERS_SYNC_AT_END_BYTES {
            return Ok(());
        }
        self.waits.syncs.fetch_add(1, Ordering::Relaxed);
        sync()
    }
}
