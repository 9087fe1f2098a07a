//! The backlog: the newest bytes of the stream, for replicas that fetch them or come back.
//!
//! It keeps as many bytes as the setting says, and more if a replica has still to read them: until
//! they are more than a replica may be behind, or the clients' memory has no room for them.

use crate::budget::{Budget, Share};
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes that are allocated at once.
const BLOCK_BYTES: usize = 64 << 10;

/// The last bytes of a stream.
pub(crate) struct Backlog {
    blocks: VecDeque<Vec<u8>>,
    /// Bytes of the stream so far, those before the backlog included.
    end: u64,
    /// Bytes at the end of the stream that the blocks hold.
    len: usize,
    is_kept: bool,
    /// Counts the blocks as memory of clients.
    share: Share,
}

impl Backlog {
    /// A backlog that keeps nothing yet; the stream begins behind its first `end` bytes.
    pub(crate) fn new(budget: &Arc<Budget>, end: u64) -> Self {
        let (blocks, share) = (VecDeque::new(), Share::new(budget));
        Backlog { blocks, end, len: 0, is_kept: false, share }
    }

    /// True if it keeps what is appended.
    pub(crate) fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Keeps what is appended from now on.
    pub(crate) fn keep(&mut self) {
        self.is_kept = true;
    }

    /// Forgets all bytes and keeps none any more.
    pub(crate) fn clear(&mut self) {
        self.restart(self.end);
        self.is_kept = false;
    }

    /// Forgets all bytes; the stream goes on behind `end`.
    pub(crate) fn restart(&mut self, end: u64) {
        self.share.shrink(self.blocks.len() * BLOCK_BYTES);
        self.blocks.clear();
        (self.len, self.end) = (0, end);
    }

    /// Bytes of the stream so far.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Bytes of the stream before the first that is kept.
    pub(crate) fn start(&self) -> u64 {
        self.end - self.len as u64
    }

    /// Bytes that it holds.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Appends `bytes` to the stream.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) {
        self.end += bytes.len() as u64;
        while self.is_kept && !bytes.is_empty() {
            if self.blocks.back().is_none_or(|block| block.len() == BLOCK_BYTES) {
                self.add_block();
            }
            let Some(block) = self.blocks.back_mut() else { return };
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK_BYTES - block.len()));
            block.extend_from_slice(now);
            self.len += now.len();
            bytes = later;
        }
    }

    /// Adds an empty block; without memory the first ones make room.
    fn add_block(&mut self) {
        let mut spare = None;
        while self.share.grow(BLOCK_BYTES).is_err() {
            spare = self.drop_block();
            if spare.is_none() {
                break;
            }
        }
        // A stream without any memory at all still has one block.
        if spare.is_none() && self.share.bytes() < (self.blocks.len() + 1) * BLOCK_BYTES {
            self.share.force(BLOCK_BYTES);
        }
        let mut block = spare.unwrap_or_default();
        block.clear();
        block.reserve_exact(BLOCK_BYTES);
        self.blocks.push_back(block);
    }

    fn drop_block(&mut self) -> Option<Vec<u8>> {
        let block = self.blocks.pop_front()?;
        self.len -= block.len();
        self.share.shrink(BLOCK_BYTES);
        Some(block)
    }

    /// Forgets whole blocks at the start: all but the last `bytes` bytes, and those behind the
    /// first `needed` of the stream if these are `most` at most.
    pub(crate) fn trim(&mut self, bytes: usize, needed: u64, most: usize) {
        loop {
            let Some(first) = self.blocks.front() else { return };
            let left = self.len - first.len();
            let is_needed = self.start() + first.len() as u64 > needed && self.len <= most;
            if left < bytes || is_needed || self.blocks.len() == 1 {
                return;
            }
            self.drop_block();
        }
    }

    /// Bytes of the stream behind the first `from`, `max` at most; `None` if they are not kept.
    pub(crate) fn read(&self, from: u64, max: usize) -> Option<Vec<u8>> {
        if from < self.start() || from > self.end {
            return None;
        }
        let want = max.min((self.end - from) as usize);
        let mut skip = (from - self.start()) as usize;
        let mut bytes = Vec::with_capacity(want);
        for block in &self.blocks {
            if bytes.len() == want {
                break;
            }
            let Some(rest) = block.get(skip..) else {
                skip -= block.len();
                continue;
            };
            skip = 0;
            bytes.extend_from_slice(&rest[..rest.len().min(want - bytes.len())]);
        }
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_bytes_are_read_from_any_place() {
        let budget = Budget::new(8 << 20);
        let mut backlog = Backlog::new(&budget, 7);
        backlog.append(b"before");
        assert_eq!((backlog.end(), backlog.read(13, 9)), (13, Some(vec![])));
        assert_eq!(budget.used(), 0);
        backlog.keep();
        let mut stream = vec![b'.'; 13];
        for round in 0..60_usize {
            let bytes: Vec<u8> = (0..round * 700).map(|n| (n * 7 + round) as u8).collect();
            stream.extend_from_slice(&bytes);
            backlog.append(&bytes);
            backlog.trim(100_000, u64::MAX, 0);
            assert_eq!(backlog.end() as usize, stream.len());
            assert!(backlog.len() < 100_000 + 2 * BLOCK_BYTES);
            for from in (backlog.start()..=backlog.end()).step_by(9_973) {
                let want = &stream[from as usize..];
                assert!(backlog.read(from, usize::MAX).as_deref() == Some(want), "from {from}");
                assert!(
                    backlog.read(from, 70_000).as_deref() == Some(&want[..want.len().min(70_000)])
                );
            }
            assert!(backlog.start() == 13 || backlog.read(backlog.start() - 1, 1).is_none());
            assert!(backlog.read(backlog.end() + 1, 1).is_none());
        }
        assert!(backlog.start() > 13 && budget.used() >= backlog.len());
        let needed = backlog.end();
        backlog.append(&[1; 500_000]);
        backlog.trim(100_000, needed, 1 << 20);
        assert!(backlog.read(needed, 1).is_some(), "somebody has still to read it");
        backlog.append(&[1; 700_000]);
        backlog.trim(100_000, needed, 1 << 20);
        assert!(backlog.read(needed, 1).is_none(), "it is too far behind");
        backlog.clear();
        assert_eq!((backlog.len(), budget.used()), (0, 0));
    }

    #[test]
    fn without_memory_the_oldest_bytes_go() {
        let budget = Budget::new(1 << 20);
        let mut backlog = Backlog::new(&budget, 0);
        backlog.keep();
        backlog.append(&vec![1; 4 << 20]);
        assert!(budget.used() <= budget.max() && backlog.len() > 500_000);
        assert_eq!(backlog.read(backlog.end() - 5, 9), Some(vec![1; 5]));
    }
}
