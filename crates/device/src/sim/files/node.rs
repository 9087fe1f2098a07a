//! One simulated file: its bytes now, and what a power cut may make of them.
//!
//! A file keeps the bytes as every reader sees them, and one [`Undo`] per write since the last
//! sync. So a sync costs nothing but dropping the undo list, and a power cut can give every
//! 512-byte sector any of the contents that it had since the last sync, independently of all
//! other sectors: dropped, torn and reordered writes alike.

use super::log::LogMemory;
use crate::Lifetime;
use silica_base::Prng;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// What a device writes as a whole or not at all.
pub(super) const SECTOR_BYTES: u64 = 512;

/// A file without a name; directories and handles share it.
pub(super) struct Node {
    pub(super) body: Mutex<Body>,
}

/// Everything about a file.
pub(super) struct Body {
    pub(super) content: Content,
    /// Bytes of the device's capacity that the file takes.
    pub(super) charge: u64,
    /// Names that it has now; without any it takes no capacity.
    pub(super) links: u32,
    /// A sync failed, so no later one may succeed.
    pub(super) poisoned: bool,
    /// Power cuts that the file went through, so that a file with two names is cut once.
    pub(super) cuts: u64,
    /// What was said of it.
    pub(super) lifetime: Option<Lifetime>,
}

/// The bytes of a file.
pub(super) enum Content {
    Plain(Plain),
    Log(Log),
}

/// A positional file.
#[derive(Default, Clone)]
pub(super) struct Plain {
    pub(super) data: Vec<u8>,
    undo: Vec<Undo>,
}

/// How to take one write back.
#[derive(Clone)]
struct Undo {
    offset: u64,
    span: u64,
    /// Former bytes from `offset` on; what is missing of `span` lay past the end.
    old: Vec<u8>,
    old_len: u64,
    /// A sync of it failed: it stays readable, but no later sync makes it durable.
    dropped: bool,
}

/// An append log.
pub(super) struct Log {
    pub(super) memory: Arc<LogMemory>,
    /// Generation of the handle that may append.
    pub(super) generation: u64,
    /// Bytes that survive a power cut.
    pub(super) synced: u64,
    /// The file's length survives a power cut.
    pub(super) length_synced: bool,
}

impl Node {
    pub(super) fn new(content: Content) -> Arc<Node> {
        let body = Body { content, charge: 0, links: 0, poisoned: false, cuts: 0, lifetime: None };
        Arc::new(Node { body: Mutex::new(body) })
    }
}

impl Body {
    /// Length as the file system shows it.
    pub(super) fn len(&self) -> u64 {
        match &self.content {
            Content::Plain(plain) => plain.data.len() as u64,
            Content::Log(log) => log.memory.capacity(),
        }
    }

    /// Copies bytes at `offset` out; returns how many there were.
    pub(super) fn read(&self, offset: u64, buf: &mut [u8]) -> usize {
        let len = self.len().saturating_sub(offset).min(buf.len() as u64) as usize;
        let start = offset as usize;
        match &self.content {
            Content::Plain(plain) if len > 0 => {
                buf[..len].copy_from_slice(&plain.data[start..start + len]);
            }
            Content::Plain(_) => {}
            Content::Log(log) => log.memory.copy_out(offset, &mut buf[..len]),
        }
        len
    }

    /// The bytes as a plain file; a log becomes one (its appender must be gone).
    pub(super) fn plain(&mut self) -> &mut Plain {
        if let Content::Log(log) = &self.content {
            let mut data = vec![0; log.memory.capacity() as usize];
            log.memory.copy_out(0, &mut data);
            let (offset, old_len) = (log.synced, log.memory.capacity());
            let span = log.memory.published() - offset;
            let mut old = vec![0; span as usize];
            log.memory.copy_base(offset, &mut old);
            // What was appended and not synced stays pending.
            let undo = Undo { offset, span, old, old_len, dropped: false };
            let undo = if span > 0 { vec![undo] } else { Vec::new() };
            self.content = Content::Plain(Plain { data, undo });
        }
        match &mut self.content {
            Content::Plain(plain) => plain,
            Content::Log(_) => unreachable!("logs were turned into plain files above"),
        }
    }

    /// Everything so far is durable.
    pub(super) fn synced(&mut self) {
        match &mut self.content {
            Content::Plain(plain) => plain.synced(),
            Content::Log(log) => {
                log.synced = log.memory.published();
                log.length_synced = true;
            }
        }
    }

    /// A sync failed. As kernels do, the file takes what was pending for clean: it stays readable,
    /// and only what is written anew is written by a later sync.
    pub(super) fn sync_failed(&mut self) {
        self.poisoned = true;
        if let Content::Plain(plain) = &mut self.content {
            plain.drop_pending();
        }
    }

