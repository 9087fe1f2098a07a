//! Chunks: pieces of a shard that are read as wholes (docs/formats/graph-store.md).
//!
//! A chunk is a header of 16 bytes and words of 4. Edges of one source are a run: a word with the
//! distance from the source before and the number of edges, then the targets, counted from the
//! begin of the interval.

use silica_base::{Checksum, Error, Result};

pub(crate) const HEADER_BYTES: usize = 16;
const WORD_BYTES: usize = 4;
/// Words before the targets of a run at most.
const RUN_WORDS_MAX: usize = 3;
/// Edges of a run with a short header, and the distance of its source, at most.
const SHORT_MAX: u32 = u16::MAX as u32;

/// Collects the edges of a chunk.
pub(crate) struct ChunkWriter {
    bytes: Vec<u8>,
    chunk_bytes: usize,
    first: u32,
    edges: u32,
    /// The source of the last run, and where its header is.
    run: Option<(u32, usize)>,
    /// Edges of the last run.
    of_run: u32,
}

impl ChunkWriter {
    pub(crate) fn new(chunk_bytes: usize) -> Self {
        let bytes = Vec::with_capacity(chunk_bytes);
        ChunkWriter { bytes, chunk_bytes, first: 0, edges: 0, run: None, of_run: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.edges == 0
    }

    /// The first source.
    pub(crate) fn first(&self) -> u32 {
        self.first
    }

    fn put(&mut self, word: u32) {
        self.bytes.extend_from_slice(&word.to_le_bytes());
    }

    /// Adds an edge; sources come in their order. False if the chunk is full.
    #[inline]
    pub(crate) fn push(&mut self, source: u32, target: u32) -> bool {
        if self.edges == 0 {
            self.first = source;
            self.bytes.resize(HEADER_BYTES, 0);
        }
        let before = match self.run {
            Some((last, at)) if last == source && self.of_run < SHORT_MAX => {
                if self.bytes.len() + WORD_BYTES > self.chunk_bytes {
                    return false;
                }
                self.of_run += 1;
                self.edges += 1;
                self.put(target);
                // The count is the upper half of the header's last word, or all of it.
                self.bytes[at..at + 2].copy_from_slice(&(self.of_run as u16).to_le_bytes());
                return true;
            }
            Some((last, _)) => last,
            None => source,
        };
        if self.bytes.len() + (RUN_WORDS_MAX + 1) * WORD_BYTES > self.chunk_bytes {
            return false;
        }
        let distance = source - before;
        if distance > SHORT_MAX {
            self.put(0);
            self.put(source);
            self.run = Some((source, self.bytes.len()));
            self.put(1);
        } else {
            self.run = Some((source, self.bytes.len() + 2));
            self.put(1 << 16 | distance);
        }
        self.of_run = 1;
        self.edges += 1;
        self.put(target);
        true
    }

    /// The bytes of chunk `number`; the writer is empty afterwards.
    pub(crate) fn finish(&mut self, number: u64) -> &[u8] {
        let words = ((self.bytes.len() - HEADER_BYTES) / WORD_BYTES) as u32;
        self.bytes[4..8].copy_from_slice(&words.to_le_bytes());
        self.bytes[8..12].copy_from_slice(&self.first.to_le_bytes());
        self.bytes[12..16].copy_from_slice(&self.edges.to_le_bytes());
        let sum = sum_of(number, &self.bytes);
        self.bytes[..4].copy_from_slice(&sum.to_le_bytes());
        self.bytes.resize(self.chunk_bytes, 0);
        (self.edges, self.run) = (0, None);
        &self.bytes
    }

    /// Forgets the bytes that were handed out.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }
}

fn sum_of(number: u64, bytes: &[u8]) -> u32 {
    Checksum::at(0, number).update(&bytes[4..]).finish()
}

/// A chunk that was checked.
#[derive(Clone, Copy)]
pub(crate) struct Chunk<'b> {
    words: &'b [[u8; WORD_BYTES]],
    first: u32,
    pub(crate) edges: u32,
}

impl<'b> Chunk<'b> {
    /// Checks the bytes of chunk `number`.
    pub(crate) fn check(number: u64, bytes: &'b [u8]) -> Result<Self> {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("a word"));
        let end = (word(4) as usize).saturating_mul(WORD_BYTES).saturating_add(HEADER_BYTES);
        if end > bytes.len() || sum_of(number, &bytes[..end]) != word(0) {
            let what = format!("chunk {number} of the graph");
            return Err(Error::corruption(what, 0, "its checksum is wrong; build it again"));
        }
        Ok(Chunk::trusted(bytes))
    }

    /// A chunk of bytes that were checked before.
    pub(crate) fn trusted(bytes: &'b [u8]) -> Self {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("a word"));
        let words = bytes[HEADER_BYTES..].as_chunks().0;
        Chunk { words: &words[..word(4) as usize], first: word(8), edges: word(12) }
    }

    /// Gives each run to `each`: its source, and its targets. Stops if that says so.
    #[inline]
    pub(crate) fn each_run(self, mut each: impl FnMut(u32, &'b [[u8; WORD_BYTES]]) -> bool) {
        let mut words = self.words;
        let mut source = self.first;
        while let [head, rest @ ..] = words {
            let head = u32::from_le_bytes(*head);
            let (count, targets) = match rest {
                [far, long, rest @ ..] if head == 0 => {
                    source = u32::from_le_bytes(*far);
                    (u32::from_le_bytes(*long), rest)
                }
                rest => {
                    source = source.wrapping_add(head & SHORT_MAX);
                    (head >> 16, rest)
                }
            };
            let (targets, later) = targets.split_at((count as usize).min(targets.len()));
            if !each(source, targets) {
                return;
            }
            words = later;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::Prng;

    #[test]
    fn edges_come_back_in_their_order() {
        let mut prng = Prng::new(3);
        let mut edges: Vec<(u32, u32)> = (0..5000)
            .map(|_| {
                let near = prng.below(300) as u32;
                let source = if prng.one_in(50) { prng.next_u64() as u32 } else { near };
                (source, prng.next_u64() as u32)
            })
            .collect();
        edges.sort_unstable();
        let mut writer = ChunkWriter::new(512);
        let (mut back, mut number) = (Vec::new(), 0);
        let mut take = |writer: &mut ChunkWriter, number: u64| {
            let bytes = writer.finish(number).to_vec();
            writer.clear();
            let chunk = Chunk::check(number, &bytes).unwrap();
            chunk.each_run(|source, targets| {
                back.extend(targets.iter().map(|target| (source, u32::from_le_bytes(*target))));
                true
            });
            assert!(Chunk::check(number + 1, &bytes).is_err());
        };
        for (source, target) in &edges {
            if !writer.push(*source, *target) {
                take(&mut writer, number);
                number += 1;
                assert!(writer.push(*source, *target));
            }
        }
        take(&mut writer, number);
        assert_eq!(back, edges);
    }
}
