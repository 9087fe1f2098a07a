//! Compressed blocks.
//!
//! A block is compressed only where that saves a unit of the device, so the builder collects
//! versions until what they are compressed to fills its units. How much that will be it learns from
//! the blocks before.

use zstd::bulk::Compressor;
use zstd::zstd_safe::{DCtx, DDict};

/// How blocks of a table are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// LZ4: a little smaller, at memory speed.
    Lz4,
    /// Zstandard with a dictionary of the table's own: smaller, several times slower.
    Zstd,
}

pub(super) const PLAIN: u32 = 0;
const LZ4: u32 = 1;
const ZSTD: u32 = 2;

/// A block is at most so many times as long as what it is compressed to: whoever reads one never
/// needs more memory than this many times what was stored, whatever the trailer says.
pub(super) const EXPANSION_MAX: usize = 256;
/// The level at which Zstandard is still fast. The program that is handed out has no searches of
/// higher ones (`xtask/src/dist`).
const LEVEL: i32 = 3;
/// Bytes of a dictionary at most, and of what it is made from.
const DICTIONARY_BYTES_MAX: usize = 16 << 10;
pub(super) const SAMPLE_BYTES: usize = 256 << 10;
/// With less than this a dictionary would take more than it saves.
const SAMPLE_BYTES_MIN: usize = 64 << 10;
/// What a block is expected to be compressed to, before any was.
const FIRST_RATIO: f64 = 0.5;
/// Above this it is not tried, but for one block of so many.
const RATIO_MAX: f64 = 0.9;
const TRY_EVERY: u32 = 16;
/// How fast the expectation follows.
const FOLLOW: f64 = 1.0 / 16.0;
/// Standard deviations that are kept free: one block of some dozens takes a unit more.
const MARGIN: f64 = 2.0;

/// Compresses the blocks of one table.
pub(super) struct Encoder {
    kind: Compression,
    zstd: Option<Compressor<'static>>,
    /// Of what is stored to what it was, and how much that varies.
    ratio: f64,
    deviation: f64,
    untried: u32,
    out: Vec<u8>,
}

impl Encoder {
    pub(super) fn new(kind: Compression) -> Self {
        let (zstd, out) = (None, Vec::new());
        Encoder { kind, zstd, ratio: FIRST_RATIO, deviation: 0.0, untried: 0, out }
    }

    /// True where blocks wait until there is a dictionary.
    pub(super) fn needs_samples(&self) -> bool {
        self.kind == Compression::Zstd && self.zstd.is_none()
    }

    /// Makes a dictionary of blocks that lie one after the other, where they are enough for one.
    /// Goes on without compressing where that fails.
    pub(super) fn train(&mut self, samples: &[u8], lens: &[usize]) -> Vec<u8> {
        let dictionary = if samples.len() < SAMPLE_BYTES_MIN {
            Vec::new()
        } else {
            zstd::dict::from_continuous(samples, lens, DICTIONARY_BYTES_MAX).unwrap_or_default()
        };
        match Compressor::with_dictionary(LEVEL, &dictionary) {
            Ok(zstd) => self.zstd = Some(zstd),
            Err(_) => self.kind = Compression::None,
        }
        dictionary
    }

    /// Bytes of a block that is expected to fill `room` bytes when it is compressed.
    pub(super) fn target(&self, room: usize) -> usize {
        if self.kind == Compression::None || self.ratio > RATIO_MAX {
            return room;
        }
        let stored_part = self.ratio + MARGIN * self.deviation;
        ((room as f64 / stored_part) as usize).max(room)
    }

    fn follow(&mut self, ratio: f64) {
        let off = (ratio - self.ratio).abs();
        self.ratio += (ratio - self.ratio) * FOLLOW;
        self.deviation += (off.min(0.1) - self.deviation) * FOLLOW;
    }

