//! A chunk: up to 256 separators that lie together, and the nodes of their leaves.
//!
//! Readers take no lock: they check the chunk's version. Only separators that differ behind their
//! windows are compared under a mutex.

use super::super::layout::head;
use super::super::lock::{begin_read, end_read, is_retired, try_lock, unlock};
use super::super::nodes::NUMBER_BITS;
use super::super::sync::{AtomicU64, Backoff, Ordering};
use super::search::{IS_LONGER, Packed, Seek, Separators, window_of};
use silica_base::{prefetch, shared_len};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard};

/// Separators of a chunk at most.
pub(super) const CHUNK_MAX: usize = 256;
/// Separators of a block: its windows fill two lines, and its nodes one.
const BLOCK: usize = 16;
/// Separators of a chunk that is made of a larger one, at most.
const CHUNK_FILL: usize = 160;

/// A separator and its node.
pub(super) type Entry = (Vec<u8>, u32);

/// See the module's documentation. A search reads the first line, the samples, and one block.
#[repr(C, align(64))]
pub(super) struct Chunk {
    pub(super) lock: AtomicU64,
    len: AtomicU32,
    /// What all separators but the first begin with: it never changes.
    prefix: Box<[u8]>,
    first_line: [u64; 4],
    /// The first window of each block.
    samples: [AtomicU64; CHUNK_MAX / BLOCK],
    windows: [AtomicU64; CHUNK_MAX],
    /// Node, and above it how long the separator is behind the prefix.
    nodes: [AtomicU32; CHUNK_MAX],
    whole: Mutex<Packed>,
}

impl Separators for Chunk {
    #[inline(always)]
    fn len(&self) -> usize {
        // Read while it changes, it is still a length.
        self.len.load(Ordering::Relaxed) as usize
    }

    #[inline(always)]
    fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    #[inline(always)]
    fn window(&self, at: usize) -> u64 {
        self.windows[at].load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn last_not_above(&self, wanted: u64) -> usize {
        let start = self.block_of(wanted) * BLOCK;
        let end = self.len().min(start + BLOCK);
        // Separator 0 counts whatever its window is.
        let later = (start.max(1)..end).filter(|at| self.window(*at) <= wanted).count();
        (start + later).saturating_sub(usize::from(start > 0))
    }

    #[inline(always)]
    fn rest_len(&self, at: usize) -> usize {
        (self.nodes[at].load(Ordering::Relaxed) >> NUMBER_BITS) as usize
    }

    #[cold]
    fn place_by_whole(&self, key: &[u8], seek: Seek) -> usize {
        self.whole().place(key, seek)
    }
}

impl Chunk {
    /// Chunks of these separators, which are in order: one, or several if they are many.
    pub(super) fn make(entries: &[Entry]) -> Vec<Arc<Chunk>> {
        let pieces = if entries.len() <= CHUNK_MAX / 2 + CHUNK_MAX / 4 {
            1
        } else {
            entries.len().div_ceil(CHUNK_FILL).max(2)
        };
        let of_piece = entries.len().div_ceil(pieces).max(1);
        entries.chunks(of_piece).map(|entries| Arc::new(Chunk::of(entries))).collect()
    }

    fn of(entries: &[Entry]) -> Chunk {
        let prefix = match entries {
            [_, first, .., last] => &first.0[..shared_len(&first.0, &last.0)],
            _ => &[],
        };
        let chunk = Chunk {
            lock: AtomicU64::new(0),
            len: AtomicU32::new(0),
            prefix: prefix.into(),
            first_line: [0; 4],
            samples: [const { AtomicU64::new(0) }; CHUNK_MAX / BLOCK],
            windows: [const { AtomicU64::new(0) }; CHUNK_MAX],
            nodes: [const { AtomicU32::new(0) }; CHUNK_MAX],
            whole: Mutex::default(),
        };
        for (at, (separator, node)) in entries.iter().enumerate() {
            chunk.insert_at(at, separator, *node);
        }
        chunk
    }

    /// The last block whose first window is not above `wanted`, else the first.
    #[inline(always)]
    fn block_of(&self, wanted: u64) -> usize {
        let blocks = self.len().div_ceil(BLOCK);
        let is_not_above = |at: &usize| self.samples[*at].load(Ordering::Relaxed) <= wanted;
        (1..blocks).filter(is_not_above).count()
    }

    /// Asks the processor for what a search reads first.
    #[inline(always)]
    pub(super) fn prefetch(&self) {
        prefetch(std::slice::from_ref(&self.lock), 0);
        prefetch(&self.samples, 0);
        prefetch(&self.samples, CHUNK_MAX / BLOCK / 2);
    }

