//! A region as an engine uses it: docs/formats/region.md.
//!
//! The space of a region is divided into objects. Which of them are in use is known in memory only:
//! after an opening the engine tells what it can reach ([`Space::mark`]), and what it cannot reach
//! is free. So an allocation costs no flush of its own, and no crash leaves a leak (as Ralloc
//! does). Until all marks are made ([`Space::marks_done`]), new objects come from pages that no
//! object was in, so an engine serves at once.
//!
//! Several words change together by [`Space::commit`].
//!
//! Invariants:
//!
//! 1. A span's descriptor is durable before the first object of it is handed out, and descriptors
//!    of pages that a span covers are durably 0 before its own is stored.
//! 2. An object is handed out once until it is freed; one that an engine may have reached before a
//!    crash is not handed out before marks are done.
//! 3. The region's length is never less than that of its extents.
//! 4. No store goes to pages whose space was given back before it was reserved again.

mod allocate;
mod book;
mod classes;
mod layout;
mod open;
mod redo;
mod salvage;

pub use classes::PAGE_BYTES;
pub use layout::{Kind, ROOT, ROOT_BYTES};
pub use open::{Opened, Settings};
pub use redo::Change;

use self::book::Book;
use silica_device::region::{Region, RegionClass};
use silica_engine::Metric;
use std::sync::{Mutex, MutexGuard};

/// What both engines say of [`Space::durability_class`].
pub(crate) const DURABILITY_CLASS: Metric = Metric::gauge(
    "durability_class",
    "what the region survives: 2 a power cut, 1 the process, 0 the process, and the machine's stop \
     after a clean close only",
);

/// Bytes that the medium has written and read inside.
pub(crate) const MEDIA_METRICS: [Metric; 2] = [
    Metric::counter(
        "media_bytes_written",
        "bytes that persistent memory has written inside, 0 if the region does not count them",
    ),
    Metric::counter(
        "media_bytes_read",
        "bytes that persistent memory has read inside, 0 if the region does not count them",
    ),
];

/// A region, its allocator, and its changes of several words.
pub struct Space<R> {
    region: R,
    store: u64,
    boot: u64,
    name: String,
    book: Mutex<Book>,
    /// Held while the region grows or shrinks.
    growth: Mutex<()>,
    redo: redo::Places,
    limit_bytes: std::sync::atomic::AtomicU64,
}

impl<R: Region> Space<R> {
    /// The region.
    #[inline]
    pub fn region(&self) -> &R {
        &self.region
    }

    /// The store's number, with which checksums in the region begin.
    pub fn store(&self) -> u64 {
        self.store
    }

    /// The number of the region's class as metrics show it, `durability_class` of both engines.
    pub fn durability_class(&self) -> u8 {
        match self.region.class() {
            RegionClass::Lines => 2,
            RegionClass::Process => 1,
            RegionClass::Pages => 0,
        }
    }

    /// Reports [`MEDIA_METRICS`].
    pub(crate) fn report_media(&self, visitor: &mut dyn silica_engine::MetricVisitor) {
        let (written, read) = self.region.media_bytes().unwrap_or((0, 0));
        visitor.metric("media_bytes_written", written as f64);
        visitor.metric("media_bytes_read", read as f64);
    }

    /// The region's name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("no panic while locked")
    }
}
