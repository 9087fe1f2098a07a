//! The sparse index: key to chunk.

use super::EctParams;
use silica_base::{Error, Result};

/// Builds a [`SparseIndex`] from the keys around chunk borders.
#[derive(Debug)]
pub struct SparseBuilder {
    lasts: Vec<u64>,
}

impl SparseBuilder {
    /// A builder for about `chunks_expected` chunks.
    pub fn new(_params: EctParams, chunks_expected: u64) -> Self {
        SparseBuilder { lasts: Vec::with_capacity(chunks_expected.min(1 << 20) as usize) }
    }

    /// Adds the border between two chunks: the `last` key before it and the `first` behind it;
    /// `last <= first`, and no key is less than one of an earlier border.
    pub fn push_boundary(&mut self, last: u64, first: u64) {
        debug_assert!(last <= first && self.lasts.last().is_none_or(|&l| l <= last));
        self.lasts.push(last);
    }

    /// The index of everything pushed.
    pub fn finish(self) -> SparseIndex {
        SparseIndex { lasts: self.lasts }
    }
}

/// The chunk that holds a key.
#[derive(Debug)]
pub struct SparseIndex {
    lasts: Vec<u64>,
}

impl SparseIndex {
    /// The chunk where `key` is if it was indexed (the earliest of several), else some chunk.
    pub fn chunk(&self, key: u64) -> u64 {
        self.lasts.partition_point(|&last| last < key) as u64
    }

    /// Chunks told apart: one more than the borders.
    pub fn chunks(&self) -> u64 {
        self.lasts.len() as u64 + 1
    }

    /// Memory that the index takes, in bytes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.lasts.len() * 8
    }

    /// Appends the encoded index to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.lasts.iter().for_each(|k| out.extend_from_slice(&k.to_le_bytes()));
    }

    /// Decodes what [`encode`](Self::encode) wrote.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        Ok(SparseIndex { lasts: decode_sorted(bytes, "sparse index")? })
    }
}

pub(super) fn decode_sorted(bytes: &[u8], what: &str) -> Result<Vec<u64>> {
    let (keys, rest) = bytes.as_chunks::<8>();
    let keys: Vec<u64> = keys.iter().map(|k| u64::from_le_bytes(*k)).collect();
    if !rest.is_empty() || !keys.is_sorted() {
        return Err(Error::corruption(what, 0, "not ascending 8-byte keys"));
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borders_decide_the_chunk() {
        let mut builder = SparseBuilder::new(EctParams::default(), 3);
        builder.push_boundary(10, 12);
        builder.push_boundary(20, 20);
        let index = builder.finish();
        assert_eq!([10, 12, 20, 21].map(|k| index.chunk(k)), [0, 1, 1, 2]);
        assert_eq!(index.chunks(), 3);
    }
}