    /// The process that saw a sync fail is gone; the next one may sync again.
    pub(super) fn restarted(&mut self) {
        if self.poisoned && matches!(self.content, Content::Log(_)) {
            self.plain().drop_pending();
        }
        self.poisoned = false;
    }

    /// Leaves what a power cut leaves.
    pub(super) fn cut(&mut self, rng: &mut Prng, garble: bool) {
        match &mut self.content {
            Content::Plain(plain) => plain.cut(rng, garble),
            Content::Log(log) if !log.length_synced && rng.one_in(3) => {
                self.content = Content::Plain(Plain::default());
            }
            Content::Log(log) => log.cut(rng, garble),
        }
        self.poisoned = false;
    }
}

impl Plain {
    /// A durable file of these bytes.
    pub(super) fn durable(data: Vec<u8>) -> Self {
        Plain { data, undo: Vec::new() }
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let (start, end) = (offset as usize, offset as usize + bytes.len());
        let old_len = self.data.len();
        let old = self.data.get(start..end.min(old_len)).unwrap_or(&[]).to_vec();
        let span = bytes.len() as u64;
        let old_len_bytes = old_len as u64;
        self.undo.push(Undo { offset, span, old, old_len: old_len_bytes, dropped: false });
        if start == old_len {
            self.data.extend_from_slice(bytes);
            return;
        }
        if end > old_len {
            self.data.resize(end, 0);
        }
        self.data[start..end].copy_from_slice(bytes);
    }

    pub(super) fn truncate(&mut self, len: u64) {
        let old_len = self.data.len() as u64;
        if len < old_len {
            let old = self.data.split_off(len as usize);
            let span = old.len() as u64;
            self.undo.push(Undo { offset: len, span, old, old_len, dropped: false });
        } else if len > old_len {
            self.data.resize(len as usize, 0);
            let old = Vec::new();
            self.undo.push(Undo { offset: old_len, span: 0, old, old_len, dropped: false });
        }
    }

    fn drop_pending(&mut self) {
        self.undo.iter_mut().for_each(|undo| undo.dropped = true);
    }

    /// Everything is durable but for the sectors that a failed sync dropped and nobody wrote
    /// since.
    fn synced(&mut self) {
        let len = self.data.len() as u64;
        let (dropped, fresh): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.undo).into_iter().partition(|undo| undo.dropped);
        if !dropped.is_empty() {
            let fresh: BTreeSet<u64> = fresh.iter().flat_map(Undo::sectors).collect();
            let left = dropped.iter().flat_map(|undo| undo.without(&fresh, len));
            self.undo = left.collect();
        }
    }

    fn cut(&mut self, rng: &mut Prng, garble: bool) {
        let undo = std::mem::take(&mut self.undo);
        if undo.is_empty() {
            return;
        }
        let steps = undo.len() as u64;
        // A few whole-file outcomes first: mixtures alone would nearly never produce them.
        match rng.below(8) {
            0 => {}
            1 => self.revert_steps(&undo),
            2 | 3 => self.revert_steps(&undo[rng.below(steps + 1) as usize..]),
            _ => self.revert_sectors(&undo, rng, garble),
        }
    }

    /// Takes back whole writes, the last one first.
    fn revert_steps(&mut self, undo: &[Undo]) {
        for step in undo.iter().rev() {
            let end = step.offset as usize + step.old.len();
            if end > self.data.len() {
                self.data.resize(end, 0);
            }
            self.data[step.offset as usize..end].copy_from_slice(&step.old);
            self.data.resize(step.old_len as usize, 0);
        }
    }

    /// Takes each sector, and the length, back by a random number of its own writes.
    fn revert_sectors(&mut self, undo: &[Undo], rng: &mut Prng, garble: bool) {
        let lengths = undo.len() as u64 + 1;
        let final_len = match rng.below(lengths.max(2)) {
            n if n < undo.len() as u64 && rng.one_in(2) => undo[n as usize].old_len,
            _ => self.data.len() as u64,
        };
        let reach = undo.iter().map(|u| u.old_len.max(u.offset + u.span)).max().unwrap_or(0);
        self.data.resize(self.data.len().max(reach as usize), 0);

        let first = undo.iter().map(|u| u.offset / SECTOR_BYTES).min().unwrap_or(0);
        let last = reach.div_ceil(SECTOR_BYTES);
        let mut reverts = vec![0u32; (last - first + 1) as usize];
        for sector in undo.iter().flat_map(Undo::sectors) {
            reverts[(sector - first) as usize] += 1;
        }
        for count in reverts.iter_mut().filter(|c| **c > 0) {
            *count = rng.below(u64::from(*count) + 1) as u32;
        }
        for step in undo.iter().rev() {
            for sector in step.sectors() {
                let left = &mut reverts[(sector - first) as usize];
                if *left > 0 {
                    *left -= 1;
                    let garbage = if garble && rng.one_in(8) { Some(&mut *rng) } else { None };
                    step.revert_sector(&mut self.data, sector, garbage);
                }
            }
        }
        self.data.resize(final_len as usize, 0);
    }
}

