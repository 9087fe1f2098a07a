//! Simulated logs: memory of fixed size that is appended to and borrowed from.

use super::node::{Content, Node};
use super::world::{Call, Handle};
use crate::files::{Gate, Reserved};
use crate::{Counters, Lifetime, LogFile};
use silica_base::{Error, ErrorKind, Result};
use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The memory of one log. Readers borrow below the published length; who appends writes above.
pub(super) struct LogMemory {
    bytes: Box<[UnsafeCell<u8>]>,
    /// What the file holds where nothing was appended; zeroes where this is empty.
    base: Box<[u8]>,
    gate: Gate,
    /// A handle that may append exists.
    writing: AtomicBool,
}

// SAFETY: bytes below the published length are never written again, bytes above it are touched
// only by the append that reserved them from `Gate` (see `publish`); everything else is atomic.
unsafe impl Sync for LogMemory {}

impl LogMemory {
    /// Zeroed memory with nothing published, for one appender.
    pub(super) fn empty(capacity: u64) -> Self {
        let bytes = cells(vec![0; capacity as usize].into_boxed_slice());
        let base = Box::default();
        LogMemory { bytes, base, gate: Gate::new(0), writing: AtomicBool::new(true) }
    }

    /// This memory with nothing published, for the file's next appender.
    pub(super) fn emptied(&self) -> Self {
        let mut base = vec![0; self.bytes.len()].into_boxed_slice();
        self.copy_out(0, &mut base);
        LogMemory { base, ..LogMemory::empty(self.capacity()) }
    }

    /// Memory that is published whole and accepts no appends.
    pub(super) fn full(bytes: Box<[u8]>) -> Self {
        let gate = Gate::new(bytes.len() as u64);
        let base = Box::default();
        LogMemory { bytes: cells(bytes), base, gate, writing: AtomicBool::new(false) }
    }

    /// A copy with the same published length, for one appender of its own.
    pub(super) fn duplicate(&self) -> Self {
        let mut copy = vec![0; self.bytes.len()].into_boxed_slice();
        let published = self.published();
        copy[..published as usize].copy_from_slice(self.slice(0, published as usize));
        let writing = AtomicBool::new(self.has_writer());
        let base = self.base.clone();
        LogMemory { bytes: cells(copy), base, gate: Gate::new(published), writing }
    }

    pub(super) fn capacity(&self) -> u64 {
        self.bytes.len() as u64
    }

    pub(super) fn published(&self) -> u64 {
        self.gate.published()
    }

    pub(super) fn has_writer(&self) -> bool {
        self.writing.load(Ordering::Acquire)
    }

    /// Copies bytes at `offset` out that the file holds where nothing was appended to it.
    pub(super) fn copy_base(&self, offset: u64, out: &mut [u8]) {
        let known = self.base.get(offset as usize..).unwrap_or(&[]);
        let there = known.len().min(out.len());
        out[..there].copy_from_slice(&known[..there]);
        out[there..].fill(0);
    }

    /// Copies bytes at `offset` out, appended or not.
    pub(super) fn copy_out(&self, offset: u64, out: &mut [u8]) {
        let there = self.published().saturating_sub(offset).min(out.len() as u64) as usize;
        self.copy_base(offset + there as u64, &mut out[there..]);
        if there > 0 {
            out[..there].copy_from_slice(self.slice(offset, there));
        }
    }

    fn slice(&self, offset: u64, len: usize) -> &[u8] {
        let published = self.published();
        let end = offset.checked_add(len as u64);
        assert!(
            end.is_some_and(|end| end <= published),
            "bytes {offset}+{len} are not below the log's length {published}"
        );
        // SAFETY: the range lies below the published length (checked above), whose `Acquire`
        // load made its bytes visible, and nobody writes them again. `UnsafeCell<u8>` has the
        // layout of `u8`.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr().add(offset as usize).cast(), len) }
    }