    /// Asks the processor for the block that `key` is in.
    #[inline(always)]
    pub(super) fn prefetch_block(&self, key: &[u8]) {
        if let Ok(rest) = self.rest_of(key) {
            let start = self.block_of(head(rest)) * BLOCK;
            prefetch(&self.windows, start);
            prefetch(&self.windows, start + BLOCK / 2);
            prefetch(&self.nodes, start);
        }
    }

    /// The samples follow the windows.
    fn sample(&self) {
        for (at, sample) in self.samples.iter().enumerate() {
            sample.store(self.window(at * BLOCK), Ordering::Relaxed);
        }
    }

    pub(super) fn whole(&self) -> MutexGuard<'_, Packed> {
        self.whole.lock().expect("no panic while locked")
    }

    #[inline(always)]
    pub(super) fn node(&self, at: usize) -> u32 {
        self.nodes[at].load(Ordering::Relaxed) & ((1 << NUMBER_BITS) - 1)
    }

    /// Locks it; false if it is of no use any more.
    pub(super) fn lock(&self) -> bool {
        let mut backoff = Backoff::default();
        loop {
            if let Some(seen) = begin_read(&self.lock)
                && try_lock(&self.lock, seen)
            {
                return true;
            }
            if is_retired(&self.lock) {
                return false;
            }
            backoff.pause();
        }
    }

    pub(super) fn try_lock(&self) -> bool {
        begin_read(&self.lock).is_some_and(|seen| try_lock(&self.lock, seen))
    }

    pub(super) fn unlock(&self) {
        unlock(&self.lock);
    }

    /// Inserts a separator if it has the prefix and there is room, and if a longer prefix would not
    /// serve better. Only for the holder of the lock.
    pub(super) fn insert(&self, separator: &[u8], node: u32) -> bool {
        let len = self.len();
        if len == CHUNK_MAX || !separator.starts_with(&self.prefix) {
            return false;
        }
        let before = self.whole().place(separator, Seek::At);
        let (window, _) = window_of(separator, self.prefix.len());
        let has_window = |at: usize| at > 0 && at < len && self.window(at) == window;
        if (has_window(before) || has_window(before + 1)) && self.could_share_more(separator) {
            return false;
        }
        self.insert_at(before + 1, separator, node);
        true
    }

    /// True if the separators, with this one, begin with more than the prefix.
    fn could_share_more(&self, separator: &[u8]) -> bool {
        let whole = self.whole();
        let (first, last) = (whole.get(1), whole.get(whole.len() - 1));
        shared_len(first, separator).min(shared_len(last, separator)) > self.prefix.len()
    }

    fn insert_at(&self, at: usize, separator: &[u8], node: u32) {
        let len = self.len();
        for to in (at + 1..=len).rev() {
            self.windows[to].store(self.windows[to - 1].load(Ordering::Relaxed), Ordering::Relaxed);
            self.nodes[to].store(self.nodes[to - 1].load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let (window, rest_len) = window_of(separator, self.prefix.len());
        debug_assert!(rest_len <= IS_LONGER);
        self.windows[at].store(window, Ordering::Relaxed);
        self.nodes[at].store(node | (rest_len as u32) << NUMBER_BITS, Ordering::Relaxed);
        self.whole().insert(at, separator);
        self.sample();
        self.len.store(len as u32 + 1, Ordering::Relaxed);
    }

    /// Removes a separator that is there, and not the first. Only for the holder of the lock.
    pub(super) fn remove(&self, separator: &[u8]) {
        let at = self.whole().place(separator, Seek::At);
        let len = self.len();
        assert!(at > 0 && self.whole().get(at) == separator, "a separator that is there");
        for to in at..len - 1 {
            self.windows[to].store(self.windows[to + 1].load(Ordering::Relaxed), Ordering::Relaxed);
            self.nodes[to].store(self.nodes[to + 1].load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.whole().remove(at);
        self.sample();
        self.len.store(len as u32 - 1, Ordering::Relaxed);
    }

    /// The entry at a place, if there is one; outer `None` while somebody changes the chunk.
    pub(super) fn peek(&self, place: impl Fn(&Chunk) -> usize) -> Option<Option<Entry>> {
        let seen = begin_read(&self.lock)?;
        let (at, whole) = (place(self), self.whole());
        let entry = (at < whole.len()).then(|| (whole.get(at).to_vec(), self.node(at)));
        end_read(&self.lock, seen).then_some(entry)
    }

    /// All separators and nodes. Only for the holder of the lock.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let whole = self.whole();
        (0..whole.len()).map(|at| (whole.get(at).to_vec(), self.node(at))).collect()
    }

    pub(super) fn bytes(&self) -> u64 {
        size_of::<Chunk>() as u64 + self.prefix.len() as u64 + self.whole().bytes()
    }
}