impl Undo {
    fn sectors(&self) -> std::ops::Range<u64> {
        let end = (self.offset + self.span).div_ceil(SECTOR_BYTES);
        if self.span == 0 { 0..0 } else { self.offset / SECTOR_BYTES..end }
    }

    /// What is left of this, sector by sector, in a file of durable length `len`.
    fn without(&self, fresh: &BTreeSet<u64>, len: u64) -> Vec<Undo> {
        let left = self.sectors().filter(|sector| !fresh.contains(sector));
        let piece = |sector: u64| {
            let offset = self.offset.max(sector * SECTOR_BYTES);
            let end = (self.offset + self.span).min((sector + 1) * SECTOR_BYTES).min(len);
            let span = end.checked_sub(offset).filter(|span| *span > 0)?;
            let known = self.old.get((offset - self.offset) as usize..).unwrap_or(&[]);
            let mut old = known[..known.len().min(span as usize)].to_vec();
            old.resize(span as usize, 0);
            Some(Undo { offset, span, old, old_len: len, dropped: true })
        };
        left.filter_map(piece).collect()
    }

    /// Takes back the part of the write that lies in `sector`, or leaves garbage there.
    fn revert_sector(&self, data: &mut [u8], sector: u64, garbage: Option<&mut Prng>) {
        let from = self.offset.max(sector * SECTOR_BYTES);
        let to = (self.offset + self.span).min((sector + 1) * SECTOR_BYTES);
        let target = &mut data[from as usize..to as usize];
        let start = (from - self.offset) as usize;
        let known = self.old.get(start..).unwrap_or(&[]);
        let known = &known[..known.len().min(target.len())];
        if let Some(rng) = garbage {
            // Bytes that the write did not change keep, as do those of a log's sector that is
            // written again with more behind them.
            for (i, byte) in target.iter_mut().enumerate() {
                if known.get(i) != Some(byte) {
                    *byte = rng.below(256) as u8;
                }
            }
            return;
        }
        target[..known.len()].copy_from_slice(known);
        target[known.len()..].fill(0);
    }
}

impl Log {
    fn cut(&mut self, rng: &mut Prng, garble: bool) {
        let (synced, published) = (self.synced, self.memory.published());
        self.length_synced = true;
        if synced == published {
            return;
        }
        // Old handles may still borrow from the old memory, so the survivors move to a new one.
        let mut data = vec![0; self.memory.capacity() as usize];
        self.memory.copy_out(0, &mut data);
        let pending = &mut data[synced as usize..published as usize];
        let mut old = vec![0; pending.len()];
        self.memory.copy_base(synced, &mut old);
        match rng.below(8) {
            0 => {}
            1 => pending.copy_from_slice(&old),
            2 | 3 => {
                let at = rng.below(published - synced) as usize;
                pending[at..].copy_from_slice(&old[at..]);
            }
            _ => cut_sectors(pending, &old, synced, rng, garble),
        }
        self.synced = data.len() as u64;
        self.memory = Arc::new(LogMemory::full(data.into_boxed_slice()));
    }
}

/// Keeps, drops or cuts short each sector of `pending`, which starts at byte `start` of its log and
/// has taken the place of `old`. A sector is written from memory that grows, so it may hold any
/// prefix of its bytes.
fn cut_sectors(pending: &mut [u8], old: &[u8], start: u64, rng: &mut Prng, garble: bool) {
    let mut at = 0;
    while at < pending.len() {
        let in_sector = SECTOR_BYTES - (start + at as u64) % SECTOR_BYTES;
        let end = (at + in_sector as usize).min(pending.len());
        let (sector, old) = (&mut pending[at..end], &old[at..end]);
        match rng.below(8) {
            0..=2 => {}
            3..=5 => sector.copy_from_slice(old),
            6 if garble => rng.fill(sector),
            _ => {
                let kept = rng.below((end - at) as u64) as usize;
                sector[kept..].copy_from_slice(&old[kept..]);
            }
        }
        at = end;
    }
}

impl Clone for Body {
    fn clone(&self) -> Self {
        let content = match &self.content {
            Content::Plain(plain) => Content::Plain(plain.clone()),
            Content::Log(log) => Content::Log(Log {
                memory: Arc::new(log.memory.duplicate()),
                generation: log.generation,
                synced: log.synced,
                length_synced: log.length_synced,
            }),
        };
        let Body { charge, links, poisoned, cuts, lifetime, .. } = *self;
        Body { content, charge, links, poisoned, cuts, lifetime }
    }
}