    /// What a block is compressed to, and by what; it may be longer than it was.
    pub(super) fn encode(&mut self, plain: &[u8]) -> Option<(u32, &[u8])> {
        if self.kind == Compression::None {
            return None;
        }
        self.untried += 1;
        if self.ratio > RATIO_MAX && self.untried < TRY_EVERY {
            return None;
        }
        self.untried = 0;
        self.out.resize(lz4_flex::block::get_maximum_output_size(plain.len()), 0);
        let (codec, len) = match &mut self.zstd {
            Some(zstd) => (ZSTD, zstd.compress_to_buffer(plain, &mut self.out[..]).ok()),
            None => (LZ4, lz4_flex::block::compress_into(plain, &mut self.out).ok()),
        };
        // Where it does not even fit, it is not smaller.
        let len = len.unwrap_or(plain.len());
        self.follow(len as f64 / plain.len().max(1) as f64);
        let is_smaller = len < plain.len() && plain.len() <= len * EXPANSION_MAX;
        is_smaller.then(|| (codec, &self.out[..len]))
    }
}

/// What decompresses the blocks of one table.
#[derive(Default)]
pub(super) struct Decoder {
    dictionary: Option<DDict<'static>>,
}

thread_local! {
    static CONTEXT: std::cell::RefCell<Option<DCtx<'static>>> =
        const { std::cell::RefCell::new(None) };
}

impl Decoder {
    /// With a table's dictionary; `None` where there is no memory for it.
    pub(super) fn new(dictionary: &[u8]) -> Option<Self> {
        DDict::try_create(dictionary).map(|dictionary| Decoder { dictionary: Some(dictionary) })
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.dictionary.as_ref().map_or(0, DDict::sizeof)
    }

    /// Fills `out` with the `len` bytes that `stored` was made from; `None` where it was not.
    pub(super) fn decode(
        &self,
        codec: u32,
        stored: &[u8],
        len: usize,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        if len > stored.len().saturating_mul(EXPANSION_MAX) {
            return None;
        }
        out.clear();
        out.resize(len, 0);
        let filled = match codec {
            LZ4 => lz4_flex::block::decompress_into(stored, out).ok()?,
            ZSTD => CONTEXT.with_borrow_mut(|context| {
                if context.is_none() {
                    *context = Some(DCtx::try_create()?);
                }
                let context = context.as_mut()?;
                match &self.dictionary {
                    Some(dictionary) => {
                        context.decompress_using_ddict(&mut out[..], stored, dictionary).ok()
                    }
                    None => context.decompress(&mut out[..], stored).ok(),
                }
            })?,
            _ => return None,
        };
        (filled == len).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use silica_base::{Prng, test_size};

    #[test]
    fn blocks_come_back_and_strange_bytes_are_refused_without_harm() {
        let text = |n: u64| format!("user/{n:09}: some text that comes again and again; ");
        let blocks: Vec<Vec<u8>> =
            (0..100).map(|n| (n * 60..n * 60 + 60).map(text).collect::<String>().into()).collect();
        let lens: Vec<usize> = blocks.iter().map(Vec::len).collect();
        for kind in [Compression::Lz4, Compression::Zstd] {
            let mut encoder = Encoder::new(kind);
            let mut dictionary = Vec::new();
            if encoder.needs_samples() {
                dictionary = encoder.train(&blocks.concat(), &lens);
                assert!(!dictionary.is_empty());
            }
            let decoder = Decoder::new(&dictionary).expect("a dictionary");
            let (mut out, mut prng) = (Vec::new(), Prng::new(1));
            for block in &blocks {
                let (codec, stored) = encoder.encode(block).expect("it is smaller");
                let stored = stored.to_vec();
                assert!(stored.len() * 2 < block.len());
                decoder.decode(codec, &stored, block.len(), &mut out).expect("it comes back");
                assert_eq!(out, *block);
                assert!(decoder.decode(codec, &stored, block.len() + 1, &mut out).is_none());
                assert!(decoder.decode(codec, &stored, usize::MAX, &mut out).is_none());
                assert!(decoder.decode(7, &stored, block.len(), &mut out).is_none());
                for _ in 0..test_size(20, 200, 5000) {
                    let strange = silica_base::mutated(&mut prng, std::slice::from_ref(&stored));
                    let _ = decoder.decode(codec, &strange, block.len(), &mut out);
                    assert!(out.capacity() <= 8 * block.len());
                }
            }
            assert!(encoder.target(4080) > 8000);
            let mut noise = || (0..4000).map(|_| prng.next_u64() as u8).collect::<Vec<_>>();
            (0..200).for_each(|_| assert!(encoder.encode(&noise()).is_none()));
            assert_eq!(encoder.target(4080), 4080);
        }
    }
}
