//! Spares: files of segments that are not needed any more, which become the next segments.
//!
//! A file that is written over needs no space to be found, and a file system that keeps account of
//! what was ever written to a file has less to note when it is synced. docs/formats/log.md says why
//! nothing old is taken for new.

use super::Wal;
use super::segment::{Segment, SegmentList, name};
use silica_base::Result;
use silica_device::{Device, LOG_PREFIX, LogFile};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Spares at the most.
pub const SPARES_MAX: usize = 2;

/// What the names of spares have behind that of all logs.
const SPARE: &str = "spare-";

/// Name of the spare that was segment `number`.
pub fn spare_name(number: u64) -> String {
    format!("{LOG_PREFIX}{SPARE}{number:08}")
}

/// True for the name of a spare. The next open removes it.
pub fn is_spare(name: &str) -> bool {
    name.strip_prefix(LOG_PREFIX).is_some_and(|rest| rest.starts_with(SPARE))
}

/// The spares of a log.
pub(super) struct Spares<L> {
    /// The manifest forgot them, and their files have the names of spares. Readers may go on to
    /// hold some.
    list: Mutex<SegmentList<L>>,
    bytes: AtomicU64,
    recycled: AtomicU64,
}

impl<L> Default for Spares<L> {
    fn default() -> Self {
        let (bytes, recycled) = (AtomicU64::new(0), AtomicU64::new(0));
        Spares { list: Mutex::default(), bytes, recycled }
    }
}

impl<L> Spares<L> {
    fn lock(&self) -> MutexGuard<'_, SegmentList<L>> {
        self.list.lock().expect("no panic while held")
    }
}

impl<D: Device> Wal<D> {
    /// Lets go of segments that [`Wal::release_below`] took out of the list, once the manifest has
    /// forgotten them: with `keeps` a few become spares, all others are removed. What cannot be
    /// removed is left to the next open.
    pub fn retire(&self, gone: SegmentList<D::Log>, keeps: bool) {
        let mut spares = self.spares.lock();
        for segment in gone {
            let from = name(segment.number);
            let is_found = segment.start < self.end_at_open;
            let is_of_use = keeps && !is_found && segment.capacity == self.segment_bytes();
            if is_of_use
                && spares.len() < SPARES_MAX
                && self.device.rename(&from, &spare_name(segment.number)).is_ok()
            {
                segment.log.rest();
                self.spares.bytes.fetch_add(segment.capacity, Ordering::Relaxed);
                spares.push(segment);
            } else {
                drop(segment);
                self.remove(&from);
            }
        }
    }

    /// Removes the spares, for their space or since the log is closed; their bytes.
    pub fn remove_spares(&self) -> u64 {
        self.remove_spares_unless(|_| false)
    }

    pub(super) fn remove_spares_unless(&self, stays: impl Fn(&Segment<D::Log>) -> bool) -> u64 {
        let mut removed = 0;
        self.spares.lock().retain(|spare| {
            if stays(spare) {
                return true;
            }
            self.remove(&spare_name(spare.number));
            removed += spare.capacity;
            false
        });
        self.spares.bytes.fetch_sub(removed, Ordering::Relaxed);
        removed
    }

    fn remove(&self, name: &str) {
        // Where this fails, the next open does it.
        let _ = self.device.remove(name);
    }

    /// A file for segment `number`: a spare of this capacity that nobody reads any more, or a new
    /// one.
    pub(super) fn file_for(&self, number: u64, capacity: u64) -> Result<D::Log> {
        let to = name(number);
        if let Some(spare) = self.take_spare(capacity) {
            let from = spare_name(spare.number);
            match self.device.reuse_log(spare.log, &from, &to) {
                Ok(log) => {
                    self.spares.recycled.fetch_add(1, Ordering::Relaxed);
                    return Ok(log);
                }
                Err(_) => self.remove(&from),
            }
        }
        self.device.create_log(&to, capacity)
    }

    fn take_spare(&self, capacity: u64) -> Option<Segment<D::Log>> {
        let mut spares = self.spares.lock();
        let fits = |spare: &Arc<Segment<D::Log>>| {
            spare.capacity == capacity && Arc::strong_count(spare) == 1
        };
        let at = spares.iter().position(fits)?;
        match Arc::try_unwrap(spares.swap_remove(at)) {
            Ok(spare) => {
                self.spares.bytes.fetch_sub(spare.capacity, Ordering::Relaxed);
                Some(spare)
            }
            Err(read) => {
                spares.push(read);
                None
            }
        }
    }

    /// Bytes of the spares.
    pub fn spare_bytes(&self) -> u64 {
        self.spares.bytes.load(Ordering::Relaxed)
    }

    /// Segments so far whose file was another's.
    pub fn recycled(&self) -> u64 {
        self.spares.recycled.load(Ordering::Relaxed)
    }
}
