//! What every part of a store works with: the device, the clock, the hash and the options.

use crate::Hasher;
use crate::counters::Metrics;
use crate::files::{Table, table_id, table_name};
use crate::options::Config;
use silica_base::{Clock, KeyHash};
use silica_device::Device;
use silica_parts::RoomWatch;
use silica_parts::frame::Frame;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// See the module's documentation.
pub(crate) struct Ground<D: Device> {
    pub(crate) device: Arc<D>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) hasher: Hasher,
    pub(crate) store_id: u64,
    pub(crate) config: Config,
    pub(crate) metrics: Metrics,
    next_file: AtomicU64,
    memory_bytes: AtomicU64,
    /// What is known of the room on the device.
    pub(crate) room: RoomWatch,
}

impl<D: Device> Ground<D> {
    pub(crate) fn new(
        device: Arc<D>,
        clock: Arc<dyn Clock>,
        hasher: Hasher,
        store_id: u64,
        config: Config,
        next_file: u64,
    ) -> Self {
        Ground {
            device,
            clock,
            hasher,
            store_id,
            metrics: Metrics::default(),
            next_file: AtomicU64::new(next_file),
            memory_bytes: AtomicU64::new(config.memory_bytes),
            room: RoomWatch::default(),
            config,
        }
    }

    /// The hash of a key under the store's seed.
    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> KeyHash {
        self.hasher.hash(key)
    }

    /// Index of the partition that holds `hash`.
    #[inline]
    pub(crate) fn partition_index(&self, hash: KeyHash) -> usize {
        // Two shifts, since a shift by 64 is not defined.
        (hash.high() >> 1 >> (63 - self.config.partition_bits)) as usize
    }

    /// True where the frame's time is over.
    #[inline]
    pub(crate) fn is_expired(&self, frame: &Frame<'_>) -> bool {
        frame.expires_unix_ms != 0 && frame.expires_unix_ms <= self.clock.unix_ms()
    }

    /// Counts bytes that were written to the value log.
    pub(crate) fn note_stored_values(&self, bytes: u64) {
        self.metrics.value_log_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Name and id of a new table file.
    pub(crate) fn new_table(&self, kind: Table) -> (String, u64) {
        let number = self.next_file.fetch_add(1, Ordering::Relaxed);
        (table_name(kind, number), table_id(self.store_id, number))
    }

    /// Removes a file that nothing names; where that fails, the next open does it.
    pub(crate) fn remove_quietly(&self, name: &str) {
        if let Err(error) = self.device.remove(name) {
            ::log::debug!("removing {name}: {error}");
        }
    }

    /// Bytes of the log before its oldest log store is converted.
    pub(crate) fn log_bytes_max(&self) -> u64 {
        self.config.log_bytes_max(self.memory_bytes())
    }

    /// The memory number.
    #[inline]
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    /// Changes the memory number.
    pub(crate) fn set_memory_bytes(&self, bytes: u64) {
        self.memory_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of a log segment.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.config.segment_bytes(self.memory_bytes())
    }

    /// True while less is free on the device than maintenance may need.
    #[inline]
    pub(crate) fn is_short_of_space(&self) -> bool {
        self.room.is_short()
    }
}
