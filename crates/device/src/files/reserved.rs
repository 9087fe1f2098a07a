//! Room in a log, as who reserved it sees it.

use super::Lifetime;
use super::publish::Append;
use crate::Counters;

/// Bytes at the end of a log that one caller has to itself until it publishes them. What is behind
/// them waits for that, so it is to come soon and always: a caller that drops them unpublished
/// has a bug, and all that publish behind it panic.
pub struct Reserved<'l> {
    append: Append<'l>,
    bytes: &'l mut [u8],
    counters: &'l Counters,
    /// What the system was told of the log.
    lifetime: Option<Lifetime>,
}

impl<'l> Reserved<'l> {
    /// The `len` bytes that `append` has the right to write, in a log whose first byte is at
    /// `start`.
    ///
    /// # Safety
    /// The log's memory is initialised, it has so many bytes behind the append's start, and lives
    /// for `'l`; whoever else touches it keeps to the publish protocol with the append's gate.
    pub(crate) unsafe fn new(
        append: Append<'l>,
        start: *mut u8,
        len: u64,
        counters: &'l Counters,
        lifetime: Option<Lifetime>,
    ) -> Self {
        // SAFETY: the caller says that the bytes are there and live, and until they are published
        // nobody else reads or writes them (invariants 1 and 2 of `publish`).
        let bytes = unsafe {
            std::slice::from_raw_parts_mut(start.add(append.start() as usize), len as usize)
        };
        Reserved { append, bytes, counters, lifetime }
    }

    /// Where in the log the bytes begin.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.append.start()
    }

    /// How many appends are before this one.
    #[inline]
    pub fn ordinal(&self) -> u64 {
        self.append.ordinal()
    }

    /// The bytes, to be written whole: they hold anything.
    #[inline]
    pub fn bytes(&mut self) -> &mut [u8] {
        self.bytes
    }

    /// Publishes the bytes, as soon as all before them are: from then on they survive the process,
    /// and may be read.
    ///
    /// # Panics
    /// Where a caller before this one has dropped its own.
    #[inline]
    pub fn publish(self) {
        let len = self.bytes.len() as u64;
        self.append.publish();
        self.counters.add_write(len, self.lifetime);
    }

    /// Writes the concatenation of `parts`, which has as many bytes, and publishes them; the
    /// offset.
    pub(crate) fn append(self, parts: &[&[u8]]) -> u64 {
        let (start, mut at) = (self.offset(), 0);
        for part in parts {
            self.bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        self.publish();
        start
    }
}