    /// Reserves `len` bytes, unless they do not fit.
    fn reserve<'l>(
        &'l self,
        len: u64,
        counters: &'l Counters,
        lifetime: Option<Lifetime>,
    ) -> Option<Reserved<'l>> {
        let append = self.gate.reserve(len, self.capacity())?;
        let start = UnsafeCell::raw_get(self.bytes.as_ptr());
        // SAFETY: the bytes lie inside the allocation, which lives as long as `self`, and all
        // access to it keeps to the publish protocol. `UnsafeCell<u8>` has the layout of `u8`.
        Some(unsafe { Reserved::new(append, start, len, counters, lifetime) })
    }
}

fn cells(bytes: Box<[u8]>) -> Box<[UnsafeCell<u8>]> {
    // SAFETY: `UnsafeCell<u8>` has the layout of `u8`, and the box is owned.
    unsafe { Box::from_raw(Box::into_raw(bytes) as *mut [UnsafeCell<u8>]) }
}

/// A log of a [`super::SimDevice`].
pub struct SimLog {
    handle: Handle,
    node: Arc<Node>,
    memory: Arc<LogMemory>,
    writer: bool,
    lifetime: Option<Lifetime>,
}

impl SimLog {
    pub(super) fn new(
        handle: Handle,
        node: Arc<Node>,
        memory: Arc<LogMemory>,
        writer: bool,
    ) -> Self {
        let lifetime = node.body.lock().expect("no panic while locked").lifetime;
        SimLog { handle, node, memory, writer, lifetime }
    }

    fn room(&self, len: u64) -> Option<Reserved<'_>> {
        self.memory.reserve(len, &self.handle.counters, self.lifetime)
    }
}

impl SimLog {
    fn check_writer(&self) -> Result<()> {
        if self.writer {
            return Ok(());
        }
        let message = "a log that was opened to be read accepts no appends";
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    /// True where it may append to `node`.
    pub(super) fn appends_to(&self, node: &Arc<Node>) -> bool {
        self.writer && Arc::ptr_eq(&self.node, node)
    }
}

impl Drop for SimLog {
    fn drop(&mut self) {
        if self.writer {
            self.memory.writing.store(false, Ordering::Release);
        }
    }
}

impl LogFile for SimLog {
    fn capacity(&self) -> u64 {
        self.memory.capacity()
    }

    fn len(&self) -> u64 {
        self.memory.published()
    }

    fn appends(&self) -> u64 {
        // Who reads may share the memory of who appended.
        if self.writer { self.memory.gate.appends() } else { 0 }
    }

    fn append(&self, parts: &[&[u8]]) -> Result<u64> {
        self.check_writer()?;
        let len = parts.iter().map(|part| part.len() as u64).sum();
        self.handle.mutate(Call::Append, |state| {
            state.refuse(Call::Append)?;
            let reserved = self.room(len).ok_or_else(|| {
                Error::new(ErrorKind::Full, "the log has no room for this append")
            })?;
            Ok(reserved.append(parts))
        })
    }

    fn reserve(&self, len: u64) -> Result<Option<Reserved<'_>>> {
        self.check_writer()?;
        if self.memory.gate.reserved() + len > self.memory.capacity() {
            // Nothing is asked of the device.
            return Ok(None);
        }
        // What the power cut takes is as if it were reserved only afterwards.
        self.handle.mutate(Call::Append, |state| state.refuse(Call::Append))?;
        Ok(self.room(len))
    }

    fn bytes(&self, offset: u64, len: usize) -> &[u8] {
        self.memory.slice(offset, len)
    }

    fn sync(&self) -> Result<()> {
        let nothing_new = |node: &Node| {
            let body = node.body.lock().expect("no panic while locked");
            let synced = match &body.content {
                Content::Log(log) => log.length_synced && log.synced == log.memory.published(),
                Content::Plain(_) => false,
            };
            synced && !body.poisoned
        };
        if nothing_new(&self.node) {
            // Like the real log, which skips a sync with nothing to do.
            return self.handle.enter().map(drop);
        }
        self.handle.sync_node(&self.node)
    }
}
